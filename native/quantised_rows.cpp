#include "quantised_rows.h"

#include <algorithm>
#include <limits>

#include "divided.h"
#include "formats.h"
#include "vectors.h"

namespace pantheon {
namespace {

using Four = Vectors<16>;

constexpr float kLargest = 32767;

// No scale is smaller, so that its inverse is a number and neither is subnormal. What is lost
// below it is half of the smallest normal number for each activation.
constexpr float kSmallestScale = std::numeric_limits<float>::min();

// Added to a number of fewer than 22 bits, it leaves the nearest whole number in the lowest bits.
constexpr float kRounder = 0x1.8p23f;
constexpr uint32_t kRounderBits = 0x4b400000;

constexpr int kPairsOfStep = kStepColumns / 2;

// The largest magnitude; NaN is larger than any. As whole numbers: no comparison passes NaN over.
// Signed ones, for which every processor has one.
float magnitude_of(const float* values) {
  const auto magnitudes = [&](int i) {
    return Four::load<Four::Integers>(values + i) & 0x7fffffff;
  };
  const auto larger = [](Four::Integers a, Four::Integers b) { return a > b ? a : b; };
  Four::Integers largest = magnitudes(0);
  for (int i = Four::lanes; i < kStepColumns; i += Four::lanes) {
    largest = larger(largest, magnitudes(i));
  }
  const int32_t first = std::max(largest[0], largest[1]), second = std::max(largest[2], largest[3]);
  const int32_t most = std::max(first, second);
  float magnitude;
  std::memcpy(&magnitude, &most, sizeof magnitude);
  return magnitude;
}

int32_t sum_of(Four::Integers values) { return values[0] + values[1] + values[2] + values[3]; }

// The activations of half a step: eight pairs of columns that stand eight apart. Their sum.
int32_t quantise_half(const float* values, float inverse, int32_t* pairs) {
  Four::Integers sum{};
  for (int i = 0; i < kPairsOfStep / 2; i += Four::lanes) {
    const auto rounded = [&](const float* from) {
      const Four::Floats large = Four::load<Four::Floats>(from) * inverse + kRounder;
      return reinterpret_cast<Four::Words>(large) - kRounderBits;
    };
    const Four::Words low = rounded(values + i), high = rounded(values + i + 8);
    const Four::Words both = (low & 0xffffu) | high << 16;
    std::memcpy(pairs + i, &both, sizeof both);
    sum += reinterpret_cast<Four::Integers>(low) + reinterpret_cast<Four::Integers>(high);
  }
  return sum_of(sum);
}

struct Offsets {
  int group;
  int zero;
  bool has_minimum;
};

template <Format F>
constexpr Offsets offsets_of() {
  if constexpr (is_plain(F)) {
    return {};
  } else {
    return {Codec<F>::kGroup, Codec<F>::kZero, Codec<F>::kHasMinimum};
  }
}

template <int... Formats>
Offsets offsets_over(Format format, std::integer_sequence<int, Formats...>) {
  static constexpr Offsets all[] = {offsets_of<static_cast<Format>(Formats)>()...};
  return all[static_cast<int64_t>(format)];
}

}  // namespace

void QuantisedRows::assign(const float* values, int64_t rows, int64_t columns) {
  const int64_t steps = rows * columns / kStepColumns;
  steps_ = steps;
  const auto hold = [](auto& held, int64_t count) {
    if (static_cast<int64_t>(held.size()) < count) held.resize(count);
  };
  hold(pairs_, steps * kPairsOfStep);
  hold(scales_, steps);
  hold(sums_, 2 * steps);
  for (auto& [of, found] : starts_) found.clear();
  for (auto& [of, found] : factors_) found.clear();
  for_rows(0, steps, kStepColumns,
           [&](int64_t step) { quantise_step(values + step * kStepColumns, step); });
}

void QuantisedRows::quantise_step(const float* values, int64_t step) {
  const float magnitude = magnitude_of(values);
  if (!(magnitude <= std::numeric_limits<float>::max())) {
    scales_[step] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const float exact = magnitude / kLargest;
  const float scale = exact > kSmallestScale ? exact : kSmallestScale;
  const float inverse = 1 / scale;
  int32_t* pairs = pairs_.data() + step * kPairsOfStep;
  scales_[step] = scale;
  sums_[2 * step] = quantise_half(values, inverse, pairs);
  sums_[2 * step + 1] =
      quantise_half(values + kStepColumns / 2, inverse, pairs + kPairsOfStep / 2);
}

WholeRows QuantisedRows::for_format(Format format) {
  const Offsets offsets = offsets_over(format, std::make_integer_sequence<int, kFormats>{});
  return {pairs_.data(), scales_.data(),
          offsets.has_minimum ? nullptr : starts(offsets.group, offsets.zero),
          offsets.has_minimum ? factors(offsets.group) : nullptr};
}

template <class Take>
void QuantisedRows::for_each_group(int group, Take&& take) const {
  for (size_t step = 0; step < steps_; ++step) {
    const int32_t first = sums_[2 * step], second = sums_[2 * step + 1];
    if (group == kStepColumns) {
      take(first + second, step);
    } else {
      take(first, step);
      take(second, step);
    }
  }
}

const int32_t* QuantisedRows::starts(int group, int zero) {
  std::vector<int32_t>& found = starts_[{group, zero}];
  if (found.empty()) {
    for_each_group(group, [&](int32_t sum, size_t) { found.push_back(-zero * sum); });
  }
  return found.data();
}

const float* QuantisedRows::factors(int group) {
  std::vector<float>& found = factors_[group];
  if (found.empty()) {
    for_each_group(group, [&](int32_t sum, size_t step) {
      found.push_back(static_cast<float>(sum) * scales_[step]);
    });
  }
  return found.data();
}

}  // namespace pantheon
