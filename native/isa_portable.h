// What every processor of the architecture has: 128-bit vectors.
#pragma once

#include "vectors.h"

namespace pantheon {

struct Portable : Vectors<16> {
  static constexpr int tile_rows = 6;    // Activations of a register tile ...
  static constexpr int tile_vectors = 2; // ... and vectors of weights.
  static constexpr int sums = 8;         // Vectors of sums in whole numbers, and ...
  static constexpr int whole_rows = 2;   // ... the activations that most of them are for.
};

}  // namespace pantheon
