// How a block is walked through.
#pragma once

#include <cstdint>

#include "layout.h"

namespace pantheon {

// Calls `body(head, step, column)` for each step of a block.
template <Format F, class Body>
[[gnu::always_inline]] inline void for_each_step(const uint8_t* block, int64_t columns,
                                                 Body&& body) {
  constexpr Layout layout = layout_of(F);
  int64_t column = 0;
  while (column < columns) {
    const uint8_t* head = block;
    block += layout.head_bytes;
    for (int i = 0; i < layout.span_steps; ++i) {
      body(head, block, column);
      block += layout.step_bytes;
      column += kStepColumns;
    }
  }
}

// Bytes ahead of the one that is decoded which are asked for: the hardware follows one stream
// well, but stops at the end of each page.
inline constexpr int kPrefetchBytes = 2048;

// Asks for a step, in a walk over the block that is the only one.
template <Format F>
[[gnu::always_inline]] inline void prefetch_ahead(const uint8_t* step) {
  constexpr int bytes = layout_of(F).step_bytes;
#pragma GCC unroll 16
  for (int at = 0; at < bytes; at += 64) __builtin_prefetch(step + kPrefetchBytes + at);
}

// Asks for one of `Passes` shares of the step of the next block: in several walks over a block each
// does so for its own, lest the first should wait for memory and the others leave it idle.
template <Format F, int Passes>
[[gnu::always_inline]] inline void prefetch_next(const uint8_t* step, int64_t block_bytes,
                                                 int pass) {
  constexpr int bytes = layout_of(F).step_bytes;
  const uint8_t* next = step + block_bytes + 64 * pass;
#pragma GCC unroll 16
  for (int at = 0; at < bytes; at += 64 * Passes) __builtin_prefetch(next + at);
}

}  // namespace pantheon
