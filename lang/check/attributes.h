// Attributes of a function and of its statements: their words, where each may stand, and what it takes.
//
//   [[ties()]] function f …   ⇒   error: `ties` takes one of split, first and all
#pragma once

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang::checking {

void check_attributes(const Function& f, Diagnostics& diagnostics);

}  // namespace tilec::lang::checking
