// Built-in functions that make tensors of their own: gather, scatter, sort, top_k, argmax, cumsum, prng_step …
//
//   Y = cumsum(X, 1);          X[M, N]     ⇒   Y[i, j: M, N] = +(X[i, k]), k <= j;
//   (V, I) = top_k<3>(X);      X[M, N]     ⇒   an Intrinsic Sort, its first three columns, and a Gather of X by them
//
// In:  a call, its arguments as text (some are axes or sizes, not tensors).
// Out: nodes at the end of the scope's Program, and what the call stands for: a tensor, or a tuple of them. Nothing
//      after a report.
#pragma once

#include <cstdint>
#include <string_view>

#include "poly/scope.h"

namespace tilec::poly {

struct Invocation {
  const lang::Call& call;
  std::vector<std::int64_t> parameters;                // in < >
  std::string name;                                    // for the tensor it makes (not taken yet), and the stem for
                                                       // others: fresh(scope, name)
  Span span;
};

bool is_builtin(std::string_view name);                // one of these; not `exp`, `reshape`, `f16`
std::optional<Named> invoke(Scope& scope, const Invocation& invocation);

}  // namespace tilec::poly
