// libcuda.so.1 over the machine. Launches wait until something synchronises. What a kernel did wrong is the text of the error that the next
// synchronisation gives; after it the device is as before.
#include <cstring>
#include <deque>
#include <mutex>

#include "machine.h"

using namespace simulated;

namespace {

constexpr int ok = 0, invalid_value = 1, out_of_memory = 2, no_binary = 209, invalid_context = 201, invalid_source = 300, not_found = 500, too_many_resources = 701, launch_failed = 719;
struct Function { const Module* module; const Kernel* kernel; int dynamic = 0; };
struct Loaded { Module module; std::deque<Function> functions; };

std::recursive_mutex mutex;
int primary = 0;                                       // stands for the context
thread_local int pushed = 0;
std::deque<Launch> queue;
thread_local std::string said;

int fault(int result, std::string words) { return said = std::move(words), result; }

int finish() {
  for (; !queue.empty(); queue.pop_front())
    if (std::string words = run(queue.front()); !words.empty()) return queue.clear(), fault(launch_failed, std::move(words));
  return ok;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int
#define WITHIN                                                         \
  const std::lock_guard<std::recursive_mutex> lock(mutex);             \
  if (pushed == 0) return fault(invalid_context, "no context is current");

API cuInit(unsigned) { return ok; }
API cuDriverGetVersion(int* version) { return *version = 13000, ok; }
API cuDeviceGetCount(int* count) { return *count = 1, ok; }
API cuDeviceGet(int* device, int number) { return *device = number, number == 0 ? ok : fault(101, "no such device"); }
API cuDeviceGetName(char* name, int size, int) { return std::strncpy(name, "simulated GPU", static_cast<std::size_t>(size)), ok; }
API cuDeviceGetAttribute(int* value, int attribute, int) { return *value = attribute == 75 ? 8 : attribute == 76 ? 0 : attribute == 16 ? 108 : attribute == 97 ? most_shared : 0, ok; }
API cuDevicePrimaryCtxRetain(void** context, int) { return *context = &primary, ok; }
API cuDevicePrimaryCtxRelease_v2(int) { return ok; }
API cuCtxPushCurrent_v2(void* context) { return context == &primary ? (++pushed, ok) : fault(invalid_context, "no context"); }
API cuCtxPopCurrent_v2(void** context) { return *context = &primary, --pushed, ok; }
API cuCtxSynchronize() { WITHIN return finish(); }
API cuGetErrorString(int result, const char** text) { return *text = result == out_of_memory ? "out of memory" : said.c_str(), ok; }

API cuMemAlloc_v2(Address* address, std::size_t bytes) {
  WITHIN
  if (bytes == 0) return fault(invalid_value, "memory of 0 bytes");
  return (*address = allocate(bytes)) ? ok : out_of_memory;
}
API cuMemFree_v2(Address address) {
  WITHIN
  const int result = finish();
  return release(address) ? result : fault(invalid_value, "no allocation begins there");
}
API cuMemcpyHtoD_v2(Address to, const void* from, std::size_t bytes) {
  WITHIN
  if (const int result = finish()) return result;
  if (!inside(to, bytes)) return fault(invalid_value, "a copy to what is not allocated");
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), written(to, bytes), ok;
}
API cuMemcpyDtoH_v2(void* to, Address from, std::size_t bytes) {
  WITHIN
  if (const int result = finish()) return result;
  if (!inside(from, bytes)) return fault(invalid_value, "a copy of what is not allocated");
  if (!initialised(from, bytes)) return fault(launch_failed, "a copy of elements that nobody has written");
  return std::memcpy(to, reinterpret_cast<void*>(from), bytes), ok;
}

API cuModuleLoadData(Loaded** module, const char* cubin) {
  WITHIN
  try {
    return *module = new Loaded{Module(cubin), {}}, ok;
  } catch (const std::string& words) {
    return fault(std::strncmp(cubin, "simulated ", 10) == 0 ? invalid_source : no_binary, words);
  }
}
API cuModuleUnload(Loaded* module) {
  WITHIN
  const int result = finish();
  return delete module, result;
}
API cuModuleGetFunction(Function** function, Loaded* module, const char* name) {
  WITHIN
  const Kernel* kernel = module->module.kernel(name);
  if (!kernel) return fault(not_found, std::string("no kernel ") + name);
  return *function = &module->functions.emplace_back(Function{&module->module, kernel}), ok;
}
API cuFuncSetAttribute(Function* f, int attribute, int value) {
  WITHIN
  if (attribute == 8 && value + (f->module->shared_end - f->module->shared) > most_shared) return fault(invalid_value, "more dynamic shared memory than there is");
  return f->dynamic = value, ok;
}
API cuLaunchKernel(Function* f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y, unsigned threads_z, unsigned shared, void*, void** arguments, void** extra) {
  WITHIN
  if (!x || !y || !z || y > 65535 || z > 65535 || x > 2147483647u || !threads || threads > most_threads || threads_y != 1 || threads_z != 1 || extra) return fault(invalid_value, "a grid or a block that there is not");
  if (threads > f->kernel->bound) return fault(too_many_resources, "more threads than __launch_bounds__");
  if (shared > most_static_shared && static_cast<int>(shared) > f->dynamic) return fault(invalid_value, "dynamic shared memory that cuFuncSetAttribute did not ask for");
  if (shared && !f->module->dynamic) return fault(invalid_value, "dynamic shared memory for a kernel that has none");
  Launch launch{f->module, f->kernel, {x, y, z}, threads, shared, {}};
  for (int k = 0; k < f->kernel->parameters; ++k) launch.arguments.push_back(*static_cast<std::uint64_t*>(arguments[k]));
  return queue.push_back(std::move(launch)), ok;
}

// A graph is its launches.
struct KernelNode { Function* function; unsigned grid[3], block[3], shared; void **arguments, **extra; };  // CUDA_KERNEL_NODE_PARAMS_v1
using Graph = std::vector<Launch>;
static int add(const KernelNode& n, Launch& to) {
  const int result = cuLaunchKernel(n.function, n.grid[0], n.grid[1], n.grid[2], n.block[0], n.block[1], n.block[2], n.shared, nullptr, n.arguments, n.extra);
  if (result == ok) to = queue.back(), queue.pop_back();
  return result;
}
API cuStreamIsCapturing(void*, int* status) { WITHIN return *status = 0, ok; }
API cuGraphCreate(Graph** graph, unsigned) { WITHIN return *graph = new Graph, ok; }
API cuGraphDestroy(Graph* graph) { WITHIN return delete graph, ok; }
API cuGraphAddKernelNode(std::size_t* node, Graph* graph, const std::size_t*, std::size_t, const KernelNode* how) { WITHIN return *node = graph->size(), add(*how, graph->emplace_back()); }
API cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long) { WITHIN return *executable = new Graph(*graph), ok; }
API cuGraphExecDestroy(Graph* executable) { WITHIN return delete executable, ok; }
API cuGraphExecKernelNodeSetParams(Graph* executable, std::size_t node, const KernelNode* how) { WITHIN return add(*how, executable->at(node)); }
API cuGraphLaunch(Graph* executable, void*) { WITHIN return queue.insert(queue.end(), executable->begin(), executable->end()), ok; }

API cuEventCreate(void** event, unsigned) { WITHIN return *event = new char, ok; }
API cuEventDestroy_v2(void* event) { WITHIN return delete static_cast<char*>(event), ok; }
API cuEventRecord(void*, void*) { WITHIN return ok; }
API cuEventSynchronize(void*) { WITHIN return finish(); }
API cuEventElapsedTime(float* milliseconds, void*, void*) { WITHIN return *milliseconds = 1, ok; }
