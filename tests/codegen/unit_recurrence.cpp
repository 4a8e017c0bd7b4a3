// Unrolled recurrences: what a step costs in launches and in work of the compiler, however many steps there are.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "tests/codegen/compiled.h"

// Allocations are counted: passes that visit each statement once make as many for each.
static long allocations = 0;
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace tilec;
using test::Sizes;

namespace {

codegen::Stages stages_of(const std::string& text, const Sizes& sizes, int derivatives, codegen::Until until,
    const char* target = "cpu:x86-64-v4") {
  codegen::Request request = test::request_for(sizes, target, derivatives);
  request.signature.function = "f";
  return test::compiled(text, request, until);
}

codegen::Plan plan_of(const std::string& text, const Sizes& sizes, int derivatives = 1) {
  return *stages_of(text, sizes, derivatives, codegen::Until::Plan).plan;
}

// Different ones: what is compiled.
std::size_t kernels_of(const std::string& text, const Sizes& sizes, const char* target) {
  std::set<std::string> names;
  const codegen::Lowered lowered = *stages_of(text, sizes, 1, codegen::Until::Lowered, target).lowered;
  for (const auto& step : lowered.steps) names.insert(step.kernel);
  return names.size();
}

// One weight for all gates, read by slices; the input is a slice of X.
std::string lstm(int steps) {
  return fmt::format(R"(
    function step(H[N, M], C[N, M], S, X[T, N, I], WI[4*M, I], WH[4*M, M], B[4*M]) -> (H1, C1, NEXT) {{
      XT[n, i: N, I] = =(X[S, n, i]);
      XW[n, g: N, 4*M] = +(XT[n, i] * WI[g, i]);
      HW[n, g: N, 4*M] = +(H[n, k] * WH[g, k]);
      G = XW + HW + B;
      C1[n, m: N, M] = =(sigmoid(G[n, m + M]) * C[n, m] + sigmoid(G[n, m]) * tanh(G[n, m + 2*M]));
      H1[n, m: N, M] = =(sigmoid(G[n, m + 3*M]) * tanh(C1[n, m]));
      NEXT = S + 1;
    }}
    function f(X[T, N, I], H[N, M], C[N, M], WI[4*M, I], WH[4*M, M], B[4*M]) -> (HN, CN) {{
      (HN, CN, LAST) = iterate<step, {}>(H, C, 0, X, WI, WH, B);
    }})", steps);
}

std::string gru(int steps) {
  return fmt::format(R"(
    function step(H[N, M], S, X[T, N, I], WI[3*M, I], WH[3*M, M]) -> (H1, NEXT) {{
      XT[n, i: N, I] = =(X[S, n, i]);
      A[n, g: N, 3*M] = +(XT[n, i] * WI[g, i]);
      B[n, g: N, 3*M] = +(H[n, k] * WH[g, k]);
      R[n, m: N, M] = =(sigmoid(A[n, m] + B[n, m]));
      U[n, m: N, M] = =(sigmoid(A[n, m + M] + B[n, m + M]));
      Y[n, m: N, M] = =(tanh(A[n, m + 2*M] + R[n, m] * B[n, m + 2*M]));
      H1 = (1 - U) * Y + U * H;
      NEXT = S + 1;
    }}
    function f(X[T, N, I], H[N, M], WI[3*M, I], WH[3*M, M]) -> (HN) {{ (HN, LAST) = iterate<step, {}>(H, 0, X, WI, WH); }})",
      steps);
}

std::string rnn(int steps) {
  return fmt::format(R"(
    function step(H[N, M], S, X[T, N, I], WI[M, I], WH[M, M]) -> (H1, NEXT) {{
      A[n, m: N, M] = +(X[S, n, i] * WI[m, i]);
      B[n, m: N, M] = +(H[n, k] * WH[m, k]);
      H1 = relu(A + B);
      NEXT = S + 1;
    }}
    function f(X[T, N, I], H[N, M], WI[M, I], WH[M, M]) -> (HN) {{ (HN, LAST) = iterate<step, {}>(H, 0, X, WI, WH); }})",
      steps);
}

// Each step reads a slice twice, and one that the next step reads.
std::string windows(int steps) {
  return fmt::format(R"(
    function step(H[N], S, X[T, N], G[2*N]) -> (H1, NEXT) {{
      A[n: N] = =(X[S, n] * G[n]);
      B[n: N] = =(X[S + 1, n] * G[n + N]);
      H1[n: N] = =(tanh(A[n] + B[n] * H[n] + sin(X[S, n])));
      NEXT = S + 1;
    }}
    function f(X[T, N], H[N], G[2*N]) -> (O) {{ (O, L) = iterate<step, {}>(H, 0, X, G); }})", steps);
}

bool has_fill(const codegen::Plan& plan) {
  for (const codegen::Group& group : plan.groups)
    for (const codegen::Compute& leaf : group.body) if (leaf.is<codegen::forms::Fill>()) return true;
  return false;
}

}  // namespace

TEST_CASE("a step of a recurrence and its gradient is eight launches at most") {
  for (const auto& [n, m] : {std::pair{4, 8}, {8, 32}, {16, 64}, {16, 128}}) {
    const Sizes sizes{{"T", 16}, {"N", n}, {"I", m}, {"M", m}};
    CAPTURE(n);
    CAPTURE(m);
    CHECK(plan_of(lstm(16), sizes, 0).groups.size() <= 3 * 16 + 2);
    CHECK(plan_of(lstm(16), sizes).groups.size() <= 8 * 16 + 4);
    CHECK(plan_of(gru(16), sizes).groups.size() <= 8 * 16 + 4);
    CHECK(plan_of(rnn(16), sizes).groups.size() <= 8 * 16 + 4);
  }
}

TEST_CASE("each step costs the compiler as much as the one before") {
  for (const auto& text : {lstm, gru, rnn, windows}) {
    std::vector<long> made;
    for (const int steps : {16, 64, 256}) {
      allocations = 0;
      plan_of(text(steps), {{"T", steps + 1}, {"N", 4}, {"I", 8}, {"M", 8}});
      made.push_back(allocations);
    }
    CHECK(made[1] < 4.4 * static_cast<double>(made[0]));
    CHECK(made[2] < 4.4 * static_cast<double>(made[1]));
  }
}

TEST_CASE("there are as many kernels, however many steps") {
  for (const char* target : {"cpu:x86-64-v4", "opencl", "cuda:sm_80"})
    for (const auto& text : {lstm, gru, rnn, windows}) {
      const auto of = [&](int steps) {
        return kernels_of(text(steps), {{"T", steps + 1}, {"N", 4}, {"I", 8}, {"M", 8}}, target);
      };
      CAPTURE(target);
      const auto of_48 = of(48);
      CHECK(of_48 <= of(32) + 2);                      // sums over all steps may be cut otherwise where there are more
      CHECK(of_48 <= 30);
    }
}

TEST_CASE("slices that are read twice have no cotangent as large as the whole of each") {
  const codegen::Plan plan = plan_of(windows(8), {{"T", 9}, {"N", 16}});
  CHECK(!has_fill(plan));
  const std::vector<codegen::TensorId> buffer = codegen::buffers(plan.program);
  std::set<codegen::TensorId> buffers;                 // of the shape of X, that a statement writes
  for (const poly::Node& node : plan.program.nodes)
    if (const auto* s = std::get_if<poly::Statement>(&node);
        s && plan.program.tensor(s->target.tensor).shape == std::vector<poly::Size>{9, 16})
      buffers.insert(buffer[static_cast<std::size_t>(s->target.tensor)]);
  CHECK(buffers.size() == 1);
}
