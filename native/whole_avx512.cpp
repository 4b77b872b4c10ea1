#include "isa_avx512.h"
#include "whole_products.h"

namespace pantheon {

const WholeKernels& avx512_whole_kernels() {
  static constexpr WholeKernels kernels = whole_kernels_of<Avx512>();
  return kernels;
}

}  // namespace pantheon
