// AVX-512 F, BW, DQ and VL.
#pragma once

#include <immintrin.h>

#include "vectors.h"

namespace pantheon {

struct Avx512 : Vectors<64> {
  static constexpr int tile_rows = 12;
  static constexpr int tile_vectors = 2;
  static constexpr int sums = 16;
  static constexpr int whole_rows = 8;

  // Masked forms throughout: GCC 12 warns about the header of the others.
  static constexpr __mmask16 kAll = 0xffff;

  static Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }

  static Floats splat(float value) { return _mm512_set1_ps(value); }

  static Floats larger(Floats a, Floats b) { return _mm512_maskz_max_ps(kAll, a, b); }
  static Floats smaller(Floats a, Floats b) { return _mm512_maskz_min_ps(kAll, a, b); }

  static Floats halves(const uint8_t* from) {
    return _mm512_maskz_cvtph_ps(kAll,
                                 _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }

  static Words octets(const uint8_t* from) {
    return reinterpret_cast<Words>(_mm512_maskz_cvtepu8_epi32(
        kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }

  static Floats signed_octets(const uint8_t* from) {
    return _mm512_maskz_cvtepi32_ps(
        kAll, _mm512_maskz_cvtepi8_epi32(
                  kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }

  static void store_halves(uint16_t* to, Floats values) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_maskz_cvtps_ph(kAll, values, _MM_FROUND_TO_NEAREST_INT));
  }

  static Integers splat_whole(const int32_t* value) {
    return reinterpret_cast<Integers>(_mm512_set1_epi32(*value));
  }

  static Words looked_up(Words indices, const uint8_t (&table)[16]) {
    const __m512i entries = _mm512_maskz_broadcast_i32x4(
        kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    return reinterpret_cast<Words>(
        _mm512_shuffle_epi8(entries, reinterpret_cast<__m512i>(indices)));
  }
};

}  // namespace pantheon
