// Loops whose index is a constant of the compiler.
#pragma once

#include <type_traits>
#include <utility>

namespace pantheon {

template <class Body, int... Index>
[[gnu::always_inline]] inline void unrolled_over(std::integer_sequence<int, Index...>,
                                                 Body&& body) {
  (body(std::integral_constant<int, Index>{}), ...);
}

// Calls `body` with the constants 0 to Count - 1.
template <int Count, class Body>
[[gnu::always_inline]] inline void unrolled(Body&& body) {
  unrolled_over(std::make_integer_sequence<int, Count>{}, std::forward<Body>(body));
}

}  // namespace pantheon
