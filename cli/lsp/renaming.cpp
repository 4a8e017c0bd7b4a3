#include "cli/lsp/renaming.h"

#include <fmt/core.h>

#include <algorithm>
#include <regex>
#include <set>

#include "cli/lsp/described.h"
#include "lang/at.h"
#include "lang/function_help.h"

namespace tilec::cli::lsp {

namespace {

using Kind = lang::Mention::Kind;
using lang::Help;

// The place of a declaration. A size that `dim` declares is the file's; a derivative is called like its function.
std::optional<lang::Span> declared(const lang::File& file, const lang::Mention& mention) {
  if (mention.kind == Kind::Function) {
    const auto found = lang::definitions(file, mention.name);
    return found.size() == 1 ? std::optional(found[0].function->span_of_head()) : std::nullopt;
  }
  if (mention.kind == Kind::Prefix) return mention.import ? std::optional(mention.import->prefix->span) : std::nullopt;
  if (mention.kind == Kind::Size || mention.kind == Kind::Dimension)
    for (const auto& item : file.items)
      if (const auto* dim = std::get_if<lang::Dim>(&item))
        for (const lang::Name& name : dim->names)
          if (name == mention.name) return name.span;
  return lang::declaration(mention);
}

std::optional<Meaning> meaning_of(const Document& document, const lang::File& file, const lang::Mention& mention) {
  const auto span = declared(file, mention);
  if (!span || span->empty() || span->source >= document.tree_sources().size()) return std::nullopt;
  return Meaning{document.tree_sources()[span->source].name, span->begin};
}

template <class Visit> void each_file(const lang::File& file, std::set<const lang::File*>& seen, const Visit& visit) {
  if (!seen.insert(&file).second) return;
  visit(file);
  for (const auto& item : file.items)
    if (const auto* import = std::get_if<lang::Import>(&item); import != nullptr && import->file)
      each_file(*import->file, seen, visit);
}

}  // namespace

std::optional<Named> renamable(const Document& document, std::size_t offset) {
  const auto mention = lang::mention_at(*document.file, offset);
  const auto meaning = mention ? meaning_of(document, *document.file, *mention) : std::nullopt;
  return meaning ? std::optional(Named{*meaning, mention->span}) : std::nullopt;
}

std::string taken(const Document& document, std::size_t offset, const std::string& name) {
  static const std::regex word("[#$]?[A-Za-z][A-Za-z0-9_]*'?");
  const auto mention = lang::mention_at(*document.file, offset);
  const std::string bare = name.substr(name.starts_with('#') || name.starts_with('$'));
  if (!mention || !std::regex_match(name, word))
    return fmt::format("`{}` is not a name: a letter, then letters, digits and `_`", name);
  if (name == "function" || name == "default" || name == "no_defract")
    return fmt::format("`{}` is a word of the language", name);
  const std::string old(written(document.tree_sources().at(0), mention->span));
  const auto is_upper = [](const std::string& each) {
    return each.starts_with('#') || (!each.starts_with('$') && each[0] <= 'Z');
  };
  if (is_upper(old) != is_upper(name))
    return fmt::format("`{}` begins with {} letter and `{}` does not, which makes another kind of name", old,
        is_upper(old) ? "an upper-case" : "a lower-case", name);
  const lang::Name fresh{bare, is_upper(name), {}};
  if (mention->kind == Kind::Function) {
    const bool known =
        !lang::definitions(*document.file, fresh).empty() || lang::help_for(Help::Kind::Function, bare) != nullptr;
    return known ? fmt::format("there is a function `{}`", name) : "";
  }
  if (mention->kind == Kind::Prefix) {
    const auto all = lang::prefixes(*document.file);
    return std::ranges::find(all, fresh) == all.end() ? "" : fmt::format("another import is called `{}`", name);
  }
  const lang::Function* function = mention->kind == Kind::Label ? mention->callee : mention->function;
  for (const lang::Mention& other : lang::mentions(*document.file)) {
    const bool here =
        other.function != nullptr && (other.function == function || function == nullptr) && other.name == fresh;
    const bool another_statement =
        other.kind == Kind::Index && mention->kind == Kind::Index && other.statement != mention->statement;
    const bool names_values = other.kind == Kind::Tensor || other.kind == Kind::Size || other.kind == Kind::Parameter ||
        other.kind == Kind::Index;
    if (here && names_values && !another_statement)
      return fmt::format(
          "`{}` is taken in `{}`", name, other.function->name ? other.function->name->spelled() : "the function");
  }
  return "";
}

std::vector<lang::Span> mentions_of(const Document& document, const Meaning& meaning) {
  std::vector<lang::Span> spans;
  std::set<const lang::File*> seen;
  each_file(*document.file, seen, [&](const lang::File& file) {
    for (const lang::Mention& mention : lang::mentions(file))
      if (meaning_of(document, file, mention) == meaning) spans.push_back(mention.span);
  });
  return spans;
}

}  // namespace tilec::cli::lsp
