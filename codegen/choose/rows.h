// Which statements share rows (rewrite/rows.h), where the model has its say.
#pragma once

#include <optional>

#include "codegen/choose/predicted.h"
#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// Rows are shared for the bytes that this saves. Long sets whose statements would rather go over their operands in
// other orders, each its own, are taken apart where the model knows that to be clearly faster.
void share_rows_that_pay(Rewriting& r);

// A program whose rows are shared or not, whichever takes less (predicted.h).
class PlannedByRows {
 public:
  explicit PlannedByRows(Rewriting r);
  // None where nothing brings it below `wanted` milliseconds.
  static std::optional<PlannedByRows> below(double wanted, Rewriting r);

  double by_counts() const;
  std::optional<double> time(double wanted);           // none: as of Planned

 private:
  PlannedByRows(Rewriting&& r, bool shares);
  static double faster(double together, double apart);

  std::optional<Planned> together_, apart_;
};

}  // namespace tilec::codegen
