// What each instruction set gives: the same functions, compiled for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "layout.h"

namespace pantheon {

inline constexpr int kSmallestGroup = 16;   // Columns that share an offset.
inline constexpr int kSlabColumns = 256;   // Columns that are unpacked at a time, and ...
inline constexpr int kChunkRows = 128;     // ... rows of activations that they are used for.

// Memory of one thread. A slab is read from the second-level cache no slower than from the first,
// and the larger it is, the fewer times sums are taken up and put down.
struct alignas(64) Workspace {
  float slab[kSlabColumns * kBlockRows];                       // Weights without their offsets.
  float offsets[kSlabColumns / kSmallestGroup * kBlockRows];   // Of each group of columns.
  float totals[kChunkRows * kBlockRows];
  int64_t thread = 0;   // Its number in the pool.
};

// The product of all activations with one block of a matrix.
struct BlockProduct {
  const float* activations;   // [rows, columns]
  const float* sums;          // [rows, groups]: of the activations of the columns of each.
  int64_t rows;
  int64_t columns;            // A multiple of the columns of a span.
  const uint8_t* block;
  float* outputs;             // Entry of the first row; rows are `output_stride` apart.
  int64_t output_stride;
  int block_rows;             // How many of the block's 32 rows there are.
};

// One row of a block in float32.
struct BlockRow {
  const uint8_t* block;
  int64_t columns;
  int row;
  float* values;              // [columns]
};

// Activations in whole numbers; see `quantised_rows.h`.
struct WholeRows {
  const int32_t* pairs;    // [rows, columns / 2]: two activations of 16 bits.
  const float* scales;     // [rows, steps]
  // What goes with the offsets of a format: one of both.
  const int32_t* starts;   // [rows, groups]: what its zero makes of the sums of the activations.
  const float* factors;    // [rows, groups]: those sums, for its minimum.
};

// The product of all of them with one block of a matrix of codes.
struct WholeProduct {
  WholeRows rows_of;
  int64_t rows;
  int64_t columns;
  const uint8_t* block;
  float* outputs;
  int64_t output_stride;
  int block_rows;
};

// In float32.
struct Kernels {
  void (*product[kFormats])(const BlockProduct&, Workspace&);
  void (*row[kFormats])(const BlockRow&);
};

// In whole numbers; null for formats of plain floats.
struct WholeKernels {
  using Product = void (*)(const WholeProduct&);

  Product product[kFormats];
};

const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const WholeKernels& portable_whole_kernels();
const WholeKernels& avx2_whole_kernels();
const WholeKernels& vnni_whole_kernels();

}  // namespace pantheon
