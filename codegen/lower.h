// Spells a Plan out: groups become kernels (Loops), tensors become buffers.
//
// In:  a Plan and the strides of its tensors.  Out: a Lowered for the plan's target.
#pragma once

#include "codegen/lowered.h"
#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen {

Lowered lower(const Plan& plan, const Strides& strides, const Target& target);

}  // namespace tilec::codegen
