// Bounds of each index over the rationals: exact linear programs, a dozen variables at most. An outer bound for the
// integers, and the proof that a missing bound is missing.
//
//   0 <= x + y < 5,  0 <= x - y < 6    ⇒   0 <= x <= 4, -2 <= y <= 2        intervals alone find nothing here
//
// In: rows (divisibility is left out).
// Out: intervals rounded inwards; nullopt when numbers outgrow 128 bits or pivots their cap.
#pragma once

#include <optional>
#include <vector>

#include "poly/hull.h"

namespace tilec::poly {

std::optional<Box> rational_hull(const std::vector<Row>& rows, std::size_t indices);

}  // namespace tilec::poly
