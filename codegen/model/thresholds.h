// What a choice must save, or be worth, to be made. All of them by shapes alone, so that results do not depend on the
// number of threads.
//
// Measured on the Zen 4 of machine.cpp, where no other origin is given: about where both ways take equally long.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilec::codegen::model {

// Turns and chunks.
inline constexpr double worth_a_turn = 30000;          // cycles: 8 us, several times what it takes to wake another core
inline constexpr double least_of_a_part = 1 << 15;     // points of one part of a reduction, on a CPU: as above
inline constexpr double parts_of_a_fold = 64;          // for a result with fewer elements: enough turns for any CPU
inline constexpr double least_of_a_thread_part = 512;  // points of one part, on a GPU: a block of threads has some for
                                                       // each
inline constexpr double blocks_of_a_multiprocessor = 8;  // that hide each other's latency
// as few are one launch all the same: parts of them are a launch for each statement
inline constexpr double shared_rows_of_a_multiprocessor = 0.25;

// Factors that leave a sum.
inline constexpr double factored_share = 0.5;          // of the points that are saved at least: the count is not the
                                                       // time
inline constexpr double stored_element = 8;            // points for whose time an element is stored and read again
// Of the points of a product of three factors, what a product of matrices and what it leaves may come to: its points
// take a third to a fifth of the time (Zen 5).
inline constexpr double product_first = 1.5;
inline constexpr std::int64_t least_side_of_product = 8;  // values: registers hold a block of such sides
inline constexpr std::int64_t least_chunked = 128;     // values along a triangle
inline constexpr double product_point = 0.3;           // of a triangle's point, that one of a product of f64 matrices
                                                       // takes (Zen 5: 25 and 85 ps)
inline constexpr double points_to_chunk = 1e6;         // that are saved at least: for six launches more
inline constexpr double least_to_factor = 256;         // points: below, a launch more costs more
inline constexpr std::int64_t largest_temporary = std::int64_t{1} << 30;  // bytes

// Sorting.
inline constexpr std::int64_t longest_sorted_whole = 1 << 15;  // elements of a row: longer ones are cut when there are
                                                               // too few of them

// Expressions, roughly: a multiply-add counts 1.
inline constexpr int function_operations = 8;          // a function, a quotient, a root (operations_of in machine.h is
                                                       // exact)
inline constexpr double operations_a_cycle = 16;       // with full vectors of f32

// Turns of a group: schedule.cpp, indirect.cpp.
inline constexpr double enough_turns = 8, most_turns = 32;  // of one statement: 8 cores have one each; beyond 32
                                                            // nothing is gained
inline constexpr double turns_of_rows = 512;           // beyond which the rows of an outer loop stay in one turn
// What the model predicts: orders of loops in choose/turns.cpp, layouts in operands.cpp. Its errors are a quarter in
// the median.
inline constexpr double near_the_least = 1.3;          // of what any plan takes: below, none is sought
// Parts of a sum, in choose/splits.cpp: milliseconds of the whole, below which none are looked for, and how far it is
// from what is near the least.
inline constexpr double worth_cutting = 0.5, far_from_enough = 1.3;
inline constexpr std::int64_t parts_looked_at[] = {32, 128, 512, 2048};  // values of the index that is cut
inline constexpr double clearly_faster = 0.75;         // of what is chosen by counts, for a fold
// for maps and contractions: other loops; the same loops by parts
inline constexpr double faster_by_turns = 0.87, faster_by_parts = 0.95;
// Leaves in choose/leaves.cpp.
inline constexpr double worth_asking = 0.05;           // milliseconds of a leaf: the model takes about as long to look
                                                       // at its blocks
inline constexpr std::size_t leaves_asked_about = 8;   // those that cost least by counts
inline constexpr double faster_leaf = 0.85;            // of the leaf's time, what another must come to
inline constexpr double leaves_save = 2;               // of two plans by counts, the slower one may be the faster one
                                                       // with other leaves up to here
// The same of two layouts: of 7,500 looked at for 300 random contractions, 20 that took longer by counts were faster.
inline constexpr double leaves_of_layout_save = 1.4;
inline constexpr double largest_share = 8;             // parts of m or n
inline constexpr std::int64_t least_rows_of_turn = 64; // rows of m: fewer do not fill blocks
inline constexpr std::int64_t vectors_of_strips = 4;   // columns of a turn of blocks one vector wide are multiples of
                                                       // so many: turns of 48 had other lanes than the whole, and took
                                                       // 1.9 times as long
inline constexpr double least_shared_rows = 8;         // of a turn of statements that share rows
inline constexpr double turn_elements = 4096;          // points of such a turn, at least
inline constexpr std::int64_t blocked_rows_of_turn = 64;  // where one of them is a contraction
inline constexpr double held_in_l1 = 0.5, held_in_l2 = 0.75;  // parts of the caches that a turn may fill
inline constexpr double local_part_of_l2 = 0.5;        // that what stays in a turn may fill
// bytes of shared memory for folds and scans of the largest blocks, and what CUDA keeps for itself
inline constexpr double beside_rows = 20480, beside_rows_of_opencl = 8192;
// Steps of the sums of a contraction that is stored past the cache: a line takes half a cycle for each, and is spared
// about 14 of memory.
inline constexpr double streamed_steps = 64;
inline constexpr double streamed_part_of_l3 = 0.5;     // from which on a result that nobody reads is stored past the
                                                       // cache
// Bytes of a row that ends within a line, from which on it is streamed. Zen 5, copies of 36 MB to rows of 22, 40, 130,
// 300 and 700 elements of f32: 23, 24, 8, 3.1 and 1.8 ms streamed, 3.9, 3.1, 2.3, 1.9 and 2.0 through the cache.
inline constexpr double streamed_row = 2048;
// The same where others come between two rows: what is left of a line is written alone, long before the rest of it.
// Softmax, its gradient and layer norm of 24 MB, with streams and without: rows of 516 elements take 2.0 times as long,
// of 1012 1.44, 1508 1.18, 2516 0.98, 3508 0.89, 7012 0.81.
inline constexpr double streamed_row_of_turn = 9216;
// at most: a scatter reads all numbers in every turn
inline constexpr std::int64_t gather_turns = 32, scatter_turns = 8;
inline constexpr double narrow_gather = 3;             // times the cycles of a row, for an element that is gathered
                                                       // alone
inline constexpr std::int64_t gathered_vectors = 64;   // at once
// columns of a turn are multiples of 4 vectors, where a row has 8 at least
inline constexpr std::int64_t scattered_vectors = 4, wide_scatter = 8;

// Statements that share rows: rewrite/rows.cpp, choose/traffic.cpp (docs/decisions/shared_rows.md).
inline constexpr double worth_sharing = 250000;        // cycles: what runs longer gains nothing from one launch less
inline constexpr double beside_folds = 2048;           // bytes of shared memory of a block for the folds of its warps,
                                                       // and what CUDA keeps of it
inline constexpr double worth_parts = 4;               // bytes that sums in parts save over those that the parts move
inline constexpr double turns_of_parts = 16;           // of sums in parts
inline constexpr std::int64_t whole_parts = 16;        // a turn is a multiple of what it walks at a time
inline constexpr double clearly_fewer_bytes = 1.01;    // what other rows must save
inline constexpr int overtaken = 32;                   // statements that a later one may overtake
inline constexpr int heavy_set = 512;                  // operations for an element: a longer set gains nothing more
                                                       // from the cache, and no other step has its kernel
inline constexpr std::int64_t strips_wanted = 8;       // for other cores
inline constexpr std::int64_t narrowest_strip = 32;    // elements, two lines: of one line a row, nothing is fetched
                                                       // ahead (measured on columns of 900 x 3500)

inline constexpr double worth_parting = 1e5;           // cycles of a program, by counts: below, sets stay as they are
inline constexpr double worth_pairs = 2e5;             // the same: below, pairs that save little are not predicted
inline constexpr double faster_apart = 0.95;           // of what the program takes by sets, what it must come to
                                                       // without one
inline constexpr std::size_t most_sets_to_part = 8;    // of a program: each is planned without, as a whole

// Producers that are computed where they are read: rewrite/inline.cpp.
inline constexpr int largest_inlined = 80;             // nodes of the value that results
inline constexpr std::size_t most_reads = 10;          // of it
inline constexpr int light = 3;                        // operations that cost less than storing and reading an element
// of a chain that a thread of a GPU goes through: the gradient of a gelu has 170 different ones
inline constexpr std::size_t largest_of_chain = 512, most_reads_of_chain = 16;
inline constexpr double reads_of_copy = 2, reads_of_value = 1.5;  // of each element, up to which it is computed again

// Copies and panels of operands: operands.cpp (docs/decisions/transposed_copy.md).
inline constexpr double reuse_that_pays = 12;          // reads of each element
inline constexpr double reuse_of_panels = 128;         // as above, where rows stand on pages of their own
inline constexpr double large_for_panels = 8;          // second caches that the operand fills: then pages do not matter
inline constexpr std::int64_t panel_vectors = 4;       // the width of a panel
inline constexpr std::int64_t few_lanes = 8;           // values of an index: fewer do not fill a vector of f32

// Layouts and boxes of a contraction: choose/layout.cpp (docs/decisions/layouts_by_cost.md, boxes.md).
inline constexpr double worth_a_search = 30000;        // cycles: below, no layout saves what it takes to think about
inline constexpr double clearly_less = 0.7;            // of today's cost, for the estimates are rough
inline constexpr std::size_t layouts_looked_at = 16;   // of those that cost least by the rough estimate, that the model
                                                       // predicts
inline constexpr std::size_t moved_looked_at = 4;      // of those that move one index of lanes
// Of what another layout must come to, for one that moves an index, or whose result goes to its place by boxes of
// batches: 12 of 13 rows of the scan that promised so much were faster, of the others half.
inline constexpr double faster_where_doubtful = 0.85;
// Of the time with a copy of rows that a gather makes, or that a scatter adds up, and elements of a row from which on
// anybody asks.
inline constexpr double faster_by_seeking = 0.9, row_worth_seeking = 32;
inline constexpr double faster_by_prediction = 0.97;   // of the first one's time, what another must come to
inline constexpr double near_the_best = 1.3;           // of the cycles of the multiply-adds alone
// Where memory decides, which is where a layout takes three times its multiply-adds, boxes are chosen up to this many
// times what the best layout without costs: that estimate knows less of the memory and promises too much. Fitted to the
// measured times of 240 random contractions, with and without.
inline constexpr double memory_decides = 3, boxes_up_to = 1.65;
// Boxes that were chosen are tried longer and shorter, one index at a time, in so many rounds; one that the model says
// is this much faster is taken.
inline constexpr int rounds_of_boxes = 2;
// Of what takes at least so many milliseconds, and so many times what would be enough, layouts are tried that differ by
// one dimension's place.
inline constexpr double worth_other_orders = 0.5, far_from_orders = 1.8, faster_by_an_order = 0.87;
inline constexpr int rounds_of_orders = 2;
inline constexpr double factors_of_boxes[] = {4, 2, 0.5}, faster_by_a_box = 0.95;
inline constexpr double boxes_save = 1.3;              // of a layout without: other boxes may be the faster ones
// Where multiply-adds take so many times what the tensors take to stream, panels and chunks hold what is read again:
// convolutions of 14 x 14 and 7 x 7 by 256 and 512 channels took 1.3 times as long in boxes.
inline constexpr double mostly_computes = 12;

// What sums of pairs must be worth: choose/pairs.cpp. Measured on 31 gradients of random contractions, both ways.
namespace pairs {
inline constexpr double least_summed = 4;              // terms of a pair: fewer are not worth an element that is stored
                                                       // and read
inline constexpr double most_points = 1.25;            // of those of the windows, which leave out pairs that do not
                                                       // meet
// Of the cost of the windows as they are: where their lanes meet borders, which the model of leaves counts too cheap;
// elsewhere, as in convolutions whose lanes are channels (14 x 14, 256 channels, took 1.15 times as long).
inline constexpr double clearly_less = 0.8, much_less = 0.42;
inline constexpr double hardly_more = 4;               // of that cost: up to there the model is asked
// Of what the model says of the windows. Zen 4, 26 gradients: pairs predicted at 0.75 to 1.3 of the windows took 0.75
// to 0.92 of their time.
inline constexpr double windows_take = 1.2;
// Part of the last cache: of sums of pairs that are larger, what is written is gone when it is read, and the model is
// taken at its word. Zen 5, 32 gradients that it predicts at 1 to 1.2 of the windows: pairs of 6.6 to 32 MB took 1.16
// to 1.9 times as long as the windows, smaller ones 0.6 to 1.6.
inline constexpr double kept_pairs = 0.2;
// Cycles for a line of sums that is stored, and read by a window: in the second cache, the last one, memory.
inline constexpr double in_second = 1.5, in_last = 9, in_memory = 27;
}  // namespace pairs

// Scans: scan.cpp, window.cpp (docs/decisions/scans.md).
inline constexpr double scan_vectors = 4;              // rows side by side that are one unit
inline constexpr double scans_wanted = 64;             // units: with a quarter of them, nothing is cut into blocks
inline constexpr double scan_worth_blocks = 32;        // times half of the first cache: what fits is read twice for
                                                       // nothing
inline constexpr std::int64_t scan_block = 64;         // elements: the shortest, and what all are multiples of
inline constexpr std::int64_t least_blocks = 4;
// two scans take as long as a window so wide, along the scan and across it
inline constexpr std::int64_t wide_window = 192, wide_window_across = 48;

// Sorting.
inline constexpr std::int64_t rows_to_cut = 4;         // with fewer, long rows are cut

// Threads of a GPU.   Of an H100, where no other origin is given.
namespace threads {
// Of an H100 SXM: the clock by which all cycles here are counted; what its memory moves in a second (NVIDIA's data
// sheet), and in a cycle.
inline constexpr double hertz = 1.755e9, memory_bytes_a_second = 3.35e12, memory_bytes = memory_bytes_a_second / hertz;
// What a launch adds, roughly: not measured by itself. In cycles, and in what memory moves in that time.
inline constexpr double seconds_of_a_launch = 3e-6, cycles_of_a_launch = seconds_of_a_launch * hertz,
                        bytes_of_a_launch = seconds_of_a_launch * memory_bytes_a_second;
inline constexpr std::int64_t operations_of_a_byte = 17;  // of f32, while memory brings one: 132 multiprocessors of an
                                                          // H100 do 256 a cycle, and 1909 bytes come
inline constexpr std::int64_t narrow_operations = 15;  // of 16 bits by tensor cores, in the time of one of f32
inline constexpr double wanted_of_a_multiprocessor = 1024;  // threads: half of what it holds
inline constexpr double least_of_a_thread = 4;         // elements of a row, where more threads than usual go through it
// of statements that share rows, each part of a value once: more take beyond the 64 registers that threads of large
// blocks have (the gradient of a softmax 73); half the threads where they have sums in parts too
inline constexpr std::size_t operations_of_large_blocks = 40;
inline constexpr int block_of_many_operations = 512;
inline constexpr std::int64_t block_of_opencl = 256;   // threads, whose folds leave shared memory to rows
inline constexpr std::int64_t elements_at_once = 4;    // of a map, that a thread reads before it waits
// Of a value that each element which it scales computes again: elements for each, operations, for three functions take
// less than two f32 from memory.
inline constexpr double elements_of_a_value = 64;
inline constexpr int heaviest_again = 3 * function_operations;
inline constexpr double small_sum = 1 << 20;           // bytes that are summed in next to no time beside a launch
inline constexpr std::int64_t narrow_bytes = 4;        // elements of less take as many instructions to load and store
                                                       // as others: a thread has neighbours of them
inline constexpr double waves_of_maps = 4;             // of threads that are left where a thread has several elements
inline constexpr std::int64_t most_rows = 8;           // elements of a thread
inline constexpr std::int64_t held_of_steps = 32;      // registers of a thread: what steps of a sum read at once
inline constexpr std::int64_t most_taps = 49;          // of a thread that has all of a window: accumulators
// Values of a step of a window that slides, held in registers; steps that its elements are apart at most.
inline constexpr std::int64_t most_loaded = 96, most_dilated = 4;
// Of a thread that has all taps: steps of the shorter direction side by side; parts at the border, which lack some.
inline constexpr std::int64_t most_side_by_side = 8, borders_apart = 4;
inline constexpr double worth_taps = 2;                // elements that are read, of those of such parts
inline constexpr std::int64_t side_by_side[] = {4, 5, 6, 7, 3, 8, 2};  // of so many, the first that divides
inline constexpr double taps_that_hide = 5;            // as rows_that_hide: as much as two dozen loads at a time
// Loads one behind the other in a loop, for which threads should have so many registers, whatever the blocks of a
// multiprocessor.
inline constexpr std::int64_t loads_together = 16, registers_for_loads = 128;
inline constexpr double less_of_window = 0.9;          // of what other rows load, for rows that share what they read;
                                                       // so few of these that twice as many load no less than that
inline constexpr double rows_that_hide = 2;            // of a thread, whose loads hide each other's latency
inline constexpr double least_to_stage = 1 << 20;      // points of a contraction: below, blocks are too few to fill the
                                                       // machine
inline constexpr double tiles_of_a_multiprocessor = 2; // that hide each other's latency, where sums are cut into parts
                                                       // for them
// points of an element that a block, or a thread, takes longer for than a launch
inline constexpr double least_fold_to_cut = 16384, least_column_to_cut = 256, least_tile_to_cut = 512;
// points of an element in one part of its sum, at least: where a tile computes it, where a thread does
inline constexpr double least_column_of_parts = 64;    // values of a column that threads of a block fold together
inline constexpr double least_of_a_tile_part = 64, least_of_a_column_part = 32;
inline constexpr double bytes_of_a_step = 840e3;        // while a block is at one statement of a row: 0.25 us, as the
                                                        // gradient of a layer norm takes for its 13
inline constexpr double most_cut = 4;                  // times the parts that fill the machine, where they make whole
                                                       // waves of it
inline constexpr double fewer_steps = 0.97;            // of a staged reduction, for a stage that is shorter
inline constexpr double least_parts_to_cut = 64;       // of a sum that has one for each turn of its rows: the sum of so
                                                       // few takes less than what cutting it adds
inline constexpr std::int64_t least_to_find = 256;     // terms of a scatter: two for each thread of a block
inline constexpr std::int64_t least_of_tile = 24, least_of_depth = 8;  // values of m and n, and of the reduction
// values of the reduction in a stage; bytes of both buffers
inline constexpr std::int64_t most_staged = 16, shared_of_tile = 40 << 10;
// A multiprocessor, compute capability 8 to 10: CUDA C++ Programming Guide, "Compute Capabilities"; the second cache of
// an H100 gives 7.5 TB/s to 132 of them at 1.755 GHz.
inline constexpr double issues = 4, registers = 65536, l2_bytes = 32;  // a cycle; of all threads; a cycle
inline constexpr std::int64_t other_registers = 20;    // of a thread, beside its sums, operands and what is on its way:
                                                       // measured, 125 for a tile of 128 x 128
inline constexpr double issued_of_function = 16;       // instructions of exp, tanh, a division: as NVRTC spells them
// These four are of 20 rows of bench/gpu on an H200, each with 24 tiles: what is chosen takes 1.04 times the best.
inline constexpr double turns_of_operand = 0.6;        // of shared memory, for each element of a side of a thread's
                                                       // tile, a warp: 16 bytes in two turns, and a bit
inline constexpr double issued_of_copy = 2;            // instructions for each element of the operands, a thread: its
                                                       // part of two accesses and their predicates
inline constexpr double issued_of_rows = 3;            // more, where rows of the domain bound what it copies
// More, where they are asked at each value of the reduction: by the machine code of a filter's gradient, 256 to 256
// channels of 32 images of 14 x 14, whose stages go through all reductions as one.
inline constexpr double issued_of_value = 4;
inline constexpr double sums_that_hide = 128;          // of a thread, most latencies of a block that is alone
inline constexpr std::int64_t registers_of_rows = 32;  // of a thread, where rows of the domain bound what it copies
// each other's latency; cycles of a block that is alone
inline constexpr double warps_that_hide = 8, of_one_block = 1.5;
// Of one whose sums hide most: 4096^3 took 2,879 us on an H200, where what it issues takes 2,657.
inline constexpr double of_one_block_of_many_sums = 1.08;
// Cycles that a stage takes which comes from memory and is hardly multiplied: on an H200 16384 x 4 x 4096, a block a
// multiprocessor, took 209 us for 256 of them, where its bytes take 64.
inline constexpr double of_a_stage = 1400;
inline constexpr double blocks_that_hide = 3;          // each other's latency: a stage that leaves room for
                                                       // fewer is too long
inline constexpr double better_tile = 0.97;            // of the cycles of a larger tile
struct MatrixTile {
  std::int64_t rows, columns;                          // of those warps that multiply together
  std::int64_t warps_m, warps_n;                       // how many such lie below and beside each other in a block
  std::int64_t blocks;                                 // of a multiprocessor: one multiplies while another begins or
                                                       // ends
  double rate;                                         // products in a cycle, against `matrix_rate`: of an H100, by its
                                                       // machine code
  std::int64_t warps = 1;                              // of one instruction
  std::int64_t bytes = 0;                              // of operands that it is for; 0: of any
};
inline constexpr MatrixTile matrix_tiles[] = {{64, 64, 2, 2, 2, 1}, {64, 64, 4, 2, 1, 0.95}, {64, 64, 2, 4, 1, 0.9},
    {32, 64, 2, 2, 2, 0.8}, {32, 32, 2, 2, 2, 0.6}, {64, 256, 2, 1, 1, 2.2, 4}, {128, 128, 2, 1, 1, 2.25, 4},
    {64, 128, 2, 1, 2, 2.1, 4}, {64, 64, 2, 1, 2, 1.8, 4}, {64, 256, 3, 1, 1, 2.2, 4, 4}};
// Of the products of a tile whose multiprocessor has fewer of them than it wants, as parts of a sum are weighed: where
// copies ask for their places, these are not hidden (f16 convolutions of 14 x 14 x 256, by their machine code: a block
// of 128 x 128 alone takes 18 us, each of two 10).
inline constexpr double more_of_lonely_tile = 0.3;
inline constexpr double matrix_rate = 1832;            // of operands of one byte; of two bytes half as many
inline constexpr std::int64_t most_held = 64;          // elements of a thread that come one by one, on their way in
                                                       // registers
// Instructions of a copy of 16 bytes that asks whether its rows are there: on an H200 a bf16 convolution 28 x 28 x 256
// takes 92 us in tiles of 128 x 256, 77 in those of 128 x 128, of which a multiprocessor has two.
inline constexpr double issued_of_piece = 24;
inline constexpr double copied_bytes = 48;             // a cycle, that one multiprocessor takes of the second cache to
                                                       // its shared memory, by the code of the same convolutions
inline constexpr double issued_of_element = 8;         // of a copy of one element
inline constexpr double issued_of_converted = 3;       // of an element of a piece that is converted on its way
inline constexpr double not_hidden = 0.25;             // of the products behind the reads of a tile, or the other way
                                                       // round
// Bytes of the reduction a turn, and turns in shared memory, the first that fit beside those of the other blocks: whole
// lines of operands that lie along it.
struct MatrixStages { std::int64_t depth_bytes, buffers; };
inline constexpr MatrixStages matrix_stages[] = {{128, 4}, {128, 3}, {64, 4}, {64, 3}, {64, 2}};
inline constexpr std::int64_t buffers_of_f32 = 3;      // at most, rounded to TF32: with four 4096^3 takes 901 us on an
                                                       // H200, with three 813
inline constexpr double scans_of_a_multiprocessor = 64, scans_of_a_block = 32;  // with as many, each has a thread
inline constexpr double sector = 32;                   // bytes that one access takes of memory or of the second cache
                                                       // at least: CUDA C++ Best Practices Guide, "Coalesced Access to
                                                       // Global Memory"
// Sums over triangles in chunks (choose/factors.h), of an H100: of a triangle's point, whose product is computed in
// squares, that one of a product of f64 matrices takes; points for whose time memory moves an f32 there and back.
// Mamba 2, 4 x 2048 x 16 x 64, 128 states, by its machine code: 70 us for 0.53e9 points of triangles, 75 for 1.07e9 of
// f64 products.
inline constexpr double product_point = 0.5, stored_element = 18;
// As above, of an H200: gradients of Mamba 2 in chunks took 10 to 20 times a matrix product's time for each point.
inline constexpr double product_first = 3;
inline constexpr double kept_in_l2 = 25 << 20;         // bytes: half of an H100's second cache
inline constexpr double least_rows_walked = 32;        // of a multiprocessor
inline constexpr double rows_walked = 16;              // by a block that has parts of sums over rows, and by those
                                                       // beside it on a multiprocessor: none is read again at once
inline constexpr double blocks_of_long_rows = 2;       // of a multiprocessor: of 1024 threads
inline constexpr std::int64_t least_to_turn = 8;       // values of m and n: a sector of f32
inline constexpr std::int64_t turning_blocks = 4;      // of turned maps, whose tiles shared memory holds together: they
                                                       // hide each other's latency
// Rows of so many elements have a warp each; a block folds so many that are shorter, in shared memory.
inline constexpr double least_row_of_a_warp = 64;
inline constexpr std::int64_t short_rows_of_a_block = 64;
inline constexpr std::int64_t least_to_scan = 64;      // elements that a block of threads scans
inline constexpr std::int64_t scanned_at_once = 4;     // elements of a thread
// Of a thread that scans alone: 700 cycles of a load, 40 of a step; operations or registers of all steps.
inline constexpr std::int64_t most_steps = 16;
inline constexpr double registers_of_read = 2, text_of_steps = 192;
inline constexpr double scan_units = 128, scan_wanted = 8;  // rows that are one unit; units of a multiprocessor
inline constexpr double scan_block = 2048;             // elements
inline constexpr double balance = 16;                  // operations for a byte of memory: where both take equally long
                                                       // (67 TF/s, 3.35 TB/s of an H100, less what is not reached)
inline constexpr std::int64_t warp = 32;               // CUDA C++ Programming Guide, "Hardware implementation"
// elements up to which a row is sorted by a block of so many threads; longer ones by as many as there are
inline constexpr std::int64_t sorted_row = 8192, sorting = 256;
}  // namespace threads

// Passes on GPUs (online_leaf.h).
namespace pass {
inline constexpr double least_bytes = 4 << 20;         // of products that memory would hold otherwise: a second cache
                                                       // has room for a few of them
inline constexpr double rate_apart = 0.8;              // of the multiplications of a launch of its own, of those that a
                                                       // multiprocessor can do
// of a multiprocessor; bytes that a block takes besides: CUDA C++ Programming Guide, "Compute Capabilities"
inline constexpr double threads = 2048, shared_of_block = 1024;
inline constexpr double of_turn = 400, of_element = 16;  // cycles: barriers and loads of a turn of a block that is
                                                         // alone; instructions of an element of a tile, its exponential
                                                         // among them
inline constexpr double beside = 0.3;                  // of the lesser of multiplications and accesses, which the other
                                                       // does not hide
inline constexpr double other_registers = 24;          // of a thread, beside those of staged contractions
inline constexpr double multiplied_by_warps = 2048 * 0.63;  // of a cycle by `mma.sync` of 16 bits, of an H100
inline constexpr double multiplied_by_groups = 4096 * 0.7;  // by `wgmma`
inline constexpr double of_element_on_cores = 22, of_parts = 8;  // instructions, as above, and of its three bf16
inline constexpr double of_element_in_groups = 10, of_turn_in_groups = 180;  // where `wgmma` multiplies, and of a turn:
                                                       // NVRTC 13, attention of 64 features
inline constexpr double of_block_alone = 1.1;          // whose groups wait for each other: 119 us, with another 107, on
                                                       // an H200
inline constexpr std::int64_t most_results = 64;       // registers of a product or a sum of a thread
inline constexpr double of_result = 1.5;               // registers: an element takes the place of its product, but not
                                                       // of all at once; 199 to 255 of a thread as NVRTC 13 counts them
// Of what the second cache takes for the columns of all blocks, what products do not hide: by the machine code of bf16
// 16 x 1024 x 64 in blocks of 64 and 128 rows, between 0.10 (in two sweeps 17.0 us and 14.4) and 0.21 (in one 12.8 and
// 18.7).
inline constexpr double of_copies = 0.15;
inline constexpr double line_bytes = 128;              // that shared memory gives a cycle
inline constexpr double most_growth = 5.5;             // of a maximum, before sums are brought to it: until then a term
                                                       // is up to 2^8, and sums that much closer to the largest float
inline constexpr double dearer = 1.15;                 // the time that a pass may take, by what it saves of memory
}  // namespace pass

// What a search over plans tries (moves.h): measured, so that it may be far from what the model likes.
inline constexpr std::size_t leaves_tried = 24;        // those that cost least by counts
inline constexpr std::int64_t chunks_tried[] = {64, 128, 256, 512};
inline constexpr std::int64_t panels_tried[] = {16, 32, 64, 128};
inline constexpr std::int64_t shortest_part_tried = 256;  // of a split reduction; longer ones by fours
inline constexpr std::int64_t steps_ahead_tried = 8;

}  // namespace tilec::codegen::model
