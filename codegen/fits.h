// Whether a group that a caller gives can be spelled: what `lower`, the leaves and the emitters rely on, with the
// reason where it does not hold. What is chosen holds all of it and is not asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/fuse.h"
#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen {

using Misfit = std::optional<std::string>;             // none: it fits

// Of the group's head. `chosen`: the group in whose place it stands, with its leaves.
Misfit loops_fault(const Plan& plan, const Group& group, const Group& chosen, const std::vector<Fused::Set>& sets,
    const Strides& strides, const Target& target);
// Of one leaf under the loops of a group whose body is complete.
Misfit leaf_fault(const Plan& plan, const Group& group, const Compute& leaf, const Compute& chosen,
    const Strides& strides, const Target& target);

// The leaf that is chosen under the group's loops; `chosen`: that of other loops.
Compute chosen_leaf(
    const Plan& plan, const Group& group, const Compute& chosen, const Strides& strides, const Target& target);

}  // namespace tilec::codegen
