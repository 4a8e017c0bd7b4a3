// Tokens as parsers of Spirit X3. Each skips blanks, leaves `first` alone when it fails, and says so.
//
//   Mark("`<`", "=<")   takes the `<` of `a < b`, not that of `a <= b` or `a << b`
#pragma once

#include <boost/spirit/home/x3.hpp>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "lang/grammar/precedence.h"
#include "lang/grammar/progress.h"
#include "lang/lexis.h"

namespace tilec::lang::grammar {

namespace x3 = boost::spirit::x3;

struct progress_tag;
template <class Context> Progress& progress(const Context& context) { return x3::get<progress_tag>(context).get(); }

template <class Derived, class Attribute>
struct Token : x3::parser<Derived> {
  using attribute_type = Attribute;
  static constexpr bool has_attribute = !std::is_same_v<Attribute, x3::unused_type>;

  template <class Context, class Rule, class Out>
  bool parse(It& first, const It& last, const Context& context, Rule&, Out& out) const {
    It at = first;
    x3::skip_over(at, last, context);
    It end = at;
    Attribute value{};
    if (!this->derived().read(end, last, value, progress(context))) {
      progress(context).failed(at, this->derived().name());
      return false;
    }
    first = end;
    x3::traits::move_to(value, out);
    return true;
  }

 private:
  friend Derived;                                      // the only one that may name itself there
  Token() = default;
};

// Punctuation; `longer` are the characters that would make it another token.
struct Mark : Token<Mark, x3::unused_type> {
  std::string_view text, quoted, longer;
  constexpr Mark(std::string_view quoted_text, std::string_view longer_by = "")
      : text(quoted_text.substr(1, quoted_text.size() - 2)), quoted(quoted_text), longer(longer_by) {}
  std::string_view name() const { return quoted; }
  bool read(It& first, It last, x3::unused_type, Progress&) const {
    const std::string_view rest(first, static_cast<std::size_t>(last - first));
    if (!rest.starts_with(text)) return false;
    if (rest.size() > text.size() && longer.find(rest[text.size()]) != std::string_view::npos) return false;
    first += text.size();
    return true;
  }
};

inline bool starts_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A word with its mark; its kind by the mark, else by its first letter.
inline bool read_word(It& first, It last, Name& out, const Progress& progress) {
  if (first == last) return false;
  const bool marked = *first == '#' || *first == '$';
  const It word = first + marked;
  if (word == last || !starts_word(*word)) return false;
  const std::size_t begin = static_cast<std::size_t>(first - progress.begin);
  const It end = progress.begin + token_end({progress.begin, static_cast<std::size_t>(last - progress.begin)}, begin);
  out.text.assign(word, end);
  out.upper = marked ? *first == '#' : *word <= 'Z';
  out.span = progress.span(first, end);
  const bool reserved = out.text == "function" || out.text == "default" || out.text == "no_defract";
  if (reserved && !marked) return false;
  first = end;
  return true;
}

enum class Kind { Any, Lower };
struct Word_ : Token<Word_, Name> {
  Kind kind;
  std::string_view what;
  constexpr Word_(Kind k, std::string_view w) : kind(k), what(w) {}
  std::string_view name() const { return what; }
  bool read(It& first, It last, Name& out, const Progress& progress) const {
    It at = first;
    if (!read_word(at, last, out, progress) || (kind == Kind::Lower && out.upper)) return false;
    first = at;
    return true;
  }
};

// A function's name: `mean`, or `loss.mean` as one token.
struct Callee : Token<Callee, Name> {
  Kind kind;                                           // of one without a prefix
  constexpr explicit Callee(Kind k) : kind(k) {}
  std::string_view name() const { return kind == Kind::Lower ? "a lower-case name" : "a name"; }
  bool read(It& first, It last, Name& out, Progress& progress) const {
    It at = first;
    if (!read_word(at, last, out, progress)) return false;
    const bool may_be_prefix = at != last && *at == '.' && *first >= 'a' && *first <= 'z';
    It behind = at + may_be_prefix;
    if (Name own; may_be_prefix && read_word(behind, last, own, progress)) {
      out = with_prefix(out, own);
      at = behind;
      progress.prefixed.push_back(out);
    } else if (kind == Kind::Lower && out.upper) {
      return false;
    }
    first = at;
    return true;
  }
};

struct Keyword : Token<Keyword, x3::unused_type> {
  std::string_view quoted;
  constexpr explicit Keyword(std::string_view q) : quoted(q) {}
  std::string_view name() const { return quoted; }
  bool read(It& first, It last, x3::unused_type, const Progress& progress) const {
    if (first == last || !starts_word(*first)) return false;
    const std::string_view all(progress.begin, static_cast<std::size_t>(last - progress.begin));
    const std::size_t begin = static_cast<std::size_t>(first - progress.begin), end = token_end(all, begin);
    if (all.substr(begin, end - begin) != quoted.substr(1, quoted.size() - 2)) return false;
    first = progress.begin + end;
    return true;
  }
};

// FLOAT | INT, or INT alone (where the start of a FLOAT is none).
struct Numeral : Token<Numeral, Number> {
  bool integers_only;
  constexpr explicit Numeral(bool only) : integers_only(only) {}
  std::string_view name() const { return integers_only ? "an integer" : "a number"; }
  bool read(It& first, It last, Number& out, const Progress& progress) const {
    if (first == last || *first < '0' || *first > '9') return false;
    const std::string_view all(progress.begin, static_cast<std::size_t>(last - progress.begin));
    const It end = progress.begin + token_end(all, static_cast<std::size_t>(first - progress.begin));
    out.text.assign(first, end);
    out.is_float = out.text.find_first_not_of("0123456789") != std::string::npos;
    if (out.is_float && integers_only) return false;
    if (!out.is_float) std::from_chars(first, end, out.integer);
    out.real = real_of(out.text)->value;
    first = end;
    return true;
  }
};

struct Quoted : Token<Quoted, std::string> {
  std::string_view name() const { return "a string"; }
  bool read(It& first, It last, std::string& out, Progress&) const {
    if (first == last || *first != '"') return false;
    const It close = std::find_if(first + 1, last, [](char c) { return c == '"' || c == '\n'; });
    if (close == last || *close == '\n') return false;
    out.assign(first + 1, close);
    first = close + 1;
    return true;
  }
};

struct Operator : Token<Operator, OpAt> {
  bool arithmetic;                                     // `+ - * /` only
  constexpr explicit Operator(bool only) : arithmetic(only) {}
  std::string_view name() const { return "an operator"; }
  bool read(It& first, It last, OpAt& out, const Progress& progress) const {
    struct Entry { std::string_view text; Op op; };
    static constexpr Entry table[] = {{"<<", Op::Shl}, {">>", Op::Shr}, {"<=", Op::Le}, {">=", Op::Ge}, {"==", Op::Eq},
        {"!=", Op::Ne}, {"->", Op::Not}, {"<", Op::Lt}, {">", Op::Gt}, {"&", Op::And}, {"|", Op::Or}, {"^", Op::Xor},
        {"+", Op::Add}, {"-", Op::Sub}, {"*", Op::Mul}, {"/", Op::Div}};
    const std::string_view rest(first, static_cast<std::size_t>(last - first));
    for (const Entry& entry : table) {
      if (!rest.starts_with(entry.text)) continue;
      const bool is_arithmetic =
          entry.op == Op::Add || entry.op == Op::Sub || entry.op == Op::Mul || entry.op == Op::Div;
      if (entry.op == Op::Not || (arithmetic && !is_arithmetic)) return false;  // `->` is one token
      out = {entry.op, progress.span(first, first + entry.text.size())};
      first += entry.text.size();
      return true;
    }
    return false;
  }
};

}  // namespace tilec::lang::grammar
