// A statement as people write it who come from NumPy, PyTorch, C or MATLAB, and statements of Tile that say the same.
//
//   Y[i, j] = E[i, j] / sum(E[i, k]) ** 2;        where the heading has E[I, J]
//     ⇒  Sum[i: I] = +(E[i, k]); Y[i, j: I, J] = =(E[i, j] / pow(Sum[i], 2));
//
// Such a text has no tree, so this works on tokens: small rewrites, one after the other, until none applies. What comes
// out may still be wrong; who shows it compiles it first (load.cpp).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::lang {

// function: where the keyword in front of it is
struct StatementText { std::size_t begin = 0, end = 0, function = 0; };

// Statements of a text, from the first token of each to behind its `;`.
class StatementTexts {
 public:
  explicit StatementTexts(std::string_view text);
  std::optional<StatementText> at(std::size_t offset) const;  // around it

 private:
  std::vector<StatementText> all_;                     // in the order of the text
};

// From `function` to in front of `{`, around an offset.
std::optional<StatementText> heading_at(std::string_view text, std::size_t offset);
// What to type in its place; nothing when no rewrite applies.
std::optional<std::string> repaired_heading(std::string_view heading);

// The statements to type in its place, and what may differ in them from what was meant, if anything.
struct Repaired { std::string text, note; };
// Nothing when no rewrite applies.
std::optional<Repaired> repaired(std::string_view text, const StatementText& statement);

}  // namespace tilec::lang
