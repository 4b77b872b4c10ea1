#include "interleave_long_sources.h"
#include "interleave_short_sources.h"
#include "interleave_table_sources.h"

namespace pantheon {
namespace {

template <class Source>
constexpr RowSource source_of(const char* name) {
  return {name, Source::kFormat, Source::kSteps * kStepColumns, Source::kBytes,
          interleave_rows<Source>};
}

constexpr RowSource kSources[] = {
    source_of<F32Rows>("F32"),
    source_of<HalfRows<Format::f16>>("F16"),
    source_of<HalfRows<Format::bf16>>("BF16"),
    source_of<NibbleRows<Format::q4_0>>("Q4_0"),
    source_of<Q41Rows>("Q4_1"),
    source_of<Q50Rows>("Q5_0"),
    source_of<Q51Rows>("Q5_1"),
    source_of<Q80Rows>("Q8_0"),
    source_of<Int8Rows>("INT8"),
    source_of<Q2KRows>("Q2_K"),
    source_of<Q3KRows>("Q3_K"),
    source_of<Q4KRows>("Q4_K"),
    source_of<Q5KRows>("Q5_K"),
    source_of<Q6KRows>("Q6_K"),
    source_of<NibbleRows<Format::iq4_nl>>("IQ4_NL"),
    source_of<Iq4XsRows>("IQ4_XS"),
    source_of<Tq10Rows>("TQ1_0"),
    source_of<Tq20Rows>("TQ2_0"),
    source_of<Mxfp4Rows>("MXFP4"),
    source_of<Nvfp4Rows>("NVFP4"),
};

}  // namespace

const RowSource* row_source(const char* name) {
  for (const RowSource& source : kSources) {
    if (std::strcmp(name, source.name) == 0) return &source;
  }
  return nullptr;
}

}  // namespace pantheon
