#include "cli/lsp/completion.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "cli/lsp/described.h"
#include "lang/at.h"
#include "lang/function_help.h"
#include "lang/idiom.h"
#include "lang/print.h"
#include "lang/tokens.h"
#include "lang/type.h"
#include "runtime/standard_library.h"

namespace tilec::cli::lsp {

namespace {

namespace fs = std::filesystem;
using lang::Help;

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

}  // namespace tilec::cli::lsp
