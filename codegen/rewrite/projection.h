// What rows of a domain say once one index is any integer that satisfies them.
//
//   s >= 0, s <= t     without s     ⇒   t >= 0
//
// Over the integers this is exact where one of the two coefficients of s is 1 (Pugh's Omega test: the dark shadow is
// the real one); other projections are not tried.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "poly/hull.h"

namespace tilec::codegen {

// What rows say of the other indices where an integer k satisfies them; nothing where that is no conjunction of rows.
std::optional<std::vector<poly::Row>> without(const std::vector<poly::Row>& rows, std::size_t k);

}  // namespace tilec::codegen
