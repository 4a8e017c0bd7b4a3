// Test cases, as the comments of a file of Tile hold them.
//
//   // ==                                             begins a block, which ends with the comment lines
//   // name: rows sum to one
//   // input { X=2x2xf32=[0 0][1 1] }                 ⇒   a Case of the function that the block touches
//   // output { Y=2x2=[0.5 0.5][0.5 0.5] }
//
// docs/testing.md has the whole notation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/derive.h"
#include "lang/ast.h"
#include "lang/diagnostic.h"
#include "poly/build.h"

namespace tilec::cli {

struct CaseValue { std::string name, value; lang::Span span; };  // `X` and `2x2xf32=[0 0][1 1]`
struct Pattern { std::string text; lang::Span span; };           // a regular expression for `CODE message`

struct Case {
  lang::Span span;                                     // of the words that begin it
  std::string name;                                    // may be empty
  std::optional<std::string> function;                 // none: the file's unnamed one
  std::vector<poly::Define> defines;
  bool called = false, random = false;                 // inputs are written, if only { }; behind `random`
  std::vector<CaseValue> inputs, outputs, gradients, tangents;  // results: `Y`, `dX` of the gradient, `tY` in forward
                                                                // mode
  std::optional<double> within;                        // instead of the rounding error that is allowed anyway
  bool check = false;
  std::vector<std::vector<codegen::Derivative>> gradchecks;  // each against differences
  std::vector<std::string> of, wrt;                    // of these and of gradients
  std::optional<Pattern> error, warning;
  bool derives() const { return !gradients.empty() || !tangents.empty() || !gradchecks.empty(); }
};

// In:  the text, and its tree when it has one (blocks that name no function belong to the one that they touch).
// Out: the cases in order of position. What is malformed is reported, each case once; those that are not are returned.
std::vector<Case> read_cases(const lang::Source& source, const lang::File* file, lang::Diagnostics& diagnostics);

}  // namespace tilec::cli
