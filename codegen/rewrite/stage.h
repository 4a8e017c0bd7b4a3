// Stages a result: it is computed in an order of its dimensions that suits the lanes, and copied to where it belongs.
//
//   C[b, n, m] = +(A[b, m, k] * B[b, k, n])
//     ⇒  C_s[b, m, n] = +(A[b, m, k] * B[b, k, n]);  C[b, n, m] = =(C_s[b, m, n]);
//
// Keeps: the rounding at the store, which is that of the staged tensor; the fill of elements that no point reaches.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// False: an element that no point reaches would hold what is not known where the copy is made.
bool may_stage(const poly::Program& program, const Strides& strides, const poly::Statement& s);
// `order`: the output indices of the statement at n, outermost first. Returns where the copy stands: behind it.
std::size_t stage_result(Rewriting& r, std::size_t n, const std::vector<std::size_t>& order);

}  // namespace tilec::codegen
