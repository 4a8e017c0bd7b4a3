// Translation units: kernels, what they share, and how each is launched.
#include "codegen/simt/emit.h"

#include <algorithm>

#include "codegen/simt/kernel.h"
#include "lang/diagnostic.h"

namespace tilec::codegen::simt {

using lang::InternalError;

std::string symbol(std::string_view name) { return identifier(name); }

std::string emit(const std::vector<const Loops*>& kernels, Dialect dialect) {
  Unit unit(dialect);
  for (const Loops* loops : kernels) {
    const std::string name = symbol(loops->functions.back().name);
    if (unit.globals.fresh(loops->functions.back().name) != name)
      throw InternalError(fmt::format("loops: two kernels are called `{}`", name));
  }
  for (const Loops* loops : kernels) unit.kernels += Kernel(unit, *loops).text();
  const char* doubles = unit.scalars.uses_double() ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" : "";
  const std::string head =
      dialect == Dialect::OpenCl ? fmt::format("{}#pragma OPENCL FP_CONTRACT OFF\n", doubles) : "";
  return head + unit.scalars.helpers() + unit.tables + unit.kernels;
}

std::string emit(const Lowered& package, Dialect dialect) {
  std::vector<const Loops*> kernels;
  std::map<std::string, std::string> printed;          // kernel → what it prints as
  for (const Step& step : package.steps) {
    const std::string text = print(step.loops);
    const auto [at, is_new] = printed.emplace(step.kernel, text);
    if (is_new) kernels.push_back(&step.loops);
    else if (at->second != text) throw InternalError(fmt::format("package: two kernels are called `{}`", step.kernel));
  }
  return emit(kernels, dialect);
}

Launch launch(const Loops& kernel, Dialect dialect) {
  const Body& body = kernel.functions.back().body;
  const bool cuda = dialect == Dialect::Cuda;
  const Grid grid = grid_of(body, cuda);
  Launch launch;
  std::copy(grid.extent, grid.extent + 3, launch.grid);
  launch.threads = threads_of(body) * grid.together;
  const std::int64_t pool = shared_bytes(body) * grid.together;
  launch.shared = pool + (grid.together > 1 ? 0 : fold_bytes(body, cuda && launch.threads % 32 == 0));
  if (cuda && launch.shared > static_shared_limit) launch.dynamic_shared = pool;
  return launch;
}

}  // namespace tilec::codegen::simt
