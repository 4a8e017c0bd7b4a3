// What build makes of programs, shown by what they compute (the vectors of the Tile specification, section 11), by the
// types they get, and by what they are told.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "lang/parse.h"
#include "poly/bind.h"
#include "poly/build.h"
#include "poly/interpret.h"
#include "poly/print.h"
#include "poly/verify.h"

using namespace tilec;
using namespace tilec::poly;

namespace {

struct Input { std::string name; DType dtype; std::vector<std::int64_t> shape; std::vector<double> values; };
Input f32(std::string name, std::vector<std::int64_t> shape, std::vector<double> values) {
  return {std::move(name), DType::F32, std::move(shape), std::move(values)};
}

Array array_of(const Input& input) {
  Array array{input.dtype, input.shape, {}, {}};
  for (const double v : input.values) {
    if (lang::is_float(input.dtype)) array.reals.push_back(v);
    else array.integers.push_back(static_cast<std::int64_t>(v));
  }
  return array;
}

Given given_of(const Input& input) {
  std::vector<Size> shape(input.shape.begin(), input.shape.end());
  return {.name = input.name, .dtype = input.dtype, .shape = shape};
}

std::string codes(const lang::Diagnostics& diagnostics) {
  std::string all;
  for (const auto& d : diagnostics.all()) all += (all.empty() ? "" : " ") + d.code;
  return all;
}

struct Outcome { std::optional<Program> program; lang::Diagnostics diagnostics; };

Outcome built(const std::string& text, std::vector<Given> inputs = {}) {
  Outcome result;
  const auto file = lang::parse({"test.tile", text}, result.diagnostics);
  REQUIRE_MESSAGE(file.has_value(), text);
  result.program = build(*file, {.function = {}, .inputs = std::move(inputs), .defines = {}}, result.diagnostics);
  if (result.program) verify(*result.program, Stage::Symbolic);
  return result;
}

std::string faults(const std::string& text, std::vector<Given> inputs = {}) {
  return codes(built(text, std::move(inputs)).diagnostics);
}

// Outputs as numbers, one vector per result.
std::vector<std::vector<double>> run(const std::string& text, const std::vector<Input>& inputs) {
  std::vector<Given> given;
  std::vector<Array> arrays;
  for (const auto& input : inputs) {
    given.push_back(given_of(input));
    arrays.push_back(array_of(input));
  }
  auto result = built(text, given);
  REQUIRE_MESSAGE(result.program.has_value(), text << "\n" << codes(result.diagnostics));
  const auto bound = bind(*result.program, {}, result.diagnostics);
  REQUIRE_MESSAGE(bound.has_value(), text << "\n" << codes(result.diagnostics));
  verify(*bound, Stage::Bound);
  std::vector<std::vector<double>> outputs;
  for (const auto& output : interpret(*bound, arrays).outputs)
    outputs.push_back(lang::is_float(output.dtype)
            ? output.reals
            : std::vector<double>(output.integers.begin(), output.integers.end()));
  return outputs;
}

using Values = std::vector<double>;
Values counting(int n) {
  Values v;
  for (int k = 1; k <= n; ++k) v.push_back(k);
  return v;
}

std::string output_types(const std::string& text, std::vector<Given> inputs = {}) {
  const auto result = built(text, std::move(inputs));
  REQUIRE_MESSAGE(result.program.has_value(), text << "\n" << codes(result.diagnostics));
  std::string all;
  for (const auto id : result.program->outputs)
    all += (all.empty() ? "" : " ") + std::string(lang::name(result.program->tensor(id).dtype));
  return all;
}

// The type of `O = EXPR;` with X of `type`.
std::string type_of(const std::string& expr, const std::string& type) {
  return output_types("function (" + type +
      " X[N], f32 F[N], f16 H[N], bool B[N], f64 D[N], u8 U[N], i64 L[N]) -> (O) { O = " + expr + "; }");
}

}  // namespace

TEST_CASE("1: matrix product") {
  const Values m = counting(9);
  CHECK(run("function (A[I, K], B[K, J]) -> (C) { C[i, j: I, J] = +(A[i, k] * B[k, j]); }",
            {f32("A", {3, 3}, m), f32("B", {3, 3}, m)})[0] == Values{30, 36, 42, 66, 81, 96, 102, 126, 150});
}

TEST_CASE("2: column sums, also with one element too many") {
  CHECK(
      run("function (I[M, N]) -> (O) { O[n: N] = +(I[m, n]); }", {f32("I", {2, 2}, {1, 2, 3, 4})})[0] == Values{4, 6});
  CHECK(run("function (I[M, N]) -> (O) { O[n: N + 1] = +(I[m, n]); }", {f32("I", {2, 2}, {1, 2, 3, 4})})[0] ==
      Values{4, 6, 0});
}

TEST_CASE("3, 4: max-pool with and without its constraint") {
  const Input i = f32("I", {5}, {3, 1, 4, 1, 5});
  CHECK(run("function (I[N]) -> (O) { O[i: (N + 1)/2] = >(I[2*i + j]), j < 2; }", {i})[0] == Values{3, 4, 5});
  CHECK(run("function (I[N]) -> (O) { O[i: (N + 1)/2] = >(I[2*i + j]); }", {i})[0] == Values{5, 5, 5});
}

TEST_CASE("5: cumulative sum by a constraint") {
  CHECK(run("function (I[N]) -> (O) { O[i: N] = +(I[k]), i - k < N; }", {f32("I", {5}, {3, 1, 4, 1, 5})})[0] ==
      Values{3, 4, 8, 9, 14});
}

TEST_CASE("6, 7: fractions keep the integral points only") {
  CHECK(run("function (I[N], K[M]) -> (O) { O[i: 5] = +(I[(i - j + 1)/2] * K[j]); }",
            {f32("I", {3}, {1, 2, 3}), f32("K", {3}, {1, 2, 3})})[0] == Values{2, 5, 4, 9, 6});
  CHECK(run("function (I[N]) -> (O) { O[i: 6] = +(I[(i - 1)/2]); }", {f32("I", {3}, {1, 2, 3})})[0] ==
      Values{0, 1, 0, 2, 0, 3});
}

TEST_CASE("8: transposed convolution, the kernel's extents pin its indices") {
  const Values expected{0, 0, 0, 0, 0, 0, 4, 12, 6, 24, 0, 0, 0, 0, 0, 6, -3, -6, -3, -12, 0, 0, 0, 0, 0};
  CHECK(
      run("function (I[N, X, Y, CI], K[KX, KY, CO, CI2]) -> (O) { O[n, x, y, co: 1, 5, 5, 1] = +(I[n, (x + k - 1)/2, (y + l - 1)/2, ci] * K[2 - k, 2 - l, co, ci]); }",
          {f32("I", {1, 3, 3, 1}, {1, 3, -1, 0, 2, 4, 1, -1, -2}),
              f32("K", {1, 3, 3, 1}, {2, 3, 4, 6, -3, -1, -1, -2, 1})})[0] == expected);
}

TEST_CASE("9: reshape written as two contractions") {
  CHECK(run("function (I[A, B]) -> (O) { F[3*j + k: 12] = >(I[j, k]); O[p, q: 6, 2] = >(F[2*p + q]); }",
            {f32("I", {4, 3}, counting(12))})[0] == counting(12));
}

TEST_CASE("10, 11, 12: repeat, default and reversal") {
  CHECK(run("function (I[N0, N1]) -> (O) { O[n0, 3*n1 + k: N0, 3*N1] = =(I[n0, n1]), k < 3 no_defract; }",
            {f32("I", {1, 2}, {1, 2})})[0] == Values{1, 1, 1, 2, 2, 2});
  CHECK(run("function (I[B, N], P[B, R, N]) -> (O) { O[b, 1, i: B, 3, N] = =(I[b, i]) default P; }",
            {f32("I", {1, 2}, {7, 8}), f32("P", {1, 3, 2}, Values(6, 9))})[0] == Values{9, 9, 7, 8, 9, 9});
  CHECK(run("function (I[N]) -> (O) { O[N - 1 - i: N] = =(I[i]); }", {f32("I", {3}, {1, 2, 3})})[0] == Values{3, 2, 1});
}

TEST_CASE("13: one-hot by comparison is boolean") {
  const std::string text = "function (I[N], K[C]) -> (O) { O[i, c: N, C] = =(I[i] == K[c]); }";
  CHECK(run(text, {f32("I", {3}, {1, 0, 2}), f32("K", {3}, {0, 1, 2})})[0] == Values{0, 1, 0, 1, 0, 0, 0, 0, 1});
  CHECK(output_types(text) == "bool");
}

TEST_CASE("14: an outer product by `=` over an index of extent one") {
  CHECK(run("function (A[L, M], B[M, N]) -> (O) { O[i, k: L, N] = =(A[i, j] * B[j, k]); }",
            {f32("A", {2, 1}, {2, 3}), f32("B", {1, 2}, {5, 7})})[0] == Values{10, 14, 15, 21});
}

TEST_CASE("17: an empty domain gives the fill") {
  CHECK(run("function (I[N]) -> (O) { O[2*i: 50] = +(I[4*i]), i - 100 < 50; }", {f32("I", {50}, Values(50, 1))})[0] ==
      Values(50, 0));
}

TEST_CASE("18: Tile's constraint also asks for an integer, the newer ones do not") {
  const Input ones = f32("I", {10}, Values(10, 1));
  CHECK(run("function (I[N]) -> (O) { O[i: 10] = +(I[i]), i/2 < 5; }", {ones})[0] ==
      Values{1, 0, 1, 0, 1, 0, 1, 0, 1, 0});
  CHECK(run("function (I[N]) -> (O) { O[i: 10] = +(I[i]), i/2 <= 3; }", {ones})[0] ==
      Values{1, 1, 1, 1, 1, 1, 1, 0, 0, 0});
}

TEST_CASE("19, 21: copies and tuples") {
  const auto copies = run("function (I[N]) -> (O1, O2) { O1 = I; O2 = I; }", {f32("I", {2}, {1, 2})});
  CHECK(copies == std::vector<Values>{{1, 2}, {1, 2}});
  const Values m = counting(9);
  CHECK(
      run("function (A[I, K], B[K, J]) -> (O) { T = tuple(A, B); C = element(T, 0); D = element(T, 1); O[i, j: I, J] = +(C[i, k] * D[k, j]); }",
          {f32("A", {3, 3}, m), f32("B", {3, 3}, m)})[0] == Values{30, 36, 42, 66, 81, 96, 102, 126, 150});
}

TEST_CASE("constraints of every form") {
  const Input i = f32("I", {6}, counting(6));
  const auto sum = [&](const std::string& constraint) {
    return run("function (I[N]) -> (O) { O[] = +(I[i]), " + constraint + "; }", {i})[0][0];
  };
  CHECK(sum("1 <= i < 3") == 5);
  CHECK(sum("1 <= i <= 3") == 9);
  CHECK(sum("i >= 4") == 11);
  CHECK(sum("i == 4") == 5);
  CHECK(sum("2*i == 5") == 0);
  CHECK(sum("i <= N - 4") == 6);
  CHECK(sum("N/4 <= i, i <= 7/2") == 9);
  CHECK(run("function (X[R, C]) -> (P) { P[r, c: R, C] = *(X[r, b]), b <= c - 1 default 1; }",
            {f32("X", {1, 4}, {2, 3, 4, 5})})[0] == Values{1, 2, 6, 24});
  CHECK(run("function (I[N]) -> (O) { O[i: 3] = +(I[i + j]), 0 <= j < 2; }", {i})[0] == Values{3, 5, 7});
}

TEST_CASE("broadcasting follows NumPy") {
  const Input a = f32("A", {2, 3}, counting(6)), b = f32("B", {3}, {10, 20, 30}), c = f32("C", {2, 1}, {100, 200}),
              s = f32("S", {}, {1000});
  CHECK(run("function (A[M, N], B[N]) -> (Y) { Y = A + B; }", {a, b})[0] == Values{11, 22, 33, 14, 25, 36});
  CHECK(run("function (A[M, N], C[M, L]) -> (Y) { Y = A + C; }", {a, c})[0] == Values{101, 102, 103, 204, 205, 206});
  CHECK(run("function (B[N], C[M, L], S) -> (Y) { Y = B + C + S; }", {b, c, s})[0] ==
      Values{1110, 1120, 1130, 1210, 1220, 1230});
  CHECK(faults("function (A[M, N], B[N]) -> (Y) { Y = A + B; }", {given_of(a), given_of(f32("B", {2}, {1, 2}))}) ==
      "E0202");
  CHECK(faults("function (A[M, N], B[K]) -> (Y) { Y = A + B; }", {given_of(a), given_of(f32("B", {2}, {1, 2}))}) ==
      "E0212");
  const auto symbolic = built("function (A[M, N], B[K]) -> (Y) { Y = A + B; }");
  REQUIRE(symbolic.program.has_value());
  REQUIRE(symbolic.program->requirements.size() == 1);
  CHECK(symbolic.program->requirements[0].left == Size::named("N"));
  CHECK(symbolic.program->requirements[0].right == Size::named("K"));
}

TEST_CASE("reshape, shape and index") {
  const Input a = f32("A", {2, 3}, counting(6));
  CHECK(run("function (A[M, N]) -> (Y) { Y = reshape(A, N, M); }", {a})[0] == counting(6));
  CHECK(run("function (A[M, N], B[M]) -> (Y) { Y = A * reshape(B, M, 1) + reshape(A + 0, 1, M, N); }",
            {a, f32("B", {2}, {1, 10})})[0] == Values{2, 4, 6, 44, 55, 66});
  CHECK(run("function (A[M, N]) -> (Y) { Y = reshape(reshape(A * 2, M*N), N, M) + 1; }", {a})[0] ==
      Values{3, 5, 7, 9, 11, 13});
  CHECK(run("function (A[M, N]) -> (Y) { Y = shape(A); }", {a})[0] == Values{2, 3});
  CHECK(
      run("function (A[M, N]) -> (Y) { Y = index(A, 1) * 10 + index(A, 0); }", {a})[0] == Values{0, 10, 20, 1, 11, 21});
  CHECK(output_types("function (A[M, N]) -> (Y, Z) { Y = shape(A); Z = index(A, 1); }") == "i32 i32");
}

TEST_CASE("sizes are exact integers that truncate") {
  const Input i = f32("I", {7}, counting(7));
  CHECK(run("function (I[N]) -> (O) { P = N/2; Q = (0 - N)/2; O[] = +(I[i + P]), i < -Q; }", {i})[0] ==
      Values{4 + 5 + 6});
  CHECK(run("function (I[N]) -> (O) { P = N/2; O = P + 0*I; }", {i})[0] == Values(7, 3));
  CHECK(run("function (I[N]) -> (O) { P = N < 3 ? 5 : 2; O[i: P] = =(I[i]); }", {i})[0] == Values{1, 2});
  CHECK(faults("function (I[N]) -> (O) { O[i: N/(N - 7)] = +(I[i]); }", {given_of(i)}) == "E0209");
  CHECK(faults("function (I[N]) -> (O) { O[i: N*9223372036854775807] = +(I[i]); }", {given_of(i)}) == "E0209");
  CHECK(faults("function (I[N]) -> (O) { O[i: N - 8] = +(I[i]); }", {given_of(i)}) == "E0210");
}

TEST_CASE("a scalar that indices use becomes a size, others stay tensors") {
  const std::string text = "function (I[N], S, F) -> (O) { O[i: N/S] = +(I[S*i]*F); }";
  const auto result = built(text,
      {{.name = "I", .shape = std::vector<Size>{6}}, {.name = "S", .integer = 2},
          {.name = "F", .dtype = DType::F64, .shape = std::vector<Size>{}, .weak = true}});
  REQUIRE(result.program.has_value());
  CHECK(result.program->inputs.size() == 2);
  CHECK(result.program->sizes.empty());
  CHECK(result.program->tensor(result.program->outputs[0]).dtype == DType::F32);
  const auto symbolic = built("function (I[N], S) -> (O) { O[i: N/S] = +(I[S*i]); }");
  REQUIRE(symbolic.program.has_value());
  CHECK(symbolic.program->sizes == std::vector<std::string>{"S", "N"});
  CHECK(faults(text, {{.name = "S", .dtype = DType::F32, .shape = std::vector<Size>{}}, {.name = "F", .weak = true}}) ==
      "E0207");
}

TEST_CASE("literals take the type they meet") {
  CHECK(type_of("X + 1", "u8") == "u8");
  CHECK(type_of("0.5 * H", "u8") == "f16");
  CHECK(type_of("X * 0.5", "i32") == "f32");
  CHECK(type_of("X + F", "i64") == "f32");
  CHECK(type_of("D * 0.1 + X", "f32") == "f64");
  CHECK(type_of("X < 3", "f32") == "bool");
  CHECK(type_of("X < 3 ? H : 1", "f32") == "f16");
  CHECK(type_of("B + B", "f32") == "i32");
  CHECK(type_of("B & B", "f32") == "bool");
  CHECK(type_of("exp(X)", "i32") == "f32");
  CHECK(type_of("exp(H)", "i32") == "f16");
  CHECK(type_of("N * U", "i32") == "u8");
  CHECK(type_of("X + X", "i8") == "i8");
  CHECK(type_of("U + X", "i8") == "i16");
  CHECK(type_of("as_float(X, 16)", "i8") == "f16");
  CHECK(type_of("bf16(X)", "i8") == "bf16");
  CHECK(output_types("function (X[N]) -> (A, B, C, D) { A = 3; B = 2.5; C = N; D = exp(1); }") == "i32 f32 i64 f32");
  CHECK(output_types("function (X[N]) -> (A) { E = 1e-5; P = 2*E; A = f64(X) * P; }") == "f64");
}

TEST_CASE("folds accumulate wide and keep the body's type") {
  CHECK(
      output_types(
          "function (f16 A[N], i8 B[N], bool C[N], u64 D[N], bf16 E[N]) -> (P, Q, R, S, T) { P[] = +(A[i]); Q[] = +(B[i]); R[] = +(C[i]); S[] = *(D[i]); T[] = >(E[i]); }") ==
      "f16 i8 i32 u64 bf16");
  const auto result = built("function (f16 A[N]) -> (P) { P[] = +(A[i] * A[i]); }");
  CHECK(std::get<Statement>(result.program->nodes[0]).value.type() == DType::F32);
  CHECK(output_types("function (f16 A[N]) -> (f32 P, Q) { P[] = +(A[i]); f64 Q[] = +(A[i]); }") == "f32 f64");
  CHECK(run("function (i8 A[N]) -> (P, Q) { P[] = +(A[i]); i32 Q[] = +(A[i]*A[i]); }",
            {{"A", DType::I8, {3}, {100, 100, 100}}}) == std::vector<Values>{{44}, {30000}});
  CHECK(
      output_types(
          "function (A[N], B[N], f16 C[N]) -> (P, Q, R) { P[i: N] = =(A[i] == B[i] ? C[i]); Q[] = +(A[i] == B[i]); R[i: N] = =(i); }") ==
      "f16 i32 i64");
}

TEST_CASE("constants that do not fit are errors, casts by name wrap") {
  CHECK(faults("function (u8 X[N]) -> (Y) { Y = X + 300; }") == "E0215");
  CHECK(faults("function (u8 X[N]) -> (Y) { Y = X * -1; }") == "E0215");
  CHECK(faults("function (f16 X[N]) -> (Y) { Y = X * 1e9; }") == "E0215");
  CHECK(faults("function (X[N]) -> (Y) { Y = 3000000000; }") == "E0215");
  CHECK(run("function (u8 X[N]) -> (Y) { Y = X + u8(300); }", {{"X", DType::U8, {1}, {1}}})[0] == Values{45});
  CHECK(run("function (u64 X[N]) -> (Y) { Y = X == 18446744073709551615; }", {{"X", DType::U64, {2}, {-1, 1}}})[0] ==
      Values{1, 0});
}

TEST_CASE("an index is not narrowed by what it is compared with") {
  const auto hot =
      run("function (u8 L[N]) -> (O) { O[n, c: N, 300] = =(L[n] == c); }", {{"L", DType::U8, {1}, {3}}})[0];
  CHECK(hot[3] == 1);
  CHECK(hot[259] == 0);
}

TEST_CASE("float literals keep double precision in f64") {
  CHECK(run("function (f64 X[N]) -> (Y) { Y = X * 0.1; }", {{"X", DType::F64, {1}, {1}}})[0] == Values{0.1});
  CHECK(
      run("function (f64 X[N]) -> (Y) { T = 1.0/3; Y = X * T; }", {{"X", DType::F64, {1}, {1}}})[0] == Values{1.0 / 3});
}

TEST_CASE("an index nothing bounds is named, decided on coefficients") {
  CHECK(faults("function (A[N]) -> (O) { O[i: N] = +(A[i + k] * A[i + k]), k >= 0; }") == "");
  CHECK(faults("function (A[N]) -> (O) { O[] = +(A[i + k]); }") == "E0240 E0240");
  CHECK(faults("function (A[N]) -> (O) { O[i: N] = +(A[i]*k); }") == "E0240");
  CHECK(faults("function (A[N]) -> (O) { O[i: N] = +(A[i]*k), k >= 0; }") == "E0240");
  CHECK(faults("function (A[N]) -> (O) { O[i: N] = +(A[i]*k), k >= 0, k <= i; }") == "");
  CHECK(faults("function (A[N]) -> (O) { O[] = +(A[i + k]), i - k < N; }") == "");
  CHECK(faults("function (A[N]) -> (O) { O[i: N] = +(A[i]), j < 3; }") == "E0213");
  CHECK(faults("function (A[N]) -> (O) { O[i: N] = +(A[i]), 0 <= j < 3; }") == "");
  CHECK(faults("function (A[N]) -> (O) { O[i: N] = +(A[i + 0*k]); }") == "E0240");
}

TEST_CASE("ranks, sizes and shapes that disagree") {
  CHECK(faults("function (A[M, N]) -> (B) { B[i: M] = +(A[i, j, k]); }") == "E0201");
  CHECK(faults("function (A[M, N]) -> (B) { B[i, j: M] = +(A[i, j]); }") == "E0211");
  CHECK(faults("function (A[N], B[N]) -> (C) { C = A + B; }",
            {{.name = "A", .shape = std::vector<Size>{3}}, {.name = "B", .shape = std::vector<Size>{4}}}) == "E0202");
  CHECK(faults("function (A[N], B[(N + 1)/2]) -> (C) { C = A; }",
            {{.name = "A", .shape = std::vector<Size>{3}}, {.name = "B", .shape = std::vector<Size>{3}}}) == "E0203");
  CHECK(faults("function (A[N]) -> (C) { C = A; }", {{.name = "A", .shape = std::vector<Size>{3, 2}}}) == "E0204");
  CHECK(faults("function (f16 A[N]) -> (C) { C = A; }",
            {{.name = "A", .dtype = DType::F32, .shape = std::vector<Size>{3}}}) == "E0205");
  CHECK(faults("function (A) -> (C) { C = A; }") == "E0206");
  CHECK(faults("function (A[N], B[M]) -> (C) { C[i: N] = =(A[i]) default B; }",
            {{.name = "A", .shape = std::vector<Size>{3}}, {.name = "B", .shape = std::vector<Size>{4}}}) == "E0216");
  CHECK(faults("function (A[N], f16 B[N]) -> (C) { f16 C[i: N] = =(B[i]) default A; }") == "E0216");
  CHECK(faults("function (A[N], f16 B[N]) -> (C) { C[i: N] = =(B[i]) default A; }").empty());
  CHECK(faults("function (A[N]) -> (C) { C = reshape(A, 2, 2); }", {{.name = "A", .shape = std::vector<Size>{3}}}) ==
      "E0217");
  CHECK(faults("function (A[N]) -> (C) { C = index(A, 1); }") == "E0218");
  CHECK(faults("function (A[N]) -> (C) { C = as_float(A, 8); }") == "E0219");
  CHECK(faults("function (A[N]) -> (C) { C = pow(A); }") == "E0220");
  CHECK(faults("function (f32 A[N]) -> (C) { C = A & 1; }") == "E0214");
  CHECK(faults("function (A[N]) -> (C) { C[i: N] = +(A[i*i]); }") == "E0208");
}

TEST_CASE("several faults are reported in one run, their consequences are not") {
  CHECK(faults("function (f32 A[N]) -> (C, D) { B = A & 1; C = B + 1; D[i: N] = +(A[i, i]); }") == "E0214 E0201");
}

TEST_CASE("a fraction that no integer meets is warned about") {
  CHECK(faults("function (A[N], K[M]) -> (O) { O[x: N] = +(A[x + k - M/2] * K[k]); }",
            {{.name = "A", .shape = std::vector<Size>{8}}, {.name = "K", .shape = std::vector<Size>{3}}}) == "W0201");
  CHECK(faults("function (A[N]) -> (O) { O[x: N] = +(A[x + 1/2]); }") == "W0201");
  CHECK(faults("function (A[N]) -> (O) { O[x: N] = +(A[(x + 1)/2]); }") == "");
}

TEST_CASE("values and inputs by name, in any order, make the program that they make in their places") {
  std::mt19937 random(20);
  const std::string callee =
      "function f<a=1, b=a, how={plus, minus}, g=abs>(X[N], Y[N] = 2, Z[N] = 0) -> (O) { T = g(X * a + b); O[i: N] = =(how == plus ? T[i] * Y[i] + Z[i] : Z[i] - T[i]); } ";
  const std::vector<std::string> parameters{"a", "b", "how", "g"}, values{"2", "3", "minus", "exp"},
      inputs{"X", "Y", "Z"}, arguments{"P", "Q", "R"};
  // `places` of them without a name, of the others those that are `kept`, in another order.
  const auto list = [&](const std::vector<std::string>& names, const std::vector<std::string>& given,
                        const std::vector<bool>& kept, std::size_t places, bool shuffled) {
    std::vector<std::size_t> order(names.size() - places);
    std::iota(order.begin(), order.end(), places);
    if (shuffled) std::shuffle(order.begin(), order.end(), random);
    std::string text;
    for (std::size_t k = 0; k < places; ++k) text += (text.empty() ? "" : ", ") + given[k];
    for (const std::size_t k : order)
      if (kept[k]) text += (text.empty() ? "" : ", ") + names[k] + "=" + given[k];
    return text;
  };
  const auto program = [&](const std::string& call) {
    const auto outcome = built(callee + "function (P[N], Q[N], R[N]) -> (O) { O = " + call + "; }");
    REQUIRE_MESSAGE(outcome.program.has_value(), call);
    return print(*outcome.program);
  };
  for (int round = 0; round < 200; ++round) {
    const std::size_t parameter_places = random() % 5, input_places = 1 + random() % 3;
    std::vector<bool> kept_parameters(4), kept_inputs(3);
    for (std::size_t k = 0; k < 4; ++k) kept_parameters[k] = k < parameter_places || random() % 2;
    for (std::size_t k = 0; k < 3; ++k) kept_inputs[k] = k < input_places || random() % 2;
    const auto call = [&](bool shuffled) {
      const std::string in = list(parameters, values, kept_parameters, shuffled ? parameter_places : 0, shuffled);
      return "f" + (in.empty() ? in : "<" + in + ">") + "(" +
          list(inputs, arguments, kept_inputs, shuffled ? input_places : 1, shuffled) + ")";
    };
    CHECK_MESSAGE(program(call(true)) == program(call(false)), call(true));
    // What is not given is its default, as if that were written.
    std::vector<std::string> all = values;
    const std::vector<std::string> usual{"1", kept_parameters[0] ? "2" : "1", "plus", "abs"};
    for (std::size_t k = 0; k < 4; ++k) all[k] = kept_parameters[k] ? values[k] : usual[k];
    const std::string written = "f<" + list(parameters, all, {true, true, true, true}, 4, false) + ">(" +
        list(inputs, arguments, kept_inputs, 1, false) + ")";
    CHECK_MESSAGE(program(call(true)) == program(written), written);
  }
}

TEST_CASE("an input that is not given computes what its default computes") {
  const auto x = f32("X", {2, 3}, {1, -2, 3, 0.5, 5, -6});
  const std::string body =
      " -> (Y, S) { Y[i, j: M, N] = =(X[i, j] * G[j] - B[i, j] / G[j]); S[] = +(G[j + k]), k < 2; }";
  for (const double number : {1.0, 0.0, -3.0, 0.25}) {
    const std::string shown = std::to_string(number);
    const auto absent = run("function f(X[M, N], G[N] = " + shown + ", B[M, N] = 2.0)" + body +
            " function (X[M, N]) -> (Y, S) { (Y, S) = f(X); }",
        {x});
    const auto given = run("function (X[M, N], G[N], B[M, N])" + body,
        {x, f32("G", {3}, std::vector<double>(3, number)), f32("B", {2, 3}, std::vector<double>(6, 2.0))});
    for (std::size_t output = 0; output < 2; ++output)
      for (std::size_t k = 0; k < given[output].size(); ++k)
        CHECK(
            (absent[output][k] == given[output][k] || (std::isnan(absent[output][k]) && std::isnan(given[output][k]))));
  }
}
