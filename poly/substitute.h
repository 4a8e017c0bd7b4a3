// One statement in new coordinates.
//
//   dI[3*x + 2*k - 2] += dO[x] * K[k]   with x = q - 2*z, k = 3*z    ⇒    dI[3*q - 2] += dO[q - 2*z] * K[3*z]
//
// In:  a bound statement and integers M, start with i = M j + start.
// Out: every Affine composed with it, the domain's too (so its first rows need not be hulls any more).
// Keeps: aggregation, fill, names of tensors, divisors where the composition does not cancel them.
#pragma once

#include <string>
#include <vector>

#include "poly/lattice.h"
#include "poly/program.h"

namespace tilec::poly {

struct Map {
  lattice::Matrix matrix;                              // old indices × new indices
  lattice::Vector start;                               // per old index
};
Statement substitute(const Statement& statement, const Map& map, std::vector<std::string> names);

}  // namespace tilec::poly
