// Which elements a running extreme owes to one value: told from the extreme at that value and where it was last exceeded.
//
//   P[t] = >(X[s]), s <= t;   dX[s] = +(X[s] == P[t] ? dP[t] : 0), s <= t
//     ⇒  dX[s] = +(X[s] == P[s] && P[s] == P[t] ? dP[t] : 0), s <= t            a decay (decay.h)
//
//   F[t] = <(X[s] == P[t] ? s : none), s <= t;   dX[s] = +(F[t] == s ? dP[t] : 0), s <= t
//     ⇒  F[t] = <(X[s] == P[s] && P[s] == P[t] ? s : none), s <= t;   dX[s] = +(F[s] == s && F[s] == F[t] ? dP[t] : 0), s <= t
//
// P rises, so a value that is the extreme at t was it from the start. The same holds of values that are rounded before they are
// compared, and of NaN, which is equal to nothing.
//
// In:  a statement of a reduced Program.   Out: nothing where it compares with no running extreme of its own points.
#pragma once

#include <optional>

#include "poly/program.h"

namespace tilec::codegen {

std::optional<poly::Statement> told_by_runs(const poly::Program& program, const poly::Statement& s);

}  // namespace tilec::codegen
