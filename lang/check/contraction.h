// A contraction: as many sizes as indices, an aggregation there is, and a range for each index.
//
//   O[i: M] = +(A[i] * B[k]), k < j;   ⇒   error: index `j` occurs in constraints only
#pragma once

#include "lang/check/names.h"

namespace tilec::lang::checking {

void contraction(Names& here, const Contraction& c);

}  // namespace tilec::lang::checking
