// Operations that mean something else in other languages.
//
//   X^2      ⇒   warning: `^` is exclusive or, bit by bit, not a power
//   1/2*A    ⇒   warning: `1/2` is a quotient of integers, which is 0
//   A[i]*(i/N), exp(i/N)   ⇒   warning: `i/N` is a quotient of integers, which is truncated
#pragma once

#include "lang/check/names.h"

namespace tilec::lang::checking {

void power(Names& here, const Binary& b, const Expr& e);  // where nothing says that integers are meant
void quotient(Names& here, const Binary& b, const Expr& e);  // of two integers: truncated
void quotient_beside_float(Names& here, const Binary& b);
void quotient_in_float(Names& here, const Call& c);    // in the argument of `exp` or another function of floats
bool of_values(const Names& here, const Expr& e);      // does it compute more than a size?

}  // namespace tilec::lang::checking
