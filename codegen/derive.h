// One derivative of a Program, or one Program for a batch, and the names under which callers know what these take and
// give.
//
//   f(X) -> (Y)   reverse    ⇒   f(X, dY) -> (dX)
//                 forward    ⇒   f(X, tX) -> (tY)
//                 reverse with values   ⇒   f(X, dY) -> (Y, dX)
//   f(X, dY) -> (dX)   forward wrt X   ⇒   f(X, dY, tX) -> (tdX)        a Hessian-vector product
//   f(X) -> (Y)   batch     ⇒   f(X) -> (Y)             each with one dimension more, in front
//
// A parameter or result has its name by its role; only an input or a size has an older right to it (then `_1` is
// appended). Tensors and indices of the text that bear such a name step aside, so that the printed derivative and its
// callers agree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lang/diagnostic.h"
#include "poly/program.h"

namespace tilec::codegen {

struct Derivative {
  bool forward = false;                                // tangents of inputs to tangents of outputs; else reverse:
                                                       // cotangents back
  std::vector<std::string> of, wrt;                    // outputs and inputs of what is differentiated; empty: all float
                                                       // ones
  bool values = false;                                 // the outputs of what is differentiated as well, first; no other
                                                       // derivative follows
  bool batch = false;                                  // neither: the same for a batch of the inputs `wrt` (empty:
                                                       // all), see autodiff/batch.h
  std::optional<std::int64_t> extent = std::nullopt;   // of the batch; nothing: a size with a name
};

// What a program takes and gives, in order, as callers know it.
struct Ports { std::vector<std::string> inputs, outputs; };

// The ports of a derivative. An empty `of` or `wrt` means all outputs, all inputs: pass float ones.
Ports derived(const Ports& ports, const Derivative& derivative);

// The derivative of a Program, simplified, or the Program for a batch. nullopt: errors are in `diagnostics`.
std::optional<poly::Program> differentiate(
    const poly::Program& program, const Derivative& derivative, lang::Diagnostics& diagnostics);

// One Program that gives the outputs of both. Ports of the derivative have its names where no port of the program has
// them; other tensors and indices step aside.
poly::Program together(const poly::Program& program, const poly::Program& derivative);

// The same Program for some of its outputs only (all of a name, in the Program's order): what the others need is gone.
poly::Program restricted(const poly::Program& program, const std::vector<std::string>& outputs);

}  // namespace tilec::codegen
