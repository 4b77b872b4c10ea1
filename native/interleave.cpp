#include "interleave.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "divided.h"
#include "thread_pool.h"

namespace pantheon {
namespace {

// Values for which the threads are taken at once: others, that compute steps, come in between.
constexpr int64_t kPartValues = int64_t{1} << 17;

constexpr int64_t kPage = 4096;

// What is interleaved, and where to.
struct Task {
  const RowSource* source;
  const uint8_t* packed;
  int64_t row_bytes;
  int64_t rows;
  int64_t columns;
  uint8_t* out;
  int64_t block_bytes;
};

// Reads a file that is not in memory yet before the threads are taken, not while others wait.
void read_pages(const uint8_t* from, int64_t bytes) {
  const volatile uint8_t* bytes_of = from;
  for (int64_t i = 0; i < bytes; i += kPage) (void)bytes_of[i];
}

void interleave_block(const Task& task, int64_t block, const uint8_t* zeros) {
  RowBlock of{{}, task.columns, task.out + block * task.block_bytes};
  for (int i = 0; i < kBlockRows; ++i) {
    const int64_t row = block * kBlockRows + i;
    of.rows[i] = row < task.rows ? task.packed + row * task.row_bytes : zeros;
  }
  task.source->interleave(of);
}

void interleave(const Task& task) {
  const std::vector<uint8_t> zeros(task.rows % kBlockRows != 0 ? task.row_bytes : 0);
  const int64_t blocks = ceiling(task.rows, kBlockRows);
  const auto pool = ThreadPool::of_process();
  const int64_t part =
      std::max<int64_t>(kPartValues / (kBlockRows * task.columns), pool->threads());
  for (int64_t first = 0; first < blocks; first += part) {
    const int64_t count = std::min(part, blocks - first);
    const int64_t begin = first * kBlockRows;
    const int64_t rows = std::min(count * kBlockRows, task.rows - begin);
    read_pages(task.packed + begin * task.row_bytes, rows * task.row_bytes);
    pool->run(count, [&](int64_t i, Workspace&) {
      interleave_block(task, first + i, zeros.data());
    });
  }
}

std::string wrong(const std::string& what, int64_t expected, int64_t got) {
  return what + ": expected " + std::to_string(expected) + ", got " + std::to_string(got);
}

// A matrix as it comes from outside.
struct Request {
  const char* source;
  const uint8_t* packed;
  int64_t packed_bytes;
  int64_t rows;
  int64_t columns;
  uint8_t* out;
  int64_t out_bytes;
};

// Says what is wrong with a request; else does what it asks for, and says nothing.
std::string checked_interleave(const Request& from) {
  const std::string name = from.source == nullptr ? "" : from.source;
  const RowSource* source = row_source(name.c_str());
  if (source == nullptr) return "expected a type that is interleaved, got '" + name + "'";
  if (from.columns <= 0 || from.columns % source->columns != 0) {
    return "columns of " + name + ": expected a multiple of " + std::to_string(source->columns) +
           ", got " + std::to_string(from.columns);
  }
  if (from.rows < 0) return "rows: expected none or more, got " + std::to_string(from.rows);
  int64_t row_bytes, packed_bytes, block_bytes, out_bytes;
  const int64_t parts = from.columns / source->columns;
  const int64_t part_bytes = bytes_of_block(source->format, source->columns);
  if (__builtin_mul_overflow(parts, source->bytes, &row_bytes) ||
      __builtin_mul_overflow(parts, part_bytes, &block_bytes) ||
      __builtin_mul_overflow(from.rows, row_bytes, &packed_bytes) ||
      __builtin_mul_overflow(from.rows / kBlockRows + 1, block_bytes, &out_bytes)) {
    return "rows and columns: expected a matrix that fits in memory, got " +
           std::to_string(from.rows) + " x " + std::to_string(from.columns);
  }
  out_bytes = ceiling(from.rows, kBlockRows) * block_bytes;
  if (from.packed_bytes != packed_bytes) {
    return wrong("bytes of the rows of " + name, packed_bytes, from.packed_bytes);
  }
  if (from.out_bytes != out_bytes) {
    return wrong("bytes of their blocks", out_bytes, from.out_bytes);
  }
  if (from.rows == 0) return {};
  if (from.packed == nullptr || from.out == nullptr) {
    return "rows and blocks: expected memory, got none";
  }
  interleave({source, from.packed, row_bytes, from.rows, from.columns, from.out, block_bytes});
  return {};
}

}  // namespace
}  // namespace pantheon

#pragma GCC visibility push(default)

extern "C" {

bool pantheon_has_source(const char* name) {
  return pantheon::row_source(name) != nullptr;
}

// False, with what is wrong in `error`, where it cannot be done.
bool pantheon_interleave(const char* source, const uint8_t* packed, int64_t packed_bytes,
                         int64_t rows, int64_t columns, uint8_t* out, int64_t out_bytes,
                         char* error, int64_t error_bytes) {
  std::string found;
  try {
    found = pantheon::checked_interleave({source, packed, packed_bytes, rows, columns, out,
                                          out_bytes});
  } catch (const std::exception& thrown) {
    found = thrown.what();
  }
  if (found.empty()) return true;
  std::snprintf(error, static_cast<size_t>(error_bytes), "%s", found.c_str());
  return false;
}

}  // extern "C"

#pragma GCC visibility pop
