// Sets apart what the grammar does not see: comments, blank lines, and characters that begin no token.
//
//   "A = B; // copy"   ⇒   text "A = B;        " and the trivia "// copy"
//
// In: any bytes.
// Out: text of the same length in which comments and faulty characters are blanks, each fault reported.
// Keeps: every position.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang {

struct Lexis {
  std::string text;
  std::vector<Trivia> trivia;
  std::vector<Span> faults;                            // where something was reported: an error of the grammar there
                                                       // would only repeat it
};

Lexis separate(const Source& source, std::uint32_t number, Diagnostics& diagnostics);

// The f64 nearest to a number as texts and callers write it: `1e-400` is 0. `1e400` is too large, and no infinity,
// which is written `inf`. Nothing where it is no number.
struct Real { double value; bool too_large = false; };
std::optional<Real> real_of(std::string_view text);

// `1797693134862…4224 (309 digits)`: what is longer than a line has room for.
std::string shortened(std::string_view number);

// The end of the word, number, string or mark that begins at `at`; used to say what was seen.
std::size_t token_end(std::string_view text, std::size_t at);

}  // namespace tilec::lang
