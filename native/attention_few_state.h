// Few queries to a key head: how they lie in vectors, and what is kept of them.
#pragma once

#include <cstring>

#include "attention_chunks.h"
#include "vectors.h"

namespace pantheon {

// With more queries most lanes would be filled by one query each.
template <class Isa>
constexpr int few_queries() { return Isa::lanes / 2; }

template <class InstructionSet, int QueryCount>
struct FewQueries {
  using Isa = InstructionSet;
  using Floats = typename Isa::Floats;

  static constexpr int queries = QueryCount;
  // Keys that are scored, and vectors of dimensions that are mixed, at a time: their sums for all
  // queries are kept in registers.
  static constexpr int tile = 4 * queries <= Isa::tile_rows * Isa::tile_vectors ? 4 : 2;
};

// Memory of an item.
template <class Of>
struct FewScratch {
  int64_t query_floats;   // Of one query: its dimensions and, up to whole vectors, zeros.
  float* queries;         // [queries, query_floats]
  float* mixed;           // [queries, query_floats]
  float* weights;         // [queries, keys of a chunk]

  FewScratch(const Attention& call, float* memory) : query_floats(padded(call)) {
    queries = memory;
    mixed = queries + Of::queries * query_floats;
    weights = mixed + Of::queries * query_floats;
  }

  static int64_t floats(const Attention& call) {
    return Of::queries * (2 * padded(call) + kChunkKeys);
  }

 private:
  static int64_t padded(const Attention& call) {
    return (call.head_dim + Of::Isa::lanes - 1) / Of::Isa::lanes * Of::Isa::lanes;
  }
};

// What is kept of the queries of an item.
template <class Of>
struct FewState {
  float peaks[Of::Isa::lanes];              // Of each query, the rest unused.
  typename Of::Floats totals[Of::queries];  // In each lane of the keys that were in it.
  Seen seen[Of::queries];
  SeenTogether together;
};

// For each query what `join` makes of all lanes of its vector.
template <class Of, class Join>
[[gnu::always_inline]] inline void join_lanes(const typename Of::Floats (&of)[Of::queries],
                                              float (&to)[Of::Isa::lanes], Join&& join) {
  const auto at = [&](int q) __attribute__((always_inline)) {
    return of[q < Of::queries ? q : Of::queries - 1];
  };
#pragma GCC unroll 2
  for (int q = 0; q < Of::queries; q += 4) {
    const auto four =
        Of::Isa::joined_fours(Of::Isa::joined_pair(at(q), at(q + 1), join),
                              Of::Isa::joined_pair(at(q + 2), at(q + 3), join), join);
    std::memcpy(to + q, &four, sizeof four);
  }
}

// What an item begins with. In place of queries that there are not stands the last one again.
template <class Of>
FewState<Of> begin_few(const Attention& call, const AttentionItem& item,
                       const FewScratch<Of>& scratch) {
  const int64_t all = item.queries(call);
  FewState<Of> state{{}, {}, {}, SeenTogether(seen_by(call, item.row, item.first_token))};
  std::memset(scratch.mixed, 0, sizeof(float) * Of::queries * scratch.query_floats);
  for (int i = 0; i < Of::queries; ++i) {
    const QueryPlace place = place_of(call, item, i < all ? i : all - 1);
    state.seen[i] = seen_by(call, item.row, place.token);
    state.together.add(state.seen[i]);
    float* query = scratch.queries + i * scratch.query_floats;
    for (int64_t d = 0; d < call.head_dim; ++d) {
      query[d] = call.queries[place.offset + d] * call.scale;
    }
    for (int64_t d = call.head_dim; d < scratch.query_floats; ++d) query[d] = 0;
  }
  for (float& peak : state.peaks) peak = kUnseen;
  return state;
}

// Hands over what was summed.
template <class Of>
void end_few(const Attention& call, const AttentionItem& item, const FewState<Of>& state,
             const FewScratch<Of>& scratch, const Partial& partial) {
  float totals[Of::Isa::lanes];
  join_lanes<Of>(state.totals, totals, [](auto a, auto b) { return a + b; });
  for (int64_t i = 0; i < item.queries(call); ++i) {
    partial.peaks[i] = state.peaks[i];
    partial.totals[i] = totals[i];
    std::memcpy(partial.mixed + i * call.head_dim, scratch.mixed + i * scratch.query_floats,
                sizeof(float) * call.head_dim);
  }
}

}  // namespace pantheon
