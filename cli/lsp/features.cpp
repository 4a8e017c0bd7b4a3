#include "cli/lsp/features.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "cli/error_pages.h"
#include "lang/at.h"
#include "lang/builtin.h"
#include "lang/choice.h"
#include "lang/function_help.h"
#include "lang/idiom.h"
#include "lang/pack.h"
#include "lang/parse.h"
#include "lang/print.h"
#include "lang/repair.h"
#include "lang/tokens.h"
#include "lang/type.h"
#include "poly/print.h"
#include "runtime/standard_library.h"

namespace tilec::cli::lsp {
namespace {

namespace fs = std::filesystem;
using Kind = lang::Mention::Kind;
using lang::Help;
using Names = std::vector<std::string>;

std::string code(const std::string& text) { return fmt::format("```tile\n{}\n```\n", text); }

std::string_view written(const lang::Source& source, lang::Span span) {
  const std::string_view text = source.text;
  return span.begin > text.size() ? std::string_view()
                                  : text.substr(span.begin, span.end - std::min(span.begin, span.end));
}

std::string shape_text(const std::vector<poly::Size>& shape) {
  Names sizes;
  for (const poly::Size& size : shape) sizes.push_back(size.print());
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

// `f32 Y[M, K]`, as the built Program knows it.
std::optional<std::string> built_tensor(const poly::Program& program, const lang::Name& name) {
  const auto at =
      std::ranges::find_if(program.tensors, [&](const poly::Tensor& tensor) { return tensor.name == name.spelled(); });
  if (at == program.tensors.end()) return std::nullopt;
  return fmt::format("{} {}{}", lang::name(at->dtype), at->name, shape_text(at->shape));
}

const poly::Statement* built_statement(const poly::Program& program, const lang::Name& target) {
  for (const poly::Node& node : program.nodes)
    if (const auto* s = std::get_if<poly::Statement>(&node);
        s != nullptr && program.tensor(s->target.tensor).name == target.spelled())
      return s;
  return nullptr;
}

const lang::Input* input_named(const lang::Function& function, const lang::Name& name) {
  const auto at =
      std::ranges::find_if(function.inputs, [&](const lang::Input& input) { return input.target.name == name; });
  return at == function.inputs.end() ? nullptr : &*at;
}

std::string default_text(const lang::Input& input) { return input.value ? "=" + lang::print(*input.value) : ""; }

std::string input_text(const lang::Input& input) {
  Names sizes;
  for (const lang::Expr& size : input.sizes.value_or(std::vector<lang::Expr>{})) sizes.push_back(lang::print(size));
  return fmt::format("{}{}{}{}", input.target.dtype ? input.target.dtype->text + " " : "", input.target.name.spelled(),
      input.sizes ? fmt::format("[{}]", fmt::join(sizes, ", ")) : "", default_text(input));
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
const lang::Source* source_of(const Document& document, const lang::Function& function) {
  const std::uint32_t number = function.span.source;
  return number < document.tree_sources().size() ? &document.tree_sources()[number] : nullptr;
}

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

namespace {

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

namespace {

// Where an `import` that is added stands: behind the last one, else in front of the first item and its comment.
std::uint32_t import_place(std::string_view text) {
  std::size_t place = std::string_view::npos;
  const lang::Tokens tokens = lang::tokens_of(text);
  for (std::size_t k = 0; k + 2 < tokens.size(); ++k) {
    if (tokens[k].text == "{") break;
    if (tokens[k].text != "import") continue;
    const std::size_t end = tokens[k + 2].text == "as" ? k + 4 : k + 2;
    if (end >= tokens.size() || tokens[end].text != ";") continue;
    const std::size_t line = text.find('\n', tokens[end].end());
    place = line == std::string_view::npos ? text.size() : line + 1;
  }
  return place == std::string_view::npos ? 0 : static_cast<std::uint32_t>(place);
}

Edit import_edit(std::string_view text, std::uint32_t at, const std::string& import) {
  return {{at, at, 0}, fmt::format("{}{}\n", at > 0 && text[at - 1] != '\n' ? "\n" : "", import)};
}

class Completer {
 public:
  Completer(const Document& document, std::size_t offset)
      : document_(document),
        text_(document.text),
        offset_(std::min(offset, document.text.size())),
        around_(lang::surroundings(text_, offset_)) {}

  Completions run() {
    using Where = lang::Surroundings::Where;
    switch (around_.where) {
      case Where::Comment: case Where::String: break;
      case Where::ImportPath: files(); break;
      case Where::Attribute: helps(Help::Kind::Attribute, Completion::Kind::Attribute); break;
      case Where::Top: keywords({"function", "gradient", "tangent", "import", "dim"}); break;
      case Where::Heading: heading_names(); break;
      case Where::Body: prefix().empty() ? body() : functions_under(prefix()); break;
    }
    return {std::move(items_), {static_cast<std::uint32_t>(around_.word), static_cast<std::uint32_t>(offset_), 0}};
  }

 private:
  const Document& document_;
  std::string_view text_;
  std::size_t offset_;
  lang::Surroundings around_;
  std::vector<Completion> items_;
  std::set<std::string> seen_;

  void add(Completion item) { if (seen_.insert(item.name).second) items_.push_back(std::move(item)); }

  void keywords(const std::vector<std::string>& words) {
    for (const std::string& word : words)
      if (const Help* help = lang::help_for(Help::Kind::Keyword, word))
        add({Completion::Kind::Keyword, word, std::string(help->written), std::string(help->text)});
  }

  void helps(Help::Kind from, Completion::Kind as) {
    for (const Help& help : lang::all_help())
      if (help.kind == from && !help.name.ends_with('_'))
        add({as, std::string(help.name), std::string(help.written), std::string(help.text)});
  }

  const lang::Function* function() const { return lang::function_at(*document_.file, around_.function + 1); }

  // Of a function without a tree: the words in it that look like tensors and sizes.
  void words(std::size_t begin, std::size_t end) {
    for (const lang::Token& token : lang::tokens_of(text_, begin, end))
      if (lang::is_word(token.text) && token.text[0] >= 'A' && token.text[0] <= 'Z' && token.end() != offset_)
        add({Completion::Kind::Tensor, std::string(token.text), "", ""});
  }

  void names() {
    const lang::Function* f = function();
    if (f == nullptr) return words(around_.function, std::min(text_.find('}', offset_), text_.size()));
    const poly::Program* program = document_.program_of(*f);
    for (const lang::Target& target : lang::tensors_of(*f)) {
      const auto built = program ? built_tensor(*program, target.name) : std::nullopt;
      const lang::Input* input = input_named(*f, target.name);
      add({Completion::Kind::Tensor, target.name.spelled(), built ? *built : input ? input_text(*input) : "", ""});
    }
    for (const lang::Target& target : f->results)
      add({Completion::Kind::Tensor, target.name.spelled(), "a result", ""});
    for (const lang::Name& size : lang::sizes_of(*f)) {
      const auto shown = lang::inputs_that_show(*f, size);
      add({Completion::Kind::Size, size.spelled(), shown.empty() ? "a size" : "a size of " + input_text(*shown[0]),
          ""});
    }
    for (const lang::Parameter& p : f->parameters)
      add({Completion::Kind::Constant, p.name.spelled(), "a compile-time parameter", ""});
  }

  // Words of the statement that are no names of anything else.
  void indices() {
    const lang::Tokens tokens = lang::tokens_of(text_, around_.statement, around_.statement_end);
    for (std::size_t k = 0; k < tokens.size(); ++k) {
      const std::string word(tokens[k].text);
      if (!lang::is_word(word) || word[0] < 'a' || word[0] > 'z' || tokens[k].end() == offset_ ||
          (k + 1 < tokens.size() && tokens[k + 1].text == "("))
        continue;
      if (lang::help_for(Help::Kind::Keyword, word) || lang::dtype_named(word) ||
          lang::help_for(Help::Kind::Constant, word))
        continue;
      add({Completion::Kind::Index, word, "an index of this statement", ""});
    }
  }

  // `loss` of `loss.me`, where an import is called so.
  std::string prefix() const {
    const std::string_view before = text_.substr(0, around_.word);
    if (!before.ends_with('.')) return "";
    for (const lang::Name& each : lang::prefixes(*document_.file)) {
      const lang::Tokens tokens = lang::tokens_of(text_, around_.statement, around_.word - 1);
      if (!tokens.empty() && tokens.back().end() == around_.word - 1 && tokens.back().text == each.text)
        return each.text;
    }
    return "";
  }

  void functions_of(const lang::File& file, const std::string& before = "") {
    for (const auto& item : file.items) {
      const auto* f = std::get_if<lang::Function>(&item);
      if (f == nullptr || !f->name || f->role != lang::Function::Role::Function || f == function()) continue;
      const lang::Source* source = source_of(document_, *f);
      add({Completion::Kind::Function, before + f->name->spelled(), lang::heading(*f),
          source ? lang::comment_above(source->text, f->span.begin) : ""});
    }
  }

  void functions_under(const std::string& prefix) {
    for (const lang::File* file : lang::callable_imports(*document_.file, prefix)) functions_of(*file);
  }

  void functions() {
    functions_of(*document_.file);
    for (const lang::File* file : lang::callable_imports(*document_.file)) functions_of(*file);
    for (const lang::Name& each : lang::prefixes(*document_.file))
      for (const lang::File* file : lang::callable_imports(*document_.file, each.text))
        functions_of(*file, each.text + '.');
    helps(Help::Kind::Function, Completion::Kind::Function);
    const std::uint32_t place = import_place(text_);
    for (const lang::StandardName& each : lang::standard_names())
      add({Completion::Kind::Function, std::string(each.name), std::string(each.heading),
          fmt::format("of std/{}.tile, which is imported with it", each.file),
          import_edit(text_, place, fmt::format("import \"std/{}.tile\";", each.file))});
  }

  void heading_names() {
    helps(Help::Kind::Type, Completion::Kind::Type);
    if (const lang::Function* f = function()) {
      for (const lang::Name& size : lang::sizes_of(*f)) add({Completion::Kind::Size, size.spelled(), "a size", ""});
      for (const lang::Target& target : lang::tensors_of(*f))
        add({Completion::Kind::Tensor, target.name.spelled(), "", ""});
    } else {
      words(around_.function, std::min(text_.find_first_of("{}", offset_), text_.size()));
    }
    for (const auto& item : document_.file->items)
      if (const auto* dim = std::get_if<lang::Dim>(&item))
        for (const lang::Name& name : dim->names) add({Completion::Kind::Size, name.spelled(), "dim", ""});
    helps(Help::Kind::Aggregation, Completion::Kind::Aggregation);
  }

  void body() {
    indices();
    names();
    keywords({"default", "no_defract", "no_reduce"});
    functions();
    helps(Help::Kind::Type, Completion::Kind::Type);
    helps(Help::Kind::Aggregation, Completion::Kind::Aggregation);
    helps(Help::Kind::Constant, Completion::Kind::Constant);
  }

  // Of std/, and beside the text.
  void files() {
    for (const runtime::StandardFile& file : runtime::standard_library())
      add({Completion::Kind::File, fmt::format("std/{}.tile", file.name), "the standard library", ""});
    constexpr std::size_t most = 1000;                   // entries of a folder that are looked at
    std::error_code fault;
    const fs::path own(document_.name), folder = own.has_parent_path() ? own.parent_path() : fs::path(".");
    std::size_t count = 0;
    fs::directory_iterator at(folder, fault);
    for (; !fault && at != fs::directory_iterator() && count < most; at.increment(fault), ++count)
      if (at->path().extension() == ".tile" && at->path().filename() != own.filename())
        add({Completion::Kind::File, at->path().filename().string(), "beside this file", ""});
  }
};

}  // namespace

Completions completions(const Document& document, std::size_t offset) { return Completer(document, offset).run(); }

std::optional<std::string> formatted(const Document& document) {
  if (document.text.size() > largest_document) return std::nullopt;
  lang::Diagnostics unheard;
  const std::optional<lang::File> file = lang::parse({document.name, document.text}, unheard);
  if (!file) return std::nullopt;
  return lang::print(*file);
}

std::vector<Edit> edits_of(const std::string& text, const lang::Diagnostic& diagnostic, const std::string& hint) {
  static const std::regex import("write `(import [^`]*;)` in front of the functions(?:, and here `([^`]*)`)?"),
      write("write `([^`]*)`|did you mean `([^`]*)`\\?");
  const lang::Span span = diagnostic.span;
  if (span.source != 0 || span.empty() || span.end > text.size() || hint.size() > 2000) return {};
  std::smatch found;
  const auto statement = lang::StatementTexts(text).at(span.begin);
  const auto in_statement = [&](const std::string& with) {
    return Edit{{static_cast<std::uint32_t>(statement->begin), static_cast<std::uint32_t>(statement->end), 0}, with};
  };
  if (std::regex_match(hint, found, import)) {
    std::vector<Edit> edits{import_edit(text, import_place(text), found[1])};
    if (found[2].matched && !statement) return {};
    if (found[2].matched) edits.push_back(in_statement(found[2]));
    return edits;
  }
  if (!std::regex_match(hint, found, write)) return {};
  const std::string with = found[1].matched ? found[1] : found[2];
  if (with.find("…") != std::string::npos || with.starts_with("[[") || with.starts_with("->") ||
      with.starts_with("tilec") || with.starts_with("gradient"))
    return {};
  if (with.starts_with("function")) {
    const auto heading = lang::heading_at(text, span.begin);
    if (!heading || with.find('{') != std::string::npos) return {};
    return {{{static_cast<std::uint32_t>(heading->begin), static_cast<std::uint32_t>(heading->end), 0}, with}};
  }
  if (!with.ends_with(';')) return {{span, with}};
  if (!statement) return {};
  return {in_statement(with)};
}

}  // namespace tilec::cli::lsp
