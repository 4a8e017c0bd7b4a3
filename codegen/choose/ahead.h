// How long before it is read what should be asked for, and whether a block claims the lines of its result.
//
//   dB[n, k] = +(A[m, k] * dC[m, n])   with 168 rows of dC, 128 bytes of each a step, 5.6 kB apart   ⇒   ahead 2 n
//
// A core fetches ahead what lies close to what it just read. Where each step of a sum reads another page, every step
// waits for memory. So does every store of a block that writes many rows.
#pragma once

#include "codegen/choose/facts.h"

namespace tilec::codegen {

void look_ahead(const Facts& f, Compute& leaf);
// Whether it may make the leaf's blocks narrower.
bool may_narrow(const Facts& f, const Compute& leaf);

}  // namespace tilec::codegen
