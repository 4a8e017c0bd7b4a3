// What generated code may call is given by address: a host that opens us with RTLD_LOCAL hides its libm.
#include "runtime/code.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "runtime/error.h"

extern "C" {
void sincos(double, double*, double*) noexcept;
void sincosf(float, float*, float*) noexcept;
#ifdef __x86_64__
// Of libgcc: f16 on CPUs without F16C. Their types have no name in C++20; only their addresses are wanted.
void __extendhfsf2();  // NOLINT(bugprone-reserved-identifier)
void __truncsfhf2();  // NOLINT(bugprone-reserved-identifier)
#endif
}

namespace tilec::runtime {

namespace {

using F1 = float (*)(float);
using F2 = float (*)(float, float);
using D1 = double (*)(double);
using D2 = double (*)(double, double);

struct Known { const char* name; std::uint64_t address; };

template <class T> std::uint64_t address(T function) { return reinterpret_cast<std::uint64_t>(function); }

#define TILEC_LIBM_1(f) Known{#f, address(static_cast<D1>(std::f))}, Known{#f "f", address(static_cast<F1>(std::f))}
#define TILEC_LIBM_2(f) Known{#f, address(static_cast<D2>(std::f))}, Known{#f "f", address(static_cast<F2>(std::f))}
const Known known[] = {
    TILEC_LIBM_1(exp),
    TILEC_LIBM_1(log),
    TILEC_LIBM_1(erf),
    TILEC_LIBM_1(sin),
    TILEC_LIBM_1(cos),
    TILEC_LIBM_1(tan),
    TILEC_LIBM_1(asin),
    TILEC_LIBM_1(acos),
    TILEC_LIBM_1(atan),
    TILEC_LIBM_1(sinh),
    TILEC_LIBM_1(cosh),
    TILEC_LIBM_1(tanh),
    TILEC_LIBM_1(asinh),
    TILEC_LIBM_1(acosh),
    TILEC_LIBM_1(atanh),
    TILEC_LIBM_1(sqrt),
    TILEC_LIBM_1(ceil),
    TILEC_LIBM_1(floor),
    TILEC_LIBM_1(trunc),
    TILEC_LIBM_1(round),
    TILEC_LIBM_2(pow),
    TILEC_LIBM_2(fmod),
    TILEC_LIBM_2(atan2),
    {"fma", address(static_cast<double (*)(double, double, double)>(std::fma))},
    {"fmaf", address(static_cast<float (*)(float, float, float)>(std::fma))},
    {"sincos", address(&::sincos)},
    {"sincosf", address(&::sincosf)},
    {"memcpy", address(&std::memcpy)},
    {"memset", address(&std::memset)},
    {"memmove", address(&std::memmove)},
#ifdef __x86_64__
    {"__extendhfsf2", address(&__extendhfsf2)},
    {"__truncsfhf2", address(&__truncsfhf2)},
#endif
};
#undef TILEC_LIBM_1
#undef TILEC_LIBM_2

std::uint64_t function_of_process(const std::string& name) {
  for (const Known& k : known) if (name == k.name) return k.address;
  return reinterpret_cast<std::uint64_t>(dlsym(RTLD_DEFAULT, name.c_str()));
}

[[noreturn]] void no_memory(const char* function, std::size_t bytes) {
  throw machine_error(messages::out_of_memory, "machine code",
      fmt::format("{} of {} bytes: {}", function, bytes, std::strerror(errno)));
}

void protect(char* memory, std::uint64_t from, std::uint64_t to, int how) {
  if (from < to && mprotect(memory + from, to - from, how) != 0) no_memory("mprotect", to - from);
}

}  // namespace

Code::Code(std::span<const std::string> objects) {
  const Linker linker(objects, static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  symbols_ = linker.symbols();
  if (linker.size() == 0) return;
  void* const mapped = mmap(nullptr, linker.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) no_memory("mmap", linker.size());
  memory_ = static_cast<char*>(mapped);
  size_ = linker.size();
  try {
    linker.write({memory_, size_}, address(memory_), function_of_process);
    __builtin___clear_cache(memory_, memory_ + linker.code_end());
    protect(memory_, 0, linker.code_end(), PROT_READ | PROT_EXEC);
    protect(memory_, linker.code_end(), linker.constants_end(), PROT_READ);
  } catch (...) {
    munmap(memory_, size_);
    throw;
  }
}

Code::~Code() {
  if (memory_) munmap(memory_, size_);
}

void* Code::symbol(std::string_view name) const {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : memory_ + found->second;
}

}  // namespace tilec::runtime
