// Statement-level simplification. Every rewrite here is exact, so it needs no tolerance to be tested: the interpreter
// must give the same bits before and after.
#include "poly/simplify.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "poly/canonical.h"
#include "poly/exact.h"
#include "poly/fold.h"
#include "poly/hull.h"
#include "poly/intern.h"
#include "poly/tidy.h"
#include "poly/view.h"

namespace tilec::poly {
namespace {

// Rows that say nothing, and rows said twice.
void tidy_domain(Statement& s) {
  Distinct<Range> rows;
  for (const Range& row : s.domain)
    if (!always_holds(row)) rows.place_of(row);
  s.domain = rows.take();
}

// Index k as the constant it must be: a row 0 <= ±k + c < 1.
std::optional<std::int64_t> only_value(const Range& row, std::size_t k) {
  const auto c = row.value.coefficients[k].value(), constant = row.value.constant.value();
  if (!row.extent || !row.extent->is(1) || !row.value.divisor.is(1) || !c || !constant || (*c != 1 && *c != -1) ||
      *constant == INT64_MIN)
    return std::nullopt;
  for (std::size_t j = 0; j < row.value.coefficients.size(); ++j)
    if (j != k && !row.value.coefficients[j].is(0)) return std::nullopt;
  return *c == 1 ? -*constant : *constant;
}

// The statement without index k, which is always `number`. Nothing where a form would leave 64 bits.
std::optional<Statement> without_index(Statement s, std::size_t k, std::int64_t number) try {
  const auto count = s.indices.size() - 1;
  std::vector<Affine> map;
  for (std::size_t j = 0; j < s.indices.size(); ++j)
    map.push_back(j == k ? Affine::of(number, count) : Affine::index(j - (j > k), count));
  const auto compose = [&](Affine& affine) { affine = affine.compose(map, count); };
  for (auto& affine : s.target.element) compose(affine);
  for (auto& read : s.reads) std::for_each(read.element.begin(), read.element.end(), compose);
  for (auto& row : s.domain) compose(row.value);
  s.value = with_leaves(s.value, [&](const Expr& leaf) -> Expr {
    const auto* index = leaf.as<Index>();
    return index ? Expr{Index{index->value.compose(map, count), index->type}} : leaf;
  });
  s.indices.erase(s.indices.begin() + static_cast<std::ptrdiff_t>(k));
  return s;
} catch (const Overflow&) {
  return std::nullopt;
}

// What `inner` reads at the element that `outer` names; nothing where a form would leave 64 bits.
std::optional<Access> composed(const Access& inner, const std::vector<Affine>& outer, std::size_t count) try {
  Access through{inner.tensor, {}};
  for (const auto& affine : inner.element) through.element.push_back(affine.compose(outer, count));
  return through;
} catch (const Overflow&) {
  return std::nullopt;
}

void remove_single_valued(Statement& s) {
  for (std::size_t k = 0; k < s.indices.size();) {
    std::optional<std::int64_t> value;
    for (const auto& row : s.domain)
      if (!value) value = only_value(row, k);
    auto without = value ? without_index(s, k, *value) : std::nullopt;
    if (without) s = *std::move(without);
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

// A condition on an index that the rows decide: of `i - M >= 0` under 0 <= i < M nothing is left.
std::optional<bool> decided(const Statement& s, const Apply& condition) {
  const auto* index = condition.operands[0].as<Index>();
  const auto* zero = condition.op == Op::Ge && index ? condition.operands[1].as<Number>() : nullptr;
  if (!zero || zero->integer != 0 || zero->type != DType::I64 || !index->value.divisor.is(1)) return std::nullopt;
  const auto above = [&](const Affine& form) {         // index - form, where that is a number
    const auto gap = index->value.plus(form.times(-1));
    return gap.is_constant() && gap.divisor.is(1) ? gap.constant.value() : std::nullopt;
  };
  for (const auto& row : s.domain) {
    if (!row.value.divisor.is(1)) continue;
    if (above(row.value).value_or(-1) >= 0) return true;
    if (!row.extent) continue;
    const auto end = Affine::of(*row.extent, s.indices.size());
    if (above(row.value.plus(end.times(-1))).value_or(1) <= 0) return false;                     // value < extent
    if (above(end.plus(row.value.times(-1)).plus(Affine::of(-1, s.indices.size()))).value_or(-1) >= 0) return true;
    if (above(row.value.times(-1)).value_or(0) < 0) return false;                                // -value <= 0
  }
  return std::nullopt;
}

Expr with_decided(const Statement& s, const Expr& value) {
  const auto* cast = value.as<Cast>();
  if (cast) {
    auto operand = with_decided(s, cast->operand);
    return operand.same_as(cast->operand) ? value : Expr{Cast{std::move(operand), cast->type}};
  }
  const auto* apply = value.as<Apply>();
  if (!apply) return value;
  if (apply->op == Op::Ge)
    if (const auto holds = decided(s, *apply)) return Number{DType::Bool, *holds, 0};
  std::optional<Apply> changed;
  for (std::size_t k = 0; k < apply->operands.size(); ++k) {
    auto operand = with_decided(s, apply->operands[k]);
    if (operand.same_as(apply->operands[k])) continue;
    if (!changed) changed = *apply;
    changed->operands[k] = std::move(operand);
  }
  return changed ? Expr{*std::move(changed)} : value;
}

int nodes(const Expr& value) {
  return value.match(
      [](const Apply& a) {
        return std::accumulate(
            a.operands.begin(), a.operands.end(), 1, [](int sum, const Expr& e) { return sum + nodes(e); });
      },
      [](const Cast& c) { return 1 + nodes(c.operand); }, [](const auto&) { return 1; });
}

std::size_t position(TensorId id) { return static_cast<std::size_t>(id); }

// Where a tensor is used besides by the statement that makes it.
struct Use { int times = 0; bool pinned = false; };     // pinned: an output, an input, or a rule names it

class Simplifier {
 public:
  explicit Simplifier(const Program& program) : p_(program) {}

  Program run() {
    for (int round = 0; round < 8; ++round) {
      const auto before = std::pair(p_.nodes.size(), reads_count());
      flags();
      statements();
      look_through();
      statements();
      outputs_that_copy();
      share();
      drop_dead();
      write_through();
      merge_chains();
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

  template <class Change> static void each_tensor(Node& node, const Change& change) {
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

  // Everywhere but among inputs and outputs, by a table.
  void rename(const std::vector<TensorId>& to) {
    const auto change = [&](TensorId& id) { id = to[position(id)]; };
    for (auto& node : p_.nodes) each_tensor(node, change);
    for (auto& rule : p_.rules) {
      std::for_each(rule.operands.begin(), rule.operands.end(), change);
      std::for_each(rule.targets.begin(), rule.targets.end(), change);
    }
  }

  std::vector<TensorId> same_names() const {
    std::vector<TensorId> table(p_.tensors.size());
    std::iota(table.begin(), table.end(), 0);
    return table;
  }

  void flags() {
    for (auto* list : {&is_output_, &is_input_, &has_rule_}) list->assign(p_.tensors.size(), false);
    for (const auto id : p_.outputs) is_output_[position(id)] = true;
    for (const auto id : p_.inputs) is_input_[position(id)] = true;
    for (const auto& rule : p_.rules)
      for (const auto id : rule.targets) has_rule_[position(id)] = true;
  }

  void statements() {
    each_statement([&](Statement& s) {
      remove_single_valued(s);
      s.value = folded(with_decided(s, folded(s.value)));
      tidy_domain(s);
      tidy_reads(s);
      fold_to_assign(p_, s);
      s.value = folded(s.value);
    });
  }

  // Reads of a view become reads of what it shows. The reader has the rows of its access; they are the rows of the new
  // one. A rule belongs to its tensor, whatever that shows. What is no statement reads tensors as they are: of a copy,
  // what that copies.
  void look_through() {
    std::vector<std::optional<Shown>> views(p_.tensors.size());
    for (auto& node : p_.nodes) {
      if (auto* intrinsic = std::get_if<Intrinsic>(&node)) {
        for (auto& operand : intrinsic->operands)
          if (const auto& view = views[position(operand)]; view && copies(operand, *view))
            operand = view->access->tensor;
        const auto& first = views[position(intrinsic->operands[0])];
        if (!first || !first->number || first->box || !takes_equal(*intrinsic)) continue;
        node = filled(intrinsic->targets[0], *first->number, intrinsic->span);
      }
      auto& s = std::get<Statement>(node);
      for (auto& read : s.reads) {
        const auto& view = views[position(read.tensor)];
        if (!view || !view->access) continue;
        if (auto through = composed(*view->access, read.element, s.indices.size())) read = *std::move(through);
      }
      s.value = with_leaves(s.value, [&](const Expr& leaf) -> Expr {
        const auto* read = leaf.as<Read>();
        if (!read) return leaf;
        const auto& access = s.reads[static_cast<std::size_t>(read->read)];
        const auto& view = views[position(access.tensor)];
        return view ? seen_at(*view, access.element).value_or(leaf) : leaf;
      });
      if (const auto* tensor = std::get_if<TensorId>(&s.fill))
        if (const auto& view = views[position(*tensor)]; view && view->number && !view->box) s.fill = *view->number;
      if (!has_rule_[position(s.target.tensor)]) views[position(s.target.tensor)] = view_of(p_, s);
    }
  }

  // Is every element of the result one of the first operand's?
  bool takes_equal(const Intrinsic& intrinsic) const {
    if (intrinsic.op == IntrinsicOp::Reshape) return true;
    const auto batch = intrinsic.op == IntrinsicOp::Gather ? intrinsic.parameters[0].value() : std::nullopt;
    return batch && p_.tensor(intrinsic.operands[0]).shape[static_cast<std::size_t>(*batch)].value().value_or(0) > 0;
  }

  Statement filled(TensorId id, const Number& number, Span span) const {
    const auto& shape = p_.tensor(id).shape;
    Statement s{{id, {}}, {}, {}, Aggregation::Assign, number, {}, number, Ties::Split, {}, Keep::Free, span};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto index = Affine::index(d, shape.size());
      s.indices.push_back(fmt::format("i{}", d));
      s.target.element.push_back(index);
      s.domain.push_back({index, shape[d]});
    }
    return s;
  }

  // Does the view show another tensor as it is?
  bool copies(TensorId id, const Shown& view) const {
    if (!view.access || p_.tensor(view.access->tensor).shape != p_.tensor(id).shape) return false;
    const auto& element = view.access->element;
    for (std::size_t d = 0; d < element.size(); ++d)
      if (element[d] != Affine::index(d, element.size())) return false;
    return true;
  }

  // What Y is the whole of, as it is, in Y[0, i: 1, N] = =(S[0, i]): an index of its own for each dimension, or its
  // only element.
  std::optional<TensorId> copied_by(const Statement& s) const {
    const auto* read = s.value.as<Read>();
    const auto& shape = p_.tensor(s.target.tensor).shape;
    if (s.aggregation != Aggregation::Assign || !read || read->type != p_.tensor(s.target.tensor).dtype)
      return std::nullopt;
    const auto& from = s.reads[static_cast<std::size_t>(read->read)];
    if (from.element != s.target.element || p_.tensor(from.tensor).shape != shape) return std::nullopt;
    std::vector<std::optional<std::size_t>> dimension(s.indices.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto k = from.element[d].single_index();
      if (!k && !(shape[d].is(1) && from.element[d] == Affine::of(0, s.indices.size()))) return std::nullopt;
      if (k && std::exchange(dimension[*k], d)) return std::nullopt;
    }
    if (!std::ranges::all_of(dimension, [](const auto& d) { return d.has_value(); })) return std::nullopt;
    const auto whole = [&](const Range& row) {
      const auto k = row.value.single_index();
      return always_holds(row) || (k && row.extent == shape[*dimension[*k]]);
    };
    return std::ranges::all_of(s.domain, whole) ? std::optional(from.tensor) : std::nullopt;
  }

  // Y = =(S) with Y an output and S made here: S's statement makes Y.
  void outputs_that_copy() {
    auto table = same_names();
    std::vector<Node> kept;
    for (auto& node : p_.nodes) {
      const auto* s = std::get_if<Statement>(&node);
      const auto to = s ? s->target.tensor : -1;
      const auto copied = s && is_output_[position(to)] && !has_rule_[position(to)] ? copied_by(*s) : std::nullopt;
      const auto from = copied ? position(*copied) : p_.tensors.size();
      if (!copied || is_input_[from] || is_output_[from] || table[from] != *copied) kept.push_back(std::move(node));
      else table[from] = to;
    }
    p_.nodes = std::move(kept);
    rename(table);
  }

  static std::vector<TensorId> targets(const Node& node) {
    if (const auto* s = std::get_if<Statement>(&node)) return {s->target.tensor};
    return std::get<Intrinsic>(node).targets;
  }

  // The second of two nodes with one canonical form goes. An output keeps its name, so of two outputs both stay.
  void share() {
    auto first_of = same_names(), name_of = same_names();  // the first of equal tensors; and what that one is called in
                                                           // the end
    std::unordered_map<std::string, std::vector<TensorId>> made;
    std::vector<Node> kept;
    for (auto& node : p_.nodes) {
      const auto own = targets(node);
      const bool ruled = std::any_of(own.begin(), own.end(), [&](TensorId id) { return has_rule_[position(id)]; });
      if (!ruled) {
        const auto [at, is_new] = made.try_emplace(canonical(p_, node, first_of), own);
        bool stays = is_new;
        for (std::size_t k = 0; k < own.size(); ++k)
          stays = stays || (is_output_[position(own[k])] && is_output_[position(name_of[position(at->second[k])])]);
        if (!stays) {
          for (std::size_t k = 0; k < own.size(); ++k) {
            first_of[position(own[k])] = at->second[k];
            if (is_output_[position(own[k])]) name_of[position(at->second[k])] = own[k];
          }
          note_keep(node, at->second[0]);
          continue;
        }
      }
      kept.push_back(std::move(node));
    }
    p_.nodes = std::move(kept);
    for (auto& id : first_of) id = name_of[position(id)];
    each_statement([&](Statement& s) {
      const auto wish = keeps_.find(s.target.tensor);
      if (wish != keeps_.end() && s.keep == Keep::Free) s.keep = wish->second;
    });
    keeps_.clear();
    rename(first_of);
  }

  // What the text asks of one of two equal statements holds for both.
  void note_keep(const Node& node, TensorId stays) {
    if (const auto* s = std::get_if<Statement>(&node); s && s->keep != Keep::Free) keeps_.emplace(stays, s->keep);
  }

  // What outputs need. A rule reads all its operands and targets, so these live while one of the targets does.
  std::vector<bool> needed_tensors() {
    std::vector<bool> needed(p_.tensors.size(), false);
    const auto need = [&](TensorId id) { needed[position(id)] = true; };
    const auto is_needed = [&](TensorId id) { return needed[position(id)]; };
    std::for_each(p_.outputs.begin(), p_.outputs.end(), need);
    std::vector<bool> counted(p_.rules.size(), false);
    for (bool again = true; again;) {
      for (auto node = p_.nodes.rbegin(); node != p_.nodes.rend(); ++node) {
        const auto own = targets(*node);
        if (std::any_of(own.begin(), own.end(), is_needed)) each_tensor(*node, need);
      }
      again = false;
      for (std::size_t r = 0; r < counted.size(); ++r) {
        const auto& rule = p_.rules[r];
        if (counted[r] || std::none_of(rule.targets.begin(), rule.targets.end(), is_needed)) continue;
        std::for_each(rule.operands.begin(), rule.operands.end(), need);
        std::for_each(rule.targets.begin(), rule.targets.end(), need);
        counted[r] = again = true;
      }
    }
    return needed;
  }

  void drop_dead() {
    const auto needed = needed_tensors();
    const auto dead = [&](TensorId id) { return !needed[position(id)]; };
    std::erase_if(p_.nodes, [&](const Node& node) {
      const auto own = targets(node);
      return std::all_of(own.begin(), own.end(), dead);
    });
    std::erase_if(
        p_.rules, [&](const Rule& rule) { return std::all_of(rule.targets.begin(), rule.targets.end(), dead); });
  }

  std::vector<Use> uses() {
    std::vector<Use> all(p_.tensors.size());
    for (auto& node : p_.nodes) each_tensor(node, [&](TensorId& id) { ++all[position(id)].times; });
    for (std::size_t id = 0; id < all.size(); ++id) all[id].pinned = is_output_[id] || is_input_[id] || has_rule_[id];
    for (const auto& rule : p_.rules)
      for (const auto id : rule.operands) all[position(id)].pinned = true;
    return all;
  }

  // T[i: N] = =(max(X[i], A[i]));  Y[i: N] = =(T[i] * B[i])
  //   ⇒  Y[i: N] = =(max(X[i], A[i]) * B[i]), where only Y reads T and
  // no element of it twice. A value that T would round stays in T: codegen inlines these, where the cast is not seen.
  void merge_chains() {
    const auto use = uses();
    std::vector<Statement*> maker(p_.tensors.size(), nullptr);
    std::vector<bool> gone(p_.tensors.size(), false);
    each_statement([&](Statement& s) {
      if (s.aggregation == Aggregation::Assign)
        for (std::size_t r = 0; r < s.reads.size(); ++r) {
          const auto id = position(s.reads[r].tensor);
          const auto* producer = maker[id];
          if (!producer || use[id].pinned || use[id].times != 2 || !mergeable(*producer, s, r)) continue;
          merge(*producer, s, r);
          gone[id] = true;
          r = std::numeric_limits<std::size_t>::max();   // reads are numbered anew: from the first
        }
      if (s.aggregation == Aggregation::Assign && s.keep == Keep::Free && s.kernel_name.empty() &&
          one_index_per_dimension(p_, s))
        maker[position(s.target.tensor)] = &s;
    });
    std::erase_if(p_.nodes, [&](const Node& node) {
      const auto* s = std::get_if<Statement>(&node);
      return s && gone[position(s->target.tensor)];
    });
  }

  // T[i: N] = +(…);  Y[2, i: M, N] = =(T[i]) default X
  //   ⇒  Y[2, i: M, N] = +(…) default X, where only Y reads T and every element of
  // T has a point.
  void write_through() {
    const auto use = uses();
    std::vector<std::optional<std::size_t>> maker(p_.tensors.size());
    std::vector<bool> gone(p_.nodes.size(), false);
    for (std::size_t n = 0; n < p_.nodes.size(); ++n) {
      auto* s = std::get_if<Statement>(&p_.nodes[n]);
      if (!s) continue;
      const auto* read = s->value.as<Read>();
      const auto from = read ? position(s->reads[static_cast<std::size_t>(read->read)].tensor) : 0;
      if (read && maker[from] && !use[from].pinned && use[from].times == 2) {
        const auto& producer = std::get<Statement>(p_.nodes[*maker[from]]);
        if (auto written = placed(producer, *s)) {
          gone[*maker[from]] = true;
          *s = std::move(*written);
        }
      }
      if (s->keep == Keep::Free) maker[position(s->target.tensor)] = n;
    }
    std::size_t n = 0;
    std::erase_if(p_.nodes, [&](const Node&) { return gone[n++]; });
  }

  static bool has_numbers(const Statement& s) {
    const auto number = [](const Size& size) { return size.value().has_value(); };
    return std::all_of(s.domain.begin(), s.domain.end(), [&](const Range& row) {
      return std::all_of(row.value.coefficients.begin(), row.value.coefficients.end(), number) &&
          number(row.value.constant) && number(row.value.divisor) && (!row.extent || number(*row.extent));
    });
  }

  // The index that alone is dimension d of an access, for each, where the domain is a box and these run over the whole
  // tensor.
  std::optional<std::vector<std::size_t>> whole(const Statement& s, const Access& access) const {
    if (!has_numbers(s)) return std::nullopt;
    Box box{false, std::vector<Interval>(s.indices.size())};
    const auto rows = rows_of(s);
    tighten(rows, box);
    if (box.empty || !std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return implied(row, box); }))
      return std::nullopt;
    std::vector<std::size_t> index;
    for (std::size_t d = 0; d < access.element.size(); ++d) {
      const auto k = access.element[d].single_index();
      const auto extent = p_.tensor(access.tensor).shape[d].value();
      if (!k || !extent || std::find(index.begin(), index.end(), *k) != index.end() || box.index[*k].lower != 0 ||
          box.index[*k].upper != *extent - 1)
        return std::nullopt;
      index.push_back(*k);
    }
    return index;
  }

  // Does every dimension take one index as it is, in their order? Lanes then lie side by side as before.
  static bool in_order(const Access& target, const std::vector<std::size_t>& indices) {
    std::vector<std::size_t> seen;
    for (const auto& form : target.element) {
      if (form.is_constant()) continue;
      Affine alone = form;
      alone.constant = 0;
      const auto k = alone.single_index();
      if (!k) return false;
      seen.push_back(*k);
    }
    return seen == indices;
  }

  // The producer, written where the copy writes.
  std::optional<Statement> placed(const Statement& producer, const Statement& copy) const {
    const auto& read = copy.reads[static_cast<std::size_t>(copy.value.as<Read>()->read)];
    if (copy.aggregation != Aggregation::Assign || copy.keep != Keep::Free || !copy.kernel_name.empty() ||
        p_.tensor(read.tensor).dtype != p_.tensor(copy.target.tensor).dtype)
      return std::nullopt;
    const auto from = whole(copy, read), to = whole(producer, producer.target);
    if (!from || !to || from->size() != copy.indices.size() || !in_order(copy.target, *from)) return std::nullopt;
    const auto count = producer.indices.size();
    std::vector<Affine> map(copy.indices.size());
    for (std::size_t d = 0; d < from->size(); ++d) map[(*from)[d]] = Affine::index((*to)[d], count);
    Statement result = producer;
    result.target = {copy.target.tensor, {}};
    for (const auto& form : copy.target.element) result.target.element.push_back(form.compose(map, count));
    for (const auto& row : copy.domain) result.domain.push_back({row.value.compose(map, count), row.extent});
    result.fill = copy.fill;
    tidy_domain(result);
    return result;
  }

  // Each point of the reader has an element of its own, and the sum of both is still a statement of common size.
  bool mergeable(const Statement& producer, const Statement& reader, std::size_t r) const {
    const auto type = p_.tensor(producer.target.tensor).dtype;
    const auto stored = folded(Cast{producer.value, type});
    if (const auto* cast = stored.as<Cast>(); cast && cast->operand.type() == type) return false;
    const auto& element = reader.reads[r].element;
    std::set<std::size_t> alone;
    for (const auto& form : element) {
      if (!form.divisor.is(1)) return false;           // producer values may hold index values
      if (const auto k = form.single_index()) alone.insert(*k);
    }
    int occurs = 0;
    with_leaves(reader.value, [&](const Expr& leaf) {
      const auto* read = leaf.as<Read>();
      occurs += read && read->read == static_cast<int>(r);
      return leaf;
    });
    return alone.size() == reader.indices.size() && occurs == 1 && producer.reads.size() + reader.reads.size() <= 10 &&
        nodes(producer.value) + nodes(reader.value) <= 80;
  }

  void merge(const Statement& producer, Statement& reader, std::size_t r) {
    const auto element = reader.reads[r].element;
    const auto count = reader.indices.size();
    const auto first = static_cast<int>(reader.reads.size());
    for (const auto& read : producer.reads) {
      Access copy{read.tensor, {}};
      for (const auto& form : read.element) copy.element.push_back(form.compose(element, count));
      reader.reads.push_back(std::move(copy));
    }
    const auto type = p_.tensor(producer.target.tensor).dtype;
    const Expr moved = with_leaves(producer.value, [&](const Expr& leaf) -> Expr {
      if (const auto* read = leaf.as<Read>()) return Read{first + read->read, read->type};
      const auto& index = *leaf.as<Index>();
      return Index{index.value.compose(element, count), index.type};
    });
    reader.value = with_leaves(reader.value, [&](const Expr& leaf) -> Expr {
      const auto* read = leaf.as<Read>();
      return read && read->read == static_cast<int>(r) ? folded(Cast{moved, type}) : leaf;
    });
    tidy_reads(reader);
  }

  // Tensors that nothing makes any more leave the table.
  void compact() {
    std::vector<bool> used(p_.tensors.size(), false);
    for (const auto id : p_.inputs) used[position(id)] = true;
    for (const auto& node : p_.nodes)
      for (const auto id : targets(node)) used[position(id)] = true;
    auto table = same_names();
    std::vector<Tensor> tensors;
    for (std::size_t id = 0; id < used.size(); ++id) {
      if (!used[id]) continue;
      table[id] = static_cast<TensorId>(tensors.size());
      tensors.push_back(std::move(p_.tensors[id]));
    }
    p_.tensors = std::move(tensors);
    rename(table);
    for (auto* list : {&p_.inputs, &p_.outputs})
      for (auto& id : *list) id = table[position(id)];
  }

  Program p_;
  std::vector<bool> is_output_, is_input_, has_rule_;
  std::unordered_map<TensorId, Keep> keeps_;           // wishes of statements that went, by the tensor that stays
};

}  // namespace

Program simplify(const Program& program) { return Simplifier(program).run(); }

}  // namespace tilec::poly
