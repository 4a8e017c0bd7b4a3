// Which factors leave which sums (rewrite/factor.h), by the points that are left.
//
//   O[t, e] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t, 1000 t, 64 d, 64 e
//     ⇒  s first: two statements of 4 million points in the place of 2 billion
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/target.h"
#include "poly/program.h"

namespace tilec::codegen {

constexpr std::size_t most_sums_tried = 5;             // 2⁵ choices

struct FactorChoice {
  double cost = 0;                                     // in points
  double time = 0;                                     // the same, points of sums that must be f64 twice
  std::vector<std::size_t> summed;                     // taken first; empty: as it is
  bool quotients = false;                              // for these alone
  std::int64_t chunk = 0;                              // not 0: in chunks of so many of the one index (chunks.h)
};
// Every sum of some indices before the others, and of each half the same; a triangle in chunks. `program` gives and
// takes back temporaries.
FactorChoice choose_factors(poly::Program& program, const poly::Statement& s, const Target& target);

// Of a sum as a strip and a scan (restate.h); none where it is no such sum.
std::optional<double> cost_apart(poly::Program& program, const poly::Statement& s, const Target& target);

// Points for whose time an element is stored and read again.
double stored_element(const Target& target);

// Points that will be computed.
double computed_points(const poly::Statement& s);

}  // namespace tilec::codegen
