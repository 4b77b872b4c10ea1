// Products of activations with a block of weights, for every number of activation rows.
//
// Each output is one chain of fused multiply-adds, beginning at zero, the same for every number of
// rows and in both ways below: the columns in rising order, and after each group of columns that
// share an offset that offset times the sum of their activations. So a row of the result never
// depends, not by a bit, on the other rows of its batch.
#pragma once

#include <cstring>

#include "block_steps.h"
#include "decode.h"
#include "kernels.h"

namespace pantheon {

// Groups of so many columns that share an offset.
template <Format F>
constexpr int64_t groups_of(int64_t columns) {
  return group_columns<F>() == 0 ? 0 : columns / group_columns<F>();
}

template <class Isa>
constexpr int smaller(int a, int b) {
  return a < b ? a : b;
}

// Few rows: codes go from the registers that decode them into the chains of all rows.

// Vectors of weights that are decoded together: as many as the chains leave registers for, so that
// enough independent ones run at once.
template <class Isa, int Rows>
constexpr int strip_vectors() {
  return smaller<Isa>(kBlockRows / Isa::lanes, Rows == 1 ? 4 : 2);
}

template <class Isa, int Group, int Rows, int Count>
struct Chains {
  using Floats = typename Isa::Floats;

  const float* const (&activations)[Rows];
  const float* const (&sums)[Rows];
  Floats chain[Rows][Count] = {};
  int64_t first = 0;   // Column of the step.

  [[gnu::always_inline]] void take(int column, const Floats (&weights)[Count]) {
    add(weights, activations, first + column);
  }

  [[gnu::always_inline]] void offset(int group, const Floats (&offset)[Count]) {
    add(offset, sums, first / Group + group);
  }

 private:
  [[gnu::always_inline]] void add(const Floats (&weights)[Count],
                                  const float* const (&factors)[Rows], int64_t at) {
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      const Floats factor = Isa::splat(factors[r][at]);
#pragma GCC unroll 4
      for (int v = 0; v < Count; ++v) chain[r][v] = Isa::fused(weights[v], factor, chain[r][v]);
    }
  }
};

template <class Isa, Format F, int Rows>
void few_rows(const BlockProduct& product, const float* const (&activations)[Rows],
              const float* const (&sums)[Rows], float* totals) {
  constexpr int count = strip_vectors<Isa, Rows>();
  for (int row = 0; row < kBlockRows; row += count * Isa::lanes) {
    Chains<Isa, group_columns<F>(), Rows, count> chains{activations, sums};
    for_each_step<F>(
        product.block, product.columns,
        [&](const uint8_t* head, const uint8_t* step, int64_t first)
            __attribute__((always_inline)) {
          prefetch_ahead<F>(step);
          chains.first = first;
          decode<Isa, F, count>(head, step, row, chains);
        });
    for (int r = 0; r < Rows; ++r) {
      for (int v = 0; v < count; ++v) {
        Isa::store(totals + r * kBlockRows + row + v * Isa::lanes, chains.chain[r][v]);
      }
    }
  }
}

// Many rows: some columns of the block are unpacked, and then used by all rows.

// Writes the weights of a step without their offsets, and those.
template <class Isa, int Group, int Count>
struct SlabWriter {
  using Floats = typename Isa::Floats;

  Workspace& workspace;
  int first;   // Column of the step in the slab.
  int row;

  [[gnu::always_inline]] void take(int column, const Floats (&weights)[Count]) {
    write(workspace.slab, first + column, weights);
  }

  [[gnu::always_inline]] void offset(int group, const Floats (&offset)[Count]) {
    write(workspace.offsets, first / Group + group, offset);
  }

 private:
  [[gnu::always_inline]] void write(float* planes, int plane, const Floats (&values)[Count]) {
    for (int v = 0; v < Count; ++v) {
      Isa::store(planes + plane * kBlockRows + row + v * Isa::lanes, values[v]);
    }
  }
};

// What all tiles of a slab share.
struct Slab {
  const Workspace& workspace;
  int depth;                  // Columns.
  const float* activations;   // Of the first row and column; rows are `stride` apart.
  int64_t stride;
  const float* sums;          // Likewise, of the groups.
  int64_t sums_stride;
};

template <class Isa, int Group, int Rows>
void tile(const Slab& slab, int first, float* totals) {
  constexpr int count = Isa::tile_vectors;
  using Floats = typename Isa::Floats;
  const float* activations = slab.activations + first * slab.stride;
  const float* sums = slab.sums + first * slab.sums_stride;
  const int run = Group == 0 ? slab.depth : Group;
  for (int row = 0; row < kBlockRows; row += count * Isa::lanes) {
    Floats chain[Rows][count];
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < count; ++v) {
        chain[r][v] = Isa::template load<Floats>(totals + r * kBlockRows + row + v * Isa::lanes);
      }
    }
    const auto add = [&](const float* plane, const float* factors, int64_t stride)
                         __attribute__((always_inline)) {
      Floats weights[count];
#pragma GCC unroll 4
      for (int v = 0; v < count; ++v) {
        weights[v] = Isa::template load<Floats>(plane + row + v * Isa::lanes);
      }
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const Floats factor = Isa::splat(factors[r * stride]);
#pragma GCC unroll 4
        for (int v = 0; v < count; ++v) chain[r][v] = Isa::fused(weights[v], factor, chain[r][v]);
      }
    };
    for (int begin = 0; begin < slab.depth; begin += run) {
#pragma GCC unroll 2
      for (int column = begin; column < begin + run; ++column) {
        add(slab.workspace.slab + column * kBlockRows, activations + column, slab.stride);
      }
      if constexpr (Group != 0) {
        const int group = begin / Group;
        add(slab.workspace.offsets + group * kBlockRows, sums + group, slab.sums_stride);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < count; ++v) {
        Isa::store(totals + r * kBlockRows + row + v * Isa::lanes, chain[r][v]);
      }
    }
  }
}

using Tile = void (*)(const Slab&, int, float*);

template <class Isa, int Group, int... Rows>
Tile tile_of(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr Tile tiles[] = {tile<Isa, Group, Rows + 1>...};
  return tiles[rows - 1];
}

// Tiles of nearly the same size, none larger than the registers hold.
template <class Isa, int Group>
void all_tiles(const Slab& slab, int rows, float* totals) {
  const int tiles = (rows + Isa::tile_rows - 1) / Isa::tile_rows;
  for (int i = 0, row = 0; i < tiles; ++i) {
    const int size = rows / tiles + (i < rows % tiles);
    tile_of<Isa, Group>(size, std::make_integer_sequence<int, Isa::tile_rows>{})(
        slab, row, totals + row * kBlockRows);
    row += size;
  }
}

template <class Isa, Format F>
void many_rows(const BlockProduct& product, int64_t first_row, int rows, Workspace& workspace) {
  constexpr int count = smaller<Isa>(kBlockRows / Isa::lanes, 4);
  const int64_t stride = product.columns;
  const float* activations = product.activations + first_row * stride;
  const int64_t groups = groups_of<F>(stride);
  const float* sums = product.sums + first_row * groups;
  std::memset(workspace.totals, 0, sizeof(float) * rows * kBlockRows);
  for_each_step<F>(
      product.block, product.columns,
      [&](const uint8_t* head, const uint8_t* step, int64_t first) {
        prefetch_ahead<F>(step);
        const int at = first % kSlabColumns;
        for (int row = 0; row < kBlockRows; row += count * Isa::lanes) {
          SlabWriter<Isa, group_columns<F>(), count> writer{workspace, at, row};
          decode<Isa, F, count>(head, step, row, writer);
        }
        const int depth = at + kStepColumns;
        if (depth == kSlabColumns || first + kStepColumns == product.columns) {
          const int64_t begin = first - at;
          const Slab slab{workspace, depth, activations + begin, stride,
                          sums + groups_of<F>(begin), groups};
          all_tiles<Isa, group_columns<F>()>(slab, rows, workspace.totals);
        }
      });
}

template <class Isa>
void write_totals(const BlockProduct& product, int64_t first, int rows, const float* totals) {
  for (int r = 0; r < rows; ++r) {
    std::memcpy(product.outputs + (first + r) * product.output_stride, totals + r * kBlockRows,
                sizeof(float) * product.block_rows);
  }
}

template <class Isa, Format F, int Rows>
void few_rows_of(const BlockProduct& product, Workspace& workspace) {
  const float* activations[Rows];
  const float* sums[Rows];
  for (int r = 0; r < Rows; ++r) {
    // Where there are fewer, the last is computed several times.
    const int64_t own = r < product.rows ? r : product.rows - 1;
    activations[r] = product.activations + own * product.columns;
    sums[r] = product.sums + own * groups_of<F>(product.columns);
  }
  few_rows<Isa, F, Rows>(product, activations, sums, workspace.totals);
  write_totals<Isa>(product, 0, static_cast<int>(product.rows), workspace.totals);
}

template <class Isa, Format F>
void product(const BlockProduct& product, Workspace& workspace) {
  if (product.rows == 1) return few_rows_of<Isa, F, 1>(product, workspace);
  // Codes are multiplied here only by those who ask for float32.
  if constexpr (is_plain(F)) {
    if (product.rows == 2) return few_rows_of<Isa, F, 2>(product, workspace);
    if (product.rows <= 4) return few_rows_of<Isa, F, 4>(product, workspace);
  }
  for (int64_t first = 0; first < product.rows; first += kChunkRows) {
    const int64_t left = product.rows - first;
    const int rows = left < kChunkRows ? static_cast<int>(left) : kChunkRows;
    many_rows<Isa, F>(product, first, rows, workspace);
    write_totals<Isa>(product, first, rows, workspace.totals);
  }
}

// One row in float32.
template <class Isa, int Group>
struct RowWriter {
  using Floats = typename Isa::Floats;

  float* values;   // Of the step.
  int lane;

  [[gnu::always_inline]] void take(int column, const Floats (&weights)[1]) {
    values[column] = weights[0][lane];
  }

  [[gnu::always_inline]] void offset(int group, const Floats (&offset)[1]) {
    for (int column = group * Group; column < (group + 1) * Group; ++column) {
      values[column] += offset[0][lane];
    }
  }
};

template <class Isa, Format F>
void row(const BlockRow& wanted) {
  const int lane = wanted.row % Isa::lanes;
  for_each_step<F>(wanted.block, wanted.columns,
                   [&](const uint8_t* head, const uint8_t* step, int64_t first) {
                     RowWriter<Isa, group_columns<F>()> writer{wanted.values + first, lane};
                     decode<Isa, F, 1>(head, step, wanted.row - lane, writer);
                   });
}

template <class Isa, int... Formats>
constexpr Kernels kernels_over(std::integer_sequence<int, Formats...>) {
  return {{product<Isa, static_cast<Format>(Formats)>...},
          {row<Isa, static_cast<Format>(Formats)>...}};
}

template <class Isa>
constexpr Kernels kernels_of() {
  return kernels_over<Isa>(std::make_integer_sequence<int, kFormats>{});
}

}  // namespace pantheon
