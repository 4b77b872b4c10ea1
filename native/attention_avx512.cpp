#include "attention_table.h"
#include "isa_avx512.h"

namespace pantheon {

const AttentionKernels& avx512_attention() {
  static constexpr AttentionKernels kernels = attention_of<Avx512>();
  return kernels;
}

}  // namespace pantheon
