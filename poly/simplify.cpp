// Every rewrite here is exact, so it needs no tolerance to be tested: the interpreter must give the same bits before
// and after.
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
#include "poly/chain.h"
#include "poly/exact.h"
#include "poly/intern.h"
#include "poly/simplify_statement.h"
#include "poly/view.h"

namespace tilec::poly {
namespace {

// What `inner` reads at the element that `outer` names; nothing where a form would leave 64 bits.
std::optional<Access> composed(const Access& inner, const std::vector<Affine>& outer, std::size_t count) try {
  Access through{inner.tensor, {}};
  for (const auto& affine : inner.element) through.element.push_back(affine.compose(outer, count));
  return through;
} catch (const Overflow&) {
  return std::nullopt;
}

std::size_t position(TensorId id) { return static_cast<std::size_t>(id); }

template <class Change> void each_tensor(Node& node, const Change& change) {
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

std::vector<TensorId> targets(const Node& node) {
  if (const auto* s = std::get_if<Statement>(&node)) return {s->target.tensor};
  return std::get<Intrinsic>(node).targets;
}

// What outputs need. A rule reads all its operands and targets, so these live while one of the targets does.
std::vector<bool> needed_tensors(Program& program) {
  std::vector<bool> needed(program.tensors.size(), false);
  const auto need = [&](TensorId id) { needed[position(id)] = true; };
  const auto is_needed = [&](TensorId id) { return needed[position(id)]; };
  std::for_each(program.outputs.begin(), program.outputs.end(), need);
  std::vector<bool> counted(program.rules.size(), false);
  for (bool again = true; again;) {
    for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node) {
      const auto own = targets(*node);
      if (std::any_of(own.begin(), own.end(), is_needed)) each_tensor(*node, need);
    }
    again = false;
    for (std::size_t r = 0; r < counted.size(); ++r) {
      const auto& rule = program.rules[r];
      if (counted[r] || std::none_of(rule.targets.begin(), rule.targets.end(), is_needed)) continue;
      std::for_each(rule.operands.begin(), rule.operands.end(), need);
      std::for_each(rule.targets.begin(), rule.targets.end(), need);
      counted[r] = again = true;
    }
  }
  return needed;
}

// Is every element of the result one of the first operand's?
bool takes_equal(const Program& program, const Intrinsic& intrinsic) {
  if (intrinsic.op == IntrinsicOp::Reshape) return true;
  const auto batch = intrinsic.op == IntrinsicOp::Gather ? intrinsic.parameters[0].value() : std::nullopt;
  return batch && program.tensor(intrinsic.operands[0]).shape[static_cast<std::size_t>(*batch)].value().value_or(0) > 0;
}

Statement filled(const Program& program, TensorId id, const Number& number, Span span) {
  const auto& shape = program.tensor(id).shape;
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
bool copies(const Program& program, TensorId id, const Shown& view) {
  if (!view.access || program.tensor(view.access->tensor).shape != program.tensor(id).shape) return false;
  const auto& element = view.access->element;
  for (std::size_t d = 0; d < element.size(); ++d)
    if (element[d] != Affine::index(d, element.size())) return false;
  return true;
}

// What Y is the whole of, as it is, in Y[0, i: 1, N] = =(S[0, i]): an index of its own for each dimension, or its
// only element.
std::optional<TensorId> copied_by(const Program& program, const Statement& s) {
  const auto* read = s.value.as<Read>();
  const auto& shape = program.tensor(s.target.tensor).shape;
  if (s.aggregation != Aggregation::Assign || !read || read->type != program.tensor(s.target.tensor).dtype)
    return std::nullopt;
  const auto& from = s.reads[static_cast<std::size_t>(read->read)];
  if (from.element != s.target.element || program.tensor(from.tensor).shape != shape) return std::nullopt;
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
    each_statement([&](Statement& s) { simplify(p_, s); });
  }

  // Reads of a view become reads of what it shows. The reader has the rows of its access; they are the rows of the new
  // one. A rule belongs to its tensor, whatever that shows. What is no statement reads tensors as they are: of a copy,
  // what that copies.
  void look_through() {
    std::vector<std::optional<Shown>> views(p_.tensors.size());
    for (auto& node : p_.nodes) {
      if (auto* intrinsic = std::get_if<Intrinsic>(&node)) {
        for (auto& operand : intrinsic->operands)
          if (const auto& view = views[position(operand)]; view && copies(p_, operand, *view))
            operand = view->access->tensor;
        const auto& first = views[position(intrinsic->operands[0])];
        if (!first || !first->number || first->box || !takes_equal(p_, *intrinsic)) continue;
        node = filled(p_, intrinsic->targets[0], *first->number, intrinsic->span);
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

  // Y = =(S) with Y an output and S made here: S's statement makes Y.
  void outputs_that_copy() {
    auto table = same_names();
    std::vector<Node> kept;
    for (auto& node : p_.nodes) {
      const auto* s = std::get_if<Statement>(&node);
      const auto to = s ? s->target.tensor : -1;
      const auto copied = s && is_output_[position(to)] && !has_rule_[position(to)] ? copied_by(p_, *s) : std::nullopt;
      const auto from = copied ? position(*copied) : p_.tensors.size();
      if (!copied || is_input_[from] || is_output_[from] || table[from] != *copied) kept.push_back(std::move(node));
      else table[from] = to;
    }
    p_.nodes = std::move(kept);
    rename(table);
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

  void drop_dead() {
    const auto needed = needed_tensors(p_);
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

  // A chain of elementwise statements, each read once, is one statement.
  void merge_chains() {
    const auto use = uses();
    std::vector<Statement*> maker(p_.tensors.size(), nullptr);
    std::vector<bool> gone(p_.tensors.size(), false);
    each_statement([&](Statement& s) {
      if (s.aggregation == Aggregation::Assign)
        for (std::size_t r = 0; r < s.reads.size(); ++r) {
          const auto id = position(s.reads[r].tensor);
          const auto* producer = maker[id];
          if (!producer || use[id].pinned || use[id].times != 2 || !mergeable(p_, *producer, s, r)) continue;
          merge(p_, *producer, s, r);
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

  // A statement whose only reader copies it writes where that one writes.
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
        if (auto written = placed(p_, producer, *s)) {
          gone[*maker[from]] = true;
          *s = std::move(*written);
        }
      }
      if (s->keep == Keep::Free) maker[position(s->target.tensor)] = n;
    }
    std::size_t n = 0;
    std::erase_if(p_.nodes, [&](const Node&) { return gone[n++]; });
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
