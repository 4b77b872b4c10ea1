#include "isa_portable.h"

#include "interleave_table.h"

namespace pantheon {

const RowSources& portable_sources() {
  static constexpr RowSources sources = sources_of<Portable>();
  return sources;
}

}  // namespace pantheon
