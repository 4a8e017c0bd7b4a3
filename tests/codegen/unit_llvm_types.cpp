// Integers that wrap and never trap, casts between all types with one rounding, against definitions written out here.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/codegen/kernels.h"

using namespace kernels;

namespace {

__extension__ using Wide = __int128;

Wide lowest(DType t) { return tilec::lang::is_signed(t) ? -(Wide(1) << (tilec::lang::bits(t) - 1)) : 0; }
Wide highest(DType t) { return (Wide(1) << (tilec::lang::bits(t) - (tilec::lang::is_signed(t) ? 1 : 0))) - 1; }

Wide wrap(Wide x, DType t) {
  const Wide size = Wide(1) << tilec::lang::bits(t);
  x = ((x % size) + size) % size;
  return x > highest(t) ? x - size : x;
}

Wide read(const std::vector<unsigned char>& bytes, std::size_t i, DType t) {
  const auto width = static_cast<std::size_t>(tilec::lang::bytes(t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * width, width);
  return t == DType::Bool ? Wide(bits) : wrap(Wide(bits), t);
}

std::vector<unsigned char> integers(DType t, std::size_t count, unsigned seed) {
  std::mt19937_64 engine(seed);
  const auto width = static_cast<std::size_t>(tilec::lang::bytes(t));
  std::vector<unsigned char> bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    Wide x = 0;
    switch (engine() % 6) {
      case 0: x = lowest(t) + static_cast<Wide>(engine() % 2); break;
      case 1: x = highest(t) - static_cast<Wide>(engine() % 2); break;
      case 2: x = static_cast<Wide>(engine() % 5) - 2; break;
      case 3: x = static_cast<Wide>(engine() % 80); break;
      default: x = static_cast<Wide>(engine());
    }
    const auto bits = static_cast<std::uint64_t>(wrap(x, t));
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
  return bytes;
}

Wide expected(Op op, DType t, Wide x, Wide y) {
  const int width = tilec::lang::bits(t);
  const bool far = y < 0 || y >= width;
  switch (op) {
    case Op::Add: return wrap(x + y, t);
    case Op::Sub: return wrap(x - y, t);
    case Op::Mul: { Wide product = 0; (void)__builtin_mul_overflow(x, y, &product); return wrap(product, t); }
    case Op::Div: return y == 0 ? 0 : wrap(x / y, t);
    case Op::Mod: return y == 0 ? 0 : x % y;
    case Op::Max: return std::max(x, y);
    case Op::Min: return std::min(x, y);
    case Op::And: return wrap(x & y, t);
    case Op::Or: return wrap(x | y, t);
    case Op::Xor: return wrap(x ^ y, t);
    case Op::Shl: return far ? 0 : wrap(x << static_cast<int>(y), t);
    case Op::Shr: return far ? (x < 0 ? -1 : 0) : x >> static_cast<int>(y);
    case Op::Neg: return wrap(-x, t);
    case Op::Not: return wrap(~x, t);
    case Op::Abs: return wrap(x < 0 ? -x : x, t);
    case Op::Sign: return (x > 0) - (x < 0);
    case Op::Relu: return x > 0 ? x : 0;
    case Op::Recip: return x == 0 ? 0 : wrap(1 / x, t);
    case Op::Lt: return x < y;
    case Op::Le: return x <= y;
    case Op::Gt: return x > y;
    case Op::Ge: return x >= y;
    case Op::Eq: return x == y;
    case Op::Ne: return x != y;
    default: return 0;
  }
}

bool is_comparison(Op op) { return op >= Op::Eq && op <= Op::Ge; }

// Y[i] = value(i) over `count` elements, in vectors of 16, then once more one by one from Y[count] on.
Loops both_ways(
    Expr (*value)(Expr i, const void* context), const void* context, DType in, DType out, std::int64_t count) {
  const Expr wide = var("j") * Expr(std::int64_t{16}) + var("l");
  Function f{"k", {{"X", in}, {"Z", in}, {"Y", out, Direction::Out}}, {}, {}};
  f.body = {loop("j", Kind::Serial, Expr(count / 16),
                {loop("l", Kind::Vector, Expr(std::int64_t{16}), {store("Y", wide, value(wide, context))})}),
      loop("i", Kind::Serial, Expr(count), {store("Y", var("i") + Expr(count), value(var("i"), context))})};
  return Loops{{f}, {}};
}

constexpr DType whole[] = {
    DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16, DType::I32, DType::I64};

// p bits of significand, exponents down to `low`: x rounded to nearest, ties to even.
double round_to(double x, int p, int low, double largest) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  const int e = std::max(std::ilogb(x), low) - (p - 1);
  const double r = std::ldexp(std::nearbyint(std::ldexp(x, -e)), e);
  return std::fabs(r) > largest ? std::copysign(INFINITY, x) : r;
}

double value_of(std::uint16_t bits, DType t) {
  const int mantissa = t == DType::F16 ? 10 : 7, width = t == DType::F16 ? 5 : 8, bias = (1 << (width - 1)) - 1;
  const int e = (bits >> mantissa) & ((1 << width) - 1), m = bits & ((1 << mantissa) - 1);
  const double magnitude = e == (1 << width) - 1 ? (m ? NAN : INFINITY)
                           : e == 0              ? std::ldexp(m, 1 - bias - mantissa)
                                                 : std::ldexp(m + (1 << mantissa), e - bias - mantissa);
  return bits >> 15 ? -magnitude : magnitude;
}

std::vector<double> doubles(std::size_t count) {
  std::mt19937_64 engine(5);
  std::uniform_real_distribution<double> unit(-1, 1), exponent(-30, 20);
  std::vector<double> x{0.0, -0.0, INFINITY, -INFINITY, NAN, 65504, 65519.999, 65520, 65536, 1e300, -1e300, 1e-300,
      0x1p-24, 0x1p-25, 0x1.000001p-25, 0x1p-14, 1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-45,
      1 + 3 * 0x1p-8, 3.3895313892515355e38, 3.4e38, 127.5, 128, 255.9, -128.9, 2147483647.5, 4294967296.0, 9.3e18,
      1.9e19, -1, -0.5, 0x1p-149, 0x1p-133, 0x1p-134};
  while (x.size() < count) x.push_back(unit(engine) * std::exp2(exponent(engine)));
  return x;
}

}  // namespace

TEST_CASE("integer operations wrap and are total") {
  struct Context { Op op; DType type; };
  const std::int64_t count = 1024;
  for (const DType t : whole)
    for (const Op op :
        {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Mod, Op::Max, Op::Min, Op::And, Op::Or, Op::Xor, Op::Shl, Op::Shr,
            Op::Neg, Op::Not, Op::Abs, Op::Sign, Op::Relu, Op::Recip, Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Eq, Op::Ne}) {
      const Context c{op, t};
      const DType out = is_comparison(op) ? DType::Bool : t;
      const auto value = [](Expr i, const void* context) -> Expr {
        const auto& [o, type] = *static_cast<const Context*>(context);
        std::vector<Expr> operands{at("X", i, type)};
        if (tilec::lang::info(o).arity == 2) operands.push_back(at("Z", i, type));
        return apply(o, operands, is_comparison(o) ? DType::Bool : type);
      };
      const auto x = integers(t, count, 1), z = integers(t, count, 2);
      std::vector<unsigned char> y(static_cast<std::size_t>(2 * count * tilec::lang::bytes(out)));
      Run(both_ways(value, &c, t, out, count))(x.data(), z.data(), y.data());
      int wrong = 0;
      for (std::size_t i = 0; i < 2 * count; ++i)
        wrong += read(y, i, out) != expected(op, t, read(x, i % count, t), read(z, i % count, t));
      CAPTURE(tilec::lang::name(t));
      CAPTURE(tilec::lang::info(op).name);
      CHECK(wrong == 0);
    }
}

TEST_CASE("division by constants agrees with division") {
  struct Context { DType type; std::int64_t by; Op op; };
  const std::int64_t count = 256;
  for (const DType t : whole)
    for (const Op op : {Op::Div, Op::Mod})
      for (const std::int64_t by : {0, 1, -1, 2, 3, 7, 10, 64}) {
        const Context c{t, by, op};
        const auto value = [](Expr i, const void* context) -> Expr {
          const auto& [type, divisor, o] = *static_cast<const Context*>(context);
          return apply(o, {at("X", i, type), integer(divisor, type)}, type);
        };
        const auto x = integers(t, count, 3);
        std::vector<unsigned char> y(static_cast<std::size_t>(2 * count * tilec::lang::bytes(t)));
        Run(both_ways(value, &c, t, t, count))(x.data(), x.data(), y.data());
        int wrong = 0;
        for (std::size_t i = 0; i < 2 * count; ++i)
          wrong += read(y, i, t) != expected(op, t, read(x, i % count, t), wrap(by, t));
        CAPTURE(tilec::lang::name(t));
        CAPTURE(by);
        CHECK(wrong == 0);
      }
}

TEST_CASE("integer casts wrap, and to Bool test against zero") {
  struct Context { DType from, to; };
  const std::int64_t count = 256;
  for (const DType from : whole)
    for (const DType to :
        {DType::Bool, DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16, DType::I32, DType::I64}) {
      const Context c{from, to};
      const auto value = [](Expr i, const void* context) -> Expr {
        const auto& [a, b] = *static_cast<const Context*>(context);
        return Convert{at("X", i, a), b};
      };
      const auto x = integers(from, count, 4);
      std::vector<unsigned char> y(static_cast<std::size_t>(2 * count * tilec::lang::bytes(to)));
      Run(both_ways(value, &c, from, to, count))(x.data(), x.data(), y.data());
      int wrong = 0;
      for (std::size_t i = 0; i < 2 * count; ++i) {
        const Wide in = read(x, i % count, from);
        wrong += read(y, i, to) != (to == DType::Bool ? Wide(in != 0) : wrap(in, to));
      }
      CAPTURE(tilec::lang::name(from));
      CAPTURE(tilec::lang::name(to));
      CHECK(wrong == 0);
    }
}

TEST_CASE("casts to f16 and bf16 round once, to the nearest even; back they are exact") {
  struct Context { DType from, to; };
  const auto value = [](Expr i, const void* context) -> Expr {
    const auto& [a, b] = *static_cast<const Context*>(context);
    return Convert{at("X", i, a), b};
  };
  const std::int64_t count = 4096;
  const std::vector<double> x = doubles(count);
  std::vector<float> single(x.begin(), x.end());
  for (const DType to : {DType::F16, DType::BF16})
    for (const DType from : {DType::F64, DType::F32})
      for (const char* target : {"cpu", narrow_cpu}) {
        const Context c{from, to};
        std::vector<std::uint16_t> y(2 * count);
        const Run run(both_ways(value, &c, from, to, count), target);
        if (from == DType::F64) run(x.data(), x.data(), y.data());
        else run(single.data(), single.data(), y.data());
        int wrong = 0;
        for (std::size_t i = 0; i < y.size(); ++i) {
          const double in = from == DType::F64 ? x[i % count] : static_cast<double>(single[i % count]);
          const double want = to == DType::F16 ? round_to(in, 11, -14, 65504) : round_to(in, 8, -126, 0x1.fep127);
          const double got = value_of(y[i], to);
          const bool same = std::isnan(want) ? std::isnan(got)
                                             : std::bit_cast<std::uint64_t>(want) == std::bit_cast<std::uint64_t>(got);
          if (!same && wrong++ == 0) MESSAGE(in << " became " << got << ", not " << want);
        }
        CAPTURE(tilec::lang::name(from));
        CAPTURE(tilec::lang::name(to));
        CHECK(wrong == 0);
      }
  for (const DType from : {DType::F16, DType::BF16}) {
    const Context c{from, DType::F32};
    std::vector<std::uint16_t> bits(65536);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
    std::vector<float> y(2 * bits.size());
    Run(both_ways(value, &c, from, DType::F32, 65536))(bits.data(), bits.data(), y.data());
    int wrong = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double want = value_of(bits[i % bits.size()], from);
      wrong += std::isnan(want) ? !std::isnan(y[i]) : static_cast<double>(y[i]) != want;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("floats to integers saturate, and NaN becomes 0") {
  struct Context { DType from, to; };
  const auto value = [](Expr i, const void* context) -> Expr {
    const auto& [a, b] = *static_cast<const Context*>(context);
    return Convert{at("X", i, a), b};
  };
  const std::int64_t count = 1024;
  const std::vector<double> x = doubles(count);
  const std::vector<float> single(x.begin(), x.end());
  for (const DType to : whole)
    for (const DType from : {DType::F64, DType::F32}) {
      const Context c{from, to};
      std::vector<unsigned char> y(static_cast<std::size_t>(2 * count * tilec::lang::bytes(to)));
      const Run run(both_ways(value, &c, from, to, count));
      if (from == DType::F64) run(x.data(), x.data(), y.data());
      else run(single.data(), single.data(), y.data());
      int wrong = 0;
      for (std::size_t i = 0; i < 2 * count; ++i) {
        const double in = from == DType::F64 ? x[i % count] : static_cast<double>(single[i % count]);
        const Wide want = std::isnan(in)             ? 0
            : in <= static_cast<double>(lowest(to))  ? lowest(to)
            : in >= static_cast<double>(highest(to)) ? highest(to)
                                                     : static_cast<Wide>(in);
        wrong += read(y, i, to) != want;
      }
      CAPTURE(tilec::lang::name(from));
      CAPTURE(tilec::lang::name(to));
      CHECK(wrong == 0);
    }
}

TEST_CASE("integers and Bool to floats") {
  struct Context { DType from, to; };
  const auto value = [](Expr i, const void* context) -> Expr {
    const auto& [a, b] = *static_cast<const Context*>(context);
    return Convert{at("X", i, a), b};
  };
  const std::int64_t count = 512;
  for (const DType from : whole) {
    const auto x = integers(from, count, 6);
    std::vector<float> f(2 * count);
    std::vector<double> d(2 * count);
    std::vector<std::uint16_t> h(2 * count);
    const Context cf{from, DType::F32}, cd{from, DType::F64}, ch{from, DType::F16};
    Run(both_ways(value, &cf, from, DType::F32, count))(x.data(), x.data(), f.data());
    Run(both_ways(value, &cd, from, DType::F64, count))(x.data(), x.data(), d.data());
    Run(both_ways(value, &ch, from, DType::F16, count))(x.data(), x.data(), h.data());
    int wrong = 0;
    for (std::size_t i = 0; i < 2 * count; ++i) {
      const Wide in = read(x, i % count, from);
      wrong += f[i] != static_cast<float>(in) || d[i] != static_cast<double>(in);
      wrong += value_of(h[i], DType::F16) != round_to(static_cast<double>(in), 11, -14, 65504);
    }
    CAPTURE(tilec::lang::name(from));
    CHECK(wrong == 0);
  }
}
