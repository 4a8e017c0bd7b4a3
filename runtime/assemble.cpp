#include "runtime/assemble.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "codegen/locals.h"
#include "codegen/simt/emit.h"
#include "codegen/workspace.h"
#include "runtime/error.h"
#include "runtime/module.h"
#include "runtime/nvrtc.h"
#ifdef TILEC_CPU
#include "codegen/llvm/emit.h"
#endif

namespace tilec::runtime {

namespace {

using codegen::Package;
using codegen::Target;
using codegen::simt::Dialect;

#ifdef TILEC_CPU
void add_machine_code(Package& package, const codegen::Lowered& program, const Target& target) {
  package.form = Package::Code::Objects;
  package.architecture = target.triple.substr(0, target.triple.find('-'));
  package.features = codegen::llvm_backend::features_of(target);
  package.code = codegen::llvm_backend::objects(kernels_of(program), target);
}
#else
void add_machine_code(Package&, const codegen::Lowered&, const Target&) {
  throw machine_error(messages::target_not_built, "cpu");
}
#endif

void add_cuda(Package& package, const codegen::Lowered& program, const std::string& architecture, CudaOutput output) {
  package.form = Package::Code::Cubins;
  package.architecture = architecture;
  std::vector<std::string> texts;
  for (const codegen::Loops* kernel : kernels_of(program))
    texts.push_back(codegen::simt::emit(std::vector{kernel}, Dialect::Cuda));
  for (CudaObject& object : compile_cuda(texts, architecture, output))
    package.code.push_back(std::move(output == CudaOutput::Ptx ? object.ptx : object.cubin));
}

void add_code(Package& package, const codegen::Lowered& program, const Target& target) {
  if (program.steps.empty()) return;
  if (target.family == Target::Family::Cpu) return add_machine_code(package, program, target);
  if (target.family == Target::Family::Cuda) return add_cuda(package, program, target.arch, CudaOutput::Cubin);
  package.form = Package::Code::OpenCl;
  package.code = {codegen::simt::emit(program, Dialect::OpenCl)};
}

codegen::Launch launch_of(const codegen::Step& step, const Target& target) {
  if (target.family == Target::Family::Cpu) return {step.kernel, step.buffers, step.numbers};
  const codegen::simt::Launch how =
      codegen::simt::launch(step.loops, target.family == Target::Family::Cuda ? Dialect::Cuda : Dialect::OpenCl);
  return {codegen::simt::symbol(step.kernel), step.buffers, step.numbers, 0, {how.grid[0], how.grid[1], how.grid[2]},
      how.threads, how.shared, how.dynamic_shared};
}

}  // namespace

std::vector<const codegen::Loops*> kernels_of(const codegen::Lowered& program) {
  std::vector<const codegen::Loops*> kernels;
  std::unordered_set<std::string_view> seen;
  for (const codegen::Step& step : program.steps) {
    if (seen.insert(step.kernel).second) kernels.push_back(&step.loops);
  }
  return kernels;
}

namespace {

Package without_code(const codegen::Lowered& program, const Target& target) {
  Package package;
  package.name = program.name;
  package.target = target.name;
  const codegen::Workspace workspace = codegen::workspace_of(program);
  package.workspace = workspace.bytes;
  if (target.family == Target::Family::Cpu)
    for (const codegen::Step& step : program.steps)
      package.locals = std::max(package.locals, codegen::local_bytes(step.loops));
  const auto inputs = static_cast<std::size_t>(program.inputs),
             ports = inputs + static_cast<std::size_t>(program.outputs);
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const codegen::Buffer& buffer = program.buffers[b];
    package.buffers.push_back({buffer.count() * lang::bytes(buffer.dtype), workspace.offsets[b]});
    if (b < ports)
      (b < inputs ? package.inputs : package.outputs)
          .push_back({without_mark(buffer.name), buffer.dtype, buffer.shape, buffer.strides});
  }
  std::map<std::string_view, std::int64_t> code;         // of each kernel
  for (const codegen::Step& step : program.steps) {
    package.launches.push_back(launch_of(step, target));
    const auto at = code.try_emplace(step.kernel, static_cast<std::int64_t>(code.size())).first;
    if (target.family == Target::Family::Cuda) package.launches.back().code = at->second;
  }
  return package;
}

Package with_strides(Package package, const codegen::Lowered& program, const codegen::Request& request) {
  for (std::size_t k = 0; k < package.inputs.size(); ++k)
    if (const auto asked = request.strides.find(program.buffers[k].name); asked != request.strides.end())
      package.inputs[k].strides = asked->second;
  for (const auto& [k, strides] : request.output_strides) package.outputs.at(k).strides = strides;
  return package;
}

}  // namespace

Package assemble(const codegen::Lowered& program, const Target& target) {
  Package package = without_code(program, target);
  add_code(package, program, target);
  return package;
}

Package assemble(const codegen::Lowered& program, const codegen::Request& request) {
  return with_strides(assemble(program, request.target), program, request);
}

Package assemble_ptx(const codegen::Lowered& program, const codegen::Request& request) {
  Package package = layout_of(program, request);
  const std::string& architecture = request.target.arch;
  // PTX of sm_90a is for that GPU alone
  add_cuda(package, program, architecture.substr(0, architecture.find_last_of("0123456789") + 1), CudaOutput::Ptx);
  return package;
}

Package layout_of(const codegen::Lowered& program, const codegen::Request& request) {
  return with_strides(without_code(program, request.target), program, request);
}

}  // namespace tilec::runtime
