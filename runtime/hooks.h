// What a host puts in the place of ours, for the whole process: who gives the memory of data, who runs the turns of
// parallel loops.
//
//   allocator_hook().set(Allocator{allocate, release, user});  // from here on `allocate` of tensor.h asks the host
//   pool_hook().set(HostPool{run, user, 8});                   // kernels loaded from here on run on it
//
// Memory goes back to whom it came from, and a kernel keeps the pool that it was loaded with. Reading a hook takes no
// lock (fork.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/parallel.h"

namespace tilec::runtime {

struct Allocator {
  void* (*allocate)(void* user, std::size_t bytes, std::size_t alignment);
  void (*release)(void* user, void* memory, std::size_t bytes, std::size_t alignment);
  void* user;
  bool operator==(const Allocator&) const = default;
};

struct HostPool {
  // 0: all turns are done
  int (*run)(void* user, std::int64_t count, std::int64_t workers, Turn turn, void* arguments);
  void* user;
  std::int64_t workers;
  bool operator==(const HostPool&) const = default;
};

// A value that may change while others read it. Each value that was ever set stays where it is, once: somebody may be
// about to call it.
template <class T> class Hook {
 public:
  const T* get() const { return current_.load(std::memory_order_acquire); }  // null: none
  void set(const std::optional<T>& wanted) {
    const std::lock_guard lock(mutex_);
    if (wanted && std::find(known_.begin(), known_.end(), *wanted) == known_.end()) known_.push_front(*wanted);
    current_.store(wanted ? &*std::find(known_.begin(), known_.end(), *wanted) : nullptr, std::memory_order_release);
  }

 private:
  std::atomic<const T*> current_{nullptr};
  std::mutex mutex_;
  std::forward_list<T> known_;
};

Hook<Allocator>& allocator_hook();
Hook<HostPool>& pool_hook();

// The face of a host's pool for one call of a kernel. Machine code takes no answer, so what went wrong is kept until it
// has returned.
class HostTurns {
 public:
  explicit HostTurns(const HostPool& pool) : pool_(pool), face_{this, run, pool.workers} {}
  HostTurns(const HostTurns&) = delete;
  HostTurns& operator=(const HostTurns&) = delete;
  const tilec_parallel* face() const { return &face_; }
  void check() const;                                  // RuntimeError E0554 where the host did not run every turn

 private:
  static void run(void* context, std::int64_t count, Turn body, void* arguments);

  const HostPool& pool_;
  tilec_parallel face_;
  std::string fault_;
};

}  // namespace tilec::runtime
