// Several simulated GPUs, two of sm_80 and one of sm_90a between them: what runs where, from several threads at once,
// and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "codegen/target_words.h"
#include "runtime/assemble.h"
#include "runtime/device.h"
#include "runtime/module.h"
#include "runtime/specialise.h"
#include "tests/codegen/compiled.h"

namespace tilec {
namespace {

using runtime::Memory;

constexpr std::int64_t rows = 9, columns = 12;

std::shared_ptr<const runtime::Module> module_for(const std::string& target) {
  const codegen::Request request = test::request_for({{"M", rows}, {"K", columns}}, *runtime::target_here(target));
  const codegen::Stages stages = test::compiled(test::chain, request, codegen::Until::Lowered);
  return runtime::load_device(runtime::assemble(*stages.lowered, request.target));
}

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::size_t k = 0; k < all.size(); ++k) all[k] = static_cast<float>(k % 5) - 2;
  return all;
}

std::vector<float> expected() {
  std::vector<float> left = numbers(rows * columns);
  const std::vector<float> b = numbers(columns * columns);
  for (int product = 0; product < 4; ++product) {
    std::vector<float> next(left.size());
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j)
        for (std::size_t k = 0; k < columns; ++k) next[i * columns + j] += left[i * columns + k] * b[k * columns + j];
    left = next;
  }
  return left;
}

lang::Diagnostic fault_of(const auto& work) {
  try {
    work();
  } catch (const runtime::RuntimeError& e) {
    return e.diagnostic;
  }
  return {};
}

runtime::Argument tensor_on(const std::string& name, std::vector<std::int64_t> shape, int device) {
  runtime::Argument argument;
  argument.name = name;
  argument.tensor =
      runtime::Tensor{nullptr, lang::DType::F32, shape, runtime::row_major(shape), {kDLCUDA, device}, nullptr};
  return argument;
}

// As a caller does whose tensors are there.
std::vector<float> run_in_memory_of(const std::string& target, const runtime::Module& module, int calls) {
  const auto device = runtime::open_device(target);
  std::vector<float> a = numbers(rows * columns), b = numbers(columns * columns), c(a.size());
  const Memory in_a = device->allocate(4 * rows * columns), in_b = device->allocate(4 * columns * columns),
               to = device->allocate(4 * rows * columns), workspace = device->allocate(module.device_workspace());
  device->copy_in(in_a, a.data(), 4 * rows * columns), device->copy_in(in_b, b.data(), 4 * columns * columns);
  void *in[] = {in_a.get(), in_b.get()}, *out[] = {to.get()};
  for (int call = 0; call < calls; ++call) module.run_on(in, out, workspace.get(), nullptr);
  device->copy_out(c.data(), to, 4 * rows * columns);
  return c;
}

}  // namespace

TEST_CASE("each GPU is listed, is planned for as what it is, and one that is not there is counted") {
  std::vector<std::string> found;
  for (const runtime::DeviceLine& line : runtime::list_devices())
    if (line.target.starts_with("cuda")) found.push_back(line.target + " = " + line.description);
  CHECK(found ==
      std::vector<std::string>{
          "cuda = simulated GPU (sm_80)", "cuda:1 = simulated GPU (sm_90a)", "cuda:2 = simulated GPU (sm_80)"});
  for (const auto& [name, arch, multiprocessors] : {std::tuple{"cuda", "sm_80", 108}, {"cuda:0", "sm_80", 108},
           {"cuda:1", "sm_90a", 132}, {"cuda:2:math=tf32", "sm_80", 108}, {"cuda:1:sm_80", "sm_80", 108}, {"cuda:math=bf16", "sm_80", 108}}) {
    const auto target = runtime::target_here(name);
    REQUIRE(target);
    CHECK(target->name == name);
    CHECK(target->arch == arch);
    CHECK(target->multiprocessors == multiprocessors);
  }
  CHECK(fault_of([] { runtime::open_device("cuda:3"); }).message ==
      "target `cuda:3` has no device here: 3 NVIDIA GPUs are here, and they count from 0");
  CHECK(fault_of([] { runtime::open_device("cuda:1:sm_100"); }).message ==
      "target `cuda:1:sm_100` has no device here: the GPU is simulated GPU (sm_90a)");
  for (const char* name : {"cuda:", "cuda:x", "cuda:1:", "cuda:sm_80:1", "cuda:1:1", "cuda:-1", "cuda:math=tf32:sm_80", "cuda:math=bf", "opencl:math=bf16",
           "cuda:99999999999999999999", "opencl:sm_80", "opencl:1:2"})
    CHECK_MESSAGE(!runtime::target_here(name), name);
}

TEST_CASE("names of targets are read into their words and written with another device") {
  const auto words = codegen::target_words("cuda:1:sm_90a:math=tf32");
  REQUIRE(words);
  CHECK(words->device == 1);
  CHECK(words->arch == "sm_90a");
  CHECK(words->math == codegen::Math::Tf32);
  CHECK(codegen::with_device(*words, 3) == "cuda:3:sm_90a:math=tf32");
  CHECK(codegen::with_device(*codegen::target_words("cuda"), 2) == "cuda:2");
  CHECK(codegen::with_device(*codegen::target_words("cuda:math=bf16"), 0) == "cuda:0:math=bf16");
  CHECK(codegen::without_math("cuda:1:math=bf16") == "cuda:1");
  CHECK(codegen::without_math("cuda:sm_80") == "cuda:sm_80");
}

TEST_CASE("threads run on three GPUs at once: copies, timed launches, graphs, and tensors that lie there") {
  const std::vector<float> right = expected();
  std::atomic<int> good = 0;
  std::vector<std::jthread> threads;
  constexpr int turns = 3;
  const char* const targets[] = {"cuda", "cuda:1", "cuda:2"};
  std::vector<std::shared_ptr<const runtime::Module>> modules;
  for (const char* target : targets) modules.push_back(module_for(target));
  for (int k = 0; k < 6; ++k)
    threads.emplace_back([&, k] {
      const auto& module = *modules[static_cast<std::size_t>(k % 3)];
      std::vector<float> a = numbers(rows * columns), b = numbers(columns * columns), c(a.size());
      void *in[] = {a.data(), b.data()}, *out[] = {c.data()};
      for (int turn = 0; turn < turns; ++turn) {
        module.run(in, out);
        good += c == right;
        std::ranges::fill(c, 0.0f);
        std::vector<double> milliseconds;
        module.run_timed(in, out, milliseconds);
        good += c == right && milliseconds.size() >= 4;
        good += run_in_memory_of(targets[k % 3], module, turn + 1) == right;
      }
    });
  threads.clear();
  CHECK(good == 6 * turns * 3);
}

TEST_CASE("a GPU does not reach what another has, and the driver's word for it is told") {
  const auto module = module_for("cuda:1");
  const auto here = runtime::open_device("cuda:1"), there = runtime::open_device("cuda:2");
  const Memory a = here->allocate(4 * rows * columns), b = there->allocate(4 * columns * columns),
               c = here->allocate(4 * rows * columns), workspace = here->allocate(module->device_workspace());
  void *in[] = {a.get(), b.get()}, *out[] = {c.get()};
  const lang::Diagnostic fault = fault_of([&] { module->run_on(in, out, workspace.get(), nullptr), here->wait(); });
  CHECK_MESSAGE(fault.message.find("lies in the memory of another GPU") != std::string::npos, fault.message);
  CHECK(run_in_memory_of("cuda:1", *module, 1) == expected());
}

TEST_CASE(
    "a program of `cuda` is compiled for the GPU that its tensors lie on, one that names a GPU for that one, and two in one call are refused") {
  const auto program = [](const char* target) {
    codegen::Request request;
    request.target = *runtime::target_here(target);
    return runtime::Callable({{"chain.tile", test::chain}}, test::parsed(test::chain), request);
  };
  const auto specialised = [](const runtime::Callable& callable, int a, int b) {
    lang::Diagnostics diagnostics;
    const auto made = callable.specialise(
        {tensor_on("A", {rows, columns}, a), tensor_on("B", {columns, columns}, b)}, {}, diagnostics);
    REQUIRE(made);
    return made;
  };
  const runtime::Callable anywhere = program("cuda"), there = program("cuda:1");
  for (int device = 0; device < 3; ++device) {
    const auto made = specialised(anywhere, device, device);
    CHECK(made->module->device().device_id == device);
    CHECK(made->module->device().device_type == kDLCUDA);
    CHECK(made->module == specialised(anywhere, device, device)->module);
    CHECK(run_in_memory_of("cuda:" + std::to_string(device), *made->module, 2) == expected());
  }
  CHECK(specialised(there, 1, 1)->module->device().device_id == 1);
  const lang::Diagnostic two = fault_of([&] { specialised(anywhere, 2, 1); });
  CHECK(two.code == "E0518");
  CHECK(two.message == "`B` lies in GPU 1's memory, where this program cannot reach it");
  CHECK(two.hints.at(0) == "`A` lies in GPU 2's: copy one to the other's GPU");
  const lang::Diagnostic other = fault_of([&] { specialised(there, 0, 0); });
  CHECK(other.message == "`A` lies in GPU 0's memory, where this program cannot reach it");
  CHECK(other.hints.at(0) == "compile for `cuda:0`, or for `cuda`, which runs where its tensors lie");
  CHECK(fault_of([&] { specialised(anywhere, 7, 7); }).message.find("3 NVIDIA GPUs are here") != std::string::npos);
  CHECK(fault_of([&] { specialised(program("cpu"), 0, 0); }).code == "E0518");
}

}  // namespace tilec
