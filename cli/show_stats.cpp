#include "cli/show_stats.h"

#include <fmt/format.h>

#include "cli/options.h"
#include "runtime/emit.h"
#include "runtime/nvrtc.h"

namespace tilec::cli {

void print_stats(const lang::File& file, const codegen::Stages& stages, const codegen::Request& request) {
  const codegen::Target& target = request.target;
  if (target.family != codegen::Target::Family::Cuda || !stages.lowered) throw UsageError{"--stats counts what a CUDA compiler made", "add `--target cuda --emit=cubin`"};
  const std::string source = runtime::emit(*runtime::stage_named("cuda"), file, stages, request);
  fmt::print(stderr, "{:<32} {:>9} {:>12} {:>11} {:>7} {:>7}\n", "kernel", "registers", "spill stores", "spill loads", "stack", "shared");
  for (const runtime::KernelStats& kernel : runtime::compile_cuda(source, target.arch).kernels)
    fmt::print(stderr, "{:<32} {:>9} {:>12} {:>11} {:>7} {:>7}\n", kernel.name, kernel.registers, kernel.spill_stores, kernel.spill_loads, kernel.stack, kernel.shared);
}

}  // namespace tilec::cli
