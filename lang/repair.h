// A statement as people write it who come from NumPy, PyTorch, C or MATLAB, and statements of Tile that say the same.
//
//   Y[i, j] = E[i, j] / sum(E[i, k]) ** 2;        where the heading has E[I, J]
//     ⇒  Sum[i: I] = +(E[i, k]); Y[i, j: I, J] = =(E[i, j] / pow(Sum[i], 2));
//
// Such a text has no tree, so this works on tokens: small rewrites, one after the other, until none applies. What comes
// out may still be wrong; who shows it compiles it first (load.cpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lang/repair/statement_text.h"

namespace tilec::lang {

// The statements to type in its place, and what may differ in them from what was meant, if anything.
struct Repaired { std::string text, note; };
// Nothing when no rewrite applies.
std::optional<Repaired> repaired(std::string_view text, const StatementText& statement);

// What to type in place of a heading; nothing when no rewrite applies.
std::optional<std::string> repaired_heading(std::string_view heading);

}  // namespace tilec::lang
