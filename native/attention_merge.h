// From the parts of a row's keys to results.
#pragma once

#include "attention_lanes.h"
#include "exponential.h"

namespace pantheon {

template <class Isa>
void merge_partials(const Attention& call, const AttentionItem& item, float* partials,
                    int64_t count) {
  using Floats = typename Isa::Floats;
  const int64_t queries = item.queries(call);
  const int64_t step = partial_floats(queries, call.head_dim);
  for (int64_t query = 0; query < queries; ++query) {
    float peak = kUnseen;
    for (int64_t i = 0; i < count; ++i) {
      const float own = partial_at(partials + i * step, queries).peaks[query];
      if (own > peak) peak = own;
    }
    float total = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Partial partial = partial_at(partials + i * step, queries);
      // In place of the peaks, which are of no more use, the weights of the parts.
      partial.peaks[query] = exponential<Isa>(Isa::splat(partial.peaks[query] - peak))[0];
      total += partial.totals[query] * partial.peaks[query];
    }
    // What sees nothing is padding. A total of zero otherwise makes no numbers, as it should.
    const QueryPlace place = place_of(call, item, query);
    const Seen seen = seen_by(call, item.row, place.token);
    const float divisor = seen.first <= seen.last ? total : 1;
    const auto summed = [&](int64_t d, auto&& load) __attribute__((always_inline)) {
      auto sum = load(partial_at(partials, queries).mixed + query * call.head_dim + d) *
                 partial_at(partials, queries).peaks[query];
      for (int64_t i = 1; i < count; ++i) {
        const Partial partial = partial_at(partials + i * step, queries);
        sum += load(partial.mixed + query * call.head_dim + d) * partial.peaks[query];
      }
      return sum / divisor;
    };
    float* result = call.results + place.offset;
    int64_t d = 0;
    for (; d + Isa::lanes <= call.head_dim; d += Isa::lanes) {
      Isa::store(result + d, summed(d, [](const float* from) __attribute__((always_inline)) {
                   return Isa::template load<Floats>(from);
                 }));
    }
    for (; d < call.head_dim; ++d) {
      result[d] = summed(d, [](const float* from) { return *from; });
    }
  }
}

// No number in place of what float16 cannot hold. Infinite, a key would be one that some queries
// never look at: the overflow would be seen by chance only.
template <class Isa>
[[gnu::always_inline]] inline typename Isa::Floats within_halves(typename Isa::Floats values) {
  using Words = typename Isa::Words;
  const Words bits = reinterpret_cast<Words>(values);
  const Words is_held =
      reinterpret_cast<Words>(Isa::reinterpreted(bits & 0x7fffffffu) < Isa::splat(65520.0f));
  return Isa::reinterpreted(bits | (~is_held & 0x7fc00000u));
}

template <class Isa>
void to_halves(const float* from, uint16_t* to, int64_t count) {
  using Floats = typename Isa::Floats;
  int64_t i = 0;
  for (; i + Isa::lanes <= count; i += Isa::lanes) {
    Isa::store_halves(to + i, within_halves<Isa>(Isa::template load<Floats>(from + i)));
  }
  if (i < count) {
    float rest[Isa::lanes] = {};
    uint16_t halves[Isa::lanes];
    std::memcpy(rest, from + i, sizeof(float) * (count - i));
    Isa::store_halves(halves, within_halves<Isa>(Isa::template load<Floats>(rest)));
    std::memcpy(to + i, halves, sizeof(uint16_t) * (count - i));
  }
}

}  // namespace pantheon
