// All layers of a decoder in one call, as XLA calls them. Everything that comes from outside is
// checked here; what is behind may rely on it.

#include "dense_layers.h"
#include "ffi_live.h"
#include "ffi_packed.h"
#include "ffi_pages.h"

namespace pantheon {
namespace {

using Vector = ffi::Buffer<ffi::F32, 1>;
using Matrix = ffi::Buffer<ffi::F32, 2>;
using Rotation = ffi::Buffer<ffi::F32, 4>;   // [rows, time, 2, turned]: cosines, then sines.
using Bounds = ffi::Buffer<ffi::S32, 1>;     // The first of some tokens and one past the last.

constexpr int64_t kMatrices = 7;             // Of a layer.

// Takes the buffers of the layers one after another, until one is not what it should be.
class LayerReader {
 public:
  LayerReader(const ffi::RemainingArgs& arguments, ffi::Span<const int64_t> formats,
              ffi::Span<const int64_t> quantised, const DenseShape& shape)
      : arguments_(arguments), formats_(formats), quantised_(quantised), shape_(shape) {}

  // The next layer's; what it holds means nothing where there is an error.
  DenseLayer read(bool has_biases, bool has_head_norms) {
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
    read_pages(layer);
    return layer;
  }

  const ffi::Error& error() const { return error_; }

 private:
  PackedMatrix matrix(int64_t rows, int64_t columns) {
    const PackedKind kind{formats_[matrix_], quantised_[matrix_]};
    ++matrix_;
    const auto buffer = arguments_.get<PackedBuffer>(next_++);
    if (buffer.has_error()) return failed<PackedMatrix>(buffer.error());
    const auto found = packed_matrix(*buffer, kind, rows, columns);
    return found.has_error() ? failed<PackedMatrix>(found.error()) : *found;
  }

  const float* vector(int64_t count) {
    const auto buffer = arguments_.get<Vector>(next_++);
    if (buffer.has_error()) return failed<const float*>(buffer.error());
    if (buffer->dimensions()[0] != count) {
      return failed<const float*>(
          invalid(std::to_string(count) + " numbers", buffer->dimensions()[0]));
    }
    return buffer->typed_data();
  }

  void read_pages(DenseLayer& layer) {
    const auto keys = arguments_.get<Pages>(next_++), values = arguments_.get<Pages>(next_++);
    if (keys.has_error() || values.has_error()) {
      failed<int>(keys.has_error() ? keys.error() : values.error());
      return;
    }
    const ffi::Error error = check_pages(*keys, *values, shape_.kv_heads, shape_.head_dim);
    if (error.failure()) {
      failed<int>(error);
      return;
    }
    layer.keys = held_pages(*keys);
    layer.values = held_pages(*values);
  }

  template <class Value>
  Value failed(const ffi::Error& error) {
    if (error_.success()) error_ = error;
    return {};
  }

  const ffi::RemainingArgs& arguments_;
  const ffi::Span<const int64_t> formats_;
  const ffi::Span<const int64_t> quantised_;
  const DenseShape& shape_;
  size_t next_ = 0;
  size_t matrix_ = 0;
  ffi::Error error_ = ffi::Error::Success();
};

// Whether the pages that a layer leaves are those it was given.
ffi::Error check_in_place(const DenseLayer& layer, const ffi::RemainingRets& results,
                          size_t index) {
  auto keys = results.get<Pages>(2 * index), values = results.get<Pages>(2 * index + 1);
  if (keys.has_error()) return keys.error();
  if (values.has_error()) return values.error();
  if ((*keys)->untyped_data() != layer.keys.memory ||
      (*values)->untyped_data() != layer.values.memory) {
    return ffi::Error::InvalidArgument("expected the pages in place, got copies");
  }
  return ffi::Error::Success();
}

ffi::Error check_step(const DenseStep& step, const Table& positions, const Table& tables,
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
  if (by[3] % 2 != 0 || by[3] > step.attention.head_dim) {
    return invalid("an even part of " + std::to_string(step.attention.head_dim) + " dimensions",
                   by[3]);
  }
  if (step.wanted.first < step.live.first || step.wanted.end > step.live.end) {
    return invalid("wanted tokens that are live", step.wanted.first);
  }
  return ffi::Error::Success();
}

ffi::Error dense_layers(Matrix embeddings, Rotation turns, Table positions, Table pages,
                        Table offsets, Table tables, Lengths lengths, Bounds live, Bounds wanted,
                        Vector first_norm, ffi::RemainingArgs weights, ffi::Result<Matrix> results,
                        ffi::RemainingRets new_pages, ffi::Span<const int64_t> formats,
                        ffi::Span<const int64_t> quantised, int64_t inner, int64_t heads,
                        int64_t kv_heads, int64_t head_dim, bool has_biases, bool has_head_norms,
                        bool neighbours, float epsilon, float scale, int64_t window,
                        int64_t instruction_set) {
  return guarded([&] {
    const auto set = static_cast<InstructionSet>(instruction_set);
    const int64_t tokens = embeddings.dimensions()[0], hidden = embeddings.dimensions()[1];
    const DenseKernels kernels{product_kernels(set, tokens), rows_for(set), attention_for(set)};
    if (kernels.rows == nullptr || kernels.attention == nullptr ||
        kernels.products.of_set.floats == nullptr) {
      return invalid("an instruction set of this processor", instruction_set);
    }
    if (kv_heads <= 0 || heads <= 0 || heads % kv_heads != 0) {
      return invalid("a multiple of " + std::to_string(kv_heads) + " heads", heads);
    }
    if (window < 0) return invalid("a window of 0 or more", window);
    if (first_norm.dimensions()[0] != hidden) {
      return invalid(std::to_string(hidden) + " weights", first_norm.dimensions()[0]);
    }
    if (results->element_count() != embeddings.element_count()) {
      return invalid("a result as the embeddings", results->element_count());
    }
    const size_t count = new_pages.size() / 2;
    const size_t buffers = kMatrices + 4 + (has_biases ? 3 : 0) + (has_head_norms ? 2 : 0);
    if (count == 0 || weights.size() != count * buffers || new_pages.size() % 2 != 0) {
      return invalid(std::to_string(buffers) + " buffers of each layer", weights.size());
    }
    for (const size_t found : {formats.size(), quantised.size()}) {
      if (found != count * kMatrices) return invalid("a format and a choice of each matrix", found);
    }
    const auto found_live = live_rows_of(live, tokens), found_wanted = live_rows_of(wanted, tokens);
    if (found_live.has_error()) return found_live.error();
    if (found_wanted.has_error()) return found_wanted.error();

    const DenseShape shape{hidden, inner,      heads, kv_heads, head_dim, turns.dimensions()[3],
                           neighbours, epsilon};
    LayerReader reader(weights, formats, quantised, shape);
    std::vector<DenseLayer> layers;
    for (size_t i = 0; i < count; ++i) {
      layers.push_back(reader.read(has_biases, has_head_norms));
      if (reader.error().failure()) return reader.error();
      const ffi::Error error = check_in_place(layers.back(), new_pages, i);
      if (error.failure()) return error;
      if (layers[i].keys.pages != layers[0].keys.pages ||
          layers[i].keys.page_size != layers[0].keys.page_size) {
        return invalid("as many pages in each layer", layers[i].keys.pages);
      }
    }

    const HeldPages& held = layers[0].keys;
    const DenseStep step{{nullptr, nullptr, nullptr, tables.typed_data(), positions.typed_data(),
                          lengths.typed_data(), positions.dimensions()[1], heads, kv_heads,
                          held.page_size, head_dim, tables.dimensions()[1], window, scale,
                          nullptr},
                         turns.typed_data(),
                         pages.typed_data(),
                         offsets.typed_data(),
                         {found_live->first, found_live->end},
                         {found_wanted->first, found_wanted->end}};
    ffi::Error error = check_step(step, positions, tables, lengths, turns, tokens);
    if (error.failure()) return error;
    const int64_t rows = positions.dimensions()[0], time = positions.dimensions()[1];
    error = check_tables(step.attention, rows, held.pages);
    if (error.failure()) return error;
    error = check_places(pages, offsets, rows, time, held);
    if (error.failure()) return error;
    clear_padding(results->typed_data(), *found_wanted, tokens, hidden);
    if (step.live.count() == 0) return ffi::Error::Success();
    DenseLayers(kernels, shape, step)
        .run(embeddings.typed_data(), first_norm.typed_data(), layers, results->typed_data());
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
                                  .Arg<pantheon::Vector>()
                                  .RemainingArgs()
                                  .Ret<pantheon::Matrix>()
                                  .RemainingRets()
                                  .Attr<xla::ffi::Span<const int64_t>>("formats")
                                  .Attr<xla::ffi::Span<const int64_t>>("quantised")
                                  .Attr<int64_t>("inner")
                                  .Attr<int64_t>("heads")
                                  .Attr<int64_t>("kv_heads")
                                  .Attr<int64_t>("head_dim")
                                  .Attr<bool>("has_biases")
                                  .Attr<bool>("has_head_norms")
                                  .Attr<bool>("neighbours")
                                  .Attr<float>("epsilon")
                                  .Attr<float>("scale")
                                  .Attr<int64_t>("window")
                                  .Attr<int64_t>("instruction_set"));

#pragma GCC visibility pop
