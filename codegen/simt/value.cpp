// Intervals of i64 expressions, and the spelling that follows from them. An interval is only kept when its ends are
// exact in 64 bits, so plain signed arithmetic within it cannot overflow; without one, i64 arithmetic wraps as
// docs/language.md#types says.
#include "codegen/simt/value.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "lang/diagnostic.h"

namespace tilec::codegen::simt {
namespace {

using Ends = std::optional<Interval>;
__extension__ typedef __int128 Wide;                   // ISO C++ has no such type, and no way to spell it without
                                                       // complaint

Ends exact(Wide low, Wide high) {
  if (low < std::numeric_limits<std::int64_t>::min() || high > std::numeric_limits<std::int64_t>::max())
    return std::nullopt;
  return Interval{static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)};
}

Ends product(const Interval& a, const Interval& b) {
  const Wide p[] = {Wide(a.low) * b.low, Wide(a.low) * b.high, Wide(a.high) * b.low, Wide(a.high) * b.high};
  return exact(*std::min_element(p, p + 4), *std::max_element(p, p + 4));
}

// Of `a op b`, as C computes it; none if unknown or if it may overflow.
Ends combine(Op op, const Interval& a, const Interval& b) {
  switch (op) {
    case Op::Add: return exact(Wide(a.low) + b.low, Wide(a.high) + b.high);
    case Op::Sub: return exact(Wide(a.low) - b.high, Wide(a.high) - b.low);
    case Op::Mul: return product(a, b);
    case Op::Max: return Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
    case Op::Min: return Interval{std::min(a.low, b.low), std::min(a.high, b.high)};
    case Op::Div:
      if (b.low <= 0 || b.low != b.high) return std::nullopt;
      return Interval{a.low / b.low, a.high / b.low};
    case Op::Mod:
      if (b.low <= 0) return std::nullopt;
      return Interval{a.low >= 0 ? 0 : std::max(a.low, 1 - b.high), a.high < 0 ? 0 : std::min(a.high, b.high - 1)};
    case Op::Shr:
      if (b.low < 0 || b.high > 63 || b.low != b.high) return std::nullopt;
      return Interval{a.low >> b.low, a.high >> b.low};
    case Op::Shl:
      if (b.low < 0 || b.high > 31 || b.low != b.high) return std::nullopt;
      return product(a, Interval{std::int64_t{1} << b.low, std::int64_t{1} << b.low});
    case Op::Xor:
      if (a.low < 0 || b.low < 0) return std::nullopt;
      return Interval{
          0, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(a.high, b.high)) + 1) - 1)};
    case Op::And:
      if (a.low < 0 && b.low < 0) return std::nullopt;
      return Interval{0, a.low < 0 ? b.high : b.low < 0 ? a.high : std::min(a.high, b.high)};
    default: return std::nullopt;
  }
}

Ends hull(const Interval& a, const Interval& b) { return Interval{std::min(a.low, b.low), std::max(a.high, b.high)}; }

// What an i64 made from a value of another type can be.
Ends range_of(DType type) {
  switch (type) {
    case DType::Bool: return Interval{0, 1};
    case DType::U8: return Interval{0, 255};
    case DType::U16: return Interval{0, 65535};
    case DType::U32: return Interval{0, 4294967295};
    case DType::I8: return Interval{-128, 127};
    case DType::I16: return Interval{-32768, 32767};
    case DType::I32:
      return Interval{std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    default: return std::nullopt;
  }
}

bool is_number(const Interval& range) { return range.low == range.high; }

// Of an integer of up to 32 bits, as C has it.
Ends of_number(const Constant& c) {
  if (!lang::is_integer(c.type) || lang::bits(c.type) > 32) return std::nullopt;
  const int unused = 64 - lang::bits(c.type);
  const auto bits = static_cast<std::uint64_t>(c.integer) << unused;
  const std::int64_t number = lang::is_signed(c.type) ? static_cast<std::int64_t>(bits) >> unused
                                                      : static_cast<std::int64_t>(bits >> unused);
  return Interval{number, number};
}

// Whether this is -x, or c x with c < 0.
bool negates(Op op, const std::vector<Value>& o) {
  const auto below_zero = [](const Value& v) { return v.range && is_number(*v.range) && v.range->low < 0; };
  if (op == Op::Sub) return o[0].range && is_number(*o[0].range) && o[0].range->low == 0;
  return op == Op::Neg || (op == Op::Mul && (below_zero(o[0]) || below_zero(o[1])));
}

bool is_comparison(Op op) {
  return op == Op::Eq || op == Op::Ne || op == Op::Lt || op == Op::Le || op == Op::Gt || op == Op::Ge;
}

// A comparison of i64s that their intervals settle, and what follows from such ones.
std::optional<bool> decided(Op op, const std::vector<Value>& o) {
  if (o[0].type == DType::Bool && op == Op::And) {
    if (o[0].text == "false" || o[1].text == "false") return false;
    if (o[0].text == "true" && o[1].text == "true") return true;
    return std::nullopt;
  }
  if (o.size() != 2 || !o[0].range || !o[1].range) return std::nullopt;
  const Interval a = *o[0].range, b = *o[1].range;
  switch (op) {
    case Op::Lt: return a.high < b.low ? std::optional(true) : a.low >= b.high ? std::optional(false) : std::nullopt;
    case Op::Ge: return a.low >= b.high ? std::optional(true) : a.high < b.low ? std::optional(false) : std::nullopt;
    case Op::Gt: return decided(Op::Lt, {o[1], o[0]});
    case Op::Le: return decided(Op::Ge, {o[1], o[0]});
    case Op::Eq:
      return a.high < b.low || b.high < a.low                    ? std::optional(false)
          : a.low == a.high && b.low == b.high && a.low == b.low ? std::optional(true)
                                                                 : std::nullopt;
    case Op::Ne: if (const std::optional<bool> same = decided(Op::Eq, o)) return !*same; return std::nullopt;
    default: return std::nullopt;
  }
}

const char* sign(Op op) {
  switch (op) {
    case Op::Add: return "+";
    case Op::Sub: return "-";
    case Op::Mul: return "*";
    case Op::Div: return "/";
    case Op::Mod: return "%";
    case Op::And: return "&";
    case Op::Xor: return "^";
    case Op::Shl: return "<<";
    case Op::Shr: return ">>";
    default: return nullptr;
  }
}

}  // namespace

bool fits_int(const Interval& range) {
  return range.low >= std::numeric_limits<std::int32_t>::min() &&
      range.high <= std::numeric_limits<std::int32_t>::max();
}

std::string bare(const std::string& text) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return text;
  int depth = 0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return text;                       // the first parenthesis closes before the end
  }
  return text.substr(1, text.size() - 2);
}

const Place& place_of(const std::string& view, const Scope& scope) {
  const auto at = scope.places.find(view);
  if (at == scope.places.end()) throw lang::InternalError(fmt::format("loops: `{}` names no view here", view));
  return at->second;
}

Value Speller::value(const Expr& expr, const Scope& scope) {
  return expr.match(
      [&](const Constant& c) {
        if (c.type != DType::I64) return Value{scalars_.constant(c), c.type, false, of_number(c)};
        const Interval range{c.integer, c.integer};
        return Value{scalars_.integer(c.integer, fits_int(range)), c.type, fits_int(range), range};
      },
      [&](const Variable& v) {
        const auto at = scope.variables.find(v.name);
        if (at == scope.variables.end())
          throw lang::InternalError(fmt::format("loops: `{}` names no value here", v.name));
        return at->second;
      },
      [&](const Load& l) { return load(l, scope); },
      [&](const Operation& o) {
        std::vector<Value> operands;
        for (const Expr& x : o.operands) operands.push_back(value(x, scope));
        if (o.below_maximum && o.type == DType::F32) {
          std::vector<std::string> texts;
          for (const Expr& x : o.operands) texts.push_back(converted(x, o.type, scope).text);
          return Value{scalars_.exp_below_maximum(texts), o.type, false, {}};
        }
        if (o.op == Op::Div && operands.size() == 3)
          return Value{scalars_.quotient({operands[0].text, operands[1].text, operands[2].text},
                           o.operands[2].as<Constant>() != nullptr),
              o.type, false, {}};
        return apply(o.op, operands, o.type);
      },
      [&](const Convert& c) { return convert(value(c.operand, scope), c.type); });
}

Value Speller::converted(const Expr& expr, DType type, const Scope& scope) { return convert(value(expr, scope), type); }

std::string Speller::condition(const Expr& expr, const Scope& scope) {
  return bare(converted(expr, DType::Bool, scope).text);
}

std::string Speller::element(const std::string& view, const Expr& offset, const Scope& scope) {
  const Place& place = place_of(view, scope);
  Value at = converted(offset, DType::I64, scope);
  if (place.offset) at = index(Op::Add, {*place.offset, at});
  return fmt::format("{}[{}]", place.pointer, bare(at.text));
}

Value Speller::load(const Load& l, const Scope& scope) {
  const Place& place = place_of(l.view, scope);
  const std::string text = element(l.view, l.offset, scope);
  if (place.type == DType::Bool) return {fmt::format("({} != 0)", text), DType::Bool, false, {}};
  return {text, place.type, place.narrow, place.elements};
}

Value Speller::convert(const Value& v, DType type) {
  if (v.type == type) return v;
  if (type == DType::I64) {
    if (const Ends range = range_of(v.type)) {
      const bool narrow = fits_int(*range);
      return {narrow ? fmt::format("((int){})", v.text) : scalars_.convert(v.text, v.type, type), type, narrow, range};
    }
  }
  return {scalars_.convert(v.text, v.type, type), type, false, {}};
}

Value Speller::apply(Op op, const std::vector<Value>& operands, DType type) {
  if (op == Op::Select) return select(operands, type);
  const bool boolean = lang::info(op).result == lang::Result::Boolean;
  DType common = boolean ? operands[0].type : type;
  if (boolean && operands.size() == 2 && operands[1].type != common) common = lang::promote(common, operands[1].type);
  std::vector<Value> same;
  for (const Value& x : operands) same.push_back(convert(x, common));
  if (common == DType::I64 && !is_comparison(op)) return index(op, same);
  if (const std::optional<bool> known = decided(op, same)) return {*known ? "true" : "false", DType::Bool, false, {}};
  if (common == DType::Bool && op == Op::And && (same[0].text == "true" || same[1].text == "true"))
    return same[same[0].text == "true" ? 1 : 0];
  if (op == Op::Fma && lang::is_integer(common))
    return apply(Op::Add, {apply(Op::Mul, {same[0], same[1]}, type), same[2]}, type);
  std::vector<std::string> texts;
  for (const Value& x : same) texts.push_back(x.text);
  std::string text = scalars_.apply(op, common, std::move(texts));
  if (lang::is_integer(common) && negates(op, same)) text = scalars_.apart(common, text);
  return {std::move(text), boolean ? DType::Bool : type, false, {}};
}

// Operands of a Max, Min or Select: no negation is below two of one kind (Scalars::apart). One below one of them stays
// as it is, so that it is known where a loop over it is unrolled.
std::pair<Value, Value> Speller::apart(Op op, Value a, Value b) {
  using enum Value::Made;
  const auto joins = [&](const Value& v) {             // one instruction with this Max or Min
    return (v.made == Extreme || v.made == ExtremeOfNegation) &&
        (v.by == op || v.by == Op::Select || op == Op::Select);
  };
  const bool a_joins = joins(a), b_joins = joins(b);
  const auto hide = [&](Value& v, bool own, bool other) {
    if (!(own && v.made == ExtremeOfNegation) && !(other && v.made == Negation)) return;
    v.text = scalars_.apart(DType::I32, bare(v.text)), v.made = Otherwise;
  };
  hide(a, a_joins, b_joins), hide(b, b_joins, a_joins);
  return {std::move(a), std::move(b)};
}

namespace {
Value::Made extreme_of(const Value& a, const Value& b) {
  using enum Value::Made;
  return a.made == Negation || b.made == Negation ? ExtremeOfNegation : Extreme;
}
}  // namespace

Value Speller::select(const std::vector<Value>& o, DType type) {
  const Value c = convert(o[0], DType::Bool);
  const auto [a, b] = apart(Op::Select, convert(o[1], type), convert(o[2], type));
  if (c.text == "true") return a;
  if (c.text == "false") return b;
  Value result{scalars_.apply(Op::Select, type, {c.text, a.text, b.text}), type, a.narrow && b.narrow, {}};
  if (a.range && b.range) result.range = hull(*a.range, *b.range);
  if (result.narrow) result.made = extreme_of(a, b), result.by = Op::Select;
  return result;
}

Value Speller::index(Op op, const std::vector<Value>& o) {
  if (op == Op::Fma) return index(Op::Add, {index(Op::Mul, {o[0], o[1]}), o[2]});
  if (op == Op::Neg) return index(Op::Sub, {Value{"0", DType::I64, true, Interval{0, 0}}, o[0]});
  const Ends range = o.size() == 2 && o[0].range && o[1].range ? combine(op, *o[0].range, *o[1].range) : std::nullopt;
  const auto wide = [&](const Value& v) {
    return v.narrow ? fmt::format("(({}){})", scalars_.index(), v.text) : v.text;
  };
  if (!range || (!sign(op) && op != Op::Min && op != Op::Max)) {
    std::vector<std::string> texts;
    for (const Value& v : o) texts.push_back(wide(v));
    return {scalars_.apply(op, DType::I64, std::move(texts)), DType::I64, false, range};
  }
  const bool both = o[0].narrow && o[1].narrow, narrow = fits_int(*range);
  // what C computes in: int only if both operands and the result are
  std::string text;
  Value::Made made = Value::Made::Otherwise;
  if (!sign(op) && both) {
    const auto [a, b] = apart(op, o[0], o[1]);
    text = scalars_.extreme(op, DType::I32, {a.text, b.text}), made = extreme_of(a, b);
  } else if (!sign(op)) {
    text = scalars_.apply(op, DType::I64, {wide(o[0]), wide(o[1])});
  } else if (both && narrow && (op == Op::Div || op == Op::Mod) && o[0].range->low >= 0) {
    const bool literal = o[1].text.find_first_not_of("0123456789") == std::string::npos;
    text = fmt::format(
        fmt::runtime(literal ? "((int)((unsigned int){} {} {}u))" : "((int)((unsigned int){} {} (unsigned int){}))"),
        o[0].text, sign(op), o[1].text);
  } else {
    const bool shift = op == Op::Shl || op == Op::Shr;  // has the type of its left operand
    text = fmt::format("({} {} {})",
        both && narrow      ? o[0].text
            : both || shift ? wide(o[0])
                            : o[0].text,
        sign(op), o[1].text);
  }
  if (narrow && !both) text = fmt::format("((int){})", text);
  if (negates(op, o) && !is_number(*range)) made = Value::Made::Negation;  // what is one number is known
  return {std::move(text), DType::I64, narrow, range, narrow ? made : Value::Made::Otherwise, op};
}

}  // namespace tilec::codegen::simt
