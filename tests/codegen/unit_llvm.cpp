// Hand-written Loops through the LLVM emitter and the linker, against plain C++.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

#include "tests/backends/guarded.h"
#include "tests/codegen/kernels.h"

using namespace kernels;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<float> random_floats(std::size_t n, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> v(n);
  for (float& x : v) x = draw(engine);
  return v;
}

void check_block(const std::string& target, int rows, int vectors, int lanes, int width, bool taps) {
  const int K = 37, R = taps ? 3 : 1, ld = vectors * lanes + 5;
  const auto A = random_floats(static_cast<std::size_t>(rows * K + 50), 1),
             B = random_floats(static_cast<std::size_t>(R * K * ld), 2);
  const std::vector<std::int64_t> off{0, 7, 40};
  std::vector<float> C(static_cast<std::size_t>(rows * ld), 7);
  std::vector<std::int64_t> integers{K, 1, ld, ld, K, 1, width};
  if (taps) integers.insert(integers.end(), {R, K * ld});
  const Run run(call_of(block("uk", rows, vectors, lanes, taps), integers), target);
  if (taps) run(A.data(), off.data(), B.data(), C.data());
  else run(A.data(), B.data(), C.data());
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < ld; ++j) {
      double sum = 7;
      for (int r = 0; r < R && j < width; ++r)
        for (int k = 0; k < K; ++k)
          sum += static_cast<double>(
                     A[static_cast<std::size_t>((taps ? off[static_cast<std::size_t>(r)] : 0) + i * K + k)]) *
              B[static_cast<std::size_t>((r * K + k) * ld + j)];
      CHECK(C[static_cast<std::size_t>(i * ld + j)] == doctest::Approx(sum).epsilon(1e-5));
    }
}

}  // namespace

TEST_CASE("a micro-kernel with a masked column tail and taps agrees with three loops") {
  for (const char* target : {"cpu", narrow_cpu})
    for (const bool taps : {false, true}) {
      check_block(target, 8, 3, 16, 43, taps);
      check_block(target, 6, 2, 8, 16, taps);
      check_block(target, 5, 1, 8, 3, taps);
      check_block(target, 24, 1, 16, 16, taps);
    }
}

namespace {

Expr n(std::int64_t x) { return Expr(x); }
const Expr l = var("l");

std::vector<float> count_up(std::size_t size) {
  std::vector<float> v(size);
  for (std::size_t i = 0; i < size; ++i) v[i] = static_cast<float>(i);
  return v;
}

Loops kernel(std::vector<ViewParameter> views, Body body, std::vector<Table> tables = {}) {
  return Loops{{Function{"k", std::move(views), {}, std::move(body)}}, std::move(tables)};
}

const std::vector<ViewParameter> x_to_y{{"X", DType::F32}, {"Y", DType::F32, Direction::Out}};

}  // namespace

TEST_CASE("loads with any stride over lanes") {
  for (const char* target : {"cpu", narrow_cpu})
    for (const int lanes : {4, 8, 16})
      for (const std::int64_t stride : {-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 17}) {
        const auto x = count_up(600);
        std::vector<float> y(16, -1), masked(16, -1);
        const Expr place = l * n(stride) + n(300);
        const auto body = [&](Body in) { return Body{loop("l", Kind::Vector, n(lanes), std::move(in))}; };
        Run(kernel(x_to_y, body({store("Y", l, at("X", place))})), target)(x.data(), y.data());
        Run(kernel(x_to_y, body({when(less(l, n(3)), {store("Y", l, at("X", place))})})), target)(
            x.data(), masked.data());
        for (int i = 0; i < lanes; ++i) {
          CHECK(y[static_cast<std::size_t>(i)] == static_cast<float>(300 + stride * i));
          CHECK(masked[static_cast<std::size_t>(i)] == (i < 3 ? static_cast<float>(300 + stride * i) : -1));
        }
      }
}

TEST_CASE("loads read nothing outside the elements of their lanes") {
  // 16 lanes of stride 3 end exactly at the last element of an exactly sized buffer (run under a sanitizer to see
  // more).
  std::vector<float> x = count_up(46), y(16);
  Run(kernel(x_to_y, {loop("l", Kind::Vector, n(16), {store("Y", l, at("X", l * n(3)))})}))(x.data(), y.data());
  for (std::size_t i = 0; i < 16; ++i) CHECK(y[i] == static_cast<float>(3 * i));
}

TEST_CASE("under a mask loads touch nothing outside the elements of its lanes, whatever is known of it") {
  std::mt19937 engine(3);
  const auto draw = [&](int n) { return static_cast<int>(engine() % static_cast<unsigned>(n)); };
  const auto condition = [&](const auto& self, int depth) -> Expr {
    if (depth && draw(2))
      return apply(draw(2) ? Op::And : Op::Or, {self(self, depth - 1), self(self, depth - 1)}, DType::Bool);
    if (draw(4) == 0) return less(l, var("w"));
    if (draw(4) == 0) return apply(Op::Eq, {apply(Op::Mod, {l, n(2 + draw(8))}, DType::I64), n(draw(3))}, DType::Bool);
    const std::int64_t step = draw(2) ? 1 : 2 + draw(3);
    return apply(draw(2) ? Op::Lt : Op::Ge, {l * n(step), n(draw(33 * static_cast<int>(step)))}, DType::Bool);
  };
  const auto holds = [](const auto& self, const Expr& e, std::int64_t lane, std::int64_t w) -> std::int64_t {
    return e.match([](const Constant& c) { return c.integer; },
        [&](const Variable& v) { return v.name == "l" ? lane : w; }, [](const Load&) { return std::int64_t{0}; },
        [](const Convert&) { return std::int64_t{0}; },
        [&](const Operation& o) -> std::int64_t {
          const std::int64_t x = self(self, o.operands[0], lane, w), y = self(self, o.operands[1], lane, w);
          switch (o.op) {
            case Op::And: return x && y;
            case Op::Or: return x || y;
            case Op::Mod: return x % y;
            case Op::Mul: return x * y;
            case Op::Eq: return x == y;
            case Op::Lt: return x < y;
            default: return x >= y;
          }
        });
  };
  for (int k = 0; k < 400; ++k) {
    const int lanes = 4 << draw(4);
    const std::int64_t stride = draw(3) ? 1 : 2 + draw(3), w = draw(lanes + 1);
    const Expr inside = condition(condition, 2),
               outside = draw(2) ? condition(condition, 1) : Expr(apply(Op::Ge, {l, n(0)}, DType::Bool));
    std::vector<std::int64_t> on;
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      if (holds(holds, outside, lane, w) && holds(holds, inside, lane, w)) on.push_back(lane);
    if (on.empty()) continue;
    const bool behind = draw(2);
    const std::size_t bytes = static_cast<std::size_t>((on.back() - on.front()) * stride + 1) * sizeof(float);
    const backends::Guarded x(bytes, behind);
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i)
      static_cast<float*>(x.data())[i] = static_cast<float>(i) + static_cast<float>(on.front() * stride);
    std::vector<float> y(32, -1), expected(32, -1);
    for (const std::int64_t lane : on) expected[static_cast<std::size_t>(lane)] = static_cast<float>(lane * stride);
    const Loops loops = kernel({{"X", DType::F32}, {"S", DType::I64}, {"Y", DType::F32, Direction::Out}},
        {let("w", at("S", n(0), DType::I64)),
            loop("l", Kind::Vector, n(lanes),
                {when(outside, {when(inside, {store("Y", l, at("X", l * n(stride) - n(on.front() * stride)))})})})});
    for (const char* target : {"cpu", narrow_cpu}) {
      std::fill(y.begin(), y.end(), -1.f);
      Run(loops, target)(static_cast<const float*>(x.data()), &w, y.data());
      CHECK(y == expected);
    }
  }
}

TEST_CASE("gathers by a table, by run-time strides, and scatters") {
  const Loops loops = kernel(
      {{"X", DType::F32}, {"S", DType::I64}, {"Y", DType::F32, Direction::Out}, {"Z", DType::F32, Direction::Out}},
      {let("s", at("S", n(0), DType::I64)),
          loop("l", Kind::Vector, n(8),
              {store("Y", l, apply(Op::Add, {at("X", at("T", l, DType::I64)), at("X", l * var("s"))})),
                  store("Z", l * var("s"), at("X", l)),
                  when(apply(Op::Eq, {apply(Op::Mod, {l, n(2)}, DType::I64), n(1)}, DType::Bool),
                      {store("Z", l * n(2) + n(100), at("X", l))})})},
      {Table{"T", {5, 3, 9, 9, 0, 1, 50, 2}}});
  for (const char* target : {"cpu", narrow_cpu}) {
    const auto x = count_up(64);
    const std::int64_t s = 6, t[] = {5, 3, 9, 9, 0, 1, 50, 2};
    std::vector<float> y(8), z(128, -1);
    Run{loops, target}(x.data(), &s, y.data(), z.data());
    for (int i = 0; i < 8; ++i) {
      CHECK(y[static_cast<std::size_t>(i)] == static_cast<float>(t[i] + 6 * i));
      CHECK(z[static_cast<std::size_t>(6 * i)] == static_cast<float>(i));
      CHECK(z[static_cast<std::size_t>(100 + 2 * i)] == (i % 2 ? static_cast<float>(i) : -1));
    }
  }
}

TEST_CASE("under a mask without lanes nothing is read or written") {
  // X is null: a uniform load, a vector load and a gather must all not happen.
  const Expr w = at("W", n(0), DType::I64);
  const Loops loops = kernel({{"X", DType::F32}, {"W", DType::I64}, {"Y", DType::F32, Direction::Out}},
      {let("w", w),
          loop("l", Kind::Vector, n(16),
              {registers("r", DType::F32, 1), store("r", n(0), number(5)),
                  when(less(l, var("w")),
                      {store(
                           "r", n(0), apply(Op::Add, {at("X", n(3)), apply(Op::Add, {at("X", l), at("X", l * n(7))})})),
                          when(less(l, n(2)), {store("Y", n(20), number(1))})}),
                  store("Y", l, at("r", n(0)))})});
  const Run run(loops);
  std::vector<float> x = count_up(128), y(32, -1);
  std::int64_t w0 = 0, w3 = 3;
  run(static_cast<float*>(nullptr), &w0, y.data());
  CHECK(y[0] == 5);
  CHECK(y[20] == -1);
  run(x.data(), &w3, y.data());
  CHECK(y[2] == 3 + 2 + 14);
  CHECK(y[3] == 5);
  CHECK(y[20] == 1);
}

TEST_CASE("comparisons with the lane make every kind of mask") {
  struct Row { Op op; bool lane_first; };
  for (const Row r : {Row{Op::Lt, true}, {Op::Le, true}, {Op::Gt, true}, {Op::Ge, true}, {Op::Eq, true}, {Op::Ne, true},
           {Op::Lt, false}, {Op::Le, false}, {Op::Gt, false}, {Op::Ge, false}})
    for (const int lanes : {8, 16, 32})
      for (const bool known : {false, true})
        for (const std::int64_t limit : {-100, -1, 0, 1, 5, 15, 16, 31, 40}) {
          const Expr w = known ? n(limit) : var("w"), place = l + n(2);
          std::vector<float> y(32, -1);
          Run(kernel({{"W", DType::I64}, {"Y", DType::F32, Direction::Out}},
              {let("w", at("W", n(0), DType::I64)),
                  loop("l", Kind::Vector, n(lanes),
                      {when(Operation{r.op, r.lane_first ? std::vector<Expr>{place, w} : std::vector<Expr>{w, place},
                                DType::Bool},
                          {store("Y", l, number(1))})})}))(&limit, y.data());
          int wrong = 0;
          for (std::int64_t i = 0; i < lanes; ++i) {
            const std::int64_t a = r.lane_first ? i + 2 : limit, b = r.lane_first ? limit : i + 2;
            const bool on = r.op == Op::Lt ? a < b
                : r.op == Op::Le           ? a <= b
                : r.op == Op::Gt           ? a > b
                : r.op == Op::Ge           ? a >= b
                : r.op == Op::Eq           ? a == b
                                           : a != b;
            wrong += y[static_cast<std::size_t>(i)] != (on ? 1 : -1);
          }
          CHECK(wrong == 0);
        }
}

TEST_CASE("folds over lanes") {
  for (const int lanes : {1, 3, 8, 16, 32}) {
    auto x = random_floats(32, 9);
    const auto fold = [&](Aggregation how) {
      float y = 0;
      Run(kernel(x_to_y,
          {loop("l", Kind::Vector, n(lanes), {Stmt{Fold{"f", how, at("X", l), "l"}}, store("Y", n(0), named("f"))})}))(
          x.data(), &y);
      return y;
    };
    double sum = 0, product = 1, top = -9, low = 9;
    for (std::size_t i = 0; i < static_cast<std::size_t>(lanes); ++i)
      sum += static_cast<double>(x[i]), product *= static_cast<double>(x[i]),
          top = std::max(top, static_cast<double>(x[i])), low = std::min(low, static_cast<double>(x[i]));
    CHECK(fold(Aggregation::Sum) == doctest::Approx(sum).epsilon(1e-5));
    CHECK(fold(Aggregation::Product) == doctest::Approx(product).epsilon(1e-5));
    CHECK(static_cast<double>(fold(Aggregation::Max)) == top);
    CHECK(static_cast<double>(fold(Aggregation::Min)) == low);
    x[static_cast<std::size_t>(lanes) / 2] = NAN;
    CHECK(std::isnan(fold(Aggregation::Max)));
    CHECK(std::isnan(fold(Aggregation::Min)));
  }
}

TEST_CASE(
    "rows that are folded together have the bits of rows that are folded one by one, side by side in their order") {
  const auto check = [](auto element, DType type, const char* target) {
    using Element = decltype(element);
    for (const int lanes : {2, 8, 16, 32})
      for (const int rows : {1, 2, 3, 5, 8, 12, 16, 32})
        for (const Aggregation how : {Aggregation::Sum, Aggregation::Max}) {
          if (rows > lanes) continue;
          std::mt19937 engine(static_cast<unsigned>(rows));
          std::vector<Element> x(static_cast<std::size_t>(rows * lanes)), together(static_cast<std::size_t>(lanes), 77),
              alone = together;
          for (Element& one : x)
            one = static_cast<Element>(
                static_cast<double>(engine() % 1000) / (tilec::lang::is_float(type) ? 300 : 30) - 1);
          Body vector{registers("r", type, rows)};
          for (int i = 0; i < rows; ++i) {
            const Expr in = at("X", n(i * lanes) + l, type);
            vector.push_back(Stmt{Fold{"f" + std::to_string(i), how, in, "l"}});
            vector.push_back(store("Z", n(i), Variable{"f" + std::to_string(i), type}));
            vector.push_back(store("r", n(i), in));
          }
          vector.push_back(Stmt{FoldRows{"r", how, rows}});
          vector.push_back(when(less(l, n(rows)), {store("Y", l, at("r", n(0), type))}));
          Run(kernel({{"X", type}, {"Y", type, Direction::Out}, {"Z", type, Direction::Out}},
                  {loop("l", Kind::Vector, n(lanes), vector)}),
              target)(x.data(), together.data(), alone.data());
          INFO(rows, " rows of ", lanes, " lanes of ", tilec::lang::name(type), " for ", target);
          CHECK(together == alone);
        }
  };
  for (const char* target : {"cpu", narrow_cpu}) {
    check(float(), DType::F32, target);
    check(double(), DType::F64, target);
    check(std::int32_t(), DType::I32, target);
    check(std::int8_t(), DType::I8, target);
  }
}

TEST_CASE("rows of a strip are put together element by element, and taken apart again") {
  const auto check = [](auto element, DType type, const char* target) {
    using Element = decltype(element);
    for (const int lanes : {2, 4, 16, 32})
      for (int rows = 1; rows <= std::min(lanes, 17); ++rows) {
        const auto count = static_cast<std::size_t>(rows * lanes);
        std::vector<Element> x(count), strip(count, 77), back(count, 77);
        for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<Element>(i % 120);
        Body vector{registers("r", type, rows), registers("s", type, rows)};
        const auto each = [&](const auto& made) { for (int i = 0; i < rows; ++i) vector.push_back(made(i)); };
        each([&](int i) { return store("r", n(i), at("X", n(i * lanes) + l, type)); });
        vector.push_back(Stmt{Interleave{"r"}});
        each([&](int i) { return store("Y", n(i * lanes) + l, at("r", n(i), type)); });
        each([&](int i) { return store("s", n(i), at("r", n(i), type)); });
        vector.push_back(Stmt{Interleave{"s", true}});
        each([&](int i) { return store("Z", n(i * lanes) + l, at("s", n(i), type)); });
        Run(kernel({{"X", type}, {"Y", type, Direction::Out}, {"Z", type, Direction::Out}},
                {loop("l", Kind::Vector, n(lanes), vector)}),
            target)(x.data(), strip.data(), back.data());
        INFO(rows, " rows of ", lanes, " lanes of ", tilec::lang::name(type), " for ", target);
        for (int i = 0; i < rows; ++i)
          for (int lane = 0; lane < lanes; ++lane)
            REQUIRE(strip[static_cast<std::size_t>(lane * rows + i)] == x[static_cast<std::size_t>(i * lanes + lane)]);
        CHECK(back == x);
      }
  };
  for (const char* target : {"cpu", narrow_cpu}) {
    check(float(), DType::F32, target);
    check(double(), DType::F64, target);
    check(std::int8_t(), DType::I8, target);
  }
}

TEST_CASE("registers are values through loops and conditions") {
  // (a, b) = (b, a + b), n times, skipping every third turn; c is never stored, d copies it.
  const Expr a = at("a", n(0), DType::I64), b = at("b", n(0), DType::I64);
  const Body turn{when(apply(Op::Ne, {apply(Op::Mod, {var("i"), n(3)}, DType::I64), n(2)}, DType::Bool),
                      {let("t", a + b), store("a", n(0), b), store("b", n(0), var("t"))},
                      {store("d", n(1), at("d", n(0), DType::I64))}),
      loop("q", Kind::Serial, n(2),
          {store("d", n(2), at("c", n(0), DType::I64) + at("d", n(2), DType::I64)),
              store("c", n(0), at("c", n(0), DType::I64))})};
  const Loops loops = kernel({{"N", DType::I64}, {"Y", DType::I64, Direction::Out}},
      {registers("a", DType::I64, 1), registers("b", DType::I64, 1), registers("c", DType::I64, 1),
          registers("d", DType::I64, 3), store("b", n(0), n(1)), store("c", n(0), n(4)), store("d", n(0), n(7)),
          loop("i", Kind::Serial, at("N", n(0), DType::I64), turn), store("Y", n(0), a), store("Y", n(1), b),
          store("Y", n(2), at("d", n(1), DType::I64)), store("Y", n(3), at("d", n(2), DType::I64))});
  const Run run(loops);
  for (const std::int64_t turns : {1, 2, 3, 10}) {
    std::int64_t x = 0, y = 1, copied = 0, got[4];
    for (std::int64_t i = 0; i < turns; ++i) {
      if (i % 3 == 2) copied = 7;
      else y += x, x = y - x;
    }
    run(&turns, got);
    CHECK(got[0] == x);
    CHECK(got[1] == y);
    CHECK(got[2] == copied);
    CHECK(got[3] == 8 * turns);
  }
}

TEST_CASE("Parallel loops see what surrounds them, alone or in a pool") {
  // Y[i, :] = X[i, :] * s + 1 through a Local row, which is small (stack) or large (heap).
  for (const std::int64_t row : {16, 16 * 1024})
    for (const std::int64_t rows : {0, 1, 2, 7}) {
      const Expr j = var("j") * n(16) + l;
      const auto vector = [&](Body body) {
        return loop("j", Kind::Serial, n(row / 16), {loop("l", Kind::Vector, n(16), std::move(body))});
      };
      const Loops loops =
          kernel({{"X", DType::F32}, {"S", DType::F32}, {"N", DType::I64}, {"Y", DType::F32, Direction::Out}},
              {let("s", at("S", n(0))), view("x", "X", n(0)),
                  loop("i", Kind::Parallel, at("N", n(0), DType::I64),
                      {Stmt{Allocate{"t", DType::F32, row, Memory::Local}},
                          vector({store("t", j, apply(Op::Mul, {at("x", j), named("s")}))}),
                          view("y", "Y", var("i") * n(row)),
                          vector({store("y", j, apply(Op::Add, {at("t", j), number(1)}))})},
                      {{"x", n(row)}})});
      const auto x = random_floats(static_cast<std::size_t>(7 * row), 4);
      const float s = 3;
      std::vector<float> y(x.size(), -1), want(x.size(), -1), alone(x.size(), -1);
      for (std::size_t i = 0; i < static_cast<std::size_t>(rows * row); ++i) want[i] = x[i] * s + 1;
      const Run run(loops);
      run(x.data(), &s, &rows, y.data());
      CHECK(y == want);
      run.alone(x.data(), &s, &rows, alone.data());
      CHECK(alone == want);
    }
}

TEST_CASE("streaming stores work at every alignment") {
  const Loops loops = kernel(x_to_y,
      {loop("j", Kind::Serial, n(9),
          {loop("l", Kind::Vector, n(16),
              {store("Y", var("j") * n(16) + l, at("X", var("j") * n(16) + l), Hint::Streaming)})})});
  for (const char* target : {"cpu", narrow_cpu}) {
    const Run run(loops, target);
    for (std::size_t shift = 0; shift < 20; ++shift) {
      const auto x = random_floats(144);
      std::vector<float> y(180, -1);
      run(x.data(), y.data() + shift);
      CHECK(std::equal(x.begin(), x.end(), y.begin() + static_cast<std::ptrdiff_t>(shift)));
      CHECK(y[shift + 144] == -1);
    }
  }
}

TEST_CASE("Bool is a byte in memory and a bit in registers") {
  const Loops loops = kernel({{"X", DType::F32}, {"B", DType::Bool}, {"Y", DType::Bool, Direction::Out}},
      {loop("l", Kind::Vector, n(16),
          {registers("r", DType::Bool, 1), store("r", n(0), apply(Op::Gt, {at("X", l), number(0)}, DType::Bool)),
              store("Y", l, apply(Op::Xor, {at("r", n(0), DType::Bool), at("B", l, DType::Bool)}, DType::Bool))})});
  const auto x = random_floats(16);
  std::vector<unsigned char> b(16), y(17, 9);
  for (std::size_t i = 0; i < 16; ++i) b[i] = i % 3 == 0;
  Run{loops}(x.data(), b.data(), y.data());
  for (std::size_t i = 0; i < 16; ++i) CHECK(int{y[i]} == ((x[i] > 0) != (b[i] != 0)));
  CHECK(int{y[16]} == 9);
}

TEST_CASE("a CPU by name is what LLVM says of it, on every machine") {
  struct Known { const char* name; int bytes, registers; const char* triple; };
  for (const Known& k :
      {Known{"x86-64", 16, 16, "x86_64"}, {"x86-64-v2", 16, 16, "x86_64"}, {"x86-64-v3", 32, 16, "x86_64"},
          {"x86-64-v4", 64, 32, "x86_64"}, {"znver4", 64, 32, "x86_64"}, {"znver5", 64, 32, "x86_64"},
          {"aarch64", 16, 32, "aarch64"}, {"neoverse-n1", 16, 32, "aarch64"}, {"cortex-a53", 16, 32, "aarch64"}}) {
    CAPTURE(k.name);
    const std::optional<Target> target = target_named(std::string("cpu:") + k.name);
    REQUIRE(target);
    CHECK(target->vector_bytes == k.bytes);
    CHECK(target->vector_registers == k.registers);
    CHECK(target->triple.starts_with(k.triple));
    CHECK(target->features.empty());                     // nothing that this machine lacks is taken from it
    CHECK(std::tuple(target->l1, target->l2, target->l3) == std::tuple(Target().l1, Target().l2, Target().l3));
    const Loops loops = call_of(block("one", 4, 1, 8, false), {1, 1, 8, 8, 1, 0, 8});
    const auto module = llvm_backend::emit({&loops}, *target, {.ir = true, .assembly = true});
    CHECK(module.ir.find("\"target-cpu\"=\"" + target->arch + "\"") != std::string::npos);
    CHECK(module.ir.find("target-features") == std::string::npos);
    CHECK(module.assembly.find("%zmm") == std::string::npos);  // lanes are eight
    CHECK((module.assembly.find("%ymm") != std::string::npos) == (k.bytes >= 32));
    CHECK((module.assembly.find("fmla") != std::string::npos) == target->triple.starts_with("aarch64"));
    REQUIRE(module.object.size() > 20);
    // e_machine
    CHECK(int{static_cast<unsigned char>(module.object[18])} == (target->triple.starts_with("aarch64") ? 183 : 62));
  }
  for (const char* none : {"cpu:z80", "cpu:i386", "cpu:pentium4", "cpu:", "cpu:help", "cpu:x86-64-v9", "cpu:AArch64",
           "cpu:aarch64 ", "cpu:+avx2"}) {
    CAPTURE(none);
    CHECK(!target_named(none));
  }
}

TEST_CASE("functions that print alike are one object, and wrong Loops are named") {
  const Function f = block("one", 4, 1, 8, false);
  Function g = f;
  g.name = "two";
  const Loops first = call_of(f, {1, 1, 8, 8, 1, 0, 8});
  Loops second = call_of(g, {1, 1, 8, 8, 1, 0, 8});
  second.functions.back().name = "other";
  const auto alone = llvm_backend::emit({&first}, *target_named("cpu"), {.ir = true, .object = false}),
             both = llvm_backend::emit({&first, &second}, *target_named("cpu"), {.ir = true, .object = false});
  CHECK(both.ir.size() < alone.ir.size() + 1500);
  const Loops varying =
      kernel(x_to_y, {loop("l", Kind::Vector, n(8), {registers("r", DType::F32, 2), store("r", l, number(1))})});
  CHECK_THROWS_WITH(llvm_backend::emit({&varying}, *target_named("cpu")), doctest::Contains("varies over lanes"));
}

// TILEC_SPEED=1 prints what a machine with nothing else to do reaches.
TEST_CASE("the speed of micro-kernels" * doctest::skip(std::getenv("TILEC_SPEED") == nullptr)) {
  struct Shape { int rows, vectors, lanes; std::string target; };
  for (const Shape& s :
      {Shape{8, 3, 16, "cpu"}, {6, 4, 16, "cpu"}, {14, 2, 16, "cpu"}, {24, 1, 16, "cpu"}, {6, 2, 8, narrow_cpu}})
    for (const int missing : {0, 5}) {
      const int K = 256, n = s.vectors * s.lanes;
      const Loops loops = call_of(block("uk", s.rows, s.vectors, s.lanes, false), {K, 1, n, n, K, 0, n - missing});
      const double t0 = seconds();
      const auto module = llvm_backend::emit({&loops}, *target_named(s.target));
      const double t1 = seconds();
      const Run run(loops, s.target);
      const double t2 = seconds();
      const auto A = random_floats(static_cast<std::size_t>(s.rows * K)),
                 B = random_floats(static_cast<std::size_t>(K * n));
      std::vector<float> C(static_cast<std::size_t>(s.rows * n));
      double best = 1e9;
      for (int repeat = 0; repeat < 7; ++repeat) {
        const double start = seconds();
        for (int i = 0; i < 4000; ++i) run(A.data(), B.data(), C.data());
        best = std::min(best, (seconds() - start) / 4000);
      }
      MESSAGE(s.target << " " << s.rows << "x" << n << std::string(missing ? " masked: " : ": ")
                       << 2.0 * s.rows * n * K / best / 1e9 << " GF/s, emit " << (t1 - t0) * 1e3 << " ms, with linking "
                       << (t2 - t1) * 1e3 << " ms, " << module.object.size() << " bytes");
    }
}
