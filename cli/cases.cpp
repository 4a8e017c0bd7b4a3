// A block is read from a copy of the source in which all else is blank: positions stay what they are in the file, and
// values may run over several lines without a thought for the `//` in between.

#include "cli/cases.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <regex>

#include "cli/arguments.h"
#include "lang/lexis.h"
#include "lang/messages.h"
#include "lang/nearest.h"

namespace tilec::cli {

namespace {

namespace messages = lang::messages;
using lang::Span;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '\''; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

constexpr const char* starts =
    "a line of a case begins with `name:`, `function:`, `define:`, `input`, `random input`, `output`, `gradient`, `tangent`, `within`, `check`, `gradcheck`, `error:`, `warning:` or `#`";

// resumes: reading goes on where it stands
struct Malformed { Span span; std::string expected, hint; bool resumes = false; };

// The words of one block, from `at_` on. Throws Malformed.
class Words {
 public:
  Words(std::string text, std::size_t begin) : text_(std::move(text)), at_(begin) {}

 protected:
  static Span span(std::size_t begin, std::size_t end) {
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), 0};
  }
  char now() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool at_end() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    return at_ >= text_.size();
  }
  void blanks() {                                        // of this line
    while (now() == ' ' || now() == '\t') ++at_;
  }
  std::string seen(Span where) const {
    if (where.begin >= text_.size()) return "nothing more is written";
    const std::string word = text_.substr(where.begin, where.end - where.begin);
    return word.empty() || is_blank(word[0]) ? "the line ends" : fmt::format("`{}` is written", word);
  }
  [[noreturn]] void expected(const std::string& what, const std::string& hint = {}) const {
    std::size_t end = at_;
    while (end < text_.size() && !is_blank(text_[end])) ++end;
    throw Malformed{span(at_, std::max(end, at_ + 1)), what, hint};
  }

  std::string word() {
    const std::size_t begin = at_;
    if (is_letter(now()))
      while (is_word(now())) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::string name(const char* what) {
    blanks();
    std::string result = word();
    if (result.empty()) expected(what);
    return result;
  }
  std::vector<std::string> names(const char* what) {
    std::vector<std::string> result{name(what)};
    for (blanks(); now() == ','; blanks()) ++at_, result.push_back(name(what));
    return result;
  }
  void expect(char c, const char* what) {
    blanks();
    if (now() != c) expected(what);
    ++at_;
  }
  // The rest of the line, without blanks around it.
  Pattern rest() {
    blanks();
    const std::size_t begin = at_;
    at_ = std::min(text_.find('\n', at_), text_.size());
    std::size_t end = at_;
    while (end > begin && is_blank(text_[end - 1])) --end;
    return {text_.substr(begin, end - begin), span(begin, std::max(end, begin + 1))};
  }
  double number(const char* what) {
    blanks();
    double value = 0;
    const auto [end, fault] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (fault != std::errc()) expected(what);
    at_ = static_cast<std::size_t>(end - text_.data());
    if (now() != '\0' && !is_blank(now()) && now() != ',') expected("a blank behind the number");
    return value;
  }

  // One value: up to a blank outside of brackets, unless more brackets follow. `"a file.npy"` may hold anything.
  std::string value() {
    std::string result;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = now();
      if (c == '"') {
        const std::size_t close = text_.find_first_of("\"\n", at_ + 1);
        if (close == std::string::npos || text_[close] == '\n') expected("a closing `\"` on this line");
        result += text_.substr(at_ + 1, close - at_ - 1);
        at_ = close + 1;
        continue;
      }
      if (depth == 0 && c == '}') break;
      if (depth == 0 && is_blank(c)) {
        std::size_t next = at_;
        while (next < text_.size() && is_blank(text_[next])) ++next;
        if (next >= text_.size() || text_[next] != '[') break;
        at_ = next;
        continue;
      }
      depth += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (depth < 0) expected("a `[` before this `]`");
      if (depth > 0 && (c == '}' || c == '=')) expected("`]` behind the elements");
      result += c == '\n' ? ' ' : c;
      ++at_;
    }
    if (!result.empty() && result.back() == ',') result.pop_back();
    return result;
  }

  std::string text_;
  std::size_t at_;
};

// The cases of one block.
class Reader : Words {
 public:
  Reader(std::string text, std::size_t begin, std::optional<std::string> function)
      : Words(std::move(text), begin), touched_(function), function_(std::move(function)) {}

  std::vector<Case> run(lang::Diagnostics& diagnostics) {
    while (!at_end()) {
      try {
        while (!at_end()) step();
        step_begin_ = at_;
        close();
      } catch (const Malformed& fault) {
        auto entry = diagnostics.report(fault.span, messages::malformed_case, fault.expected, seen(fault.span));
        if (!fault.hint.empty()) entry.hint(fault.hint);
        current_.reset();
        if (!fault.resumes) skip_to_next_case();
      }
    }
    return std::move(cases_);
  }

 private:
  // { NAME=VALUE … }
  std::vector<CaseValue> values(bool random) {
    std::vector<CaseValue> result;
    const std::size_t open = at_;
    expect('{', "`{`");
    while (!at_end() && now() != '}') {
      const std::size_t begin = at_;
      CaseValue one{name("NAME=VALUE or `}`"), {}, {}};
      blanks();
      if (now() == ':') throw Malformed{span(open, open + 1), "`}` that closes this `{`", {}};
      expect('=', "`=` and a value");
      one.value = value();
      one.span = span(begin, at_);
      if (one.value.empty()) expected("a value");
      if (random && is_form(one.value.substr(0, one.value.find(':')))) one.value = "random:" + one.value;
      if (std::ranges::count(result, one.name, &CaseValue::name) > 0)
        throw Malformed{one.span, fmt::format("one value of `{}`", one.name), {}};
      result.push_back(std::move(one));
    }
    if (now() != '}') throw Malformed{span(open, open + 1), "`}` that closes this `{`", {}};
    ++at_;
    return result;
  }

  Case& open(std::size_t begin) {
    if (!current_) {
      current_.emplace();
      std::size_t end = at_;
      while (end > begin + 1 && is_blank(text_[end - 1])) --end;
      current_->span = span(begin, end);
      current_->function = function_;
      current_->defines = defines_;
    }
    return *current_;
  }
  // A case that demands nothing could not fail.
  void close() {
    if (!current_) return;
    Case done = *std::exchange(current_, std::nullopt);
    const auto refuse = [&](Span where, const std::string& what, const std::string& hint) {
      at_ = step_begin_;                                 // what stands here begins the next case
      throw Malformed{where, what, hint, true};
    };
    const bool compares = !done.outputs.empty() || done.check || done.derives();
    if (!compares && !done.error && !done.warning)
      refuse(done.span, "`output`, `gradient`, `tangent`, `check`, `gradcheck`, `error:` or `warning:` in this case",
          "a case that demands nothing cannot fail");
    if (done.error &&
        (!done.outputs.empty() || !done.gradients.empty() || !done.tangents.empty() || done.check || done.within))
      refuse(done.error->span, "no result beside `error:`", "what must not compile has none");
    if ((!done.of.empty() || !done.wrt.empty()) && !done.derives())
      refuse(done.span, "`gradcheck` beside `wrt` or `of`", {});
    if (compares && !done.called && !done.error)
      refuse(done.span, "`input { … }` or `random input { … }` in this case",
          "a function without inputs takes `input { }`");
    for (std::vector<codegen::Derivative>& derivatives : done.gradchecks)
      derivatives.front().of = done.of, derivatives.front().wrt = done.wrt;
    cases_.push_back(std::move(done));
  }
  void begin_inputs(std::size_t begin, bool random) {
    if (current_ && current_->called) close();
    Case& one = open(begin);
    one.called = true;
    one.random = random;
    one.inputs = values(random);
  }

  void step() {
    const std::size_t begin = step_begin_ = at_;
    if (now() == '#') return void(rest());
    if (text_.compare(at_, 2, "==") == 0 && rest().text == "==") {  // another block
      close();
      function_ = touched_;
      defines_.clear();
      return;
    }
    at_ = begin;
    const std::string first = word();
    blanks();
    if (now() == ':') return setting(first, begin);
    if (first == "input") return begin_inputs(begin, false);
    if (first == "random") {
      if (word() != "input") expected("`input` behind `random`");
      return begin_inputs(begin, true);
    }
    if (first == "output" || first == "gradient" || first == "tangent") return results(open(begin), first, begin);
    if (first == "within") open(begin).within = number("a number such as `1e-5`");
    else if (first == "check") open(begin).check = true;
    else if (first == "gradcheck") open(begin).gradchecks.emplace_back(1);
    else if (first == "forward" || first == "second") derivative_check(first, begin);
    else if (first == "wrt") open(begin).wrt = names("the name of an input");
    else if (first == "of") open(begin).of = names("the name of an output");
    else wrong_start(first, begin);
  }
  void results(Case& one, const std::string& kind, std::size_t begin) {
    std::vector<CaseValue>& list = kind == "output" ? one.outputs : kind == "gradient" ? one.gradients : one.tangents;
    if (!list.empty()) throw Malformed{span(begin, begin + kind.size()), fmt::format("one `{}` in a case", kind), {}};
    list = values(false);
    if (list.empty())
      throw Malformed{span(begin, at_), fmt::format("the name and value of a result in `{} {{ }}`", kind), {}};
  }
  void derivative_check(const std::string& kind, std::size_t begin) {
    if (word() != "gradcheck") expected(fmt::format("`gradcheck` behind `{}`", kind));
    if (kind == "forward") open(begin).gradchecks.push_back({{.forward = true, .of = {}, .wrt = {}}});
    else open(begin).gradchecks.emplace_back(2);         // the gradient's own gradient
  }
  [[noreturn]] void wrong_start(const std::string& first, std::size_t begin) {
    at_ = begin;
    const std::optional<std::string> near = lang::nearest(first,
        {"name", "function", "define", "input", "random", "output", "gradient", "tangent", "within", "check",
            "gradcheck", "forward", "second", "wrt", "of", "error", "warning"});
    expected("a part of a case", near ? fmt::format("did you mean `{}`?", *near) : starts);
  }

  // name: function: define: error: warning:
  void setting(const std::string& first, std::size_t begin) {
    ++at_;
    if (first == "name") {
      close();
      open(begin).name = rest().text;
      if (current_->name.empty()) expected("a name");
    } else if (first == "function") {
      close();
      function_ = name("the name of a function");
    } else if (first == "define") {
      define();
    } else if (first == "error" || first == "warning") {
      (first == "error" ? open(begin).error : open(begin).warning) = pattern();
    } else {
      wrong_start(first, begin);
    }
  }
  // A=1, F=relu
  void define() {
    close();
    defines_.clear();
    do {
      blanks();
      if (now() == ',') ++at_;
      std::string key = name("NAME=NUMBER or NAME=FUNCTION");
      expect('=', "`=` and a number, or the name of a function or an aggregation");
      blanks();
      if (is_letter(now())) defines_.push_back({std::move(key), word()});
      else defines_.push_back({std::move(key), number("a number, or the name of a function or an aggregation")});
      blanks();
    } while (now() == ',');
  }
  Pattern pattern() {
    Pattern result = rest();
    if (result.text.empty()) throw Malformed{result.span, "a regular expression, such as `E0201 .*rank`", {}};
    try {
      static_cast<void>(std::regex(result.text));
    } catch (const std::regex_error& fault) {
      throw Malformed{result.span, "a regular expression", fault.what()};
    }
    return result;
  }

  void skip_to_next_case() {
    static const std::regex next("\n[ \t]*(name:|input|random|function:|==)");
    std::smatch found;
    const std::string left = text_.substr(std::min(at_, text_.size()));
    at_ = std::regex_search(left, found, next) ? at_ + static_cast<std::size_t>(found.position(0)) : text_.size();
  }

  std::size_t step_begin_ = 0;
  std::optional<std::string> touched_, function_;
  std::vector<poly::Define> defines_;
  std::optional<Case> current_;
  std::vector<Case> cases_;
};

// Lines of `//` that follow one another, each alone on its line.
struct Run { std::vector<Span> lines; };

std::vector<Run> comment_runs(const lang::Source& source) {
  lang::Diagnostics ignored;
  std::vector<Run> runs;
  std::uint32_t last_line_end = 0;
  for (const lang::Trivia& trivia : lang::separate(source, 0, ignored).trivia) {
    if (!trivia.own_line || !trivia.text.starts_with("//")) continue;
    const std::string_view between =
        std::string_view(source.text).substr(last_line_end, trivia.span.begin - last_line_end);
    const bool follows = !runs.empty() && std::ranges::count(between, '\n') == 1 &&
        between.find_first_not_of(" \t\r\n") == std::string_view::npos;
    if (!follows) runs.emplace_back();
    runs.back().lines.push_back(trivia.span);
    last_line_end = trivia.span.end;
  }
  return runs;
}

// Only blanks and one line's end lie between.
bool touches(const lang::Source& source, std::uint32_t end, std::uint32_t begin) {
  if (begin < end) return false;
  const std::string_view between = std::string_view(source.text).substr(end, begin - end);
  return std::ranges::count(between, '\n') == 1 && between.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// The function that follows without a blank line, else the last one before, else the first.
const lang::Function* touched(const lang::Source& source, const lang::File& file, const Run& run) {
  const lang::Function *before = nullptr, *first = nullptr;
  for (const auto& item : file.items) {
    const auto* function = std::get_if<lang::Function>(&item);
    if (function == nullptr || function->span.source != 0 || function->role != lang::Function::Role::Function) continue;
    if (touches(source, run.lines.back().end, function->span.begin)) return function;
    if (first == nullptr) first = function;
    if (function->span.end <= run.lines.front().begin) before = function;
  }
  return before != nullptr ? before : first;
}

// All of the text but what stands behind `//` in these lines is blank.
std::string only(const lang::Source& source, const Run& run, std::size_t first) {
  std::string text(run.lines.back().end, ' ');
  for (std::size_t k = first; k < run.lines.size(); ++k) {
    const Span line = run.lines[k];
    for (std::uint32_t at = line.begin + 2; at < line.end; ++at)
      text[at] = source.text[at] == '\r' ? ' ' : source.text[at];
    if (k > first) text[run.lines[k].begin] = '\n';
  }
  return text;
}

bool begins_block(const lang::Source& source, Span line) {
  const std::string_view text = std::string_view(source.text).substr(line.begin + 2, line.end - line.begin - 2);
  const auto begin = text.find_first_not_of(" \t");
  return begin != std::string_view::npos && text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin) == "==";
}

}  // namespace

std::vector<Case> read_cases(const lang::Source& source, const lang::File* file, lang::Diagnostics& diagnostics) {
  std::vector<Case> cases;
  for (const Run& run : comment_runs(source)) {
    const auto first = std::ranges::find_if(run.lines, [&](Span line) { return begins_block(source, line); });
    if (first == run.lines.end()) continue;
    const lang::Function* function = file != nullptr ? touched(source, *file, run) : nullptr;
    const std::optional<std::string> name =
        function != nullptr && function->name ? std::optional(function->name->text) : std::nullopt;
    const std::size_t k = static_cast<std::size_t>(first - run.lines.begin());
    for (Case& one : Reader(only(source, run, k), first->begin, name).run(diagnostics)) cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace tilec::cli
