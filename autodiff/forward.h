// Forward mode: a Program that computes tangents of outputs from inputs and tangents of inputs.
//
//   C[i, j: M, N] = +(A[i, k] * B[k, j]);
//     ⇒  tC[i, j: M, N] = +(tA[i, k] * B[k, j] + A[i, k] * tB[k, j]);
//
// In:  a Program (symbolic or bound), which outputs to differentiate and by which inputs (names without mark; empty:
//      all float outputs / all float inputs).
// Out: inputs are the program's inputs, then `tX` per name of `wrt` in order; outputs are `tO` per name of `of`, in
//      that order. Forward statements that tangents read are kept, others are dropped. An output that depends on no
//      tangent is zeros.
// Errors: as reverse.h. Keeps: sizes, requirements, rules whose targets stay.
#pragma once
#include <optional>
#include <string>
#include <vector>
#include "lang/diagnostic.h"
#include "poly/program.h"
namespace tilec::autodiff {
std::optional<poly::Program> forward(const poly::Program& program, const std::vector<std::string>& of,
    const std::vector<std::string>& wrt, lang::Diagnostics& diagnostics);
}  // namespace tilec::autodiff
