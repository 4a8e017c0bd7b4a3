#include "codegen/running.h"

#include <algorithm>
#include <functional>

#include "codegen/part.h"
#include "codegen/restate.h"
#include "codegen/rewrite.h"
#include "codegen/scan.h"
#include "poly/fold.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::DType;
using lang::Op;
using poly::Access;
using poly::Affine;
using poly::Aggregation;
using poly::Expr;
using poly::Program;
using poly::Statement;
using poly::TensorId;

// A running extreme: element t folds the values s with sign·(t - s) + constant >= 0.
struct Running { std::size_t along, over; std::int64_t sign, constant; };

std::optional<Running> running(const Program& program, const Statement& s) {
  if (s.aggregation != Aggregation::Max && s.aggregation != Aggregation::Min) return std::nullopt;
  const auto scan = scan_of(s);
  if (!scan || !scan->steady() || scan->along_down != scan->over_down || std::holds_alternative<TensorId>(s.fill) ||
      program.tensor(s.target.tensor).dtype == DType::Bool)
    return std::nullopt;
  for (std::size_t r = s.indices.size(); r < s.domain.size(); ++r) {
    const Affine& row = s.domain[r].value;
    if (!mentions(row, scan->along) || !mentions(row, scan->over) || s.domain[r].extent) continue;
    return Running{scan->along, scan->over, row.coefficients[scan->along].get(), row.constant.get()};
  }
  return std::nullopt;
}

// The points of `maker` as those of `s`: each index of it over those of `s`.
struct Seen {
  const Program& program;
  const Statement& maker;
  const Statement& s;
  std::vector<std::optional<Affine>> map;

  // By what the extreme is read at.
  bool by_element(const Access& read) {
    map.assign(maker.indices.size(), std::nullopt);
    for (std::size_t d = 0; d < maker.target.element.size(); ++d) {
      const auto k = plain_index(maker.target.element[d]);
      if (!k || map[*k]) return false;
      map[*k] = read.element[d];
    }
    return true;
  }

  // By where `e` reads what the value reads.
  bool by_value(const Expr& value, const Expr& e) {
    if (const auto* a = value.as<poly::Read>()) {
      const auto* b = e.as<poly::Read>();
      return b && a->type == b->type &&
          by_read(maker.reads[static_cast<std::size_t>(a->read)], s.reads[static_cast<std::size_t>(b->read)]);
    }
    if (const auto* a = value.as<poly::Cast>()) {
      const auto* b = e.as<poly::Cast>();
      return b && a->type == b->type && by_value(a->operand, b->operand);
    }
    if (const auto* a = value.as<poly::Apply>()) {
      const auto* b = e.as<poly::Apply>();
      if (!b || a->op != b->op || a->type != b->type || a->operands.size() != b->operands.size()) return false;
      for (std::size_t k = 0; k < a->operands.size(); ++k) if (!by_value(a->operands[k], b->operands[k])) return false;
      return true;
    }
    if (const auto* a = value.as<poly::Index>()) {
      const auto* b = e.as<poly::Index>();
      return b && a->type == b->type && by_form(a->value, b->value);
    }
    return value == e;
  }

  bool by_read(const Access& a, const Access& b) {
    if (a.tensor != b.tensor) return false;
    for (std::size_t d = 0; d < a.element.size(); ++d) if (!by_form(a.element[d], b.element[d])) return false;
    return true;
  }

  // An index that is not known yet is what makes the forms equal.
  bool by_form(const Affine& a, const Affine& b) {
    if (const auto k = plain_index(a); k && !map[*k]) map[*k] = b;
    std::vector<Affine> known;
    for (std::size_t k = 0; k < map.size(); ++k) {
      if (!map[k] && mentions(a, k)) return false;
      known.push_back(map[k].value_or(Affine::of(poly::Size(0), s.indices.size())));
    }
    return a.compose(known, s.indices.size()) == b;
  }

  // Every point of `s` is one of the maker's.
  bool within() const {
    std::vector<Affine> known;
    for (const auto& form : map) {
      if (!form) return false;
      known.push_back(*form);
    }
    std::vector<poly::Range> rows;
    for (const poly::Range& row : maker.domain)
      rows.push_back({row.value.compose(known, s.indices.size()), row.extent});
    return follow(rows, s);
  }
};

// X[s] == P[t]   ⇒   X[s] == P[s] && P[s] == P[t]
class Rewrite {
 public:
  Rewrite(const Program& program, const Statement& s) : program_(program), result_(s) {}

  std::optional<Statement> run() {
    result_.value = rewritten(result_.value);
    return changed_ ? std::optional(std::move(result_)) : std::nullopt;
  }

 private:
  Expr rewritten(const Expr& e) {
    if (const auto* cast = e.as<poly::Cast>()) return Expr(poly::Cast{rewritten(cast->operand), cast->type});
    const auto* apply = e.as<poly::Apply>();
    if (!apply) return e;
    if (apply->op == Op::Eq)
      for (const std::size_t extreme : {0, 1})
        for (const auto tell : {&Rewrite::told, &Rewrite::told_of_first})
          if (const auto both = (this->*tell)(apply->operands[extreme], apply->operands[1 - extreme])) return *both;
    poly::Apply copy{apply->op, {}, apply->type};
    for (const Expr& operand : apply->operands) copy.operands.push_back(rewritten(operand));
    return Expr(std::move(copy));
  }

  std::optional<Expr> told(const Expr& extreme, const Expr& value) {
    const auto* read = extreme.as<poly::Read>();
    if (!read) return std::nullopt;
    const Access access = result_.reads[static_cast<std::size_t>(read->read)];
    const Statement* made = maker(program_, access.tensor);
    const auto run = made ? running(program_, *made) : std::nullopt;
    if (!run) return std::nullopt;
    const DType stored = program_.tensor(access.tensor).dtype;
    Seen seen{program_, *made, result_, {}};
    const Expr wanted = poly::as_stored(made->value, stored);
    if (!seen.by_element(access) || !seen.by_value(wanted, value) || !seen.within()) return std::nullopt;
    return both_equal(value, *made, *run, seen, access, extreme);
  }

  // First[t] == s
  //   ⇒  First[s] == s && First[s] == First[t]: what is first of some values is first of fewer, as long as it is among
  //      them.
  std::optional<Expr> told_of_first(const Expr& first, const Expr& index) {
    const auto *read = first.as<poly::Read>();
    const auto* here = index.as<poly::Index>();
    if (!read || !here) return std::nullopt;
    const Access access = result_.reads[static_cast<std::size_t>(read->read)];
    const Statement* made = maker(program_, access.tensor);
    const auto run = made ? running(program_, *made) : std::nullopt;
    if (!run || made->value.type() != program_.tensor(access.tensor).dtype) return std::nullopt;
    const auto* select = made->value.as<poly::Apply>();
    const auto* place = select && select->op == Op::Select && is_equal_run(*made, *run, select->operands[0])
        ? select->operands[1].as<poly::Index>()
        : nullptr;
    Seen seen{program_, *made, result_, {}};
    if (!place || plain_index(place->value) != run->over || place->type != here->type || !seen.by_element(access) ||
        !seen.by_form(place->value, here->value) || !seen.within())
      return std::nullopt;
    return both_equal(index, *made, *run, seen, access, first);
  }

  // What is told of s alone, and that the extreme at s is that at t.
  static bool is_equal_run(const Statement& made, const Running& run, const Expr& condition) {
    const auto* all = condition.as<poly::Apply>();
    const auto* same = all && all->op == Op::And ? all->operands[1].as<poly::Apply>() : nullptr;
    const auto* there = same && same->op == Op::Eq ? same->operands[0].as<poly::Read>() : nullptr;
    const auto* here = there ? same->operands[1].as<poly::Read>() : nullptr;
    std::vector<bool> used(made.indices.size(), false);
    if (!here) return false;
    mark(all->operands[0], made.reads, used);
    const Access &p = made.reads[static_cast<std::size_t>(there->read)],
                 &q = made.reads[static_cast<std::size_t>(here->read)];
    if (used[run.along] || p.tensor != q.tensor) return false;
    std::vector<Affine> map;
    for (std::size_t k = 0; k < made.indices.size(); ++k)
      map.push_back(Affine::index(k == run.along ? run.over : k, made.indices.size()));
    map[run.along].constant = poly::Size(-run.sign * run.constant);
    for (std::size_t d = 0; d < p.element.size(); ++d)
      if (!(q.element[d].compose(map, map.size()) == p.element[d])) return false;
    return true;
  }

  // value == there && there == extreme, where `there` is the element of `made` whose last value is s, if there is one.
  std::optional<Expr> both_equal(
      const Expr& value, const Statement& made, const Running& run, const Seen& seen, Access at, const Expr& extreme) {
    Affine first = *seen.map[run.over];
    first.constant = poly::Size(first.constant.get() - run.sign * run.constant);
    Affine place = first;
    place.constant = poly::Size(place.constant.get() - low(made, run.along));
    if (!follow({{std::move(place), poly::Size(extent(made, run.along))}}, result_)) return std::nullopt;
    for (std::size_t d = 0; d < at.element.size(); ++d)
      if (*plain_index(made.target.element[d]) == run.along) at.element[d] = first;
    const Expr there = poly::Read{static_cast<int>(result_.reads.size()), extreme.type()};
    result_.reads.push_back(std::move(at));
    changed_ = true;
    const auto equal = [](const Expr& a, const Expr& b) { return Expr(poly::Apply{Op::Eq, {a, b}, DType::Bool}); };
    return poly::Apply{Op::And, {equal(value, there), equal(there, extreme)}, DType::Bool};
  }

  const Program& program_;
  Statement result_;
  bool changed_ = false;
};

}  // namespace

std::optional<Statement> told_by_runs(const Program& program, const Statement& s) {
  return s.aggregation == Aggregation::Assign || s.aggregation == Aggregation::Product ? std::nullopt
                                                                                       : Rewrite(program, s).run();
}

namespace {

bool compares_with(const Statement& s, TensorId id) {
  for (const Expr& part : poly::parts(s.value)) {
    const auto* apply = part.as<poly::Apply>();
    if (!apply || apply->op != Op::Eq) continue;
    for (const Expr& operand : apply->operands) {
      const auto* read = operand.as<poly::Read>();
      if (read && s.reads[static_cast<std::size_t>(read->read)].tensor == id) return true;
    }
  }
  return false;
}

}  // namespace

bool reach_all_values(Rewriting& r, std::size_t n) {
  Program& program = r.program;
  const Statement made = std::get<Statement>(program.nodes[n]);
  const auto run = running(program, made);
  const TensorId id = made.target.tensor;
  const auto asks = [&](const poly::Node& node) {
    const auto* s = std::get_if<Statement>(&node);
    return s && reduces(*s) && compares_with(*s, id);
  };
  if (!run || !covers(program, made) || std::none_of(program.nodes.begin(), program.nodes.end(), asks)) return false;
  // v = t + ahead is the last value of element t
  const std::int64_t ahead = run->sign * run->constant, first = low(made, run->along) + ahead,
                     first_value = low(made, run->over);
  const std::int64_t begin = std::min(first, first_value),
                     end = std::max(first + extent(made, run->along), first_value + extent(made, run->over));
  if (end - begin == extent(made, run->along)) return false;
  std::size_t dimension = 0;
  while (plain_index(made.target.element[dimension]) != run->along) ++dimension;

  Statement all = made;
  std::vector<Affine> map;
  std::vector<int> same;
  for (std::size_t k = 0; k < made.indices.size(); ++k) map.push_back(Affine::index(k, made.indices.size()));
  for (std::size_t k = 0; k < made.reads.size(); ++k) same.push_back(static_cast<int>(k));
  map[run->along].constant = poly::Size(begin - ahead);
  all.value = seen_from(made.value, map, map.size(), same);
  for (Access& read : all.reads) for (Affine& e : read.element) e = e.compose(map, map.size());
  for (poly::Range& row : all.domain) row.value = row.value.compose(map, map.size());
  all.domain[run->along] = {Affine::index(run->along, map.size()), poly::Size(end - begin)};
  poly::Tensor tensor = program.tensor(id);
  tensor.name = fresh_name(program, tensor.name + "_all");
  tensor.shape[dimension] = poly::Size(end - begin);
  all.target.tensor = static_cast<TensorId>(program.tensors.size());
  all.kernel_name.clear();
  r.strides.push_back(row_major(extents(tensor)));
  program.tensors.push_back(std::move(tensor));

  const auto instead = [&](Access& access) {
    if (access.tensor != id) return;
    access.tensor = all.target.tensor;
    Affine& e = access.element[dimension];
    e.constant = poly::Size(e.constant.get() + ahead - begin);
  };
  for (std::size_t later = n + 1; later < program.nodes.size(); ++later)
    if (auto* s = std::get_if<Statement>(&program.nodes[later]))
      std::for_each(s->reads.begin(), s->reads.end(), instead);
  Statement own = copy(program, id, id, in_order(made.target.element.size()));
  std::for_each(own.reads.begin(), own.reads.end(), instead);
  own.kernel_name = made.kernel_name;
  own.span = made.span;
  program.nodes[n] = std::move(all);
  const bool wanted = is_output(program, id) ||
      std::any_of(program.nodes.begin(), program.nodes.end(), [&](const poly::Node& node) { return reads(node, id); });
  if (wanted) program.nodes.insert(program.nodes.begin() + static_cast<std::ptrdiff_t>(n) + 1, std::move(own));
  return true;
}

}  // namespace tilec::codegen
