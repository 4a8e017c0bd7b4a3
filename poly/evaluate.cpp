// One scalar operation: the total arithmetic of docs/language.md#types, the same for the interpreter and for constant
// folding.
//
// Integers wrap in their width, x/0 and x mod 0 are 0, a shift by the width or more gives 0 (-1 for a negative `>>`),
// float to integer saturates and NaN gives 0. Floats are computed in double and not rounded here, except where a
// rounding would be seen whole: a comparison or a rounding function looks at its operands as the f32 values that every
// backend has.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "poly/evaluate.h"
#include "poly/interpret.h"

namespace tilec::poly {
namespace {

std::uint64_t bits_of(std::int64_t value) { return static_cast<std::uint64_t>(value); }
std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// Rounds to `precision` significant bits, nearest even; smallest is the exponent of the least subnormal, largest of the
// greatest number.
double round_binary(double value, int precision, int smallest, int largest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value) - precision + 1, smallest);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
  return std::ilogb(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

// What a comparison sees: backends compute f16 and bf16 in f32.
double seen(DType type, double value) {
  return type == DType::F64 ? value : static_cast<double>(static_cast<float>(value));
}

double propagate(double a, double b, double picked) { return std::isnan(a) ? a : std::isnan(b) ? b : picked; }

[[noreturn]] void no_such(Op op, DType type) {
  throw lang::InternalError(fmt::format("`{}` has no meaning on {}", lang::info(op).name, lang::name(type)));
}

std::int64_t power(std::int64_t base, std::int64_t exponent, DType type) {
  const bool negative = lang::is_signed(type) && exponent < 0;
  if (negative) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  std::uint64_t result = 1, square = bits_of(base);
  for (auto left = bits_of(exponent); left != 0; left >>= 1, square *= square)
    if (left & 1) result *= square;
  return as_signed(result);
}

std::int64_t quotient(std::int64_t a, std::int64_t b, DType type) {
  if (b == 0) return 0;
  if (!lang::is_signed(type)) return as_signed(bits_of(a) / bits_of(b));
  return b == -1 ? as_signed(0 - bits_of(a)) : a / b;
}

std::int64_t remainder_of(std::int64_t a, std::int64_t b, DType type) {
  if (b == 0) return 0;
  if (!lang::is_signed(type)) return as_signed(bits_of(a) % bits_of(b));
  return b == -1 ? 0 : a % b;
}

std::int64_t shifted(Op op, std::int64_t a, std::int64_t amount, DType type) {
  const int width = type == DType::Bool ? 1 : lang::bits(type);
  const bool negative = lang::is_signed(type) && a < 0;
  if (bits_of(amount) >= static_cast<std::uint64_t>(width)) return op == Op::Shr && negative ? -1 : 0;
  if (op == Op::Shl) return as_signed(bits_of(a) << amount);
  return lang::is_signed(type) ? a >> amount : as_signed(bits_of(a) >> amount);
}

}  // namespace

double round_to(DType type, double value) {
  switch (type) {
    case DType::F16: return round_binary(value, 11, -24, 15);
    case DType::BF16: return round_binary(value, 8, -133, 127);
    case DType::F32: return static_cast<double>(static_cast<float>(value));
    default: return value;
  }
}

std::int64_t wrap_to(DType type, std::int64_t value) {
  switch (type) {
    case DType::Bool: return value != 0;
    case DType::U8: return static_cast<std::uint8_t>(value);
    case DType::U16: return static_cast<std::uint16_t>(value);
    case DType::U32: return static_cast<std::uint32_t>(value);
    case DType::I8: return static_cast<std::int8_t>(value);
    case DType::I16: return static_cast<std::int16_t>(value);
    case DType::I32: return static_cast<std::int32_t>(value);
    default: return value;
  }
}

bool compare_reals(Op op, DType type, double a, double b) {
  const double x = seen(type, a), y = seen(type, b);
  switch (op) {
    case Op::Eq: return x == y;
    case Op::Ne: return x != y;
    case Op::Lt: return x < y;
    case Op::Le: return x <= y;
    case Op::Gt: return x > y;
    case Op::Ge: return x >= y;
    default: no_such(op, type);
  }
}

bool compare_integers(Op op, DType type, std::int64_t a, std::int64_t b) {
  const bool less = lang::is_signed(type) ? a < b : bits_of(a) < bits_of(b);
  switch (op) {
    case Op::Eq: return a == b;
    case Op::Ne: return a != b;
    case Op::Lt: return less;
    case Op::Le: return less || a == b;
    case Op::Gt: return !less && a != b;
    case Op::Ge: return !less;
    default: no_such(op, type);
  }
}

namespace {

// As `cvt.rna.tf32.f32`: half of the lowest bit that is kept is added to the magnitude, and what lies below it goes.
double to_tf32(double a) {
  const auto x = static_cast<float>(a);
  if (!std::isfinite(x)) return a;
  constexpr std::uint32_t dropped = 0x1fff;            // 13 of the 24 bits
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + (dropped + 1) / 2) & ~dropped);
}

[[gnu::always_inline]] inline double operation(Op op, DType type, double a, double b, double c) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Div: return a / b;
    case Op::Neg: return -a;
    case Op::Abs: return std::fabs(a);
    case Op::Max: return propagate(a, b, a < b || (a == b && std::signbit(a)) ? b : a);  // -0 lies below 0
    case Op::Min: return propagate(a, b, b < a || (a == b && std::signbit(b)) ? b : a);
    case Op::Pow: return std::pow(a, b);
    case Op::Mod: return std::fmod(a, b);
    case Op::Fma: return std::fma(a, b, c);
    case Op::Recip: return 1 / a;
    case Op::Relu: return a < 0 ? 0 : a;
    case Op::Sigmoid: return 1 / (1 + std::exp(-a));
    case Op::Sign: return a > 0 ? 1 : a < 0 ? -1 : a == 0 ? 0 : a;
    case Op::Exp: return std::exp(a);
    case Op::Log: return std::log(a);
    case Op::Sqrt: return std::sqrt(a);
    case Op::Erf: return std::erf(a);
    case Op::Sin: return std::sin(a);
    case Op::Cos: return std::cos(a);
    case Op::Tan: return std::tan(a);
    case Op::Asin: return std::asin(a);
    case Op::Acos: return std::acos(a);
    case Op::Atan: return std::atan(a);
    case Op::Sinh: return std::sinh(a);
    case Op::Cosh: return std::cosh(a);
    case Op::Tanh: return std::tanh(a);
    case Op::Asinh: return std::asinh(a);
    case Op::Acosh: return std::acosh(a);
    case Op::Atanh: return std::atanh(a);
    case Op::Atan2: return std::atan2(a, b);
    case Op::Ceil: return std::ceil(seen(type, a));
    case Op::Floor: return std::floor(seen(type, a));
    case Op::Round: return std::round(seen(type, a));
    case Op::Trunc: return std::trunc(seen(type, a));
    case Op::Tf32: return to_tf32(a);
    default: no_such(op, type);
  }
}

}  // namespace

double real_operation(Op op, DType type, double a, double b, double c) { return operation(op, type, a, b, c); }

void real_operation(
    Op op, DType type, std::size_t count, const double* a, const double* b, const double* c, double* result) {
  const auto each = [&](auto known) {
    for (std::size_t k = 0; k < count; ++k) result[k] = operation(known, type, a[k], b[k], c[k]);
  };
  switch (op) {                                          // the most frequent ones without a switch per element
    case Op::Add: return each(std::integral_constant<Op, Op::Add>());
    case Op::Sub: return each(std::integral_constant<Op, Op::Sub>());
    case Op::Mul: return each(std::integral_constant<Op, Op::Mul>());
    default: return each(op);
  }
}

std::int64_t integer_operation(Op op, DType type, std::int64_t a, std::int64_t b, std::int64_t c) {
  const bool negative = lang::is_signed(type) && a < 0;
  const auto wrapped = [type](std::uint64_t value) { return wrap_to(type, as_signed(value)); };
  switch (op) {
    case Op::Add: return wrapped(bits_of(a) + bits_of(b));
    case Op::Sub: return wrapped(bits_of(a) - bits_of(b));
    case Op::Mul: return wrapped(bits_of(a) * bits_of(b));
    case Op::Div: return wrap_to(type, quotient(a, b, type));
    case Op::Mod: return wrap_to(type, remainder_of(a, b, type));
    case Op::Neg: return wrapped(0 - bits_of(a));
    case Op::And: return a & b;
    case Op::Or: return a | b;
    case Op::Xor: return a ^ b;
    case Op::Not: return type == DType::Bool ? a == 0 : wrapped(~bits_of(a));
    case Op::Shl:
    case Op::Shr: return wrap_to(type, shifted(op, a, b, type));
    case Op::Abs: return negative ? wrapped(0 - bits_of(a)) : a;
    case Op::Max: return compare_integers(Op::Lt, type, a, b) ? b : a;
    case Op::Min: return compare_integers(Op::Lt, type, b, a) ? b : a;
    case Op::Pow: return wrap_to(type, power(a, b, type));
    case Op::Fma: return wrapped(bits_of(a) * bits_of(b) + bits_of(c));
    case Op::Recip: return quotient(1, a, type);
    case Op::Relu: return negative ? 0 : a;
    case Op::Sign: return negative ? -1 : a != 0;
    case Op::Ceil:
    case Op::Floor:
    case Op::Round:
    case Op::Trunc: return a;
    default: no_such(op, type);
  }
}

std::int64_t real_to_integer(DType type, double value) {
  if (type == DType::Bool) return value != 0;
  if (std::isnan(value)) return 0;
  const int width = lang::bits(type);
  if (!lang::is_signed(type)) {
    if (value <= 0) return 0;
    if (value >= std::ldexp(1.0, width)) return wrap_to(type, -1);
    return as_signed(static_cast<std::uint64_t>(value));
  }
  const double limit = std::ldexp(1.0, width - 1);
  if (value >= limit) return as_signed((std::uint64_t{1} << (width - 1)) - 1);
  if (value <= -limit) return as_signed(0 - (std::uint64_t{1} << (width - 1)));
  return static_cast<std::int64_t>(value);
}

// With what no double holds kept as an odd last bit, so that rounding to fewer bits is the only rounding.
double to_odd(bool negative, std::uint64_t magnitude) {
  int shift = 0;
  for (; magnitude >> 53 != 0; ++shift) magnitude = magnitude >> 1 | (magnitude & 1);
  const double value = std::ldexp(static_cast<double>(magnitude), shift);
  return negative ? -value : value;
}

double integer_to_real(DType from, DType to, std::int64_t value) {
  const bool negative = from != DType::U64 && value < 0;
  if (to != DType::F64) return round_to(to, to_odd(negative, negative ? 0 - bits_of(value) : bits_of(value)));
  return from == DType::U64 ? static_cast<double>(bits_of(value)) : static_cast<double>(value);
}

Number convert(const Number& value, DType type) {
  const bool from_float = lang::is_float(value.type);
  if (lang::is_float(type))
    return {type, 0,
        from_float ? round_to(type, round_to(value.type, value.real))
                   : integer_to_real(value.type, type, value.integer)};
  return {type, from_float ? real_to_integer(type, round_to(value.type, value.real)) : wrap_to(type, value.integer), 0};
}

bool truth(const Number& value) { return lang::is_float(value.type) ? value.real != 0 : value.integer != 0; }

Number evaluate(Op op, const std::vector<Number>& operands, DType type) {
  const auto& first = operands.at(0);
  if (op == Op::Select) return truth(first) ? operands.at(1) : operands.at(2);
  if (op == Op::IsNan) return {type, lang::is_float(first.type) && std::isnan(first.real), 0};
  if (op == Op::IsFinite) return {type, !lang::is_float(first.type) || std::isfinite(first.real), 0};
  const auto at = [&](std::size_t k) { return k < operands.size() ? operands[k] : Number{first.type}; };
  if (lang::info(op).result == lang::Result::Boolean) {
    const bool holds = lang::is_float(first.type) ? compare_reals(op, first.type, first.real, at(1).real)
                                                  : compare_integers(op, first.type, first.integer, at(1).integer);
    return {type, holds, 0};
  }
  if (lang::is_float(type)) {
    const double result = real_operation(op, type, first.real, at(1).real, at(2).real);
    const double narrow = static_cast<double>(static_cast<float>(result));
    return {type, 0, type != DType::F64 && (std::isinf(narrow) || narrow == 0) ? narrow : result};
  }
  return {type, integer_operation(op, type, first.integer, at(1).integer, at(2).integer), 0};
}

}  // namespace tilec::poly
