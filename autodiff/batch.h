// One Program for many calls: a leading dimension in whatever depends on a batched input.
//
//   C[i, j: M, N] = +(A[i, k] * B[k, j]);          A[M, K] batched, B[K, N] not
//     ⇒  C[b, i, j: Bt, M, N] = +(A[b, i, k] * B[k, j]);
//
// The law: of every output, element b along the leading dimension is what the Program makes of element b of each
// batched input and of the others as they are. So what depends on no batched input is computed once; an output among it
// is repeated along the new dimension.
//
// In:  a Program (symbolic or bound), derivatives included; names of inputs (without mark; empty: all), none of which
//      is a size; how long the new dimension is (nothing: a new size, `Bt`).
// Out: inputs and outputs in the same order under their names; each output, and each of the inputs named, has the new
//      dimension first.
// Errors: an unknown name (with the closest one), a size, a Program without inputs.
// Keeps: requirements, borders, aggregations, [[attributes]]; a Rule whose targets get the dimension gets derivatives
//        that have it too, in which the cotangent of an operand without it is the sum over the batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lang/diagnostic.h"
#include "poly/program.h"

namespace tilec::autodiff {

std::optional<poly::Program> batch(const poly::Program& program, const std::vector<std::string>& inputs,
    std::optional<std::int64_t> extent, lang::Diagnostics& diagnostics);

}  // namespace tilec::autodiff
