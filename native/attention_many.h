// Attention of many queries to a key head, as in prefill: a lane of a vector is a query.
//
// Its scores, its largest score and the sum of its weights never leave the lane. Keys and values
// are read one number at a time for all queries of a vector; the query heads of a key head are
// queries side by side, so that it is read once. Every sum is one chain in the order of the
// dimensions or of the keys.
#pragma once

#include "attention_lanes.h"
#include "decode.h"
#include "exponential.h"

namespace pantheon {

// `sums[m] += splat(at(m, step)) * factors[step]` over all steps, for `Rows` of them.
template <class Of, int Rows, class At>
[[gnu::always_inline]] inline void add_products(int64_t steps, const float* factors, At&& at,
                                                typename Of::Floats (&sums)[Rows][Of::count]) {
  using Isa = typename Of::Isa;
  using Floats = typename Of::Floats;
  for (int64_t step = 0; step < steps; ++step) {
    Floats factor[Of::count];
#pragma GCC unroll 2
    for (int v = 0; v < Of::count; ++v) {
      factor[v] = Isa::template load<Floats>(factors + step * Of::lanes + v * Isa::lanes);
    }
#pragma GCC unroll 8
    for (int m = 0; m < Rows; ++m) {
      const Floats one = Isa::splat(at(m, step));
#pragma GCC unroll 2
      for (int v = 0; v < Of::count; ++v) sums[m][v] = Isa::fused(one, factor[v], sums[m][v]);
    }
  }
}

// The scores of `Keys` keys.
template <class Of, int Keys>
void score(const float* keys, int64_t head_dim, const float* queries, float* scores) {
  using Isa = typename Of::Isa;
  typename Of::Floats sums[Keys][Of::count];
#pragma GCC unroll 8
  for (int m = 0; m < Keys; ++m) {
#pragma GCC unroll 2
    for (int v = 0; v < Of::count; ++v) sums[m][v] = typename Of::Floats{};
  }
  const float* rows[Keys];
#pragma GCC unroll 8
  for (int m = 0; m < Keys; ++m) rows[m] = keys + m * head_dim;
  add_products<Of, Keys>(
      head_dim, queries,
      [&](int m, int64_t d) __attribute__((always_inline)) { return rows[m][d]; }, sums);
#pragma GCC unroll 8
  for (int m = 0; m < Keys; ++m) {
#pragma GCC unroll 2
    for (int v = 0; v < Of::count; ++v) {
      Isa::store(scores + m * Of::lanes + v * Isa::lanes, sums[m][v]);
    }
  }
}

// `Dims` dimensions of the values of some keys by their weights, on what is there times
// `correction`.
template <class Of, int Dims>
void mix(const float* values, int64_t head_dim, int64_t keys, const float* weights,
         const typename Of::Floats (&correction)[Of::count], float* mixed) {
  using Isa = typename Of::Isa;
  using Floats = typename Of::Floats;
  Floats sums[Dims][Of::count];
#pragma GCC unroll 8
  for (int m = 0; m < Dims; ++m) {
#pragma GCC unroll 2
    for (int v = 0; v < Of::count; ++v) {
      sums[m][v] =
          Isa::template load<Floats>(mixed + m * Of::lanes + v * Isa::lanes) * correction[v];
    }
  }
  add_products<Of, Dims>(
      keys, weights,
      [&](int m, int64_t key) __attribute__((always_inline)) {
        return values[key * head_dim + m];
      },
      sums);
#pragma GCC unroll 8
  for (int m = 0; m < Dims; ++m) {
#pragma GCC unroll 2
    for (int v = 0; v < Of::count; ++v) {
      Isa::store(mixed + m * Of::lanes + v * Isa::lanes, sums[m][v]);
    }
  }
}

// Calls `body(first, constant size)` for tiles of `Tile` and a smaller last one.
template <int Tile, class Body>
[[gnu::always_inline]] inline void in_tiles(int64_t total, Body&& body) {
  int64_t first = 0;
  for (; first + Tile <= total; first += Tile) {
    body(first, std::integral_constant<int, Tile>{});
  }
  unrolled<Tile>([&](auto rest) __attribute__((always_inline)) {
    if constexpr (rest.value != 0) {
      if (total - first == rest.value) body(first, rest);
    }
  });
}

// Turns the scores of a chunk into weights, and gives the correction of what was summed before.
template <class Of>
[[gnu::always_inline]] inline void weigh(BlockState<Of>& state, int64_t first_key, int64_t keys,
                                         float* scores,
                                         typename Of::Floats (&correction)[Of::count]) {
  using Isa = typename Of::Isa;
  using Floats = typename Of::Floats;
  using Words = typename Isa::Words;
  const bool all_seen = first_key >= state.together.first_for_all &&
                        first_key + keys - 1 <= state.together.last_for_all;
  for (int v = 0; v < Of::count; ++v) {
    float* own = scores + v * Isa::lanes;
    const auto seen = [&](int64_t key) {
      const auto number = typename Of::Integers{} + static_cast<int32_t>(first_key + key);
      return reinterpret_cast<Words>((number >= state.first_seen[v]) &
                                     (number <= state.last_seen[v]));
    };
    Floats peak = state.peaks[v];
    for (int64_t key = 0; key < keys; ++key) {
      Floats value = Isa::template load<Floats>(own + key * Of::lanes);
      if (!all_seen) {
        const Words is_seen = seen(key);
        value = reinterpret_cast<Floats>(
            (reinterpret_cast<Words>(value) & is_seen) |
            (reinterpret_cast<Words>(Isa::splat(kUnseen)) & ~is_seen));
        Isa::store(own + key * Of::lanes, value);
      }
      peak = Isa::larger(value, peak);
    }
    correction[v] = exponential<Isa>(state.peaks[v] - peak);
    Floats total = state.totals[v] * correction[v];
    for (int64_t key = 0; key < keys; ++key) {
      Floats weight =
          exponential<Isa>(Isa::template load<Floats>(own + key * Of::lanes) - peak);
      if (!all_seen) {
        // Until a query has seen something, what it does not see is as large as its peak.
        weight = reinterpret_cast<Floats>(reinterpret_cast<Words>(weight) & seen(key));
      }
      Isa::store(own + key * Of::lanes, weight);
      total += weight;
    }
    state.peaks[v] = peak;
    state.totals[v] = total;
  }
}

// `count` numbers in float32: where they lie, or converted into `memory`.
template <class Isa, Held H>
[[gnu::always_inline]] inline const float* in_floats(const void* pages, int64_t at, int64_t count,
                                                     float* memory) {
  if constexpr (H == Held::floats) {
    return static_cast<const float*>(pages) + at;
  } else {
    const auto* from = reinterpret_cast<const uint8_t*>(static_cast<const uint16_t*>(pages) + at);
    int64_t i = 0;
    for (; i + Isa::lanes <= count; i += Isa::lanes) {
      Isa::store(memory + i, Isa::halves(from + 2 * i));
    }
    if (i < count) {
      uint8_t rest[2 * Isa::lanes] = {};
      std::memcpy(rest, from + 2 * i, 2 * (count - i));
      const auto values = Isa::halves(rest);
      std::memcpy(memory + i, &values, sizeof(float) * (count - i));
    }
    return memory;
  }
}

template <class Of, Held H>
void attend_many(const Attention& call, const AttentionItem& item, float* memory, Partial partial) {
  using Isa = typename Of::Isa;
  const int64_t all = item.queries(call);
  const AttentionScratch<Of> scratch(call, all, memory);
  const int64_t blocks = Of::blocks(all);
  for (int64_t block = 0; block < blocks; ++block) begin_block<Of>(call, item, block, scratch);
  const int64_t row_bytes = call.head_dim * held_bytes(H);
  const auto* key_memory = static_cast<const uint8_t*>(call.key_pages);
  const auto* value_memory = static_cast<const uint8_t*>(call.value_pages);
  for (int64_t key = item.first_key; key < item.end_key;) {
    const auto [at, keys] = chunk_at<Isa>(call, item, key);
    if (key + keys < item.end_key) {
      const int64_t next = chunk_at<Isa>(call, item, key + keys).at * held_bytes(H);
      prefetch<Isa>(key_memory + next, kPrefetchRows * row_bytes);
      prefetch<Isa>(value_memory + next, kPrefetchRows * row_bytes);
    }
    const float* key_rows =
        in_floats<Isa, H>(call.key_pages, at, keys * call.head_dim, scratch.keys);
    const float* value_rows =
        in_floats<Isa, H>(call.value_pages, at, keys * call.head_dim, scratch.values);
    for (int64_t block = 0; block < blocks; ++block) {
      BlockState<Of>& state = scratch.states[block];
      const int64_t own = state.together.taken(key, keys);
      if (own == 0) continue;
      const float* queries = scratch.queries + block * scratch.block_floats;
      float* mixed = scratch.mixed + block * scratch.block_floats;
      in_tiles<Of::tile>(own, [&](int64_t first, auto size) __attribute__((always_inline)) {
        if (H == Held::floats && block == 0) {
          const int64_t from = at * held_bytes(H) + first * row_bytes;
          prefetch<Isa>(key_memory + from + kPrefetchRows * row_bytes, size.value * row_bytes);
          prefetch<Isa>(value_memory + from, size.value * row_bytes);
        }
        score<Of, size.value>(key_rows + first * call.head_dim, call.head_dim, queries,
                              scratch.weights + first * Of::lanes);
      });
      typename Of::Floats correction[Of::count];
      weigh<Of>(state, key, own, scratch.weights, correction);
      in_tiles<Of::tile>(call.head_dim, [&](int64_t first, auto size)
                                                       __attribute__((always_inline)) {
        mix<Of, size.value>(value_rows + first, call.head_dim, own,
                            scratch.weights, correction, mixed + first * Of::lanes);
      });
    }
    key += keys;
  }
  for (int64_t block = 0; block < blocks; ++block) {
    end_block<Of>(call, item, block, scratch, partial);
  }
}

}  // namespace pantheon
