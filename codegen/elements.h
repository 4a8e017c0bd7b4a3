// The elements that a statement writes, as a box of progressions and rows over it, and what two of them have in common
// or apart.
//
//   P[y + 1, 2*x: 10, 8] = …, 0 <= y < 8, 0 <= x < 4, x <= y
//     ⇒  1 + q0 with 0 <= q0 < 8, 2 q1 with 0 <= q1 < 4, and 0 <= q0 - q1
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "poly/program.h"

namespace tilec::codegen {

// Of a dimension: first, first + step, … so many.
struct Side {
  std::int64_t first = 0, step = 1, count = 0;
  std::int64_t last() const { return first + step * (count - 1); }
  bool operator==(const Side&) const = default;
};
// 0 <= Σ coefficients[d] · q of dimension d + constant.
struct AtLeast0 { std::vector<std::int64_t> coefficients; std::int64_t constant = 0; };
struct Elements {
  std::vector<Side> sides;                             // per dimension
  std::vector<AtLeast0> rows;                          // over the places in the sides
  double box() const;                                  // how many the sides have without the rows
};

// All of a tensor of this shape.
Elements all_elements(const std::vector<std::int64_t>& shape);
// Those that a statement's hull and its rows over output indices leave; none where dimensions mix indices.
std::optional<Elements> elements_of(const poly::Statement& s);
// Whether they are seen to have no element in common.
bool apart(const Elements& a, const Elements& b);
// Those of `from` that are not among `without`, as parts that have none in common; none where sides do not fit or the
// parts are more than `most`.
std::optional<std::vector<Elements>> rest(const Elements& from, const Elements& without, std::size_t most);

}  // namespace tilec::codegen
