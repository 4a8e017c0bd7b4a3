// OpenCL devices, through the loader that is found at run time; no type of OpenCL appears here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace tilec::runtime {

// Devices of all platforms, GPUs first, as describe() names them. Without any, `why` says what is missing.
std::vector<std::string> opencl_devices(std::string& why);

// The device of that position. RuntimeError E0520 if there is none.
std::shared_ptr<Device> open_opencl(int position);

}  // namespace tilec::runtime
