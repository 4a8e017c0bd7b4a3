// The thread pool's C face: what generated code calls, and what a host may replace by its own pool.
#pragma once

#include <cstdint>

extern "C" {

// run(context, count, body, arguments): calls body(arguments, i, worker) once for every 0 <= i < count, on any threads,
// and returns when all are done. Turns that run at one time have different workers, 0 <= worker < workers.
struct tilec_parallel {
  void* context;
  void (*run)(void* context, std::int64_t count, void (*body)(void* arguments, std::int64_t i, std::int64_t worker),
      void* arguments);
  std::int64_t workers;
};

}

namespace tilec::runtime {

using Turn = void (*)(void* arguments, std::int64_t i, std::int64_t worker);

const tilec_parallel* default_pool();                  // TILEC_THREADS or the number of cores; spin, then sleep
const tilec_parallel* serial_pool();

}  // namespace tilec::runtime
