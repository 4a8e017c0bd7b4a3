// What a directive of a plan does for its program, in words with numbers: for `tilec explain`.
//
//   split S  over k  by 32768
//     ⇒  "1,000,003 points for 1 element: parts of 32,768 of k are folded side by side, then the 31 parts"
#pragma once

#include <string>

#include "codegen/plan.h"
#include "codegen/rewrite/directive.h"
#include "poly/program.h"

namespace tilec::codegen {

std::string reason(const Directive& directive, const poly::Program& reduced, const Plan& plan);

}  // namespace tilec::codegen
