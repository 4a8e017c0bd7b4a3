// Every stage as text or bytes: one vocabulary for --emit, the C API and Python.
//
//   stage_named("gradient")  ⇒  {"gradient", Until::Gradient, …};  emit(…)  ⇒  "function matmul_grad(f32 A[M, K], …"
//
// In:  a file and the Stages that codegen::compile made of it, at least up to `until`.   Out: the stage's text or bytes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codegen/pipeline.h"
#include "lang/ast.h"

namespace tilec::runtime {

struct StageInfo {
  std::string_view name;
  codegen::Until until;
  std::optional<codegen::Target::Family> family;       // the target that has this stage; none: every target
  std::string_view suffix;                             // of the file --dump-to writes
  bool binary = false;
  bool needs_program = true;                           // ast and source need a parsed file only
};

std::span<const StageInfo> all_stages();               // in the order of work
const StageInfo* stage_named(std::string_view name);   // null: none

bool reached(const StageInfo& stage, const codegen::Stages& stages);  // was it computed?

// RuntimeError when a tool outside is missing (ptx and cubin without NVRTC). `request`: what the stages were compiled for.
std::string emit(const StageInfo& stage, const lang::File& file, const codegen::Stages& stages, const codegen::Request& request);

// `--emit=cuda` without --target means the stage's own target.
std::string default_target(const StageInfo& stage, const std::string& target, bool given);

}  // namespace tilec::runtime
