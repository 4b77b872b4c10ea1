// What is done to each row of activations by itself, between products.
#pragma once

#include <cstdint>

#include "instruction_sets.h"

namespace pantheon {

// One token's heads and how they are turned.
struct Turn {
  const float* heads;       // [heads, head_dim]
  const float* cosines;     // [turned]
  const float* sines;       // [turned]: of the other dimension of the pair, with its sign.
  int64_t count;
  int64_t head_dim;
  int64_t turned;           // Leading dimensions of a head that are turned; even.
  bool neighbours;          // Whether dimensions 2i and 2i + 1 are a pair, or the halves are.
  float* results;           // As the heads.
};

// The first of the largest of some numbers. What is no number is passed over.
struct Largest {
  int64_t place;       // Of nothing but what is no number the first.
  bool all_finite;     // Whether all are numbers, and the largest no infinity.
};

struct RowKernels {
  // `x / sqrt(mean(x^2) + epsilon) * weight`
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t count,
                   float* result);
  // `sum = x + delta`, and the norm of that.
  void (*add_rms_norm)(const float* x, const float* delta, const float* weight, float epsilon,
                       int64_t count, float* sum, float* result);
  // `gate / (1 + exp(-gate)) * up`
  void (*silu_product)(const float* gate, const float* up, int64_t count, float* result);
  void (*turn)(const Turn&);
  Largest (*largest)(const float* x, int64_t count);
};

const RowKernels& portable_rows();
const RowKernels& avx2_rows();
const RowKernels& avx512_rows();

// Null where the processor or the build does not have the set.
const RowKernels* rows_for(InstructionSet set);

}  // namespace pantheon
