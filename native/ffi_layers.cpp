// All layers of a decoder in one call, as XLA calls them. Everything that comes from outside is
// checked here; what is behind may rely on it.

#include "dense_layers.h"
#include "ffi_live.h"
#include "ffi_packed.h"
#include "ffi_pages.h"
#include "processors.h"
#include "thread_pool.h"

namespace pantheon {
namespace {

using Bytes = ffi::Buffer<ffi::U8, 1>;
using Vector = ffi::Buffer<ffi::F32, 1>;
using Matrix = ffi::Buffer<ffi::F32, 2>;
using Rotation = ffi::Buffer<ffi::F32, 4>;   // [rows, time, 2, turned]: cosines, then sines.
using Bounds = ffi::Buffer<ffi::S32, 1>;     // The first of some tokens and one past the last.
using Numbers = ffi::Span<const int64_t>;    // One for each matrix.

constexpr size_t kMatrices = 7;              // Of a layer.

// Where the matrices lie in the memory that they share, and what they are.
struct Places {
  Bytes memory;
  Numbers offsets;
  Numbers formats;
  Numbers quantised;
};

// Reads one layer after another, until something is not what it should be.
class LayerReader {
 public:
  LayerReader(const Places& places, const Vector& vectors, const DenseShape& shape)
      : places_(places), vectors_(vectors), shape_(shape) {}

  const float* vector(int64_t count) {
    const int64_t begin = vector_;
    vector_ += count;
    if (vector_ > static_cast<int64_t>(vectors_.element_count())) {
      return failed<const float*>(invalid("as many numbers as the layers have", begin));
    }
    return vectors_.typed_data() + begin;
  }

  // The next layer without its pages. What it holds means nothing where there is an error.
  DenseLayer layer(bool has_biases, bool has_head_norms) {
    const int64_t hidden = shape_.hidden, inner = shape_.inner;
    const int64_t query_rows = shape_.query_rows(), key_rows = shape_.key_rows();
    DenseLayer layer{};
    layer.query = matrix(query_rows, hidden);
    layer.key = matrix(key_rows, hidden);
    layer.value = matrix(key_rows, hidden);
    layer.output = matrix(hidden, query_rows);
    layer.gate = matrix(inner, hidden);
    layer.up = matrix(inner, hidden);
    layer.down = matrix(hidden, inner);
    layer.feed_forward_norm = vector(hidden);
    layer.next_norm = vector(hidden);
    if (has_biases) {
      layer.query_bias = vector(query_rows);
      layer.key_bias = vector(key_rows);
      layer.value_bias = vector(key_rows);
    }
    if (has_head_norms) {
      layer.query_norm = vector(shape_.head_dim);
      layer.key_norm = vector(shape_.head_dim);
    }
    return layer;
  }

  // What was wrong first, or that something is left over.
  ffi::Error end() const {
    if (error_.failure()) return error_;
    const auto count = static_cast<int64_t>(vectors_.element_count());
    if (vector_ != count) return invalid(std::to_string(vector_) + " numbers in all", count);
    return ffi::Error::Success();
  }

 private:
  PackedMatrix matrix(int64_t rows, int64_t columns) {
    const size_t i = matrix_++;
    const auto found = packed_at(places_.memory.typed_data(),
                                 static_cast<int64_t>(places_.memory.element_count()),
                                 places_.offsets[i],
                                 {places_.formats[i], places_.quantised[i]}, rows, columns);
    return found.has_error() ? failed<PackedMatrix>(found.error()) : *found;
  }

  template <class Value>
  Value failed(const ffi::Error& error) {
    if (error_.success()) error_ = error;
    return {};
  }

  const Places& places_;
  const Vector& vectors_;
  const DenseShape& shape_;
  int64_t vector_ = 0;
  size_t matrix_ = 0;
  ffi::Error error_ = ffi::Error::Success();
};

// Keys and values of one layer in pages [pages, layers, 2, kv_heads, page_size, head_dim].
struct LayerPages {
  HeldPages keys;
  HeldPages values;
};

LayerPages pages_of_layer(const Pages& held, int64_t layer) {
  const auto shape = held.dimensions();
  const int64_t part = shape[3] * shape[4] * shape[5];
  const Held type = held_in(held);
  const auto at = [&](int64_t index) {
    auto* memory = static_cast<uint8_t*>(held.untyped_data()) + index * part * held_bytes(type);
    return HeldPages{memory, type, shape[0], shape[3], shape[4], shape[5], shape[1] * 2 * part};
  };
  return {at(2 * layer), at(2 * layer + 1)};
}

ffi::Error check_stacked_pages(const Pages& held, const Pages& written) {
  const auto shape = held.dimensions();
  if (shape.size() != 6) return invalid("pages of 6 dimensions", shape.size());
  if (held.element_type() != ffi::F32 && held.element_type() != ffi::F16) {
    return invalid("pages of float32 or float16", static_cast<int64_t>(held.element_type()));
  }
  if (shape[1] == 0 || shape[2] != 2) return invalid("keys and values of each layer", shape[2]);
  if (written.untyped_data() != held.untyped_data()) {
    return ffi::Error::InvalidArgument("expected the pages in place, got copies");
  }
  return ffi::Error::Success();
}

// Whether the step's tables, places and angles go with its tokens and with the pages.
ffi::Error check_step(const DenseStep& step, const HeldPages& held, const Table& positions,
                      const Table& pages, const Table& offsets, const Table& tables,
                      const Lengths& lengths, const Rotation& turns, int64_t tokens) {
  const int64_t rows = positions.dimensions()[0], time = positions.dimensions()[1];
  if (rows * time != tokens) return invalid(std::to_string(tokens) + " positions", rows * time);
  if (tables.dimensions()[0] != rows || lengths.dimensions()[0] != rows) {
    return invalid("tables and lengths of so many rows", rows);
  }
  const auto by = turns.dimensions();
  if (by[0] != rows || by[1] != time || by[2] != 2) {
    return invalid("cosines and sines of each token", turns.element_count());
  }
  if (by[3] % 2 != 0 || by[3] > held.head_dim) {
    return invalid("an even part of " + std::to_string(held.head_dim) + " dimensions", by[3]);
  }
  if (step.wanted.first < step.live.first || step.wanted.end > step.live.end) {
    return invalid("wanted tokens that are live", step.wanted.first);
  }
  const ffi::Error error = check_tables(step.attention, rows, held.pages);
  if (error.failure()) return error;
  return check_places(pages, offsets, rows, time, held);
}

ffi::Error dense_layers(Matrix embeddings, Rotation turns, Table positions, Table pages,
                        Table offsets, Table tables, Lengths lengths, Bounds live, Bounds wanted,
                        Bytes memory, Vector vectors, Pages held, ffi::Result<Matrix> results,
                        ffi::Result<Pages> written, Numbers places, Numbers formats,
                        Numbers quantised, int64_t inner, int64_t heads, bool has_biases,
                        bool has_head_norms, bool neighbours, float epsilon, float scale,
                        int64_t window, int64_t instruction_set) {
  return guarded([&] {
    const auto set = static_cast<InstructionSet>(instruction_set);
    const int64_t tokens = embeddings.dimensions()[0], hidden = embeddings.dimensions()[1];
    const DenseKernels kernels{product_kernels(set, tokens), rows_for(set), attention_for(set)};
    if (kernels.rows == nullptr || kernels.attention == nullptr ||
        kernels.products.of_set.floats == nullptr) {
      return invalid("an instruction set of this processor", instruction_set);
    }
    ffi::Error error = check_stacked_pages(held, *written);
    if (error.failure()) return error;
    const HeldPages first = pages_of_layer(held, 0).keys;
    if (first.kv_heads == 0 || heads <= 0 || heads % first.kv_heads != 0) {
      return invalid("a multiple of " + std::to_string(first.kv_heads) + " heads", heads);
    }
    if (window < 0) return invalid("a window of 0 or more", window);
    if (results->element_count() != embeddings.element_count()) {
      return invalid("a result as the embeddings", results->element_count());
    }
    const int64_t count = held.dimensions()[1];
    for (const Numbers& numbers : {places, formats, quantised}) {
      if (numbers.size() != count * kMatrices) {
        return invalid(std::to_string(kMatrices) + " matrices of each layer", numbers.size());
      }
    }
    const auto found_live = live_rows_of(live, tokens), found_wanted = live_rows_of(wanted, tokens);
    if (found_live.has_error()) return found_live.error();
    if (found_wanted.has_error()) return found_wanted.error();

    const DenseStep step{{nullptr, nullptr, nullptr, tables.typed_data(), positions.typed_data(),
                          lengths.typed_data(), positions.dimensions()[1], heads, first.kv_heads,
                          first.page_size, first.head_dim, first.page_stride,
                          tables.dimensions()[1], window, scale, nullptr},
                         turns.typed_data(),
                         pages.typed_data(),
                         offsets.typed_data(),
                         {found_live->first, found_live->end},
                         {found_wanted->first, found_wanted->end}};
    error = check_step(step, first, positions, pages, offsets, tables, lengths, turns, tokens);
    if (error.failure()) return error;

    const DenseShape shape{hidden,         inner,      heads,
                           first.kv_heads, first.head_dim, turns.dimensions()[3],
                           neighbours,     epsilon};
    const Places of_matrices{memory, places, formats, quantised};
    LayerReader reader(of_matrices, vectors, shape);
    const float* first_norm = reader.vector(hidden);
    std::vector<DenseLayer> layers;
    layers.reserve(count);
    for (int64_t i = 0; i < count; ++i) {
      layers.push_back(reader.layer(has_biases, has_head_norms));
      const LayerPages own = pages_of_layer(held, i);
      layers.back().keys = own.keys;
      layers.back().values = own.values;
    }
    error = reader.end();
    if (error.failure()) return error;
    clear_padding(results->typed_data(), *found_wanted, tokens, hidden);
    if (step.live.count() == 0) return ffi::Error::Success();
    const ProcessorScope scope(ThreadPool::of_process()->place_of_caller());
    DenseLayers(kernels, shape, step)
        .run(embeddings.typed_data(), first_norm, layers, results->typed_data());
    return ffi::Error::Success();
  });
}

}  // namespace
}  // namespace pantheon

// Only what Python names is seen outside the library.
#pragma GCC visibility push(default)

XLA_FFI_DEFINE_HANDLER_SYMBOL(pantheon_dense_layers, pantheon::dense_layers,
                              xla::ffi::Ffi::Bind()
                                  .Arg<pantheon::Matrix>()
                                  .Arg<pantheon::Rotation>()
                                  .Arg<pantheon::Table>()
                                  .Arg<pantheon::Table>()
                                  .Arg<pantheon::Table>()
                                  .Arg<pantheon::Table>()
                                  .Arg<pantheon::Lengths>()
                                  .Arg<pantheon::Bounds>()
                                  .Arg<pantheon::Bounds>()
                                  .Arg<pantheon::Bytes>()
                                  .Arg<pantheon::Vector>()
                                  .Arg<pantheon::Pages>()
                                  .Ret<pantheon::Matrix>()
                                  .Ret<pantheon::Pages>()
                                  .Attr<pantheon::Numbers>("places")
                                  .Attr<pantheon::Numbers>("formats")
                                  .Attr<pantheon::Numbers>("quantised")
                                  .Attr<int64_t>("inner")
                                  .Attr<int64_t>("heads")
                                  .Attr<bool>("has_biases")
                                  .Attr<bool>("has_head_norms")
                                  .Attr<bool>("neighbours")
                                  .Attr<float>("epsilon")
                                  .Attr<float>("scale")
                                  .Attr<int64_t>("window")
                                  .Attr<int64_t>("instruction_set"));

#pragma GCC visibility pop
