#include "lang/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/check.h"
#include "lang/idiom.h"
#include "lang/kept.h"
#include "lang/lexis.h"
#include "lang/messages.h"
#include "lang/parse.h"
#include "lang/repair.h"
#include "lang/tokens.h"

namespace tilec::lang {
namespace {

constexpr std::size_t most_suggestions = 20, largest_suggested = 100'000;  // each reads the text once more

// What to leave out of a text for the sake of an error in it. In a body the statement, or the one before it where
// nothing is left of that; elsewhere, or where that did not do, the function: from its heading to its `}`.
struct Part { std::size_t begin = 0, end = 0; };
Part faulty_part(std::string_view text, std::size_t at, bool whole_function) {
  constexpr std::size_t none = std::string_view::npos;
  at = std::min(at, text.size());
  const auto before = [&](std::string_view marks, std::size_t place) {
    return place == 0 ? none : text.find_last_of(marks, place - 1);
  };
  const std::size_t brace = before("{}", at);
  if (brace != none && text[brace] == '{' && !whole_function) {
    std::size_t begin = before(";{", at) + 1, end = std::min(text.find_first_of(";}", at), text.size());
    const bool empty = text.substr(begin, end - begin).find_first_not_of(" \t\r\n") == none;
    if (empty && text[begin - 1] == ';') begin = before(";{", begin - 1) + 1;
    return {begin, end < text.size() && text[end] == ';' ? end + 1 : end};
  }
  std::size_t begin = 0, next = text.size();
  for (const Token& token : tokens_of(text)) {
    const bool starts = token.text == "function" || token.text == "gradient" || token.text == "tangent" ||
        token.text == "import" || token.text == "dim" || token.text == "}";
    if (!starts) continue;
    if (token.begin > at) {
      next = token.text == "}" ? token.end() : token.begin;
      break;
    }
    if (token.text != "}") begin = token.begin;
    else if (token.end() <= at) begin = token.end();
    else next = token.end();
    if (next != text.size()) break;
  }
  return {begin, next};
}

// Without what has no tree: parts at fault are blanks.
std::string readable(const Source& source) {
  constexpr int rounds = 12, of_statements = 8;
  Source left = source;
  for (int round = 0; round < rounds; ++round) {
    Diagnostics diagnostics, unheard;
    if (parse(left, diagnostics)) return left.text;
    const std::string was = left.text, without_comments = separate(left, 0, unheard).text;
    for (const Diagnostic& d : diagnostics.all()) {
      if (d.severity != Severity::Error) continue;
      const auto [begin, end] = faulty_part(without_comments, d.span.begin, round >= of_statements);
      std::fill(left.text.begin() + static_cast<std::ptrdiff_t>(begin),
          left.text.begin() + static_cast<std::ptrdiff_t>(std::max(begin, end)), ' ');
    }
    if (left.text == was) break;
  }
  return {};
}

class Loader {
 public:
  Loader(const Find& find, std::vector<Source>& sources, Diagnostics& diagnostics, bool outlines = false)
      : find_(find), sources_(sources), diagnostics_(diagnostics), outlines_(outlines) {}

  std::optional<File> load(const Source& source) {
    const auto number = static_cast<std::uint32_t>(sources_.size());
    sources_.push_back(source);
    open_.push_back(source.name);
    auto file = parse(outlines_ ? Source{source.name, readable(source)} : source, diagnostics_, number);
    if (outlines_ && !file) file.emplace();
    bool whole = file.has_value();
    for (auto& item : file ? file->items : none_)
      if (auto* import = std::get_if<Import>(&item)) whole &= resolve(*import, source);
    open_.pop_back();
    if (file) make_index(*file);
    if (outlines_) return file;
    // A call of what could not be imported is no second fault.
    if (!whole || !check(*file, diagnostics_)) return std::nullopt;
    return file;
  }

 private:
  const Find& find_;
  std::vector<Source>& sources_;
  Diagnostics& diagnostics_;
  const bool outlines_;
  std::vector<std::string> open_;                      // names of the files being read, the outermost first
  FilesByName read_;
  std::vector<std::variant<Import, Dim, Function>> none_;
  std::vector<KeptImport::Asked> asked_;               // imports that were found, to be asked for again
  std::map<std::pair<std::string, std::string>, Found> answers_;  // to (path, importer), not yet made use of

  Found find(const std::string& path, const std::string& importer) {
    const auto known = answers_.extract({path, importer});
    Found found = known ? std::move(known.mapped()) : find_(path, importer);
    if (found.source) asked_.push_back({path, importer, found.source->name});
    return found;
  }

  // What an earlier text was told about this import, where all that it imports in turn is as it was then.
  bool read_before(const Source& source) {
    const auto kept = kept_import(source, static_cast<std::uint32_t>(sources_.size()), read_);
    if (!kept || kept->after.contains(open_.front())) return false;
    const auto text_of = [&](const std::string& name) {
      const auto at = std::ranges::find(kept->sources, name, &Source::name);
      return at == kept->sources.end() ? nullptr : &at->text;
    };
    for (const auto& [path, importer, name] : kept->asked) {
      Found found = find_(path, importer);
      const std::string* text = text_of(name);           // null: read before this import, and asked for there
      const bool is_same = found.source && found.source->name == name && (!text || found.source->text == *text);
      answers_.insert_or_assign({path, importer}, std::move(found));
      if (!is_same) return false;
    }
    answers_.clear();
    asked_.insert(asked_.end(), kept->asked.begin(), kept->asked.end());
    sources_.insert(sources_.end(), kept->sources.begin(), kept->sources.end());
    for (const Diagnostic& each : kept->said) diagnostics_.add(each);
    read_ = kept->after;
    return true;
  }

  // One that the text itself imports is kept: its number and what was read before it are the same in many texts.
  void read_now(const Source& source, bool keeps) {
    KeptImport made{static_cast<std::uint32_t>(sources_.size()), keeps ? read_ : FilesByName(), {}};
    const std::size_t asked = asked_.size(), said = diagnostics_.all().size();
    auto file = load(source);
    read_[source.name] = file ? std::make_shared<const File>(std::move(*file)) : nullptr;
    if (!keeps || !read_[source.name]) return;
    const auto from = [](const auto& all, std::size_t first) {
      return std::vector(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
    };
    made.sources = from(sources_, made.number);
    made.asked = from(asked_, asked);
    made.after = read_;
    made.said = from(diagnostics_.all(), said);
    keep_import(std::move(made));
  }

  bool resolve(Import& import, const Source& importer) {
    const Found found = find(import.path, importer.name);
    if (!found.source) {
      diagnostics_.report(import.span, messages::import_missing, import.path, found.problem);
      return false;
    }
    const auto cycle = std::find(open_.begin(), open_.end(), found.source->name);
    if (cycle != open_.end()) {
      std::string chain;
      for (auto name = cycle; name != open_.end(); ++name) chain += *name + " → ";
      diagnostics_.report(import.span, messages::import_cycle, chain + *cycle)
          .hint("move what both need into a third file");
      return false;
    }
    const auto known = read_.find(found.source->name);
    if (known != read_.end()) {
      import.file = known->second;
      return import.file != nullptr;                    // a faulty one was reported when it was read
    }
    const bool keeps = open_.size() == 1 && !outlines_;
    if (!keeps || !read_before(*found.source)) read_now(*found.source, keeps);
    import.file = read_[found.source->name];
    return import.file != nullptr;
  }
};

// Other statements at fault are left out, so that what they have wrong hides nothing.
std::string without_faulty(const Source& source, const StatementTexts& statements, const std::vector<Diagnostic>& all,
    const StatementText& kept) {
  std::string text = source.text;
  for (const Diagnostic& d : all) {
    const auto other = d.severity == Severity::Error && d.span.source == 0 ? statements.at(d.span.begin) : std::nullopt;
    if (other && other->begin != kept.begin)
      std::fill(text.begin() + static_cast<std::ptrdiff_t>(other->begin),
          text.begin() + static_cast<std::ptrdiff_t>(other->end), ' ');
  }
  return text;
}

// What is wrong with the statement once it is `text`; `import` stands in front of all.
std::optional<Diagnostic> fault_of(const Source& source, const StatementText& statement, const std::string& text,
    const Find& find, const std::string& import = "") {
  std::vector<Source> sources;
  Diagnostics diagnostics;
  static_cast<void>(Loader(find, sources, diagnostics)
          .load({source.name,
              import + source.text.substr(0, statement.begin) + text + source.text.substr(statement.end)}));
  const std::size_t begin = statement.begin + import.size();
  for (const Diagnostic& d : diagnostics.all())
    if (d.severity == Severity::Error && d.code != messages::no_such_value.code && d.span.source == 0 &&
        d.span.begin < begin + text.size() && d.span.end > begin)
      return d;
  return std::nullopt;
}

// `cumsum(X, axis=0)`, `sum(X, keepdims=1)`: said as what another language would have meant by the name.
void said_as_idiom(Diagnostic& said, const Source& source, const StatementText& statement) {
  const bool built_in = said.code == messages::names_of_builtin.code;
  if (!built_in && said.code != messages::unknown_function.code) return;
  const std::size_t equals = source.text.find('=', said.span.end);
  const auto idiom = equals < statement.end ? idiom_at(source.text, statement.begin, equals) : std::nullopt;
  if (!idiom || (!built_in && !idiom->what.starts_with("argument `"))) return;
  Diagnostics made;
  const auto at = [](std::size_t offset) { return static_cast<std::uint32_t>(offset); };
  made.report({at(idiom->shown), at(std::min(idiom->end, source.text.find('\n', idiom->shown))), said.span.source},
          messages::foreign, idiom->what)
      .hint(idiom->hint);
  said = made.all().front();
}

// whole: nothing else need be said of the statement
struct Suggestion { std::vector<std::string> hints; bool whole = false; };

// `source`: without other statements at fault; `text_of_file`: with them, as their names are taken.
std::optional<Suggestion> suggestion(const Diagnostic& said, const std::string& text_of_file, const Source& source,
    const StatementText& statement, const Find& find) {
  // not another language's text
  const bool own_fault = said.code == messages::no_such_value.code || said.code == messages::prefix_unknown.code;
  const auto text = own_fault ? std::nullopt : repaired(text_of_file, statement);
  const std::string own = text ? text->text : source.text.substr(statement.begin, statement.end - statement.begin);
  const auto written = [&](std::string hint) {
    Suggestion made{{std::move(hint)}, true};
    if (text && !text->note.empty()) made.hints.push_back(text->note);
    return made;
  };
  const auto fault = text ? fault_of(source, statement, own, find) : std::optional(said);
  if (!fault) return written(fmt::format("write `{}`", text->text));
  for (const StandardName& each :
      fault->code == messages::unknown_function.code ? standard_names() : std::span<const StandardName>()) {
    const std::string import = fmt::format("import \"std/{}.tile\";", each.file);
    if (fault->message.find(fmt::format("`{}`", each.name)) != std::string::npos &&
        !fault_of(source, statement, own, find, import + "\n"))
      return written(fmt::format(
          "write `{}` in front of the functions{}", import, text ? fmt::format(", and here `{}`", text->text) : ""));
  }
  if (!text) return std::nullopt;
  // What would be wrong next is what has to be told: `Y[i: N] = 0.5 * Y[i - 1] + X[i];`
  const bool deeper = said.code == messages::foreign.code && fault->code == messages::used_early.code;
  return deeper ? std::optional(Suggestion{fault->hints, false}) : std::nullopt;
}

// A statement that another language would take is said once, with what to type in its place.
std::vector<Diagnostic> with_suggestions(std::vector<Diagnostic> all, const Source& source, const Find& find) {
  const StatementTexts statements(source.text);
  std::set<std::size_t> seen;
  for (std::size_t k = 0; k < all.size() && seen.size() < most_suggestions; ++k) {
    if (all[k].severity != Severity::Error || all[k].span.source != 0 || all[k].span.empty()) continue;
    const auto statement = statements.at(all[k].span.begin);
    if (!statement)
      if (const auto heading = heading_at(source.text, all[k].span.begin);
          heading && seen.insert(heading->begin).second)
        if (const auto text = repaired_heading(source.text.substr(heading->begin, heading->end - heading->begin));
            text && !fault_of(source, *heading, *text, find))
          all[k].hints = {fmt::format("write `{}`", *text)};
    if (!statement || !seen.insert(statement->begin).second) continue;
    said_as_idiom(all[k], source, *statement);
    const auto found = suggestion(
        all[k], source.text, {source.name, without_faulty(source, statements, all, *statement)}, *statement, find);
    if (!found) continue;
    all[k].hints = found->hints;
    if (!found->whole) continue;
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(k);
    all.erase(std::remove_if(first + 1, all.end(),
                  [&](const Diagnostic& d) {
                    return d.severity == Severity::Error && d.span.source == 0 && d.span.begin >= statement->begin &&
                        d.span.end <= statement->end;
                  }),
        all.end());
  }
  return all;
}

}  // namespace

std::optional<File> load(
    const Source& source, const Find& find, std::vector<Source>& sources, Diagnostics& diagnostics) {
  Diagnostics found;
  std::optional<File> file = Loader(find, sources, found).load(source);
  const bool suggests = found.has_errors() && source.text.size() < largest_suggested;
  for (const Diagnostic& each : suggests ? with_suggestions(found.all(), source, find) : found.all())
    diagnostics.add(each);
  return file;
}

File outline(const Source& source, const Find& find, std::vector<Source>& sources) {
  Diagnostics unheard;
  std::optional<File> file = Loader(find, sources, unheard, true).load(source);
  return file ? std::move(*file) : File{};
}

}  // namespace tilec::lang
