// What a kernel adds up fits 64 bits: proven for every form of a bounded statement, or refused.
//
//   O[i: 600] = +(A[10^18*i - 999999999999999999*j]), 0 <= j < 500      ⇒  E0243: on the way the sum reaches 10^21
//
// Backends form c·i + d·j + e in the order that suits them, from 0 or from where a loop starts, and solve rows for an index. None
// of this leaves 64 bits while the sum of what each term can be at most stays below 2^61; ordinary programs stay below 2^40.
// What is larger is narrowed first: an index of one value becomes that value, an extent that no point attains comes closer.
//
// In:  a statement with its hulls (bounds.h).   Keeps: which points exist, and every value.
#pragma once

#include <optional>

#include "lang/diagnostic.h"
#include "poly/program.h"

namespace tilec::poly {

constexpr double reach_limit = 0x1p61;

// The sum of what the terms of a form can be at most, counted from 0 and from where the indices start. Rounded.
double reach(const Affine& form, const std::vector<Range>& domain);
std::optional<Statement> fitted(Statement statement, lang::Diagnostics& diagnostics);

}  // namespace tilec::poly
