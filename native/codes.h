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

// Codes of three or five bits, as words of pairs: each half of a lane holds those of 16 places in as
// many words as they have bits. Fifteen are whole in the lower bits of these; of the last, bit w is
// the highest of word w.
template <class Isa, int Bits>
[[gnu::always_inline]] inline auto odd_bits(const uint8_t* planes, int row) {
  static_assert(15 % Bits == 0);
  const WordPlanes<Isa> word{planes, row};
  return [word](int pair, int v) {
    constexpr int whole = 15 / Bits;
    constexpr uint32_t mask = ((1u << Bits) - 1) * 0x10001u;
    if (pair < 15) return (word(pair / whole, v) >> (pair % whole * Bits)) & mask;
    typename Isa::Words last = Isa::template upper_of_halves<15>(word(0, v));
#pragma GCC unroll 4
    for (int bit = 1; bit < Bits; ++bit) {
      last |= (word(bit, v) >> (15 - bit)) & (0x10001u << bit);
    }
    return last;
  };
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

// Codes of eight bits that stand in a table: words 0 to 3 are those that the lower halves of the
// octets of the planes are indices of, words 4 to 7 those of the upper ones.
template <class Isa>
[[gnu::always_inline]] inline auto table_codes(const uint8_t* nibbles, int row,
                                               const uint8_t (&table)[16]) {
  const WordPlanes<Isa> indices{nibbles, row};
  return [indices, &table](int word, int v) {
    const typename Isa::Words both = indices(word % 4, v);
    return Isa::looked_up((word < 4 ? both : both >> 4) & 0x0f0f0f0fu, table);
  };
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
