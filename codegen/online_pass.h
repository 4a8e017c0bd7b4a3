// What all passes over an index have in common (online.h): which statements wait for the maximum, rows and elements of
// a thread, folds, what is told at the end. How products are computed and where their operands lie is said below: by
// threads (online.cpp), by tensor cores (online_cores.cpp).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/online.h"
#include "codegen/ranges.h"
#include "codegen/rewrite.h"
#include "codegen/scalar.h"
#include "codegen/staged_block.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"
#include "poly/intern.h"

namespace tilec::codegen {

inline constexpr std::int64_t widest = 16;             // bytes of an access

using ReadValue = std::function<Expr(std::size_t)>;
using IndexValue = std::function<Expr(const Form&)>;
inline Expr spelled(const Nest& nest, const poly::Expr& e, const ReadValue& read, const IndexValue& index) {
  return e.match([&](const poly::Number& n) { return constant_of(n); },
      [&](const poly::Index& x) { return convert(index(nest.form(x.value)), compute_type(x.type)); },
      [&](const poly::Read& r) { return convert(read(static_cast<std::size_t>(r.read)), compute_type(r.type)); },
      [&](const poly::Cast& c) { return cast(spelled(nest, c.operand, read, index), c.operand, c.type); },
      [&](const poly::Apply& a) {
        std::vector<Expr> operands;
        for (const poly::Expr& o : a.operands) operands.push_back(spelled(nest, o, read, index));
        return Expr(Operation{a.op, std::move(operands), compute_type(a.type)});
      });
}

// An operand of products: a box of `depth` x `side` in shared memory, `side` innermost.
struct Operand {
  std::size_t leaf, depth_dim, side_dim;
  const poly::Expr* factor;
  std::int64_t depth, side;                            // of the box
  std::string shared;
};

struct PassMember {
  const Nest& nest;
  const Compute& leaf;
  OnlinePart part;
  DType dtype;                                         // of its tensor
  Operand by_row, by_column;                           // Product: both; Sum: by_column
  std::string tile;                                    // of a Product: its values; of a Sum: the factor of rows
  std::string registers;                               // of a Sum: accumulators; of a Fold: what the thread has so far
  std::string shared;                                  // of a Fold: its value for each part of a row
  bool rescaled = false;                               // it holds what a growing maximum makes smaller
  bool follows = false;                                // a Tile: it depends on that maximum
  std::optional<LateDivision> late = {};               // a Tile, and the factor of a Sum: its numerator alone is
                                                       // computed
  std::optional<std::size_t> divided = {};             // a Sum: the tile, or itself, that says by what
};

class OnlinePass {
 public:
  OnlinePass(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage, Names& names,
      std::int64_t threads)
      : storage_(storage), names_(names), threads_(threads) {
    const std::string& over = leaves.front().n;
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      auto part = online_part(nests[l], leaves[l].m(), over);
      if (const auto* why = std::get_if<std::string>(&part))
        throw lang::InternalError("the plan passes over a statement: " + *why);
      members_.push_back({nests[l], leaves[l], std::get<OnlinePart>(std::move(part)),
          storage.plan.program.tensor(nests[l].target.tensor).dtype, {}, {}, {}, {}, {}, false, false});
      by_tensor_.emplace(nests[l].target.tensor, l);
    }
    depth_ = leaves.front().as<forms::Online>()->depth;
    height_ = online_rows(leaves.front(), threads);
    parts_ = threads / height_;
    each_ = depth_ / parts_;
    const PassMember& first = members_.front();
    rows_ = first.nest.dims[first.part.row].extent, over_ = first.nest.dims[first.part.over].extent;
    for (const PassMember& m : members_) if (m.part.role != OnlinePart::Fold) type_ = type_of(m);
    if (std::ranges::all_of(members_, [](const PassMember& m) { return m.part.role == OnlinePart::Fold; }))
      type_ = type_of(first);
    find_maximum();
  }

  virtual ~OnlinePass() = default;
  OnlinePass(const OnlinePass&) = delete;
  OnlinePass& operator=(const OnlinePass&) = delete;

  Body spell() {
    block_ = names_.fresh("p"), thread_ = names_.fresh("l");
    Body body = coordinates();
    append(body, shared_memory());
    body.push_back(stmt(For{thread_, Kind::Thread, i64(threads_), {}, one_thread()}));
    return {stmt(For{block_, Kind::Block, i64(blocks_), {}, std::move(body)})};
  }

 protected:
  // ---- how a block does what all passes have in common

  virtual Body shared_memory() = 0;
  virtual Body first_operands() = 0;                   // what all turns read, and registers of sums
  virtual Body before_turns() { return {}; }
  virtual Body turn(const Expr& number, bool again) = 0;
  virtual bool begins_again() const { return false; }  // where sums may not be finite, though those of their points are
  // Its rows of a thread, and what is at one of its elements.
  virtual std::int64_t rows_of_thread() const = 0;
  virtual Expr row_of_thread(Body& body, std::int64_t slot) = 0;
  struct Element;
  virtual Element element(Body& body, std::int64_t x, bool asked) = 0;
  virtual Expr product_at(const PassMember& product, const Element& at) const = 0;
  virtual Body put_factor(const PassMember& sum, const Element& at, const Expr& factor) = 0;
  // Of a row: of what all threads found that have it; how what was summed shrinks; all of a fold, behind the pass.
  virtual Expr highest_of(Body& body, const Expr& found) = 0;
  virtual Body put_scale(const Expr& scale) = 0;
  virtual Body before_writes() = 0;
  virtual Expr total(const PassMember& fold) const = 0;    // of row slot_
  virtual Body write_sum(std::size_t l) = 0;
  virtual Expr writes_rows() const = 0;                // of the threads that have a row, one

  Expr let(Body& body, const std::string& stem, const Expr& value) {
    if (value.as<Constant>() || value.as<Variable>()) return value;
    const std::string name = names_.fresh(stem);
    body.push_back(stmt(Let{name, value}));
    return Variable{name, value.type()};
  }
  Expr zero() const { return Constant{type_, 0, 0.0}; }
  Expr one() const { return Constant{type_, 0, 1.0}; }
  Expr lowest() const { return identity(Aggregation::Max, type_); }
  static Expr choose(const Expr& condition, const Expr& a, const Expr& b) {
    return Operation{Op::Select, {condition, a, b}, a.type()};
  }
  static Expr equal(const Expr& a, const Expr& b) { return Operation{Op::Eq, {a, b}, DType::Bool}; }
  std::string allocate(Body& body, const std::string& stem, std::int64_t count, Memory memory) {
    return allocate(body, stem, count, memory, type_);
  }
  std::string allocate(Body& body, const std::string& stem, std::int64_t count, Memory memory, DType type) {
    const std::string name = names_.fresh(stem);
    body.push_back(stmt(Allocate{name, type, count, memory}));
    return name;
  }
  static DType type_of(const PassMember& fold) { return compute_type(fold.nest.value->type()); }

  // f for each row of the thread.
  Body each_row(const std::function<Body()>& f) {
    Body body;
    for (slot_ = 0; slot_ < rows_of_thread(); ++slot_) {
      row_ = slots_[static_cast<std::size_t>(slot_)].row, row_value_ = slots_[static_cast<std::size_t>(slot_)].value;
      append(body, f());
    }
    slot_ = 0;
    return body;
  }

  // The maximum that others read before all of it is known, and who does.
  void find_maximum() {
    const auto fold = [&](TensorId id) {
      const auto at = by_tensor_.find(id);
      return at != by_tensor_.end() && members_[at->second].part.role == OnlinePart::Fold ? std::optional(at->second)
                                                                                          : std::nullopt;
    };
    for (std::size_t l = 0; l < members_.size(); ++l) {
      PassMember& m = members_[l];
      auto late = m.part.role == OnlinePart::Tile ? late_division(*m.nest.value)
          : m.part.role == OnlinePart::Sum        ? late_division(*m.part.by_row)
                                                  : std::nullopt;
      if (late && fold(m.nest.reads[late->divisor].tensor)) {
        m.late = std::move(late), divides_ = true;
        if (m.part.role == OnlinePart::Sum) m.divided = l;
      }
      for (std::size_t r = 0; r < m.nest.reads.size(); ++r) {
        if (m.part.role == OnlinePart::Sum)
          if (const auto at = by_tensor_.find(m.nest.reads[r].tensor);
              at != by_tensor_.end() && members_[at->second].late && members_[at->second].part.role == OnlinePart::Tile)
            m.divided = at->second;
        if (m.late && r == m.late->divisor) continue;
        if (const auto of = fold(m.nest.reads[r].tensor)) maximum_ = of;
      }
    }
    if (!maximum_) return;
    for (PassMember& m : members_)
      for (const FlatAccess& read : m.nest.reads) {
        const auto at = by_tensor_.find(read.tensor);
        if (at == by_tensor_.end()) continue;
        if (at->second == *maximum_ || members_[at->second].follows)
          (m.part.role == OnlinePart::Tile ? m.follows : m.rescaled) = true;
      }
  }

  // p → this block's first row and the values of what stands around.
  Body coordinates() {
    Body body;
    Expr rest = var(block_);
    const std::int64_t tiles = (rows_ + height_ - 1) / height_;
    blocks_ = tiles;
    i0_ = let(body, members_.front().leaf.m() + "_0", remainder(rest, tiles) * i64(height_));
    rest = quotient(rest, tiles);
    const std::vector<std::string>& outer = members_.front().leaf.outer;
    std::vector<Expr> at(outer.size(), i64(0));
    for (std::size_t o = outer.size(); o-- > 0;) {
      const std::int64_t extent = members_.front().nest.dims[*members_.front().nest.dim(outer[o])].extent;
      at[o] = let(body, outer[o], o == 0 ? rest : remainder(rest, extent));
      rest = quotient(rest, extent);
      blocks_ = (poly::Exact(blocks_) * extent).get();
    }
    for (PassMember& m : members_) {
      points_.emplace_back(m.nest);
      for (std::size_t o = 0; o < outer.size(); ++o) points_.back().fix(*m.nest.dim(outer[o]), at[o]);
    }
    return body;
  }

  // ---- one thread

  Body one_thread() {
    Body body;
    for (slot_ = 0; slot_ < rows_of_thread(); ++slot_) {
      const Expr row = row_of_thread(body, slot_);
      slots_.push_back({row, let(body, members_.front().leaf.m(), i0_ + row)});
    }
    for (PassMember& m : members_)
      if (m.part.role == OnlinePart::Fold)
        m.registers = allocate(body, "so_far", rows_of_thread(), Memory::Register, type_of(m));
    if (maximum_) highest_ = members_[*maximum_].registers;
    append(body, first_operands());
    append(body, each_row([&] {
      Body some = rows_alone();
      if (maximum_) some.push_back(stmt(Store{highest_, i64(slot_), lowest()}));
      return some;
    }));
    append(body, range());
    if (!may_begin_again()) {
      append(body, pass(false));
      append(body, write());
      return body;
    }
    // All of it once; once more where what came out says so.
    append(body, pass(false));
    const Expr sound = is_sound(body);
    body.push_back(stmt(If{Operation{Op::Lt, {sound, one()}, DType::Bool}, pass(true), {}}));
    append(body, write());
    return body;
  }

  bool bounded(const PassMember& m) const {
    return std::ranges::any_of(m.nest.rows, [&](const Row& row) {
      return row.form.coefficients[m.part.over] != 0 || row.form.coefficients[m.part.row] != 0;
    });
  }
  bool may_begin_again() const {
    return maximum_ || begins_again() || std::ranges::any_of(members_, [&](const PassMember& m) {
      return m.part.role == OnlinePart::Sum && (bounded(m) || !m.part.when.empty());
    });
  }
  // What a sum adds of its own point alone.
  Stmt at_point(std::size_t l, const Expr& row, const Expr& column, Body adds) {
    Element at{0, column - j0_, column, true, {}};
    if (const auto condition = conditions(l, at)) adds = {stmt(If{*condition, std::move(adds), {}})};
    return stmt(If{*is_point(l, row, column, true), std::move(adds), {}});
  }

  // Which values of what is passed over have a point for some row of the block, by the rows over both.
  Body range() {
    Body body;
    std::optional<Interval> all;
    for (std::size_t l = 0; l < members_.size(); ++l) {
      const PassMember& m = members_[l];
      if (m.part.role != OnlinePart::Fold && m.part.role != OnlinePart::Sum) continue;
      Interval own{i64(0), i64(over_)};
      const Expr last = rows_ % height_ ? minimum(i0_ + i64(height_ - 1), i64(rows_ - 1)) : i0_ + i64(height_ - 1);
      for (const Row& row : m.nest.rows) {
        const std::int64_t a = row.form.coefficients[m.part.over], c = row.form.coefficients[m.part.row];
        if (!a) continue;
        Ranges known = points_[l];
        known.fix(m.part.row, c > 0 ? last : i0_);
        const Expr most = known.known_part(row.form);
        known.fix(m.part.row, c > 0 ? i0_ : last);
        const Expr least = known.known_part(row.form);
        if (a > 0) {                                   // 0 <= a j + rest < extent
          own.lo = maximum(own.lo, ceil_divide(i64(0) - most, a));
          if (row.extent) own.hi = minimum(own.hi, ceil_divide(i64(*row.extent) - least, a));
        } else {
          own.hi = minimum(own.hi, floor_divide(most, -a) + i64(1));
          if (row.extent) own.lo = maximum(own.lo, ceil_divide(least - i64(*row.extent) + i64(1), -a));
        }
      }
      all = all ? Interval{minimum(all->lo, own.lo), maximum(all->hi, own.hi)} : own;
    }
    first_ = let(body, "from", floor_divide(all->lo, depth_) * i64(depth_));
    if (const std::int64_t known = const_or(all->hi, -1), from = const_or(first_, -1); known >= 0 && from >= 0)
      turns_ = i64(std::max<std::int64_t>(0, (known - from + depth_ - 1) / depth_));
    else turns_ = let(body, "turns", maximum(i64(0), ceil_divide(all->hi - first_, depth_)));
    return body;
  }

  // What depends on the row alone is read once.
  Body rows_alone() {
    Body body;
    for (std::size_t l = 0; l < members_.size(); ++l) {
      const PassMember& m = members_[l];
      for (std::size_t r = 0; r < m.nest.reads.size(); ++r) {
        const FlatAccess& read = m.nest.reads[r];
        if (by_tensor_.contains(read.tensor) || staged(m, r) || read.offset.coefficients[m.part.over] != 0) continue;
        const DType type = storage_.plan.program.tensor(read.tensor).dtype;
        if (slot_ == 0)
          of_rows_.emplace(
              std::pair(l, r), allocate(body, "of_row", rows_of_thread(), Memory::Register, compute_type(type)));
        const std::string& name = of_rows_.at({l, r});
        body.push_back(stmt(Store{name, i64(slot_), Constant{compute_type(type), 0, 0.0}}));
        Ranges known = points_[l];
        known.fix(m.part.row, row_value_);
        std::optional<Expr> there = known.fixed_rows();  // where they do not hold, the element may not exist
        Body one{stmt(Store{name, i64(slot_),
            convert(Load{storage_.name(read.tensor), known.known_part(read.offset), type}, compute_type(type))})};
        if (rows_ % height_) there = there ? both(less(row_value_, i64(rows_)), *there) : less(row_value_, i64(rows_));
        if (there) body.push_back(stmt(If{*there, std::move(one), {}}));
        else append(body, std::move(one));
      }
    }
    return body;
  }
  // Whether it is read as an operand.
  bool staged(const PassMember& m, std::size_t r) const {
    const auto in = [&](const poly::Expr& factor) {
      const std::vector<std::size_t> all = reads_of(factor);
      return std::ranges::find(all, r) != all.end();
    };
    return (m.part.by_column && in(*m.part.by_column)) || (m.part.role == OnlinePart::Product && in(*m.part.by_row));
  }

  // ---- operands

  // How many neighbours along d one access of this read has.
  std::int64_t access_width(const FlatAccess& access, std::size_t d, std::int64_t most) const {
    if (access.offset.coefficients[d] != 1) return 1;
    std::int64_t w = std::min(most, widest / lang::bytes(storage_.plan.program.tensor(access.tensor).dtype));
    const auto halve = [&](std::int64_t c) { while (c % w) w /= 2; };
    halve(access.offset.constant);
    for (std::size_t x = 0; x < access.offset.coefficients.size(); ++x)
      if (x != d) halve(access.offset.coefficients[x]);
    return std::max<std::int64_t>(w, 1);
  }
  std::vector<std::size_t> reads_of(const poly::Expr& e) const {
    std::vector<std::size_t> reads;
    for (const poly::Expr& part : poly::parts(e))
      if (const auto* r = part.as<poly::Read>()) reads.push_back(static_cast<std::size_t>(r->read));
    std::ranges::sort(reads);
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    return reads;
  }

  // ---- a pass; `again`: the maxima are known

  Body pass(bool again) {
    Body body = before_turns();
    for (const PassMember& m : members_) {
      if (m.part.role == OnlinePart::Sum)
        for (std::int64_t x = 0; x < registers_of(m); ++x) body.push_back(stmt(Store{m.registers, i64(x), zero()}));
      if (m.part.role == OnlinePart::Fold && !(is_maximum(m) && again))
        for (std::int64_t r = 0; r < rows_of_thread(); ++r)
          body.push_back(stmt(Store{m.registers, i64(r), identity(m.nest.aggregation, type_of(m))}));
    }
    if (const_or(turns_, 1) <= 0) return body;
    const std::string number = names_.fresh("turn");
    Body one;
    j0_ = let(one, "j_0", first_ + var(number) * i64(depth_));
    append(one, turn(var(number), again));
    Stmt turns = stmt(For{number, Kind::Serial, turns_, {}, std::move(one)});
    if (is_const(turns_)) body.push_back(std::move(turns));
    else body.push_back(stmt(If{less(i64(0), turns_), {std::move(turns)}, {}}));
    return body;
  }
  virtual std::int64_t registers_of(const PassMember& sum) const { return sum.leaf.rows * sum.leaf.vectors; }
  bool is_maximum(const PassMember& m) const { return maximum_ && &m == &members_[*maximum_]; }

  // ---- elements

  // Whether the statement has a point there; none: always. `all`: the ends of both indices are looked at, too.
  std::optional<Expr> is_point(std::size_t l, const Expr& row, const Expr& column, bool all) {
    const PassMember& m = members_[l];
    Ranges points = points_[l];
    points.fix(m.part.row, row), points.fix(m.part.over, column);
    std::optional<Expr> holds = points.fixed_rows();
    const auto too = [&](const Expr& e) { holds = holds ? both(*holds, e) : e; };
    if (rows_ % height_ || all) too(less(row, i64(rows_)));
    if (over_ % depth_ || all) too(less(column, i64(over_)));
    return holds;
  }

  // Whether all points of the tile are points of all statements, as far as they are asked; none: they are.
  std::optional<Expr> whole_tile() {
    std::optional<Expr> all;
    const auto too = [&](const Expr& e) { all = all ? both(*all, e) : e; };
    if (rows_ % height_) too(less(i0_ + i64(height_ - 1), i64(rows_)));
    if (over_ % depth_) too(less(j0_ + i64(depth_ - 1), i64(over_)));
    for (std::size_t l = 0; l < members_.size(); ++l) {
      const PassMember& m = members_[l];
      if (m.part.role == OnlinePart::Product) continue;
      for (const Row& row : m.nest.rows) {
        Ranges points = points_[l];
        const std::int64_t a = row.form.coefficients[m.part.over], c = row.form.coefficients[m.part.row];
        const auto at = [&](std::int64_t coefficient, const Expr& first, std::int64_t count, bool low) {
          return (coefficient > 0) == low ? first : first + i64(count - 1);
        };
        points.fix(m.part.row, at(c, i0_, height_, true)), points.fix(m.part.over, at(a, j0_, depth_, true));
        too(at_least(points.known_part(row.form), i64(0)));
        if (!row.extent) continue;
        points.fix(m.part.row, at(c, i0_, height_, false)), points.fix(m.part.over, at(a, j0_, depth_, false));
        too(less(points.known_part(row.form), i64(*row.extent)));
      }
    }
    return all;
  }

  Body elements(bool again) {
    Body body;
    const std::optional<Expr> whole_condition = whole_tile();
    const std::optional<Expr> whole =
        whole_condition ? std::optional(let(body, "whole", *whole_condition)) : std::nullopt;
    append(body, each_row([&] { return elements_of_row(again, whole); }));
    return body;
  }
  Body elements_of_row(bool again, const std::optional<Expr>& whole) {
    Body body;
    const auto both_ways = [&](const std::function<Body(bool)>& step) {
      if (!whole) return append(body, step(false));
      body.push_back(stmt(If{*whole, step(false), step(true)}));
    };
    if (maximum_) {
      Expr highest = Load{highest_, i64(slot_), type_};
      if (!again) {
        const std::string here = allocate(body, "here", 1, Memory::Register);
        body.push_back(stmt(Store{here, i64(0), lowest()}));
        hold(body);
        both_ways([&](bool asked) { return before_maximum(here, asked); });
        const Expr found = highest_of(body, Load{here, i64(0), type_});
        const Expr before = let(body, "before", highest);
        const Expr now = let(body, "now", Operation{Op::Max, {before, found}, type_});
        // As long as it is -inf, all that was added is 0 or no number.
        const Expr kept = Operation{Op::Or, {equal(before, now), equal(before, lowest())}, DType::Bool};
        const Expr scale = let(
            body, "grown", choose(kept, one(), Operation{Op::Exp, {Operation{Op::Sub, {before, now}, type_}}, type_}));
        body.push_back(stmt(Store{highest_, i64(slot_), now}));
        append(body, put_scale(scale));
        for (const PassMember& m : members_)
          if (m.part.role == OnlinePart::Fold && m.rescaled)
            body.push_back(stmt(Store{
                m.registers, i64(slot_), Operation{Op::Mul, {Load{m.registers, i64(slot_), type_}, scale}, type_}}));
        highest = choose(equal(now, lowest()), zero(), now);
      }
      maximum_now_ = let(body, "highest", highest);
    }
    both_ways([&](bool asked) { return with_maximum(again, asked); });
    held_.clear();
    return body;
  }
  static Expr equal_i64(const Expr& a, std::int64_t b) { return Operation{Op::Eq, {a, i64(b)}, DType::Bool}; }

  // Tiles that what comes behind the maximum reads stay in registers.
  void hold(Body& body) {
    held_.clear();
    for (std::size_t l = 0; l < members_.size(); ++l) {
      if (members_[l].part.role != OnlinePart::Tile || members_[l].follows) continue;
      held_.emplace(l, allocate(body, "held", each_, Memory::Register));
    }
  }

  // Values at one element: of tiles that are computed there.
  struct Element {
    std::int64_t x;
    Expr local, column;                                // within the tile; of the index
    bool asked;                                        // whether it is a point is asked
    std::map<std::size_t, Expr> values = {};
  };
  Expr rounded(const PassMember& m, const Expr& value) const {
    return convert(convert(convert(value, compute_type(m.dtype)), m.dtype), compute_type(m.dtype));
  }

  Expr value(std::size_t l, const poly::Expr& e, Element& at) {
    const PassMember& m = members_[l];
    Ranges& points = points_[l];
    points.fix(m.part.row, row_value_), points.fix(m.part.over, at.column);
    const auto read = [&](std::size_t r) -> Expr {
      const FlatAccess& access = m.nest.reads[r];
      const auto made = by_tensor_.find(access.tensor);
      if (made == by_tensor_.end()) {
        if (const auto own = of_rows_.find({l, r}); own != of_rows_.end())
          return Load{own->second, i64(slot_), compute_type(storage_.plan.program.tensor(access.tensor).dtype)};
        return Load{storage_.name(access.tensor), points.known_part(access.offset),
            storage_.plan.program.tensor(access.tensor).dtype};
      }
      if (maximum_ && made->second == *maximum_) return maximum_now_;
      return at.values.at(made->second);
    };
    const Expr result = spelled(m.nest, e, read, [&](const Form& f) { return points.known_part(f); });
    points.release(m.part.row), points.release(m.part.over);
    return result;
  }

  std::optional<Expr> conditions(std::size_t l, Element& at) {
    std::optional<Expr> all;
    for (const auto& [condition, holds] : members_[l].part.when) {
      const Expr own = value(l, condition, at), as_said = holds ? own : Expr(Operation{Op::Not, {own}, DType::Bool});
      all = all ? both(*all, as_said) : as_said;
    }
    return all;
  }
  Expr where_not_0(std::size_t l, Element& at, const Expr& product) {
    const auto condition = conditions(l, at);
    return condition ? choose(*condition, product, zero()) : product;
  }

  // A product with what waits for it.
  Expr scaled(std::size_t l, Element& at) {
    Expr product = product_at(members_[l], at);
    for (const poly::Expr& factor : members_[l].part.times)
      product = Operation{Op::Mul, {product, value(l, factor, at)}, type_};
    for (const poly::Expr& divisor : members_[l].part.divisors)
      product = Operation{Op::Div, {product, value(l, divisor, at)}, type_};
    return where_not_0(l, at, product);
  }

  // Tiles in order, up to where the maximum is wanted, or from there on.
  void tiles(Body& body, Element& at, bool before, bool after) {
    for (std::size_t l = 0; l < members_.size(); ++l) {
      const PassMember& m = members_[l];
      if (m.part.role == OnlinePart::Product) {
        if (!before && !held_.empty() && !wanted_behind(l)) continue;
        const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
        // what may not exist where there is no point
        const bool reads = !m.part.times.empty() || !m.part.divisors.empty() || !m.part.when.empty();
        const Expr fill = point && m.nest.fill ? convert(constant_of(*m.nest.fill), type_) : zero();
        if (point && reads) {
          const std::string name = allocate(body, "s", 1, Memory::Register);
          body.push_back(stmt(Store{name, i64(0), fill}));
          body.push_back(stmt(If{*point, {stmt(Store{name, i64(0), convert(rounded(m, scaled(l, at)), type_)})}, {}}));
          at.values.insert_or_assign(l, let(body, "s", Load{name, i64(0), type_}));
        } else {
          const Expr value = rounded(m, scaled(l, at));
          at.values.insert_or_assign(l,
              let(body, "s",
                  point && m.nest.fill && m.nest.rows.size() > 0 ? choose(*point, value, convert(fill, value.type()))
                                                                 : value));
        }
        continue;
      }
      if (m.part.role != OnlinePart::Tile) continue;
      if (m.follows ? !after : !before) {
        if (!m.follows) at.values.insert_or_assign(l, Load{held_.at(l), i64(at.x), type_});
        continue;
      }
      const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
      if (!point) {
        at.values.insert_or_assign(
            l, let(body, "t", rounded(m, value(l, m.late ? m.late->numerator : *m.nest.value, at))));
      } else {
        const std::string name = allocate(body, "t", 1, Memory::Register);
        body.push_back(stmt(Store{name, i64(0), convert(constant_of(*m.nest.fill), type_)}));
        Body there;
        const Expr own = let(there, "t", rounded(m, value(l, m.late ? m.late->numerator : *m.nest.value, at)));
        there.push_back(stmt(Store{name, i64(0), convert(own, type_)}));
        body.push_back(stmt(If{*point, std::move(there), {}}));
        at.values.insert_or_assign(l, let(body, "t", Load{name, i64(0), type_}));
      }
      if (const auto held = held_.find(l); held != held_.end())
        body.push_back(stmt(Store{held->second, i64(at.x), convert(at.values.at(l), type_)}));
    }
  }
  // Whether something that is computed behind the maximum reads this product itself.
  bool wanted_behind(std::size_t product) const {
    return std::ranges::any_of(members_, [&](const PassMember& m) {
      if (m.part.role == OnlinePart::Product || is_maximum(m) || (m.part.role == OnlinePart::Tile && !m.follows))
        return false;
      return std::ranges::any_of(
          m.nest.reads, [&](const FlatAccess& read) { return read.tensor == members_[product].nest.target.tensor; });
    });
  }

  // f at each element of the thread.
  Body each(const std::function<Body(Element&)>& f, bool asked) {
    Body body;
    for (std::int64_t x = 0; x < each_; ++x) {
      Body one;
      Element at = element(one, x, asked);
      append(one, f(at));
      append(body, std::move(one));
    }
    return body;
  }

  void fold(Body& body, std::size_t l, const std::string& to, std::int64_t slot, Element& at) {
    const PassMember& m = members_[l];
    const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
    Body one;
    const Expr own = value(l, *m.nest.value, at);
    one.push_back(stmt(
        Store{to, i64(slot), combine(m.nest.aggregation, Load{to, i64(slot), type_of(m)}, convert(own, type_of(m)))}));
    if (point) body.push_back(stmt(If{*point, std::move(one), {}}));
    else append(body, std::move(one));
  }

  Body before_maximum(const std::string& here, bool asked) {
    return each([&](Element& at) {
      Body body;
      tiles(body, at, true, false);
      fold(body, *maximum_, here, 0, at);
      return body;
    }, asked);
  }

  Body with_maximum(bool again, bool asked) {
    const bool all = !maximum_ || again;
    return each([&](Element& at) {
      Body body;
      tiles(body, at, all, true);
      for (std::size_t l = 0; l < members_.size(); ++l)
        if (members_[l].part.role == OnlinePart::Fold && !is_maximum(members_[l]))
          fold(body, l, members_[l].registers, slot_, at);
      std::vector<std::pair<std::size_t, Expr>> factors;  // all are read before one takes the place of a product
      for (std::size_t l = 0; l < members_.size(); ++l) {
        const PassMember& m = members_[l];
        if (m.part.role != OnlinePart::Sum) continue;
        const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
        const std::string name = point ? allocate(body, "f", 1, Memory::Register) : std::string();
        Body there;
        const Expr own = let(
            there, "f", where_not_0(l, at, convert(value(l, m.late ? m.late->numerator : *m.part.by_row, at), type_)));
        if (!point) {
          append(body, std::move(there));
          factors.emplace_back(l, own);
          continue;
        }
        there.push_back(stmt(Store{name, i64(0), own}));
        body.push_back(stmt(Store{name, i64(0), zero()}));
        body.push_back(stmt(If{*point, std::move(there), {}}));
        factors.emplace_back(l, Load{name, i64(0), type_});
      }
      for (const auto& [l, factor] : factors) append(body, put_factor(members_[l], at, factor));
      return body;
    }, asked);
  }

  // ---- results

  // 0 where the block has a row that is not known so: its maximum is -inf, or what it holds is not finite; else 1.
  Expr is_sound(Body& body) {
    Expr all = zero();
    const auto add = [&](const Expr& e) { all = Operation{Op::Add, {all, e}, type_}; };
    for (const PassMember& m : members_) {
      if (m.part.role == OnlinePart::Sum)
        for (std::int64_t x = 0; x < registers_of(m); ++x) add(Load{m.registers, i64(x), type_});
      if (m.part.role == OnlinePart::Fold && m.rescaled)
        for (std::int64_t r = 0; r < rows_of_thread(); ++r) add(Load{m.registers, i64(r), type_});
    }
    const auto finite = [&](const Expr& e) { return equal(Operation{Op::Sub, {e, e}, type_}, zero()); };
    Expr sound = finite(let(body, "all", all));
    if (maximum_)
      append(body, each_row([&] {
        Expr known = finite(Load{highest_, i64(slot_), type_});
        if (rows_ % height_) known = Operation{Op::Or, {known, at_least(row_value_, i64(rows_))}, DType::Bool};
        sound = both(sound, known);
        return Body();
      }));
    const std::string name = names_.fresh("sound");
    body.push_back(stmt(Fold{name, Aggregation::Min, choose(let(body, "finite", sound), one(), zero()), thread_}));
    return Variable{name, type_};
  }

  Expr result(const PassMember& m, const Expr& value) const {
    return convert(convert(value, compute_type(m.dtype)), m.dtype);
  }
  static bool local(const PassMember& m) {
    return std::ranges::find(m.nest.locals, m.nest.target.tensor) != m.nest.locals.end();
  }

  Body write() {
    Body body = before_writes();
    for (std::size_t l = 0; l < members_.size(); ++l) {
      const PassMember& m = members_[l];
      if (local(m)) continue;
      if (m.part.role == OnlinePart::Fold) append(body, each_row([&] { return write_fold(l); }));
      if (m.part.role == OnlinePart::Sum) append(body, write_sum(l));
    }
    return body;
  }

  // A sum of numerators, as the tile says: zeros times what is not finite are no numbers, as is a zero times their sum.
  Expr divided(const PassMember& tile, const poly::Expr& value, const Expr& sum, const Expr& by) const {
    const auto& apply = *value.as<poly::Apply>();
    if (apply.op == Op::Div) return Operation{Op::Div, {sum, by}, type_};
    const Expr condition = spelled(
        tile.nest, apply.operands[0], [&](std::size_t) { return by; },
        [](const Form&) -> Expr { throw lang::InternalError("a divisor has no value of an index"); });
    const auto* first = apply.operands[1].as<poly::Number>();
    const Expr quotient = divided(tile, apply.operands[first ? 2 : 1], sum, by);
    const Expr none = Operation{Op::Mul, {sum, zero()}, type_};
    return first ? choose(condition, none, quotient) : choose(condition, quotient, none);
  }

  Body write_fold(std::size_t l) {
    const PassMember& m = members_[l];
    Body body;
    const Expr total = this->total(m);
    Ranges points = points_[l];
    points.fix(m.part.row, row_value_);
    Expr mine = writes_rows();
    if (rows_ % height_) mine = both(mine, less(row_value_, i64(rows_)));
    body.push_back(stmt(If{mine,
        {stmt(Store{storage_.name(m.nest.target.tensor), points.known_part(m.nest.target.offset), result(m, total)})},
        {}}));
    return body;
  }

  const Storage& storage_;
  Names& names_;
  // each_: elements of a thread
  std::int64_t threads_, depth_ = 0, height_ = 0, parts_ = 1, each_ = 0, rows_ = 0, over_ = 0, blocks_ = 1;
  DType type_ = DType::F32;
  std::vector<PassMember> members_;
  std::vector<Ranges> points_;                         // of each member
  std::map<TensorId, std::size_t> by_tensor_;
  std::optional<std::size_t> maximum_;
  bool divides_ = false;                               // some sum is divided by a fold
  std::map<std::pair<std::size_t, std::size_t>, std::string> of_rows_;  // member, read → what was read once
  std::map<std::size_t, std::string> held_;            // tiles in registers, an element each
  std::string block_, thread_, highest_;
  struct Slot { Expr row, value; };                    // a row of the thread, of the block and of all
  std::vector<Slot> slots_;
  std::int64_t slot_ = 0;                              // the one that row_ and row_value_ are of
  Expr i0_ = i64(0), j0_ = i64(0), row_ = i64(0), row_value_ = i64(0), first_ = i64(0), turns_ = i64(0),
       maximum_now_ = i64(0);
};

}  // namespace tilec::codegen
