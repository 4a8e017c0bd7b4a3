// NVIDIA GPUs through the driver (libcuda.so.1, opened when first asked for). Text is compiled by NVRTC (nvrtc.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/device.h"

namespace tilec::runtime {

// How many GPUs there are. 0: `why` says what is missing.
std::size_t cuda_gpu_count(std::string& why);

// One of them, as describe() names it, and what a plan must know of it. Null if there is none at that place, and then
// `why` says so.
struct CudaGpu { std::string name, architecture; int multiprocessors = 0; std::int64_t shared_bytes = 0; };
std::optional<CudaGpu> cuda_gpu(std::size_t position, std::string& why);

// `target`: "cuda", "cuda:1" (the second GPU), or with ":sm_90a" to compile for that architecture, which the GPU must
// be able to run. RuntimeError E0520 where there is no such GPU.
std::shared_ptr<Device> open_cuda(std::string_view target);

}  // namespace tilec::runtime
