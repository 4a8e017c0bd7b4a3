// Makes a Program smaller without changing a bit of any output (on the interpreter); fusing for speed is codegen's.
//
//   T[i: N] = =(X[i]);  S[i: N] = +(T[i] * 1.0);  U[i: N] = =(S[i]);  Y[i: N] = =(U[i] + V[i])
//     ⇒   Y[i: N] = =(X[i] + V[i])          with V untouched, T, S, U gone
//
// - values are folded; reads that no value uses are dropped (their rows stay: the domain is its own)
// - an index with a single value is replaced by it; a fold over at most one point becomes an Assign
// - a tensor that shows another (a copy, a transpose, a constant) is read through
// - equal statements and intrinsics are made once; what no output needs is not made
// In: any Program.   Out: one for which verify() holds.   Keeps: inputs, outputs and their names, sizes, requirements, and what
// makes the target of a rule.
#pragma once
#include "poly/program.h"
namespace tilec::poly {
Program simplify(const Program& program);
}  // namespace tilec::poly
