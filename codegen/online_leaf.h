// Statements of one pass over an index, for a block of threads: what depends on rows and on it is never in memory.
//
//   S[i, j] = +(Q[i, d] * K[j, d])                  online S  m i  n j  k d  block 8x4  lanes 16  stage 64
//   M[i] = >(S[i, j])                               online M  m i  n j       block 1x1  lanes 2   stage 64
//   E[i, j] = =(exp(S[i, j] - M[i]))                online E  …
//   Z[i] = +(E[i, j])                               online Z  …
//   U[i, e] = +(E[i, j] * V[j, e])                  online U  m i  n e  k j  block 8x4  lanes 16  stage 64
//     ⇒  a block of 128 threads has 64 rows i, and 64 j at a time: S of these in shared memory (products), there E in
//        the place of S (elements: a thread has half a row), then U in registers (sums)
//
// E depends on a maximum that is known at the end only. Up to any j all sums are right for the maximum so far; where it
// grows, what they hold is multiplied by exp(before - after) (Milakov and Gimelshein, "Online normalizer calculation
// for softmax", 2018; Dao et al., "FlashAttention", 2022). Rows whose maximum is -inf so far, or whose sums are not
// finite at the end, make the block begin again with the maxima that are now known; then each sum has its own points
// only, one after the other (docs/decisions/online.md).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "codegen/spelling.h"

namespace tilec::codegen {

// What a statement is to a pass of rows `row` over `over`.
struct OnlinePart {
  enum Role { Product, Tile, Fold, Sum } role;         // S, E, M and Z, U above
  std::size_t row, over;                               // dimensions of its nest
  std::size_t column = 0;                              // Product: over; Sum: e
  std::size_t depth = 0;                               // Product: d; Sum: over
  std::optional<poly::Expr> by_row = {}, by_column = {};  // of a Product and a Sum: the factors
  std::vector<poly::Expr> times = {}, divisors = {};   // Product: of the whole sum, which do not depend on d
  struct When { poly::Expr condition; bool holds; };
  std::vector<When> when = {};                         // where one of these is not so, a product or a point of a sum is
                                                       // 0, whatever its factors are
};
// Its indices stay dimensions of their own.
Nest online_nest(const poly::Statement& s, const Strides& strides);
std::variant<OnlinePart, std::string> online_part(const Nest& nest, const std::string& row, const std::string& over);

// Reads of the column alone, but for those of an operand.
std::vector<std::size_t> column_reads(const Nest& nest, const OnlinePart& part);
// Whether it is read as an operand: of a factor of columns, or of rows of a Product.
bool staged(const OnlinePart& part, std::size_t read);

// Of a pass by threads. Columns of a Product that lie along its depth stay so in shared memory: rows of it begin
// `column_padding` elements behind each other, those of tiles `tile_padding`, so that threads side by side meet
// different banks.
inline constexpr std::int64_t column_padding = 4, tile_padding = 8;
bool columns_as_stored(const Nest& nest, const OnlinePart& part);
// Whether a Product has them there for a Sum of so many columns: K of the scores, whose gradient dQ sums it too.
bool has_columns_of(
    const Nest& nest, const OnlinePart& product, const Nest& other, const OnlinePart& sum, std::int64_t columns);

// x / Z[i], or 0 where a condition of Z says so, in a pass that sums Z: what sums multiples of it sums those of x, and
// divides at the end.
struct LateDivision { poly::Expr numerator; std::size_t divisor; };  // divisor: which read
std::optional<LateDivision> late_division(const poly::Expr& value);

// A pass that goes over its index twice: which members find in the first sweep what others read of folds, and those
// folds.
struct FirstSweep { std::vector<std::size_t> members; std::set<std::size_t> known; };
FirstSweep first_sweep(const std::vector<Nest>& nests, const std::vector<OnlinePart>& parts);

// Whether something asks if two values are equal that are both computed, or read.
bool compares_computed(const poly::Program& program);

// Rows of a block.
std::int64_t online_rows(const Compute& leaf, std::int64_t threads);
// Bytes of shared memory that a block takes.
std::int64_t online_bytes(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, std::int64_t threads);

// The kernel's body: one Block loop.
Body spell_online(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage,
    Names& names, std::int64_t threads);

}  // namespace tilec::codegen
