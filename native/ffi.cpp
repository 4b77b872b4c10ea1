// The operations as XLA calls them. Everything that comes from outside is checked here; what is
// behind may rely on it.

#include <exception>
#include <vector>

#include "ffi_errors.h"
#include "ffi_live.h"
#include "ffi_packed.h"
#include "thread_pool.h"

namespace pantheon {
namespace {

using Matrix = ffi::Buffer<ffi::F32, 2>;
using Indices = ffi::Buffer<ffi::S32, 1>;

ffi::Error multiply_matrices(Matrix activations, Indices live_rows, ffi::RemainingArgs matrices,
                             ffi::RemainingRets results, ffi::Span<const int64_t> formats,
                             ffi::Span<const int64_t> quantised, int64_t instruction_set) {
  return guarded([&] {
    const int64_t all_rows = activations.dimensions()[0], columns = activations.dimensions()[1];
    const ProductKernels kernels =
        product_kernels(static_cast<InstructionSet>(instruction_set), all_rows);
    if (kernels.of_set.floats == nullptr) {
      return invalid("an instruction set of this processor", instruction_set);
    }
    for (const size_t count : {results.size(), formats.size(), quantised.size()}) {
      if (count != matrices.size()) {
        return invalid(std::to_string(matrices.size()) + " results, formats and choices",
                       static_cast<int64_t>(count));
      }
    }
    const auto found_live = live_rows_of(live_rows, all_rows);
    if (found_live.has_error()) return found_live.error();
    const LiveRows live = *found_live;
    std::vector<Product> products;
    for (size_t i = 0; i < matrices.size(); ++i) {
      const auto packed = matrices.get<PackedBuffer>(i);
      if (packed.has_error()) return packed.error();
      auto result = results.get<Matrix>(i);
      if (result.has_error()) return result.error();
      const auto dimensions = (*result)->dimensions();
      if (dimensions[0] != all_rows) {
        return invalid(std::to_string(all_rows) + " rows", dimensions[0]);
      }
      const auto matrix =
          packed_matrix(*packed, {formats[i], quantised[i]}, dimensions[1], columns);
      if (matrix.has_error()) return matrix.error();
      float* outputs = (*result)->typed_data();
      clear_padding(outputs, live, all_rows, dimensions[1]);
      products.push_back({*matrix, outputs + live.first * dimensions[1]});
    }
    Activations x;
    x.assign(activations.typed_data() + live.first * columns, live.count(), columns);
    multiply(kernels, x, products.data(), static_cast<int64_t>(products.size()));
    return ffi::Error::Success();
  });
}

ffi::Error take_rows(PackedBuffer packed, Indices indices, ffi::Result<Matrix> result,
                     int64_t format, int64_t rows, int64_t instruction_set) {
  return guarded([&] {
    const Kernels* kernels = kernels_for(static_cast<InstructionSet>(instruction_set)).floats;
    if (kernels == nullptr) return invalid("an instruction set of this processor", instruction_set);
    const auto dimensions = result->dimensions();
    const int64_t count = indices.dimensions()[0];
    const int64_t columns = dimensions[1];
    if (dimensions[0] != count) return invalid(std::to_string(count) + " rows", dimensions[0]);
    const auto matrix = packed_matrix(packed, {format, false}, rows, columns);
    if (matrix.has_error()) return matrix.error();
    for (int64_t i = 0; i < count; ++i) {
      const int32_t row = indices.typed_data()[i];
      if (row < 0 || row >= rows) {
        return invalid("an index below " + std::to_string(rows), row);
      }
    }
    ThreadPool::of_process()->run(count, [&](int64_t i, Workspace&) {
      const int64_t row = indices.typed_data()[i];
      kernels->row[format]({matrix->blocks + row / kBlockRows * matrix->block_bytes, columns,
                            static_cast<int>(row % kBlockRows), result->typed_data() + i * columns});
    });
    return ffi::Error::Success();
  });
}

}  // namespace
}  // namespace pantheon

// Only what Python names is seen outside the library.
#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_multiply, pantheon::multiply_matrices,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::Matrix>()
                                  .Arg<pantheon::Indices>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<xla::ffi::Span<const int64_t>>("formats")
                                  .Attr<xla::ffi::Span<const int64_t>>("quantised")
                                  .Attr<int64_t>("instruction_set"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_take_rows, pantheon::take_rows,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::PackedBuffer>()
                                  .Arg<pantheon::Indices>()
                                  .Ret<pantheon::Matrix>()
                                  .Attr<int64_t>("format")
                                  .Attr<int64_t>("rows")
                                  .Attr<int64_t>("instruction_set"));

// What Python calls by itself.
extern "C" {

int64_t pantheon_best_instruction_set() {
  return static_cast<int64_t>(pantheon::best_instruction_set());
}

bool pantheon_has_instruction_set(int64_t set) {
  return pantheon::kernels_for(static_cast<pantheon::InstructionSet>(set)).floats != nullptr;
}

// Starts the threads; false where the system gives none.
bool pantheon_start() {
  try {
    pantheon::ThreadPool::of_process();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void pantheon_set_threads(int threads) { pantheon::ThreadPool::set_threads(threads); }

int64_t pantheon_block_bytes(int64_t format, int64_t columns) {
  if (format < 0 || format >= pantheon::kFormats) return 0;
  return pantheon::block_bytes(static_cast<pantheon::Format>(format), columns);
}

}  // extern "C"

#pragma GCC visibility pop
