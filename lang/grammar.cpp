// The grammar of Tile in Boost Spirit X3, rule by rule, from tokens to items.
//
// Ordered choice backtracks (`f<2>(X)` is a call, `f < 2` a comparison, known only at the `(`), so expectation points
// are few (`sure`), and an error is reported where the parse got furthest, with everything that was expected there: of
// all alternatives, the one that understood most of the text is most likely the one that was meant. Every token writes
// down where it failed.
//
// The nine levels of binary operators are one flat rule, `operand (operator operand)*`, grouped by precedence
// afterwards. It is the same language, and nesting costs three rules of stack a level instead of a dozen. `nested`
// counts the levels.
//
// The driver at the end takes items and statements one by one, so recovery is a loop: report, skip, go on.

#include <fmt/core.h>

#include <boost/spirit/home/x3.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "lang/idiom.h"
#include "lang/lexis.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/parse.h"

namespace tilec::lang {
namespace grammar {

namespace x3 = boost::spirit::x3;
using It = const char*;

constexpr int max_nesting = 256;                       // of brackets, `-` and `?`
constexpr int max_height = 1024;                       // of a tree: a sum of a thousand terms is as deep as one bracket
                                                       // in another

// ---- what the parse knows of itself ---------------------------------------------------------------------------------

struct Failed {};                                      // no alternative can help any more
struct TooDeep { It at; int limit; std::string_view what; };
struct Chained { Span span; Op op; };

struct Progress {
  It begin;
  std::uint32_t source;
  It furthest = nullptr;
  std::vector<std::string_view> expected;              // at `furthest`
  int depth = 0, quiet = 0;
  std::vector<Diagnostic> warnings;                    // hold only if the text they are about was read that way
  std::vector<Name> prefixed;                          // so do these: what is called by `loss.mean`

  void failed(It at, std::string_view what) {
    if (quiet || at < furthest) return;
    if (at > furthest) expected.clear();
    furthest = at;
    if (std::find(expected.begin(), expected.end(), what) == expected.end()) expected.push_back(what);
  }
  Span span(It from, It to) const {
    return {static_cast<std::uint32_t>(from - begin), static_cast<std::uint32_t>(to - begin), source};
  }
};

struct progress_tag;
template <class Context> Progress& progress(const Context& context) { return x3::get<progress_tag>(context).get(); }

// ---- tokens: each skips blanks, leaves `first` alone when it fails, and says so -------------------------------------

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

bool starts_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A word with its mark; its kind by the mark, else by its first letter.
bool read_word(It& first, It last, Name& out, const Progress& progress) {
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

struct OpAt { Op op = Op::Add; Span span; };
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

// ---- directives -----------------------------------------------------------------------------------------------------

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

// ---- actions --------------------------------------------------------------------------------------------------------

constexpr auto put = [](auto member) {
  return [member](auto& context) { x3::_val(context).*member = std::move(x3::_attr(context)); };
};
constexpr auto push = [](auto member) {
  return [member](auto& context) { (x3::_val(context).*member).push_back(std::move(x3::_attr(context))); };
};
constexpr auto set = [](auto member, auto value) {
  return [member, value](auto& context) { x3::_val(context).*member = value; };
};
constexpr auto keep = [](auto& context) { x3::_val(context) = std::move(x3::_attr(context)); };
// placed adds the span
constexpr auto make = [](auto& context) { x3::_val(context) = Expr(std::move(x3::_attr(context)), Span{}); };

Span join(Span a, Span b) { return {a.begin, b.end, a.source}; }

// ---- operators ------------------------------------------------------------------------------------------------------

struct Tail { OpAt op; Expr operand; };
struct Chain { Expr first; std::vector<Tail> tails; };
struct Arm { Expr then, otherwise; };

int level(Op op) {
  switch (op) {
    case Op::Xor: return 1;
    case Op::Or: return 2;
    case Op::And: return 3;
    case Op::Eq: case Op::Ne: return 4;
    case Op::Lt: case Op::Le: case Op::Gt: case Op::Ge: return 5;
    case Op::Shl: case Op::Shr: return 6;
    case Op::Add: case Op::Sub: return 7;
    default: return 8;
  }
}

struct Folding { std::vector<Tail>& tails; std::size_t at = 0; Progress& progress; };

Expr fold(Folding& chain, Expr left, int lowest) {
  const Span start = left.span();
  while (chain.at < chain.tails.size() && level(chain.tails[chain.at].op.op) >= lowest) {
    const Tail& tail = chain.tails[chain.at++];
    const int here = level(tail.op.op);
    const Expr right = fold(chain, tail.operand, here + 1);
    const auto bare_or = [](const Expr& e, Span operand) {
      return e.as<Binary>() && e.as<Binary>()->op == Op::Or && e.span() != operand;
    };
    if (tail.op.op == Op::Xor && (bare_or(right, tail.operand.span()) || bare_or(left, start)))
      chain.progress.warnings.push_back({"", Severity::Warning, "xor", join(left.span(), right.span()), {}, {}});
    const Span span = join(left.span(), right.span());
    left = Expr(Binary{tail.op.op, std::move(left), right}, span);
    if (left.height() > max_height) throw TooDeep{chain.progress.begin + tail.op.span.begin, max_height, "operators"};
    const bool chains = here != 4 && here != 5;
    if (!chains && chain.at < chain.tails.size() && level(chain.tails[chain.at].op.op) == here)
      throw Chained{chain.tails[chain.at].op.span, chain.tails[chain.at].op.op};
  }
  return left;
}

constexpr auto group = [](auto& context) {
  Chain& chain = x3::_attr(context);
  Folding folding{chain.tails, 0, progress(context)};
  x3::_val(context) = fold(folding, chain.first, 1);
};

constexpr auto select = [](auto& context) {
  const Expr condition = x3::_val(context);
  Arm& arm = x3::_attr(context);
  const Span span = join(condition.span(), arm.otherwise.span());
  x3::_val(context) = Expr(Select{condition, arm.then, arm.otherwise}, span);
  if (x3::_val(context).height() > max_height)
    throw TooDeep{progress(context).begin + arm.then.span().begin, max_height, "operators"};
};
// The second `? :` of a chain: legal, and not what C means.
constexpr auto select_again = [](auto& context) {
  select(context);
  progress(context).warnings.push_back({"", Severity::Warning, "select", x3::_val(context).span(), {}, {}});
};
constexpr auto half_select = [](auto& context) {
  const Expr condition = x3::_val(context), then = x3::_attr(context);
  x3::_val(context) = Expr(Select{condition, then, std::nullopt}, join(condition.span(), then.span()));
};
template <Op op>
constexpr auto negate = [](auto& context) { x3::_val(context) = Expr(Unary{op, x3::_attr(context)}, Span{}); };

// ---- rules ----------------------------------------------------------------------------------------------------------

template <class Id, class T> using rule = x3::rule<Id, T>;

constexpr Mark open("`(`"), close("`)`"), bracket("`[`", "["), unbracket("`]`"), brace("`{`"), unbrace("`}`");
constexpr Mark comma("`,`"), semicolon("`;`"), colon("`:`"), question("`?`"), arrow("`->`"), minus("`-`", ">"),
    tilde("`~`");
constexpr Mark equals("`=`", "="), twice("`==`"), less("`<`", "=<"), greater("`>`"), at_most("`<=`"), at_least("`>=`"),
    plus("`+`"), star("`*`");
constexpr Mark ellipsis("`...`");
constexpr Mark attribute_open("`[[`"), attribute_close("`]]`");
constexpr Word_ name(Kind::Any, "a name"), lower(Kind::Lower, "a lower-case name");
constexpr Callee callee(Kind::Any), lower_callee(Kind::Lower);
constexpr Numeral number(false), integer(true);
constexpr Quoted string;
constexpr Operator binary_operator(false), arithmetic_operator(true);

// Expressions
const rule<struct expr_id, Expr> expr = "an expression";
const rule<struct binary_id, Expr> binary = "an expression";
const rule<struct sum_id, Expr> sum = "a sum";
const rule<struct unary_id, Expr> unary = "an operand";
const rule<struct primary_id, Expr> primary = "an operand";
const rule<struct access_expr_id, Expr> access_expr = "an access";
const rule<struct access_id, Access> access = "an access";
const rule<struct angle_call_id, Call> angle_call = "a call";
const rule<struct plain_call_id, Call> plain_call = "a call";
const rule<struct variable_id, Variable> variable = "a name";
const rule<struct chain_id, Chain> chain = "an expression";
const rule<struct tail_id, Tail> tail = "an operator";
const rule<struct sum_chain_id, Chain> sum_chain = "a sum";
const rule<struct sum_tail_id, Tail> sum_tail = "an operator";
const rule<struct arm_id, Arm> arm = "`? :`";
const rule<struct signed_number_id, Number> signed_number = "a number";
const rule<struct argument_id, Argument> argument = "a number or a name";
const rule<struct label_id, Name> label = "a name";
const rule<struct given_id, Argument> given = "a number or a name";
struct InputGiven { std::optional<Name> label; Expr value; };
const rule<struct input_given_id, InputGiven> input_given = "an expression";
const rule<struct body_id, Expr> body = "a body";

// Index expressions
const rule<struct affine_id, Expr> affine = "an index expression";
const rule<struct affine_chain_id, Chain> affine_chain = "an index expression";
const rule<struct affine_tail_id, Tail> affine_tail = "an operator";
const rule<struct factor_id, Expr> factor = "an index expression";
const rule<struct coefficient_id, Expr> coefficient = "an index expression";

constexpr auto minus_number = [](auto& context) {
  Number number = std::move(x3::_attr(context));
  number.text.insert(0, "-");
  number.negative = true;
  number.real = -number.real;
  x3::_val(context) = std::move(number);
};
constexpr auto minus_inf = [](auto& context) {
  const Name& name = x3::_attr(context);
  const double real =
      name.text == "inf" ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  x3::_pass(context) = name.text == "inf" || name.text == "nan";
  x3::_val(context).value = Number{"-" + name.text, true, 0, real, true};
};
// `2i`, which groups as `(2*i)`
constexpr auto coefficient_of = [](auto& context) {
  const Name& index = x3::_attr(context);
  x3::_val(context) = Expr(Binary{Op::Mul, x3::_val(context), Expr(Variable{index}, index.span), true}, Span{});
};
// `stride=2`, whose place is that of the 2.
constexpr auto labelled = [](auto& context) {
  std::optional<Name> label = std::move(x3::_val(context).label);
  x3::_val(context) = std::move(x3::_attr(context));
  x3::_val(context).label = std::move(label);
};
constexpr auto push_input = [](auto& context) {
  Call& call = x3::_val(context);
  InputGiven& given = x3::_attr(context);
  if (given.label) call.labels.resize(call.arguments.size());
  if (given.label || !call.labels.empty()) call.labels.push_back(std::move(given.label));
  call.arguments.push_back(std::move(given.value));
};
constexpr auto first_integer = [](auto& context) {
  Number& value = x3::_attr(context);
  x3::_val(context) = Expr(std::move(value), Span{});
};

const auto expr_def = binary[keep] >> -(arm[select] >> *arm[select_again]);
const auto arm_def = question >> nested[expr][put(&Arm::then)] >> colon >> binary[put(&Arm::otherwise)];
const auto body_def = binary[keep] >> -(arm[select] >> *arm[select_again]) >> -(question >> access_expr[half_select]);
const auto binary_def = chain[group];
const auto chain_def = unary[put(&Chain::first)] >> *tail[push(&Chain::tails)];
const auto tail_def = binary_operator[put(&Tail::op)] >> unary[put(&Tail::operand)];
const auto sum_def = sum_chain[group];
const auto sum_chain_def = unary[put(&Chain::first)] >> *sum_tail[push(&Chain::tails)];
const auto sum_tail_def = arithmetic_operator[put(&Tail::op)] >> unary[put(&Tail::operand)];
const auto unary_def = placed[named("an expression")[minus >> nested[unary][negate<Op::Neg>] |
    tilde >> nested[unary][negate<Op::Not>] | primary[keep]]];
const auto primary_def = placed[number[make] | angle_call[make] | plain_call[make] | access[make] | variable[make] |
    open >> nested[expr][keep] >> close];
const auto variable_def = name[put(&Variable::name)] >> -quiet[ellipsis][set(&Variable::pack, true)];
const auto access_expr_def = placed[named("an access such as `A[i]`")[access[make]]];
const auto access_def = name[put(&Access::tensor)] >> quiet[bracket] >>
    -(nested[affine][push(&Access::element)] % comma) >> unbracket;
const auto input_given_def = -quiet[label[put(&InputGiven::label)]] >> nested[expr][put(&InputGiven::value)];
const auto call_rest = -(input_given[push_input] % comma) >> close;
const auto plain_call_def = callee[put(&Call::function)] >> quiet[open] >> call_rest;
const auto angle_call_def = lower_callee[put(&Call::function)] >>
    quiet[less >> given[push(&Call::parameters)] % comma >> greater >> open] >> sure[call_rest];
const auto signed_number_def = minus >> number[minus_number] | number[keep];
const auto argument_def = placed[named("a number or a name")[minus >> name[minus_inf] |
    signed_number[put(&Argument::value)] | callee[put(&Argument::value)]]];
const auto label_def = name[keep] >> equals;
const auto given_def = -quiet[label[put(&Argument::label)]] >> argument[labelled];

const auto affine_def = affine_chain[group];
const auto affine_chain_def = factor[put(&Chain::first)] >> *affine_tail[push(&Chain::tails)];
const auto affine_tail_def = arithmetic_operator[put(&Tail::op)] >> factor[put(&Tail::operand)];
const auto coefficient_def = placed[integer[first_integer] >> quiet[lower][coefficient_of]];
const auto factor_def = placed[named("an index expression")[minus >> nested[factor][negate<Op::Neg>] |
    coefficient[keep] | integer[make] | plain_call[make] | variable[make] | open >> nested[affine][keep] >> close]];

BOOST_SPIRIT_DEFINE(expr, arm, body, binary, chain, tail, sum, sum_chain, sum_tail, unary, primary, variable,
    access_expr, access, plain_call, angle_call, signed_number, argument, label, given, input_given)
BOOST_SPIRIT_DEFINE(affine, affine_chain, affine_tail, coefficient, factor)

// Statements
const rule<struct target_id, Target> target = "a target";
const rule<struct word_id, Word> word = "an attribute";
const rule<struct value_id, Value> value = "a value";
const rule<struct attribute_id, Attribute> attribute = "an attribute";
const rule<struct tuple_id, TupleAssignment> tuple = "an assignment";
const rule<struct assignment_id, Assignment> assignment = "an assignment";
const rule<struct contraction_id, Contraction> contraction = "a contraction";
const rule<struct constraint_id, Constraint> constraint = "a constraint";
const rule<struct default_id, Default> default_clause = "`default`";
const rule<struct statement_id, Statement> statement = "a statement";

constexpr auto between = [](auto form) {
  return [form](auto& context) {
    Constraint& c = x3::_val(context);
    c.low = std::move(c.polynomial);
    c.polynomial = std::move(c.bound);
    c.bound = std::move(x3::_attr(context));
    c.form = form;
  };
};
constexpr auto compare = [](auto form) {
  return [form](auto& context) {
    x3::_val(context).bound = std::move(x3::_attr(context));
    x3::_val(context).form = form;
  };
};
// `f32 Y`: the name read first was a type, if it is lower-case.
constexpr auto typed = [](auto& context) {
  Target& target = x3::_val(context);
  x3::_pass(context) = !target.name.upper;
  if (target.name.upper) return;
  target.dtype = std::move(target.name);
  target.name = std::move(x3::_attr(context));
};
constexpr auto nested_word = [](auto& context) {
  x3::_val(context).value = std::make_shared<const Word>(std::move(x3::_attr(context)));
};

using enum AggregationSyntax;
constexpr auto aggregation = [](AggregationSyntax syntax) { return set(&Contraction::aggregation, syntax); };
constexpr auto aggregation_name = [](auto& context) {
  x3::_val(context).aggregation = Named;
  x3::_val(context).aggregation_name = std::move(x3::_attr(context));
};

const auto target_def = placed[name[put(&Target::name)] >> -quiet[name][typed]];
const auto word_def = placed[name[put(&Word::name)] >>
    -(open[set(&Word::parentheses, true)] >> -(nested[value][push(&Word::values)] % comma) >> close)];
const auto value_def = placed[named("a word, a number or a string")[word[nested_word] |
    signed_number[put(&Value::value)] | string[put(&Value::value)]]];
const auto attribute_def = attribute_open >> word[keep] >> attribute_close;

const auto tuple_def =
    open >> target[push(&TupleAssignment::targets)] % comma >> close >> equals >> expr[put(&TupleAssignment::value)];
const auto assignment_def = target[put(&Assignment::target)] >> equals >> expr[put(&Assignment::value)];

const auto contraction_def = target[put(&Contraction::target)] >> bracket >>
    -(affine[push(&Contraction::element)] % comma >>
            -(colon[set(&Contraction::colon, true)] >> expr[push(&Contraction::sizes)] % comma) |
        colon[set(&Contraction::colon, true)]) >>
    unbracket >>
    (twice[aggregation(Assign)] >> open |
        equals >> named("an aggregation: `+(`, `*(`, `>(`, `<(` or `=(`")
                      [(plus[aggregation(Sum)] | star[aggregation(Product)] | greater[aggregation(Max)] |
                           less[aggregation(Min)] | equals[aggregation(Assign)] | name[aggregation_name]) >>
                          quiet[open]]) >>
    body[put(&Contraction::body)] >> close >> *(comma >> constraint[push(&Contraction::constraints)]) >>
    *(Keyword("`no_defract`")[set(&Contraction::no_defract, true)] |
        Keyword("`no_reduce`")[set(&Contraction::no_reduce, true)] | default_clause[put(&Contraction::default_value)]);
const auto constraint_def = placed[affine[put(&Constraint::polynomial)] >>
    named("`<`, `<=`, `>=` or `==`")[at_most >> sum[compare(Constraint::Form::LessEqual)] >>
            -(at_most >> sum[between(Constraint::Form::BetweenLessEqual)] |
                less >> sum[between(Constraint::Form::BetweenLess)]) |
        at_least >> sum[compare(Constraint::Form::GreaterEqual)] | twice >> sum[compare(Constraint::Form::Equal)] |
        less >> expr[compare(Constraint::Form::Less)]]];
const auto default_clause_def =
    placed[Keyword("`default`") >> named("a number or a name")[minus >> name[minus_inf] |
                                       signed_number[put(&Default::value)] | name[put(&Default::value)]]];
const auto statement_def = placed[named("a statement or `}`")[*attribute[push(&Statement::attributes)] >>
    -(tuple[put(&Statement::node)] | contraction[put(&Statement::node)] | assignment[put(&Statement::node)]) >>
    semicolon]];

BOOST_SPIRIT_DEFINE(
    target, word, value, attribute, tuple, assignment, contraction, constraint, default_clause, statement)

// Items
const rule<struct import_id, Import> import_item = "`import`";
const rule<struct dim_id, Dim> dim_item = "`dim`";
const rule<struct parameter_id, Parameter> parameter = "a parameter";
const rule<struct input_id, Input> input = "an input";
const rule<struct sizes_id, Access> sizes = "sizes";
const rule<struct heading_id, Function> heading = "a function";
struct Item { std::variant<Import, Dim, Function> node; };
const rule<struct item_id, Item> item = "an item";

constexpr auto role = [](Function::Role r) { return set(&Function::role, r); };
constexpr auto input_sizes = [](auto& context) { x3::_val(context).sizes = std::move(x3::_attr(context).element); };

const auto import_item_def = placed[Keyword("`import`") >> string[put(&Import::path)] >>
    -(Keyword("`as`") >> lower[put(&Import::prefix)]) >> semicolon];
const auto dim_item_def = placed[Keyword("`dim`") >> name[push(&Dim::names)] % comma >> semicolon];
constexpr auto first_choice = [](auto& context) {
  x3::_val(context).value = Argument{x3::_val(context).choices.front(), x3::_val(context).choices.front().span};
};
const auto choices = brace >> name[push(&Parameter::choices)] % comma >> unbrace;
const auto parameter_def = name[put(&Parameter::name)] >>
    -(equals >> named("a number, a name or `{`")[choices[first_choice] | argument[put(&Parameter::value)]]);
const auto sizes_def = bracket >> -(nested[expr][push(&Access::element)] % comma) >> unbracket;
const auto input_def =
    placed[target[put(&Input::target)] >> -sizes[input_sizes] >> -(equals >> argument[put(&Input::value)])];
const auto head = named("a name")[lower[put(&Function::name)] >> quiet[less] >>
        sure[parameter[push(&Function::parameters)] % comma >> greater] |
    name[put(&Function::name)]];
const auto heading_def = placed[*attribute[push(&Function::attributes)] >>
    (Keyword("`function`")[role(Function::Role::Function)] >> -head |
        (Keyword("`gradient`")[role(Function::Role::Gradient)] | Keyword("`tangent`")[role(Function::Role::Tangent)]) >>
            head) >>
    open >> -(input[push(&Function::inputs)] % comma) >> close >> arrow >> open >>
    target[push(&Function::results)] % comma >> close >> brace];
const auto item_def = named("`function`, `import`, `dim`, `gradient` or `tangent`")[import_item[put(&Item::node)] |
    dim_item[put(&Item::node)] | heading[put(&Item::node)]];

BOOST_SPIRIT_DEFINE(import_item, dim_item, parameter, sizes, input, heading, item)

// ---- the driver -----------------------------------------------------------------------------------------------------

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
      if (take(item, next)) {
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
  void skip() { while (at_ != end_ && x3::space.test(*at_, x3::unused)) ++at_; }

  void statements(Function& function) {
    const It body = at_ - 1;
    while (skip(), at_ != end_ && *at_ != '}' && errors_ < max_errors) {
      Statement next;
      if (!take(statement, next)) recover(false);
      else if (!next.attributes.empty() || !std::holds_alternative<std::monostate>(next.node))
        function.statements.push_back(std::move(next));
    }
    if (errors_ >= max_errors) return;
    if (at_ != end_) ++at_;
    else error(end_, "`}`");
    function.body = span(body, at_);
    function.span.end = function.body.end;
  }

  // One rule at the current place; reports why not.
  template <class Rule, class T> bool take(const Rule& rule, T& out) {
    Progress progress{begin_, number_, at_, {}, 0, 0, {}, {}};
    statement_begin_ = static_cast<std::uint32_t>(at_ - begin_);
    It at = at_;
    try {
      if (x3::phrase_parse(at, end_,
              x3::with<progress_tag>(
                  std::ref(progress))[rule[([&](auto& context) { out = std::move(x3::_attr(context)); })]],
              x3::space, x3::skip_flag::dont_post_skip)) {
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
    const bool whole = errors_ == 0;                     // else an import may have been among what was not read
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
    while (where != end_ && x3::space.test(*where, x3::unused)) ++where;
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
    while (after != begin_ && x3::space.test(after[-1], x3::unused)) --after;
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
    while (next != end_ && x3::space.test(*next, x3::unused)) ++next;
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
  return Binary{fmt::format("byte {} is 0, so {} is no text", zero, it), "name a file of Tile"};
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
