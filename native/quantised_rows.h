// Activations in 16 bits, for products with codes in whole numbers.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "kernels.h"

namespace pantheon {

// The columns of each step share a scale: the largest among them becomes 32767. A row's numbers
// depend on no other row. A step with a value that is not finite has NaN for its scale, so that
// whatever is multiplied by it is seen not to be a number.
class QuantisedRows {
 public:
  // Takes activations [rows, columns], the columns in whole steps, in place of those before, whose
  // memory it keeps.
  void assign(const float* values, int64_t rows, int64_t columns);

  // As products with a format of codes take them. What they share is computed once.
  WholeRows for_format(Format format);

 private:
  void quantise_step(const float* values, int64_t step);

  const int32_t* starts(int group, int zero);
  const float* factors(int group);

  // Calls `take(sum, step)` for the activations of each group.
  template <class Take>
  void for_each_group(int group, Take&& take) const;

  size_t steps_ = 0;             // Of all rows.
  std::vector<int32_t> pairs_;   // [rows, columns / 2]
  std::vector<float> scales_;    // [rows, steps]
  std::vector<int32_t> sums_;    // [rows, steps, 2]: of the first 16 columns, and of the others.
  std::map<std::pair<int, int>, std::vector<int32_t>> starts_;
  std::map<int, std::vector<float>> factors_;
};

}  // namespace pantheon
