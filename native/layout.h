// How matrices lie in memory for the kernels. `interleave.h` writes it, and `layouts.py` of the
// Python side.
//
// The rows (outputs) of a matrix are taken in blocks of 32, the columns (inputs) in steps of 32.
// A block holds its steps one after another, so that it is read once in address order; within a
// step every plane has one entry for each of the 32 rows side by side, so that one vector load
// gives the same column of several rows. Types whose scales span several steps put what those
// steps share in front of them: a span.
#pragma once

#include <cstdint>

namespace pantheon {

inline constexpr int kBlockRows = 32;
inline constexpr int kStepColumns = 32;

// Numbers are part of the interface with Python.
enum class Format : int64_t {
  f32 = 0,
  f16 = 1,
  bf16 = 2,
  q4_0 = 3,
  q4_1 = 4,
  q5_0 = 5,
  q5_1 = 6,
  q8_0 = 7,
  q2_k = 8,
  q3_k = 9,
  q4_k = 10,
  q5_k = 11,
  q6_k = 12,
  iq4_nl = 13,
  iq4_xs = 14,
  ternary = 15,
  mxfp4 = 16,
  nvfp4 = 17,
  int8 = 18,
  codes8 = 19,
};

inline constexpr int kFormats = 20;

// Whether values are plain floats rather than codes.
constexpr bool is_plain(Format format) { return format <= Format::bf16; }

// Where in a step the code of a column stands: the second and the third eight change places, so
// that places 16 apart hold columns 8 apart, which share a scale even where 16 columns do.
constexpr int place_of_column(int column) {
  return (column & 7) | (column & 8) << 1 | (column & 16) >> 1;
}

struct Layout {
  int span_steps;   // Steps that share a head.
  int head_bytes;   // Bytes of that head, all rows together.
  int step_bytes;   // Bytes of one step, all rows together.
};

inline constexpr Layout kLayouts[kFormats] = {
    {1, 0, 4096},     // f32
    {1, 0, 2048},     // f16
    {1, 0, 2048},     // bf16
    {1, 0, 576},      // q4_0: scale f16, 4-bit codes
    {1, 0, 640},      // q4_1: scale and minimum f16, codes
    {1, 0, 704},      // q5_0: scale, 5-bit codes
    {1, 0, 768},      // q5_1: scale and minimum, 5-bit codes
    {1, 0, 1088},     // q8_0: scale, 8-bit codes
    {8, 128, 320},    // q2_k: two f16; scales and minima of 4 bits, 2-bit codes
    {8, 64, 448},     // q3_k: f16; 8-bit scales, 3-bit codes
    {8, 128, 576},    // q4_k: two f16; 8-bit scales and minima, 4-bit codes
    {8, 128, 704},    // q5_k: the same, 5-bit codes
    {8, 64, 832},     // q6_k: f16; two 8-bit scales, 6-bit codes
    {1, 0, 576},      // iq4_nl: as q4_0, codes are indices
    {8, 64, 544},     // iq4_xs: f16; 8-bit scale, indices
    {8, 64, 256},     // ternary: f16; 2-bit codes
    {1, 0, 544},      // mxfp4: exponent, indices
    {1, 0, 640},      // nvfp4: two f16, indices
    {2, 128, 1024},   // int8: f32; 8-bit codes
    {8, 64, 1088},    // codes8: f16; two bytes of scales, 8-bit codes
};

inline constexpr Layout layout_of(Format format) {
  return kLayouts[static_cast<int64_t>(format)];
}

// `columns` are whole spans.
inline constexpr int64_t bytes_of_block(Format format, int64_t columns) {
  const Layout layout = layout_of(format);
  return columns / (layout.span_steps * kStepColumns) *
         (layout.head_bytes + int64_t{layout.span_steps} * layout.step_bytes);
}

}  // namespace pantheon
