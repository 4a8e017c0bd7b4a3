// A statement as people write it who come from NumPy, PyTorch, C or MATLAB, and statements of Tile that say the same.
//
//   Y[i, j] = E[i, j] / sum(E[i, k]) ** 2;        where the heading has E[I, J]
//     ⇒  Sum[i: I] = +(E[i, k]); Y[i, j: I, J] = =(E[i, j] / pow(Sum[i], 2));
//
// Such a text has no tree, so this works on tokens: small rewrites, one after the other, until none applies. What comes out
// may still be wrong; who shows it compiles it first (load.cpp).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tilec::lang {

// A statement around `offset` in the text: from its first token to behind its `;`, or to the end of its last token.
struct StatementText { std::size_t begin = 0, end = 0, function = 0; };  // function: where the keyword in front of it is
std::optional<StatementText> statement_at(std::string_view text, std::size_t offset);

// The statements to type in its place; nothing when no rewrite applies.
std::optional<std::string> repaired(std::string_view text, const StatementText& statement);

}  // namespace tilec::lang
