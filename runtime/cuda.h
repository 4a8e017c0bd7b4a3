// NVIDIA GPUs through the driver (libcuda.so.1, opened when first asked for). Text is compiled by NVRTC (nvrtc.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/device.h"

namespace tilec::runtime {

// The first GPU, as describe() names it; empty if there is none, and then `why` says what is missing.
std::string cuda_device(std::string& why);

// `target`: "cuda", or "cuda:sm_90a" to compile for that architecture, which the GPU must be able to run. RuntimeError E0520 without a GPU.
std::shared_ptr<Device> open_cuda(std::string_view target);

}  // namespace tilec::runtime
