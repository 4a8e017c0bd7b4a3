// A statement as the scheduler sees it: loop dimensions that start at 0, flattened strides, and the rows that are no
// box.
//
//   O[x, co: 56, 64] = +(I[x + k - 1, ci] * K[k, ci, co])
//     ⇒  dims x:56 co:64 | k:3 ci:64     row 0 <= x + k - 1 < 56
//        O: 64 x + co      I: -64 + 64 x + 64 k + ci      K: 4096 k + 64 ci + co
//
// Dimensions of extent 1 are gone; neighbours whose strides are proportional in every access are one (`y`, `x`
//   ⇒  `y_x`).
// In:  a statement of a reduced Program and the strides of its tensors.   Keeps: which points exist, and their values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "poly/program.h"

namespace tilec::codegen {

using poly::Aggregation;
using poly::TensorId;

// Σ coefficients[d] · dim d + constant.
struct Form {
  std::vector<std::int64_t> coefficients;
  std::int64_t constant = 0;
  bool operator==(const Form&) const = default;
};
struct Row { Form form; std::optional<std::int64_t> extent; };  // 0 <= form (and form < extent)
struct Dim {
  std::string name;
  std::int64_t extent = 1;
  bool reduction = false;
};
struct FlatAccess { TensorId tensor = -1; Form offset; };  // in elements from the tensor's first element

struct Nest {
  std::vector<Dim> dims;
  std::vector<Row> rows;                               // what the box of `dims` does not imply
  FlatAccess target;
  std::vector<FlatAccess> reads;
  Aggregation aggregation = Aggregation::Assign;
  std::optional<poly::Expr> value;                     // Index nodes refer to `forms`
  std::vector<std::pair<poly::Affine, Form>> forms;    // the Affines that Index nodes of `value` hold, over dims
  std::optional<poly::Number> fill;                    // the number an unreached element holds; none: the buffer
                                                       // already holds it

  std::vector<TensorId> locals = {};                   // of a turn of its group: what is a buffer that stays in a cache
  bool adds = false;                                   // the target holds the fold's own type: a part of it may be
                                                       // added later

  bool empty() const;
  std::optional<std::size_t> dim(const std::string& name) const;
  const Form& form(const poly::Affine& affine) const;
};

using Strides = std::vector<std::vector<std::int64_t>>;  // per tensor, in elements

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& shape);
// The same, but no rows lie so far apart that a first cache would hold few of them (model::share_sets). `at_lines`:
// long ones begin at lines.
std::vector<std::int64_t> rows_apart(
    const std::vector<std::int64_t>& shape, std::int64_t element_bytes, bool at_lines = false);
// Elements from the first to the last of a shape that lies so; 0: it has none.
std::int64_t reach_of(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides);
std::vector<std::int64_t> extents(const poly::Tensor& tensor);  // of a bound tensor

// `keep`: index names that must stay dimensions of their own (group loops name them).
Nest nest_of(const poly::Statement& statement, const Strides& strides, const std::set<std::string>& keep = {});
using StridesOf = std::function<std::vector<std::int64_t>(TensorId)>;
Nest nest_of(const poly::Statement& statement, const StridesOf& strides, const std::set<std::string>& keep = {});
// Every element of the statement's target gets its fill (a number or the default tensor's element).
Nest fill_nest(const poly::Program& program, const poly::Statement& statement, const Strides& strides);
// target ← operand in row-major order; both dense.
Nest reshape_nest(const poly::Program& program, TensorId target, TensorId operand);

// How many elements rows over output dimensions alone leave; none where that takes long to count.
std::optional<std::int64_t> output_points(const Nest& nest);
// The dimensions of a Gather, Scatter or Sort: b… j… v r… (program.h), neighbours of one letter merged, `v` always
// there. reads {data, indices} or {keys}; every access says what it takes from each. No value: codegen/indirect and
// sort spell it.
Nest intrinsic_nest(const poly::Program& program, const poly::Intrinsic& intrinsic, const Strides& strides);

// Whether a row of the domain mentions the dimension.
bool in_rows(const Nest& nest, std::size_t d);
// Whether one mentions both.
bool share_row(const Nest& nest, std::size_t a, std::size_t b);
// Whether rows of the domain bound m by n and by nothing else that is `open`: each value of m has a range of n of its
// own.
bool staggered(const Nest& nest, std::size_t m, std::size_t n, const std::vector<bool>& open);
// The part of dimension d, of so many values of each, for which every row that couples it with dimensions of `inner`
// holds for all of theirs.
double interior_part(
    const Nest& nest, std::span<const std::int64_t> extents, std::size_t d, const std::vector<bool>& inner);
// How often a leaf goes through its blocks whose sums take values of these reductions one at a time; of the last one,
// those at once that bound no output.
std::int64_t passes_of_taps(
    const Nest& nest, std::span<const std::int64_t> extents, const std::vector<std::size_t>& taps);
// Whether most values of such a reduction go through the blocks at once.
bool goes_at_once(const Nest& nest, std::span<const std::int64_t> extents, std::size_t tap);
// The extent's product; saturates.
std::int64_t box_points(const Nest& nest);
// Without the dimension `part` and the row 0 <= whole - step * part < step: a turn has one value of it.
void leave_to_turn(Nest& nest, const std::string& part, const std::string& whole, std::int64_t step);

}  // namespace tilec::codegen
