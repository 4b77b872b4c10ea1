// What is made of the activations once for all matrices that they are multiplied by.
#pragma once

#include <cstdint>
#include <vector>

#include "layout.h"

namespace pantheon {

class ActivationSums {
 public:
  // Takes activations [rows, columns], the columns in whole steps, in place of those before, whose
  // memory it keeps.
  void assign(const float* values, int64_t rows, int64_t columns) {
    values_ = values;
    size_ = rows * columns;
    small_.clear();
    large_.clear();
  }

  // The sums of the columns of each group that shares an offset in a format: [rows, groups]; null
  // where the format has no offsets. They are computed once.
  const float* of_groups(Format format);

 private:
  const float* values_ = nullptr;
  int64_t size_ = 0;
  std::vector<float> small_;   // Of 16 columns.
  std::vector<float> large_;   // Of 32 columns.
};

}  // namespace pantheon
