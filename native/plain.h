// Matrices of plain floats: the float for each row, column after column.
#pragma once

#include "layout.h"

namespace pantheon {

template <Format>
struct Plain;

template <>
struct Plain<Format::f32> {
  static constexpr int kSize = 4;

  template <class Isa>
  static typename Isa::Floats load(const uint8_t* at) { return Isa::floats(at); }
};

template <>
struct Plain<Format::f16> {
  static constexpr int kSize = 2;

  template <class Isa>
  static typename Isa::Floats load(const uint8_t* at) { return Isa::halves(at); }
};

template <>
struct Plain<Format::bf16> {
  static constexpr int kSize = 2;

  template <class Isa>
  static typename Isa::Floats load(const uint8_t* at) { return Isa::bfloats(at); }
};

template <class Isa, Format F, int Count, class Sink>
[[gnu::always_inline]] inline void load_plain(const uint8_t* step, int row, Sink&& sink) {
#pragma GCC unroll 4
  for (int column = 0; column < kStepColumns; ++column) {
    typename Isa::Floats weights[Count];
    for (int v = 0; v < Count; ++v) {
      weights[v] = Plain<F>::template load<Isa>(
          step + (column * kBlockRows + row + v * Isa::lanes) * Plain<F>::kSize);
    }
    sink.take(column, weights);
  }
}

}  // namespace pantheon
