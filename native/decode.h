// From the codes of one step to floats, in registers.
#pragma once

#include <cstdint>

#include "formats.h"
#include "plain.h"
#include "unrolled.h"

namespace pantheon {

constexpr float power_of_two(int exponent) {
  float power = 1;
  for (int i = 0; i < exponent; ++i) power *= 2;
  for (int i = 0; i > exponent; --i) power /= 2;
  return power;
}

// Words that several fields are taken from. Those that are put together are so once.
template <class Isa, Format F, int Count>
struct StepWords {
  typename Isa::Words words[Codec<F>::kBits][Count];

  [[gnu::always_inline]] StepWords(const uint8_t* step, int row) {
    const auto word = Codec<F>::template words<Isa>(step, row);
#pragma GCC unroll 16
    for (int i = 0; i < Codec<F>::kBits; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < Count; ++v) words[i][v] = word(i, v);
    }
  }

  typename Isa::Words operator()(int word, int vector) const { return words[word][vector]; }
};

template <class Isa, Format F, int Count>
[[gnu::always_inline]] inline auto words_of(const uint8_t* step, int row) {
  if constexpr (Codec<F>::kMade) {
    return StepWords<Isa, F, Count>(step, row);
  } else {
    return Codec<F>::template words<Isa>(step, row);
  }
}

// Columns that share a scale and an offset; 0 where there is none.
template <Format F>
constexpr int group_columns() {
  if constexpr (is_plain(F)) {
    return 0;
  } else {
    return Codec<F>::kGroup;
  }
}

// Decodes the 32 columns of `Count` vectors of rows, in rising order.
//
// A code is not moved to the lowest bits: masked where it stands and converted, it is its value
// times a power of two, which the scale of its field takes back, exactly. That saves the shift,
// the dearest instruction of the loop on many processors.
//
// `sink.take(column, scaled)` takes a column's `scale * code`, and `sink.offset(group, offset)`
// comes after the columns of each group: offsets are left to it, because a product with them all
// takes the sum of the group's activations and one instruction.
template <class Isa, Format F, int Count, class Sink>
[[gnu::always_inline]] inline void decode_codes(const uint8_t* head, const uint8_t* step,
                                                int row, Sink&& sink) {
  using Of = Codec<F>;
  constexpr int bits = Of::kBits;
  constexpr int fields = 32 / bits;
  constexpr uint32_t mask = (1u << bits) - 1;
  // Columns whose places follow one another.
  constexpr int run = bits < 8 ? bits : 8;
  constexpr auto field_of = [](int turn) { return place_of_column(turn * run) / bits; };
  // The highest field would be converted as a signed number: it alone is moved.
  constexpr auto exponent = [](int field) { return field == fields - 1 ? 0 : -bits * field; };
  const auto word = words_of<Isa, F, Count>(step, row);
  typename Isa::Floats scale[Count], offset[Count];
  unrolled<kStepColumns / run>([&](auto constant) __attribute__((always_inline)) {
    constexpr int turn = decltype(constant)::value;
    constexpr int field = field_of(turn);
    constexpr int first = turn * run;
    constexpr int first_word = place_of_column(first) % bits;
    constexpr int group = first / Of::kGroup;
    constexpr bool begins = first % Of::kGroup == 0;
    if constexpr (begins) {
      for (int v = 0; v < Count; ++v) {
        const int at = row + v * Isa::lanes;
        const auto of_span = Of::template head<Isa>(head, at);
        scale[v] = Of::template scale<Isa>(of_span, step, at, group);
        if constexpr (Of::kHasMinimum) {
          offset[v] = Of::template minimum<Isa>(of_span, step, at, group);
        } else {
          offset[v] = scale[v] * static_cast<float>(-Of::kZero);
        }
      }
    }
    constexpr int before = begins ? 0 : exponent(field_of(turn - 1));
    if constexpr (exponent(field) != before) {
      for (auto& one : scale) one *= power_of_two(exponent(field) - before);
    }
#pragma GCC unroll 8
    for (int i = 0; i < run; ++i) {
      typename Isa::Floats scaled[Count];
#pragma GCC unroll 8
      for (int v = 0; v < Count; ++v) {
        const typename Isa::Words packed = word(first_word + i, v);
        const typename Isa::Words code =
            field == fields - 1 ? packed >> (32 - bits) : packed & (mask << (bits * field));
        scaled[v] = Isa::converted(code) * scale[v];
      }
      sink.take(first + i, scaled);
    }
    if constexpr ((first + run) % Of::kGroup == 0) sink.offset(group, offset);
  });
}

template <class Isa, Format F, int Count, class Sink>
[[gnu::always_inline]] inline void decode(const uint8_t* head, const uint8_t* step, int row,
                                          Sink&& sink) {
  if constexpr (is_plain(F)) {
    load_plain<Isa, F, Count>(step, row, sink);
  } else {
    decode_codes<Isa, F, Count>(head, step, row, sink);
  }
}

}  // namespace pantheon
