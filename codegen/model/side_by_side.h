// Of a thread that has all values of an output and some of a window (spell/side_by_side.h, choose/side_by_side.h).
#pragma once

#include <cstdint>

namespace tilec::codegen::model::side_by_side {

inline constexpr std::int64_t steps_of_part = 8;       // of the innermost reduction, where no access brings more
inline constexpr std::int64_t most_neighbours = 8;     // elements of an access: 16 bytes of 16 bits each
inline constexpr std::int64_t most_folds = 1024;       // that stand side by side: 16 KB of instructions
inline constexpr std::int64_t line_bytes = 128;        // of memory, that neighbours of a warp fill
inline constexpr std::int64_t most_sums = 64;          // of a thread
inline constexpr std::int64_t most_of_output = 16;     // values of the output that a thread has all of
// Instructions of an element of 16 bits that becomes an f32; what waits beside what is issued: NVRTC 13, convolutions
// of groups of 4 and 8 channels.
inline constexpr double issued_of_narrow = 1.5, not_hidden = 1.3;
// Cycles that a thread waits for each register that accesses fill, of which few are on their way: by the machine code
// of f32 groups of 16 (images of 14 x 14), 4 (28 x 28) and 8 (7 x 7) 24, 42 and 45; other warps of the multiprocessor
// hide the rest.
inline constexpr double waits_of_register = 25;
inline constexpr double not_hidden_one_by_one = 2;     // where each element of the window is an access: channels first
inline constexpr double other_registers = 30, held_of_element = 1.3;  // beside sums; of an element of the window
inline constexpr double first_cache = 227 << 10;       // bytes of a multiprocessor: CUDA C++ Programming Guide
// What other leaves take of what is estimated for them, where a side is as short as a group: by their machine code 24
// convolutions of groups of 2 to 16 channels take 1.4 to 2.2 times in stages, on tensor cores 1.05 to 2.9 where pieces
// of 16 bytes come, else 2 to 24.
inline constexpr double longer_in_stages = 1.4, longer_in_pieces = 1.2, longer_on_cores = 2;

}  // namespace tilec::codegen::model::side_by_side
