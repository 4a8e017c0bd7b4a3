// Runs a grid: blocks one after another, the threads of a block as fibers that change at barriers and where a warp acts
// as one. Every access of the text to memory comes by here first and is held against what is allocated, what was
// written, and what other threads did since the last barrier or other blocks since the launch: a race is found whatever
// the order of running. The first fault ends the launch.
#include "block.h"
#include "report.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

struct Three { unsigned x, y, z; };
SHOWN Three threadIdx, blockIdx;
Three threadIdx, blockIdx;

namespace simulated {

std::array<Fiber, most_threads> fibers;
unsigned running = 0;
std::uint32_t epoch = by_host + 1, block_start = 0;
bool at_once = false;

namespace {

// ---- memory: one range of addresses, none given twice, a page that cannot be touched behind each allocation

constexpr std::size_t pool_bytes = 227 << 10;          // of compiler.cpp's tc_pool
constexpr std::size_t page = 4096, arena_bytes = std::size_t{1} << 38;
char* arena = nullptr;
std::size_t arena_used = 0;
std::map<Address, std::unique_ptr<Region>> allocations;

Region* allocation_of(Address a) {
  const auto after = allocations.upper_bound(a);
  if (after == allocations.begin()) return nullptr;
  Region& region = *std::prev(after)->second;
  return a - std::prev(after)->first < region.bytes ? &region : nullptr;
}

// ---- threads

constexpr std::size_t stack_bytes = 1 << 18;
std::array<std::array<std::uint64_t, 4>, most_threads> given;  // of all, when a warp acts
jmp_buf scheduler;

const Launch* now = nullptr;
std::vector<void*> arguments;
std::vector<Region*> regions;                          // that the launch may touch
std::string wrong;
std::uint32_t launch_start = 0;

void leave(State state, int line) {
  Fiber& f = fibers[running];
  f.state = state, f.line = line;
  if (_setjmp(f.next) == 0) _longjmp(scheduler, 1);
}

std::string place() {
  return text("kernel ", now->kernel->name, ", block ", blockIdx.x, " ", blockIdx.y, " ", blockIdx.z, " of ",
      now->grid[0], " ", now->grid[1], " ", now->grid[2], ", thread ", running, " of ", now->threads);
}

template <class Where> void fault(const std::string& words, Where where) {
  if (wrong.empty()) wrong = text(words, "; ", place(), ", ", now->module->place(where));
  leave(State::Done, 0);
}

void begin() {
  for (;;) {
    now->kernel->entry(arguments.data());
    const Fiber& f = fibers[running];
    if (!f.started.empty() || !f.products.empty())
      fault("the kernel ends before wgmma that nobody has waited for",
          (f.started.empty() ? f.products.front() : f.started).front().line);
    leave(State::Done, 0);
  }
}

void prepare(Fiber& f) {
  f.state = State::Ready, f.open.clear(), f.groups.clear(), f.started.clear(), f.products.clear(), f.fenced = false,
  f.unfenced = nothing;
  if (f.begun) return;
  if (!f.stack)
    f.stack = static_cast<char*>(
        mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  getcontext(&f.first);
  f.first.uc_stack.ss_sp = f.stack, f.first.uc_stack.ss_size = stack_bytes, f.first.uc_link = nullptr;
  makecontext(&f.first, begin, 0);
}

void go_on(Fiber& f) {
  if (_setjmp(scheduler) != 0) return;
  if (std::exchange(f.begun, true)) _longjmp(f.next, 1);
  setcontext(&f.first);
}

// Since when a warp's threads, and all of the block, see what each of them wrote.
std::array<std::uint32_t, most_threads / 32> warp_start;
std::uint32_t barrier_start = 0;

void all_in_order() { barrier_start = epoch, warp_start.fill(epoch); }

// Warps all of whose threads, by the mask, have come to one place.
bool warps_act() {
  bool any = false, ordered = false;
  for (unsigned t = 0; t < now->threads; ++t) {
    const Fiber& f = fibers[t];
    if (f.state != State::Warp) continue;
    const unsigned first = t / 32 * 32, mask = f.mask;
    const int line = f.line;
    const auto comes = [&](unsigned l) {
      return first + l < now->threads && fibers[first + l].state == State::Warp && fibers[first + l].line == line &&
          fibers[first + l].mask == mask;
    };
    bool all = mask >> (t - first) & 1;
    for (unsigned l = 0; l < 32; ++l) all &= !(mask >> l & 1) || comes(l);
    if (!all) continue;
    for (unsigned l = 0; l < 32; ++l)
      if (mask >> l & 1) given[first + l] = fibers[first + l].words, fibers[first + l].state = State::Ready;
    if (fibers[t].in_order) warp_start[first / 32] = epoch + 1, ordered = true;
    any = true;
  }
  if (ordered) ++epoch;
  return any;
}

void run_block(bool backward) {
  block_start = ++epoch, at_once = backward;
  all_in_order();
  for (unsigned t = 0; t < now->threads; ++t) prepare(fibers[t]);
  for (;;) {
    for (unsigned k = 0; k < now->threads && wrong.empty(); ++k) {
      running = backward ? now->threads - 1 - k : k;
      threadIdx = {running, 0, 0};
      if (fibers[running].state == State::Ready) go_on(fibers[running]);
    }
    if (!wrong.empty()) return;
    if (warps_act()) continue;
    const auto in = [](State s) {
      return std::count_if(fibers.begin(), fibers.begin() + now->threads, [&](const Fiber& f) { return f.state == s; });
    };
    if (in(State::Done) == now->threads) return;
    const auto waits = std::find_if(
        fibers.begin(), fibers.begin() + now->threads, [](const Fiber& f) { return f.state != State::Done; });
    running = static_cast<unsigned>(waits - fibers.begin());
    const auto stuck = [&](const char* words) {
      wrong = text(words, "; ", place(), ", ", now->module->place(waits->line));
    };
    if (in(State::Warp) > 0) return stuck("threads wait for others of their warp that do not come");
    if (in(State::Done) > 0) return stuck("threads wait at a barrier that others have left the kernel without");
    for (unsigned t = 0; t < now->threads; ++t) {
      if (fibers[t].line != waits->line) return stuck("threads wait at different barriers");
      fibers[t].state = State::Ready;
    }
    ++epoch;
    all_in_order();
    if (reports()) end_of_phase();
  }
}

// ---- accesses

}  // namespace

// A race: another thread of the block since the last barrier, or another block since the launch.
const char* raced(Cell& c, bool write, bool shared, std::uint16_t self) {
  const std::uint32_t since = shared ? block_start : launch_start;
  const char* words = nullptr;
  const auto apart = [&](unsigned other) { return other / 32 != self / 32u; };
  const unsigned reader = c.reader & thread_bits;
  const bool blocks_read = c.read >= since && (c.read < block_start || (c.reader & several_blocks)),
             warps_read = c.read >= barrier_start && ((c.reader & several_warps) || apart(reader)),
             threads_read = warps_read ||
      (c.read >= warp_start[self / 32] && ((c.reader & several_threads) || reader != self));
  if (c.write >= (apart(c.writer) ? barrier_start : warp_start[self / 32]) && c.writer != self)
    words = write ? "two threads write without a barrier between"
                  : "a read of what another thread writes without a barrier between";
  else if (c.write >= since && c.write < block_start)
    words = write ? "two blocks write" : "a read of what another block writes";
  else if (write && threads_read) words = "a write of what another thread reads without a barrier between";
  else if (write && blocks_read) words = "a write of what another block reads";
  if (write) c.write = epoch, c.writer = self;
  else
    c.reader = static_cast<std::uint16_t>(self | (blocks_read ? several_blocks : 0) |
        (threads_read ? several_threads : 0) | (warps_read ? several_warps : 0)),
    c.read = epoch;
  return words;
}

Region* region_of(const char* p, std::size_t bytes) {
  for (Region* r : regions) if (p >= r->base && p + bytes <= r->base + r->bytes) return r;
  return nullptr;
}

std::vector<Region*> shared_regions() {
  std::vector<Region*> found;
  std::ranges::copy_if(regions, std::back_inserter(found), &Region::shared);
  return found;
}

void fault_at(const std::string& words, int line) { fault(words, line); }

namespace {

std::uint64_t site_of(int line) { return static_cast<std::uint64_t>(line); }
std::uint64_t site_of(const void* code) { return reinterpret_cast<std::uintptr_t>(code); }

// Whether the argument that has this byte, the last to begin before it, is __restrict__.
bool alone(const char* p, const Region& region) {
  std::uint64_t begins = 0;
  for (const std::uint64_t a : now->arguments)
    if (a >= reinterpret_cast<Address>(region.base) && a <= reinterpret_cast<Address>(p)) begins = std::max(begins, a);
  for (std::size_t k = 0; k < now->arguments.size() && k < 64; ++k)
    if (now->arguments[k] == begins && now->kernel->alone >> k & 1) return true;
  return false;
}

// Of what runs, blocks are left out: what they would have written is missing.
bool partial = false;

template <class Where>
void access(const void* pointer, std::size_t bytes, bool write, Where where, bool reported = true) {
  if (!now) return;
  const auto* p = static_cast<const char*>(pointer);
  Region* region = region_of(p, bytes);
  const char* verb = write ? "write" : "read";
  if (!region) {                                       // its stack, its tables; or what it may not touch
    const bool pool = now->module->dynamic && p >= now->module->dynamic && p < now->module->dynamic + pool_bytes;
    if (pool || (p >= arena && p < arena + arena_bytes))
      fault(text("a ", verb, " of ", bytes, " bytes outside of ",
                pool ? "the shared memory of the launch" : "every argument"),
          where);
    return;
  }
  if (reported && reports()) note(site_of(where), p, bytes, write, region->shared);
  if (write && region->shared) fibers[running].unfenced = std::min(fibers[running].unfenced, epoch);
  const auto offset = static_cast<std::size_t>(p - region->base);
  if (reinterpret_cast<Address>(p) % bytes)
    fault(text("a ", verb, " of ", bytes, " bytes that is not aligned, at byte ", offset, " of ", region->name), where);
  Cell before{}, after{};                              // of the last byte: mostly of all
  for (std::size_t k = offset; k < offset + bytes; after = region->cells[k++]) {
    Cell& c = region->cells[k];
    if (k > offset && c == before) {
      c = after;
      continue;
    }
    before = c;
    if (!write && c.write < (region->shared ? block_start : by_host) && (region->shared || !partial))
      fault(text("a read of what nobody has written, at byte ", k, " of ", region->name), where);
    // Its compiler may read before the barrier, since no other pointer writes there.
    if (!write && !region->shared && c.write >= launch_start && c.write < epoch &&
        c.writer != static_cast<std::uint16_t>(running) && alone(p, *region))
      fault(text("a read through a __restrict__ pointer of what another thread has written, at byte ", k, " of ",
                region->name),
          where);
    if (const char* words = raced(c, write, region->shared, static_cast<std::uint16_t>(running)))
      fault(text("a race, ", words, ", at byte ", k, " of ", region->name), where);
  }
}

// The text's own traps, which its compiler has set where an index or a number leaves its range.
struct Traps {
  Traps() {
    struct sigaction answer = {};
    answer.sa_sigaction = trapped, answer.sa_flags = SA_SIGINFO | SA_NODEFER;  // a fault does not return
    sigaction(SIGILL, &answer, &of_illegal), sigaction(SIGTRAP, &answer, &of_trap);
  }
  ~Traps() { sigaction(SIGILL, &of_illegal, nullptr), sigaction(SIGTRAP, &of_trap, nullptr); }
  Traps(const Traps&) = delete;
  Traps& operator=(const Traps&) = delete;
  static void trapped(int number, siginfo_t* info, void*) {
    Dl_info of{}, of_kernel{};
    dladdr(info->si_addr, &of), dladdr(reinterpret_cast<const void*>(now->kernel->entry), &of_kernel);
    if (of.dli_fbase != of_kernel.dli_fbase) signal(number, SIG_DFL);  // and comes again
    else fault("an index outside of its array, or a number outside of its type", static_cast<char*>(info->si_addr) + 1);
  }
  struct sigaction of_illegal, of_trap;
};

}  // namespace

void access_at(const void* pointer, std::size_t bytes, bool write, int line, bool reported) {
  access(pointer, bytes, write, line, reported);
}

void in_warp(int line, unsigned mask, std::array<std::uint64_t, 4> words) {
  fibers[running].mask = mask, fibers[running].words = words, fibers[running].in_order = false;
  leave(State::Warp, line);
}

static void warp_in_order(int line) {
  fibers[running].mask = ~0u, fibers[running].in_order = true;
  leave(State::Warp, line);
}

const std::uint64_t* of_lane(unsigned lane) { return given[running / 32 * 32 + lane].data(); }

// ---- modules

// Code for sm_80 runs on what is 8.0 and later of 8; with a letter, on that one.
static bool runs_on(const std::string& architecture, const Gpu& gpu) {
  if (architecture == gpu.architecture) return true;
  const int number = std::atoi(architecture.c_str() + std::min<std::size_t>(3, architecture.size()));
  return architecture.back() >= '0' && architecture.back() <= '9' && number / 10 == gpu.major &&
      number % 10 <= gpu.minor;
}

Module::Module(const char* cubin, const Gpu& on) {
  char architecture[32] = {};
  std::size_t source = 0, bytes = 0;
  if (std::sscanf(cubin, "simulated %31s %zu %zu", architecture, &source, &bytes) != 3 || !runs_on(architecture, on))
    throw text("no code for ", on.architecture);
  const char* begins = std::strchr(cubin, '\n') + 1;
  std::istringstream in(std::string(begins, source));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  file = memfd_create("kernel", 0);
  if (file < 0 || write(file, begins + source, bytes) != static_cast<ssize_t>(bytes))
    throw text("no room for the library of a kernel");
  library = dlopen(text("/proc/self/fd/", file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw text(dlerror());
  if (void* pool = dlsym(library, "simulated_dynamic")) dynamic = reinterpret_cast<char* (*)()>(pool)();
  kernels = static_cast<const Kernel*>(dlsym(library, "simulated_kernels"));
  for (const Kernel* k = kernels; k->name; ++k)
    if (k->shared_end - k->shared > most_static_shared)
      throw text("more than 48 KiB of static shared memory in ", k->name);
}

Module::~Module() {
  if (library) dlclose(library);
  if (file >= 0) close(file);
}

const Kernel* Module::kernel(const std::string& name) const {
  for (const Kernel* k = kernels; k->name; ++k) if (name == k->name) return k;
  return nullptr;
}

std::string Module::place(int line) const {
  if (line < 1 || line > static_cast<int>(lines.size())) return "?";
  const std::string& whole = lines[static_cast<std::size_t>(line) - 1];
  return text("line ", line, ": ", whole.substr(std::min(whole.find_first_not_of(' '), whole.size())));
}

std::string Module::place(const void* code) const {
  Dl_info info{};
  dladdr(code, &info);
  const auto offset = reinterpret_cast<std::uintptr_t>(code) - reinterpret_cast<std::uintptr_t>(info.dli_fbase) - 1;
  char line[256] = {};
  if (FILE* pipe = popen(
          text("addr2line -e /proc/", getpid(), "/fd/", file, " ", std::hex, offset, " 2>/dev/null").c_str(), "r")) {
    if (!std::fgets(line, sizeof line, pipe)) line[0] = 0;
    pclose(pipe);
  }
  const char* colon = std::strrchr(line, ':');
  return place(colon ? std::atoi(colon + 1) : 0);
}

Address allocate(std::size_t bytes, const void* owner) {
  const std::size_t mapped = (bytes + page - 1) / page * page;
  if (!arena)
    arena =
        static_cast<char*>(mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (bytes > std::size_t{4} << 30 || arena_used + mapped + page > arena_bytes ||
      mprotect(arena + arena_used, mapped, PROT_READ | PROT_WRITE) != 0)
    return 0;
  char* base = arena + arena_used;
  arena_used += mapped + page;
  if (most_blocks() == ~0ull) std::memset(base, 0xff, mapped);  // else much of what is allocated is never touched
  auto& region = allocations[reinterpret_cast<Address>(base)] = std::make_unique<Region>(base, bytes, "", false);
  region->owner = owner;
  return reinterpret_cast<Address>(base);
}

bool release(Address base) {
  const auto at = allocations.find(base);
  if (at == allocations.end()) return false;
  mmap(at->second->base, (at->second->bytes + page - 1) / page * page, PROT_NONE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  allocations.erase(at);
  return true;
}

bool inside(Address address, std::size_t bytes, const void* owner) {
  const Region* r = allocation_of(address);
  return r && r->owner == owner && address + bytes <= reinterpret_cast<Address>(r->base) + r->bytes;
}

void written(Address address, std::size_t bytes) {
  const Region* r = allocation_of(address);
  if (most_blocks() != ~0ull) return;
  Cell* first = r->cells + (address - reinterpret_cast<Address>(r->base));
  std::fill(first, first + bytes, Cell{by_host, never, 0, 0});
}

bool initialised(Address address, std::size_t bytes) {
  const Region* r = allocation_of(address);
  const Cell* first = r->cells + (address - reinterpret_cast<Address>(r->base));
  return most_blocks() != ~0ull || std::all_of(first, first + bytes, [](const Cell& c) { return c.write != never; });
}

std::string run(const Launch& launch) {
  now = &launch;
  wrong.clear(), arguments.clear(), regions.clear();
  const Module& module = *launch.module;
  Region fixed(launch.kernel->shared, static_cast<std::size_t>(launch.kernel->shared_end - launch.kernel->shared),
      "shared memory", true),
      dynamic(module.dynamic, launch.dynamic, "dynamic shared memory", true);
  for (std::size_t k = 0; k < launch.arguments.size(); ++k) {
    arguments.push_back(const_cast<std::uint64_t*>(&launch.arguments[k]));
    Region* r = allocation_of(launch.arguments[k]);
    if (!r || std::ranges::count(regions, r) > 0) continue;
    if (r->owner != launch.owner)
      return now = nullptr,
             text("argument ", k, " of kernel ", launch.kernel->name, " lies in the memory of another GPU");
    r->name = text("argument ", k);
    regions.push_back(r);
  }
  if (fixed.bytes) regions.insert(regions.begin(), &fixed);
  if (dynamic.bytes) regions.insert(regions.begin(), &dynamic);
  launch_start = ++epoch;
  const Traps traps;
  const std::uint64_t blocks = std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  static bool backward = false;                        // in one order, then in the other
  backward = !backward;
  const std::uint64_t sampled = std::min(blocks, most_blocks());
  partial = partial || sampled < blocks;
  for (std::uint64_t k = 0; k < sampled && wrong.empty(); ++k) {
    const std::uint64_t chosen = (2 * k + 1) * blocks / (2 * sampled), b = backward ? blocks - 1 - chosen : chosen;
    blockIdx = {static_cast<unsigned>(b % launch.grid[0]), static_cast<unsigned>(b / launch.grid[0] % launch.grid[1]),
        static_cast<unsigned>(b / launch.grid[0] / launch.grid[1])};
    if (fixed.bytes) std::memset(fixed.base, 0xff, fixed.bytes);
    if (dynamic.bytes) std::memset(dynamic.base, 0xff, dynamic.bytes);
    run_block((b + backward) % 2 != 0);
    if (reports()) end_of_block();
  }
  if (!wrong.empty()) for (Fiber& f : fibers) f.begun = false;  // they are in the midst of something
  now = nullptr;
  if (reports()) end_of_launch(launch, blocks, sampled);
  return wrong;
}

}  // namespace simulated

// ---- what the compiled text calls

using namespace simulated;

#define HERE __builtin_return_address(0)

SHOWN void simulated_barrier(int line) { leave(State::Barrier, line); }
SHOWN void simulated_warp_barrier(int line) { warp_in_order(line); }

SHOWN unsigned long long simulated_shuffle(int line, unsigned mask, unsigned long long value, int distance) {
  const unsigned from = (running % 32) ^ static_cast<unsigned>(distance);
  if (from > 31 || !(mask >> from & 1)) fault(text("a shuffle reads lane ", from, ", which its mask leaves out"), line);
  in_warp(line, mask, {value});
  return *of_lane(from);
}

SHOWN void* simulated_aligned(int line, const void* pointer, unsigned long bytes) {
  if (reinterpret_cast<Address>(pointer) % bytes)
    fault(text("a pointer that is not aligned to ", bytes, " bytes"), line);
  if (reports()) note_wide(pointer, bytes);
  return const_cast<void*>(pointer);
}

// As wide as it is aligned, 16 bytes at most.
static void access_range(void* p, std::size_t n, bool write, const void* where) {
  for (std::size_t k = 0, step; k < n; k += step) {
    const auto at = reinterpret_cast<std::uintptr_t>(p) + k;
    for (step = 16; step > 1 && (at % step || n - k < step);) step /= 2;
    access(static_cast<char*>(p) + k, step, write, where);
  }
}

#define ACCESS(size)                                                                  \
  SHOWN void __tsan_read##size(void* p) { access(p, size, false, HERE); }              \
  SHOWN void __tsan_write##size(void* p) { access(p, size, true, HERE); }              \
  SHOWN void __tsan_unaligned_read##size(void* p) { access(p, size, false, HERE); }    \
  SHOWN void __tsan_unaligned_write##size(void* p) { access(p, size, true, HERE); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
SHOWN void __tsan_read_range(void* p, std::size_t n) { access_range(p, n, false, HERE); }
SHOWN void __tsan_write_range(void* p, std::size_t n) { access_range(p, n, true, HERE); }
SHOWN void __tsan_init() {}
