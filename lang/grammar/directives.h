// What a rule says of its parts beside their text: nested[…], named("…")[…], quiet[…], sure[…], placed[…].
#pragma once

#include "lang/grammar/tokens.h"

namespace tilec::lang::grammar {

// Around a recursive use: counts the depth.
template <class Subject>
struct Nested : x3::unary_parser<Subject, Nested<Subject>> {
  using x3::unary_parser<Subject, Nested<Subject>>::unary_parser;
  static constexpr bool is_pass_through_unary = true, handles_container = Subject::handles_container;
  template <class Context, class Rule, class Out>
  bool parse(It& first, const It& last, const Context& context, Rule& rule, Out& out) const {
    Progress& p = progress(context);
    struct Level { int& depth; explicit Level(int& d) : depth(d) { ++depth; } ~Level() { --depth; } } level(p.depth);
    if (p.depth > max_nesting) throw TooDeep{first, max_nesting, "levels"};
    return this->subject.parse(first, last, context, rule, out);
  }
};
// `a | b | c` that all fail at once are "expected `what`", not three things.
template <class Subject>
struct Titled : x3::unary_parser<Subject, Titled<Subject>> {
  std::string_view what;
  Titled(const Subject& subject, std::string_view w) : x3::unary_parser<Subject, Titled<Subject>>(subject), what(w) {}
  static constexpr bool is_pass_through_unary = true, handles_container = Subject::handles_container;
  template <class Context, class Rule, class Out>
  bool parse(It& first, const It& last, const Context& context, Rule& rule, Out& out) const {
    Progress& p = progress(context);
    It at = first;
    x3::skip_over(at, last, context);
    const std::size_t before = p.furthest == at ? p.expected.size() : 0;
    if (this->subject.parse(first, last, context, rule, out)) return true;
    if (!p.quiet && p.furthest == at && p.expected.size() > before) {
      p.expected.resize(before);
      p.failed(at, what);
    }
    return false;
  }
};
// Failures inside are not worth a word: the text may be read otherwise.
template <class Subject>
struct Quiet : x3::unary_parser<Subject, Quiet<Subject>> {
  using x3::unary_parser<Subject, Quiet<Subject>>::unary_parser;
  static constexpr bool is_pass_through_unary = true, handles_container = Subject::handles_container;
  template <class Context, class Rule, class Out>
  bool parse(It& first, const It& last, const Context& context, Rule& rule, Out& out) const {
    ++progress(context).quiet;
    const bool ok = this->subject.parse(first, last, context, rule, out);
    --progress(context).quiet;
    return ok;
  }
};
// From here on the text has only this reading.
template <class Subject>
struct Sure : x3::unary_parser<Subject, Sure<Subject>> {
  using x3::unary_parser<Subject, Sure<Subject>>::unary_parser;
  static constexpr bool is_pass_through_unary = true, handles_container = Subject::handles_container;
  template <class Context, class Rule, class Out>
  bool parse(It& first, const It& last, const Context& context, Rule& rule, Out& out) const {
    if (this->subject.parse(first, last, context, rule, out)) return true;
    throw Failed{};
  }
};
// Around a whole rule: its value learns its place.
inline void locate(Expr& value, Span span) { value = value.at(span); }
template <class T> void locate(T& value, Span span) { value.span = span; }
template <class Subject>
struct Placed : x3::unary_parser<Subject, Placed<Subject>> {
  using x3::unary_parser<Subject, Placed<Subject>>::unary_parser;
  static constexpr bool is_pass_through_unary = true, handles_container = Subject::handles_container;
  template <class Context, class Value, class Out>
  bool parse(It& first, const It& last, const Context& context, Value& value, Out& out) const {
    It at = first;
    x3::skip_over(at, last, context);
    if (!this->subject.parse(first, last, context, value, out)) return false;
    locate(value, progress(context).span(at, first));
    return true;
  }
};
template <template <class> class Wrapper>
struct Directive {
  template <class Subject> auto operator[](const Subject& subject) const {
    return Wrapper<typename x3::extension::as_parser<Subject>::value_type>(x3::as_parser(subject));
  }
};
constexpr Directive<Nested> nested{};
constexpr Directive<Quiet> quiet{};
constexpr Directive<Sure> sure{};
constexpr Directive<Placed> placed{};
struct NamedDirective {
  std::string_view what;
  template <class Subject> auto operator[](const Subject& subject) const {
    return Titled<typename x3::extension::as_parser<Subject>::value_type>(x3::as_parser(subject), what);
  }
};
constexpr NamedDirective named(std::string_view what) { return {what}; }

}  // namespace tilec::lang::grammar
