// Targets by name, as the device of this machine has them. Apart from device.cpp, which runs what is compiled and knows
// no plan.
#include <algorithm>
#include <utility>

#include "codegen/target.h"
#include "codegen/target_words.h"
#include "runtime/cuda.h"
#include "runtime/device.h"
#include "runtime/opencl.h"

namespace tilec::runtime {

namespace {

// What the GPU is, where there is one.
void fit_cuda(codegen::Target& target, const codegen::TargetWords& words) {
  std::string why;
  const std::optional<CudaGpu> gpu = cuda_gpu(words.device.value_or(0), why);
  if (!gpu) return;
  std::optional<codegen::Target> found = codegen::target_named("cuda:" + gpu->architecture);
  if (!found) return;
  found->name = target.name;
  found->math = target.math;
  found->multiprocessors = gpu->multiprocessors;
  found->shared_bytes = gpu->shared_bytes;
  target = std::move(*found);
}

void fit_opencl(codegen::Target& target, std::size_t position) {
  std::string why;
  const std::vector<OpenClDevice> devices = opencl_devices(why);
  if (position >= devices.size()) return;
  target.shared_bytes = std::min(target.shared_bytes, devices[position].shared_bytes);
  target.max_threads = static_cast<int>(std::min<std::int64_t>(target.max_threads, devices[position].largest_group));
}

}  // namespace

std::optional<codegen::Target> target_here(std::string_view name) {
  std::optional<codegen::Target> target = codegen::target_named(name);
  const std::optional<codegen::TargetWords> words = codegen::target_words(name);
  if (target && words->kind == "cuda" && words->arch.empty()) fit_cuda(*target, *words);
  if (target && words->kind == "opencl") fit_opencl(*target, words->device.value_or(0));
  return target;
}

}  // namespace tilec::runtime
