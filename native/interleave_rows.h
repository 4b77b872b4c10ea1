// Words of a span of each of 32 rows, brought side by side.
#pragma once

#include <cstring>

#include "interleave.h"
#include "interleave_planes.h"

namespace pantheon {

// Types of blocks with the columns of a span: the words from an octet of the block on and, behind
// them, the 16 bits from another on, if that is not negative.
template <Format F, int Bytes, int WordCount, int WordsAt = 0, int HalfAt = -1>
struct SpanBlocks {
  static constexpr Format kFormat = F;
  static constexpr int kSteps = layout_of(F).span_steps;
  static constexpr int kBytes = Bytes;
  static constexpr int kHalf = WordCount;   // The word that has those 16 bits.
  static constexpr int kWords = WordCount + (HalfAt >= 0 ? 1 : 0);
  static_assert(WordsAt + 4 * WordCount <= Bytes && HalfAt + 2 <= Bytes);

  static void gather(const RowBlock& of, int64_t index, RowWords* words) {
    for (int row = 0; row < kBlockRows; ++row) {
      const uint8_t* block = of.rows[row] + index * Bytes;
      for (int i = 0; i < WordCount; ++i) {
        std::memcpy(&words[i][row], block + WordsAt + 4 * i, sizeof(uint32_t));
      }
      if constexpr (HalfAt >= 0) {
        uint16_t half;
        std::memcpy(&half, block + HalfAt, sizeof half);
        words[kHalf][row] = half;
      }
    }
  }
};

template <class Source>
void interleave_rows(const RowBlock& of) {
  constexpr int columns = Source::kSteps * kStepColumns;
  constexpr int64_t bytes = bytes_of_block(Source::kFormat, columns);
  alignas(64) RowWords words[Source::kWords];
  for (int64_t i = 0; i < of.columns / columns; ++i) {
    Source::gather(of, i, words);
    Source::write(words, of.block + i * bytes);
  }
}

}  // namespace pantheon
