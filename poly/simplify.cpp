// Statement-level simplification. Every rewrite here is exact, so it needs no tolerance to be tested: the interpreter must
// give the same bits before and after.
#include "poly/simplify.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "poly/fold.h"
#include "poly/interpret.h"

namespace tilec::poly {
namespace {

// Rebuilds an expression with other leaves: `leaf` gets each Read and Index.
template <class Leaf> Expr with_leaves(const Expr& value, const Leaf& leaf) {
  return value.match(
      [&](const Number&) -> Expr { return value; }, [&](const Read&) -> Expr { return leaf(value); }, [&](const Index&) -> Expr { return leaf(value); },
      [&](const Cast& c) -> Expr {
        auto operand = with_leaves(c.operand, leaf);
        return operand.same_as(c.operand) ? value : Expr{Cast{std::move(operand), c.type}};
      },
      [&](const Apply& a) -> Expr {
        Apply result{a.op, {}, a.type};
        bool changed = false;
        for (const auto& operand : a.operands) {
          result.operands.push_back(with_leaves(operand, leaf));
          changed |= !result.operands.back().same_as(operand);
        }
        return changed ? Expr{std::move(result)} : value;
      });
}

bool always_holds(const Range& row) {
  const auto number = row.value.is_constant() && row.value.divisor.is(1) ? row.value.constant.value() : std::nullopt;
  return number && *number >= 0 && (!row.extent || row.extent->value().value_or(-1) > *number);
}

// Rows that say nothing, and rows said twice.
void tidy_domain(Statement& s) {
  std::vector<Range> rows;
  for (auto& row : s.domain)
    if (!always_holds(row) && std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(std::move(row));
  s.domain = std::move(rows);
}

// Reads in the order of their first use, each once.
void tidy_reads(Statement& s) {
  std::vector<Access> reads;
  s.value = with_leaves(s.value, [&](const Expr& leaf) -> Expr {
    const auto* read = leaf.as<Read>();
    if (!read) return leaf;
    const auto& access = s.reads[static_cast<std::size_t>(read->read)];
    auto at = std::find(reads.begin(), reads.end(), access) - reads.begin();
    if (at == std::ssize(reads)) reads.push_back(access);
    return at == read->read ? leaf : Expr{Read{static_cast<int>(at), read->type}};
  });
  s.reads = std::move(reads);
}

// Index k as the constant it must be: a row 0 <= ±k + c < 1.
std::optional<std::int64_t> only_value(const Range& row, std::size_t k) {
  const auto c = row.value.coefficients[k].value(), constant = row.value.constant.value();
  if (!row.extent || !row.extent->is(1) || !row.value.divisor.is(1) || !c || !constant || (*c != 1 && *c != -1) || *constant == INT64_MIN) return std::nullopt;
  for (std::size_t j = 0; j < row.value.coefficients.size(); ++j)
    if (j != k && !row.value.coefficients[j].is(0)) return std::nullopt;
  return *c == 1 ? -*constant : *constant;
}

// The statement without index k, which is always `number`.
void remove_index(Statement& s, std::size_t k, std::int64_t number) {
  const auto count = s.indices.size() - 1;
  std::vector<Affine> map;
  for (std::size_t j = 0; j < s.indices.size(); ++j) map.push_back(j == k ? Affine::of(number, count) : Affine::index(j - (j > k), count));
  const auto compose = [&](Affine& affine) { affine = affine.compose(map, count); };
  for (auto& affine : s.target.element) compose(affine);
  for (auto& read : s.reads) std::for_each(read.element.begin(), read.element.end(), compose);
  for (auto& row : s.domain) compose(row.value);
  s.value = with_leaves(s.value, [&](const Expr& leaf) -> Expr {
    const auto* index = leaf.as<Index>();
    return index ? Expr{Index{index->value.compose(map, count), index->type}} : leaf;
  });
  s.indices.erase(s.indices.begin() + static_cast<std::ptrdiff_t>(k));
}

void remove_single_valued(Statement& s) {
  for (std::size_t k = 0; k < s.indices.size();) {
    std::optional<std::int64_t> value;
    for (const auto& row : s.domain)
      if (!value) value = only_value(row, k);
    if (value) remove_index(s, k, *value);
    else ++k;
  }
}

// Does every index stand alone in some dimension of the target, so that an element has one point at most?
bool one_point(const Statement& s) {
  std::set<std::size_t> alone;
  for (const auto& affine : s.target.element)
    if (const auto k = affine.single_index()) alone.insert(*k);
  return alone.size() == s.indices.size();
}

void fold_to_assign(const Program& program, Statement& s) {
  if (s.aggregation == Aggregation::Assign || !one_point(s)) return;
  const auto type = program.tensor(s.target.tensor).dtype;
  s.aggregation = Aggregation::Assign;
  s.ties = Ties::Split;
  if (s.value.type() != type) s.value = Cast{s.value, type};
}

// What a tensor shows, if each of its elements is an element of another or a number.
struct View { std::optional<Access> access; std::optional<Number> number; };

// T[i, j: M, N] = =(A[j, i]), where the rows of A's access are rows of T's own: every element of T is written.
std::optional<View> view_of(const Program& program, const Statement& s) {
  const auto& target = program.tensor(s.target.tensor);
  const auto rank = target.shape.size();
  if (s.aggregation != Aggregation::Assign || s.indices.size() != rank) return std::nullopt;
  for (std::size_t d = 0; d < rank; ++d)
    if (s.target.element[d].single_index() != d) return std::nullopt;
  for (const auto& row : s.domain) {
    const auto d = row.value.single_index();
    if (!always_holds(row) && (!d || row.extent != target.shape[*d])) return std::nullopt;
  }
  if (const auto* number = s.value.as<Number>()) return View{std::nullopt, convert(*number, target.dtype)};
  const auto* read = s.value.as<Read>();
  if (!read || read->type != target.dtype) return std::nullopt;
  const auto& access = s.reads[static_cast<std::size_t>(read->read)];
  for (std::size_t d = 0; d < access.element.size(); ++d) {
    const Range row{access.element[d], program.tensor(access.tensor).shape[d]};
    if (!always_holds(row) && std::find(s.domain.begin(), s.domain.end(), row) == s.domain.end()) return std::nullopt;
  }
  return View{access, std::nullopt};
}

bool is_copy(const Program& program, const Statement& s, const View& view) {
  if (!view.access || program.tensor(view.access->tensor).shape != program.tensor(s.target.tensor).shape) return false;
  return view.access->element == s.target.element;
}

bool contains(const std::vector<TensorId>& ids, TensorId id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

class Simplifier {
 public:
  explicit Simplifier(const Program& program) : p_(program) {}

  Program run() {
    for (int round = 0; round < 8; ++round) {
      const auto before = std::pair(p_.nodes.size(), reads_count());
      statements();
      look_through();
      statements();
      outputs_that_copy();
      share();
      drop_dead();
      if (before == std::pair(p_.nodes.size(), reads_count())) break;
    }
    compact();
    return std::move(p_);
  }

 private:
  std::size_t reads_count() const {
    std::size_t count = 0;
    for (const auto& node : p_.nodes)
      if (const auto* s = std::get_if<Statement>(&node)) count += s->reads.size();
    return count;
  }

  template <class Change> void each_statement(const Change& change) {
    for (auto& node : p_.nodes)
      if (auto* s = std::get_if<Statement>(&node)) change(*s);
  }

  void statements() {
    each_statement([&](Statement& s) {
      remove_single_valued(s);
      s.value = folded(s.value);
      tidy_domain(s);
      tidy_reads(s);
      fold_to_assign(p_, s);
      s.value = folded(s.value);
    });
  }

  // Reads of a view become reads of what it shows. The reader has the rows of its access; they are the rows of the new one.
  void look_through() {
    std::map<TensorId, View> views;
    each_statement([&](Statement& s) {
      for (auto& read : s.reads) {
        const auto at = views.find(read.tensor);
        if (at == views.end() || !at->second.access) continue;
        const auto& shown = *at->second.access;
        Access through{shown.tensor, {}};
        for (const auto& affine : shown.element) through.element.push_back(affine.compose(read.element, s.indices.size()));
        read = std::move(through);
      }
      s.value = with_leaves(s.value, [&](const Expr& leaf) -> Expr {
        const auto* read = leaf.as<Read>();
        const auto at = read ? views.find(s.reads[static_cast<std::size_t>(read->read)].tensor) : views.end();
        return at != views.end() && at->second.number ? Expr{*at->second.number} : leaf;
      });
      if (const auto* tensor = std::get_if<TensorId>(&s.fill)) {
        const auto at = views.find(*tensor);
        if (at != views.end() && at->second.number) s.fill = *at->second.number;
      }
      if (has_rule(s.target.tensor)) return;
      if (auto view = view_of(p_, s)) views.emplace(s.target.tensor, std::move(*view));
    });
  }

  // Y = =(S) with Y an output and S made here: S's statement makes Y.
  void outputs_that_copy() {
    for (std::size_t at = 0; at < p_.nodes.size(); ++at) {
      const auto* s = std::get_if<Statement>(&p_.nodes[at]);
      const auto view = s ? view_of(p_, *s) : std::nullopt;
      if (!view || !is_copy(p_, *s, *view) || !contains(p_.outputs, s->target.tensor)) continue;
      const auto from = view->access->tensor, to = s->target.tensor;
      if (contains(p_.inputs, from) || contains(p_.outputs, from) || has_rule(from) || has_rule(to)) continue;
      p_.nodes.erase(p_.nodes.begin() + static_cast<std::ptrdiff_t>(at--));
      rename(from, to);
    }
  }

  // Everywhere, targets included.
  void rename(TensorId from, TensorId to) {
    const auto change = [&](TensorId& id) { id = id == from ? to : id; };
    for (auto& node : p_.nodes) {
      if (auto* s = std::get_if<Statement>(&node)) {
        change(s->target.tensor);
        for (auto& read : s->reads) change(read.tensor);
        if (auto* fill = std::get_if<TensorId>(&s->fill)) change(*fill);
      } else {
        auto& intrinsic = std::get<Intrinsic>(node);
        std::for_each(intrinsic.targets.begin(), intrinsic.targets.end(), change);
        std::for_each(intrinsic.operands.begin(), intrinsic.operands.end(), change);
      }
    }
    for (auto& rule : p_.rules) {
      std::for_each(rule.operands.begin(), rule.operands.end(), change);
      std::for_each(rule.targets.begin(), rule.targets.end(), change);
    }
  }

  // A tensor whose derivative is a rule is not what its statement says: nothing else may stand for it.
  bool has_rule(TensorId id) const {
    return std::any_of(p_.rules.begin(), p_.rules.end(), [&](const Rule& rule) { return contains(rule.targets, id); });
  }

  bool equal(const Statement& a, const Statement& b) const {
    const auto &x = p_.tensor(a.target.tensor), &y = p_.tensor(b.target.tensor);
    return x.dtype == y.dtype && x.shape == y.shape && a.target.element == b.target.element && a.indices.size() == b.indices.size() && a.domain == b.domain &&
           a.aggregation == b.aggregation && a.value == b.value && a.reads == b.reads && a.fill == b.fill && a.ties == b.ties && a.kernel_name == b.kernel_name;
  }

  bool equal(const Intrinsic& a, const Intrinsic& b) const {
    if (a.op != b.op || a.operands != b.operands || a.parameters != b.parameters || a.targets.size() != b.targets.size()) return false;
    return std::equal(a.targets.begin(), a.targets.end(), b.targets.begin(), [&](TensorId x, TensorId y) { return p_.tensor(x).dtype == p_.tensor(y).dtype && p_.tensor(x).shape == p_.tensor(y).shape; });
  }

  // The targets of two equal nodes; of unequal ones none.
  std::vector<std::pair<TensorId, TensorId>> twins(const Node& first, const Node& second) const {
    const auto *a = std::get_if<Statement>(&first), *b = std::get_if<Statement>(&second);
    if (a && b) return equal(*a, *b) ? std::vector{std::pair(a->target.tensor, b->target.tensor)} : std::vector<std::pair<TensorId, TensorId>>{};
    std::vector<std::pair<TensorId, TensorId>> pairs;
    if (a || b || !equal(std::get<Intrinsic>(first), std::get<Intrinsic>(second))) return pairs;
    for (std::size_t k = 0; k < std::get<Intrinsic>(first).targets.size(); ++k) pairs.emplace_back(std::get<Intrinsic>(first).targets[k], std::get<Intrinsic>(second).targets[k]);
    return pairs;
  }

  // The second of two equal nodes goes. An output keeps its name, so of two outputs both stay.
  void share() {
    for (std::size_t first = 0; first < p_.nodes.size(); ++first)
      for (std::size_t second = first + 1; second < p_.nodes.size(); ++second) {
        const auto pairs = twins(p_.nodes[first], p_.nodes[second]);
        const auto apart = [&](const auto& pair) { return (contains(p_.outputs, pair.first) && contains(p_.outputs, pair.second)) || has_rule(pair.first) || has_rule(pair.second); };
        if (pairs.empty() || std::any_of(pairs.begin(), pairs.end(), apart)) continue;
        p_.nodes.erase(p_.nodes.begin() + static_cast<std::ptrdiff_t>(second--));
        for (const auto& [one, other] : pairs) contains(p_.outputs, other) ? rename(one, other) : rename(other, one);
      }
  }

  // Rules whose targets are all dead go; those that stay need their operands and all of their targets.
  void drop_dead() {
    std::set<TensorId> needed(p_.outputs.begin(), p_.outputs.end());
    const auto any_needed = [&](const std::vector<TensorId>& ids) { return std::any_of(ids.begin(), ids.end(), [&](TensorId id) { return needed.contains(id); }); };
    for (std::size_t before = 0; before != needed.size();) {
      before = needed.size();
      for (auto node = p_.nodes.rbegin(); node != p_.nodes.rend(); ++node) {
        if (const auto* s = std::get_if<Statement>(&*node)) {
          if (!needed.contains(s->target.tensor)) continue;
          for (const auto& read : s->reads) needed.insert(read.tensor);
          if (const auto* fill = std::get_if<TensorId>(&s->fill)) needed.insert(*fill);
        } else {
          const auto& intrinsic = std::get<Intrinsic>(*node);
          if (any_needed(intrinsic.targets)) needed.insert(intrinsic.operands.begin(), intrinsic.operands.end());
        }
      }
      for (const auto& rule : p_.rules) {
        if (!any_needed(rule.targets)) continue;
        needed.insert(rule.operands.begin(), rule.operands.end());
        needed.insert(rule.targets.begin(), rule.targets.end());
      }
    }
    std::erase_if(p_.nodes, [&](const Node& node) {
      const auto* s = std::get_if<Statement>(&node);
      return s ? !needed.contains(s->target.tensor) : !any_needed(std::get<Intrinsic>(node).targets);
    });
    std::erase_if(p_.rules, [&](const Rule& rule) { return !any_needed(rule.targets); });
  }

  // Tensors that nothing makes any more leave the table.
  void compact() {
    std::set<TensorId> used(p_.inputs.begin(), p_.inputs.end());
    for (const auto& node : p_.nodes) {
      if (const auto* s = std::get_if<Statement>(&node)) used.insert(s->target.tensor);
      else used.insert(std::get<Intrinsic>(node).targets.begin(), std::get<Intrinsic>(node).targets.end());
    }
    TensorId next = 0;
    std::vector<Tensor> tensors;
    for (const auto id : used) {                       // ascending, so a new id is never ahead of an old one that is still to come
      tensors.push_back(p_.tensor(id));
      rename(id, next);
      std::replace(p_.inputs.begin(), p_.inputs.end(), id, next);
      std::replace(p_.outputs.begin(), p_.outputs.end(), id, next);
      ++next;
    }
    p_.tensors = std::move(tensors);
  }

  Program p_;
};

}  // namespace

Program simplify(const Program& program) { return Simplifier(program).run(); }

}  // namespace tilec::poly
