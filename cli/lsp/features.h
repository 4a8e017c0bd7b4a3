// What editors ask about a place in a text. Offsets are bytes of it; nothing here knows the protocol.
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

// What a name means, as the place where that is declared: a source by its name, an offset in it.
struct Meaning { std::string source; std::uint32_t place = 0; bool operator==(const Meaning&) const = default; };
struct Named { Meaning meaning; lang::Span span; };
// nothing where no name stands, or one of the language
std::optional<Named> renamable(const Document& document, std::size_t offset);
// Why it cannot be called so: not a name of its kind, or taken. Empty: it can.
std::string taken(const Document& document, std::size_t offset, const std::string& name);
// Where the text and what it imports mention it: spans of tree_sources().
std::vector<lang::Span> mentions_of(const Document& document, const Meaning& meaning);

struct Symbol {
  enum class Kind { Function, Input, Size, Tensor, Import } kind;
  std::string name, detail;
  lang::Span whole, head;
  std::vector<Symbol> children = {};
};
std::vector<Symbol> symbols(const Document& document);

struct Edit { lang::Span span; std::string text; };

struct Completion {
  enum class Kind { Tensor, Size, Index, Function, Type, Aggregation, Attribute, Keyword, File, Constant } kind;
  std::string name, detail, help;
  std::optional<Edit> also = {};                       // an import that the name needs
};
struct Completions { std::vector<Completion> items; lang::Span replaced; };
Completions completions(const Document& document, std::size_t offset);

std::optional<std::string> formatted(const Document& document);  // nothing when it does not parse

// What a hint says to type, where it says so: `write …`, `did you mean …?`, `write import … in front of the functions`.
std::vector<Edit> edits_of(const std::string& text, const lang::Diagnostic& diagnostic, const std::string& hint);

}  // namespace tilec::cli::lsp
