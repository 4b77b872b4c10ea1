// How the processor treats the smallest numbers.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace pantheon {

// While one lives, its thread computes with subnormal numbers and rounds to nearest: a result must
// not depend on which thread it fell to, and JAX's own flush them to zero.
class FloatMode {
 public:
#if defined(__x86_64__)
  FloatMode() : before_(_mm_getcsr()) { _mm_setcsr(kDefault); }
  ~FloatMode() { _mm_setcsr(before_); }

  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  static constexpr unsigned kDefault = 0x1f80;   // All exceptions masked.
  unsigned before_;
#endif
};

}  // namespace pantheon
