// What sums of pairs must be worth (choose/pairs.h). Measured on the Zen 4 of machine.cpp: 31 gradients of random contractions, both ways.
#pragma once

namespace tilec::codegen::model::pairs {

inline constexpr double least_summed = 8;              // terms of a pair: fewer are not worth an element that is stored and read
inline constexpr double most_points = 1.25;            // of those of the windows, which leave out pairs that do not meet
inline constexpr double clearly_less = 0.8;            // of the cost of the windows as they are, whose borders the model of leaves counts too cheap
// Cycles for a line of sums that is stored, and read by a window: in the second cache, the last one, memory.
inline constexpr double in_second = 1.5, in_last = 9, in_memory = 27;

}  // namespace tilec::codegen::model::pairs
