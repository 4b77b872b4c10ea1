// Attention over pages, and what is written to them, as XLA calls them. Everything that comes from
// outside is checked here; what is behind may rely on it.

#include "attention_plan.h"
#include "ffi_live.h"
#include "ffi_pages.h"

namespace pantheon {
namespace {

using Heads = ffi::Buffer<ffi::F32, 4>;    // [rows, time, heads, head_dim]
using Bounds = ffi::Buffer<ffi::S32, 1>;   // The first live token and one past the last.

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
                         keys.dimensions()[1] * keys.dimensions()[2] * shape[3],
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
    const HeldPages held_keys = held_pages(key_pages), held_values = held_pages(value_pages);
    error = check_places(pages, offsets, shape[0], shape[1], held_keys);
    if (error.failure()) return error;
    const FloatMode mode;
    for (int64_t token = 0; token < shape[0] * shape[1]; ++token) {
      const int32_t page = pages.typed_data()[token], offset = offsets.typed_data()[token];
      const int64_t at = token * shape[2] * shape[3];
      write_token(held_keys, keys.typed_data() + at, page, offset, *kernels);
      write_token(held_values, values.typed_data() + at, page, offset, *kernels);
    }
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
