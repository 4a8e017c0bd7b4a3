// A leaf as the loops that it runs, outermost first: which part of the box is left inside each of them.
//
//   parallel m by 8 / contract C  m m  n n  k k  block 4x2  lanes 16, of 64 x 100 x 50
//     ⇒   m by 8, n by 32, m by 4, k by 1;   boxes 64 x 100 x 50, 8 x 100 x 50, 8 x 32 x 50, 4 x 32 x 50, 4 x 32 x 1
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "codegen/model/few.h"
#include "codegen/model/known.h"
#include "codegen/nest.h"
#include "codegen/plan.h"

namespace tilec::codegen::model {

// As many boxes, of as many dimensions each, one behind the other.
class Boxes {
 public:
  std::span<const std::int64_t> operator[](std::size_t at) const { return {extents_.data() + at * dims_, dims_}; }
  std::span<const std::int64_t> front() const { return (*this)[0]; }
  std::span<const std::int64_t> back() const { return (*this)[count_ - 1]; }
  std::size_t size() const { return count_; }
  // The first box.
  void begin(std::vector<std::int64_t> box) {
    dims_ = box.size(), count_ = 1;
    extents_ = std::move(box);
  }
  // Another like the last one, to be changed.
  std::span<std::int64_t> again() {
    extents_.resize((count_ + 1) * dims_);
    std::int64_t* const made = extents_.data() + count_++ * dims_;
    std::copy_n(made - dims_, dims_, made);
    return {made, dims_};
  }

 private:
  std::vector<std::int64_t> extents_;
  std::size_t dims_ = 0, count_ = 0;
};

struct Walk {
  // Dimensions that advance together, and how often; the last turn may be shorter: `whole` is how many there would be
  // of full length.
  struct Turns { Few<std::size_t, 2> dims; double count, whole; };
  std::vector<Turns> loops;
  Boxes boxes;                                         // one more than loops: the extents before the first one, and
                                                       // inside each
  std::size_t shared = 0;                              // how many of the loops are the group's
  double filled = 1;                                   // the part of the box that the rows of the domain leave

  // How often all loops outside box `at` turn.
  double entered(std::size_t at) const;
};

Walk walk(const Known& statement, const Group& group, const Compute& leaf);

}  // namespace tilec::codegen::model
