// fork() beside threads that compile. The child has none of them, so a lock that one of them held would stay closed for
// ever: LLVM's, the cache's, a pool's. fork() therefore waits until nobody holds one, and who would take one waits
// until it is over.
//
//   const Busy busy;                                  // around every piece of work that may take a lock
//
// What runs a kernel takes no lock (spare.h), so fork() does not wait for kernels.
#pragma once

namespace tilec::runtime {

class Busy {
 public:
  Busy();
  ~Busy();
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
};

// How many forks lie between this process and the one that loaded us: threads and devices of another number do not
// exist here.
int generation();

}  // namespace tilec::runtime
