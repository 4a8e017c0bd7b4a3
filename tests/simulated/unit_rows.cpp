// Programs of rows on a simulated GPU, as they are planned, against the interpreter: rows that are many and short, or
// scanned, of lengths that fill no warp and no access.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "codegen/simt/emit.h"
#include "runtime/device.h"
#include "tests/backends/programs.h"
#include "tests/codegen/compiled.h"
#include "tests/simulated/check_run.h"

namespace tilec::test {
namespace {

using namespace codegen;
using backends::Random;

// What is planned, and how it is spelled; what it computes is checked.
struct Made { std::string plan, text; };
Made run(const std::string& text, const Sizes& sizes, Random& random, const std::string& given = "") {
  CAPTURE(text);
  Request request = request_for(sizes, *runtime::target_here("cuda"));
  if (!given.empty()) request.plan = PlanText{given};
  lang::Diagnostics diagnostics;
  const auto stages = codegen::compile(parsed(text), request, Until::Lowered, diagnostics);
  REQUIRE(stages);
  const std::string plan = print(*stages->plan);
  CAPTURE(plan);
  check_run(*stages, request, random);
  return {plan, simt::emit(*stages->lowered, simt::Dialect::Cuda)};
}

bool holds(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("four blocks of a warp are one: each has its row, its barriers and its shared memory") {
  Random random(3);
  const std::string softmax =
      "function f(X[M, N]) -> (Y) {{ Mx[i: M] = >(X[i, j]); S[i: M] = +(exp(X[i, j] - Mx[i])); Y[i, j: M, N] = =({}); }}";
  for (const int columns : {1, 33, 64}) {
    const Made made = run(fmt::format(fmt::runtime(softmax), "exp(X[i, j] - Mx[i]) / S[i]"),
        {{"M", 4301}, {"N", columns}}, random);
    CHECK((columns == 1 || (holds(made.plan, "threads 32") && holds(made.text, "__syncwarp();"))));
  }
  const Made sums = run("function f(X[M, N]) -> (S) { S[i: M] = +(X[i, j] * X[i, j]); }", {{"M", 4302}, {"N", 77}}, random);
  CHECK((holds(sums.plan, "threads 32") && holds(sums.text, "1076 x 1 x 1 blocks of 128 threads")));
}

TEST_CASE("short rows come through shared memory, and a thread folds each") {
  Random random(4);
  const std::pair<std::string, std::int64_t> sums[] = {{"f(A[M, N]) -> (S) { S[i: M] = +(A[i, j]); }", 33},
      {"f(A[M, N], B[M, N]) -> (S) { S[i: M] = +(A[i, j] * B[i, j]); }", 10},
      {"f(A[M, N], C[M]) -> (Y) { S[i: M] = >(A[i, j] - C[i]); Y[i: M] = =(S[i] + C[i]); }", 16},
      {"f(f16 A[M, 3, N]) -> (f32 S) { S[i: M] = +(f32(A[i, k, j])); }", 7}};
  for (const auto& [text, columns] : sums) {
    const Made made = run("function " + text, {{"M", 135201}, {"N", columns}}, random);
    CHECK((holds(made.plan, "A_t") && holds(made.plan, "by 64")));
  }
}

TEST_CASE("threads that scan have several values in one access, where they are aligned and there are as many") {
  Random random(5);
  const char* const statements[] = {"+(X[i, k]), k <= j", "+(X[i, k]), k < j", ">(X[i, k] * W[k]), k <= j + 2",
      "+(X[i, k] * W[N - 1 - k]), k >= j"};
  for (const char* statement : statements)
    for (const int columns : {256, 602, 1001}) {
      const Made made = run(fmt::format("function f(X[M, N], W[N]) -> (Y) {{ Y[i, j: M, N] = {}; }}", statement),
          {{"M", 3}, {"N", columns}}, random);
      CHECK(holds(made.plan, "scan Y"));
      CHECK((columns != 256 || holds(made.text, "__builtin_assume_aligned(")));
    }
}

TEST_CASE("narrow elements of a thread are one access, and those that are left are read one by one") {
  Random random(7);
  struct Case { std::string text, leaf; std::int64_t columns; int wide; };
  const Case cases[] = {
      {"f(bf16 X[M, N]) -> (bf16 Y) { Y[i, j: M, N/2] = =(bf16(f32(X[i, j]) * f32(X[i, j + div(N, 2)]))); }",
          "over i  m j  block 8x1", 48, 3},
      {"f(f16 X[M, N], f32 S[M], f16 B[N]) -> (f16 Y) { Y[i, j: M, N] = =(f16(f32(X[i, j]) * S[i] + f32(B[j]))); }",
          "over i  m j  block 8x1", 36, 3},
      {"f(bf16 X[M, N], f32 B[N]) -> (i8 Y) { Y[i, j: M, N - 3] = =(i8(f32(X[i, j]) * B[j + 3])); }",
          "over i  m j  block 4x1", 44, 1},
      {"f(u8 X[M, N]) -> (bf16 Y) { Y[i, j: M, N] = =(bf16(X[i, j]) * 0.5); }", "m i_j  block 8x1", 77, 2},
      {"f(f16 X[M, N]) -> (f16 Y) { Y[i, j: M, N] = =(X[i, j]), j <= i; }", "over i  m j  block 4x1", 40, 0}};
  for (const Case& c : cases) {
    const Made made = run("function " + c.text, {{"M", 19}, {"N", c.columns}}, random,
        fmt::format("group Y  threads 128\n  map Y  {}  lanes 128\n", c.leaf));
    const std::string words = "__builtin_assume_aligned(";
    int wide = 0;
    for (std::size_t at = made.text.find(words); at != std::string::npos; at = made.text.find(words, at + 1)) ++wide;
    CHECK(wide == c.wide);
  }
  const Made chosen = run("function f(bf16 X[N]) -> (bf16 Y) { Y[i: N] = =(bf16(2.0 * f32(X[i]))); }",
      {{"N", 300001}}, random);
  CHECK(holds(chosen.plan, "m i  block 2x1"));
}

TEST_CASE("steps of a sum read neighbours at once, and those that are left one by one") {
  Random random(9);
  struct Case { std::string text; bool wide; };
  const Case cases[] = {{"f(A[K, N], X[K]) -> (Y) { Y[j: N] = +(A[i, j] * X[i]); }", true},
      {"f(bf16 A[K, N], bf16 X[K]) -> (f32 Y) { Y[j: N] = +(f32(A[i, j]) * f32(X[i])); }", true},
      {"f(A[K, N], X[K]) -> (Y) { Y[j: N] = >(A[i, j] - X[i + 4]); }", true},
      {"f(A[K, N], X[K]) -> (Y) { Y[j: N] = +(A[i, j] * X[i + 3]); }", false},
      {"f(A[N, 84], B[N, 84], X[84]) -> (Y) { Y[i, j: N, N] = +(A[i, k] * B[j, k] * X[k]); }", true},
      {"f(i8 A[N, 84], B[84, N]) -> (Y) { Y[i, j: N, N] = +(f32(A[i, k]) * B[k, j]); }", true}};
  for (const Case& c : cases)
    for (const int columns : {5, 131}) {
      if (columns > 100 && c.text.find("84") != std::string::npos) continue;
      const Made made = run("function " + c.text, {{"N", columns}, {"K", 91}}, random);
      CHECK((columns < 100 || holds(made.plan, "contract Y")));
      CHECK((!holds(made.plan, "contract Y") || holds(made.text, "__builtin_assume_aligned(") == c.wide));
    }
}

TEST_CASE("reshapes of which one shape cuts the other take no launch") {
  Random random(10);
  struct Case { std::string text; std::int64_t launches; };
  const Case cases[] = {
      {"f(X[N, C, M, 5]) -> (Y) { R = reshape(X, N, C/9, 3, 3, M, 5); S[n, c, y, a, x, b: N, C/9, M, 3, 5, 3] = =(R[n, c, a, b, y, x]); Y = reshape(S, N, C/9, 3*M, 15); }",
          1},
      {"f(X[M, 7, N]) -> (Y) { T[b, t: M, 7] = >(X[b, t, c]); E[b, t, c: M, 7, N] = =(exp(X[b, t, c] - T[b, t])); S[b, t: M, 7] = +(E[b, t, c]); P[b, t, c: M, 7, N] = =(E[b, t, c] / S[b, t]); Y = reshape(P, 7*M*N); }",
          1},
      {"f(X[M, 7, N]) -> (Y) { A = X * 2.0; R = reshape(A, 7*M, N); Y[i, j: 7*M, N] = +(R[i, k]), k <= j; }", 2},
      {"f(X[M, 7, N]) -> (Y) { A = reshape(X, 7*M, N); B = reshape(A, N, 7*M); Y = B + 1.0; }", 3},
      {"f(X[M, 7, N]) -> (Y) { A[b, t + 1, c: M, 9, N] = =(X[b, t, c]); Y = reshape(A, 9*M, N); }", 2}};
  for (const Case& c : cases) {
    const Made made = run("function " + c.text, {{"M", 4}, {"N", 6}, {"C", 18}}, random);
    std::int64_t launches = 0;
    for (std::size_t at = made.plan.find("group "); at != std::string::npos; at = made.plan.find("group ", at + 1))
      ++launches;
    CHECK(launches == c.launches);
  }
}

TEST_CASE("integers between launches are as narrow as they are proven to be") {
  Random random(8);
  const char* const first =
      "function f(X[M, K], D[M]) -> (Y) {{ Mx[i: M] = >(X[i, k]); F[i: M] = <(X[i, k] == Mx[i] & D[i] > 0.0 ? k + {} : {}); Y[i, k: M, K] = =(F[i] == k + {} ? D[i] : (F[i] > 70000 ? 2.0 : 0.0)); }}";
  const char* const count =
      "function f(X[M, K]) -> (Y) { C[i: M] = +(X[i, k] > 0.0 ? i64(1) : i64(0)); Y[i, k: M, K] = =(X[i, k] * f32(C[i])); }";
  const std::string none = "9223372036854775807";
  struct Case { std::string text; std::int64_t columns; std::string type; };
  const Case cases[] = {{fmt::format(fmt::runtime(first), 0, none, 0), 255, "unsigned char"},
      {fmt::format(fmt::runtime(first), 0, none, 0), 256, "unsigned short"},
      {fmt::format(fmt::runtime(first), 0, 255, 0), 256, "unsigned char"},
      {fmt::format(fmt::runtime(first), 0, 0, 0), 257, "unsigned short"},
      {fmt::format(fmt::runtime(first), -128, -1, -128), 256, "signed char"},
      {fmt::format(fmt::runtime(first), -129, -1, -129), 256, "short"},
      {fmt::format(fmt::runtime(first), -1, none, -1), 256, "long long"},
      {fmt::format(fmt::runtime(first), 0, none, 0), 65535, "unsigned short"},
      {fmt::format(fmt::runtime(first), 0, none, 0), 65536, "unsigned int"}, {count, 255, "unsigned char"},
      {count, 256, "unsigned short"}};
  for (const Case& c : cases)
    for (const bool apart : {true, false}) {
      if (!apart && c.columns != 255) continue;
      const Made made = run(
          c.text, {{"M", c.columns > 300 ? 2 : 9}, {"K", c.columns}}, random, apart ? "no share\nno split\n" : "");
      const std::string name = c.text.find("F[") != std::string::npos ? "F" : "C";
      CHECK((!apart || holds(made.text, fmt::format(", {}* __restrict__ {}", c.type, name))));
    }
}

TEST_CASE("parts of sums of few columns are cut along a second index, and added up by warps") {
  Random random(6);
  const Made made = run("function f(X[N, H, W, C]) -> (S) { S[c: C] = +(X[n, y, x, c]); }",
      {{"N", 32}, {"H", 14}, {"W", 13}, {"C", 40}}, random);
  CHECK((holds(made.plan, "split S_parts") && holds(made.plan, "share S_parts_1 S")));
}

TEST_CASE("squares of distances to a mean are summed beside the values, and what adds both up is one launch") {
  Random random(7);
  const std::string sums = "M[c: C] = +(X[b, p, c] / (N * P)); V[c: C] = +((X[b, p, c] - M[c]) * (X[b, p, c] - M[c]))";
  const std::pair<std::string, Sizes> centered[] = {
      {"f(X[N, P, C]) -> (V) { " + sums + "; }", {{"N", 40}, {"P", 96}, {"C", 70}}},
      {"f(f16 X[N, P, C]) -> (f32 V) { M[c: C] = +(2.0 * f32(X[b, p, c])); V[c: C] = +(0.5 * ((f32(X[b, p, c]) - M[c] / 7680) * (f32(X[b, p, c]) - M[c] / 7680))); }",
          {{"N", 32}, {"P", 196}, {"C", 65}}},
      {"f(X[N, P, C]) -> (V) { M[n, c: N, C] = +(X[n, p, c] / P); V[n, c: N, C] = +((X[n, p, c] - M[n, c]) * (X[n, p, c] - M[n, c]) / P); }",
          {{"N", 1}, {"P", 3348}, {"C", 45}}},
      // the first value of a part is far from all others
      {"f(X[N, P, C]) -> (V) { Y[n, p, c: N, P, C] = =(p == 0 ? 1e6 : X[n, p, c]); M[n, c: N, C] = +(Y[n, p, c] / P); V[n, c: N, C] = +((Y[n, p, c] - M[n, c]) * (Y[n, p, c] - M[n, c]) / P); }",
          {{"N", 1}, {"P", 3348}, {"C", 45}}},
      {"f(X[N, P, C], G[C]) -> (D) { " + sums + "; D[c: C] = =(G[c] / sqrt(V[c] + 0.1)); }",
          {{"N", 32}, {"P", 196}, {"C", 64}}}};
  for (const auto& [text, sizes] : centered) CHECK(holds(run("function " + text, sizes, random).plan, "center V_parts"));
  // a part of another length, or values that are not the same
  const std::pair<std::string, Sizes> others[] = {
      {"f(X[N, P, C]) -> (V) { " + sums + "; }", {{"N", 1}, {"P", 5003}, {"C", 70}}},
      {"f(X[N, P, C], Z[N, P, C]) -> (V) { M[c: C] = +(Z[b, p, c]); V[c: C] = +((X[b, p, c] - M[c]) * (X[b, p, c] - M[c])); }",
          {{"N", 40}, {"P", 96}, {"C", 70}}}};
  for (const auto& [text, sizes] : others) CHECK(!holds(run("function " + text, sizes, random).plan, "center"));
}

TEST_CASE("a block has a strip of columns, down which it folds and goes on") {
  Random random(9);
  const std::string softmax =
      "M[n, x: N, X] = >(A[n, c, x]); E[n, c, x: N, C, X] = =(exp(A[n, c, x] - M[n, x])); S[n, x: N, X] = +(E[n, c, x]); ";
  const std::tuple<std::string, Sizes, std::string> columns[] = {
      {"f(A[N, C, X]) -> (Y) { " + softmax + "Y[n, c, x: N, C, X] = =(E[n, c, x] / S[n, x]); }",
          {{"N", 3}, {"C", 21}, {"X", 45}}, "share M E S Y  rows n x"},
      {"f(A[N, C, X]) -> (Y) { " + softmax + "Y[n, c, x: N, C, X] = =(E[n, c, x] / S[n, x]); }",
          {{"N", 2}, {"C", 301}, {"X", 9}}, "share M_parts M E S_parts S Y  rows n x"},
      {"f(f16 A[N, C, X], G[C]) -> (Y) { V[n, x: N, X] = +(f32(A[n, c, x]) * f32(A[n, c, x]) / C); Y[n, c, x: N, C, X] = =(f16(f32(A[n, c, x]) / sqrt(V[n, x] + 0.1) * G[c])); }",
          {{"N", 2}, {"C", 130}, {"X", 70}}, "share V_parts V Y  rows n x"},
      // two folds of tensors of their own
      {"f(A[N, C, X], B[N, C, X]) -> (Y) { " + softmax + "T[n, x: N, X] = +(B[n, c, x]); Y[n, c, x: N, C, X] = =(B[n, c, x] - E[n, c, x] / S[n, x] * T[n, x]); }",
          {{"N", 3}, {"C", 21}, {"X", 45}}, "T Y  rows n x"}};
  for (const auto& [text, sizes, words] : columns) CHECK(holds(run("function " + text, sizes, random).plan, words));
}

TEST_CASE("what goes on from a few sums is computed where they are") {
  Random random(8);
  const std::pair<std::string, std::string> tails[] = {
      {"f(X[N, C], W[C]) -> (L) { S[] = +(X[n, c] * X[n, c]); T[] = +(W[c]); L[] = =(sqrt(S[]) / (T[] * T[] + 1)); }", "share S T L\n"},
      {"f(X[N, C], W[C]) -> (Y) { S[c: C] = +(X[n, c]); T[c: C] = =(S[c] * W[c]); Y[c: C] = =(T[c] * T[c] + S[c]); }",
          "share S_parts_1 S "}};
  for (const auto& [text, words] : tails)
    CHECK(holds(run("function " + text, {{"N", 7001}, {"C", 66}}, random).plan, words));
}

}  // namespace tilec::test
