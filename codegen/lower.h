// Spells a Plan out: groups become kernels (Loops), tensors become buffers.
//
// In:  a Plan and the strides of its tensors.  Out: a Lowered for the plan's target.
#pragma once

#include <cstddef>
#include <string>

#include "codegen/lowered.h"
#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen {

// What [[name(…)]] says, with the group's number: names are given twice, and classes of one statement share theirs.
std::string kernel_name(const Plan& plan, std::size_t group);

Lowered lower(const Plan& plan, const Strides& strides, const Target& target);

}  // namespace tilec::codegen
