// What a thread wants for some steps of a scan is read during the steps before: a load takes as long as many steps.
//
//   scan H  along t  block 4x1  lanes 1, of a thread
//     ⇒  x[0 … 3] = X[0 … 3];  for t by 4: { next[0 … 3] = X[t + 4 … t + 7];  four steps with x;  x = next }
//
// ptxas issues these loads together, behind the steps: one wait for all. Without `next` it puts each load a few steps
// before its use, and each is waited for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/spell/scan_tile.h"

namespace tilec::codegen {

class StepsAhead {
 public:
  StepsAhead(ScanTile& tile, std::int64_t steps);

  Body allocate() const;
  // What the steps from element j on want, each of which takes a value more: for now, or as the next.
  Body read(const Expr& j, bool next);
  Body take_next() const;
  // What is computed now is the step `step` of those read for now; after `end` none.
  void begin(const Expr& step) const;
  void end() const { tile_.held.clear(); }

 private:
  struct Kept { std::size_t read; DType stored; std::string now, next; };
  Body each_step(const std::function<Body(const Expr&)>& body) const;

  ScanTile& tile_;
  std::int64_t steps_;
  std::vector<Kept> kept_;
};

}  // namespace tilec::codegen
