// Products of activations with packed matrices, divided among the threads.
#pragma once

#include <cstdint>

#include "activation_sums.h"
#include "instruction_sets.h"
#include "quantised_rows.h"

namespace pantheon {

// Bytes of a block of 32 rows; 0 where so many columns cannot be packed.
int64_t block_bytes(Format format, int64_t columns);

// A matrix as it lies in memory; see `layout.h`.
struct PackedMatrix {
  Format format;
  bool quantised;          // Whether activations may be rounded for it.
  const uint8_t* blocks;
  int64_t block_bytes;
  int64_t rows;

  int64_t block_count() const { return (rows + kBlockRows - 1) / kBlockRows; }
};

// Activations [rows, columns], and what is made of them for the formats that they meet. One object
// serves many calls, whose memory it keeps.
class Activations {
 public:
  void assign(const float* values, int64_t rows, int64_t columns);

  const float* values() const { return values_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  const float* sums_for(Format format) { return sums_.of_groups(format); }
  WholeRows whole_for(Format format);

 private:
  const float* values_ = nullptr;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  ActivationSums sums_;
  QuantisedRows quantised_;
  bool is_quantised_ = false;
};

// The product of the activations with one matrix, and where it goes.
struct Product {
  PackedMatrix matrix;
  float* outputs;          // [rows of the activations, rows of the matrix]
};

struct ProductKernels {
  KernelsOfSet of_set;
  bool in_whole;           // Whether codes are multiplied in whole numbers.
};

// The kernels of a set for a step of so many rows, padding included: how many of them are live must
// not decide, or a position would depend on where its prompt was cut. Nulls where the processor or
// the build does not have the set.
ProductKernels product_kernels(InstructionSet set, int64_t step_rows);

// Computes all products of the same activations.
void multiply(const ProductKernels& kernels, Activations& activations, const Product* products,
              int64_t count);

}  // namespace pantheon
