// What is done to each row by itself, as XLA calls it. Everything that comes from outside is
// checked here; what is behind may rely on it.

#include <cmath>

#include "divided.h"
#include "ffi_errors.h"
#include "ffi_live.h"
#include "row_kernels.h"

namespace pantheon {
namespace {

using Vector = ffi::Buffer<ffi::F32, 1>;
using Bounds = ffi::Buffer<ffi::S32, 1>;      // The first live token and one past the last.
using Matrix = ffi::Buffer<ffi::F32, 2>;
using Parts = ffi::Buffer<ffi::F32, 3>;       // [tokens, parts, columns]
using Heads = ffi::Buffer<ffi::F32, 4>;       // [rows, time, heads, head_dim]
using Positions = ffi::Buffer<ffi::S32, 2>;   // [rows, time]
using Places = ffi::Buffer<ffi::S32, 1>;
using Truths = ffi::Buffer<ffi::PRED, 1>;
using Rotation = ffi::Buffer<ffi::F32, 4>;    // [rows, time, 2, turned]: cosines, then sines.

// Finds the kernels and the live ones of `tokens`, and calls `body(kernels, live)`.
template <class Body>
ffi::Error with_rows(int64_t instruction_set, const Bounds& bounds, int64_t tokens, Body&& body) {
  return guarded([&] {
    const RowKernels* kernels = rows_for(static_cast<InstructionSet>(instruction_set));
    if (kernels == nullptr) return invalid("an instruction set of this processor", instruction_set);
    const auto live = live_rows_of(bounds, tokens);
    if (live.has_error()) return live.error();
    return body(*kernels, *live);
  });
}

ffi::Error rms_norm(Parts x, Vector weight, Bounds bounds, ffi::Result<Parts> result,
                    float epsilon, int64_t instruction_set) {
  const int64_t tokens = x.dimensions()[0], parts = x.dimensions()[1];
  const int64_t columns = x.dimensions()[2];
  return with_rows(instruction_set, bounds, tokens, [&](const RowKernels& kernels, LiveRows live) {
    if (weight.dimensions()[0] != columns) {
      return invalid(std::to_string(columns) + " weights", weight.dimensions()[0]);
    }
    if (result->element_count() != x.element_count()) {
      return invalid("a result as the rows", result->element_count());
    }
    clear_padding(result->typed_data(), live, tokens, parts * columns);
    for_rows(live.first * parts, live.end * parts, columns, [&](int64_t row) {
      kernels.rms_norm(x.typed_data() + row * columns, weight.typed_data(), epsilon, columns,
                       result->typed_data() + row * columns);
    });
    return ffi::Error::Success();
  });
}

ffi::Error add_rms_norm(Matrix x, Matrix delta, Vector weight, Bounds bounds,
                        ffi::Result<Matrix> sum, ffi::Result<Matrix> result, float epsilon,
                        int64_t instruction_set) {
  const int64_t tokens = x.dimensions()[0], columns = x.dimensions()[1];
  return with_rows(instruction_set, bounds, tokens, [&](const RowKernels& kernels, LiveRows live) {
    if (weight.dimensions()[0] != columns) {
      return invalid(std::to_string(columns) + " weights", weight.dimensions()[0]);
    }
    if (delta.dimensions()[0] != tokens || delta.dimensions()[1] != columns) {
      return invalid("as much to add as there is", delta.element_count());
    }
    if (sum->element_count() != x.element_count() ||
        result->element_count() != x.element_count()) {
      return invalid("results as the rows", result->element_count());
    }
    clear_padding(sum->typed_data(), live, tokens, columns);
    clear_padding(result->typed_data(), live, tokens, columns);
    for_rows(live.first, live.end, columns, [&](int64_t row) {
      const int64_t at = row * columns;
      kernels.add_rms_norm(x.typed_data() + at, delta.typed_data() + at, weight.typed_data(),
                           epsilon, columns, sum->typed_data() + at, result->typed_data() + at);
    });
    return ffi::Error::Success();
  });
}

ffi::Error silu_product(Matrix gate, Matrix up, Bounds bounds, ffi::Result<Matrix> result,
                        int64_t instruction_set) {
  const int64_t tokens = gate.dimensions()[0], columns = gate.dimensions()[1];
  return with_rows(instruction_set, bounds, tokens, [&](const RowKernels& kernels, LiveRows live) {
    if (up.dimensions()[0] != tokens || up.dimensions()[1] != columns ||
        result->element_count() != gate.element_count()) {
      return invalid("another factor and a result as the gate", up.element_count());
    }
    clear_padding(result->typed_data(), live, tokens, columns);
    for_rows(live.first, live.end, columns, [&](int64_t row) {
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
    for_rows(0, tokens, pairs * 16, [&](int64_t token) {
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

ffi::Error rotate(Heads heads, Rotation rotation, Bounds bounds, ffi::Result<Heads> result,
                  bool neighbours, int64_t instruction_set) {
  const auto shape = heads.dimensions();
  const int64_t tokens = shape[0] * shape[1];
  return with_rows(instruction_set, bounds, tokens, [&](const RowKernels& kernels, LiveRows live) {
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
    clear_padding(result->typed_data(), live, tokens, columns);
    for_rows(live.first, live.end, columns, [&](int64_t token) {
      const float* cosines = rotation.typed_data() + token * 2 * turned;
      kernels.turn({heads.typed_data() + token * columns, cosines, cosines + turned, shape[2],
                    shape[3], turned, neighbours, result->typed_data() + token * columns});
    });
    return ffi::Error::Success();
  });
}

ffi::Error largest(Matrix x, ffi::Result<Places> places, ffi::Result<Truths> finite,
                   int64_t instruction_set) {
  return guarded([&] {
    const RowKernels* kernels = rows_for(static_cast<InstructionSet>(instruction_set));
    if (kernels == nullptr) return invalid("an instruction set of this processor", instruction_set);
    const int64_t rows = x.dimensions()[0], columns = x.dimensions()[1];
    if (columns == 0) return invalid("a number in each row", columns);
    if (places->dimensions()[0] != rows || finite->dimensions()[0] != rows) {
      return invalid("results of so many rows", rows);
    }
    for_rows(0, rows, columns, [&](int64_t row) {
      const Largest found = kernels->largest(x.typed_data() + row * columns, columns);
      places->typed_data()[row] = static_cast<int32_t>(found.place);
      finite->typed_data()[row] = found.all_finite;
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
                                  .Arg<pantheon::Parts>()
                                  .Arg<pantheon::Vector>()
                                  .Arg<pantheon::Bounds>()
                                  .Ret<pantheon::Parts>()
                                  .Attr<float>("epsilon")
                                  .Attr<int64_t>("instruction_set"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_add_rms_norm, pantheon::add_rms_norm,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::Matrix>()
                                  .Arg<pantheon::Matrix>()
                                  .Arg<pantheon::Vector>()
                                  .Arg<pantheon::Bounds>()
                                  .Ret<pantheon::Matrix>()
                                  .Ret<pantheon::Matrix>()
                                  .Attr<float>("epsilon")
                                  .Attr<int64_t>("instruction_set"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_silu_product, pantheon::silu_product,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::Matrix>()
                                  .Arg<pantheon::Matrix>()
                                  .Arg<pantheon::Bounds>()
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
                                  .Arg<pantheon::Bounds>()
                                  .Ret<pantheon::Heads>()
                                  .Attr<bool>("neighbours")
                                  .Attr<int64_t>("instruction_set"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_largest, pantheon::largest,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::Matrix>()
                                  .Ret<pantheon::Places>()
                                  .Ret<pantheon::Truths>()
                                  .Attr<int64_t>("instruction_set"));

#pragma GCC visibility pop
