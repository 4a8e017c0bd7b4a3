// Reverse mode: a Program that computes cotangents of inputs from inputs and cotangents of outputs.
//
//   C[i, j: M, N] = +(A[i, k] * B[k, j]);
//     ⇒  dA[i, k: M, K] = +(dC[i, j] * B[k, j]);   dB[k, j: K, N] = +(A[i, k] * dC[i, j]);
//
// In:  a Program (symbolic or bound), which outputs to start from and which inputs to differentiate by (names without
//      mark; empty: all float outputs / all float inputs).
// Out: inputs are the program's inputs, then `dO` per output of `of` in order; outputs are `dX` per name of `wrt`, in
//      that order. Forward statements that the gradient reads are kept, others are dropped. An input no output depends
//      on gets zeros.
// Errors: an integer input, an unknown name; points that nothing orders; a Rule with a tangent only.
// Keeps: sizes, requirements, rules whose targets stay.
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "lang/diagnostic.h"
#include "poly/program.h"
namespace tilec::autodiff {
std::optional<poly::Program> reverse(const poly::Program& program, const std::vector<std::string>& of,
    const std::vector<std::string>& wrt, lang::Diagnostics& diagnostics);
}  // namespace tilec::autodiff
