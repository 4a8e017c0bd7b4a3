#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "poly/interpret.h"

using namespace tilec::poly;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

Array reals(std::vector<std::int64_t> shape, std::vector<double> values, DType type = DType::F32) { return {type, std::move(shape), std::move(values), {}}; }
Array integers(std::vector<std::int64_t> shape, std::vector<std::int64_t> values, DType type = DType::I32) { return {type, std::move(shape), {}, std::move(values)}; }

Affine form(std::vector<std::int64_t> coefficients, std::int64_t constant = 0, std::int64_t divisor = 1) {
  Affine affine{{}, constant, divisor};
  for (const auto c : coefficients) affine.coefficients.emplace_back(c);
  return affine;
}

Expr product(Expr a, Expr b) { return Apply{Op::Mul, {a, b}, a.type()}; }

// One statement into `O` over the reads, whose ranges and the target's are the domain.
struct Case {
  Program program;
  Statement statement;

  Case(std::vector<std::string> indices, Expr value) : statement{.target = {}, .indices = std::move(indices), .domain = {}, .aggregation = Aggregation::Sum, .value = std::move(value), .reads = {}, .fill = Number{DType::F32}, .ties = Ties::Split, .kernel_name = {}, .span = {}} {}

  Case& read(std::vector<std::int64_t> shape, std::vector<Affine> element, DType type = DType::F32) {
    const int id = tensor("A" + std::to_string(program.tensors.size()), shape, type);
    program.inputs.push_back(id);
    statement.reads.push_back({id, element});
    rows(shape, element);
    return *this;
  }
  Case& row(Affine value, std::optional<Size> extent) {
    statement.domain.push_back({std::move(value), std::move(extent)});
    return *this;
  }
  Case& write(Aggregation aggregation, std::vector<std::int64_t> shape, std::vector<Affine> element, DType type = DType::F32) {
    statement.aggregation = aggregation;
    statement.target = {tensor("O", shape, type), element};
    statement.fill = Number{type};
    rows(shape, element);
    program.outputs = {statement.target.tensor};
    program.nodes = {statement};
    return *this;
  }
  std::vector<double> run(const std::vector<Array>& inputs) const { return interpret(program, inputs).outputs[0].reals; }

 private:
  int tensor(std::string name, const std::vector<std::int64_t>& shape, DType type) {
    Tensor t{std::move(name), type, {}, {}};
    for (const auto extent : shape) t.shape.emplace_back(extent);
    program.tensors.push_back(t);
    return static_cast<int>(program.tensors.size()) - 1;
  }
  void rows(const std::vector<std::int64_t>& shape, const std::vector<Affine>& element) {
    for (std::size_t d = 0; d < shape.size(); ++d) statement.domain.push_back({element[d], Size(shape[d])});
  }
};

const Expr first = Read{0, DType::F32}, second = Read{1, DType::F32};

}  // namespace

TEST_CASE("a matrix product is a sum over the index that the result does not have") {
  Case matmul({"i", "j", "k"}, product(first, second));
  matmul.read({3, 3}, {form({1, 0, 0}), form({0, 0, 1})}).read({3, 3}, {form({0, 0, 1}), form({0, 1, 0})});
  matmul.write(Aggregation::Sum, {3, 3}, {form({1, 0, 0}), form({0, 1, 0})});
  const auto a = reals({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(matmul.run({a, a}) == std::vector<double>{30, 36, 42, 66, 81, 96, 102, 126, 150});
  const auto result = interpret(matmul.program, {a, a});
  CHECK(result.magnitudes[0][0] >= 30);
  CHECK(result.magnitudes[0][0] < 60);
}

TEST_CASE("a fractional index is a point only where the division is exact") {
  Case upsample({"i", "j"}, product(first, second));
  upsample.read({3}, {form({1, -1}, 1, 2)}).read({3}, {form({0, 1})}).write(Aggregation::Sum, {5}, {form({1, 0})});
  CHECK(upsample.run({reals({3}, {1, 2, 3}), reals({3}, {1, 2, 3})}) == std::vector<double>{2, 5, 4, 9, 6});
  Case odd({"i"}, first);
  odd.read({3}, {form({1}, -1, 2)}).write(Aggregation::Sum, {6}, {form({1})});
  CHECK(odd.run({reals({3}, {1, 2, 3})}) == std::vector<double>{0, 1, 0, 2, 0, 3});
}

TEST_CASE("an element that no point reaches holds the fill") {
  Case fill({"i"}, first);
  fill.read({2}, {form({1})}).write(Aggregation::Sum, {5}, {form({2})});
  std::get<Statement>(fill.program.nodes[0]).fill = Number{DType::F32, 0, 7};
  CHECK(fill.run({reals({2}, {1, 2})}) == std::vector<double>{1, 7, 2, 7, 7});
}

TEST_CASE("indices that only sums and differences bound are enumerated") {
  Case skewed({"i", "j"}, Number{DType::F32, 0, 1});
  skewed.row(form({1, 1}), 5).row(form({1, -1}), 5).write(Aggregation::Sum, {}, {});
  CHECK(skewed.run({}) == std::vector<double>{13});
}

TEST_CASE("max starts from the first element and hands NaN on") {
  Case max({"i", "k"}, first);
  max.read({3, 2}, {form({1, 0}), form({0, 1})}).write(Aggregation::Max, {3}, {form({1, 0})});
  const auto result = max.run({reals({3, 2}, {-inf, -inf, -3, -2, NAN, 1})});
  CHECK(result[0] == -inf);
  CHECK(result[1] == -2);
  CHECK(std::isnan(result[2]));
}

TEST_CASE("narrow integers wrap at the store, and the index has values") {
  Case sum({"i"}, Cast{Read{0, DType::I8}, DType::I32});
  sum.read({4}, {form({1})}, DType::I8).write(Aggregation::Sum, {}, {}, DType::I8);
  CHECK(interpret(sum.program, {integers({4}, {100, 100, 100, 1}, DType::I8)}).outputs[0].integers == std::vector<std::int64_t>{45});
  Case index({"i"}, Cast{Index{form({3}, 1), DType::I32}, DType::F32});
  index.write(Aggregation::Assign, {3}, {form({1})});
  CHECK(index.run({}) == std::vector<double>{1, 4, 7});
}

TEST_CASE("a tensor without elements and a domain without points are nothing special") {
  Case empty({"i"}, first);
  empty.read({0}, {form({1})}).write(Aggregation::Sum, {}, {});
  CHECK(empty.run({reals({0}, {})}) == std::vector<double>{0});
  Case constant({"i"}, first);
  constant.read({3}, {form({0}, 5)}).write(Aggregation::Sum, {2}, {form({1})});
  CHECK(constant.run({reals({3}, {1, 2, 3})}) == std::vector<double>{0, 0});
}

TEST_CASE("the error bound grows with cancellation and not with exact choices") {
  Case cancel({"i"}, Apply{Op::Sub, {Apply{Op::Add, {first, Number{DType::F32, 0, 1e6}}, DType::F32}, Number{DType::F32, 0, 1e6}}, DType::F32});
  cancel.read({1}, {form({1})}).write(Aggregation::Assign, {1}, {form({1})});
  CHECK(interpret(cancel.program, {reals({1}, {0.5})}).magnitudes[0][0] > 1e5);
  Case same({"i"}, Apply{Op::Select, {Apply{Op::Eq, {first, first}, DType::Bool}, Number{DType::F32, 0, 1}, Number{DType::F32, 0, 5}}, DType::F32});
  same.read({1}, {form({1})}).write(Aggregation::Assign, {1}, {form({1})});
  CHECK(interpret(same.program, {reals({1}, {0.1})}).magnitudes[0][0] < 1.5);
}

TEST_CASE("integer arithmetic is total") {
  const auto i32 = [](std::int64_t v) { return Number{DType::I32, v}; };
  const auto minimum = i32(INT32_MIN);
  CHECK(evaluate(Op::Div, {minimum, i32(-1)}, DType::I32) == minimum);
  CHECK(evaluate(Op::Div, {i32(7), i32(0)}, DType::I32) == i32(0));
  CHECK(evaluate(Op::Mod, {i32(-7), i32(3)}, DType::I32) == i32(-1));
  CHECK(evaluate(Op::Shr, {i32(-1), i32(99)}, DType::I32) == i32(-1));
  CHECK(evaluate(Op::Shl, {i32(1), i32(32)}, DType::I32) == i32(0));
  CHECK(evaluate(Op::Abs, {minimum}, DType::I32) == minimum);
  CHECK(evaluate(Op::Lt, {Number{DType::U64, -1}, Number{DType::U64, 1}}, DType::Bool) == Number{DType::Bool, 0});
  CHECK(evaluate(Op::Not, {Number{DType::U8, 1}}, DType::U8) == Number{DType::U8, 254});
  CHECK(evaluate(Op::Pow, {i32(-3), i32(3)}, DType::I32) == i32(-27));
}

TEST_CASE("conversions saturate, round to nearest even and give 0 for NaN") {
  const auto f32 = [](double v) { return Number{DType::F32, 0, v}; };
  CHECK(convert(f32(NAN), DType::I32) == Number{DType::I32, 0});
  CHECK(convert(f32(3e9), DType::I32) == Number{DType::I32, INT32_MAX});
  CHECK(convert(f32(-1), DType::U8) == Number{DType::U8, 0});
  CHECK(convert(f32(300), DType::U8) == Number{DType::U8, 255});
  CHECK(convert(f32(-2.9), DType::I8) == Number{DType::I8, -2});
  CHECK(convert(f32(inf), DType::I64) == Number{DType::I64, INT64_MAX});
  CHECK(convert(f32(1e30), DType::U64) == Number{DType::U64, -1});
  CHECK(convert(Number{DType::I32, 300}, DType::U8) == Number{DType::U8, 44});
  CHECK(round_to(DType::F16, 65519) == 65504);
  CHECK(round_to(DType::F16, 65520) == inf);
  CHECK(round_to(DType::F16, 0x1p-25) == 0);
  CHECK(round_to(DType::F16, 0x1.8p-25) == 0x1p-24);
  CHECK(round_to(DType::F16, 2049) == 2048);
  CHECK(round_to(DType::F16, 2051) == 2052);
  CHECK(round_to(DType::BF16, 257) == 256);
  CHECK(round_to(DType::BF16, 0x1p-133) == 0x1p-133);
}
