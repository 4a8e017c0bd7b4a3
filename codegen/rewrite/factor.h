// Sums of products take each factor out of the sums that it does not depend on, where that saves most of the points or
// of the quotients.
//
//   dK[s, d] = +(dS[t, d, e] * V[s, e]), t >= s
//     ⇒  T[s, d, e] = +(dS[t, d, e]), t >= s;   dK[s, d] = +(T[s, d, e] * V[s, e]);
//   O[t, e] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t
//     ⇒  T[t, d, e] = +(K[s, d] * V[s, e]), s <= t;   O[t, e] = +(Q[t, d] * T[t, d, e]);
//
// T is a scan (scan.h), so the first runs T·D·E additions instead of T²·D·E. Also maxima and minima of each other,
// conditions, divisors, and what restate.h finds: `X[t - j], j >= 0` runs over s = t - j.
//
// In:  a reduced Program.   Out: the same results, sums associated otherwise; equal temporaries are one.
// Keeps: which elements hold the fill. Why it is allowed, and what it weighs: docs/decisions/factored_sums.md.
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

void factor_sums(Rewriting& r);

}  // namespace tilec::codegen
