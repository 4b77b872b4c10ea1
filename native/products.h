// Products of activations with a block of weights, for every number of activation rows.
//
// Each output is one chain of fused multiply-adds over the columns in rising order, beginning at
// zero, whatever the number of rows and whichever of the two ways below computes it. So a row of
// the result never depends, not by a bit, on the other rows of its batch.
#pragma once

#include <cstring>

#include "formats.h"
#include "kernels.h"

namespace pantheon {

// Calls `body(head, step, column)` for each step of a block.
template <Format F, class Body>
[[gnu::always_inline]] inline void for_each_step(const uint8_t* block, int64_t columns,
                                                         Body&& body) {
  constexpr Layout layout = layout_of(F);
  int64_t column = 0;
  while (column < columns) {
    const uint8_t* head = block;
    block += layout.head_bytes;
    for (int i = 0; i < layout.span_steps; ++i) {
      body(head, block, column);
      block += layout.step_bytes;
      column += kStepColumns;
    }
  }
}

template <class Isa>
constexpr int smaller(int a, int b) {
  return a < b ? a : b;
}

// Few rows: weights go from the registers that decode them into the sums of all rows.

// Vectors of weights that are decoded together: as many as the sums leave registers for, so that
// enough independent chains run at once.
template <class Isa, int Rows>
constexpr int strip_vectors() {
  constexpr int all = kBlockRows / Isa::lanes;
  constexpr int fitting = Rows == 1 ? 4 : 2;
  return smaller<Isa>(all, fitting);
}

// Bytes ahead of the one that is decoded which are asked for: the hardware follows one stream
// well, but stops at the end of each page.
inline constexpr int kPrefetchBytes = 2048;

template <class Isa, Format F, int Rows>
void few_rows(const BlockProduct& product, const float* const (&activations)[Rows],
              float* sums) {
  constexpr int count = strip_vectors<Isa, Rows>();
  using Floats = typename Isa::Floats;
  for (int row = 0; row < kBlockRows; row += count * Isa::lanes) {
    Floats chains[Rows][count] = {};
    for_each_step<F>(
        product.block, product.columns,
        [&](const uint8_t* head, const uint8_t* step, int64_t first)
            __attribute__((always_inline)) {
          constexpr int bytes = layout_of(F).step_bytes;
#pragma GCC unroll 16
          for (int at = 0; at < bytes; at += 64 * (kBlockRows / Isa::lanes / count)) {
            __builtin_prefetch(step + kPrefetchBytes + at);
          }
          Decoder<F>::template decode<Isa, count>(
              head, step, row,
              [&](int column, const Floats(&weights)[count]) __attribute__((always_inline)) {
#pragma GCC unroll 8
                for (int r = 0; r < Rows; ++r) {
                  const Floats activation = Isa::splat(activations[r][first + column]);
#pragma GCC unroll 4
                  for (int v = 0; v < count; ++v) {
                    chains[r][v] = Isa::fused(weights[v], activation, chains[r][v]);
                  }
                }
              });
        });
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < count; ++v) {
        Isa::store(sums + r * kBlockRows + row + v * Isa::lanes, chains[r][v]);
      }
    }
  }
}

// Many rows: some columns of the block are unpacked, and then used by all rows.

template <class Isa, int Rows>
void tile(const float* slab, int depth, const float* activations, int64_t stride, float* sums) {
  constexpr int count = Isa::tile_vectors;
  using Floats = typename Isa::Floats;
  for (int row = 0; row < kBlockRows; row += count * Isa::lanes) {
    Floats chains[Rows][count];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < count; ++v) {
        chains[r][v] =
            Isa::template load<Floats>(sums + r * kBlockRows + row + v * Isa::lanes);
      }
    }
    for (int column = 0; column < depth; ++column) {
      Floats weights[count];
#pragma GCC unroll 4
      for (int v = 0; v < count; ++v) {
        weights[v] =
            Isa::template load<Floats>(slab + column * kBlockRows + row + v * Isa::lanes);
      }
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const Floats activation = Isa::splat(activations[r * stride + column]);
#pragma GCC unroll 4
        for (int v = 0; v < count; ++v) {
          chains[r][v] = Isa::fused(weights[v], activation, chains[r][v]);
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < count; ++v) {
        Isa::store(sums + r * kBlockRows + row + v * Isa::lanes, chains[r][v]);
      }
    }
  }
}

using Tile = void (*)(const float*, int, const float*, int64_t, float*);

template <class Isa, int... Rows>
Tile tile_of(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr Tile tiles[] = {tile<Isa, Rows + 1>...};
  return tiles[rows - 1];
}

// Tiles of nearly the same size, none larger than the registers hold.
template <class Isa>
void all_tiles(const float* slab, int depth, const float* activations, int64_t stride, int rows,
               float* sums) {
  const int tiles = (rows + Isa::tile_rows - 1) / Isa::tile_rows;
  for (int i = 0, row = 0; i < tiles; ++i) {
    const int size = rows / tiles + (i < rows % tiles);
    tile_of<Isa>(size, std::make_integer_sequence<int, Isa::tile_rows>{})(
        slab, depth, activations + row * stride, stride, sums + row * kBlockRows);
    row += size;
  }
}

template <class Isa, Format F>
void many_rows(const BlockProduct& product, const float* activations, int rows,
               Workspace& workspace) {
  constexpr int count = smaller<Isa>(kBlockRows / Isa::lanes, 4);
  using Floats = typename Isa::Floats;
  std::memset(workspace.sums, 0, sizeof(float) * rows * kBlockRows);
  for_each_step<F>(
      product.block, product.columns,
      [&](const uint8_t* head, const uint8_t* step, int64_t first) {
        const int at = first % kSlabColumns;
        float* unpacked = workspace.slab + at * kBlockRows;
        for (int row = 0; row < kBlockRows; row += count * Isa::lanes) {
          Decoder<F>::template decode<Isa, count>(
              head, step, row,
              [&](int column, const Floats(&weights)[count]) __attribute__((always_inline)) {
                for (int v = 0; v < count; ++v) {
                  Isa::store(unpacked + column * kBlockRows + row + v * Isa::lanes, weights[v]);
                }
              });
        }
        const int depth = at + kStepColumns;
        if (depth == kSlabColumns || first + kStepColumns == product.columns) {
          all_tiles<Isa>(workspace.slab, depth, activations + first - at, product.columns, rows,
                         workspace.sums);
        }
      });
}

// Whatever the number of rows.

template <class Isa>
void write_sums(const BlockProduct& product, int64_t first, int rows, const float* sums) {
  for (int r = 0; r < rows; ++r) {
    std::memcpy(product.outputs + (first + r) * product.output_stride, sums + r * kBlockRows,
                sizeof(float) * product.block_rows);
  }
}

template <class Isa, Format F, int Rows>
void few_rows_at(const BlockProduct& product, int64_t first, int rows, Workspace& workspace) {
  const float* activations[Rows];
  for (int r = 0; r < Rows; ++r) {
    // Where there are fewer, the last is computed several times.
    activations[r] =
        product.activations + (first + (r < rows ? r : rows - 1)) * product.columns;
  }
  few_rows<Isa, F, Rows>(product, activations, workspace.sums);
}

template <class Isa, Format F>
void product(const BlockProduct& product, Workspace& workspace) {
  // With more, the sums of all rows leave too few registers for the decoding.
  constexpr int most_few = 4;
  for (int64_t first = 0; first < product.rows;) {
    const int64_t left = product.rows - first;
    const int rows = left < kChunkRows ? static_cast<int>(left) : kChunkRows;
    if (rows > most_few) {
      many_rows<Isa, F>(product, product.activations + first * product.columns, rows, workspace);
    } else if (rows > 2) {
      few_rows_at<Isa, F, 4>(product, first, rows, workspace);
    } else if (rows > 1) {
      few_rows_at<Isa, F, 2>(product, first, rows, workspace);
    } else {
      few_rows_at<Isa, F, 1>(product, first, rows, workspace);
    }
    write_sums<Isa>(product, first, rows, workspace.sums);
    first += rows;
  }
}

template <class Isa, Format F>
void row(const BlockRow& wanted) {
  using Floats = typename Isa::Floats;
  const int lane = wanted.row % Isa::lanes;
  for_each_step<F>(wanted.block, wanted.columns,
                   [&](const uint8_t* head, const uint8_t* step, int64_t first) {
                     Decoder<F>::template decode<Isa, 1>(
                         head, step, wanted.row - lane,
                         [&](int column, const Floats(&weights)[1]) {
                           wanted.values[first + column] = weights[0][lane];
                         });
                   });
}

template <class Isa, int... Formats>
constexpr Kernels kernels_over(std::integer_sequence<int, Formats...>) {
  return {{product<Isa, static_cast<Format>(Formats)>...}, {row<Isa, static_cast<Format>(Formats)>...}};
}

template <class Isa>
constexpr Kernels kernels_of() {
  return kernels_over<Isa>(std::make_integer_sequence<int, kFormats>{});
}

}  // namespace pantheon
