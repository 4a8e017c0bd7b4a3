#include <algorithm>
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "poly/bounds.h"
#include "poly/estimate.h"
#include "poly/interpret.h"
#include "poly/points.h"
#include "poly/sample.h"

using namespace tilec::poly;

namespace {

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}
bool same(const Value& a, const Value& b) {
  return same(a.real, b.real) && a.integer == b.integer && same(a.error, b.error);
}

constexpr double inf = std::numeric_limits<double>::infinity();

Array reals(std::vector<std::int64_t> shape, std::vector<double> values, DType type = DType::F32) {
  return {type, std::move(shape), std::move(values), {}};
}
Array integers(std::vector<std::int64_t> shape, std::vector<std::int64_t> values, DType type = DType::I32) {
  return {type, std::move(shape), {}, std::move(values)};
}

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

  Case(std::vector<std::string> indices, Expr value)
      : statement{.target = {},
            .indices = std::move(indices),
            .domain = {},
            .aggregation = Aggregation::Sum,
            .value = std::move(value),
            .reads = {},
            .fill = Number{DType::F32},
            .ties = Ties::Split,
            .kernel_name = {},
            .span = {}} {}

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
  Case& write(
      Aggregation aggregation, std::vector<std::int64_t> shape, std::vector<Affine> element, DType type = DType::F32) {
    statement.aggregation = aggregation;
    statement.target = {tensor("O", shape, type), element};
    statement.fill = Number{type};
    rows(shape, element);
    program.outputs = {statement.target.tensor};
    program.nodes = {statement};
    return *this;
  }
  std::vector<double> run(const std::vector<Array>& inputs) const {
    return interpret(program, inputs).outputs[0].reals;
  }

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
  CHECK(interpret(matmul.program, {a, a}).magnitudes[0][0] == 0);
  const auto b = reals({3, 3}, {1.5, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto result = interpret(matmul.program, {a, b});
  CHECK(result.magnitudes[0][0] >= 30);
  CHECK(result.magnitudes[0][0] < 60);
}

TEST_CASE("sums and products of whole numbers have no error as long as a mantissa holds them") {
  const auto sum_of = [](std::vector<double> terms) {
    const auto size = static_cast<std::int64_t>(terms.size());
    Case sum({"i"}, first);
    sum.read({size}, {form({1})}).write(Aggregation::Sum, {}, {});
    return interpret(sum.program, {reals({size}, std::move(terms))}).magnitudes[0][0];
  };
  CHECK(sum_of({0x1p23, -3, 0x1p22}) == 0);
  CHECK(sum_of({0x1p23, -0x1p23, 1}) > 0);               // 2^24 + 1 in between, in some order
  CHECK(sum_of({1, 0.5, 2}) > 0);
  const auto power_of = [](double factor) {
    Case power({"i"}, first);
    power.read({3}, {form({1})}).write(Aggregation::Product, {}, {});
    return interpret(power.program, {reals({3}, {factor, factor, factor})}).magnitudes[0][0];
  };
  CHECK(power_of(255) == 0);
  CHECK(power_of(-1) == 0);
  CHECK(power_of(257) > 0);
  CHECK(power_of(1.5) > 0);
  const auto product_of = [](double a, double b) {
    Case times({"i"}, product(first, second));
    times.read({1}, {form({1})}).read({1}, {form({1})}).write(Aggregation::Assign, {1}, {form({1})});
    return interpret(times.program, {reals({1}, {a}), reals({1}, {b})}).magnitudes[0][0];
  };
  CHECK(product_of(4095, -4096) == 0);
  CHECK(product_of(4097, 4097) > 0);
  CHECK(product_of(0.5, 4) > 0);
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
  CHECK(interpret(sum.program, {integers({4}, {100, 100, 100, 1}, DType::I8)}).outputs[0].integers ==
      std::vector<std::int64_t>{45});
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
  Case cancel({"i"},
      Apply{Op::Sub, {Apply{Op::Add, {first, Number{DType::F32, 0, 1e6}}, DType::F32}, Number{DType::F32, 0, 1e6}},
          DType::F32});
  cancel.read({1}, {form({1})}).write(Aggregation::Assign, {1}, {form({1})});
  CHECK(interpret(cancel.program, {reals({1}, {0.5})}).magnitudes[0][0] > 1e5);
  Case same({"i"},
      Apply{Op::Select,
          {Apply{Op::Eq, {first, first}, DType::Bool}, Number{DType::F32, 0, 1}, Number{DType::F32, 0, 5}},
          DType::F32});
  same.read({1}, {form({1})}).write(Aggregation::Assign, {1}, {form({1})});
  CHECK(interpret(same.program, {reals({1}, {0.1})}).magnitudes[0][0] < 1.5);
}

TEST_CASE("a sum of f64 holds what its additions round away") {
  const auto sum = [](const std::vector<double>& terms) {
    Fold all;
    for (const double x : terms) fold(Aggregation::Sum, DType::F64, all, {x, 0, 0});
    return finished(Aggregation::Sum, DType::F64, DType::F64, all).real;
  };
  CHECK(sum({1e16, 1, 1, -1e16}) == 2);
  CHECK(sum(std::vector<double>(1000, 0.1)) == 100);
  CHECK(sum({inf, 1, -1e300}) == inf);
  CHECK(std::isnan(sum({1, inf, -inf})));
}

TEST_CASE("of a sum that is infinite nothing is known where a factor may leave it") {
  const auto known = [](const std::vector<std::vector<std::int64_t>>& forms) {  // of `first`; `second` reads k
    Case sum({"i", "k"}, product(first, second));
    std::vector<Affine> element;
    for (const auto& coefficients : forms) element.push_back(form(coefficients));
    sum.read({2, 2}, element).read({2}, {form({0, 1})}).write(Aggregation::Sum, {2}, {form({1, 0})});
    return interpret(sum.program, {reals({2, 2}, {inf, inf, 1, 1}), reals({2}, {1, 2})}).magnitudes[0];
  };
  CHECK(std::isfinite(known({{1, 0}, {0, 1}})[0]));    // of i and k
  CHECK(std::isinf(known({{1, 0}, {1, 0}})[0]));       // of i: it may be multiplied with the sum of the others
  CHECK(std::isfinite(known({{1, 0}, {1, 0}})[1]));
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

TEST_CASE("an operation on a column is that operation on each of its values") {
  const double numbers[] = {0, -0.0, 1, -1, 0.1, -2.5, 1e-40, 3e38, -0x1.fffffep127, 1e30, 1e300, inf, -inf, NAN},
               errors[] = {0, 1e-8, 0.5, 1e30, inf};
  std::vector<Value> values;
  for (const double number : numbers)
    for (const double error : errors) values.push_back({number, 0, error});
  for (int n = 0; n <= static_cast<int>(Op::IsFinite); ++n) {
    const auto op = static_cast<Op>(n);
    const auto& facts = tilec::lang::info(op);
    if (facts.integers_only || facts.result == tilec::lang::Result::Boolean || op == Op::Select || op == Op::IsNan ||
        op == Op::IsFinite)
      continue;
    for (const DType type : {DType::F16, DType::F32, DType::F64})
      for (const bool fuses : {false, true})
        for (const bool exact : {false, true})
          for (std::size_t shift = 0; shift < values.size(); ++shift) {
            Column a, b, c, result;
            for (std::size_t k = 0; k < values.size(); ++k) {
              const auto operand = [&](std::size_t at) {
                return exact ? Value{values[at % values.size()].real} : values[at % values.size()];
              };
              a.set(k, operand(k)), b.set(k, facts.arity > 1 ? operand(k + shift) : Value{}),
                  c.set(k, facts.arity > 2 ? operand(k + 3 * shift) : Value{});
            }
            apply_real(op, type, fuses, values.size(), a, b, c, result);
            bool all = true;
            for (std::size_t k = 0; k < values.size(); ++k)
              all = all && same(result.at(k), apply_real(op, type, a.at(k), b.at(k), c.at(k), fuses));
            CHECK_MESSAGE(all, facts.name);
          }
  }
}

TEST_CASE("a column folds in order, into whichever elements") {
  Column values;
  for (std::size_t k = 0; k < 100; ++k)
    values.set(k,
        {k == 7 ? inf : std::sin(static_cast<double>(k)) * 1e3, static_cast<std::int64_t>(k * k),
            k % 3 == 0 ? 1e-3 : 0});
  std::vector<std::size_t> at;
  for (std::size_t k = 0; k < 100; ++k) at.push_back(k < 40 ? k / 20 : k % 4);
  for (const auto aggregation : {Aggregation::Sum, Aggregation::Product, Aggregation::Max, Aggregation::Min})
    for (const DType type : {DType::F32, DType::I32}) {
      std::vector<Fold> one(4), block(4);
      for (std::size_t k = 0; k < 100; ++k) fold(aggregation, type, one[at[k]], values.at(k));
      fold(aggregation, type, 100, at.data(), values, block.data());
      for (std::size_t e = 0; e < 4; ++e)
        CHECK(same(finished(aggregation, type, type, one[e]), finished(aggregation, type, type, block[e])));
    }
}

TEST_CASE("an f32 in between that is beyond its type is infinite, or nothing is known of it") {
  const auto quotient = [](double a, double b, double c) {  // a * b / c
    Case large({"i"}, Apply{Op::Div, {product(first, Number{DType::F32, 0, b}), Number{DType::F32, 0, c}}, DType::F32});
    large.read({1}, {form({1})}).write(Aggregation::Assign, {1}, {form({1})});
    return interpret(large.program, {reals({1}, {a})});
  };
  CHECK(quotient(0x1p100, 0x1p100, 0x1p100).outputs[0].reals[0] == inf);
  CHECK(quotient(-0x1p100, 0x1p100, 0x1p100).outputs[0].reals[0] == -inf);
  CHECK(quotient(0x1p100, 0x1p20, 0x1p100).outputs[0].reals[0] == 0x1p20);
  // Doubt about an operand leaves the value the one that IEEE gives, unless nobody has rounded it yet.
  const auto times = [](double factor, bool fuses) {
    return apply_real(Op::Mul, DType::F32, {0x1p100, 0, inf}, {factor, 0, 0}, {}, fuses);
  };
  CHECK(same(times(-0x1p100, false), {-inf, 0, inf}));
  CHECK(same(times(0x1p-260, false), {0, 0, inf}));
  CHECK(same(times(0x1p20, false), {0x1p120, 0, inf}));
  CHECK(same(times(-0x1p100, true), {-0x1p200, 0, inf}));
  // A backend may add a product that it never rounded.
  Case fused({"i"},
      Apply{Op::Sub, {product(first, Number{DType::F32, 0, 0x1p100}), Number{DType::F32, 0, 0x1p127}}, DType::F32});
  fused.read({1}, {form({1})}).write(Aggregation::Assign, {1}, {form({1})});
  CHECK(interpret(fused.program, {reals({1}, {0x1p28})}).magnitudes[0][0] == inf);
  CHECK(interpret(fused.program, {reals({1}, {0x1p26})}).magnitudes[0][0] < inf);
}

TEST_CASE("what is small is interpreted whole, of what is large some elements") {
  Case matmul({"i", "j", "k"}, product(first, second));
  matmul.read({100, 10000}, {form({1, 0, 0}), form({0, 0, 1})}).read({10000, 100}, {form({0, 0, 1}), form({0, 1, 0})});
  matmul.write(Aggregation::Sum, {100, 100}, {form({1, 0, 0}), form({0, 1, 0})});
  const auto chosen = [&](Effort effort) { return select(matmul.program, effort).tensors[2]; };
  CHECK(chosen({}).all);
  CHECK_FALSE(chosen({.steps = 2e8}).all);
  CHECK(chosen({.steps = 2e8}).elements.size() == 4096);
  CHECK(chosen({.steps = 2e8, .elements = 50}).elements.size() == 50);
  CHECK(chosen({.steps = 2e8, .elements = 50}).elements == chosen({.steps = 2e8, .elements = 50}).elements);
  CHECK(chosen({.steps = 2e8, .elements = 50}).elements != chosen({.steps = 2e8, .elements = 50, .seed = 1}).elements);
  CHECK(chosen({.steps = 0, .elements = 10000}).all);
}

TEST_CASE("where an element is dear, as few are interpreted as the time allows, one at least") {
  Case prefix({"i", "j"}, first);
  prefix.read({1'000'000}, {form({0, 1})})
      .row(form({1, -1}), std::nullopt)
      .write(Aggregation::Sum, {1'000'000}, {form({1, 0})});
  const auto chosen = [&](Effort effort) { return select(prefix.program, effort); };
  for (const double steps : {1e8, 1e9, 1e10}) {
    const Selection some = chosen({.steps = steps});
    CHECK(some.steps <= steps);
    CHECK(static_cast<double>(some.tensors[1].elements.size()) * 8e6 >= steps / 8);
  }
  CHECK(chosen({.steps = 1000}).tensors[1].elements.size() == 1);
  CHECK(chosen({.steps = 0, .elements = 200}).tensors[1].elements.size() == 200);
}

TEST_CASE("where divisors leave few values of an index, only these are visited") {
  const auto points = [](const std::vector<Range>& domain, std::size_t n) {
    std::vector<std::vector<std::int64_t>> all;
    for_each_run(domain, n, [&](std::span<std::int64_t> point, std::int64_t low, std::int64_t high) {
      for (auto last = low; last <= high; ++last) {
        all.emplace_back(point.begin(), point.end());
        all.back().back() = last;
      }
    });
    return all;
  };
  constexpr std::int64_t p = 1'000'000'007, q = 1'000'000'009, many = 4'000'000'000'000'000'000;
  CHECK(points({{form({1}), Size(many)}, {form({1}, 0, p), std::nullopt}, {form({1}, 0, q), std::nullopt}}, 1) ==
      std::vector<std::vector<std::int64_t>>{{0}, {p * q}, {2 * p * q}, {3 * p * q}});
  CHECK(points({{form({1}), Size(many)}, {form({1}, 1, p), std::nullopt}, {form({3}, 0, q), std::nullopt},
                   {form({1}, 0, 1000), std::nullopt}},
            1)
            .size() == 0);
  CHECK(points_at_most({{form({1}), Size(many)}, {form({1}, 0, p), std::nullopt}, {form({1}, 0, q), std::nullopt}}, 1)
            .points == 4);

  std::uint64_t state = 1;
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return low + static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int number = 0; number < 2000; ++number) {
    const std::int64_t width[3] = {draw(1, 7), draw(1, 9), draw(1, 40)};
    std::vector<Range> domain;
    for (std::size_t k = 0; k < 3; ++k) domain.push_back({form({k == 0, k == 1, k == 2}, draw(-3, 3)), Size(width[k])});
    for (auto rows = draw(1, 4); rows > 0; --rows)
      domain.push_back({form({draw(-6, 6), draw(-6, 6), draw(-6, 6)}, draw(-20, 20), draw(1, 12)),
          draw(0, 1) == 0 ? std::nullopt : std::optional(Size(draw(1, 30)))});
    std::vector<std::vector<std::int64_t>> expected;
    for (std::int64_t i = -4; i < 12; ++i)
      for (std::int64_t j = -4; j < 14; ++j)
        for (std::int64_t k = -4; k < 45; ++k) {
          const bool inside = std::ranges::all_of(domain, [&](const Range& row) {
            const std::int64_t value = row.value.coefficients[0].get() * i + row.value.coefficients[1].get() * j +
                row.value.coefficients[2].get() * k + row.value.constant.get(),
                               d = row.value.divisor.get();
            return value >= 0 && value % d == 0 && (!row.extent || value / d < row.extent->get());
          });
          if (inside) expected.push_back({i, j, k});
        }
    CAPTURE(number);
    REQUIRE(points(domain, 3) == expected);
  }
}

TEST_CASE("indices that nothing mentions are counted: the same values, and no walk over them") {
  const auto run = [](const Program& program, const std::vector<Array>& inputs) {
    return interpret(program, inputs).outputs[0];
  };
  for (const Aggregation aggregation : {Aggregation::Sum, Aggregation::Product, Aggregation::Max, Aggregation::Min})
    for (const DType type : {DType::F32, DType::I32}) {
      Case c({"i", "k", "l"}, Read{0, type});
      c.read({4}, {form({1, 0, 0})}, type)
          .row(form({0, 1, 0}, -1), Size(5))
          .row(form({0, 0, 1}), Size(9))
          .row(form({0, 1, -1}), std::nullopt)
          .write(aggregation, {2}, {form({1, 0, 0}, 0, 2)}, type);
      tilec::lang::Diagnostics diagnostics;
      const auto bounded = bounds(c.program, diagnostics);
      REQUIRE(bounded);
      const Array input = type == DType::F32 ? reals({4}, {1.5, -2, -0.5, 3}) : integers({4}, {7, -3, 123457, 2});
      const Array before = run(c.program, {input}), after = run(*bounded, {input});
      CHECK(before.integers == after.integers);
      CHECK(before.reals == after.reals);
      const std::size_t left = std::get<Statement>(bounded->nodes[0]).indices.size();
      CHECK(left == (aggregation == Aggregation::Product && type == DType::F32 ? 3 : 1));
    }
  const auto sum_of = [&](double x, std::int64_t count) {
    Case c({"k"}, Read{0, DType::F32});
    c.read({}, {}).row(form({1}), Size(count)).write(Aggregation::Sum, {}, {});
    tilec::lang::Diagnostics diagnostics;
    return run(*bounds(c.program, diagnostics), {reals({}, {x})}).reals[0];
  };
  CHECK(sum_of(2, 3'000'000'000'000'000'000) == static_cast<double>(static_cast<float>(6e18)));
  CHECK(sum_of(1, 100'000'000'001) == static_cast<double>(static_cast<float>(100'000'000'001.0)));
  CHECK(same(sum_of(-0.0, 7), 0.0));
  CHECK(sum_of(inf, 1 << 20) == inf);
  CHECK(std::isnan(sum_of(std::nan(""), 1'000'000'000'000)));
}
