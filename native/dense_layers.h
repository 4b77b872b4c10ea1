// The layers of a decoder that attends and feeds forward, one after another: what stands between
// the embedding and the head.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_kernels.h"
#include "packed_products.h"
#include "page_writes.h"
#include "row_kernels.h"

namespace pantheon {

// Tokens of a step, of all of its tokens as one axis.
struct TokenRange {
  int64_t first;
  int64_t end;

  int64_t count() const { return end - first; }
};

// What all layers share.
struct DenseShape {
  int64_t hidden;
  int64_t inner;         // Rows of the gate.
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t turned;        // Leading dimensions of a head that are turned.
  bool neighbours;       // See `Turn`.
  float epsilon;

  int64_t query_rows() const { return heads * head_dim; }
  int64_t key_rows() const { return kv_heads * head_dim; }
};

// The weights of one layer and its pages. Pointers to what an architecture does not have are null.
struct DenseLayer {
  PackedMatrix query, key, value, output;
  PackedMatrix gate, up, down;
  const float* query_bias;
  const float* key_bias;
  const float* value_bias;
  const float* query_norm;           // [head_dim], for each head.
  const float* key_norm;
  const float* feed_forward_norm;
  const float* next_norm;            // Of the next layer, or of the head.
  HeldPages keys;
  HeldPages values;
};

// The step: where its tokens stand.
struct DenseStep {
  Attention attention;               // Without what a layer has: queries, pages, results.
  const float* turns;                // [tokens, 2, turned]: cosines, then sines.
  const int32_t* pages;              // [tokens]
  const int32_t* offsets;            // [tokens]
  TokenRange live;                   // Tokens outside are padding.
  TokenRange wanted;                 // Among them those whose results are asked for.
};

struct DenseKernels {
  ProductKernels products;
  const RowKernels* rows;
  const AttentionKernels* attention;
};

// Runs tokens through layers. Reads and writes only live tokens, and keeps no state of its own.
class DenseLayers {
 public:
  DenseLayers(const DenseKernels& kernels, const DenseShape& shape, const DenseStep& step);

  // Makes of embeddings [tokens, hidden] the normed hidden states of the wanted tokens; results
  // [tokens, hidden], whose other rows are left alone.
  void run(const float* embeddings, const float* first_norm, const std::vector<DenseLayer>& layers,
           float* results);

 private:
  void attend(const DenseLayer& layer, TokenRange wanted);
  void feed_forward(const DenseLayer& layer, TokenRange wanted);
  void add_and_norm(const float* weight, TokenRange wanted);
  void place_heads(const DenseLayer& layer, int64_t token);

  // The memory of a token in an array of so many numbers for each live one.
  float* at(std::vector<float>& array, int64_t token, int64_t columns) const {
    return array.data() + (token - step_.live.first) * columns;
  }

  void multiply_tokens(std::vector<float>& from, int64_t columns, TokenRange tokens,
                       std::initializer_list<Product> products);

  const DenseKernels kernels_;
  const DenseShape shape_;
  const DenseStep step_;
  Activations activations_;
  // Each of [live tokens, ...].
  std::vector<float> sums_;          // What the layers add up to.
  std::vector<float> normed_;
  std::vector<float> delta_;         // What a part of a layer adds.
  std::vector<float> query_, key_, value_;
  std::vector<float> turned_;        // Queries.
  std::vector<float> gate_, up_;
};

}  // namespace pantheon
