// A name under the cursor, everything that means the same, and whether it may be called otherwise.
//
//   function f(A[M]) -> (Y) { Y = A; }     the cursor on `A`     ⇒  both places of `A`; `Y` is taken
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/lsp/workspace.h"

namespace tilec::cli::lsp {

// What a name means, as the place where that is declared: a source by its name, an offset in it.
struct Meaning { std::string source; std::uint32_t place = 0; bool operator==(const Meaning&) const = default; };
struct Named { Meaning meaning; lang::Span span; };
// nothing where no name stands, or one of the language
std::optional<Named> renamable(const Document& document, std::size_t offset);
// Why it cannot be called so: not a name of its kind, or taken. Empty: it can.
std::string taken(const Document& document, std::size_t offset, const std::string& name);
// Where the text and what it imports mention it: spans of tree_sources().
std::vector<lang::Span> mentions_of(const Document& document, const Meaning& meaning);

}  // namespace tilec::cli::lsp
