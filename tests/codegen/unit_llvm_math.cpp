// Every elementary function of the LLVM emitter against libm in more precision: sweeps, special values,
// scalar = vector, bit for bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "tests/codegen/kernels.h"

using namespace kernels;

namespace {

// Y[i] = op(X[i], Z[i]) for i < 16·blocks, by vectors of `lanes`, or (0) one by one.
Loops map_of(Op op, DType type, int lanes, std::int64_t count) {
  const int arity = tilec::lang::info(op).arity;
  const auto statement = [&](Expr i) {
    std::vector<Expr> operands{at("X", i, type)};
    if (arity > 1) operands.push_back(at("Z", i, type));
    return store("Y", i, apply(op, operands, type));
  };
  Function f{"k", {{"X", type}, {"Z", type}, {"Y", type, Direction::Out}}, {}, {}};
  if (lanes == 0) f.body = {loop("i", Kind::Serial, Expr(count), {statement(var("i"))})};
  else
    f.body = {loop("j", Kind::Serial, Expr(count / lanes),
        {loop("l", Kind::Vector, Expr(std::int64_t{lanes}),
            {statement(var("j") * Expr(std::int64_t{lanes}) + var("l"))})})};
  return Loops{{f}, {}};
}

template <class T> std::vector<T> sweep(Op op) {
  std::vector<T> x;
  const T inf = std::numeric_limits<T>::infinity();
  for (const T v : {T(0), T(1), T(0.5), T(2), T(1.5), T(3), T(10), T(100), T(1e5), T(1e6), T(1e30), inf,
           std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), std::numeric_limits<T>::denorm_min(), T(1e-5),
           T(1e-10), T(87), T(88.7), T(89), T(103), T(104), T(105), T(709), T(710)})
    x.push_back(v), x.push_back(-v);
  x.push_back(std::numeric_limits<T>::quiet_NaN());
  std::mt19937_64 engine(static_cast<unsigned>(op));
  std::uniform_real_distribution<T> unit(-1, 1), near(-10, 10), wide(-100, 100), exponent(-30, 30);
  while (x.size() < 40000) {
    x.push_back(unit(engine)), x.push_back(near(engine)), x.push_back(wide(engine)),
        x.push_back(std::exp2(exponent(engine)) * (x.size() % 8 < 4 ? 1 : -1));
    if constexpr (sizeof(T) == 4) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(engine())));
    else x.push_back(std::bit_cast<double>(engine()));
  }
  x.resize(x.size() / 64 * 64);
  return x;
}

long double expected(Op op, long double x, long double z) {
  switch (op) {
    case Op::Exp: return std::exp(x);
    case Op::Log: return std::log(x);
    case Op::Tanh: return std::tanh(x);
    case Op::Sigmoid: return 1 / (1 + std::exp(-x));
    case Op::Erf: return std::erf(x);
    case Op::Sin: return std::sin(x);
    case Op::Cos: return std::cos(x);
    case Op::Tan: return std::tan(x);
    case Op::Asin: return std::asin(x);
    case Op::Acos: return std::acos(x);
    case Op::Atan: return std::atan(x);
    case Op::Sinh: return std::sinh(x);
    case Op::Cosh: return std::cosh(x);
    case Op::Asinh: return std::asinh(x);
    case Op::Acosh: return std::acosh(x);
    case Op::Atanh: return std::atanh(x);
    case Op::Atan2: return std::atan2(x, z);
    case Op::Pow: return std::pow(x, z);
    case Op::Mod: return std::fmod(x, z);
    case Op::Sqrt: return std::sqrt(x);
    case Op::Ceil: return std::ceil(x);
    case Op::Floor: return std::floor(x);
    case Op::Trunc: return std::trunc(x);
    case Op::Round: return std::round(x);
    case Op::Abs: return std::fabs(x);
    case Op::Neg: return -x;
    case Op::Recip: return 1 / x;
    case Op::Relu: return std::isnan(x) ? x : x > 0 ? x : 0;
    case Op::Sign: return std::isnan(x) ? x : (x > 0) - (x < 0);
    case Op::Max: return std::isnan(x) || std::isnan(z) ? NAN : std::max(x, z);
    case Op::Min: return std::isnan(x) || std::isnan(z) ? NAN : std::min(x, z);
    case Op::Div: return x / z;
    default: return NAN;
  }
}

// Distance in units of the last place of the true value; 0 when both are the same special value.
template <class T> double distance(T got, long double want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : 1e9;
  if (got == rounded) return 0;
  const T largest = std::numeric_limits<T>::max();
  if (std::isinf(got) && std::fabs(static_cast<T>(want)) == largest) return 1;
  if (std::isinf(got) || std::isinf(rounded)) return std::fabs(got) == largest ? 1 : 1e9;
  const T magnitude = std::max(std::fabs(rounded), std::numeric_limits<T>::min());
  return static_cast<double>(
      std::fabs(static_cast<long double>(got) - want) / (std::nextafter(magnitude, 2 * magnitude) - magnitude));
}

template <class T> void check(Op op, DType type, double limit) {
  CAPTURE(tilec::lang::info(op).name);
  std::vector<T> x = sweep<T>(op), z = sweep<T>(Op::Mod), y(x.size()), one(x.size()), narrow(x.size());
  z.resize(x.size());
  std::shuffle(z.begin(), z.end(), std::mt19937(3));
  const auto count = static_cast<std::int64_t>(x.size());
  Run(map_of(op, type, 16, count))(x.data(), z.data(), y.data());
  Run(map_of(op, type, 0, count))(x.data(), z.data(), one.data());
  Run(map_of(op, type, 8, count), narrow_cpu)(x.data(), z.data(), narrow.data());
  CHECK(std::memcmp(y.data(), one.data(), y.size() * sizeof(T)) == 0);
  CHECK(std::memcmp(y.data(), narrow.data(), y.size() * sizeof(T)) == 0);
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (const double d = distance(y[i], expected(op, x[i], z[i])); d > worst) worst = d, where = i;
  CAPTURE(x[where]);
  CAPTURE(z[where]);
  CAPTURE(y[where]);
  CAPTURE(static_cast<double>(expected(op, x[where], z[where])));
  CHECK(worst <= limit);
  if (std::getenv("TILEC_ULP"))
    MESSAGE(std::string(tilec::lang::info(op).name)
        << (sizeof(T) == 4 ? " f32 " : " f64 ") << worst << " ulp at " << x[where]);
}

}  // namespace

TEST_CASE("elementary functions are within 2 ulp, special values included") {
  for (const Op op : {Op::Exp, Op::Log, Op::Tanh, Op::Erf, Op::Sin, Op::Cos, Op::Tan, Op::Asin, Op::Acos, Op::Atan,
           Op::Sinh, Op::Cosh, Op::Asinh, Op::Acosh, Op::Atanh, Op::Atan2, Op::Pow}) {
    check<float>(op, DType::F32, 2);
    check<double>(op, DType::F64, 2.5);
  }
  check<float>(Op::Sigmoid, DType::F32, 3);
  check<double>(Op::Sigmoid, DType::F64, 3);
}

TEST_CASE("exact functions are exact") {
  for (const Op op : {Op::Sqrt, Op::Ceil, Op::Floor, Op::Trunc, Op::Round, Op::Abs, Op::Neg, Op::Recip, Op::Relu,
           Op::Sign, Op::Max, Op::Min, Op::Div, Op::Mod}) {
    check<float>(op, DType::F32, 0.5);
    check<double>(op, DType::F64, op == Op::Recip || op == Op::Div || op == Op::Sqrt ? 0.51 : 0.5);
  }
}
