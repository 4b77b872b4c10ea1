// The functions of attention of one instruction set.
#pragma once

#include "attention.h"
#include "attention_merge.h"

namespace pantheon {

template <class Isa>
constexpr AttentionKernels attention_of() {
  return {attention_scratch<Isa>,
          {attend<Isa, Held::floats>, attend<Isa, Held::halves>},
          merge_partials<Isa>,
          to_halves<Isa>};
}

}  // namespace pantheon
