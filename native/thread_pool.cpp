#include "thread_pool.h"

#include <pthread.h>

#include <chrono>
#include <thread>

#include "float_mode.h"
#include "processors.h"

namespace pantheon {
namespace {

constexpr std::chrono::microseconds kSpin{60};

// Between two looks at the clock.
constexpr int kLooks = 64;

using Clock = std::chrono::steady_clock;

// Between two offers of the processor to others that want it.
constexpr int kLooksBetweenOffers = 4;

// An offer that was taken for so long was taken by one that computes, ...
constexpr std::chrono::microseconds kLongTaken{2500};
// ... which has its turn anyway, and is offered nothing for so long.
constexpr std::chrono::milliseconds kNoOffers{100};

// Passes the time between two looks for what a thread waits for. Threads that do a little now and
// then, those that plan steps and write answers, so run while nothing is computed: otherwise they
// would interrupt a thread in the middle of its piece, and all would wait for it.
void pause_briefly(int look) {
  static thread_local Clock::time_point next_offer{};
  if (look % kLooksBetweenOffers == 0) {
    const auto offered = Clock::now();
    if (offered >= next_offer) {
      std::this_thread::yield();
      const auto back = Clock::now();
      if (back - offered > kLongTaken) next_offer = back + kNoOffers;
      return;
    }
  }
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The pool and its guard live as long as the process: its threads may run until the very end, and
// nothing may be destroyed under them.
struct ProcessPool {
  // Of the thread that asks first, which computes nothing yet.
  std::vector<int> processors = usable_processors();
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
      const ProcessPool& inherited = *process_pool;
      process_pool = new ProcessPool{inherited.processors, {}, {}, inherited.threads};
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
    const int processors = static_cast<int>(own.processors.size());
    const int threads = own.threads != 0 ? own.threads : processors;
    // Where some are left over, other processes may count on them in the same way.
    own.pool = threads == processors ? std::make_shared<ThreadPool>(own.processors)
                                     : std::make_shared<ThreadPool>(threads);
  }
  return own.pool;
}

void ThreadPool::set_threads(int threads) {
  ProcessPool& own = process();
  const std::lock_guard lock(own.guard);
  own.threads = threads;
  own.pool.reset();
}

ThreadPool::ThreadPool(int threads) : ThreadPool(std::vector<int>(threads, -1)) {}

ThreadPool::ThreadPool(const std::vector<int>& processors)
    : processors_(processors), shares_(processors.size()), own_(std::make_unique<Threads>()) {
  const int threads = static_cast<int>(processors.size());
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
  placed_ = ProcessorScope::is_inside() && place_of_caller() >= 0;
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
    for (int look = 1; inside_.load() != 0; ++look) pause_briefly(look);
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
  ProcessorStay stay;
  while (wait_for_product(seen)) {
    // Either this thread is seen inside before the caller leaves, or it sees that he has.
    inside_.fetch_add(1);
    const uint64_t turn = turn_.load();
    if (turn % 2 == 1) {
      if (!placed_) {
        stay.end();
      } else if (!stay.is_there()) {
        stay.begin(processors_[index]);
      }
      claim_all(*workspaces_[index]);
    }
    inside_.fetch_sub(1);
    seen = turn;
  }
}

bool ThreadPool::wait_for_product(uint64_t seen) {
  const auto is_new = [&] {
    const uint64_t turn = turn_.load();
    return turn != seen && turn % 2 == 1;
  };
  const auto end = Clock::now() + kSpin;
  do {
    for (int look = 1; look <= kLooks; ++look) {
      if (is_new()) return true;
      pause_briefly(look);
    }
  } while (Clock::now() < end);
  std::unique_lock lock(sleep_);
  sleeping_.fetch_add(1);
  wake_.wait(lock, [&] { return closing_ || is_new(); });
  sleeping_.fetch_sub(1);
  return !closing_;
}

}  // namespace pantheon
