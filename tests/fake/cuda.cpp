#include <cstdlib>
#include <cstring>
#include <vector>

#include "fake.h"

namespace {

Fake& fake = *fake_cuda();
thread_local std::vector<int> pushed;                  // devices whose contexts they are

char contexts[64];                                     // of each device
constexpr int invalid_value = 1, out_of_memory = 2, invalid_context = 201, invalid_handle = 400;

// CUDA_KERNEL_NODE_PARAMS_v1
struct KernelNode { void* function; unsigned grid[3], block[3], shared; void **arguments, **extra; };

// A call that needs a context.
int within(const char* name) {
  if (const int told = fake.told(name)) return told;
  return pushed.empty() ? invalid_context : 0;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int

extern "C" __attribute__((visibility("default"))) Fake* fake_cuda() {
  static Fake* the = new Fake;
  return the;
}

API cuInit(unsigned) { return fake.told("cuInit"); }
API cuDriverGetVersion(int* version) { *version = fake.version; return fake.told("cuDriverGetVersion"); }
API cuDeviceGetCount(int* count) { *count = fake.devices; return fake.told("cuDeviceGetCount"); }
API cuDeviceGet(int* device, int number) { *device = number; return fake.told("cuDeviceGet"); }
API cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(size));
  return fake.told("cuDeviceGetName");
}
API cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? fake.major.load()
      : attribute == 76    ? fake.minor.load()
      : attribute == 16    ? fake.multiprocessors.load()
      : attribute == 97    ? fake.shared.load()
                           : 0;
  return fake.told("cuDeviceGetAttribute");
}
API cuDevicePrimaryCtxRetain(void** context, int device) {
  if (const int told = fake.told("cuDevicePrimaryCtxRetain")) return told;
  ++fake.contexts, *context = &contexts[device];
  return 0;
}
API cuDevicePrimaryCtxRelease_v2(int) { --fake.contexts; return fake.told("cuDevicePrimaryCtxRelease_v2"); }
API cuCtxPushCurrent_v2(void* context) {
  if (const int told = fake.told("cuCtxPushCurrent_v2")) return told;
  if (context < contexts || context >= contexts + fake.devices || fake.contexts == 0) return invalid_context;
  pushed.push_back(static_cast<int>(static_cast<char*>(context) - contexts)), ++fake.current;
  return 0;
}
API cuCtxPopCurrent_v2(void** context) {
  *context = &contexts[pushed.back()], pushed.pop_back(), --fake.current;
  return fake.told("cuCtxPopCurrent_v2");
}
API cuCtxGetCurrent(void** context) {
  *context = pushed.empty() ? nullptr : &contexts[pushed.back()];
  return fake.told("cuCtxGetCurrent");
}
API cuCtxGetId(void*, unsigned long long* id) { *id = fake.context_id; return fake.told("cuCtxGetId"); }
API cuCtxSynchronize() { return within("cuCtxSynchronize"); }

API cuMemAlloc_v2(unsigned long long* address, std::size_t bytes) {
  if (const int told = within("cuMemAlloc_v2")) return told;
  if (bytes == 0) return invalid_value;
  if (static_cast<long long>(bytes) > fake.bytes_left) return out_of_memory;
  auto* block = static_cast<std::size_t*>(std::malloc(bytes + 16));
  *block = bytes, fake.bytes_left -= static_cast<long long>(bytes), ++fake.memory;
  *address = reinterpret_cast<unsigned long long>(block + 2);
  return 0;
}
API cuMemFree_v2(unsigned long long address) {
  auto* block = reinterpret_cast<std::size_t*>(address) - 2;
  fake.bytes_left += static_cast<long long>(*block), --fake.memory;
  std::free(block);
  return within("cuMemFree_v2");
}
API cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
  if (const int told = within("cuMemcpyHtoD_v2")) return told;
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
}
API cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t bytes) {
  if (const int told = within("cuMemcpyDtoH_v2")) return told;
  return std::memcpy(to, reinterpret_cast<void*>(from), bytes), 0;
}
API cuMemcpyDtoDAsync_v2(unsigned long long, unsigned long long, std::size_t, void* stream) {
  fake.stream = stream;
  return within("cuMemcpyDtoDAsync_v2");
}

// A module is the text it was made of.
API cuModuleLoadData(void** module, const void* image) {
  if (const int told = within("cuModuleLoadData")) return told;
  if (std::strncmp(static_cast<const char*>(image), "fake", 4) != 0) return invalid_value;
  ++fake.modules, *module = new char;
  return 0;
}
API cuModuleUnload(void* module) { --fake.modules; delete static_cast<char*>(module); return within("cuModuleUnload"); }
API cuModuleGetFunction(void** function, void* module, const char*) {
  *function = module;
  return within("cuModuleGetFunction");
}
API cuFuncSetAttribute(void*, int, int value) {
  const int told = within("cuFuncSetAttribute");
  return told ? told : value > fake.shared ? invalid_value : 0;
}
API cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
    unsigned shared, void* stream, void** parameters, void**) {
  if (const int told = within("cuLaunchKernel")) return told;
  fake.stream = stream, fake.device = pushed.back(), fake.first_parameter = *static_cast<void**>(parameters[0]);
  if (!function) return invalid_handle;
  const bool fits = x >= 1 && x <= 2147483647u && y >= 1 && y <= 65535 && z >= 1 && z <= 65535 && threads >= 1 &&
      threads <= 1024 && static_cast<int>(shared) <= fake.shared;
  ++fake.launches;
  return fits ? 0 : invalid_value;
}

// A graph is the first parameters of its launches, and so is what is made of it.
API cuStreamIsCapturing(void*, int* status) { *status = fake.captures; return within("cuStreamIsCapturing"); }
API cuGraphCreate(void** graph, unsigned) {
  if (const int told = within("cuGraphCreate")) return told;
  ++fake.graphs, *graph = new std::vector<void*>;
  return 0;
}
API cuGraphDestroy(void* graph) {
  --fake.graphs;
  delete static_cast<std::vector<void*>*>(graph);
  return within("cuGraphDestroy");
}
API cuGraphAddKernelNode(void** node, void* graph, void* const* before, std::size_t count, const KernelNode* how) {
  if (const int told = within("cuGraphAddKernelNode")) return told;
  auto& launches = *static_cast<std::vector<void*>*>(graph);
  if (count != (launches.empty() ? 0 : 1) || (count && *before != reinterpret_cast<void*>(launches.size())) ||
      !how->function || !how->grid[0] || how->extra)
    return invalid_value;
  launches.push_back(*static_cast<void**>(how->arguments[0]));
  *node = reinterpret_cast<void*>(launches.size());
  return 0;
}
API cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  if (const int told = within("cuGraphInstantiateWithFlags")) return told;
  ++fake.graphs, *executable = new std::vector<void*>(*static_cast<std::vector<void*>*>(graph));
  return 0;
}
API cuGraphExecDestroy(void* executable) {
  --fake.graphs;
  delete static_cast<std::vector<void*>*>(executable);
  return within("cuGraphExecDestroy");
}
API cuGraphExecKernelNodeSetParams(void* executable, void* node, const KernelNode* how) {
  if (const int told = within("cuGraphExecKernelNodeSetParams")) return told;
  static_cast<std::vector<void*>*>(executable)->at(reinterpret_cast<std::size_t>(node) - 1) =
      *static_cast<void**>(how->arguments[0]);
  return 0;
}
API cuGraphLaunch(void* executable, void* stream) {
  if (const int told = within("cuGraphLaunch")) return told;
  auto& launches = *static_cast<std::vector<void*>*>(executable);
  fake.stream = stream, fake.device = pushed.back(), fake.first_parameter = launches.back();
  fake.launches += static_cast<int>(launches.size());
  return 0;
}

API cuEventCreate(void** event, unsigned) {
  if (const int told = within("cuEventCreate")) return told;
  ++fake.events, *event = new char;
  return 0;
}
API cuEventDestroy_v2(void* event) {
  --fake.events;
  delete static_cast<char*>(event);
  return within("cuEventDestroy_v2");
}
API cuEventRecord(void* event, void*) { return event ? within("cuEventRecord") : invalid_handle; }
API cuEventSynchronize(void* event) { return event ? within("cuEventSynchronize") : invalid_handle; }
API cuEventElapsedTime(float* time, void*, void*) { *time = 1; return within("cuEventElapsedTime"); }
API cuGetErrorString(int result, const char** text) {
  *text = result == out_of_memory ? "out of memory" : "told to fail";
  return fake.told("cuGetErrorString");
}

// For a test that is no C++: what the last launch was given, and how many there were.
extern "C" __attribute__((visibility("default"))) int fake_cuda_launches(void** stream, void** first_parameter) {
  *stream = fake.stream, *first_parameter = fake.first_parameter;
  return fake.launches;
}
// For tests in Python.
extern "C" __attribute__((visibility("default"))) void fake_cuda_fail(
    const char* name, int after, int result, int always) {
  fake.fail(name, after, result, always != 0);
}
API fake_cuda_calls(const char* name) {
  const std::lock_guard lock(fake.mutex);
  return fake.calls[name];
}
API fake_cuda_modules() { return fake.modules; }
API fake_cuda_device() { return fake.device; }
extern "C" __attribute__((visibility("default"))) void fake_cuda_have(int devices) { fake.devices = devices; }
extern "C" __attribute__((visibility("default"))) void* fake_cuda_stream() { return fake.stream; }
extern "C" __attribute__((visibility("default"))) void fake_cuda_renew_context() { ++fake.context_id; }
