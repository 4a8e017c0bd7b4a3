// A leaf for lanes, made one for threads: lanes are the threads of a block.
//
//   contract C  m i  n j  k k  block 6x4  lanes 16  ⇒  block 4x1  lanes 128: as many rows to a thread as leave threads
//                                                        enough
//
// A reduction over threads takes one element a block, or the few rows that read the same; everything else numbers its
// elements over all threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "codegen/choose/facts.h"

namespace tilec::codegen {

inline constexpr std::int64_t threads_of_a_block = 128;

void for_threads(Compute& leaf, const Facts& f, std::int64_t threads, const Target& target);
// Whether an output counts taps of a window: with a reduction it is in a row of the domain, or slides along a read that
// has no more taps than steps.
bool counts_taps(const Facts& f, std::size_t output);
// Into parts of how many values of which reduction the sum of a filter's gradient is cut so that threads have the taps
// of all directions: few, side by side. The leaf: as threads have it now. None: there is no such direction, or too few
// threads would be left.
struct PartOfTaps { std::string index; std::int64_t steps; };
std::optional<PartOfTaps> part_of_taps(const Facts& f, const Compute& leaf, const Target& target);
// The leaf of a fold whose threads have elements of their own, all reductions of each; none where blocks fold together.
std::optional<Compute> leaf_of_own_elements(const Facts& f, int node, const Target& target);
// Cycles of a contraction, in so many parts, whose threads have outputs of their own, or whose blocks fold them: what
// the second cache takes for the sectors that warps read, what they issue, or what one thread waits for.
double cycles_of_threads(const Facts& f, double parts, const Target& target);
// The few rows that a block of threads folds together, for they read the same: all values of an index, or so many of
// them. No name: none, or blocks would be too few.
struct RowsOfBlock { std::string index; std::int64_t rows = 1; };
RowsOfBlock rows_of_a_block(const Compute& leaf, const Facts& f, const Target& target);
// How many threads the blocks have that go through rows of so many elements and keep so many bytes of each in shared
// memory: so many that a multiprocessor, which holds few such blocks or gets few, has enough of them.
std::int64_t threads_of_rows(double rows, double elements, double bytes, const Target& target);
// Of a map of so many elements: more than one, whose operands are on their way together, while other threads wait to
// begin.
std::int64_t elements_of_a_thread(double elements, const Target& target);
// The same of rows so short that a block of the usual size would have next to nothing to do between two barriers, and
// so many that smaller blocks fill the machine: a warp or two; 0: they are not. A warp alone folds without shared
// memory.
std::int64_t threads_of_short_rows(double rows, double elements, const Target& target);

}  // namespace tilec::codegen
