// Loops → source text for GPUs: one emitter, two dialects. Self-contained: no includes.
//
//   for i in block 64 { for t in thread 256 { Y[256*i + t] = X[256*i + t] * 2 } }
//     ⇒ extern "C" __global__ void __launch_bounds__(256) y(const float* __restrict__ X, float* __restrict__ Y) {
//         const int i = (int)blockIdx.x; const int t = (int)threadIdx.x;
//         Y[i * 256 + t] = X[i * 256 + t] * 2.0f;
//       }
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/loops.h"
#include "codegen/lowered.h"

namespace tilec::codegen::simt {

enum class Dialect { Cuda, OpenCl };

// One translation unit with a kernel per Loops: `extern "C" __global__ void name(...)` or `__kernel void name(...)`,
// whose parameters are the views of `functions.back()` in order. Block loops → group ids (innermost x), Thread → local
// id.
std::string emit(const std::vector<const Loops*>& kernels, Dialect dialect);

// The whole package as one translation unit; steps with equal Loops share a kernel. `--emit=cuda`, `--emit=opencl`.
std::string emit(const Lowered& package, Dialect dialect);

// How a kernel that `emit` printed must be started: read off the extents of its Block and Thread loops.
// A chain of up to three Block loops takes an axis each, the innermost x; siblings are ranges of one axis.
struct Launch {
  std::int64_t grid[3] = {1, 1, 1};                    // a zero: nothing to do
  std::int64_t threads = 1;
  std::int64_t shared = 0;                             // bytes of shared memory of a block, of its Folds too
  std::int64_t dynamic_shared = 0;                     // how many of them are asked for at launch; CUDA, beyond the 48
                                                       // KB a kernel may declare
};
Launch launch(const Loops& kernel, Dialect dialect);

// The C identifier under which a kernel called `name` is printed: different names give different identifiers.
std::string symbol(std::string_view name);

}  // namespace tilec::codegen::simt
