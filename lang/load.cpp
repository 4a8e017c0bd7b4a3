#include "lang/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/check.h"
#include "lang/idiom.h"
#include "lang/lexis.h"
#include "lang/messages.h"
#include "lang/parse.h"
#include "lang/repair.h"

namespace tilec::lang {
namespace {

constexpr std::size_t most_suggestions = 20, largest_suggested = 100'000;  // each reads the text once more

// Without what has no tree: the statements and headings at fault are blanks, and where that does not do their functions.
std::string readable(const Source& source) {
  constexpr int rounds = 8, of_statements = 5;
  Source left = source;
  const auto blank = [&](std::size_t begin, std::size_t end) { std::fill(left.text.begin() + static_cast<std::ptrdiff_t>(begin), left.text.begin() + static_cast<std::ptrdiff_t>(std::max(begin, std::min(end, left.text.size()))), ' '); };
  for (int round = 0; round < rounds; ++round) {
    Diagnostics diagnostics;
    if (parse(left, diagnostics)) return left.text;
    const StatementTexts statements(left.text);
    Diagnostics unheard;
    const std::string was = left.text, before = separate(left, 0, unheard).text;  // no brace of a comment is one
    for (const Diagnostic& d : diagnostics.all()) {
      if (d.severity != Severity::Error) continue;
      const auto statement = round < of_statements ? statements.at(d.span.begin) : std::nullopt;
      if (statement) {
        blank(statement->begin, statement->end);
        continue;
      }
      // An unfinished statement in front of a `}`, on a line of its own; else all from the heading to its `}`.
      const std::size_t at = std::min<std::size_t>(d.span.begin, left.text.size()), open = before.rfind('{', at), close = before.rfind('}', at == 0 ? 0 : at - 1);
      const std::size_t end = before.find_last_not_of(" \t\r\n", at == 0 ? 0 : at - 1), last = end == std::string::npos ? 0 : end;
      const bool in_body = open != std::string::npos && (close == std::string::npos || close < open);
      if (in_body && round < of_statements) {
        const std::size_t begin = before.find_last_of(";{", before[last] == ';' && last > 0 ? last - 1 : last);
        blank(begin == std::string::npos ? 0 : begin + 1, std::min(before.find_first_of(";}", at), before.size()));
        if (at < before.size() && before[at] == ';') blank(at, at + 1);
        continue;
      }
      const std::size_t heading = before.rfind("function", at), closing = before.find('}', at);
      if (heading == std::string::npos || !in_body) {
        const std::size_t line = at == 0 ? 0 : before.rfind('\n', at - 1) + 1;
        blank(line, before.find('\n', at));
        if (round < 2) continue;
      }
      blank(heading == std::string::npos ? 0 : heading, closing == std::string::npos ? before.size() : closing + 1);
    }
    if (left.text == was) break;
  }
  return {};
}

class Loader {
 public:
  Loader(const Find& find, std::vector<Source>& sources, Diagnostics& diagnostics, bool outlines = false) : find_(find), sources_(sources), diagnostics_(diagnostics), outlines_(outlines) {}

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
  std::map<std::string, std::shared_ptr<const File>> read_;
  std::vector<std::variant<Import, Dim, Function>> none_;

  bool resolve(Import& import, const Source& importer) {
    const Found found = find_(import.path, importer.name);
    if (!found.source) {
      diagnostics_.report(import.span, messages::import_missing, import.path, found.problem);
      return false;
    }
    const auto cycle = std::find(open_.begin(), open_.end(), found.source->name);
    if (cycle != open_.end()) {
      std::string chain;
      for (auto name = cycle; name != open_.end(); ++name) chain += *name + " → ";
      diagnostics_.report(import.span, messages::import_cycle, chain + *cycle).hint("move what both need into a third file");
      return false;
    }
    const auto known = read_.find(found.source->name);
    if (known != read_.end()) {
      import.file = known->second;
      return import.file != nullptr;                    // a faulty one was reported when it was read
    }
    auto file = load(*found.source);
    import.file = file ? std::make_shared<const File>(std::move(*file)) : nullptr;
    read_[found.source->name] = import.file;
    return import.file != nullptr;
  }
};

// Other statements at fault are left out, so that what they have wrong hides nothing.
std::string without_faulty(const Source& source, const StatementTexts& statements, const std::vector<Diagnostic>& all, const StatementText& kept) {
  std::string text = source.text;
  for (const Diagnostic& d : all) {
    const auto other = d.severity == Severity::Error && d.span.source == 0 ? statements.at(d.span.begin) : std::nullopt;
    if (other && other->begin != kept.begin) std::fill(text.begin() + static_cast<std::ptrdiff_t>(other->begin), text.begin() + static_cast<std::ptrdiff_t>(other->end), ' ');
  }
  return text;
}

// What is wrong with the statement once it is `text`; `import` stands in front of all.
std::optional<Diagnostic> fault_of(const Source& source, const StatementText& statement, const std::string& text, const Find& find, const std::string& import = "") {
  std::vector<Source> sources;
  Diagnostics diagnostics;
  static_cast<void>(Loader(find, sources, diagnostics).load({source.name, import + source.text.substr(0, statement.begin) + text + source.text.substr(statement.end)}));
  const std::size_t begin = statement.begin + import.size();
  for (const Diagnostic& d : diagnostics.all())
    if (d.severity == Severity::Error && d.code != messages::no_such_value.code && d.span.source == 0 && d.span.begin < begin + text.size() && d.span.end > begin) return d;
  return std::nullopt;
}

struct Suggestion { std::vector<std::string> hints; bool whole = false; };  // whole: nothing else need be said of the statement

// `source`: without other statements at fault; `text_of_file`: with them, as their names are taken.
std::optional<Suggestion> suggestion(const Diagnostic& said, const std::string& text_of_file, const Source& source, const StatementText& statement, const Find& find) {
  const auto text = said.code == messages::no_such_value.code ? std::nullopt : repaired(text_of_file, statement);
  const std::string own = text ? text->text : source.text.substr(statement.begin, statement.end - statement.begin);
  const auto written = [&](std::string hint) {
    Suggestion made{{std::move(hint)}, true};
    if (text && !text->note.empty()) made.hints.push_back(text->note);
    return made;
  };
  const auto fault = text ? fault_of(source, statement, own, find) : std::optional(said);
  if (!fault) return written(fmt::format("write `{}`", text->text));
  for (const StandardName& each : fault->code == messages::unknown_function.code ? standard_names() : std::span<const StandardName>()) {
    const std::string import = fmt::format("import \"std/{}.tile\";", each.file);
    if (fault->message.find(fmt::format("`{}`", each.name)) != std::string::npos && !fault_of(source, statement, own, find, import + "\n"))
      return written(fmt::format("write `{}` in front of the functions{}", import, text ? fmt::format(", and here `{}`", text->text) : ""));
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
      if (const auto heading = heading_at(source.text, all[k].span.begin); heading && seen.insert(heading->begin).second)
        if (const auto text = repaired_heading(source.text.substr(heading->begin, heading->end - heading->begin)); text && !fault_of(source, *heading, *text, find)) all[k].hints = {fmt::format("write `{}`", *text)};
    if (!statement || !seen.insert(statement->begin).second) continue;
    const auto found = suggestion(all[k], source.text, {source.name, without_faulty(source, statements, all, *statement)}, *statement, find);
    if (!found) continue;
    all[k].hints = found->hints;
    if (!found->whole) continue;
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(k);
    all.erase(std::remove_if(first + 1, all.end(), [&](const Diagnostic& d) {
      return d.severity == Severity::Error && d.span.source == 0 && d.span.begin >= statement->begin && d.span.end <= statement->end;
    }), all.end());
  }
  return all;
}

}  // namespace

std::optional<File> load(const Source& source, const Find& find, std::vector<Source>& sources, Diagnostics& diagnostics) {
  Diagnostics found;
  std::optional<File> file = Loader(find, sources, found).load(source);
  const bool suggests = found.has_errors() && source.text.size() < largest_suggested;
  for (const Diagnostic& each : suggests ? with_suggestions(found.all(), source, find) : found.all()) diagnostics.add(each);
  return file;
}

File outline(const Source& source, const Find& find, std::vector<Source>& sources) {
  Diagnostics unheard;
  std::optional<File> file = Loader(find, sources, unheard, true).load(source);
  return file ? std::move(*file) : File{};
}

}  // namespace tilec::lang
