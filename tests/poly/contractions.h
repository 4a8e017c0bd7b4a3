// A contraction written down as numbers, and what must be true of it after bounds and defract: every point once, one
// writer per element, nothing left to divide. The other side is plain enumeration.
//
// Tensor 0 is the output; the value is a sum of all indices, so a point can be told after any change of coordinates;
// tensor 1 is read at `read`. Every access adds its rows to the domain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lang/diagnostic.h"
#include "poly/hull.h"
#include "poly/program.h"

namespace tilec::poly::testing {

using Vector = std::vector<std::int64_t>;

struct Case {
  std::vector<std::string> indices;
  std::vector<Row> rows;
  struct Form { Vector coefficients; std::int64_t constant, divisor, extent; };
  std::vector<Form> target, read;
  Aggregation aggregation = Aggregation::Sum;
};

Program program_of(const Case& c);
Program bounded(const Case& c);                        // requires that bounds has no error
std::string print(const Case& c);                      // as Tile

// (element, point, what tensor 1 is read at) of every point of the domain, sorted.
using Points = std::vector<std::vector<Vector>>;
Points brute_force(const Case& c, const Vector& low, const Vector& high);
Points among(const Case& c, const std::vector<Point>& candidates);

struct Effort { std::int64_t points = 0, loose = 0, statements = 0; };
// The contract of defract.h, then the points: `after` has exactly `expected`.
void check(const Program& after, const Points& expected, Effort& effort);

}  // namespace tilec::poly::testing
