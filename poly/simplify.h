// Shares equal statements, drops dead ones, merges chained elementwise Assigns' copies; Sum over one point becomes Assign.
// Only rewrites that keep every output bit for bit (on the interpreter) are made here; fusing for speed is codegen's.
#pragma once
#include "poly/program.h"
namespace tilec::poly {
Program simplify(const Program& program);
}  // namespace tilec::poly
