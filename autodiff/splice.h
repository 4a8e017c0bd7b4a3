// A Program put into another one: the derivative that a Rule brings.
//
//   gradient clip(X, Y, DY) -> (DX) { DX = max(-1.0, min(1.0, DY)); }   with  A, B, dB for X, Y, DY
//     ⇒   its statements, reading A, B and dB; the tensor that stands for DX
//
// In:  a Program whose sizes are sizes of `program`; a tensor of `program` for each of its inputs.
// Out: one tensor per output. All are new, each another one (so an output that is an input is copied), of the type and
//      with the name wish of the tensor it is a derivative of. Rules within come along.
#pragma once

#include <string>
#include <vector>

#include "lang/diagnostic.h"
#include "poly/program.h"

namespace tilec::autodiff {

struct Spliced {
  std::vector<poly::TensorId> results;
  std::vector<poly::TensorId> helpers;                 // every other new tensor
};

struct Wish { poly::TensorId like; std::string name; };

Spliced splice(poly::Program& program, const poly::Program& part, const std::vector<poly::TensorId>& inputs,
    const std::vector<Wish>& results);

enum class Mode { Gradient, Tangent };

// Reports that a rule has the other mode's derivative only, with the signature of what is missing.
void report_missing(const poly::Program& program, const poly::Rule& rule, Mode mode, lang::Diagnostics& diagnostics);

}  // namespace tilec::autodiff
