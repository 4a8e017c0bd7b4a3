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
Made run(const std::string& text, const Sizes& sizes, Random& random) {
  CAPTURE(text);
  const Request request = request_for(sizes, *runtime::target_here("cuda"));
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
          {{"N", 40}, {"P", 96}, {"C", 33}}},
      {"f(X[N, P, C]) -> (V) { M[n, c: N, C] = +(X[n, p, c] / P); V[n, c: N, C] = +((X[n, p, c] - M[n, c]) * (X[n, p, c] - M[n, c]) / P); }",
          {{"N", 3}, {"P", 837}, {"C", 45}}},
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
