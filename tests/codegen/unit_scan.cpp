// Which contractions are scans, that their work is linear, and that cutting them in blocks leaves their meaning.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "codegen/pipeline.h"
#include "codegen/rewrite.h"
#include "codegen/scan.h"
#include "lang/parse.h"
#include "lang/render.h"
#include "poly/interpret.h"
#include "tests/codegen/points.h"

using namespace tilec;
using namespace tilec::codegen;

namespace {

using Sizes = std::map<std::string, std::int64_t>;

Stages compiled(const std::string& text, const Sizes& sizes, const Target& target) {
  lang::Diagnostics diagnostics;
  const lang::Source source{"test.tile", text};
  const auto file = lang::parse(source, diagnostics);
  REQUIRE_MESSAGE(file, lang::render(diagnostics, {source}, {}));
  Request request;
  request.sizes = sizes;
  request.target = target;
  auto stages = compile(*file, request, Until::Lowered, diagnostics);
  REQUIRE_MESSAGE(stages, lang::render(diagnostics, {source}, {}));
  return std::move(*stages);
}
Stages compiled(const std::string& text, const Sizes& sizes, const char* target = "cpu:x86-64-v4") { return compiled(text, sizes, *target_named(target)); }

int scans(const Plan& plan) {
  int count = 0;
  for (const Group& group : plan.groups) for (const Compute& leaf : group.body) count += leaf.form == LeafForm::Scan;
  return count;
}
int scans(const std::string& statement) {
  return scans(*compiled("function (X[N], A[R, N], B[N, R], D[N]) -> (Y) { " + statement + " }", {{"N", 50}, {"R", 7}}).plan);
}

poly::Array whole_numbers(const poly::Tensor& tensor) {
  poly::Array a{tensor.dtype, {}, {}, {}};
  for (const poly::Size& n : tensor.shape) a.shape.push_back(n.get());
  for (std::int64_t k = 0; k < a.count(); ++k) a.reals.push_back(static_cast<double>((k * 7919 + k / 13) % 11 - 5));
  return a;
}

std::vector<poly::Array> outputs(const poly::Program& program) {
  std::vector<poly::Array> inputs;
  for (const poly::TensorId id : program.inputs) inputs.push_back(whole_numbers(program.tensor(id)));
  return poly::interpret(program, inputs).outputs;
}

}  // namespace

TEST_CASE("a triangle whose value does not depend on the output index is a scan") {
  for (const std::string constraint : {"k <= j", "k < j", "k >= j", "k >= j + 1", "k <= j + 3", "k >= j - 3", "j + k < 40", "j + k >= 9", "2*k <= 3*j + 1", "3*k >= j"}) {
    CAPTURE(constraint);
    CHECK(scans(fmt::format("Y[j: N] = +(X[k]), {};", constraint)) == 1);
    CHECK(scans(fmt::format("Y[r, j: R, N] = *(A[r, k]), {} default 1;", constraint)) == 1);
    CHECK(scans(fmt::format("Y[j, r: N, R] = >(B[k, r] * X[k] + k), {} default -inf;", constraint)) == 1);
    CHECK(scans(fmt::format("Y[j: N] = <(X[{} - k]), {} default D;", 49, constraint)) == 1);
    CHECK(scans(fmt::format("Y[j: N] = +(X[k] * B[k, d]), {};", constraint)) == 1);
  }
}

TEST_CASE("windows, values that depend on the output index and coupled reductions are none") {
  CHECK(scans("Y[j: N] = +(X[k]), 0 <= j - k < 5;") == 0);
  CHECK(scans("Y[j: N] = +(max(X[k], D[j])), k <= j;") == 0);
  CHECK(scans("Y[r, j: R, R] = +(A[r, k] * A[j, k]), k <= j;") == 0);
  CHECK(scans("Y[j: N] = +(X[k]);") == 0);
}

TEST_CASE("plans with scans read back from their print") {
  for (const char* target : {"cpu:x86-64-v4", "cpu:x86-64-v3", "opencl", "cuda:sm_90a"})
    for (const auto& [text, sizes] : {std::pair<const char*, Sizes>{"function (X[M, N]) -> (Y) { Y[i, j: M, N] = +(X[i, k]), k <= j; }", {{"M", 200}, {"N", 300}}},
                                      {"function (X[M, N]) -> (Y) { Y[j, i: M, N] = +(X[k, i]), k <= j; }", {{"M", 200}, {"N", 3000}}},
                                      {"function (X[N]) -> (Y) { Y[j: N] = +(X[k]), k <= j; }", {{"N", 1000000}}}}) {
      const Stages stages = compiled(text, sizes, target);
      CHECK(scans(*stages.plan) >= 1);
      CHECK(print(*stages.plan).find("scan Y") != std::string::npos);
      std::string message;
      const auto groups = parse_groups(print(*stages.plan), stages.plan->program, message);
      REQUIRE_MESSAGE(groups, message);
      CHECK(*groups == stages.plan->groups);
    }
}

TEST_CASE("the work of a scan is linear") {
  const std::int64_t n = 3001, rows = 17;
  for (const char* target : {"cpu:x86-64-v4", "cpu:x86-64-v3"})
    for (const std::string statement : {"Y[i, j: M, N] = +(X[i, k]), k <= j;", "Y[j, i: N, M] = +(X[i, k]), k <= j;", "Y[i, j: M, N] = >(X[i, k]), k >= j + 1;", "Y[i, j: M, N] = +(X[i, k]), k <= j + 100;",
                                  "Y[i, j: M, N] = +(X[i, k]), 2*k <= 3*j;", "Y[i, j: M, N] = +(X[i, k]), k >= 2*j;"}) {
      CAPTURE(statement);
      const Stages stages = compiled(fmt::format("function (X[M, N]) -> (Y) {{ {} }}", statement), {{"M", rows}, {"N", n}}, target);
      const Steps steps = fold_steps(*stages.lowered);
      CHECK(steps.steps > 0);
      CHECK(steps.steps + steps.idle <= 16 * n * rows);      // as written: n / 2 each
    }
}

TEST_CASE("factors leave the sum over a prefix, so that its work is linear, however the triangle is written") {
  const std::int64_t t = 1500, d = 5, e = 6;
  const Sizes sizes{{"T", t}, {"D", d}, {"E", e}};
  for (const std::string statement :
       {"O[s, d: T, D] = +(S[t, d, e] * V[s, e]), t >= s;", "O[s, d: T, D] = +(V[s, e] * S[t, d, e]), s < t;", "O[s, d: T, D] = +(-S[t, d, e] / (abs(V[s, e]) + 1)), s - t <= 0;",
        "O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t;", "O[t, e: T, E] = +(Q[t, d] * (V[s, e] * K[s, d])), s < t default F;", "O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), t - s >= 3;",
        "O[t, e: T, E] = +(Q[t, d] * K[t - j, d] * V[t - j, e]), j >= 0;", "O[t, e: T, E] = +(Q[t, d] * K[t - j, d] * V[t - j, e]), 0 <= j < T;", "O[t, e: T, E] = +(s <= t ? Q[t, d] * K[s, d] * V[s, e] : 0);",
        "O[t, e: T, E] = +(t < s ? 0 : Q[t, d] * K[s, d] * V[s, e]);", "O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), s + t < T;", "O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), 2*s <= 3*t;",
        "P[t, s: T, T] = +(Q[t, d] * K[s, d]), s <= t; O[t, e: T, E] = +(P[t, s] * V[s, e]), s <= t;", "P[t, s: T, T] = +(Q[t, d] * K[s, d]); O[t, e: T, E] = +(P[t, s] * V[s, e]), s <= t;",
        "O[] = +(Q[t, d] * K[s, d]), s <= t;", "O[t: T] = >(max(Q[t, d], K[s, d])), s <= t;", "O[t: T] = +(Q[t, d] > 0 ? K[s, d] : 0), s <= t;", "O[t: T] = +(X[t - j]), j >= 0;"})
    for (const char* target : {"cpu:x86-64-v4", "opencl"}) {
      CAPTURE(statement);
      CAPTURE(target);
      const Stages stages = compiled(fmt::format("function (Q[T, D], K[T, D], V[T, E], S[T, D, E], F[T, E], X[T]) -> (O) {{ {} }}", statement), sizes, target);
      CHECK(scans(*stages.plan) == 1);
      double points = 0;
      for (const auto& node : stages.plan->program.nodes) points += codegen::points(std::get<poly::Statement>(node));
      CHECK(points <= 4.0 * static_cast<double>(t * d * e));  // as written T/2 or T·(D + E)/2 times as many
    }
}

TEST_CASE("a factor that only reads the output index leaves a scan") {
  CHECK(scans("Y[j: N] = +(X[k] * j), k <= j;") == 1);
  CHECK(scans("Y[j: N] = +(X[k] * B[k, d]), k <= j, d <= k;") == 1);  // the sum over d first
  for (const std::string value : {"2.0 / X[k]", "X[k] > 0 ? 1.0 : 0.0", "-(3.0 / (X[k] * X[k]))"}) CHECK(scans("Y[j: N] = +(" + value + "), k <= j;") == 1);  // a number alone is left
}

TEST_CASE("equal sums of a gradient are made once") {
  const std::string text = "function (K[T, D], V[T, E], dS[T, D, E]) -> (dK, dV) { dK[s, d: T, D] = +(dS[t, d, e] * V[s, e]), t >= s; dV[s, e: T, E] = +(K[s, d] * dS[t, d, e]), t >= s; }";
  CHECK(scans(*compiled(text, {{"T", 500}, {"D", 8}, {"E", 16}}).plan) == 1);
}

TEST_CASE("what does not distribute, or would not pay, stays as it is") {
  const Sizes sizes{{"T", 300}, {"D", 40}};
  for (const std::string statement : {"O[t: T] = +(K[s, d] * (Q[t, d] + K[s, d])), s <= t;", "O[t: T] = >(Q[t, d] * K[s, d]), s <= t;", "O[t: T] = >(Q[t, d] + K[s, d]), s <= t;", "O[t: T] = *(Q[t, d] * K[s, d]), s <= t;",
                                      "O[t, s: T, T] = +(Q[t, d] * K[s, d]), s <= t;", "O[t: T] = +(K[s, d] * Q[t, d]), 0 <= t - s < 3;"}) {
    CAPTURE(statement);
    const Stages stages = compiled("function (Q[T, D], K[T, D]) -> (O) { " + statement + " }", sizes);
    for (const auto& tensor : stages.plan->program.tensors) CHECK(tensor.name.find("_sums") == std::string::npos);
  }
}

TEST_CASE("blocks with a pass for their totals mean the same") {
  Target target = *target_named("cpu:x86-64-v4");
  target.l1 = 512;                                     // blocks of 64
  int turn = 0;
  for (const std::string constraint : {"k <= j", "k < j", "k >= j", "k >= j + 1", "k <= j + 3", "k <= j + 50", "k >= j + 30", "k <= j - 30", "j + k < 2100", "j + k >= 2099"}) {
    const char* how[] = {"+", ">", "<"};
    const char* fill[] = {"", " default 9", " default D"};
    const std::string text = fmt::format("function (X[N], D[N]) -> (Y) {{ Y[j: N] = {}(X[k] + D[k]), {}{}; }}", how[turn % 3], constraint, fill[turn / 3 % 3]);
    ++turn;
    CAPTURE(text);
    const Stages stages = compiled(text, {{"N", 2100}}, target);
    CHECK(scans(*stages.plan) == 2);
    CHECK(outputs(stages.plan->program)[0].reals == outputs(*stages.bounded)[0].reals);
  }
}
