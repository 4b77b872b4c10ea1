#include "isa_avx512.h"
#include "products.h"

namespace pantheon {

const Kernels& avx512_kernels() {
  static constexpr Kernels kernels = kernels_of<Avx512>();
  return kernels;
}

}  // namespace pantheon
