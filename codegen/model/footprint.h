// What a box of points touches of one tensor: distinct elements, cache lines, pages.
//
//   I[1000*x + c] for 10 x, 16 c of 1000, f32       ⇒   160 elements, 20 lines, 10 pages
//   I[x + k] for 54 x, 3 k                          ⇒   56 elements, 4 lines, 1 page
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/nest.h"

namespace tilec::codegen::model {

struct Footprint { double elements = 1, lines = 1, pages = 1; };

// `extent`: of each dimension of the nest.   Exact where dimensions do not overlap, or overlap without holes.
Footprint footprint(const FlatAccess& access, const std::vector<std::int64_t>& extent, std::int64_t element_bytes);

}  // namespace tilec::codegen::model
