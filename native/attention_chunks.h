// The keys of an item of attention as they are taken: some at a time, and who sees them.
#pragma once

#include "attention_kernels.h"

namespace pantheon {

// The score of a key that a query does not see: less than any other.
inline constexpr float kUnseen = -3.0e38f;

// Query `i` of an item: of which token and head.
struct QueryPlace {
  int64_t token;
  int64_t offset;   // Of its first dimension in queries and results.
};

[[gnu::always_inline]] inline QueryPlace place_of(const Attention& call,
                                                  const AttentionItem& item, int64_t i) {
  const int64_t token = item.first_token + i / call.group();
  const int64_t head = item.kv_head * call.group() + i % call.group();
  return {token, ((item.row * call.time + token) * call.heads + head) * call.head_dim};
}

// The keys that a token sees; the first is after the last where there are none.
struct Seen {
  int32_t first;
  int32_t last;
};

[[gnu::always_inline]] inline Seen seen_by(const Attention& call, int64_t row, int64_t token) {
  const int32_t position = call.positions[row * call.time + token];
  const int32_t held = call.lengths[row] - 1;
  const bool is_cut = call.window != 0 && position >= call.window;
  return {is_cut ? static_cast<int32_t>(position - call.window + 1) : 0,
          position < held ? position : held};
}

// The keys that some queries see: those that any does, and those that all do.
struct SeenTogether {
  int64_t first_for_any, first_for_all, last_for_all, last_for_any;

  [[gnu::always_inline]] explicit SeenTogether(Seen one)
      : first_for_any(one.first),
        first_for_all(one.first),
        last_for_all(one.last),
        last_for_any(one.last) {}

  [[gnu::always_inline]] void add(Seen one) {
    if (one.first < first_for_any) first_for_any = one.first;
    if (one.first > first_for_all) first_for_all = one.first;
    if (one.last < last_for_all) last_for_all = one.last;
    if (one.last > last_for_any) last_for_any = one.last;
  }

  // How many keys of a chunk are taken: those after all that are seen would have no weight.
  [[gnu::always_inline]] int64_t taken(int64_t first_key, int64_t keys) const {
    if (first_key + keys <= first_for_any || first_key > last_for_any) return 0;
    const int64_t seen = last_for_any - first_key + 1;
    return seen < keys ? seen : keys;
  }
};

// Rows of keys ahead of those that are scored which are asked for.
inline constexpr int64_t kPrefetchRows = 16;

// Asks for what will be read soon: the hardware follows a stream only to the end of a page.
template <class Isa>
[[gnu::always_inline]] inline void prefetch(const void* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) {
    __builtin_prefetch(static_cast<const uint8_t*>(from) + at);
  }
}

// Where some of a row's keys stand in the pages.
struct ChunkPlace {
  int64_t at;     // Of the first number.
  int64_t keys;   // Up to the end of the page, of the chunk or of the item.
};

template <class Isa>
[[gnu::always_inline]] inline ChunkPlace chunk_at(const Attention& call, const AttentionItem& item,
                                                  int64_t key) {
  const int64_t within = key % call.page_size;
  int64_t keys = call.page_size - within;
  if (keys > kChunkKeys) keys = kChunkKeys;
  if (keys > item.end_key - key) keys = item.end_key - key;
  const int64_t page = call.tables[item.row * call.blocks + key / call.page_size];
  const int64_t row = item.kv_head * call.page_size + within;
  return {page * call.page_stride + row * call.head_dim, keys};
}

}  // namespace pantheon
