#include "runtime/device.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>

#include "runtime/cuda.h"
#include "runtime/fork.h"
#include "runtime/opencl.h"

namespace tilec::runtime {

void Device::run_at(const Kernels&, std::span<void* const>, void*) {
  throw argument_error(messages::bad_call, "tilec_kernel_run_on", "the memory of " + describe() + " has no addresses").hint("`tilec_kernel_run` takes memory of the host");
}

std::optional<std::size_t> opencl_position(std::string_view target) {
  if (target == "opencl") return 0;
  std::size_t position = 0;
  const std::string_view number = target.starts_with("opencl:") ? target.substr(7) : std::string_view();
  const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), position);
  if (number.empty() || fault != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return position;
}

namespace {

std::shared_ptr<Device> open_new(std::string_view target) {
  if (target == "cuda" || target.starts_with("cuda:")) return open_cuda(target);
  const std::optional<std::size_t> position = opencl_position(target);
  if (!position) throw argument_error(messages::unknown_target, target).hint("`tilec targets` lists them");
  return open_opencl(*position);
}

}  // namespace

// Kept until the process ends and not destroyed then: drivers unload in an order nobody controls.
std::shared_ptr<Device> open_device(std::string_view target) {
  constexpr std::string_view math = ":math=tf32";        // of what is compiled, not of the device
  if (target.ends_with(math)) target.remove_suffix(math.size());
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
  return machine_error(messages::no_device, target, used_by_parent).hint("start processes that use it with `spawn`, or before the target is first compiled for");
}

std::vector<DeviceLine> list_devices() {
  std::vector<DeviceLine> lines;
  std::string why;
  const std::vector<OpenClDevice> opencl = opencl_devices(why);
  for (std::size_t i = 0; i < opencl.size(); ++i) lines.push_back({i == 0 ? "opencl" : "opencl:" + std::to_string(i), opencl[i].name, true});
  if (opencl.empty()) lines.push_back({"opencl", why, false});
  const std::optional<CudaGpu> gpu = cuda_gpu(why);
  lines.push_back(gpu ? DeviceLine{"cuda", gpu->name, true} : DeviceLine{"cuda", why, false});
  return lines;
}

}  // namespace tilec::runtime
