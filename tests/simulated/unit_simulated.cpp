// The simulated GPU itself: kernels that do wrong, and what it says of each; and some that come close to it and are
// right.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/assemble.h"
#include "runtime/device.h"
#include "runtime/module.h"
#include "runtime/nvrtc.h"
#include "tests/codegen/compiled.h"

namespace tilec {
namespace {

using runtime::Memory;

struct Kernel {
  const char *name, *says, *body;                      // says: nothing, where it is right
  const char* parameters = "const float* x, float* y";
};

// Each on `x` and `y`, 256 floats of which y has been written by nobody, by two blocks of 64 threads; `t` is a thread's
// place in its block, `i` that in x.
const std::vector<Kernel> kernels = {
    {"own", "", "y[i] = x[i];"},
    {"beyond", "a read of 4 bytes outside of every argument", "y[i] = x[i + 200];"},
    {"before", "a write of 4 bytes outside of every argument", "y[i - 1] = 0;"},
    {"odd", "a read of 8 bytes that is not aligned, at byte 4 of argument 0", "y[i] = (float)*(const double*)(x + 1);"},
    {"unwritten", "a read of what nobody has written, at byte 256 of argument 1", "y[i] = y[i] + 1;"},
    {"assumed", "a pointer that is not aligned to 16 bytes",
        "const float* z = (const float*)__builtin_assume_aligned(x + 1, 16); y[i] = z[t];"},
    {"same_place", "a race, two threads write", "y[blockIdx.x] = 1;"},
    {"other_block", "a race, two blocks write", "y[t] = 1;"},
    {"reads_block", "another block", "if (blockIdx.x == 0) ((float*)x)[i] = 1; y[i] = x[t];"},
    {"through_shared", "", "__shared__ float s[64]; s[t] = x[i]; __syncthreads(); y[i] = s[63 - t];"},
    {"no_barrier", "", "__shared__ float s[64]; s[t] = x[i]; y[i] = s[t];"},
    {"too_early", "without a barrier",
        "__shared__ float s[64]; if (t == 0) for (int k = 0; k < 64; ++k) s[k] = 0; s[63 - t] = x[i]; __syncthreads(); y[i] = s[t];"},
    {"overtaken", "without a barrier between",
        "__shared__ float s[64]; s[t] = x[i]; __syncthreads(); y[i] = s[63 - t]; s[t] = 0;"},
    {"block_before", " of shared memory",
        "__shared__ float s[64]; if (blockIdx.x == 0) s[t] = x[i]; __syncthreads(); if (blockIdx.x == 1) y[i] = s[0]; else y[i] = s[t];"},
    {"out_of_array", "an index outside of its array, or a number outside of its type",
        "__shared__ float s[64]; s[t] = 0; __syncthreads(); y[i] = s[t + (int)x[i] + 1];"},
    {"behind_barrier", "", "y[i] = x[i]; __syncthreads(); const float v = y[i ^ 1]; __syncthreads(); y[i] = v;"},
    {"restricted", "a read through a __restrict__ pointer of what another thread has written", "y[i] = x[i]; __syncthreads(); const float v = y[i ^ 1]; __syncthreads(); y[i] = v;",
        "const float* __restrict__ x, float* __restrict__ y"},
    {"own_restricted", "", "y[i] = x[i]; __syncthreads(); y[i] = y[i] + 1;",
        "const float* __restrict__ x, float* __restrict__ y"},
    {"reads_restricted", "", "y[i] = x[i ^ 1]; __syncthreads(); y[i] = y[i] + x[i];",
        "const float* __restrict__ x, float* __restrict__ y"},
    {"large", "a number outside of its type", "int k = 1 << 30; y[i] = (float)(k * (4 + (int)x[i]));"},
    {"shifted", "a number outside of its type", "y[i] = (float)(1 << (32 + (int)x[i]));"},
    {"divided", "a number outside of its type", "y[i] = (float)(7 / (int)x[i]);"},
    {"converted", "a number outside of its type", "y[i] = (float)(int)(3e9f + x[i]);"},
    {"negated", "a number outside of its type", "y[i] = (float)-(-2147483647 - 1 + (int)x[i]);"},
    {"some_leave", "threads wait at a barrier that others have left the kernel without",
        "if (t == 5) return; __syncthreads(); y[i] = 0;"},
    {"two_barriers", "threads wait at different barriers",
        "if (t < 32) { __syncthreads(); } else {\n __syncthreads(); }\n y[i] = 0;"},
    {"behind_warp", "", "__shared__ float s[64]; s[t] = x[i]; __syncwarp(); const float v = s[t ^ 31]; __syncwarp(); s[t] = v; y[i] = v;"},
    {"beside_warp", "a read of what another thread writes without a barrier between",
        "__shared__ float s[64]; s[t] = x[i]; __syncwarp(); y[i] = s[t ^ 32];"},
    {"over_warp", "a write of what another thread reads without a barrier between",
        "__shared__ float s[64]; s[t] = x[i]; __syncthreads(); const float v = s[t ^ 32]; __syncwarp(); s[t] = v; y[i] = v;"},
    {"over_both", "a write of what another thread reads without a barrier between",
        "__shared__ float s[64]; s[t] = x[i]; __syncthreads(); float v = s[t ^ 32]; v += s[t]; __syncwarp(); v += s[t]; s[t] = v; y[i] = v;"},
    {"half_a_warp", "threads wait for others of their warp that do not come",
        "if (t % 32 < 16) y[i] = __shfl_xor_sync(0xffffffffu, x[i], 1);"},
    {"out_of_mask", "a shuffle reads lane 16, which its mask leaves out",
        "if (t % 32 < 16) y[i] = __shfl_xor_sync(0xffffu, x[i], 16);"},
    {"whole_warp", "", "y[i] = __shfl_xor_sync(0xffffffffu, x[i], 31);"},
    {"asked", "", "COPY ASKED WAITED y[i] = s[t];"},
    {"not_waited", "a read of what nobody has written", "COPY ASKED y[i] = s[t];"},
    {"not_asked", "a read of what nobody has written", "COPY WAITED y[i] = s[t];"},
    {"of_another", " of shared memory", "COPY ASKED WAITED y[i] = s[63 - t];"},
    {"under_copy", " of shared memory", "COPY ASKED WAITED __syncthreads(); y[i] = s[63 - t]; AGAIN ASKED"},
    {"copy_of_odd", "cp.async of more than its bytes, or from an address that is not aligned",
        "__shared__ float s[256]; if (t < 32) asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2, %3;\" :: \"l\"(&s[2 * t]), \"l\"(x + 1), \"n\"(8), \"r\"(8) : \"memory\"); y[i] = 0;"},
};

std::string replaced(std::string text, const std::string& word, const std::string& by) {
  for (std::size_t at; (at = text.find(word)) != std::string::npos;) text.replace(at, word.size(), by);
  return text;
}

codegen::Package package() {
  codegen::Package p;
  std::string text;
  for (const Kernel& k : kernels)
    text += std::string("extern \"C\" __global__ void __launch_bounds__(64) ") + k.name +
        "(" + k.parameters + ") { const int t = threadIdx.x, i = 64 * blockIdx.x + t; " + k.body + " }\n";
  const std::string copy =
      "asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2, %3;\" :: \"l\"(&s[t]), \"l\"(x + i), \"n\"(4), \"r\"(4) : \"memory\");";
  text = replaced(replaced(text, "COPY", "__shared__ float s[64]; " + copy), "AGAIN", copy);
  text = replaced(replaced(text, "ASKED", "asm volatile(\"cp.async.commit_group;\" ::: \"memory\");"), "WAITED",
      "asm volatile(\"cp.async.wait_group %0;\" :: \"n\"(0) : \"memory\");");
  p.form = codegen::Package::Code::Cubins;
  p.code = {runtime::compile_cuda(text, "sm_80").cubin};
  p.buffers = {{1024, 0}, {1024, 0}};
  return p;
}

std::string fault_of(const auto& work) {
  try {
    work();
  } catch (const runtime::RuntimeError& e) {
    return e.diagnostic.message;
  }
  return "";
}

}  // namespace

TEST_CASE("what a kernel does wrong is found and named with its line, and the next one runs") {
  const auto device = runtime::open_device("cuda");
  codegen::Package p = package();
  for (const Kernel& k : kernels) {
    const std::string name = k.name;
    CAPTURE(name);
    p.launches = {{k.name, {0, 1}, {}, 0, {2, 1, 1}, 64}};
    const auto loaded = device->load(p);
    const std::vector<Memory> memory = {device->allocate(1024), device->allocate(1024)};
    const std::vector<float> zeros(256);
    device->copy_in(memory[0], zeros.data(), 1024);
    const std::string said = fault_of([&] { device->run(*loaded, memory), device->wait(); });
    if (!*k.says) CHECK(said.empty());
    CHECK_MESSAGE(said.find(k.says) != std::string::npos, said);
    if (*k.says) CHECK_MESSAGE(said.find(std::string("kernel ") + k.name) != std::string::npos, said);
    if (*k.says) CHECK_MESSAGE(said.find(", line ") != std::string::npos, said);
  }
}

TEST_CASE("what a kernel does wrong around wgmma is found") {
  // One product of 64 x 16 by 16 x 64, of ones of bf16.
  std::string sums, registers;
  for (int r = 0; r < 32; ++r)
    sums += (r ? ", %" : "%") + std::to_string(r),
        registers += std::string(r ? ", " : "") + "\"+f\"(c[" + std::to_string(r) + "])";
  const std::string product =
      "asm volatile(\"{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" +
      sums + "}, %32, %33, p, 1, 1, %35, %36; }\" : " + registers +
      " : \"l\"(MATRIX(a)), \"l\"(MATRIX(b)), \"n\"(1), \"n\"(0), \"n\"(0));";
  const std::vector<std::pair<std::string, std::string>> words = {
      {"WRITE", "for (int k = t; k < 4096; k += 128) a[k] = b[k] = 0x3f80;"},
      {"FENCE", "asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");"},
      {"READY", "asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");"},
      {"PRODUCT", product},
      {"COMMIT", "asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");"},
      {"WAIT", "asm volatile(\"wgmma.wait_group.sync.aligned %0;\" :: \"n\"(0) : \"memory\");"},
      {"SYNC", "__syncthreads();"}};
  struct Case { const char *says, *body; };
  const Case cases[] = {{"", "WRITE FENCE SYNC READY PRODUCT COMMIT WAIT y[t] = c[0];"},
      {"", "WRITE FENCE SYNC READY PRODUCT PRODUCT COMMIT READY PRODUCT COMMIT WAIT SYNC a[t] = 0; y[t] = c[31] / 3;"},
      {"what was written without fence.proxy.async behind it", "WRITE SYNC READY PRODUCT COMMIT WAIT y[t] = c[0];"},
      {"a race", "WRITE FENCE READY PRODUCT COMMIT WAIT y[t] = c[0];"},
      {"what nobody has written", "SYNC READY PRODUCT COMMIT WAIT y[t] = c[0];"},
      {"wgmma without wgmma.fence", "WRITE FENCE SYNC PRODUCT COMMIT WAIT y[t] = c[0];"},
      {"wgmma without wgmma.fence", "WRITE FENCE SYNC READY PRODUCT COMMIT PRODUCT COMMIT WAIT y[t] = c[0];"},
      {"before wgmma that nobody has waited for", "WRITE FENCE SYNC READY PRODUCT COMMIT y[t] = 16;"},
      {"before wgmma that nobody has waited for", "WRITE FENCE SYNC READY PRODUCT WAIT y[t] = 16;"},
      {"a write of what wgmma still reads",
          "WRITE FENCE SYNC READY PRODUCT COMMIT SYNC a[t] = 0; SYNC WAIT y[t] = c[0];"},
      {"a race", "WRITE FENCE SYNC READY PRODUCT COMMIT WAIT a[t] = 0; y[t] = c[0];"},
      {"different descriptors", "WRITE FENCE SYNC READY if (t % 32 == 3) { s = 1; } PRODUCT COMMIT WAIT y[t] = c[0];"},
      {"swizzle", "WRITE FENCE SYNC READY s = 1ull << 63; PRODUCT COMMIT WAIT y[t] = c[0];"},
      {"leaves its rows", "WRITE FENCE SYNC READY s = 7; PRODUCT COMMIT WAIT y[t] = c[0];"},
      {"outside of the shared memory", "WRITE FENCE SYNC READY s = 448; PRODUCT COMMIT WAIT y[t] = c[0];"},
      {"threads wait for others of their warp",
          "WRITE FENCE SYNC READY if (t != 5) { PRODUCT } COMMIT WAIT y[t] = c[0];"}};
  const auto device = runtime::open_device("cuda:1");
  std::vector<std::string> texts;
  for (const Case& c : cases) {
    std::string body = c.body;
    for (const auto& [word, by] : words) body = replaced(body, word, by);
    texts.push_back(
        "inline __device__ unsigned long long matrix(const void* at) { return ((unsigned long long)__cvta_generic_to_shared(at) & 0x3ffff) >> 4 | 64ull << 32 | 1ull << 62; }\n"
        "extern \"C\" __global__ void __launch_bounds__(128) k(float* y) { __shared__ __align__(1024) unsigned short a[4096], b[4096]; const int t = threadIdx.x; unsigned long long s = 0; float c[32] = {}; " +
        replaced(body, "MATRIX(", "s + matrix(") + " }\n");
  }
  const std::vector<runtime::CudaObject> objects = runtime::compile_cuda(texts, "sm_90a");
  for (std::size_t k = 0; k < objects.size(); ++k) {
    CAPTURE(cases[k].body);
    codegen::Package p;
    p.form = codegen::Package::Code::Cubins, p.code = {objects[k].cubin};
    p.buffers = {{512, 0}};
    p.launches = {{"k", {0}, {}, 0, {1, 1, 1}, 128}};
    for (int turn = 0; turn < 2; ++turn) {               // blocks run in one order, and in the other
      const auto loaded = device->load(p);
      const std::vector<Memory> memory = {device->allocate(512)};
      std::vector<float> y(128);
      const std::string said =
          fault_of([&] { device->run(*loaded, memory), device->copy_out(y.data(), memory[0], 512); });
      CHECK_MESSAGE((*cases[k].says ? said.find(cases[k].says) != std::string::npos : said.empty()), said);
      if (!*cases[k].says) CHECK(std::ranges::count(y, 16.0f) == 128);
    }
  }
  CHECK(fault_of([&] { runtime::compile_cuda(texts[0], "sm_80"); }) != "");
}

TEST_CASE("launches that a device refuses, and memory that nobody has written") {
  const auto device = runtime::open_device("cuda");
  codegen::Package p = package();
  const auto said = [&](codegen::Launch launch) {
    p.launches = {std::move(launch)};
    const auto loaded = device->load(p);
    const std::vector<Memory> memory = {device->allocate(1024), device->allocate(1024)};
    return fault_of([&] { device->run(*loaded, memory), device->wait(); });
  };
  CHECK(said({"own", {0, 1}, {}, 0, {2, 1, 1}, 128}).find("__launch_bounds__") != std::string::npos);
  CHECK(said({"own", {0, 1}, {}, 0, {2, 70000, 1}, 64}).find("a grid or a block that there is not") != std::string::npos);
  CHECK(said({"own", {0, 1}, {}, 0, {2, 1, 1}, 64, 64, 64}).find("a kernel that has none") != std::string::npos);
  CHECK(said({"own", {0, 1}, {}, 0, {2, 1, 1}, 64}).find("a read of what nobody has written, at byte 0 of argument 0") !=
      std::string::npos);
  const Memory memory = device->allocate(64);
  char bytes[64];
  CHECK(fault_of([&] { device->copy_out(bytes, memory, 64); }).find("nobody has written") != std::string::npos);
}

TEST_CASE("launches as a graph, in one memory and another, give what they give one by one") {
  const codegen::Request request = test::request_for({{"M", 20}, {"K", 30}}, "cuda:sm_80");
  const codegen::Stages stages = test::compiled(test::chain, request, codegen::Until::Lowered);
  REQUIRE(stages.lowered->steps.size() >= 4);
  const auto module = runtime::load_device(runtime::assemble(*stages.lowered, request.target));
  const auto device = runtime::open_device("cuda:sm_80");
  std::vector<std::vector<float>> results;
  const std::vector<Memory> workspaces = {
      device->allocate(module->device_workspace()), device->allocate(module->device_workspace())};
  for (int call = 0; call < 4; ++call) {
    std::vector<Memory> memory;
    std::vector<void*> in;
    for (const auto& port : module->inputs) {
      std::vector<float> host(static_cast<std::size_t>(port.shape[0] * port.shape[1]));
      for (std::size_t k = 0; k < host.size(); ++k) host[k] = static_cast<float>(k % 7) - 3;
      memory.push_back(device->allocate(static_cast<std::int64_t>(4 * host.size())));
      device->copy_in(memory.back(), host.data(), static_cast<std::int64_t>(4 * host.size()));
      in.push_back(memory.back().get());
    }
    const Memory to = device->allocate(20 * 30 * 4);
    void* out[] = {to.get()};
    module->run_on(in.data(), out, workspaces[static_cast<std::size_t>(call % 2)].get(), nullptr);
    results.emplace_back(600);
    device->copy_out(results.back().data(), to, 2400);
    CHECK(results.back() == results.front());
    CHECK(results.back()[31] != 0);
  }
}

}  // namespace tilec
