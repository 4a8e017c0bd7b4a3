// How literals, indices and sizes find their type.
//
// The text `0.1 * X` says nothing about the type of 0.1, and giving it one too early is wrong twice: f32 would drag an
// f16 program up, and 0.1 rounded to f32 is off by 1.5e-9 in an f64 program. So the number waits, in f64, and
// everything that is computed from such numbers alone waits with it. Three rules follow from "takes the other operand's
// type" and its dangers:
//
//   - a literal must fit the type it takes (`U8 + 300` is an error), a cast by name may wrap (`u8(300)`);
//   - an index or size that is compared is not narrowed: `Label[n] == c` with u8 labels and 1000 classes must not find
//     class 256 where the label is 0;
//   - i64 for weak integers is exact for every index and size; only the result is narrowed.
#include "poly/typing.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "lang/messages.h"
#include "poly/fold.h"
#include "poly/interpret.h"

namespace tilec::poly {
namespace {

using Weak = Scalar::Weak;
using lang::Result;
namespace messages = lang::messages;

Expr integer_number(DType type, std::int64_t value) { return Number{.type = type, .integer = value}; }

bool fits(DType type, std::int64_t value) {
  if (type == DType::Bool) return value == 0 || value == 1;
  if (lang::is_signed(type)) return wrap_to(type, value) == value;
  return value >= 0 && (type == DType::U64 || value < (std::int64_t{1} << lang::bits(type)));
}

std::optional<Expr> misfit(const std::string& value, DType type, Span span, lang::Diagnostics& diagnostics) {
  diagnostics.report(span, messages::does_not_fit, value, lang::name(type))
      .hint(fmt::format("a cast by name wraps: `{}({})`", lang::name(type), value));
  return std::nullopt;
}

std::optional<Expr> float_constant(DType type, double value, Span span, lang::Diagnostics& diagnostics) {
  const double rounded = round_to(type, value);
  if (!std::isinf(rounded) || std::isinf(value)) return Expr{Number{.type = type, .real = rounded}};
  const DType wider = std::isinf(round_to(DType::F32, value)) ? DType::F64 : DType::F32;
  diagnostics.report(span, messages::does_not_fit, fmt::format("{}", value), lang::name(type))
      .hint(fmt::format("compute in a wider type: `{}({})`", lang::name(wider), value));
  return std::nullopt;
}

// The affine form of a weak integer, when it is one.
const Affine* affine(const Scalar& value) {
  const auto* index = value.weak == Weak::Integer ? value.expr.as<Index>() : nullptr;
  return index ? &index->value : nullptr;
}
std::optional<std::int64_t> known(const Expr& expr) {
  const auto* index = expr.as<Index>();
  return index && index->value.is_constant() && index->value.divisor.is(1) ? index->value.constant.value()
                                                                           : std::nullopt;
}

// A weak float tree in `type`. Its f64 nodes are the weak ones; what it reads or compares keeps its type.
std::optional<Expr> narrowed(const Expr& expr, DType type, Span span, lang::Diagnostics& diagnostics) {
  if (expr.type() != DType::F64) return expr;
  return expr.match(
      [&](const Number& n) { return float_constant(type, n.real, span, diagnostics); },
      [&](const Read&) -> std::optional<Expr> { return type == DType::F64 ? expr : Expr{Cast{expr, type}}; },
      [&](const Index&) -> std::optional<Expr> { return expr; },
      [&](const Cast& c) -> std::optional<Expr> { return Expr{Cast{c.operand, type}}; },
      [&](const Apply& a) -> std::optional<Expr> {
        Apply result{a.op, {}, type};
        for (const auto& operand : a.operands) {
          const auto lowered = narrowed(operand, type, span, diagnostics);
          if (!lowered) return std::nullopt;
          result.operands.push_back(*lowered);
        }
        return Expr{std::move(result)};
      });
}

Expr cast_expr(const Expr& expr, DType type) { return expr.type() == type ? expr : Expr{Cast{expr, type}}; }

std::optional<Expr> resolve_integer(const Expr& expr, DType type, Span span, lang::Diagnostics& diagnostics) {
  if (const auto* n = expr.as<Number>()) {             // a literal of 2⁶³ or more
    const auto text = std::to_string(static_cast<std::uint64_t>(n->integer));
    if (lang::is_float(type))
      return float_constant(type, static_cast<double>(static_cast<std::uint64_t>(n->integer)), span, diagnostics);
    return type == DType::U64 ? std::optional(expr) : misfit(text, type, span, diagnostics);
  }
  if (const auto value = known(expr)) {
    if (lang::is_float(type)) return float_constant(type, static_cast<double>(*value), span, diagnostics);
    return fits(type, *value) ? std::optional(integer_number(type, *value))
                              : misfit(std::to_string(*value), type, span, diagnostics);
  }
  if (const auto* index = expr.as<Index>(); index && lang::is_integer(type)) return Expr{Index{index->value, type}};
  if (const auto* a = expr.as<Apply>(); a && a->op == Op::Select) {
    const auto then = resolve_integer(a->operands[1], type, span, diagnostics);
    const auto otherwise = resolve_integer(a->operands[2], type, span, diagnostics);
    if (!then || !otherwise) return std::nullopt;
    return Expr{Apply{Op::Select, {a->operands[0], *then, *otherwise}, type}};
  }
  return cast_expr(expr, type);
}

// What the operands agree on.
struct Meeting { Weak weak; DType type; bool literal; };

Meeting meet(std::span<const Scalar> operands) {
  std::optional<DType> type;
  Weak weak = Weak::No;
  bool literal = true;
  for (const auto& operand : operands) {
    if (operand.weak == Weak::No) type = type ? lang::promote(*type, operand.expr.type()) : operand.expr.type();
    else {
      weak = std::max(weak, operand.weak);
      literal &= operand.literal;
    }
  }
  if (!type) return {weak, weak == Weak::Float ? DType::F64 : DType::I64, literal};
  if (weak == Weak::Float && !lang::is_float(*type)) type = DType::F32;
  if (weak == Weak::Integer && *type == DType::Bool) type = literal ? DType::I32 : DType::I64;
  return {Weak::No, *type, false};
}

std::optional<std::vector<Expr>> resolve_all(
    std::span<const Scalar> operands, DType type, Span span, lang::Diagnostics& diagnostics) {
  std::vector<Expr> result;
  for (const auto& operand : operands) {
    auto expr = resolve(operand, type, span, diagnostics);
    if (!expr) return std::nullopt;
    result.push_back(std::move(*expr));
  }
  return result;
}

std::optional<std::vector<Number>> numbers(std::span<const Expr> operands) {
  std::vector<Number> result;
  for (const auto& operand : operands) {
    const auto* n = operand.as<Number>();
    if (!n) return std::nullopt;
    result.push_back(*n);
  }
  return result;
}

// Sums and multiples of affine forms are affine; functions of sizes are sizes.
std::optional<Affine> affine_apply(Op op, std::span<const Scalar> operands) {
  std::vector<const Affine*> a;
  for (const auto& operand : operands) {
    a.push_back(affine(operand));
    if (!a.back()) return std::nullopt;
  }
  const std::size_t count = a[0]->coefficients.size();
  if (op == Op::Neg) return a[0]->times(-1);
  if (op == Op::Add) return a[0]->plus(*a[1]);
  if (op == Op::Sub) return a[0]->plus(a[1]->times(-1));
  if (op == Op::Mul && a[1]->is_constant()) return a[0]->times(a[1]->constant);
  if (op == Op::Mul && a[0]->is_constant()) return a[1]->times(a[0]->constant);
  for (const auto* form : a)
    if (!form->is_constant()) return std::nullopt;
  const auto of = [&](Size size) { return Affine::of(std::move(size), count); };
  switch (op) {
    case Op::Div: return of(a[0]->constant / a[1]->constant);
    case Op::Max: return of(Size::apply(Size::Kind::Max, {a[0]->constant, a[1]->constant}));
    case Op::Min: return of(Size::apply(Size::Kind::Min, {a[0]->constant, a[1]->constant}));
    case Op::Mod: return of(Size::apply(Size::Kind::Mod, {a[0]->constant, a[1]->constant}));
    case Op::Abs: return of(Size::apply(Size::Kind::Max, {a[0]->constant, -a[0]->constant}));
    case Op::Relu: return of(Size::apply(Size::Kind::Max, {a[0]->constant, 0}));
    case Op::Ceil: case Op::Floor: case Op::Round: case Op::Trunc: return *a[0];
    default: return std::nullopt;
  }
}

std::optional<Scalar> apply_weak_integer(
    Op op, std::span<const Scalar> operands, bool literal, Span span, lang::Diagnostics& diagnostics) {
  try {
    if (auto form = affine_apply(op, operands)) return affine_value(std::move(*form), literal);
  } catch (const SizeError& error) {
    diagnostics.report(span, messages::size_arithmetic, error.what());
    return std::nullopt;
  }
  auto exprs = resolve_all(operands, DType::I64, span, diagnostics);
  if (!exprs) return std::nullopt;
  if (const auto constants = numbers(*exprs)) {
    std::size_t count = 0;
    for (const auto& operand : operands)
      if (const auto* form = affine(operand)) count = form->coefficients.size();
    return affine_value(Affine::of(evaluate(op, *constants, DType::I64).integer, count), literal);
  }
  return Scalar{Apply{op, std::move(*exprs), DType::I64}, Weak::Integer, literal};
}

std::optional<Scalar> apply_weak_float(
    Op op, std::span<const Scalar> operands, bool literal, Span span, lang::Diagnostics& diagnostics) {
  auto exprs = resolve_all(operands, DType::F64, span, diagnostics);
  if (!exprs) return std::nullopt;
  if (const auto constants = numbers(*exprs)) return Scalar{evaluate(op, *constants, DType::F64), Weak::Float, literal};
  return Scalar{Apply{op, std::move(*exprs), DType::F64}, Weak::Float, literal};
}

std::optional<Scalar> compare(Op op, std::span<const Scalar> operands, Span span, lang::Diagnostics& diagnostics) {
  auto [weak, type, literal] = meet(operands);
  const bool asks_float = op == Op::IsNan || op == Op::IsFinite;
  if (asks_float && weak == Weak::Integer) type = DType::F64;
  if (weak == Weak::No) {
    if (asks_float && !lang::is_float(type)) type = DType::F32;
    // Because an index that wrapped would equal what it is not.
    for (const auto& operand : operands)
      if (operand.weak == Weak::Integer && !operand.literal && !lang::is_float(type))
        type = lang::promote(type, DType::I64);
  }
  auto exprs = resolve_all(operands, type, span, diagnostics);
  if (!exprs) return std::nullopt;
  if (weak != Weak::No) {
    if (const auto constants = numbers(*exprs)) return Scalar{evaluate(op, *constants, DType::Bool)};
    if (weak == Weak::Float) exprs = resolve_all(operands, DType::F32, span, diagnostics);
    if (!exprs) return std::nullopt;
  }
  return Scalar{Apply{op, std::move(*exprs), DType::Bool}};
}

std::optional<Scalar> select(std::span<const Scalar> operands, Span span, lang::Diagnostics& diagnostics) {
  const auto test = condition(operands[0], span, diagnostics);
  const auto [weak, type, literal] = meet(operands.subspan(1));
  auto arms = resolve_all(operands.subspan(1), type, span, diagnostics);
  if (!test || !arms) return std::nullopt;
  if (weak == Weak::Integer)                            // the arms stay weak, so that they can still take a type
    return Scalar{Apply{Op::Select, {*test, operands[1].expr, operands[2].expr}, DType::I64}, weak, literal};
  return Scalar{Apply{Op::Select, {*test, (*arms)[0], (*arms)[1]}, type}, weak, literal};
}

bool works_on_bool(Op op) {
  return op == Op::And || op == Op::Or || op == Op::Xor || op == Op::Not || op == Op::Max || op == Op::Min;
}

// Wrapping additions and products of the wide type have the right low bits; nothing else has.
bool widens(Op op, DType type) {
  return lang::is_float(type) || op == Op::Add || op == Op::Sub || op == Op::Mul || op == Op::Neg || op == Op::Select ||
      op == Op::Fma;
}

}  // namespace

Scalar affine_value(Affine value, bool literal) {
  return {Index{std::move(value), DType::I64}, Weak::Integer, literal};
}
Scalar float_literal(double value) { return {Number{.type = DType::F64, .real = value}, Weak::Float, true}; }

Scalar integer_literal(std::uint64_t magnitude, bool negative, std::size_t count) {
  if (magnitude <= static_cast<std::uint64_t>(INT64_MAX)) {
    const auto value = static_cast<std::int64_t>(magnitude);
    return affine_value(Affine::of(negative ? -value : value, count), true);
  }
  if (negative && magnitude == static_cast<std::uint64_t>(INT64_MAX) + 1)
    return affine_value(Affine::of(INT64_MIN, count), true);
  if (negative) return {Number{.type = DType::F64, .real = -static_cast<double>(magnitude)}, Weak::Float, true};
  return {integer_number(DType::U64, static_cast<std::int64_t>(magnitude)), Weak::Integer, true};
}

Expr number(DType type, double value) { return convert(Number{.type = DType::F64, .real = value}, type); }

DType type_alone(const Scalar& value) {
  switch (value.weak) {
    case Weak::No: return value.expr.type();
    case Weak::Integer: return value.literal ? DType::I32 : DType::I64;
    case Weak::Float: return DType::F32;
  }
  return value.expr.type();
}

std::optional<Expr> resolve(const Scalar& value, DType type, Span span, lang::Diagnostics& diagnostics) {
  if (value.weak == Weak::No) return cast_expr(value.expr, type);
  if (value.weak == Weak::Integer) return resolve_integer(value.expr, type, span, diagnostics);
  if (!lang::is_float(type)) return cast(value, type).expr;
  if (value.expr.as<Number>()) return narrowed(value.expr, type, span, diagnostics);
  const auto computed = narrowed(value.expr, type == DType::F64 ? DType::F64 : DType::F32, span, diagnostics);
  return computed ? std::optional(cast_expr(*computed, type)) : std::nullopt;
}

namespace {

// A number that is known when the program is called and cast by name: first into the type it has, which tells it from
// one that met `type`.
Expr by_name(const Expr& number, DType type) { return Cast{Cast{number, number.type()}, type}; }

}  // namespace

Scalar cast(const Scalar& value, DType type) {
  if (value.weak == Weak::No) return {as_stored(value.expr, type)};
  if (value.expr.as<Read>()) return {by_name(value.expr, type)};
  if (const auto* n = value.expr.as<Number>()) return {convert(*n, type)};
  if (const auto constant = known(value.expr)) return {convert(Number{.type = DType::I64, .integer = *constant}, type)};
  lang::Diagnostics ignored;                            // constants inside that overflow become inf, as asked
  if (value.weak == Weak::Float) {
    const auto computed = narrowed(value.expr, type == DType::F64 ? DType::F64 : DType::F32, {}, ignored);
    return {cast_expr(computed.value_or(value.expr), type)};
  }
  return {resolve_integer(value.expr, type, {}, ignored).value_or(cast_expr(value.expr, type))};
}

std::optional<Expr> condition(const Scalar& value, Span span, lang::Diagnostics& diagnostics) {
  auto expr = resolve(value, value.weak == Weak::Integer ? DType::I64 : type_alone(value), span, diagnostics);
  if (!expr || expr->type() == DType::Bool) return expr;
  if (const auto* n = expr->as<Number>()) return Expr{convert(*n, DType::Bool)};
  return Expr{Apply{Op::Ne, {*expr, Number{.type = expr->type()}}, DType::Bool}};
}

std::optional<Scalar> apply(Op op, const std::vector<Scalar>& operands, Span span, lang::Diagnostics& diagnostics) {
  const auto& facts = lang::info(op);
  if (op == Op::Select) return select(operands, span, diagnostics);
  if (facts.result == Result::Boolean) return compare(op, operands, span, diagnostics);
  auto [weak, type, literal] = meet(operands);
  if (weak == Weak::No && type == DType::Bool && !works_on_bool(op)) type = DType::I32;
  if (facts.result == Result::Float && !lang::is_float(type)) {
    if (weak == Weak::Integer) weak = Weak::Float;
    else type = DType::F32;
  }
  if (facts.integers_only && (weak == Weak::Float || (weak == Weak::No && lang::is_float(type)))) {
    auto entry = diagnostics.report(
        span, messages::integers_only, facts.symbol, lang::name(weak == Weak::Float ? DType::F32 : type));
    if (op == Op::Xor) entry.hint("a power is `pow(x, 2)`, a square `x * x`");
    else entry.hint("give it integers: declare them in the heading, as in `i32 Y[N]`, or cast: `i32(Y)`");
    return std::nullopt;
  }
  if (weak == Weak::Integer) return apply_weak_integer(op, operands, literal, span, diagnostics);
  if (weak == Weak::Float) return apply_weak_float(op, operands, literal, span, diagnostics);
  auto exprs = resolve_all(operands, type, span, diagnostics);
  if (!exprs) return std::nullopt;
  return Scalar{Apply{op, std::move(*exprs), type}};
}

Expr accumulate_in(const Expr& value, DType type) {
  if (value.type() == type) return value;
  if (lang::is_float(value.type()) != lang::is_float(type) || value.type() == DType::Bool) return Cast{value, type};
  return value.match(
      [&](const Number& n) { return Expr{convert(n, type)}; },
      [&](const Read&) { return Expr{Cast{value, type}}; },
      [&](const Index&) { return Expr{Cast{value, type}}; },
      [&](const Cast&) { return Expr{Cast{value, type}}; },
      [&](const Apply& a) {
        if (!widens(a.op, type)) return Expr{Cast{value, type}};
        Apply wide{a.op, {}, type};
        for (std::size_t k = 0; k < a.operands.size(); ++k)
          wide.operands.push_back(a.op == Op::Select && k == 0 ? a.operands[k] : accumulate_in(a.operands[k], type));
        return Expr{std::move(wide)};
      });
}

std::optional<Folded> folded(Aggregation aggregation, const Scalar& scalar, std::optional<DType> written, Span span,
    lang::Diagnostics& diagnostics) {
  const bool adds = aggregation == Aggregation::Sum || aggregation == Aggregation::Product;
  DType natural = type_alone(scalar);
  if (scalar.weak == Scalar::Weak::Integer ? written.has_value()
                                           : scalar.weak == Scalar::Weak::Float && written && lang::is_float(*written))
    natural = *written;
  if (adds && natural == DType::Bool) natural = DType::I32;
  const DType result = written.value_or(natural);
  if (!adds) {
    auto value = resolve(scalar, result, span, diagnostics);
    return value ? std::optional(Folded{result, std::move(*value)}) : std::nullopt;
  }
  const DType fold = lang::accumulator(result == DType::Bool ? natural : lang::promote(natural, result));
  const auto value = resolve(scalar, scalar.weak == Scalar::Weak::No ? type_alone(scalar) : natural, span, diagnostics);
  return value ? std::optional(Folded{result, accumulate_in(*value, fold)}) : std::nullopt;
}

Expr carried(const Expr& value, const std::vector<int>& where, std::size_t count) {
  return value.match(
      [&](const Number&) { return value; },
      [&](const Read& r) { return Expr{Read{where[static_cast<std::size_t>(r.read)], r.type}}; },
      [&](const Index& i) { return Expr{Index{i.value.renumber({}, count), i.type}}; },
      [&](const Cast& c) { return Expr{Cast{carried(c.operand, where, count), c.type}}; },
      [&](const Apply& a) {
        Apply copy{a.op, {}, a.type};
        for (const auto& operand : a.operands) copy.operands.push_back(carried(operand, where, count));
        return Expr{std::move(copy)};
      });
}

std::size_t node_count(const Expr& value, std::size_t limit) {
  std::size_t count = 1;
  value.match([](const Number&) {}, [](const Read&) {}, [](const Index&) {},
              [&](const Cast& c) { count += node_count(c.operand, limit); },
              [&](const Apply& a) {
                for (const auto& operand : a.operands)
                  if (count < limit) count += node_count(operand, limit - count);
              });
  return count;
}

}  // namespace tilec::poly
