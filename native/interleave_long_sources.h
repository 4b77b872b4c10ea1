// The types of 256 columns: what is where in a block (ggml, ggml-common.h and ggml-quants.c).
#pragma once

#include "interleave_short_sources.h"

namespace pantheon {

// Codes of 2 bits: four steps share 32 octets.
[[gnu::always_inline]] inline auto two_bits(const RowWords* codes, int step) {
  return [codes = codes + step / 4 * 8, shift = step % 4 * 2](int k, int v) {
    return (Planes::load(codes[k], v) >> shift) & 0x03030303u;
  };
}

// Codes of 4 bits: two steps share 32 octets.
[[gnu::always_inline]] inline auto nibble_steps(const RowWords* codes, int step) {
  return [codes = codes + step / 2 * 8, shift = step % 2 * 4](int k, int v) {
    return (Planes::load(codes[k], v) >> shift) & kNibbles;
  };
}

// One bit of each code: octet c has those of column c of all steps. At a place of the code.
[[gnu::always_inline]] inline auto bits_of_step(const RowWords* octets, int step, int place) {
  return [=](int k, int v) {
    return ((Planes::load(octets[k], v) >> step) & 0x01010101u) << place;
  };
}

// Two octets of a step out of words that have those of all steps.
inline void put_two_octets(uint8_t* planes, const RowWords* words, int step) {
  const int shift = step % 2 * 16;
  Planes::octets(planes, words[step / 2], shift);
  Planes::octets(planes + kOctetPlane, words[step / 2], shift + 8);
}

// Writes the steps of a span: `write_step(step, where)`.
template <class Source, class Write>
[[gnu::always_inline]] inline void for_steps(uint8_t* span, Write&& write_step) {
  constexpr Layout layout = layout_of(Source::kFormat);
  for (int step = 0; step < Source::kSteps; ++step) {
    write_step(step, span + layout.head_bytes + step * layout.step_bytes);
  }
}

struct Q2KRows : SpanBlocks<Format::q2_k, 84, 21> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[20], 0);
    Planes::halves(span + kHalfPlane, words[20], 16);
    for_steps<Q2KRows>(span, [=](int step, uint8_t* to) {
      put_two_octets(to, words, step);
      Planes::fields<2>(to + 2 * kOctetPlane, two_bits(words + 4, step));
    });
  }
};

struct Q3KRows : SpanBlocks<Format::q3_k, 110, 27, 0, 108> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[kHalf], 0);
    // Four bits of each of the sixteen scales, then the upper two.
    alignas(64) RowWords scales[4];
    for (int i = 0; i < 4; ++i) {
      for (int row = 0; row < kBlockRows; ++row) {
        const uint32_t low = (words[24 + i % 2][row] >> (i / 2 * 4)) & kNibbles;
        const uint32_t high = (words[26][row] >> (2 * i)) & 0x03030303u;
        // Less 32 in each octet, with a bit set that no borrow passes.
        scales[i][row] = ((low | high << 4 | kSigns) - 0x20202020u) ^ kSigns;
      }
    }
    for_steps<Q3KRows>(span, [=, &scales](int step, uint8_t* to) {
      put_two_octets(to, scales, step);
      Planes::odd_bits<3>(
          to + 2 * kOctetPlane, [low = two_bits(words + 8, step),
                                 high = bits_of_step(words, step, 2)](int k, int v) {
            return low(k, v) | high(k, v);
          });
    });
  }
};

// Scales and minima of six bits for eight steps, in three words: two planes for each step.
template <class Source>
void put_scales_and_minima(const RowWords* words, uint8_t* span) {
  alignas(64) RowWords scales[2], minima[2];
  for (int row = 0; row < kBlockRows; ++row) {
    const uint32_t a = words[0][row], b = words[1][row], rest = words[2][row];
    scales[0][row] = a & 0x3f3f3f3fu;
    scales[1][row] = (rest & kNibbles) | ((a >> 2) & 0x30303030u);
    minima[0][row] = b & 0x3f3f3f3fu;
    minima[1][row] = ((rest >> 4) & kNibbles) | ((b >> 2) & 0x30303030u);
  }
  for_steps<Source>(span, [&](int step, uint8_t* to) {
    Planes::octets(to, scales[step / 4], step % 4 * 8);
    Planes::octets(to + kOctetPlane, minima[step / 4], step % 4 * 8);
  });
}

struct Q4KRows : SpanBlocks<Format::q4_k, 144, 36> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[0], 0);
    Planes::halves(span + kHalfPlane, words[0], 16);
    put_scales_and_minima<Q4KRows>(words + 1, span);
    for_steps<Q4KRows>(span, [=](int step, uint8_t* to) {
      Planes::fields<4>(to + 2 * kOctetPlane, nibble_steps(words + 4, step));
    });
  }
};

struct Q5KRows : SpanBlocks<Format::q5_k, 176, 44> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[0], 0);
    Planes::halves(span + kHalfPlane, words[0], 16);
    put_scales_and_minima<Q5KRows>(words + 1, span);
    for_steps<Q5KRows>(span, [=](int step, uint8_t* to) {
      Planes::odd_bits<5>(
          to + 2 * kOctetPlane, [low = nibble_steps(words + 12, step),
                                 high = bits_of_step(words + 4, step, 4)](int k, int v) {
            return low(k, v) | high(k, v);
          });
    });
  }
};

struct Q6KRows : SpanBlocks<Format::q6_k, 210, 52, 0, 208> {
  static void write(const RowWords* words, uint8_t* span) {
    Planes::halves(span, words[kHalf], 0);
    for_steps<Q6KRows>(span, [=](int step, uint8_t* to) {
      put_two_octets(to, words + 48, step);
      const RowWords* low = words + step / 4 * 16 + step % 2 * 8;
      const int shift = step % 4 / 2 * 4;
      Planes::six_bits(
          to + 2 * kOctetPlane,
          [=, high = two_bits(words + 32, step)](int k, int v) {
            return ((Planes::load(low[k], v) >> shift) & kNibbles) | high(k, v) << 4;
          });
    });
  }
};

}  // namespace pantheon
