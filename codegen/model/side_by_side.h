// Of a thread that has all values of an output and some of a window (spell/side_by_side.h).
#pragma once

#include <cstdint>

namespace tilec::codegen::model::side_by_side {

inline constexpr std::int64_t steps_of_part = 8;       // of the innermost reduction, where no access brings more
inline constexpr std::int64_t most_neighbours = 8;     // elements of an access: 16 bytes of 16 bits each
inline constexpr std::int64_t most_folds = 2048;       // that stand side by side: 32 KB of instructions
inline constexpr std::int64_t line_bytes = 128;        // of memory, that neighbours of a warp fill

}  // namespace tilec::codegen::model::side_by_side
