// What the operations that XLA calls have in common.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace pantheon {

namespace ffi = xla::ffi;

inline ffi::Error invalid(const std::string& expected, int64_t found) {
  return ffi::Error::InvalidArgument("expected " + expected + ", got " + std::to_string(found));
}

// Runs what may throw: an exception must not reach XLA.
template <class Body>
ffi::Error guarded(Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

}  // namespace pantheon
