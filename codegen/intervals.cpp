// Which reads of a sum are products over intervals, and the sum with differences of running sums in their place.
#include "codegen/intervals.h"

#include <algorithm>
#include <functional>
#include <map>

#include "codegen/gates.h"
#include "codegen/interval_sums.h"
#include "codegen/part.h"
#include "codegen/restate.h"
#include "codegen/rewrite.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::DType;
using lang::Op;
using poly::Access;
using poly::Affine;
using poly::Aggregation;
using poly::Apply;
using poly::Cast;
using poly::Expr;
using poly::Index;
using poly::Number;
using poly::Program;
using poly::Range;
using poly::Size;
using poly::Statement;
using poly::TensorId;

// Each index of `made` over those of its reader, by the element that is read; of the last `left_out` dimensions nothing
// is known.
std::optional<std::vector<Affine>> seen_by(
    const Statement& made, const Access& read, std::size_t count, std::size_t left_out = 0) {
  std::vector<Affine> map(made.indices.size(), Affine::of(Size(0), count));
  std::vector<bool> known(made.indices.size(), false);
  for (std::size_t d = 0; d + left_out < made.target.element.size(); ++d) {
    const auto k = plain_index(made.target.element[d]);
    if (!k || known[*k]) return std::nullopt;
    known[*k] = true;
    map[*k] = read.element[d];
  }
  return map;
}

std::optional<std::size_t> only_reduction(const Statement& s) {
  std::optional<std::size_t> found;
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    if (is_output_index(s, k)) continue;
    if (found) return std::nullopt;
    found = k;
  }
  return found;
}

Expr put_in(const Expr& e, int read, const Expr& with) {
  if (const auto* r = e.as<poly::Read>()) return r->read == read ? with : e;
  if (const auto* cast = e.as<Cast>()) return Expr(Cast{put_in(cast->operand, read, with), cast->type});
  const auto* apply = e.as<Apply>();
  if (!apply) return e;
  Apply copy{apply->op, {}, apply->type};
  for (const Expr& operand : apply->operands) copy.operands.push_back(put_in(operand, read, with));
  return Expr(std::move(copy));
}

// The same product in f64, its factors rounded as they were.
Expr widened(const Expr& e) {
  if (e.type() == DType::F64) return e;
  if (const auto* cast = e.as<Cast>(); cast && cast->operand.type() == DType::F64) return cast->operand;
  const auto* apply = e.as<Apply>();
  if (apply && lang::is_float(apply->type) && (apply->op == Op::Mul || apply->op == Op::Neg)) {
    Apply wide{apply->op, {}, DType::F64};
    for (const Expr& operand : apply->operands) wide.operands.push_back(widened(operand));
    return Expr(std::move(wide));
  }
  return Expr(Cast{e, DType::F64});
}

// The sum runs over these indices of `made` too.
void widen_by(Statement& sum, const Statement& made, const std::vector<std::size_t>& more) {
  const std::size_t before = sum.indices.size(), count = before + more.size();
  const std::vector<std::size_t> where = in_order(before);
  const auto wider = [&](Affine& e) { e = e.renumber(where, count); };
  for (Affine& e : sum.target.element) wider(e);
  for (Access& read : sum.reads) std::for_each(read.element.begin(), read.element.end(), wider);
  for (Range& row : sum.domain) wider(row.value);
  for (std::size_t n = 0; n < more.size(); ++n) {
    sum.indices.push_back(fresh_index(sum, made.indices[more[n]]));
    sum.domain.insert(sum.domain.begin() + static_cast<std::ptrdiff_t>(before + n),
        {shifted(Affine::index(before + n, count), -low(made, more[n])), Size(extent(made, more[n]))});
  }
}

// A row says as much or more: 0 <= t - s - 1 of 0 <= t - s.
bool said_by(const Range& wanted, const Statement& s) {
  return !wanted.extent && std::any_of(s.domain.begin(), s.domain.end(), [&](const Range& row) {
    return row.value.coefficients == wanted.value.coefficients && row.value.divisor == wanted.value.divisor &&
        row.value.constant.get() <= wanted.value.constant.get();
  });
}

// Also what two rows say together: s < u and u <= t.
bool all_hold(const std::vector<Range>& rows, const Statement& s) {
  Statement all = s;
  for (std::size_t a = s.indices.size(); a < s.domain.size(); ++a)
    for (std::size_t b = a + 1; b < s.domain.size(); ++b)
      all.domain.push_back({s.domain[a].value.plus(s.domain[b].value), std::nullopt});
  return std::all_of(
      rows.begin(), rows.end(), [&](const Range& row) { return said_by(row, all) || follow({row}, all); });
}

class Rewrite {
 public:
  Rewrite(Program& program, const Statement& sum, bool by_gates)
      : program_(program), sum_(sum), by_gates_(by_gates), tensors_(program.tensors.size()) {}

  std::optional<ToldBySteps> run() {
    if (sum_.aggregation != Aggregation::Sum || !lang::is_float(sum_.value.type()) || sum_.value.type() == DType::F64)
      return std::nullopt;
    const std::size_t reads = sum_.reads.size();
    for (std::size_t r = 0; r < reads; ++r) take_in_own(r);
    for (std::size_t r = 0; r < reads; ++r)
      if (const auto told = instead_of(r)) {
        sum_.value = put_in(sum_.value, static_cast<int>(r), *told);
        changed_ = true;
      }
    if (!changed_ || (wide_ && empty_) || (!wide_ && !taken_in_.empty())) {
      program_.tensors.resize(tensors_);
      return std::nullopt;
    }
    if (wide_) sum_.value = widened(sum_.value);
    drop_unused(sum_);
    if (by_gates_ && !first_.empty() && !sum_first(program_, sum_, first_, before_)) {
      program_.tensors.resize(tensors_);
      return std::nullopt;
    }
    if (empty_) add_up();
    return ToldBySteps{std::move(before_), std::move(sum_)};
  }

 private:
  // What stands for read r: a product over an interval, with or without one of its factors.
  std::optional<Expr> instead_of(std::size_t r) {
    const Access read = sum_.reads[r];
    const Statement* made = maker(program_, read.tensor);
    if (!made || made->aggregation != Aggregation::Product || made->value.type() == DType::F64 ||
        !lang::is_float(made->value.type()))
      return std::nullopt;
    const DType stored = program_.tensor(read.tensor).dtype;
    if (stored == DType::F16) return std::nullopt;       // which leaves its range where no sum of logarithms does
    if (auto left_out = without_one(*made, read)) return Expr(Cast{*left_out, stored});
    const auto u = only_reduction(*made);
    const auto line = u ? line_of(*made, *u) : std::nullopt;
    const auto map = line ? seen_by(*made, read, sum_.indices.size()) : std::nullopt;
    const auto* fill = std::get_if<Number>(&made->fill);
    if (!map || !fill) return std::nullopt;
    const Affine lo = line->lo.compose(*map, sum_.indices.size()), hi = line->hi.compose(*map, sum_.indices.size());
    const bool some = holds(shifted(minus(hi, lo), -1));
    if (!inside(*line, lo, hi) || (!some && !holds(minus(hi, lo))) ||
        (!some && fill->real != 1 && !set_apart(r, minus(hi, lo), *fill)))
      return std::nullopt;
    if (first_.empty()) first_ = summed_first(sum_, lo, hi);
    return Expr(Cast{products(*line, *map)({{lo, hi}}), stored});
  }

  using Product = std::function<Expr(const std::vector<Stretch>&)>;
  Product products(const FactorLine& line, const std::vector<Affine>& map) {
    if (!by_gates_)
      return [&, sums = running_sums(program_, line, before_)](const std::vector<Stretch>& stretches) {
        return product_over(program_, sum_, line, sums, map, stretches);
      };
    const auto holds_here = [this](const Affine& form) { return holds(form); };
    return [&, gates = FactorElements(program_, sum_, line, map, before_, holds_here)](
               const std::vector<Stretch>& stretches) mutable { return gates.product_over(stretches); };
  }

  // Points whose interval is empty, where the product is its fill: a statement of their own, as long as it is one for
  // each element.
  bool set_apart(std::size_t r, const Affine& gap, const Number& fill) {
    const auto* nothing = std::get_if<Number>(&sum_.fill);
    if (empty_ || !nothing || nothing->real != 0) return false;
    std::optional<std::size_t> k;
    for (std::size_t i = 0; i < sum_.indices.size(); ++i)
      if (!is_output_index(sum_, i) && (gap.coefficients[i].is(1) || gap.coefficients[i].is(-1))) k = i;
    if (!k || !gap.divisor.is(1)) return false;
    Statement empty = sum_;
    empty.value = put_in(sum_.value, static_cast<int>(r), fill);
    drop_unused(empty);
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < sum_.indices.size(); ++i) if (i != *k) left.push_back(i);
    Frame f = frame(empty, left, {});
    Affine rest = gap;
    rest.coefficients[*k] = Size(0);
    f.map[*k] = rest.compose(f.map, f.count()).times(Size(-gap.coefficients[*k].get()));
    const Range hull{shifted(f.map[*k], -low(sum_, *k)), Size(extent(sum_, *k))};
    Statement seen = seen_in(empty, f, [](const Affine&) { return true; });
    seen.domain.push_back(hull);
    empty_ = std::move(seen);
    sum_.domain.push_back({shifted(gap, -1), std::nullopt});
    for (std::size_t n = sum_.domain.size() - 1; n-- > sum_.indices.size();) {
      Statement without = sum_;
      without.domain.erase(without.domain.begin() + static_cast<std::ptrdiff_t>(n));
      if (said_by(sum_.domain[n], without)) sum_ = std::move(without);
    }
    return true;
  }

  // target = part + those set apart
  void add_up() {
    const Access target = sum_.target;
    const auto whole = [&](Statement& s, const char* suffix) {
      poly::Tensor tensor = program_.tensor(target.tensor);
      tensor.name = fresh_name(program_, tensor.name + suffix);
      tensor.dtype = s.value.type();
      s.target.tensor = static_cast<TensorId>(program_.tensors.size());
      s.fill = Number{tensor.dtype};
      program_.tensors.push_back(std::move(tensor));
    };
    whole(*empty_, "_empty");
    if (!reduces(*empty_)) empty_->aggregation = Aggregation::Assign;
    whole(sum_, "_others");
    Statement all = copy(program_, target.tensor, sum_.target.tensor, in_order(target.element.size()));
    all.reads.push_back({empty_->target.tensor, all.reads[0].element});
    const DType type = sum_.value.type(), stored = program_.tensor(target.tensor).dtype;
    all.value = Apply{Op::Add, {Expr(poly::Read{0, type}), Expr(poly::Read{1, type})}, type};
    if (stored != type) all.value = Cast{all.value, stored};
    all.kernel_name = sum_.kernel_name;
    all.span = sum_.span;
    before_.push_back(std::move(*empty_));
    before_.push_back(std::move(sum_));
    sum_ = std::move(all);
  }

  // Others[o, j] = *(j == k ? own : Factors[o, k]), read at a factor of the interval.
  std::optional<Expr> without_one(const Statement& others, const Access& read) {
    const auto* select = others.value.as<Apply>();
    const auto* equal = select && select->op == Op::Select ? select->operands[0].as<Apply>() : nullptr;
    if (!equal || equal->op != Op::Eq) return std::nullopt;
    const auto k = only_reduction(others);
    const auto* factors = poly::below_casts(select->operands[2]).as<poly::Read>();
    if (!k || !factors || others.domain.size() != others.indices.size()) return std::nullopt;
    const Access& row = others.reads[static_cast<std::size_t>(factors->read)];
    const Statement* made = maker(program_, row.tensor);
    const auto* fill = made ? std::get_if<Number>(&made->fill) : nullptr;
    if (!made || made->aggregation != Aggregation::Assign || !fill || fill->real != 1 ||
        made->value.type() == DType::F64)
      return std::nullopt;
    const std::size_t rank = row.element.size() - 1;
    const auto u = plain_index(made->target.element[rank]);
    const auto line = u ? line_of(*made, *u) : std::nullopt;
    if (!line || others.target.element.size() != rank + 1 || plain_index(row.element[rank]) != k) return std::nullopt;
    for (std::size_t d = 0; d < rank; ++d) if (row.element[d] != others.target.element[d]) return std::nullopt;
    const auto j = plain_index(others.target.element[rank]);
    const auto *left = equal->operands[0].as<Index>(), *right = equal->operands[1].as<Index>();
    const auto is = [](const Index* i, std::size_t n) { return i && plain_index(i->value) == n; };
    if (!j || !((is(left, *j) && is(right, *k)) || (is(left, *k) && is(right, *j)))) return std::nullopt;

    const std::size_t indices = sum_.indices.size();
    const auto map = seen_by(*made, read, indices, 1);
    const Affine one = read.element[rank];
    if (!map) return std::nullopt;
    const Affine lo = line->lo.compose(*map, indices), hi = line->hi.compose(*map, indices), next = shifted(one, 1);
    if (!inside(*line, lo, hi) || !holds(minus(one, lo)) || !holds(minus(hi, next))) return std::nullopt;
    const auto own = own_of(others, read, select->operands[1]);
    if (!own) return std::nullopt;
    const Product product = products(*line, *map);
    if (lo.is_constant() || hi.is_constant())
      return times(product({{lo, one}, {next, hi}}), Expr(Cast{*own, DType::F64}));
    wide_ = true;                                      // two decays, to be summed one after the other
    first_ = summed_first(sum_, lo, lo);
    return times(times(product({{lo, one}}), product({{next, hi}})), widened(*own));
  }

  // What stands in a factor's place may be a sum of its own for each pair of ends: then this one sums over its indices
  // too.
  void take_in_own(std::size_t r) {
    const Statement* others = maker(program_, sum_.reads[r].tensor);
    const auto* select = others && others->aggregation == Aggregation::Product ? others->value.as<Apply>() : nullptr;
    const auto* own = select && select->op == Op::Select ? select->operands[1].as<poly::Read>() : nullptr;
    const auto map =
        own && sum_.value.as<poly::Read>() ? seen_by(*others, sum_.reads[r], sum_.indices.size()) : std::nullopt;
    if (!map) return;
    Access access = others->reads[static_cast<std::size_t>(own->read)];
    for (Affine& e : access.element) e = e.compose(*map, sum_.indices.size());
    std::size_t ends = 0;
    for (std::size_t k = 0; k < sum_.indices.size(); ++k)
      ends += !is_output_index(sum_, k) &&
          std::any_of(access.element.begin(), access.element.end(), [&](const Affine& e) { return mentions(e, k); });
    const Statement* made = maker(program_, access.tensor);
    const auto* nothing = made ? std::get_if<Number>(&made->fill) : nullptr;
    const auto inner = made ? seen_by(*made, access, sum_.indices.size()) : std::nullopt;
    if (ends < 2 || !inner || !nothing || nothing->real != 0 || made->aggregation != Aggregation::Sum ||
        made->value.type() != program_.tensor(access.tensor).dtype)
      return;

    const std::size_t before = sum_.indices.size();
    std::vector<std::size_t> reduced;
    std::vector<Range> outer;
    for (std::size_t k = 0; k < made->indices.size(); ++k) if (!is_output_index(*made, k)) reduced.push_back(k);
    for (std::size_t row = 0; row < made->domain.size(); ++row) {
      const bool inside_sum = std::any_of(
          reduced.begin(), reduced.end(), [&](std::size_t k) { return mentions(made->domain[row].value, k); });
      if (inside_sum && row >= made->indices.size()) return;
      if (!inside_sum) outer.push_back({made->domain[row].value.compose(*inner, before), made->domain[row].extent});
    }
    if (reduced.empty() || !all_hold(outer, sum_)) return;
    widen_by(sum_, *made, reduced);
    std::vector<Affine> seen;
    for (const Affine& e : *inner) seen.push_back(e.renumber(in_order(before), sum_.indices.size()));
    for (std::size_t n = 0; n < reduced.size(); ++n) seen[reduced[n]] = Affine::index(before + n, sum_.indices.size());
    taken_in_.emplace(access.tensor, std::move(seen));
  }

  // What stands in the factor's place, seen from the sum; of what is made for each pair, the value.
  std::optional<Expr> own_of(const Statement& others, const Access& read, const Expr& own) {
    const auto map = seen_by(others, read, sum_.indices.size());
    if (!map) return std::nullopt;
    Expr value = seen_here(others, own, *map);
    const auto* only = value.as<poly::Read>();
    if (!only) return value;
    const Access access = sum_.reads[static_cast<std::size_t>(only->read)];
    const Statement* made = maker(program_, access.tensor);
    if (const auto taken = taken_in_.find(access.tensor); taken != taken_in_.end())
      return seen_here(*made, made->value, taken->second);
    if (!made || made->aggregation != Aggregation::Assign || reduces(*made) ||
        made->value.type() != program_.tensor(access.tensor).dtype)
      return value;
    const auto inner = seen_by(*made, access, sum_.indices.size());
    if (!inner) return value;
    std::vector<Range> rows;
    for (const Range& row : made->domain) rows.push_back({row.value.compose(*inner, sum_.indices.size()), row.extent});
    return all_hold(rows, sum_) ? seen_here(*made, made->value, *inner) : value;
  }

  Expr seen_here(const Statement& made, const Expr& value, const std::vector<Affine>& map) {
    std::vector<int> read_at;
    for (const Access& access : made.reads) {
      Access seen{access.tensor, {}};
      for (const Affine& e : access.element) seen.element.push_back(e.compose(map, sum_.indices.size()));
      read_at.push_back(add_read(sum_, std::move(seen)));
    }
    return seen_from(value, map, sum_.indices.size(), read_at);
  }

  bool holds(const Affine& form) const { return all_hold({{form, std::nullopt}}, sum_); }
  bool inside(const FactorLine& line, const Affine& lo, const Affine& hi) const {
    const std::int64_t first = low(*line.statement, line.u), end = first + extent(*line.statement, line.u);
    return holds(shifted(lo, -first)) && holds(shifted(hi.times(Size(-1)), end));
  }

  Program& program_;
  Statement sum_;
  bool by_gates_;
  std::size_t tensors_;
  std::vector<Statement> before_;
  std::map<TensorId, std::vector<Affine>> taken_in_;   // sums whose indices this one has: these, of the sum that is
                                                       // there
  std::optional<Statement> empty_;
  std::vector<std::size_t> first_;                     // indices that are summed first
  bool changed_ = false, wide_ = false;
};

}  // namespace

std::optional<ToldBySteps> told_by_logs(Program& program, const Statement& sum) {
  return Rewrite(program, sum, false).run();
}

std::optional<ToldBySteps> told_by_gates(Program& program, const Statement& sum) {
  const std::size_t known = program.tensors.size();
  auto told = Rewrite(program, sum, true).run();
  if (!told) return told;
  if (goes_on(told->sum) && std::ranges::all_of(told->before, goes_on)) return told;
  program.tensors.resize(known);
  return std::nullopt;
}

}  // namespace tilec::codegen
