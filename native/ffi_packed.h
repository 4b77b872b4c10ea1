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

// Bytes of a block of `columns`; an error where the format has none.
inline ffi::ErrorOr<int64_t> checked_block_bytes(int64_t format, int64_t columns) {
  if (format < 0 || format >= kFormats) {
    return ffi::Unexpected(invalid("the number of a format", format));
  }
  const int64_t bytes = block_bytes(static_cast<Format>(format), columns);
  if (bytes == 0) {
    return ffi::Unexpected(
        invalid("columns in whole spans of format " + std::to_string(format), columns));
  }
  return bytes;
}

// A buffer as a matrix of `rows` x `columns`; an error where it cannot be one.
inline ffi::ErrorOr<PackedMatrix> packed_matrix(const PackedBuffer& buffer, PackedKind kind,
                                                int64_t rows, int64_t columns) {
  const auto bytes = checked_block_bytes(kind.format, columns);
  if (bytes.has_error()) return ffi::Unexpected(bytes.error());
  if (buffer.dimensions()[1] != *bytes) {
    return ffi::Unexpected(
        invalid("blocks of " + std::to_string(*bytes) + " bytes", buffer.dimensions()[1]));
  }
  const int64_t blocks = ceiling(rows, kBlockRows);
  if (buffer.dimensions()[0] != blocks) {
    return ffi::Unexpected(invalid(std::to_string(blocks) + " blocks", buffer.dimensions()[0]));
  }
  return PackedMatrix{static_cast<Format>(kind.format), kind.quantised != 0, buffer.typed_data(),
                      *bytes, rows};
}

// The matrix that begins at an offset of memory which it shares with others.
inline ffi::ErrorOr<PackedMatrix> packed_at(const uint8_t* memory, int64_t size, int64_t offset,
                                            PackedKind kind, int64_t rows, int64_t columns) {
  const auto bytes = checked_block_bytes(kind.format, columns);
  if (bytes.has_error()) return ffi::Unexpected(bytes.error());
  const int64_t last = size - ceiling(rows, kBlockRows) * *bytes;
  if (offset < 0 || offset > last) {
    return ffi::Unexpected(invalid("an offset up to " + std::to_string(last), offset));
  }
  return PackedMatrix{static_cast<Format>(kind.format), kind.quantised != 0, memory + offset,
                      *bytes, rows};
}

}  // namespace pantheon
