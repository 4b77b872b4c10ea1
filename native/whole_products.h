// Products of quantised activations with a block of codes, in whole numbers.
//
// A lane of 32 bits multiplies the codes of two columns by their activations and adds both
// products: sums of a group are exact, and as floats they are scaled and added up, group after
// group, by operations that round alike everywhere. So a row of the result does not depend, not by
// a bit, on the other rows of its batch, nor on the instruction set.
//
// No sum can overflow: 32 products of a code below 2^8, or its difference from the code of zero,
// and an activation of at most 2^15 - 1 stay below 2^28.
#pragma once

#include <cstring>

#include "block_steps.h"
#include "formats.h"
#include "kernels.h"
#include "unrolled.h"

namespace pantheon {

// Codes in pairs: `take(field, pair, codes)` gets, for pair c of a step, the codes of the places c
// and c + 16 in the halves of each lane, and the constant number of the field of its word that they
// were in. All pairs of a field share a scale.
template <class Isa, Format F, int Count, class Take>
[[gnu::always_inline]] inline void take_pairs(const uint8_t* step, int row, Take&& take) {
  constexpr int bits = Codec<F>::kBits;
  constexpr int last = 16 / bits - 1;
  constexpr uint32_t mask = ((1u << bits) - 1) * 0x10001u;
  const auto word = Codec<F>::template words<Isa>(step, row);
  const auto take_word = [&](auto i) __attribute__((always_inline)) {
    typename Isa::Words packed[Count];
#pragma GCC unroll 8
    for (int v = 0; v < Count; ++v) packed[v] = word(i, v);
    unrolled<last + 1>([&](auto of_field) __attribute__((always_inline)) {
      constexpr int field = decltype(of_field)::value;
      typename Isa::Words codes[Count];
#pragma GCC unroll 8
      for (int v = 0; v < Count; ++v) {
        if constexpr (field == 0) {
          codes[v] = packed[v] & mask;
        } else if constexpr (field == last) {
          codes[v] = Isa::template upper_of_halves<16 - bits>(packed[v]);
        } else {
          codes[v] = (packed[v] >> (bits * field)) & mask;
        }
      }
      take(of_field, field * bits + i, codes);
    });
  };
  if constexpr (Codec<F>::kMade) {
    // What a word is made of is moved by constants.
    unrolled<bits>(take_word);
  } else {
#pragma GCC unroll 1
    for (int i = 0; i < bits; ++i) take_word(i);
  }
}

template <class Isa, Format F, int Rows>
constexpr int whole_vectors() {
  constexpr int all = kBlockRows / Isa::lanes;
  constexpr int room = Isa::sums / (Rows * (kStepColumns / Codec<F>::kGroup));
  return room < 1 ? 1 : room < all ? room : all;
}

// The block's product with `Rows` rows of activations.
template <class Isa, Format F, int Rows>
void whole_rows(const WholeProduct& product, int64_t first, float* totals) {
  using Of = Codec<F>;
  using Floats = typename Isa::Floats;
  using Integers = typename Isa::Integers;
  constexpr int count = whole_vectors<Isa, F, Rows>();
  constexpr int groups = kStepColumns / Of::kGroup;
  constexpr int passes = kBlockRows / Isa::lanes / count;
  const int64_t steps = product.columns / kStepColumns;
  const int64_t block_bytes = bytes_of_block(F, product.columns);
  // Where there are fewer, the last is computed several times.
  int64_t own[Rows];
  for (int r = 0; r < Rows; ++r) {
    own[r] = (first + r < product.rows ? first + r : product.rows - 1) * steps;
  }
  for (int row = 0; row < kBlockRows; row += count * Isa::lanes) {
    Floats chain[Rows][count] = {};
    for_each_step<F>(
        product.block, product.columns,
        [&](const uint8_t* head, const uint8_t* step, int64_t column)
            __attribute__((always_inline)) {
          if constexpr (passes == 1) {
            prefetch_ahead<F>(step);
          } else {
            prefetch_next<F, passes>(step, block_bytes, row / (count * Isa::lanes));
          }
          const int64_t at = column / kStepColumns;
          Integers sums[groups][Rows][count];
          unrolled<groups * Rows>([&](auto constant) __attribute__((always_inline)) {
            constexpr int g = decltype(constant)::value / Rows;
            constexpr int r = decltype(constant)::value % Rows;
            Integers start{};
            if constexpr (!Of::kHasMinimum) {
              start = Isa::splat_whole(product.rows_of.starts + (own[r] + at) * groups + g);
            }
            for (int v = 0; v < count; ++v) sums[g][r][v] = start;
          });
          take_pairs<Isa, F, count>(
              step, row,
              [&](auto field, int pair, const typename Isa::Words (&codes)[count])
                  __attribute__((always_inline)) {
                constexpr int g = decltype(field)::value * Of::kBits / (kStepColumns / 2 / groups);
#pragma GCC unroll 8
                for (int r = 0; r < Rows; ++r) {
                  const Integers both = Isa::splat_whole(
                      product.rows_of.pairs + (own[r] + at) * (kStepColumns / 2) + pair);
#pragma GCC unroll 8
                  for (int v = 0; v < count; ++v) {
                    sums[g][r][v] = Isa::multiplied(codes[v], both, sums[g][r][v]);
                  }
                }
              });
          unrolled<groups>([&](auto constant) __attribute__((always_inline)) {
            constexpr int g = decltype(constant)::value;
#pragma GCC unroll 8
            for (int v = 0; v < count; ++v) {
              const int lane = row + v * Isa::lanes;
              const Floats scale = Of::template scale<Isa>(head, step, lane, g);
#pragma GCC unroll 8
              for (int r = 0; r < Rows; ++r) {
                const Floats sum = __builtin_convertvector(sums[g][r][v], Floats) * scale;
                chain[r][v] += sum * Isa::splat(product.rows_of.scales[own[r] + at]);
              }
              if constexpr (Of::kHasMinimum) {
                const Floats minimum = Of::template minimum<Isa>(head, step, lane, g);
#pragma GCC unroll 8
                for (int r = 0; r < Rows; ++r) {
                  chain[r][v] +=
                      minimum * Isa::splat(product.rows_of.factors[(own[r] + at) * groups + g]);
                }
              }
            }
          });
        });
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < count; ++v) {
        Isa::store(totals + r * kBlockRows + row + v * Isa::lanes, chain[r][v]);
      }
    }
  }
}

template <class Isa, Format F>
void whole_product(const WholeProduct& product) {
  for (int64_t first = 0; first < product.rows;) {
    const int64_t left = product.rows - first;
    float totals[Isa::whole_rows * kBlockRows];
    int taken = Isa::whole_rows;
    if (left == 1) {
      taken = 1;
      whole_rows<Isa, F, 1>(product, first, totals);
    } else if (left == 2 && Isa::whole_rows > 2) {
      taken = 2;
      whole_rows<Isa, F, 2>(product, first, totals);
    } else {
      if (left < taken) taken = static_cast<int>(left);
      whole_rows<Isa, F, Isa::whole_rows>(product, first, totals);
    }
    for (int r = 0; r < taken; ++r) {
      std::memcpy(product.outputs + (first + r) * product.output_stride, totals + r * kBlockRows,
                  sizeof(float) * product.block_rows);
    }
    first += taken;
  }
}

template <class Isa, Format F>
constexpr WholeKernels::Product whole_kernel() {
  if constexpr (is_plain(F)) {
    return nullptr;
  } else {
    return whole_product<Isa, F>;
  }
}

template <class Isa, int... Formats>
constexpr WholeKernels whole_kernels_over(std::integer_sequence<int, Formats...>) {
  return {{whole_kernel<Isa, static_cast<Format>(Formats)>()...}};
}

template <class Isa>
constexpr WholeKernels whole_kernels_of() {
  return whole_kernels_over<Isa>(std::make_integer_sequence<int, kFormats>{});
}

}  // namespace pantheon
