// What this machine reaches: the rates of a matrix product and of a sum over memory, measured by tilec itself, so that
// a share of them is a share of what is known to be reached here, not of a data sheet; and what a call takes at least
// by them.
#pragma once

#include "codegen/request.h"
#include "runtime/module.h"

namespace tilec::cli {

struct Rates { double operations = 0, bytes = 0; };      // a second; 0: not known
Rates rates_of(const codegen::Request& like);            // of its target and threads; none but a CPU's are known

double bytes_of(const runtime::Module& module);          // of inputs and outputs
double least_seconds(double operations, double bytes, const Rates& rates);  // 0: not known

}  // namespace tilec::cli
