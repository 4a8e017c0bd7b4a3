#include "codegen/online_pass.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "codegen/model/thresholds.h"
#include "codegen/rewrite.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"
#include "poly/intern.h"

namespace tilec::codegen {

OnlinePass::OnlinePass(const std::vector<Nest>& nests, const std::vector<Compute>& leaves, const Storage& storage,
    Names& names, std::int64_t threads, Sweep sweep)
    : storage_(storage), names_(names), threads_(threads), math_(target_named(storage.plan.target)->math) {
  make_members(nests, leaves, sweep);
  for (const poly::Node& node : storage.plan.program.nodes)
    if (const auto* s = std::get_if<poly::Statement>(&node); s && s->aggregation == Aggregation::Max)
      maxima_.insert(s->target.tensor);
  for (const poly::TensorId id : storage.plan.program.inputs)
    if (storage.plan.program.tensor(id).maximum) maxima_.insert(id);
  if (sweep != Sweep::First) make_finishing(nests, leaves);
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

void OnlinePass::make_members(
    const std::vector<Nest>& nests, const std::vector<Compute>& leaves, Sweep sweep) {
  const std::string& over = leaves.front().n;
  std::vector<OnlinePart> parts;
  for (std::size_t l = 0; l < leaves.size() && !leaves[l].is<forms::Finish>(); ++l) {
    auto part = online_part(nests[l], leaves[l].m(), over);
    if (const auto* why = std::get_if<std::string>(&part))
      throw lang::InternalError("the plan passes over a statement: " + *why);
    parts.push_back(std::get<OnlinePart>(std::move(part)));
  }
  const FirstSweep first = sweep == Sweep::Only ? FirstSweep{} : first_sweep(nests, parts);
  for (std::size_t l = 0; l < parts.size(); ++l) {
    if (sweep == Sweep::First && std::ranges::find(first.members, l) == first.members.end()) continue;
    by_tensor_.emplace(nests[l].target.tensor, members_.size());
    members_.push_back({nests[l], leaves[l], std::move(parts[l]),
        storage_.plan.program.tensor(nests[l].target.tensor).dtype, {}, {}, {}, {}, {}, false, false});
    members_.back().known = sweep == Sweep::Second && first.known.contains(l);
  }
}

void OnlinePass::make_finishing(const std::vector<Nest>& nests, const std::vector<Compute>& leaves) {
  for (std::size_t l = 0; l < members_.size(); ++l)
    if (members_[l].part.role == OnlinePart::Fold || members_[l].part.role == OnlinePart::Sum)
      finishing_[l].push_back(nests[l]);
  const auto finished = finished_by(storage_.plan.program, sums_of(leaves), finishing_of(leaves));
  std::size_t at = members_.size();
  for (const Finished& one : std::get<std::vector<Finished>>(finished)) {
    if (members_[one.sum].part.role == OnlinePart::Sum)
      for (const FlatAccess& read : nests[at].reads) asks_folds_ = asks_folds_ || by_tensor_.contains(read.tensor);
    finishing_.at(one.sum).push_back(nests[at++]);
  }
  std::erase_if(finishing_, [&](const auto& one) { return Finishing(one.second, storage_, names_).targets().empty(); });
}

Body OnlinePass::spell() {
  block_ = names_.fresh("p"), thread_ = names_.fresh("l");
  Body body = coordinates();
  find_quotients();
  find_scaled();
  append(body, shared_memory());
  append(body, known_columns());
  body.push_back(stmt(For{thread_, Kind::Thread, i64(threads_), {}, one_thread()}));
  return {stmt(For{block_, Kind::Block, i64(blocks_), {}, std::move(body)})};
}

Expr OnlinePass::let(Body& body, const std::string& stem, const Expr& value) {
  if (value.as<Constant>() || value.as<Variable>()) return value;
  const std::string name = names_.fresh(stem);
  body.push_back(stmt(Let{name, value}));
  return Variable{name, value.type()};
}

Expr OnlinePass::choose(const Expr& condition, const Expr& a, const Expr& b) {
  return Operation{Op::Select, {condition, a, b}, a.type()};
}

std::string OnlinePass::allocate(Body& body, const std::string& stem, std::int64_t count, Memory memory) {
  return allocate(body, stem, count, memory, type_);
}

std::string OnlinePass::allocate(Body& body, const std::string& stem, std::int64_t count, Memory memory, DType type) {
  const std::string name = names_.fresh(stem);
  body.push_back(stmt(Allocate{name, type, count, memory}));
  return name;
}

Body OnlinePass::each_row(const std::function<Body()>& f) {
  Body body;
  const std::int64_t first = some_ ? some_->first_row : 0, count = some_ ? some_->rows : rows_of_thread();
  for (slot_ = first; slot_ < first + count; ++slot_) {
    row_ = slots_[static_cast<std::size_t>(slot_)].row, row_value_ = slots_[static_cast<std::size_t>(slot_)].value;
    append(body, f());
  }
  slot_ = 0;
  return body;
}

void OnlinePass::find_maximum() {
  const auto fold = [&](TensorId id) {
    const auto at = by_tensor_.find(id);
    return at != by_tensor_.end() && members_[at->second].part.role == OnlinePart::Fold && !members_[at->second].known
        ? std::optional(at->second)
        : std::nullopt;
  };
  for (std::size_t l = 0; l < members_.size(); ++l) {
    PassMember& m = members_[l];
    auto late = m.part.role == OnlinePart::Tile ? late_division(*m.nest.value)
        : m.part.role == OnlinePart::Sum        ? late_division(*m.part.by_row)
                                                : std::nullopt;
    if (late && fold(m.nest.reads[late->divisor].tensor)) {
      m.late = std::move(late), asks_folds_ = true;
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

Body OnlinePass::coordinates() {
  Body body;
  const std::int64_t tiles = (rows_ + height_ - 1) / height_;
  const std::vector<std::string>& outer = members_.front().leaf.outer;
  const auto extent = [&](std::size_t o) {
    return members_.front().nest.dims[*members_.front().nest.dim(outer[o])].extent;
  };
  std::int64_t around = 1;
  for (std::size_t o = 0; o < outer.size(); ++o) around = (poly::Exact(around) * extent(o)).get();
  blocks_ = (poly::Exact(tiles) * around).get();
  for (PassMember& m : members_) points_.emplace_back(m.nest);
  const auto set = [&](const std::function<Expr(std::size_t)>& value) {
    for (std::size_t l = 0; l < members_.size(); ++l)
      for (std::size_t o = 0; o < outer.size(); ++o) points_[l].fix(*members_[l].nest.dim(outer[o]), value(o));
  };
  set([&](std::size_t) { return var(block_); });         // any
  const Order order = order_of_blocks(tiles, around);
  const Expr tile = remainder(quotient(var(block_), order.together), tiles);
  i0_ = let(body, members_.front().leaf.m() + "_0",
      (order.last_first ? i64(tiles - 1) - tile : tile) * i64(height_));
  Expr rest = quotient(var(block_), tiles * order.together) * i64(order.together) +
      remainder(var(block_), order.together);
  std::vector<Expr> at(outer.size(), i64(0));
  for (std::size_t o = outer.size(); o-- > 0;) {
    at[o] = let(body, outer[o], o == 0 ? rest : remainder(rest, extent(o)));
    rest = quotient(rest, extent(o));
  }
  set([&](std::size_t o) { return at[o]; });
  return body;
}

OnlinePass::Order OnlinePass::order_of_blocks(std::int64_t tiles, std::int64_t around) {
  // Values of what is passed over that a block goes through; none: that depends on more than its rows.
  const auto length = [&](std::int64_t tile) -> std::optional<std::int64_t> {
    i0_ = i64(tile * height_);
    const Interval some = passed_over();
    const auto *lo = some.lo.as<Constant>(), *hi = some.hi.as<Constant>();
    if (!lo || !hi) return std::nullopt;
    return std::max<std::int64_t>(0, hi->integer - lo->integer);
  };
  const auto first = length(0), last = length(tiles - 1);
  if (!first || !last || *first == *last) return {};
  double bytes = 0;
  std::set<TensorId> columns;
  for (const PassMember& m : members_)
    if (m.part.by_column)
      for (const std::size_t r : reads_of(*m.part.by_column)) columns.insert(m.nest.reads[r].tensor);
  const poly::Program& program = storage_.plan.program;
  for (const TensorId id : columns) bytes += bytes_of(program, id);
  std::int64_t together = around;
  while (together > 1 &&
      (around % together ||
          bytes * static_cast<double>(together) > model::threads::kept_in_l2 * static_cast<double>(around)))
    --together;
  return {together, *last > *first};
}

Body OnlinePass::one_thread() {
  Body body = swept();
  append(body, write());
  return body;
}

Body OnlinePass::swept() {
  Body body;
  for (slot_ = 0; slot_ < rows_of_thread(); ++slot_) {
    const Expr row = row_of_thread(body, slot_);
    slots_.push_back({row, let(body, members_.front().leaf.m(), i0_ + row)});
  }
  for (PassMember& m : members_)
    if (m.part.role == OnlinePart::Fold && !m.known)
      m.registers = allocate(body, "so_far", rows_of_thread(), Memory::Register, type_of(m));
  if (maximum_) highest_ = members_[*maximum_].registers;
  if (maximum_ && in_registers()) reference_ = allocate(body, "reference", rows_of_thread(), Memory::Register);
  append(body, first_operands());
  append(body, registers_of_columns());
  append(body, each_row([&] {
    Body some = rows_alone();
    if (maximum_) some.push_back(stmt(Store{highest_, i64(slot_), lowest()}));
    return some;
  }));
  append(body, range());
  if (!may_begin_again()) {
    append(body, pass(false));
    return body;
  }
  // All of it once; once more where what came out says so.
  append(body, pass(false));
  const Expr sound = is_sound(body);
  body.push_back(stmt(If{Operation{Op::Lt, {sound, one()}, DType::Bool}, pass(true), {}}));
  return body;
}

bool OnlinePass::bounded(const PassMember& m) const {
  return std::ranges::any_of(m.nest.rows, [&](const Row& row) {
    return row.form.coefficients[m.part.over] != 0 || row.form.coefficients[m.part.row] != 0;
  });
}

bool OnlinePass::may_begin_again() const {
  return maximum_ || begins_again() || std::ranges::any_of(members_, [&](const PassMember& m) {
    return m.part.role == OnlinePart::Sum && (bounded(m) || !m.part.when.empty());
  });
}

Stmt OnlinePass::at_point(std::size_t l, const Expr& row, const Expr& column, Body adds) {
  Element at{0, column - j0_, column, true, {}};
  if (const auto condition = conditions(l, at)) adds = {stmt(If{*condition, std::move(adds), {}})};
  return stmt(If{*is_point(l, row, column, true), std::move(adds), {}});
}

Expr OnlinePass::last_row() const {
  const Expr last = i0_ + i64(height_ - 1);
  return rows_ % height_ ? minimum(last, i64(rows_ - 1)) : last;
}

Interval OnlinePass::passed_over() const {
  std::optional<Interval> all;
  for (std::size_t l = 0; l < members_.size(); ++l) {
    const PassMember& m = members_[l];
    if (m.part.role != OnlinePart::Fold && m.part.role != OnlinePart::Sum) continue;
    Interval own{i64(0), i64(over_)};
    const Expr last = last_row();
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
  return *all;
}

Body OnlinePass::range() {
  Body body;
  const Interval all = passed_over();
  first_ = let(body, "from", floor_divide(all.lo, depth_) * i64(depth_));
  if (const std::int64_t known = const_or(all.hi, -1), from = const_or(first_, -1); known >= 0 && from >= 0)
    turns_ = i64(std::max<std::int64_t>(0, (known - from + depth_ - 1) / depth_));
  else turns_ = let(body, "turns", maximum(i64(0), ceil_divide(all.hi - first_, depth_)));
  return body;
}

std::vector<std::size_t> OnlinePass::reads_of(const poly::Expr& e) const {
  std::vector<std::size_t> reads;
  for (const poly::Expr& part : poly::parts(e))
    if (const auto* r = part.as<poly::Read>()) reads.push_back(static_cast<std::size_t>(r->read));
  std::ranges::sort(reads);
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  return reads;
}

Body OnlinePass::nothing_so_far(bool again) {
  Body body;
  for (const PassMember& m : members_) {
    if (m.part.role == OnlinePart::Sum)
      for (std::int64_t x = 0; x < registers_of(m); ++x) body.push_back(stmt(Store{m.registers, i64(x), zero()}));
    if (m.part.role == OnlinePart::Fold && !(is_maximum(m) && again) && !m.known)
      for (std::int64_t r = 0; r < rows_of_thread(); ++r)
        body.push_back(stmt(Store{m.registers, i64(r), identity(m.nest.aggregation, type_of(m))}));
  }
  for (std::int64_t r = 0; r < rows_of_thread() && !reference_.empty() && !again; ++r)
    body.push_back(stmt(Store{reference_, i64(r), lowest()}));
  return body;
}

Body OnlinePass::pass(bool again) {
  again_ = again;
  Body body = before_turns();
  append(body, nothing_so_far(again));
  if (const_or(turns_, 1) <= 0) return body;
  const std::string number = names_.fresh("turn");
  Body one;
  j0_ = let(one, "j_0", first_ + var(number) * i64(depth_));
  append(one, turn(var(number), again));
  Stmt turns = stmt(For{number, Kind::Serial, turns_, {}, std::move(one)});
  if (is_const(turns_)) body.push_back(std::move(turns));
  else body.push_back(stmt(If{less(i64(0), turns_), {std::move(turns)}, {}}));
  if (!again) append(body, settled());
  return body;
}

Expr OnlinePass::is_sound(Body& body) {
  Expr all = zero();
  const auto add = [&](const Expr& e) { all = Operation{Op::Add, {all, e}, type_}; };
  for (const PassMember& m : members_) {
    if (m.part.role == OnlinePart::Sum)
      for (std::int64_t x = 0; x < registers_of(m); ++x) add(Load{m.registers, i64(x), type_});
    if (m.part.role == OnlinePart::Fold && !m.known && (m.rescaled || (reciprocals_ && !is_maximum(m))))
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

Finishing::Known OnlinePass::known_folds(
    Body& body, std::size_t l, const std::function<Expr(const PassMember&)>& total) const {
  Finishing::Known known;
  for (const Nest& nest : finishing_.at(l))
    for (const FlatAccess& read : nest.reads) {
      const auto at = by_tensor_.find(read.tensor);
      if (at == by_tensor_.end() || at->second == l || &nest == &finishing_.at(l).front()) continue;
      const PassMember& fold = members_[at->second];
      if (known.contains(read.tensor)) continue;
      const DType type = compute_type(fold.dtype);
      known.emplace(
          read.tensor, named(names_, body, "all", convert(convert(convert(total(fold), type), fold.dtype), type)));
    }
  return known;
}

Body OnlinePass::write() {
  Body body = before_writes();
  for (std::size_t l = 0; l < members_.size(); ++l) {
    const PassMember& m = members_[l];
    if (!finishing_.contains(l)) continue;
    if (m.part.role == OnlinePart::Fold) append(body, each_row([&] { return write_fold(l); }));
    if (m.part.role == OnlinePart::Sum) append(body, write_sum(l));
  }
  return body;
}

std::optional<Expr> OnlinePass::divisor(
    Body& body, const PassMember& sum, const std::function<Expr(const PassMember&)>& total) const {
  if (!sum.divided) return std::nullopt;
  const PassMember& tile = members_[*sum.divided];
  return named(names_, body, "by", total(members_[by_tensor_.at(tile.nest.reads[tile.late->divisor].tensor)]));
}

Expr OnlinePass::divided(const PassMember& m, const Expr& sum, const std::optional<Expr>& by) const {
  if (!by) return sum;
  const PassMember& tile = members_[*m.divided];
  return divided(tile, &tile == &m ? *m.part.by_row : *tile.nest.value, sum, *by);
}

Expr OnlinePass::divided(const PassMember& tile, const poly::Expr& value, const Expr& sum, const Expr& by) const {
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

Body OnlinePass::write_fold(std::size_t l) {
  const PassMember& m = members_[l];
  Body body;
  const Expr total = this->total(m);
  Ranges points = points_[l];
  points.fix(m.part.row, row_value_);
  Expr mine = writes_rows();
  if (rows_ % height_) mine = both(mine, less(row_value_, i64(rows_)));
  Body stores;
  const Finishing::Known known = known_folds(stores, l, [&](const PassMember& fold) { return this->total(fold); });
  append(stores,
      finishing(l).stores(total, [&](const Form& form) { return points.known_part(form); }, known));
  body.push_back(stmt(If{mine, std::move(stores), {}}));
  return body;
}

}  // namespace tilec::codegen
