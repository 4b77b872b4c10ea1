// Which instruction sets the kernels are compiled for, and which of them the processor has.
#pragma once

#include <cstdint>

#include "kernels.h"

namespace pantheon {

// Numbers are part of the interface with Python.
enum class InstructionSet : int64_t { best = 0, portable = 1, avx2 = 2, avx512 = 3, vnni = 4 };

// The best that the processor has.
InstructionSet best_instruction_set();

struct KernelsOfSet {
  const Kernels* floats;
  const WholeKernels* whole;
};

// The kernels of a set; nulls where the processor or the build does not have it.
KernelsOfSet kernels_for(InstructionSet set);

}  // namespace pantheon
