#include "attention_table.h"
#include "isa_portable.h"

namespace pantheon {

const AttentionKernels& portable_attention() {
  static constexpr AttentionKernels kernels = attention_of<Portable>();
  return kernels;
}

}  // namespace pantheon
