// Which steps share a kernel, what it is then, and with which numbers they call it.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "codegen/equal_kernels.h"

namespace tilec::codegen {
namespace {

Stmt stmt(decltype(Stmt::node) node) { return {std::move(node)}; }

// for i in serial 8 { … }
Body over(std::string index, Body body) {
  return {stmt(For{std::move(index), Kind::Serial, Expr(8), {}, std::move(body)})};
}

Expr element(const std::string& view, const Expr& offset) { return Load{view, offset, DType::F32}; }

// Of kernels k0, k1, … on views X and Y, of which Y is written.
Lowered package(const std::vector<Body>& bodies, int alignment = 0) {
  Lowered made;
  made.buffers.resize(2);
  for (const Body& body : bodies) {
    Step step;
    step.kernel = "k" + std::to_string(made.steps.size());
    step.loops.functions = {{step.kernel,
        {{"X", DType::F32, Direction::In, alignment}, {"Y", DType::F32, Direction::InOut, alignment}}, {}, body}};
    verify(step.loops);
    step.buffers = {0, 1};
    made.steps.push_back(std::move(step));
  }
  return made;
}

std::vector<std::string> kernels(const Lowered& package) {
  std::vector<std::string> names;
  for (const Step& step : package.steps) {
    verify(step.loops);
    CHECK(step.numbers.size() == step.loops.functions.back().integers.size());
    names.push_back(step.kernel);
  }
  return names;
}

using Names = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

Body copies_row(std::int64_t from, std::int64_t to, const std::string& index = "i") {
  return over(index, {stmt(Store{"Y", var(index) + Expr(to), element("X", var(index) * Expr(2) + Expr(from))})});
}

}  // namespace

TEST_CASE("steps that begin at other elements of their buffers call one kernel, and say where") {
  const Lowered made = share_kernels(package({copies_row(16, 0), copies_row(48, 8, "j"), copies_row(0, 24)}));
  CHECK(kernels(made) == Names{"k0", "k0", "k0"});
  CHECK(made.steps[0].numbers == Numbers{0, 16});      // Y first: its address is seen first
  CHECK(made.steps[1].numbers == Numbers{8, 48});
  CHECK(made.steps[2].numbers == Numbers{24, 0});
  CHECK(print(made.steps[1].loops) == R"(fn k0(X: f32 in, Y: f32 inout; Y_at, X_at)
  view Y_from = Y + Y_at
  view X_from = X + X_at
  for i in serial 8
    Y_from[i] = X_from[i * 2]
)");
}

TEST_CASE("constants that all steps have stay where they are") {
  const auto body = [](std::int64_t row) {
    return over("i",
        {stmt(Store{"Y", var("i") + Expr(5),
            Operation{Op::Add, {element("X", var("i") + Expr(row)), element("X", var("i") + Expr(row + 3))},
                DType::F32}})});
  };
  const Lowered made = share_kernels(package({body(10), body(20)}));
  CHECK(kernels(made) == Names{"k0", "k0"});
  CHECK(print(made.steps[0].loops) == R"(fn k0(X: f32 in, Y: f32 inout; X_at)
  view X_from = X + X_at
  for i in serial 8
    Y[i + 5] = X_from[i + 10] + X_from[i + 13]
)");
  CHECK(made.steps[0].numbers == Numbers{0});
  CHECK(made.steps[1].numbers == Numbers{10});
}

TEST_CASE("rows of one buffer that move apart are views of their own, which may alias") {
  const auto body = [](std::int64_t read, std::int64_t written) {
    return over("i", {stmt(Store{"Y", var("i") + Expr(written), element("Y", var("i") + Expr(read))})});
  };
  CHECK(kernels(share_kernels(package({body(0, 8), body(8, 16)}))) == Names{"k0", "k0"});
  const Lowered apart = share_kernels(package({body(0, 8), body(0, 16)}));
  CHECK(kernels(apart) == Names{"k0", "k0"});
  CHECK(print(apart.steps[0].loops) == R"(fn k0(X: f32 in, Y: f32 inout; Y_at)
  view Y_from = Y + Y_at
  for i in serial 8
    Y_from[i + 8] = Y[i]
)");
}

TEST_CASE("offsets that break what a kernel assumes of its buffers are no offsets") {
  // of 16 bytes: 4 elements
  CHECK(kernels(share_kernels(package({copies_row(0, 0), copies_row(2, 0), copies_row(8, 0), copies_row(6, 0)}, 16))) ==
      Names{"k0", "k1", "k0", "k1"});
  const Lowered made = share_kernels(package({copies_row(1, 0), copies_row(9, 0)}, 16));
  CHECK(print(made.steps[1].loops).find("view X_from = X + X_at align 16") != std::string::npos);
  CHECK(made.steps[1].numbers == Numbers{8});
}

TEST_CASE("what else differs keeps kernels apart") {
  const auto scaled = [](std::int64_t by) {
    return over("i", {stmt(Store{"Y", var("i") * Expr(by), element("X", var("i"))})});
  };
  CHECK(kernels(share_kernels(package({scaled(1), scaled(2)}))) == Names{"k0", "k1"});
  const auto filled = [](double value) {
    return over("i", {stmt(Store{"Y", var("i"), Constant{DType::F32, 0, value}})});
  };
  CHECK(kernels(share_kernels(package({filled(0.0), filled(-0.0)}))) == Names{"k0", "k1"});
  CHECK(kernels(share_kernels(package({copies_row(0, 0), over("i", {})}))) == Names{"k0", "k1"});
  // a border
  const auto below = [](std::int64_t end) {
    return over("i", {stmt(If{less(var("i"), Expr(end)), {stmt(Store{"Y", var("i"), element("X", var("i"))})}, {}})});
  };
  CHECK(kernels(share_kernels(package({below(3), below(4), below(3)}))) == Names{"k0", "k1", "k0"});
  // more numbers than a kernel takes
  const auto many = [](std::int64_t by) {
    Body body;
    for (std::int64_t k = 0; k < 12; ++k) body.push_back(stmt(Store{"Y", Expr(k * by), element("X", Expr(k))}));
    return body;
  };
  CHECK(kernels(share_kernels(package({many(1), many(2), many(1)}))) == Names{"k0", "k1", "k0"});
  // a view that moves on
  const auto moves = [](std::int64_t from) {
    Body body = copies_row(from, 0);
    std::get<For>(body[0].node).advance.push_back({"X", Expr(8)});
    return body;
  };
  CHECK(kernels(share_kernels(package({moves(0), moves(8), moves(8)}))) == Names{"k0", "k1", "k1"});
}

TEST_CASE("numbers that values are compared with, or that are stored, are passed in") {
  const auto body = [](std::int64_t step) {
    const Expr length = Convert{element("X", var("i")), DType::I64};
    const Expr value = Convert{Operation{Op::Select,
                                   {Operation{Op::Lt, {Expr(step), var("t")}, DType::Bool}, Expr(7), Expr(9)},
                                   DType::I64},
        DType::F32};
    return over("i", {stmt(Let{"t", length}), stmt(Store{"Y", var("i"), value})});
  };
  const Lowered made = share_kernels(package({body(3), body(0), body(3)}));
  CHECK(kernels(made) == Names{"k0", "k0", "k0"});
  CHECK(made.steps[0].numbers == Numbers{3});
  CHECK(made.steps[1].numbers == Numbers{0});
  CHECK(print(made.steps[0].loops).find("(number < t) ? 7 : 9") != std::string::npos);
}

}  // namespace tilec::codegen
