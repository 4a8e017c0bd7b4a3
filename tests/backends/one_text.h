// A package whose kernels are one text: NVRTC, and what stands in for it in tests/simulated, starts once.
#pragma once

#include "codegen/simt/emit.h"
#include "runtime/assemble.h"
#include "runtime/nvrtc.h"

namespace backends {

namespace codegen = tilec::codegen;
namespace runtime = tilec::runtime;

inline codegen::Package in_one_text(const codegen::Lowered& program, const codegen::Target& target) {
  if (target.family != codegen::Target::Family::Cuda || program.steps.empty())
    return runtime::assemble(program, target);
  codegen::Request request;
  request.target = target;
  codegen::Package package = runtime::layout_of(program, request);
  package.form = codegen::Package::Code::Cubins, package.architecture = target.arch;
  package.code = {runtime::compile_cuda(codegen::simt::emit(program, codegen::simt::Dialect::Cuda), target.arch).cubin};
  for (codegen::Launch& launch : package.launches) launch.code = 0;
  return package;
}

}  // namespace backends
