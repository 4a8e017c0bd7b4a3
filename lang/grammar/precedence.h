// A flat list of operands and operators, grouped by precedence. The nine levels of binary operators are one rule,
// `operand (operator operand)*`: it is the same language, and nesting costs three rules of stack a level instead of a
// dozen.
//
//   a + b * c - d   ⇒   (a + (b * c)) - d
#pragma once

#include <vector>

#include "lang/grammar/progress.h"

namespace tilec::lang::grammar {

struct OpAt { Op op = Op::Add; Span span; };
struct Tail { OpAt op; Expr operand; };
struct Chain { Expr first; std::vector<Tail> tails; };

// Throws TooDeep and Chained. Where `^` has an `|` beside it without parentheses, a warning joins the progress.
Expr grouped(const Chain& chain, Progress& progress);

inline Span join(Span a, Span b) { return {a.begin, b.end, a.source}; }

}  // namespace tilec::lang::grammar
