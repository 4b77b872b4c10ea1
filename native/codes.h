// How the codes of a step stand in its planes, and how they are brought to words in registers.
//
// The columns of a step are placed as `layout.h` says: the two columns whose codes a 32-bit lane
// multiplies at once are 16 places apart. A word of codes of `Bits` bits holds those of the places
// j * Bits + i for word i of `Bits` words.
#pragma once

#include <cstdint>

#include "layout.h"

namespace pantheon {

inline constexpr int kHalfPlane = kBlockRows * 2;   // Bytes of one float16 for each row.
inline constexpr int kOctetPlane = kBlockRows;      // One byte for each row.
inline constexpr int kWordPlane = kBlockRows * 4;   // One word for each row.

// Word planes as they lie in memory.
template <class Isa>
struct WordPlanes {
  const uint8_t* planes;
  int row;

  typename Isa::Words operator()(int plane, int vector) const {
    return Isa::words(planes + plane * kWordPlane + (row + vector * Isa::lanes) * 4);
  }
};

// The bits of `value` moved from position `from` to position `to`.
template <class Words>
[[gnu::always_inline]] inline Words moved(Words value, int from, int to) {
  return from < to ? value << (to - from) : value >> (from - to);
}

// Four-bit fields made into eight-bit ones: words 0 to 3 take the lower halves of the octets of
// the planes, words 4 to 7 the upper ones. `change(word, i, v)` adds what stands above.
template <class Isa, class Change>
struct OctetWords {
  WordPlanes<Isa> nibbles;
  Change change;

  [[gnu::always_inline]] typename Isa::Words operator()(int word, int vector) const {
    const typename Isa::Words both = nibbles(word % 4, vector);
    return change((word < 4 ? both : both >> 4) & 0x0f0f0f0fu, word, vector);
  }
};

template <class Isa, class Change>
[[gnu::always_inline]] inline OctetWords<Isa, Change> octet_words(const uint8_t* nibbles, int row,
                                                                  Change change) {
  return {{nibbles, row}, change};
}

// Codes of five bits: four of them in nibbles, the fifth of place 8 * j + i at bit 8 * j + i.
template <class Isa>
[[gnu::always_inline]] inline auto five_bits(const uint8_t* nibbles, int row) {
  const WordPlanes<Isa> fifth{nibbles + 4 * kWordPlane, row};
  return octet_words<Isa>(nibbles, row, [fifth](typename Isa::Words low, int i, int v) {
    return low | (moved(fifth(0, v), i, 4) & 0x10101010u);
  });
}

// Codes of six bits, as words of pairs: each half of a lane holds those of eight places, which
// share a scale, in three words. Two are whole in each word, and the upper four bits of the first
// two words are the lower ones of the other two codes.
template <class Isa>
[[gnu::always_inline]] inline auto six_bits(const uint8_t* planes, int row) {
  const WordPlanes<Isa> of_step{planes, row};
  return [of_step](int pair, int v) {
    const int i = pair % 8;
    const auto word = [&](int plane) { return of_step(pair / 8 * 3 + plane, v); };
    if (i < 6) return (word(i / 2) >> (i % 2 * 6)) & 0x003f003fu;
    return Isa::template upper_of_halves<12>(word(i - 6)) |
           ((word(2) >> (i == 6 ? 8 : 10)) & 0x00300030u);
  };
}

// Codes of three bits: two of them as the upper ones of six bits, the third as the fifth of five.
template <class Isa>
[[gnu::always_inline]] inline auto three_bits(const uint8_t* planes, int row) {
  const WordPlanes<Isa> low{planes, row};
  const WordPlanes<Isa> third{planes + 2 * kWordPlane, row};
  return [low, third](int i, int v) {
    return (moved(low(i / 4, v), i % 4 * 2, 0) & 0x03030303u) |
           (moved(third(0, v), i, 2) & 0x04040404u);
  };
}

template <class Isa>
[[gnu::always_inline]] inline auto table_codes(const uint8_t* nibbles, int row,
                                               const uint8_t (&table)[16]) {
  return octet_words<Isa>(nibbles, row, [&table](typename Isa::Words index, int, int) {
    return Isa::looked_up(index, table);
  });
}

// Tables of signed values, made positive. No more than needed is added: it is taken off again in
// the product, with what the larger numbers lost by rounding.
inline constexpr uint8_t kUnevenSteps[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                             129, 141, 153, 166, 181, 197, 217, 241};
inline constexpr int kUnevenZero = 128;
inline constexpr uint8_t kFourBitFloats[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                               12, 11, 10, 9,  8,  6,  4,  0};
inline constexpr int kFourBitZero = 12;

}  // namespace pantheon
