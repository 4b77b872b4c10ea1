// Work on rows divided among the threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "float_mode.h"
#include "thread_pool.h"

namespace pantheon {

inline int64_t ceiling(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

// Numbers for which another thread is worth its waking.
inline constexpr int64_t kPieceNumbers = 4096;

// Calls `work(row)` for the rows from `first` to `end`, each of so many numbers, on all threads
// where they are many.
template <class Work>
void for_rows(int64_t first, int64_t end, int64_t columns, Work&& work) {
  const int64_t piece = std::max<int64_t>(kPieceNumbers / std::max<int64_t>(columns, 1), 1);
  if (end - first <= piece) {
    const FloatMode mode;
    for (int64_t row = first; row < end; ++row) work(row);
    return;
  }
  ThreadPool::of_process()->run(ceiling(end - first, piece), [&](int64_t i, Workspace&) {
    const int64_t begin = first + i * piece;
    const int64_t stop = std::min(begin + piece, end);
    for (int64_t row = begin; row < stop; ++row) work(row);
  });
}

}  // namespace pantheon
