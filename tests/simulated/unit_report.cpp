// What the simulated GPU writes down of a launch, of kernels whose requests can be counted by hand.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/nvrtc.h"

namespace tilec {
namespace {

// By two blocks of 64 threads, which is four warps, on 8192 floats `x` and `y`; `t` is a thread's place in its block,
// `i` in both.
struct Case { const char *body, *report; };

const Case cases[] = {
    {"y[i] = x[i];",
        R"("loads": {"requests": 4, "sectors": 16, "bytes": 512}, "stores": {"requests": 4, "sectors": 16, "bytes": 512}, "shared": {"wavefronts": 0, "least": 0}, "moved": 1024})"},
    {"y[32 * i] = x[2 * i];",
        R"("loads": {"requests": 4, "sectors": 32, "bytes": 512}, "stores": {"requests": 4, "sectors": 128, "bytes": 512}, "shared": {"wavefronts": 0, "least": 0}, "moved": 5120})"},
    {"y[i] = x[0];",
        R"("loads": {"requests": 4, "sectors": 4, "bytes": 16}, "stores": {"requests": 4, "sectors": 16, "bytes": 512}, "shared": {"wavefronts": 0, "least": 0}, "moved": 576})"},
    {"if (t % 2) y[i] = x[i];",
        R"("loads": {"requests": 4, "sectors": 16, "bytes": 256}, "stores": {"requests": 4, "sectors": 16, "bytes": 256}, "shared": {"wavefronts": 0, "least": 0}, "moved": 1024})"},
    {"const float* z = (const float*)__builtin_assume_aligned(x + 4 * i, 16); y[i] = z[0] + z[1] + z[2] + z[3];",
        R"("loads": {"requests": 4, "sectors": 64, "bytes": 2048}, "stores": {"requests": 4, "sectors": 16, "bytes": 512}, "shared": {"wavefronts": 0, "least": 0}, "moved": 2560})"},
    {"float sum = 0; for (int k = 0; k < 3; ++k) sum += x[i + 128 * k]; y[i] = sum;",
        R"("loads": {"requests": 12, "sectors": 48, "bytes": 1536}, "stores": {"requests": 4, "sectors": 16, "bytes": 512}, "shared": {"wavefronts": 0, "least": 0}, "moved": 2048})"},
    {"__shared__ float s[64]; s[t] = x[i]; __syncthreads(); y[i] = s[63 - t];",
        R"("loads": {"requests": 4, "sectors": 16, "bytes": 512}, "stores": {"requests": 4, "sectors": 16, "bytes": 512}, "shared": {"wavefronts": 8, "least": 8}, "moved": 1024})"},
    {"__shared__ float s[512]; s[8 * t] = 1; __syncthreads(); y[i] = s[0];",
        R"("loads": {"requests": 0, "sectors": 0, "bytes": 0}, "stores": {"requests": 4, "sectors": 16, "bytes": 512}, "shared": {"wavefronts": 36, "least": 8}, "moved": 512})"},
    {"__shared__ __align__(16) double s[64]; s[t] = 1; __syncthreads(); y[i] = (float)s[63 - t];",
        R"("loads": {"requests": 0, "sectors": 0, "bytes": 0}, "stores": {"requests": 4, "sectors": 16, "bytes": 512}, "shared": {"wavefronts": 16, "least": 16}, "moved": 512})"},
};

}  // namespace

TEST_CASE("requests, sectors, bytes and conflicts are those that can be counted by hand") {
  const char* const path = std::getenv("SIMULATED_REPORT");
  REQUIRE(path);
  const auto device = runtime::open_device("cuda");
  std::vector<std::string> texts;
  for (const Case& c : cases)
    texts.push_back(
        std::string(
            "extern \"C\" __global__ void k(const float* x, float* y) { const int t = threadIdx.x, i = 64 * blockIdx.x + t; ") +
        c.body + " }\n");
  const std::vector<runtime::CudaObject> objects = runtime::compile_cuda(texts, "sm_80");
  for (std::size_t k = 0; k < objects.size(); ++k) {
    std::remove(path);
    codegen::Package p;
    p.form = codegen::Package::Code::Cubins, p.code = {objects[k].cubin};
    p.launches = {{"k", {0, 1}, {}, 0, {2, 1, 1}, 64}};
    const std::vector<runtime::Memory> memory = {device->allocate(32768), device->allocate(32768)};
    const std::vector<char> zeros(32768);
    device->copy_in(memory[0], zeros.data(), 32768);
    device->run(*device->load(p), memory);
    device->wait();
    std::ifstream file(path);
    std::string line;
    REQUIRE(std::getline(file, line));
    const auto address = [&](std::size_t m) {
      return std::to_string(reinterpret_cast<std::uintptr_t>(memory[m].get()));
    };
    std::string wanted = std::string(R"({"kernel": "k", "blocks": 2, "sampled": 2, "threads": 64, )") + cases[k].report;
    wanted.pop_back();
    CHECK(line == wanted + ", \"arguments\": [" + address(0) + ", " + address(1) + "]}");
    CHECK(!std::getline(file, line));
  }
}

}  // namespace tilec
