// Which function is built, and what its inputs and size names are.
//
//   A[N, K], B[K] called with A: 3x4 f16, B: 4 f32    ⇒   tensors f16 A[3, 4], f32 B[4]; N = 3, K = 4
//   the same called with nothing                      ⇒   tensors f32 A[N, K], f32 B[K]
//
// In:  the text and a Signature.   Out: the scope's inputs, and its size names.
#pragma once

#include "poly/build.h"
#include "poly/scope.h"

namespace tilec::poly {

const lang::Function* chosen_function(
    const lang::File& file, const Signature& signature, lang::Diagnostics& diagnostics);
// faults set scope.failed
void declare_inputs(const lang::Function& function, const Signature& signature, Scope& scope);
// What an input with a default is where it is not given: a number that waits for its type.
Named default_of(const lang::Input& input);
// The inputs of a function that is being inlined are the arguments of its call, one each.
void declare_arguments(const lang::Function& function, const std::vector<Named>& arguments, Scope& scope);

}  // namespace tilec::poly
