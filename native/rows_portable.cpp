#include "isa_portable.h"
#include "rows.h"

namespace pantheon {

const RowKernels& portable_rows() {
  static constexpr RowKernels kernels = rows_of<Portable>();
  return kernels;
}

}  // namespace pantheon
