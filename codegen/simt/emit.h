// Loops → source text for GPUs: one emitter, two dialects. Self-contained: no includes.
#pragma once

#include <string>
#include <vector>

#include "codegen/loops.h"

namespace tilec::codegen::simt {

enum class Dialect { Cuda, OpenCl };

// One translation unit with a kernel per Loops: `extern "C" __global__ void name(...)` or `__kernel void name(...)`, whose
// parameters are the views of `functions.back()` in order. Block loops → group ids (innermost x), Thread → local id.
std::string emit(const std::vector<const Loops*>& kernels, Dialect dialect);

}  // namespace tilec::codegen::simt
