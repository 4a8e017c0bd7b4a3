// Loops as a value: arithmetic that folds while it is spelled, the print, and what verify refuses.
#include <doctest/doctest.h>

#include <cmath>

#include "lang/diagnostic.h"
#include "tests/codegen/kernels.h"

using namespace kernels;

namespace {

const Expr x = var("x"), y = var("y");
Expr n(std::int64_t value) { return Expr(value); }
Loops wrap(Body body) {
  return Loops{{Function{"f", {{"X", DType::F32}, {"Y", DType::F32, Direction::Out}}, {"x"}, std::move(body)}}, {}};
}

}  // namespace

TEST_CASE("index arithmetic folds constants and neutral elements") {
  CHECK(print(n(2) + n(3)) == "5");
  CHECK(print(x + n(0)) == "x");
  CHECK(print(n(4) + x) == "x + 4");
  CHECK(print(x + n(1) + n(2)) == "x + 3");
  CHECK(print((x + n(1)) + (y + n(2))) == "(x + y) + 3");
  CHECK(print(x - n(1) + n(1)) == "x");
  CHECK(print((x + n(5)) - (x + n(2))) == "3");
  CHECK(print(n(3) * x * n(2)) == "x * 6");
  CHECK(print(x * n(0)) == "0");
  CHECK(print(minimum(n(3), n(2))) == "2");
  CHECK(print(maximum(x, x)) == "x");
  CHECK(print(both(less(n(1), n(2)), less(x, y))) == "x < y");
  CHECK(print(both(less(x, y), at_least(n(1), n(2)))) == "false");
}

TEST_CASE("floor and ceil division are toward minus and plus infinity") {
  for (std::int64_t a = -20; a <= 20; ++a)
    for (const std::int64_t b : {1, 2, 3, 7, 8}) {
      const double quotient = static_cast<double>(a) / static_cast<double>(b);
      CHECK(print(floor_divide(n(a), b)) == std::to_string(static_cast<std::int64_t>(std::floor(quotient))));
      CHECK(print(ceil_divide(n(a), b)) == std::to_string(static_cast<std::int64_t>(std::ceil(quotient))));
      std::int64_t got[2];
      const Expr at_run_time = at("A", n(0), DType::I64);
      const Loops loops{
          {Function{"k", {{"A", DType::I64}, {"Q", DType::I64, Direction::Out}}, {},
              {store("Q", n(0), floor_divide(at_run_time, b)), store("Q", n(1), ceil_divide(at_run_time, b))}}},
          {}};
      if (a % 5 != 0) continue;
      Run{loops}(&a, got);
      CHECK(static_cast<double>(got[0]) == std::floor(quotient));
      CHECK(static_cast<double>(got[1]) == std::ceil(quotient));
    }
}

TEST_CASE("Loops print one statement a line") {
  const Loops loops{{block("uk", 1, 1, 8, true)}, {Table{"T", {1, 2}}}};
  CHECK(print(loops).starts_with(
      "table T = [1, 2]\nfn uk(A: f32 in, off: i64 in, B: f32 in, C: f32 inout; asi, ask, bsk, ldc, K, add, w, R, bst)\n  let ro0 = 0\n  let ro1 = asi\n"));
  CHECK(print(loops).find("    for r in serial R\n      view At = A + off[r]\n") != std::string::npos);
  CHECK(print(loops).find("      for k in serial K advance pb by bsk, pa0 by ask\n") != std::string::npos);
  CHECK(print(loops).find("        if l < w\n          b[0] = pb[l]\n") != std::string::npos);
  CHECK(print(loops).find("        acc[0] = fma(a0, b[0], acc[0])\n") != std::string::npos);
}

TEST_CASE("numbers print with their type and sign") {
  CHECK(print(number(0.1)) == "f32(0.1)");
  CHECK(print(integer(-3, DType::I8)) == "i8(-3)");
  CHECK(print(x * n(-3) + n(-4)) == "(x * (-3)) + (-4)");
  CHECK(print(Convert{x, DType::F32}) == "f32(x)");
  CHECK(print(apply(Op::Select, {less(x, y), number(1), number(2)})) == "(x < y) ? f32(1) : f32(2)");
  CHECK(print(apply(Op::Neg, {number(2)})) == "-f32(2)");
}

TEST_CASE("verify names what is wrong") {
  const auto fault = [](Body body) -> std::string {
    try {
      verify(wrap(std::move(body)));
    } catch (const tilec::lang::InternalError& e) {
      return e.what();
    }
    return "";
  };
  const auto names = [&](Body body, const char* text) {
    return fault(std::move(body)).find(text) != std::string::npos;
  };
  CHECK(fault({store("Y", x, at("X", x))}).empty());
  CHECK(names({store("Q", x, number(1))}, "`Q` is no view"));
  CHECK(names({store("Y", y, number(1))}, "`y` is not defined"));
  CHECK(names({store("Y", x, number(1, DType::F64))}, "f64 is stored in `Y`"));
  CHECK(names({store("Y", x, at("X", x, DType::F64))}, "`X` is loaded as f64"));
  CHECK(names({store("Y", number(1), number(1))}, "not i64"));
  CHECK(names({loop("l", Kind::Vector, x, {})}, "not constant"));
  CHECK(names({loop("l", Kind::Vector, n(4), {loop("m", Kind::Vector, n(4), {})})}, "inside a vector loop"));
  CHECK(names({when(x, {})}, "a condition of type i64"));
  CHECK(names({store("Y", x, apply(Op::Add, {number(1), x}))}, "operands of `add` differ"));
  CHECK(names({Stmt{CallStmt{"g", {}, {}}}}, "not a function before"));
  CHECK(names({loop("i", Kind::Serial, n(2), {let("t", x)}), store("Y", var("t"), number(1))}, "`t` is not defined"));
  CHECK(names({registers("r", DType::F32, 0)}, "0 elements"));
  CHECK(names({registers("r", DType::F32, 1), view("v", "r", n(0))}, "views the register array"));
}
