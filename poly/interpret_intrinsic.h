// What is not affine, executed by definition (program.h, at IntrinsicOp), with error bounds.
#pragma once

#include "poly/estimate.h"
#include "poly/intrinsic.h"

namespace tilec::poly {

// Fills the elements and errors of `target`, whose type and shape are set.
void run(const Intrinsic& intrinsic, const Groups& groups, const std::vector<const Stored*>& operands, Stored& target);

}  // namespace tilec::poly
