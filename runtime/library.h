// A vendor's library, opened by name when it is first asked for.
//
//   struct Api { int (*cuInit)(unsigned); …; std::string missing; };   // missing: why it cannot be used; empty if it
//                                                                      can
//   const Api& api() { return found_once<Api, find>(); }
//
// What was found is kept for ever. What was missing is looked for again: it may have been installed meanwhile. A
// driver's threads stay behind in fork(), so its Api notes whose it is, and a child calls nothing of it.
#pragma once

#include <atomic>
#include <mutex>

namespace tilec::runtime {

template <class Api, Api (*find)()> const Api& found_once() {
  static std::atomic<const Api*> found{nullptr};
  static std::mutex mutex;
  if (const Api* known = found.load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(mutex);
  if (const Api* known = found.load(std::memory_order_relaxed)) return *known;
  thread_local Api last;
  last = find();
  if (!last.missing.empty()) return last;
  const Api* kept = new Api(last);                     // never destroyed: drivers unload in an order nobody controls
  found.store(kept, std::memory_order_release);
  return *kept;
}

}  // namespace tilec::runtime
