// What a text says and declares: hovers, definitions, its outline, its canonical form. Offsets are bytes of the text;
// nothing here knows the protocol.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/lsp/workspace.h"
#include "lang/source.h"

namespace tilec::cli::lsp {

// Markdown about what is mentioned at an offset, and the pages of the messages that are shown there.
struct Hover { std::string text; lang::Span span; };
std::optional<Hover> hover(const Document& document, std::size_t offset);

// Spans of `sources`; several where several files define a function of the name. An import leads to the start of its
// file.
struct Definitions { std::vector<lang::Span> spans; const std::vector<lang::Source>& sources; };
Definitions definitions(const Document& document, std::size_t offset);

struct Symbol {
  enum class Kind { Function, Input, Size, Tensor, Import } kind;
  std::string name, detail;
  lang::Span whole, head;
  std::vector<Symbol> children = {};
};
std::vector<Symbol> symbols(const Document& document);

std::optional<std::string> formatted(const Document& document);  // nothing when it does not parse

}  // namespace tilec::cli::lsp
