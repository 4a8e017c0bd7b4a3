// Constant folding on scalar expressions.
#include "poly/fold.h"

#include <algorithm>
#include <cmath>

#include "poly/evaluate.h"
#include "poly/interpret.h"

namespace tilec::poly {
namespace {

bool is_number(const Expr& value, double wanted) {
  const auto* n = value.as<Number>();
  if (!n) return false;
  if (!lang::is_float(n->type)) return static_cast<double>(n->integer) == wanted;
  return n->real == wanted && std::signbit(n->real) == std::signbit(wanted);
}

// A value that rounding to its type does not change, as it was rounded when it was made.
bool is_rounded(const Expr& value) {
  const auto* apply = value.as<Apply>();
  return !apply || !lang::is_float(apply->type);
}

// Does `wide` hold every value of `narrow`?
bool holds(DType wide, DType narrow) {
  if (wide == narrow) return true;
  if (lang::is_float(wide) && lang::is_float(narrow)) return wide == DType::F64 || wide == DType::F32 ? narrow != DType::F64 : false;
  if (!lang::is_integer(wide) || lang::is_float(narrow)) return false;
  if (narrow == DType::Bool) return true;
  if (lang::is_signed(narrow) && !lang::is_signed(wide)) return false;
  return lang::bits(wide) > lang::bits(narrow);
}

Expr folded_cast(const Expr& operand, DType type) {
  if (const auto* n = operand.as<Number>()) return convert(*n, type);
  if (operand.type() == type && is_rounded(operand)) return operand;
  if (const auto* inner = operand.as<Cast>(); inner && inner->operand.type() == type && holds(inner->type, type) && is_rounded(inner->operand)) return inner->operand;
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

// What an operation is when one operand is special.
std::optional<Expr> identity(const Apply& a) {
  const auto& x = a.operands;
  const bool real = lang::is_float(a.type);
  switch (a.op) {
    case Op::Mul:
      if (is_number(x[1], 1)) return x[0];
      if (is_number(x[0], 1)) return x[1];
      if (!real && (is_number(x[0], 0) || is_number(x[1], 0))) return Expr{Number{a.type}};
      return std::nullopt;
    case Op::Div: return is_number(x[1], 1) ? std::optional(x[0]) : std::nullopt;
    case Op::Add:
      if (is_number(x[1], real ? -0.0 : 0)) return x[0];
      if (is_number(x[0], real ? -0.0 : 0)) return x[1];
      return std::nullopt;
    case Op::Sub: return is_number(x[1], 0) ? std::optional(x[0]) : std::nullopt;
    case Op::Neg:
      if (const auto* inner = x[0].as<Apply>(); inner && inner->op == Op::Neg) return inner->operands[0];
      return std::nullopt;
    case Op::Ne:
      if (x[0].type() == DType::Bool && is_number(x[1], 0)) return x[0];
      return std::nullopt;
    case Op::Select:
      if (const auto* n = x[0].as<Number>()) return truth(*n) ? x[1] : x[2];
      return x[1] == x[2] ? std::optional(x[1]) : std::nullopt;
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
        Apply result{a.op, {}, a.type};
        bool changed = false;
        for (const auto& operand : a.operands) {
          result.operands.push_back(folded(operand));
          changed |= !result.operands.back().same_as(operand);
        }
        if (auto number = constant(result)) return *number;
        if (auto simpler = identity(result)) return *simpler;
        return changed ? Expr{std::move(result)} : value;
      });
}

}  // namespace tilec::poly
