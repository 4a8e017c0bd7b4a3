// Contractions on tensor cores: what is chosen, what is refused, and NVRTC compiles what is chosen for large ones
// without a spill. That they compute what they should: tests/simulated/unit_tensor_cores.cpp.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "codegen/simt/emit.h"
#include "codegen/tensor_cores.h"
#include "runtime/nvrtc.h"
#include "tests/codegen/compiled.h"

namespace tilec::test {
namespace {

using namespace codegen;
using lang::DType;

std::optional<Stages> compiled(const std::string& text, const Sizes& sizes, const char* target, Until until,
    const std::string& plan, std::string& message) {
  lang::Diagnostics diagnostics;
  Request request = request_for(sizes, target);
  if (!plan.empty()) request.plan = PlanText{plan};
  auto stages = codegen::compile(parsed(text), request, until, diagnostics);
  message = stages ? "" : lang::render(diagnostics, {{"test.tile", text}}, {});
  return stages;
}

Stages compiled(const std::string& text, const Sizes& sizes, const char* target, Until until = Until::Plan,
    const std::string& plan = "") {
  std::string message;
  auto stages = compiled(text, sizes, target, until, plan, message);
  REQUIRE_MESSAGE(stages, message, plan);
  return std::move(*stages);
}

const Compute* on_tensor_cores(const Plan& plan) {
  for (const Group& group : plan.groups)
    for (const Compute& leaf : group.body) if (leaf.is<forms::TensorCores>()) return &leaf;
  return nullptr;
}

}  // namespace

TEST_CASE("what is chosen for tensor cores compiles without a spill") {
  std::string why;
  if (runtime::nvrtc_library(why).empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
    std::vector<Stages> made;
    for (const MatrixInstruction& i :
        {*matrix_instruction("m16n8k16.bf16"), *matrix_instruction("m16n8k32.i8"), *matrix_instruction("m16n8k8.tf32")})
      for (const auto& sizes :
          {Sizes{{"M", 4096}, {"N", 4096}, {"K", 4096}}, Sizes{{"M", 1001}, {"N", 903}, {"K", 1100}}})
        for (const char* factors : {"A[M, K], B[K, N] A[i, k] B[k, j]", "A[K, M], B[N, K] A[k, i] B[j, k]"}) {
          const std::string words = factors, type(lang::name(i.operand)), wide(lang::name(i.accumulator));
          const std::string text =
              fmt::format("function f({0} {1}, {0} {2}) -> (C) {{ C[i, j: M, N] = +({3}({4}) * {3}({5})); }}", type,
                  words.substr(0, 7), words.substr(9, 7), wide, words.substr(17, 7), words.substr(25));
          CAPTURE(text);
          made.push_back(compiled(text, sizes, fmt::format("cuda:{}:math=tf32", architecture).c_str(), Until::Lowered));
          REQUIRE(on_tensor_cores(*made.back().plan));
          made.back().lowered->steps.back().loops.functions.back().name = fmt::format("k{}", made.size());
        }
    for (const char* text :
        {"function f(f16 I[N, H, W, C], f16 K[3, 3, C, O]) -> (R) { R[n, y, x, o: N, H, W, O] = +(I[n, y + j - 1, x + k - 1, c] * K[j, k, c, o]); }",
            "function f(f16 I[N, H, W, C], f16 D[N, H, W, O]) -> (R) { R[j, k, c, o: 3, 3, C, O] = +(I[n, y + j - 1, x + k - 1, c] * D[n, y, x, o]); }"}) {
      made.push_back(compiled(text, {{"N", 8}, {"H", 57}, {"W", 56}, {"C", 256}, {"O", 264}},
          (std::string("cuda:") + architecture).c_str(), Until::Lowered, "no split\n"));
      REQUIRE(on_tensor_cores(*made.back().plan));
      made.back().lowered->steps.back().loops.functions.back().name = fmt::format("k{}", made.size());
    }
    std::vector<const Loops*> kernels;
    for (const Stages& s : made) kernels.push_back(&s.lowered->steps.back().loops);
    for (const runtime::KernelStats& k :
        runtime::compile_cuda(simt::emit(kernels, simt::Dialect::Cuda), architecture).kernels)
      CHECK_MESSAGE(k.spill_stores + k.spill_loads + k.stack == 0, std::string(architecture), " ", k.name, ": spills of ",
          k.spill_stores, " and ", k.spill_loads, " bytes, a stack of ", k.stack);
  }
}

TEST_CASE("a plan that cannot be spelled is refused with its reason") {
  const std::string text =
      "function f(bf16 A[M, K], bf16 B[K, N]) -> (C) { C[i, j: M, N] = +(f32(A[i, k]) * f32(B[k, j])); }";
  const Sizes sizes{{"M", 512}, {"N", 512}, {"K", 512}};
  const auto message = [&](const char* target, const std::string& block, const std::string& program = "") {
    std::string said;
    const auto stages = compiled(program.empty() ? text : program, sizes, target, Until::Plan,
        "no split\ngroup C  threads 256\n  contract C  m i  n j  k k  " + block + "\n", said);
    return said;
  };
  const auto says = [](const std::string& message, const char* part) {
    return message.find(part) != std::string::npos;
  };
  CHECK(message("cuda:sm_80", "block 2x4  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3") == "");
  CHECK(message("cuda:sm_90a", "block 1x32  lanes 128  stage 64  mma m64n8k16.bf16  warps 2x1  buffers 4") == "");
  CHECK(says(message("cuda:sm_100", "block 1x32  lanes 128  stage 64  mma m64n8k16.bf16  warps 2x1  buffers 4"),
      "runs on sm_90a alone"));
  CHECK(says(message("cuda:sm_90a", "block 1x12  lanes 128  stage 64  mma m64n8k16.bf16  warps 2x1  buffers 4"),
      "have 64, 128, 192 or 256 columns"));
  CHECK(says(message("cuda:sm_90a", "block 1x32  lanes 128  stage 64  mma m64n8k16.bf16  warps 2x1  buffers 2"),
      "three buffers at least"));
  CHECK(says(message("cuda:sm_90a", "block 1x32  lanes 128  stage 32  mma m64n8k16.bf16  warps 2x1  buffers 4"),
      "whole lines of 128 bytes"));
  CHECK(says(message("cuda:sm_75", "block 2x4  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3"),
      "runs on CUDA from sm_80 on"));
  CHECK(says(message("opencl", "block 2x4  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3"),
      "runs on CUDA from sm_80 on"));
  CHECK(says(message("cuda:sm_80", "block 2x4  lanes 32  stage 32  mma m16n8k16.f16  warps 2x4  buffers 3"),
      "is no sum of products of two reads that `m16n8k16.f16` multiplies"));
  CHECK(says(message("cuda:sm_80", "block 2x4  lanes 32  stage 32  mma m8n8k4  warps 2x4  buffers 3"),
      "is no instruction of tensor cores"));
  CHECK(says(  // of no copy that rounds
      message("cuda:sm_90a:math=tf32", "block 1x32  lanes 128  stage 32  mma m64n8k8.tf32  warps 2x1  buffers 4",
          "function f(A[M, K], B[N, K]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[j, k]); }"),
      "is no sum of products of two reads that `m64n8k8.tf32` multiplies"));
  CHECK(says(message("cuda:sm_80", "block 2x3  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3"),
      "no odd number along `n`"));
  CHECK(says(message("cuda:sm_80", "block 4x16  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3"),
      "16 products of two instructions side by side at most"));
  CHECK(says(message("cuda:sm_80", "block 2x4  lanes 32  stage 40  mma m16n8k16.bf16  warps 2x4  buffers 3"),
      "no multiple of the 16"));
  CHECK(says(message("cuda:sm_80", "block 2x4  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x2  buffers 3"),
      "are not the 256 threads of a block"));
  CHECK(says(message("cuda:sm_80", "block 4x8  lanes 32  stage 64  mma m16n8k16.bf16  warps 2x4  buffers 4"),
      "bytes of shared memory"));
  CHECK(says(
      message("cuda:sm_80", "block 2x4  lanes 32  stage 32  mma m16n8k16.bf16  warps 2x4  buffers 3",
          "function f(bf16 A[M, K], bf16 B[K, N]) -> (C) { C[i, j: M, N] = +(exp(f32(A[i, k])) * f32(B[k, j])); }"),
      "no sum of products of two reads"));
}

TEST_CASE("other types, small shapes and older machines have no tensor cores") {
  const auto chosen = [](const std::string& factors, const char* target, std::int64_t size = 512) {
    const std::string text =
        "function f(bf16 A[M, K], bf16 B[K, N], f16 H[K, N], f32 F[K, N], i8 I[M, K]) -> (C) { C[i, j: M, N] = +(" +
        factors + "); }";
    return on_tensor_cores(*compiled(text, {{"M", size}, {"N", size}, {"K", size}}, target).plan) != nullptr;
  };
  CHECK(chosen("f32(A[i, k]) * f32(B[k, j])", "cuda:sm_80"));
  CHECK(chosen("A[i, k] * B[k, j]", "cuda:sm_90a"));
  CHECK(!chosen("A[i, k] * B[k, j]", "cuda:sm_75"));
  CHECK(!chosen("A[i, k] * B[k, j]", "opencl"));
  CHECK(!chosen("A[i, k] * B[k, j]", "cuda:sm_80", 32));
  CHECK(chosen("A[i, k] * H[k, j]", "cuda:sm_80"));    // tf32 holds both
  CHECK(!chosen("A[i, k] * F[k, j]", "cuda:sm_80"));   // but not f32,
  CHECK(chosen("A[i, k] * F[k, j]", "cuda:sm_80:math=tf32"));  // unless it may be rounded
  CHECK(chosen("F[k, i] * F[k, j]", "cuda:sm_80:math=tf32"));
  CHECK(!chosen("F[k, i] * F[k, j]", "cuda:sm_80"));
  CHECK(!chosen("f64(A[i, k]) * f64(B[k, j])", "cuda:sm_80"));
  CHECK(!chosen("f16(f32(A[i, k])) * H[k, j]", "cuda:sm_80"));  // the cast rounds
  CHECK(chosen("I[i, k] * H[k, j]", "cuda:sm_80"));    // f16 hold every byte,
  CHECK(chosen("I[i, k] * B[k, j]", "cuda:sm_80"));    // and bf16;
  CHECK(!chosen("I[i, k] * F[k, j]", "cuda:sm_80"));   // beside f32 they are f32
}

}  // namespace tilec::test
