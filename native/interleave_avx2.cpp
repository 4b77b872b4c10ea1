#include "isa_avx2.h"

#include "interleave_table.h"

namespace pantheon {

const RowSources& avx2_sources() {
  static constexpr RowSources sources = sources_of<Avx2>();
  return sources;
}

}  // namespace pantheon
