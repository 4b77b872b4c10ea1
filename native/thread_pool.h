// The threads of the process that compute products.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "kernels.h"

namespace pantheon {

// One pool serves all callers, one at a time: there are as many threads as processors, and two
// products at once would only take turns on them. The calling thread computes too, so that a pool
// of one has no thread of its own. Work is claimed piece by piece: a thread that the system keeps
// waiting holds nobody up, and one that comes late finds nothing left.
//
// Threads that have nothing to do look for work for some microseconds, in which the next product
// of a step usually comes, and then sleep. Where there is one for each processor they stay there
// while a caller does (`ProcessorScope`).
class ThreadPool {
 public:
  // The pool of this process, started by the first call. After a fork the child has its own: the
  // parent's threads do not exist there.
  static std::shared_ptr<ThreadPool> of_process();

  // How many threads the pool has from now on; 0 for as many as there are processors that the
  // process may use. A pool in use goes when its product is done.
  static void set_threads(int threads);

  // Of threads that the system places as it likes.
  explicit ThreadPool(int threads);

  // Of one thread for each of these processors; negative for any.
  explicit ThreadPool(const std::vector<int>& processors);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workspaces_.size()); }

  // The processor that is left for the caller; negative for any. Whoever computes for long, in one
  // call or in many, should stay there meanwhile (`ProcessorScope`).
  int place_of_caller() const { return processors_[0]; }

  // Calls `work(piece, workspace)` once for every piece and returns when all are done. `work` must
  // not throw. Each thread begins with neighbouring pieces of its own, so that what lies in a row
  // in memory is read in a row, and then takes what others have left.
  template <class Work>
  void run(int64_t pieces, Work&& work) {
    run_pieces(
        pieces,
        [](void* context, int64_t piece, Workspace& workspace) {
          (*static_cast<std::remove_reference_t<Work>*>(context))(piece, workspace);
        },
        &work);
  }

 private:
  using Call = void (*)(void*, int64_t, Workspace&);

  struct Threads;

  // Pieces that one thread begins with. In a line of the cache of its own.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  void run_pieces(int64_t pieces, Call call, void* context);
  void claim_all(Workspace& workspace);
  void serve(int index);
  bool wait_for_product(uint64_t seen);

  // The product that is computed, and whether each thread stays on its processor. Written by the
  // caller alone, while no thread is inside.
  Call call_ = nullptr;
  void* context_ = nullptr;
  bool placed_ = false;
  const std::vector<int> processors_;   // Of each thread; negative for any.
  std::vector<Share> shares_;

  // Even while nothing is computed; a thread enters only at the odd number it saw.
  std::atomic<uint64_t> turn_{0};
  std::atomic<int> inside_{0};

  std::mutex callers_;
  std::mutex sleep_;
  std::condition_variable wake_;
  std::atomic<int> sleeping_{0};
  bool closing_ = false;

  std::vector<std::unique_ptr<Workspace>> workspaces_;
  std::unique_ptr<Threads> own_;
};

}  // namespace pantheon
