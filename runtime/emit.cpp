#include "runtime/emit.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/explain.h"
#include "codegen/model/predict.h"
#include "codegen/report.h"
#include "codegen/simt/emit.h"
#include "lang/print.h"
#include "poly/print.h"
#include "runtime/assemble.h"
#include "runtime/error.h"
#include "runtime/nvrtc.h"
#include "runtime/package_file.h"
#include "tilec/tilec.h"
#ifdef TILEC_CPU
#include "codegen/llvm/emit.h"
#endif

namespace tilec::runtime {

namespace {

using codegen::Until;
using Family = codegen::Target::Family;

using codegen::Meaning;
using Of = StageInfo::Of;

constexpr auto every = std::nullopt;

constexpr StageInfo stages_in_order[] = {
    {"ast", Until::Contraction, every, ".txt", "the syntax tree", Of::Text},
    {"source", Until::Contraction, every, ".tile", "the text in canonical form", Of::Text},
    {"contraction", Until::Contraction, every, ".tile",
        "statements with their index maps and domains; calls are written out", Of::Program, false,
        &Meaning::contraction},
    {"gradient", Until::Gradient, every, ".tile", "the last derivative or batch that was asked for, else the gradient",
        Of::Derivative, false, &Meaning::gradient},
    {"bound", Until::Bound, every, ".tile", "sizes are numbers", Of::Program, false, &Meaning::bound},
    {"simplified", Until::Bound, every, ".tile", "constants folded, equal statements made one", Of::Program, false,
        &Meaning::simplified},
    {"bounded", Until::Bound, every, ".tile", "each index has exact bounds, each access lies inside its tensor",
        Of::Program, false, &Meaning::bounded},
    {"forward", Until::Bound, every, ".tile", "of a function and its gradient: what runs first, with what it keeps",
        Of::Pair},
    {"backward", Until::Bound, every, ".tile", "of a function and its gradient: what runs then, from what was kept",
        Of::Pair},
    {"reduced", Until::Reduced, every, ".tile", "one writer for each element, no point in vain", Of::Program, false,
        &Meaning::reduced},
    {"inline", Until::Plan, every, ".tile", "elementwise statements stand where they are read", Of::Rewriting},
    {"sums", Until::Plan, every, ".tile", "factors have left the sums that they do not depend on", Of::Rewriting},
    {"online", Until::Plan, every, ".tile", "statements of one pass stand together", Of::Rewriting},
    {"scans", Until::Plan, every, ".tile", "long scans are cut in blocks", Of::Rewriting},
    {"pairs", Until::Plan, every, ".tile", "what windows multiply is summed before them", Of::Rewriting},
    {"splits", Until::Plan, every, ".tile", "long reductions are cut in two stages", Of::Rewriting},
    {"copies", Until::Plan, every, ".tile", "operands are copied as lanes read them", Of::Rewriting},
    {"panels", Until::Plan, every, ".tile", "operands lie in panels", Of::Rewriting},
    {"rows", Until::Plan, every, ".tile", "statements that share rows name them alike", Of::Rewriting},
    {"plan", Until::Plan, every, ".plan", "launches, blocks, lanes"},
    {"pair-plan", Until::Plan, every, ".plan", "of a function and its gradient: the plans of both", Of::Pair},
    {"model", Until::Plan, every, ".txt", "the time that each launch should take, and the bytes it moves"},
    {"explain", Until::Plan, every, ".txt", "in words: what was chosen, and why"},
    {"loops", Until::Lowered, every, ".loops", "a loop nest for each launch"},
    {"package", Until::Lowered, every, ".tilec", "what runs without the compiler", Of::Program, true},
    {"report-text", Until::Lowered, every, ".txt", "operations, bytes, and what backward keeps"},
    {"llvm", Until::Lowered, Family::Cpu, ".ll", "LLVM's text, optimised"},
    {"asm", Until::Lowered, Family::Cpu, ".s", "assembly"},
    {"object", Until::Lowered, Family::Cpu, ".o", "an object file", Of::Program, true},
    {"opencl", Until::Lowered, Family::OpenCl, ".cl", "OpenCL C"},
    {"cuda", Until::Lowered, Family::Cuda, ".cu", "CUDA C++"},
    {"ptx", Until::Lowered, Family::Cuda, ".ptx", "what NVRTC makes of it"},
    {"cubin", Until::Lowered, Family::Cuda, ".cubin", "machine code of the device", Of::Program, true},
};

std::string print_loops(const codegen::Lowered& package) {
  std::string text;
  for (const codegen::Loops* loops : kernels_of(package)) text += (text.empty() ? "" : "\n") + codegen::print(*loops);
  return text;
}

// FNV-1a
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

codegen::Package package_of(const lang::File& file, const codegen::Stages& stages, const codegen::Request& request) {
  if (request.target.family == Family::Reference)
    throw argument_error(messages::no_package, "the interpreter needs the compiler")
        .hint("write `--target cpu`, `opencl` or `cuda`");
  if (!stages.checks.empty()) throw argument_error(messages::no_package, "`--checked` needs the text");
  codegen::Package package = assemble(*stages.lowered, request);
  for (const std::size_t k : request.accumulate) {
    package.accumulate.push_back(static_cast<std::int64_t>(k));
    package.outputs.at(k).name = stages.outputs.at(k);     // what adds has a name of its own
  }
  package.compiler = fmt::format("{}.{}.{}", TILEC_VERSION_MAJOR, TILEC_VERSION_MINOR, TILEC_VERSION_PATCH);
  package.source = hash(lang::print(file));
  return package;
}

const poly::Program* rewritten(const StageInfo& stage, const codegen::Stages& stages) {
  const auto at = std::ranges::find(stages.rewrites, stage.name, &std::pair<std::string_view, poly::Program>::first);
  return at == stages.rewrites.end() ? nullptr : &at->second;
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
  std::string source = codegen::simt::emit(kernels_of(package), codegen::simt::Dialect::Cuda);
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

std::string stage_names(std::size_t width, std::string_view indent) {
  std::string text;
  std::size_t column = 0;
  for (const StageInfo& stage : stages_in_order) {
    if (column != 0 && column + 1 + stage.name.size() > width) {
      text += "\n" + std::string(indent);
      column = 0;
    }
    text += (column != 0 ? " " : "") + std::string(stage.name);
    column += (column != 0) + stage.name.size();
  }
  return text;
}

void ask_for(const StageInfo& stage, codegen::Request& request, const codegen::Derivative& gradient) {
  const bool pair = stage.of == Of::Pair;
  // a pair is of a derivative
  const bool differentiated = !request.derivatives.empty() && !request.derivatives.back().batch;
  if (pair ? !differentiated : stage.of == Of::Derivative && request.derivatives.empty())
    request.derivatives.push_back(gradient);
  request.split = pair || stage.name == "report-text";
  request.pair = stage.name == "pair-plan";
  if (stage.of == Of::Rewriting) request.keeps_rewrites = true;
}

std::optional<codegen::Package> pair_of(const lang::File& file, const codegen::Request& request,
    lang::Diagnostics& diagnostics, std::vector<codegen::Timing>* timings) {
  const std::optional<codegen::Pair> pair = codegen::compile_pair(file, request, Until::Lowered, diagnostics);
  if (!pair) return std::nullopt;
  if (timings != nullptr)
    for (const std::vector<codegen::Timing>* list :
        {&pair->meaning.timings, &pair->forward.timings, &pair->backward.timings})
      timings->insert(timings->end(), list->begin(), list->end());
  codegen::Package package = package_of(file, pair->forward, request);
  package.kept = static_cast<std::int64_t>(package.outputs.size() - pair->meaning.split->forward_outputs);
  package.backward.push_back(package_of(file, pair->backward, request));
  return package;
}

bool reached(const StageInfo& stage, const codegen::Stages& stages) {
  if (stage.of == Of::Text) return true;
  if (stage.name == "pair-plan") return !stages.halves.empty();
  if (stage.of == Of::Pair) return stages.split.has_value();
  if (stage.program != nullptr) return (stages.*stage.program).has_value();
  if (stage.of == Of::Rewriting) return rewritten(stage, stages) != nullptr;
  if (stage.until == Until::Plan) return stages.plan.has_value();
  if (stage.name == "report-text") return stages.lowered && (!stages.gradient || stages.split);
  return stages.lowered.has_value();
}

std::string emit(
    const StageInfo& stage, const lang::File& file, const codegen::Stages& stages, const codegen::Request& request) {
  const codegen::Target& target = request.target;
  if (!reached(stage, stages)) throw lang::InternalError("stage " + std::string(stage.name) + " was not computed");
  if (stage.program != nullptr) return poly::print(*(stages.*stage.program));
  if (stage.name == "ast") return lang::dump(file);
  if (stage.name == "source") return lang::print(file);
  if (stage.name == "forward") return poly::print(stages.split->forward);
  if (stage.name == "backward") return poly::print(stages.split->backward);
  if (stage.of == Of::Rewriting) return poly::print(*rewritten(stage, stages));
  if (stage.name == "plan") return codegen::print(*stages.plan);
  if (stage.name == "pair-plan") return codegen::print(stages.halves[0], stages.halves[1]);
  if (stage.name == "model")
    return codegen::model::print(*stages.plan, codegen::model::predict(*stages.plan, stages.strides, target), target);
  if (stage.name == "explain") return codegen::explain(stages, target);
  if (stage.name == "loops") return print_loops(*stages.lowered);
  if (stage.name == "report-text") return codegen::report(stages);
  if (stage.name == "package") return to_bytes(package_of(file, stages, request));
  if (stage.family == Family::Cpu) return emit_cpu(stage.name, *stages.lowered, target);
  if (stage.family == Family::OpenCl)
    return codegen::simt::emit(kernels_of(*stages.lowered), codegen::simt::Dialect::OpenCl);
  return emit_cuda(stage.name, *stages.lowered, target);
}

const char* family_name(Family family) {
  return family == Family::Cpu ? "cpu" : family == Family::Cuda ? "cuda" : "opencl";
}

std::string default_target(const StageInfo& stage, const std::string& target, bool given) {
  if (given || !stage.family) return target;
  return family_name(*stage.family);
}

}  // namespace tilec::runtime
