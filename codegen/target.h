// What a Plan and the emitters know of a machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/target_words.h"

namespace tilec::codegen {

struct Target {
  enum class Family { Reference, Cpu, OpenCl, Cuda } family = Family::Cpu;
  std::string name;                                    // as the user wrote it: `cpu`, `cpu:x86-64-v3`, `cpu:aarch64`,
                                                       // `cuda:sm_90a`, `cuda:math=tf32`, `opencl`, `reference`
  std::string arch;                                    // LLVM cpu name, or sm_90a
  std::string triple, features;                        // cpu: LLVM's triple, and features without which its code must
                                                       // do: `-avx512vnni`
  int vector_bytes = 64;                               // cpu: 64 with AVX-512, 32 with AVX, else 16 (SSE, NEON)
  int vector_registers = 32;                           // cpu: 16 with SSE and AVX, else 32
  std::int64_t l1 = 32768, l2 = 1 << 20, l3 = 32 << 20;  // bytes
  int max_threads = 1024;                              // simt: per block
  std::int64_t shared_bytes = 48 << 10;                // simt: per block
  int capability = 0;                                  // cuda: 90 of sm_90a
  Math math = Math::F32;                               // cuda: what factors of sums may be rounded to
  int multiprocessors = 16;                            // simt: to decide when an output is smaller than the machine
};

inline bool has_threads(const Target& target) {
  return target.family == Target::Family::OpenCl || target.family == Target::Family::Cuda;
}

// Null when no such target exists; the error text is the caller's. `cpu` looks at this machine (its features and cache
// sizes); `cpu:NAME` is what LLVM says of that CPU, wherever tilec runs.
std::optional<Target> target_named(std::string_view text);

}  // namespace tilec::codegen
