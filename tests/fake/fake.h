// A GPU that computes nothing: libcuda.so.1, libnvrtc.so.13 and libOpenCL.so.1 as tilec sees them, which count what is
// alive and fail when told to.
//
//   Fake& cuda = *fake_cuda();
//   cuda.fail("cuMemAlloc_v2", 1, 2);      the second call of cuMemAlloc is out of memory
//
// A test finds these functions in the libraries that tilec has opened.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>

struct Fake {
  // What was asked for, and how often.
  std::mutex mutex;
  std::map<std::string, int> calls;

  // The call of `failing` after `spared` more of them gives `result`; those that follow too, if `always`.
  std::string failing;
  int spared = 0, result = 0;
  bool always = false;
  void fail(std::string name, int after = 0, int with = 999, bool for_ever = false) {
    failing = std::move(name), spared = after, result = with, always = for_ever;
  }

  int told(const char* name) {
    const std::lock_guard lock(mutex);
    ++calls[name];
    if (failing != name || spared-- > 0) return 0;
    if (!always) failing.clear();
    return result;
  }

  // What the driver is.
  std::atomic<int> version = 13000, devices = 1, major = 9, minor = 0, multiprocessors = 132, shared = 232448;
  std::atomic<long long> bytes_left = 1ll << 40;
  std::atomic<unsigned long long> context_id = 1;      // of the context that there is

  // Of the last launch.
  std::atomic<void*> stream = nullptr, first_parameter = nullptr;
  std::atomic<int> device = -1;
  std::atomic<bool> captures = false;                  // every stream

  // What is alive: contexts retained, contexts pushed by this process's threads (OpenCL: queues); modules
  // (kernels), texts being compiled (programs).
  std::atomic<int> contexts = 0, current = 0, memory = 0, modules = 0, events = 0, launches = 0, programs = 0,
                   graphs = 0;

  // Compilers wait here while it is closed; how many texts are being compiled, and how many were at most.
  std::atomic<bool> closed = false;
  std::atomic<int> compiling = 0, most_compiling = 0;
};

extern "C" Fake* fake_cuda();
extern "C" Fake* fake_nvrtc();
extern "C" Fake* fake_opencl();
