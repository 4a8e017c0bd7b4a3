// Steps of a reduction side by side, of a block whose rows are all taps of a window: which rows have which.
//
//   dK[j, i] += I[4 y_s + y + j - 1, …] * dO[4 y_s + y, …], rows j and i, 4 values of y
//     ⇒  each row has all four, but in the first part, where y = 0 has no j = 0, and in the last one
#pragma once

#include <functional>
#include <vector>

#include "codegen/spell/block_place.h"

namespace tilec::codegen {

// Of each row, whether it has a point in each step.
using StepsOfRows = std::vector<std::vector<bool>>;

// Whether the innermost reduction of such a block has so few values, and what bounds them is known but for the rows.
bool has_few_steps(const BlockPlace& at);
// Loops around them share what they read, from step to step. Parts of the reduction of which rows lack steps, at the
// border, are few, and spelled apart; where they are not few, all steps of such a part are asked for each row. `steps`:
// those of a block whose rows have these; none said: all.
Body spell_few_steps(const BlockPlace& at, const std::function<Body(const BlockPlace&, StepsOfRows)>& steps);

}  // namespace tilec::codegen
