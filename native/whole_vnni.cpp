#include "isa_vnni.h"
#include "whole_products.h"

namespace pantheon {

const WholeKernels& vnni_whole_kernels() {
  static constexpr WholeKernels kernels = whole_kernels_of<Vnni>();
  return kernels;
}

}  // namespace pantheon
