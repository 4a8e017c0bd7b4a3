// How what a text declares is shown: in hovers, in outlines, beside what an editor offers.
//
//   function f(A[M, K]) -> (Y) { Y[i: M] = +(A[i, k]); }     ⇒  `A[M, K]` as it is written, `f32 Y[M]` as it was built
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/lsp/workspace.h"

namespace tilec::cli::lsp {

std::string_view written(const lang::Source& source, lang::Span span);
// `f32 Y[M, K]`, as the built Program knows it.
std::optional<std::string> built_tensor(const poly::Program& program, const lang::Name& name);
const lang::Input* input_named(const lang::Function& function, const lang::Name& name);
std::string input_text(const lang::Input& input);     // `f32 A[M, K]=1`
std::string default_text(const lang::Input& input);   // `=1`; empty where it has none
const lang::Source* source_of(const Document& document, const lang::Function& function);

}  // namespace tilec::cli::lsp
