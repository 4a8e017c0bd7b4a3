// Which elements of its target a statement reaches, as a condition on the element.
#pragma once

#include <optional>
#include <vector>

#include "poly/program.h"

namespace tilec::autodiff {

// Which elements a statement writes, where that can be said without another tensor.
//
//   O[i + N: N + M] = =(B[i]) default A;     B[M]     ⇒   o >= N           (o < N + M holds for every element)
//
// Out: forms over the element o; o is written iff all are >= 0, so every element is when there are none. Nothing when
//      that
// would take solving: a stride, or a row that couples a reduction index with others.
std::optional<std::vector<poly::Affine>> image(const poly::Statement& statement, const std::vector<poly::Size>& shape);

}  // namespace tilec::autodiff
