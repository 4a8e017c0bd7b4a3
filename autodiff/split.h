// Forward and gradient in one Program ⇒ two Programs. The tensors that go from one to the other are the residuals.
//
//   E = exp(X);  Y = E * A;  dE = dY * A;  dX = dE * E;           inputs X, A, dY; outputs Y, dX
//     ⇒  forward   X, A ⇒ Y, [E]         E = exp(X);  Y = E * A;
//        backward  A, X or E, dY ⇒ dX    E = exp(X) again or handed over;  dE = dY * A;  dX = dE * E;
//
// The rule: an operation costs 1 (a division, a function or a comparison of a sort 8: poly/count.h), a byte that
// crosses `operations_per_byte`. A saved tensor crosses twice, an input or output of the forward that backward reads
// once, a recomputed one costs its operations and what it reads. Of all choices the cheapest is taken (a minimum cut);
// [[save]] and [[recompute]] decide for their tensor. Where more would be saved than there is room for, operations are
// counted as cheaper until it fits. A maximum and the values it is compared with come from one side: both are saved, or
// both made again, or the values are made again by arithmetic that has no choice in rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lang/diagnostic.h"
#include "poly/program.h"

namespace tilec::autodiff {

// What a core does while a byte comes from memory: 4.3 on Zen4, 6 on Zen5. `narrow`: how many operations of a sum of
// products of two reads of 16 bits count as one.
struct Roofline { std::int64_t operations_per_byte = 5, narrow = 1; };
struct Prices {
  Roofline roofline = {};
  std::optional<std::int64_t> room = std::nullopt;     // bytes that may be saved; none: as many as pay
};

enum class Way { Input, Output, Saved, Recomputed };
// A tensor of the joint Program that backward has, one way or another.
struct Residual {
  poly::TensorId tensor;
  Way way;
  poly::Keep asked = poly::Keep::Free;
  std::int64_t bytes = 0, operations = 0;              // of the tensor; of the statement that makes it (weighted)
  std::int64_t cost_saved = 0, cost_recomputed = 0;    // what the rule compares, without what recomputing reads
};

struct Split {
  poly::Program joint;                                 // what was split
  std::size_t forward_inputs = 0, forward_outputs = 0;
  poly::Program forward;                               // inputs ⇒ outputs, then the saved tensors
  poly::Program backward;                              // inputs still needed, outputs and saved tensors,
                                                       // cotangents ⇒ gradients
  std::vector<Residual> residuals;                     // in the order in which they are made, inputs first
};

// One Program that computes both. Its inputs are those of `forward`, then the cotangents; its outputs those of
// `forward`, then the gradients. What the gradient computes again stands in it twice until simplify().
poly::Program joined(const poly::Program& forward, const poly::Program& gradient);

// In: a joint Program after simplify, bind and bounds. Nothing, and an error, when [[save]] and [[recompute]]
//     contradict each other, or more must be
//     saved than there is room for.
std::optional<Split> split(const poly::Program& joint, std::size_t forward_inputs, std::size_t forward_outputs,
    const Prices& prices, lang::Diagnostics& diagnostics);

}  // namespace tilec::autodiff
