// Which of the rows that XLA gives hold something.
#pragma once

#include <algorithm>
#include <optional>

#include "ffi_errors.h"

namespace pantheon {

// Rows that hold something; the others are padding, whose results are zeros.
struct LiveRows {
  int64_t first;
  int64_t end;

  int64_t count() const { return end - first; }
};

// The first live row and one past the last; an error where those are no rows of `all`.
inline ffi::ErrorOr<LiveRows> live_rows_of(const ffi::Buffer<ffi::S32, 1>& bounds, int64_t all) {
  if (bounds.dimensions()[0] != 2) {
    return ffi::Unexpected(invalid("the first live row and the end", bounds.dimensions()[0]));
  }
  const LiveRows live{bounds.typed_data()[0], bounds.typed_data()[1]};
  if (live.first < 0 || live.first > live.end || live.end > all) {
    return ffi::Unexpected(invalid("live rows of " + std::to_string(all) + " from " +
                                       std::to_string(live.first),
                                   live.end));
  }
  return live;
}

// Makes the results of padding zeros.
inline void clear_padding(float* result, LiveRows live, int64_t all, int64_t columns) {
  std::fill(result, result + live.first * columns, 0.0f);
  std::fill(result + live.end * columns, result + all * columns, 0.0f);
}

}  // namespace pantheon
