// Every stage as text or bytes: one vocabulary for --emit, the C API and Python.
//
//   stage_named("gradient")  ⇒  {"gradient", Until::Gradient, …};  emit(…)  ⇒  "function matmul_grad(f32 A[M, K], …"
//
// The table in emit.cpp is the one place that knows the stages: help, messages, C and Python read it.
//
// In: a file and the Stages that codegen::compile made of it, at least up to `until`.
// Out: the stage's text or bytes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codegen/package.h"
#include "codegen/pipeline.h"
#include "lang/ast.h"

namespace tilec::runtime {

struct StageInfo {
  // What it shows: a parsed file alone, any Program, a derivative, a function and its gradient, a stage of the
  // rewriting.
  enum class Of { Text, Program, Derivative, Pair, Rewriting };

  std::string_view name;
  codegen::Until until;
  std::optional<codegen::Target::Family> family;       // the target that has this stage; none: every target
  std::string_view suffix;                             // of the file --dump-to writes
  const char* what;                                    // a line for people
  Of of = Of::Program;
  bool binary = false;
  std::optional<poly::Program> codegen::Meaning::*program = nullptr;  // what it prints, where that is a member
};

std::span<const StageInfo> all_stages();               // in the order of work
const StageInfo* stage_named(std::string_view name);   // null: none
std::string stage_names(std::size_t width = std::string::npos, std::string_view indent = "");  // all of them, in lines

// Asks for what the stage shows: a gradient where `request` has no derivative, and a pair.
void ask_for(const StageInfo& stage, codegen::Request& request, const codegen::Derivative& gradient = {});
// A function and its last derivative as one package: what runs forward, and behind it what takes the values that it
// keeps. Nothing when the program is at fault; RuntimeError E0535 where a package cannot say what is asked.
std::optional<codegen::Package> pair_of(const lang::File& file, const codegen::Request& request,
    lang::Diagnostics& diagnostics, std::vector<codegen::Timing>* timings = nullptr);

bool reached(const StageInfo& stage, const codegen::Stages& stages);  // was it computed?

// RuntimeError when a tool outside is missing (ptx and cubin without NVRTC). `request`: what the stages were compiled
// for.
std::string emit(
    const StageInfo& stage, const lang::File& file, const codegen::Stages& stages, const codegen::Request& request);

const char* family_name(codegen::Target::Family family);  // the target that a name without details means

// `--emit=cuda` without --target means the stage's own target.
std::string default_target(const StageInfo& stage, const std::string& target, bool given);

}  // namespace tilec::runtime
