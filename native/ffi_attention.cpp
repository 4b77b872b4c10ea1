// Attention over pages, and what is written to them, as XLA calls them. Everything that comes from
// outside is checked here; what is behind may rely on it.

#include <algorithm>
#include <cstring>

#include "attention_plan.h"
#include "ffi_errors.h"
#include "ffi_live.h"
#include "float_mode.h"

namespace pantheon {
namespace {

using Heads = ffi::Buffer<ffi::F32, 4>;   // [rows, time, heads, head_dim]
using Pages = ffi::AnyBuffer;             // [pages, kv_heads, page_size, head_dim]
using Table = ffi::Buffer<ffi::S32, 2>;
using Lengths = ffi::Buffer<ffi::S32, 1>;
using Bounds = ffi::Buffer<ffi::S32, 1>;   // The first live token and one past the last.

bool same(const ffi::AnyBuffer::Dimensions& a, const ffi::AnyBuffer::Dimensions& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

ffi::Error check_pages(const Pages& keys, const Pages& values, int64_t kv_heads,
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

Held held_in(const Pages& pages) {
  return pages.element_type() == ffi::F32 ? Held::floats : Held::halves;
}

ffi::Error check_tables(const Attention& call, int64_t rows, int64_t pages) {
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

ffi::Error attend(Heads queries, Pages keys, Pages values, Table tables, Table positions,
                  Lengths lengths, Bounds bounds, ffi::Result<Heads> results, float scale,
                  int64_t window, int64_t instruction_set) {
  return guarded([&] {
    const AttentionKernels* kernels = attention_for(static_cast<InstructionSet>(instruction_set));
    if (kernels == nullptr) return invalid("an instruction set of this processor", instruction_set);
    const auto shape = queries.dimensions();
    const int64_t rows = shape[0];
    if (keys.dimensions().size() != 4) {
      return invalid("pages of 4 dimensions", keys.dimensions().size());
    }
    const Attention call{queries.typed_data(), keys.untyped_data(), values.untyped_data(),
                         tables.typed_data(), positions.typed_data(), lengths.typed_data(),
                         shape[1], shape[2], keys.dimensions()[1], keys.dimensions()[2], shape[3],
                         tables.dimensions()[1], window, scale, results->typed_data()};
    ffi::Error error = check_pages(keys, values, call.kv_heads, call.head_dim);
    if (error.failure()) return error;
    if (call.kv_heads == 0 || call.heads % call.kv_heads != 0) {
      return invalid("a multiple of " + std::to_string(call.kv_heads) + " heads", call.heads);
    }
    if (!same(results->dimensions(), shape)) {
      return invalid("results as the queries", results->element_count());
    }
    if (tables.dimensions()[0] != rows || positions.dimensions()[0] != rows ||
        lengths.dimensions()[0] != rows || positions.dimensions()[1] != call.time) {
      return invalid("tables, positions and lengths of so many rows", rows);
    }
    if (window < 0) return invalid("a window of 0 or more", window);
    if (queries.element_count() == 0) return ffi::Error::Success();
    error = check_tables(call, rows, keys.dimensions()[0]);
    if (error.failure()) return error;
    const auto live = live_rows_of(bounds, rows * call.time);
    if (live.has_error()) return live.error();
    clear_padding(results->typed_data(), *live, rows * call.time, call.heads * call.head_dim);
    compute_attention(call, live->first, live->end, held_in(keys), *kernels);
    return ffi::Error::Success();
  });
}

// Stores the keys or values of a step in their pages.
void store(const Heads& fresh, Pages& pages, const int32_t* page, const int32_t* offset,
           const AttentionKernels& kernels) {
  const auto shape = fresh.dimensions();
  const auto held = pages.dimensions();
  const int64_t heads = shape[2], head_dim = shape[3];
  const Held type = held_in(pages);
  auto* memory = static_cast<uint8_t*>(pages.untyped_data());
  for (int64_t token = 0; token < shape[0] * shape[1]; ++token) {
    if (page[token] == held[0]) continue;
    for (int64_t head = 0; head < heads; ++head) {
      const float* from = fresh.typed_data() + (token * heads + head) * head_dim;
      const int64_t at = ((page[token] * heads + head) * held[2] + offset[token]) * head_dim;
      uint8_t* to = memory + at * held_bytes(type);
      if (type == Held::floats) {
        std::memcpy(to, from, sizeof(float) * head_dim);
      } else {
        kernels.to_halves(from, reinterpret_cast<uint16_t*>(to), head_dim);
      }
    }
  }
}

ffi::Error write_pages(Heads keys, Heads values, Table pages, Table offsets, Pages key_pages,
                       Pages value_pages, ffi::Result<Pages> new_keys,
                       ffi::Result<Pages> new_values, int64_t instruction_set) {
  return guarded([&] {
    const AttentionKernels* kernels = attention_for(static_cast<InstructionSet>(instruction_set));
    if (kernels == nullptr) return invalid("an instruction set of this processor", instruction_set);
    const auto shape = keys.dimensions();
    if (!same(values.dimensions(), shape)) {
      return invalid("values as the keys", values.element_count());
    }
    ffi::Error error = check_pages(key_pages, value_pages, shape[2], shape[3]);
    if (error.failure()) return error;
    if (new_keys->untyped_data() != key_pages.untyped_data() ||
        new_values->untyped_data() != value_pages.untyped_data()) {
      return ffi::Error::InvalidArgument("expected the pages in place, got copies");
    }
    const auto places = pages.dimensions();
    if (!same(places, offsets.dimensions()) || places[0] != shape[0] || places[1] != shape[1]) {
      return invalid("a page and an offset for each token", pages.element_count());
    }
    const auto held = key_pages.dimensions();
    for (size_t token = 0; token < pages.element_count(); ++token) {
      const int32_t page = pages.typed_data()[token], offset = offsets.typed_data()[token];
      if (page < 0 || page > held[0]) {
        return invalid("a page up to " + std::to_string(held[0]), page);
      }
      if (offset < 0 || offset >= held[2]) {
        return invalid("an offset below " + std::to_string(held[2]), offset);
      }
    }
    const FloatMode mode;
    store(keys, key_pages, pages.typed_data(), offsets.typed_data(), *kernels);
    store(values, value_pages, pages.typed_data(), offsets.typed_data(), *kernels);
    return ffi::Error::Success();
  });
}

}  // namespace
}  // namespace pantheon

// Only what Python names is seen outside the library.
#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_attend, pantheon::attend,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::Heads>()
                                  .Arg<pantheon::Pages>()
                                  .Arg<pantheon::Pages>()
                                  .Arg<pantheon::Table>()
                                  .Arg<pantheon::Table>()
                                  .Arg<pantheon::Lengths>()
                                  .Arg<pantheon::Bounds>()
                                  .Ret<pantheon::Heads>()
                                  .Attr<float>("scale")
                                  .Attr<int64_t>("window")
                                  .Attr<int64_t>("instruction_set"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_write_pages, pantheon::write_pages,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::Heads>()
                                  .Arg<pantheon::Heads>()
                                  .Arg<pantheon::Table>()
                                  .Arg<pantheon::Table>()
                                  .Arg<pantheon::Pages>()
                                  .Arg<pantheon::Pages>()
                                  .Ret<pantheon::Pages>()
                                  .Ret<pantheon::Pages>()
                                  .Attr<int64_t>("instruction_set"));

#pragma GCC visibility pop
