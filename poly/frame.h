// New coordinates for a statement: one map per residue class, i = start + matrix·(q; z).
//
//   dI[3*x + 2*k - 2], k the tap, three classes
//     ⇒  x = q - 2*z, k = 3*z;   x = q - 2*z - 1, k = 3*z + 2;   x = q - 2*z - 1, k = 3*z + 1
//
// In: a statement without divisors, its components.
// Out: maps that together meet every integer point once; outputs come first.
#pragma once

#include <string>
#include <vector>

#include "poly/reduce.h"
#include "poly/substitute.h"

namespace tilec::poly {

inline constexpr const char* fresh = "";               // an index that needs a name; given at the end

struct Placement { Map map; std::vector<std::string> names; };

// Which components are split into classes: the ones with the fewest first, while the product stays within the limit.
std::vector<bool> choose_split(const std::vector<Component>& parts, int class_limit);
std::vector<Placement> placements(
    const Statement& statement, const std::vector<Component>& parts, const std::vector<bool>& split);

}  // namespace tilec::poly
