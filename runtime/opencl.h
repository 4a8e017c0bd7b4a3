// OpenCL devices, through the loader that is found at run time; no type of OpenCL appears here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace tilec::runtime {

// Devices of all platforms, GPUs first: as describe() names them, and what a plan must know. Without any, `why` says
// what is missing.
struct OpenClDevice { std::string name; std::int64_t shared_bytes = 0, largest_group = 0; };
std::vector<OpenClDevice> opencl_devices(std::string& why);

// The device of that position. RuntimeError E0520 if there is none.
std::shared_ptr<Device> open_opencl(std::size_t position);

}  // namespace tilec::runtime
