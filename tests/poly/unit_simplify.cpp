// What simplify shares, folds and leaves; that a bit never changes is unit_values_random.cpp's, over random programs.
#include <doctest/doctest.h>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "poly/bind.h"
#include "poly/intern.h"
#include "poly/interpret.h"
#include "poly/print.h"
#include "poly/simplify.h"
#include "poly/verify.h"
#include "tests/poly/built.h"

using namespace tilec;
using namespace tilec::poly;
using test::built;

namespace {

Program bound(const std::string& text, const std::map<std::string, std::int64_t>& sizes) {
  lang::Diagnostics diagnostics;
  const auto program = poly::bind(built(text), sizes, diagnostics);
  REQUIRE(program);
  return *program;
}

std::string body(const Program& program) {
  verify(program, Stage::Symbolic);
  std::string text = print(program);
  text = text.substr(text.find('\n') + 1);
  std::string lines;
  for (std::size_t at = 0; at < text.size() && text[at] != '}'; at = text.find('\n', at) + 1) {
    const auto line = text.substr(at, text.find('\n', at) - at);
    lines += line.substr(0, line.find("  //")) + "\n";
  }
  return lines;
}

std::string simplified(const std::string& text) { return body(simplify(built(text))); }
std::size_t statements(const Program& program) { return program.nodes.size(); }

TensorId named(const Program& program, const std::string& name) {
  for (std::size_t id = 0; id < program.tensors.size(); ++id)
    if (program.tensors[id].name == name) return static_cast<TensorId>(id);
  FAIL("no tensor " << name);
  return -1;
}

}  // namespace

TEST_CASE(
    "equal statements are shared whatever their indices, operands, reads and rows are called and in whatever order they stand") {
  const auto count = [](const std::string& one, const std::string& other) {
    return statements(simplify(
        built("function f(X[M, N], B[N], C[N]) -> (Y, Z) { " + one + " " + other + " Y = exp(P); Z = log(Q); }")));
  };
  CHECK(count("P[i, j: M, N] = =(X[i, j] * B[j]);", "Q[a, b: M, N] = =(B[b] * X[a, b]);") == 3);
  CHECK(count("P[i: M] = +(X[i, j] * B[j] + C[j]), j < 3;", "Q[u: M] = +(C[v] + B[v] * X[u, v]), v < 3;") == 3);
  CHECK(count("P[i: M] = >(X[i, j] > B[j] ? B[j] : C[j]);", "Q[u: M] = >(B[v] < X[u, v] ? B[v] : C[v]);") == 3);
  CHECK(count("P[i, j: M, N] = +(X[k, j] * B[j]), k < 2, i < 4;", "Q[i, j: M, N] = +(B[j] * X[l, j]), i < 4, l < 2;") ==
      3);
}

TEST_CASE("what may differ in a bit is not shared") {
  const auto count = [](const std::string& one, const std::string& other) {
    return statements(simplify(
        built("function f(X[N], B[N]) -> (Y, Z) { " + one + " " + other + " Y = exp(P) * P; Z = log(Q) * Q; }")));
  };
  CHECK(count("P = max(X, B);", "Q = max(B, X);") == 4);                     // max(0, -0)
  CHECK(count("P = X - B;", "Q = B - X;") == 4);
  CHECK(count("P = (X + B) + 1;", "Q = X + (B + 1);") == 4);                 // sums round
  CHECK(count("[[ties(first)]] P[] = >(X[i]);", "Q[] = >(X[i]);") == 4);
  CHECK(count("P[i: N] = =(X[i]*2), i < 3;", "Q[i: N] = =(X[i]*2), i < 3 default B;") == 4);
}

TEST_CASE("an output that is the whole of a tensor made here is that tensor, dimensions of one element too") {
  const auto of = [](const std::string& read, std::int64_t batch) {
    return statements(simplify(
        bound("function f(X[N, M, K]) -> (Y) { P[n, i: N, M] = +(X[n, i, k]); Y[n, i: N, M] = =(" + read + "); }",
            {{"N", batch}, {"M", 3}, {"K", 5}})));
  };
  for (const std::int64_t batch : {1, 2}) {
    CHECK(of("P[n, i]", batch) == 1);
    CHECK(of("P[n, 2 - i]", batch) == 2);
    CHECK(of("P[n, i] + 1", batch) == 2);
  }
}

TEST_CASE("equal reshapes are one") {
  CHECK(
      statements(simplify(built(
          "function f(X[4, 6]) -> (Y, Z) { P = reshape(X, 24); Q = reshape(X, 24); Y = exp(P); Z = log(Q); }"))) == 3);
  CHECK(statements(simplify(built(
            "function f(X[4, 6]) -> (Y, Z) { P = reshape(X, 24); Q = reshape(X, 12, 2); Y = exp(P); Z = log(Q); }"))) ==
      4);
}

TEST_CASE("sums of nothing but zeros, and constants whose fill is themselves, are numbers in their readers") {
  CHECK(simplified("function f(X[N]) -> (Y) { T[i: N] = +(0.0), 0 <= k < 3; Y = X < 1 ? T : X; }") ==
      "  Y[i: N] = =(X[i] < 1.0 ? 0.0 : X[i]);\n");
  CHECK(simplified("function f(X[N]) -> (Y) { T[2*i + 1: N] = =(0.0), i < 3; Y = T - X; }") ==
      "  Y[i: N] = =(0.0 - X[i]);\n");
  CHECK(simplified("function f(X[N]) -> (Y) { T[2*i + 1: N] = *(1.0), i < 3 default 1.0; Y = T * X; }") ==
      "  Y[i: N] = =(X[i]);\n");
  CHECK(statements(simplify(built("function f(X[N]) -> (Y) { T[2*i + 1: N] = =(1.0), i < 3; Y = T - X; }"))) == 2);
}

TEST_CASE("an indicator of a box is a condition on the index, and none where the rows decide it") {
  const std::map<std::string, std::int64_t> sizes{{"N", 9}};
  CHECK(body(simplify(bound("function f(X[N]) -> (Y) { W[i + 2: N] = >(1), i < 4; Y = W ? 0 : X; }", sizes))) ==
      "  Y[i: 9] = =(i - 2 >= 0 & 5 - i >= 0 ? 0.0 : X[i]);\n");
  CHECK(body(simplify(bound("function f(X[N]) -> (Y) { W[2*i + k: 10] = >(1), i < 5, k < 2; Y = W ? 0 : X; }",
            {{"N", 10}}))) == "  Y[i: 10] = =(0.0);\n");
  CHECK(statements(simplify(
            bound("function f(X[N]) -> (Y) { W[3*i + k: N] = >(1), i < 3, k < 2; Y = W ? 0 : X; }", sizes))) == 2);
  CHECK(body(simplify(
            bound("function f(X[N]) -> (Y) { W[i + 4: N] = >(1), i < 5; Y[i: N] = =(W[i] != 0 ? 0 : X[i]), i < 4; }",
                sizes))) == "  Y[i: 9] = =(X[i]), 0 <= i < 4;\n");
}

TEST_CASE("doubled and negated terms take one operation, differences that are exactly zero none") {
  CHECK(simplified("function f(X[N], B[N]) -> (Y) { Y = X*B + B*X; }") == "  Y[i: N] = =(2.0 * (X[i] * B[i]));\n");
  CHECK(simplified("function f(X[N], B[N]) -> (Y) { Y = X + -B; }") == "  Y[i: N] = =(X[i] - B[i]);\n");
  CHECK(simplified("function f(i32 X[N]) -> (Y) { Y = X*3 - 3*X; }") == "  Y[i: N] = =(0);\n");
  // inf - inf is NaN
  CHECK(simplified("function f(X[N]) -> (Y) { Y = X - X; }") == "  Y[i: N] = =(X[i] - X[i]);\n");
  CHECK(simplified("function f(X[N]) -> (Y) { Y = X * 0.0; }") == "  Y[i: N] = =(X[i] * 0.0);\n");
  CHECK(simplified("function f(X[N]) -> (Y) { Y = f32(X > 0.0) * 0.0; }") == "  Y[i: N] = =(0.0);\n");
}

TEST_CASE("a chain of assignments is one where no rounding is lost between them") {
  CHECK(simplified("function f(X[N], B[N]) -> (Y) { T = max(X, B); Y = T * B; }") ==
      "  Y[i: N] = =(max(X[i], B[i]) * B[i]);\n");
  CHECK(simplified("function f(i32 X[N]) -> (Y) { T = X * 3; U = T + 1; Y = U - X; }") ==
      "  Y[i: N] = =(X[i] * 3 + 1 - X[i]);\n");
  CHECK(statements(simplify(built("function f(X[N]) -> (Y) { T = X * 0.1; Y = T + 0.3; }"))) == 2);
  // four times the work
  CHECK(statements(simplify(built("function f(i32 X[N]) -> (Y) { T = X * 3; Y[i, j: N, 4] = =(T[i] + j); }"))) == 2);
  CHECK(statements(simplify(built("function f(i32 X[N]) -> (Y) { [[save]] T = X * 3; Y = T + 1; }"))) == 2);
}

TEST_CASE("the target of a rule is neither merged nor read through, and rules follow the numbers of their tensors") {
  auto program = built("function f(X[N], D[N]) -> (Y, Z) { C = exp(X); S = exp(X); T = X; Y = S * 2; Z = T + S; }");
  program.rules.push_back({"mine", {named(program, "X"), named(program, "D")}, {named(program, "S")}, {}, {}, {}});
  program.rules.push_back({"other", {named(program, "X")}, {named(program, "T")}, {}, {}, {}});
  program.rules.push_back({"dead", {named(program, "X")}, {named(program, "C")}, {}, {}, {}});
  const auto small = simplify(program);
  REQUIRE(small.rules.size() == 2);
  CHECK(small.tensor(small.rules[0].targets[0]).name == "S");
  CHECK(small.tensor(small.rules[0].operands[1]).name == "D");
  CHECK(small.tensor(small.rules[1].targets[0]).name == "T");
  CHECK(body(small).find("T[i]") != std::string::npos);
}

TEST_CASE("a rule keeps what its derivative reads alive") {
  auto program = built("function f(X[N]) -> (Y) { L = log(X); P = sin(X); Y = exp(X); }");
  program.rules.push_back(
      {"mine", {named(program, "X"), named(program, "L")}, {named(program, "Y"), named(program, "P")}, {}, {}, {}});
  CHECK(statements(simplify(program)) == 3);
}

TEST_CASE("equal parts of a value become one node") {
  const auto program = built(
      "function f(X[N], B[N]) -> (Y) { Y = (X + B) * tanh(X + B) - max(0.0, X + B) + max(-0.0, X + B) + f32(i32(X)) * f32(i32(X)); }");
  const Expr& value = std::get<Statement>(program.nodes.back()).value;
  const Expr small = interned(value);
  CHECK(small == value);
  CHECK(parts(value).size() > parts(small).size());
  int sums = 0, zeros = 0, casts = 0;
  for (const Expr& part : parts(small)) {
    const auto* apply = part.as<Apply>();
    sums += apply && apply->op == Op::Add && apply->operands[0].as<Read>();
    zeros += part.as<Number>() != nullptr;
    casts += part.as<Cast>() != nullptr;
  }
  CHECK(sums == 1);
  CHECK(zeros == 2);                                   // 0.0 and -0.0 are two
  CHECK(casts == 2);
}

TEST_CASE("the time of a large program grows with its length") {
  const auto text = [](int statements) {
    std::string text = "function f(X[N]) -> (Y) { T0 = X * 0.5; ";
    for (int k = 1; k < statements; ++k)
      text += fmt::format("T{}[i: N] = +(T{}[i] * X[j] + T{}[j]), j < 3; ", k, k - 1, k / 2);
    return text + fmt::format("Y = T{} + X; }}", statements - 1);
  };
  const auto milliseconds = [](const Program& program) {
    double best = 1e9;
    for (int turn = 0; turn < 3; ++turn) {
      const std::clock_t start = std::clock();           // of this process: others do not count
      CHECK(simplify(program).nodes.size() == program.nodes.size());
      best = std::min(best, 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
  };
  // Sixteen times the statements: a quadratic pass takes 256 times as long. What a larger program costs in the caches
  // is below 64.
  const double middle = milliseconds(built(text(800))), large = milliseconds(built(text(12800)));
  MESSAGE("800 statements: " << middle << " ms, 12800: " << large << " ms");
  CHECK(large < 64 * middle);
}
