// A leaf as the loops that it runs, outermost first: which part of the box is left inside each of them.
//
//   parallel m by 8 / contract C  m m  n n  k k  block 4x2  lanes 16, of 64 x 100 x 50
//     ⇒   m by 8, n by 32, m by 4, k by 1;   boxes 64 x 100 x 50, 8 x 100 x 50, 8 x 32 x 50, 4 x 32 x 50, 4 x 32 x 1
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/model/few.h"
#include "codegen/model/known.h"
#include "codegen/nest.h"
#include "codegen/plan.h"

namespace tilec::codegen::model {

struct Walk {
  // Dimensions that advance together, and how often; the last turn may be shorter: `whole` is how many there would be
  // of full length.
  struct Turns { Few<std::size_t, 2> dims; double count, whole; };
  std::vector<Turns> loops;
  std::vector<std::vector<std::int64_t>> boxes;        // one more than loops: the extents before the first one, and
                                                       // inside each
  std::size_t shared = 0;                              // how many of the loops are the group's
  double filled = 1;                                   // the part of the box that the rows of the domain leave

  // How often all loops outside box `at` turn.
  double entered(std::size_t at) const;
};

Walk walk(const Known& statement, const Group& group, const Compute& leaf);

}  // namespace tilec::codegen::model
