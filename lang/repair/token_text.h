// A text that is rewritten token by token, and ways to find one's place in it.
//
//   "Y[i] = exp(A[i, k]) ** 2"   operand_first of the `)` is `exp`, enclosing of `k` is the second `[`;
//                                replace(`exp`, `)`, "E")   ⇒   "Y[i] = E ** 2"
//
// A place is the number of a token; size() is none. Past the end is a token that nothing looks for: half a statement
// has fewer than its beginning promises.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lang/tokens.h"

namespace tilec::lang::repair {

using Range = std::pair<std::size_t, std::size_t>;     // of tokens: the first, and the one behind the last

struct Reachable : Tokens {
  Reachable& operator=(Tokens tokens) {
    Tokens::operator=(std::move(tokens));
    return *this;
  }
  const Token& operator[](std::size_t i) const {
    static const Token none{" "};
    return i < size() ? Tokens::operator[](i) : none;
  }
};

// Where the bracket at `open` is closed; the number of tokens: nowhere.
std::size_t closing(const Tokens& tokens, std::size_t open);

// Words that stand between operands, so that brackets behind them are no call's: `else (A + B)`.
bool is_between(std::string_view word);

struct TokenText {
  std::string text;
  Reachable tokens;
  std::size_t equals = 0;                              // the `=` of the assignment; size(): none

  explicit TokenText(std::string_view own) : text(own) { read(); }
  void read();                                         // after `text` was changed in place
  bool replace(std::size_t first, std::size_t last, const std::string& with);  // tokens first … last - 1; true

  std::size_t size() const { return tokens.size(); }
  std::string_view operator[](std::size_t i) const { return tokens[i].text; }
  bool is(std::size_t i, std::string_view what) const { return i < size() && tokens[i].text == what; }
  bool word(std::size_t i) const { return i < size() && is_word(tokens[i].text); }
  std::string slice(std::size_t first, std::size_t last) const;  // tokens first … last - 1

  bool balanced() const;                               // does every bracket close what is open?
  std::size_t closing(std::size_t open) const { return repair::closing(tokens, open); }
  std::size_t opening(std::size_t close) const;
  std::size_t enclosing(std::size_t i) const;  // the innermost bracket open at token i; size() where there is none
  bool ends_operand(std::size_t i) const;
  std::size_t operand_first(
      std::size_t last) const;  // of the operand that ends at `last`: `A[i]`, `exp(X)`, `(A + B)`, `2`
  std::size_t operand_end(std::size_t first) const;    // behind the operand that begins at `first`
  Range segment(std::size_t i) const;                  // between the commas, brackets or the `=` around token i
  std::vector<Range> list(std::size_t open) const;     // between the commas of these brackets
};

}  // namespace tilec::lang::repair
