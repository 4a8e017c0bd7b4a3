// Loads a package and runs it on ones: what a program links that only runs what was compiled
// (tests/python/test_package.py looks at it).
#include <cstdio>
#include <vector>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/module.h"
#include "runtime/package_file.h"

using namespace tilec;

int main(int, char** argv) try {
  const codegen::Package package = runtime::package_from(runtime::DataFile(argv[1]).rest(), argv[1]);
  const auto module = runtime::load(package, 0);
  std::vector<std::vector<float>> arrays;
  std::vector<void*> in, out;
  for (const auto* ports : {&module->inputs, &module->outputs})
    for (const runtime::Port& port : *ports) {
      std::size_t count = 1;
      for (const std::int64_t extent : port.shape) count *= static_cast<std::size_t>(extent);
      arrays.emplace_back(count, 1.0F);
      (ports == &module->inputs ? in : out).push_back(arrays.back().data());
    }
  module->run(in.data(), out.data());
  double sum = 0;
  for (const float x : arrays.back()) sum += x;
  std::printf("%g\n", sum);
  return 0;
} catch (const runtime::RuntimeError& fault) {
  std::fprintf(stderr, "%s\n", fault.what());
  return 3;
}
