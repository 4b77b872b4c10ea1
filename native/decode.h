// From the codes of one step to floats, in registers.
#pragma once

#include <cstdint>
#include <utility>

#include "layout.h"

namespace pantheon {

template <class Body, int... Index>
[[gnu::always_inline]] inline void unrolled_over(std::integer_sequence<int, Index...>,
                                                 Body&& body) {
  (body(std::integral_constant<int, Index>{}), ...);
}

// Calls `body` with the constants 0 to Count - 1.
template <int Count, class Body>
[[gnu::always_inline]] inline void unrolled(Body&& body) {
  unrolled_over(std::make_integer_sequence<int, Count>{}, std::forward<Body>(body));
}

constexpr float power_of_two(int exponent) {
  float power = 1;
  for (int i = 0; i < exponent; ++i) power *= 2;
  for (int i = 0; i > exponent; --i) power /= 2;
  return power;
}

// From a code to its value, `scale * code + offset`, for `Count` vectors of rows.
template <class Isa, int Count>
struct Scales {
  typename Isa::Floats scale[Count];
  typename Isa::Floats offset[Count];
};

// Decodes the 32 columns of `Count` vectors of rows, whose codes of `Bits` bits stand in 32-bit
// words: field j of word i is that of column j * Bits + i.
//
// A code is not moved to the lowest bits: masked where it stands and converted, it is its value
// times a power of two, which the scale of its field takes back, exactly. That saves the shift,
// the dearest instruction of the loop on many processors.
//
// `word(i, v)` gives word i of vector v; `scales(g)` the map of the g-th group of `Group` columns.
// `sink.take(column, scaled)` takes a column's `scale * code`, and `sink.offset(group, offset)`
// comes after the columns of each group: offsets are left to it, because a product with them all
// takes the sum of the group's activations and one instruction.
template <class Isa, int Count, int Bits, int Group, class Word, class ScalesOf, class Sink>
[[gnu::always_inline]] inline void decode_fields(Word&& word, ScalesOf&& scales, Sink&& sink) {
  constexpr int fields = 32 / Bits;
  constexpr int words = Bits;
  constexpr uint32_t mask = (1u << Bits) - 1;
  // The highest field would be converted as a signed number: it alone is moved.
  constexpr auto exponent = [](int field) { return field == fields - 1 ? 0 : -Bits * field; };
  Scales<Isa, Count> map;
  unrolled<fields>([&](auto constant) __attribute__((always_inline)) {
    constexpr int field = decltype(constant)::value;
    constexpr int first = field * words;
    constexpr bool begins = first % Group == 0;
    if constexpr (begins) map = scales(first / Group);
    constexpr int step = exponent(field) - (begins ? 0 : exponent(field - 1));
    if constexpr (step != 0) {
      for (auto& scale : map.scale) scale *= power_of_two(step);
    }
#pragma GCC unroll 8
    for (int i = 0; i < words; ++i) {
      typename Isa::Floats scaled[Count];
#pragma GCC unroll 8
      for (int v = 0; v < Count; ++v) {
        const typename Isa::Words packed = word(i, v);
        const typename Isa::Words code =
            field == fields - 1 ? packed >> (32 - Bits) : packed & (mask << (Bits * field));
        scaled[v] = Isa::converted(code) * map.scale[v];
      }
      sink.take(first + i, scaled);
    }
    if constexpr ((first + words) % Group == 0) sink.offset(first / Group, map.offset);
  });
}

}  // namespace pantheon
