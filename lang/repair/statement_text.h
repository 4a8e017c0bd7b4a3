// Where statements and headings stand in a text that may be no program.
//
//   "function f(A[N]) -> (B) { B = A ** 2; C = 1 }"   at the `*`   ⇒   `B = A ** 2;`
#pragma once

#include <cstddef>
#include <optional>
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

}  // namespace tilec::lang
