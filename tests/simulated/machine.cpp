// Runs a grid: blocks one after another, the threads of a block as fibers that change at barriers and where a warp acts as one. Every access
// of the text to memory comes by here first and is held against what is allocated, what was written, and what other threads did since
// the last barrier or other blocks since the launch: a race is found whatever the order of running. The first fault ends the launch.
//
// Tensor cores are written from the PTX ISA ("cp.async", "ldmatrix", "mma"; fragments as docs/decisions/tensor_cores.md states them). What a
// cp.async copies is there when its thread has waited for its group, not before.
#include "machine.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <sstream>
#include <utility>

#define SHOWN extern "C" __attribute__((visibility("default")))

struct Three { unsigned x, y, z; };
SHOWN Three threadIdx, blockIdx;
Three threadIdx, blockIdx;

namespace simulated {
namespace {

template <class... T> std::string text(const T&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// ---- memory: one range of addresses, none given twice, a page that cannot be touched behind each allocation

// Who touched a byte last. Epochs count barriers and never go back, so those of a launch are an interval, and so are those of a block.
struct Cell { std::uint32_t write, read; std::uint16_t writer, reader; };
constexpr std::uint32_t never = 0, by_host = 1;
constexpr std::uint16_t several_threads = 0x8000, several_blocks = 0x4000, thread_bits = 0x3fff;

struct Region {
  Region(char* at, std::size_t size, std::string called, bool of_block) : base(at), bytes(size), cells(static_cast<Cell*>(std::calloc(size + 1, sizeof(Cell)))), name(std::move(called)), shared(of_block) {}
  ~Region() { std::free(cells); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  char* base;
  std::size_t bytes;
  Cell* cells;
  std::string name;
  bool shared;
  const void* owner = nullptr;
};

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

enum class State { Ready, Barrier, Warp, Done };
struct Copy { char* to; const char* from; int bytes, there; };
struct Fiber {
  ucontext_t first;
  jmp_buf next;
  bool begun = false;
  char* stack = nullptr;
  State state = State::Done;
  int line = 0;                                        // where it waits
  unsigned mask = 0;
  std::array<std::uint64_t, 4> words{};                // that it gives to its warp
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};
constexpr std::size_t stack_bytes = 1 << 18;
std::array<Fiber, most_threads> fibers;
std::array<std::array<std::uint64_t, 4>, most_threads> given;  // of all, when a warp acts
jmp_buf scheduler;

const Launch* now = nullptr;
std::vector<void*> arguments;
std::vector<Region*> regions;                          // that the launch may touch
std::string wrong;
unsigned running = 0;
std::uint32_t epoch = by_host + 1, launch_start = 0, block_start = 0;

void leave(State state, int line) {
  Fiber& f = fibers[running];
  f.state = state, f.line = line;
  if (_setjmp(f.next) == 0) _longjmp(scheduler, 1);
}

std::string place() {
  return text("kernel ", now->kernel->name, ", block ", blockIdx.x, " ", blockIdx.y, " ", blockIdx.z, " of ", now->grid[0], " ", now->grid[1], " ", now->grid[2], ", thread ", running, " of ", now->threads);
}

template <class Where> void fault(const std::string& words, Where where) {
  if (wrong.empty()) wrong = text(words, "; ", place(), ", ", now->module->place(where));
  leave(State::Done, 0);
}

void begin() {
  for (;;) {
    now->kernel->entry(arguments.data());
    leave(State::Done, 0);
  }
}

void prepare(Fiber& f) {
  f.state = State::Ready, f.open.clear(), f.groups.clear();
  if (f.begun) return;
  if (!f.stack) f.stack = static_cast<char*>(mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  getcontext(&f.first);
  f.first.uc_stack.ss_sp = f.stack, f.first.uc_stack.ss_size = stack_bytes, f.first.uc_link = nullptr;
  makecontext(&f.first, begin, 0);
}

void go_on(Fiber& f) {
  if (_setjmp(scheduler) != 0) return;
  if (std::exchange(f.begun, true)) _longjmp(f.next, 1);
  setcontext(&f.first);
}

// Warps all of whose threads, by the mask, have come to one place.
bool warps_act() {
  bool any = false;
  for (unsigned t = 0; t < now->threads; ++t) {
    const Fiber& f = fibers[t];
    if (f.state != State::Warp) continue;
    const unsigned first = t / 32 * 32, mask = f.mask;
    const int line = f.line;
    const auto comes = [&](unsigned l) { return first + l < now->threads && fibers[first + l].state == State::Warp && fibers[first + l].line == line && fibers[first + l].mask == mask; };
    bool all = mask >> (t - first) & 1;
    for (unsigned l = 0; l < 32; ++l) all &= !(mask >> l & 1) || comes(l);
    if (!all) continue;
    for (unsigned l = 0; l < 32; ++l)
      if (mask >> l & 1) given[first + l] = fibers[first + l].words, fibers[first + l].state = State::Ready;
    any = true;
  }
  return any;
}

void run_block(bool backward) {
  block_start = ++epoch;
  for (unsigned t = 0; t < now->threads; ++t) prepare(fibers[t]);
  for (;;) {
    for (unsigned k = 0; k < now->threads && wrong.empty(); ++k) {
      running = backward ? now->threads - 1 - k : k;
      threadIdx = {running, 0, 0};
      if (fibers[running].state == State::Ready) go_on(fibers[running]);
    }
    if (!wrong.empty()) return;
    if (warps_act()) continue;
    const auto in = [](State s) { return std::count_if(fibers.begin(), fibers.begin() + now->threads, [&](const Fiber& f) { return f.state == s; }); };
    if (in(State::Done) == now->threads) return;
    const auto waits = std::find_if(fibers.begin(), fibers.begin() + now->threads, [](const Fiber& f) { return f.state != State::Done; });
    running = static_cast<unsigned>(waits - fibers.begin());
    const auto stuck = [&](const char* words) { wrong = text(words, "; ", place(), ", ", now->module->place(waits->line)); };
    if (in(State::Warp) > 0) return stuck("threads wait for others of their warp that do not come");
    if (in(State::Done) > 0) return stuck("threads wait at a barrier that others have left the kernel without");
    for (unsigned t = 0; t < now->threads; ++t) {
      if (fibers[t].line != waits->line) return stuck("threads wait at different barriers");
      fibers[t].state = State::Ready;
    }
    ++epoch;
  }
}

// ---- accesses

// A race: another thread of the block since the last barrier, or another block since the launch.
const char* raced(Cell& c, bool write, bool shared) {
  const auto self = static_cast<std::uint16_t>(running);
  const std::uint32_t since = shared ? block_start : launch_start;
  const char* words = nullptr;
  const bool blocks_read = c.read >= since && (c.read < block_start || (c.reader & several_blocks)), threads_read = c.read == epoch && ((c.reader & several_threads) || (c.reader & thread_bits) != self);
  if (c.write == epoch && c.writer != self) words = write ? "two threads write without a barrier between" : "a read of what another thread writes without a barrier between";
  else if (c.write >= since && c.write < block_start) words = write ? "two blocks write" : "a read of what another block writes";
  else if (write && threads_read) words = "a write of what another thread reads without a barrier between";
  else if (write && blocks_read) words = "a write of what another block reads";
  if (write) c.write = epoch, c.writer = self;
  else c.reader = static_cast<std::uint16_t>(self | (blocks_read ? several_blocks : 0) | (threads_read ? several_threads : 0)), c.read = epoch;
  return words;
}

Region* region_of(const char* p, std::size_t bytes) {
  for (Region* r : regions) if (p >= r->base && p + bytes <= r->base + r->bytes) return r;
  return nullptr;
}

template <class Where> void access(const void* pointer, std::size_t bytes, bool write, Where where) {
  if (!now) return;
  const auto* p = static_cast<const char*>(pointer);
  Region* region = region_of(p, bytes);
  const char* verb = write ? "write" : "read";
  if (!region) {                                       // its stack, its tables; or what it may not touch
    const bool pool = now->module->dynamic && p >= now->module->dynamic && p < now->module->dynamic + pool_bytes;
    if (pool || (p >= arena && p < arena + arena_bytes)) fault(text("a ", verb, " of ", bytes, " bytes outside of ", pool ? "the shared memory of the launch" : "every argument"), where);
    return;
  }
  const auto offset = static_cast<std::size_t>(p - region->base);
  if (reinterpret_cast<Address>(p) % bytes) fault(text("a ", verb, " of ", bytes, " bytes that is not aligned, at byte ", offset, " of ", region->name), where);
  for (std::size_t k = offset; k < offset + bytes; ++k) {
    Cell& c = region->cells[k];
    if (!write && c.write < (region->shared ? block_start : by_host)) fault(text("a read of what nobody has written, at byte ", k, " of ", region->name), where);
    if (const char* words = raced(c, write, region->shared)) fault(text("a race, ", words, ", at byte ", k, " of ", region->name), where);
  }
}

void in_warp(int line, unsigned mask, std::array<std::uint64_t, 4> words) {
  fibers[running].mask = mask, fibers[running].words = words;
  leave(State::Warp, line);
}

const std::uint64_t* of_lane(unsigned lane) { return given[running / 32 * 32 + lane].data(); }

}  // namespace

// ---- modules

// Code for sm_80 runs on what is 8.0 and later of 8; with a letter, on that one.
static bool runs_on(const std::string& architecture, const Gpu& gpu) {
  if (architecture == gpu.architecture) return true;
  const int number = std::atoi(architecture.c_str() + std::min<std::size_t>(3, architecture.size()));
  return architecture.back() >= '0' && architecture.back() <= '9' && number / 10 == gpu.major && number % 10 <= gpu.minor;
}

Module::Module(const char* cubin, const Gpu& on) {
  char architecture[32] = {};
  std::size_t source = 0, bytes = 0;
  if (std::sscanf(cubin, "simulated %31s %zu %zu", architecture, &source, &bytes) != 3 || !runs_on(architecture, on)) throw text("no code for ", on.architecture);
  const char* begins = std::strchr(cubin, '\n') + 1;
  std::istringstream in(std::string(begins, source));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  file = memfd_create("kernel", 0);
  if (file < 0 || write(file, begins + source, bytes) != static_cast<ssize_t>(bytes)) throw text("no room for the library of a kernel");
  library = dlopen(text("/proc/self/fd/", file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw text(dlerror());
  reinterpret_cast<void (*)(char**, char**)>(dlsym(library, "simulated_shared"))(&shared, &shared_end);
  if (void* pool = dlsym(library, "simulated_dynamic")) dynamic = reinterpret_cast<char* (*)()>(pool)();
  kernels = static_cast<const Kernel*>(dlsym(library, "simulated_kernels"));
  if (shared_end - shared > most_static_shared) throw text("more than 48 KiB of static shared memory");
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
  if (FILE* pipe = popen(text("addr2line -e /proc/", getpid(), "/fd/", file, " ", std::hex, offset, " 2>/dev/null").c_str(), "r")) {
    if (!std::fgets(line, sizeof line, pipe)) line[0] = 0;
    pclose(pipe);
  }
  const char* colon = std::strrchr(line, ':');
  return place(colon ? std::atoi(colon + 1) : 0);
}

Address allocate(std::size_t bytes, const void* owner) {
  const std::size_t mapped = (bytes + page - 1) / page * page;
  if (!arena) arena = static_cast<char*>(mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (bytes > std::size_t{4} << 30 || arena_used + mapped + page > arena_bytes || mprotect(arena + arena_used, mapped, PROT_READ | PROT_WRITE) != 0) return 0;
  char* base = arena + arena_used;
  arena_used += mapped + page;
  std::memset(base, 0xff, mapped);
  auto& region = allocations[reinterpret_cast<Address>(base)] = std::make_unique<Region>(base, bytes, "", false);
  region->owner = owner;
  return reinterpret_cast<Address>(base);
}

bool release(Address base) {
  const auto at = allocations.find(base);
  if (at == allocations.end()) return false;
  mmap(at->second->base, (at->second->bytes + page - 1) / page * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  allocations.erase(at);
  return true;
}

bool inside(Address address, std::size_t bytes, const void* owner) {
  const Region* r = allocation_of(address);
  return r && r->owner == owner && address + bytes <= reinterpret_cast<Address>(r->base) + r->bytes;
}

void written(Address address, std::size_t bytes) {
  const Region* r = allocation_of(address);
  Cell* first = r->cells + (address - reinterpret_cast<Address>(r->base));
  std::fill(first, first + bytes, Cell{by_host, never, 0, 0});
}

bool initialised(Address address, std::size_t bytes) {
  const Region* r = allocation_of(address);
  const Cell* first = r->cells + (address - reinterpret_cast<Address>(r->base));
  return std::all_of(first, first + bytes, [](const Cell& c) { return c.write != never; });
}

std::string run(const Launch& launch) {
  now = &launch;
  wrong.clear(), arguments.clear(), regions.clear();
  const Module& module = *launch.module;
  Region fixed(module.shared, static_cast<std::size_t>(module.shared_end - module.shared), "shared memory", true), dynamic(module.dynamic, launch.dynamic, "dynamic shared memory", true);
  for (std::size_t k = 0; k < launch.arguments.size(); ++k) {
    arguments.push_back(const_cast<std::uint64_t*>(&launch.arguments[k]));
    Region* r = allocation_of(launch.arguments[k]);
    if (!r || std::ranges::count(regions, r) > 0) continue;
    if (r->owner != launch.owner) return now = nullptr, text("argument ", k, " of kernel ", launch.kernel->name, " lies in the memory of another GPU");
    r->name = text("argument ", k);
    regions.push_back(r);
  }
  if (fixed.bytes) regions.insert(regions.begin(), &fixed);
  if (dynamic.bytes) regions.insert(regions.begin(), &dynamic);
  launch_start = ++epoch;
  const std::uint64_t blocks = std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  static bool backward = false;                        // in one order, then in the other
  backward = !backward;
  for (std::uint64_t k = 0; k < blocks && wrong.empty(); ++k) {
    const std::uint64_t b = backward ? blocks - 1 - k : k;
    blockIdx = {static_cast<unsigned>(b % launch.grid[0]), static_cast<unsigned>(b / launch.grid[0] % launch.grid[1]), static_cast<unsigned>(b / launch.grid[0] / launch.grid[1])};
    if (fixed.bytes) std::memset(fixed.base, 0xff, fixed.bytes);
    if (dynamic.bytes) std::memset(dynamic.base, 0xff, dynamic.bytes);
    run_block((b + backward) % 2 != 0);
  }
  if (!wrong.empty()) for (Fiber& f : fibers) f.begun = false;  // they are in the midst of something
  now = nullptr;
  return wrong;
}

}  // namespace simulated

// ---- what the compiled text calls

using namespace simulated;

#define HERE __builtin_return_address(0)

SHOWN void simulated_barrier(int line) { leave(State::Barrier, line); }

SHOWN unsigned long long simulated_shuffle(int line, unsigned mask, unsigned long long value, int distance) {
  const unsigned from = (running % 32) ^ static_cast<unsigned>(distance);
  if (from > 31 || !(mask >> from & 1)) fault(text("a shuffle reads lane ", from, ", which its mask leaves out"), line);
  in_warp(line, mask, {value});
  return *of_lane(from);
}

SHOWN void* simulated_aligned(int line, const void* pointer, unsigned long bytes) {
  if (reinterpret_cast<Address>(pointer) % bytes) fault(text("a pointer that is not aligned to ", bytes, " bytes"), line);
  return const_cast<void*>(pointer);
}

SHOWN void simulated_copy(int line, const void* to, const void* from, int bytes, int there) {
  const auto n = static_cast<std::size_t>(bytes);
  Region* region = region_of(static_cast<const char*>(to), n);
  if (!region || !region->shared) return fault("cp.async to what is no shared memory of the launch", line);
  if ((there != 0 && there != bytes) || reinterpret_cast<Address>(from) % n) fault("cp.async of a part, or from an address that is not aligned", line);
  access(to, n, true, line);
  if (there) access(from, n, false, line);
  for (std::size_t k = 0; k < n; ++k) region->cells[static_cast<const char*>(to) - region->base + static_cast<std::ptrdiff_t>(k)].write = never;  // until it has come
  std::memset(const_cast<void*>(to), 0xff, n);
  fibers[running].open.push_back({static_cast<char*>(const_cast<void*>(to)), static_cast<const char*>(from), bytes, there});
}

SHOWN void simulated_commit() { fibers[running].groups.push_back(std::exchange(fibers[running].open, {})); }

SHOWN void simulated_wait(int line, int newest) {
  std::deque<std::vector<Copy>>& groups = fibers[running].groups;
  for (; groups.size() > static_cast<std::size_t>(newest); groups.pop_front())
    for (const Copy& c : groups.front()) {
      access(c.to, static_cast<std::size_t>(c.bytes), true, line);
      std::memset(c.to, 0, static_cast<std::size_t>(c.bytes));
      if (c.there) std::memcpy(c.to, c.from, static_cast<std::size_t>(c.there));
    }
}

// The address of row r of matrix q is what thread 8 q + r has. Thread 4 r + c gets bytes 4 c .. 4 c + 3 of row r of each matrix; transposed, the
// 16 bits in column r of rows 2 c and 2 c + 1.
SHOWN void simulated_fragments(int line, int transposed, unsigned* const* to, const void* row) {
  if (!region_of(static_cast<const char*>(row), 16)) fault("ldmatrix of what is no memory of the launch", line);
  access(row, 16, false, line);
  in_warp(line, ~0u, {reinterpret_cast<std::uint64_t>(row)});
  const unsigned r = running % 32 / 4, c = running % 4;
  for (unsigned q = 0; q < 4; ++q) {
    const auto at = [&](unsigned x) { return reinterpret_cast<const char*>(*of_lane(8 * q + x)); };
    if (!transposed) std::memcpy(to[q], at(r) + 4 * c, 4);
    else for (unsigned x = 0; x < 2; ++x) std::memcpy(reinterpret_cast<char*>(to[q]) + 2 * x, at(2 * c + x) + 2 * r, 2);
  }
}

namespace {

// With g = lane / 4, t = lane % 4 and w operands in a register: register r of A has row g + 8 (r % 2), columns w t .. of the half r / 2 of k;
// register r of B rows w t .. of the half r of k, column g; register r of C row g + 8 (r / 2), column 2 t + r % 2.
template <class T, class C, class Value> void multiply(void* const* c, Value value) {
  constexpr unsigned w = 4 / sizeof(T), half_k = 4 * w;
  const unsigned g = running % 32 / 4, t = running % 4;
  const auto element = [&](unsigned lane, unsigned word, unsigned in_word, unsigned at) {
    const auto bits = static_cast<unsigned>(of_lane(lane)[word] >> (32 * in_word));
    T x;
    std::memcpy(&x, reinterpret_cast<const char*>(&bits) + at * sizeof(T), sizeof(T));
    return value(x);
  };
  for (unsigned r = 0; r < 4; ++r)
    for (unsigned k = 0; k < 2 * half_k; ++k) {
      const unsigned half = k / half_k, thread = k % half_k / w, at = k % w;
      *static_cast<C*>(c[r]) += element(4 * g + thread, half, r / 2, at) * element(4 * (2 * t + r % 2) + thread, 2, half, at);
    }
}

float of_f16(unsigned short x) { _Float16 h; std::memcpy(&h, &x, 2); return static_cast<float>(h); }
float of_bf16(unsigned short x) { const unsigned u = static_cast<unsigned>(x) << 16; float f; std::memcpy(&f, &u, 4); return f; }
template <class T> int of_byte(T x) { return x; }

}  // namespace

SHOWN void simulated_multiply(int line, int type, void* const* c, const unsigned* a, const unsigned* b) {
  const auto pair = [](unsigned low, unsigned high) { return static_cast<std::uint64_t>(high) << 32 | low; };
  in_warp(line, ~0u, {pair(a[0], a[1]), pair(a[2], a[3]), pair(b[0], b[1])});
  if (type == 0) multiply<unsigned short, float>(c, of_f16);
  else if (type == 1) multiply<unsigned short, float>(c, of_bf16);
  else if (type == 2) multiply<signed char, int>(c, of_byte<signed char>);
  else multiply<unsigned char, int>(c, of_byte<unsigned char>);
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
SHOWN void __tsan_read_range(void* p, std::size_t n) { for (std::size_t k = 0; k < n; ++k) access(static_cast<char*>(p) + k, 1, false, HERE); }
SHOWN void __tsan_write_range(void* p, std::size_t n) { for (std::size_t k = 0; k < n; ++k) access(static_cast<char*>(p) + k, 1, true, HERE); }
SHOWN void __tsan_init() {}

#define RANGE(name, words, ...) SHOWN void __ubsan_handle_##name(void*, ##__VA_ARGS__) { fault(words, HERE); }
RANGE(out_of_bounds, "an index outside of its array", void*)
RANGE(add_overflow, "a sum that overflows", void*, void*)
RANGE(sub_overflow, "a difference that overflows", void*, void*)
RANGE(mul_overflow, "a product that overflows", void*, void*)
RANGE(negate_overflow, "a negation that overflows", void*)
RANGE(divrem_overflow, "a division by zero, or one that overflows", void*, void*)
RANGE(shift_out_of_bounds, "a shift by too many bits, or of a negative number", void*, void*)
RANGE(float_cast_overflow, "a conversion to an integer type that does not hold the number", void*)
