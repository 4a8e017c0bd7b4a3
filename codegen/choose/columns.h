// Which statements a block of threads of a GPU computes for a strip of columns, which lie side by side: those that fold
// down the columns, and those that read these folds beside what was folded.
//
//   Mx[n, x] = >(X[n, c, x]);  E[n, c, x] = =(exp(X[n, c, x] - Mx[n, x]));  S[n, x] = +(E[n, c, x]);
//   Y[n, c, x] = =(E[n, c, x] / S[n, x])
//     ⇒  share Mx E S Y  rows n x      a turn has some x of one n: E stays in shared memory
//
// Long columns are folded in parts, within the block:  split S  over c  by 32   ⇒   S_parts and S share these rows too.
#pragma once

#include <functional>
#include <optional>

#include "codegen/choose/any_rows.h"
#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// Grown from the fold `first`. `free`: nodes of the program that may join it. None: it would save nothing.
std::optional<OpenSet> grown_by_columns(const Rewriting& r, int first, const std::function<bool(std::size_t)>& free);

// Cuts the long folds of such sets, and notes all folds of them. `shared`: the same where rows are shared already.
void split_for_columns(Rewriting& r, const Rewriting& shared);

// How many columns, of elements of so many bytes, a turn has at most of which shared memory holds `fit`: whole sectors,
// or all, where `others` times as many blocks are to fill the machine. 0: less than a sector fits.
std::int64_t columns_of_a_turn(
    std::int64_t fit, std::int64_t extent, double others, std::int64_t bytes, const Target& target);

}  // namespace tilec::codegen
