// Cycles by which a search weighs hundreds of candidates: rougher than core.h and traffic.h, which predict the plan
// that is chosen.
//
// One core, full vectors of f32. Where no other origin is given: of the Zen 4 of machine.cpp, from its instruction
// tables or fitted to the rows of `./dev bench`.
#pragma once

#include <cstdint>

#include "lang/op.h"

namespace tilec::codegen::model {

// In multiply-adds; 1 for what is none of the slow ones.   f32 with masks, rounded: operations_of in machine.h is
//                                                          exact.
int rough_operations_of(lang::Op op);

inline constexpr double pipes = 2;                     // vector multiply-adds a cycle, and vector loads (Agner Fog,
                                                       // "Zen 4": FP0 and FP1; two loads)
inline constexpr double latency = 4;                   // cycles from one accumulation to the next of the same register
                                                       // (as above: FMA)
inline constexpr double memory_bytes = 8;              // a cycle, from memory: `memory` in machine.cpp
inline constexpr double element_of_line = 16;          // f32 on a cache line
inline constexpr int factor_operations = 16;           // of a factor whose product has a scale: codegen/product.h,
                                                       // counted
inline constexpr double sorted_element = 10;           // cycles for one element in one pass of a merge

// Contractions on a GPU: choose/staged.cpp, choose/threads.cpp, choose/layout.cpp.
namespace tiles {
// cycles of a thread whose loads nobody else's hide, from one value of its sum to the next: four are on their way at a
// time (59 by the machine code)
inline constexpr double of_a_step = 60;
// elements side by side that a warp writes along n or m, and copies along its side
inline constexpr double along_n = 16, along_m = 32, of_a_copy = 128;
inline constexpr double of_a_byte = 1e-4;              // of the cycles, for each byte that an element moves: of two
                                                       // orders that take as long, the one that moves less
inline constexpr double faster_by_copies = 0.9;        // of the time, that a contraction with copies may take
}  // namespace tiles

// Blocks of accumulators: choose/blocks.cpp.
namespace blocks {
inline constexpr double load = 0.5;                    // cycles of a vector that lies side by side, and of a splat
inline constexpr std::int64_t shuffled_apart = 4;      // elements: neighbours that lie so far apart come as vectors
                                                       // that are shuffled
inline constexpr double gathered_lane = 0.5;           // cycles: one element a cycle, of which half waits for nothing
inline constexpr double scattered_lane = 1.5;          // cycles of a lane of a scan that is loaded or stored alone
inline constexpr double line_of_lane = 4;              // cycles: a gather touches a line for each lane, from the second
                                                       // cache
inline constexpr double scattered = 2.5;               // cycles of a lane that is stored alone, above one that is
                                                       // loaded: 16 lanes take 55, gathered 44
inline constexpr std::int64_t rows_to_halve = 6;       // of a block, from which on what is left is done by halves of
                                                       // it: 83 rows of a window of 11, read by gathers, 13 ms and 7.3
inline constexpr std::int64_t least_half = 4;          // lanes of a vector half as long as others
inline constexpr std::int64_t least_of_square = 4;     // rows from which on a square of registers is stored sooner than
                                                       // its lanes one by one
inline constexpr double masked = 3;                    // a vector with a mask over one without: lanes alone
inline constexpr double mask = 5;                      // cycles of a step to find the mask of a vector at a border
inline constexpr double fold_of_lanes = 12;            // cycles to fold the lanes of one output
// Of a block of threads, some fifty instructions in each of four warps, four a cycle. Threads that go along a row each,
// their neighbours' elements apart, take a wavefront for every element instead: as many for a row of 50.
inline constexpr double fold_of_threads = 64, fold_of_warp = 16;
inline constexpr double fold_of_row = 1.5;             // of one of several rows whose lanes are folded together
inline constexpr std::int64_t folded_rows = 16;        // at most: as many as full vectors have lanes
inline constexpr double folded_less = 0.85;            // of the cost, what rows must come to: they read so many streams
                                                       // in the place of one
inline constexpr double ragged_row = 12;               // cycles to set out along a range that is known at run time
                                                       // only: 24 for 60 elements of two operands, alone 10
inline constexpr double start = 12;                    // cycles around a block
inline constexpr double tap_store = 2.5;               // cycles to read, add to and write a vector of the target; to
                                                       // write it alone 1
inline constexpr double paged_row = 2;                 // cycles for each step whose row lies pages from the one before,
                                                       // where no block reads it from a cache
inline constexpr std::int64_t pages_apart = 512;       // elements of f32: half a page, beyond which a core fetches
                                                       // nothing ahead (machine.h)
inline constexpr double panel_of_l1 = 32768;           // bytes: what blocks of m read again beyond it comes from the
                                                       // second cache
inline constexpr double vector_of_l2 = 2;              // cycles
// Of what a step reads of the second cache: lines in short runs over those of a stream (machine.h); the part of a line
// that a run has beyond its length. A sum is cut where its parts, of so many steps at least, take clearly less. Intel
// Xeon of machine.cpp, products of 312 x 531 over 842 and 105 x 1340 over 794: 93 and 76 GF/s whole, 140 and 119 in
// parts of 96 and 64 steps.
inline constexpr double of_line = 1.7, torn_line = 0.5, least_of_part = 24, least_values_of_part = 2, parts_less = 0.93;
inline constexpr std::int64_t few_sets = 1024;         // bytes: rows as far apart lie on a quarter of the sets of a
                                                       // first cache, or fewer
inline constexpr double part_of_l1 = 0.75, part_of_l2 = 0.5;  // of a cache that one operand may fill before its lines
                                                              // are lost
inline constexpr double line_of_l2 = 0.7, line_of_l3 = 4;  // cycles to fetch such a line again, beyond what is hidden
// Of a result, max(0, min(1, bytes / (part_of_l3 * l3) - 1)) comes from memory. Then each of its runs takes so many
// cycles to begin, and each of its first `ramp` lines (machine.h) so many more than a line of a stream. Zen 4, blocks
// of 14 x 2 and 5 x 5 vectors of 1 to 40 MB in rows of 4 to 7 KB: to 8 MB lines take 3 to 6 cycles, from 16 MB on 30 to
// 37 with blocks one below the other and 9 to 17 side by side.
inline constexpr double part_of_l3 = 0.25;
// Rows of a block that is stored past the cache. Zen 4, a result of 37 MB: 4 x 6 took 2.2 ms where rows begin with a
// line and 2.5 where they begin 16 bytes later, as memory of NumPy does; 6 x 4 2.1 and 6.4, 12 x 2 2.2 and 8.6; through
// the cache 3.6.
inline constexpr std::int64_t streamed_rows = 4;
inline constexpr double first_of_run = 20, line_of_run = 12;
inline constexpr double of_load = 0.05;                // cycles by which a block of fewer loads wins among equals
inline constexpr double spelled_out = 384;             // operations: a block of a long expression is the expression for
                                                       // every element
// of a block; where elements lie apart, rows share their lines
inline constexpr std::int64_t most_rows = 14, most_rows_apart = 16, most_vectors = 6;
inline constexpr std::int64_t edge_rows = 12;          // of a block at the edge of its vectors
// Sums that go along rows: so many rows side by side, by vectors. Zen 4, rows of 4000 f32 times a vector: 1.9 ms by 8
// rows and 8 vectors, 2.3 by 16 vectors, 2.0 by 16 rows, and 3.5 down columns of 6 vectors.
inline constexpr std::int64_t rows_at_once = 8, vectors_along_rows = 8;
inline constexpr std::int64_t few_taps = 12;           // as many as the leaf spells out one by one
inline constexpr std::int64_t short_loop = 8;          // values: of a reduction that has fewer, another one is the
                                                       // innermost loop
inline constexpr std::int64_t short_loop_from_afar = 6;  // the same where an operand is larger than the second cache:
                                                         // 50 MB by columns of 64 bytes took 9.7 ms with the longer
                                                         // reduction innermost, 4.9 in the order of memory
// of the innermost reduction: its steps, and its accumulators in all of them; where registers hold what steps have in
// common (Zen 4, a window of 2 in blocks of 9 x 3: 2.2 ms for 4.9)
inline constexpr std::int64_t unrolled_steps = 4, unrolled_block = 64;
inline constexpr std::int64_t reduced_vectors = 4;     // accumulators of a fold of lanes: they hide `latency`
inline constexpr double lanes_worth_asking = 1.5;        // times the least by which lanes cost more, whose blocks the
                                                         // model is asked about
inline constexpr double much_less = 0.35;              // of the cost, what taps must come to: they write the target
                                                       // once for each value (docs/decisions/layouts_by_cost.md)
inline constexpr double less = 0.98;                   // of the cost, what another block must come to
inline constexpr double tie = 0.001;                   // of the cost: such blocks take equally long, and the wider
                                                       // strip is taken
// A panel that takes more of the second cache is cut into chunks, where so many blocks of m read it again.
inline constexpr double panel_part_of_l2 = 0.375;
inline constexpr std::int64_t panel_reuse = 4;
inline constexpr double steps_of_chunk = 512;          // of a reduction that is cut
// Vector operations, from which on a condition is asked before them: as long as a branch that went the other way takes,
// which happens at most as often as they are spared.
inline constexpr double asks_from = 32, question = 4;  // and to ask it
}  // namespace blocks

// The part of a fold's points that meets a condition, where nothing is known of what it compares: codegen/conditions.h.
namespace likely {
inline constexpr double equal = 0.1, other = 0.5;      // of labels, say, as many are equal; all else is as likely not
inline constexpr double few = 0.1;                     // for the sake of which lanes run over another index
}  // namespace likely

// What is asked for before it is read: choose/ahead.cpp. Measured on Zen 5 unless said
// (docs/decisions/rows_asked_ahead.md).
namespace ahead {
// Bytes from one read to the next of the same instruction: from `followed` on a core does not fetch far enough ahead by
// itself, from `apart` on nothing. Zen 4: sums over 84 rows 0.5 MB apart and 168 rows 5.6 kB apart, 128 to 192 bytes of
// each a step, took 9.8 and 7.8 ms, and 5.6 and 2.6 ms where rows are asked for.
inline constexpr double followed = 128, apart = 1024;
inline constexpr double much_more = 4;                 // times the elements of a read: another one, of a reduction
                                                       // further out, is asked for in its place
inline constexpr double kept = 1 << 19;                // bytes of an operand that a second cache keeps from one use to
                                                       // the next
inline constexpr double memory = 400;                  // cycles from asking memory for a line to having it, pages found
inline constexpr double in_flight = 2500;              // cycles of the blocks between asking and reading: several times
                                                       // as many, for memory serves many at once
inline constexpr std::int64_t most_blocks = 4, least_steps = 4, most_steps = 64;
// Blocks or turns that go ahead, where so many fit. Zen 4, sums over 560 bytes of each of 139 rows 35 kB apart, block
// by block: 5.5 ms where the next block is asked for and where nothing is, 2.6 where the one behind it is.
inline constexpr double not_next = 2;
inline constexpr std::int64_t window_steps = 16;       // what a core sees of a sum by itself
// cycles, and lines, from a block that asks to the one that reads or writes
inline constexpr double between = 900, most_lines_between = 4096;
inline constexpr double least_turns = 3.5;             // of a loop, times those that go ahead: what the last ones ask
                                                       // for nobody reads
inline constexpr double least_row = 4;                 // steps, times those that go ahead: in a shorter row turns go
                                                       // ahead if any can
inline constexpr double least_blocks = 2;               // of a row, or turns, times those that go ahead of sums
// Turns that take longer than `between` go ahead as well, where they take less than so many times as long as memory
// does: 153 of 2,700 rows of random contractions took 0.94 of the time, best 0.5; with 16 times as long another 196
// took 1.00.
inline constexpr double waits = 4;
inline constexpr std::int64_t rows_followed = 4;       // side by side
// lines that a block asks for at once; elements of its sums that it looks for lines
inline constexpr std::size_t most_of_block = 64, elements_of_block = 1024;
// Bytes from what asks to what is read of a stream all of whose loads are under masks. Sums over rows of 5, 9 and 12
// elements took 13, 9.5 and 8 ns a line, and 4.3, 2.5 and 2 where rows 256 bytes to 4 KB further are asked for; by
// whole vectors they take that by themselves.
inline constexpr double of_stream = 2048, least_of_stream = 256;
// lines that wait for no place; of a row, from which on steps ask for rows in turn; requests for a line, at most
inline constexpr std::int64_t at_once = 12, run_in_turn = 4, again_in_turn = 4;
inline constexpr double asking = 0.5;                  // cycles: a load that waits for nothing
inline constexpr double may_cost = 1;                  // of a step: all its cycles
inline constexpr double followed_far = 1 << 14;            // bytes one behind the other that a core fetches into its
                                                           // second cache by itself
inline constexpr double most_readings = 4, ever_readings = 16;  // of the same row: all but the first ask for nothing;
                                                                // of rows that are hardly computed with
inline constexpr double of_a_line = 24;                // cycles to fetch one that nobody asked for
inline constexpr std::int64_t steps_of_window = 4;     // after which a row reads what another one has, looked at
inline constexpr double most_of_step = 128;            // lines of a step with others inside it
inline constexpr double short_run = 32;                // lines: of a longer one of a fold, a core fetches most by
                                                       // itself
inline constexpr std::int64_t most_inside = 64;        // steps of the reductions inside one that asks: of more, a core
                                                       // fetches most by itself
// what is asked for and not yet read: by steps; by blocks and turns
inline constexpr double share_of_l1 = 0.25, share_of_l2 = 0.25;
// Blocks one vector wide along a row, from which on they pay: eight seeds of random contractions took 0.4 to 0.8 of the
// time in rows of 16 and more, and 1.3 to 1.5 times as long in rows of 11.
inline constexpr double strips_of_row = 16;
}  // namespace ahead

// Scans: choose/scan.cpp.
namespace scans {
inline constexpr double all_but_one = 3, decaying = 2; // times the operations: multiplied in and divided out, in f64
                                                       // and bounded; decay and add
inline constexpr std::int64_t rows_at_once = 8;        // that hide the latency of each other's sums
inline constexpr std::int64_t vectors_at_once = 4;     // of lanes across the scan, times rows: as above
inline constexpr int registers_of_lane = 2, registers_of_decay = 16;  // that a vector of sums takes
}  // namespace scans

// Copies of operands on a CPU: choose/layout.cpp.   Measured on copies of 10 KB to 100 MB in every order of three
// dimensions.
namespace copies {
// Cycles to copy one element of four bytes, read and written once, transposed in registers: from and to the second
// cache, the last, memory.
inline constexpr double in_l2 = 0.8, in_l3 = 1.6, in_memory = 3;
inline constexpr double start = 200;
inline constexpr double short_run = 8;                 // cycles for a run of elements that is no vector
inline constexpr double vector_run = 8;                // elements from which on a run is vectors
}  // namespace copies

// Boxes of a contraction: choose/boxes.cpp.   Fitted to 240 random contractions, with boxes and without
//                                             (docs/decisions/boxes.md).
namespace boxes {
// Cycles of a cache line from the second cache, the last one, memory: one after the other; each from another place.
struct Level { double streamed, scattered; };
inline constexpr Level second{1.5, 2}, last{4, 6}, memory{9, 16};
inline constexpr double long_run = 16;                 // lines from which on the hardware fetches ahead
inline constexpr double moved = 0.35, moved_in_order = 0.15;  // cycles to copy an element that is in a cache:
                                                              // transposed in registers, or as it lies
inline constexpr double of_block = 14, of_accumulator = 1.5;  // cycles to begin and end a block, and to add up one of
                                                              // its vectors
inline constexpr double most_accumulators = 24, most_rows = 12, most_vectors = 4;
inline constexpr double of_inner_loop = 6;             // cycles to begin the innermost of several reductions
inline constexpr double bounded = 1.2;                 // a contraction whose rows say which points there are, over one
                                                       // without
inline constexpr double of_box = 400;                  // cycles for the loops of a box
inline constexpr double share_of_l2 = 0.45;            // that its copies may fill; of a tensor that is not copied, half
                                                       // counts
inline constexpr double read_in_place = 0.5;
inline constexpr double torn_line = 0.9;               // lines that a run has beyond its length: it begins anywhere
inline constexpr double all_of_l3 = 0.75;              // of the last cache, beyond which tensors come from memory
inline constexpr double again_of_l2 = 0.4, again_of_l3 = 0.5;  // up to which a tensor is found there the second time
inline constexpr std::int64_t whole_lines = 32;        // elements: two lines, side by side in every tensor
}  // namespace boxes

}  // namespace tilec::codegen::model
