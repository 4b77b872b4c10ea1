// AVX2 with FMA and F16C.
#pragma once

#include <immintrin.h>

#include "vectors.h"

namespace pantheon {

struct Avx2 : Vectors<32> {
  static constexpr int tile_rows = 6;
  static constexpr int tile_vectors = 2;
  static constexpr int sums = 8;
  static constexpr int whole_rows = 4;

  static Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }

  static Floats splat(float value) { return _mm256_set1_ps(value); }

  static Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }
  static Floats smaller(Floats a, Floats b) { return _mm256_min_ps(a, b); }

  static Floats halves(const uint8_t* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }

  // GCC would convert octets one by one.
  static Words octets(const uint8_t* from) {
    return reinterpret_cast<Words>(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  }

  static Floats signed_octets(const uint8_t* from) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  }

  static void store_halves(uint16_t* to, Floats values) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
  }

  static Integers splat_whole(const int32_t* value) {
    return reinterpret_cast<Integers>(_mm256_set1_epi32(*value));
  }

  static Integers multiplied(Words codes, Integers pairs, Integers sum) {
    sum += reinterpret_cast<Integers>(_mm256_madd_epi16(reinterpret_cast<__m256i>(codes),
                                                        reinterpret_cast<__m256i>(pairs)));
    // Added at once: GCC collects products first, for which it has too few registers.
    asm("" : "+x"(sum));
    return sum;
  }

  static Words looked_up(Words indices, const uint8_t (&table)[16]) {
    const __m256i entries = _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    return reinterpret_cast<Words>(
        _mm256_shuffle_epi8(entries, reinterpret_cast<__m256i>(indices)));
  }
};

}  // namespace pantheon
