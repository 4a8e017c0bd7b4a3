// A tile of a scan that is being spelled: which elements and values there are, and what is common to all phases.
//
//   scan Y  along j  n i  k k  block 1x4  lanes 16     ⇒   64 values of i side by side, j and k as one loop after the
//                                                          other fixes them
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/spelling.h"
#include "codegen/product.h"
#include "codegen/scan.h"

namespace tilec::codegen {

// The values [k.lo, k.hi) that there are, the elements [j.lo, j.hi) to write; from `first` on they are reached, from
// `full` on by all.
struct ScanParts {
  Interval k, j;
  Expr first = Expr(std::int64_t{0}), full = Expr(std::int64_t{0});
};

// What is known of where views of some accesses begin (View::alignment).
using Alignments = std::map<std::size_t, std::int64_t>;

struct ScanTile {
  ScanTile(const Nest& nest, const Compute& leaf, const Storage& storage, const Surroundings& around, Names& names);

  Nest nest;                                           // counted so that partial results grow
  const Compute& leaf;
  Scan scan;
  const Storage& storage;
  const Surroundings& around;
  Names& names;
  Ranges points;
  DType fold_type, target_type;
  std::size_t along, over;
  bool scaled;                                         // the fold is a product of floats: `product`
  std::optional<std::size_t> n;
  Expr n0 = Expr(std::int64_t{0});
  std::int64_t vectors = 1;
  std::optional<Expr> mask = std::nullopt;             // of the last vector of the tile
  bool started = false;                                // the first value is behind
  Scaled product = {};
  std::string acc = "", lane_name = "", target_view = "";
  std::vector<std::string> views = {};
  std::map<const void*, Expr> values = {};             // of one point
  std::map<std::size_t, Expr> held = {};               // reads of this point that are in registers (steps_ahead.h)

  // Which elements.
  ScanParts parts(Body& body);
  // How many values element j folds, as the end of a range that starts at k.lo.
  Expr end_at(const Expr& j, const ScanParts& p) const;

  // Accumulators around `inside`; what they hold in the end.
  Body registers(Body inside);
  Expr accumulator(std::int64_t v) const { return Load{acc, Expr(v), fold_type}; }
  Expr folded(Body& body, std::int64_t v);
  Expr stored_value(const Expr& x) const;

  // The value of `e` for vector v, `u` values further than the views.
  Expr value(Body& body, const poly::Expr& e, std::int64_t v, std::int64_t u);
  // Whether it takes one arm of a select at the first value only.
  bool knows_start(const poly::Expr& e) const;

  // Loops: over elements, with one value for each; of `turns` whose views move, `inside` gets its index.
  Body each_element(const Interval& range, const std::function<Expr(Body&, std::int64_t)>& value);
  Body fill(const Interval& range);
  Body loop(const std::string& stem, const Expr& turns, const std::vector<Advance>& moves,
      const std::function<Body(const Expr&)>& inside);
  std::vector<Advance> advance(std::int64_t steps, bool reads, bool target) const;
  // One turn of vector v, under the tile's mask where it has one.
  Body masked_turn(std::int64_t v, const std::function<void(Body&, std::int64_t)>& each);

  void view_of_target(Body& body, const Alignments& bytes = {});
  void views_of_reads(Body& body, const Alignments& bytes = {});
  Expr corner(std::size_t access, const Form& offset) const;
  void put(Body& body, std::int64_t v, std::int64_t place, const Expr& value);

  Expr lane() const { return lane_name.empty() ? Expr(std::int64_t{0}) : var(lane_name); }
  bool masked(std::int64_t v) const { return mask && v == vectors - 1; }
  // A number or a variable as it is; else a variable with this value.
  Expr named(Body& body, const std::string& stem, const Expr& value);

 private:
  Expr aside(const Form& offset, std::int64_t v) const;
  Expr load(const poly::Read& r, std::int64_t v, std::int64_t u) const;
  Expr index_value(const Form& f, std::int64_t v, std::int64_t u) const;
  std::optional<std::int64_t> start_of(const poly::Expr& condition) const;
  bool starts(const poly::Expr& e) const;
};

inline Expr clamped(const Expr& value, const Interval& range) { return maximum(range.lo, minimum(value, range.hi)); }

}  // namespace tilec::codegen
