// Reads a file item by item and statement by statement, by the rules of lang/grammar/. Of text that fits none of them
// it says what was expected where the parse got furthest, or what another language would have meant.

#include "lang/parse.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "lang/grammar/progress.h"
#include "lang/idiom.h"
#include "lang/lexis.h"
#include "lang/messages.h"
#include "lang/nearest.h"

namespace tilec::lang {
namespace grammar {

// Takes items and statements one by one, so recovery is a loop: report, skip, go on.
class Driver {
 public:
  Driver(const Source& source, std::uint32_t number, Diagnostics& diagnostics)
      : number_(number),
        diagnostics_(diagnostics),
        lexis_(separate(source, number, diagnostics)),
        original_(source.text) {
    begin_ = at_ = lexis_.text.data();
    end_ = begin_ + lexis_.text.size();
  }

  File run() {
    File file;
    while (skip(), at_ != end_ && errors_ < max_errors) {
      if (*at_ == '}' && errors_ > 0) {                // recovery may have left a function early
        ++at_;
        continue;
      }
      Item next;
      if (take(next)) {
        if (Function* function = std::get_if<Function>(&next.node)) statements(*function);
        file.items.push_back(std::move(next.node));
      } else if (!recover(true)) {
        Function unread;                               // its heading is wrong; its statements may show more errors
        statements(unread);
      }
    }
    file.trivia = std::move(lexis_.trivia);
    prefixes_known(file);
    return file;
  }

 private:
  static constexpr int max_errors = 50;
  std::uint32_t number_;
  Diagnostics& diagnostics_;
  Lexis lexis_;
  std::string_view original_;
  It begin_, at_, end_;
  std::uint32_t statement_begin_ = 0;                  // or of an item's heading
  int errors_ = 0;
  bool whole_ = false;                                 // the last statement lacked its `;` only
  // by place: what is called by `loss.mean`, and where its statement begins
  std::map<std::uint32_t, std::pair<Name, std::uint32_t>> prefixed_;

  std::string_view text() const { return lexis_.text; }
  Span span(It from, It to) const {
    return {static_cast<std::uint32_t>(from - begin_), static_cast<std::uint32_t>(to - begin_), number_};
  }
  void skip() { while (at_ != end_ && is_blank(*at_)) ++at_; }

  void statements(Function& function) {
    const It body = at_ - 1;
    while (skip(), at_ != end_ && *at_ != '}' && errors_ < max_errors) {
      Statement next;
      if (!take(next)) recover(false);
      else if (!next.attributes.empty() || !std::holds_alternative<std::monostate>(next.node))
        function.statements.push_back(std::move(next));
    }
    if (errors_ >= max_errors) return;
    if (at_ != end_) ++at_;
    else error(end_, "`}`");
    function.body = span(body, at_);
    function.span.end = function.body.end;
  }

  // One of them at the current place; reports why not.
  template <class T> bool take(T& out) {
    Progress progress{begin_, number_, at_, {}, 0, 0, {}, {}};
    statement_begin_ = static_cast<std::uint32_t>(at_ - begin_);
    It at = at_;
    try {
      if (read(progress, at, end_, out)) {
        for (std::size_t n = 0; n < std::min<std::size_t>(progress.warnings.size(), max_errors); ++n)
          warn(progress.warnings[n]);
        for (const Name& each : progress.prefixed)
          prefixed_.emplace(each.span.begin, std::pair(each, statement_begin_));
        at_ = at;
        return true;
      }
      failure(progress);
    } catch (const Failed&) {
      failure(progress);
    } catch (const TooDeep& deep) {
      ++errors_;
      at_ = deep.at;
      skip();
      diagnostics_.report(span(at_, at_ + (at_ != end_)), messages::too_deep, deep.limit, deep.what)
          .hint("give a part a name of its own: `T = …;`");
    } catch (const Chained& chained) {
      ++errors_;
      at_ = begin_ + chained.span.begin;
      diagnostics_.report(chained.span, messages::chained_comparison, info(chained.op).symbol)
          .hint("write `(a < b) & (b < c)`, or `(a < b) == c`");
    }
    return false;
  }

  void warn(const Diagnostic& warning) {
    if (warning.message == "xor")
      diagnostics_.report(warning.span, messages::mixed_xor).hint("write `a ^ (b | c)` or `(a ^ b) | c`");
    else diagnostics_.report(warning.span, messages::nested_select).hint("write the parentheses that are meant");
  }

  // `loss.mean` where no import is called `loss`: a slip, an import that is missing, or another language's module.
  void prefixes_known(const File& file) {
    const bool whole = errors_ == 0;                   // else an import may have been among what was not read
    std::vector<std::string> known;
    for (const Name& each : prefixes(file)) {
      if (std::find(known.begin(), known.end(), each.text) != known.end())
        diagnostics_.report(each.span, messages::prefix_twice, each.text).hint("choose another name for one of them");
      known.push_back(each.text);
    }
    for (const auto& [begin, each] : prefixed_) {
      const auto& [name, statement] = each;
      const Prefixed parts = *prefixed(name);
      if (errors_ >= max_errors || std::find(known.begin(), known.end(), parts.prefix) != known.end()) continue;
      ++errors_;
      const std::uint32_t dot = begin + static_cast<std::uint32_t>(parts.prefix.size());
      const auto all = standard_names();
      const bool standard = std::any_of(all.begin(), all.end(),
          [&](const StandardName& s) { return s.file == parts.prefix && s.name == parts.name.text; });
      const auto near = nearest(parts.prefix, known);
      const auto idiom = near || standard ? std::nullopt : idiom_at(original_, statement, dot);
      if (idiom) {
        diagnostics_
            .report(span(begin_ + idiom->shown, begin_ + std::min(idiom->end, line_end(idiom->shown))),
                messages::foreign, idiom->what)
            .hint(idiom->hint);
        continue;
      }
      if (!whole) continue;
      auto entry = diagnostics_.report({begin, dot, number_}, messages::prefix_unknown, parts.prefix);
      if (near) entry.hint(fmt::format("did you mean `{}`?", *near));
      else if (standard)
        entry.hint(fmt::format("write `import \"std/{0}.tile\" as {0};` in front of the functions", parts.prefix));
      else
        entry.hint(fmt::format("an import gives its functions a prefix: `import \"FILE.tile\" as {};`", parts.prefix));
    }
  }

  void failure(const Progress& progress) {
    std::string expected;
    const std::size_t count = progress.expected.size();
    for (std::size_t i = 0; i < count; ++i)
      expected.append(i == 0 ? "" : i + 1 == count ? " or " : ", ").append(progress.expected[i]);
    at_ = progress.furthest;
    error(progress.furthest, expected);
  }

  void error(It where, const std::string& expected) {
    ++errors_;
    while (where != end_ && is_blank(*where)) ++where;
    const std::size_t offset = static_cast<std::size_t>(where - begin_),
                      end = where == end_ ? offset : token_end(text(), offset);
    for (const Span& fault : lexis_.faults)            // what was reported there is why
      if (statement_begin_ <= fault.begin && fault.begin <= offset) return;
    const std::string seen = where == end_
        ? "the end of the file"
        : fmt::format("`{}`", text().substr(offset, std::min<std::size_t>(end - offset, 40)));
    const auto keyword = nearest(text().substr(offset, end - offset), {"function", "import", "gradient", "tangent"});
    if (keyword && expected.find("`function`") != std::string::npos) {
      diagnostics_.report(span(where, begin_ + end), messages::syntax, expected, seen)
          .hint(fmt::format("did you mean `{}`?", *keyword));
      return;
    }
    if (const auto idiom = idiom_at(original_, statement_begin_, offset, expected)) return foreign(*idiom);
    It after = where;                                  // the end of the token before
    while (after != begin_ && is_blank(after[-1])) --after;
    const bool ends = where == end_ || *where == '}' || std::find(after, where, '\n') != where;
    if (ends && after != begin_ && expected.find("`;`") != std::string::npos)
      return missing_semicolon(after, where, seen);
    auto entry = diagnostics_.report(span(where, begin_ + end), messages::syntax, expected, seen);
    if (where != end_ && *where == '}' && expected.find("`function`") != std::string::npos)
      entry.hint("there is a `}` too many");
    if (text().substr(offset).starts_with(">")) entry.hint("write `p >= e + 1` for `p > e`");
    if (expected.starts_with("an expression") && offset > 0 && where != end_ && *where == ')')
      entry.hint("something is missing in front of the `)`");
  }

  // What another language would have meant. Reading goes on behind it, and behind the condition of an `if` or a `for`.
  void foreign(const Recognised& idiom) {
    diagnostics_
        .report(span(begin_ + idiom.shown, begin_ + std::min(idiom.end, line_end(idiom.shown))), messages::foreign,
            idiom.what)
        .hint(idiom.hint);
    if (original_[idiom.begin] == '#') {
      at_ = begin_ + line_end(idiom.begin);
      whole_ = true;
      return;
    }
    It next = begin_ + idiom.end;
    while (next != end_ && is_blank(*next)) ++next;
    if (idiom.begin == statement_begin_ && next != end_ && *next == '(')
      if (const It close = balanced_end(next, '(', ')'); close != end_) at_ = std::max(at_, close);
    const It block = idiom.is_item ? std::find(next, end_, '{') : end_;
    if (block != end_ && std::find(next, block, ';') == block) at_ = balanced_end(block, '{', '}');
    whole_ = block != end_;
  }

  // The rest of the file is read as if it were there.
  void missing_semicolon(It after, It where, const std::string& seen) {
    const std::string_view statement =
        text().substr(statement_begin_, static_cast<std::size_t>(after - begin_) - statement_begin_);
    auto entry = diagnostics_.report(span(after - 1, after), messages::missing_semicolon, seen);
    if (statement.size() <= 60 && statement.find('\n') == std::string_view::npos)
      entry.hint(fmt::format("write `{};`", statement));
    at_ = where;
    whole_ = true;
  }

  std::size_t line_end(std::size_t offset) const { return std::min(original_.find('\n', offset), original_.size()); }

  // Behind the bracket that closes the one at `at`; the end of the file when none does.
  It balanced_end(It at, char open_bracket, char close_bracket) const {
    int depth = 0;
    for (; at != end_; ++at) {
      if (*at == open_bracket) ++depth;
      if (*at == close_bracket && --depth == 0) return at + 1;
    }
    return end_;
  }

  // Goes to where reading can go on: behind the next `;` or in front of the next `}`; between items, behind that `}`.
  // There it returns false if a `{` came first, and stands behind it. In a function it skips `{ … }`, another
  // language's block, and an `else` with it.
  bool recover(bool between_items) {
    if (std::exchange(whole_, false)) return true;
    for (; at_ != end_; ++at_) {
      if (*at_ == '"') at_ = begin_ + token_end(text(), static_cast<std::size_t>(at_ - begin_)) - 1;
      else if (*at_ == ';') return ++at_, true;
      else if (*at_ == '}') return at_ += between_items, true;
      else if (*at_ == '{' && between_items) return ++at_, false;
      else if (*at_ == '{') {
        at_ = balanced_end(at_, '{', '}');
        skip();
        if (!text().substr(static_cast<std::size_t>(at_ - begin_)).starts_with("else")) return true;
      }
    }
    return true;
  }
};

// Bytes of another kind of file, which would be an error each.
struct Binary { std::string what; std::string_view hint; };
std::optional<Binary> not_text(std::string_view text, const std::string& name) {
  const std::string it = name.empty() || name[0] == '<' ? "it" : fmt::format("`{}`", name);
  constexpr std::string_view an_input = "an array is an input of a program: `tilec run PROGRAM.tile X=FILE`";
  if (text.starts_with("\x93NUMPY")) return Binary{it + " is a NumPy array", an_input};
  if (text.starts_with("PK\x03\x04")) return Binary{it + " is a ZIP archive, as `.npz` files are", an_input};
  if (text.starts_with("\x7f"
                       "ELF"))
    return Binary{it + " is a compiled file", "name the file of Tile that it was made of"};
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return Binary{it + " is text in UTF-16", "save it as UTF-8"};
  const std::size_t zero = text.find('\0');
  if (zero == std::string_view::npos) return std::nullopt;
  return Binary{fmt::format("byte {} is 0, so {} is no text", zero, it),
      "take the byte out, or, if the file is of another kind, name one of Tile"};
}

}  // namespace grammar

std::optional<File> parse(const Source& source, Diagnostics& diagnostics, std::uint32_t number) {
  if (source.text.size() >= std::numeric_limits<std::uint32_t>::max()) {
    diagnostics.report({0, 0, number}, messages::syntax, "a program of less than 4 GiB", "more");
    return std::nullopt;
  }
  if (const auto binary = grammar::not_text(source.text, source.name)) {
    diagnostics.report({0, 0, number}, messages::not_text, binary->what).hint(std::string(binary->hint));
    return std::nullopt;
  }
  Diagnostics found;                                   // characters first, then the grammar: shown in the order of the
                                                       // text
  File file = grammar::Driver(source, number, found).run();
  std::vector<Diagnostic> sorted = found.all();
  std::stable_sort(sorted.begin(), sorted.end(),
      [](const Diagnostic& a, const Diagnostic& b) { return a.span.begin < b.span.begin; });
  for (Diagnostic& diagnostic : sorted) diagnostics.add(std::move(diagnostic));
  if (found.has_errors()) return std::nullopt;
  make_index(file);
  return file;
}

}  // namespace tilec::lang
