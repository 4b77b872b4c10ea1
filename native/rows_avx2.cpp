#include "isa_avx2.h"
#include "rows.h"

namespace pantheon {

const RowKernels& avx2_rows() {
  static constexpr RowKernels kernels = rows_of<Avx2>();
  return kernels;
}

}  // namespace pantheon
