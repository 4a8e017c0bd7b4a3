// Which elements a running extreme owes to one value: told from the extreme at that value and where it was last
// exceeded.
//
//   P[t] = >(X[s]), s <= t;   dX[s] = +(X[s] == P[t] ? dP[t] : 0), s <= t
//     ⇒  dX[s] = +(X[s] == P[s] && P[s] == P[t] ? dP[t] : 0), s <= t            a decay (decay.h)
//
//   F[t] = <(X[s] == P[t] ? s : none), s <= t;   dX[s] = +(F[t] == s ? dP[t] : 0), s <= t
//     ⇒  F[t] = <(X[s] == P[s] && P[s] == P[t] ? s : none), s <= t;   dX[s] = +(F[s] == s && F[s] == F[t] ? dP[t] : 0),
//        s <= t
//
//   M[t] = >(X[s]), s <= t + 2;   dX[s] = +(X[s] == M[t] ? dM[t] : 0), s <= t + 2
//     ⇒  P[v] = >(X[s]), s <= v;   M[t] = P[t + 2];   dX[s] = +(X[s] == P[t + 2] ? dM[t] : 0), s <= t + 2
//
// P rises, so a value that is the extreme at t was it from the start. The same holds of values that are rounded before
// they are compared, and of NaN, which is equal to nothing.
//
// In:  a statement of a reduced Program.   Out: nothing where it compares with no running extreme of its own points.
#pragma once

#include <optional>

#include "codegen/rewrite/rewriting.h"
#include "poly/program.h"

namespace tilec::codegen {

std::optional<poly::Statement> told_by_runs(const poly::Program& program, const poly::Statement& s);

// The running extreme at n, whose first element folds several values already or whose last one does not fold all, has
// an element for each value in a tensor that its readers read instead. False where it has, or nobody compares with it.
bool reach_all_values(Rewriting& r, std::size_t n);

}  // namespace tilec::codegen
