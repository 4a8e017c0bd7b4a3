// The loader (libOpenCL.so.1) is opened when a device is first asked for: a machine without it starts and says so. Its
// functions have the types of CL/cl.h, found by name; an in-order queue per device does what is asked in the order it
// is asked.
//
// A cl_kernel carries its arguments from clSetKernelArg to the launch, so a mutex per device holds the two together.
// Programs are compiled one at a time, outside of it.
#define CL_TARGET_OPENCL_VERSION 120
#include "runtime/opencl.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "runtime/fork.h"
#include "runtime/library.h"
#include "runtime/saved.h"

namespace tilec::runtime {
namespace {

using codegen::Launch;

#define TILEC_OPENCL_FUNCTIONS(X)                                                                                      \
  X(clGetPlatformIDs) X(clGetPlatformInfo) X(clGetDeviceIDs) X(clGetDeviceInfo) X(clCreateContext)                     \
  X(clReleaseContext) X(clCreateCommandQueue) X(clReleaseCommandQueue) X(clCreateBuffer) X(clCreateSubBuffer)          \
  X(clReleaseMemObject) X(clEnqueueWriteBuffer) X(clEnqueueReadBuffer) X(clCreateProgramWithSource)                    \
  X(clBuildProgram) X(clGetProgramBuildInfo) X(clReleaseProgram) X(clCreateKernel) X(clReleaseKernel)                  \
  X(clSetKernelArg) X(clEnqueueNDRangeKernel) X(clFinish)

struct Api {
#define X(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  TILEC_OPENCL_FUNCTIONS(X)
#undef X
  std::string missing;                                 // empty: all functions are there
  int owner = generation();                            // the process whose threads the drivers have
};

Api find_loader() {
  Api a;
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    a.missing = fmt::format("the OpenCL loader is not installed ({})", dlerror());
    return a;
  }
#define X(name)                                                       \
  a.name = reinterpret_cast<decltype(a.name)>(dlsym(library, #name)); \
  if (!a.name) a.missing = "libOpenCL.so.1 has no " #name;
  TILEC_OPENCL_FUNCTIONS(X)
#undef X
  if (!a.missing.empty()) dlclose(library);
  return a;
}

const Api& api() { return found_once<Api, find_loader>(); }

bool is_parents() { return api().missing.empty() && api().owner != generation(); }

std::string error_name(cl_int error) {
  switch (error) {
    case -4: return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case -5: return "CL_OUT_OF_RESOURCES";
    case -6: return "CL_OUT_OF_HOST_MEMORY";
    case -11: return "CL_BUILD_PROGRAM_FAILURE";
    case -30: return "CL_INVALID_VALUE";
    case -38: return "CL_INVALID_MEM_OBJECT";
    case -46: return "CL_INVALID_KERNEL_NAME";
    case -48: return "CL_INVALID_KERNEL";
    case -49: return "CL_INVALID_ARG_INDEX";
    case -51: return "CL_INVALID_ARG_SIZE";
    case -52: return "CL_INVALID_KERNEL_ARGS";
    case -54: return "CL_INVALID_WORK_GROUP_SIZE";
    case -55: return "CL_INVALID_WORK_ITEM_SIZE";
    case -61: return "CL_INVALID_BUFFER_SIZE";
    case -63: return "CL_INVALID_GLOBAL_WORK_SIZE";
    default: return fmt::format("error {}", error);
  }
}

void check(cl_int error, const char* function, const std::string& device) {
  if (error != CL_SUCCESS) throw machine_error(messages::device_call, function, device, error_name(error));
}

// A fact of the device that is a string.
std::string text_of(cl_device_id device, cl_device_info what) {
  std::size_t size = 0;
  if (api().clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  if (api().clGetDeviceInfo(device, what, size, text.data(), nullptr) != CL_SUCCESS) return {};
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

template <class T> T fact(cl_device_id device, cl_device_info what) {
  T value{};
  return api().clGetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : T{};
}

struct Found { cl_platform_id platform; cl_device_id device; std::string description; };

std::vector<Found> find_devices(std::string& why) {
  std::vector<Found> found;
  if (!api().missing.empty()) {
    why = api().missing;
    return found;
  }
  cl_uint count = 0;
  if (api().clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) {
    why = "no OpenCL platform is installed";
    return found;
  }
  std::vector<cl_platform_id> platforms(count);
  if (api().clGetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) platforms.clear();
  for (cl_platform_id platform : platforms) {
    char vendor[256] = {};
    // a name that does not fit is left out
    api().clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof vendor - 1, vendor, nullptr);
    if (api().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) continue;
    std::vector<cl_device_id> devices(count);
    if (api().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr) != CL_SUCCESS) continue;
    for (cl_device_id device : devices)
      found.push_back({platform, device, fmt::format("{} ({})", text_of(device, CL_DEVICE_NAME), vendor)});
  }
  if (found.empty()) why = "the OpenCL platforms have no device";
  std::stable_partition(found.begin(), found.end(),
      [](const Found& f) { return (fact<cl_device_type>(f.device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_GPU) != 0; });
  return found;
}

struct Compiled {
  cl_kernel kernel = nullptr;
  Launch launch;
};

// What the kernels and buffers of a device keep alive.
struct Queue {
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  std::string description, options;
  bool has_double = false;
  std::size_t largest_group = 1;
  cl_ulong shared_memory = 0;
  std::recursive_mutex mutex;
  std::mutex building;                                 // the compiler's own, so that others launch meanwhile

  ~Queue() {
    if (queue) api().clReleaseCommandQueue(queue);
    if (context) api().clReleaseContext(context);
  }
};

struct OpenClKernels : Kernels {
  std::shared_ptr<Queue> queue;
  cl_program program = nullptr;
  std::vector<Compiled> steps;

  ~OpenClKernels() override {
    const std::lock_guard lock(queue->mutex);
    for (Compiled& c : steps) if (c.kernel) api().clReleaseKernel(c.kernel);
    if (program) api().clReleaseProgram(program);
  }
};

class OpenCl : public Device {
 public:
  explicit OpenCl(const Found& found);
  std::string describe() const override { return q_->description; }
  Memory allocate(std::int64_t bytes) override;
  Memory part(const Memory& whole, std::int64_t offset, std::int64_t bytes) override;
  void copy_in(const Memory& to, const void* from, std::int64_t bytes) override;
  void copy_out(void* to, const Memory& from, std::int64_t bytes) override;
  std::shared_ptr<const Kernels> load(const codegen::Package& package) override;
  void run(const Kernels& kernels, std::span<const Memory> memory, std::vector<double>* milliseconds) override;
  void wait() override;

 private:
  void build(OpenClKernels& kernels, const std::string& source);
  Compiled compiled(const OpenClKernels& kernels, const Launch& launch);
  Memory owned(cl_mem memory) const;
  void start(const Compiled& step, std::span<const Memory> memory);

  std::shared_ptr<Queue> q_ = std::make_shared<Queue>();
};

OpenCl::OpenCl(const Found& found) {
  q_->device = found.device;
  q_->description = found.description;
  cl_int error = CL_SUCCESS;
  const cl_context_properties properties[] = {
      CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(found.platform), 0};
  q_->context = api().clCreateContext(properties, 1, &found.device, nullptr, nullptr, &error);
  check(error, "clCreateContext", q_->description);
  q_->queue = api().clCreateCommandQueue(q_->context, found.device, 0, &error);
  check(error, "clCreateCommandQueue", q_->description);
  const bool exact_division =
      (fact<cl_device_fp_config>(found.device, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  q_->options = exact_division ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
  q_->has_double = text_of(found.device, CL_DEVICE_EXTENSIONS).find("cl_khr_fp64") != std::string::npos;
  q_->largest_group = fact<std::size_t>(found.device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  q_->shared_memory = fact<cl_ulong>(found.device, CL_DEVICE_LOCAL_MEM_SIZE);
}

Memory OpenCl::allocate(std::int64_t bytes) {
  const std::lock_guard lock(q_->mutex);
  cl_int error = CL_SUCCESS;
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 16));
  if (size > fact<cl_ulong>(q_->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE))
    throw machine_error(messages::device_memory, bytes, q_->description);
  cl_mem memory = api().clCreateBuffer(q_->context, CL_MEM_READ_WRITE, size, nullptr, &error);
  if (error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_INVALID_BUFFER_SIZE)
    throw machine_error(messages::device_memory, bytes, q_->description);
  check(error, "clCreateBuffer", q_->description);
  return owned(memory);
}

// OpenCL keeps the whole as long as a part of it lives.
Memory OpenCl::part(const Memory& whole, std::int64_t offset, std::int64_t bytes) {
  const std::lock_guard lock(q_->mutex);
  cl_int error = CL_SUCCESS;
  const cl_buffer_region region{
      static_cast<std::size_t>(offset), static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1))};
  cl_mem memory = api().clCreateSubBuffer(
      static_cast<cl_mem>(whole.get()), CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
  check(error, "clCreateSubBuffer", q_->description);
  return owned(memory);
}

Memory OpenCl::owned(cl_mem memory) const {
  return Memory(memory, [q = q_](void* m) {
    const std::lock_guard release(q->mutex);
    api().clReleaseMemObject(static_cast<cl_mem>(m));
  });
}

void OpenCl::copy_in(const Memory& to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(q_->mutex);
  check(api().clEnqueueWriteBuffer(q_->queue, static_cast<cl_mem>(to.get()), CL_TRUE, 0,
            static_cast<std::size_t>(bytes), from, 0, nullptr, nullptr),
      "clEnqueueWriteBuffer", q_->description);
}

void OpenCl::copy_out(void* to, const Memory& from, std::int64_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(q_->mutex);
  check(api().clEnqueueReadBuffer(q_->queue, static_cast<cl_mem>(from.get()), CL_TRUE, 0,
            static_cast<std::size_t>(bytes), to, 0, nullptr, nullptr),
      "clEnqueueReadBuffer", q_->description);
}

void OpenCl::build(OpenClKernels& kernels, const std::string& source) {
  const char* text = source.c_str();
  cl_int error = CL_SUCCESS;
  kernels.program = api().clCreateProgramWithSource(q_->context, 1, &text, nullptr, &error);
  check(error, "clCreateProgramWithSource", q_->description);
  if (api().clBuildProgram(kernels.program, 1, &q_->device, q_->options.c_str(), nullptr, nullptr) == CL_SUCCESS)
    return;
  std::size_t size = 0;
  api().clGetProgramBuildInfo(kernels.program, q_->device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
  std::string log(size, '\0');
  if (size > 0)
    api().clGetProgramBuildInfo(kernels.program, q_->device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  while (!log.empty() && log.back() == '\0') log.pop_back();
  throw machine_error(messages::device_compile, q_->description, save_text(source, ".cl"), log);
}

Compiled OpenCl::compiled(const OpenClKernels& kernels, const Launch& launch) {
  Compiled c{nullptr, launch};
  if (static_cast<std::size_t>(c.launch.threads) > q_->largest_group) {
    throw machine_error(messages::unsupported_on_device, q_->description,
        fmt::format("groups of {} work items (it has {})", c.launch.threads, q_->largest_group));
  }
  if (static_cast<cl_ulong>(c.launch.shared) > q_->shared_memory) {
    throw machine_error(messages::unsupported_on_device, q_->description,
        fmt::format("{} bytes of local memory for a work group (it has {})", c.launch.shared, q_->shared_memory));
  }
  cl_int error = CL_SUCCESS;
  c.kernel = api().clCreateKernel(kernels.program, launch.kernel.c_str(), &error);
  check(error, "clCreateKernel", q_->description);
  return c;
}

std::shared_ptr<const Kernels> OpenCl::load(const codegen::Package& package) {
  auto kernels = std::make_shared<OpenClKernels>();
  kernels->queue = q_;
  if (package.launches.empty()) return kernels;
  const std::string& source = package.code.at(0);
  if (!q_->has_double && source.find("#pragma OPENCL EXTENSION cl_khr_fp64") != std::string::npos)
    throw machine_error(messages::unsupported_on_device, q_->description, "64-bit floats");
  {
    const std::lock_guard lock(q_->building);
    build(*kernels, source);
  }
  const std::lock_guard lock(q_->mutex);
  for (const Launch& launch : package.launches) kernels->steps.push_back(compiled(*kernels, launch));
  return kernels;
}

void OpenCl::start(const Compiled& step, std::span<const Memory> memory) {
  if (std::any_of(step.launch.grid, step.launch.grid + 3, [](std::int64_t n) { return n == 0; })) return;
  for (std::size_t i = 0; i < step.launch.buffers.size(); ++i) {
    auto buffer = static_cast<cl_mem>(memory[static_cast<std::size_t>(step.launch.buffers[i])].get());
    check(api().clSetKernelArg(step.kernel, static_cast<cl_uint>(i), sizeof(cl_mem), static_cast<const void*>(&buffer)),
        "clSetKernelArg", q_->description);
  }
  for (std::size_t i = 0; i < step.launch.numbers.size(); ++i)
    check(api().clSetKernelArg(step.kernel, static_cast<cl_uint>(step.launch.buffers.size() + i), sizeof(cl_long),
              &step.launch.numbers[i]),
        "clSetKernelArg", q_->description);
  const auto threads = static_cast<std::size_t>(step.launch.threads);
  const std::size_t local[3] = {threads, 1, 1};
  const std::size_t global[3] = {static_cast<std::size_t>(step.launch.grid[0]) * threads,
      static_cast<std::size_t>(step.launch.grid[1]), static_cast<std::size_t>(step.launch.grid[2])};
  check(api().clEnqueueNDRangeKernel(q_->queue, step.kernel, 3, nullptr, global, local, 0, nullptr, nullptr),
      "clEnqueueNDRangeKernel", q_->description);
}

void OpenCl::run(const Kernels& kernels, std::span<const Memory> memory, std::vector<double>* milliseconds) {
  const auto& mine = dynamic_cast<const OpenClKernels&>(kernels);
  const std::lock_guard lock(q_->mutex);
  using Clock = std::chrono::steady_clock;
  if (milliseconds) wait(), milliseconds->clear();
  for (const Compiled& step : mine.steps) {
    const Clock::time_point begin = Clock::now();
    start(step, memory);
    if (!milliseconds) continue;
    wait();
    milliseconds->push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
}

void OpenCl::wait() {
  const std::lock_guard lock(q_->mutex);
  check(api().clFinish(q_->queue), "clFinish", q_->description);
}

}  // namespace

std::vector<OpenClDevice> opencl_devices(std::string& why) {
  std::vector<OpenClDevice> devices;
  if (is_parents()) {
    why = std::string(used_by_parent);
    return devices;
  }
  for (const Found& f : find_devices(why))
    devices.push_back({f.description, static_cast<std::int64_t>(fact<cl_ulong>(f.device, CL_DEVICE_LOCAL_MEM_SIZE)),
        static_cast<std::int64_t>(fact<std::size_t>(f.device, CL_DEVICE_MAX_WORK_GROUP_SIZE))});
  return devices;
}

std::shared_ptr<Device> open_opencl(std::size_t position) {
  const std::string target = position == 0 ? "opencl" : fmt::format("opencl:{}", position);
  if (is_parents()) throw device_of_parent(target);
  std::string why;
  const std::vector<Found> found = find_devices(why);
  if (found.empty())
    throw machine_error(messages::no_device, target, why)
        .hint("install an OpenCL driver, for a CPU `apt-get install pocl-opencl-icd`");
  if (position >= found.size()) {
    throw machine_error(messages::no_device, target,
        fmt::format("{} OpenCL device{} here", found.size(), found.size() == 1 ? " is" : "s are"))
        .hint("`tilec targets` lists them");
  }
  return std::make_shared<OpenCl>(found[position]);
}

}  // namespace tilec::runtime
