// Which points of a nest a loop visits: rows of the domain as exact bounds, once the dimensions around are known.
//
//   0 <= x + k - 1 < 56 with x known      ⇒   max(0, 1 - x) <= k < min(3, 57 - x)
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "codegen/loops.h"
#include "codegen/nest.h"

namespace tilec::codegen {

struct Interval { Expr lo, hi; };

class Ranges {
 public:
  explicit Ranges(const Nest& nest);

  void fix(std::size_t d, Expr value) { at_[d] = std::move(value); }
  void release(std::size_t d) { at_[d].reset(); }
  // returns what it was
  Interval limit(std::size_t d, Interval interval) { return std::exchange(limit_[d], std::move(interval)); }
  const std::optional<Expr>& at(std::size_t d) const { return at_[d]; }

  bool all_fixed(const Row& row) const;
  bool others_fixed(const Row& row, std::size_t d) const;
  // The form's constant and its fixed dimensions' part.
  Expr known_part(const Form& form) const;
  Expr holds(const Row& row, const Expr& value) const;   // 0 <= value (and value < the row's extent)
  std::optional<Expr> fixed_rows() const;              // what the rows ask whose dimensions are all fixed; none: there
                                                       // is no such row

  // Bounds of d from its limit and the rows whose other dimensions are fixed: exact.
  Interval bounds(std::size_t d) const;
  // The part of `range` where every row that couples d with a dimension not yet fixed holds for all values of that one;
  // none when there is no such row.
  std::optional<Interval> interior(std::size_t d, const Interval& range) const;

 private:
  const Nest& nest_;
  std::vector<std::optional<Expr>> at_;                // value of each dimension that is fixed here
  std::vector<Interval> limit_;                        // what the group's loops leave of each
};

// Whether rows bound outputs alone: they say which elements there are, and leaves touch no others.
bool bounds_elements(const Nest& nest);
// A proof that every output point of the box has a valid reduction point: some constant choice of taps satisfies all
// rows.
bool always_reached(const Nest& nest);
// Whether folding nothing gives what an unreached element holds.
bool identity_is_fill(const Nest& nest);

}  // namespace tilec::codegen
