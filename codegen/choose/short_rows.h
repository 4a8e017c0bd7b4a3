// Sums of rows of some elements on a GPU: a thread that goes along a row of its own finds its warp's neighbours in
// other sectors, and a warp for each row has next to nothing to do. So a block brings its rows into shared memory as
// they lie, side by side, and each thread folds one there.
//
//   S[i] = +(A[i, j]), A of 1000000 x 33
//     ⇒  A_t[i, j] = =(A[i, j]);  S[i] = +(A_t[i, j]), which share 64 rows a turn
#pragma once

#include <optional>

#include "codegen/fuse.h"
#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// Whether it is such a sum: all that moves with the fold are short rows of inputs, which nothing reads beside the sums.
bool folds_short_rows(const Rewriting& r, const poly::Statement& s);

// How many turns of one row the set's loops have.
double rows_of(const poly::Program& program, const Fused::Set& set);

// Whether the set makes short rows in its launch and folds them: a thread for each.
bool has_short_rows(const Fused& fused, const Fused::Set& set, const Target& target);

// Copies such rows for the sums that read them; none: there are none. What becomes of a copy that no launch keeps is
// the caller's to see.
std::optional<Rewriting> staging_short_rows(const Rewriting& r);

}  // namespace tilec::codegen
