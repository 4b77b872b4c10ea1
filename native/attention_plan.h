// Attention divided among the threads.
#pragma once

#include "attention_kernels.h"

namespace pantheon {

// Computes the results of some tokens of a call, all of its tokens counted as one axis.
void compute_attention(const Attention& call, int64_t first_token, int64_t end_token, Held held,
                       const AttentionKernels& kernels);

}  // namespace pantheon
