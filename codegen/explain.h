// A compilation in words: what each statement means for loops, what was chosen for it, and the numbers behind both.
//
//   dI[3*x + 2*k - 2: 224] = +(dO[x] * K[k])
//     ⇒  "3 residue classes … dI[3*q]: k = 1 … 223 points valid, 223 executed … launch 1 …: lanes over …"
//
// In:  stages as far as the reduced Program; those of a Plan too where there is one.   Out: text for `tilec explain`.
#pragma once

#include <string>

#include "codegen/pipeline.h"

namespace tilec::codegen {

std::string explain(const Stages& stages, const Target& target);

}  // namespace tilec::codegen
