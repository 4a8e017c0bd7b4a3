// What the built-in functions share: arguments as tensors, axes and sizes, with the fault of each; and pieces of text.
#pragma once

#include <string>
#include <vector>

#include "poly/broadcast.h"
#include "poly/builtin.h"

namespace tilec::poly {

using Texts = std::vector<std::string>;

// Argument k as a tensor: an expression becomes a statement. Nothing after a report: a tuple, for instance.
std::optional<TensorId> tensor_argument(Scope& scope, const Invocation& invocation, std::size_t k);
// Argument k as a dimension of a tensor of `rank`.
std::optional<std::size_t> axis_argument(Scope& scope, const Invocation& invocation, std::size_t k, std::size_t rank);
// Arguments k, k + 1, … as sizes, none of them negative.
std::optional<Shape> size_arguments(Scope& scope, const Invocation& invocation, std::size_t k);
// The number in < >, else `otherwise`; negative ones are refused.
std::optional<std::size_t> parameter(Scope& scope, const Invocation& invocation, std::size_t otherwise);

Span span_of(const Invocation& invocation, std::size_t k);                // of argument k
// Always nullopt: `function` needs `wanted`, but `X` is …
std::nullopt_t refuse(Scope& scope, const Invocation& invocation, std::size_t k, TensorId tensor,
    const std::string& wanted, const std::string& hint = "");
// Positions along dimensions are i32: refuses a size, where it is a number, that they cannot count.
bool positions_fit(Scope& scope, const Invocation& invocation, const Size& size);

Texts letters(std::size_t count);                      // i, j, k, …
Texts extents(std::size_t count);                      // D0, D1, …
std::string listed(const Texts& texts);                // joined by ", "
Texts with(Texts texts, std::size_t k, std::string text);
Texts without(Texts texts, std::size_t k);

// The first result of a text over tensors, called as the invocation says.
std::optional<Named> expanded(
    Scope& scope, const Invocation& invocation, const std::string& text, const std::vector<TensorId>& tensors);

// One function per built-in, by file.
using MakesTensors = std::optional<Named>(Scope&, const Invocation&);
// builtin_library.cpp
MakesTensors cumsum, cumprod, simple_reduce, softmax, logsoftmax, binary_crossentropy, reverse_grad;
MakesTensors argmax, argmin, argsort, argsort_descending, sort, top_k;    // builtin_order.cpp
MakesTensors gather, scatter;                                             // builtin_gather.cpp
MakesTensors prng_step, prng_value, prng_state;                           // builtin_random.cpp

}  // namespace tilec::poly
