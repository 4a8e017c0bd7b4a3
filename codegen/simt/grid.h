// Block loops ⇔ the launch grid.
//
//   for j in block 32 { for i in block 8 { … } }          ⇒  grid (8, 32): i = x, j = y
//   for a in block 10 { … }   for b in block 6 { … }      ⇒  grid 16: a = x if x < 10, else b = x - 10
//   for i in block 100000 { for l in thread 32 { … } }    ⇒  grid 25000 of 128 threads: i = 4 x + warp (CUDA)
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/loops.h"

namespace tilec::codegen::simt {

inline constexpr std::int64_t axis_limit[3] = {2147483647, 65535, 65535};  // CUDA's, x first
// CUDA: beyond it shared memory is asked for at launch
inline constexpr std::int64_t static_shared_limit = 48 * 1024;

struct Grid {
  bool chained = false;                                // one loop per axis; else blocks are numbered along x (and y
                                                       // beyond its limit)
  std::int64_t blocks = 1;
  std::int64_t extent[3] = {1, 1, 1};                  // x first
  std::int64_t together = 1;                           // blocks of one warp that are one block of the launch
};
// A multiprocessor has room for 64 warps and for 32 blocks: where blocks of a warp are more than it holds at once, four
// of them are launched as one. Each has its own part of the shared memory, and its barriers are of its warp alone.
Grid grid_of(const Body& kernel, bool cuda);

std::int64_t blocks_of(const Body& body);              // of the Block loops in it, siblings added, nested multiplied; 1
                                                       // if there are none
std::int64_t threads_of(const Body& body);             // the largest Thread loop
std::int64_t shared_bytes(const Body& body);           // of Allocate in shared memory, siblings under Block overlaid
std::int64_t fold_bytes(const Body& kernel, bool by_warps);  // of the shared memory through which Folds go
bool synchronises(const Body& body);                   // a Barrier or Fold within
bool has_block(const Body& body);
bool has_thread(const Body& body);
bool has_copies(const Body& body);
bool multiplies_shared(const Body& body);
std::int64_t constant_extent(const For& loop);
std::int64_t element_bytes(const Allocate& a);

}  // namespace tilec::codegen::simt
