// Gather, Scatter and Sort in a Program: what verify, bind, simplify and the interpreter make of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lang/render.h"
#include "poly/bind.h"
#include "poly/interpret.h"
#include "poly/print.h"
#include "poly/simplify.h"
#include "poly/verify.h"

using namespace tilec;
using namespace tilec::poly;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();

TensorId add(Program& program, std::string name, DType type, std::vector<Size> shape) {
  for (const auto& size : shape)
    for (const auto& free : size.names())
      if (std::find(program.sizes.begin(), program.sizes.end(), free) == program.sizes.end())
        program.sizes.push_back(free);
  program.tensors.push_back({std::move(name), type, std::move(shape), {}});
  return static_cast<TensorId>(program.tensors.size()) - 1;
}

// O = gather(D, W, batch) or scatter.
Program indirect(IntrinsicOp op, DType type, std::vector<Size> data, DType index, std::vector<Size> indices,
    std::vector<Size> result, std::int64_t batch = 0) {
  Program p;
  p.inputs.push_back(add(p, "D", type, std::move(data)));
  p.inputs.push_back(add(p, "W", index, std::move(indices)));
  p.outputs.push_back(add(p, "O", type, std::move(result)));
  p.nodes.emplace_back(Intrinsic{op, p.outputs, p.inputs, {Size(batch)}, {}});
  return p;
}

Program sorted(std::vector<Size> shape, bool descending) {
  Program p;
  p.inputs.push_back(add(p, "X", DType::F32, shape));
  p.outputs.push_back(add(p, "I", DType::I32, shape));
  p.nodes.emplace_back(Intrinsic{IntrinsicOp::Sort, p.outputs, p.inputs, {Size(descending ? 1 : 0)}, {}});
  return p;
}

Array reals(std::vector<std::int64_t> shape, std::vector<double> values, DType type = DType::F32) {
  return {type, std::move(shape), std::move(values), {}};
}
Array integers(std::vector<std::int64_t> shape, std::vector<std::int64_t> values, DType type = DType::I32) {
  return {type, std::move(shape), {}, std::move(values)};
}

std::string bind_error(const Program& program, const std::map<std::string, std::int64_t>& sizes) {
  lang::Diagnostics diagnostics;
  CHECK_FALSE(bind(program, sizes, diagnostics));
  return lang::render(diagnostics, {}, {});
}

}  // namespace

TEST_CASE("an index below 0 takes the first row, one beyond the end the last") {
  const auto program = indirect(IntrinsicOp::Gather, DType::F32, {3, 2}, DType::I32, {4}, {4, 2});
  verify(program, Stage::Bound);
  const auto result = interpret(program, {reals({3, 2}, {1, 2, 3, 4, 5, 6}), integers({4}, {2, -7, 9, 1})});
  CHECK(result.outputs[0].reals == std::vector<double>{5, 6, 1, 2, 5, 6, 3, 4});
}

TEST_CASE("a large u64 is beyond the end, not negative") {
  const auto program = indirect(IntrinsicOp::Gather, DType::F32, {3}, DType::U64, {2}, {2});
  CHECK(interpret(program, {reals({3}, {1, 2, 3}), integers({2}, {-1, 0}, DType::U64)}).outputs[0].reals ==
      std::vector<double>{3, 1});
}

TEST_CASE("what is gathered from nothing is 0") {
  const auto program = indirect(IntrinsicOp::Gather, DType::F32, {0, 2}, DType::I32, {1}, {1, 2});
  CHECK(interpret(program, {reals({0, 2}, {}), integers({1}, {0})}).outputs[0].reals == std::vector<double>{0, 0});
}

TEST_CASE("terms with one index are added, batch by batch") {
  const auto program = indirect(IntrinsicOp::Scatter, DType::F32, {2, 3}, DType::I8, {2, 3}, {2, 2}, 1);
  verify(program, Stage::Bound);
  const auto result =
      interpret(program, {reals({2, 3}, {1, 2, 4, 8, 16, 32}), integers({2, 3}, {1, 1, -1, 5, 0, 1}, DType::I8)});
  CHECK(result.outputs[0].reals == std::vector<double>{4, 3, 16, 40});
}

TEST_CASE("f16 terms add up in f32 and round once") {
  const auto program = indirect(IntrinsicOp::Scatter, DType::F16, {3}, DType::I32, {3}, {1});
  CHECK(interpret(program, {reals({3}, {2048, 1, 1}, DType::F16), integers({3}, {0, 0, 0})}).outputs[0].reals ==
      std::vector<double>{2050});
}

TEST_CASE("argsort is stable, both zeros are equal, and NaN is greatest") {
  const auto keys = reals({7}, {not_a_number, 0.0, 3, -0.0, -inf, not_a_number, 3});
  CHECK(interpret(sorted({7}, false), {keys}).outputs[0].integers == std::vector<std::int64_t>{4, 1, 3, 2, 6, 0, 5});
  CHECK(interpret(sorted({7}, true), {keys}).outputs[0].integers == std::vector<std::int64_t>{0, 5, 2, 6, 1, 3, 4});
}

TEST_CASE("verify refuses ranks, types and extents that do not fit") {
  CHECK_THROWS_WITH_AS(verify(indirect(IntrinsicOp::Gather, DType::F32, {3, 2}, DType::F32, {4}, {4, 2}), Stage::Bound),
      doctest::Contains("the index is f32"), lang::InternalError);
  CHECK_THROWS_WITH_AS(verify(indirect(IntrinsicOp::Gather, DType::F32, {3, 2}, DType::I32, {4}, {4}), Stage::Bound),
      doctest::Contains("ranks 2, 1 and 1"), lang::InternalError);
  CHECK_THROWS_WITH_AS(verify(indirect(IntrinsicOp::Gather, DType::F32, {3, 2}, DType::I32, {4}, {4, 3}), Stage::Bound),
      doctest::Contains("dimension 1 of `D` is 2"), lang::InternalError);
  auto program = sorted({4}, false);
  program.tensors[1].dtype = DType::I64;
  CHECK_THROWS_WITH_AS(verify(program, Stage::Bound), doctest::Contains("of f32 makes i64"), lang::InternalError);
}

TEST_CASE("bind names extents that disagree, and rows that i32 cannot number") {
  const Size m = Size::named("M"), n = Size::named("N");
  const auto program = indirect(IntrinsicOp::Gather, DType::F32, {m, 5}, DType::I32, {n, 3}, {n, 3}, 1);
  verify(program, Stage::Symbolic);
  CHECK(bind_error(program, {{"M", 2}, {"N", 4}})
            .find("`gather` takes dimension 0 of `D` and dimension 0 of `W` for one, but `M` is 2 and `N` is 4") !=
      std::string::npos);
  CHECK(bind_error(sorted({n}, false), {{"N", std::int64_t{1} << 31}}).find("2147483648 does not fit in `i32`") !=
      std::string::npos);
}

TEST_CASE("equal intrinsics are made once, dead ones not at all") {
  auto program = indirect(IntrinsicOp::Gather, DType::F32, {3}, DType::I32, {4}, {4});
  const auto again = add(program, "P", DType::F32, {4}), dead = add(program, "Q", DType::F32, {2}),
             count = add(program, "R", DType::F32, {2, 2});
  program.nodes.emplace_back(Intrinsic{IntrinsicOp::Gather, {again}, program.inputs, {Size(0)}, {}});
  program.nodes.emplace_back(Intrinsic{IntrinsicOp::Scatter, {dead}, {again, program.inputs[1]}, {Size(0)}, {}});
  program.nodes.emplace_back(Intrinsic{IntrinsicOp::Reshape, {count}, {again}, {Size(2), Size(2)}, {}});
  program.outputs.push_back(count);
  const auto less = simplify(program);
  verify(less, Stage::Bound);
  CHECK(less.nodes.size() == 2);
  const std::vector<Array> inputs{reals({3}, {1, 2, 3}), integers({4}, {2, 0, 1, 1})};
  CHECK(interpret(less, inputs).outputs[1].reals == interpret(program, inputs).outputs[1].reals);
}
