// Tokens of Tile and of the languages that people come from: what can be told of a text that is no program.
//
//   "X = A**2;  # done"   ⇒   X  =  A  *  *  2  ;  #  done
//
// Comments are left out, but for one that may be meant for a division: `X // 2;`.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace tilec::lang {

struct Token {
  std::string_view text;
  std::size_t begin = 0;
  bool touches = false, starts = false;                // touches: the one before; starts: a statement
  std::size_t end() const { return begin + text.size(); }
};
using Tokens = std::vector<Token>;

// Those that begin in [begin, stop) of the text.
Tokens tokens_of(std::string_view text, std::size_t begin = 0, std::size_t stop = std::string_view::npos);

bool is_word(std::string_view token);
bool is_number(std::string_view token);
bool is_one_of(std::string_view token, std::string_view marks);  // one character among these

}  // namespace tilec::lang
