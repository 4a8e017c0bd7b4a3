// What may be typed at a place of a text.
//
//   Y[i: M] = +(A[i, k] * Sc▮)     ⇒  `Scale`, a tensor; `softmax`, a function of std/ with the import that it needs
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/lsp/edits.h"
#include "cli/lsp/workspace.h"

namespace tilec::cli::lsp {

struct Completion {
  enum class Kind { Tensor, Size, Index, Function, Type, Aggregation, Attribute, Keyword, File, Constant } kind;
  std::string name, detail, help;
  std::optional<Edit> also = {};                       // an import that the name needs
};
struct Completions { std::vector<Completion> items; lang::Span replaced; };
Completions completions(const Document& document, std::size_t offset);

}  // namespace tilec::cli::lsp
