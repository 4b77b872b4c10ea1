#include "attention_table.h"
#include "isa_avx2.h"

namespace pantheon {

const AttentionKernels& avx2_attention() {
  static constexpr AttentionKernels kernels = attention_of<Avx2>();
  return kernels;
}

}  // namespace pantheon
