// What the machine, not the program, is to blame for: no device, no library, out of memory, a file that cannot be written.
// Caught in the C API and in cli/main.cpp only; exit status 3.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace tilec::runtime {

struct RuntimeError : std::runtime_error {
  RuntimeError(std::string code_, const std::string& message, std::string hint_ = {})
      : std::runtime_error(message), code(std::move(code_)), hint(std::move(hint_)) {}
  std::string code;                                    // E05xx
  std::string hint;                                    // something that can be typed in; may be empty
};

inline constexpr const char* no_device = "E0510";       // library, driver or device absent
inline constexpr const char* device_compile = "E0511";  // the device's compiler refused our text; the message names the file it was saved to
inline constexpr const char* device_call = "E0512";     // a call into the driver failed
inline constexpr const char* device_memory = "E0513";   // allocation on the device failed; bytes named
inline constexpr const char* no_nvrtc = "E0514";        // CUDA text cannot be compiled here

}  // namespace tilec::runtime
