// Which contractions are scans, that their work is linear, and that cutting them in blocks leaves their meaning.
#include <doctest/doctest.h>

#include <fmt/core.h>

#include "codegen/rewrite.h"
#include "codegen/scan.h"
#include "poly/interpret.h"
#include "tests/codegen/compiled.h"
#include "tests/codegen/points.h"

using namespace tilec;
using namespace tilec::codegen;
using test::Sizes;

namespace {

Stages lowered(const std::string& text, const Sizes& sizes, const Target& target, int derivatives = 0) {
  return test::compiled(text, test::request_for(sizes, target, derivatives), Until::Lowered);
}
Stages lowered(const std::string& text, const Sizes& sizes, const char* target = "cpu:x86-64-v4") {
  return lowered(text, sizes, *target_named(target));
}

int scans(const Plan& plan) {
  int count = 0;
  for (const Group& group : plan.groups) for (const Compute& leaf : group.body) count += leaf.is<forms::Scan>();
  return count;
}
int scans(const std::string& statement) {
  return scans(
      *lowered("function (X[N], A[R, N], B[N, R], D[N]) -> (Y) { " + statement + " }", {{"N", 50}, {"R", 7}}).plan);
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

TEST_CASE("a product of all values but one is a division each") {
  CHECK(scans("Y[j: N] = *(j == k ? D[j] : X[k]);") == 1);
  CHECK(scans("Y[r, j: R, N] = *(k == j ? A[r, j]*D[j] : A[r, k] + 1.0);") == 1);
  CHECK(scans("Y[j, r: N, R] = *(j == k ? 2.0 : B[k, r]);") == 1);
  CHECK(scans("Y[j: N] = *(j == k ? D[k] : X[k]), k < N;") == 0);           // in its place what the other index says
  CHECK(scans("Y[j: N] = *(j == k ? D[j] : X[k]*X[j]);") == 0);
  CHECK(scans("Y[j: N] = *(j == k ? D[j] : X[k]), k < 10;") == 0);
  CHECK(scans("Y[j: N] = *(j == k + 1 ? D[j] : X[k]);") == 0);
  CHECK(scans("Y[j: N] = +(j == k ? D[j] : X[k]);") == 0);
}

TEST_CASE("a triangle whose value does not depend on the output index is a scan") {
  for (const std::string constraint : {"k <= j", "k < j", "k >= j", "k >= j + 1", "k <= j + 3", "k >= j - 3",
           "j + k < 40", "j + k >= 9", "2*k <= 3*j + 1", "3*k >= j"}) {
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
    for (const auto& [text, sizes] :
        {std::pair<const char*, Sizes>{
             "function (X[M, N]) -> (Y) { Y[i, j: M, N] = +(X[i, k]), k <= j; }", {{"M", 200}, {"N", 300}}},
            {"function (X[M, N]) -> (Y) { Y[j, i: M, N] = +(X[k, i]), k <= j; }", {{"M", 200}, {"N", 3000}}},
            {"function (X[N]) -> (Y) { Y[j: N] = +(X[k]), k <= j; }", {{"N", 1000000}}}}) {
      const Stages stages = lowered(text, sizes, target);
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
    for (const std::string statement : {"Y[i, j: M, N] = +(X[i, k]), k <= j;", "Y[j, i: N, M] = +(X[i, k]), k <= j;",
             "Y[i, j: M, N] = >(X[i, k]), k >= j + 1;", "Y[i, j: M, N] = +(X[i, k]), k <= j + 100;",
             "Y[i, j: M, N] = +(X[i, k]), 2*k <= 3*j;", "Y[i, j: M, N] = +(X[i, k]), k >= 2*j;"}) {
      CAPTURE(statement);
      const Stages stages =
          lowered(fmt::format("function (X[M, N]) -> (Y) {{ {} }}", statement), {{"M", rows}, {"N", n}}, target);
      const Steps steps = fold_steps(*stages.lowered);
      CHECK(steps.steps > 0);
      CHECK(steps.steps + steps.idle <= 16 * n * rows);      // as written: n / 2 each
    }
}

TEST_CASE("factors leave the sum over a prefix, so that its work is linear, however the triangle is written") {
  const std::int64_t t = 1500, d = 5, e = 6;
  const Sizes sizes{{"T", t}, {"D", d}, {"E", e}};
  for (const std::string statement :
      {"O[s, d: T, D] = +(S[t, d, e] * V[s, e]), t >= s;", "O[s, d: T, D] = +(V[s, e] * S[t, d, e]), s < t;",
          "O[s, d: T, D] = +(-S[t, d, e] / (abs(V[s, e]) + 1)), s - t <= 0;",
          "O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t;",
          "O[t, e: T, E] = +(Q[t, d] * (V[s, e] * K[s, d])), s < t default F;",
          "O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), t - s >= 3;",
          "O[t, e: T, E] = +(Q[t, d] * K[t - j, d] * V[t - j, e]), j >= 0;",
          "O[t, e: T, E] = +(Q[t, d] * K[t - j, d] * V[t - j, e]), 0 <= j < T;",
          "O[t, e: T, E] = +(s <= t ? Q[t, d] * K[s, d] * V[s, e] : 0);",
          "O[t, e: T, E] = +(t < s ? 0 : Q[t, d] * K[s, d] * V[s, e]);",
          "O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), s + t < T;",
          "O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), 2*s <= 3*t;",
          "P[t, s: T, T] = +(Q[t, d] * K[s, d]), s <= t; O[t, e: T, E] = +(P[t, s] * V[s, e]), s <= t;",
          "P[t, s: T, T] = +(Q[t, d] * K[s, d]); O[t, e: T, E] = +(P[t, s] * V[s, e]), s <= t;",
          "O[] = +(Q[t, d] * K[s, d]), s <= t;", "O[t: T] = >(max(Q[t, d], K[s, d])), s <= t;",
          "O[t: T] = +(Q[t, d] > 0 ? K[s, d] : 0), s <= t;", "O[t: T] = +(X[t - j]), j >= 0;"})
    for (const char* target : {"cpu:x86-64-v4", "opencl"}) {
      CAPTURE(statement);
      CAPTURE(target);
      const Stages stages = lowered(
          fmt::format("function (Q[T, D], K[T, D], V[T, E], S[T, D, E], F[T, E], X[T]) -> (O) {{ {} }}", statement),
          sizes, target);
      CHECK(scans(*stages.plan) == 1);
      double points = 0;
      for (const auto& node : stages.plan->program.nodes) points += codegen::points(std::get<poly::Statement>(node));
      CHECK(points <= 4.0 * static_cast<double>(t * d * e));  // as written T/2 or T·(D + E)/2 times as many
    }
}

TEST_CASE("a factor that only reads the output index leaves a scan") {
  CHECK(scans("Y[j: N] = +(X[k] * j), k <= j;") == 1);
  CHECK(scans("Y[j: N] = +(X[k] * B[k, d]), k <= j, d <= k;") == 1);  // the sum over d first
  // a number alone is left
  for (const std::string value : {"2.0 / X[k]", "X[k] > 0 ? 1.0 : 0.0", "-(3.0 / (X[k] * X[k]))"})
    CHECK(scans("Y[j: N] = +(" + value + "), k <= j;") == 1);
}

TEST_CASE("equal sums of a gradient are made once") {
  const std::string text =
      "function (K[T, D], V[T, E], dS[T, D, E]) -> (dK, dV) { dK[s, d: T, D] = +(dS[t, d, e] * V[s, e]), t >= s; dV[s, e: T, E] = +(K[s, d] * dS[t, d, e]), t >= s; }";
  CHECK(scans(*lowered(text, {{"T", 500}, {"D", 8}, {"E", 16}}).plan) == 1);
}

TEST_CASE("what does not distribute, or would not pay, stays as it is") {
  const Sizes sizes{{"T", 300}, {"D", 40}};
  for (const std::string statement :
      {"O[t: T] = +(K[s, d] * (Q[t, d] + K[s, d])), s <= t;", "O[t: T] = >(Q[t, d] * K[s, d]), s <= t;",
          "O[t: T] = >(Q[t, d] + K[s, d]), s <= t;", "O[t: T] = *(Q[t, d] * K[s, d]), s <= t;",
          "O[t, s: T, T] = +(Q[t, d] * K[s, d]), s <= t;", "O[t: T] = +(K[s, d] * Q[t, d]), 0 <= t - s < 3;"}) {
    CAPTURE(statement);
    const Stages stages = lowered("function (Q[T, D], K[T, D]) -> (O) { " + statement + " }", sizes);
    for (const auto& tensor : stages.plan->program.tensors) CHECK(tensor.name.find("_sums") == std::string::npos);
  }
}

namespace {

// The kernels without what is done where a scan left its bounds, which only data decide.
void leave_out_mending(Body& body) {
  std::erase_if(body, [](const Stmt& s) {
    const auto* branch = std::get_if<If>(&s.node);
    const auto* condition = branch ? branch->condition.as<Operation>() : nullptr;
    if (!condition || condition->op != Op::Gt) return false;
    const auto* any = condition->operands[0].as<Variable>();
    const auto* wrong = condition->operands[0].as<Load>();
    return (any && any->name.starts_with("any")) || (wrong && wrong->view.starts_with("wrong"));
  });
  for (Stmt& s : body) {
    if (auto* loop = std::get_if<For>(&s.node)) leave_out_mending(loop->body);
    if (auto* branch = std::get_if<If>(&s.node)) leave_out_mending(branch->then), leave_out_mending(branch->otherwise);
  }
}

struct Work { double points; std::int64_t steps; };

Work work_of(const std::string& text, const Sizes& sizes, const char* target, int derivatives) {
  Stages stages = lowered(text, sizes, *target_named(target), derivatives);
  Work work{0, 0};
  for (const auto& node : stages.plan->program.nodes) work.points += codegen::points(std::get<poly::Statement>(node));
  for (Step& step : stages.lowered->steps)
    for (Function& f : step.loops.functions) leave_out_mending(f.body);
  if (std::string(target).starts_with("cpu")) {
    const Steps steps = fold_steps(*stages.lowered);
    work.steps = steps.steps + steps.idle;
  }
  return work;
}

}  // namespace

TEST_CASE("a sum under a decay is a scan") {
  const auto all = [](const std::string& statement) {
    return scans(*lowered(
        "function (L[N], X[N], K[N, R], G[], D[N], f64 W[N]) -> (Y) { " + statement + " }", {{"N", 50}, {"R", 7}})
            .plan);
  };
  for (const std::string reach : {"k <= j", "k < j", "k >= j", "k >= j + 1", "k <= j + 3", "k >= j - 3"}) {
    CAPTURE(reach);
    for (const std::string value :
        {"exp(L[j] - L[k]) * X[k]", "D[j] * (X[k] * exp(L[k] - L[j]))", "-(exp(G[] * (L[j] - L[k] + D[j])) / D[j])",
            "exp(L[j]/2.0 - L[k]/G[]) * exp(X[k] - D[j])", "L[k] > 0 ? exp(-(L[j] + L[k])) : 0"})
      CHECK(all("Y[j: N] = +(" + value + "), " + reach + ";") == 1);
    CHECK(all("Y[j, r: N, R] = +(exp(K[j, r] - K[k, r]) * X[k] * K[k, r]), " + reach + ";") == 1);
  }
  CHECK(all("Y[j: N] = +(pow(G[], j - k) * X[k]), k <= j;") == 1);
  CHECK(all("Y[j, r: N, R] = +(K[j, r] * (j == k ? 1.0 : pow(X[0], k - j)) * L[k]), k >= j + 1;") == 1);
  for (const std::string value : {"pow(G[], k - j) * X[k]", "pow(G[], 2*(j - k) + 1) * X[k]",
           "exp((j - k) * G[]) * X[k]", "exp(-0.5 * G[] * (k - j) + L[k] - D[j])", "(j - k) * X[k]",
           "(j - k + 2.0) * (j - k) * pow(G[], j - k) * X[k]", "D[j] * ((j - k) / 3.0) * exp(L[j] - L[k])",
           "(L[j] - L[k]) * X[k]", "exp((L[j] - L[k]) * G[]) * -(L[k] - L[j]) * D[j] * X[k]"})
    CHECK_MESSAGE(all("Y[j: N] = +(" + value + "), k <= j;") == 1, value);
  CHECK(all("Y[j: N] = +((k - j) * X[k]), k >= j + 1;") == 1);
  for (const std::string statement : {"Y[j: N] = +((j - k - 3) * exp((j - k) * G[]) * X[k]), k <= j;",
           "Y[j: N] = +((j - k) * X[k]), k <= j + 2;", "Y[j: N] = +((j + k) * exp((j - k) * G[]) * X[k]), k <= j;",
           "Y[j: N] = +(exp((j - k) * L[j]) * X[k]), k <= j;", "Y[j: N] = +(pow(L[k], j - k) * X[k]), k <= j;",
           "Y[j: N] = +(exp(L[j] * L[k]) * X[k]), k <= j;", "Y[j: N] = +(exp(L[j] - L[k]) + X[k]), k <= j;",
           "Y[j: N] = +(tanh(L[j] - L[k])), k <= j;", "Y[j: N] = >(exp(L[j] - L[k])), k <= j;",
           "Y[j: N] = +(exp(L[j] - L[k]) * X[k]), 0 <= j - k < 9;",
           "Y[j: N] = +((L[j] - X[k]) * X[k]), k <= j;", "Y[j: N] = +((W[j] - W[k]) * X[k]), k <= j;",
           "Y[j: N] = +((f64(L[j]) - f64(L[k])) * exp(W[j] - W[k]) * W[k]), k <= j;",
           "Y[j: N] = +((j - k) * (L[j] - L[k]) * X[k]), k <= j;",
           "Y[j: N] = +((L[j] - L[k]) * (L[j] - L[k]) * X[k]), k <= j;"}) {
    CAPTURE(statement);
    CHECK(all(statement) == 0);
  }
  for (const std::string value : {"exp(W[j] - W[k])", "exp(0.3*(W[j] - W[k] + W[j])) * W[k]",
           "exp((j - k) * W[0]) * W[k]", "pow(W[0], j - k) * W[k]", "(j - k) * W[k]", "(j - k) * exp(W[j] - W[k])"})
    CHECK_MESSAGE(all("Y[j: N] = +(" + value + "), k <= j;") == 1, value);
}

TEST_CASE("the work of decays and of their gradients is linear") {
  const std::int64_t t = 1000, d = 5, e = 6;
  const Sizes sizes{{"T", t}, {"D", d}, {"E", e}};
  struct Case { std::string text; Sizes sizes; };
  for (const Case& c :
      {Case{"function (L[T], V[T]) -> (O) { O[t: T] = +(exp(L[t] - L[s]) * V[s]), s <= t; }", {{"T", t}}},
          Case{
              "function (L[T, D], K[T, D], V[T, E]) -> (S) { S[t, d, e: T, D, E] = +(exp(L[t, d] - L[s, d]) * K[s, d] * V[s, e]), s <= t; }",
              sizes},
          Case{
              "function (L[T, D], Q[T, D], K[T, D], V[T, E]) -> (O) { O[t, e: T, E] = +(exp(L[t, d] - L[s, d]) * Q[t, d] * K[s, d] * V[s, e]), s <= t; }",
              sizes},
          Case{"function (A[], X[T]) -> (O) { O[t: T] = +(pow(A[], t - s) * X[s]), s <= t; }", {{"T", t}}},
          Case{
              "function (A[D], X[T, D]) -> (O) { O[t, d: T, D] = +((t == s ? 1.0 : pow(A[d], t - s)) * X[s, d]), s <= t; }",
              {{"T", t}, {"D", d}}},
          Case{"function (L[D], X[T, D]) -> (O) { O[t, d: T, D] = +(exp(-(t - s) * L[d] + X[s, d])), s <= t; }",
              {{"T", t}, {"D", d}}},
          Case{
              "function (A[], Q[T, D], K[T, D], V[T, E]) -> (O) { O[t, e: T, E] = +(pow(A[], t - s) * Q[t, d] * K[s, d] * V[s, e]), s <= t; }",
              sizes},
          Case{
              "function (X[T], A[D], V[T, D]) -> (O) { L[t: T] = +(X[s] * X[s]), s <= t; O[t, d: T, D] = +(exp((L[s] - L[t]) * (A[d] * A[d])) * V[s, d]), s <= t; }",
              {{"T", t}, {"D", d}}},
          Case{"function (X[T, D]) -> (M) { M[t, d: T, D] = >(X[s, d]), s <= t; }", {{"T", t}, {"D", d}}},
          Case{"function (X[T]) -> (M) { [[ties(first)]] M[t: T] = >(X[s]), s <= t; }", {{"T", t}}},
          Case{"function (f64 L[T], f64 V[T]) -> (O) { O[t: T] = +(exp(L[t] - L[s]) * V[s]), s <= t; }", {{"T", t}}},
          Case{
              "function (f64 L[T, D], f64 K[T, D], f64 V[T, E]) -> (S) { S[t, d, e: T, D, E] = +(exp(L[t, d] - L[s, d]) * K[s, d] * V[s, e]), s <= t; }",
              sizes},
          Case{
              "function (f64 A[D], f64 X[T, D]) -> (O) { O[t, d: T, D] = +((t == s ? 1.0 : pow(A[d], t - s)) * X[s, d]), s <= t; }",
              {{"T", t}, {"D", d}}},
          Case{"function (L[T], V[T]) -> (O) { O[t: T] = +((t - s - 3) * exp(L[t] - L[s]) * V[s]), s <= t; }",
              {{"T", t}}},
          Case{"function (V[T, D]) -> (O) { O[t, d: T, D] = +((t - s - 3) * (t - s - 7.5) * V[s, d]), s <= t; }",
              {{"T", t}, {"D", d}}},
          Case{"function (A[], V[T]) -> (O) { O[t: T] = +((2*(s - t) - 3.0) * pow(A[], s - t) * V[s]), s >= t; }",
              {{"T", t}}},
          Case{"function (P[], V[T]) -> (O) { O[t: T] = +(exp((t - s) * P[]) * V[s]), s <= t + 2; }", {{"T", t}}},
          Case{"function (X[T]) -> (M) { M[t: T] = >(X[s]), s <= t + 2; }", {{"T", t}}},
          Case{"function (X[T, D]) -> (M) { M[t, d: T, D] = <(X[s, d]), s >= t - 7; }", {{"T", t}, {"D", d}}},
          Case{"function (X[T]) -> (M) { [[ties(first)]] M[t: T] = >(X[s]), s <= t + 2; }", {{"T", t}}},
          Case{"function (i32 X[T], A[T]) -> (M) { M[t: T] = >(X[s] * A[s]), t >= s - 3; }", {{"T", t}}},
          Case{"function (X[T]) -> (M) { M[t: T] = <(X[s]), s >= t + 2; }", {{"T", t}}},
          Case{"function (X[T, D]) -> (M) { M[t: T] = >(X[s, d]), s < t; }", {{"T", t}, {"D", d}}}})
    for (const char* target : {"cpu:x86-64-v4", "cpu:x86-64-v3", "opencl"})
      for (const int derivatives : {0, 1}) {
        CAPTURE(c.text);
        CAPTURE(target);
        CAPTURE(derivatives);
        const Work work = work_of(c.text, c.sizes, target, derivatives);
        CHECK(work.points <= 20.0 * static_cast<double>(t * d * e));
        CHECK(work.steps <= 600 * t * d * e);          // registers that are counted on, 16 lanes of which may be idle;
                                                       // as written 500 points for each
      }
}

TEST_CASE("first and second derivatives of gated states are linear") {
  const std::int64_t t = 1000, d = 4, e = 6;
  const Sizes sizes{{"T", t}, {"D", d}, {"E", e}};
  struct Case { std::string text; Sizes sizes; };
  for (const Case& c :
      {Case{"function (X[T, D]) -> (O) { O[t, d: T, D] = +(X[s, d] * sigmoid(X[s, d])), s <= t; }",
           {{"T", t}, {"D", d}}},
          Case{
              "function (G[T, D], L[T, D], X[T, D]) -> (O) { H[t, d: T, D] = +(exp(L[t, d] - L[s, d]) * X[s, d]), s <= t; O = sigmoid(G) * H; }",
              {{"T", t}, {"D", d}}},
          Case{
              "function (G[T, D], L[T, D], X[T, D]) -> (O) { O[t, d: T, D] = +(sigmoid(G[t, d]) * exp(L[t, d] - L[s, d]) * X[s, d] * tanh(X[s, d])), s <= t; }",
              {{"T", t}, {"D", d}}},
          Case{"function (X[T, D]) -> (O) { H[t, d: T, D] = +(X[s, d] * X[s, d]), s <= t; O = X * sigmoid(X) * H; }",
              {{"T", t}, {"D", d}}},
          Case{
              "function (G[T, E], L[T, D], Q[T, D], K[T, D], V[T, E]) -> (O) { H[t, e: T, E] = +(exp(L[t, d] - L[s, d]) * Q[t, d] * K[s, d] * V[s, e]), s <= t; O = sigmoid(G) * H; }",
              sizes}})
    for (const int derivatives : {1, 2}) {
      CAPTURE(c.text);
      CAPTURE(derivatives);
      const Work work = work_of(c.text, c.sizes, "cpu:x86-64-v4", derivatives);
      CHECK(work.points <= 100.0 * static_cast<double>(t * d * e));
    }
}

TEST_CASE("states that a second derivative asks for several times are made once") {
  const Stages stages = lowered(
      "function (L[T, D], Q[T, D], K[T, D], V[T, E]) -> (O) { O[t, e: T, E] = +(exp(L[t, d] - L[s, d]) * Q[t, d] * K[s, d] * V[s, e]), s <= t; }",
      {{"T", 2000}, {"D", 16}, {"E", 16}}, *target_named("cpu:x86-64-v4"), 2);
  CHECK(scans(*stages.plan) <= 8);                     // of K V, ddK V, K ddV and ddL K V; of Q dO, ddQ dO and ddL Q dO
}

TEST_CASE("windows and gradients of windowed sums are linear however wide they are") {
  const std::int64_t t = 4000;
  for (const std::string window : {"0 <= t - s < 500", "-1000 <= t - s < 1000", "100 <= s - t < 3000"})
    for (const std::string fold : {"+", ">", "<"})
      for (const int derivatives : {0, 1}) {
        if (derivatives && fold != "+") continue;
        CAPTURE(window);
        const Work work = work_of("function (X[T]) -> (O) { O[t: T] = " + fold + "(X[s]), " + window + "; }",
            {{"T", t}}, "cpu:x86-64-v4", derivatives);
        CHECK(work.points <= 8.0 * static_cast<double>(t));
        CHECK(work.steps <= 64 * t);
      }
}

TEST_CASE("second derivatives of powers of a distance are linear") {
  const std::int64_t t = 1000, d = 5;
  for (const std::string statement : {"pow(A[d], t - s) * X[s, d]", "(t == s ? 1.0 : pow(A[d], t - s)) * X[s, d]",
           "exp((t - s) * A[d]) * X[s, d]", "exp(X[s, d] - (t - s) * A[d])"}) {
    CAPTURE(statement);
    const Work work = work_of("function (A[D], X[T, D]) -> (O) { O[t, d: T, D] = +(" + statement + "), s <= t; }",
        {{"T", t}, {"D", d}}, "cpu:x86-64-v4", 2);
    CHECK(work.points <= 60.0 * static_cast<double>(t * d));
  }
}

TEST_CASE("blocks with a pass for their totals mean the same") {
  Target target = *target_named("cpu:x86-64-v4");
  target.l1 = 512;                                     // blocks of 64
  int turn = 0;
  for (const std::string constraint : {"k <= j", "k < j", "k >= j", "k >= j + 1", "k <= j + 3", "k <= j + 50",
           "k >= j + 30", "k <= j - 30", "j + k < 2100", "j + k >= 2099"}) {
    const char* how[] = {"+", ">", "<"};
    const char* fill[] = {"", " default 9", " default D"};
    const std::string text = fmt::format("function (X[N], D[N]) -> (Y) {{ Y[j: N] = {}(X[k] + D[k]), {}{}; }}",
        how[turn % 3], constraint, fill[turn / 3 % 3]);
    ++turn;
    CAPTURE(text);
    const Stages stages = lowered(text, {{"N", 2100}}, target);
    CHECK(scans(*stages.plan) == 2);
    CHECK(outputs(stages.plan->program)[0].reals == outputs(*stages.bounded)[0].reals);
  }
}

TEST_CASE("the work of products over intervals is linear, and so is that of gradients of running products") {
  const std::int64_t t = 600, d = 4, e = 5;
  const Sizes all{{"T", t}, {"D", d}, {"E", e}};
  struct Case { std::string text; std::vector<std::string> sizes; int derivatives; };
  const std::string product = "G[s, t: T, T] = *(A[u]), s < u, u <= t";
  for (const Case& c : {Case{"function (X[T]) -> (P) { P[t: T] = *(X[s]), s <= t; }", {"T"}, 1},
           Case{"function (X[T, D]) -> (P) { P[t, d: T, D] = *(1 + X[s, d]), s >= t + 1; }", {"T", "D"}, 1},
           Case{"function (A[T], B[T]) -> (H) { " + product + "; H[t: T] = +(G[s, t] * B[s]), s <= t; }", {"T"}, 0},
           Case{"function (A[T], B[T]) -> (H) { " + product + "; H[t: T] = +(G[s, t] * B[s]), s <= t; }", {"T"}, 1},
           Case{"function (A[T], B[T]) -> (H) { " + product + " default 1; H[t: T] = +(G[s, t] * B[s]), s <= t; }",
               {"T"}, 1},
           Case{"function (A[T], K[T, D], V[T, E]) -> (H) { " + product +
                   " default 1; H[t, d, e: T, D, E] = +(G[s, t] * K[s, d] * V[s, e]), s <= t; }",
               {"T", "D", "E"}, 1}})
    for (const char* target : {"cpu:x86-64-v4", "opencl"}) {
      CAPTURE(c.text);
      CAPTURE(target);
      CAPTURE(c.derivatives);
      Sizes sizes;
      for (const std::string& name : c.sizes) sizes[name] = all.at(name);
      const Work work = work_of(c.text, sizes, target, c.derivatives);
      CHECK(work.points <= 40.0 * static_cast<double>(t * d * e));  // as written t² or t³
      CHECK(work.steps <= 600 * t * d * e);
      const Stages stages = lowered(c.text, sizes, *target_named(target), c.derivatives);
      for (const auto& buffer : stages.lowered->buffers) CHECK(buffer.count() <= 2 * t * d * e);
    }
}

// 24 values, so that the interpreter can execute both: the first with products between elements, the other as written.
TEST_CASE("products over intervals step from element to element, and the Program says so") {
  for (const std::string body :
      {"G[s, t, d: T, T, D] = *(A[u, d]), s < u, u <= t default 1; H[t, d: T, D] = +(G[s, t, d] * B[s, d]), s <= t;",
          "G[s, t, d: T, T, D] = *(1 - A[u, d]), s <= u, u < t default 1; H[t, d: T, D] = +(G[s, t, d] * B[s, d]), s <= t;",
          "G[s, t, d: T, T, D] = *(A[u, d]), t < u, u <= s default 1; H[t, d: T, D] = +(B[s, d] * G[s, t, d]), s >= t;",
          "G[s, t, d: T, T, D] = *(A[u, d]), s < u, u <= t default 1;"
          " H[t, e: T, D] = +(A[t, d] * G[s, t, d] * A[s, d] * B[s, e]), s <= t;"})
    for (const int derivatives : {0, 1}) {
      CAPTURE(body);
      CAPTURE(derivatives);
      const bool shared = body.find("H[t, e") != std::string::npos && derivatives == 1;
      const Stages stages = lowered("function (A[T, D], B[T, D]) -> (H) { " + body + " }", {{"T", 24}, {"D", 3}},
          *target_named("cpu:x86-64-v3"), derivatives);
      for (const auto& tensor : stages.plan->program.tensors)
        CHECK((shared || tensor.name.find("_logs") == std::string::npos));
      const auto got = outputs(stages.plan->program), wanted = outputs(*stages.bounded);
      CHECK(got.size() == wanted.size());
      for (std::size_t o = 0; o < got.size(); ++o)
        for (std::size_t n = 0; n < got[o].reals.size(); ++n)
          CHECK(got[o].reals[n] == doctest::Approx(wanted[o].reals[n]).epsilon(1e-4));
    }
}

TEST_CASE("products that are no products over intervals of one index stay") {
  for (const std::string body : {"G[s, t: T, T] = *(A[u] * B[t]), s < u, u <= t; H[t: T] = +(G[s, t] * B[s]), s <= t;",
           "G[s, t: T, T] = *(A[u]), 2*s < u, u <= t; H[t: T] = +(G[s, t] * B[s]), s <= t;",
           "G[s, t: T, T] = *(A[u]), s < u, u <= t default 2; H[t: T] = +(G[s, t] * B[s]), s <= t default 3;"}) {
    CAPTURE(body);
    const Stages stages = lowered("function (A[T], B[T]) -> (H) { " + body + " }", {{"T", 300}});
    for (const auto& tensor : stages.plan->program.tensors) CHECK(tensor.name.find("_logs") == std::string::npos);
  }
}
