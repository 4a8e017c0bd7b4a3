// What a plain number is that a caller gives for an undeclared scalar: the program shows what it meets
// (docs/decisions/weak_numbers.md).
//
//   u8 X, Y = X * S, called with S = 300  ⇒  S is a u8: 300 is refused (E0215), now and when the kernel is called again
//   the gradient of X * S, called with S = 2   ⇒   S is an f64: 2 and 2.0 have the same derivatives
//
// In: a request whose signature has the arguments.   Out: the same with such inputs typed.
#pragma once

#include "runtime/specialise.h"

namespace tilec::runtime {

poly::Number number_of(const Argument& argument);      // of one without a tensor
std::string misfit(const Argument& argument);          // `300, given for `S`,`

// `plain` holds positions in `request.signature.inputs`; false: an error is in `diagnostics`.
bool settle_numbers(const lang::File& file, const std::vector<Argument>& arguments,
    const std::vector<std::size_t>& plain, codegen::Request& request, lang::Diagnostics& diagnostics);

}  // namespace tilec::runtime
