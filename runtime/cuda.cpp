// The CUDA driver, by hand: its functions are found by name in libcuda.so.1, so nothing of CUDA is needed to build, and a machine
// without it starts and says so.
//
// The primary context is the one that PyTorch and the CUDA runtime use too: it is made current for the length of each call and
// what was current before is put back. All work goes to the default stream, in order, but for what a caller starts on a stream of its own.
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

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
struct Context_; using Context = Context_*;
struct Module_; using Module = Module_*;
struct Function_; using Function = Function_*;
struct Stream_; using Stream = Stream_*;
struct Event_; using Event = Event_*;

constexpr int multiprocessor_count = 16, compute_capability_major = 75, compute_capability_minor = 76, max_shared_optin = 97;  // CUdevice_attribute
constexpr int max_dynamic_shared = 8;                  // CUfunction_attribute
constexpr Result out_of_memory_result = 2;             // CUDA_ERROR_OUT_OF_MEMORY

// The names are the library's: `_v2` is what cuda.h's macros make of cuMemAlloc and its like.
#define TILEC_CUDA_FUNCTIONS(X)                                                                                                      \
  X(cuInit, Result (*)(unsigned)) X(cuDriverGetVersion, Result (*)(int*)) X(cuDeviceGetCount, Result (*)(int*)) X(cuDeviceGet, Result (*)(DeviceNumber*, int))               \
  X(cuDeviceGetName, Result (*)(char*, int, DeviceNumber)) X(cuDeviceGetAttribute, Result (*)(int*, int, DeviceNumber))              \
  X(cuDevicePrimaryCtxRetain, Result (*)(Context*, DeviceNumber)) X(cuDevicePrimaryCtxRelease_v2, Result (*)(DeviceNumber))          \
  X(cuCtxPushCurrent_v2, Result (*)(Context)) X(cuCtxPopCurrent_v2, Result (*)(Context*)) X(cuCtxSynchronize, Result (*)())         \
  X(cuMemAlloc_v2, Result (*)(Address*, std::size_t)) X(cuMemFree_v2, Result (*)(Address))                                           \
  X(cuMemcpyHtoD_v2, Result (*)(Address, const void*, std::size_t)) X(cuMemcpyDtoH_v2, Result (*)(void*, Address, std::size_t))      \
  X(cuModuleLoadData, Result (*)(Module*, const void*)) X(cuModuleUnload, Result (*)(Module))                                        \
  X(cuModuleGetFunction, Result (*)(Function*, Module, const char*)) X(cuFuncSetAttribute, Result (*)(Function, int, int))           \
  X(cuLaunchKernel, Result (*)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**)) \
  X(cuEventCreate, Result (*)(Event*, unsigned)) X(cuEventDestroy_v2, Result (*)(Event)) X(cuEventRecord, Result (*)(Event, Stream)) \
  X(cuEventSynchronize, Result (*)(Event)) X(cuEventElapsedTime, Result (*)(float*, Event, Event))                                   \
  X(cuGetErrorString, Result (*)(Result, const char**))

template <class F> using Pointer = F;

struct Api {
#define X(name, ...) Pointer<__VA_ARGS__> name = nullptr;
  TILEC_CUDA_FUNCTIONS(X)
#undef X
  std::string missing;
  int owner = generation();                            // the process that the driver was started in
};

Api find_driver() {
  Api a;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    a.missing = fmt::format("the NVIDIA driver is not installed ({})", dlerror());
    return a;
  }
#define X(name, ...) a.name = reinterpret_cast<Pointer<__VA_ARGS__>>(dlsym(library, #name)); if (!a.name) a.missing = "libcuda.so.1 has no " #name ": the NVIDIA driver is too old";
  TILEC_CUDA_FUNCTIONS(X)
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

void check(Result result, const char* function, const std::string& device) {
  if (result != 0) throw machine_error(messages::device_call, function, device, result_text(result));
}

// The first GPU. What the driver said last time is asked again: it may have been starting, or busy.
std::optional<DeviceNumber> first_gpu(std::string& why) {
  why = is_parents() ? std::string(used_by_parent) : api().missing;
  if (!why.empty()) return std::nullopt;
  int count = 0;
  DeviceNumber first = 0;
  if (const Result result = api().cuInit(0); result != 0) why = "the NVIDIA driver does not start: " + result_text(result);
  else if (const Result counted = api().cuDeviceGetCount(&count); counted != 0) why = "the NVIDIA driver counts no GPUs: " + result_text(counted);
  else if (count == 0) why = "the NVIDIA driver finds no GPU";
  else if (const Result got = api().cuDeviceGet(&first, 0); got != 0) why = "the NVIDIA driver does not give the first GPU: " + result_text(got);
  if (!why.empty()) return std::nullopt;
  return first;
}

// sm_90a: Hopper's own instructions are in the set with the letter, and it runs that.
std::string architecture_of(int major, int minor) { return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : ""); }

// What the driver says of a GPU; nothing of it is in use yet.
struct Facts { std::string name, architecture; int major = 0, minor = 0, multiprocessors = 0, shared_bytes = 0; };

Facts facts_of(DeviceNumber number) {
  Facts f;
  char name[256] = {};
  check(api().cuDeviceGetName(name, sizeof name - 1, number), "cuDeviceGetName", "the GPU");
  const std::pair<int*, int> attributes[] = {{&f.major, compute_capability_major}, {&f.minor, compute_capability_minor}, {&f.multiprocessors, multiprocessor_count}, {&f.shared_bytes, max_shared_optin}};
  for (const auto& [value, attribute] : attributes) check(api().cuDeviceGetAttribute(value, attribute, number), "cuDeviceGetAttribute", name);
  f.architecture = architecture_of(f.major, f.minor);
  f.name = fmt::format("{} ({})", name, f.architecture);
  return f;
}

struct Gpu : Facts {                                   // one GPU, as long as anything of it is in use
  DeviceNumber number;
  Context context = nullptr;

  Gpu(DeviceNumber of, Facts facts) : Facts(std::move(facts)), number(of) { check(api().cuDevicePrimaryCtxRetain(&context, number), "cuDevicePrimaryCtxRetain", name); }
  ~Gpu() { api().cuDevicePrimaryCtxRelease_v2(number); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
};

// Makes the GPU's context current while it lives.
class Current {
 public:
  explicit Current(const Gpu& gpu) { check(api().cuCtxPushCurrent_v2(gpu.context), "cuCtxPushCurrent", gpu.name); }
  ~Current() { Context before = nullptr; api().cuCtxPopCurrent_v2(&before); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

// Whether code for `architecture` (sm_80, sm_90a) runs on a GPU of that capability: same major number, no later minor; with a
// letter, that very GPU.
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
    throw machine_error(messages::old_driver, gpu.name, fmt::format("{}.{}", driver / 1000, driver % 1000 / 10), compiler)
        .hint(fmt::format("update the driver, or set TILEC_NVRTC to a folder with libnvrtc.so.{}", driver / 1000));
}

struct Started { Function function = nullptr; Launch launch; };

struct CudaKernels : Kernels {
  std::shared_ptr<Gpu> gpu;
  std::vector<Module> modules;
  std::vector<Started> steps;

  ~CudaKernels() override {
    if (modules.empty() || api().cuCtxPushCurrent_v2(gpu->context) != 0) return;
    api().cuCtxSynchronize();                          // a launch may be under way after a call that failed
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

Memory Cuda::part(const Memory& whole, std::int64_t offset, std::int64_t) { return Memory(whole, static_cast<char*>(whole.get()) + offset); }

std::shared_ptr<const Kernels> Cuda::load(const codegen::Package& package) {
  auto kernels = std::make_shared<CudaKernels>();
  kernels->gpu = gpu_;
  for (const Launch& launch : package.launches) {
    if (launch.shared > gpu_->shared_bytes)
      throw machine_error(messages::unsupported_on_device, gpu_->name, fmt::format("{} bytes of shared memory for a block (it has {})", launch.shared, gpu_->shared_bytes));
    kernels->steps.push_back({nullptr, launch});
  }
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  for (const std::string& cubin : package.code) {
    kernels->modules.push_back(nullptr);
    check(api().cuModuleLoadData(&kernels->modules.back(), cubin.data()), "cuModuleLoadData", gpu_->name);
  }
  for (Started& s : kernels->steps) {
    check(api().cuModuleGetFunction(&s.function, kernels->modules.at(static_cast<std::size_t>(s.launch.code)), s.launch.kernel.c_str()), "cuModuleGetFunction", gpu_->name);
    if (s.launch.dynamic_shared > 0) check(api().cuFuncSetAttribute(s.function, max_dynamic_shared, static_cast<int>(s.launch.dynamic_shared)), "cuFuncSetAttribute", gpu_->name);
  }
  return kernels;
}

void Cuda::start(const Started& step, std::span<void* const> all, void* stream) {
  if (std::any_of(step.launch.grid, step.launch.grid + 3, [](std::int64_t n) { return n == 0; })) return;
  std::vector<Address> addresses;
  for (int b : step.launch.buffers) addresses.push_back(static_cast<Address>(reinterpret_cast<std::uintptr_t>(all[static_cast<std::size_t>(b)])));
  std::vector<void*> arguments;                        // a pointer to each parameter
  for (Address& a : addresses) arguments.push_back(&a);
  const auto n = [](std::int64_t x) { return static_cast<unsigned>(x); };
  check(api().cuLaunchKernel(step.function, n(step.launch.grid[0]), n(step.launch.grid[1]), n(step.launch.grid[2]), n(step.launch.threads), 1, 1,
                             n(step.launch.dynamic_shared), static_cast<Stream>(stream), arguments.data(), nullptr), "cuLaunchKernel", gpu_->name);
}

// Events between the steps of a timed call.
class Events {
 public:
  Events(std::size_t count, const std::string& device) : device_(device), events_(count) {
    for (Event& e : events_) {
      if (const Result result = api().cuEventCreate(&e, 0); result != 0) destroy(), check(result, "cuEventCreate", device_);
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
  for (const Started& step : mine.steps) start(step, addresses, stream);
}

void Cuda::wait() {
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  check(api().cuCtxSynchronize(), "cuCtxSynchronize", gpu_->name);
}

}  // namespace

std::optional<CudaGpu> cuda_gpu(std::string& why) {
  try {
    const std::optional<DeviceNumber> number = first_gpu(why);
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
  std::string why;
  const std::optional<DeviceNumber> number = first_gpu(why);
  if (!number) throw machine_error(messages::no_device, target, why).hint("`--emit=cubin` and `--emit=cuda` need no GPU");
  Facts facts = facts_of(*number);
  std::string architecture = facts.architecture;
  if (target.starts_with("cuda:")) {
    architecture = target.substr(5);
    if (!architecture.starts_with("sm_") || architecture.size() < 5) throw argument_error(messages::unknown_target, target).hint("write `cuda:sm_80` or `cuda:sm_90a`");
    if (!runs_on(architecture, facts)) throw machine_error(messages::no_device, target, fmt::format("the GPU is {}", facts.name)).hint("use `--target cuda`");
  }
  return std::make_shared<Cuda>(std::make_shared<Gpu>(*number, std::move(facts)));
}

}  // namespace tilec::runtime
