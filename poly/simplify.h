// Makes a Program smaller without changing a bit of any output (on the interpreter); fusing for speed is codegen's.
//
//   T[i: N] = =(X[i]);  S[i: N] = +(T[i] * 1.0);  U[i: N] = =(S[i]);  Y[i: N] = =(U[i] + V[i])
//     ⇒   Y[i: N] = =(X[i] + V[i])          with V untouched, T, S, U gone
//
// - values are folded; reads that no value uses are dropped (their rows stay: the domain is its own)
// - an index with a single value is replaced by it; a fold over at most one point becomes an Assign
// - a tensor that shows another (a copy, a transpose, a constant) is read through; what is gathered of a constant is
//   that constant
// - an indicator of a box is a condition on the index; a condition that the rows decide goes (view.h)
// - statements of one canonical form are made once (canonical.h): index names, the order of reads and of commutative
//   operands do not matter; what no output needs is not made
// - what is only copied to a part of a tensor is written there
// - a chain of Assigns is one where T, read once, would round nothing
// The target of a rule is merged with no other tensor and not read through; rules follow their tensors.
// In: any Program.   Out: one for which verify() holds.   Keeps: inputs, outputs and their names, sizes, requirements.
#pragma once
#include "poly/program.h"
namespace tilec::poly {
Program simplify(const Program& program);
}  // namespace tilec::poly
