// The CUDA driver, by hand: its functions are found by name in libcuda.so.1, so nothing of CUDA is needed to build, and
// a machine without it starts and says so.
//
// The primary context is the one that PyTorch and the CUDA runtime use too: where another is current, it is made
// current for the length of a call and what was current before is put back. All work goes to the default stream, in
// order, but for what a caller starts on a stream of its own.
//
// A program of many launches is one graph of the driver's from its second call on. It is made of the launches, so no
// stream is captured for it; where addresses change, the launches that have them are told. Where the driver refuses,
// the launches go to it one by one.
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "codegen/target_words.h"
#include "runtime/fork.h"
#include "runtime/library.h"
#include "runtime/nvrtc.h"

namespace tilec::runtime {
namespace {

using codegen::Launch;

// The driver's types, as cuda.h has them.
using Result = int;
using DeviceNumber = int;
using Address = unsigned long long;                    // CUdeviceptr
using Context = struct Context_*;
using Module = struct Module_*;
using Function = struct Function_*;
using Stream = struct Stream_*;
using Event = struct Event_*;
using Graph = struct Graph_*;
using Node = struct Node_*;
using Executable = struct Executable_*;
// CUDA_KERNEL_NODE_PARAMS_v1
struct KernelNode { Function function; unsigned grid[3], block[3], shared; void **arguments, **extra; };

// CUdevice_attribute
constexpr int multiprocessor_count = 16, compute_capability_major = 75, compute_capability_minor = 76,
              max_shared_optin = 97;
constexpr int max_dynamic_shared = 8;                  // CUfunction_attribute
constexpr Result out_of_memory_result = 2;             // CUDA_ERROR_OUT_OF_MEMORY

// The names are the library's: `_v2` is what cuda.h's macros make of cuMemAlloc and its like.
#define TILEC_CUDA_FUNCTIONS(X)                                                                                        \
  X(cuInit, Result (*)(unsigned)) X(cuDriverGetVersion, Result (*)(int*)) X(cuDeviceGetCount, Result (*)(int*))        \
  X(cuDeviceGet, Result (*)(DeviceNumber*, int)) X(cuDeviceGetName, Result (*)(char*, int, DeviceNumber))              \
  X(cuDeviceGetAttribute, Result (*)(int*, int, DeviceNumber))                                                         \
  X(cuDevicePrimaryCtxRetain, Result (*)(Context*, DeviceNumber))                                                      \
  X(cuDevicePrimaryCtxRelease_v2, Result (*)(DeviceNumber)) X(cuCtxPushCurrent_v2, Result (*)(Context))                \
  X(cuCtxPopCurrent_v2, Result (*)(Context*)) X(cuCtxGetCurrent, Result (*)(Context*))                                 \
  X(cuCtxSynchronize, Result (*)())                                                                                    \
  X(cuMemAlloc_v2, Result (*)(Address*, std::size_t)) X(cuMemFree_v2, Result (*)(Address))                             \
  X(cuMemcpyHtoD_v2, Result (*)(Address, const void*, std::size_t))                                                    \
  X(cuMemcpyDtoH_v2, Result (*)(void*, Address, std::size_t))                                                          \
  X(cuMemcpyDtoDAsync_v2, Result (*)(Address, Address, std::size_t, Stream))                                           \
  X(cuModuleLoadData, Result (*)(Module*, const void*)) X(cuModuleUnload, Result (*)(Module))                          \
  X(cuModuleGetFunction, Result (*)(Function*, Module, const char*))                                                   \
  X(cuFuncSetAttribute, Result (*)(Function, int, int))                                                                \
  X(cuLaunchKernel,                                                                                                    \
    Result (*)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**,         \
        void**))                                                                                                       \
  X(cuEventCreate, Result (*)(Event*, unsigned)) X(cuEventDestroy_v2, Result (*)(Event))                               \
  X(cuEventRecord, Result (*)(Event, Stream)) X(cuEventSynchronize, Result (*)(Event))                                 \
  X(cuEventElapsedTime, Result (*)(float*, Event, Event)) X(cuGetErrorString, Result (*)(Result, const char**))

// Where one of these is missing, there are no graphs.
#define TILEC_CUDA_GRAPH_FUNCTIONS(X)                                                                                  \
  X(cuStreamIsCapturing, Result (*)(Stream, int*)) X(cuGraphCreate, Result (*)(Graph*, unsigned))                      \
  X(cuGraphDestroy, Result (*)(Graph))                                                                                 \
  X(cuGraphAddKernelNode, Result (*)(Node*, Graph, const Node*, std::size_t, const KernelNode*))                       \
  X(cuGraphInstantiateWithFlags, Result (*)(Executable*, Graph, unsigned long long))                                   \
  X(cuGraphExecDestroy, Result (*)(Executable))                                                                        \
  X(cuGraphExecKernelNodeSetParams, Result (*)(Executable, Node, const KernelNode*))                                   \
  X(cuGraphLaunch, Result (*)(Executable, Stream))

template <class F> using Pointer = F;

struct Api {
#define X(name, ...) Pointer<__VA_ARGS__> name = nullptr;
  TILEC_CUDA_FUNCTIONS(X)
  TILEC_CUDA_GRAPH_FUNCTIONS(X)
#undef X
  std::string missing;
  bool has_graphs = true;
  int owner = generation();                            // the process that the driver was started in
};

Api find_driver() {
  Api a;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    a.missing = fmt::format("the NVIDIA driver is not installed ({})", dlerror());
    return a;
  }
#define X(name, ...)                                                      \
  a.name = reinterpret_cast<Pointer<__VA_ARGS__>>(dlsym(library, #name)); \
  if (!a.name) a.missing = "libcuda.so.1 has no " #name ": the NVIDIA driver is too old";
  TILEC_CUDA_FUNCTIONS(X)
#undef X
#define X(name, ...)                                                      \
  a.name = reinterpret_cast<Pointer<__VA_ARGS__>>(dlsym(library, #name)); \
  a.has_graphs = a.has_graphs && a.name;
  TILEC_CUDA_GRAPH_FUNCTIONS(X)
#undef X
  if (!a.missing.empty()) dlclose(library);
  return a;
}

const Api& api() { return found_once<Api, find_driver>(); }

bool is_parents() { return api().missing.empty() && api().owner != generation(); }

std::string result_text(Result result) {
  const char* text = nullptr;
  if (api().cuGetErrorString(result, &text) != 0 || !text) text = "unknown error";
  return fmt::format("{} ({})", text, result);
}

// What to do about results that say more of the machine than of the call.
const char* remedy(Result result) {
  switch (result) {
    // CUDA_ERROR_DEVICE_UNAVAILABLE
    case 46: return "another process has the GPU for itself: wait for it, or `nvidia-smi -c DEFAULT`";
    // CUDA_ERROR_NO_BINARY_FOR_GPU
    case 209: return "the code is for another GPU: compile it for this one, `tilec targets` names its architecture";
    // CUDA_ERROR_ECC_UNCORRECTABLE
    case 214: return "the GPU's memory is at fault: `nvidia-smi -q -d ECC` says where";
    // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    case 222: return "the driver is older than the PTX: update it, or compile for this GPU";
    // CUDA_ERROR_LAUNCH_TIMEOUT
    case 702: return "the launch took longer than this GPU's watchdog allows, which a GPU that drives a screen has";
    // CUDA_ERROR_SYSTEM_NOT_READY
    case 802: return "the GPU is not ready: on machines with NVSwitch `nvidia-fabricmanager` must run";
    // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
    case 803: return "the kernel module and libcuda.so.1 are of different versions: load the module again, or restart";
    // CUDA_ERROR_INVALID_HANDLE
    case 400: return "the stream is of another GPU than the kernel, or is gone";
    default: return nullptr;
  }
}

// A kernel went wrong, of ours or of another library's: every later call in this process fails with the same result.
bool is_sticky(Result result) {
  return result == 700 || result == 702 || result == 710 || (result >= 714 && result <= 719);
}

RuntimeError call_failed(
    Result result, const char* function, const std::string& device, const std::string& kernel = {}) {
  RuntimeError error = machine_error(messages::device_call, function, device,
      result_text(result) + (kernel.empty() ? "" : fmt::format(", for the kernel `{}`", kernel)));
  if (const char* what = remedy(result)) error.hint(what);
  if (is_sticky(result))
    error.hint(
        "the GPU's context of this process is lost: start the process again; `compute-sanitizer` names the launch that did it");
  return error;
}

void check(Result result, const char* function, const std::string& device, const std::string& kernel = {}) {
  if (result != 0) throw call_failed(result, function, device, kernel);
}

// The GPU at a place, from 0. What the driver said last time is asked again: it may have been starting, or busy.
std::optional<DeviceNumber> gpu_at(std::size_t position, std::string& why) {
  const std::size_t count = cuda_gpu_count(why);
  if (count == 0) return std::nullopt;
  DeviceNumber number = 0;
  if (position >= count)
    why = fmt::format("{} NVIDIA GPU{} here, and they count from 0", count, count == 1 ? " is" : "s are");
  else if (const Result got = api().cuDeviceGet(&number, static_cast<int>(position)); got != 0)
    why = fmt::format("the NVIDIA driver does not give GPU {}: {}", position, result_text(got));
  if (!why.empty()) return std::nullopt;
  return number;
}

// sm_90a: Hopper's own instructions are in the set with the letter, and it runs that.
std::string architecture_of(int major, int minor) {
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

// What the driver says of a GPU; nothing of it is in use yet.
struct Facts { std::string name, architecture; int major = 0, minor = 0, multiprocessors = 0, shared_bytes = 0; };

Facts facts_of(DeviceNumber number) {
  Facts f;
  char name[256] = {};
  check(api().cuDeviceGetName(name, sizeof name - 1, number), "cuDeviceGetName", "the GPU");
  const std::pair<int*, int> attributes[] = {{&f.major, compute_capability_major}, {&f.minor, compute_capability_minor},
      {&f.multiprocessors, multiprocessor_count}, {&f.shared_bytes, max_shared_optin}};
  for (const auto& [value, attribute] : attributes)
    check(api().cuDeviceGetAttribute(value, attribute, number), "cuDeviceGetAttribute", name);
  f.architecture = architecture_of(f.major, f.minor);
  f.name = fmt::format("{} ({})", name, f.architecture);
  return f;
}

struct Gpu : Facts {                                   // one GPU, as long as anything of it is in use
  DeviceNumber number;
  Context context = nullptr;

  Gpu(DeviceNumber of, Facts facts) : Facts(std::move(facts)), number(of) {
    check(api().cuDevicePrimaryCtxRetain(&context, number), "cuDevicePrimaryCtxRetain", name);
  }
  ~Gpu() { api().cuDevicePrimaryCtxRelease_v2(number); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
};

// Makes the GPU's context current while it lives; where PyTorch has done so already, that is one question.
class Current {
 public:
  explicit Current(const Gpu& gpu) {
    Context now = nullptr;
    check(api().cuCtxGetCurrent(&now), "cuCtxGetCurrent", gpu.name);
    if (now == gpu.context) return;
    check(api().cuCtxPushCurrent_v2(gpu.context), "cuCtxPushCurrent", gpu.name);
    pushed_ = true;
  }
  ~Current() {
    Context before = nullptr;
    if (pushed_) api().cuCtxPopCurrent_v2(&before);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  bool pushed_ = false;
};

// Whether code for `architecture` (sm_80, sm_90a) runs on a GPU of that capability: same major number, no later minor;
// with a letter, that very GPU.
bool runs_on(std::string_view architecture, const Facts& gpu) {
  if (architecture == gpu.architecture) return true;
  if (architecture.back() < '0' || architecture.back() > '9') return false;
  const int number = std::atoi(std::string(architecture.substr(3)).c_str());
  return number / 10 == gpu.major && number % 10 <= gpu.minor;
}

// Machine code of a toolkit runs on drivers of its major version or a later one.
void check_driver(const Gpu& gpu) {
  int driver = 0;
  check(api().cuDriverGetVersion(&driver), "cuDriverGetVersion", gpu.name);
  const int compiler = nvrtc_major();
  if (compiler > driver / 1000)
    throw machine_error(
        messages::old_driver, gpu.name, fmt::format("{}.{}", driver / 1000, driver % 1000 / 10), compiler)
        .hint(fmt::format("update the driver, or set TILEC_NVRTC to a folder with libnvrtc.so.{}", driver / 1000));
}

bool has_nothing(const Launch& launch) { return std::ranges::count(launch.grid, 0) > 0; }

struct Started { Function function = nullptr; Launch launch; };

// A launch as the driver takes it.
struct Parameters {
  Parameters(const Started& step, std::span<void* const> all) {
    addresses.reserve(step.launch.buffers.size());
    for (const int b : step.launch.buffers)
      addresses.push_back(static_cast<Address>(reinterpret_cast<std::uintptr_t>(all[static_cast<std::size_t>(b)])));
    for (Address& a : addresses) pointers.push_back(&a);
    for (const std::int64_t& number : step.launch.numbers) pointers.push_back(const_cast<std::int64_t*>(&number));
    const auto n = [](std::int64_t x) { return static_cast<unsigned>(x); };
    const std::int64_t* grid = step.launch.grid;
    node = {step.function, {n(grid[0]), n(grid[1]), n(grid[2])}, {n(step.launch.threads), 1, 1},
        n(step.launch.dynamic_shared), pointers.data(), nullptr};
  }
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;
  std::vector<Address> addresses;
  std::vector<void*> pointers;                         // to each of them, and to the numbers
  KernelNode node;
};

// The launches of a program as one, one behind the other.
class Launches {
 public:
  ~Launches() { drop(); }
  Launches() = default;
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

  // Whether it started them.
  bool run(const std::vector<Started>& steps, std::span<void* const> addresses, Stream stream) {
    if (refused_ || !api().has_graphs || steps.size() < least_launches || !std::exchange(called_, true)) return false;
    int capturing = 0;
    if (api().cuStreamIsCapturing(stream, &capturing) != 0 || capturing != 0) return false;
    if (!(executable_ ? tell(steps, addresses) : make(steps, addresses)) ||
        api().cuGraphLaunch(executable_, stream) != 0) {
      drop();
      refused_ = true;
      return false;
    }
    return true;
  }

  void drop() {
    if (executable_) api().cuGraphExecDestroy(std::exchange(executable_, nullptr));
    if (graph_) api().cuGraphDestroy(std::exchange(graph_, nullptr));
  }

 private:
  static constexpr std::size_t least_launches = 4;     // fewer cost the driver less one by one

  bool make(const std::vector<Started>& steps, std::span<void* const> addresses) {
    if (api().cuGraphCreate(&graph_, 0) != 0) return graph_ = nullptr, false;
    for (const Started& step : steps) {
      const Parameters parameters(step, addresses);
      const Node* before = nodes_.empty() ? nullptr : &nodes_.back();
      Node node = nullptr;
      if (api().cuGraphAddKernelNode(&node, graph_, before, before ? 1 : 0, &parameters.node) != 0) return false;
      nodes_.push_back(node);
    }
    addresses_.assign(addresses.begin(), addresses.end());
    return api().cuGraphInstantiateWithFlags(&executable_, graph_, 0) == 0;
  }

  bool tell(const std::vector<Started>& steps, std::span<void* const> addresses) {
    for (std::size_t k = 0; k < steps.size(); ++k) {
      const auto moved = [&](int b) {
        return addresses_[static_cast<std::size_t>(b)] != addresses[static_cast<std::size_t>(b)];
      };
      if (std::ranges::none_of(steps[k].launch.buffers, moved)) continue;
      const Parameters parameters(steps[k], addresses);
      if (api().cuGraphExecKernelNodeSetParams(executable_, nodes_[k], &parameters.node) != 0) return false;
    }
    addresses_.assign(addresses.begin(), addresses.end());
    return true;
  }

  bool called_ = false, refused_ = false;
  Graph graph_ = nullptr;
  Executable executable_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<void*> addresses_;                       // that it was told last
};

struct CudaKernels : Kernels {
  std::shared_ptr<Gpu> gpu;
  std::vector<Module> modules;
  std::vector<Started> steps, busy;                    // busy: those that have something to do
  mutable Launches launches;

  ~CudaKernels() override {
    if (modules.empty() || api().cuCtxPushCurrent_v2(gpu->context) != 0) return;
    api().cuCtxSynchronize();                          // a launch may be under way after a call that failed
    launches.drop();
    for (Module m : modules) if (m) api().cuModuleUnload(m);
    Context before = nullptr;
    api().cuCtxPopCurrent_v2(&before);
  }
};

class Cuda : public Device {
 public:
  explicit Cuda(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  void check_compiler() const override { check_driver(*gpu_); }
  std::string describe() const override { return gpu_->name; }
  Memory allocate(std::int64_t bytes) override;
  Memory part(const Memory& whole, std::int64_t offset, std::int64_t bytes) override;
  void copy_in(const Memory& to, const void* from, std::int64_t bytes) override;
  void copy_out(void* to, const Memory& from, std::int64_t bytes) override;
  std::shared_ptr<const Kernels> load(const codegen::Package& package) override;
  void run(const Kernels& kernels, std::span<const Memory> memory, std::vector<double>* milliseconds) override;
  void run_at(const Kernels& kernels, std::span<void* const> addresses, void* stream) override;
  void copy_at(void* to, const void* from, std::int64_t bytes, void* stream) override;
  void wait() override;

 private:
  void start(const Started& step, std::span<void* const> addresses, void* stream);

  std::shared_ptr<Gpu> gpu_;
  std::mutex mutex_;
};

Address address(const Memory& memory) { return static_cast<Address>(reinterpret_cast<std::uintptr_t>(memory.get())); }

Memory Cuda::allocate(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  Address a = 0;
  const Result result = api().cuMemAlloc_v2(&a, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 16)));
  if (result == out_of_memory_result) throw machine_error(messages::device_memory, bytes, gpu_->name);
  check(result, "cuMemAlloc", gpu_->name);
  return Memory(reinterpret_cast<void*>(static_cast<std::uintptr_t>(a)), [gpu = gpu_](void* p) {
    if (api().cuCtxPushCurrent_v2(gpu->context) != 0) return;
    api().cuMemFree_v2(static_cast<Address>(reinterpret_cast<std::uintptr_t>(p)));
    Context before = nullptr;
    api().cuCtxPopCurrent_v2(&before);
  });
}

void Cuda::copy_in(const Memory& to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  check(api().cuMemcpyHtoD_v2(address(to), from, static_cast<std::size_t>(bytes)), "cuMemcpyHtoD", gpu_->name);
}

void Cuda::copy_out(void* to, const Memory& from, std::int64_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  check(api().cuMemcpyDtoH_v2(to, address(from), static_cast<std::size_t>(bytes)), "cuMemcpyDtoH", gpu_->name);
}

Memory Cuda::part(const Memory& whole, std::int64_t offset, std::int64_t) {
  return Memory(whole, static_cast<char*>(whole.get()) + offset);
}

std::shared_ptr<const Kernels> Cuda::load(const codegen::Package& package) {
  auto kernels = std::make_shared<CudaKernels>();
  kernels->gpu = gpu_;
  for (const Launch& launch : package.launches) {
    if (launch.shared > gpu_->shared_bytes)
      throw machine_error(messages::unsupported_on_device, gpu_->name,
          fmt::format("{} bytes of shared memory for a block (it has {})", launch.shared, gpu_->shared_bytes));
    kernels->steps.push_back({nullptr, launch});
  }
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  for (const std::string& cubin : package.code) {
    kernels->modules.push_back(nullptr);
    check(api().cuModuleLoadData(&kernels->modules.back(), cubin.data()), "cuModuleLoadData", gpu_->name);
  }
  for (Started& s : kernels->steps) {
    check(api().cuModuleGetFunction(
              &s.function, kernels->modules.at(static_cast<std::size_t>(s.launch.code)), s.launch.kernel.c_str()),
        "cuModuleGetFunction", gpu_->name, s.launch.kernel);
    if (s.launch.dynamic_shared > 0)
      check(api().cuFuncSetAttribute(s.function, max_dynamic_shared, static_cast<int>(s.launch.dynamic_shared)),
          "cuFuncSetAttribute", gpu_->name, s.launch.kernel);
    if (!has_nothing(s.launch)) kernels->busy.push_back(s);
  }
  return kernels;
}

void Cuda::start(const Started& step, std::span<void* const> all, void* stream) {
  if (has_nothing(step.launch)) return;
  const Parameters p(step, all);
  const KernelNode& n = p.node;
  check(api().cuLaunchKernel(n.function, n.grid[0], n.grid[1], n.grid[2], n.block[0], 1, 1, n.shared,
            static_cast<Stream>(stream), n.arguments, nullptr),
      "cuLaunchKernel", gpu_->name, step.launch.kernel);
}

// Events between the steps of a timed call.
class Events {
 public:
  Events(std::size_t count, const std::string& device) : device_(device), events_(count) {
    for (Event& e : events_) {
      if (const Result result = api().cuEventCreate(&e, 0); result != 0)
        destroy(), check(result, "cuEventCreate", device_);
    }
  }
  ~Events() { destroy(); }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  void record(std::size_t k) { check(api().cuEventRecord(events_[k], nullptr), "cuEventRecord", device_); }
  std::vector<double> times() {
    std::vector<double> milliseconds;
    check(api().cuEventSynchronize(events_.back()), "cuEventSynchronize", device_);
    for (std::size_t k = 0; k + 1 < events_.size(); ++k) {
      float time = 0;
      check(api().cuEventElapsedTime(&time, events_[k], events_[k + 1]), "cuEventElapsedTime", device_);
      milliseconds.push_back(static_cast<double>(time));
    }
    return milliseconds;
  }

 private:
  void destroy() {
    for (Event& e : events_) if (e) api().cuEventDestroy_v2(e);
    events_.clear();
  }

  const std::string& device_;
  std::vector<Event> events_;
};

void Cuda::run(const Kernels& kernels, std::span<const Memory> memory, std::vector<double>* milliseconds) {
  const auto& mine = dynamic_cast<const CudaKernels&>(kernels);
  std::vector<void*> addresses;
  for (const Memory& m : memory) addresses.push_back(m.get());
  if (!milliseconds) return run_at(kernels, addresses, nullptr);
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  Events events(mine.steps.size() + 1, gpu_->name);
  for (std::size_t i = 0; i < mine.steps.size(); ++i) {
    events.record(i);
    start(mine.steps[i], addresses, nullptr);
  }
  events.record(mine.steps.size());
  *milliseconds = events.times();
}

void Cuda::run_at(const Kernels& kernels, std::span<void* const> addresses, void* stream) {
  const auto& mine = dynamic_cast<const CudaKernels&>(kernels);
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  if (mine.launches.run(mine.busy, addresses, static_cast<Stream>(stream))) return;
  for (const Started& step : mine.busy) start(step, addresses, stream);
}

void Cuda::copy_at(void* to, const void* from, std::int64_t bytes, void* stream) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  const auto at = [](const void* p) { return static_cast<Address>(reinterpret_cast<std::uintptr_t>(p)); };
  check(
      api().cuMemcpyDtoDAsync_v2(at(to), at(from), static_cast<std::size_t>(bytes), static_cast<Stream>(stream)),
      "cuMemcpyDtoDAsync", gpu_->name);
}

void Cuda::wait() {
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  check(api().cuCtxSynchronize(), "cuCtxSynchronize", gpu_->name);
}

}  // namespace

std::size_t cuda_gpu_count(std::string& why) {
  why = is_parents() ? std::string(used_by_parent) : api().missing;
  if (!why.empty()) return 0;
  int count = 0;
  if (const Result result = api().cuInit(0); result != 0)
    why = "the NVIDIA driver does not start: " + result_text(result);
  else if (const Result counted = api().cuDeviceGetCount(&count); counted != 0)
    why = "the NVIDIA driver counts no GPUs: " + result_text(counted);
  else if (count == 0) why = "the NVIDIA driver finds no GPU";
  return why.empty() ? static_cast<std::size_t>(count) : 0;
}

std::optional<CudaGpu> cuda_gpu(std::size_t position, std::string& why) {
  try {
    const std::optional<DeviceNumber> number = gpu_at(position, why);
    if (!number) return std::nullopt;
    const Facts f = facts_of(*number);
    return CudaGpu{f.name, f.architecture, f.multiprocessors, f.shared_bytes};
  } catch (const RuntimeError& e) {
    why = e.diagnostic.message;
    return std::nullopt;
  }
}

std::shared_ptr<Device> open_cuda(std::string_view target) {
  if (is_parents()) throw device_of_parent(target);
  const std::optional<codegen::TargetWords> words = codegen::target_words(target);
  if (!words || words->kind != "cuda" || (!words->arch.empty() && words->arch.size() < 5))
    throw argument_error(messages::unknown_target, target)
        .hint("write `cuda`, `cuda:1`, `cuda:sm_80` or `cuda:sm_90a`");
  const std::size_t position = words->device.value_or(0);
  std::string why;
  const std::optional<DeviceNumber> number = gpu_at(position, why);
  if (!number)
    throw machine_error(messages::no_device, target, why)
        .hint(cuda_gpu_count(why) > 0 ? "`tilec targets` lists them" : "`--emit=cubin` and `--emit=cuda` need no GPU");
  Facts facts = facts_of(*number);
  if (!words->arch.empty() && !runs_on(words->arch, facts))
    throw machine_error(messages::no_device, target, fmt::format("the GPU is {}", facts.name))
        .hint(fmt::format("use `--target {}`", words->device ? fmt::format("cuda:{}", position) : "cuda"));
  if (position > 0) facts.name += fmt::format(", cuda:{}", position);
  return std::make_shared<Cuda>(std::make_shared<Gpu>(*number, std::move(facts)));
}

}  // namespace tilec::runtime
