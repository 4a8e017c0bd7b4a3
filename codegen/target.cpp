// Names of targets, and what LLVM and the cache sizes say of this machine.
#include "codegen/target.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "codegen/target_words.h"

#ifdef TILEC_CPU
#include "codegen/llvm/emit.h"
#endif

namespace tilec::codegen {

namespace {

// /sys says what one core sees, in KiB: `1024K`. Where it is hidden, sysconf knows (but may add up a whole package).
std::int64_t cache_bytes(int name, int index, std::int64_t otherwise) {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
  std::int64_t kib = 0;
  if (file >> kib && kib > 0) return kib * 1024;
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

// Of a last cache of hundreds of megabytes, one core has a part: of 480 MiB (an Intel Xeon of 2025, virtual) arrays to
// 32 MiB are read at 29 GB/s, of 64 MiB at 22, of 128 MiB at 14, as from memory.
constexpr std::int64_t most_of_last = std::int64_t{128} << 20;

void add_caches(Target& target) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  target.l1 = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 0, target.l1);
  target.l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 2, target.l2);
  target.l3 = std::min(cache_bytes(_SC_LEVEL3_CACHE_SIZE, 3, target.l3), most_of_last);
#endif
}

// The empty name is this machine's cpu. Without LLVM only that one is known, as far as explaining plans goes.
std::optional<Target> cpu(std::string_view arch) {
  Target target;
#ifdef TILEC_CPU
  std::optional<llvm_backend::Cpu> known = llvm_backend::cpu_named(arch);
  if (!known) return std::nullopt;
  target.arch = std::move(known->name);
  target.triple = std::move(known->triple);
  target.features = std::move(known->features);
  target.vector_bytes = known->vector_bytes;
  target.vector_registers = known->vector_registers;
#else
  if (!arch.empty()) return std::nullopt;
  target.vector_bytes = 32, target.vector_registers = 16;
#endif
  if (arch.empty()) add_caches(target);
  return target;
}

// `sm_90`, `sm_90a`, `sm_120f`: digits, perhaps one letter.
std::optional<int> compute_capability(std::string_view arch) {
  if (!arch.starts_with("sm_")) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  const auto left = arch.data() + arch.size() - end;
  if (error != std::errc() || number < 50 || left > 1 || (left == 1 && *end != 'a' && *end != 'f')) return std::nullopt;
  return number;
}

std::optional<Target> cuda(const TargetWords& words) {
  const std::string_view arch = words.arch.empty() ? "sm_80" : words.arch;
  const std::optional<int> capability = compute_capability(arch);
  if (!capability) return std::nullopt;
  Target target;
  target.arch = arch;
  target.math = words.math;
  // What one block may ask for: 227 KiB from Hopper on, 163 KiB on sm_80, 99 KiB on its small siblings, 48 KiB before.
  const int c = target.capability = *capability;
  target.shared_bytes = (c == 90 || c == 100 || c == 103 ? 227 : c == 80 || c == 87 ? 163 : c >= 80 ? 99 : 48) << 10;
  target.multiprocessors = c == 90 ? 132 : c >= 100 ? 148 : c == 80 ? 108 : 64;
  return target;
}

}  // namespace

std::optional<Target> target_named(std::string_view text) {
  using Family = Target::Family;
  const std::optional<TargetWords> words = target_words(text);
  if (!words) return std::nullopt;
  const std::string_view kind = words->kind;
  std::optional<Target> target;
  if (kind == "cpu") target = cpu(words->arch);
  else if (kind == "cuda") target = cuda(*words);
  else if (kind == "opencl" || (kind == "reference" && words->arch.empty())) target = Target();
  if (!target) return std::nullopt;
  target->family = kind == "cpu" ? Family::Cpu
      : kind == "cuda"           ? Family::Cuda
      : kind == "opencl"         ? Family::OpenCl
                                 : Family::Reference;
  target->name = text;
  return target;
}

}  // namespace tilec::codegen
