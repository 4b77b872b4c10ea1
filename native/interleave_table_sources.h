// The types of ternary codes, and of codes that stand in a table of sixteen values.
#pragma once

#include "interleave_long_sources.h"

namespace pantheon {

struct Iq4XsRows : SpanBlocks<Format::iq4_xs, 136, 34> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[0], 0);
    for_steps<Iq4XsRows>(span, [=](int step, uint8_t* to) {
      alignas(64) RowWords scales;
      for (int row = 0; row < kBlockRows; ++row) {
        const uint32_t low = (words[1][row] >> (4 * step)) & 15u;
        const uint32_t high = (words[0][row] >> (16 + 2 * step)) & 3u;
        scales[row] = (low | high << 4) - 32u;
      }
      Planes::octets(to, scales, 0);
      Planes::fields<4>(to + kOctetPlane, nibbles(words + 2 + 4 * step));
    });
  }
};

// Five codes of base three in an octet, read from the top by products with powers of three: 32
// octets have those of five steps, 16 those of five halves of steps, and 4 the last 16 codes.
struct Tq10Rows : SpanBlocks<Format::ternary, 54, 13, 0, 52> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[kHalf], 0);
    for_steps<Tq10Rows>(span, [=](int step, uint8_t* to) {
      Planes::fields<2>(to, [=](int k, int v) {
        if (step < 5) return digits(words[k], v, step);
        const int half = (step - 5) * 2 + k / 4;
        if (half < 5) return digits(words[8 + k % 4], v, half);
        return digits(words[12], v, k % 4);
      });
    });
  }

  // The digits of a place from the four octets of each word.
  [[gnu::always_inline]] static Planes::Words digits(const RowWords& of, int v, int place) {
    constexpr uint32_t powers[] = {1, 3, 9, 27, 81};
    constexpr uint32_t even = 0x00ff00ffu;
    const auto word = Planes::load(of, v);
    const auto digit = [power = powers[place]](auto octets) {
      return ((((octets * power) & even) * 3u) >> 8) & even;
    };
    return digit(word & even) | digit((word >> 8) & even) << 8;
  }
};

struct Tq20Rows : SpanBlocks<Format::ternary, 66, 16, 0, 64> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[kHalf], 0);
    for_steps<Tq20Rows>(span, [=](int step, uint8_t* to) {
      Planes::fields<2>(to, two_bits(words, step));
    });
  }
};

inline constexpr uint32_t kMagnitudes = 0x77777777u;   // Of floats of four bits; 8 is the sign.

struct Mxfp4Rows : SpanBlocks<Format::mxfp4, 17, 4, 1, 0> {
  static void write(const RowWords* words, uint8_t* span) {
    alignas(64) RowWords exponents;
    for (int row = 0; row < kBlockRows; ++row) {
      const uint32_t all = words[0][row] | words[1][row] | words[2][row] | words[3][row];
      // Zeros need no scale; a large one would cost their neighbours digits.
      exponents[row] = (all & kMagnitudes) != 0 ? words[kHalf][row] : 0;
    }
    Planes::octets(span, exponents, 0);
    Planes::fields<4>(span + kOctetPlane, nibbles(words));
  }
};

struct Nvfp4Rows : SpanBlocks<Format::nvfp4, 36, 9> {
  static constexpr int kSteps = 2;   // Whose scales stand together, in front of their codes.

  static void write(const RowWords* words, uint8_t* span) {
    for_steps<Nvfp4Rows>(span, [=](int step, uint8_t* to) {
      for (int group = 0; group < 2; ++group) {
        const RowWords* codes = words + 1 + 4 * step + 2 * group;
        alignas(64) RowWords scales;
        for (int row = 0; row < kBlockRows; ++row) {
          const bool zeros = ((codes[0][row] | codes[1][row]) & kMagnitudes) == 0;
          const uint32_t scale = (words[0][row] >> (16 * step + 8 * group)) & 255u;
          scales[row] = zeros ? 0 : half_of(scale);
        }
        Planes::halves(to + group * kHalfPlane, scales, 0);
      }
      Planes::fields<4>(
          to + 2 * kHalfPlane,
          [low = nibbles<2>(words + 1 + 4 * step),
           high = nibbles<2>(words + 3 + 4 * step)](int k, int v) {
            return k < 4 ? low(k, v) : high(k - 4, v);
          });
    });
  }

  // Half of an unsigned float of 4 bits of exponent and 3 of mantissa, in float16, where its
  // smallest values are normal. ggml reads the pattern of NaN as zero.
  static uint32_t half_of(uint32_t scale) {
    constexpr uint16_t subnormal[8] = {0, 0x1400, 0x1800, 0x1a00, 0x1c00, 0x1d00, 0x1e00, 0x1f00};
    const uint32_t exponent = (scale >> 3) & 15u, mantissa = scale & 7u;
    if (scale == 0x7fu) return 0;
    return exponent == 0 ? subnormal[mantissa] : (exponent + 7) << 10 | mantissa << 7;
  }
};

}  // namespace pantheon
