// The queries of an item of attention in the lanes of vectors, and what is kept of them.
#pragma once

#include <cstring>

#include "attention_chunks.h"
#include "vectors.h"

namespace pantheon {

// How the queries of an item lie in vectors.
template <class InstructionSet, int VectorCount>
struct Lanes {
  using Isa = InstructionSet;
  using Floats = typename Isa::Floats;
  using Integers = typename Isa::Integers;

  static constexpr int count = VectorCount;                    // Vectors of a block of queries.
  static constexpr int lanes = count * Isa::lanes;             // Queries of a block.
  // Keys, or dimensions of values, whose sums are kept in registers at a time.
  static constexpr int tile = count == 1 ? 8 : (Isa::tile_rows < 8 ? Isa::tile_rows : 8);

  static int64_t blocks(int64_t all) { return (all + lanes - 1) / lanes; }
};

template <class Of>
struct alignas(64) BlockState {
  typename Of::Floats peaks[Of::count];
  typename Of::Floats totals[Of::count];
  typename Of::Integers first_seen[Of::count];   // Of each lane, ...
  typename Of::Integers last_seen[Of::count];    // ... this one included.
  SeenTogether together;
};

// Memory of an item.
template <class Of>
struct AttentionScratch {
  int64_t block_floats;  // Of one block.
  BlockState<Of>* states;
  float* queries;        // [blocks, head_dim, lanes]
  float* mixed;          // [blocks, head_dim, lanes]
  float* weights;        // [keys of a chunk, lanes]
  float* keys;           // Of a chunk where they are held in float16; likewise ...
  float* values;

  static constexpr int64_t kAlignment = 16;   // Floats.

  static int64_t rounded(int64_t floats) {
    return (floats + kAlignment - 1) / kAlignment * kAlignment;
  }

  AttentionScratch(const Attention& call, int64_t all, float* memory)
      : block_floats(rounded(call.head_dim * Of::lanes)) {
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
    queries = take(blocks * block_floats);
    mixed = take(blocks * block_floats);
    weights = take(kChunkKeys * Of::lanes);
    keys = take(kChunkKeys * call.head_dim);
    values = take(kChunkKeys * call.head_dim);
  }

  static int64_t floats(const Attention& call, int64_t all) {
    const int64_t blocks = Of::blocks(all);
    const int64_t state = sizeof(BlockState<Of>) / sizeof(float);
    return kAlignment + rounded(blocks * state) +
           2 * blocks * rounded(call.head_dim * Of::lanes) +
           rounded(kChunkKeys * Of::lanes) + 2 * rounded(kChunkKeys * call.head_dim);
  }
};

// Lays the queries out in lanes. What fills a block up sees what the last query sees, and its
// results go nowhere.
template <class Of>
void begin_block(const Attention& call, const AttentionItem& item, int64_t block,
                 const AttentionScratch<Of>& scratch) {
  BlockState<Of>& state = scratch.states[block];
  const int64_t all = item.queries(call);
  float* queries = scratch.queries + block * scratch.block_floats;
  std::memset(scratch.mixed + block * scratch.block_floats, 0,
              sizeof(float) * call.head_dim * Of::lanes);
  int32_t first[Of::lanes], last[Of::lanes];
  for (int lane = 0; lane < Of::lanes; ++lane) {
    const int64_t own = block * Of::lanes + lane;
    const bool is_filler = own >= all;
    const QueryPlace place = place_of(call, item, is_filler ? all - 1 : own);
    const Seen seen = seen_by(call, item.row, place.token);
    first[lane] = seen.first;
    last[lane] = seen.last;
    if (lane == 0) {
      state.together = SeenTogether(seen);
    } else {
      state.together.add(seen);
    }
    for (int64_t d = 0; d < call.head_dim; ++d) {
      queries[d * Of::lanes + lane] =
          is_filler ? 0.0f : call.queries[place.offset + d] * call.scale;
    }
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
  const float* mixed = scratch.mixed + block * scratch.block_floats;
  const int64_t left = item.queries(call) - block * Of::lanes;
  float peaks[Of::lanes], totals[Of::lanes];
  std::memcpy(peaks, state.peaks, sizeof peaks);
  std::memcpy(totals, state.totals, sizeof totals);
  for (int64_t lane = 0; lane < Of::lanes && lane < left; ++lane) {
    const int64_t query = block * Of::lanes + lane;
    partial.peaks[query] = peaks[lane];
    partial.totals[query] = totals[lane];
    for (int64_t d = 0; d < call.head_dim; ++d) {
      partial.mixed[query * call.head_dim + d] = mixed[d * Of::lanes + lane];
    }
  }
}

}  // namespace pantheon
