// The types of 32 or 64 columns, and plain floats: what is where in a row (ggml, ggml-common.h).
#pragma once

#include "interleave_rows.h"

namespace pantheon {

inline constexpr uint32_t kNibbles = 0x0f0f0f0fu;   // The lower four bits of each octet.
inline constexpr uint32_t kSigns = 0x80808080u;     // Turn signed octets into numbers 128 higher.

// Codes of 4 bits in so many words from `first` on: the lower halves of their octets, then the
// upper ones.
template <int Count = 4>
[[gnu::always_inline]] inline auto nibbles(const RowWords* first) {
  return [first](int k, int v) {
    const auto both = Planes::load(first[k % Count], v);
    return (k < Count ? both : both >> 4) & kNibbles;
  };
}

// The same with a fifth bit each, those of all columns in one word.
[[gnu::always_inline]] inline auto nibbles_and_fifths(const RowWords& fifths,
                                                      const RowWords* first) {
  return [&fifths, low = nibbles(first)](int k, int v) {
    auto bits = (Planes::load(fifths, v) >> (4 * k)) & 15u;
    bits |= bits << 7;   // To the first bit of each octet: they move apart by seven ...
    bits |= bits << 14;
    return low(k, v) | (bits & 0x01010101u) << 4;   // ... and then to the fifth.
  };
}

struct F32Rows : SpanBlocks<Format::f32, 128, 32> {
  static void write(const RowWords* words, uint8_t* span) {
    std::memcpy(span, words, sizeof(RowWords) * 32);
  }
};

template <Format F>
struct HalfRows : SpanBlocks<F, 64, 16> {
  static void write(const RowWords* words, uint8_t* span) {
    for (int i = 0; i < 16; ++i) {
      Planes::halves(span + 2 * i * kHalfPlane, words[i], 0);
      Planes::halves(span + (2 * i + 1) * kHalfPlane, words[i], 16);
    }
  }
};

template <Format F>
struct NibbleRows : SpanBlocks<F, 18, 4, 2, 0> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[NibbleRows::kHalf], 0);
    Planes::fields<4>(span + kHalfPlane, nibbles(words));
  }
};

struct Q41Rows : SpanBlocks<Format::q4_1, 20, 5> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[0], 0);
    Planes::halves(span + kHalfPlane, words[0], 16);
    Planes::fields<4>(span + 2 * kHalfPlane, nibbles(words + 1));
  }
};

struct Q50Rows : SpanBlocks<Format::q5_0, 22, 5, 2, 0> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[kHalf], 0);
    Planes::odd_bits<5>(span + kHalfPlane,
                                      nibbles_and_fifths(words[0], words + 1));
  }
};

struct Q51Rows : SpanBlocks<Format::q5_1, 24, 6> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[0], 0);
    Planes::halves(span + kHalfPlane, words[0], 16);
    Planes::odd_bits<5>(span + 2 * kHalfPlane,
                                      nibbles_and_fifths(words[1], words + 2));
  }
};

struct Q80Rows : SpanBlocks<Format::q8_0, 34, 8, 2, 0> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[kHalf], 0);
    Planes::fields<8>(
        span + kHalfPlane, [=](int k, int v) { return Planes::load(words[k], v) ^ kSigns; });
  }
};

// Our own type: codes of a whole row, then its scales.
struct Int8Rows {
  static constexpr Format kFormat = Format::int8;
  static constexpr int kSteps = 2;
  static constexpr int kCodes = kSteps * kStepColumns;
  static constexpr int kBytes = kCodes + 4;
  static constexpr int kWords = 17;

  static void gather(const RowBlock& of, int64_t index, RowWords* words) {
    for (int row = 0; row < kBlockRows; ++row) {
      const uint8_t* codes = of.rows[row] + index * kCodes;
      for (int i = 0; i < 16; ++i) std::memcpy(&words[i][row], codes + 4 * i, sizeof(uint32_t));
      std::memcpy(&words[16][row], of.rows[row] + of.columns + 4 * index, sizeof(uint32_t));
    }
  }

  static void write(const RowWords* words, uint8_t* span) {
    std::memcpy(span, words[16], kWordPlane);
    for (int step = 0; step < kSteps; ++step) {
      Planes::fields<8>(
          span + kWordPlane + step * layout_of(kFormat).step_bytes, [=](int k, int v) {
            return Planes::load(words[8 * step + k], v) ^ kSigns;
          });
    }
  }
};

}  // namespace pantheon
