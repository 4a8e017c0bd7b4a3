// What a point has to do with the element it falls on: the share of the element's derivative that is the point's.
//
//   +, =         all of it
//   max, min     v == O ? 1 / Cnt : 0                    Cnt = how many points reach the extreme (ties: split)
//   *            the product of the other factors        made together with what they are multiplied by (factors.h)
//
// Reverse mode puts the share of a tie on the cotangent before it goes down to the operands, forward mode on the
// tangent that has come up; so both are one matrix, at ties and zeros too. A condition is a select around everything,
// never a factor 0 or 1.
#pragma once

#include <optional>

#include "autodiff/companion.h"
#include "autodiff/factors.h"
#include "lang/diagnostic.h"

namespace tilec::autodiff {

struct Share {
  std::optional<poly::TensorId> count;                 // ties(split)
  std::optional<poly::TensorId> first;                 // ties(first): the least rank that reaches the extreme
  std::optional<poly::Affine> rank;
  std::optional<Factors> factors;                      // products

  // c · the share of a tie, for a point of a statement that has the forward reads.
  poly::Expr weighed(const Companion& companion, poly::Statement& statement, const poly::Expr& c) const;
  // The value where the point takes part, else 0; of a product, times the other factors.
  poly::Expr bracketed(const Companion& companion, poly::Statement& statement, const poly::Expr& value) const;
};

// Adds the statements that the share reads. The forward statement must be one that `has_rule` accepts.
Share share_of(const Companion& companion);

// False with an error where nothing orders the points of a product or of ties(first).
bool has_rule(const poly::Program& program, const poly::Statement& statement, lang::Diagnostics& diagnostics);

}  // namespace tilec::autodiff
