// The CUDA driver, by hand: its functions are found by name in libcuda.so.1, so nothing of CUDA is needed to build, and a machine
// without it starts and says so.
//
// The primary context is the one that PyTorch and the CUDA runtime use too: it is made current for the length of each call and
// what was current before is put back. All work goes to the default stream, in order.
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <mutex>

#include "codegen/simt/emit.h"
#include "runtime/nvrtc.h"

namespace tilec::runtime {
namespace {

using codegen::simt::Dialect;
using codegen::simt::Launch;

// The driver's types, as cuda.h has them.
using Result = int;
using DeviceNumber = int;
using Address = unsigned long long;                    // CUdeviceptr
struct Context_; using Context = Context_*;
struct Module_; using Module = Module_*;
struct Function_; using Function = Function_*;
struct Stream_; using Stream = Stream_*;
struct Event_; using Event = Event_*;

constexpr int compute_capability_major = 75, compute_capability_minor = 76;  // CUdevice_attribute
constexpr int max_dynamic_shared = 8;                  // CUfunction_attribute
constexpr Result out_of_memory_result = 2;             // CUDA_ERROR_OUT_OF_MEMORY

// The names are the library's: `_v2` is what cuda.h's macros make of cuMemAlloc and its like.
#define TILEC_CUDA_FUNCTIONS(X)                                                                                                      \
  X(cuInit, Result (*)(unsigned)) X(cuDeviceGetCount, Result (*)(int*)) X(cuDeviceGet, Result (*)(DeviceNumber*, int))               \
  X(cuDeviceGetName, Result (*)(char*, int, DeviceNumber)) X(cuDeviceGetAttribute, Result (*)(int*, int, DeviceNumber))              \
  X(cuDevicePrimaryCtxRetain, Result (*)(Context*, DeviceNumber))                                                                    \
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
};

const Api& api() {
  static const Api functions = [] {
    Api a;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      a.missing = fmt::format("the NVIDIA driver is not installed ({})", dlerror());
      return a;
    }
#define X(name, ...) a.name = reinterpret_cast<Pointer<__VA_ARGS__>>(dlsym(library, #name)); if (!a.name) a.missing = "libcuda.so.1 has no " #name;
    TILEC_CUDA_FUNCTIONS(X)
#undef X
    if (a.missing.empty() && a.cuInit(0) != 0) a.missing = "the NVIDIA driver finds no GPU";
    return a;
  }();
  return functions;
}

struct Gpu {                                           // one GPU, as long as anything of it is in use
  DeviceNumber number = 0;
  Context context = nullptr;
  int major = 0, minor = 0;
  std::string name;
};

void check(Result result, const char* function, const std::string& device) {
  if (result == 0) return;
  const char* text = nullptr;
  if (api().cuGetErrorString(result, &text) != 0 || !text) text = "unknown error";
  throw machine_error(messages::device_call, function, device, fmt::format("{} ({})", text, result));
}

// Makes the GPU's context current while it lives.
class Current {
 public:
  explicit Current(const Gpu& gpu) { check(api().cuCtxPushCurrent_v2(gpu.context), "cuCtxPushCurrent", gpu.name); }
  ~Current() { Context before = nullptr; api().cuCtxPopCurrent_v2(&before); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

// sm_90a: Hopper's own instructions are in the set with the letter, and it runs that.
std::string architecture_of(int major, int minor) { return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : ""); }

std::string gpu_name(DeviceNumber number) {
  char name[256] = {};
  int major = 0, minor = 0;
  api().cuDeviceGetName(name, sizeof name - 1, number);
  api().cuDeviceGetAttribute(&major, compute_capability_major, number);
  api().cuDeviceGetAttribute(&minor, compute_capability_minor, number);
  return fmt::format("{} ({})", name, architecture_of(major, minor));
}

// Whether code for `architecture` (sm_80, sm_90a) runs on a GPU of that capability: same major number, no later minor; with a
// letter, that very GPU.
bool runs_on(std::string_view architecture, const Gpu& gpu) {
  const std::string own = architecture_of(gpu.major, gpu.minor);
  if (architecture == own) return true;
  if (architecture.back() < '0' || architecture.back() > '9') return false;
  const int number = std::atoi(std::string(architecture.substr(3)).c_str());
  return number / 10 == gpu.major && number % 10 <= gpu.minor;
}

struct Started { Function function = nullptr; Launch launch; std::vector<int> buffers; };

struct CudaKernels : Kernels {
  std::shared_ptr<Gpu> gpu;
  std::vector<Module> modules;
  std::vector<Started> steps;

  ~CudaKernels() override {
    if (modules.empty() || api().cuCtxPushCurrent_v2(gpu->context) != 0) return;
    for (Module m : modules) api().cuModuleUnload(m);
    Context before = nullptr;
    api().cuCtxPopCurrent_v2(&before);
  }
};

class Cuda : public Device {
 public:
  Cuda(std::shared_ptr<Gpu> gpu, std::string architecture) : gpu_(std::move(gpu)), architecture_(std::move(architecture)) {}
  std::string describe() const override { return gpu_->name; }
  Memory allocate(std::int64_t bytes) override;
  void copy_in(const Memory& to, const void* from, std::int64_t bytes) override;
  void copy_out(void* to, const Memory& from, std::int64_t bytes) override;
  std::shared_ptr<const Kernels> load(const codegen::Package& package) override;
  void run(const Kernels& kernels, std::span<const Memory> memory, std::vector<double>* milliseconds) override;
  void wait() override;

 private:
  void start(const Started& step, std::span<const Memory> memory);

  std::shared_ptr<Gpu> gpu_;
  std::string architecture_;
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

// One program per kernel, compiled side by side: NVRTC's time is linear in the text, and it may be called from several threads.
std::shared_ptr<const Kernels> Cuda::load(const codegen::Package& package) {
  auto kernels = std::make_shared<CudaKernels>();
  kernels->gpu = gpu_;
  if (package.steps.empty()) return kernels;
  kernels->source = codegen::simt::emit(package, Dialect::Cuda);
  std::map<std::string, std::future<CudaObject>> objects;
  for (const codegen::Step& step : package.steps) {
    if (objects.contains(step.kernel)) continue;
    const std::string text = codegen::simt::emit(std::vector<const codegen::Loops*>{&step.loops}, Dialect::Cuda);
    objects[step.kernel] = std::async(std::launch::async, [text, architecture = architecture_] { return compile_cuda(text, architecture); });
  }
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  std::map<std::string, Function> functions;
  for (auto& [name, object] : objects) {
    Module loaded = nullptr;
    check(api().cuModuleLoadData(&loaded, object.get().cubin.data()), "cuModuleLoadData", gpu_->name);
    kernels->modules.push_back(loaded);
    check(api().cuModuleGetFunction(&functions[name], loaded, codegen::simt::symbol(name).c_str()), "cuModuleGetFunction", gpu_->name);
  }
  for (const codegen::Step& step : package.steps) {
    kernels->steps.push_back({functions[step.kernel], codegen::simt::launch(step.loops, Dialect::Cuda), step.buffers});
    const Started& s = kernels->steps.back();
    if (s.launch.dynamic_shared > 0) check(api().cuFuncSetAttribute(s.function, max_dynamic_shared, static_cast<int>(s.launch.dynamic_shared)), "cuFuncSetAttribute", gpu_->name);
  }
  return kernels;
}

void Cuda::start(const Started& step, std::span<const Memory> memory) {
  if (std::any_of(step.launch.grid, step.launch.grid + 3, [](std::int64_t n) { return n == 0; })) return;
  std::vector<Address> addresses;
  for (int b : step.buffers) addresses.push_back(address(memory[static_cast<std::size_t>(b)]));
  std::vector<void*> arguments;                        // a pointer to each parameter
  for (Address& a : addresses) arguments.push_back(&a);
  const auto n = [](std::int64_t x) { return static_cast<unsigned>(x); };
  check(api().cuLaunchKernel(step.function, n(step.launch.grid[0]), n(step.launch.grid[1]), n(step.launch.grid[2]), n(step.launch.threads), 1, 1,
                             n(step.launch.dynamic_shared), nullptr, arguments.data(), nullptr), "cuLaunchKernel", gpu_->name);
}

void Cuda::run(const Kernels& kernels, std::span<const Memory> memory, std::vector<double>* milliseconds) {
  const auto& mine = dynamic_cast<const CudaKernels&>(kernels);
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  if (!milliseconds) {
    for (const Started& step : mine.steps) start(step, memory);
    return;
  }
  milliseconds->clear();
  std::vector<Event> events(mine.steps.size() + 1);
  for (Event& e : events) check(api().cuEventCreate(&e, 0), "cuEventCreate", gpu_->name);
  for (std::size_t i = 0; i < mine.steps.size(); ++i) {
    check(api().cuEventRecord(events[i], nullptr), "cuEventRecord", gpu_->name);
    start(mine.steps[i], memory);
  }
  check(api().cuEventRecord(events.back(), nullptr), "cuEventRecord", gpu_->name);
  check(api().cuEventSynchronize(events.back()), "cuEventSynchronize", gpu_->name);
  for (std::size_t i = 0; i < mine.steps.size(); ++i) {
    float time = 0;
    check(api().cuEventElapsedTime(&time, events[i], events[i + 1]), "cuEventElapsedTime", gpu_->name);
    milliseconds->push_back(static_cast<double>(time));
  }
  for (Event e : events) api().cuEventDestroy_v2(e);
}

void Cuda::wait() {
  const std::lock_guard lock(mutex_);
  const Current current(*gpu_);
  check(api().cuCtxSynchronize(), "cuCtxSynchronize", gpu_->name);
}

std::shared_ptr<Gpu> open_gpu(std::string_view target) {
  int count = 0;
  std::string why = api().missing;
  if (why.empty() && (api().cuDeviceGetCount(&count) != 0 || count == 0)) why = "the NVIDIA driver finds no GPU";
  if (!why.empty()) throw machine_error(messages::no_device, target, why).hint("`--emit=cubin` and `--emit=cuda` need no GPU");
  auto gpu = std::make_shared<Gpu>();
  check(api().cuDeviceGet(&gpu->number, 0), "cuDeviceGet", "the GPU");
  gpu->name = gpu_name(gpu->number);
  check(api().cuDeviceGetAttribute(&gpu->major, compute_capability_major, gpu->number), "cuDeviceGetAttribute", gpu->name);
  check(api().cuDeviceGetAttribute(&gpu->minor, compute_capability_minor, gpu->number), "cuDeviceGetAttribute", gpu->name);
  check(api().cuDevicePrimaryCtxRetain(&gpu->context, gpu->number), "cuDevicePrimaryCtxRetain", gpu->name);
  return gpu;
}

}  // namespace

std::string cuda_device(std::string& why) {
  int count = 0;
  DeviceNumber first = 0;
  why = api().missing;
  if (why.empty() && (api().cuDeviceGetCount(&count) != 0 || count == 0 || api().cuDeviceGet(&first, 0) != 0)) why = "the NVIDIA driver finds no GPU";
  return why.empty() ? gpu_name(first) : std::string();
}

std::shared_ptr<Device> open_cuda(std::string_view target) {
  auto gpu = open_gpu(target);
  std::string architecture = architecture_of(gpu->major, gpu->minor);
  if (target.starts_with("cuda:")) {
    architecture = target.substr(5);
    if (!architecture.starts_with("sm_") || architecture.size() < 5) throw argument_error(messages::unknown_target, target).hint("write `cuda:sm_80` or `cuda:sm_90a`");
    if (!runs_on(architecture, *gpu)) throw machine_error(messages::no_device, target, fmt::format("the GPU is {}", gpu->name)).hint("use `--target cuda`");
  }
  return std::make_shared<Cuda>(std::move(gpu), std::move(architecture));
}

}  // namespace tilec::runtime
