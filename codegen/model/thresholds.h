// What a choice must save, or be worth, to be made. All of them by shapes alone, so that results do not depend on the number of threads.
//
// Measured on the Zen 4 of machine.cpp, where no other origin is given: about where both ways take equally long.
#pragma once

#include <cstdint>

namespace tilec::codegen::model {

// Turns and chunks.
inline constexpr double worth_a_turn = 30000;          // cycles: 8 us, several times what it takes to wake another core
inline constexpr double least_of_a_part = 1 << 15;     // points of one part of a reduction, on a CPU: as above
inline constexpr double parts_of_a_fold = 64;          // for a result with fewer elements: enough turns for any CPU
inline constexpr double least_of_a_thread_part = 2048; // points of one part, on a GPU: a block of threads has some for each
inline constexpr double blocks_of_a_multiprocessor = 8;  // that hide each other's latency

// Factors that leave a sum.
inline constexpr double factored_share = 0.5;          // of the points that are saved at least: the count is not the time
inline constexpr double stored_element = 8;            // points for whose time an element is stored and read again
inline constexpr double least_to_factor = 256;         // points: below, a launch more costs more
inline constexpr std::int64_t largest_temporary = std::int64_t{1} << 30;  // bytes

// Sorting.
inline constexpr std::int64_t longest_sorted_whole = 1 << 15;  // elements of a row: longer ones are cut when there are too few of them
inline constexpr double sorted_element = 10;           // cycles for one element in one pass of a merge

// Expressions, roughly: a multiply-add counts 1.
inline constexpr int function_operations = 8;          // a function, a quotient, a root (operations_of in machine.h is exact)
inline constexpr double operations_a_cycle = 16;       // with full vectors of f32

}  // namespace tilec::codegen::model
