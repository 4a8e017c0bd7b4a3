#include "cli/show_stats.h"

#include <fmt/core.h>

#include "cli/options.h"
#include "runtime/assemble.h"
#include "runtime/emit.h"
#include "runtime/nvrtc.h"

namespace tilec::cli {

namespace {

void print_kernels(const lang::File& file, const codegen::Stages& stages, const codegen::Request& request) {
  const std::string source = runtime::emit(*runtime::stage_named("cuda"), file, stages, request);
  fmt::print(stderr, "{:<32} {:>9} {:>12} {:>11} {:>7} {:>7}\n", "kernel", "registers", "spill stores", "spill loads",
      "stack", "shared");
  for (const runtime::KernelStats& kernel : runtime::compile_cuda(source, request.target.arch).kernels)
    fmt::print(stderr, "{:<32} {:>9} {:>12} {:>11} {:>7} {:>7}\n", kernel.name, kernel.registers, kernel.spill_stores,
        kernel.spill_loads, kernel.stack, kernel.shared);
}

}  // namespace

void print_stats(const codegen::Package& package, const char* title) {
  std::size_t code = 0;
  for (const std::string& part : package.code) code += part.size();
  const char* what = package.form == codegen::Package::Code::OpenCl ? "text" : "code";
  const std::size_t launches = package.launches.size();
  fmt::print(stderr, "{}{} launch{}, {} bytes of {}, workspace {} bytes", title, launches, launches == 1 ? "" : "es",
      code, what, package.workspace);
  if (package.locals > 0) fmt::print(stderr, " and {} for each thread", package.locals);
  fmt::print(stderr, "\n");
  for (const codegen::Package& backward : package.backward) {
    std::int64_t kept = 0;
    const std::size_t outputs = package.outputs.size();
    for (std::size_t k = outputs - static_cast<std::size_t>(package.kept); k < outputs; ++k)
      kept += package.buffers[package.inputs.size() + k].bytes;
    fmt::print(stderr, "kept: {} bytes\n", kept);
    print_stats(backward, "backward: ");
  }
}

void print_stats(const lang::File& file, const codegen::Stages& stages, const codegen::Request& request) {
  if (!stages.lowered || request.target.family == codegen::Target::Family::Reference)
    throw UsageError{"--stats counts what was compiled", "add `--emit=package`, or a stage behind the plan"};
  print_stats(runtime::assemble(*stages.lowered, request));
  if (request.target.family == codegen::Target::Family::Cuda) print_kernels(file, stages, request);
}

}  // namespace tilec::cli
