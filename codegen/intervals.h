// Products over an interval, and those that leave out one factor, told from running sums of logarithms.
//
//   G[s, t] = *(A[u]), s < u, u <= t;      H[t] = +(G[s, t] * B[s]), s < t
//     ⇒  l[v] = +(log(|A[u]|)), u < v;   z[v] = +(A[u] == 0 ? 1 : 0), u < v;   g[v] = *(A[u] < 0 ? -1 : 1), u < v
//        H[t] = +((z[t+1] == z[s+1] ? g[t+1] * g[s+1] * exp(l[t+1] - l[s+1]) : 0) * B[s]), s < t
//   F[t, s] = =(X[s]), s <= t default 1;   Others[t, s] = *(s == u ? dP[t] : F[t, u]);
//   dX[s] = +(Others[t, s]), s <= t
//     ⇒  dX[s] = +(dP[t] * <the product over u <= t without s>), s <= t
//
// Both are decays (decay.h), so H and dX take a step for each element where there were T² products. Infinities and NaN
// among the factors are counted like zeros. Why logarithms, and why not in f64: docs/decisions/interval_products.md.
//
// In: a sum that reads such products.
// Out: it, and what it reads instead; nothing where it reads none, or they are no such products.
#pragma once

#include <optional>
#include <vector>

#include "poly/program.h"

namespace tilec::codegen {

struct ToldBySteps {
  std::vector<poly::Statement> before;                 // what `sum` reads
  poly::Statement sum;
};
// New tensors are added to the program.
std::optional<ToldBySteps> told_by_logs(poly::Program& program, const poly::Statement& sum);
// The same with the products themselves, which a scan multiplies by a factor for each element; nothing where the sum is
// no scan then.
std::optional<ToldBySteps> told_by_gates(poly::Program& program, const poly::Statement& sum);

}  // namespace tilec::codegen
