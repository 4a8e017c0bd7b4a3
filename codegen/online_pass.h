// What all passes over an index have in common (online_leaf.h): which statements wait for the maximum, rows of a
// thread, folds, what is told at the end (online_pass.cpp), and what a thread computes at its elements
// (online_elements.cpp).
// How products are computed and where their operands lie is said by who derives from it: by threads
// (online_leaf.cpp), by tensor cores (online_cores.cpp).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/finishing.h"
#include "codegen/online_leaf.h"
#include "codegen/ranges.h"
#include "codegen/scalar.h"

namespace tilec::codegen {

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

// An operand of products: a box of `depth` x `side` in shared memory, `side` innermost, or `depth`, as in memory.
struct Operand {
  std::size_t leaf, depth_dim, side_dim;
  const poly::Expr* factor;
  std::int64_t depth, side, pitch;                     // of the box; elements from one row of it to the next
  std::string shared;
  bool as_stored = false, copied = true;               // copied: by this member, not by a product that has it too
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
  bool known = false;                                  // a Fold: the sweep before has found it
  std::optional<LateDivision> late = {};               // a Tile, and the factor of a Sum: its numerator alone is
                                                       // computed
  std::optional<std::size_t> divided = {};             // a Sum: the tile, or itself, that says by what
};

class OnlinePass {
 public:
  // Of one that goes over its index twice: what finds folds that others read, and writes nothing; or all, which knows
  // them.
  enum class Sweep { Only, First, Second };
  OnlinePass(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage, Names& names,
      std::int64_t threads, Sweep sweep = Sweep::Only);

  virtual ~OnlinePass() = default;
  OnlinePass(const OnlinePass&) = delete;
  OnlinePass& operator=(const OnlinePass&) = delete;

  Body spell();

 protected:
  // What elements() is for, of a thread: some of its rows, some of its elements in each.
  struct Some { std::int64_t first_row, rows, first, count; };
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
  // The factor of rows of a sum, and where it goes.
  virtual const poly::Expr& factor_of_row(const PassMember& sum) const {
    return sum.late ? sum.late->numerator : *sum.part.by_row;
  }
  virtual Body put_factor(const PassMember& sum, const Element& at, const Expr& factor) = 0;
  // Of a row: of what all threads found that have it; how what was summed shrinks; all of a fold, behind the pass.
  virtual Expr highest_of(Body& body, const Expr& found) = 0;
  virtual Body put_scale(const Expr& scale) = 0;
  virtual Body before_writes() = 0;
  virtual Expr total(const PassMember& fold) const = 0;    // of row slot_
  virtual Body write_sum(std::size_t l) = 0;
  virtual Expr writes_rows() const = 0;                // of the threads that have a row, one
  // Whether products, and sums of them, stay in registers of the threads that have their rows: these may look at a
  // product twice, and ask whether a sum is to be scaled.
  virtual bool in_registers() const { return false; }
  virtual Body scale_sums() { return {}; }             // all sums in registers, by what put_scale() said of each row

  void make_members(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, Sweep sweep);
  void make_finishing(const std::vector<Nest>& nests, const std::vector<Compute>& leaves);

  Expr let(Body& body, const std::string& stem, const Expr& value);
  Expr zero() const { return Constant{type_, 0, 0.0}; }
  Expr one() const { return Constant{type_, 0, 1.0}; }
  Expr lowest() const { return identity(Aggregation::Max, type_); }
  static Expr choose(const Expr& condition, const Expr& a, const Expr& b);
  static Expr equal(const Expr& a, const Expr& b) { return Operation{Op::Eq, {a, b}, DType::Bool}; }
  std::string allocate(Body& body, const std::string& stem, std::int64_t count, Memory memory);
  std::string allocate(Body& body, const std::string& stem, std::int64_t count, Memory memory, DType type);
  static DType type_of(const PassMember& fold) { return compute_type(fold.nest.value->type()); }

  // f for each row of the thread, or for some.
  Body each_row(const std::function<Body()>& f);

  // The maximum that others read before all of it is known, and who does.
  void find_maximum();

  // p → this block's first row and the values of what stands around.
  Body coordinates();
  // Which block has which rows. Blocks that go through more begin first, of all that stands around or of so many values
  // of it: where rows are bounded as in causal attention, one of the last ones has as many turns as all others together
  // have on average twice, and what begins last ends alone. The columns of those that begin together stay in the
  // second cache: 16 heads of 4096 causal rows end at 1.01 of the least time so, and one after the other at 1.3.
  struct Order { std::int64_t together = 1; bool last_first = false; };
  Order order_of_blocks(std::int64_t tiles, std::int64_t around);

  // ---- one thread

  Body one_thread();
  Body swept();                                        // up to what is written

  bool bounded(const PassMember& m) const;
  bool may_begin_again() const;
  // What a sum adds of its own point alone.
  Stmt at_point(std::size_t l, const Expr& row, const Expr& column, Body adds);

  // Which values of what is passed over have a point for some row of the block, by the rows over both.
  Interval passed_over() const;
  Body range();

  Expr last_row() const;                               // of the block

  // ---- what is known before the elements (online_known.cpp)

  // Tiles that are a product times a constant, of which exp() takes the constant into its own; and whether the maximum
  // is one of such a tile, so that the product's maximum tells it.
  void find_scaled();
  // Whether reciprocals stand for divisors: no equality asks for the bits of a quotient, and where a divisor has none
  // that is a normal number, sums are NaN, so that the pass begins again with divisions.
  void find_quotients();
  bool divides(const PassMember& m, std::size_t r) const;
  // What depends on the row alone is read once.
  Body rows_alone();
  // What depends on the column alone: its place in shared memory, and a turn's values on their way there.
  Body known_columns();
  Body registers_of_columns();
  Body load_columns(const Expr& first);
  Body put_columns(const Expr& buffer);
  virtual std::int64_t turns_at_once() const { return 1; }  // whose columns are in shared memory

  // ---- operands

  std::vector<std::size_t> reads_of(const poly::Expr& e) const;

  // ---- a pass; `again`: the maxima are known

  virtual Body pass(bool again);
  Body nothing_so_far(bool again);                     // sums and folds
  virtual std::int64_t registers_of(const PassMember& sum) const { return sum.leaf.rows * sum.leaf.vectors; }
  bool is_maximum(const PassMember& m) const { return maximum_ && &m == &members_[*maximum_]; }

  // ---- elements

  // Whether the statement has a point there; none: always. `all`: the ends of both indices are looked at, too.
  std::optional<Expr> is_point(std::size_t l, const Expr& row, const Expr& column, bool all);

  // Whether all points of the tile are points of all statements, as far as they are asked; none: they are.
  std::optional<Expr> whole_tile();

  Body elements(bool again);
  Body elements_of_row(bool again, const std::optional<Expr>& whole);
  // What stands for the maximum, by one more value of it: sums so far are brought to it.
  Expr grown(Body& body, const Expr& found);
  // Sums, which are for what stood for the maximum, are brought to the maximum.
  Body settled();
  Body put_scale_of(const Expr& scale);
  static Expr equal_i64(const Expr& a, std::int64_t b) { return Operation{Op::Eq, {a, i64(b)}, DType::Bool}; }

  // Tiles that what comes behind the maximum reads stay in registers.
  void hold(Body& body);

  // Values at one element: of tiles that are computed there.
  struct Element {
    std::int64_t x;
    Expr local, column;                                // within the tile; of the index
    bool asked;                                        // whether it is a point is asked
    std::map<std::size_t, Expr> values = {};
  };
  Expr rounded(const PassMember& m, const Expr& value) const;

  // Of what a value reads: maxima of the program, and divisors with their reciprocals.
  struct Known {
    std::vector<Expr> maxima = {};
    std::vector<std::pair<Expr, Expr>> reciprocals = {};
    struct Scaled { Expr value, product; double by; };
    std::vector<Scaled> scaled = {};
  };
  // A read that is in registers or in shared memory.
  std::optional<Expr> known_read(std::size_t l, std::size_t r, const Element& at, Known& known) const;
  // exp(x - M) and x / z in few instructions.
  Expr by_known(const Expr& e, const Known& known) const;
  Expr spelled_value(std::size_t l, const poly::Expr& e, Element& at, Known& known);
  Expr value(std::size_t l, const poly::Expr& e, Element& at);

  std::optional<Expr> conditions(std::size_t l, Element& at);
  Expr where_not_0(std::size_t l, Element& at, const Expr& product);

  // A product with what waits for it.
  Expr scaled(std::size_t l, Element& at);

  Expr product_value(Body& body, std::size_t l, Element& at);
  Expr tile_value(Body& body, std::size_t l, Element& at);
  // A scaled tile's element, by its product.
  Expr of_product(Body& body, std::size_t tile, const Expr& product);
  // Tiles in order, up to where the maximum is wanted, or from there on.
  void tiles(Body& body, Element& at, bool before, bool after);
  // Whether something that is computed behind the maximum reads this product itself.
  bool wanted_behind(std::size_t product) const;

  // f at each element of the thread.
  Body each(const std::function<Body(Element&)>& f, bool asked);

  void fold(Body& body, std::size_t l, const std::string& to, std::int64_t slot, Element& at);

  Body before_maximum(const std::string& here, bool asked);

  Body with_maximum(bool again, bool asked);

  // ---- results

  // 0 where the block has a row that is not known so: its maximum is -inf, or what it holds is not finite; else 1.
  Expr is_sound(Body& body);

  Body write();

  // What a sum of numerators is divided by, in a row of which `total` tells each fold; none: it is the sum itself.
  std::optional<Expr> divisor(
      Body& body, const PassMember& sum, const std::function<Expr(const PassMember&)>& total) const;
  Expr divided(const PassMember& m, const Expr& sum, const std::optional<Expr>& by) const;
  // As the tile says: zeros times what is not finite are no numbers, as is a zero times their sum.
  Expr divided(const PassMember& tile, const poly::Expr& value, const Expr& sum, const Expr& by) const;

  Body write_fold(std::size_t l);
  // How a sum or fold of which something is written is finished.
  Finishing finishing(std::size_t l) const { return {finishing_.at(l), storage_, names_}; }
  // What statements that finish it read of folds, in a row of which `total` tells each.
  Finishing::Known known_folds(
      Body& body, std::size_t l, const std::function<Expr(const PassMember&)>& total) const;

  const Storage& storage_;
  Names& names_;
  // each_: elements of a thread
  std::int64_t threads_, depth_ = 0, height_ = 0, parts_ = 1, each_ = 0, rows_ = 0, over_ = 0, blocks_ = 1;
  DType type_ = DType::F32;
  std::vector<PassMember> members_;
  std::vector<Ranges> points_;                         // of each member
  std::map<TensorId, std::size_t> by_tensor_;
  // Of a fold or a sum of which something is written: its own nest, and those of what finishes it.
  std::map<std::size_t, std::vector<Nest>> finishing_;
  std::optional<std::size_t> maximum_;
  std::set<TensorId> maxima_;                          // of the program
  struct ScaledTile { std::size_t product; double by; };
  std::map<std::size_t, ScaledTile> scaled_;           // by the tile
  std::optional<std::size_t> maximum_of_product_;      // the tile whose product tells the maximum
  std::map<std::size_t, std::size_t> extreme_of_product_;  // the same of other folds
  bool asks_folds_ = false;                            // what is written of some sum asks for folds of its row
  struct OfRow { std::string registers, reciprocals; };
  Body reciprocal_of_row(const OfRow& own) const;
  std::map<std::pair<std::size_t, std::size_t>, OfRow> of_rows_;  // member, read → what was read once
  struct OfColumn {
    std::size_t member, read;
    DType type;
    std::string shared, reciprocals, ahead;            // of a turn; the next turn's, in registers
  };
  void each_known_column(Body& body, const std::function<Body(const OfColumn&, std::int64_t, const Expr&)>& f);
  std::vector<OfColumn> known_columns_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> column_of_;  // member, read → which
  Math math_;                                          // what factors may be rounded to
  bool again_ = false, quotients_ = false, reciprocals_ = false;  // quotients_: by constants
  std::map<std::size_t, std::string> held_;            // tiles in registers, an element each
  std::string block_, thread_, highest_;
  std::string reference_;                              // of each row, what stands for the maximum; empty: itself
  struct Slot { Expr row, value; };                    // a row of the thread, of the block and of all
  std::vector<Slot> slots_;
  std::int64_t slot_ = 0;                              // the one that row_ and row_value_ are of
  std::optional<Some> some_;                           // none: all rows and elements
  Expr i0_ = i64(0), j0_ = i64(0), row_ = i64(0), row_value_ = i64(0), first_ = i64(0), turns_ = i64(0),
       maximum_now_ = i64(0), buffer_ = i64(0);        // buffer_: where this turn's columns are
};

}  // namespace tilec::codegen
