// libcuda.so.1 over the machine, with one GPU for each architecture of the environment's SIMULATED_GPUS, as in
// `sm_80,sm_90a`; without it one of sm_80. Each has a context, memory and launches of its own, and none reaches what is
// another's. Launches wait until something synchronises. What a kernel did wrong is the text of the error that the next
// synchronisation gives; after it the device is as before.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>

#include "machine.h"

using namespace simulated;

namespace {

constexpr int ok = 0, invalid_value = 1, out_of_memory = 2, no_binary = 209, invalid_context = 201,
              invalid_handle = 400, invalid_source = 300, not_found = 500, too_many_resources = 701,
              launch_failed = 719;
constexpr Gpu known[] = {
    {"sm_80", 8, 0, 108, 163 << 10}, {"sm_90a", 9, 0, 132, 227 << 10}, {"sm_100a", 10, 0, 148, 227 << 10}};

// A GPU, and its primary context.
struct Place {
  explicit Place(const Gpu& of) : gpu(of) {}
  Gpu gpu;
  std::deque<Launch> queue;
};
struct Loaded;
struct Function { const Loaded* loaded; const Kernel* kernel; int dynamic = 0; };
struct Loaded { Place* place; Module module; std::deque<Function> functions; };

std::deque<Place> asked_places() {
  const char* asked = std::getenv("SIMULATED_GPUS");
  std::deque<Place> places;
  for (std::string rest = asked ? asked : "sm_80"; !rest.empty();) {
    const std::string one = rest.substr(0, rest.find(','));
    rest = one.size() < rest.size() ? rest.substr(one.size() + 1) : "";
    for (const Gpu& g : known) if (std::strncmp(g.architecture, one.c_str(), one.size()) == 0) places.emplace_back(g);
  }
  if (places.empty())
    std::fprintf(stderr, "SIMULATED_GPUS=%s: there are sm_80, sm_90a and sm_100a\n", asked), std::exit(2);
  return places;
}

std::recursive_mutex mutex;
std::deque<Place> places = asked_places();
thread_local std::deque<Place*> pushed;
thread_local std::string said;

int fault(int result, std::string words) { return said = std::move(words), result; }

Place& current() { return *pushed.back(); }

int finish(Place& place) {
  for (; !place.queue.empty(); place.queue.pop_front())
    if (std::string words = run(place.queue.front()); !words.empty())
      return place.queue.clear(), fault(launch_failed, std::move(words));
  return ok;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int
#define WITHIN                                                         \
  const std::lock_guard<std::recursive_mutex> lock(mutex);             \
  if (pushed.empty()) return fault(invalid_context, "no context is current");

API cuInit(unsigned) { return ok; }
API cuDriverGetVersion(int* version) { return *version = 13000, ok; }
API cuDeviceGetCount(int* count) { return *count = static_cast<int>(places.size()), ok; }
API cuDeviceGet(int* device, int number) {
  return *device = number, number >= 0 && number < static_cast<int>(places.size()) ? ok : fault(101, "no such device");
}
API cuDeviceGetName(char* name, int size, int) {
  return std::strncpy(name, "simulated GPU", static_cast<std::size_t>(size)), ok;
}
API cuDeviceGetAttribute(int* value, int attribute, int device) {
  const Gpu& g = places.at(static_cast<std::size_t>(device)).gpu;
  return *value = attribute == 75 ? g.major
             : attribute == 76    ? g.minor
             : attribute == 16    ? g.multiprocessors
             : attribute == 97    ? static_cast<int>(g.shared)
                                  : 0,
         ok;
}
API cuDevicePrimaryCtxRetain(void** context, int device) {
  return *context = &places.at(static_cast<std::size_t>(device)), ok;
}
API cuDevicePrimaryCtxRelease_v2(int) { return ok; }
API cuCtxPushCurrent_v2(void* context) {
  for (Place& p : places) if (context == &p) return pushed.push_back(&p), ok;
  return fault(invalid_context, "no context");
}
API cuCtxPopCurrent_v2(void** context) {
  if (pushed.empty()) return fault(invalid_context, "no context is current");
  return *context = pushed.back(), pushed.pop_back(), ok;
}
API cuCtxGetCurrent(void** context) { return *context = pushed.empty() ? nullptr : pushed.back(), ok; }
API cuCtxSynchronize() { WITHIN return finish(current()); }
API cuGetErrorString(int result, const char** text) {
  return *text = result == out_of_memory ? "out of memory" : said.c_str(), ok;
}

API cuMemAlloc_v2(Address* address, std::size_t bytes) {
  WITHIN
  if (bytes == 0) return fault(invalid_value, "memory of 0 bytes");
  return (*address = allocate(bytes, &current())) ? ok : out_of_memory;
}
API cuMemFree_v2(Address address) {
  WITHIN
  const int result = finish(current());
  if (!inside(address, 1, &current())) return fault(invalid_value, "memory of another GPU, or none");
  return release(address) ? result : fault(invalid_value, "no allocation begins there");
}
API cuMemcpyHtoD_v2(Address to, const void* from, std::size_t bytes) {
  WITHIN
  if (const int result = finish(current())) return result;
  if (!inside(to, bytes, &current())) return fault(invalid_value, "a copy to what is not allocated");
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), written(to, bytes), ok;
}
API cuMemcpyDtoH_v2(void* to, Address from, std::size_t bytes) {
  WITHIN
  if (const int result = finish(current())) return result;
  if (!inside(from, bytes, &current())) return fault(invalid_value, "a copy of what is not allocated");
  if (!initialised(from, bytes)) return fault(launch_failed, "a copy of elements that nobody has written");
  return std::memcpy(to, reinterpret_cast<void*>(from), bytes), ok;
}
// Memory of the host is no allocation's, and is taken as it is.
API cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, void*) {
  WITHIN
  if (const int result = finish(current())) return result;
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return inside(to, bytes, &current()) ? written(to, bytes) : void(), ok;
}

API cuModuleLoadData(Loaded** module, const char* cubin) {
  WITHIN
  try {
    return *module = new Loaded{&current(), Module(cubin, current().gpu), {}}, ok;
  } catch (const std::string& words) {
    return fault(std::strncmp(cubin, "simulated ", 10) == 0 ? invalid_source : no_binary, words);
  }
}
API cuModuleUnload(Loaded* module) {
  WITHIN
  if (module->place != &current()) return fault(invalid_handle, "a module of another context");
  const int result = finish(current());
  return delete module, result;
}
API cuModuleGetFunction(Function** function, Loaded* module, const char* name) {
  WITHIN
  const Kernel* kernel = module->module.kernel(name);
  if (!kernel) return fault(not_found, std::string("no kernel ") + name);
  return *function = &module->functions.emplace_back(Function{module, kernel}), ok;
}
API cuFuncSetAttribute(Function* f, int attribute, int value) {
  WITHIN
  if (attribute == 8 && value + (f->kernel->shared_end - f->kernel->shared) > f->loaded->place->gpu.shared)
    return fault(invalid_value, "more dynamic shared memory than there is");
  return f->dynamic = value, ok;
}
API cuLaunchKernel(Function* f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y,
    unsigned threads_z, unsigned shared, void*, void** arguments, void** extra) {
  WITHIN
  if (f->loaded->place != &current()) return fault(invalid_handle, "a function of another context");
  if (!x || !y || !z || y > 65535 || z > 65535 || x > 2147483647u || !threads || threads > most_threads ||
      threads_y != 1 || threads_z != 1 || extra)
    return fault(invalid_value, "a grid or a block that there is not");
  if (threads > f->kernel->bound) return fault(too_many_resources, "more threads than __launch_bounds__");
  if (shared > most_static_shared && static_cast<int>(shared) > f->dynamic)
    return fault(invalid_value, "dynamic shared memory that cuFuncSetAttribute did not ask for");
  if (shared && !f->loaded->module.dynamic)
    return fault(invalid_value, "dynamic shared memory for a kernel that has none");
  Launch launch{&current(), &f->loaded->module, f->kernel, {x, y, z}, threads, shared, {}};
  for (int k = 0; k < f->kernel->parameters; ++k)
    launch.arguments.push_back(*static_cast<std::uint64_t*>(arguments[k]));
  return current().queue.push_back(std::move(launch)), ok;
}

// A graph is its launches.
// CUDA_KERNEL_NODE_PARAMS_v1
struct KernelNode { Function* function; unsigned grid[3], block[3], shared; void **arguments, **extra; };
using Graph = std::vector<Launch>;
static int add(const KernelNode& n, Launch& to) {
  const int result = cuLaunchKernel(n.function, n.grid[0], n.grid[1], n.grid[2], n.block[0], n.block[1], n.block[2],
      n.shared, nullptr, n.arguments, n.extra);
  if (result == ok) to = current().queue.back(), current().queue.pop_back();
  return result;
}
API cuStreamIsCapturing(void*, int* status) { WITHIN return *status = 0, ok; }
API cuGraphCreate(Graph** graph, unsigned) { WITHIN return *graph = new Graph, ok; }
API cuGraphDestroy(Graph* graph) { WITHIN return delete graph, ok; }
API cuGraphAddKernelNode(std::size_t* node, Graph* graph, const std::size_t*, std::size_t, const KernelNode* how) {
  WITHIN return * node = graph->size(), add(*how, graph->emplace_back());
}
API cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long) {
  WITHIN return * executable = new Graph(*graph), ok;
}
API cuGraphExecDestroy(Graph* executable) { WITHIN return delete executable, ok; }
API cuGraphExecKernelNodeSetParams(Graph* executable, std::size_t node, const KernelNode* how) {
  WITHIN return add(*how, executable->at(node));
}
API cuGraphLaunch(Graph* executable, void*) {
  WITHIN
  for (const Launch& launch : *executable)
    if (launch.owner != &current()) return fault(invalid_handle, "a graph of another context");
  return current().queue.insert(current().queue.end(), executable->begin(), executable->end()), ok;
}

struct Event { Place* place; };
static int of_current(const Event* event) {
  return event->place == &current() ? ok : fault(invalid_handle, "an event of another context");
}
API cuEventCreate(Event** event, unsigned) { WITHIN return *event = new Event{&current()}, ok; }
API cuEventDestroy_v2(Event* event) { WITHIN return delete event, ok; }
API cuEventRecord(Event* event, void*) { WITHIN return of_current(event); }
API cuEventSynchronize(Event* event) { WITHIN return finish(*event->place); }
API cuEventElapsedTime(float* milliseconds, Event* from, Event* to) {
  WITHIN return * milliseconds = 1, from->place == to->place ? ok : fault(invalid_handle, "events of two contexts");
}
