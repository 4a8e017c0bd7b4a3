// Finds the hull of every index, and drops the rows of the domain that it implies.
//
//   B[i: 8] = =(A[i + 1])            A has 8 elements
//     ⇒ 0 <= i < 7                   and a remark: `i + 1` leaves `A` at i = 7; `B[7]` gets the fill
//
// In:  a bound Program.
// Out: in every statement, domain[k] for k < indices.size() is the hull of index k, the form `index k + constant` with
//      an extent: lo <= i < hi is {coefficient 1, constant -lo, extent hi - lo}. Rows that the hull does not imply
//      follow. Indices that nothing else mentions are counted (repeat.h). An empty domain has extent 0 for every index.
//      Affines may still have divisors (reduce removes them). No sum of an index expression leaves 64 bits (fit.h).
// Errors: an index nothing bounds (named, with the direction); Assign with two points for one element (both shown);
//      an index expression that does not fit. A number on the way that does not: Overflow, thrown.
// Keeps: statement order, names, spans.
#pragma once
#include <optional>
#include "lang/diagnostic.h"
#include "poly/program.h"
namespace tilec::poly {
std::optional<Program> bounds(const Program& program, lang::Diagnostics& diagnostics);
}  // namespace tilec::poly
