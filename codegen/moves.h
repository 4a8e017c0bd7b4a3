// Plans that are one step away from one that was compiled: what a search over plans (runtime/tune.h) tries next.
//
//   copy B  in C  order 1 0  ⇒  no copy;  copy B  in C  order 0 1;  …                     its groups are chosen anew
//   group C
//     parallel i by 80  ⇒  parallel i by 40;  parallel j by 96;  …                   its leaves are chosen anew
//       contract C  …  block 8x3     ⇒   block 4x3;  chunk 256;  other lanes, rows and orders;  …
//
// In: what was chosen, with its rewrites.
// Out: texts of whole plans. Not each of them is legal: `choose` says so, and what it comes to.
#pragma once

#include <string>
#include <vector>

#include "codegen/choice.h"
#include "codegen/target.h"

namespace tilec::codegen {

std::vector<std::string> moves(const Chosen& chosen, const Target& target);

// A plan that says all of it: where it has no directive of a stage, that there is none.
std::string whole_text(const Plan& plan);

}  // namespace tilec::codegen
