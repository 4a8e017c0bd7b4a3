// A contraction a box of its indices at a time, in one launch with the copies that only it needs: those become copies
// of a box.
//
//   A_t[k, m] = =(A[m, k]);  C_s[m, n] = +(A_t[k, m] * B[k, n]);  C[n, m] = =(C_s[m, n])      by 64 of m, 128 of k
//     ⇒  one launch; a turn has 64 m, and 128 k after 128 k; A_t and C_s are memory of a turn (codegen/tile.h)
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// The statement at n, with the copies right before it that only it reads and the copy right behind it that alone reads
// it.
std::vector<std::size_t> tiled_with(const poly::Program& program, std::size_t n);
// Whether parts of the statement's sum may be added up, box after box.
bool may_tile(const poly::Program& program, const Strides& strides, const poly::Statement& s);
bool tiled(const Rewriting& r, TensorId target);
// A reduced index that rows mention: one value of it reaches some elements only, so no box has a part of its values.
bool bounds_outputs(const poly::Statement& s, std::size_t k);
// The statements at `nodes`, in order, share a launch. Steps smaller than the extents only.
void tile(Rewriting& r, const std::vector<std::size_t>& nodes, std::vector<std::pair<std::string, std::int64_t>> steps);

}  // namespace tilec::codegen
