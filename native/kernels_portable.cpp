#include "isa_portable.h"
#include "products.h"

namespace pantheon {

const Kernels& portable_kernels() {
  static constexpr Kernels kernels = kernels_of<Portable>();
  return kernels;
}

}  // namespace pantheon
