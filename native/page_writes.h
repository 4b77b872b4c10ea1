// Keys and values of a step's tokens, put where the pages hold them.
#pragma once

#include <cstring>

#include "attention_kernels.h"

namespace pantheon {

// The keys or the values of one layer: of each page [kv_heads, page_size, head_dim].
struct HeldPages {
  void* memory;
  Held type;
  int64_t pages;
  int64_t kv_heads;
  int64_t page_size;
  int64_t head_dim;
  int64_t page_stride;   // Numbers from one page to the next.
};

// Stores the heads [kv_heads, head_dim] of one token. A page one past the last is dropped: that of
// padding.
inline void write_token(const HeldPages& held, const float* heads, int64_t page, int64_t offset,
                        const AttentionKernels& kernels) {
  if (page == held.pages) return;
  for (int64_t head = 0; head < held.kv_heads; ++head) {
    const float* from = heads + head * held.head_dim;
    const int64_t at = page * held.page_stride + (head * held.page_size + offset) * held.head_dim;
    uint8_t* to = static_cast<uint8_t*>(held.memory) + at * held_bytes(held.type);
    if (held.type == Held::floats) {
      std::memcpy(to, from, sizeof(float) * held.head_dim);
    } else {
      kernels.to_halves(from, reinterpret_cast<uint16_t*>(to), held.head_dim);
    }
  }
}

}  // namespace pantheon
