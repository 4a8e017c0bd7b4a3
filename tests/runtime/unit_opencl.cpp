// The SIMT emitter, executed: kernels written by hand run on an OpenCL device and are compared with plain C++.
// Exit status 77 (skipped) without a device. All kernels go through one program: a compiler start costs more than a
// kernel.
#include <doctest/doctest.h>

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "runtime/assemble.h"
#include "runtime/opencl.h"
#include "tests/codegen/simt_kernels.h"

namespace tilec::test {
namespace {

using Bytes = std::vector<std::byte>;

codegen::Package made(const codegen::Lowered& program) {
  return runtime::assemble(program, *codegen::target_named("opencl"));
}

// Kernels and their buffers, run together once.
struct Session {
  codegen::Lowered package;
  std::vector<Bytes> bytes;

  template <class T> int add(const std::vector<T>& values) {
    Bytes b(values.size() * sizeof(T));
    if (!b.empty()) std::memcpy(b.data(), values.data(), b.size());
    bytes.push_back(std::move(b));
    package.buffers.push_back({});
    return static_cast<int>(bytes.size()) - 1;
  }
  template <class T> int out(std::int64_t count) { return add(std::vector<T>(static_cast<std::size_t>(count))); }
  int out_of(DType type, std::int64_t count) {
    return add(std::vector<unsigned char>(static_cast<std::size_t>(count * lang::bytes(type)), 0xcd));
  }
  void launch(Loops loops, std::vector<int> buffers) {
    package.steps.push_back(step(std::move(loops), std::move(buffers)));
  }
  template <class T> std::vector<T> get(int buffer) const {
    const Bytes& b = bytes[static_cast<std::size_t>(buffer)];
    std::vector<T> values(b.size() / sizeof(T));
    if (!b.empty()) std::memcpy(values.data(), b.data(), b.size());
    return values;
  }
  void run(runtime::Device& device) {
    const auto kernels = device.load(made(package));
    std::vector<runtime::Memory> memory;
    for (const Bytes& b : bytes) {
      memory.push_back(device.allocate(static_cast<std::int64_t>(b.size())));
      device.copy_in(memory.back(), b.data(), static_cast<std::int64_t>(b.size()));
    }
    device.run(*kernels, memory);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      device.copy_out(bytes[i].data(), memory[i], static_cast<std::int64_t>(bytes[i].size()));
  }
};

std::shared_ptr<runtime::Device> device;

// ---- reference arithmetic: integers modulo 2^bits in 128 bits, floats in double

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 WideBits;

struct Scalar { Wide integer = 0; double real = 0; };

double half_to_double(std::uint16_t bits, DType type) {
  const int digits = type == DType::F16 ? 10 : 7, bias = type == DType::F16 ? 15 : 127,
            exponent_mask = type == DType::F16 ? 31 : 255;
  const int exponent = bits >> digits & exponent_mask, mantissa = bits & ((1 << digits) - 1);
  double x = exponent == exponent_mask ? (mantissa ? std::nan("") : HUGE_VAL)
      : exponent == 0                  ? std::ldexp(mantissa, 1 - bias - digits)
                                       : std::ldexp(mantissa + (1 << digits), exponent - bias - digits);
  return bits & 0x8000 ? -x : x;
}

// Nearest even by search: slow, and nothing like the code it checks.
std::uint16_t double_to_half(double x, DType type) {
  if (std::isnan(x)) return type == DType::F16 ? 0x7e00 : 0x7fc0;
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0, infinity = type == DType::F16 ? 0x7c00 : 0x7f80;
  const double a = std::fabs(x);
  std::uint16_t low = 0, high = infinity;              // low <= a < high, but for a at the ends
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (half_to_double(middle, type) <= a ? low : high) = middle;
  }
  const double below = half_to_double(low, type);
  const double above = high == infinity ? 2 * below - half_to_double(static_cast<std::uint16_t>(low - 1), type)
                                        : half_to_double(high, type);
  if (std::isinf(a)) return static_cast<std::uint16_t>(sign | infinity);
  const double to_below = a - below, to_above = above - a;
  const bool up = to_above < to_below || (to_above == to_below && (low & 1) != 0);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

Scalar fetch(DType type, const void* at) {
  const auto as = [&]<class T>(T) { T x; std::memcpy(&x, at, sizeof x); return x; };
  switch (type) {
    case DType::Bool: return {as(std::uint8_t{}) != 0, 0};
    case DType::U8: return {as(std::uint8_t{}), 0};
    case DType::U16: return {as(std::uint16_t{}), 0};
    case DType::U32: return {as(std::uint32_t{}), 0};
    case DType::U64: return {as(std::uint64_t{}), 0};
    case DType::I8: return {as(std::int8_t{}), 0};
    case DType::I16: return {as(std::int16_t{}), 0};
    case DType::I32: return {as(std::int32_t{}), 0};
    case DType::I64: return {as(std::int64_t{}), 0};
    case DType::F16: case DType::BF16: return {0, half_to_double(as(std::uint16_t{}), type)};
    case DType::F32: return {0, as(float{})};
    case DType::F64: return {0, as(double{})};
  }
  return {};
}

Wide wrapped(Wide x, DType type) {
  if (type == DType::Bool) return x != 0;
  const int bits = lang::bits(type);
  const Wide modulus = Wide(1) << bits;
  x = ((x % modulus) + modulus) % modulus;
  return lang::is_signed(type) && x >= modulus / 2 ? x - modulus : x;
}

double rounded(double x, DType type) {
  if (type == DType::F32) return static_cast<float>(x);
  if (type == DType::F16 || type == DType::BF16) return half_to_double(double_to_half(x, type), type);
  return x;
}

Scalar cast(const Scalar& x, DType from, DType to) {
  if (lang::is_float(from)) {
    if (lang::is_float(to)) return {0, rounded(x.real, to)};
    if (to == DType::Bool) return {x.real != 0, 0};
    if (std::isnan(x.real)) return {0, 0};
    const int bits = lang::bits(to) - (lang::is_signed(to) ? 1 : 0);
    const Wide high = (Wide(1) << bits) - 1, low = lang::is_signed(to) ? -(Wide(1) << bits) : 0;
    if (x.real >= std::ldexp(1.0, bits)) return {high, 0};
    if (x.real <= static_cast<double>(low)) return {low, 0};
    return {static_cast<Wide>(x.real), 0};
  }
  if (to == DType::F32 || to == DType::F16 || to == DType::BF16)
    return {0,
        rounded(static_cast<double>(from == DType::U64 ? static_cast<float>(static_cast<std::uint64_t>(x.integer))
                                                       : static_cast<float>(static_cast<std::int64_t>(x.integer))),
            to)};
  if (to == DType::F64)
    return {0,
        from == DType::U64 ? static_cast<double>(static_cast<std::uint64_t>(x.integer))
                           : static_cast<double>(static_cast<std::int64_t>(x.integer))};
  return {wrapped(x.integer, to), 0};
}

Wide integer_result(Op o, Wide a, Wide b, DType t) {
  const int bits = lang::bits(t);
  const Wide amount = b < 0 || b >= bits ? bits : b;
  switch (o) {
    case Op::Neg: return -a;
    case Op::Abs:
    case Op::Recip:
    case Op::Relu:
    case Op::Sign:
    case Op::Ceil:
    case Op::Floor:
    case Op::Round:
    case Op::Trunc: break;
    case Op::Not: return t == DType::Bool ? !a : ~a;
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return static_cast<Wide>(static_cast<WideBits>(a) * static_cast<WideBits>(b));
    case Op::Div: return b == 0 ? 0 : a / b;
    case Op::Mod: return b == 0 ? 0 : a % b;
    case Op::Max: return std::max(a, b);
    case Op::Min: return std::min(a, b);
    case Op::And: return a & b;
    case Op::Or: return a | b;
    case Op::Xor: return a ^ b;
    case Op::Shl: return amount == bits ? 0 : static_cast<Wide>(static_cast<WideBits>(a) << static_cast<int>(amount));
    case Op::Shr: return amount == bits ? (a < 0 ? -1 : 0) : a >> static_cast<int>(amount);
    case Op::Pow: {
      if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
      Wide r = 1, x = a;
      for (Wide n = b; n > 0; n /= 2) {
        if (n % 2) r = wrapped(static_cast<Wide>(static_cast<WideBits>(r) * static_cast<WideBits>(x)), t);
        x = wrapped(static_cast<Wide>(static_cast<WideBits>(x) * static_cast<WideBits>(x)), t);
      }
      return r;
    }
    default: FAIL("no reference");
  }
  if (o == Op::Abs) return a < 0 ? -a : a;
  if (o == Op::Recip) return a == 1 || a == -1 ? a : 0;
  if (o == Op::Relu) return a < 0 ? 0 : a;
  if (o == Op::Sign) return (a > 0) - (a < 0);
  return a;
}

double real_result(Op o, double a, double b) {
  switch (o) {
    case Op::Neg: return -a;
    case Op::Abs: return std::fabs(a);
    case Op::Recip: return 1 / a;
    case Op::Relu: return a < 0 ? 0 : a;
    case Op::Sign: return a > 0 ? 1 : a < 0 ? -1 : a;
    case Op::Ceil: return std::ceil(a);
    case Op::Floor: return std::floor(a);
    case Op::Round: return std::round(a);
    case Op::Trunc: return std::trunc(a);
    case Op::Sigmoid: return 1 / (1 + std::exp(-a));
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
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Div: return a / b;
    case Op::Max: return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
    case Op::Min: return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b);
    case Op::Mod: return std::fmod(a, b);
    case Op::Pow: return std::pow(a, b);
    case Op::Atan2: return std::atan2(a, b);
    default: FAIL("no reference"); return 0;
  }
}

bool test_result(Op o, const Scalar& x, const Scalar& y, bool real) {
  const auto compare = [&](auto a, auto b) {
    switch (o) {
      case Op::Eq: return a == b;
      case Op::Ne: return a != b;
      case Op::Lt: return a < b;
      case Op::Le: return a <= b;
      case Op::Gt: return a > b;
      default: return a >= b;
    }
  };
  if (o == Op::IsNan) return real && std::isnan(x.real);
  if (o == Op::IsFinite) return !real || std::isfinite(x.real);
  return real ? compare(x.real, y.real) : compare(x.integer, y.integer);
}

// Equal within `ulps` units in the last place of the type; NaN equals NaN. Subnormal results may differ by the least
// normal.
bool near(double a, double b, DType type, double ulps) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  if (std::isinf(a) || std::isinf(b)) return false;
  const double eps = type == DType::F64 ? 0x1p-52
      : type == DType::F32              ? 0x1p-23
      : type == DType::F16              ? 0x1p-10
                                        : 0x1p-7;
  const double least = type == DType::F64 ? 0x1p-1022 : type == DType::F16 ? 0x1p-14 : 0x1p-126;
  return std::fabs(a - b) <= ulps * eps * std::max(std::fabs(b), least);
}

std::vector<unsigned char> samples(DType type, bool second) {
  std::vector<unsigned char> bytes;
  const auto put = [&](auto x) {
    const auto* p = reinterpret_cast<const unsigned char*>(&x);
    bytes.insert(bytes.end(), p, p + sizeof x);
  };
  std::mt19937_64 random(second ? 7 : 5);
  const int n = 225;
  if (lang::is_float(type)) {
    const double corner[] = {0.0, -0.0, 1, -1, 0.5, -2.5, 2.5, 3.5, 1e-3, 100.25, -37.75, 65504, 1e5, 1 + 0x1p-11,
        1 + 0x1p-11 + 0x1p-30, HUGE_VAL, -HUGE_VAL, std::nan("")};
    for (int i = 0; i < n; ++i) {
      const double x = i < 18 * 8 ? corner[second ? i / 8 % 18 : (i * 5 + i / 18) % 18]
                                  : std::uniform_real_distribution<double>(-4, 4)(random);
      if (type == DType::F32) put(static_cast<float>(x));
      else if (type == DType::F64) put(x);
      else put(double_to_half(x, type));
    }
    return bytes;
  }
  for (int i = 0; i < n; ++i) {
    const int bits = lang::bits(type);
    const std::uint64_t corner[] = {0, 1, ~std::uint64_t{0}, std::uint64_t{1} << (bits - 1),
        (std::uint64_t{1} << (bits - 1)) - 1, 2, 3, 7, 31, static_cast<std::uint64_t>(bits),
        static_cast<std::uint64_t>(bits - 1), ~std::uint64_t{6}};
    std::uint64_t x = i < 144 ? corner[second ? i / 12 % 12 : i % 12] : random();
    if (type == DType::Bool) x &= 1;
    for (int b = 0; b < bits / 8; ++b) bytes.push_back(static_cast<unsigned char>(x >> (8 * b)));
  }
  return bytes;
}

// ---- the cases: each registers kernels, then checks what they wrote

struct Case { std::string name; std::function<void(const Session&)> check; };
std::vector<Case> cases;
Session session;

void operations_case(DType type) {
  const std::int64_t n = 225;
  const Operations all = operations(type, n);
  const auto xs = samples(type, false), ys = samples(type, true);
  const int z = session.out_of(type, n * static_cast<std::int64_t>(std::max<std::size_t>(all.values.size(), 1)));
  const int b = session.out<std::uint8_t>(n * static_cast<std::int64_t>(all.tests.size()));
  session.launch(all.loops, {session.add(xs), session.add(ys), z, b});
  cases.push_back({fmt::format("operations of {}", lang::name(type)), [=](const Session& s) {
    const bool real = lang::is_float(type);
    const auto out = s.get<unsigned char>(z);
    const auto flags = s.get<std::uint8_t>(b);
    const auto size = static_cast<std::size_t>(lang::bytes(type));
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const Scalar x = fetch(type, &xs[i * size]), y = fetch(type, &ys[i * size]);
      for (std::size_t k = 0; k < all.values.size(); ++k) {
        const Scalar got = fetch(type, &out[(k * static_cast<std::size_t>(n) + i) * size]);
        if (real) {
          const double want = rounded(real_result(all.values[k], x.real, y.real), type);
          CHECK_MESSAGE(near(got.real, want, type, type == DType::F64 || type == DType::F32 ? 16 : 1), lang::name(type),
              " ", lang::info(all.values[k]).name, " ", x.real, " ", y.real, ": ", got.real, " for ", want);
        } else {
          const Wide want = wrapped(integer_result(all.values[k], x.integer, y.integer, type), type);
          CHECK_MESSAGE(got.integer == want, lang::name(type), " ", lang::info(all.values[k]).name, " ",
              static_cast<std::int64_t>(x.integer), " ", static_cast<std::int64_t>(y.integer), ": ",
              static_cast<std::int64_t>(got.integer), " for ", static_cast<std::int64_t>(want));
        }
      }
      for (std::size_t k = 0; k < all.tests.size(); ++k) {
        const std::uint8_t got = flags[k * static_cast<std::size_t>(n) + i];
        CHECK_MESSAGE(got == (test_result(all.tests[k], x, y, real) ? 1 : 0), lang::name(type), " ",
            lang::info(all.tests[k]).name, " ", x.real, " ", y.real);
      }
    }
  }});
}

void casts_case(DType from) {
  const std::int64_t n = 225;
  const auto xs = samples(from, false);
  std::vector<int> buffers = {session.add(xs)};
  for (DType to : lang::all_dtypes) buffers.push_back(session.out_of(to, n));
  session.launch(casts(from, n), buffers);
  cases.push_back({fmt::format("casts of {}", lang::name(from)), [=](const Session& s) {
    int k = 0;
    for (DType to : lang::all_dtypes) {
      const auto out = s.get<unsigned char>(buffers[static_cast<std::size_t>(++k)]);
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        const Scalar x = fetch(from, &xs[i * static_cast<std::size_t>(lang::bytes(from))]),
                     got = fetch(to, &out[i * static_cast<std::size_t>(lang::bytes(to))]), want = cast(x, from, to);
        CHECK_MESSAGE((lang::is_float(to) ? near(got.real, want.real, to, 0) : got.integer == want.integer),
            lang::name(from), " ", x.real, " ", static_cast<std::int64_t>(x.integer), " to ", lang::name(to), ": ",
            got.real, " ", static_cast<std::int64_t>(got.integer), " for ", want.real, " ",
            static_cast<std::int64_t>(want.integer));
      }
    }
  }});
}

std::vector<float> floats(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> v(n);
  for (float& x : v) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return v;
}

void matmul_case(std::int64_t M, std::int64_t N, std::int64_t K) {
  const auto A = floats(static_cast<std::size_t>(M * K), 1), B = floats(static_cast<std::size_t>(K * N), 2);
  const int c = session.out<float>(M * N);
  session.launch(
      matmul(fmt::format("matmul_{}_{}_{}", M, N, K), M, N, K, 32, 32, 8, 4, 4), {session.add(A), session.add(B), c});
  cases.push_back({fmt::format("matmul {} x {} x {}", M, N, K), [=](const Session& s) {
    const auto C = s.get<float>(c);
    for (std::int64_t i = 0; i < M; ++i) for (std::int64_t j = 0; j < N; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < K; ++k)
        sum += static_cast<double>(A[static_cast<std::size_t>(i * K + k)]) *
            static_cast<double>(B[static_cast<std::size_t>(k * N + j)]);
      CHECK(
          std::fabs(static_cast<double>(C[static_cast<std::size_t>(i * N + j)]) - sum) < 1e-5 * static_cast<double>(K));
    }
  }});
}

void softmax_case(std::int64_t rows, std::int64_t N, std::int64_t threads) {
  const auto X = floats(static_cast<std::size_t>(rows * N), 3);
  const int y = session.out<float>(rows * N);
  session.launch(softmax(fmt::format("softmax_{}", N), rows, N, threads), {session.add(X), y});
  cases.push_back({fmt::format("softmax {} x {}", rows, N), [=](const Session& s) {
    const auto Y = s.get<float>(y);
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::int64_t j = 0; j < N; ++j) sum += std::exp(static_cast<double>(X[static_cast<std::size_t>(r * N + j)]));
      for (std::int64_t j = 0; j < N; ++j)
        CHECK(std::fabs(static_cast<double>(Y[static_cast<std::size_t>(r * N + j)]) -
                  std::exp(static_cast<double>(X[static_cast<std::size_t>(r * N + j)])) / sum) < 1e-6);
    }
  }});
}

template <class T>
void reduction_case(const std::string& name, DType type, Aggregation how, std::int64_t threads, T (*combine)(T, T)) {
  std::vector<T> X;
  for (int i = 0; i < 3 * threads; ++i) X.push_back(static_cast<T>(i * 37 % 11 - 5));
  const int y = session.out<T>(3);
  session.launch(reduction(name, type, how, 3, threads), {session.add(X), y});
  cases.push_back({name, [=](const Session& s) {
    const auto Y = s.get<T>(y);
    for (std::size_t r = 0; r < 3; ++r) {
      T want = X[r * static_cast<std::size_t>(threads)];
      for (std::size_t i = 1; i < static_cast<std::size_t>(threads); ++i)
        want = combine(want, X[r * static_cast<std::size_t>(threads) + i]);
      CHECK(Y[r] == want);
    }
  }});
}

// Two ranges of one grid with different threads, the second of two axes; a third of extent 0.
void siblings_case() {
  const Body first = {let("c", var("base") + 100),
      loop("t", Kind::Thread, 32, {store("Y", var("i") * 32 + var("t"), Convert{var("c") + var("i"), DType::I32})})};
  const Body second = {loop("k", Kind::Block, 3,
      {allocate("s", DType::I32, 8, Memory::Shared),
          loop("t", Kind::Thread, 8, {store("s", var("t"), Convert{var("j") * 10 + var("k"), DType::I32})}),
          loop("u", Kind::Thread, 8,
              {store("Z", (var("j") * 3 + var("k")) * 8 + var("u"), load("s", var("u"), DType::I32))})})};
  const Body alone = {store("W", var("l"), load("W", var("l"), DType::I32)),
      store("W", var("l"), op(Op::Add, {load("W", var("l"), DType::I32), number(DType::I32, 1)}))};
  const Body top = {let("base", 900), loop("i", Kind::Block, 5, first), loop("e", Kind::Block, 0, first),
      loop("j", Kind::Block, 2, second), loop("l", Kind::Block, 4, alone)};
  const int y = session.out<int>(160), z = session.out<int>(48), w = session.add(std::vector<int>{1, 2, 3, 4});
  session.launch(
      {{kernel("siblings",
           {{"Y", DType::I32, Direction::Out}, {"Z", DType::I32, Direction::Out}, {"W", DType::I32, Direction::InOut}},
           top)},
          {}},
      {y, z, w});
  cases.push_back({"siblings under Block are ranges of one grid", [=](const Session& s) {
    const auto Y = s.get<int>(y), Z = s.get<int>(z), W = s.get<int>(w);
    for (int i = 0; i < 160; ++i) CHECK(Y[static_cast<std::size_t>(i)] == 1000 + i / 32);
    for (int i = 0; i < 48; ++i) CHECK(Z[static_cast<std::size_t>(i)] == i / 24 * 10 + i / 8 % 3);
    for (int i = 0; i < 4; ++i) CHECK(W[static_cast<std::size_t>(i)] == i + 2);
  }});
}

// Three axes, a table, an advancing view, a called function, a Vector, a negative floor division, names C could not
// hold.
void odds_case() {
  const Function callee{"scale", {{"from", DType::F64, Direction::In}, {"to", DType::F64, Direction::Out}}, {"n", "by"},
      {loop("v", Kind::Vector, 2,
          {store("to", var("v") * var("n"),
              op(Op::Mul, {load("from", var("v"), DType::F64), Expr(Convert{var("by"), DType::F64})}))})}};
  const std::string in = "double", out = "x'";
  const Body body = {
      view("p", in, Operation{Op::Mul, {load("#off", var("a"), DType::I64), Expr(std::int64_t{1})}, DType::I64}),
      allocate("sum", DType::F64, 1, Memory::Register), store("sum", std::int64_t{0}, number(DType::F64, 0)),
      loop("k", Kind::Serial, 3,
          {store("sum", std::int64_t{0},
              op(Op::Add, {load("sum", std::int64_t{0}, DType::F64), load("p", std::int64_t{0}, DType::F64)}))},
          {{"p", Expr(std::int64_t{2})}}),
      let("at", ((var("a") * 3 + var("b")) * 2 + var("c")) * 4),
      store(out, var("at"), load("sum", std::int64_t{0}, DType::F64)),
      store(out, var("at") + 1, Convert{floor_divide(var("b") - 2, 3), DType::F64}), view("q", out, var("at") + 2),
      {CallStmt{"scale", {"p", "q"}, {Expr(std::int64_t{1}), var("c") + 1}}}};
  const Body nest = {loop("a", Kind::Block, 2, {loop("b", Kind::Block, 3, {loop("c", Kind::Block, 2, body)})})};
  std::vector<double> X;
  for (int i = 0; i < 16; ++i) X.push_back(i * i);
  const int y = session.out<double>(48);
  session.launch(
      {{callee, kernel("float", {{in, DType::F64, Direction::In}, {out, DType::F64, Direction::InOut}}, nest)},
          {{"#off", {1, 4}}}},
      {session.add(X), y});
  cases.push_back({"tables, advancing views, calls and odd names", [=](const Session& s) {
    const auto Y = s.get<double>(y);
    for (int a = 0; a < 2; ++a) for (int b = 0; b < 3; ++b) for (int c = 0; c < 2; ++c) {
      const auto at = static_cast<std::size_t>(((a * 3 + b) * 2 + c) * 4), p = static_cast<std::size_t>(a == 0 ? 1 : 4);
      CHECK(Y[at] == X[p] + X[p + 2] + X[p + 4]);
      CHECK(Y[at + 1] == std::floor((b - 2) / 3.0));
      CHECK(Y[at + 2] == X[p] * (c + 1));
      CHECK(Y[at + 3] == X[p + 1] * (c + 1));
    }
  }});
}

void constants_case() {
  const double values[] = {0, -1.5, HUGE_VAL, -HUGE_VAL, std::nan(""), 0x1p-24, 65519, 65520, 1e-300, 0.1};
  std::vector<ViewParameter> views;
  std::vector<int> buffers;
  Body body;
  for (DType type : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    views.push_back({std::string(lang::name(type)), type, Direction::Out});
    buffers.push_back(session.out_of(type, 10));
    for (int i = 0; i < 10; ++i) body.push_back(store(views.back().name, std::int64_t{i}, number(type, values[i])));
  }
  session.launch({{kernel("constants", views, {loop("i", Kind::Block, 1, body)})}, {}}, buffers);
  cases.push_back({"constants", [=](const Session& s) {
    int k = 0;
    for (DType type : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
      const auto out = s.get<unsigned char>(buffers[static_cast<std::size_t>(k++)]);
      for (int i = 0; i < 10; ++i) {
        const double got = fetch(type, &out[static_cast<std::size_t>(i * lang::bytes(type))]).real;
        CHECK_MESSAGE(near(got, rounded(values[i], type), type, 0), lang::name(type), " ", values[i], " ", got);
      }
    }
  }});
}

void register_cases() {
  for (DType type : lang::all_dtypes) operations_case(type);
  for (DType type : lang::all_dtypes) casts_case(type);
  matmul_case(64, 64, 32);
  matmul_case(37, 45, 19);
  softmax_case(5, 1000, 128);
  softmax_case(3, 70, 128);
  reduction_case<float>(
      "sum_of_100_threads", DType::F32, Aggregation::Sum, 100, [](float a, float b) { return a + b; });
  reduction_case<std::int8_t>("product_wraps", DType::I8, Aggregation::Product, 64,
      [](std::int8_t a, std::int8_t b) { return static_cast<std::int8_t>(a * b); });
  reduction_case<std::int64_t>("least_of_33_threads", DType::I64, Aggregation::Min, 33,
      [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
  reduction_case<double>("most", DType::F64, Aggregation::Max, 128, [](double a, double b) { return std::max(a, b); });
  siblings_case();
  odds_case();
  constants_case();
}

}  // namespace

TEST_CASE("kernels agree with plain C++") {
  for (const Case& c : cases) SUBCASE(c.name.c_str()) c.check(session);
}

TEST_CASE("a name that Loops never bound is our bug, not the machine's") {
  codegen::Lowered package;
  package.steps.push_back(step({{kernel("broken", {{"X", DType::F32, Direction::Out}},
                                    {store("X", std::int64_t{0}, typed("gone", DType::F32))})},
                                   {}},
      {0}));
  CHECK_THROWS_AS(device->load(made(package)), lang::InternalError);
}

// The code of the RuntimeError that f throws.
template <class F> std::string code_of(const F& f) {
  try {
    f();
  } catch (const runtime::RuntimeError& e) {
    return e.diagnostic.code;
  }
  return "none";
}

TEST_CASE("faults of the machine are named") {
  CHECK(code_of([] { runtime::open_opencl(99); }) == "E0520");
  CHECK(code_of([] { device->allocate(std::int64_t{1} << 60); }) == "E0523");
  const auto memory = device->allocate(64);
  const std::vector<float> values(1000);
  CHECK(code_of([&] { device->copy_in(memory, values.data(), 4000); }) == "E0522");
  codegen::Lowered package;
  package.steps.push_back(step({{kernel("crowd", {{"X", DType::F32, Direction::Out}},
                                    {loop("t", Kind::Thread, 1 << 20, {store("X", var("t"), number(DType::F32, 0))})})},
                                   {}},
      {0}));
  CHECK(code_of([&] { device->load(made(package)); }) == "E0525");
}

TEST_CASE("a package without steps, a grid without blocks, a buffer without bytes") {
  codegen::Lowered package;
  CHECK_NOTHROW(device->run(*device->load(made(package)), {}));
  package.steps.push_back(step(
      {{kernel("nothing", {{"X", DType::F32, Direction::Out}},
           {loop("i", Kind::Block, 0, {loop("t", Kind::Thread, 4, {store("X", var("i"), number(DType::F32, 0))})})})},
          {}},
      {0}));
  const std::vector<runtime::Memory> memory = {device->allocate(0)};
  CHECK_NOTHROW(device->run(*device->load(made(package)), memory));
}

}  // namespace tilec::test

int main(int argc, char** argv) {
  using namespace tilec;
  try {
    test::device = runtime::open_opencl(0);
  } catch (const runtime::RuntimeError& e) {
    fmt::print("skipped: {}\n", e.what());
    return 77;
  }
  try {
    test::register_cases();
    test::session.run(*test::device);
  } catch (const std::exception& e) {
    fmt::print("{}\n", e.what());
    return 1;
  }
  return doctest::Context(argc, argv).run();
}
