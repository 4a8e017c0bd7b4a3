// Constant folding on scalar expressions.
#include "poly/fold.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "poly/canonical.h"
#include "poly/evaluate.h"
#include "poly/intern.h"
#include "poly/interpret.h"
#include "poly/tidy.h"

namespace tilec::poly {
namespace {

bool is_number(const Expr& value, double wanted) {
  const auto* n = value.as<Number>();
  if (!n) return false;
  if (!lang::is_float(n->type)) return static_cast<double>(n->integer) == wanted;
  return n->real == wanted && std::signbit(n->real) == std::signbit(wanted);
}

// A value that rounding to its type does not change: as it was rounded when it was made, or is exact in the arithmetic
// of f64.
bool is_rounded(const Expr& value) {
  const auto* apply = value.as<Apply>();
  if (!apply || !lang::is_float(apply->type) || apply->type == DType::F64) return true;
  const bool picks = apply->op == Op::Neg || apply->op == Op::Abs || apply->op == Op::Max || apply->op == Op::Min ||
      apply->op == Op::Select;
  return picks && std::all_of(apply->operands.begin(), apply->operands.end(), is_rounded);
}

// Does `wide` hold every value of `narrow`?
bool holds(DType wide, DType narrow) {
  if (wide == narrow) return true;
  if (lang::is_float(wide) && lang::is_float(narrow))
    return wide == DType::F64 || wide == DType::F32 ? narrow != DType::F64 : false;
  if (!lang::is_integer(wide) || lang::is_float(narrow)) return false;
  if (narrow == DType::Bool) return true;
  if (lang::is_signed(narrow) && !lang::is_signed(wide)) return false;
  return lang::bits(wide) > lang::bits(narrow);
}

Expr folded_cast(const Expr& operand, DType type) {
  if (const auto* n = operand.as<Number>()) return convert(*n, type);
  if (operand.type() == type && is_rounded(operand)) return operand;
  if (const auto* inner = operand.as<Cast>();
      inner && inner->operand.type() == type && holds(inner->type, type) && is_rounded(inner->operand))
    return inner->operand;
  return Cast{operand, type};
}

std::optional<Expr> constant(const Apply& a) {
  std::vector<Number> numbers;
  for (const auto& operand : a.operands) {
    const auto* n = operand.as<Number>();
    if (!n) return std::nullopt;
    numbers.push_back(*n);
  }
  const auto result = evaluate(a.op, numbers, a.type);
  const bool exact = !lang::is_float(a.type) || std::isnan(result.real) || round_to(a.type, result.real) == result.real;
  return exact ? std::optional<Expr>(result) : std::nullopt;
}

const Apply* apply_of(const Expr& value, Op op) {
  const auto* apply = value.as<Apply>();
  return apply && apply->op == op ? apply : nullptr;
}

// A float that is neither infinite nor NaN, whatever is read.
bool always_finite(const Expr& value) {
  if (!lang::is_float(value.type())) return true;
  if (const auto* n = value.as<Number>()) return std::isfinite(n->real);
  if (const auto* c = value.as<Cast>()) {
    const auto from = c->operand.type();
    if (lang::is_float(from)) return holds(c->type, from) && always_finite(c->operand);
    return c->type != DType::F16 || lang::bits(from) <= 8;
  }
  if (const auto* s = apply_of(value, Op::Select))
    return always_finite(s->operands[1]) && always_finite(s->operands[2]);
  if (const auto* s = apply_of(value, Op::Neg)) return always_finite(s->operands[0]);
  return false;
}

// A value without a minus sign, -0 included.
bool never_negative(const Expr& value) {
  if (const auto* n = value.as<Number>()) return lang::is_float(n->type) ? !std::signbit(n->real) : n->integer >= 0;
  if (const auto* c = value.as<Cast>()) return never_negative(c->operand);
  if (const auto* s = apply_of(value, Op::Select))
    return never_negative(s->operands[1]) && never_negative(s->operands[2]);
  return value.type() == DType::Bool || (lang::is_integer(value.type()) && !lang::is_signed(value.type()));
}

bool vanishes(const Expr& zero, const Expr& other) {
  if (!is_number(zero, 0)) return false;
  return !lang::is_float(zero.type()) || (always_finite(other) && never_negative(other));
}

bool is_leaf(const Expr& value) { return !value.as<Apply>() && !value.as<Cast>(); }

Expr two_times(const Expr& x, DType type) {
  const bool real = lang::is_float(type);
  return Apply{Op::Mul, {Number{type, real ? 0 : 2, real ? 2.0 : 0.0}, x}, type};
}

// a + b, where one is the other or is negated: the same bits with an operation less.
std::optional<Expr> sum(const Apply& a) {
  const auto& x = a.operands;
  const double nothing = lang::is_float(a.type) ? -0.0 : 0;
  if (is_number(x[1], nothing)) return x[0];
  if (is_number(x[0], nothing)) return x[1];
  if (!is_leaf(x[0]) && a.type != DType::Bool && equal_in_any_order(x[0], x[1])) return two_times(x[0], a.type);
  if (const auto* minus = apply_of(x[1], Op::Neg)) return Expr{Apply{Op::Sub, {x[0], minus->operands[0]}, a.type}};
  if (const auto* minus = apply_of(x[0], Op::Neg)) return Expr{Apply{Op::Sub, {x[1], minus->operands[0]}, a.type}};
  return std::nullopt;
}

std::optional<Expr> difference(const Apply& a) {
  const auto& x = a.operands;
  if (is_number(x[1], 0)) return x[0];
  if (always_finite(x[0]) && equal_in_any_order(x[0], x[1])) return Expr{Number{a.type}};
  if (const auto* minus = apply_of(x[1], Op::Neg)) return Expr{Apply{Op::Add, {x[0], minus->operands[0]}, a.type}};
  return std::nullopt;
}

std::optional<Expr> select(const Apply& a) {
  const auto& x = a.operands;
  if (const auto* n = x[0].as<Number>()) return truth(*n) ? x[1] : x[2];
  if (x[1] == x[2]) return x[1];
  if (const auto* n = apply_of(x[0], Op::Not); n && n->type == DType::Bool)
    return Expr{Apply{Op::Select, {n->operands[0], x[2], x[1]}, a.type}};
  if (const auto* inner = apply_of(x[1], Op::Select); inner && inner->operands[0] == x[0])
    return Expr{Apply{Op::Select, {x[0], inner->operands[1], x[2]}, a.type}};
  if (const auto* inner = apply_of(x[2], Op::Select); inner && inner->operands[0] == x[0])
    return Expr{Apply{Op::Select, {x[0], x[1], inner->operands[2]}, a.type}};
  return std::nullopt;
}

// (c ? 1 : 0) != 0 is c.
std::optional<Expr> compared_select(const Apply& a) {
  const auto* inner = apply_of(a.operands[0], Op::Select);
  const auto *n = a.operands[1].as<Number>(), *p = inner ? inner->operands[1].as<Number>() : nullptr,
             *q = inner ? inner->operands[2].as<Number>() : nullptr;
  if (!n || !p || !q) return std::nullopt;
  const bool one = truth(evaluate(a.op, {*p, *n}, DType::Bool)), other = truth(evaluate(a.op, {*q, *n}, DType::Bool));
  if (one == other) return Expr{Number{DType::Bool, one, 0}};
  return one ? inner->operands[0] : Expr{Apply{Op::Not, {inner->operands[0]}, DType::Bool}};
}

// What an operation is when one operand is special.
std::optional<Expr> identity(const Apply& a) {
  const auto& x = a.operands;
  switch (a.op) {
    case Op::Mul:
      if (is_number(x[1], 1)) return x[0];
      if (is_number(x[0], 1)) return x[1];
      if (vanishes(x[0], x[1]) || vanishes(x[1], x[0])) return Expr{Number{a.type}};
      if (const auto *left = apply_of(x[0], Op::Neg), *right = apply_of(x[1], Op::Neg); left && right)
        return Expr{Apply{Op::Mul, {left->operands[0], right->operands[0]}, a.type}};
      return std::nullopt;
    case Op::Div: return is_number(x[1], 1) ? std::optional(x[0]) : std::nullopt;
    case Op::Add: return sum(a);
    case Op::Sub: return difference(a);
    case Op::Neg:
      if (const auto* inner = apply_of(x[0], Op::Neg)) return inner->operands[0];
      return std::nullopt;
    case Op::Eq:
      if (!lang::is_float(x[0].type()) && equal_in_any_order(x[0], x[1])) return Expr{Number{DType::Bool, 1, 0}};
      return compared_select(a);
    case Op::Ne:
      if (x[0].type() == DType::Bool && is_number(x[1], 0)) return x[0];
      return compared_select(a);
    case Op::And: case Op::Or:
      if (a.type != DType::Bool && a.op == Op::Or)
        for (std::size_t k = 0; k < 2; ++k)
          if (is_number(x[k], 0) && x[1 - k].type() == a.type) return x[1 - k];
      if (a.type != DType::Bool) return std::nullopt;
      for (std::size_t k = 0; k < 2; ++k)
        if (const auto* n = x[k].as<Number>()) return truth(*n) == (a.op == Op::And) ? x[1 - k] : x[k];
      return std::nullopt;
    case Op::Select: return select(a);
    default: return std::nullopt;
  }
}

}  // namespace

Expr folded(const Expr& value) {
  return value.match(
      [&](const Number&) { return value; }, [&](const Read&) { return value; },
      [&](const Index& i) -> Expr {
        const auto number = i.value.is_constant() && i.value.divisor.is(1) ? i.value.constant.value() : std::nullopt;
        return number ? Expr{Number{i.type, wrap_to(i.type, *number), 0}} : value;
      },
      [&](const Cast& c) -> Expr {
        const auto operand = folded(c.operand);
        auto result = folded_cast(operand, c.type);
        const auto* same = result.as<Cast>();
        return same && same->operand.same_as(c.operand) ? value : result;
      },
      [&](const Apply& a) -> Expr {
        std::optional<Apply> changed;
        for (std::size_t k = 0; k < a.operands.size(); ++k) {
          auto operand = folded(a.operands[k]);
          if (operand.same_as(a.operands[k])) continue;
          if (!changed) changed = a;
          changed->operands[k] = std::move(operand);
        }
        const Apply& result = changed ? *changed : a;
        if (auto number = constant(result)) return *number;
        if (auto simpler = identity(result)) return *simpler;
        return changed ? Expr{*std::move(changed)} : value;
      });
}

namespace {

// IEEE 754 rounds these once; in f32 their result in f64, rounded, is the same.
bool rounds_once(const Apply& a) {
  const bool whole = a.op == Op::Add || a.op == Op::Sub || a.op == Op::Mul || a.op == Op::Div || a.op == Op::Sqrt;
  return whole && (a.type == DType::F32 || a.type == DType::F64);
}

Expr rounded(const Expr& value, std::unordered_map<const void*, Expr>& done) {
  const auto* cast = value.as<Cast>();
  const auto* apply = value.as<Apply>();
  if (!cast && !apply) return value;
  if (const auto known = done.find(address(value)); known != done.end()) return known->second;
  Expr result = value;
  if (cast) {
    const Expr operand = rounded(cast->operand, done);
    if (const auto* n = operand.as<Number>()) result = convert(*n, cast->type);
    else if (!operand.same_as(cast->operand)) result = Cast{operand, cast->type};
  } else {
    Apply copy = *apply;
    std::vector<Number> numbers;
    bool same = true;
    for (Expr& operand : copy.operands) {
      Expr own = rounded(operand, done);
      same = same && own.same_as(operand);
      operand = std::move(own);
      if (const auto* n = operand.as<Number>()) numbers.push_back(*n);
    }
    if (rounds_once(copy) && numbers.size() == copy.operands.size())
      result = Number{copy.type, 0, round_to(copy.type, evaluate(copy.op, numbers, copy.type).real)};
    else if (!same) result = std::move(copy);
  }
  done.emplace(address(value), result);
  return result;
}

Expr decided(const Expr& value, std::unordered_map<const void*, Expr>& done) {
  const auto* cast = value.as<Cast>();
  const auto* apply = value.as<Apply>();
  if (!cast && !apply) return value;
  if (const auto known = done.find(address(value)); known != done.end()) return known->second;
  Expr result = value;
  const Expr condition = apply && apply->op == Op::Select ? folded(apply->operands[0]) : value;
  if (const auto* number = condition.as<Number>()) {
    result = decided(apply->operands[truth(*number) ? 1 : 2], done);
  } else if (cast) {
    Expr operand = decided(cast->operand, done);
    if (!operand.same_as(cast->operand)) result = Cast{std::move(operand), cast->type};
  } else {
    Apply copy = *apply;
    for (Expr& operand : copy.operands) operand = decided(operand, done);
    const bool same = std::equal(copy.operands.begin(), copy.operands.end(), apply->operands.begin(),
        [](const Expr& a, const Expr& b) { return a.same_as(b); });
    if (!same) result = std::move(copy);
  }
  done.emplace(address(value), result);
  return result;
}

}  // namespace

Expr with_rounded_numbers(const Expr& value) {
  std::unordered_map<const void*, Expr> done;
  return rounded(value, done);
}

Program decided(Program program) {
  for (Node& node : program.nodes) {
    auto* statement = std::get_if<Statement>(&node);
    if (!statement) continue;
    std::unordered_map<const void*, Expr> done;
    Expr value = decided(statement->value, done);
    if (value.same_as(statement->value)) continue;
    statement->value = std::move(value);
    tidy_reads(*statement);
  }
  return program;
}

Expr as_stored(const Expr& value, DType type) {
  const bool half = type == DType::F16 || type == DType::BF16;
  return value.type() == type && (!half || is_rounded(value)) ? value : Cast{value, type};
}

}  // namespace tilec::poly
