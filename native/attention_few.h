// Attention of few queries to a key head, as in decode steps: the lanes of a vector are dimensions.
//
// A key is read and converted once, in a register, for all queries; the sums of four keys are
// joined at once. The weights of a query have keys in their lanes.
#pragma once

#include <cstring>

#include "attention_chunks.h"
#include "exponential.h"
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

// A vector of numbers as they are held.
template <class Isa, Held H>
[[gnu::always_inline]] inline typename Isa::Floats held_at(const uint8_t* from) {
  if constexpr (H == Held::floats) {
    return Isa::floats(from);
  } else {
    return Isa::halves(from);
  }
}

// The last numbers of a row, fewer than a vector has: what comes after them is not theirs.
template <class Isa, Held H>
[[gnu::always_inline]] inline typename Isa::Floats held_rest(const uint8_t* from, int64_t count) {
  uint8_t rest[held_bytes(H) * Isa::lanes] = {};
  std::memcpy(rest, from, held_bytes(H) * count);
  return held_at<Isa, H>(rest);
}

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

// The products of `Of::tile` keys with the queries, those of two keys summed to one vector.
template <class Of, Held H>
[[gnu::always_inline]] inline void multiply_keys(const uint8_t* const (&rows)[Of::tile],
                                                 int64_t head_dim, const FewScratch<Of>& scratch,
                                                 typename Of::Floats (*pairs)[Of::queries]) {
  using Isa = typename Of::Isa;
  using Floats = typename Of::Floats;
  Floats own[Of::tile][Of::queries] = {};
  const auto add = [&](int64_t at, auto&& key_at) __attribute__((always_inline)) {
    Floats query[Of::queries];
#pragma GCC unroll 8
    for (int q = 0; q < Of::queries; ++q) {
      query[q] = Isa::template load<Floats>(scratch.queries + q * scratch.query_floats + at);
    }
#pragma GCC unroll 4
    for (int m = 0; m < Of::tile; ++m) {
      const Floats key = key_at(rows[m] + at * held_bytes(H));
#pragma GCC unroll 8
      for (int q = 0; q < Of::queries; ++q) own[m][q] = Isa::fused(key, query[q], own[m][q]);
    }
  };
  int64_t at = 0;
  for (; at + Isa::lanes <= head_dim; at += Isa::lanes) {
    add(at, [](const uint8_t* from) __attribute__((always_inline)) {
      return held_at<Isa, H>(from);
    });
  }
  if (at < head_dim) {
    add(at, [&](const uint8_t* from) __attribute__((always_inline)) {
      return held_rest<Isa, H>(from, head_dim - at);
    });
  }
#pragma GCC unroll 2
  for (int m = 0; m < Of::tile; m += 2) {
#pragma GCC unroll 8
    for (int q = 0; q < Of::queries; ++q) {
      pairs[m / 2][q] = Isa::joined_pair(own[m][q], own[m + 1][q],
                                         [](auto a, auto b) { return a + b; });
    }
  }
}

// The scores of four keys, or of so many as are left.
template <class Of, Held H>
void score_few(const uint8_t* keys, int64_t left, int64_t head_dim, const FewScratch<Of>& scratch,
               float* scores) {
  using Isa = typename Of::Isa;
  typename Of::Floats pairs[2][Of::queries];
#pragma GCC unroll 2
  for (int first = 0; first < 4; first += Of::tile) {
    const uint8_t* rows[Of::tile];
#pragma GCC unroll 4
    for (int m = 0; m < Of::tile; ++m) {
      // The last one again in place of those that there are not, whose scores are not looked at.
      const int64_t key = first + m < left ? first + m : left - 1;
      rows[m] = keys + key * head_dim * held_bytes(H);
    }
    multiply_keys<Of, H>(rows, head_dim, scratch, pairs + first / 2);
  }
#pragma GCC unroll 8
  for (int q = 0; q < Of::queries; ++q) {
    const auto four = Isa::joined_fours(pairs[0][q], pairs[1][q],
                                        [](auto a, auto b) { return a + b; });
    std::memcpy(scores + q * kChunkKeys, &four, sizeof four);
  }
}

// Turns the scores of a chunk into weights, and gives the corrections of what was summed before.
template <class Of>
void weigh_few(FewState<Of>& state, int64_t first_key, int64_t keys, float* scores,
               float (&corrections)[Of::Isa::lanes]) {
  using Isa = typename Of::Isa;
  using Floats = typename Of::Floats;
  using Words = typename Isa::Words;
  using Integers = typename Isa::Integers;
  const int64_t last_key = first_key + keys - 1;
  const bool all_seen = keys % Isa::lanes == 0 && first_key >= state.together.first_for_all &&
                        last_key <= state.together.last_for_all;
  Integers lane;
  for (int i = 0; i < Isa::lanes; ++i) lane[i] = i;
  // What stands after the last key is not seen either.
  const auto seen = [&](int q, int64_t key) __attribute__((always_inline)) {
    const auto number = lane + static_cast<int32_t>(first_key + key);
    const auto last = static_cast<int32_t>(last_key);
    return reinterpret_cast<Words>(
        (number >= state.seen[q].first) &
        (number <= (state.seen[q].last < last ? state.seen[q].last : last)));
  };
  Floats peaks[Of::queries];
#pragma GCC unroll 8
  for (int q = 0; q < Of::queries; ++q) {
    float* own = scores + q * kChunkKeys;
    Floats peak = Isa::splat(state.peaks[q]);
    for (int64_t key = 0; key < keys; key += Isa::lanes) {
      Floats value = Isa::template load<Floats>(own + key);
      if (!all_seen) {
        const Words is_seen = seen(q, key);
        value = reinterpret_cast<Floats>(
            (reinterpret_cast<Words>(value) & is_seen) |
            (reinterpret_cast<Words>(Isa::splat(kUnseen)) & ~is_seen));
        Isa::store(own + key, value);
      }
      peak = Isa::larger(value, peak);
    }
    peaks[q] = peak;
  }
  const Floats before = Isa::template load<Floats>(state.peaks);
  join_lanes<Of>(peaks, state.peaks, [](auto a, auto b) { return a > b ? a : b; });
  Isa::store(corrections,
             exponential<Isa>(before - Isa::template load<Floats>(state.peaks)));
#pragma GCC unroll 8
  for (int q = 0; q < Of::queries; ++q) {
    float* own = scores + q * kChunkKeys;
    const Floats peak = Isa::splat(state.peaks[q]);
    Floats total = state.totals[q] * corrections[q];
    for (int64_t key = 0; key < keys; key += Isa::lanes) {
      Floats weight = exponential<Isa>(Isa::template load<Floats>(own + key) - peak);
      if (!all_seen) {
        // Until a query has seen something, what it does not see is as large as its peak.
        weight = reinterpret_cast<Floats>(reinterpret_cast<Words>(weight) & seen(q, key));
      }
      Isa::store(own + key, weight);
      total += weight;
    }
    state.totals[q] = total;
  }
}

// `Parts` vectors of the values of a chunk from dimension `at` on, by the weights of their keys, on
// what is there times its correction. `value_at(key, part)` reads one.
template <class Of, int Parts, class ValueAt>
[[gnu::always_inline]] inline void mix_few(int64_t at, int64_t keys,
                                           const FewScratch<Of>& scratch,
                                           const float (&corrections)[Of::Isa::lanes],
                                           ValueAt&& value_at) {
  using Isa = typename Of::Isa;
  using Floats = typename Of::Floats;
  Floats sums[Of::queries][Parts];
  const auto place = [&](int q, int part) __attribute__((always_inline)) {
    return scratch.mixed + q * scratch.query_floats + at + part * Isa::lanes;
  };
#pragma GCC unroll 8
  for (int q = 0; q < Of::queries; ++q) {
#pragma GCC unroll 4
    for (int part = 0; part < Parts; ++part) {
      sums[q][part] = Isa::template load<Floats>(place(q, part)) * corrections[q];
    }
  }
  for (int64_t key = 0; key < keys; ++key) {
    Floats weights[Of::queries];
#pragma GCC unroll 8
    for (int q = 0; q < Of::queries; ++q) {
      weights[q] = Isa::splat(scratch.weights[q * kChunkKeys + key]);
    }
#pragma GCC unroll 4
    for (int part = 0; part < Parts; ++part) {
      const Floats value = value_at(key, part);
#pragma GCC unroll 8
      for (int q = 0; q < Of::queries; ++q) {
        sums[q][part] = Isa::fused(value, weights[q], sums[q][part]);
      }
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < Of::queries; ++q) {
#pragma GCC unroll 4
    for (int part = 0; part < Parts; ++part) Isa::store(place(q, part), sums[q][part]);
  }
}

template <class Of, Held H>
void mix_values(const uint8_t* values, const uint8_t* next_keys, int64_t keys, int64_t head_dim,
                const FewScratch<Of>& scratch, const float (&corrections)[Of::Isa::lanes]) {
  using Isa = typename Of::Isa;
  constexpr int bytes = held_bytes(H);
  int64_t at = 0;
  const auto value_at = [&](int64_t key, int part) __attribute__((always_inline)) {
    const int64_t place = (key * head_dim + at + part * Isa::lanes) * bytes;
    if (part * Isa::lanes * bytes % 64 == 0) __builtin_prefetch(next_keys + place);
    return held_at<Isa, H>(values + place);
  };
  for (; at + Of::tile * Isa::lanes <= head_dim; at += Of::tile * Isa::lanes) {
    mix_few<Of, Of::tile>(at, keys, scratch, corrections, value_at);
  }
  for (; at + Isa::lanes <= head_dim; at += Isa::lanes) {
    mix_few<Of, 1>(at, keys, scratch, corrections, value_at);
  }
  if (at < head_dim) {
    mix_few<Of, 1>(at, keys, scratch, corrections,
                   [&](int64_t key, int) __attribute__((always_inline)) {
                     return held_rest<Isa, H>(values + (key * head_dim + at) * bytes,
                                              head_dim - at);
                   });
  }
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

template <class Of, Held H>
void attend_few(const Attention& call, const AttentionItem& item, float* memory,
                const Partial& partial) {
  using Isa = typename Of::Isa;
  const FewScratch<Of> scratch(call, memory);
  FewState<Of> state = begin_few<Of>(call, item, scratch);
  const int64_t row_bytes = call.head_dim * held_bytes(H);
  const auto* key_memory = static_cast<const uint8_t*>(call.key_pages);
  const auto* value_memory = static_cast<const uint8_t*>(call.value_pages);
  for (int64_t key = item.first_key; key < item.end_key;) {
    const auto [at, keys] = chunk_at<Isa>(call, item, key);
    const int64_t own = state.together.taken(key, keys);
    const uint8_t* key_rows = key_memory + at * held_bytes(H);
    const uint8_t* value_rows = value_memory + at * held_bytes(H);
    const int64_t next =
        key + keys < item.end_key ? chunk_at<Isa>(call, item, key + keys).at : at;
    const uint8_t* next_rows = key_memory + next * held_bytes(H);
    key += keys;
    if (own == 0) continue;
    for (int64_t first = 0; first < own; first += 4) {
      prefetch<Isa>(value_rows + first * row_bytes, 4 * row_bytes);
      score_few<Of, H>(key_rows + first * row_bytes, own - first, call.head_dim, scratch,
                       scratch.weights + first);
    }
    float corrections[Isa::lanes];
    weigh_few<Of>(state, key - keys, own, scratch.weights, corrections);
    mix_values<Of, H>(value_rows, next_rows, own, call.head_dim, scratch, corrections);
  }
  end_few<Of>(call, item, state, scratch, partial);
}

}  // namespace pantheon
