#include "dense_layers.h"

#include <algorithm>
#include <cstring>

#include "attention_plan.h"
#include "divided.h"
#include "float_mode.h"

namespace pantheon {

DenseLayers::DenseLayers(const DenseKernels& kernels, const DenseShape& shape,
                         const DenseStep& step)
    : kernels_(kernels), shape_(shape), step_(step) {
  const int64_t tokens = step.live.count();
  for (std::vector<float>* array : {&sums_, &normed_, &delta_}) {
    array->resize(tokens * shape.hidden);
  }
  for (std::vector<float>* array : {&query_, &turned_}) array->resize(tokens * shape.query_rows());
  for (std::vector<float>* array : {&key_, &value_}) array->resize(tokens * shape.key_rows());
  for (std::vector<float>* array : {&gate_, &up_}) array->resize(tokens * shape.inner);
}

void DenseLayers::run(const float* embeddings, const float* first_norm,
                      const std::vector<DenseLayer>& layers, float* results) {
  const FloatMode mode;
  const auto [first, end] = step_.live;
  const int64_t hidden = shape_.hidden;
  std::copy(embeddings + first * hidden, embeddings + end * hidden, sums_.begin());
  for_rows(first, end, hidden, [&](int64_t token) {
    kernels_.rows->rms_norm(at(sums_, token, hidden), first_norm, shape_.epsilon, hidden,
                            at(normed_, token, hidden));
  });
  for (const DenseLayer& layer : layers) {
    // Behind the last layer nobody looks at the others.
    const TokenRange wanted = &layer == &layers.back() ? step_.wanted : step_.live;
    attend(layer, wanted);
    if (wanted.count() == 0) break;
    add_and_norm(layer.feed_forward_norm, wanted);
    feed_forward(layer, wanted);
    add_and_norm(layer.next_norm, wanted);
  }
  std::memcpy(results + step_.wanted.first * hidden, at(normed_, step_.wanted.first, hidden),
              sizeof(float) * hidden * step_.wanted.count());
}

void DenseLayers::attend(const DenseLayer& layer, TokenRange wanted) {
  const int64_t query_rows = shape_.query_rows();
  multiply_tokens(normed_, shape_.hidden, step_.live,
                  {{layer.query, query_.data()},
                   {layer.key, key_.data()},
                   {layer.value, value_.data()}});
  for_rows(step_.live.first, step_.live.end, query_rows + 2 * shape_.key_rows(),
           [&](int64_t token) { place_heads(layer, token); });
  if (wanted.count() == 0) return;
  Attention call = step_.attention;
  // As if the arrays began with the step's first token, of which those of padding are not touched.
  call.queries = turned_.data() - step_.live.first * query_rows;
  call.results = query_.data() - step_.live.first * query_rows;
  call.key_pages = layer.keys.memory;
  call.value_pages = layer.values.memory;
  compute_attention(call, wanted.first, wanted.end, layer.keys.type, *kernels_.attention);
  multiply_tokens(query_, query_rows, wanted,
                  {{layer.output, at(delta_, wanted.first, shape_.hidden)}});
}

// What was projected of a token becomes heads: turned, and in the pages.
void DenseLayers::place_heads(const DenseLayer& layer, int64_t token) {
  const float* cosines = step_.turns + token * 2 * shape_.turned;
  const auto add = [](float* values, const float* bias, int64_t count) {
    if (bias == nullptr) return;
    for (int64_t i = 0; i < count; ++i) values[i] += bias[i];
  };
  const auto turn = [&](float* heads, int64_t count, const float* norm, float* results) {
    for (int64_t head = 0; norm != nullptr && head < count; ++head) {
      float* own = heads + head * shape_.head_dim;
      kernels_.rows->rms_norm(own, norm, shape_.epsilon, shape_.head_dim, own);
    }
    kernels_.rows->turn({heads, cosines, cosines + shape_.turned, count, shape_.head_dim,
                         shape_.turned, shape_.neighbours, results});
  };
  float* query = at(query_, token, shape_.query_rows());
  float* key = at(key_, token, shape_.key_rows());
  float* value = at(value_, token, shape_.key_rows());
  add(query, layer.query_bias, shape_.query_rows());
  add(key, layer.key_bias, shape_.key_rows());
  add(value, layer.value_bias, shape_.key_rows());
  const int32_t page = step_.pages[token], offset = step_.offsets[token];
  // Values are written first: their place then takes the turned keys.
  write_token(layer.values, value, page, offset, *kernels_.attention);
  turn(query, shape_.heads, layer.query_norm, at(turned_, token, shape_.query_rows()));
  turn(key, shape_.kv_heads, layer.key_norm, value);
  write_token(layer.keys, value, page, offset, *kernels_.attention);
}

void DenseLayers::feed_forward(const DenseLayer& layer, TokenRange wanted) {
  const int64_t inner = shape_.inner;
  multiply_tokens(normed_, shape_.hidden, wanted,
                  {{layer.gate, at(gate_, wanted.first, inner)},
                   {layer.up, at(up_, wanted.first, inner)}});
  for_rows(wanted.first, wanted.end, inner, [&](int64_t token) {
    float* gate = at(gate_, token, inner);
    kernels_.rows->silu_product(gate, at(up_, token, inner), inner, gate);
  });
  multiply_tokens(gate_, inner, wanted,
                  {{layer.down, at(delta_, wanted.first, shape_.hidden)}});
}

void DenseLayers::add_and_norm(const float* weight, TokenRange wanted) {
  const int64_t hidden = shape_.hidden;
  for_rows(wanted.first, wanted.end, hidden, [&](int64_t token) {
    float* sum = at(sums_, token, hidden);
    kernels_.rows->add_rms_norm(sum, at(delta_, token, hidden), weight, shape_.epsilon, hidden,
                                sum, at(normed_, token, hidden));
  });
}

void DenseLayers::multiply_tokens(std::vector<float>& from, int64_t columns, TokenRange tokens,
                                  std::initializer_list<Product> products) {
  activations_.assign(at(from, tokens.first, columns), tokens.count(), columns);
  multiply(kernels_.products, activations_, products.begin(),
           static_cast<int64_t>(products.size()));
}

}  // namespace pantheon
