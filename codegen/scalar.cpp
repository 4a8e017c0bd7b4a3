// Constants, casts and folds of Loops for those of a Program.
#include "codegen/scalar.h"

#include <limits>

namespace tilec::codegen {

std::int64_t const_or(const Expr& e, std::int64_t otherwise) {
  const auto* c = e.as<Constant>();
  return c && c->type == DType::I64 ? c->integer : otherwise;
}
bool is_const(const Expr& e) { return e.as<Constant>() != nullptr; }

DType compute_type(DType type) { return type == DType::F16 || type == DType::BF16 ? DType::F32 : type; }

// A float that was widened is narrowed as it was.
Expr convert(const Expr& e, DType type) {
  if (e.type() == type) return e;
  const auto* wide = e.as<Convert>();
  if (wide && wide->operand.type() == type && lang::is_float(type) && lang::is_float(e.type()) &&
      lang::bits(type) < lang::bits(e.type()))
    return wide->operand;
  return Convert{e, type};
}

Expr constant_of(const poly::Number& number) {
  const DType type = compute_type(number.type);
  return Constant{type, number.integer, number.real};
}

Expr identity(Aggregation how, DType type) {
  const bool real = lang::is_float(type);
  const double inf = std::numeric_limits<double>::infinity();
  const int width = lang::bits(type);
  const auto extreme = [&](bool low) -> std::int64_t {
    if (type == DType::Bool) return low ? 0 : 1;
    if (!lang::is_signed(type)) return low ? 0 : (width == 64 ? -1 : (std::int64_t{1} << width) - 1);
    const std::int64_t top = width == 64 ? INT64_MAX : (std::int64_t{1} << (width - 1)) - 1;
    return low ? -top - 1 : top;
  };
  switch (how) {
    case Aggregation::Product: return Constant{type, 1, 1.0};
    case Aggregation::Max: return real ? Constant{type, 0, -inf} : Constant{type, extreme(true), 0};
    case Aggregation::Min: return real ? Constant{type, 0, inf} : Constant{type, extreme(false), 0};
    default: return Constant{type, 0, 0.0};
  }
}

namespace {

bool is_half(DType type) { return type == DType::F16 || type == DType::BF16; }

// What was read or cast has been rounded to its type; what was computed has not.
bool is_rounded(const poly::Expr& value) {
  return value.match([](const poly::Read&) { return true; }, [](const poly::Number&) { return true; },
      [](const poly::Index&) { return false; }, [](const poly::Cast&) { return true; },
      [](const poly::Apply&) { return false; });
}

Expr rounded(const Expr& value, DType half) { return Convert{Expr(Convert{value, half}), DType::F32}; }

}  // namespace

Expr cast(const Expr& value, const poly::Expr& of, DType to) {
  const DType from = of.type();
  Expr seen = is_half(from) && !is_rounded(of) ? rounded(value, from) : value;
  if (from == to) return seen;
  return is_half(to) ? rounded(seen, to) : convert(seen, to);
}

Expr combine(Aggregation how, const Expr& acc, const Expr& x) {
  const DType type = acc.type();
  switch (how) {
    case Aggregation::Sum: return Operation{type == DType::Bool ? Op::Or : Op::Add, {acc, x}, type};
    case Aggregation::Product: return Operation{type == DType::Bool ? Op::And : Op::Mul, {acc, x}, type};
    case Aggregation::Max: return Operation{Op::Max, {acc, x}, type};
    case Aggregation::Min: return Operation{Op::Min, {acc, x}, type};
    default: return x;
  }
}

}  // namespace tilec::codegen
