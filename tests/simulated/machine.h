// The simulated GPUs: their memory, their modules and how a grid runs. driver.cpp is the API over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace simulated {

constexpr std::int64_t most_static_shared = 48 << 10;
constexpr unsigned most_threads = 1024;

// What a GPU is, as the CUDA C++ Programming Guide and the data sheets have it (its table of compute capabilities).
// bytes that a block may ask for
struct Gpu { const char* architecture; int major, minor, multiprocessors; std::int64_t shared; };

// What compiler.cpp writes at the end of a text, as the table `simulated_kernels`.
struct Kernel {
  const char* name;
  void (*entry)(void** arguments);
  int parameters;
  unsigned bound;
  unsigned long long alone;                            // parameters that are __restrict__
  char *shared, *shared_end;
};

// A cubin: `simulated sm_80 1234 56789`, a line break, 1234 bytes of text, 56789 of the library that it became.
struct Module {
  Module(const char* cubin, const Gpu& on);            // throws a std::string
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const Kernel* kernel(const std::string& name) const;
  std::string place(int line) const;                   // `line 12: x[i] = 0;`
  std::string place(const void* code) const;

  std::vector<std::string> lines;
  void* library = nullptr;
  int file = -1;
  const Kernel* kernels = nullptr;
  char* dynamic = nullptr;
};

using Address = std::uint64_t;
Address allocate(std::size_t bytes, const void* owner);  // the GPU in whose memory it lies
bool release(Address base);
bool inside(Address address, std::size_t bytes, const void* owner);  // of one allocation
void written(Address address, std::size_t bytes);       // by the host
bool initialised(Address address, std::size_t bytes);

struct Launch {
  const void* owner = nullptr;
  const Module* module = nullptr;
  const Kernel* kernel = nullptr;
  unsigned grid[3] = {1, 1, 1}, threads = 1, dynamic = 0;
  std::vector<std::uint64_t> arguments;
};
std::string run(const Launch& launch);                 // empty; or the first thing that was wrong

}  // namespace simulated
