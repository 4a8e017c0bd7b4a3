// What a program costs, and what backward keeps, as text: `--emit=report-text`.
//
//   statement  of        points        flop  bytes read  bytes written
//   Score      forward   …
//
//   tensor     bytes     way         why
//   P          8,388,608 recomputed  37,748,736 operations cost less than 83,886,080 for its bytes
//
// In: the stages of a compilation up to the package; with a derivative, also its split.   Out: aligned columns, exact counts.
#pragma once

#include <string>

#include "codegen/pipeline.h"

namespace tilec::codegen {

std::string report(const Stages& stages);

}  // namespace tilec::codegen
