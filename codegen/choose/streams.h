// Which results are stored past the caches.
#pragma once

#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen {

// A result that is half of the last cache or more, and an output that nobody here reads, is stored past the cache. Not
// by turned blocks: they write no two vectors of a row one after the other, so where callers' memory begins within a
// line, every vector leaves parts of two (9.6 ms for 2.9 on a Zen 4).
void stream(Compute& leaf, const poly::Program& program, const Nest& nest, const Group& group, const Target& target);

}  // namespace tilec::codegen
