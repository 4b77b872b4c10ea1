#include "activation_sums.h"

#include "decode.h"
#include "kernels.h"
#include "vectors.h"

namespace pantheon {
namespace {

using Four = Vectors<16>;

constexpr int kLargestGroup = 2 * kSmallestGroup;

template <int... Formats>
int group_over(Format format, std::integer_sequence<int, Formats...>) {
  static constexpr int groups[] = {group_columns<static_cast<Format>(Formats)>()...};
  return groups[static_cast<int64_t>(format)];
}

// In an order that is the same everywhere.
float sum_of(const float* columns) {
  const auto at = [&](int i) { return Four::load<Four::Floats>(columns + 4 * i); };
  const Four::Floats four = (at(0) + at(1)) + (at(2) + at(3));
  return (four[0] + four[1]) + (four[2] + four[3]);
}

}  // namespace

const float* ActivationSums::of_groups(Format format) {
  const int group = group_over(format, std::make_integer_sequence<int, kFormats>{});
  if (group == 0) return nullptr;
  std::vector<float>& sums = group == kSmallestGroup ? small_ : large_;
  if (sums.empty()) {
    sums.reserve(size_ / group);
    for (int64_t at = 0; at < size_; at += group) {
      const float sum = sum_of(values_ + at);
      sums.push_back(group == kLargestGroup ? sum + sum_of(values_ + at + kSmallestGroup) : sum);
    }
  }
  return sums.data();
}

}  // namespace pantheon
