// What is done to each row by itself, in vectors. Sums are made in an order that only the number
// of columns decides; the last columns, fewer than a vector has lanes, are a vector filled up with
// zeros.
#pragma once

#include <cmath>
#include <cstring>

#include "exponential.h"
#include "row_kernels.h"

namespace pantheon {

// Calls `body(first, load, store)` for each vector of `count` numbers.
template <class Isa, class Body>
[[gnu::always_inline]] inline void for_each_vector(int64_t count, Body&& body) {
  using Floats = typename Isa::Floats;
  int64_t i = 0;
  for (; i + Isa::lanes <= count; i += Isa::lanes) {
    body(
        i,
        [](const float* from) __attribute__((always_inline)) {
          return Isa::template load<Floats>(from);
        },
        [](float* to, Floats values) __attribute__((always_inline)) { Isa::store(to, values); });
  }
  if (i == count) return;
  const int64_t bytes = static_cast<int64_t>(sizeof(float)) * (count - i);
  body(
      i,
      [bytes](const float* from) __attribute__((always_inline)) {
        Floats values = {};
        std::memcpy(&values, from, bytes);
        return values;
      },
      [bytes](float* to, Floats values) __attribute__((always_inline)) {
        std::memcpy(to, &values, bytes);
      });
}

// By what a row is multiplied so that its mean square is one. `values(i, load, store)` gives its
// numbers from the i-th on.
template <class Isa, class Values>
[[gnu::always_inline]] inline float norm_scale(int64_t count, float epsilon, Values&& values) {
  using Floats = typename Isa::Floats;
  constexpr int chains = 4;   // As many as run at once.
  Floats sums[chains] = {};
  for_each_vector<Isa>(count, [&](int64_t i, auto load, auto store)
                                  __attribute__((always_inline)) {
    const Floats found = values(i, load, store);
    Floats& sum = sums[i / Isa::lanes % chains];
    sum = Isa::fused(found, found, sum);
  });
  const Floats all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float total = 0;
  for (int lane = 0; lane < Isa::lanes; ++lane) total += all[lane];
  const float mean = total / static_cast<float>(count);
  return 1.0f / __builtin_sqrtf(mean + epsilon);
}

template <class Isa>
[[gnu::always_inline]] inline void scaled(const float* x, const float* weight, float by,
                                          int64_t count, float* result) {
  const typename Isa::Floats scale = Isa::splat(by);
  for_each_vector<Isa>(count, [&](int64_t i, auto load, auto store)
                                  __attribute__((always_inline)) {
    store(result + i, load(x + i) * scale * load(weight + i));
  });
}

template <class Isa>
void rms_norm(const float* x, const float* weight, float epsilon, int64_t count, float* result) {
  const float scale = norm_scale<Isa>(
      count, epsilon,
      [&](int64_t i, auto load, auto) __attribute__((always_inline)) { return load(x + i); });
  scaled<Isa>(x, weight, scale, count, result);
}

template <class Isa>
void add_rms_norm(const float* x, const float* delta, const float* weight, float epsilon,
                  int64_t count, float* sum, float* result) {
  const float scale = norm_scale<Isa>(
      count, epsilon,
      [&](int64_t i, auto load, auto store) __attribute__((always_inline)) {
        const auto values = load(x + i) + load(delta + i);
        store(sum + i, values);
        return values;
      });
  scaled<Isa>(sum, weight, scale, count, result);
}

template <class Isa>
void silu_product(const float* gate, const float* up, int64_t count, float* result) {
  using Floats = typename Isa::Floats;
  for_each_vector<Isa>(count, [&](int64_t i, auto load, auto store)
                                  __attribute__((always_inline)) {
    const Floats value = load(gate + i);
    store(result + i, value / (exponential<Isa>(-value) + 1.0f) * load(up + i));
  });
}

template <class Isa>
void turn(const Turn& of) {
  using Floats = typename Isa::Floats;
  const int64_t half = of.turned / 2;
  for (int64_t head = 0; head < of.count; ++head) {
    const float* x = of.heads + head * of.head_dim;
    float* result = of.results + head * of.head_dim;
    // `partner(i, load)` gives what the dimensions from `first + i` on are paired with.
    const auto turn_part = [&](int64_t first, int64_t count, auto partner)
                               __attribute__((always_inline)) {
      for_each_vector<Isa>(count, [&](int64_t i, auto load, auto store)
                                      __attribute__((always_inline)) {
        const Floats other = partner(first + i, load);
        store(result + first + i, Isa::fused(other, load(of.sines + first + i),
                                             load(x + first + i) * load(of.cosines + first + i)));
      });
    };
    if (of.neighbours) {
      turn_part(0, of.turned, [&](int64_t i, auto load) __attribute__((always_inline)) {
        return Isa::template swapped<1>(load(x + i));
      });
    } else {
      turn_part(0, half, [&](int64_t i, auto load) __attribute__((always_inline)) {
        return load(x + i + half);
      });
      turn_part(half, half, [&](int64_t i, auto load) __attribute__((always_inline)) {
        return load(x + i - half);
      });
    }
    std::memcpy(result + of.turned, x + of.turned, sizeof(float) * (of.head_dim - of.turned));
  }
}

// Part after part, of which the first that holds the largest is searched again for its place.
template <class Isa>
Largest largest(const float* x, int64_t count) {
  using Floats = typename Isa::Floats;
  constexpr int64_t part = 1024;
  constexpr int chains = 4;
  constexpr float lowest = -__builtin_inff();
  float best = lowest;
  int64_t first = 0;
  typename Isa::Integers odd = {};   // Set in lanes that met what is no number.
  for (int64_t begin = 0; begin < count; begin += part) {
    const int64_t end = begin + part < count ? begin + part : count;
    Floats peaks[chains];
    for (Floats& peak : peaks) peak = Isa::splat(lowest);
    int64_t i = begin;
    for (; i + chains * Isa::lanes <= end; i += chains * Isa::lanes) {
#pragma GCC unroll 4
      for (int chain = 0; chain < chains; ++chain) {
        const auto values = Isa::template load<Floats>(x + i + chain * Isa::lanes);
        odd |= values != values;
        peaks[chain] = Isa::larger(values, peaks[chain]);
      }
    }
    float peak = lowest;
    for (; i < end; ++i) {
      odd[0] |= x[i] != x[i];
      peak = x[i] > peak ? x[i] : peak;
    }
    const Floats all =
        Isa::larger(Isa::larger(peaks[0], peaks[1]), Isa::larger(peaks[2], peaks[3]));
    for (int lane = 0; lane < Isa::lanes; ++lane) peak = all[lane] > peak ? all[lane] : peak;
    if (peak > best) {
      best = peak;
      first = begin;
    }
  }
  bool all_finite = __builtin_isfinite(best);
  for (int lane = 0; lane < Isa::lanes; ++lane) all_finite = all_finite && odd[lane] == 0;
  int64_t place = first;
  while (place < count && x[place] != best) ++place;
  return {place < count ? place : 0, all_finite};
}

template <class Isa>
constexpr RowKernels rows_of() {
  return {rms_norm<Isa>, add_rms_norm<Isa>, silu_product<Isa>, turn<Isa>, largest<Isa>};
}

}  // namespace pantheon
