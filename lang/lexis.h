// Sets apart what the grammar does not see: comments, blank lines, and characters that begin no token.
//
//   "A = B; // copy"   ⇒   text "A = B;        " and the trivia "// copy"
//
// In:  any bytes.   Out: text of the same length in which comments and faulty characters are blanks, each fault reported.
// Keeps: every position.
#pragma once

#include <string>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

struct Lexis {
  std::string text;
  std::vector<Trivia> trivia;
  std::vector<Span> faults;                            // where something was reported: an error of the grammar there would only repeat it
};

Lexis separate(const Source& source, std::uint32_t number, Diagnostics& diagnostics);

// The end of the word, number, string or mark that begins at `at`; used to say what was seen.
std::size_t token_end(std::string_view text, std::size_t at);

}  // namespace tilec::lang
