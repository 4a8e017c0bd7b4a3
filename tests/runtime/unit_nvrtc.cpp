// The SIMT emitter's CUDA text goes through NVRTC for two architectures: it compiles, and no kernel spills. No GPU is
// needed. Exit status 77 (skipped) without NVRTC.
#include <doctest/doctest.h>

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "lang/load.h"
#include "runtime/find.h"
#include "runtime/nvrtc.h"
#include "tests/codegen/compiled.h"
#include "tests/codegen/simt_kernels.h"

namespace tilec::test {
namespace {

std::string text_of(const std::vector<Loops>& kernels) {
  std::vector<const Loops*> list;
  for (const Loops& l : kernels) list.push_back(&l);
  return simt::emit(list, simt::Dialect::Cuda);
}

runtime::CudaObject compiled(const std::vector<Loops>& kernels, const char* architecture) {
  const std::string text = text_of(kernels);
  runtime::CudaObject object = runtime::compile_cuda(text, architecture);
  CHECK(object.kernels.size() == kernels.size());
  CHECK(object.cubin.substr(1, 3) == "ELF");
  for (const runtime::KernelStats& k : object.kernels) {
    CHECK_MESSAGE(k.spill_stores + k.spill_loads + k.stack == 0, k.name, ": spills of ", k.spill_stores, " and ",
        k.spill_loads, " bytes, a stack of ", k.stack);
    CHECK(k.registers > 0);
    if (std::getenv("SHOW"))
      fmt::print("{} {}: {} registers, {} bytes shared\n", architecture, k.name, k.registers, k.shared);
  }
  return object;
}

codegen::Lowered chosen(
    const std::string& text, const test::Sizes& sizes, bool gradient, const std::string& architecture) {
  return *test::compiled(
      text, test::request_for(sizes, "cuda:" + architecture, gradient ? 1 : 0), codegen::Until::Lowered)
              .lowered;
}

std::vector<Loops> kernels_of(const codegen::Lowered& lowered) {
  std::vector<Loops> kernels;
  for (const codegen::Step& step : lowered.steps) kernels.push_back(step.loops);
  return kernels;
}

}  // namespace

TEST_CASE("operations and casts of every type compile") {
  std::vector<Loops> kernels;
  for (DType type : lang::all_dtypes) {
    kernels.push_back(operations(type, 225).loops);
    kernels.push_back(casts(type, 225));
  }
  const runtime::CudaObject object = runtime::compile_cuda(text_of(kernels), "sm_80");
  CHECK(object.kernels.size() == kernels.size());
}

TEST_CASE("matmul, softmax and folds do not spill") {
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    const auto object =
        compiled({matmul("matmul", 4096, 4096, 4096, 128, 128, 16, 8, 8, 16),
                     matmul("ragged", 1021, 509, 251, 64, 64, 16, 4, 4), softmax("softmax", 4000, 1000, 128),
                     softmax("warp", 4000, 1000, 32), reduction("sum_100", DType::F32, Aggregation::Sum, 3, 100),
                     reduction("product_i8", DType::I8, Aggregation::Product, 3, 64),
                     reduction("max_f64", DType::F64, Aggregation::Max, 3, 1024)},
            architecture);
    const auto at = std::find_if(
        object.kernels.begin(), object.kernels.end(), [](const runtime::KernelStats& k) { return k.name == "matmul"; });
    REQUIRE(at != object.kernels.end());
    CHECK(at->registers <= 128);                       // so that two blocks of 256 threads fit
  }
}

TEST_CASE("what is chosen for rows and for what is read across does not spill") {
  const std::string softmax =
      "function f(X[M, N]) -> (Y) { Mx[i: M] = >(X[i, j]); E[i, j: M, N] = =(exp(X[i, j] - Mx[i])); S[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / S[i]); }";
  const std::string across = "function f(f16 X[M, N], Z[N, M]) -> (Y) { Y[j, i: N, M] = =(tanh(X[i, j]) + Z[j, i]); }";
  const std::string window =
      "function f(X[M, H, N], K[R, N]) -> (Y) { Y[m, h, n: M, H, N] = +(X[m, h + r - 2, n] * K[r, n]); }";
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"})
    for (const auto& [text, n, gradient] :
        std::vector<std::tuple<std::string, std::int64_t, bool>>{{softmax, 1000, false}, {softmax, 50000, false},
            {softmax, 50001, true}, {across, 1001, false}, {window, 128, false}}) {
      test::Sizes sizes{{"M", 777}, {"N", n}};
      if (text == window) sizes.insert({{"H", 40}, {"R", 5}});
      const codegen::Lowered lowered = chosen(text, sizes, gradient, architecture);
      CHECK(lowered.steps.size() == 1);
      compiled(kernels_of(lowered), architecture);
    }
}

// Rows that divide by a part and rows that do not; sums that shared memory holds and sums that it does not.
TEST_CASE("sums over the rows of other statements do not spill") {
  const std::string norm =
      "function f(X[M, N], G[N], B[N]) -> (Y) { S[i: M] = +(X[i, j] / N); C[i, j: M, N] = =(X[i, j] - S[i]); V[i: M] = +(C[i, j] * C[i, j] / N);"
      " R[i: M] = =(1 / sqrt(V[i] + 1e-5)); Y[i, j: M, N] = =(C[i, j] * R[i] * G[j] + B[j]); }";
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"})
    for (const auto& [rows, columns] :
        std::vector<std::pair<std::int64_t, std::int64_t>>{{8192, 1024}, {8191, 1001}, {4096, 20000}}) {
      const codegen::Lowered lowered = chosen(norm, {{"M", rows}, {"N", columns}}, true, architecture);
      CHECK(lowered.steps.size() == 2);                // the rows with both sums, the sums of the parts of both
      compiled(kernels_of(lowered), architecture);
    }
}

TEST_CASE("passes over the scores of attention do not spill") {
  const std::string attention =
      "function f(Q[H, T, D], K[H, S, D], V[H, S, E]) -> (O) { Score[h, t, s: H, T, S] = +(Q[h, t, d] * K[h, s, d]), s <= t; Mx[h, t: H, T] = >(Score[h, t, s]), s <= t;"
      " P[h, t, s: H, T, S] = =(exp(Score[h, t, s] - Mx[h, t])), s <= t; Z[h, t: H, T] = +(P[h, t, s]), s <= t; U[h, t, e: H, T, E] = +(P[h, t, s] * V[h, s, e]), s <= t; O[h, t, e: H, T, E] = =(U[h, t, e] / Z[h, t]); }";
  for (const char* architecture : {"sm_80", "sm_90a"})
    for (const std::int64_t positions : {1024, 1021}) {
      const codegen::Lowered lowered =
          chosen(attention, {{"H", 16}, {"T", positions}, {"S", positions}, {"D", 64}, {"E", 64}}, false, architecture);
      CHECK(lowered.steps.size() == 1);
      compiled(kernels_of(lowered), architecture);
    }
}

TEST_CASE("passes over the scores of attention on tensor cores do not spill, nor do those of its gradients") {
  // Gradients take NVRTC 5 to 9 s: those of one type are left out for sm_80, those of the other for sm_100, which has
  // the same instructions for both.
  struct Shape {
    std::string type, bounds;
    std::int64_t positions, width;
    bool gradient;
    std::string_view left_out = "";
  };
  for (const auto& [type, bounds, positions, width, gradient, left_out] :
      {Shape{"bf16", "", 1024, 64, false}, Shape{"bf16", "", 1021, 40, false},
          Shape{"bf16", ", s <= t", 1024, 128, false}, Shape{"f16", ", s <= t", 1024, 64, false},
          Shape{"bf16", ", s <= t", 1024, 64, true, "sm_80"}, Shape{"f16", "", 1021, 40, true, "sm_100"}}) {
    const std::string attention = "function f(" + type + " Q[H, T, D], " + type + " K[H, S, D], " + type +
        " V[H, S, E]) -> (" + type + " O) { Score[h, t, s: H, T, S] = +(f32(Q[h, t, d]) * f32(K[h, s, d]))" + bounds +
        "; X[h, t, s: H, T, S] = =(Score[h, t, s] / sqrt(f32(D)))" + bounds + "; Mx[h, t: H, T] = >(X[h, t, s])" +
        bounds + "; P[h, t, s: H, T, S] = =(exp(X[h, t, s] - Mx[h, t]))" + bounds + "; Z[h, t: H, T] = +(P[h, t, s])" +
        bounds + "; U[h, t, e: H, T, E] = +(P[h, t, s] * f32(V[h, s, e]))" + bounds + "; O[h, t, e: H, T, E] = =(" +
        type + "(U[h, t, e] / Z[h, t])); }";
    for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
      if (architecture == left_out) continue;
      CAPTURE(architecture);
      CAPTURE(type);
      CAPTURE(width);
      const codegen::Lowered lowered = chosen(attention,
          {{"H", 16}, {"T", positions}, {"S", positions}, {"D", width}, {"E", width}}, gradient, architecture);
      // What is f32 beside f16 has columns in two parts, which `wgmma` does not read.
      const bool groups = architecture == std::string_view("sm_90a") && type == "bf16";
      const std::string multiply = std::string("multiply ") + (groups ? "m64n8k16." : "m16n8k16.") + type;
      const auto cores = std::ranges::count_if(lowered.steps,
          [&](const codegen::Step& step) { return print(step.loops).find(multiply) != std::string::npos; });
      CHECK(cores == (gradient ? 3 : 1));
      compiled(kernels_of(lowered), architecture);
    }
  }
}

// Sizes that divide by accesses of 16 bytes and sizes that do not; the border of an image; operands that lie along the
// reduction, or across.
TEST_CASE("staged contractions do not spill") {
  const auto kernels = [](const std::string& text, const test::Sizes& sizes, const std::string& architecture,
                           const std::string& plan = "") {
    codegen::Request request = test::request_for(sizes, "cuda:" + architecture);
    if (!plan.empty()) request.plan = codegen::PlanText{plan, 0};
    const codegen::Stages stages = test::compiled(text, request, codegen::Until::Lowered);
    CHECK(stages.plan->groups.front().body.front().is<codegen::forms::Staged>());
    return kernels_of(*stages.lowered);
  };
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
    const auto blocks = [&](const std::string& tile) {  // that fit
      const auto large = kernels("function f(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
          {{"M", 4096}, {"N", 4096}, {"K", 512}}, architecture,
          "group C  threads 256\n  contract C  m i  n j  k k  block " + tile + "  lanes 16  stage 8\n");
      return 65536 /
          (compiled(large, architecture).kernels.front().registers *
              simt::launch(large.front(), simt::Dialect::Cuda).threads);
    };
    CHECK(blocks("16x8") == 1);
    CHECK(blocks("8x8") == 2);
    compiled(kernels("function f(A[K, M], B[N, K]) -> (C) { C[i, j: M, N] = +(A[k, i] * B[j, k]); }",
                 {{"M", 1021}, {"N", 509}, {"K", 251}}, architecture),
        architecture);
    compiled(
        kernels(
            "function f(I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) { O[n, y, x, co: N, H, W, CO] = +(I[n, y + j - 1, x + i - 1, ci] * K[j, i, ci, co]); }",
            {{"N", 8}, {"H", 28}, {"W", 28}, {"CI", 64}, {"CO", 64}, {"KH", 3}, {"KW", 3}}, architecture),
        architecture);
    compiled(kernels("function f(f64 A[M, K], f64 B[K, N]) -> (f64 C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
                 {{"M", 512}, {"N", 512}, {"K", 512}}, architecture),
        architecture);
  }
}

// What a plan takes for granted: registers for all threads of a block, the shared memory that its launch states, and no
// spill.
TEST_CASE("functions of std/ keep to their plans") {
  struct Case { const char *file, *inputs, *call; test::Sizes sizes; bool gradient; };
  const Case cases[] = {{"softmax", "X[M, N]", "softmax(X)", {{"M", 1000}, {"N", 1500}}, true},
      {"softmax", "X[M, N]", "softmax_columns(X)", {{"M", 900}, {"N", 700}}, false},
      {"norm", "X[M, C], G[C], B[C]", "layer_norm(X, G, B)", {{"M", 2000}, {"C", 1024}}, true},
      {"norm", "X[N, C, H, W], G[C], B[C]", "group_norm_nchw(X, G, B)", {{"N", 16}, {"C", 64}, {"H", 30}, {"W", 30}},
          true},
      {"attention", "Q[B, H, T, D], K[B, H, S, D], V[B, H, S, E]", "attention_causal(Q, K, V)",
          {{"B", 2}, {"H", 4}, {"T", 300}, {"S", 300}, {"D", 64}, {"E", 64}}, true},
      {"scan", "X[M, N]", "cumsum_rows(X)", {{"M", 300}, {"N", 3000}}, true}};
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"})
    for (const Case& c : cases) {
      const std::string text =
          fmt::format("import \"std/{}.tile\";\nfunction f({}) -> (Y) {{ Y = {}; }}\n", c.file, c.inputs, c.call);
      CAPTURE(text);
      lang::Diagnostics diagnostics;
      std::vector<lang::Source> sources;
      const auto file = lang::load({"test.tile", text}, runtime::find_in({}), sources, diagnostics);
      REQUIRE(file);
      codegen::Request request;
      request.signature.function = "f";
      request.sizes = c.sizes;
      if (c.gradient) request.derivatives.emplace_back();
      request.target = *codegen::target_named(std::string("cuda:") + architecture);
      const auto stages = codegen::compile(*file, request, codegen::Until::Lowered, diagnostics);
      REQUIRE(stages);
      std::vector<Loops> kernels;
      std::set<std::string> seen;
      for (const codegen::Step& step : stages->lowered->steps)
        if (seen.insert(step.kernel).second) kernels.push_back(step.loops);
      const runtime::CudaObject object = compiled(kernels, architecture);
      for (const Loops& loops : kernels) {
        const simt::Launch launch = simt::launch(loops, simt::Dialect::Cuda);
        const auto at =
            std::ranges::find(object.kernels, simt::symbol(loops.functions.back().name), &runtime::KernelStats::name);
        REQUIRE(at != object.kernels.end());
        CAPTURE(at->name);
        CHECK(at->registers * launch.threads <= 65536);
        // from sm_90 on the system has 1 KB
        CHECK(at->shared <= launch.shared - launch.dynamic_shared + (std::string(architecture) == "sm_80" ? 0 : 1024));
      }
    }
}

TEST_CASE("shared memory beyond 48 KB is asked for at launch") {
  const Loops big = matmul("big", 4096, 4096, 4096, 128, 128, 64, 8, 8);
  CHECK(simt::launch(big, simt::Dialect::Cuda).dynamic_shared == 64 * 256 * 4);
  CHECK(simt::launch(big, simt::Dialect::OpenCl).dynamic_shared == 0);
  compiled({big}, "sm_90a");
}

TEST_CASE("PTX names its architecture") {
  const auto object =
      runtime::compile_cuda(text_of({softmax("softmax", 4, 100, 32)}), "sm_90a", runtime::CudaOutput::Ptx);
  CHECK(object.cubin.empty());
  CHECK(object.ptx.find(".target sm_90a") != std::string::npos);
  CHECK(object.ptx.find(".entry softmax") != std::string::npos);
}

// By one thread, to memory that the kernel's own pointer reaches: a pointer that is `__restrict__` was read before.
TEST_CASE("what threads write for each other is read behind the barrier") {
  const codegen::Lowered lowered = chosen(
      "function f(X[N, C, H, W], G[C]) -> (Y, M, V) { M[c: C] = +(X[n, c, y, x] / (N * H * W)); D[n, c, y, x: N, C, H, W] = =(X[n, c, y, x] - M[c]);"
      " V[c: C] = +(D[n, c, y, x] * D[n, c, y, x] / (N * H * W)); Y[n, c, y, x: N, C, H, W] = =(D[n, c, y, x] * G[c] / sqrt(V[c])); }",
      {{"N", 4}, {"C", 8}, {"H", 16}, {"W", 16}}, false, "sm_90a");
  const auto step = std::ranges::find_if(
      lowered.steps, [](const codegen::Step& s) { return print(s.loops).find(" inout") != std::string::npos; });
  REQUIRE(step != lowered.steps.end());
  codegen::Lowered one = lowered;
  one.steps = {*step};
  const std::string ptx =
      runtime::compile_cuda(simt::emit(one, simt::Dialect::Cuda), "sm_90a", runtime::CudaOutput::Ptx).ptx;
  const std::size_t stored = ptx.find("st.global.f32"), barrier = ptx.find("bar.sync", stored);
  REQUIRE(barrier != std::string::npos);
  CHECK(ptx.find("ld.global.f32") > barrier);
}

TEST_CASE("a text that does not compile is saved, and the error names the file") {
  const std::string text = "extern \"C\" __global__ void k(float* x) { x[0] = gone; }\n";
  try {
    runtime::compile_cuda(text, "sm_90a");
    FAIL("it compiled");
  } catch (const runtime::RuntimeError& e) {
    const std::string& message = e.diagnostic.message;
    CHECK(e.diagnostic.code == "E0521");
    CHECK(message.find("gone") != std::string::npos);
    const std::size_t end = message.find(".cu`"), begin = message.rfind('`', end - 1) + 1;
    REQUIRE(end != std::string::npos);
    const std::string path = message.substr(begin, end + 3 - begin);
    std::ifstream file(path);
    std::stringstream saved;
    saved << file.rdbuf();
    CHECK(saved.str() == text);
    std::remove(path.c_str());
  }
}

TEST_CASE("architectures that do not exist") {
  const auto code = [](const char* architecture) {
    try {
      runtime::compile_cuda("", architecture);
    } catch (const runtime::RuntimeError& e) {
      return e.diagnostic.code;
    }
    return std::string("none");
  };
  CHECK(code("sm_12") == "E0524");
  CHECK(code("hopper") == "E0514");
}

}  // namespace tilec::test

int main(int argc, char** argv) {
  std::string why;
  if (tilec::runtime::nvrtc_library(why).empty()) {
    fmt::print("skipped: {}\n", why);
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
