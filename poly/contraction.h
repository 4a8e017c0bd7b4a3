// Contractions: index expressions, domain, fold and fill written out.
//
//   O[i: N/2] = >(X[2*i + j]), j < 2    ⇒   domain 0 <= i < N/2, 0 <= 2*i + j < N, 0 <= j < 2; fold Max; fill 0
//
// In:  a contraction.   Out: one Statement at the end of the scope's Program.
#pragma once

#include "poly/scope.h"

namespace tilec::poly {

struct ContractionOptions {
  std::optional<DType> dtype = {};                     // of the target, written by the user
  Ties ties = Ties::Split;
  std::string kernel_name = {};
  std::optional<Span> ties_span = {};                  // where `[[ties(…)]]` stands
};

// A number as an element of `type`. It is not cast: an element that the type does not have is not what was written.
std::optional<Expr> exactly(const Scalar& value, DType type);
std::optional<Aggregation> aggregation_named(std::string_view name);  // sum product max min assign
std::optional<Named> contraction(
    Scope& scope, const lang::Contraction& c, const ContractionOptions& options, Span span);

}  // namespace tilec::poly
