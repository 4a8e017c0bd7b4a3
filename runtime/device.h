// A place beside the CPU where kernels run and tensors live: what module.cpp needs of it, and nothing else.
//
//   auto device = open_device("opencl");
//   auto kernels = device->load(package);
//   std::vector<Memory> memory;                                  // one per Package::buffers, in order
//   for (const auto& b : package.buffers) memory.push_back(device->allocate(b.bytes));
//   device->copy_in(memory[0], host, bytes);
//   device->run(*kernels, memory);                               // every step, in order
//   device->copy_out(host, memory[1], bytes);                    // waits for the steps before it
//
// Every fault is a RuntimeError (error.h). A Device may be used from several threads; calls on it are serialised
// inside.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/package.h"
#include "codegen/target.h"
#include "runtime/error.h"

namespace tilec::runtime {

using Memory = std::shared_ptr<void>;                  // opaque; freed when the last copy goes; keeps its device alive

// The compiled steps of one package on one device. Knows nothing of particular memory, so one serves many calls.
class Kernels {
 public:
  virtual ~Kernels() = default;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual void check_compiler() const {}               // throws where what this machine's compiler makes would not run
                                                       // on it
  virtual std::string describe() const = 0;            // "pthread-… (Portable Computing Language)", "NVIDIA H200
                                                       // (sm_90a)"
  virtual Memory allocate(std::int64_t bytes) = 0;     // 0 bytes are fine
  // `offset`: a multiple of codegen::workspace_alignment
  virtual Memory part(const Memory& whole, std::int64_t offset, std::int64_t bytes) = 0;
  virtual void copy_in(const Memory& to, const void* from, std::int64_t bytes) = 0;
  virtual void copy_out(void* to, const Memory& from, std::int64_t bytes) = 0;
  virtual std::shared_ptr<const Kernels> load(const codegen::Package& package) = 0;
  // `memory[i]` is Package::buffers[i]. If `milliseconds` is given, waits and leaves the time of each step in it.
  virtual void run(
      const Kernels& kernels, std::span<const Memory> memory, std::vector<double>* milliseconds = nullptr) = 0;
  // The same on addresses of the caller's in this device's memory, behind what its `stream` (a CUstream; null: the
  // default one) has to do. Waits for nothing.
  virtual void run_at(const Kernels& kernels, std::span<void* const> addresses, void* stream);
  // Bytes of this device's memory to another place there, on that stream.
  virtual void copy_at(void* to, const void* from, std::int64_t bytes, void* stream);
  virtual void wait() = 0;
};

// "opencl", "opencl:1" (the second device), "cuda", "cuda:sm_90a" (the first GPU), "cuda:1". Opened once per process
// and target.
std::shared_ptr<Device> open_device(std::string_view target);

// codegen's target of that name, as this machine has it: `cuda` and `opencl` are planned for the device that runs them,
// where there is one.
std::optional<codegen::Target> target_here(std::string_view name);

// What a process is told whose parent has used the driver: its threads are not here.
inline constexpr std::string_view used_by_parent = "this process was forked after its parent had used the driver";
RuntimeError device_of_parent(std::string_view target);

// A line per device that could be opened, for `tilec targets`: {"opencl", "pthread-… "}. Never throws.
struct DeviceLine { std::string target, description; bool present = true; };  // absent: description says why
std::vector<DeviceLine> list_devices();

}  // namespace tilec::runtime
