// What a caller says of a plan, in the place of what would be chosen.
//
//   inline E                          no other tensor is inlined
//   no split                          nothing is cut in two stages
//   group C                           the launch of C has these loops and leaves; other launches are as chosen
//     parallel i by 8
//       contract C  block 4x2  lanes 8      its indices are as chosen, its block is not
//
// In:  the lines of a plan.  Faults are diagnostics with their place: E0560 to E0563.
#pragma once

#include <optional>
#include <vector>

#include "codegen/fuse.h"
#include "codegen/plan.h"
#include "codegen/plan_text.h"
#include "codegen/target.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

// The directives before the first group.
std::optional<Given> given_in(const std::vector<PlanLine>& lines, lang::Diagnostics& diagnostics);

// The groups take the place of those that compute the same. `plan`: as chosen for `fused`.
bool replay(Plan& plan, const Fused& fused, const std::vector<PlanLine>& lines, const Target& target,
    lang::Diagnostics& diagnostics);

}  // namespace tilec::codegen
