// Scenes of the thread pool, one for each name on the command line; the exit status says how it
// went. Built and run by test_thread_pool.py.

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "processors.h"
#include "thread_pool.h"

namespace {

using pantheon::ThreadPool;
using pantheon::Workspace;

// Whether every piece is done exactly once.
bool all_once(ThreadPool& pool, int64_t pieces) {
  std::vector<std::atomic<int>> done(pieces);
  pool.run(pieces, [&](int64_t piece, Workspace& workspace) {
    workspace.totals[0] = static_cast<float>(piece);   // Each thread has its own.
    done[piece].fetch_add(1);
  });
  for (const auto& count : done) {
    if (count.load() != 1) return false;
  }
  return true;
}

bool every_piece_is_done_once() {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int i = 0; i < 300; ++i) {
      for (const int64_t pieces : {0, 1, 2, 3, 64}) {
        if (!all_once(pool, pieces)) return false;
      }
    }
  }
  return true;
}

bool callers_take_turns() {
  ThreadPool pool(3);
  std::atomic<bool> right{true};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int j = 0; j < 300; ++j) {
        if (!all_once(pool, 7)) right = false;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  return right;
}

// Long enough apart for the threads to have gone to sleep.
bool threads_wake_up_again() {
  ThreadPool pool(2);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::atomic<int> arrived{0};
    // Neither piece ends before the other has begun: one thread cannot do both.
    pool.run(2, [&](int64_t, Workspace&) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
    });
  }
  return true;
}

bool a_pool_goes_while_its_threads_look_or_sleep() {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(3);
    if (i % 3 != 0 && !all_once(pool, 9)) return false;
    if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool the_number_of_threads_may_change_under_callers() {
  std::atomic<bool> right{true};
  std::thread caller([&] {
    for (int i = 0; i < 500; ++i) {
      if (!all_once(*ThreadPool::of_process(), 8)) right = false;
    }
  });
  for (int i = 0; i < 50; ++i) ThreadPool::set_threads(1 + i % 3);
  caller.join();
  return right;
}

bool a_forked_child_has_threads_of_its_own() {
  ThreadPool::set_threads(2);
  if (!all_once(*ThreadPool::of_process(), 50)) return false;
  const pid_t child = fork();
  if (child == 0) {
    const bool right = ThreadPool::of_process()->threads() == 2 &&
                       all_once(*ThreadPool::of_process(), 50);
    _exit(right ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0 && all_once(*ThreadPool::of_process(), 50);
}

bool the_process_ends_while_products_run() {
  ThreadPool::set_threads(2);
  std::thread([] {
    for (;;) all_once(*ThreadPool::of_process(), 1000);
  }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return true;
}

cpu_set_t processors_of_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return set;
}

// Each thread computes on the processor that is its own, the caller only meanwhile.
bool threads_stay_on_their_processors() {
  const std::vector<int> usable = pantheon::usable_processors();
  const cpu_set_t before = processors_of_thread();
  ThreadPool pool(usable);
  std::atomic<bool> right{true};
  const auto computes = [&] {
    pool.run(1000, [&](int64_t, Workspace& workspace) {
      if (sched_getcpu() != usable[workspace.thread]) right = false;
    });
  };
  {
    const pantheon::ProcessorScope scope(pool.place_of_caller());
    const pantheon::ProcessorScope inner(usable.back());
    computes();
    computes();
    if (sched_getcpu() != usable[0]) return false;
  }
  const cpu_set_t after = processors_of_thread();
  return right && CPU_EQUAL(&before, &after);
}

// Who takes a processor away while a thread stays on another is not overruled at the stay's end.
bool what_is_decided_meanwhile_holds() {
  const std::vector<int> usable = pantheon::usable_processors();
  if (usable.size() == 1) return true;   // There is nothing to decide.
  cpu_set_t last;
  CPU_ZERO(&last);
  CPU_SET(usable.back(), &last);
  bool right = true;
  std::thread([&] {
    {
      const pantheon::ProcessorScope scope(usable[0]);
      sched_setaffinity(0, sizeof last, &last);
    }
    const cpu_set_t after = processors_of_thread();
    right = CPU_EQUAL(&after, &last);
    // And it may no longer go where it stayed.
    const pantheon::ProcessorScope scope(usable[0]);
    const cpu_set_t within = processors_of_thread();
    right = right && CPU_EQUAL(&within, &last) && !pantheon::ProcessorScope::is_inside();
  }).join();
  return right;
}

// The system refuses a processor that does not exist; then nothing has changed.
bool a_refused_processor_changes_nothing() {
  const cpu_set_t before = processors_of_thread();
  {
    const pantheon::ProcessorScope scope(CPU_SETSIZE - 1);
    const cpu_set_t within = processors_of_thread();
    if (!CPU_EQUAL(&before, &within)) return false;
  }
  ThreadPool pool(std::vector<int>{CPU_SETSIZE - 1, CPU_SETSIZE - 1});
  const cpu_set_t after = processors_of_thread();
  return all_once(pool, 100) && CPU_EQUAL(&before, &after);
}

struct Scene {
  const char* name;
  bool (*run)();
};

constexpr Scene kScenes[] = {
    {"every_piece_is_done_once", every_piece_is_done_once},
    {"callers_take_turns", callers_take_turns},
    {"threads_wake_up_again", threads_wake_up_again},
    {"a_pool_goes_while_its_threads_look_or_sleep", a_pool_goes_while_its_threads_look_or_sleep},
    {"the_number_of_threads_may_change_under_callers",
     the_number_of_threads_may_change_under_callers},
    {"threads_stay_on_their_processors", threads_stay_on_their_processors},
    {"what_is_decided_meanwhile_holds", what_is_decided_meanwhile_holds},
    {"a_refused_processor_changes_nothing", a_refused_processor_changes_nothing},
    {"a_forked_child_has_threads_of_its_own", a_forked_child_has_threads_of_its_own},
    {"the_process_ends_while_products_run", the_process_ends_while_products_run},
};

}  // namespace

int main(int count, char** arguments) {
  for (const Scene& scene : kScenes) {
    if (count == 2 && std::strcmp(arguments[1], scene.name) == 0) return scene.run() ? 0 : 1;
  }
  return 2;
}
