// Attention divided among the threads.
#pragma once

#include "attention_kernels.h"

namespace pantheon {

// Computes a call of so many rows.
void compute_attention(const Attention& call, int64_t rows, Held held,
                       const AttentionKernels& kernels);

}  // namespace pantheon
