// Maps for threads whose elements are narrow: a thread has neighbours, which are one access.
//
//   map Y  m i  n j  block 5x1  lanes 128, of bf16   ⇒   map Y  over i  m j  block 8x1  lanes 128: accesses of 16 bytes
#pragma once

#include "codegen/choose/facts.h"

namespace tilec::codegen {

void join_neighbours(Compute& leaf, const Facts& f, const poly::Program& program, const Target& target);

}  // namespace tilec::codegen
