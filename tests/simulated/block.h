// The block that runs: what machine.cpp, which runs its threads, has in common with tensor_cores.cpp.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "machine.h"

#define SHOWN extern "C" __attribute__((visibility("default")))

namespace simulated {

template <class... T> std::string text(const T&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Who touched a byte last. Epochs count barriers and never go back, so those of a launch are an interval, and so are
// those of a block.
struct Cell {
  bool operator==(const Cell&) const = default;
  std::uint32_t write, read;
  std::uint16_t writer, reader;
};
constexpr std::uint32_t never = 0, by_host = 1;
constexpr std::uint16_t several_threads = 0x8000, several_blocks = 0x4000, several_warps = 0x2000, thread_bits = 0x1fff;

struct Region {
  Region(char* at, std::size_t size, std::string called, bool of_block)
      : base(at),
        bytes(size),
        cells(static_cast<Cell*>(std::calloc(size + 1, sizeof(Cell)))),
        name(std::move(called)),
        shared(of_block) {}
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

// ---- threads

constexpr std::uint32_t nothing = ~0u;
enum class State { Ready, Barrier, Warp, Done };
struct Copy { char* to; const char* from; int bytes, there; };
// wgmma, as one thread has it.
struct Product {
  const char *a, *b;                                   // a is null where it is in registers
  std::uint64_t of_a, of_b;                            // descriptors
  bool adds, a_turned, b_turned;                       // to what the sums are
  int type, line;
  unsigned columns;
  std::uint32_t asked;                                 // when
  std::array<void*, 128> sums;
  std::array<unsigned, 16> fragment;                   // a's rows of this thread: four registers of four threads
};
struct Fiber {
  ucontext_t first;
  jmp_buf next;
  bool begun = false;
  char* stack = nullptr;
  State state = State::Done;
  int line = 0;                                        // where it waits
  unsigned mask = 0;
  bool in_order = false;                               // it waits at a barrier of its warp
  std::array<std::uint64_t, 4> words{};                // that it gives to its warp
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
  std::vector<Product> started;                        // in no group yet
  std::deque<std::vector<Product>> products;
  bool fenced = false;                                 // its registers are ready for wgmma
  std::uint32_t unfenced = nothing;                    // since when wgmma does not see what it wrote to shared memory
};

extern std::array<Fiber, most_threads> fibers;
extern unsigned running;                               // the thread that does
extern std::uint32_t epoch, block_start;
extern bool at_once;                                   // wgmma of this block is done when it is asked for; else when it
                                                       // is waited for

void fault_at(const std::string& words, int line);     // does not return: the thread is over
Region* region_of(const char* p, std::size_t bytes);   // that the launch may touch; null: none
std::vector<Region*> shared_regions();
void access_at(const void* pointer, std::size_t bytes, bool write, int line, bool reported = true);
const char* raced(Cell& cell, bool write, bool shared, std::uint16_t self);  // null: it is no race

// All threads of a warp come here, in one line; each gives some words, and sees those of all.
void in_warp(int line, unsigned mask, std::array<std::uint64_t, 4> words);
const std::uint64_t* of_lane(unsigned lane);

}  // namespace simulated
