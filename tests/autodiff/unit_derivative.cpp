// The table of scalar derivatives: every operation against differences, and the conventions at kinks and singular
// points.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autodiff/term.h"
#include "differences.h"

using namespace tilec;
using namespace tilec::autodiff::term;
using namespace tilec::poly;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan_value = std::numeric_limits<double>::quiet_NaN();

// O[] = =(op(A0[], A1[], …)), every operand an input.
Program scalar_program(Op op, int arity, bool boolean_first = false) {
  Program program;
  program.name = "f";
  Apply apply{op, {}, DType::F64};
  Statement statement{.target = {},
      .indices = {},
      .domain = {},
      .aggregation = Aggregation::Assign,
      .value = number(DType::F64, 0),
      .reads = {},
      .fill = poly::Number{DType::F64},
      .ties = Ties::Split,
      .kernel_name = {},
      .span = {}};
  for (int k = 0; k < arity; ++k) {
    program.tensors.push_back({"A" + std::to_string(k), DType::F64, {}, {}});
    program.inputs.push_back(k);
    statement.reads.push_back({k, {}});
    const Expr read = Read{k, DType::F64};
    apply.operands.push_back(boolean_first && k == 0 ? compare(Op::Gt, read, number(DType::F64, 0)) : read);
  }
  program.tensors.push_back({"O", DType::F64, {}, {}});
  statement.target = {arity, {}};
  statement.value = apply;
  program.nodes = {statement};
  program.outputs = {arity};
  return program;
}

Array scalar(double value) { return {DType::F64, {}, {value}, {}}; }

std::vector<double> gradient_at(const Program& program, const std::vector<double>& point, double cotangent = 1) {
  lang::Diagnostics diagnostics;
  const auto gradient = autodiff::reverse(program, {}, {}, diagnostics);
  REQUIRE(gradient);
  std::vector<Array> inputs;
  for (double x : point) inputs.push_back(scalar(x));
  inputs.push_back(scalar(cotangent));
  std::vector<double> result;
  for (const auto& output : poly::interpret(*gradient, inputs).outputs) result.push_back(output.reals[0]);
  return result;
}

std::vector<double> gradient_at(Op op, const std::vector<double>& point, double cotangent = 1) {
  return gradient_at(scalar_program(op, static_cast<int>(point.size())), point, cotangent);
}

using Doubles = std::vector<double>;

}  // namespace

TEST_CASE("every operation agrees with differences inside its domain") {
  struct Row { Op op; std::vector<Doubles> points; };
  const std::vector<Doubles> any{{-1.3}, {0.4}, {2.1}}, unit{{-0.7}, {0.3}}, positive{{0.2}, {1.7}},
      pairs{{0.7, 1.9}, {-1.2, 0.6}, {2.3, -0.4}};
  const std::vector<Row> rows{{Op::Add, pairs}, {Op::Sub, pairs}, {Op::Mul, pairs}, {Op::Div, pairs}, {Op::Neg, any},
      {Op::Abs, any}, {Op::Max, pairs}, {Op::Min, pairs}, {Op::Pow, {{0.7, 1.9}, {2.3, -0.4}}},
      {Op::Mod, {{7.3, 2.2}, {-7.3, 2.2}, {7.3, -2.2}}}, {Op::Fma, {{0.5, -2, 3}}}, {Op::Recip, any}, {Op::Relu, any},
      {Op::Sigmoid, any}, {Op::Sign, any}, {Op::Exp, any}, {Op::Log, positive}, {Op::Sqrt, positive}, {Op::Erf, any},
      {Op::Sin, any}, {Op::Cos, any}, {Op::Tan, any}, {Op::Asin, unit}, {Op::Acos, unit}, {Op::Atan, any},
      {Op::Sinh, any}, {Op::Cosh, any}, {Op::Tanh, any}, {Op::Asinh, any}, {Op::Acosh, {{1.2}, {3.4}}},
      {Op::Atanh, unit}, {Op::Atan2, pairs}, {Op::Ceil, any}, {Op::Floor, any}, {Op::Round, any}, {Op::Trunc, any}};
  std::mt19937_64 random(1);
  for (const auto& row : rows)
    for (const auto& point : row.points) {
      CAPTURE(lang::info(row.op).name);
      const Program program = scalar_program(row.op, static_cast<int>(point.size()));
      lang::Diagnostics diagnostics;
      const auto gradient = autodiff::reverse(program, {}, {}, diagnostics);
      REQUIRE(gradient);
      std::vector<Array> inputs;
      for (double x : point) inputs.push_back(scalar(x));
      const auto outcome = test::compare(program, *gradient, inputs, random);
      CHECK(outcome.checked == static_cast<int>(point.size()));
      CHECK_MESSAGE(outcome.failure.empty(), outcome.failure);
    }
}

TEST_CASE("a tie of two operands is shared by halves, and a kink gets zero") {
  CHECK(gradient_at(Op::Max, {2, 2}, 6) == Doubles{3, 3});
  CHECK(gradient_at(Op::Min, {2, 2}, 6) == Doubles{3, 3});
  CHECK(gradient_at(Op::Abs, {0}) == Doubles{0});
  CHECK(gradient_at(Op::Relu, {0}) == Doubles{0});
  CHECK(gradient_at(Op::Sqrt, {0}) == Doubles{inf});
}

TEST_CASE("NaN operands of max, abs and relu get zero") {
  CHECK(gradient_at(Op::Max, {nan_value, 1}) == Doubles{0, 0});
  CHECK(gradient_at(Op::Abs, {nan_value}) == Doubles{0});
  CHECK(gradient_at(Op::Relu, {nan_value}) == Doubles{0});
}

TEST_CASE("powers are differentiable at zero where the function is") {
  CHECK(gradient_at(Op::Pow, {0, 2}) == Doubles{0, 0});
  CHECK(gradient_at(Op::Pow, {0, 1}) == Doubles{1, 0});
  CHECK(gradient_at(Op::Pow, {0, 0})[0] == 0);
  CHECK(gradient_at(Op::Pow, {-2, 3})[0] == doctest::Approx(12));
  for (const double exponent : {0.0, 1.0, 2.0, 3.0, 0.5}) {
    Program program = scalar_program(Op::Neg, 1);
    std::get<Statement>(program.nodes[0]).value = call(Op::Pow, Read{0, DType::F64}, number(DType::F64, exponent));
    CHECK(gradient_at(program, {0})[0] == (exponent == 1 ? 1 : exponent == 0.5 ? inf : 0));
  }
}

TEST_CASE("the arm that is not taken cannot spoil the gradient") {
  Program program = scalar_program(Op::Select, 3, true);
  CHECK(gradient_at(program, {1, 2, 3}) == Doubles{0, 1, 0});
  // x > 0 ? sqrt(x) : 0 at 0: the derivative of the square root is infinite there, and not taken.
  Program guarded = scalar_program(Op::Neg, 1);
  const Expr x = Read{0, DType::F64}, zero = number(DType::F64, 0);
  std::get<Statement>(guarded.nodes[0]).value = select(compare(Op::Gt, x, zero), call(Op::Sqrt, x), zero);
  CHECK(gradient_at(guarded, {0}) == Doubles{0});
  // max(1, sqrt(x)) at 0 likewise.
  std::get<Statement>(guarded.nodes[0]).value = call(Op::Max, number(DType::F64, 1), call(Op::Sqrt, x));
  CHECK(gradient_at(guarded, {0}) == Doubles{0});
}

TEST_CASE("a quotient by a tiny number does not square it") {
  const auto gradient = gradient_at(Op::Div, {0, 1e-200});
  CHECK(gradient[0] == doctest::Approx(1e200));
  CHECK(gradient[1] == 0);
}

TEST_CASE("what a formula squares on the way does not leave the range where the derivative stays in it") {
  struct Row { Op op; Doubles point; double cotangent; Doubles expected; };
  const std::vector<Row> rows{{Op::Asinh, {1e200}, 1, {1e-200}}, {Op::Asinh, {-1e200}, 1, {1e-200}},
      {Op::Asinh, {1e-200}, 1, {1}}, {Op::Asinh, {inf}, 1, {0}}, {Op::Acosh, {1e200}, 1, {1e-200}},
      {Op::Acosh, {inf}, 1, {0}}, {Op::Atan, {1e150}, 1, {1e-300}}, {Op::Atan, {-1e200}, 1e200, {1e-200}},
      {Op::Atan, {-inf}, 1, {0}}, {Op::Atan2, {1e200, 1e200}, 1, {5e-201, -5e-201}},
      {Op::Atan2, {1e-200, -1e-200}, 1, {-5e199, -5e199}}, {Op::Atan2, {3e-200, 4e-200}, 1, {1.6e199, -1.2e199}},
      {Op::Atan2, {1e200, 1}, 1, {0, -1e-200}}, {Op::Atan2, {1, 1e200}, 1, {1e-200, 0}},
      {Op::Atan2, {1, inf}, 1, {0, 0}}, {Op::Atan2, {-inf, 1}, 1, {0, 0}}, {Op::Atan2, {0, -2}, 1, {-0.5, 0}},
      {Op::Atan2, {2, 0}, 1, {0, -0.5}}, {Op::Div, {1e200, 1e200}, 1, {1e-200, -1e-200}},
      {Op::Div, {1e-200, 1e-200}, 1, {1e200, -1e200}}, {Op::Div, {1e200, 1e200}, 1e200, {1, -1}},
      {Op::Div, {1, inf}, 1, {0, 0}}, {Op::Mod, {1.5e308, -0.6e308}, 1, {1, 2}}, {Op::Recip, {1e150}, 1, {-1e-300}},
      {Op::Recip, {1e-100}, 1e-100, {-1e100}}, {Op::Pow, {inf, -1}, 1, {0, 0}},
      {Op::Pow, {1e-200, 1}, 1, {1, 1e-200 * std::log(1e-200)}}, {Op::Erf, {1e200}, 1, {0}},
      {Op::Erf, {1e-200}, 1, {1.1283791670955126}}, {Op::Sigmoid, {-1e200}, 1, {0}}, {Op::Sigmoid, {inf}, 1, {0}},
      {Op::Tanh, {1e200}, 1, {0}}, {Op::Tanh, {-inf}, 1, {0}}, {Op::Exp, {-inf}, 1, {0}},
      {Op::Sqrt, {1e-300}, 1, {0.5e150}}, {Op::Sqrt, {inf}, 1, {0}}, {Op::Log, {1e-300}, 1, {1e300}},
      {Op::Log, {inf}, 1, {0}}, {Op::Atanh, {1e-200}, 1, {1}}, {Op::Asin, {1}, 1, {inf}}, {Op::Acos, {-1}, 1, {-inf}}};
  for (const auto& row : rows) {
    CAPTURE(lang::info(row.op).name);
    const Doubles got = gradient_at(row.op, row.point, row.cotangent);
    REQUIRE(got.size() == row.expected.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      CAPTURE(k);
      CAPTURE(got[k]);
      CAPTURE(row.expected[k]);
      CHECK((got[k] == row.expected[k] || std::abs(got[k] - row.expected[k]) <= 1e-14 * std::abs(row.expected[k])));
    }
  }
}
