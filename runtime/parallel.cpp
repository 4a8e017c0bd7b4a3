// A pool that a kernel of ten microseconds can afford: workers spin for a moment after each job before they sleep, a
// fork is one store and a join is a count. Turns are split evenly and statically, so a thread meets the same data in
// the next kernel.
//
// One job at a time. Whoever calls while it runs (a nested loop, another host thread) runs the turns itself, which
// never waits and so never deadlocks. After fork() the child has no workers: it makes a pool of its own when it first
// asks.
#include "runtime/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/fork.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tilec::runtime {

namespace {

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

int thread_count() {
  if (const char* text = std::getenv("TILEC_THREADS")) {
    char* end = nullptr;
    const long n = std::strtol(text, &end, 10);
    if (end != text && *end == '\0' && n >= 1) return static_cast<int>(std::min(n, 1024L));
  }
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

class Pool {  // NOLINT(clang-analyzer-optin.performance.Padding)
 public:
  explicit Pool(int threads) : threads_(threads) {
    for (int t = 1; t < threads; ++t) std::thread([this, t] { work(t); }).detach();
  }

  bool ours() const { return generation_ == generation(); }

  void run(std::int64_t count, Turn body, void* arguments) {
    if (threads_ == 1 || count == 1 || busy_.exchange(true, std::memory_order_acquire)) {
      for (std::int64_t i = 0; i < count; ++i) body(arguments, i, 0);  // other turns of this call run nowhere
      return;
    }
    count_ = count, body_ = body, arguments_ = arguments;
    left_.store(threads_ - 1, std::memory_order_relaxed);
    job_.fetch_add(1, std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_seq_cst) > 0) {
      const std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
    share(0);
    for (int spins = 0; left_.load(std::memory_order_acquire) != 0; ++spins)
      spins < spin_limit ? pause() : std::this_thread::yield();
    busy_.store(false, std::memory_order_release);
  }

 private:
  static constexpr int spin_limit = 2000;              // a few tens of microseconds

  void share(int thread) {
    const std::int64_t begin = count_ * thread / threads_, end = count_ * (thread + 1) / threads_;
    for (std::int64_t i = begin; i < end; ++i) body_(arguments_, i, thread);
  }

  void work(int thread) {
    for (unsigned seen = 0;;) {
      for (int spins = 0; job_.load(std::memory_order_acquire) == seen && spins < spin_limit; ++spins) pause();
      if (job_.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex_);
        asleep_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, [&] { return job_.load(std::memory_order_seq_cst) != seen; });
        asleep_.fetch_sub(1, std::memory_order_seq_cst);
      }
      seen = job_.load(std::memory_order_acquire);
      share(thread);
      left_.fetch_sub(1, std::memory_order_release);
    }
  }

  const int threads_;
  const int generation_ = generation();
  std::int64_t count_ = 0;
  Turn body_ = nullptr;
  void* arguments_ = nullptr;
  alignas(64) std::atomic<bool> busy_{false};
  alignas(64) std::atomic<unsigned> job_{0};           // number of the newest job
  alignas(64) std::atomic<int> left_{0};               // workers that have not finished it
  std::atomic<int> asleep_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

// Pools live as long as the process: their threads may outlast any destructor.
Pool& pool() {
  static std::atomic<Pool*> current{nullptr};
  static std::mutex starting;
  Pool* p = current.load(std::memory_order_acquire);
  if (p && p->ours()) return *p;
  const Busy busy;
  const std::lock_guard lock(starting);
  p = current.load(std::memory_order_acquire);
  if (!p || !p->ours()) current.store(p = new Pool(thread_count()), std::memory_order_release);
  return *p;
}

}  // namespace

const tilec_parallel* default_pool() {
  static const tilec_parallel face{nullptr, [](void*, std::int64_t count, Turn body, void* arguments) {
                                     if (count > 0) pool().run(count, body, arguments);
                                   }, thread_count()};
  return &face;
}

const tilec_parallel* serial_pool() {
  static const tilec_parallel face{nullptr, [](void*, std::int64_t count, Turn body, void* arguments) {
                                     for (std::int64_t i = 0; i < count; ++i) body(arguments, i, 0);
                                   }, 1};
  return &face;
}

}  // namespace tilec::runtime
