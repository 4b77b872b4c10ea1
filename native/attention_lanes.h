// The queries of an item of attention in the lanes of vectors, and what is kept of them.
#pragma once

#include <cstring>

#include "attention_kernels.h"
#include "vectors.h"

namespace pantheon {

// The score of a key that a query does not see: less than any other.
inline constexpr float kUnseen = -3.0e38f;

// How the queries of an item lie in vectors.
template <class InstructionSet, int QueryWidth, int VectorCount>
struct Lanes {
  using Isa = InstructionSet;
  using Floats = typename Isa::Floats;
  using Integers = typename Isa::Integers;

  static constexpr int width = QueryWidth;
  static constexpr int count = VectorCount;                    // Vectors of a block of queries.
  static constexpr int lanes = count * Isa::lanes;
  static constexpr int queries = lanes / width;                // Of a block.
  // Keys, or dimensions of values, whose sums are kept in registers at a time.
  static constexpr int tile = count == 1 ? 8 : (Isa::tile_rows < 8 ? Isa::tile_rows : 8);

  static int64_t blocks(int64_t all) { return (all + queries - 1) / queries; }
  static int64_t steps(int64_t head_dim) { return head_dim / width; }
};

template <class Of>
struct alignas(64) BlockState {
  typename Of::Floats peaks[Of::count];
  typename Of::Floats totals[Of::count];
  typename Of::Integers first_seen[Of::count];   // Of each lane, ...
  typename Of::Integers last_seen[Of::count];    // ... this one included.
  int64_t first_for_any, first_for_all, last_for_all, last_for_any;
};

// Memory of an item.
template <class Of>
struct AttentionScratch {
  int64_t step_floats;   // Of one block.
  BlockState<Of>* states;
  float* queries;        // [blocks, steps, lanes]
  float* mixed;          // [blocks, steps, lanes]
  float* weights;        // [keys of a chunk, lanes]
  float* keys;           // Of a chunk where they are held in float16; likewise ...
  float* values;

  static constexpr int64_t kAlignment = 16;   // Floats.

  static int64_t rounded(int64_t floats) {
    return (floats + kAlignment - 1) / kAlignment * kAlignment;
  }

  AttentionScratch(const Attention& call, int64_t all, float* memory)
      : step_floats(rounded(Of::steps(call.head_dim) * Of::lanes)) {
    const int64_t blocks = Of::blocks(all);
    const auto address = reinterpret_cast<uintptr_t>(memory);
    memory += (64 - address % 64) % 64 / sizeof(float);
    const auto take = [&](int64_t floats) {
      float* taken = memory;
      memory += rounded(floats);
      return taken;
    };
    states = reinterpret_cast<BlockState<Of>*>(
        take(blocks * static_cast<int64_t>(sizeof(BlockState<Of>) / sizeof(float))));
    queries = take(blocks * step_floats);
    mixed = take(blocks * step_floats);
    weights = take(kChunkKeys * Of::lanes);
    keys = take(kChunkKeys * call.head_dim);
    values = take(kChunkKeys * call.head_dim);
  }

  static int64_t floats(const Attention& call, int64_t all) {
    const int64_t blocks = Of::blocks(all);
    const int64_t state = sizeof(BlockState<Of>) / sizeof(float);
    return kAlignment + rounded(blocks * state) +
           2 * blocks * rounded(Of::steps(call.head_dim) * Of::lanes) +
           rounded(kChunkKeys * Of::lanes) + 2 * rounded(kChunkKeys * call.head_dim);
  }
};

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

// Lays the queries out in lanes. What fills a block up sees what the last query sees, and its
// results go nowhere.
template <class Of>
void begin_block(const Attention& call, const AttentionItem& item, int64_t block,
                 const AttentionScratch<Of>& scratch) {
  BlockState<Of>& state = scratch.states[block];
  const int64_t all = item.queries(call);
  const int64_t steps = Of::steps(call.head_dim);
  float* queries = scratch.queries + block * scratch.step_floats;
  std::memset(scratch.mixed + block * scratch.step_floats, 0, sizeof(float) * steps * Of::lanes);
  int32_t first[Of::lanes], last[Of::lanes];
  for (int i = 0; i < Of::queries; ++i) {
    const int64_t own = block * Of::queries + i;
    const bool is_filler = own >= all;
    const QueryPlace place = place_of(call, item, is_filler ? all - 1 : own);
    const Seen seen = seen_by(call, item.row, place.token);
    for (int w = 0; w < Of::width; ++w) {
      const int lane = i * Of::width + w;
      first[lane] = seen.first;
      last[lane] = seen.last;
      for (int64_t step = 0; step < steps; ++step) {
        queries[step * Of::lanes + lane] =
            is_filler ? 0.0f : call.queries[place.offset + step * Of::width + w] * call.scale;
      }
    }
  }
  state.first_for_any = state.first_for_all = first[0];
  state.last_for_any = state.last_for_all = last[0];
  for (int lane = 1; lane < Of::lanes; ++lane) {
    if (first[lane] < state.first_for_any) state.first_for_any = first[lane];
    if (first[lane] > state.first_for_all) state.first_for_all = first[lane];
    if (last[lane] < state.last_for_all) state.last_for_all = last[lane];
    if (last[lane] > state.last_for_any) state.last_for_any = last[lane];
  }
  for (int v = 0; v < Of::count; ++v) {
    state.peaks[v] = Of::Isa::splat(kUnseen);
    state.totals[v] = Of::Isa::splat(0);
  }
  std::memcpy(state.first_seen, first, sizeof first);
  std::memcpy(state.last_seen, last, sizeof last);
}

// Hands over what was summed.
template <class Of>
void end_block(const Attention& call, const AttentionItem& item, int64_t block,
               const AttentionScratch<Of>& scratch, const Partial& partial) {
  const BlockState<Of>& state = scratch.states[block];
  const float* mixed = scratch.mixed + block * scratch.step_floats;
  const int64_t left = item.queries(call) - block * Of::queries;
  float peaks[Of::lanes], totals[Of::lanes];
  std::memcpy(peaks, state.peaks, sizeof peaks);
  std::memcpy(totals, state.totals, sizeof totals);
  for (int64_t i = 0; i < Of::queries && i < left; ++i) {
    const int64_t query = block * Of::queries + i;
    partial.peaks[query] = peaks[i * Of::width];
    partial.totals[query] = totals[i * Of::width];
    for (int64_t d = 0; d < call.head_dim; ++d) {
      partial.mixed[query * call.head_dim + d] =
          mixed[d / Of::width * Of::lanes + i * Of::width + d % Of::width];
    }
  }
}

}  // namespace pantheon
