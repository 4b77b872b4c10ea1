// Attention over paged keys and values: what is asked of an instruction set, and its answers.
#pragma once

#include <cstdint>

#include "instruction_sets.h"

namespace pantheon {

// How keys and values are held.
enum class Held : int { floats = 0, halves = 1 };
inline constexpr int kHeldTypes = 2;

[[gnu::always_inline]] inline constexpr int held_bytes(Held held) {
  return held == Held::floats ? 4 : 2;
}

// Keys that are taken at a time.
inline constexpr int kChunkKeys = 64;

// One call: queries [rows, time, heads, head_dim] over pages, each [kv_heads, page_size, head_dim].
struct Attention {
  const float* queries;
  const void* key_pages;
  const void* value_pages;
  const int32_t* tables;      // [rows, blocks]: pages of each row in order.
  const int32_t* positions;   // [rows, time]
  const int32_t* lengths;     // [rows]
  int64_t time;
  int64_t heads;
  int64_t kv_heads;
  int64_t page_size;
  int64_t head_dim;
  int64_t page_stride;        // Numbers from one page to the next.
  int64_t blocks;
  int64_t window;             // How many keys back a query sees, its own included; 0 for all.
  float scale;
  float* results;             // As the queries.

  [[gnu::always_inline]] int64_t group() const { return heads / kv_heads; }
};

// Some tokens of a row with all query heads that share a key head, over some of the row's keys.
struct AttentionItem {
  int64_t row;
  int64_t kv_head;
  int64_t first_token;
  int64_t tokens;
  int64_t first_key;
  int64_t end_key;

  [[gnu::always_inline]] int64_t queries(const Attention& call) const {
    return tokens * call.group();
  }
};

// What an item leaves: for each query the largest score, the sum of the weights relative to it,
// and the sum of the values so weighted.
struct Partial {
  float* peaks;    // [queries]
  float* totals;   // [queries]
  float* mixed;    // [queries, head_dim]
};

[[gnu::always_inline]] inline int64_t partial_floats(int64_t queries, int64_t head_dim) {
  return queries * (head_dim + 2);
}

[[gnu::always_inline]] inline Partial partial_at(float* memory, int64_t queries) {
  return {memory, memory + queries, memory + 2 * queries};
}

struct AttentionKernels {
  // Floats of scratch memory that `attend` takes for an item of so many queries.
  int64_t (*scratch_floats)(const Attention&, int64_t queries);
  void (*attend[kHeldTypes])(const Attention&, const AttentionItem&, float* scratch, Partial);
  // Writes the results of an item's queries from the partials of all parts of its keys, which
  // stand one after another, in their order.
  void (*merge)(const Attention&, const AttentionItem&, float* partials, int64_t count);
  // Makes `count` float16 of floats; what is too large becomes no number.
  void (*to_halves)(const float* from, uint16_t* to, int64_t count);
};

const AttentionKernels& portable_attention();
const AttentionKernels& avx2_attention();
const AttentionKernels& avx512_attention();

// Null where the processor or the build does not have the set.
const AttentionKernels* attention_for(InstructionSet set);

}  // namespace pantheon
