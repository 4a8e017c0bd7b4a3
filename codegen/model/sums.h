// What sums that are taken together must save or cost: those of several statements (choose/common_sums), and those of
// rows with ranges of their own (ragged.h).
#pragma once

namespace tilec::codegen::model {

// Of the points of statements that sum the same, what one sum for all of them may come to; how many it spares at least,
// for it is a launch more.
inline constexpr double common_share = 0.8, points_in_common = 1e6;

// The part of rows that have all values of a reduction in common, below which blocks of rows ask each row about those
// that they have not; cycles of a question: in a step, two for each row and one for each vector.
inline constexpr double rows_in_common = 0.5, question = 1.5;

}  // namespace tilec::codegen::model
