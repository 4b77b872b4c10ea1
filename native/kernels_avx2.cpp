#include "isa_avx2.h"
#include "products.h"

namespace pantheon {

const Kernels& avx2_kernels() {
  static constexpr Kernels kernels = kernels_of<Avx2>();
  return kernels;
}

}  // namespace pantheon
