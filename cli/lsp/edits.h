// Changes of a text that somebody proposes: an import that a name needs, what a hint says to type.
//
//   hint: write `B[i: M] = +(A[i, j]);`     ⇒  the statement at fault becomes that
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lang/diagnostic.h"
#include "lang/source.h"

namespace tilec::cli::lsp {

struct Edit { lang::Span span; std::string text; };

// Where an `import` that is added stands: behind the last one, else in front of the first item and its comment.
std::uint32_t import_place(std::string_view text);
Edit import_edit(std::string_view text, std::uint32_t at, const std::string& import);
// What a hint says to type, where it says so: `write …`, `did you mean …?`, `write import … in front of the functions`.
std::vector<Edit> edits_of(const std::string& text, const lang::Diagnostic& diagnostic, const std::string& hint);

}  // namespace tilec::cli::lsp
