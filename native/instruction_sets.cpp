#include "instruction_sets.h"

#include <initializer_list>

#include "attention_kernels.h"
#include "row_kernels.h"

namespace pantheon {
namespace {

bool has(InstructionSet set) {
  switch (set) {
    case InstructionSet::best:
    case InstructionSet::portable:
      return true;
#if defined(__x86_64__)
    // Asked of the compiler's runtime, which also asks whether the system saves the registers.
    case InstructionSet::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case InstructionSet::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case InstructionSet::vnni:
      return has(InstructionSet::avx512) && __builtin_cpu_supports("avx512vnni");
#endif
    default:
      return false;
  }
}

// The table of a set out of those of all; null where the processor or the build has it not.
template <class Table>
const Table* table_for(InstructionSet set, const Table& (*portable)(),
                       const Table& (*avx2)() = nullptr, const Table& (*avx512)() = nullptr) {
  if (set == InstructionSet::best) set = best_instruction_set();
  if (!has(set)) return nullptr;
  // What VNNI adds is only for products of whole numbers.
  if (set == InstructionSet::avx512 || set == InstructionSet::vnni) return &avx512();
  if (set == InstructionSet::avx2) return &avx2();
  return &portable();
}

}  // namespace

InstructionSet best_instruction_set() {
  static const InstructionSet best = [] {
    for (const InstructionSet set :
         {InstructionSet::vnni, InstructionSet::avx512, InstructionSet::avx2}) {
      if (has(set)) return set;
    }
    return InstructionSet::portable;
  }();
  return best;
}

KernelsOfSet kernels_for(InstructionSet set) {
  if (set == InstructionSet::best) set = best_instruction_set();
  if (!has(set)) return {};
  switch (set) {
#if defined(__x86_64__)
    case InstructionSet::avx2:
      return {&avx2_kernels(), &avx2_whole_kernels()};
    case InstructionSet::avx512:
      // Few processors have the one without the other: not worth half a minute of compilation.
      return {&avx512_kernels(), &avx2_whole_kernels()};
    case InstructionSet::vnni:
      return {&avx512_kernels(), &vnni_whole_kernels()};
#endif
    default:
      return {&portable_kernels(), &portable_whole_kernels()};
  }
}

const AttentionKernels* attention_for(InstructionSet set) {
#if defined(__x86_64__)
  return table_for(set, portable_attention, avx2_attention, avx512_attention);
#else
  return table_for(set, portable_attention);
#endif
}

const RowKernels* rows_for(InstructionSet set) {
#if defined(__x86_64__)
  return table_for(set, portable_rows, avx2_rows, avx512_rows);
#else
  return table_for(set, portable_rows);
#endif
}

}  // namespace pantheon
