// tilec's side of the CUDA driver, NVRTC and OpenCL, against libraries that fail when told to (fake.h): every status is
// looked at, nothing stays alive after a failure, and the next call works. No GPU is needed.
#include <doctest/doctest.h>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <set>
#include <thread>

#include "codegen/simt/emit.h"
#include "fake.h"
#include "runtime/assemble.h"
#include "runtime/cuda.h"
#include "runtime/device.h"
#include "runtime/module.h"
#include "runtime/nvrtc.h"
#include "runtime/opencl.h"
#include "runtime/overlap.h"
#include "runtime/tensor.h"
#include "tests/codegen/compiled.h"

namespace tilec {
namespace {

using runtime::Memory;
using runtime::RuntimeError;

Fake& found(const char* library, const char* name) {
  void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(opened);
  return *reinterpret_cast<Fake* (*)()>(dlsym(opened, name))();
}
Fake& cuda() {
  static Fake& the = found("libcuda.so.1", "fake_cuda");
  return the;
}
Fake& nvrtc() {
  static Fake& the = found("libnvrtc.so.13", "fake_nvrtc");
  return the;
}

Fake& opencl() {
  static Fake& the = found("libOpenCL.so.1", "fake_opencl");
  return the;
}

// Rows that are normalised, and a product of what comes out: several kernels, shared memory, scratch.
constexpr const char* program = R"(
function f(X[M, K], B[K, N]) -> (C) {
  S[i: M] = +(X[i, k]);
  Y[i, k: M, K] = =(X[i, k] / S[i]);
  C[i, j: M, N] = +(Y[i, k] * B[k, j]);
}
)";

codegen::Lowered package(std::int64_t M = 64, std::int64_t K = 96, std::int64_t N = 80, const char* text = program,
    const char* target = "cuda:sm_90a") {
  return *test::compiled(
      text, test::request_for({{"M", M}, {"K", K}, {"N", N}}, *runtime::target_here(target)), codegen::Until::Lowered)
              .lowered;
}

std::shared_ptr<const runtime::Kernels> loaded(runtime::Device& device, const codegen::Lowered& p) {
  device.check_compiler();
  return device.load(runtime::assemble(p, *codegen::target_named(p.target)));
}

// A call from the first look at the driver to the result.
void whole_call(const codegen::Lowered& p, bool timed) {
  const auto device = p.target == "opencl" ? runtime::open_opencl(0) : runtime::open_cuda("cuda");
  const auto kernels = loaded(*device, p);
  std::vector<Memory> memory;
  for (const codegen::Buffer& b : p.buffers) memory.push_back(device->allocate(b.count() * lang::bytes(b.dtype)));
  const Memory part = device->part(memory[0], 512, 512);
  std::vector<float> host(static_cast<std::size_t>(p.buffers[0].count()), 1.0f);
  device->copy_in(memory[0], host.data(), static_cast<std::int64_t>(host.size() * sizeof(float)));
  std::vector<double> milliseconds;
  device->run(*kernels, memory, timed ? &milliseconds : nullptr);
  if (timed) CHECK(milliseconds.size() == p.steps.size());
  device->wait();
  device->copy_out(host.data(), memory[0], static_cast<std::int64_t>(host.size() * sizeof(float)));
}

lang::Diagnostic fault_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const RuntimeError& e) {
    return e.diagnostic;
  }
  return {};
}

void check_nothing_lives() {
  CHECK(cuda().contexts == 0);
  CHECK(cuda().current == 0);
  CHECK(cuda().memory == 0);
  CHECK(cuda().modules == 0);
  CHECK(cuda().events == 0);
  CHECK(cuda().graphs == 0);
  CHECK(nvrtc().programs == 0);
  for (const auto* count :
      {&opencl().contexts, &opencl().current, &opencl().memory, &opencl().programs, &opencl().modules})
    CHECK(*count == 0);
}

// These give back what is no longer wanted: there is no one to tell.
const std::set<std::string> last_words{"cuCtxPopCurrent_v2", "cuMemFree_v2", "cuModuleUnload", "cuEventDestroy_v2",
    "cuDevicePrimaryCtxRelease_v2", "nvrtcDestroyProgram", "cuGetErrorString"};

}  // namespace

TEST_CASE("what cuInit says is told, and asked again by the next call") {
  cuda().fail("cuInit", 0, 802);
  const lang::Diagnostic fault = fault_of([] { runtime::open_cuda("cuda"); });
  CHECK(fault.code == "E0520");
  CHECK(fault.message.find("told to fail (802)") != std::string::npos);
  std::string why;
  cuda().fail("cuInit", 0, 100);
  CHECK(!runtime::cuda_gpu(0, why));
  CHECK(why.find("(100)") != std::string::npos);
  REQUIRE(runtime::cuda_gpu(0, why));
  CHECK(runtime::cuda_gpu(0, why)->name == "Fake GPU (sm_90a)");
  CHECK(why.empty());
  CHECK(fault_of([] { runtime::open_cuda("cuda"); }).code.empty());
  check_nothing_lives();
}

TEST_CASE("without a GPU, the message says so") {
  cuda().devices = 0;
  CHECK(fault_of([] { runtime::open_cuda("cuda"); }).message.find("finds no GPU") != std::string::npos);
  cuda().devices = 1;
}

TEST_CASE("an NVRTC that does not work is E0524, and is looked for again") {
  const codegen::Lowered p = package();
  nvrtc().fail("nvrtcVersion", 0, 999, true);
  CHECK(fault_of([&] { whole_call(p, false); }).code == "E0524");
  nvrtc().failing.clear();
  CHECK(fault_of([&] { whole_call(p, false); }).code.empty());
  check_nothing_lives();
}

TEST_CASE("each call of the driver and of NVRTC may fail: it is named, nothing stays alive, and the next call works") {
  const codegen::Lowered p = package();
  REQUIRE(p.steps.size() >= 2);
  for (const bool timed : {false, true}) {
    cuda().calls.clear(), nvrtc().calls.clear();
    whole_call(p, timed);
    check_nothing_lives();
    int failed = 0;
    const std::pair<Fake*, std::map<std::string, int>> all[] = {{&cuda(), cuda().calls}, {&nvrtc(), nvrtc().calls}};
    for (const auto& [fake, calls] : all)
      for (const auto& [name, count] : calls)
        for (int k = 0; k < count; ++k) {
          CAPTURE(name);
          CAPTURE(k);
          CAPTURE(timed);
          fake->fail(name, k);
          const lang::Diagnostic fault = fault_of([&] { whole_call(p, timed); });
          // these serve both sides
          const bool late = last_words.contains(name) || name == "cuCtxPushCurrent_v2" || name == "cuCtxSynchronize";
          if (!late) CHECK(!fault.code.empty());
          if (!late && fake == &cuda()) CHECK(fault.message.find("told to fail (999)") != std::string::npos);
          if (fault.code == "E0522") CHECK(fault.message.find(name.substr(0, name.find('_'))) != std::string::npos);
          failed += !fault.code.empty();
          fake->failing.clear();
          if (name == "cuCtxPushCurrent_v2") {             // without its context nothing can be freed
            cuda().memory = 0, cuda().modules = 0;
          }
          check_nothing_lives();
        }
    CHECK(failed > 20);
    CHECK(fault_of([&] { whole_call(p, timed); }).code.empty());
  }
}

TEST_CASE("each call of OpenCL may fail: it is told, nothing stays alive, and the next call works") {
  const codegen::Lowered p = package(64, 96, 80, program, "opencl");
  for (const bool timed : {false, true}) {
    opencl().calls.clear();
    whole_call(p, timed);
    check_nothing_lives();
    for (const auto& [name, count] : std::map<std::string, int>(opencl().calls))
      for (int k = 0; k < count; ++k) {
        CAPTURE(name);
        CAPTURE(k);
        CAPTURE(timed);
        opencl().fail(name, k, -6);
        const lang::Diagnostic fault = fault_of([&] { whole_call(p, timed); });
        const bool optional = name.starts_with("clRelease") || name == "clGetDeviceInfo" || name == "clGetPlatformInfo";
        if (!optional) CHECK(!fault.code.empty());
        if (fault.code == "E0522") CHECK(fault.message.find(name) != std::string::npos);
        if (fault.code == "E0522") CHECK(fault.message.find("CL_OUT_OF_HOST_MEMORY") != std::string::npos);
        opencl().failing.clear();
        check_nothing_lives();
      }
    CHECK(fault_of([&] { whole_call(p, timed); }).code.empty());
  }
}

TEST_CASE("OpenCL: a refused text, no room, little local memory and no device are told apart") {
  const codegen::Lowered p = package(64, 96, 80, program, "opencl");
  opencl().fail("clBuildProgram", 0, -11);
  CHECK(fault_of([&] { whole_call(p, false); }).code == "E0521");
  opencl().fail("clCreateBuffer", 1, -4);
  CHECK(fault_of([&] { whole_call(p, false); }).code == "E0523");
  opencl().devices = 0;
  CHECK(fault_of([&] { whole_call(p, false); }).code == "E0520");
  opencl().devices = 1;
  constexpr const char* sorted = "function f(X[M, K]) -> (Y) { Y = argsort(X); }";
  const codegen::Lowered large = package(3, 3000, 0, sorted, "opencl");
  opencl().shared = 16384;
  const lang::Diagnostic fault = fault_of([&] { whole_call(large, false); });
  CHECK(fault.code == "E0525");
  CHECK(fault.message.find("16384") != std::string::npos);
  CHECK(runtime::target_here("opencl")->shared_bytes == 16384);
  // planned for what is there
  CHECK(fault_of([&] { whole_call(package(3, 3000, 0, sorted, "opencl"), false); }).code.empty());
  opencl().shared = 232448;
  CHECK(runtime::target_here("opencl:1"));              // which is not here
  CHECK(!runtime::target_here("opencl:x"));
  check_nothing_lives();
}

TEST_CASE("memory that is not there is E0523 with its bytes, and what was taken before is given back") {
  const codegen::Lowered p = package();
  const long long all = cuda().bytes_left;
  cuda().bytes_left = 64 * 96 * 4 + 1000;
  const lang::Diagnostic fault = fault_of([&] { whole_call(p, false); });
  CHECK(fault.code == "E0523");
  CHECK(fault.message.find("30720 bytes") != std::string::npos);
  cuda().bytes_left = all;
  check_nothing_lives();
}

TEST_CASE("a driver older than NVRTC is E0526, before anything is compiled") {
  const codegen::Lowered p = package();
  cuda().version = 12040;
  const int before = nvrtc().calls["nvrtcCompileProgram"];
  const lang::Diagnostic fault = fault_of([&] { whole_call(p, false); });
  CHECK(fault.code == "E0526");
  CHECK(fault.message.find("CUDA 12.4") != std::string::npos);
  CHECK(fault.message.find("NVRTC 13") != std::string::npos);
  CHECK(nvrtc().calls["nvrtcCompileProgram"] == before);
  cuda().version = 13010;
  CHECK(fault_of([&] { whole_call(p, false); }).code.empty());
  cuda().version = 13000;
  check_nothing_lives();
}

TEST_CASE("`cuda` is planned for the GPU that is here") {
  cuda().major = 12, cuda().minor = 0, cuda().multiprocessors = 7, cuda().shared = 101376;
  const std::optional<codegen::Target> here = runtime::target_here("cuda");
  REQUIRE(here);
  CHECK(here->name == "cuda");
  CHECK(here->arch == "sm_120a");
  CHECK(here->multiprocessors == 7);
  CHECK(here->shared_bytes == 101376);
  CHECK(runtime::target_here("cuda:sm_90a")->shared_bytes == 227 << 10);  // what was asked for
  cuda().fail("cuInit", 0, 100);
  CHECK(runtime::target_here("cuda")->arch == "sm_80");
  cuda().major = 9, cuda().multiprocessors = 132, cuda().shared = 232448;
}

TEST_CASE("a kernel that wants more shared memory than the GPU has is E0525, not a failing launch") {
  constexpr const char* sorted = "function f(X[M, K]) -> (Y) { Y = argsort(X); }";
  const codegen::Lowered p = package(3, 12000, 0, sorted);
  std::int64_t shared = 0;
  for (const codegen::Step& s : p.steps)
    shared = std::max(shared, codegen::simt::launch(s.loops, codegen::simt::Dialect::Cuda).shared);
  REQUIRE(shared > 101376);
  cuda().shared = 101376;
  const lang::Diagnostic fault = fault_of([&] { whole_call(p, false); });
  CHECK(fault.code == "E0525");
  CHECK(fault.message.find("101376") != std::string::npos);
  // planned for what is there
  CHECK(fault_of([&] { whole_call(package(3, 12000, 0, sorted, "cuda"), false); }).code.empty());
  cuda().shared = 232448;
  check_nothing_lives();
}

TEST_CASE("nothing is launched for nothing") {
  for (const auto& [M, K, N] : {std::tuple(0, 96, 80), std::tuple(64, 96, 0), std::tuple(0, 0, 0)}) {
    cuda().launches = 0;
    const codegen::Lowered p = package(M, K, N);
    const auto device = runtime::open_cuda("cuda");
    const auto kernels = loaded(*device, p);
    std::vector<Memory> memory;
    for (const codegen::Buffer& b : p.buffers) memory.push_back(device->allocate(b.count() * lang::bytes(b.dtype)));
    device->copy_in(memory[0], nullptr, 0);
    device->run(*kernels, memory);
    device->copy_out(nullptr, memory[0], 0);
    if (M == 0) CHECK(cuda().launches == 0);
  }
  check_nothing_lives();
}

TEST_CASE(
    "a program of many launches is a graph from its second call on, in whatever memory, unless its stream is captured") {
  const codegen::Lowered p = package(64, 64, 64, test::chain);
  const int n = static_cast<int>(p.steps.size());
  REQUIRE(n >= 4);
  {
    const auto device = runtime::open_cuda("cuda");
    const auto kernels = loaded(*device, p);
    std::vector<std::vector<char>> places(2 * p.buffers.size(), std::vector<char>(64));
    std::vector<void*> some, others;
    for (std::size_t b = 0; b < p.buffers.size(); ++b)
      some.push_back(places[b].data()), others.push_back(places[p.buffers.size() + b].data());
    int stream = 0;
    const auto starts = [&](std::vector<void*>& memory) {
      const int all = cuda().launches, alone = cuda().calls["cuLaunchKernel"],
                told = cuda().calls["cuGraphExecKernelNodeSetParams"];
      device->run_at(*kernels, memory, &stream);
      CHECK(cuda().launches == all + n);
      CHECK(cuda().stream == &stream);
      CHECK(std::ranges::count(memory, cuda().first_parameter.load()) == 1);
      return std::pair(cuda().calls["cuLaunchKernel"] - alone, cuda().calls["cuGraphExecKernelNodeSetParams"] - told);
    };
    CHECK(starts(some) == std::pair(n, 0));
    CHECK(starts(some) == std::pair(0, 0));
    CHECK(cuda().graphs == 2);
    CHECK(starts(some) == std::pair(0, 0));
    CHECK(starts(others) == std::pair(0, n));
    CHECK(starts(others) == std::pair(0, 0));
    std::vector<void*> one_moved = others;
    one_moved.back() = some.back();
    const int told = starts(one_moved).second;
    CHECK(told > 0);
    CHECK(told < n);
    cuda().captures = true;
    CHECK(starts(some) == std::pair(n, 0));
    cuda().captures = false;
    CHECK(starts(some).first == 0);
  }
  check_nothing_lives();
  for (const char* function : {"cuStreamIsCapturing", "cuGraphCreate", "cuGraphAddKernelNode",
           "cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams", "cuGraphLaunch"}) {
    CAPTURE(function);
    const auto device = runtime::open_cuda("cuda");
    const auto kernels = loaded(*device, p);
    std::vector<char> place(64);
    std::vector<void*> memory(p.buffers.size(), place.data()), others(p.buffers.size(), place.data() + 1);
    cuda().fail(function, 0, 801, true);
    for (std::vector<void*>* m : {&memory, &memory, &others, &memory}) {
      const int all = cuda().launches;
      CHECK(fault_of([&] { device->run_at(*kernels, *m, nullptr); }).code.empty());
      CHECK(cuda().launches == all + n);
      CHECK(std::ranges::count(*m, cuda().first_parameter.load()) > 0);
    }
    cuda().failing.clear();
  }
  check_nothing_lives();
}

TEST_CASE("others launch while a package is compiled") {
  const codegen::Lowered p = package();
  const auto device = runtime::open_cuda("cuda");
  const auto kernels = loaded(*device, p);
  std::vector<Memory> memory;
  for (const codegen::Buffer& b : p.buffers) memory.push_back(device->allocate(b.count() * lang::bytes(b.dtype)));
  const codegen::Lowered other = package(64, 96, 80, program, "opencl");
  const auto second = runtime::open_opencl(0);
  const auto others = loaded(*second, other);
  std::vector<Memory> its;
  for (const codegen::Buffer& b : other.buffers) its.push_back(second->allocate(b.count() * lang::bytes(b.dtype)));
  opencl().closed = true;
  auto building = std::async(std::launch::async, [&] { return loaded(*second, other); });
  while (opencl().compiling == 0) std::this_thread::yield();
  auto launching = std::async(std::launch::async, [&] { second->run(*others, its), second->wait(); });
  CHECK(launching.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  opencl().closed = false;
  CHECK(building.get());
  launching.get();

  nvrtc().closed = true;
  auto loading = std::async(std::launch::async, [&] { return loaded(*device, p); });
  while (nvrtc().compiling == 0) std::this_thread::yield();
  auto running = std::async(std::launch::async, [&] { device->run(*kernels, memory), device->wait(); });
  CHECK(running.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  nvrtc().closed = false;
  CHECK(loading.get());
  running.get();
}

TEST_CASE("no more texts are compiled at once than there are cores, and the first fault of many is told") {
  nvrtc().most_compiling = 0;
  CHECK(runtime::compile_cuda(std::vector<std::string>(200, "text"), "sm_90a").size() == 200);
  CHECK(nvrtc().most_compiling >= 1);
  CHECK(nvrtc().most_compiling <= static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  nvrtc().fail("nvrtcCompileProgram", 37, 6);
  CHECK(fault_of([] { runtime::compile_cuda(std::vector<std::string>(200, "text"), "sm_90a"); }).code == "E0521");
  CHECK(runtime::compile_cuda(std::vector<std::string>(), "sm_90a").empty());
  CHECK(nvrtc().programs == 0);
}

TEST_CASE("nor by several programs at once") {
  nvrtc().most_compiling = 0;
  {
    std::vector<std::jthread> programs;
    for (int k = 0; k < 6; ++k)
      programs.emplace_back([] { runtime::compile_cuda(std::vector<std::string>(20, "text"), "sm_90a"); });
  }
  CHECK(nvrtc().most_compiling <= static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
}

TEST_CASE("a fault that ends the context, and faults of the machine, are told with what to do") {
  const codegen::Lowered p = package();
  const auto hint_of = [&](const char* function, int result) {
    cuda().fail(function, 0, result);
    const lang::Diagnostic fault = fault_of([&] { whole_call(p, false); });
    CHECK(fault.code == "E0522");
    return fault.hints.empty() ? std::string() : fault.hints.back();
  };
  CHECK(hint_of("cuCtxSynchronize", 700).find("start the process again") != std::string::npos);
  CHECK(hint_of("cuLaunchKernel", 719).find("compute-sanitizer") != std::string::npos);
  CHECK(hint_of("cuModuleLoadData", 209).find("compile it for this one") != std::string::npos);
  CHECK(hint_of("cuDevicePrimaryCtxRetain", 46).find("another process has the GPU") != std::string::npos);
  CHECK(hint_of("cuLaunchKernel", 1).empty());
  CHECK(hint_of("cuLaunchKernel", 400).find("of another GPU") != std::string::npos);
  for (const char* function : {"cuLaunchKernel", "cuModuleGetFunction"}) {
    cuda().fail(function);
    CHECK(fault_of([&] { whole_call(p, false); }).message.find("for the kernel `" + p.steps[0].kernel) !=
        std::string::npos);
  }
  check_nothing_lives();
}

TEST_CASE("several threads open, load, run and drop at once") {
  const codegen::Lowered p = package();
  std::vector<std::jthread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int k = 0; k < 4; ++k) good += fault_of([&] { whole_call(p, true); }).code.empty();
    });
  threads.clear();
  CHECK(good == 32);
  check_nothing_lives();
}

// Last: a module keeps its device open to the end.
TEST_CASE("a kernel runs where its tensors are, on the caller's stream") {
  const codegen::Lowered p = package();
  const auto module = runtime::load_device(runtime::assemble(p, *codegen::target_named(p.target)));
  const runtime::Caller caller(*module);
  alignas(64) static float a[96 * 96], b[96 * 96], c[96 * 96], room[1 << 16];
  REQUIRE(module->inputs.size() == 2);
  void *in[] = {a, b}, *out[] = {c}, *stream = &cuda();
  REQUIRE(module->device_workspace() <= static_cast<std::int64_t>(sizeof room));
  const int copied = cuda().calls["cuMemcpyHtoD_v2"], waited = cuda().calls["cuCtxSynchronize"],
            started = cuda().launches;
  caller.run_on(in, out, room, stream);
  CHECK(cuda().launches > started);
  CHECK(cuda().stream == stream);
  CHECK((cuda().first_parameter == in[0] || cuda().first_parameter == in[1] || cuda().first_parameter == out[0] ||
      cuda().first_parameter == room));
  CHECK(cuda().calls["cuMemcpyHtoD_v2"] == copied);
  CHECK(cuda().calls["cuCtxSynchronize"] == waited);
  const auto refused = [&](void* first, void* second, void* to, void* workspace) {
    void *inputs[] = {first, second}, *outputs[] = {to};
    return fault_of([&] { caller.run_on(inputs, outputs, workspace, stream); });
  };
  CHECK(refused(a, b, a, room).message == "the tensor of `X` cannot be used: it shares memory with an output");
  CHECK(refused(a, nullptr, c, room).code == "E0559");
  CHECK(refused(a + 1, b, c, room).message.find("no multiple of 16") != std::string::npos);
  if (module->device_workspace() > 0) CHECK(refused(a, b, c, nullptr).code == "E0559");
  double least = 1;                                    // seconds of a call
  for (int turn = 0; turn < 20; ++turn) {
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < 200; ++k) caller.run_on(in, out, room, stream);
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 200);
  }
  CHECK_MESSAGE(least < 5e-6, least);
  cuda().fail("cuLaunchKernel");
  CHECK(refused(a, b, c, room).code == "E0522");
}

}  // namespace tilec
