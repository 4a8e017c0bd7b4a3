// Which indices nothing bounds, decided on coefficients alone (docs/language.md#constraints): not on sizes, so the
// answer is the same when some size is 0 and the domain happens to be empty.
//
//   0 <= i < N,  0 <= i - k        ⇒   k has no lower bound
//
// In:  a domain; coefficients may be size names, which count as numbers in general position.
// Out: for each index whether it can go to -∞ and to +∞ while every row holds.
#pragma once

#include <vector>

#include "poly/program.h"

namespace tilec::poly {

struct Escape { bool down = false, up = false; };
std::vector<Escape> escapes(const std::vector<Range>& domain, std::size_t indices);

}  // namespace tilec::poly
