#include "processors.h"

#include <algorithm>
#include <thread>

namespace pantheon {
namespace {

thread_local bool inside_scope = false;

cpu_set_t set_of(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(processor, &set);
  return set;
}

}  // namespace

std::vector<int> usable_processors() {
  std::vector<int> numbers;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int number = 0; number < CPU_SETSIZE; ++number) {
      if (CPU_ISSET(number, &set)) numbers.push_back(number);
    }
  }
  if (numbers.empty()) {
    // More of them than the set holds: how many there are is known, not which.
    numbers.assign(std::max(static_cast<int>(std::thread::hardware_concurrency()), 1), -1);
  }
  return numbers;
}

void stay_on(const std::vector<int>& processors) {
  const cpu_set_t set = set_of(processors);
  sched_setaffinity(0, sizeof set, &set);
}

ProcessorScope::ProcessorScope(int processor) {
  if (processor < 0 || inside_scope) return;
  if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  const cpu_set_t set = set_of({processor});
  moved_ = sched_setaffinity(0, sizeof set, &set) == 0;
  inside_scope = moved_;
}

bool ProcessorScope::is_inside() { return inside_scope; }

ProcessorScope::~ProcessorScope() {
  if (!moved_) return;
  sched_setaffinity(0, sizeof before_, &before_);
  inside_scope = false;
}

}  // namespace pantheon
