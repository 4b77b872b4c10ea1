// The exponential function of vectors.
#pragma once

#include "vectors.h"

namespace pantheon {

// exp(x) to within a unit or two in the last place. It is zero where exp(x) is below the smallest
// normal number, infinite above the largest, and no number where x is none.
//
// x = n ln 2 + r with n whole, so that exp(x) = 2^n exp(r) and |r| is at most ln 2 / 2. There
// exp(r) = 1 + r + r^2 q(r); q is the polynomial of degree 4 with the smallest largest relative
// error, 3e-9. ln 2 is taken off in two parts (Cody and Waite, 1980): the first has so few bits
// that its product with n is exact.
template <class Isa>
[[gnu::always_inline]] inline typename Isa::Floats exponential(typename Isa::Floats x) {
  using Floats = typename Isa::Floats;
  using Words = typename Isa::Words;
  constexpr float lowest = -87.33654f;    // The logarithm of the smallest normal number.
  constexpr float highest = 88.8f;        // Its exponential is infinite.
  // Added to a small number it rounds it to a whole one, which then stands in the lowest bits.
  constexpr float rounder = 0x1.8p23f;
  // The bounds come first: the second operand stays where it is no number.
  const Floats bounded = Isa::smaller(Isa::splat(highest), Isa::larger(Isa::splat(lowest), x));
  const Floats shifted = Isa::fused(bounded, Isa::splat(1.44269504f), Isa::splat(rounder));
  const Floats whole = shifted - rounder;
  Floats rest = Isa::fused(whole, Isa::splat(-0.693359375f), bounded);
  rest = Isa::fused(whole, Isa::splat(2.12194440e-4f), rest);
  Floats q = Isa::splat(0.0013814599f);
  q = Isa::fused(q, rest, Isa::splat(0.008368717f));
  q = Isa::fused(q, rest, Isa::splat(0.04166839f));
  q = Isa::fused(q, rest, Isa::splat(0.16666521f));
  q = Isa::fused(q, rest, Isa::splat(0.49999994f));
  const Floats power = Isa::fused(q, rest * rest, rest) + 1.0f;
  // The sum's lowest bits are those of n, its others vanish in the shift.
  const Words exponent = reinterpret_cast<Words>(shifted) << 23;
  const Words one = reinterpret_cast<Words>(Isa::splat(1.0f));
  const Floats result = power * reinterpret_cast<Floats>(exponent + one);
  const Words kept = ~reinterpret_cast<Words>(x < lowest);
  return reinterpret_cast<Floats>(reinterpret_cast<Words>(result) & kept);
}

}  // namespace pantheon
