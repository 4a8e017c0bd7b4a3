// What a fold asks of its points: one that does not meet it adds nothing.
//
//   S = +(LAB[a] == LAB[p] & a != p ? relu(R[a, p] - R[a, n]) : 0)
//     ⇒  LAB[a] == LAB[p], of a and p; a != p, of a and p: both may be asked outside of a loop over n
//   Y[t, o] = +(e == I[t] ? W[e, o] : 0)
//     ⇒  e == I[t], which tells e where t is known: there need be no loop over e
//
// Only where the choice is all of the value: of `x * (c ? 1 : 0)` a point where x is infinite adds NaN.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "codegen/nest.h"

namespace tilec::codegen {

struct Condition {
  poly::Expr asked;                                    // a part of the nest's value
  bool met;                                            // what it is where points add something
  std::vector<bool> dims;                              // of the nest, those that it depends on
  double likely;                                       // the part of the points that meet it, as far as its text tells
  struct Told { std::size_t dim; poly::Expr value; std::int64_t less; };
  std::optional<Told> told = std::nullopt;             // it holds where this reduction is `value - less`, which does
                                                       // not depend on it
};
std::vector<Condition> conditions(const Nest& nest);

// Whether rows that mention what it depends on mention nothing else: where that is known, there are elements to read.
bool asks_alone(const Nest& nest, const Condition& condition);
// Vector operations of a step, and of the reductions inside it, from which on one asks before it.
bool worth_asking(double operations);
// The part of the steps of a leaf that is left, lanes over n and blocks of `rows` of m; a step has so many vector
// operations.
double left_by(const std::vector<Condition>& all, const Nest& nest, std::optional<std::size_t> n,
    std::optional<std::size_t> m, double rows, double operations);

}  // namespace tilec::codegen
