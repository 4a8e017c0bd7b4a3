// Which sum several statements make, each for itself; where it is made once and all of them read it, points are spared
// (rewrite/factor.h).
//
//   P[t] = +(Y[t, d] * B[f, d] * R[t, f]);   S[t, f] = +(W[t] * (Y[t, d] * B[f, d]))
//     ⇒  T[t, f] = +(Y[t, d] * B[f, d]);   P[t] = +(T[t, f] * R[t, f]);   S[t, f] = W[t] * T[t, f]
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/target.h"
#include "poly/program.h"

namespace tilec::codegen {

struct CommonSum {
  std::size_t node;                                    // a statement
  std::vector<std::size_t> summed;                     // of its indices, first
};
// Of the statement at n, and of statements behind it. Empty: they have none that is worth it.
std::vector<CommonSum> choose_common_sum(poly::Program& program, std::size_t n, const Target& target);

}  // namespace tilec::codegen
