// What blocks of threads have in common that stage the operands of a contraction (staged.h, tensor_cores.h): where a
// block lies, the stages of its sum, which elements a stage has zeros for, and how a thread computes elements again.
//
//   O[n_y_x, co] = +(I[.., y + j, x + k, ci] * K[j, k, ci, co])     m n y x   n co   k j k ci   stage 16
//     ⇒  stage 5 of 3 * 3 * (64 / 16): j 0, k 1, ci 16 .. 31; pixel 57 of m is y 1, x 1
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/finishing.h"
#include "codegen/ranges.h"
#include "codegen/spelling.h"
#include "codegen/staged.h"

namespace tilec::codegen {

class StagedBlock {
 protected:
  // `nests`: of the contraction, and of what finishes it. `height` x `width` values of m and n are a block, `depth` of
  // the reduction a stage.
  StagedBlock(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names,
      std::int64_t depth, std::int64_t height, std::int64_t width);

  std::int64_t extent(std::size_t d) const { return nest_.dims[d].extent; }
  std::int64_t extent(const std::vector<std::size_t>& dims) const;
  Expr let(Body& body, const std::string& stem, const Expr& value) const;  // a name for a value, unless it is one
  Body coordinates();                                  // p → the values of the outer dimensions, m0 and n0 of this
                                                       // block; n fastest
  // of a form, that these dimensions have
  static Expr part(const Form& form, const std::vector<std::size_t>& dims, const std::vector<Expr>& at);
  // A value of what is staged: as one number, and `apart`, where something is no multiple of that, of each reduction.
  struct Step { Expr value; std::vector<Expr> at; };
  Step step(Body& body, const Expr& value, bool apart);
  Expr part(const Form& form, const Step& step) const;
  bool in_steps(const Form& form) const;               // whether the next value of what is staged always lies as far on
  bool rows_apart(bool by_m) const;                    // of a row that is asked of an operand, whether it does not
  // a value of m as one of each of its dimensions
  std::vector<Expr> digits(Body& body, const std::vector<std::size_t>& dims, const Expr& value);

  // The values of all other reductions, and for each the staged one by `depth`. Behind `count_stages` its range is
  // named.
  Expr count_stages(Body& body);
  Expr begin_stage(Body& body, const Expr& stage);     // the first value of the staged reduction; until end_stage the
                                                       // other ones are fixed, and `rows_` holds
  void end_stage();
  bool mentions_m(const Row& row) const;
  bool is_asked(const Row& row) const;                 // of each element: rows over the staged reduction and what is
                                                       // fixed around the block are its range
  bool across() const { return roles_.staged.size() > 1; }
  bool is_asked_along(std::size_t d) const;            // whether such a row mentions this dimension
  // Whether an element takes part, of the operand along m or the other one, whose values of m are these; none: all do.
  std::optional<Expr> takes_part(std::optional<Expr> all, bool by_m, const Step& k, const std::vector<Expr>& at) const;

  static Expr factor_value(const poly::Expr& e, const std::function<Expr(int)>& read);
  // Parts that are there as they are, others from these.
  static Expr joined_value(const poly::Expr& e, const std::function<std::optional<Expr>(const poly::Expr&)>& there);
  Expr sum(const Expr& acc, const Expr& a, const Expr& b) const;
  bool has_zeros() const;                              // in the place of what may not be finite
                                                       // (docs/decisions/staged_zeros.md)
  // `elements`, unless all of so many registers are finite: their sum is only then.
  Body unless_finite(const std::string& registers, std::int64_t count, Body elements);
  Body element(const Expr& m, const Expr& n);          // from its own points, in the order of the stages

  const Nest& nest_;
  const Compute& leaf_;
  const Storage& storage_;
  Names& names_;
  Finishing finishing_;
  Ranges points_;
  std::int64_t depth_, height_, width_, blocks_ = 1;
  DType type_;                                         // of the sums
  Staging roles_;
  Expr m0_ = i64(0), n0_ = i64(0);
  Interval range_{i64(0), i64(0)};                     // of what is staged
  Expr turns_ = i64(0);                                // stages for each value of the other reductions
  std::int64_t taps_ = 1;                              // how many those are
  bool known_ = true, ragged_ = false;                 // the range is numbers; the last stage is not full
  std::vector<Expr> rows_;                             // of each row of the domain, what this stage has of it
  std::string block_;

 private:
  bool mentions_taps(const Row& row) const;
  bool asks(const Row& row, bool by_m) const { return is_asked(row) && (by_m || !mentions_m(row)); }
  Body through(const std::vector<std::size_t>& order, std::size_t level, const std::string& total);
};

}  // namespace tilec::codegen
