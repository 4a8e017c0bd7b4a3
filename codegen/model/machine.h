// What one core does in a cycle: the numbers behind every prediction, each with its unit and where it comes from.
#pragma once

#include <numeric>

#include "codegen/target.h"
#include "lang/type.h"
#include "lang/op.h"

namespace tilec::codegen::model {

// Of a level of memory, as one core sees it: cycles per line of a stream, cycles until the first line of a stream is
// there, what each of its first lines takes more, until the core fetches far enough ahead (`ramp`), and what a line of
// a stream as long takes less.
struct Level { double line, start, ahead = 0, streamed = 0; };

// Pages of 4 KiB, of which a core remembers where they are, and cycles to find another one, several at a time.
struct Pages { double remembered, found; };

struct Machine {
  const char* name;
  double gigahertz;                                    // with one core busy
  double pipe;                                         // bytes of the narrowest vector that takes a pipe for itself
  double arithmetic;                                   // bytes of vectors that a cycle multiplies and adds
  double loads, stores;                                // bytes of vectors a cycle, to and from the first-level cache
  double step;                                         // cycles from one accumulation to the next of the same register
  double unhidden;                                     // cycles of a vector load that multiply-adds beside it do not
                                                       // hide
  double exposed;                                      // of the shorter of multiply-adds and lines of the second cache
                                                       // beside them, the part that the other does not hide
  double gathered, scattered;                          // cycles for each element of a vector whose elements lie apart:
                                                       // read, written
  Level l2, l3, memory;
  double back;                                         // of the cycles of a line that is fetched, what one that is sent
                                                       // back takes beside it
  Pages near, far;                                     // what its first and its second list of pages hold
  double asked;                                        // of the cycles that a run takes to begin, where it is asked for
                                                       // some steps before
  double launch;                                       // cycles from one kernel to the next
  double turn;                                         // cycles to hand a turn of a parallel loop to the core that
                                                       // asked
  bool masks;                                          // AVX-512: functions take fewer steps, and none element by
                                                       // element
};

// The family that the CPU belongs to: by its name, else by its vectors. Of a target that is no CPU there is none: null.
const Machine* machine_of(const Target& target);

// How long an operator of a type takes, in vector multiply-adds of the same width.
double operations_of(lang::Op op, lang::DType type, const Machine& machine);

inline constexpr double line = 64;                     // bytes of a cache line, on all these CPUs
inline constexpr double page = 4096;                   // bytes
// Whether so many rows lie `step` bytes apart such that few sets of a first cache hold a line of each, while a line
// more would spread them over all sets. All these CPUs have 64 sets. Zen 5: a copy that turns 48 rows of a box, 4096
// bytes apart, took 3.7 ms, 2048 apart 2.2, 3072 apart 0.9, and 0.7 at 4224; 297 rows, read again and again, took 4.9
// ms at 1280 and 1.2 at 1216.
inline constexpr std::int64_t sets = 64, least_ways = 8, least_apart = 512;
inline bool share_sets(std::int64_t rows, std::int64_t step) {
  constexpr auto bytes = static_cast<std::int64_t>(line);
  if (step < least_apart || step % bytes != 0) return false;
  const std::int64_t shared = std::gcd(step / bytes, sets);
  return shared > 1 && rows > least_ways / 2 * (sets / shared);
}

// Bytes of a row from which on it pays to begin it at a line (docs/decisions/rows_at_lines.md). Zen 5: vectors of 117
// rows of 5072 bytes, read again and again beside stores, took 8.2 to 11.0 ms, of rows of 5184 bytes 5.6 to 8.0.
inline constexpr double row_at_lines = 256;

// Of 64 lines that are stored one after the other, how many may share a set at no cost, and cycles of each line
// whenever as many again do. Zen 5: squares of 16 x 16 turned, stored 512, 1024, 2048 and 4096 bytes apart, 1.2, 3.9, 7
// and 9.6 ns a line; along the rows 1.2, and 3.9 at 4096.
inline constexpr double share_freely = 8, crowded = 11.5;

// Lines of which a block stores fewer elements than that take as much room of a cache as so many others. Zen 5,
// elements stored 1108 bytes apart, row by row: 0.33 ns each where the lines of a row fill 375 kB of a second cache of
// 1 MB, 0.6 to 0.95 of 500 and 600 kB, 1.1 of 750.
inline constexpr double scattered_elements = 4, scattered_room = 2;

// Part of a second cache: lines that are stored in parts, with more than that touched of such lines from one part to
// the next, wait for memory, claimed or not. Zen 5, 34 MB stored 20 bytes of a line at a time: 22 cycles a line where
// 275 lines are stored from one of its parts to the next, 30 of 1,100, 45 of 2,200 and more; 9 MB, which the last cache
// holds, 5.
inline constexpr double torn_beyond = 0.125;

// What a core follows of the lines that are asked for. Measured on the Zen 4 of machine.cpp, 128 MB read in 1 to 512
// streams by runs of 1 to 4096 lines: up to 16 streams take 8 cycles a line whatever the runs; of more, lines take 40,
// 27, 21, 20, 12, 9 cycles in runs of 1, 4, 16, 64, 256, 1024. In pages of 4 KiB, which NumPy has of arrays below 4 MB,
// 15 for a stream and 53, 37, 29, 29, 20, 16. Rows less than a page apart that lie one behind the other, of which
// vector after vector is read of each in turn, are streams as well: rows of 160, 228 and 512 bytes, 185, 100 and 64 of
// them, take 13, 22 and 19 cycles a line by vectors of 64 bytes, 28, 40 and 27 by vectors of 16, and 6 row by row. From
// the last cache, 6 MB, nothing of this is seen: 4 cycles in runs of one line, else 3. Asked for into the first cache,
// scattered lines take 24 to 45 cycles, as if nobody asked: some twenty of them are under way. Into the second, 64
// lines ahead, 11 to 20.
inline constexpr double streams = 16;                  // side by side
inline constexpr double reach = page / 2;              // bytes: a step as wide, or less, goes on with a stream
inline constexpr double ramp = 128;                    // lines
inline constexpr double beside_writes = 2;             // lines of streams that take no less for each that moves for a
                                                       // result

}  // namespace tilec::codegen::model
