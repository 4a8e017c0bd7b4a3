#include "runtime/device.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "codegen/target_words.h"
#include "runtime/cuda.h"
#include "runtime/fork.h"
#include "runtime/opencl.h"

namespace tilec::runtime {

namespace {

RuntimeError has_no_addresses(const Device& device) {
  return argument_error(
      messages::bad_call, "tilec_kernel_run_on", "the memory of " + device.describe() + " has no addresses")
      .hint("`tilec_kernel_run` takes memory of the host");
}

}  // namespace

void Device::run_at(const Kernels&, std::span<void* const>, void*) { throw has_no_addresses(*this); }
void Device::copy_at(void*, const void*, std::int64_t, void*) { throw has_no_addresses(*this); }

namespace {

std::shared_ptr<Device> open_new(std::string_view target) {
  const std::optional<codegen::TargetWords> words = codegen::target_words(target);
  if (words && words->kind == "cuda") return open_cuda(target);
  if (!words || words->kind != "opencl")
    throw argument_error(messages::unknown_target, target).hint("`tilec targets` lists them");
  return open_opencl(words->device.value_or(0));
}

}  // namespace

// Kept until the process ends and not destroyed then: drivers unload in an order nobody controls.
std::shared_ptr<Device> open_device(std::string_view target) {
  target = codegen::without_math(target);              // that is of what is compiled
  struct Open { std::shared_ptr<Device> device; int generation; };
  static auto& open = *new std::map<std::string, Open, std::less<>>();
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const auto at = open.find(target); at != open.end()) {
    if (at->second.generation != generation()) throw device_of_parent(target);
    return at->second.device;
  }
  return open.emplace(std::string(target), Open{open_new(target), generation()}).first->second.device;
}

RuntimeError device_of_parent(std::string_view target) {
  return machine_error(messages::no_device, target, used_by_parent)
      .hint("start processes that use it with `spawn`, or before the target is first compiled for");
}

std::vector<DeviceLine> list_devices() {
  std::vector<DeviceLine> lines;
  std::string why;
  const std::vector<OpenClDevice> opencl = opencl_devices(why);
  for (std::size_t i = 0; i < opencl.size(); ++i)
    lines.push_back({i == 0 ? "opencl" : "opencl:" + std::to_string(i), opencl[i].name, true});
  if (opencl.empty()) lines.push_back({"opencl", why, false});
  const std::size_t gpus = cuda_gpu_count(why);
  for (std::size_t i = 0; i < gpus; ++i) {
    const std::optional<CudaGpu> gpu = cuda_gpu(i, why);
    lines.push_back({i == 0 ? "cuda" : "cuda:" + std::to_string(i), gpu ? gpu->name : why, gpu.has_value()});
  }
  if (gpus == 0) lines.push_back({"cuda", why, false});
  return lines;
}

}  // namespace tilec::runtime
