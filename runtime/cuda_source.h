// A program for GPUs as C: machine code and PTX as tables, and the launcher that a package's runner is for them.
//
//   int conv(I, K, O, workspace, stream)                   int, for C; what its header says of it: runtime/c_header.h
//     pointers are looked at                               1, 2
//     the current context gets the first version that its GPU loads, once        3, 4, 5, 1000 …
//     cuLaunchKernel(k0_T, …, stream)  cuLaunchKernel(k1_O, …, stream)   launches in order, buffers at their places
//
// C11 that includes headers of libc alone: the driver is opened by name in the first call.
// docs/decisions/ahead_of_time.md says why it is text.
#pragma once

#include <string>
#include <vector>

#include "codegen/package.h"
#include "runtime/c_header.h"

namespace tilec::runtime {

// The same program compiled for one kind of GPU. `code` of the package: cubins, or PTX.
struct GpuFunction {
  Prototype prototype;
  std::vector<codegen::Package> versions;              // those that fewer GPUs load first
};

std::string cuda_source(const Header& header, const std::vector<GpuFunction>& functions);

// Of a call, beside those of machine code for CPUs (codegen/llvm/ahead.h).
inline constexpr int no_gpu_code = 3, no_driver = 4, no_context = 5, driver_said = 1000;

}  // namespace tilec::runtime
