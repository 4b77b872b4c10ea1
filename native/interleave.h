// From rows as files pack them to the interleaved layout (`layout.h`), bit for bit.
//
// Nothing is rounded: codes and scales are put elsewhere. `layouts.py` of the Python side says the
// same in numpy, and has the types whose codes are looked up.
#pragma once

#include <cstdint>

#include "layout.h"

namespace pantheon {

// A block of rows and where it goes.
struct RowBlock {
  const uint8_t* rows[kBlockRows];   // Where each begins.
  int64_t columns;                   // As many as the type can have.
  uint8_t* block;
};

// How rows of one type are read.
struct RowSource {
  const char* name;      // That of ggml, or INT8.
  Format format;         // What they become.
  int64_t columns;       // Of a row that are read at a time, in whole spans, and ...
  int64_t bytes;         // ... what they take in it.
  void (*interleave)(const RowBlock&);
};

// That of a type; null where there is none.
const RowSource* row_source(const char* name);

}  // namespace pantheon
