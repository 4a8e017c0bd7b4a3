// One leaf of a plan as Loops: which points, in which blocks, with which values.
//
//   contract O  m x  n co  k k ci  block 9x2  lanes 16
//     ⇒  for x_b, for co_v, for l in vector 16: registers, loops, stores
//
// In:  a nest, its leaf, what the group's loops fixed or restricted.  Out: the Body that computes the target's part.
#pragma once

#include "codegen/spelling.h"

namespace tilec::codegen {

Body spell_leaf(
    const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names);

}  // namespace tilec::codegen
