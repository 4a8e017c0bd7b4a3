// What a pass knows before it comes to its elements: values that depend on the row or on the column alone, read once,
// and the reciprocals of those that divide.
//
//   P[i, j] / Z[j]     ⇒  of each turn's j, threads read Z[j] a turn ahead, and leave it and 1 / Z[j] in shared memory
//
// A division is eight instructions and a branch around what seldom happens, behind which nothing of the next one
// begins; a quotient by a known reciprocal is three. Divisors whose reciprocals are not normal numbers have none: what
// comes of them is no number, so the pass begins again and divides.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "codegen/online_pass.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

// Sizes of numbers whose reciprocals are normal.
const std::pair<double, double> divisors{std::ldexp(1.0, -126), std::ldexp(1.0, 126)};

// 1 / z; no number where that is no normal one.
Expr reciprocal(const Expr& z) {
  const Expr size = Operation{Op::Abs, {z}, DType::F32};
  const Expr normal = both(Operation{Op::Ge, {size, Constant{DType::F32, 0, divisors.first}}, DType::Bool},
      Operation{Op::Le, {size, Constant{DType::F32, 0, divisors.second}}, DType::Bool});
  const Expr none = Constant{DType::F32, 0, std::nan("")};
  return Operation{Op::Select, {normal, Operation{Op::Recip, {z}, DType::F32}, none}, DType::F32};
}

// Of a constant that is no power of two, which is multiplied by anyway.
std::optional<Expr> reciprocal(const Constant& c) {
  const double z = static_cast<double>(static_cast<float>(c.real)), size = std::fabs(z);
  if (!(size >= divisors.first && size <= divisors.second)) return std::nullopt;
  if (std::ldexp(1.0, std::ilogb(size)) == size) return std::nullopt;
  return Constant{DType::F32, 0, static_cast<double>(static_cast<float>(1 / z))};
}

// A form by the names of its dimensions, which nests have in other orders.
std::pair<std::map<std::string, std::int64_t>, std::int64_t> named_form(const Nest& nest, const Form& form) {
  std::map<std::string, std::int64_t> coefficients;
  for (std::size_t d = 0; d < nest.dims.size(); ++d)
    if (form.coefficients[d]) coefficients[nest.dims[d].name] = form.coefficients[d];
  return {std::move(coefficients), form.constant};
}

bool same_forms(const Nest& a, const Form& x, const Nest& b, const Form& y) {
  return named_form(a, x) == named_form(b, y);
}

bool same_points(const Nest& a, const Nest& b) {
  return std::ranges::equal(a.rows, b.rows, [&](const Row& x, const Row& y) {
    return x.extent == y.extent && same_forms(a, x.form, b, y.form);
  });
}

}  // namespace

Expr OnlinePass::by_known(const Expr& e, const Known& known) const {
  if (const auto* c = e.as<Convert>()) return Convert{by_known(c->operand, known), c->type};
  const auto* o = e.as<Operation>();
  if (!o) return e;
  Operation result = *o;
  for (Expr& x : result.operands) x = by_known(x, known);
  // exp(x - M) for these M: what lies far below the maximum has no part in a sum that holds the maximum's 1
  const Operation* difference = o->op == Op::Exp ? o->operands[0].as<Operation>() : nullptr;
  result.below_maximum = difference && difference->op == Op::Sub &&
      std::ranges::find(known.maxima, difference->operands[1]) != known.maxima.end();
  if (result.below_maximum && result.type == DType::F32) {
    const Expr x = difference->operands[0], m = difference->operands[1];
    const auto scaled = std::ranges::find(known.scaled, x, &Known::Scaled::value);
    const bool is = scaled != known.scaled.end();
    if (math_ != Math::F32) {
      result.operands = {is ? scaled->product : x, m};
      if (is) result.operands.push_back(Constant{DType::F32, 0, scaled->by});
    } else if (is && std::ldexp(1.0, std::ilogb(scaled->by)) == scaled->by) {
      // x is no rounded product, but where it is no normal number
      const Expr by = Constant{DType::F32, 0, scaled->by}, less_m = Operation{Op::Neg, {m}, DType::F32};
      result.operands = {Operation{Op::Fma, {scaled->product, by, less_m}, DType::F32}};
    }
  }
  if (o->op != Op::Div || o->type != DType::F32 || o->operands.size() != 2 || again_) return result;
  const auto by = std::ranges::find(known.reciprocals, o->operands[1], &std::pair<Expr, Expr>::first);
  const auto* c = o->operands[1].as<Constant>();
  const auto constant = c && quotients_ ? reciprocal(*c) : std::nullopt;
  if (by != known.reciprocals.end()) result.operands.push_back(by->second);
  else if (constant) result.operands.push_back(*constant);
  return result;
}

void OnlinePass::find_scaled() {
  if (!in_registers() || !quotients_) return;
  for (std::size_t l = 0; l < members_.size(); ++l) {
    const PassMember& m = members_[l];
    const auto* apply = m.part.role == OnlinePart::Tile ? m.nest.value->as<poly::Apply>() : nullptr;
    if (!apply || apply->type != DType::F32 || m.dtype != DType::F32 || (apply->op != Op::Mul && apply->op != Op::Div))
      continue;
    const bool turned = apply->op == Op::Mul && apply->operands[0].as<poly::Number>();
    const auto* read = apply->operands[turned ? 1 : 0].as<poly::Read>();
    const auto* number = apply->operands[turned ? 0 : 1].as<poly::Number>();
    if (!read || !number || number->type != DType::F32) continue;
    const auto product = by_tensor_.find(m.nest.reads[static_cast<std::size_t>(read->read)].tensor);
    const double c = static_cast<double>(static_cast<float>(number->real)),
                 by = apply->op == Op::Mul ? c : static_cast<double>(static_cast<float>(1 / c));
    // Above 1 what is infinite as a tile might not be as a part of a multiply-add.
    if (product != by_tensor_.end() && members_[product->second].part.role == OnlinePart::Product &&
        members_[product->second].dtype == DType::F32 && by >= divisors.first && by <= 1)
      scaled_.emplace(l, ScaledTile{product->second, by});
  }
  for (std::size_t l = 0; l < members_.size(); ++l) {
    const PassMember& m = members_[l];
    const auto* whose = m.part.role == OnlinePart::Fold && !m.known ? m.nest.value->as<poly::Read>() : nullptr;
    if (!whose || (m.nest.aggregation != Aggregation::Max && m.nest.aggregation != Aggregation::Min)) continue;
    const auto tile = by_tensor_.find(m.nest.reads[static_cast<std::size_t>(whose->read)].tensor);
    // A constant above 0 changes no order, and what is rounded keeps it.
    if (tile == by_tensor_.end() || !scaled_.contains(tile->second) ||
        !same_points(m.nest, members_[tile->second].nest))
      continue;
    if (is_maximum(m)) maximum_of_product_ = tile->second;
    else extreme_of_product_.emplace(l, tile->second);
  }
}

void OnlinePass::find_quotients() {
  quotients_ = type_ == DType::F32 && !compares_computed(storage_.plan.program);
  reciprocals_ = quotients_ && may_begin_again() && std::ranges::none_of(members_, [&](const PassMember& m) {
    return m.part.role == OnlinePart::Fold && !m.known && !is_maximum(m) && m.nest.aggregation != Aggregation::Sum;
  });
}

bool OnlinePass::divides(const PassMember& m, std::size_t r) const {
  const FlatAccess& read = m.nest.reads[r];
  if (!reciprocals_ || compute_type(storage_.plan.program.tensor(read.tensor).dtype) != DType::F32) return false;
  const auto is_read = [&](const poly::Expr& e) {
    const auto* own = e.as<poly::Read>();
    return own && static_cast<std::size_t>(own->read) == r && own->type == DType::F32;
  };
  return std::ranges::any_of(m.part.divisors, is_read) ||
      std::ranges::any_of(poly::parts(*m.nest.value), [&](const poly::Expr& part) {
        const auto* apply = part.as<poly::Apply>();
        return apply && apply->op == Op::Div && is_read(apply->operands[1]);
      });
}

// ---- rows

Body OnlinePass::rows_alone() {
  Body body;
  for (std::size_t l = 0; l < members_.size(); ++l) {
    const PassMember& m = members_[l];
    for (std::size_t r = 0; r < m.nest.reads.size(); ++r) {
      const FlatAccess& read = m.nest.reads[r];
      const auto made = by_tensor_.find(read.tensor);
      const PassMember* known_fold = made != by_tensor_.end() ? &members_[made->second] : nullptr;
      if (known_fold && !known_fold->known) continue;
      if (staged(m.part, r) || read.offset.coefficients[m.part.over] != 0) continue;
      const DType type = storage_.plan.program.tensor(read.tensor).dtype;
      if (slot_ == 0) {
        OfRow own{allocate(body, "of_row", rows_of_thread(), Memory::Register, compute_type(type)), {}};
        if (divides(m, r)) own.reciprocals = allocate(body, "by_row", rows_of_thread(), Memory::Register);
        of_rows_.emplace(std::pair(l, r), std::move(own));
      }
      const auto& [name, reciprocals] = of_rows_.at({l, r});
      if (known_fold) {
        const Expr found = Load{known_fold->registers, i64(slot_), type_of(*known_fold)};
        body.push_back(stmt(Store{name, i64(slot_), rounded(*known_fold, found)}));
        append(body, reciprocal_of_row({name, reciprocals}));
        continue;
      }
      body.push_back(stmt(Store{name, i64(slot_), Constant{compute_type(type), 0, 0.0}}));
      Ranges known = points_[l];
      known.fix(m.part.row, row_value_);
      std::optional<Expr> there = known.fixed_rows();  // where they do not hold, the element may not exist
      Body one{stmt(Store{name, i64(slot_),
          convert(Load{storage_.name(read.tensor), known.known_part(read.offset), type}, compute_type(type))})};
      if (rows_ % height_) there = there ? both(less(row_value_, i64(rows_)), *there) : less(row_value_, i64(rows_));
      if (there) body.push_back(stmt(If{*there, std::move(one), {}}));
      else append(body, std::move(one));
      append(body, reciprocal_of_row({name, reciprocals}));
    }
  }
  return body;
}

Body OnlinePass::reciprocal_of_row(const OfRow& own) const {
  if (own.reciprocals.empty()) return {};
  return {stmt(Store{own.reciprocals, i64(slot_), reciprocal(Load{own.registers, i64(slot_), type_})})};
}

// ---- columns

Body OnlinePass::known_columns() {
  Body body;
  for (std::size_t l = 0; l < members_.size(); ++l) {
    const PassMember& m = members_[l];
    // What several rows of the domain bound together may be bounded by each other: no element of it is read ahead.
    if (std::ranges::count_if(m.nest.rows, [&](const Row& row) {
          return row.form.coefficients[m.part.over] != 0 && row.form.coefficients[m.part.row] != 0;
        }) > 1)
      continue;
    for (const std::size_t r : column_reads(m.nest, m.part)) {
      const FlatAccess& read = m.nest.reads[r];
      if (by_tensor_.contains(read.tensor)) continue;
      const auto alike = std::ranges::find_if(known_columns_, [&](const OfColumn& c) {
        const Nest& other = members_[c.member].nest;
        const FlatAccess& own = other.reads[c.read];
        return own.tensor == read.tensor && same_forms(m.nest, read.offset, other, own.offset) &&
            same_points(m.nest, other);
      });
      column_of_[{l, r}] = static_cast<std::size_t>(alike - known_columns_.begin());
      const DType type = compute_type(storage_.plan.program.tensor(read.tensor).dtype);
      const std::int64_t count = turns_at_once() * depth_;
      if (alike == known_columns_.end())
        known_columns_.push_back({l, r, type, allocate(body, "of_column", count, Memory::Shared, type), {}, {}});
      OfColumn& own = known_columns_[column_of_.at({l, r})];
      if (own.reciprocals.empty() && divides(m, r))
        own.reciprocals = allocate(body, "by_column", count, Memory::Shared);
    }
  }
  return body;
}

Body OnlinePass::registers_of_columns() {
  Body body;
  for (OfColumn& c : known_columns_)
    c.ahead = allocate(body, "ahead", (depth_ + threads_ - 1) / threads_, Memory::Register, c.type);
  return body;
}

void OnlinePass::each_known_column(
    Body& body, const std::function<Body(const OfColumn&, std::int64_t, const Expr&)>& f) {
  std::int64_t first = 0;                              // thread of a value's first column
  for (const OfColumn& c : known_columns_) {
    if (first + depth_ > threads_) first = 0;
    for (std::int64_t u = 0; u * threads_ < depth_; ++u) {
      const Expr at = let(body, "at", var(thread_) + i64(u * threads_ - first));
      std::optional<Expr> mine;
      if (first > 0) mine = at_least(at, i64(0));
      if (depth_ - u * threads_ < threads_) mine = mine ? both(*mine, less(at, i64(depth_))) : less(at, i64(depth_));
      if (mine) body.push_back(stmt(If{*mine, f(c, u, at), {}}));
      else append(body, f(c, u, at));
    }
    first += depth_;
  }
}

Body OnlinePass::load_columns(const Expr& first) {
  Body body;
  each_known_column(body, [&](const OfColumn& c, std::int64_t u, const Expr& at) {
    const PassMember& m = members_[c.member];
    const FlatAccess& read = m.nest.reads[c.read];
    Body one{stmt(Store{c.ahead, i64(u), Constant{c.type, 0, 0.0}})};
    const Expr column = let(one, "j", first + at);
    Ranges points = points_[c.member];
    points.fix(m.part.over, column);
    std::optional<Expr> there = points.fixed_rows();
    const auto too = [&](const Expr& e) { there = there ? both(*there, e) : e; };
    if (over_ % depth_) too(less(column, i64(over_)));
    for (const Row& row : m.nest.rows) {               // some row of the block has a point
      const std::int64_t c_row = row.form.coefficients[m.part.row];
      if (!c_row || !row.form.coefficients[m.part.over]) continue;
      const auto extreme = [&](bool most) {
        Ranges fixed = points;
        fixed.fix(m.part.row, (c_row > 0) == most ? last_row() : i0_);
        return fixed.known_part(row.form);
      };
      too(at_least(extreme(true), i64(0)));
      if (row.extent) too(less(extreme(false), i64(*row.extent)));
    }
    const DType type = storage_.plan.program.tensor(read.tensor).dtype;
    const Stmt load = stmt(Store{c.ahead, i64(u),
        convert(Load{storage_.name(read.tensor), points.known_part(read.offset), type}, c.type)});
    one.push_back(there ? stmt(If{*there, {load}, {}}) : load);
    return one;
  });
  return body;
}

Body OnlinePass::put_columns(const Expr& buffer) {
  Body body;
  each_known_column(body, [&](const OfColumn& c, std::int64_t u, const Expr& at) {
    const Expr place = buffer * i64(depth_) + at, value = Load{c.ahead, i64(u), c.type};
    Body one{stmt(Store{c.shared, place, value})};
    if (!c.reciprocals.empty()) one.push_back(stmt(Store{c.reciprocals, place, reciprocal(value)}));
    return one;
  });
  return body;
}

std::optional<Expr> OnlinePass::known_read(std::size_t l, std::size_t r, const Element& at, Known& known) const {
  if (const auto own = of_rows_.find({l, r}); own != of_rows_.end()) {
    const auto& [name, reciprocals] = own->second;
    Expr value =
        Load{name, i64(slot_), compute_type(storage_.plan.program.tensor(members_[l].nest.reads[r].tensor).dtype)};
    if (!reciprocals.empty()) known.reciprocals.emplace_back(value, Load{reciprocals, i64(slot_), type_});
    return value;
  }
  const auto own = column_of_.find({l, r});
  if (own == column_of_.end() || again_) return std::nullopt;
  const OfColumn& c = known_columns_[own->second];
  const Expr place = buffer_ * i64(depth_) + at.local;
  Expr value = Load{c.shared, place, c.type};
  if (!c.reciprocals.empty()) known.reciprocals.emplace_back(value, Load{c.reciprocals, place, type_});
  return value;
}

}  // namespace tilec::codegen
