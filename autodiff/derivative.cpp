// The derivatives themselves. Three choices that a textbook leaves open (docs/language/gradients.md):
//
// * Where a function has a kink, the value there is a convention: max and min share a tie by halves, hence abs'(0) = 0,
//   and relu'(0) = 0. Comparisons with NaN are false, so a NaN operand of these gets 0.
// * Where the formula is singular but the derivative is not, the formula must not win: pow(x, 2) at x = 0 is
//   2·pow(0, 1) = 0 and not 2·x²/x; pow(0, y) does not ask for 0·log 0; x² in asin is factored so that 1 − x² keeps its
//   bits.
// * What a formula squares or multiplies on the way may leave the range where the derivative does not: 1 + x² is a²
//   (1 + q²) with a = max(|x|, 1) and q = min(|x|, 1) / a; x / y² is x / y / y; x² + y² is the greater of the two times
//   a number from 1 to 2. What reaches the operand is `c` times a derivative that is itself within the range.
// * Steps (floor, round, sign, comparisons, bit operations) have derivative 0 by declaration, not by accident.
#include "autodiff/derivative.h"

#include <cmath>
#include <numbers>

#include "autodiff/term.h"
#include "lang/diagnostic.h"

namespace tilec::autodiff {
namespace {

using namespace term;

// condition ? p : 0, where p came from under an operand.
std::optional<Expr> bracket(const Expr& condition, const std::optional<Expr>& p) {
  if (!p) return std::nullopt;
  return select(condition, *p, number(p->type(), 0));
}

// Max, Min: all to the operand that wins, half to each of two equal ones. What is under the operand is spelled once, so
// that nested extremes do not double it at every level.
std::optional<Expr> extreme(
    Op wins_or_ties, const Expr& mine, const Expr& other, const Expr& c, const Through& through) {
  const Expr share = select(compare(Op::Eq, mine, other), number(c.type(), 0.5), number(c.type(), 1));
  return bracket(compare(wins_or_ties, mine, other), through(mul(c, share)));
}

std::optional<Expr> absolute(const Expr& x, const Expr& result, const Expr& c, const Through& through) {
  const Expr sign = select(compare(Op::Lt, x, number(x.type(), 0)), number(c.type(), -1), number(c.type(), 1));
  return bracket(compare(Op::Gt, result, number(result.type(), 0)), through(mul(c, sign)));
}

// The constant that an exponent is, through casts and signs.
std::optional<double> constant(const Expr& e) {
  if (const auto* n = e.as<poly::Number>()) return lang::is_float(n->type) ? n->real : static_cast<double>(n->integer);
  if (const auto* cast = e.as<poly::Cast>(); cast && lang::is_float(cast->type)) return constant(cast->operand);
  if (const auto* apply = e.as<poly::Apply>(); apply && apply->op == Op::Neg)
    if (const auto value = constant(apply->operands[0])) return -*value;
  return std::nullopt;
}

std::optional<Expr> power_base(const Expr& x, const Expr& y, const Expr& c, const Through& through) {
  const DType type = c.type();
  const Expr base = cast(x, type);
  if (const auto exponent = constant(y)) {
    if (*exponent == 0) return std::nullopt;
    if (*exponent == 1) return through(c);
    if (*exponent == 2) return through(mul(c, mul(number(type, 2), base)));
    return through(mul(c, mul(number(type, *exponent), call(Op::Pow, base, number(type, *exponent - 1)))));
  }
  const Expr exponent = cast(y, type);
  const auto p = through(mul(c, mul(exponent, call(Op::Pow, base, sub(exponent, number(type, 1))))));
  return bracket(compare(Op::Ne, y, number(y.type(), 0)), p);
}

std::optional<Expr> power_exponent(
    const Expr& x, const Expr& y, const Expr& result, const Expr& c, const Through& through) {
  const DType type = c.type();
  const auto p = through(mul(c, mul(cast(result, type), call(Op::Log, cast(x, type)))));
  if (!p) return std::nullopt;
  // 0 · log 0 at x = 0 < y, 0 · log ∞ at x = ∞, y < 0; at x = y = 0 by convention.
  const Expr at_zero = both(compare(Op::Eq, x, number(x.type(), 0)), compare(Op::Eq, y, number(y.type(), 0)));
  const Expr vanishes = poly::Apply{Op::Or, {compare(Op::Eq, result, number(result.type(), 0)), at_zero}, DType::Bool};
  return select(vanishes, number(p->type(), 0), *p);
}

// c / (1 + x²), or by the root of that.
Expr over_one_plus_square(const Expr& c, const Expr& x, bool root) {
  const Expr one = number(x.type(), 1), size = call(Op::Abs, x);
  const Expr a = call(Op::Max, size, one), q = div(call(Op::Min, size, one), a);
  const Expr rest = add(one, mul(q, q));
  return root ? div(div(c, a), call(Op::Sqrt, rest)) : div(div(div(c, a), a), rest);
}

// c · x / (x² + y²), where y / x and x / y are spelled so that neither is above 1; 0 at the origin.
Expr over_sum_of_squares(const Expr& c, const Expr& x, const Expr& y) {
  const Expr by_x = div(c, add(x, mul(y, div(y, x)))), by_y = mul(c, div(div(x, y), add(y, mul(x, div(x, y)))));
  const Expr either = select(compare(Op::Ge, call(Op::Abs, x), call(Op::Abs, y)), by_x, by_y);
  return select(compare(Op::Eq, x, number(x.type(), 0)), number(c.type(), 0), either);
}

// Of what is chosen, where it is; a condition has no derivative.
std::optional<Expr> chosen(const Expr& condition, std::size_t k, const Expr& c, const Through& through) {
  const auto p = k == 0 ? std::nullopt : through(c);
  if (!p) return std::nullopt;
  const Expr none = number(p->type(), 0);
  return k == 1 ? select(condition, *p, none) : select(condition, none, *p);
}

}  // namespace

std::optional<Expr> derivative(Op op, const std::vector<Expr>& operands, const Expr& result, std::size_t k,
    const Expr& c, const Through& through) {
  const DType type = c.type();
  const auto wide = [&](std::size_t n) { return cast(operands.at(n), type); };
  const auto real = [&](double value) { return number(type, value); };
  const auto one_minus_square = [&](const Expr& x) { return mul(sub(real(1), x), add(real(1), x)); };
  const Expr r = cast(result, type);
  const Expr x = wide(0);

  switch (op) {
    case Op::Add: return through(c);
    case Op::Sub: return through(k == 0 ? c : neg(c));
    case Op::Mul: return through(k == 0 ? mul(c, wide(1)) : mul(x, c));
    case Op::Div: return through(k == 0 ? div(c, wide(1)) : mul(neg(c), div(div(x, wide(1)), wide(1))));
    case Op::Neg: return through(neg(c));
    case Op::Fma: return through(k == 0 ? mul(c, wide(1)) : k == 1 ? mul(x, c) : c);
    case Op::Recip: return through(mul(mul(neg(c), r), r));

    case Op::Select: return chosen(operands[0], k, c, through);
    case Op::Max: return extreme(Op::Ge, operands.at(k), operands.at(1 - k), c, through);
    case Op::Min: return extreme(Op::Le, operands.at(k), operands.at(1 - k), c, through);
    case Op::Abs: return absolute(operands[0], result, c, through);
    case Op::Relu: return bracket(compare(Op::Gt, operands[0], number(operands[0].type(), 0)), through(c));

    case Op::Pow:
      return k == 0 ? power_base(operands[0], operands.at(1), c, through)
                    : power_exponent(operands[0], operands.at(1), result, c, through);
    // mod(x, y) = x − n·y with a whole n: read off the result, so it holds for either rounding of the quotient.
    case Op::Mod: return through(k == 0 ? c : mul(neg(c), call(Op::Round, div(sub(x, r), wide(1)))));
    case Op::Sigmoid: return through(mul(c, mul(r, sub(real(1), r))));
    case Op::Exp: return through(mul(c, r));
    case Op::Log: return through(div(c, x));
    case Op::Sqrt: return through(div(c, mul(real(2), r)));
    case Op::Erf: return through(mul(c, mul(real(2 * std::numbers::inv_sqrtpi), call(Op::Exp, neg(mul(x, x))))));

    case Op::Sin: return through(mul(c, call(Op::Cos, x)));
    case Op::Cos: return through(mul(neg(c), call(Op::Sin, x)));
    case Op::Tan: return through(mul(c, add(real(1), mul(r, r))));
    case Op::Asin: return through(div(c, call(Op::Sqrt, one_minus_square(x))));
    case Op::Acos: return through(div(neg(c), call(Op::Sqrt, one_minus_square(x))));
    case Op::Atan: return through(over_one_plus_square(c, x, false));
    case Op::Sinh: return through(mul(c, call(Op::Cosh, x)));
    case Op::Cosh: return through(mul(c, call(Op::Sinh, x)));
    case Op::Tanh: return through(mul(c, one_minus_square(r)));
    case Op::Asinh: return through(over_one_plus_square(c, x, true));
    case Op::Acosh: return through(div(div(c, call(Op::Sqrt, sub(x, real(1)))), call(Op::Sqrt, add(x, real(1)))));
    case Op::Atanh: return through(div(c, one_minus_square(x)));
    case Op::Atan2:
      return through(k == 0 ? over_sum_of_squares(c, wide(1), x) : over_sum_of_squares(neg(c), x, wide(1)));

    case Op::Sign: case Op::Ceil: case Op::Floor: case Op::Round: case Op::Trunc:
    case Op::Eq: case Op::Ne: case Op::Lt: case Op::Le: case Op::Gt: case Op::Ge:
    case Op::And: case Op::Or: case Op::Xor: case Op::Not: case Op::Shl: case Op::Shr:
    case Op::IsNan: case Op::IsFinite: return std::nullopt;
    case Op::Between: case Op::Tf32: break;            // codegen makes them
  }
  throw lang::InternalError("a scalar operation has no row in the table of derivatives");
}

}  // namespace tilec::autodiff
