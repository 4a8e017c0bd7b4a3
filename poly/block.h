// The value of a statement at many points at once.
//
//   A[i, k] * B[k, j] at k = 0 … 511   ⇒   a column of 512 elements of A, one of B, one of their products
//
// An operation is done for all points of a block before the next one, which takes a tenth of the time that all
// operations take point by point. What it does to a point is what the scalar functions of `estimate.h` do.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "poly/estimate.h"
#include "poly/program.h"

namespace tilec::poly {

// An affine form with integer coefficients.
struct Linear {
  std::vector<std::int64_t> coefficients;
  std::int64_t constant = 0, divisor = 1;
  std::int64_t at(std::span<const std::int64_t> point) const;
};
Linear linear(const Affine& affine);

// Where in its tensor an access lands. Dimensions that no row of the domain guards are looked at point by point.
struct Location {
  std::vector<Linear> element;
  std::vector<std::int64_t> shape;
  std::vector<std::uint64_t> strides;
  std::vector<std::size_t> unguarded;
  bool steady = true;                                  // no divisors: a step of the last index moves it by `step`
  std::uint64_t step = 0;
  std::size_t at(std::span<const std::int64_t> point) const;
};
Location location(const Access& access, const std::vector<Range>& domain, std::vector<std::int64_t> shape);

// The elements that an access reaches at the points of a block.
class Trace {
 public:
  explicit Trace(Location where) : where_(std::move(where)), elements_(block_size) {}
  // Points first …  first + count - 1 of the last index become the points from `at` on.
  void add(std::span<std::int64_t> point, std::int64_t first, std::size_t count, std::size_t at);
  const std::vector<std::size_t>& elements() const { return elements_; }

 private:
  Location where_;
  std::vector<std::size_t> elements_;
};

class Block {
 public:
  // `operands`: what the reads of the statement read.
  Block(const Statement& statement, std::vector<const Stored*> operands);
  void add(std::span<std::int64_t> point, std::int64_t first, std::size_t count);  // as many as there is room for
  std::size_t size() const { return size_; }
  std::size_t room() const { return block_size - size_; }
  const Column& run();                                 // at the points that were added; then there are none
  std::size_t operations() const { return instructions_.size(); }

 private:
  struct Instruction {
    enum Kind { Load, Form, Real, Integer, Compare, Choose, Convert, IsNan, IsFinite, Between } kind;
    Op op = Op::Add;
    DType type = DType::F32, from = DType::F32;        // of the result; of the operands
    std::size_t result = 0, a = 0, b = 0, c = 0;       // columns; for Load `a` is the read, for Form the affine form,
                                                       // for Between `a` and `b` are the reads
    bool fuses = false;                                // a product that a backend may add without rounding it
  };

  void execute(const Instruction& i);
  Value between(const Instruction& i, std::size_t k, std::int64_t count) const;
  std::size_t emit(Instruction instruction);
  std::size_t compile(const Expr& value);
  std::size_t constant(const Number& n);
  std::size_t operation(const Apply& a);
  void may_fuse(const Expr& value);

  std::vector<const Stored*> operands_;
  std::vector<Trace> reads_;
  std::vector<Linear> forms_;
  std::vector<std::vector<std::int64_t>> form_values_;
  std::vector<Instruction> instructions_;              // equal nodes share one
  std::vector<Column> columns_;
  std::map<const void*, std::size_t> seen_;            // node → column; the statement keeps the nodes alive
  std::size_t size_ = 0, result_ = 0;
};

}  // namespace tilec::poly
