// Where a block of a leaf stands, and where its elements lie.
//
//   contract O  m x  n co  block 9x2  lanes 16, x in [18, 27), co in [0, 32)
//     ⇒  row i of vector v of O[x, co] lies at 18 * 64 + i * 64 + 16 v + lane
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/spell/spelled_leaf.h"

namespace tilec::codegen {

// Its first row and element, how many rows and vectors, and how many elements of the last vector count.
struct BlockTile {
  Expr m0 = Expr(std::int64_t{0}), n0 = Expr(std::int64_t{0});
  std::int64_t rows = 1, vectors = 1;
  std::optional<Expr> valid = std::nullopt;            // elements from n0 on, where the last vector has lanes beyond
                                                       // the tensor
  bool blocked_m = false, blocked_n = false;
  bool guarded = false;                                // rows that couple n with a reduction are masks of the fold
  bool staggered = false;                              // each row of m has a range of n, or of a reduction, of its own
  bool border = false;                                 // rows of the domain that couple m with a reduction are asked of
                                                       // each row
  std::optional<Expr> end = std::nullopt;              // of m, where the last block may have rows beyond it
};

struct BlockPlace {
  SpelledLeaf& leaf;
  BlockTile tile = {};
  std::string lane_name = "";                          // empty: one element at a time
  bool in_mask = false;                                // everything here stands inside one mask already

  Expr lane() const { return lane_name.empty() ? Expr(std::int64_t{0}) : var(lane_name); }

  bool in_m(const Form& f) const { return tile.blocked_m && leaf.moves_along_rows(f); }
  bool in_n(const Form& f) const { return tile.blocked_n && f.coefficients[static_cast<std::size_t>(leaf.n)] != 0; }
  // Element offset of an access at the tile's corner, with every fixed dimension in place; from there, of row i and
  // vector v.
  Expr corner(std::size_t access, const Form& offset) const;
  Expr inside_tile(const Form& f, std::int64_t i, std::int64_t v) const;
  // How far row i lies behind the first one.
  std::int64_t of_row(const Form& f, std::int64_t i) const;
  // What the form is at row i and vector v.
  Expr index_value(const Form& f, std::int64_t i, std::int64_t v) const;

  // Whether vector v has lanes beyond the tensor; which of its lanes are inside.
  bool masked(std::int64_t v) const { return !in_mask && tile.valid && v == tile.vectors - 1 && !lane_name.empty(); }
  Expr mask(std::int64_t v) const { return less(Expr(v * leaf.compute.lanes) + lane(), *tile.valid); }
  // The rows of the domain that a guarded tile must still ask about, for its one vector.
  std::optional<Expr> guard() const;

  // Squares: rows of m whose elements lie side by side are read and written along m, and transposed in between.
  bool turns(const Form& f) const;
  bool strip(const Form& f) const;                     // taken apart instead: strip.h
  Expr along_m(const Form& f, std::int64_t v, std::int64_t l) const;
  Expr along_strip(std::int64_t v, std::int64_t j) const;
  // `s` for the elements that the tile has of a strip's vector; of a square's row, if it has the row.
  Stmt of_strip(Stmt s, std::int64_t v, std::int64_t j) const;
  Stmt of_square(Stmt s, std::int64_t v, std::int64_t l) const;
};

// The view of each read, at the tile's corner: one for all that read the same elements.
using Views = std::vector<std::string>;
Views views_of(Body& body, const BlockPlace& at);
inline bool first_of_view(const Views& views, std::size_t r) {
  return std::find(views.begin(), views.end(), views[r]) == views.begin() + static_cast<std::ptrdiff_t>(r);
}
// How the views move from one of so many values of d to the next.
std::vector<Advance> advance(const BlockPlace& at, const Views& views, std::size_t d, std::int64_t values = 1);

// Of d, what each row of the block has of it, what any has, and what all have.
struct OwnRanges {
  std::vector<Interval> rows;
  Interval any, all;
};
OwnRanges own_ranges(Body& body, const BlockPlace& at, std::size_t d);

}  // namespace tilec::codegen
