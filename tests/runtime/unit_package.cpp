// Packages as bytes: the same ones again, and nothing that was cut or changed is loaded.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "codegen/workspace.h"
#include "runtime/assemble.h"
#include "runtime/error.h"
#include "runtime/module.h"
#include "runtime/package_file.h"
#include "tests/codegen/compiled.h"

namespace tilec {
namespace {

constexpr const char* program = R"(
function f(X[M, K], B[K, N], S) -> (C, Y) {
  Z[i: M] = +(X[i, k]);
  Y[i, k: M, K] = =(X[i, k] / Z[i] * S);
  C[i, j: M, N] = +(Y[i, k] * B[k, j]);
}
)";

// Launches with numbers: each step reads another row of X.
constexpr const char* steps = R"(
function step(H[N], S, X[T, N], W[N, N]) -> (H1, NEXT) {
  P[n: N] = +(W[n, k] * H[k]);
  H1[n: N] = =(tanh(P[n] + X[S, n]));
  NEXT = S + 1;
}
function f(H[N], X[T, N], W[N, N]) -> (HN) { (HN, E) = iterate<step, 3>(H, 0, X, W); }
)";

codegen::Request request_for(const test::Sizes& sizes, const char* target) {
  codegen::Request request = test::request_for(sizes, target);
  request.signature.inputs = {{"S", poly::DType::F32, std::vector<poly::Size>{}, std::nullopt, false}};
  return request;
}

codegen::Package packed(const char* text, const test::Sizes& sizes, const char* target) {
  const codegen::Request request = request_for(sizes, target);
  return runtime::assemble(*test::compiled(text, request, codegen::Until::Lowered).lowered, request);
}

codegen::Package stepped(const char* target) {
  codegen::Request request = test::request_for({{"T", 3}, {"N", 5}}, target);
  request.signature.function = "f";
  return runtime::assemble(*test::compiled(steps, request, codegen::Until::Lowered).lowered, request);
}

codegen::Package package(const char* target, std::int64_t M = 5) {
  return packed(program, {{"M", M}, {"K", 7}, {"N", 6}}, target);
}

std::string fault_of(std::string_view bytes) {
  try {
    static_cast<void>(runtime::package_from(bytes, "f.tilec"));
  } catch (const runtime::RuntimeError& fault) {
    CHECK(fault.diagnostic.code == "E0534");
    return fault.diagnostic.message;
  }
  return {};
}

}  // namespace

TEST_CASE("a package is what its bytes say, and the same program gives the same bytes") {
  for (const char* target : {"cpu", "cpu:aarch64", "opencl"}) {
    const codegen::Package made = package(target);
    const std::string bytes = runtime::to_bytes(made);
    CHECK(runtime::is_package(bytes));
    CHECK(runtime::package_from(bytes, "f.tilec") == made);
    CHECK(runtime::to_bytes(package(target)) == bytes);
    CHECK(made.inputs.size() == 3);
    CHECK(made.outputs.size() == 2);
  }
}

TEST_CASE("a package that was loaded computes what the program says") {
  const codegen::Package loaded = runtime::package_from(runtime::to_bytes(package("cpu")), "f.tilec");
  const auto module = runtime::load(loaded, 1);
  std::vector<float> x(35), b(42, 0.5f), c(30), y(35);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k + 1);
  float s = 3;
  void* in[] = {x.data(), b.data(), &s};
  void* out[] = {c.data(), y.data()};
  module->run(in, out);
  for (const float value : c) CHECK(value == doctest::Approx(1.5));  // rows of Y sum to S
  CHECK(y[0] == doctest::Approx(3.0 / 28));
}

TEST_CASE("what a launch passes to its kernel is in the package") {
  for (const char* target : {"cpu", "opencl"}) {
    const codegen::Package made = stepped(target);
    const auto passes = [](const codegen::Launch& launch) { return !launch.numbers.empty(); };
    REQUIRE(std::ranges::any_of(made.launches, passes));
    CHECK(runtime::package_from(runtime::to_bytes(made), "f.tilec") == made);
  }
  const auto module = runtime::load(runtime::package_from(runtime::to_bytes(stepped("cpu")), "f.tilec"), 1);
  std::vector<float> h(5, 0.25f), x(15), w(25), end(5), wanted = h;
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k) / 16;
  for (std::size_t k = 0; k < w.size(); ++k) w[k] = static_cast<float>(k % 7) / 32;
  for (std::size_t s = 0; s < 3; ++s) {
    std::vector<float> next(5);
    for (std::size_t n = 0; n < 5; ++n) {
      float sum = x[5 * s + n];
      for (std::size_t k = 0; k < 5; ++k) sum += w[5 * n + k] * wanted[k];
      next[n] = std::tanh(sum);
    }
    wanted = next;
  }
  void* in[] = {h.data(), x.data(), w.data()};
  void* out[] = {end.data()};
  for (int again = 0; again < 2; ++again) {
    module->run(in, out);
    for (std::size_t n = 0; n < 5; ++n) CHECK(end[n] == doctest::Approx(wanted[n]));
  }
}

TEST_CASE("every byte counts: a package that was cut, grew or has one byte changed is refused") {
  const std::string bytes = runtime::to_bytes(stepped("opencl"));
  for (std::size_t size = 0; size < bytes.size(); ++size) CHECK(!fault_of(bytes.substr(0, size)).empty());
  CHECK(fault_of(bytes + '\0').find("something follows it") != std::string::npos);
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (const int change : {0x01, 0xff}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ change);
      CHECK(!fault_of(changed).empty());
    }
  CHECK(fault_of("").find("cut off") != std::string::npos);
  CHECK(fault_of("function (X[N]) -> (Y) { Y = X; }").find("begins otherwise") != std::string::npos);
  std::string newer = bytes;
  newer[14] = '9';
  CHECK(fault_of(newer).find("another version") != std::string::npos);
}

TEST_CASE("fields that do not fit one another are refused, whatever the checksum says") {
  const auto refused = [](auto change) {
    codegen::Package made = package("opencl");
    change(made);
    return !fault_of(runtime::to_bytes(made)).empty();
  };
  CHECK(!refused([](codegen::Package&) {}));
  CHECK(refused([](codegen::Package& p) { p.launches[0].buffers[0] = 1000; }));
  CHECK(refused([](codegen::Package& p) { p.launches[0].code = 1; }));
  CHECK(refused([](codegen::Package& p) { p.launches[0].grid[1] = -1; }));
  CHECK(refused([](codegen::Package& p) { p.buffers.resize(2); }));
  CHECK(refused([](codegen::Package& p) { p.buffers[0].bytes += 4; }));
  CHECK(refused([](codegen::Package& p) { p.inputs[0].shape[0] = -5; }));
  CHECK(refused([](codegen::Package& p) { p.inputs[0].strides.pop_back(); }));
  CHECK(refused([](codegen::Package& p) { p.workspace = -1; }));
  CHECK(refused([](codegen::Package& p) { p.buffers.push_back({64, 512}); }));
  const auto pair = [](codegen::Package& p) {
    p.backward = {package("opencl")};
    p.backward[0].inputs[0].name = p.outputs[0].name;
  };
  CHECK(refused([&](codegen::Package& p) { pair(p); }));   // of another shape
  CHECK(refused([](codegen::Package& p) { p.kept = 1; }));
  CHECK(refused([](codegen::Package& p) { p.accumulate = {0}; }));          // its last input is no C
  CHECK(refused([](codegen::Package& p) { p.accumulate = {7}; }));
  CHECK(refused([](codegen::Package& p) { p.accumulate.assign(99, 0); }));
  CHECK(refused([](codegen::Package& p) {
    p.inputs.back() = p.outputs.front(), p.accumulate = {0}, p.backward = {package("opencl")};
  }));
  CHECK(!refused([](codegen::Package& p) { p.backward = {package("opencl")}; }));
  CHECK(refused([](codegen::Package& p) { p.backward = {package("opencl")}, p.kept = 3; }));
  CHECK(refused([](codegen::Package& p) { p.backward = {package("opencl"), package("opencl")}; }));
}

TEST_CASE("code for another machine, or for features that this one lacks, is refused by name") {
  const auto fault = [](codegen::Package made, auto change) {
    change(made);
    try {
      static_cast<void>(runtime::load(made, 1));
    } catch (const runtime::RuntimeError& why) {
      return why.diagnostic.code + " " + why.diagnostic.message;
    }
    return std::string();
  };
  CHECK(fault(package("cpu"), [](codegen::Package&) {}).empty());
  const std::string other = fault(package("cpu"), [](codegen::Package& p) { p.architecture = "riscv64"; });
  CHECK(other.find("E0520") == 0);
  CHECK(other.find("riscv64") != std::string::npos);
  const std::string lacking = fault(package("cpu"), [](codegen::Package& p) { p.features.push_back("avx999"); });
  CHECK(lacking.find("this machine lacks avx999") != std::string::npos);
}

TEST_CASE("kernels allocate nothing: locals that are too large for a stack are in the workspace") {
  constexpr const char* rows = R"(
function f(X[M, N], S) -> (Y) {
  T[i: M] = >(X[i, j]);
  E[i, j: M, N] = =(exp(X[i, j] - T[i]) * S);
  Z[i: M] = +(E[i, j]);
  Y[i, j: M, N] = =(E[i, j] / Z[i]);
}
)";
  const codegen::Package package = packed(rows, {{"M", 8}, {"N", 30000}}, "cpu");
  CHECK(package.locals >= 30000 * 4);
  for (const std::string& object : package.code)
    for (const char* name : {"alloc", "free"}) CHECK(object.find(name) == std::string::npos);
  const auto module = runtime::load(package, 0);
  CHECK(module->workspace() >= package.workspace + package.locals);
  std::vector<float> x(8 * 30000, 1), y(x.size());
  float s = 2;
  void* in[] = {x.data(), &s};
  void* out[] = {y.data()};
  module->run(in, out);
  for (const float value : y) REQUIRE(value == doctest::Approx(1.0 / 30000));
}

TEST_CASE("parts of the workspace that live at one time are apart, and the others share") {
  constexpr const char* chain = R"(
function f(X[N, N], S) -> (Y) {
  A[i, j: N, N] = +(X[i, k] * X[k, j]);
  B[i, j: N, N] = +(A[i, k] * A[k, j]);
  C[i, j: N, N] = +(B[i, k] * B[k, j]);
  D[i, j: N, N] = +(C[i, k] * C[k, j]);
  E[i, j: N, N] = +(D[i, k] * D[k, j]);
  Y[i, j: N, N] = +(E[i, k] * X[k, j]);
}
)";
  const codegen::Lowered made =
      *test::compiled(chain, request_for({{"N", 200}}, "cpu"), codegen::Until::Lowered).lowered;
  const codegen::Workspace workspace = codegen::workspace_of(made);
  std::int64_t all = 0;
  for (std::size_t a = 0; a < made.buffers.size(); ++a) {
    if (made.buffers[a].role != codegen::Buffer::Role::Scratch) continue;
    all += made.buffers[a].count() * lang::bytes(made.buffers[a].dtype);
    for (std::size_t b = 0; b < a; ++b) {
      if (made.buffers[b].role != codegen::Buffer::Role::Scratch) continue;
      const auto in_use = [&](std::size_t step, std::size_t buffer) {
        bool before = false, after = false;
        for (std::size_t s = 0; s < made.steps.size(); ++s)
          if (std::ranges::count(made.steps[s].buffers, static_cast<int>(buffer)) > 0)
            (s <= step ? before : after) = true, after |= s == step;
        return before && after;
      };
      const auto end = [&](std::size_t buffer) {
        return workspace.offsets[buffer] + made.buffers[buffer].count() * lang::bytes(made.buffers[buffer].dtype);
      };
      for (std::size_t step = 0; step < made.steps.size(); ++step)
        if (in_use(step, a) && in_use(step, b))
          CHECK((workspace.offsets[a] >= end(b) || workspace.offsets[b] >= end(a)));
    }
  }
  CHECK(workspace.bytes < all);
  CHECK(workspace.bytes > 0);
}

}  // namespace tilec
