// A block of threads: operands to shared memory, products to tiles, elements of tiles, sums in registers; rows that are told at the end.
#include "codegen/online.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "codegen/ranges.h"
#include "codegen/rewrite.h"
#include "codegen/scalar.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::InternalError;

constexpr std::int64_t widest = 16;                    // bytes of an access
constexpr std::int64_t neighbours = 4;                 // elements of an access, at most
constexpr std::int64_t warp_rows = 8, warp_columns = 4;  // threads of a warp, as in staged.cpp
constexpr std::int64_t unrolled = 16;                  // values of a reduction, whose products stand side by side

Expr i64(std::int64_t value) { return Expr(value); }
Expr quotient(const Expr& a, std::int64_t b) { return b == 1 ? a : Expr(Operation{Op::Div, {a, i64(b)}, DType::I64}); }
Expr remainder(const Expr& a, std::int64_t b) { return b == 1 ? i64(0) : Expr(Operation{Op::Mod, {a, i64(b)}, DType::I64}); }
std::int64_t square(std::int64_t count) { return std::gcd(count, neighbours); }  // neighbours of one thread
// From one value of a reduction to the next, in shared memory: rows that are read as columns differ in their banks.
std::int64_t pitch_of(std::int64_t side) { return side; }

bool depends(const Nest& nest, const poly::Expr& e, std::size_t d) {
  return std::ranges::any_of(poly::parts(e), [&](const poly::Expr& part) {
    if (const auto* r = part.as<poly::Read>()) return nest.reads[static_cast<std::size_t>(r->read)].offset.coefficients[d] != 0;
    if (const auto* x = part.as<poly::Index>()) return nest.form(x->value).coefficients[d] != 0;
    return false;
  });
}
bool has_index(const poly::Expr& e) {
  return std::ranges::any_of(poly::parts(e), [](const poly::Expr& part) { return part.as<poly::Index>() != nullptr; });
}

using ReadValue = std::function<Expr(std::size_t)>;
using IndexValue = std::function<Expr(const Form&)>;
Expr spelled(const Nest& nest, const poly::Expr& e, const ReadValue& read, const IndexValue& index) {
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

struct Member {
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
  std::optional<LateDivision> late = {};               // a Tile, and the factor of a Sum: its numerator alone is computed
  std::optional<std::size_t> divided = {};             // a Sum: the tile, or itself, that says by what
};

class Online {
 public:
  Online(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage, Names& names, std::int64_t threads) : storage_(storage), names_(names), threads_(threads) {
    const std::string& over = leaves.front().n;
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      auto part = online_part(nests[l], leaves[l].m(), over);
      if (const auto* why = std::get_if<std::string>(&part)) throw InternalError("the plan passes over a statement: " + *why);
      members_.push_back({nests[l], leaves[l], std::get<OnlinePart>(std::move(part)), storage.plan.program.tensor(nests[l].target.tensor).dtype, {}, {}, {}, {}, {}, false, false});
      by_tensor_.emplace(nests[l].target.tensor, l);
    }
    depth_ = leaves.front().as<forms::Online>()->depth;
    height_ = online_rows(leaves.front(), threads);
    parts_ = threads / height_;
    each_ = depth_ / parts_;
    const Member& first = members_.front();
    rows_ = first.nest.dims[first.part.row].extent, over_ = first.nest.dims[first.part.over].extent;
    for (const Member& m : members_) if (m.part.role != OnlinePart::Fold) type_ = type_of(m);
    if (std::ranges::all_of(members_, [](const Member& m) { return m.part.role == OnlinePart::Fold; })) type_ = type_of(first);
    find_maximum();
  }

  Body spell() {
    block_ = names_.fresh("p"), thread_ = names_.fresh("l");
    Body body = coordinates();
    append(body, shared_memory());
    body.push_back(stmt(For{thread_, Kind::Thread, i64(threads_), {}, one_thread()}));
    return {stmt(For{block_, Kind::Block, i64(blocks_), {}, std::move(body)})};
  }

 private:
  Expr let(Body& body, const std::string& stem, const Expr& value) {
    if (value.as<Constant>() || value.as<Variable>()) return value;
    const std::string name = names_.fresh(stem);
    body.push_back(stmt(Let{name, value}));
    return Variable{name, value.type()};
  }
  Expr zero() const { return Constant{type_, 0, 0.0}; }
  Expr one() const { return Constant{type_, 0, 1.0}; }
  Expr lowest() const { return identity(Aggregation::Max, type_); }
  static Expr choose(const Expr& condition, const Expr& a, const Expr& b) { return Operation{Op::Select, {condition, a, b}, a.type()}; }
  static Expr equal(const Expr& a, const Expr& b) { return Operation{Op::Eq, {a, b}, DType::Bool}; }
  std::string allocate(Body& body, const std::string& stem, std::int64_t count, Memory memory) { return allocate(body, stem, count, memory, type_); }
  std::string allocate(Body& body, const std::string& stem, std::int64_t count, Memory memory, DType type) {
    const std::string name = names_.fresh(stem);
    body.push_back(stmt(Allocate{name, type, count, memory}));
    return name;
  }
  static DType type_of(const Member& fold) { return compute_type(fold.nest.value->type()); }

  // The maximum that others read before all of it is known, and who does.
  void find_maximum() {
    const auto fold = [&](TensorId id) {
      const auto at = by_tensor_.find(id);
      return at != by_tensor_.end() && members_[at->second].part.role == OnlinePart::Fold ? std::optional(at->second) : std::nullopt;
    };
    for (std::size_t l = 0; l < members_.size(); ++l) {
      Member& m = members_[l];
      auto late = m.part.role == OnlinePart::Tile ? late_division(*m.nest.value) : m.part.role == OnlinePart::Sum ? late_division(*m.part.by_row) : std::nullopt;
      if (late && fold(m.nest.reads[late->divisor].tensor)) {
        m.late = std::move(late), divides_ = true;
        if (m.part.role == OnlinePart::Sum) m.divided = l;
      }
      for (std::size_t r = 0; r < m.nest.reads.size(); ++r) {
        if (m.part.role == OnlinePart::Sum)
          if (const auto at = by_tensor_.find(m.nest.reads[r].tensor); at != by_tensor_.end() && members_[at->second].late && members_[at->second].part.role == OnlinePart::Tile) m.divided = at->second;
        if (m.late && r == m.late->divisor) continue;
        if (const auto of = fold(m.nest.reads[r].tensor)) maximum_ = of;
      }
    }
    if (!maximum_) return;
    for (Member& m : members_)
      for (const FlatAccess& read : m.nest.reads) {
        const auto at = by_tensor_.find(read.tensor);
        if (at == by_tensor_.end()) continue;
        if (at->second == *maximum_ || members_[at->second].follows) (m.part.role == OnlinePart::Tile ? m.follows : m.rescaled) = true;
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
    for (Member& m : members_) {
      points_.emplace_back(m.nest);
      for (std::size_t o = 0; o < outer.size(); ++o) points_.back().fix(*m.nest.dim(outer[o]), at[o]);
    }
    return body;
  }

  Body shared_memory() {
    Body body;
    std::size_t products = 0, sums = 0;
    std::vector<std::string> tiles;
    const auto tile = [&](std::size_t number) {
      while (tiles.size() <= number) tiles.push_back(allocate(body, "tile", depth_ * pitch_of(height_), Memory::Shared));
      return tiles[number];
    };
    for (std::size_t l = 0; l < members_.size(); ++l) {
      Member& m = members_[l];
      const bool product = m.part.role == OnlinePart::Product;
      if (product) {
        const std::int64_t depth = m.nest.dims[m.part.depth].extent;
        m.by_row = {l, m.part.depth, m.part.row, &*m.part.by_row, depth, height_, allocate(body, "rows", depth * pitch_of(height_), Memory::Shared)};
        m.by_column = {l, m.part.depth, m.part.over, &*m.part.by_column, depth, depth_, allocate(body, "columns", depth * pitch_of(depth_), Memory::Shared)};
        m.tile = tile(products++);
      }
      if (m.part.role == OnlinePart::Sum) {
        const std::int64_t side = m.leaf.lanes * m.leaf.vectors;
        m.by_column = {l, m.part.over, m.part.column, &*m.part.by_column, depth_, side, allocate(body, "columns", depth_ * pitch_of(side), Memory::Shared)};
        m.tile = tile(sums++);
      }
      if (m.part.role == OnlinePart::Fold && (parts_ > 1 || divides_)) m.shared = allocate(body, "parts", parts_ * height_, Memory::Shared, type_of(m));
    }
    if (maximum_) scale_ = allocate(body, "scale", height_, Memory::Shared);
    return body;
  }

  // ---- one thread

  Body one_thread() {
    Body body;
    row_ = let(body, "r", remainder(var(thread_), height_));
    part_ = let(body, "part", quotient(var(thread_), height_));
    row_value_ = let(body, members_.front().leaf.m(), i0_ + row_);
    for (Member& m : members_) {
      if (m.part.role == OnlinePart::Sum) m.registers = allocate(body, "acc", m.leaf.rows * m.leaf.vectors, Memory::Register);
      if (m.part.role == OnlinePart::Fold) m.registers = allocate(body, "so_far", 1, Memory::Register, type_of(m));
    }
    if (maximum_) highest_ = members_[*maximum_].registers, body.push_back(stmt(Store{highest_, i64(0), lowest()}));
    for (Member& m : members_)
      if (m.part.role == OnlinePart::Product) append(body, load(m, m.by_row, i0_, rows_));
    append(body, rows_alone());
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

  bool bounded(const Member& m) const { return std::ranges::any_of(m.nest.rows, [&](const Row& row) { return row.form.coefficients[m.part.over] != 0 || row.form.coefficients[m.part.row] != 0; }); }
  bool may_begin_again() const {
    return maximum_ || std::ranges::any_of(members_, [&](const Member& m) { return m.part.role == OnlinePart::Sum && bounded(m); });
  }

  // Which values of what is passed over have a point for some row of the block, by the rows over both.
  Body range() {
    Body body;
    std::optional<Interval> all;
    for (std::size_t l = 0; l < members_.size(); ++l) {
      const Member& m = members_[l];
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
    if (const std::int64_t known = const_or(all->hi, -1), from = const_or(first_, -1); known >= 0 && from >= 0) turns_ = i64(std::max<std::int64_t>(0, (known - from + depth_ - 1) / depth_));
    else turns_ = let(body, "turns", maximum(i64(0), ceil_divide(all->hi - first_, depth_)));
    return body;
  }

  // What depends on the row alone is read once.
  Body rows_alone() {
    Body body;
    for (std::size_t l = 0; l < members_.size(); ++l) {
      const Member& m = members_[l];
      if (m.part.role == OnlinePart::Product) continue;
      for (std::size_t r = 0; r < m.nest.reads.size(); ++r) {
        const FlatAccess& read = m.nest.reads[r];
        if (by_tensor_.contains(read.tensor) || of_column(m, r) || read.offset.coefficients[m.part.over] != 0) continue;
        const DType type = storage_.plan.program.tensor(read.tensor).dtype;
        const std::string name = names_.fresh("of_row");
        body.push_back(stmt(Allocate{name, compute_type(type), 1, Memory::Register}));
        body.push_back(stmt(Store{name, i64(0), Constant{compute_type(type), 0, 0.0}}));
        Ranges known = points_[l];
        known.fix(m.part.row, row_value_);
        std::optional<Expr> there = known.fixed_rows();  // where they do not hold, the element may not exist
        Body one{stmt(Store{name, i64(0), convert(Load{storage_.name(read.tensor), known.known_part(read.offset), type}, compute_type(type))})};
        if (rows_ % height_) there = there ? both(less(row_value_, i64(rows_)), *there) : less(row_value_, i64(rows_));
        if (there) body.push_back(stmt(If{*there, std::move(one), {}}));
        else append(body, std::move(one));
        of_rows_.emplace(std::pair(l, r), name);
      }
    }
    return body;
  }
  bool of_column(const Member& m, std::size_t r) const {
    return m.part.role == OnlinePart::Sum && std::ranges::any_of(poly::parts(*m.part.by_column), [&](const poly::Expr& e) { const auto* read = e.as<poly::Read>(); return read && static_cast<std::size_t>(read->read) == r; });
  }

  // ---- operands

  // How many neighbours along d one access of this read has.
  std::int64_t access_width(const FlatAccess& access, std::size_t d, std::int64_t most) const {
    if (access.offset.coefficients[d] != 1) return 1;
    std::int64_t w = std::min(most, widest / lang::bytes(storage_.plan.program.tensor(access.tensor).dtype));
    const auto halve = [&](std::int64_t c) { while (c % w) w /= 2; };
    halve(access.offset.constant);
    for (std::size_t x = 0; x < access.offset.coefficients.size(); ++x) if (x != d) halve(access.offset.coefficients[x]);
    return std::max<std::int64_t>(w, 1);
  }
  std::vector<std::size_t> reads_of(const poly::Expr& e) const {
    std::vector<std::size_t> reads;
    for (const poly::Expr& part : poly::parts(e)) if (const auto* r = part.as<poly::Read>()) reads.push_back(static_cast<std::size_t>(r->read));
    std::ranges::sort(reads);
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    return reads;
  }

  // The box of an operand whose side, or depth, begins at `first` of `extent` values: zeros beyond it. Threads lie side by side over what
  // lies so in shared memory; where elements follow one another along the other dimension, each reads some of these.
  Body load(const Member& m, const Operand& o, const Expr& first, std::int64_t extent) {
    const bool over_depth = m.part.role == OnlinePart::Sum;  // the box goes on along its depth, else along its side
    const std::vector<std::size_t> reads = reads_of(*o.factor);
    const auto runs = [&](std::size_t d) { return std::ranges::any_of(reads, [&](std::size_t r) { return m.nest.reads[r].offset.coefficients[d] == 1; }); };
    const bool along_depth = runs(o.depth_dim) && !runs(o.side_dim);
    const std::size_t along = along_depth ? o.depth_dim : o.side_dim;
    const std::int64_t real_side = over_depth ? m.nest.dims[o.side_dim].extent : extent;
    const std::int64_t real_along = along_depth ? (over_depth ? extent : m.nest.dims[o.depth_dim].extent) : real_side;
    std::int64_t w = neighbours;
    while (w > 1 && ((along_depth ? o.depth : o.side) % w || real_along % w)) w /= 2;
    for (const std::size_t r : reads) if (m.nest.reads[r].offset.coefficients[along]) w = access_width(m.nest.reads[r], along, w);
    Body body;
    std::string aligned;
    if (w > 1) aligned = look(body, m, reads, along, w);
    const std::int64_t inner = along_depth ? o.side : o.side / w, total = o.depth * o.side / w;
    const std::int64_t turns = (total + threads_ - 1) / threads_;
    const std::string held = allocate(body, "held", turns * w, Memory::Register);
    Body puts;
    for (std::int64_t u = 0; u < turns; ++u) {
      const Expr e = let(body, "e", var(thread_) + i64(u * threads_));
      const Expr x = let(body, "x", remainder(e, inner) * i64(along_depth ? 1 : w)), k = let(body, "k", quotient(e, inner) * i64(along_depth ? w : 1));
      const Expr side = over_depth ? x : let(body, "at", first + x), depth = over_depth ? let(body, "at", first + k) : k;
      std::optional<Expr> there;
      const auto too = [&](const Expr& holds) { there = there ? both(*there, holds) : holds; };
      if (total % threads_ && u + 1 == turns) too(less(e, i64(total)));
      const std::int64_t steps = over_depth ? o.depth : o.side;
      if (extent % steps) too(less(over_depth ? depth : side, i64(extent)));
      if (over_depth && real_side < o.side) too(less(side, i64(real_side)));
      for (std::int64_t c = 0; c < w; ++c) body.push_back(stmt(Store{held, i64(u * w + c), zero()}));
      Body read = accesses(m, o, reads, along, side, depth, held, u * w, w, false);
      if (w > 1) read = {stmt(If{Variable{aligned, DType::Bool}, accesses(m, o, reads, along, side, depth, held, u * w, w, true), std::move(read)})};
      if (there) body.push_back(stmt(If{*there, std::move(read), {}}));
      else append(body, std::move(read));
      Body stores;
      for (std::int64_t c = 0; c < w; ++c)
        stores.push_back(stmt(Store{o.shared, along_depth ? (k + i64(c)) * i64(pitch_of(o.side)) + x : k * i64(pitch_of(o.side)) + (x + i64(c)), Load{held, i64(u * w + c), type_}}));
      if (total % threads_ && u + 1 == turns) puts.push_back(stmt(If{less(e, i64(total)), std::move(stores), {}}));
      else append(puts, std::move(stores));
    }
    append(body, std::move(puts));
    return body;
  }

  std::string look(Body& body, const Member& m, const std::vector<std::size_t>& reads, std::size_t along, std::int64_t w) {
    std::optional<Expr> all;
    for (const std::size_t r : reads) {
      const FlatAccess& access = m.nest.reads[r];
      if (!access.offset.coefficients[along]) continue;
      const std::string one = names_.fresh("aligned");
      body.push_back(stmt(Aligned{one, storage_.name(access.tensor), w * lang::bytes(storage_.plan.program.tensor(access.tensor).dtype)}));
      all = all ? both(*all, Variable{one, DType::Bool}) : Expr(Variable{one, DType::Bool});
    }
    const std::string name = names_.fresh("aligned");
    body.push_back(stmt(Let{name, *all}));
    return name;
  }

  Body accesses(const Member& m, const Operand& o, const std::vector<std::size_t>& reads, std::size_t along, const Expr& side, const Expr& depth, const std::string& held, std::int64_t slot, std::int64_t w, bool together) {
    Body body;
    Ranges points = points_[o.leaf];
    points.fix(o.side_dim, side), points.fix(o.depth_dim, depth);
    std::map<std::size_t, std::string> views;
    for (const std::size_t r : reads) {
      const FlatAccess& access = m.nest.reads[r];
      const bool wide = together && access.offset.coefficients[along] != 0;
      views[r] = names_.fresh("v");
      body.push_back(stmt(View{views[r], storage_.name(access.tensor), points.known_part(access.offset), wide ? w * lang::bytes(storage_.plan.program.tensor(access.tensor).dtype) : w > 1 ? 1 : 0}));
    }
    for (std::int64_t c = 0; c < w; ++c) {
      const auto read = [&](std::size_t r) {
        const FlatAccess& access = m.nest.reads[r];
        return Expr(Load{views.at(r), i64(c * access.offset.coefficients[along]), storage_.plan.program.tensor(access.tensor).dtype});
      };
      const auto index = [&](const Form&) -> Expr { throw InternalError("an operand has no value of an index"); };
      body.push_back(stmt(Store{held, i64(slot + c), convert(spelled(m.nest, *o.factor, read, index), type_)}));
    }
    return body;
  }

  // ---- a pass; `again`: the maxima are known

  Body pass(bool again) {
    Body body;
    for (const Member& m : members_) {
      if (m.part.role == OnlinePart::Sum)
        for (std::int64_t x = 0; x < m.leaf.rows * m.leaf.vectors; ++x) body.push_back(stmt(Store{m.registers, i64(x), zero()}));
      if (m.part.role == OnlinePart::Fold && !(is_maximum(m) && again)) body.push_back(stmt(Store{m.registers, i64(0), identity(m.nest.aggregation, type_of(m))}));
    }
    if (const_or(turns_, 1) <= 0) return body;
    const std::string turn = names_.fresh("turn");
    Body one;
    j0_ = let(one, "j_0", first_ + var(turn) * i64(depth_));
    one.push_back(stmt(Barrier{}));                    // nobody reads the turn before
    for (const Member& m : members_)
      if (m.part.role == OnlinePart::Product || m.part.role == OnlinePart::Sum) append(one, load(m, m.by_column, j0_, over_));
    one.push_back(stmt(Barrier{}));
    bool products = false;
    for (const Member& m : members_)
      if (m.part.role == OnlinePart::Product) append(one, product(m)), products = true;
    if (products) one.push_back(stmt(Barrier{}));
    append(one, elements(again));
    bool sums = false;
    for (const Member& m : members_) sums = sums || m.part.role == OnlinePart::Sum;
    if (sums) one.push_back(stmt(Barrier{}));
    for (const Member& m : members_)
      if (m.part.role == OnlinePart::Sum) append(one, again && bounded(m) ? sum_of_points(m) : sum(m, again));
    Stmt turns = stmt(For{turn, Kind::Serial, turns_, {}, std::move(one)});
    if (is_const(turns_)) body.push_back(std::move(turns));
    else body.push_back(stmt(If{less(i64(0), turns_), {std::move(turns)}, {}}));
    return body;
  }
  bool is_maximum(const Member& m) const { return maximum_ && &m == &members_[*maximum_]; }

  // Where a thread's block begins; its elements are squares of 4 x 4, as in staged.cpp.
  struct Place { Expr row, column; std::int64_t row_step, column_step; };
  Place place(Body& body, const Compute& leaf) {
    const std::int64_t rows = threads_ / leaf.lanes, tall = std::gcd(rows, warp_rows), wide = std::gcd(leaf.lanes, warp_columns), across = leaf.lanes / wide;
    const Expr lane = let(body, "lane", remainder(var(thread_), tall * wide)), group = let(body, "warp", quotient(var(thread_), tall * wide));
    const Expr row = let(body, "t_m", (quotient(group, across) * i64(tall) + quotient(lane, wide)) * i64(square(leaf.rows)));
    const Expr column = let(body, "t_n", (remainder(group, across) * i64(wide) + remainder(lane, wide)) * i64(square(leaf.vectors)));
    return {row, column, rows * square(leaf.rows), leaf.lanes * square(leaf.vectors)};
  }
  static std::int64_t step(std::int64_t i, std::int64_t count, std::int64_t stride) { return i / square(count) * stride + i % square(count); }

  // acc += a b, over `depth` values.
  Body products(const std::string& acc, const Compute& leaf, const Place& at, const std::string& a, std::int64_t pitch_a, const std::string& b, std::int64_t pitch_b, std::int64_t depth) {
    const auto some = [&](const Expr& k) {
      Body one;
      std::vector<Expr> x, y;
      for (std::int64_t i = 0; i < leaf.rows; ++i) x.push_back(let(one, "a", Load{a, at.row + k * i64(pitch_a) + i64(step(i, leaf.rows, at.row_step)), type_}));
      for (std::int64_t j = 0; j < leaf.vectors; ++j) y.push_back(let(one, "b", Load{b, at.column + k * i64(pitch_b) + i64(step(j, leaf.vectors, at.column_step)), type_}));
      for (std::int64_t i = 0; i < leaf.rows; ++i)
        for (std::int64_t j = 0; j < leaf.vectors; ++j)
          one.push_back(stmt(Store{acc, i64(i * leaf.vectors + j), Operation{Op::Fma, {x[static_cast<std::size_t>(i)], y[static_cast<std::size_t>(j)], Load{acc, i64(i * leaf.vectors + j), type_}}, type_}}));
      return one;
    };
    Body body;
    const std::string outer = names_.fresh("k_0"), inner = names_.fresh("k");
    if (const std::int64_t whole = depth / unrolled; whole > 0) {
      Body turn{stmt(For{inner, Kind::Unroll, i64(unrolled), {}, some(var(outer) * i64(unrolled) + var(inner))})};
      body.push_back(stmt(For{outer, Kind::Serial, i64(whole), {}, std::move(turn)}));
    }
    if (const std::int64_t rest = depth % unrolled; rest > 0) body.push_back(stmt(For{inner, Kind::Unroll, i64(rest), {}, some(i64(depth - rest) + var(inner))}));
    return body;
  }

  Body product(const Member& m) {
    Body body;
    const Place at = place(body, m.leaf);
    const std::string acc = allocate(body, "s", m.leaf.rows * m.leaf.vectors, Memory::Register);
    for (std::int64_t x = 0; x < m.leaf.rows * m.leaf.vectors; ++x) body.push_back(stmt(Store{acc, i64(x), zero()}));
    append(body, products(acc, m.leaf, at, m.by_row.shared, pitch_of(height_), m.by_column.shared, pitch_of(depth_), m.by_row.depth));
    for (std::int64_t j = 0; j < m.leaf.vectors; ++j)
      for (std::int64_t i = 0; i < m.leaf.rows; ++i)
        body.push_back(stmt(Store{m.tile, (at.column + i64(step(j, m.leaf.vectors, at.column_step))) * i64(pitch_of(height_)) + at.row + i64(step(i, m.leaf.rows, at.row_step)), Load{acc, i64(i * m.leaf.vectors + j), type_}}));
    return body;
  }

  Body sum(const Member& m, bool again) {
    Body body;
    const Place at = place(body, m.leaf);
    if (m.rescaled && !again)
      for (std::int64_t i = 0; i < m.leaf.rows; ++i) {
        const Expr by = let(body, "by", Load{scale_, at.row + i64(step(i, m.leaf.rows, at.row_step)), type_});
        for (std::int64_t j = 0; j < m.leaf.vectors; ++j)
          body.push_back(stmt(Store{m.registers, i64(i * m.leaf.vectors + j), Operation{Op::Mul, {Load{m.registers, i64(i * m.leaf.vectors + j), type_}, by}, type_}}));
      }
    append(body, products(m.registers, m.leaf, at, m.tile, pitch_of(height_), m.by_column.shared, pitch_of(m.by_column.side), depth_));
    return body;
  }

  // Each element from its own points: what is no point may be multiplied by something that is not finite.
  Body sum_of_points(const Member& m) {
    const std::size_t l = static_cast<std::size_t>(&m - members_.data());
    Body body;
    const Place at = place(body, m.leaf);
    const std::string k = names_.fresh("k");
    Body one;
    for (std::int64_t i = 0; i < m.leaf.rows; ++i) {
      const Expr row = let(one, "row", at.row + i64(step(i, m.leaf.rows, at.row_step)));
      Body adds;
      const Expr a = let(adds, "a", Load{m.tile, var(k) * i64(pitch_of(height_)) + row, type_});
      for (std::int64_t j = 0; j < m.leaf.vectors; ++j)
        adds.push_back(stmt(Store{m.registers, i64(i * m.leaf.vectors + j), Operation{Op::Fma, {a, Load{m.by_column.shared, at.column + var(k) * i64(pitch_of(m.by_column.side)) + i64(step(j, m.leaf.vectors, at.column_step)), type_}, Load{m.registers, i64(i * m.leaf.vectors + j), type_}}, type_}}));
      one.push_back(stmt(If{*is_point(l, i0_ + row, j0_ + var(k), true), std::move(adds), {}}));
    }
    body.push_back(stmt(For{k, Kind::Serial, i64(depth_), {}, std::move(one)}));
    return body;
  }

  // ---- elements

  // Whether the statement has a point there; none: always. `all`: the ends of both indices are looked at, too.
  std::optional<Expr> is_point(std::size_t l, const Expr& row, const Expr& column, bool all) {
    const Member& m = members_[l];
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
      const Member& m = members_[l];
      if (m.part.role == OnlinePart::Product) continue;
      for (const Row& row : m.nest.rows) {
        Ranges points = points_[l];
        const std::int64_t a = row.form.coefficients[m.part.over], c = row.form.coefficients[m.part.row];
        const auto at = [&](std::int64_t coefficient, const Expr& first, std::int64_t count, bool low) { return (coefficient > 0) == low ? first : first + i64(count - 1); };
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
    const std::optional<Expr> whole = whole_condition ? std::optional(let(body, "whole", *whole_condition)) : std::nullopt;
    const auto both_ways = [&](const std::function<Body(bool)>& step) {
      if (!whole) return append(body, step(false));
      body.push_back(stmt(If{*whole, step(false), step(true)}));
    };
    if (maximum_) {
      const Member& max = members_[*maximum_];
      Expr highest = Load{highest_, i64(0), type_};
      if (!again) {
        const std::string here = allocate(body, "here", 1, Memory::Register);
        body.push_back(stmt(Store{here, i64(0), lowest()}));
        hold(body);
        both_ways([&](bool asked) { return before_maximum(here, asked); });
        Expr found = Load{here, i64(0), type_};
        if (parts_ > 1) {
          body.push_back(stmt(Store{max.shared, part_ * i64(height_) + row_, found}));
          body.push_back(stmt(Barrier{}));
          found = Load{max.shared, row_, type_};
          for (std::int64_t p = 1; p < parts_; ++p) found = Operation{Op::Max, {found, Load{max.shared, i64(p * height_) + row_, type_}}, type_};
        }
        const Expr before = let(body, "before", highest);
        const Expr now = let(body, "now", Operation{Op::Max, {before, found}, type_});
        // As long as it is -inf, all that was added is 0 or no number.
        const Expr kept = Operation{Op::Or, {equal(before, now), equal(before, lowest())}, DType::Bool};
        const Expr scale = let(body, "grown", choose(kept, one(), Operation{Op::Exp, {Operation{Op::Sub, {before, now}, type_}}, type_}));
        body.push_back(stmt(Store{highest_, i64(0), now}));
        body.push_back(stmt(If{equal_i64(part_, 0), {stmt(Store{scale_, row_, scale})}, {}}));
        for (const Member& m : members_)
          if (m.part.role == OnlinePart::Fold && m.rescaled) body.push_back(stmt(Store{m.registers, i64(0), Operation{Op::Mul, {Load{m.registers, i64(0), type_}, scale}, type_}}));
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
  Element element(Body& body, std::int64_t x, bool asked) {
    const Expr local = part_ * i64(each_) + i64(x);
    return {x, local, let(body, "j", j0_ + local), asked, {}};
  }

  Expr rounded(const Member& m, const Expr& value) const { return convert(convert(convert(value, compute_type(m.dtype)), m.dtype), compute_type(m.dtype)); }

  Expr value(std::size_t l, const poly::Expr& e, Element& at) {
    const Member& m = members_[l];
    Ranges& points = points_[l];
    points.fix(m.part.row, row_value_), points.fix(m.part.over, at.column);
    const auto read = [&](std::size_t r) -> Expr {
      const FlatAccess& access = m.nest.reads[r];
      const auto made = by_tensor_.find(access.tensor);
      if (made == by_tensor_.end()) {
        if (const auto own = of_rows_.find({l, r}); own != of_rows_.end()) return Load{own->second, i64(0), compute_type(storage_.plan.program.tensor(access.tensor).dtype)};
        return Load{storage_.name(access.tensor), points.known_part(access.offset), storage_.plan.program.tensor(access.tensor).dtype};
      }
      if (maximum_ && made->second == *maximum_) return maximum_now_;
      return at.values.at(made->second);
    };
    const Expr result = spelled(m.nest, e, read, [&](const Form& f) { return points.known_part(f); });
    points.release(m.part.row), points.release(m.part.over);
    return result;
  }

  // Tiles in order, up to where the maximum is wanted, or from there on.
  void tiles(Body& body, Element& at, bool before, bool after) {
    for (std::size_t l = 0; l < members_.size(); ++l) {
      const Member& m = members_[l];
      if (m.part.role == OnlinePart::Product) {
        Expr value = rounded(m, Load{m.tile, at.local * i64(pitch_of(height_)) + row_, type_});
        const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
        if (point && m.nest.fill && m.nest.rows.size() > 0) value = choose(*point, value, convert(constant_of(*m.nest.fill), value.type()));
        if (before || held_.empty() || wanted_behind(l)) at.values.insert_or_assign(l, let(body, "s", value));
        continue;
      }
      if (m.part.role != OnlinePart::Tile) continue;
      if (m.follows ? !after : !before) {
        if (!m.follows) at.values.insert_or_assign(l, Load{held_.at(l), i64(at.x), type_});
        continue;
      }
      const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
      if (!point) {
        at.values.insert_or_assign(l, let(body, "t", rounded(m, value(l, m.late ? m.late->numerator : *m.nest.value, at))));
      } else {
        const std::string name = allocate(body, "t", 1, Memory::Register);
        body.push_back(stmt(Store{name, i64(0), convert(constant_of(*m.nest.fill), type_)}));
        Body there;
        const Expr own = let(there, "t", rounded(m, value(l, m.late ? m.late->numerator : *m.nest.value, at)));
        there.push_back(stmt(Store{name, i64(0), convert(own, type_)}));
        body.push_back(stmt(If{*point, std::move(there), {}}));
        at.values.insert_or_assign(l, let(body, "t", Load{name, i64(0), type_}));
      }
      if (const auto held = held_.find(l); held != held_.end()) body.push_back(stmt(Store{held->second, i64(at.x), convert(at.values.at(l), type_)}));
    }
  }
  // Whether something that is computed behind the maximum reads this product itself.
  bool wanted_behind(std::size_t product) const {
    return std::ranges::any_of(members_, [&](const Member& m) {
      if (m.part.role == OnlinePart::Product || is_maximum(m) || (m.part.role == OnlinePart::Tile && !m.follows)) return false;
      return std::ranges::any_of(m.nest.reads, [&](const FlatAccess& read) { return read.tensor == members_[product].nest.target.tensor; });
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

  void fold(Body& body, std::size_t l, const std::string& to, Element& at) {
    const Member& m = members_[l];
    const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
    Body one;
    const Expr own = value(l, *m.nest.value, at);
    one.push_back(stmt(Store{to, i64(0), combine(m.nest.aggregation, Load{to, i64(0), type_of(m)}, convert(own, type_of(m)))}));
    if (point) body.push_back(stmt(If{*point, std::move(one), {}}));
    else append(body, std::move(one));
  }

  Body before_maximum(const std::string& here, bool asked) {
    return each([&](Element& at) {
      Body body;
      tiles(body, at, true, false);
      fold(body, *maximum_, here, at);
      return body;
    }, asked);
  }

  Body with_maximum(bool again, bool asked) {
    const bool all = !maximum_ || again;
    return each([&](Element& at) {
      Body body;
      tiles(body, at, all, true);
      for (std::size_t l = 0; l < members_.size(); ++l)
        if (members_[l].part.role == OnlinePart::Fold && !is_maximum(members_[l])) fold(body, l, members_[l].registers, at);
      std::vector<std::pair<std::string, Expr>> factors;  // all are read before one takes the place of a product
      for (std::size_t l = 0; l < members_.size(); ++l) {
        const Member& m = members_[l];
        if (m.part.role != OnlinePart::Sum) continue;
        const auto point = at.asked ? is_point(l, row_value_, at.column, false) : std::nullopt;
        const std::string name = point ? allocate(body, "f", 1, Memory::Register) : std::string();
        Body there;
        const Expr own = let(there, "f", convert(value(l, m.late ? m.late->numerator : *m.part.by_row, at), type_));
        if (!point) {
          append(body, std::move(there));
          factors.emplace_back(m.tile, own);
          continue;
        }
        there.push_back(stmt(Store{name, i64(0), own}));
        body.push_back(stmt(Store{name, i64(0), zero()}));
        body.push_back(stmt(If{*point, std::move(there), {}}));
        factors.emplace_back(m.tile, Load{name, i64(0), type_});
      }
      for (const auto& [tile, factor] : factors) body.push_back(stmt(Store{tile, at.local * i64(pitch_of(height_)) + row_, factor}));
      return body;
    }, asked);
  }

  // ---- results

  // 0 where the block has a row that is not known so: its maximum is -inf, or what it holds is not finite; else 1.
  Expr is_sound(Body& body) {
    Expr all = zero();
    const auto add = [&](const Expr& e) { all = Operation{Op::Add, {all, e}, type_}; };
    for (const Member& m : members_) {
      if (m.part.role == OnlinePart::Sum)
        for (std::int64_t x = 0; x < m.leaf.rows * m.leaf.vectors; ++x) add(Load{m.registers, i64(x), type_});
      if (m.part.role == OnlinePart::Fold && m.rescaled) add(Load{m.registers, i64(0), type_});
    }
    const auto finite = [&](const Expr& e) { return equal(Operation{Op::Sub, {e, e}, type_}, zero()); };
    Expr sound = finite(let(body, "all", all));
    if (maximum_) {
      Expr known = finite(Load{highest_, i64(0), type_});
      if (rows_ % height_) known = Operation{Op::Or, {known, at_least(row_value_, i64(rows_))}, DType::Bool};
      sound = both(sound, known);
    }
    const std::string name = names_.fresh("sound");
    body.push_back(stmt(Fold{name, Aggregation::Min, choose(let(body, "finite", sound), one(), zero()), thread_}));
    return Variable{name, type_};
  }

  Expr result(const Member& m, const Expr& value) const { return convert(convert(value, compute_type(m.dtype)), m.dtype); }
  static bool local(const Member& m) { return std::ranges::find(m.nest.locals, m.nest.target.tensor) != m.nest.locals.end(); }

  Body write() {
    Body body, stores;
    for (const Member& m : members_)
      if (m.part.role == OnlinePart::Fold && !m.shared.empty()) stores.push_back(stmt(Store{m.shared, part_ * i64(height_) + row_, Load{m.registers, i64(0), type_of(m)}}));
    if (!stores.empty()) {
      body.push_back(stmt(Barrier{}));
      append(body, std::move(stores));
      body.push_back(stmt(Barrier{}));
    }
    for (std::size_t l = 0; l < members_.size(); ++l) {
      const Member& m = members_[l];
      if (local(m)) continue;
      if (m.part.role == OnlinePart::Fold) append(body, write_fold(l));
      if (m.part.role == OnlinePart::Sum) append(body, write_sum(l));
    }
    return body;
  }

  // Of all parts of a row.
  Expr total(const Member& m, const Expr& row) const {
    const DType type = type_of(m);
    if (m.shared.empty()) return Load{m.registers, i64(0), type};
    Expr all = Load{m.shared, row, type};
    for (std::int64_t p = 1; p < parts_; ++p) all = combine(m.nest.aggregation, all, Load{m.shared, i64(p * height_) + row, type});
    return all;
  }

  // A sum of numerators, as the tile says: zeros times what is not finite are no numbers, as is a zero times their sum.
  Expr divided(const Member& tile, const poly::Expr& value, const Expr& sum, const Expr& by) const {
    const auto& apply = *value.as<poly::Apply>();
    if (apply.op == Op::Div) return Operation{Op::Div, {sum, by}, type_};
    const Expr condition = spelled(tile.nest, apply.operands[0], [&](std::size_t) { return by; }, [](const Form&) -> Expr { throw InternalError("a divisor has no value of an index"); });
    const auto* first = apply.operands[1].as<poly::Number>();
    const Expr quotient = divided(tile, apply.operands[first ? 2 : 1], sum, by);
    const Expr none = Operation{Op::Mul, {sum, zero()}, type_};
    return first ? choose(condition, none, quotient) : choose(condition, quotient, none);
  }

  Body write_fold(std::size_t l) {
    const Member& m = members_[l];
    Body body;
    const Expr total = this->total(m, row_);
    Ranges points = points_[l];
    points.fix(m.part.row, row_value_);
    Expr mine = equal_i64(part_, 0);
    if (rows_ % height_) mine = both(mine, less(row_value_, i64(rows_)));
    body.push_back(stmt(If{mine, {stmt(Store{storage_.name(m.nest.target.tensor), points.known_part(m.nest.target.offset), result(m, total)})}, {}}));
    return body;
  }

  Body write_sum(std::size_t l) {
    const Member& m = members_[l];
    Body body;
    const Place at = place(body, m.leaf);
    const Form& f = m.nest.target.offset;
    const std::int64_t columns = m.nest.dims[m.part.column].extent;
    const std::int64_t w = columns % square(m.leaf.vectors) ? 1 : access_width(m.nest.target, m.part.column, square(m.leaf.vectors));
    std::string aligned;
    if (w > 1) {
      aligned = names_.fresh("aligned");
      body.push_back(stmt(Aligned{aligned, storage_.name(m.nest.target.tensor), w * lang::bytes(m.dtype)}));
    }
    for (std::int64_t i = 0; i < m.leaf.rows; ++i) {
      const Expr row = let(body, "row", i0_ + at.row + i64(step(i, m.leaf.rows, at.row_step)));
      Ranges points = points_[l];
      points.fix(m.part.row, row);
      Body line;
      const Expr base = let(line, "to", points.known_part(f));
      std::optional<Expr> by;
      const Member* tile = m.divided ? &members_[*m.divided] : nullptr;
      if (tile) by = let(line, "by", total(members_[by_tensor_.at(tile->nest.reads[tile->late->divisor].tensor)], at.row + i64(step(i, m.leaf.rows, at.row_step))));
      const auto of = [&](std::int64_t j) {
        const Expr sum = Load{m.registers, i64(i * m.leaf.vectors + j), type_};
        return tile ? divided(*tile, tile == &m ? *m.part.by_row : *tile->nest.value, sum, *by) : sum;
      };
      for (std::int64_t j = 0; j < m.leaf.vectors; j += w) {
        const Expr column = at.column + i64(step(j, m.leaf.vectors, at.column_step));
        const auto stores = [&](std::int64_t alignment) {
          const std::string view = names_.fresh("v");
          Body some{stmt(View{view, storage_.name(m.nest.target.tensor), base + column * i64(f.coefficients[m.part.column]), alignment})};
          for (std::int64_t c = 0; c < w; ++c) some.push_back(stmt(Store{view, i64(c * f.coefficients[m.part.column]), result(m, of(j + c))}));
          return some;
        };
        Body some = stores(w > 1 ? 1 : 0);
        if (w > 1) some = {stmt(If{Variable{aligned, DType::Bool}, stores(w * lang::bytes(m.dtype)), std::move(some)})};
        if (columns < m.by_column.side) line.push_back(stmt(If{less(column, i64(columns)), std::move(some), {}}));
        else append(line, std::move(some));
      }
      if (rows_ % height_) body.push_back(stmt(If{less(row, i64(rows_)), std::move(line), {}}));
      else append(body, std::move(line));
    }
    return body;
  }

  const Storage& storage_;
  Names& names_;
  std::int64_t threads_, depth_ = 0, height_ = 0, parts_ = 1, each_ = 0, rows_ = 0, over_ = 0, blocks_ = 1;  // each_: elements of a thread
  DType type_ = DType::F32;
  std::vector<Member> members_;
  std::vector<Ranges> points_;                         // of each member
  std::map<TensorId, std::size_t> by_tensor_;
  std::optional<std::size_t> maximum_;
  bool divides_ = false;                               // some sum is divided by a fold
  std::map<std::pair<std::size_t, std::size_t>, std::string> of_rows_;  // member, read → what was read once
  std::map<std::size_t, std::string> held_;            // tiles in registers, an element each
  std::string block_, thread_, scale_, highest_;
  Expr i0_ = i64(0), j0_ = i64(0), row_ = i64(0), part_ = i64(0), row_value_ = i64(0), first_ = i64(0), turns_ = i64(0), maximum_now_ = i64(0);
};

}  // namespace

Nest online_nest(const poly::Statement& s, const Strides& strides) { return nest_of(s, strides, {s.indices.begin(), s.indices.end()}); }

namespace {

bool in_rows(const Nest& nest, std::size_t d) {
  return std::ranges::any_of(nest.rows, [&](const Row& row) { return row.form.coefficients[d] != 0; });
}

// A product of two factors, of which one does not depend on `column` and the other not on `row`.
bool take_factors(const Nest& nest, OnlinePart& part) {
  const auto* product = nest.value->as<poly::Apply>();
  if (nest.aggregation != Aggregation::Sum || !product || product->op != Op::Mul || !lang::is_float(product->type) || in_rows(nest, part.depth == part.over ? part.column : part.depth)) return false;
  poly::Expr x = product->operands[0], y = product->operands[1];
  if (depends(nest, x, part.column)) std::swap(x, y);
  if (depends(nest, x, part.column) || depends(nest, y, part.row) || !depends(nest, y, part.column) || has_index(y)) return false;
  if (part.role == OnlinePart::Product && has_index(x)) return false;
  part.by_row = x, part.by_column = y;
  return true;
}

}  // namespace

std::variant<OnlinePart, std::string> online_part(const Nest& nest, const std::string& row, const std::string& over) {
  const auto i = nest.dim(row), j = nest.dim(over);
  if (!i || !j || nest.dims[*i].reduction) return fmt::format("it has no row `{}` and no `{}`", row, over);
  std::vector<std::size_t> sums;
  for (std::size_t d = 0; d < nest.dims.size(); ++d) if (nest.dims[d].reduction) sums.push_back(d);
  OnlinePart part{OnlinePart::Tile, *i, *j, *j, *j, {}, {}};
  if (sums.empty()) {
    if (nest.aggregation != Aggregation::Assign) return std::string("it folds over nothing");
    return part;
  }
  if (sums.size() > 1) return std::string("it folds over several indices");
  if (sums.front() != *j) {
    part.role = OnlinePart::Product, part.depth = sums.front();
    if (!take_factors(nest, part)) return fmt::format("it is no sum of products of one factor of `{}` and one of `{}`", row, over);
    return part;
  }
  part.role = OnlinePart::Sum;
  for (std::size_t d = nest.dims.size(); d-- > 0;) {
    if (nest.dims[d].reduction || d == *i) continue;
    part.column = d;
    if (take_factors(nest, part) && depends(nest, *part.by_row, *i)) return part;
  }
  part.role = OnlinePart::Fold, part.column = *j, part.by_row.reset(), part.by_column.reset();
  if (nest.aggregation == Aggregation::Assign || nest.aggregation == Aggregation::Product || nest.value->type() == DType::Bool) return std::string("it is no maximum, minimum or sum of numbers");
  return part;
}

std::optional<LateDivision> late_division(const poly::Expr& value) {
  const auto* apply = value.as<poly::Apply>();
  const auto zero = [](const poly::Expr& e) { const auto* n = e.as<poly::Number>(); return n && n->real == 0 && n->integer == 0; };
  const auto mentions = [](const poly::Expr& e, int read, bool others) {
    return std::ranges::any_of(poly::parts(e), [&](const poly::Expr& p) { const auto* r = p.as<poly::Read>(); return (r && (r->read == read) != others) || (others && p.as<poly::Index>()); });
  };
  if (!apply) return std::nullopt;
  if (apply->op == Op::Div) {
    const auto* by = apply->operands[1].as<poly::Read>();
    if (!by || mentions(apply->operands[0], by->read, false)) return std::nullopt;
    return LateDivision{apply->operands[0], static_cast<std::size_t>(by->read)};
  }
  if (apply->op != Op::Select || (!zero(apply->operands[1]) && !zero(apply->operands[2]))) return std::nullopt;
  auto found = late_division(apply->operands[zero(apply->operands[1]) ? 2 : 1]);
  if (!found || mentions(apply->operands[0], static_cast<int>(found->divisor), true)) return std::nullopt;
  return found;
}

std::int64_t online_rows(const Compute& leaf, std::int64_t threads) { return threads / leaf.lanes * leaf.rows; }

std::int64_t online_bytes(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, std::int64_t threads) {
  const std::int64_t rows = online_rows(leaves.front(), threads), depth = leaves.front().as<forms::Online>()->depth;
  std::int64_t elements = 2 * rows, products = 0, sums = 0;
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    const auto part = std::get<OnlinePart>(online_part(nests[l], leaves[l].m(), leaves.front().n));
    if (part.role == OnlinePart::Product) elements += nests[l].dims[part.depth].extent * (rows + depth), ++products;
    if (part.role == OnlinePart::Sum) elements += depth * leaves[l].lanes * leaves[l].vectors, ++sums;
    if (part.role == OnlinePart::Fold) elements += threads;
  }
  std::int64_t bytes = 0;
  for (const Nest& nest : nests) bytes = std::max<std::int64_t>(bytes, lang::bytes(compute_type(nest.value->type())));
  return (elements + std::max(products, sums) * depth * rows) * bytes;
}

Body spell_online(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage, Names& names, std::int64_t threads) { return Online(nests, leaves, storage, names, threads).spell(); }

}  // namespace tilec::codegen
