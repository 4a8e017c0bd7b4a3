#include "cli/lsp/features.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cli/error_pages.h"
#include "cli/lsp/described.h"
#include "lang/at.h"
#include "lang/choice.h"
#include "lang/function_help.h"
#include "lang/idiom.h"
#include "lang/pack.h"
#include "lang/parse.h"
#include "lang/print.h"
#include "lang/tokens.h"
#include "poly/print.h"

namespace tilec::cli::lsp {
namespace {

using Kind = lang::Mention::Kind;
using lang::Help;
using Names = std::vector<std::string>;

std::string code(const std::string& text) { return fmt::format("```tile\n{}\n```\n", text); }

const poly::Statement* built_statement(const poly::Program& program, const lang::Name& target) {
  for (const poly::Node& node : program.nodes)
    if (const auto* s = std::get_if<poly::Statement>(&node);
        s != nullptr && program.tensor(s->target.tensor).name == target.spelled())
      return s;
  return nullptr;
}

std::string row_text(const poly::Statement& statement, const poly::Range& row) {
  return fmt::format(
      "0 <= {}{}", row.value.print(statement.indices), row.extent ? " < " + row.extent->print(true) : "");
}

// `0 <= 2*i + j < N` of every row of the domain that the index is in; its own range first.
Names rows_of(const poly::Statement& statement, const std::string& index) {
  const auto at = std::ranges::find(statement.indices, index);
  if (at == statement.indices.end()) return {};
  const auto k = static_cast<std::size_t>(at - statement.indices.begin());
  Names own, others;
  for (const poly::Range& row : statement.domain) {
    if (k >= row.value.coefficients.size() || row.value.coefficients[k].is(0)) continue;
    (row.value.single_index() == k ? own : others).push_back(row_text(statement, row));
  }
  own.insert(own.end(), others.begin(), others.end());
  return own;
}

std::string about_tensor(const Document& document, const lang::Mention& mention) {
  const lang::Function& function = *mention.function;
  const poly::Program* program = document.program_of(function);
  const lang::Input* input = input_named(function, mention.name);
  const auto built = program ? built_tensor(*program, mention.name) : std::nullopt;
  std::string text = code(built ? *built + (input ? default_text(*input) : "")
          : input               ? input_text(*input)
                                : mention.name.spelled());
  const bool result =
      std::ranges::any_of(function.results, [&](const lang::Target& target) { return target.name == mention.name; });
  text += input ? "an input" : result ? "a result" : "a tensor";
  text += function.name ? fmt::format(" of `{}`\n", function.name->spelled()) : "\n";
  std::string own;
  for (const lang::Statement* each : lang::statements_that_assign(function, mention.name))
    own += code(lang::print(*each));
  const poly::Statement* statement = program && !input ? built_statement(*program, mention.name) : nullptr;
  if (statement == nullptr) return text + own;
  const std::string written_out = code(poly::print(*program, *statement));
  if (written_out != own) own += "which is\n" + written_out;
  Names rows;
  for (const poly::Range& row : statement->domain)
    if (const std::string one = row_text(*statement, row); std::ranges::find(rows, one) == rows.end())
      rows.push_back(one);
  return text + own + (rows.empty() ? "" : "at all points with\n" + code(fmt::format("{}", fmt::join(rows, "\n"))));
}

bool is_one_of(const std::vector<lang::Name>& packs, const lang::Name& name) {
  return std::ranges::find(packs, name) != packs.end();
}

std::string about_index(const Document& document, const lang::Mention& mention) {
  const bool pack = mention.statement && is_one_of(lang::packs_in(*mention.statement), mention.name);
  std::string text = pack ? fmt::format("indices `{}...`, any number of them", mention.name.spelled())
                          : fmt::format("index `{}`", mention.name.spelled());
  const auto* contraction = mention.statement ? std::get_if<lang::Contraction>(&mention.statement->node) : nullptr;
  const poly::Program* program = contraction ? document.program_of(*mention.function) : nullptr;
  const poly::Statement* statement = program ? built_statement(*program, contraction->target.name) : nullptr;
  const Names rows = statement ? rows_of(*statement, mention.name.spelled()) : Names{};
  if (!rows.empty()) text += " takes every value with\n" + code(fmt::format("{}", fmt::join(rows, "\n")));
  else text += "\n";
  if (mention.statement) text += "in\n" + code(lang::print(*mention.statement));
  return text;
}

std::string about_size(const lang::Mention& mention) {
  const bool pack = is_one_of(lang::packs_of(*mention.function), mention.name);
  std::string text = pack ? fmt::format("dimensions `{}...`, any number of them", mention.name.spelled())
                          : fmt::format("size `{}`", mention.name.spelled());
  for (const lang::Input* input : lang::inputs_that_show(*mention.function, mention.name)) {
    for (std::size_t d = 0; d < input->sizes->size(); ++d)
      if (const auto* only = (*input->sizes)[d].as<lang::Variable>(); only != nullptr && only->name == mention.name)
        text += pack ? fmt::format("\n- of `{}`", input_text(*input))
                     : fmt::format("\n- dimension {} of `{}`", d, input_text(*input));
  }
  return text + "\n";
}

// The source a definition's file was read from.
std::string about_function(const Document& document, const lang::Function& function) {
  std::string text = code(lang::heading(function));
  const lang::Source* source = source_of(document, function);
  if (source == nullptr) return text;
  text += lang::comment_above(source->text, function.span.begin);
  if (function.span.source != 0) text += fmt::format("\n\n*{}*", source->name);
  return text + "\n";
}

std::string about_help(const Help& help) {
  return code(std::string(help.written)) + (help.kind == Help::Kind::Function ? "built-in: " : "") +
      std::string(help.text) + "\n";
}

std::string about_named(Help::Kind kind, const std::string& name) {
  const Help* help = lang::help_for(kind, name);
  return help != nullptr ? about_help(*help) : "";
}

std::string about_import(const lang::Import& import) {
  if (!import.file) return "";
  Names names;
  for (const auto& item : import.file->items)
    if (const auto* f = std::get_if<lang::Function>(&item);
        f != nullptr && f->name && f->role == lang::Function::Role::Function)
      names.push_back(f->name->spelled());
  return fmt::format(
      "`{}` {}{}\n", import.path, names.empty() ? "imports other files" : "has ", fmt::join(names, ", "));
}

const lang::Parameter* parameter_named(const lang::Function& function, const lang::Name& name) {
  const auto at = std::ranges::find_if(function.parameters, [&](const lang::Parameter& p) { return p.name == name; });
  return at == function.parameters.end() ? nullptr : &*at;
}

// With what it is where nothing is given, and the names that it may be.
std::string about_parameter(const lang::Function& function, const lang::Name& name) {
  const lang::Parameter* parameter = parameter_named(function, name);
  if (parameter == nullptr) return "";
  std::string text = fmt::format("compile-time parameter `{}`", name.spelled());
  if (parameter->value) text += fmt::format(", `{}` where nothing is given", lang::print(*parameter->value));
  if (const auto& choices = lang::choices_of(function, name); !choices.empty())
    text += fmt::format("; one of {}", lang::listed(choices));
  return text + "\n";
}

// `f<stride=2>(X, Beta=B)`: a parameter or an input of `f`.
std::string about_label(const Document& document, const lang::Function& callee, const lang::Name& name) {
  const lang::Input* input = input_named(callee, name);
  std::string text = input ? code(input_text(*input)) +
          fmt::format("an input{}\n", input->value ? ", which is its default where it is not given" : "")
                           : about_parameter(callee, name);
  return text.empty() ? "" : text + fmt::format("\nof\n{}", about_function(document, callee));
}

std::string about(const Document& document, const lang::Mention& mention) {
  switch (mention.kind) {
    case Kind::Tensor: return about_tensor(document, mention);
    case Kind::Index: return about_index(document, mention);
    case Kind::Size: return mention.function ? about_size(mention) : "";
    case Kind::Parameter: return about_parameter(*mention.function, mention.name);
    case Kind::Label: return mention.callee ? about_label(document, *mention.callee, mention.name) : "";
    case Kind::Function: {
      if (mention.function && mention.function->name && mention.name.span == mention.function->name->span)
        return about_function(document, *mention.function);
      std::string text;
      for (const lang::Definition& each : lang::definitions(*document.file, mention.name))
        text += about_function(document, *each.function);
      return text.empty() ? about_named(Help::Kind::Function, mention.name.text) : text;
    }
    case Kind::Type: return about_named(Help::Kind::Type, mention.name.text);
    case Kind::Aggregation: return about_named(Help::Kind::Aggregation, mention.name.text);
    case Kind::Attribute: return about_named(Help::Kind::Attribute, mention.name.text);
    case Kind::Constant: return about_named(Help::Kind::Constant, mention.name.text);
    case Kind::Dimension: return about_named(Help::Kind::Keyword, "dim");
    case Kind::Import: return about_import(*mention.import);
    case Kind::Prefix:
      return mention.import
          ? fmt::format("prefix `{}`\n\n{}", mention.import->prefix->text, about_import(*mention.import))
          : "";
  }
  return "";
}

std::string pages_at(const Document& document, std::size_t offset, lang::Span& span) {
  std::string text;
  std::set<std::string> shown;
  for (const lang::Diagnostic& d : document.diagnostics.all()) {
    if (d.span.source != 0 || offset < d.span.begin || offset > d.span.end || (d.span.begin == 0 && d.span.end == 0) ||
        !shown.insert(d.code).second)
      continue;
    const auto page = std::ranges::find_if(error_pages(), [&](const ErrorPage& each) { return each.code == d.code; });
    if (page == error_pages().end()) continue;
    text += (text.empty() ? "" : "\n---\n") + std::string(page->text);
    if (span.empty()) span = d.span;
  }
  return text;
}

// A keyword under the cursor, which no tree has.
std::string about_keyword(std::string_view text, std::size_t offset, lang::Span& span) {
  const auto around = lang::surroundings(text, offset);
  using Where = lang::Surroundings::Where;
  if (around.where == Where::Comment || around.where == Where::String || around.where == Where::ImportPath) return "";
  for (const lang::Token& token : lang::tokens_of(text, around.word, around.word + 1)) {
    span = {static_cast<std::uint32_t>(token.begin), static_cast<std::uint32_t>(token.end()), 0};
    return about_named(Help::Kind::Keyword, std::string(token.text));
  }
  return "";
}

}  // namespace

std::optional<Hover> hover(const Document& document, std::size_t offset) {
  Hover found;
  if (const auto mention = lang::mention_at(*document.file, offset)) {
    found.text = about(document, *mention);
    if (!found.text.empty()) found.span = mention->span;
  } else {
    found.text = about_keyword(document.text, offset, found.span);
  }
  const std::string pages = pages_at(document, offset, found.span);
  if (!pages.empty()) found.text += (found.text.empty() ? "" : "\n---\n") + pages;
  if (found.text.empty()) return std::nullopt;
  return found;
}

Definitions definitions(const Document& document, std::size_t offset) {
  Definitions found{{}, document.tree_sources()};
  const auto mention = lang::mention_at(*document.file, offset);
  if (!mention) return found;
  if (mention->kind == Kind::Function) {
    if (mention->function && mention->function->name && mention->name.span == mention->function->name->span)
      found.spans.push_back(mention->name.span);
    else
      for (const lang::Definition& each : lang::definitions(*document.file, mention->name))
        found.spans.push_back(each.function->span_of_head());
  } else if (mention->kind == Kind::Import) {
    if (mention->import->file)
      for (const auto& item : mention->import->file->items) {
        const auto number = std::visit([](const auto& each) { return each.span.source; }, item);
        found.spans.push_back({0, 0, number});
        break;
      }
  } else if (mention->kind == Kind::Prefix) {
    if (mention->import) found.spans.push_back(mention->import->prefix->span);
  } else if (const auto span = lang::declaration(*mention)) {
    found.spans.push_back(*span);
  }
  return found;
}

std::vector<Symbol> symbols(const Document& document) {
  std::vector<Symbol> all;
  for (const auto& item : document.file->items) {
    if (const auto* import = std::get_if<lang::Import>(&item))
      all.push_back(
          {Symbol::Kind::Import, import->path.empty() ? "import" : import->path, "import", import->span, import->span});
    if (const auto* dim = std::get_if<lang::Dim>(&item))
      for (const lang::Name& name : dim->names)
        all.push_back({Symbol::Kind::Size, name.spelled(), "dim", name.span, name.span});
    const auto* function = std::get_if<lang::Function>(&item);
    if (function == nullptr) continue;
    using Role = lang::Function::Role;
    const std::string word = function->role == Role::Gradient ? "gradient"
        : function->role == Role::Tangent                     ? "tangent"
                                                              : "function";
    const poly::Program* program = document.program_of(*function);
    Symbol one{Symbol::Kind::Function, function->name ? function->name->spelled() : word, word, function->span,
        function->span_of_head()};
    for (const lang::Target& target : lang::tensors_of(*function)) {
      const lang::Input* input = input_named(*function, target.name);
      const auto statements = lang::statements_that_assign(*function, target.name);
      const auto built = program ? built_tensor(*program, target.name) : std::nullopt;
      const lang::Span whole = input ? input->span : statements.empty() ? target.name.span : statements[0]->span;
      one.children.push_back({input ? Symbol::Kind::Input : Symbol::Kind::Tensor, target.name.spelled(),
          built       ? *built
              : input ? input_text(*input)
                      : "",
          whole, target.name.span});
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::optional<std::string> formatted(const Document& document) {
  if (document.text.size() > largest_document) return std::nullopt;
  lang::Diagnostics unheard;
  const std::optional<lang::File> file = lang::parse({document.name, document.text}, unheard);
  if (!file) return std::nullopt;
  return lang::print(*file);
}

}  // namespace tilec::cli::lsp
