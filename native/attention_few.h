// Attention of few queries to a key head, as in decode steps: the lanes of a vector are dimensions.
//
// A key is read and converted once, in a register, for all queries; the sums of four keys are
// joined at once. The weights of a query have keys in their lanes.
#pragma once

#include "attention_few_state.h"
#include "exponential.h"

namespace pantheon {

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

template <class Of, Held H>
void attend_few(const Attention& call, const AttentionItem& item, float* memory,
                const Partial& partial) {
  using Isa = typename Of::Isa;
  const FewScratch<Of> scratch(call, memory);
  FewState<Of> state = begin_few<Of>(call, item, scratch);
  const int64_t row_bytes = call.head_dim * held_bytes(H);
  const auto* key_memory = static_cast<const uint8_t*>(call.key_pages);
  const auto* value_memory = static_cast<const uint8_t*>(call.value_pages);
  for (int64_t key = item.first_key, next_key; key < item.end_key; key = next_key) {
    const ChunkPlace chunk = chunk_at<Isa>(call, item, key);
    next_key = key + chunk.keys;
    const int64_t own = state.together.taken(key, chunk.keys);
    if (own == 0) continue;
    const ChunkPlace next =
        next_key < item.end_key ? chunk_at<Isa>(call, item, next_key) : chunk;
    const uint8_t* key_rows = key_memory + chunk.at * held_bytes(H);
    const uint8_t* value_rows = value_memory + chunk.at * held_bytes(H);
    for (int64_t first = 0; first < own; first += 4) {
      prefetch<Isa>(value_rows + first * row_bytes, 4 * row_bytes);
      // The keys of the first chunk were asked for by none before.
      if (key == item.first_key) {
        prefetch<Isa>(key_rows + (first + kPrefetchRows) * row_bytes, 4 * row_bytes);
      }
      score_few<Of, H>(key_rows + first * row_bytes, own - first, call.head_dim, scratch,
                       scratch.weights + first);
    }
    float corrections[Isa::lanes];
    weigh_few<Of>(state, key, own, scratch.weights, corrections);
    mix_values<Of, H>(value_rows, key_memory + next.at * held_bytes(H), own, call.head_dim, scratch,
                      corrections);
  }
  end_few<Of>(call, item, state, scratch, partial);
}

}  // namespace pantheon
