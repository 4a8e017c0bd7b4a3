#include "runtime/fork.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>

namespace tilec::runtime {

namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;                                        // threads that hold a Busy
  bool forking = false;
};

// Never destroyed: threads may outlast any destructor.
Gate& gate() {
  static Gate& the = *new Gate;
  return the;
}

thread_local int depth = 0;                              // how many Busys this thread holds: it never waits for itself
std::atomic<int> forks{0};

// The mutex stays locked from here to parent() or child().
void prepare() {
  Gate& g = gate();
  g.mutex.lock();
  std::unique_lock lock(g.mutex, std::adopt_lock);
  g.changed.wait(lock, [&] { return !g.forking; });
  g.forking = true;
  g.changed.wait(lock, [&] { return g.inside == (depth > 0 ? 1 : 0); });
  lock.release();
}

void parent() {
  Gate& g = gate();
  g.forking = false;
  g.changed.notify_all();
  g.mutex.unlock();
}

void child() {
  Gate& g = gate();
  g.forking = false;
  g.inside = depth > 0 ? 1 : 0;
  new (&g.changed) std::condition_variable;              // those who waited on the old one are not here
  g.mutex.unlock();
  forks.fetch_add(1, std::memory_order_relaxed);
}

[[maybe_unused]] const int registered = (gate(), pthread_atfork(prepare, parent, child));

}  // namespace

Busy::Busy() {
  if (depth++ > 0) return;
  Gate& g = gate();
  std::unique_lock lock(g.mutex);
  g.changed.wait(lock, [&] { return !g.forking; });
  ++g.inside;
}

Busy::~Busy() {
  if (--depth > 0) return;
  Gate& g = gate();
  const std::lock_guard lock(g.mutex);
  --g.inside;
  if (g.forking) g.changed.notify_all();
}

int generation() { return forks.load(std::memory_order_relaxed); }

}  // namespace tilec::runtime
