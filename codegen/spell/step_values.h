// The values of one step of a block: what a leaf folds, for each row and vector.
//
//   C[i, j] = +(A[i, k] * exp(B[k, j]))     one step: rows 0 and 1, vector 0
//     ⇒  t = p0[0]; t_1 = exp(p1[l]); acc[0] += t * t_1; t_2 = p0[168]; acc[1] += t_2 * t_1
//
// Whatever does not depend on the row or on the vector is computed once. A row of a block at the border that has no
// point in this step adds nothing, and loads of it stand under a mask.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/spell/accumulators.h"
#include "codegen/spell/block_place.h"

namespace tilec::codegen {

// Values that were computed already: by node, row and vector (-1: the same for all).
using KnownValues = std::map<std::tuple<const void*, std::int64_t, std::int64_t>, Expr>;
// Loads that were made already: by view and offset.
using LoadedValues = std::map<std::pair<std::string, std::int64_t>, Expr>;
// What steps of a block at the border have in common, and what holds it.
using EdgeValues = std::vector<std::pair<Expr, Expr>>;

class StepValues {
 public:
  // `at` with its views; of a dimension `unrolled`, `u` values further than these.
  StepValues(BlockPlace at, const Views& views, KnownValues known = {},
      std::optional<std::size_t> unrolled = {}, Expr u = Expr(std::int64_t{0}));

  // In the place of loads: they outlive this.
  void use(const LoadedValues& loaded) { loaded_ = &loaded; }
  // Of a block at the border: which rows have a point in this step.
  void ask_rows(Body& body, EdgeValues& edges);
  const std::vector<Expr>& rows_asked() const { return inside_; }
  // What row i and vector v add to their accumulator, behind `body`, which has the values.
  void fold(Body& body, Body& added, const Accumulators& sums, std::int64_t i, std::int64_t v);
  // What row i of a block at the border adds.
  Body of_row(std::int64_t i, Body added) const;

  Expr value(Body& body, const poly::Expr& e, std::int64_t i, std::int64_t v);
  const BlockPlace& at() const { return at_; }
  const KnownValues& known() const { return known_; }

 private:
  struct Depends { bool m = false, n = false; };
  Depends depends(const poly::Expr& e);
  Expr fresh_value(Body& body, const poly::Expr& e, std::int64_t i, std::int64_t v);
  Expr load(Body& body, std::size_t r, std::int64_t i, std::int64_t v);
  Expr load_inside(Body& body, const Form& f, const Load& plain, std::int64_t i, std::int64_t v);
  std::pair<Body, Expr> load_under(const Expr& there, const Load& plain, DType held);
  std::string square(Body& body, std::size_t r, std::int64_t v);
  Expr edge(Body& body, const Expr& key, const std::function<std::pair<Body, Expr>()>& make);
  Expr unrolled(const Expr& offset, const Form& f) const;

  BlockPlace at_;
  const SpelledLeaf& l_;
  const Views& views_;
  KnownValues known_;
  std::optional<std::size_t> unrolled_;
  Expr u_;
  std::map<const void*, Depends> depends_ = {};
  std::map<std::pair<std::string, std::int64_t>, std::string> squares_ = {};  // by view and vector
  std::vector<Expr> inside_ = {};                      // of each row at the border, whether it has a point
  EdgeValues* edges_ = nullptr;
  const LoadedValues* loaded_ = nullptr;
};

// Operations on values that stay the same while d and all dimensions without a value run, before these loops: nothing
// hoists them later.
KnownValues hoisted(Body& body, const BlockPlace& at, const Views& views, std::optional<std::size_t> d);

}  // namespace tilec::codegen
