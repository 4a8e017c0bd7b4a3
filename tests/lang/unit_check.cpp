// check() on programs that must pass as they are; what must not pass is in tests/golden/lang.
#include <doctest/doctest.h>

#include <algorithm>

#include "lang/check.h"
#include "lang/op.h"
#include "lang/parse.h"
#include "lang/render.h"
#include "lang/type.h"

using namespace tilec::lang;

namespace {

// What parse and check say, or "" when they say nothing.
std::string said(const std::string& text) {
  const Source source{"x.tile", text};
  Diagnostics diagnostics;
  const std::optional<File> file = parse(source, diagnostics);
  if (file) (void)check(*file, diagnostics);
  return render(diagnostics, {source});
}
std::string body(const std::string& statements) {
  return "function f(A[M, N], B[N], C, S[], $W, #low[N]) -> (O) {\n" + statements + "\n}";
}

}  // namespace

TEST_CASE("programs of Tile 0.3.5 pass without a word") {
  for (const std::string_view text : {
           "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
           "function (I[N, X], K, X) -> (O) { P = K/2; O[n, x: N, X] = >(I[n, x - P + k]), k < K; }",
           "function (A[N, N], N) -> (O) { O = A * N; }",
           "function (A[N]) -> (A) { }",
           "function (I[N], P[N]) -> (O) { Z[] = +(I[i]); O[3*n + k: 3*N] = =(I[n]), k < 3 no_defract default P; }",
           "function (X[N]) -> (O) { M[] = >(X[i]); IX = index(X, 0); O[] = >(X[i] == M[] ? IX[i]); }",
           "function (A[N]) -> (O) { O = reshape(A, N/2, 2); T = assert_even(mod(N, 2) == 0); }",
           "function (A[N]) -> (O) { T = tuple(A, A); O = element(T, 0); }",
       }) {
    INFO(text);
    CHECK(said(std::string(text)) == "");
  }
}

TEST_CASE("extensions pass without a word") {
  for (const std::string_view text :
      {"Mx[i: M] = >(A[i, j]); E[i, j: M, N] = =(exp(A[i, j] - Mx[i])); O[i: M] = +(E[i, j] * N);",
          "O[i: N] = =(i) default inf;", "O[i: N] = +(B[i] < 0 ? -inf : 1), 0 <= i - k < 3, 0 <= k <= 2;",
          "inf = B; O = inf + nan;", "T = f16(A) + as_float(A, 16) + as_bool(A); O = T;",
          "dO = B; O[i: N] = +(dO[i] * C[] + S);", "O[i: N] = +(B[i]), S >= 0, i <= 2*S;",
          "O[i: div(N, 2)] = max(B[2*i]);", "O = #low + $W;", "[[ties(first)]] [[name(k)]] O[i: M] = <(A[i, j]);",
          "(P, Q) = tuple(A, B); O = P;", "O = A * as_bool(C);", "O[i, 0: N, 1] = =(B[N - 1 - i]);",
          "f32 O = cond(B < 0, -B, B);"}) {
    INFO(text);
    CHECK(said(body(std::string(text))) == "");
  }
}

TEST_CASE("a name of the function is that thing in brackets too") {
  CHECK(said("function f(A[N], p) -> (O) { O[i: N] = +(A[i + p]); }") == "");
  CHECK(said("function f(A[N]) -> (O) { O[i: N] = +(A[i + p]); p = 2; }").find("E0111") != std::string::npos);
}

TEST_CASE("#a and a are two names") {
  CHECK(said("function f(#a[N], $N[M]) -> (O) { O[a: N] = +(#a[a]); }") == "");
  CHECK(said("function f(#a[N], #a[N]) -> (O) { O = #a; }").find("E0110") != std::string::npos);
}

TEST_CASE("promotion is symmetric, and never narrows") {
  for (const DType a : all_dtypes)
    for (const DType b : all_dtypes) {
      CHECK(promote(a, b) == promote(b, a));
      if (is_float(a) == is_float(b)) CHECK(bits(promote(a, b)) >= std::max(bits(a), bits(b)));
      if (is_float(a) && !is_float(b)) CHECK(promote(a, b) == a);
    }
  CHECK(promote(DType::U8, DType::I8) == DType::I16);
  CHECK(promote(DType::U32, DType::I8) == DType::I64);
  CHECK(promote(DType::U8, DType::I64) == DType::I64);
  CHECK(promote(DType::F16, DType::BF16) == DType::F32);
  CHECK(accumulator(DType::I8) == DType::I32);
  CHECK(accumulator(DType::BF16) == DType::F32);
}

TEST_CASE("the table of operators finds each function by its name") {
  for (int k = 0; k <= static_cast<int>(Op::IsFinite); ++k)
    CHECK(function_named(info(static_cast<Op>(k)).name) == static_cast<Op>(k));
  CHECK(function_named("mad") == Op::Fma);
  CHECK(function_named("select") == Op::Select);
  CHECK_FALSE(function_named("ident"));
}

TEST_CASE("JSON lines quote what the text holds") {
  const Source source{"a\"b.tile", "function f(A) -> (O) { O = \xFF \"x\\\ty\"; }"};
  Diagnostics diagnostics;
  CHECK_FALSE(parse(source, diagnostics));
  const std::string json = render(diagnostics, {source}, {false, true});
  CHECK(json.starts_with("{\"file\": \"a\\\"b.tile\", \"line\": 1, \"column\": 28, "));
  CHECK(json.ends_with("}\n"));
}
