#include "attention_plan.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "thread_pool.h"

namespace pantheon {
namespace {

// Keys of one item of a decode step: the parts of a long row are for all threads. They begin at
// multiples of it, so that a result does not depend on how many there are.
constexpr int64_t kPartKeys = 256;

// Queries of one item of a longer step, whose keys are not divided.
constexpr int64_t kItemQueries = 96;

// The items of one row and key head and some of its tokens, each with a part of the keys.
struct Group {
  AttentionItem whole;
  int64_t first_item;
  int64_t parts;
  int64_t partials;         // Where those of its items begin, in floats.
};

// Which keys the tokens of an item see together.
void limit_keys(const Attention& call, AttentionItem& item) {
  const int32_t* positions = call.positions + item.row * call.time + item.first_token;
  const auto [low, high] = std::minmax_element(positions, positions + item.tokens);
  item.end_key = std::min<int64_t>(call.lengths[item.row], int64_t{*high} + 1);
  item.first_key = call.window == 0 ? 0 : std::max<int64_t>(*low - call.window + 1, 0);
  // Chunks begin where pages do.
  item.first_key -= item.first_key % call.page_size;
  item.end_key = std::max(item.end_key, item.first_key);
}

// All work of a call.
struct Plan {
  std::vector<Group> groups;
  std::vector<std::pair<int64_t, AttentionItem>> items;   // With the number of the group.
  int64_t partial_floats = 0;
  int64_t most_queries = 0;

  Plan(const Attention& call, int64_t first_token, int64_t end_token) {
    const int64_t tokens = std::max<int64_t>(kItemQueries / call.group(), 1);
    const int64_t most = (end_token - first_token) * call.kv_heads;
    groups.reserve(most);
    items.reserve(most);
    for (int64_t row = first_token / call.time; row * call.time < end_token; ++row) {
      const int64_t low = std::max<int64_t>(first_token - row * call.time, 0);
      const int64_t high = std::min<int64_t>(end_token - row * call.time, call.time);
      for (int64_t head = 0; head < call.kv_heads; ++head) {
        // The last tokens see most: they go first, so that no thread is left with much at the end.
        for (int64_t end = high; end > low;) {
          const int64_t first = std::max((end - 1) / tokens * tokens, low);
          add(call, {row, head, first, end - first, 0, 0});
          end = first;
        }
      }
    }
  }

 private:
  void add(const Attention& call, AttentionItem whole) {
    limit_keys(call, whole);
    const int64_t queries = whole.queries(call);
    most_queries = std::max(most_queries, queries);
    const auto group = static_cast<int64_t>(groups.size());
    groups.push_back({whole, static_cast<int64_t>(items.size()), 0, partial_floats});
    AttentionItem item = whole;
    do {
      if (call.time == 1) {
        item.end_key = std::min((item.first_key / kPartKeys + 1) * kPartKeys, whole.end_key);
      }
      items.emplace_back(group, item);
      ++groups.back().parts;
      partial_floats += pantheon::partial_floats(queries, call.head_dim);
      item.first_key = item.end_key;
      item.end_key = whole.end_key;
    } while (item.first_key < whole.end_key);
  }
};

}  // namespace

void compute_attention(const Attention& call, int64_t first_token, int64_t end_token, Held held,
                       const AttentionKernels& kernels) {
  const Plan plan(call, first_token, end_token);
  const std::shared_ptr<ThreadPool> pool = ThreadPool::of_process();
  const std::unique_ptr<float[]> partials(new float[plan.partial_floats]);
  const int64_t scratch_floats = kernels.scratch_floats(call, plan.most_queries);
  const std::unique_ptr<float[]> scratch(new float[scratch_floats * pool->threads()]);
  std::vector<std::atomic<int64_t>> left(plan.groups.size());
  for (size_t i = 0; i < left.size(); ++i) left[i].store(plan.groups[i].parts);
  pool->run(static_cast<int64_t>(plan.items.size()), [&](int64_t i, Workspace& workspace) {
    const auto& [number, item] = plan.items[i];
    const Group& group = plan.groups[number];
    const int64_t queries = item.queries(call);
    const int64_t floats = partial_floats(queries, call.head_dim);
    float* own = partials.get() + group.partials;
    kernels.attend[static_cast<int>(held)](
        call, item, scratch.get() + workspace.thread * scratch_floats,
        partial_at(own + (i - group.first_item) * floats, queries));
    // Whoever comes last has all parts before him.
    if (left[number].fetch_sub(1) == 1) kernels.merge(call, group.whole, own, group.parts);
  });
}

}  // namespace pantheon
