// Which statements share rows (rewrite/rows.h), where the model has its say.
#pragma once

#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// Rows are shared for the bytes that this saves. Long sets whose statements would rather go over their operands in
// other orders, each its own, are taken apart where the model knows that to be clearly faster.
void share_rows_that_pay(Rewriting& r);

// What the model says of a program whose rows are shared or not, whichever takes less.
double predicted_by_rows(Rewriting r, double bar);

}  // namespace tilec::codegen
