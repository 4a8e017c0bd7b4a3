// How shapes meet in an elementwise statement: NumPy's rule on Sizes.
//
//   [M, 1, 3] with [N, 3]     ⇒   [M, N, 3]
//   [M] with [N]              ⇒   [M], and the requirement that M and N agree
//
// Which dimensions broadcast is decided here for good: those whose Size is the number 1.
#pragma once

#include "poly/scope.h"

namespace tilec::poly {

using Shape = std::vector<Size>;
struct Shaped { Shape shape; Span span; };

// Reports when numbers differ. `at` is the operation where the two meet.
std::optional<Shape> broadcast(Scope& scope, const Shaped& left, const Shaped& right, Span at);

// The element of a tensor of `shape` at a point of `result`: index k where the sizes agree, 0 where the tensor has 1.
std::vector<Affine> aligned(const Shape& shape, const Shape& result);

// Where the dimensions of a reshaped tensor come from when it only gains or loses ones: [M, 1, N] from [M, N] is {0, -,
// 1}. nullopt when elements really move. Element k of the result is the dimension of `to` that dimension k of `from`
// becomes.
std::optional<std::vector<std::optional<std::size_t>>> same_but_ones(const Shape& from, const Shape& to);

}  // namespace tilec::poly
