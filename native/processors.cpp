#include "processors.h"

#include <algorithm>
#include <thread>

namespace pantheon {
namespace {

thread_local bool inside_scope = false;

// Where a thread may run; empty where the system does not say.
cpu_set_t allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_ZERO(&set);
  return set;
}

}  // namespace

std::vector<int> usable_processors() {
  std::vector<int> numbers;
  const cpu_set_t set = allowed();
  for (int number = 0; number < CPU_SETSIZE; ++number) {
    if (CPU_ISSET(number, &set)) numbers.push_back(number);
  }
  if (numbers.empty()) {
    // More of them than the set holds: how many there are is known, not which.
    numbers.assign(std::max(static_cast<int>(std::thread::hardware_concurrency()), 1), -1);
  }
  return numbers;
}

void ProcessorStay::begin(int processor) {
  if (processor < 0 || processor >= CPU_SETSIZE || moved_) return;
  before_ = allowed();
  if (!CPU_ISSET(processor, &before_)) return;
  CPU_ZERO(&own_);
  CPU_SET(processor, &own_);
  moved_ = sched_setaffinity(0, sizeof own_, &own_) == 0;
}

void ProcessorStay::end() {
  if (!moved_) return;
  moved_ = false;
  const cpu_set_t now = allowed();
  if (CPU_EQUAL(&now, &own_)) sched_setaffinity(0, sizeof before_, &before_);
}

ProcessorScope::ProcessorScope(int processor) {
  if (inside_scope) return;
  stay_.begin(processor);
  inside_scope = stay_.is_there();
}

bool ProcessorScope::is_inside() { return inside_scope; }

ProcessorScope::~ProcessorScope() {
  if (stay_.is_there()) inside_scope = false;
  stay_.end();
}

}  // namespace pantheon
