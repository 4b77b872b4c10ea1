#include "thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "float_mode.h"

namespace pantheon {
namespace {

constexpr std::chrono::microseconds kSpin{60};

// Between two looks at the clock.
constexpr int kLooks = 64;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

// The pool and its guard live as long as the process: its threads may run until the very end, and
// nothing may be destroyed under them.
struct ProcessPool {
  std::mutex guard;
  std::shared_ptr<ThreadPool> pool;
  int threads = 0;
};

ProcessPool* process_pool = nullptr;

ProcessPool& process() {
  static const bool watched = [] {
    process_pool = new ProcessPool;
    // A child begins anew. What it inherits, locks that nobody will open among it, is left alone.
    pthread_atfork(nullptr, nullptr, [] {
      const int threads = process_pool->threads;
      process_pool = new ProcessPool;
      process_pool->threads = threads;
    });
    return true;
  }();
  (void)watched;
  return *process_pool;
}

}  // namespace

struct ThreadPool::Threads {
  std::vector<std::thread> all;
};

std::shared_ptr<ThreadPool> ThreadPool::of_process() {
  ProcessPool& own = process();
  const std::lock_guard lock(own.guard);
  if (own.pool == nullptr) {
    own.pool = std::make_shared<ThreadPool>(own.threads != 0 ? own.threads : usable_processors());
  }
  return own.pool;
}

void ThreadPool::set_threads(int threads) {
  ProcessPool& own = process();
  const std::lock_guard lock(own.guard);
  own.threads = threads;
  own.pool.reset();
}

ThreadPool::ThreadPool(int threads) : shares_(threads), own_(std::make_unique<Threads>()) {
  for (int i = 0; i < threads; ++i) {
    workspaces_.push_back(std::make_unique<Workspace>());
    workspaces_.back()->thread = i;
  }
  for (int i = 1; i < threads; ++i) own_->all.emplace_back([this, i] { serve(i); });
}

ThreadPool::~ThreadPool() {
  const std::lock_guard callers(callers_);
  {
    const std::lock_guard lock(sleep_);
    closing_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : own_->all) thread.join();
}

void ThreadPool::run_pieces(int64_t pieces, Call call, void* context) {
  const std::lock_guard caller(callers_);
  const FloatMode mode;
  call_ = call;
  context_ = context;
  for (int i = 0; i < threads(); ++i) {
    shares_[i].next.store(pieces * i / threads());
    shares_[i].end = pieces * (i + 1) / threads();
  }
  const bool shared = pieces > 1 && threads() > 1;
  if (shared) {
    turn_.fetch_add(1);
    if (sleeping_.load() > 0) {
      // Taken and left, so that no thread is between its last look and its sleep.
      { const std::lock_guard lock(sleep_); }
      wake_.notify_all();
    }
  }
  claim_all(*workspaces_[0]);
  if (shared) {
    turn_.fetch_add(1);
    while (inside_.load() != 0) pause_briefly();
  }
}

void ThreadPool::claim_all(Workspace& workspace) {
  for (int i = 0; i < threads(); ++i) {
    Share& share = shares_[(workspace.thread + i) % threads()];
    for (int64_t piece = share.next.fetch_add(1); piece < share.end;
         piece = share.next.fetch_add(1)) {
      call_(context_, piece, workspace);
    }
  }
}

void ThreadPool::serve(int index) {
  const FloatMode mode;
  uint64_t seen = 0;
  while (wait_for_product(seen)) {
    // Either this thread is seen inside before the caller leaves, or it sees that he has.
    inside_.fetch_add(1);
    const uint64_t turn = turn_.load();
    if (turn % 2 == 1) claim_all(*workspaces_[index]);
    inside_.fetch_sub(1);
    seen = turn;
  }
}

bool ThreadPool::wait_for_product(uint64_t seen) {
  const auto is_new = [&] {
    const uint64_t turn = turn_.load();
    return turn != seen && turn % 2 == 1;
  };
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kLooks; ++i) {
      if (is_new()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  std::unique_lock lock(sleep_);
  sleeping_.fetch_add(1);
  wake_.wait(lock, [&] { return closing_ || is_new(); });
  sleeping_.fetch_sub(1);
  return !closing_;
}

}  // namespace pantheon
