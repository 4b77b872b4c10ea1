// All types that are interleaved, compiled for one instruction set.
#pragma once

#include "interleave_long_sources.h"
#include "interleave_sources.h"
#include "interleave_table_sources.h"

namespace pantheon {

template <class Isa, class Source>
constexpr RowSource source_of(const char* name) {
  return {name, Source::kFormat, Source::kSteps * kStepColumns, Source::kBytes,
          interleave_rows<Isa, Source>};
}

template <class Isa>
constexpr RowSources sources_of() {
  return {{
      source_of<Isa, F32Rows>("F32"),
      source_of<Isa, HalfRows<Format::f16>>("F16"),
      source_of<Isa, HalfRows<Format::bf16>>("BF16"),
      source_of<Isa, NibbleRows<Format::q4_0>>("Q4_0"),
      source_of<Isa, Q41Rows>("Q4_1"),
      source_of<Isa, Q50Rows>("Q5_0"),
      source_of<Isa, Q51Rows>("Q5_1"),
      source_of<Isa, Q80Rows>("Q8_0"),
      source_of<Isa, Int8Rows>("INT8"),
      source_of<Isa, Q2KRows>("Q2_K"),
      source_of<Isa, Q3KRows>("Q3_K"),
      source_of<Isa, Q4KRows>("Q4_K"),
      source_of<Isa, Q5KRows>("Q5_K"),
      source_of<Isa, Q6KRows>("Q6_K"),
      source_of<Isa, NibbleRows<Format::iq4_nl>>("IQ4_NL"),
      source_of<Isa, Iq4XsRows>("IQ4_XS"),
      source_of<Isa, Tq10Rows>("TQ1_0"),
      source_of<Isa, Tq20Rows>("TQ2_0"),
      source_of<Isa, Mxfp4Rows>("MXFP4"),
      source_of<Isa, Nvfp4Rows>("NVFP4"),
  }};
}

}  // namespace pantheon
