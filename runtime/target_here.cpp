// Targets by name, as the device of this machine has them. Apart from device.cpp, which runs what is compiled and knows no plan.
#include <algorithm>

#include "codegen/target.h"
#include "runtime/cuda.h"
#include "runtime/device.h"
#include "runtime/opencl.h"

namespace tilec::runtime {

namespace {

// What the GPU is, where there is one.
void fit_cuda(codegen::Target& target) {
  std::string why;
  const std::optional<CudaGpu> gpu = cuda_gpu(why);
  if (!gpu) return;
  const std::optional<codegen::Target> found = codegen::target_named("cuda:" + gpu->architecture);
  if (!found) return;
  const std::string name = target.name;
  const bool tf32 = target.tf32;
  target = *found;
  target.name = name;
  target.tf32 = tf32;
  target.multiprocessors = gpu->multiprocessors;
  target.shared_bytes = gpu->shared_bytes;
}

void fit_opencl(codegen::Target& target) {
  std::string why;
  const std::vector<OpenClDevice> devices = opencl_devices(why);
  const std::optional<std::size_t> position = opencl_position(target.name);
  if (!position || *position >= devices.size()) return;
  target.shared_bytes = std::min(target.shared_bytes, devices[*position].shared_bytes);
  target.max_threads = static_cast<int>(std::min<std::int64_t>(target.max_threads, devices[*position].largest_group));
}

}  // namespace

std::optional<codegen::Target> target_here(std::string_view name) {
  std::optional<codegen::Target> target = codegen::target_named(name);
  if (target && (name == "cuda" || name == "cuda:math=tf32")) fit_cuda(*target);
  if (target && target->family == codegen::Target::Family::OpenCl) fit_opencl(*target);
  return target;
}

}  // namespace tilec::runtime
