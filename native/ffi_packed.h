// Packed matrices as XLA gives them.
#pragma once

#include "divided.h"
#include "ffi_errors.h"
#include "packed_products.h"

namespace pantheon {

using PackedBuffer = ffi::Buffer<ffi::U8, 2>;   // [blocks, bytes of a block]

// What a call says of a matrix.
struct PackedKind {
  int64_t format;
  int64_t quantised;
};

// A buffer as a matrix of `rows` x `columns`; an error where it cannot be one.
inline ffi::ErrorOr<PackedMatrix> packed_matrix(const PackedBuffer& buffer, PackedKind kind,
                                                int64_t rows, int64_t columns) {
  if (kind.format < 0 || kind.format >= kFormats) {
    return ffi::Unexpected(invalid("the number of a format", kind.format));
  }
  const auto format = static_cast<Format>(kind.format);
  const int64_t bytes = block_bytes(format, columns);
  if (bytes == 0) {
    return ffi::Unexpected(
        invalid("columns in whole spans of format " + std::to_string(kind.format), columns));
  }
  if (buffer.dimensions()[1] != bytes) {
    return ffi::Unexpected(
        invalid("blocks of " + std::to_string(bytes) + " bytes", buffer.dimensions()[1]));
  }
  const int64_t blocks = ceiling(rows, kBlockRows);
  if (buffer.dimensions()[0] != blocks) {
    return ffi::Unexpected(invalid(std::to_string(blocks) + " blocks", buffer.dimensions()[0]));
  }
  return PackedMatrix{format, kind.quantised != 0, buffer.typed_data(), bytes, rows};
}

}  // namespace pantheon
