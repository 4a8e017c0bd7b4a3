// Index expressions beside the left side: what a sum of multiples of indices says of the size it runs along.
//
//   O[y: H] = +(I[2*y + j]);                 with I[H]      ⇒  past the half, nothing is read
//   O[y, x: H, W] = +(I[x + i, y + j] * …);  with I[H, W]   ⇒  each index runs along the other's dimension
#pragma once

#include "lang/dimension/shape.h"

namespace tilec::lang::dimensions {

void look_for_strides(Tensors& here, const Contraction& c);
void look_for_swapped(Tensors& here, const Contraction& c);

}  // namespace tilec::lang::dimensions
