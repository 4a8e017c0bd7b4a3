// Loops → LLVM IR → machine code. The only room that includes LLVM.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/loops.h"
#include "codegen/target.h"

namespace tilec::codegen::llvm_backend {

// Every step's Loops as one module. Each kernel `k` (last function of a Loops) gets an entry point
//   extern "C" void k(void* const* views, const tilec_parallel* pool, void* locals)
// which loads its views from `views` and runs its Parallel loops through pool (see runtime/parallel.h). `locals`:
// local_bytes(kernel) for each worker of the pool, aligned to 64 bytes. It allocates nothing.
struct Module {
  std::string ir;                                      // text, when asked for
  std::string object;                                  // an ELF relocatable object
  std::string assembly;                                // text, when asked for
};
struct Options { bool ir = false, assembly = false, object = true; };
Module emit(const std::vector<const Loops*>& kernels, const Target& target, const Options& options = {});

// The same machine code as several objects, made by several threads.
std::vector<std::string> objects(const std::vector<const Loops*>& kernels, const Target& target);

// What LLVM knows of a CPU: of x86-64 (`x86-64-v3`, `znver5`) or AArch64 (`aarch64`, `neoverse-n1`); the empty name is
// this machine's.
// Null: there is no such CPU, or it has no 64-bit code.
struct Cpu {
  std::string name, triple;
  std::string features;                                // of this machine's: what LLVM believes of the CPU but the
                                                       // machine hides, `-rdpru`
  int vector_bytes = 16, vector_registers = 16;
};
std::optional<Cpu> cpu_named(std::string_view name);

// What code for a target may rely on: avx2, fma … A CPU without one of them does not run it.
std::vector<std::string> features_of(const Target& target);

}  // namespace tilec::codegen::llvm_backend
