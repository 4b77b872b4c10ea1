#include "isa_avx512.h"
#include "rows.h"

namespace pantheon {

const RowKernels& avx512_rows() {
  static constexpr RowKernels kernels = rows_of<Avx512>();
  return kernels;
}

}  // namespace pantheon
