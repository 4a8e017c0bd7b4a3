#include "runtime/emit.h"

#include <algorithm>

#include "codegen/report.h"
#include "codegen/simt/emit.h"
#include "lang/print.h"
#include "poly/print.h"
#include "runtime/assemble.h"
#include "runtime/error.h"
#include "runtime/nvrtc.h"
#include "runtime/package_file.h"
#ifdef TILEC_CPU
#include "codegen/llvm/emit.h"
#endif

namespace tilec::runtime {

namespace {

using codegen::Until;
using Family = codegen::Target::Family;

constexpr StageInfo stages_in_order[] = {
    {"ast", Until::Contraction, std::nullopt, ".txt", false, false},
    {"source", Until::Contraction, std::nullopt, ".tile", false, false},
    {"contraction", Until::Contraction, std::nullopt, ".tile"},
    {"gradient", Until::Gradient, std::nullopt, ".tile"},
    {"bound", Until::Bound, std::nullopt, ".tile"},
    {"bounded", Until::Bound, std::nullopt, ".tile"},
    {"reduced", Until::Reduced, std::nullopt, ".tile"},
    {"plan", Until::Plan, std::nullopt, ".plan"},
    {"loops", Until::Lowered, std::nullopt, ".loops"},
    {"package", Until::Lowered, std::nullopt, ".tilec", true},
    {"report-text", Until::Lowered, std::nullopt, ".txt"},
    {"llvm", Until::Lowered, Family::Cpu, ".ll"},
    {"asm", Until::Lowered, Family::Cpu, ".s"},
    {"object", Until::Lowered, Family::Cpu, ".o", true},
    {"opencl", Until::Lowered, Family::OpenCl, ".cl"},
    {"cuda", Until::Lowered, Family::Cuda, ".cu"},
    {"ptx", Until::Lowered, Family::Cuda, ".ptx"},
    {"cubin", Until::Lowered, Family::Cuda, ".cubin", true},
};

std::string print_loops(const codegen::Lowered& package) {
  std::string text;
  for (const codegen::Loops* loops : kernels_of(package)) text += (text.empty() ? "" : "\n") + codegen::print(*loops);
  return text;
}

std::string package_bytes(const codegen::Stages& stages, const codegen::Request& request) {
  if (request.target.family == Family::Reference) throw argument_error(messages::no_package, "the interpreter needs the compiler").hint("write `--target cpu`, `opencl` or `cuda`");
  if (!stages.checks.empty()) throw argument_error(messages::no_package, "`--checked` needs the text");
  if (!request.accumulate.empty()) throw argument_error(messages::no_package, "it adds to its results");
  return to_bytes(assemble(*stages.lowered, request));
}

std::string emit_cpu(std::string_view stage, const codegen::Lowered& package, const codegen::Target& target) {
#ifdef TILEC_CPU
  codegen::llvm_backend::Options options{stage == "llvm", stage == "asm", stage == "object"};
  codegen::llvm_backend::Module module = codegen::llvm_backend::emit(kernels_of(package), target, options);
  return stage == "llvm" ? module.ir : stage == "asm" ? module.assembly : module.object;
#else
  static_cast<void>(stage), static_cast<void>(package), static_cast<void>(target);
  throw machine_error(messages::target_not_built, "cpu");
#endif
}

std::string emit_cuda(std::string_view stage, const codegen::Lowered& package, const codegen::Target& target) {
  const std::string source = codegen::simt::emit(kernels_of(package), codegen::simt::Dialect::Cuda);
  if (stage == "cuda") return source;
  const CudaObject object = compile_cuda(source, target.arch, stage == "ptx" ? CudaOutput::Ptx : CudaOutput::Cubin);
  return stage == "ptx" ? object.ptx : object.cubin;
}

}  // namespace

std::span<const StageInfo> all_stages() { return stages_in_order; }

const StageInfo* stage_named(std::string_view name) {
  const auto at = std::ranges::find(stages_in_order, name, &StageInfo::name);
  return at == std::end(stages_in_order) ? nullptr : at;
}

bool reached(const StageInfo& stage, const codegen::Stages& stages) {
  if (!stage.needs_program) return true;
  if (stage.name == "contraction") return stages.contraction.has_value();
  if (stage.name == "gradient") return stages.gradient.has_value();
  if (stage.name == "bound") return stages.bound.has_value();
  if (stage.name == "bounded") return stages.bounded.has_value();
  if (stage.name == "reduced") return stages.reduced.has_value();
  if (stage.name == "plan") return stages.plan.has_value();
  if (stage.name == "report-text") return stages.lowered && (!stages.gradient || stages.split);
  return stages.lowered.has_value();
}

std::string emit(const StageInfo& stage, const lang::File& file, const codegen::Stages& stages, const codegen::Request& request) {
  const codegen::Target& target = request.target;
  if (!reached(stage, stages)) throw lang::InternalError("stage " + std::string(stage.name) + " was not computed");
  if (stage.name == "ast") return lang::dump(file);
  if (stage.name == "source") return lang::print(file);
  if (stage.name == "contraction") return poly::print(*stages.contraction);
  if (stage.name == "gradient") return poly::print(*stages.gradient);
  if (stage.name == "bound") return poly::print(*stages.bound);
  if (stage.name == "bounded") return poly::print(*stages.bounded);
  if (stage.name == "reduced") return poly::print(*stages.reduced);
  if (stage.name == "plan") return codegen::print(*stages.plan);
  if (stage.name == "loops") return print_loops(*stages.lowered);
  if (stage.name == "report-text") return codegen::report(stages);
  if (stage.name == "package") return package_bytes(stages, request);
  if (stage.family == Family::Cpu) return emit_cpu(stage.name, *stages.lowered, target);
  if (stage.family == Family::OpenCl) return codegen::simt::emit(kernels_of(*stages.lowered), codegen::simt::Dialect::OpenCl);
  return emit_cuda(stage.name, *stages.lowered, target);
}

std::string default_target(const StageInfo& stage, const std::string& target, bool given) {
  if (given || !stage.family) return target;
  return *stage.family == Family::Cpu ? "cpu" : *stage.family == Family::Cuda ? "cuda" : "opencl";
}

}  // namespace tilec::runtime
