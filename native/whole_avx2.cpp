#include "isa_avx2.h"
#include "whole_products.h"

namespace pantheon {

const WholeKernels& avx2_whole_kernels() {
  static constexpr WholeKernels kernels = whole_kernels_of<Avx2>();
  return kernels;
}

}  // namespace pantheon
