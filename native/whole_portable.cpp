#include "isa_portable.h"
#include "whole_products.h"

namespace pantheon {

const WholeKernels& portable_whole_kernels() {
  static constexpr WholeKernels kernels = whole_kernels_of<Portable>();
  return kernels;
}

}  // namespace pantheon
