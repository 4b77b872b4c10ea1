// The operations as XLA calls them. Everything that comes from outside is checked here; what is
// behind may rely on it.

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "activation_sums.h"
#include "ffi_errors.h"
#include "ffi_live.h"
#include "instruction_sets.h"
#include "quantised_rows.h"
#include "thread_pool.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace pantheon {
namespace {

using Matrix = ffi::Buffer<ffi::F32, 2>;
using Packed = ffi::Buffer<ffi::U8, 2>;
using Indices = ffi::Buffer<ffi::S32, 1>;

constexpr int kPiecesOfThread = 12;   // So that one that is kept waiting has little to catch up.

// Bytes of a block of 32 rows; 0 where so many columns cannot be packed.
int64_t block_bytes(Format format, int64_t columns) {
  const Layout layout = layout_of(format);
  const int64_t span = int64_t{layout.span_steps} * kStepColumns;
  if (columns <= 0 || columns % span != 0) return 0;
  return columns / span * (layout.head_bytes + int64_t{layout.span_steps} * layout.step_bytes);
}

ffi::Error check_packed(const Packed& packed, int64_t format, int64_t rows, int64_t columns) {
  if (format < 0 || format >= kFormats) return invalid("the number of a format", format);
  const int64_t bytes = block_bytes(static_cast<Format>(format), columns);
  if (bytes == 0) {
    return invalid("columns in whole spans of format " + std::to_string(format), columns);
  }
  if (packed.dimensions()[1] != bytes) {
    return invalid("blocks of " + std::to_string(bytes) + " bytes", packed.dimensions()[1]);
  }
  const int64_t blocks = ceiling(rows, kBlockRows);
  if (packed.dimensions()[0] != blocks) {
    return invalid(std::to_string(blocks) + " blocks", packed.dimensions()[0]);
  }
  return ffi::Error::Success();
}

struct Product {
  Format format;
  bool whole;            // In whole numbers.
  WholeRows rows_of;     // If so ...
  const float* sums;     // ... and if not.
  const uint8_t* packed;
  int64_t block_bytes;
  float* outputs;
  int64_t rows;
  int64_t first_block;   // Counted over all matrices of the call.
};

// The live activations of a call, and what is made of them for the formats that they meet.
struct Activations {
  const float* values;
  int64_t rows;
  int64_t columns;
  ActivationSums sums;
  std::optional<QuantisedRows> quantised;

  Activations(const Matrix& matrix, LiveRows live)
      : values(matrix.typed_data() + live.first * matrix.dimensions()[1]),
        rows(live.count()),
        columns(matrix.dimensions()[1]),
        sums(values, rows, columns) {}

  WholeRows whole_for(Format format) {
    if (!quantised) quantised.emplace(values, rows, columns);
    return quantised->for_format(format);
  }
};

void multiply_block(const KernelsOfSet& kernels, const Activations& x, const Product& product,
                    int64_t block, Workspace& workspace) {
  const int64_t first = block * kBlockRows;
  const uint8_t* packed = product.packed + block * product.block_bytes;
  const int rows = static_cast<int>(std::min<int64_t>(product.rows - first, kBlockRows));
  const auto format = static_cast<int64_t>(product.format);
  if (product.whole) {
    kernels.whole->product[format]({product.rows_of, x.rows, x.columns, packed,
                                    product.outputs + first, product.rows, rows});
  } else {
    kernels.floats->product[format]({x.values, product.sums, x.rows, x.columns, packed,
                                     product.outputs + first, product.rows, rows},
                                    workspace);
  }
}

// Whether whole numbers are the faster way for a step of so many rows, padding included: how many
// are live must not decide, or a position would depend on where its prompt was cut. Of many rows
// the codes are unpacked once, and then floats take no longer, unless there are instructions that
// multiply and add whole numbers at once.
bool pays_in_whole(InstructionSet set, int64_t rows) {
  constexpr int64_t most = 16;
  return rows <= most || set == InstructionSet::vnni;
}

ffi::Error multiply(Matrix activations, Indices live_rows, ffi::RemainingArgs matrices,
                    ffi::RemainingRets results, ffi::Span<const int64_t> formats,
                    ffi::Span<const int64_t> quantised, int64_t instruction_set) {
  return guarded([&] {
    auto set = static_cast<InstructionSet>(instruction_set);
    if (set == InstructionSet::best) set = best_instruction_set();
    const KernelsOfSet kernels = kernels_for(set);
    if (kernels.floats == nullptr) {
      return invalid("an instruction set of this processor", instruction_set);
    }
    for (const size_t count : {results.size(), formats.size(), quantised.size()}) {
      if (count != matrices.size()) {
        return invalid(std::to_string(matrices.size()) + " results, formats and choices",
                       static_cast<int64_t>(count));
      }
    }
    const int64_t all_rows = activations.dimensions()[0];
    const auto found_live = live_rows_of(live_rows, all_rows);
    if (found_live.has_error()) return found_live.error();
    const LiveRows live = *found_live;
    Activations x(activations, live);
    std::vector<Product> products;
    int64_t blocks = 0;
    for (size_t i = 0; i < matrices.size(); ++i) {
      const auto packed = matrices.get<Packed>(i);
      if (packed.has_error()) return packed.error();
      auto result = results.get<Matrix>(i);
      if (result.has_error()) return result.error();
      const auto dimensions = (*result)->dimensions();
      if (dimensions[0] != all_rows) {
        return invalid(std::to_string(all_rows) + " rows", dimensions[0]);
      }
      ffi::Error error = check_packed(*packed, formats[i], dimensions[1], x.columns);
      if (error.failure()) return error;
      const auto format = static_cast<Format>(formats[i]);
      const bool whole = quantised[i] != 0 && !is_plain(format) && pays_in_whole(set, all_rows);
      float* outputs = (*result)->typed_data();
      clear_padding(outputs, live, all_rows, dimensions[1]);
      products.push_back({format, whole, whole ? x.whole_for(format) : WholeRows{},
                          whole ? nullptr : x.sums.of_groups(format), packed->typed_data(),
                          packed->dimensions()[1], outputs + live.first * dimensions[1],
                          dimensions[1], blocks});
      blocks += packed->dimensions()[0];
    }
    if (x.rows == 0 || blocks == 0) return ffi::Error::Success();
    const std::shared_ptr<ThreadPool> pool = ThreadPool::of_process();
    const int64_t piece_blocks =
        std::max<int64_t>(blocks / (pool->threads() * kPiecesOfThread), 1);
    pool->run(ceiling(blocks, piece_blocks), [&](int64_t piece, Workspace& workspace) {
      const int64_t end = std::min((piece + 1) * piece_blocks, blocks);
      auto product = std::prev(std::upper_bound(
          products.begin(), products.end(), piece * piece_blocks,
          [](int64_t block, const Product& one) { return block < one.first_block; }));
      for (int64_t block = piece * piece_blocks; block < end; ++block) {
        while (std::next(product) != products.end() && std::next(product)->first_block <= block) {
          ++product;
        }
        multiply_block(kernels, x, *product, block - product->first_block, workspace);
      }
    });
    return ffi::Error::Success();
  });
}

ffi::Error take_rows(Packed packed, Indices indices, ffi::Result<Matrix> result, int64_t format,
                     int64_t rows, int64_t instruction_set) {
  return guarded([&] {
    const Kernels* kernels = kernels_for(static_cast<InstructionSet>(instruction_set)).floats;
    if (kernels == nullptr) return invalid("an instruction set of this processor", instruction_set);
    const auto dimensions = result->dimensions();
    const int64_t count = indices.dimensions()[0];
    const int64_t columns = dimensions[1];
    if (dimensions[0] != count) return invalid(std::to_string(count) + " rows", dimensions[0]);
    ffi::Error error = check_packed(packed, format, rows, columns);
    if (error.failure()) return error;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t row = indices.typed_data()[i];
      if (row < 0 || row >= rows) {
        return invalid("an index below " + std::to_string(rows), row);
      }
    }
    ThreadPool::of_process()->run(count, [&](int64_t i, Workspace&) {
      const int64_t row = indices.typed_data()[i];
      kernels->row[format]({packed.typed_data() + row / kBlockRows * packed.dimensions()[1],
                            columns, static_cast<int>(row % kBlockRows),
                            result->typed_data() + i * columns});
    });
    return ffi::Error::Success();
  });
}

}  // namespace
}  // namespace pantheon

// Only what Python names is seen outside the library.
#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_multiply, pantheon::multiply,
                              ffi::Ffi::Bind()
                                  .Arg<pantheon::Matrix>()
                                  .Arg<pantheon::Indices>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<ffi::Span<const int64_t>>("formats")
                                  .Attr<ffi::Span<const int64_t>>("quantised")
                                  .Attr<int64_t>("instruction_set"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_take_rows, pantheon::take_rows,
                              ffi::Ffi::Bind()
                                  .Arg<pantheon::Packed>()
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
