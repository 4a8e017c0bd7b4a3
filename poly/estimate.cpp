// Error bounds of scalars, so that a test knows by how much a backend may differ.
//
// The problem: a backend sums in another order and has its own `exp`, so its results differ from these, and a test must
// know by how much they may. A fixed tolerance is either too wide for a sum of three numbers or too narrow for one with
// cancellation. So an absolute error travels with every value, first order and derivative-free:
//
//   input                0
//   a + b                ea + eb                        every operation adds 2 ulp of its result, in its type
//   a · b                |a|·eb + |b|·ea + ea·eb
//   a ± b, a · b         0, where all are whole numbers below 2^p that have no error: p bits of a mantissa hold them
//   f(x)                 the largest |f(x ± e) - f(x)|: no derivative needed, and a step in between is seen
//   a < b                1 where |a - b| <= ea + eb and a != b: either answer is right; a == b: where it is so in their
//                        type, 0
//   c ? a : b            that of the arm, plus |a - b| where c is uncertain
//   Σ terms              Σ e + 8·eps·Σ|term|·(1 + √n/32 + n/1024): equal terms round alike; 0 of whole numbers
//                        without an error whose sizes add up to less than 2^p, in whatever order; Π likewise;
//                        infinite: see interpret.cpp
//   store                + 1 ulp of the tensor's type
//   beyond the type      infinite, as backends have it; the error is unbounded where that is not certain
//
// For `0.1f + 0.2f - 0.3f` the value is about 1e-8 and the error 2e-7: nothing can be said about its digits, and the
// tolerance says so. `magnitudes` is this error in units of 8·eps of the tensor's type, and at least |value|.
#include "poly/estimate.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "lang/diagnostic.h"
#include "poly/evaluate.h"

namespace tilec::poly {

double epsilon(DType type) {
  switch (type) {
    case DType::F16: return 0x1p-10;
    case DType::BF16: return 0x1p-7;
    case DType::F32: return 0x1p-23;
    case DType::F64: return 0x1p-52;
    default: return 0;
  }
}

double largest(DType type) {
  switch (type) {
    case DType::F16: return 65504;
    case DType::BF16:
    case DType::F32: return 0x1.fffffep127;
    default: return std::numeric_limits<double>::max();
  }
}

namespace {

double least(DType type) {
  switch (type) {
    case DType::F16: return 0x1p-24;
    case DType::BF16:
    case DType::F32: return 0x1p-126;                  // backends may flush subnormals
    case DType::F64: return 0x1p-1022;
    default: return 0;
  }
}

}  // namespace

Value load(const Stored& tensor, std::size_t at) {
  return lang::is_float(tensor.array.dtype) ? Value{tensor.array.reals[at], 0, tensor.errors[at]}
                                            : Value{0, tensor.array.integers[at], tensor.errors[at]};
}

void load(const Stored& tensor, std::size_t count, const std::size_t* at, Column& result) {
  result.exact = tensor.exact;
  if (lang::is_float(tensor.array.dtype))
    for (std::size_t k = 0; k < count; ++k) result.real[k] = tensor.array.reals[at[k]];
  else
    for (std::size_t k = 0; k < count; ++k) result.integer[k] = tensor.array.integers[at[k]];
  if (!result.exact)
    for (std::size_t k = 0; k < count; ++k) result.error[k] = tensor.errors[at[k]];
}

void store(Stored& tensor, std::size_t at, const Value& value) {
  if (lang::is_float(tensor.array.dtype)) tensor.array.reals[at] = value.real;
  else tensor.array.integers[at] = value.integer;
  tensor.errors[at] = value.error;
}

double as_real(DType type, const Value& v) {
  return lang::is_float(type) ? v.real
      : type == DType::U64    ? static_cast<double>(static_cast<std::uint64_t>(v.integer))
                              : static_cast<double>(v.integer);
}

// |a - b| where a difference that is not a number means that nothing is known.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double apart = std::fabs(a - b);
  return std::isnan(apart) ? infinity : apart;
}

namespace {

// |factor| * error, where nothing times an unbounded error is unbounded, not NaN: the error may come from a value that
// is not finite.
double error_product(double factor, double error) {
  if (error == 0) return 0;
  const double product = std::fabs(factor) * error;
  return std::isnan(product) ? infinity : product;
}

double error_square(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

double own_error(DType type, double result) {
  return std::isfinite(result) ? 2 * epsilon(type) * std::fabs(result) + least(type) : 0;
}

double whole_below(DType type) { return std::min(2 / epsilon(type), 0x1p51); }

// From 2^51 on the sum would be rounded elsewhere.
bool is_whole(double value, double below) { return std::fabs(value) < below && value + 0x1.8p52 - 0x1.8p52 == value; }

bool sums_or_multiplies(Op op) { return op == Op::Add || op == Op::Sub || op == Op::Mul || op == Op::Fma; }

// Of operands without an error.
bool gives_whole(Op op, double below, double a, double b, double c, double result) {
  if (!sums_or_multiplies(op)) return false;
  const bool operands = is_whole(a, below) && is_whole(b, below) && std::fabs(result) < below;
  return operands && (op != Op::Fma || (is_whole(c, below) && std::fabs(a * b) < below));
}

bool is_exact(Op op) {
  switch (op) {
    case Op::Neg:
    case Op::Abs:
    case Op::Max:
    case Op::Min:
    case Op::Relu:
    case Op::Sign:
    case Op::Ceil:
    case Op::Floor:
    case Op::Round:
    case Op::Trunc: return true;
    default: return false;
  }
}

// The error that operands of a float operation hand on. Inlined so that in a column nothing is asked twice.
[[gnu::always_inline]] inline double inherited(
    Op op, DType type, const Value& a, const Value& b, const Value& c, double result) {
  if (a.error == 0 && b.error == 0 && c.error == 0) return 0;
  switch (op) {
    case Op::Add:
    case Op::Sub: return a.error + b.error;
    case Op::Mul:
      return error_product(a.real, b.error) + error_product(b.real, a.error) + error_square(a.error, b.error);
    case Op::Fma:
      return error_product(a.real, b.error) + error_product(b.real, a.error) + error_square(a.error, b.error) + c.error;
    case Op::Neg:
    case Op::Abs:
    case Op::Relu: return a.error;
    case Op::Max:
    case Op::Min: return std::max(a.error, b.error);
    case Op::Div:
      return std::fabs(b.real) > b.error ? (a.error + error_product(result, b.error)) / (std::fabs(b.real) - b.error)
                                         : infinity;
    case Op::Sin:
    case Op::Cos: return std::min(2.0, a.error);
    case Op::Tan: if (a.error >= 1.5) return infinity; break;
    case Op::Mod: {                                    // a jump from one end of [0, |b|) to the other may lie between
      const double period = std::fabs(b.real), e = a.error + error_product(a.real / b.real, b.error);
      return e < std::fabs(result) && std::fabs(result) + e < period - b.error ? e
          : std::isfinite(period)                                              ? period + e
                                                                               : infinity;
    }
    default: break;
  }
  double worst = 0;
  for (const double x : {a.real - a.error, a.real + a.error})
    for (const double y : {b.real - b.error, b.real + b.error})
      worst = std::max(worst, distance(real_operation(op, type, x, y, c.real), result));
  return worst;
}

}  // namespace

namespace {

// Beyond the one an f32 is infinite, below the other 0, flushed or not; f16 and bf16 are computed in f32.
constexpr double rounds_to_infinity = 0x1.ffffffp127, rounds_to_zero = 0x1p-150;

bool rounds_once(Op op) {
  return op == Op::Add || op == Op::Sub || op == Op::Mul || op == Op::Div || op == Op::Fma || op == Op::Sqrt;
}

// What backends hold where a result is beyond f32: infinity or 0, if its operands leave no doubt. A product that is
// added without being rounded first is not beyond anything yet, so nothing is known of it. Any other doubtful value is
// the one that IEEE gives, in f32: what is beyond it is infinite in all that follows. (What an exact operation gives is
// no larger than an operand.)
Value settled(double result, double error, double doubt, bool fuses) {
  const double size = std::fabs(result);
  if (size != 0 && size + doubt < rounds_to_zero && !fuses) return {std::copysign(0.0, result), 0, 0};
  if (size + doubt < rounds_to_infinity || !std::isfinite(size)) return {result, 0, error};
  if (!fuses && size - doubt >= rounds_to_infinity) return {std::copysign(infinity, result), 0, 0};
  return {fuses ? result : round_to(DType::F32, result), 0, infinity};
}

}  // namespace

Value apply_real(Op op, DType type, const Value& a, const Value& b, const Value& c, bool fuses) {
  const double result = real_operation(op, type, a.real, b.real, c.real);
  const double given = inherited(op, type, a, b, c, result);
  const bool known = a.error == 0 && b.error == 0 && c.error == 0;
  const bool exact = is_exact(op) || (known && gives_whole(op, whole_below(type), a.real, b.real, c.real, result));
  const double error = given + (exact ? 0 : own_error(type, result));
  return type == DType::F64 || is_exact(op) ? Value{result, 0, error}
                                            : settled(result, error, rounds_once(op) ? given : error, fuses);
}

void apply_real(Op op, DType type, bool fuses, std::size_t count, const Column& a, const Column& b, const Column& c,
    Column& result) {
  real_operation(op, type, count, a.real.data(), b.real.data(), c.real.data(), result.real.data());
  const bool exact = a.exact && b.exact && c.exact;
  result.exact = exact && is_exact(op);
  if (result.exact) return;
  const double relative = is_exact(op) ? 0 : 2 * epsilon(type), smallest = is_exact(op) ? 0 : least(type);
  const auto each = [&](auto inherits) {
    for (std::size_t k = 0; k < count; ++k) {
      const double x = result.real[k];
      result.error[k] = inherits(k) + (std::isfinite(x) ? relative * std::fabs(x) + smallest : 0);
    }
  };
  const auto from_operands = [&](auto known) {
    each([&](std::size_t k) { return inherited(known, type, a.at(k), b.at(k), c.at(k), result.real[k]); });
  };
  if (exact) each([](std::size_t) { return 0.0; });
  else if (op == Op::Add) from_operands(std::integral_constant<Op, Op::Add>());
  else if (op == Op::Sub) from_operands(std::integral_constant<Op, Op::Sub>());
  else if (op == Op::Mul) from_operands(std::integral_constant<Op, Op::Mul>());
  else from_operands(op);
  result.exact = exact && sums_or_multiplies(op);
  const double below = whole_below(type);
  for (std::size_t k = 0; sums_or_multiplies(op) && k < count; ++k) {
    const bool known = exact || (a.at(k).error == 0 && b.at(k).error == 0 && c.at(k).error == 0);
    if (known && gives_whole(op, below, a.real[k], b.real[k], c.real[k], result.real[k])) result.error[k] = 0;
    else result.exact = false;
  }
  if (result.exact) return;
  if (type == DType::F64 || is_exact(op)) return;
  for (std::size_t k = 0; k < count; ++k) {
    const double size = std::fabs(result.real[k]);
    if (!(size + result.error[k] < rounds_to_infinity) || (size != 0 && size < rounds_to_zero))
      result.set(k, apply_real(op, type, a.at(k), b.at(k), c.at(k), fuses));
  }
}

Value apply_integer(Op op, DType type, const Value& a, const Value& b, const Value& c) {
  const auto result = integer_operation(op, type, a.integer, b.integer, c.integer);
  if (a.error == 0 && b.error == 0 && c.error == 0) return {0, result, 0};
  const double x = as_real(type, a), y = as_real(type, b);
  switch (op) {
    case Op::Add:
    case Op::Sub:
    case Op::Max:
    case Op::Min:
    case Op::Neg:
    case Op::Abs:
    case Op::Relu: return {0, result, a.error + b.error};
    case Op::Mul:
      return {0, result, error_product(x, b.error) + error_product(y, a.error) + error_square(a.error, b.error)};
    default: return {0, result, infinity};
  }
}

Value compare(Op op, DType type, const Value& a, const Value& b) {
  const bool real = lang::is_float(type);
  const bool holds = real ? compare_reals(op, type, a.real, b.real) : compare_integers(op, type, a.integer, b.integer);
  if (a.error == 0 && b.error == 0) return {0, holds, 0};
  // Whether a product is the largest is asked of the product as it was stored, which this one is not rounded like yet.
  const bool same = real && holds && op == Op::Eq;
  const double apart = same ? 0 : distance(as_real(type, a), as_real(type, b));
  return {0, holds, apart != 0 && apart <= a.error + b.error ? 1.0 : 0.0};
}

Value choose(DType condition_type, DType type, const Value& condition, const Value& a, const Value& b) {
  const bool first = lang::is_float(condition_type) ? condition.real != 0 : condition.integer != 0;
  Value value = first ? a : b;
  if (condition.error != 0) value.error = std::max(a.error, b.error) + distance(as_real(type, a), as_real(type, b));
  return value;
}

Value cast(DType from, DType to, const Value& v) {
  Value result;
  if (lang::is_float(to)) {
    result.real = lang::is_float(from) ? round_to(to, round_to(from, v.real)) : integer_to_real(from, to, v.integer);
    result.error = v.error + epsilon(to) * (std::isfinite(result.real) ? std::fabs(result.real) : 0);
    if (lang::is_float(from) && result.real == v.real && v.error == 0) result.error = 0;
    if (!lang::is_float(from) && as_real(from, v) == result.real) result.error = v.error;
  } else if (lang::is_float(from)) {
    const double seen = round_to(from, v.real);
    result.integer = real_to_integer(to, seen);
    if (v.error != 0) {
      const auto low = real_to_integer(to, v.real - v.error), high = real_to_integer(to, v.real + v.error);
      result.error = std::max(distance(static_cast<double>(low), static_cast<double>(result.integer)),
          distance(static_cast<double>(high), static_cast<double>(result.integer)));
    }
  } else {
    result.integer = wrap_to(to, v.integer);
    result.error = v.error;
  }
  return result;
}

namespace {

void fold_extreme(Aggregation aggregation, DType type, Value& held, const Value& v) {
  const auto op = aggregation == Aggregation::Max ? Op::Max : Op::Min;
  held = lang::is_float(type) ? apply_real(op, type, held, v, {}) : apply_integer(op, type, held, v, {});
}

// value near 1, and the power of two that was taken out of it.
std::int64_t take_exponent(Value& value) {
  if (value.real == 0 || !std::isfinite(value.real)) return 0;
  const int exponent = std::ilogb(value.real);
  value.real = std::ldexp(value.real, -exponent);
  value.error = std::ldexp(value.error, -exponent);
  return exponent;
}

void multiply(Fold& fold, DType type, Value factor) {
  Value& a = fold.value;
  fold.exponent += take_exponent(a) + take_exponent(factor);
  const double product = a.real * factor.real,
               rounding = std::isfinite(product) ? 2 * epsilon(type) * std::fabs(product) : 0;
  a.error = error_product(a.real, factor.error) + error_product(factor.real, a.error) +
      error_square(a.error, factor.error) + rounding;
  a.real = product;
}

bool is_known_whole(const Value& v) { return v.error == 0 && is_whole(v.real, 0x1p51); }

// One more term of a sum of floats.
inline void add_real(Fold& fold, const Value& v) {
  fold.whole = fold.whole && is_known_whole(v);
  if (std::isfinite(v.real)) fold.terms += std::fabs(v.real);
  ++fold.count;
  const double sum = fold.value.real + v.real, added = sum - fold.value.real;
  fold.rest += (fold.value.real - (sum - added)) + (v.real - added);  // exactly what `sum` lacks (Knuth's TwoSum)
  fold.value.real = sum;
  fold.value.error += v.error;
}

}  // namespace

void fold(Aggregation aggregation, DType type, Fold& fold, const Value& v) {
  const bool real = lang::is_float(type);
  if (aggregation == Aggregation::Sum && real && fold.count > 0) return add_real(fold, v);
  if (real && std::isfinite(v.real)) fold.terms += std::fabs(v.real);
  fold.whole = fold.whole && real && is_known_whole(v);
  if (fold.count++ == 0) {
    fold.value = v;
    return;
  }
  switch (aggregation) {
    case Aggregation::Assign: throw lang::InternalError("two points of an assignment write one element");
    case Aggregation::Sum:
      fold.value.integer = integer_operation(Op::Add, type, fold.value.integer, v.integer, 0);
      fold.value.error += v.error;
      return;
    case Aggregation::Product:
      real ? multiply(fold, type, v) : void(fold.value = apply_integer(Op::Mul, type, fold.value, v, {}));
      return;
    case Aggregation::Max:
    case Aggregation::Min: return fold_extreme(aggregation, type, fold.value, v);
  }
}

void fold(
    Aggregation aggregation, DType type, std::size_t count, const std::size_t* at, const Column& values, Fold* folds) {
  for (std::size_t k = 0; k < count;) {
    const std::size_t element = at[k];
    Fold held = folds[element];                          // in registers while runs of points go to one element
    if (aggregation == Aggregation::Sum && lang::is_float(type) && held.count > 0)
      for (; k < count && at[k] == element; ++k) add_real(held, values.at(k));
    else
      fold(aggregation, type, held, values.at(k++));
    folds[element] = held;
  }
}

Value finished(Aggregation aggregation, DType type, DType target, const Fold& fold) {
  Value value = fold.value;
  if (fold.rest != 0 && std::isfinite(value.real)) value.real += fold.rest;
  const bool exact_sum = fold.whole && fold.terms < whole_below(type);
  if (aggregation == Aggregation::Sum && fold.count > 1 && !exact_sum)
    value.error += 8 * epsilon(type) * fold.terms *
        (1 + std::sqrt(static_cast<double>(fold.count)) / 32 + static_cast<double>(fold.count) / 1024);
  // in some order a partial sum leaves the type
  if (aggregation == Aggregation::Sum && lang::is_float(type) && fold.count > 1 && fold.terms > largest(type))
    value.error = infinity;
  if (fold.exponent != 0) {
    const int exponent = static_cast<int>(std::clamp<std::int64_t>(fold.exponent, -10000, 10000));
    value.real = std::ldexp(value.real, exponent);
    value.error = std::ldexp(value.error, exponent) + least(type);
  }
  if (aggregation == Aggregation::Product && fold.whole && std::fabs(value.real) < whole_below(type)) value.error = 0;
  return cast(type, target, value);
}

}  // namespace tilec::poly
