// What sums of pairs must be worth (choose/pairs.h). Measured on the Zen 4 of machine.cpp: 31 gradients of random
// contractions, both ways.
#pragma once

namespace tilec::codegen::model::pairs {

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

}  // namespace tilec::codegen::model::pairs
