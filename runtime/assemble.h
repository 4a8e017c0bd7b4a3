// Kernels become machine code, and a lowered program a Package.
//
// Faults are RuntimeErrors: E0515 where this tilec has no emitter for the target, E0521 and E0524 of NVRTC.
#pragma once

#include "codegen/lowered.h"
#include "codegen/package.h"
#include "codegen/pipeline.h"

namespace tilec::runtime {

// `request`: strides that its caller asked for. A package of a device has row-major buffers, and its ports the caller's
// strides.
codegen::Package assemble(const codegen::Lowered& program, const codegen::Request& request);
// ports lie as the program's buffers
codegen::Package assemble(const codegen::Lowered& program, const codegen::Target& target);

// Of a target cuda, with PTX as its code: GPUs that are newer than `architecture` compile it for themselves.
codegen::Package assemble_ptx(const codegen::Lowered& program, const codegen::Request& request);

// The same without code: ports, buffers, launches.
codegen::Package layout_of(const codegen::Lowered& program, const codegen::Request& request);

// Each kernel once: steps that call the same one share it.
std::vector<const codegen::Loops*> kernels_of(const codegen::Lowered& program);

}  // namespace tilec::runtime
