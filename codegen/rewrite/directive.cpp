#include "codegen/rewrite/directive.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "codegen/rewrite/stage_words.h"

namespace tilec::codegen {

Directive::Directive(const Directive&) = default;
Directive::Directive(Directive&&) noexcept = default;
Directive& Directive::operator=(const Directive&) = default;
Directive& Directive::operator=(Directive&&) noexcept = default;
Directive::~Directive() = default;

namespace {

using directives::Names;

struct Printer {
  std::string text;
  void head(const std::string& name) { text += " " + name; }
  void head(const Names& names) { text += fmt::format(" {}", fmt::join(names, " ")); }
  void part(const char* key, const std::string& name) { text += fmt::format("  {} {}", key, name); }
  void part(const char* key, std::int64_t number) { text += fmt::format("  {} {}", key, number); }
  template <class T>
  void part(const char* key, const std::vector<T>& list) {
    text += fmt::format("  {} {}", key, fmt::join(list, " "));
  }
  void unless_0(const char* key, std::int64_t number, bool = true) { if (number != 0) part(key, number); }
  void unless_none(const char* key, const Names& names) { if (!names.empty()) part(key, names); }
};

// Reads parts in the order in which they are printed. After the first fault it reads nothing.
struct Reader {
  PlanLine line;
  std::optional<PlanFault> fault;

  void refuse(std::string what) { if (!fault) fault = {line.here(), std::move(what)}; }
  std::string name(const std::string& what) {
    if (!fault && !line.more()) refuse(what + " is missing");
    return fault ? std::string() : line.next();
  }
  bool key(const char* key) {
    if (fault) return false;
    if (line.peek() != key)
      refuse(line.more() ? fmt::format("`{}` is due where `{}` stands", key, line.peek())
                         : fmt::format("`{}` is missing", key));
    else line.next();
    return !fault;
  }
  std::optional<std::int64_t> number(const char* key) {
    if (!fault && !line.more()) refuse(fmt::format("`{}` wants a number", key));
    if (fault) return std::nullopt;
    const auto value = number_in(line.peek());
    if (!value) refuse(fmt::format("`{}` wants a number of at most 18 digits, not `{}`", key, line.peek()));
    else line.next();
    return value;
  }

  void head(std::string& tensor) { tensor = name("the name of a tensor"); }
  void head(Names& names) { names = list(); }
  void part(const char* word, std::string& value) {
    if (key(word)) value = name(fmt::format("what follows `{}`", word));
  }
  void part(const char* word, std::int64_t& value) { if (key(word)) value = number(word).value_or(0); }
  void part(const char* word, Names& names) { if (key(word)) names = list(); }
  void part(const char* word, std::vector<std::int64_t>& numbers) {
    if (!key(word)) return;
    for (const std::string& text : list()) {
      const auto value = number_in(text);
      if (!value) return refuse(fmt::format("`{}` wants numbers of at most 18 digits, not `{}`", word, text));
      numbers.push_back(*value);
    }
  }
  void unless_none(const char* word, Names& names) { if (!fault && line.peek() == word) part(word, names); }
  // Of several that may be missing, those that are named.
  void unless_0(const char* word, std::int64_t& value, bool last = true) {
    if (!fault && line.more() && (last || line.peek() == word)) part(word, value);
  }

 private:
  Names list() {
    Names found = fault ? Names() : line.list();
    if (found.empty()) refuse("names are missing");
    return found;
  }
};

template <std::size_t at = 0> std::optional<Directive> start(std::string_view word) {
  if constexpr (at == std::variant_size_v<AnyDirective>) {
    return std::nullopt;
  } else {
    using Kind = std::variant_alternative_t<at, AnyDirective>;
    return word == Kind::word ? std::optional<Directive>(Kind{}) : start<at + 1>(word);
  }
}

using enum RewriteStage;
constexpr RewriteStage stages[] = {Inline, Sums, Sums, Sums, Sums, Sums, Sums, Sums, Sums, Seeks, Online, Scans, Scans,
    Scans, Pairs, Splits, Splits, Copies, Copies, Copies, Panels, Finishes, Rows, Rests};
static_assert(std::size(stages) == std::variant_size_v<AnyDirective>);

template <std::size_t... at> std::string words_in_order(std::index_sequence<at...>) {
  std::string text;
  const auto add = [&](std::string_view word, RewriteStage stage, std::optional<RewriteStage> before) {
    text += fmt::format("{}{}", !before ? "" : *before == stage ? ", " : "; ", word);
  };
  (add(std::variant_alternative_t<at, AnyDirective>::word, stages[at],
       at == 0 ? std::nullopt : std::optional(stages[at - 1])),
      ...);
  return text;
}

}  // namespace

RewriteStage stage_of(const Directive& directive) { return stages[directive.index()]; }

std::optional<RewriteStage> stage_of(std::string_view word) {
  const auto directive = start(word);
  return directive ? std::optional(stage_of(*directive)) : std::nullopt;
}

std::string order_of_directives() {
  return words_in_order(std::make_index_sequence<std::variant_size_v<AnyDirective>>());
}

std::string_view word_of(const Directive& directive) {
  return std::visit([](const auto& d) { return std::string_view(d.word); }, directive);
}

std::string print(const Directive& directive) {
  return std::visit([](auto d) {                       // a copy: `parts` may also read
    Printer printer{d.word};
    d.parts(printer);
    return printer.text;
  }, directive);
}

std::optional<Directive> parse_directive(PlanLine line, PlanFault& fault) {
  std::optional<Directive> directive = start(line.next());
  if (!directive) {
    fault = {line.span(), fmt::format("`{}` begins no directive", line.head())};
    return std::nullopt;
  }
  Reader reader{std::move(line), std::nullopt};
  std::visit([&](auto& d) { d.parts(reader); }, *directive);
  if (!reader.fault && reader.line.more()) reader.refuse(fmt::format("`{}` is one word too many", reader.line.peek()));
  if (!reader.fault) return directive;
  fault = *reader.fault;
  return std::nullopt;
}

}  // namespace tilec::codegen
