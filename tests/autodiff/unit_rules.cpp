// Derivatives of a function's own, as a Rule of the Program: the rules are made by hand from the text of the
// definitions.
#include <cmath>

#include "from_text.h"
#include "poly/print.h"

using namespace tilec;
using namespace tilec::poly;
using namespace tilec::test;

namespace {

TensorId named(const Program& program, const std::string& name) {
  for (std::size_t id = 0; id < program.tensors.size(); ++id)
    if (program.tensors[id].name == name) return static_cast<TensorId>(id);
  FAIL("no tensor is called " << name);
  return -1;
}

std::size_t listed(Program& program, Program derivative) {
  auto all = program.derivatives ? *program.derivatives : std::vector<Program>();
  all.push_back(std::move(derivative));
  program.derivatives = std::make_shared<const std::vector<Program>>(std::move(all));
  return program.derivatives->size() - 1;
}

std::optional<std::size_t> derivative(Program& program, const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(listed(program, built(text)));
}

void add_rule(Program& program, std::string name, const Names& operands, const Names& targets,
    const std::string& gradient, const std::string& tangent) {
  Rule rule{std::move(name), {}, {}, derivative(program, gradient), derivative(program, tangent), {}};
  for (const auto& operand : operands) rule.operands.push_back(named(program, operand));
  for (const auto& target : targets) rule.targets.push_back(named(program, target));
  program.rules.push_back(rule);
}

// Y = clip(X), the identity with a bounded gradient, between other uses of X and Y.
const std::string clip_gradient =
    "function clip(f64 X[N], f64 Y[N], f64 DY[N]) -> (DX) { DX = max(-1.0, min(1.0, DY)); }";
const std::string clip_tangent =
    "function clip(f64 X[N], f64 DX[N], f64 Y[N]) -> (DY) { DY = max(-1.0, min(1.0, DX)); }";

Program clipped(const std::string& gradient = clip_gradient, const std::string& tangent = clip_tangent) {
  Program program = built("function f(f64 A[N]) -> (O) { X = A * 2.0; Y = X + 0.0; O = Y * 3.0 + X * 10.0; }");
  add_rule(program, "clip", {"X"}, {"Y"}, gradient, tangent);
  return program;
}

std::vector<Array> at(const Program& program, std::int64_t count, const std::vector<Doubles>& inputs) {
  std::vector<Array> all;
  for (const auto& input : inputs) all.push_back(reals({count}, input));
  return interpret(bound(program, {{"N", count}}), all).outputs;
}

}  // namespace

TEST_CASE("a gradient of its own replaces the derived one, and composes with other uses of the same tensor") {
  // dY = 3 dO, clipped to 1; dX = clip(3 dO) + 10 dO; dA = 2 dX.
  CHECK(
      at(gradient_of(clipped()), 3, {{7, 7, 7}, {0.1, 1, -2}})[0].reals == Doubles{2 * (3 * 0.1 + 10 * 0.1), 22, -42});
}

TEST_CASE("a tangent of its own replaces the derived one") {
  // tX = 2 tA; tY = clip(tX); tO = 3 tY + 10 tX.
  CHECK(at(tangent_of(clipped()), 3, {{7, 7, 7}, {0.25, 1, -2}})[0].reals == Doubles{6.5, 23, -43});
}

TEST_CASE("the output itself may be the target of a rule, and its cotangent the parameter") {
  Program program = built("function f(f64 X[N]) -> (Y) { Y = round(X); }");
  add_rule(program, "steps", {"X"}, {"Y"}, "function steps(f64 X[N], f64 Y[N], f64 DY[N]) -> (DY) { }", "");
  const Program gradient = gradient_of(program);
  CHECK(output_names(gradient) == Names{"dX"});
  CHECK(input_names(gradient) == Names{"X", "dY"});
  CHECK(at(gradient, 2, {{1, 2}, {5, 6}})[0].reals == Doubles{5, 6});
}

TEST_CASE("a rule reaches through integers, which no derived gradient does") {
  Program program = built("function f(f64 X[N]) -> (Y) { I = i32(X); Y = f64(I); }");
  CHECK(at(gradient_of(program), 2, {{1.5, 2.5}, {5, 6}})[0].reals == Doubles{0, 0});
  add_rule(program, "straight", {"X"}, {"Y"}, "function straight(f64 X[N], f64 Y[N], f64 DY[N]) -> (DX) { DX = DY; }",
      "function straight(f64 X[N], f64 DX[N], f64 Y[N]) -> (DY) { DY = DX; }");
  CHECK(at(gradient_of(program), 2, {{1.5, 2.5}, {5, 6}})[0].reals == Doubles{5, 6});
  CHECK(at(tangent_of(program), 2, {{1.5, 2.5}, {5, 6}})[0].reals == Doubles{5, 6});
}

// (S, D) = pair(A, B): the second target is made of the first. Its gradient swaps and scales, so that it cannot be
// mistaken.
Program paired() {
  Program program = built("function f(f64 A[N], f64 B[N]) -> (S, O) { S = A + B; D = S - B * 2.0; O = D * D; }");
  add_rule(program, "pair", {"A", "B"}, {"S", "D"},
      "function pair(f64 A[N], f64 B[N], f64 S[N], f64 D[N], f64 DS[N], f64 DD[N]) -> (DA, DB) { DA = DD * 100.0 + S * 0.0; DB = DS * 7.0; }",
      "function pair(f64 A[N], f64 B[N], f64 DA[N], f64 DB[N], f64 S[N], f64 D[N]) -> (DS, DD) { DS = DB * 7.0; DD = DA * 100.0 + S * 0.0; }");
  return program;
}

TEST_CASE("a rule of two targets gets both cotangents, and nothing goes through the statements that make them") {
  // D = A - B = 1; dD = 2 D dO = 2; dS comes from outside only.
  const auto outputs = at(gradient_of(paired()), 1, {{3}, {2}, {5}, {1}});
  CHECK(outputs[0].reals == Doubles{200});
  CHECK(outputs[1].reals == Doubles{35});
  const auto tangents = at(tangent_of(paired()), 1, {{3}, {2}, {1}, {10}});
  CHECK(tangents[0].reals == Doubles{70});
  CHECK(tangents[1].reals == Doubles{2 * 1 * 100});
}

TEST_CASE("a target without a cotangent and an operand without a tangent count as zero") {
  CHECK(at(gradient_of(paired(), {"S"}), 1, {{3}, {2}, {5}})[0].reals == Doubles{0});
  CHECK(at(gradient_of(paired(), {"S"}), 1, {{3}, {2}, {5}})[1].reals == Doubles{35});
  CHECK(at(tangent_of(paired(), {"O"}, {"B"}), 1, {{3}, {2}, {10}})[0].reals == Doubles{0});
  const Program by_one = gradient_of(paired(), {}, {"A"});
  CHECK(output_names(by_one) == Names{"dA"});
  CHECK(at(by_one, 1, {{3}, {2}, {5}, {1}})[0].reals == Doubles{200});
}

TEST_CASE("rules stay for the next derivative, those within a gradient too") {
  // dX = sin(Y) dY with Y = X; the gradient of that by the rule again: d(dX)/dX = cos(Y) dY · sin(Y), where the derived
  // one would have no factor sin(Y).
  Program program = built("function f(f64 X[N]) -> (Y) { Y = X * 1.0; }");
  add_rule(
      program, "wave", {"X"}, {"Y"}, "function wave(f64 X[N], f64 Y[N], f64 DY[N]) -> (DX) { DX = sin(Y) * DY; }", "");
  const Program once = gradient_of(program);
  CHECK(once.rules.size() == 1);
  const Program twice = gradient_of(once, {}, {"X"});
  const double x = 0.7;
  CHECK(at(twice, 1, {{x}, {1}, {1}})[0].reals[0] == doctest::Approx(std::cos(x) * std::sin(x)));

  // A gradient whose body has a rule: Z = DY doubled, with a gradient of its own that multiplies by 1000.
  Program inner = built("function g(f64 X[N], f64 Y[N], f64 DY[N]) -> (DX) { Z = DY * 2.0; DX = Z * 3.0; }");
  inner.rules.push_back({"inner", {named(inner, "DY")}, {named(inner, "Z")},
      derivative(program, "function inner(f64 DY[N], f64 Z[N], f64 DZ[N]) -> (DDY) { DDY = DZ * 1000.0; }"), {}, {}});
  program.rules[0].gradient = listed(program, inner);
  const Program nested = gradient_of(program);
  CHECK(nested.rules.size() == 1);
  CHECK(at(nested, 1, {{1}, {1}})[0].reals == Doubles{6});
  CHECK(at(gradient_of(nested, {}, {"dY"}), 1, {{1}, {1}, {1}})[0].reals == Doubles{3000});
}

TEST_CASE("a rule that stays keeps all its targets, since a part of it would be another rule") {
  const Program gradient = gradient_of(paired(), {"O"}, {"A"});
  REQUIRE(gradient.rules.size() == 1);
  CHECK(gradient.rules[0].targets.size() == 2);
}

TEST_CASE("indices of a rule step aside for tensors of the program") {
  Program program = built("function f(f64 #n[N]) -> (O) { X = #n * 2.0; Y = X + 0.0; O = Y * 3.0; }");
  add_rule(program, "clip", {"X"}, {"Y"},
      "function clip(f64 X[N], f64 Y[N], f64 DY[N]) -> (DX) { DX[n: N] = =(DY[n] * Y[n]); }", "");
  const Program again = built(print(gradient_of(program)));
  CHECK(at(again, 2, {{1, 2}, {1, 10}})[0].reals == Doubles{12, 240});
}

TEST_CASE("a rule with the other mode's derivative only is refused, with the signature of what is missing") {
  lang::Diagnostics diagnostics;
  CHECK_FALSE(autodiff::forward(clipped(clip_gradient, ""), {}, {}, diagnostics));
  CHECK(messages(diagnostics) ==
      "E0310: `clip` has a `gradient` of its own but no `tangent`\nhint: write `tangent clip(X, DX, Y) -> (DY) { … }`\n");
  lang::Diagnostics other;
  CHECK_FALSE(autodiff::reverse(clipped("", clip_tangent), {}, {}, other));
  CHECK(messages(other) ==
      "E0310: `clip` has a `tangent` of its own but no `gradient`\nhint: write `gradient clip(X, Y, DY) -> (DX) { … }`\n");
  // Not in the way of what does not pass there.
  Program beside = built("function f(f64 A[N], f64 B[N]) -> (Y, O) { Y = A + 0.0; O = B * 2.0; }");
  add_rule(beside, "clip", {"A"}, {"Y"}, clip_gradient, "");
  lang::Diagnostics none;
  CHECK(autodiff::forward(beside, {"O"}, {}, none));
  CHECK(autodiff::forward(beside, {}, {"B"}, none));
}
