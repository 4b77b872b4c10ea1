// The planes of a step, written for all 32 rows of a block.
//
// Codes come in fours: octet c of `four(k, v)`, for the rows of vector v, is the code of column
// 4 * k + c. What a place holds, and how places share words, is said in `layout.h` and `codes.h`.
#pragma once

#include <cstring>

#include "codes.h"
#include "isa_portable.h"

namespace pantheon {

// Words of the source, one for each row: `words[w][row]`.
using RowWords = uint32_t[kBlockRows];

// One set of instructions for all processors: most of the time goes into bringing words of rows
// together, which larger vectors do no faster (measured with AVX2).
struct Planes {
  using Isa = Portable;
  using Words = Isa::Words;
  static constexpr int kVectors = kBlockRows / Isa::lanes;

  static Words load(const RowWords& words, int v) {
    return Isa::words(reinterpret_cast<const uint8_t*>(words + v * Isa::lanes));
  }

  static void store(uint8_t* plane, int v, Words words) {
    std::memcpy(plane + v * sizeof words, &words, sizeof words);
  }

  // Bits `shift` and up of each word, as an octet or as 16 bits.
  static void octets(uint8_t* plane, const RowWords& words, int shift) {
    uint8_t narrow[kBlockRows];
    for (int row = 0; row < kBlockRows; ++row) {
      narrow[row] = static_cast<uint8_t>(words[row] >> shift);
    }
    std::memcpy(plane, narrow, sizeof narrow);
  }

  static void halves(uint8_t* plane, const RowWords& words, int shift) {
    uint16_t narrow[kBlockRows];
    for (int row = 0; row < kBlockRows; ++row) {
      narrow[row] = static_cast<uint16_t>(words[row] >> shift);
    }
    std::memcpy(plane, narrow, sizeof narrow);
  }

  // Codes of 2, 4 or 8 bits. Those of places 8 apart are neighbours in a word, so that the octets
  // of each eight of places, its codes joined, become one octet of each word.
  template <int Bits, class Fours>
  [[gnu::always_inline]] static void fields(uint8_t* planes, Fours&& four) {
    for (int v = 0; v < kVectors; ++v) {
      Words low[4], high[4];
      for (int eight = 0; eight < 4; ++eight) {
        low[eight] = four(at_place(2 * eight), v);
        high[eight] = four(at_place(2 * eight + 1), v);
      }
      if constexpr (Bits == 8) {
        put_exchanged<4>(planes, v, low);
        put_exchanged<4>(planes + 4 * kWordPlane, v, high);
      } else {
        for (int eight = 0; eight < 4; ++eight) {
          low[eight] |= high[eight] << 4;
          if constexpr (Bits == 2) low[eight] |= low[eight] >> 14;
        }
        put_exchanged<Bits>(planes, v, low);
      }
    }
  }

  // Codes of 3 or 5 bits.
  template <int Bits, class Fours>
  [[gnu::always_inline]] static void odd_bits(uint8_t* planes, Fours&& four) {
    constexpr int whole = 15 / Bits;
    for (int v = 0; v < kVectors; ++v) {
      Words pair[16];
      make_pairs(pair, four, v);
      for (int index = 0; index < Bits; ++index) {
        Words word = ((pair[15] >> index) & 0x00010001u) << 15;
        for (int code = 0; code < whole; ++code) {
          word |= pair[index * whole + code] << (Bits * code);
        }
        store(planes + index * kWordPlane, v, word);
      }
    }
  }

  // Codes of six bits.
  template <class Fours>
  [[gnu::always_inline]] static void six_bits(uint8_t* planes, Fours&& four) {
    for (int v = 0; v < kVectors; ++v) {
      Words pair[16];
      make_pairs(pair, four, v);
      for (int eight = 0; eight < 2; ++eight) {
        const Words* of = pair + 8 * eight;
        uint8_t* to = planes + 3 * eight * kWordPlane;
        const Words lower = 0x000f000fu + Words{};
        store(to, v, of[0] | of[1] << 6 | (of[6] & lower) << 12);
        store(to + kWordPlane, v, of[2] | of[3] << 6 | (of[7] & lower) << 12);
        const Words upper = ((of[6] >> 4) & lower) << 12 | ((of[7] >> 4) & lower) << 14;
        store(to + 2 * kWordPlane, v, of[4] | of[5] << 6 | upper);
      }
    }
  }

 private:
  // Which four of columns stands at a four of places.
  static constexpr int at_place(int four) { return (four & 1) | (four & 2) << 1 | (four & 4) >> 1; }

  // Plane i gets octet i of each of four words.
  template <int Count>
  [[gnu::always_inline]] static void put_exchanged(uint8_t* planes, int v, const Words (&of)[4]) {
    constexpr uint32_t even = 0x00ff00ffu, lower = 0x0000ffffu;
    const Words even01 = (of[0] & even) | (of[1] & even) << 8;
    const Words even23 = (of[2] & even) | (of[3] & even) << 8;
    const Words odd01 = ((of[0] >> 8) & even) | (of[1] & ~even);
    const Words odd23 = ((of[2] >> 8) & even) | (of[3] & ~even);
    store(planes, v, (even01 & lower) | even23 << 16);
    store(planes + kWordPlane, v, (odd01 & lower) | odd23 << 16);
    if constexpr (Count == 4) {
      store(planes + 2 * kWordPlane, v, even01 >> 16 | (even23 & ~lower));
      store(planes + 3 * kWordPlane, v, odd01 >> 16 | (odd23 & ~lower));
    }
  }

  // Codes of the places i and 16 + i in the halves of a word.
  template <class Fours>
  [[gnu::always_inline]] static void make_pairs(Words (&pair)[16], Fours&& four, int v) {
    constexpr uint32_t even = 0x00ff00ffu, lower = 0x0000ffffu;
    for (int k = 0; k < 4; ++k) {
      const Words first = four(at_place(k), v), second = four(at_place(4 + k), v);
      const Words lows = (first & lower) | second << 16, highs = first >> 16 | (second & ~lower);
      pair[4 * k] = lows & even;
      pair[4 * k + 1] = (lows >> 8) & even;
      pair[4 * k + 2] = highs & even;
      pair[4 * k + 3] = (highs >> 8) & even;
    }
  }
};

}  // namespace pantheon
