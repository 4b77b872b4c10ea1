// What is done to each row by itself, as XLA calls it. Everything that comes from outside is
// checked here; what is behind may rely on it.

#include <algorithm>
#include <cmath>

#include "ffi_errors.h"
#include "float_mode.h"
#include "row_kernels.h"
#include "thread_pool.h"

namespace pantheon {
namespace {

using Vector = ffi::Buffer<ffi::F32, 1>;
using Matrix = ffi::Buffer<ffi::F32, 2>;
using Heads = ffi::Buffer<ffi::F32, 4>;       // [rows, time, heads, head_dim]
using Positions = ffi::Buffer<ffi::S32, 2>;   // [rows, time]
using Rotation = ffi::Buffer<ffi::F32, 4>;    // [rows, time, 2, turned]: cosines, then sines.

// Numbers for which another thread is worth its waking.
constexpr int64_t kPieceNumbers = 4096;

// Calls `work(row)` for all rows of so many numbers, on all threads where they are many.
template <class Work>
void for_rows(int64_t rows, int64_t columns, Work&& work) {
  const int64_t piece = std::max<int64_t>(kPieceNumbers / std::max<int64_t>(columns, 1), 1);
  if (rows <= piece) {
    const FloatMode mode;
    for (int64_t row = 0; row < rows; ++row) work(row);
    return;
  }
  ThreadPool::of_process()->run(ceiling(rows, piece), [&](int64_t i, Workspace&) {
    const int64_t end = std::min((i + 1) * piece, rows);
    for (int64_t row = i * piece; row < end; ++row) work(row);
  });
}

// Finds the kernels and calls `body(kernels)`.
template <class Body>
ffi::Error with_rows(int64_t instruction_set, Body&& body) {
  return guarded([&] {
    const RowKernels* kernels = rows_for(static_cast<InstructionSet>(instruction_set));
    if (kernels == nullptr) return invalid("an instruction set of this processor", instruction_set);
    return body(*kernels);
  });
}

ffi::Error rms_norm(Matrix x, Vector weight, ffi::Result<Matrix> result, float epsilon,
                    int64_t instruction_set) {
  return with_rows(instruction_set, [&](const RowKernels& kernels) {
    const int64_t rows = x.dimensions()[0], columns = x.dimensions()[1];
    if (weight.dimensions()[0] != columns) {
      return invalid(std::to_string(columns) + " weights", weight.dimensions()[0]);
    }
    if (result->element_count() != x.element_count()) {
      return invalid("a result as the rows", result->element_count());
    }
    for_rows(rows, columns, [&](int64_t row) {
      kernels.rms_norm(x.typed_data() + row * columns, weight.typed_data(), epsilon, columns,
                       result->typed_data() + row * columns);
    });
    return ffi::Error::Success();
  });
}

ffi::Error silu_product(Matrix gate, Matrix up, ffi::Result<Matrix> result,
                        int64_t instruction_set) {
  return with_rows(instruction_set, [&](const RowKernels& kernels) {
    const int64_t rows = gate.dimensions()[0], columns = gate.dimensions()[1];
    if (up.dimensions()[0] != rows || up.dimensions()[1] != columns ||
        result->element_count() != gate.element_count()) {
      return invalid("another factor and a result as the gate", up.element_count());
    }
    for_rows(rows, columns, [&](int64_t row) {
      const int64_t at = row * columns;
      kernels.silu_product(gate.typed_data() + at, up.typed_data() + at, columns,
                           result->typed_data() + at);
    });
    return ffi::Error::Success();
  });
}

// The sines that go with a dimension have the sign with which its pair is added to it.
ffi::Error rotation(Positions positions, Vector frequencies, ffi::Result<Rotation> result,
                    float magnitude, bool neighbours) {
  return guarded([&] {
    const int64_t tokens = positions.element_count();
    const int64_t pairs = frequencies.dimensions()[0];
    if (static_cast<int64_t>(result->element_count()) != tokens * 4 * pairs) {
      return invalid(std::to_string(tokens * 4 * pairs) + " results", result->element_count());
    }
    for_rows(tokens, pairs * 16, [&](int64_t token) {
      float* cosines = result->typed_data() + token * 4 * pairs;
      float* sines = cosines + 2 * pairs;
      const auto position = static_cast<float>(positions.typed_data()[token]);
      for (int64_t pair = 0; pair < pairs; ++pair) {
        const double angle = position * frequencies.typed_data()[pair];
        const float cosine = static_cast<float>(std::cos(angle)) * magnitude;
        const float sine = static_cast<float>(std::sin(angle)) * magnitude;
        const int64_t first = neighbours ? 2 * pair : pair;
        const int64_t second = neighbours ? 2 * pair + 1 : pair + pairs;
        cosines[first] = cosines[second] = cosine;
        sines[first] = -sine;
        sines[second] = sine;
      }
    });
    return ffi::Error::Success();
  });
}

ffi::Error rotate(Heads heads, Rotation rotation, ffi::Result<Heads> result, bool neighbours,
                  int64_t instruction_set) {
  return with_rows(instruction_set, [&](const RowKernels& kernels) {
    const auto shape = heads.dimensions();
    const auto by = rotation.dimensions();
    const int64_t columns = shape[2] * shape[3], turned = by[3];
    if (by[0] != shape[0] || by[1] != shape[1] || by[2] != 2) {
      return invalid("cosines and sines of each token", rotation.element_count());
    }
    if (turned % 2 != 0 || turned > shape[3]) {
      return invalid("an even part of " + std::to_string(shape[3]) + " dimensions", turned);
    }
    if (result->element_count() != heads.element_count()) {
      return invalid("a result as the heads", result->element_count());
    }
    for_rows(shape[0] * shape[1], columns, [&](int64_t token) {
      const float* cosines = rotation.typed_data() + token * 2 * turned;
      kernels.turn({heads.typed_data() + token * columns, cosines, cosines + turned, shape[2],
                    shape[3], turned, neighbours, result->typed_data() + token * columns});
    });
    return ffi::Error::Success();
  });
}

}  // namespace
}  // namespace pantheon

// Only what Python names is seen outside the library.
#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_rms_norm, pantheon::rms_norm,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::Matrix>()
                                  .Arg<pantheon::Vector>()
                                  .Ret<pantheon::Matrix>()
                                  .Attr<float>("epsilon")
                                  .Attr<int64_t>("instruction_set"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_silu_product, pantheon::silu_product,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::Matrix>()
                                  .Arg<pantheon::Matrix>()
                                  .Ret<pantheon::Matrix>()
                                  .Attr<int64_t>("instruction_set"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_rotation, pantheon::rotation,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::Positions>()
                                  .Arg<pantheon::Vector>()
                                  .Ret<pantheon::Rotation>()
                                  .Attr<float>("magnitude")
                                  .Attr<bool>("neighbours"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_rotate, pantheon::rotate,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::Heads>()
                                  .Arg<pantheon::Rotation>()
                                  .Ret<pantheon::Heads>()
                                  .Attr<bool>("neighbours")
                                  .Attr<int64_t>("instruction_set"));

#pragma GCC visibility pop
