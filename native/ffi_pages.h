// Pages of keys and values, and what points into them, as XLA gives them.
#pragma once

#include <algorithm>

#include "divided.h"
#include "ffi_errors.h"
#include "page_writes.h"

namespace pantheon {

using Pages = ffi::AnyBuffer;             // [pages, kv_heads, page_size, head_dim]
using Table = ffi::Buffer<ffi::S32, 2>;
using Lengths = ffi::Buffer<ffi::S32, 1>;

inline bool same(const ffi::AnyBuffer::Dimensions& a, const ffi::AnyBuffer::Dimensions& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Buffers as keys and values of so many heads; an error where they cannot be that.
inline ffi::Error check_pages(const Pages& keys, const Pages& values, int64_t kv_heads,
                              int64_t head_dim) {
  if (keys.dimensions().size() != 4) {
    return invalid("pages of 4 dimensions", keys.dimensions().size());
  }
  if (keys.element_type() != ffi::F32 && keys.element_type() != ffi::F16) {
    return invalid("pages of float32 or float16", static_cast<int64_t>(keys.element_type()));
  }
  if (values.element_type() != keys.element_type() ||
      !same(values.dimensions(), keys.dimensions())) {
    return ffi::Error::InvalidArgument("expected keys and values of one shape and type");
  }
  if (keys.dimensions()[1] != kv_heads) {
    return invalid(std::to_string(kv_heads) + " heads in a page", keys.dimensions()[1]);
  }
  if (keys.dimensions()[3] != head_dim) {
    return invalid(std::to_string(head_dim) + " dimensions of a head", keys.dimensions()[3]);
  }
  return ffi::Error::Success();
}

inline Held held_in(const Pages& pages) {
  return pages.element_type() == ffi::F32 ? Held::floats : Held::halves;
}

// Of a buffer that `check_pages` has passed.
inline HeldPages held_pages(const Pages& buffer) {
  const auto shape = buffer.dimensions();
  return {buffer.untyped_data(), held_in(buffer), shape[0], shape[1], shape[2], shape[3],
          shape[1] * shape[2] * shape[3]};
}

// Whether the tables name pages that there are for all keys that the rows attend to.
inline ffi::Error check_tables(const Attention& call, int64_t rows, int64_t pages) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t used = ceiling(std::max(call.lengths[row], 0), call.page_size);
    if (used > call.blocks) {
      return invalid("at most " + std::to_string(call.blocks * call.page_size) + " tokens",
                     call.lengths[row]);
    }
    for (int64_t i = 0; i < used; ++i) {
      const int32_t page = call.tables[row * call.blocks + i];
      if (page < 0 || page >= pages) return invalid("a page below " + std::to_string(pages), page);
    }
  }
  return ffi::Error::Success();
}

// Whether there is a place in the pages for each token; one past the last page is nowhere.
inline ffi::Error check_places(const Table& pages, const Table& offsets, int64_t rows,
                               int64_t time, const HeldPages& held) {
  const auto places = pages.dimensions();
  if (!same(places, offsets.dimensions()) || places[0] != rows || places[1] != time) {
    return invalid("a page and an offset for each token", pages.element_count());
  }
  for (size_t token = 0; token < pages.element_count(); ++token) {
    const int32_t page = pages.typed_data()[token], offset = offsets.typed_data()[token];
    if (page < 0 || page > held.pages) {
      return invalid("a page up to " + std::to_string(held.pages), page);
    }
    if (offset < 0 || offset >= held.page_size) {
      return invalid("an offset below " + std::to_string(held.page_size), offset);
    }
  }
  return ffi::Error::Success();
}

}  // namespace pantheon
