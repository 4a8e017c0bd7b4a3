#include <doctest/doctest.h>

#include "lang/parse.h"
#include "poly/bind.h"
#include "poly/bounds.h"
#include "poly/build.h"
#include "poly/interpret.h"
#include "poly/print.h"
#include "poly/simplify.h"
#include "poly/verify.h"
#include "tests/poly/built.h"

using namespace tilec;
using namespace tilec::poly;
using test::built;

namespace {

// Requirements are comments, and only broadcasting makes them again.
std::string without_assumptions(std::string text) {
  for (auto at = text.find("  // assumes"); at != std::string::npos; at = text.find("  // assumes"))
    text.erase(at, text.find('\n', at) + 1 - at);
  return text;
}

// The text of a function's body, one statement a line; it reads back to the same text.
std::string body(const std::string& text) {
  const auto program = built(text);
  const auto printed = print(program);
  CHECK(without_assumptions(print(built(printed))) == without_assumptions(printed));
  return printed.substr(printed.find("{\n") + 2, printed.rfind('}') - printed.find("{\n") - 2);
}

std::vector<std::int64_t> range(std::int64_t count) {
  std::vector<std::int64_t> values;
  for (std::int64_t k = 1; k <= count; ++k) values.push_back(k);
  return values;
}

// Runs a program over i32 tensors with the sizes that the inputs show.
std::vector<std::int64_t> run(const std::string& text, const std::vector<std::vector<std::int64_t>>& shapes,
    const std::vector<std::vector<std::int64_t>>& values) {
  lang::Diagnostics diagnostics;
  const auto file = lang::parse({"test.tile", text}, diagnostics);
  REQUIRE(file);
  Signature signature;
  for (const auto& item : file->items)
    if (const auto* function = std::get_if<lang::Function>(&item))
      for (std::size_t k = 0; k < function->inputs.size(); ++k)
        signature.inputs.push_back({.name = function->inputs[k].target.name.text,
            .dtype = DType::I32,
            .shape = std::vector<Size>(shapes[k].begin(), shapes[k].end()),
            .integer = {}});
  auto program = build(*file, signature, diagnostics);
  for (const auto& d : diagnostics.all())
    if (d.severity == lang::Severity::Error) FAIL(text, d.code, ": ", d.message);
  REQUIRE(program);
  verify(*program, Stage::Symbolic);
  const auto bound = bind(*program, {}, diagnostics);
  REQUIRE(bound);
  verify(*bound, Stage::Bound);
  std::vector<Array> inputs;
  for (std::size_t k = 0; k < shapes.size(); ++k) inputs.push_back({DType::I32, shapes[k], {}, values[k]});
  const auto result = interpret(*bound, inputs).outputs[0].integers;
  const auto hulls = bounds(*bound, diagnostics);
  REQUIRE(hulls);
  verify(*hulls, Stage::Bounded);
  CHECK(interpret(*hulls, inputs).outputs[0].integers == result);
  const auto small = simplify(*bound);
  verify(small, Stage::Bound);
  CHECK(interpret(small, inputs).outputs[0].integers == result);
  return result;
}

}  // namespace

TEST_CASE("statements print as they are written") {
  CHECK(
      body(
          "function conv(I[N, X, CI], K[KX, CI, CO]) -> (O) { O[n, x, co: N, (X + 1)/2, CO] = +(I[n, 2*x + k - 1, ci] * K[k, ci, co]); }") ==
      "  O[n, x, co: N, (X + 1)/2, CO] = +(I[n, 2*x + k - 1, ci] * K[k, ci, co]);  // domain 0 <= n < N, 0 <= x < div(X + 1, 2), 0 <= co < CO, 0 <= 2*x + k - 1 < X, 0 <= ci < CI, 0 <= k < KX\n");
}

TEST_CASE("an elementwise statement is an assignment with one index per dimension") {
  CHECK(body("function f(A[M, N], B[N]) -> (Y) { Y = A + B; }") == "  Y[i, j: M, N] = =(A[i, j] + B[j]);\n");
  CHECK(body("function f(A[M, N], B[K]) -> (Y) { Y = A + B; }").starts_with("  // assumes "));
  CHECK(body("function f(A[M, 1], B[N]) -> (Y) { Y = A + B; }") == "  Y[i, j: M, N] = =(A[i, 0] + B[j]);\n");
}

TEST_CASE("constraints that accesses do not imply are written out") {
  CHECK(body("function f(A[N]) -> (O) { O[i: N] = +(A[k]), 0 <= i - k < 3; }")
            .find("O[i: N] = +(A[k]), 0 <= i - k < 3;") != std::string::npos);
  CHECK(body("function f(A[N], B[M]) -> (O) { O[i: N] = +(A[i]), 0 <= j < 3, 0 <= i + j < M; }")
            .find("+(A[i]), 0 <= j < 3, 0 <= i + j < M;") != std::string::npos);
  CHECK(
      body("function f(A[N]) -> (O) { O[i: 10] = +(A[i]), i/2 < 5; }").find("+(A[i]), i/2 < 5;") != std::string::npos);
  CHECK(body("function f(A[N]) -> (O) { O[i: N] = +(A[k]), k <= i - 1; }").find("+(A[k]), i - k - 1 >= 0;") !=
      std::string::npos);
}

TEST_CASE("truncated sizes in an index print as calls") {
  CHECK(body("function f(A[N], K[M]) -> (O) { P = M/2; O[i: N] = +(A[i + k - P] * K[k]); }")
            .find("A[i + k - div(M, 2)]") != std::string::npos);
  CHECK(body("function f(A[N], K[M]) -> (O) { O[i: N] = +(A[i] * K[k]), k < max(M, N) - 1; }").find("max(M, N) - 1") !=
      std::string::npos);
}

TEST_CASE("casts are printed only where build would not insert them") {
  CHECK(body("function f(f16 A[N], f16 B[N]) -> (S) { S[] = +(A[i] * B[i]); }").find("S[] = +(A[i] * B[i]);") !=
      std::string::npos);
  CHECK(body("function f(f16 A[N], f32 B[N]) -> (S) { S[] = +(A[i] * B[i]); }").find("S[] = +(A[i] * B[i]);") !=
      std::string::npos);
  CHECK(body("function f(f16 A[N]) -> (Y) { Y = 0.5 * A; }") == "  Y[i: N] = =(0.5 * A[i]);\n");
  CHECK(body("function f(f32 A[N]) -> (Y) { T = f16(A); Y = f32(T) * A; }") ==
      "  f16 T[i: N] = =(A[i]);\n  Y[i: N] = =(T[i] * A[i]);\n");
  CHECK(body("function f(i8 A[N]) -> (Y) { Y = A + 1; }") == "  Y[i: N] = =(A[i] + 1);\n");
  CHECK(body("function f(i8 A[N]) -> (Y) { T[] = +(A[i]); Y[j: 1] = =(T[] + 0); }").find("T[] = +(A[i]);") !=
      std::string::npos);
  CHECK(body("function f(X[N]) -> (Y) { Y = exp(-X) > 0.25 ? 1.0 : X*2; }") ==
      "  Y[i: N] = =(exp(-X[i]) > 0.25 ? 1.0 : X[i] * 2.0);\n");
  CHECK(body("function f(X[N]) -> (Y) { Y[i: N] = =(X[i] == i ? 1 : 0); }").find("=(X[i] == i ? 1 : 0)") !=
      std::string::npos);
  CHECK(body("function f(f16 X[N]) -> (Y) { f16 T[i: N] = +(f32(X[i]) * X[j]); Y = T; }")
            .find("  T[i: N] = +(X[i] * X[j]);") == 0);
  CHECK(body("function f(f16 X[N]) -> (Y) { f16 T[i: N] = >(f32(X[i]) * X[j]); Y = T; }")
            .find("  f16 T[i: N] = >(f32(X[i]) * X[j]);") == 0);
  CHECK(body("function f(X[N]) -> (Y) { f64 T[i: N] = +(X[i] * X[j]); Y = T; }")
            .find("  f64 T[i: N] = +(X[i] * X[j]);") == 0);
}

TEST_CASE("types, ties, names and defaults survive") {
  CHECK(
      body(
          "function f(A[N], D[N]) -> (O) { [[name(pool)]] [[ties(first)]] T[i: N] = >(A[i]) default D; O[i: N] = <(T[i]) default -inf; }") ==
      "  [[name(pool)]] [[ties(first)]] T[i: N] = >(A[i]) default D;  // domain 0 <= i < N\n  O[i: N] = <(T[i]) default -inf;  // domain 0 <= i < N\n");
  CHECK(body("function f(A[N]) -> (O) { W[2*i + 1: N] = >(1), 0 <= i < 3; O = W; }")
            .find("  W[2*i + 1: N] = >(1), 0 <= i < 3;") == 0);
  CHECK(body("function f(A[N]) -> (O) { f32 W[2*i + 1: N] = >(1), 0 <= i < 3; O = W; }")
            .find("  W[2*i + 1: N] = >(1.0), 0 <= i < 3;") == 0);
}

TEST_CASE("operators keep their grouping") {
  CHECK(body("function f(A[N], B[N], C[N]) -> (Y) { Y = A - (B - C) * -A / (B / C); }") ==
      "  Y[i: N] = =(A[i] - (B[i] - C[i]) * -A[i] / (B[i] / C[i]));\n");
  CHECK(body("function f(i32 A[N], i32 B[N]) -> (Y) { Y = (A | B) ^ A & ~B << 2; }") ==
      "  Y[i: N] = =((A[i] | B[i]) ^ A[i] & ~B[i] << 2);\n");
  CHECK(body("function f(A[N], B[N]) -> (Y) { Y = max(A, B) < 1.0 ? (A == B ? 2.0 : A) : pow(A, 2); }") ==
      "  Y[i: N] = =(max(A[i], B[i]) < 1.0 ? (A[i] == B[i] ? 2.0 : A[i]) : pow(A[i], 2.0));\n");
}

TEST_CASE("a reshape that moves elements stays one") {
  CHECK(body("function f(A[M, N]) -> (Y) { Y = reshape(A, M*N); }") == "  Y = reshape(A, M*N);\n");
}

TEST_CASE("conformance vectors of Tile 0.3.5") {
  using V = std::vector<std::int64_t>;
  const V pi{3, 1, 4, 1, 5};
  CHECK(run("function (A[I, K], B[K, J]) -> (C) { C[i,j:I,J] = +(A[i,k]*B[k,j]); }", {{3, 3}, {3, 3}},
            {range(9), range(9)}) == V{30, 36, 42, 66, 81, 96, 102, 126, 150});
  CHECK(run("function (I[M, N]) -> (O) { O[n:N] = +(I[m,n]); }", {{2, 2}}, {range(4)}) == V{4, 6});
  CHECK(run("function (I[M, N]) -> (O) { O[n:N+1] = +(I[m,n]); }", {{2, 2}}, {range(4)}) == V{4, 6, 0});
  CHECK(run("function (I[N]) -> (O) { O[i:(N+1)/2] = >(I[2*i+j]), j < 2; }", {{5}}, {pi}) == V{3, 4, 5});
  CHECK(run("function (I[N]) -> (O) { O[i:(N+1)/2] = >(I[2*i+j]); }", {{5}}, {pi}) == V{5, 5, 5});
  CHECK(run("function (I[N]) -> (O) { O[i:N] = +(I[k]), i - k < N; }", {{5}}, {pi}) == V{3, 4, 8, 9, 14});
  CHECK(run("function (I[N], K[M]) -> (O) { O[i:5] = +(I[(i-j+1)/2]*K[j]); }", {{3}, {3}}, {range(3), range(3)}) ==
      V{2, 5, 4, 9, 6});
  CHECK(run("function (I[N]) -> (O) { O[i:6] = +(I[(i-1)/2]); }", {{3}}, {range(3)}) == V{0, 1, 0, 2, 0, 3});
  CHECK(
      run("function (I[N,X,Y,C], K[A,B,D,E]) -> (O) { O[n,x,y,co : 1,5,5,1] = +(I[n,(x+k-1)/2,(y+l-1)/2,ci]*K[2-k,2-l,co,ci]); }",
          {{1, 3, 3, 1}, {1, 3, 3, 1}}, {{1, 3, -1, 0, 2, 4, 1, -1, -2}, {2, 3, 4, 6, -3, -1, -1, -2, 1}}) ==
      V{0, 0, 0, 0, 0, 0, 4, 12, 6, 24, 0, 0, 0, 0, 0, 6, -3, -6, -3, -12, 0, 0, 0, 0, 0});
  CHECK(run("function (I[J, K]) -> (O) { F[3*j+k : 12] = >(I[j,k]); O[p,q : 6,2] = >(F[2*p+q]), q < 2; }", {{4, 3}},
            {range(12)}) == range(12));
  CHECK(run("function (I[N0, N1]) -> (O) { O[n0,3*n1+k : N0,3*N1] = =(I[n0,n1]), k < 3 no_defract; }", {{1, 2}},
            {{1, 2}}) == V{1, 1, 1, 2, 2, 2});
  CHECK(run("function (I[B, N], P[B, Q, N]) -> (O) { O[b,1,i : B,3,N] = =(I[b,i]) default P; }", {{1, 2}, {1, 3, 2}},
            {{7, 8}, {9, 9, 9, 9, 9, 9}}) == V{9, 9, 7, 8, 9, 9});
  CHECK(run("function (I[N]) -> (O) { O[N-1-i : N] = =(I[i]); }", {{3}}, {range(3)}) == V{3, 2, 1});
  CHECK(run("function (I[N], K[C]) -> (O) { O[i,c : N,C] = =(I[i] == K[c]); }", {{3}, {3}}, {{1, 0, 2}, {0, 1, 2}}) ==
      V{0, 1, 0, 1, 0, 0, 0, 0, 1});
  CHECK(run("function (A[L, J], B[M, N]) -> (O) { O[i,k : L,N] = =(A[i,j]*B[j,k]); }", {{5, 1}, {1, 5}},
            {range(5), range(5)})
            .size() == 25);
  CHECK(run("function (I[N]) -> (O) { O[i:10] = +(I[i]), i/2 < 5; }", {{10}}, {V(10, 1)}) ==
      V{1, 0, 1, 0, 1, 0, 1, 0, 1, 0});
  CHECK(run("function (I[N]) -> (O) { O[2*i : 50] = +(I[4*i]), i - 100 < 50; }", {{50}}, {V(50, 1)}) == V(50, 0));
  CHECK(
      run("function (A[I, K], B[K, J]) -> (O) { T = tuple(A,B); C = element(T,0); D = element(T,1); O[i,j:I,J] = +(C[i,k]*D[k,j]); }",
          {{3, 3}, {3, 3}}, {range(9), range(9)})[0] == 30);
}
