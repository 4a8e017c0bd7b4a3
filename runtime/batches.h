// Which dimensions of the arguments are those of batches: the leading ones, that of the last batch first.
//
//   f(X[N], S[]) for a batch of all its inputs, called with X: 5x3, S = 2
//     ⇒  X is of the batch and S is not; it has 5 elements; f gets X: 3
//
// Of a batch of all inputs an argument without dimensions, a number or a scalar, is the same for every element.
#pragma once

#include <map>
#include <string>

#include "runtime/specialise.h"

namespace tilec::runtime {

// In:  the function; a request whose derivatives may be batches; arguments, none where nothing is known.
// Out: each batch has its inputs by name and its extent, where an argument tells it; how many dimensions in front of
//      each argument are of batches. nullopt: errors are in `diagnostics`.
using Leading = std::map<std::string, std::size_t>;
std::optional<Leading> settle_batches(const Callable& callable, const std::vector<Argument>& arguments,
    codegen::Request& request, lang::Diagnostics& diagnostics);

// Whether arguments have told the extent of each batch. Reports when they have not.
bool have_extents(const Callable& callable, const codegen::Request& request, lang::Diagnostics& diagnostics);

// The argument of one element of the batches.
Argument without_leading(Argument argument, const Leading& leading);

}  // namespace tilec::runtime
