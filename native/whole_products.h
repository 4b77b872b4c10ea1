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

// Groups of columns whose sums are computed at once: all that the words of a format hold.
template <Format F>
constexpr int groups_at_once() {
  return Codec<F>::kBits == 16 ? 1 : kStepColumns / Codec<F>::kGroup;
}

// The codes of some groups in pairs, those after `First` as many: `take(group, pair, codes)` gets,
// for pair c of a step, the codes of the places c and c + 16 in the halves of each lane, and as a
// constant which of those groups they belong to.
template <class Isa, Format F, int Count, int First, class Take>
[[gnu::always_inline]] inline void take_pairs(const uint8_t* step, int row, Take&& take) {
  using Of = Codec<F>;
  using Words = typename Isa::Words;
  constexpr int bits = Of::kBits;
  constexpr int pairs = Of::kGroup / 2;
  const auto word = Of::template words<Isa>(step, row);
  const auto take_word = [&](auto i) __attribute__((always_inline)) {
    Words packed[Count];
#pragma GCC unroll 8
    for (int v = 0; v < Count; ++v) packed[v] = word(i, v);
    if constexpr (bits == 16) {
      take(std::integral_constant<int, 0>{}, i, packed);
    } else {
      constexpr int last = 16 / bits - 1;
      constexpr uint32_t mask = ((1u << bits) - 1) * 0x10001u;
      unrolled<last + 1>([&](auto of_field) __attribute__((always_inline)) {
        constexpr int field = decltype(of_field)::value;
        Words codes[Count];
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
        take(std::integral_constant<int, field * bits / pairs>{}, field * bits + i, codes);
      });
    }
  };
  if constexpr (bits == 16) {
    unrolled<pairs>([&](auto i) __attribute__((always_inline)) { take_word(First * pairs + i); });
  } else if constexpr (Of::kMade) {
    // What a word is made of is moved by constants.
    unrolled<bits>(take_word);
  } else {
#pragma GCC unroll 1
    for (int i = 0; i < bits; ++i) take_word(i);
  }
}

// Sums that the registers hold, as vectors of outputs.
template <class Isa, Format F, int Rows>
constexpr int whole_vectors() {
  constexpr int all = kBlockRows / Isa::lanes;
  constexpr int room = Isa::sums / (Rows * groups_at_once<F>());
  return room < 1 ? 1 : room < all ? room : all;
}

// The block's product with `Rows` rows of activations.
template <class Isa, Format F, int Rows>
void whole_rows(const WholeProduct& product, int64_t first, float* totals) {
  using Of = Codec<F>;
  using Floats = typename Isa::Floats;
  using Integers = typename Isa::Integers;
  constexpr Layout layout = layout_of(F);
  constexpr int groups = kStepColumns / Of::kGroup;
  constexpr int at_once = groups_at_once<F>();
  constexpr int count = whole_vectors<Isa, F, Rows>();
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
    const uint8_t* step = product.block;
    for (int64_t span = 0; span < steps; span += layout.span_steps) {
      decltype(Of::template head<Isa>(step, row)) heads[count];
#pragma GCC unroll 8
      for (int v = 0; v < count; ++v) {
        heads[v] = Of::template head<Isa>(step, row + v * Isa::lanes);
      }
      step += layout.head_bytes;
#pragma GCC unroll 1
      for (int64_t at = span; at < span + layout.span_steps; ++at, step += layout.step_bytes) {
        if constexpr (passes == 1) {
          prefetch_ahead<F>(step);
        } else {
          prefetch_next<F, passes>(step, block_bytes, row / (count * Isa::lanes));
        }
        unrolled<groups / at_once>([&](auto of_groups) __attribute__((always_inline)) {
          constexpr int first_group = decltype(of_groups)::value * at_once;
          Integers sums[at_once][Rows][count];
          unrolled<at_once * Rows>([&](auto constant) __attribute__((always_inline)) {
            constexpr int g = decltype(constant)::value / Rows;
            constexpr int r = decltype(constant)::value % Rows;
            Integers start{};
            if constexpr (!Of::kHasMinimum) {
              start = Isa::splat_whole(product.rows_of.starts + (own[r] + at) * groups +
                                       first_group + g);
            }
            for (int v = 0; v < count; ++v) sums[g][r][v] = start;
          });
          take_pairs<Isa, F, count, first_group>(
              step, row,
              [&](auto group, int pair, const typename Isa::Words (&codes)[count])
                  __attribute__((always_inline)) {
                constexpr int g = decltype(group)::value;
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
          unrolled<at_once>([&](auto constant) __attribute__((always_inline)) {
            constexpr int in_sums = decltype(constant)::value;
            constexpr int g = first_group + in_sums;
#pragma GCC unroll 8
            for (int v = 0; v < count; ++v) {
              const int lane = row + v * Isa::lanes;
              const Floats scale = Of::template scale<Isa>(heads[v], step, lane, g);
#pragma GCC unroll 8
              for (int r = 0; r < Rows; ++r) {
                const Floats sum = __builtin_convertvector(sums[in_sums][r][v], Floats) * scale;
                chain[r][v] += sum * Isa::splat(product.rows_of.scales[own[r] + at]);
              }
              if constexpr (Of::kHasMinimum) {
                const Floats minimum = Of::template minimum<Isa>(heads[v], step, lane, g);
#pragma GCC unroll 8
                for (int r = 0; r < Rows; ++r) {
                  chain[r][v] +=
                      minimum * Isa::splat(product.rows_of.factors[(own[r] + at) * groups + g]);
                }
              }
            }
          });
        });
      }
    }
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
