// AVX-512 with VNNI, whose dot products add up in the same instruction.
#pragma once

#include "isa_avx512.h"

namespace pantheon {

struct Vnni : Avx512 {
  static Integers multiplied(Words codes, Integers pairs, Integers sum) {
    return reinterpret_cast<Integers>(_mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sum),
                                                          reinterpret_cast<__m512i>(codes),
                                                          reinterpret_cast<__m512i>(pairs)));
  }
};

}  // namespace pantheon
