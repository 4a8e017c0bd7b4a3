#include "autodiff/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/limit.h"
#include "poly/intern.h"

namespace tilec::autodiff {

using poly::Access;
using poly::Intrinsic;
using poly::Node;
using poly::Program;
using poly::Rule;
using poly::Statement;
using poly::Tensor;
using poly::TensorId;

std::vector<TensorId> targets(const Node& node) {
  if (const auto* intrinsic = std::get_if<Intrinsic>(&node)) return intrinsic->targets;
  return {std::get<Statement>(node).target.tensor};
}

std::vector<TensorId> operands(const Node& node) {
  if (const auto* intrinsic = std::get_if<Intrinsic>(&node)) return intrinsic->operands;
  const Statement& statement = std::get<Statement>(node);
  std::vector<TensorId> ids;
  for (const Access& read : statement.reads) ids.push_back(read.tensor);
  if (const auto* fill = std::get_if<TensorId>(&statement.fill)) ids.push_back(*fill);
  return ids;
}

Statement* Writers::of(Program& program, TensorId id) {
  const auto node = position(program, id);
  return node ? &std::get<Statement>(program.nodes[*node]) : nullptr;
}

std::optional<std::size_t> Writers::position(const Program& program, TensorId id) {
  node_.resize(program.tensors.size());
  for (; seen_ < program.nodes.size(); ++seen_)
    if (const auto* statement = std::get_if<Statement>(&program.nodes[seen_]))
      node_[at(statement->target.tensor)] = seen_ + 1;
  const std::size_t one_more = node_[at(id)];
  return one_more ? std::optional(one_more - 1) : std::nullopt;
}

bool is_zero(Program& program, Writers& writers, TensorId id) {
  const Statement* statement = writers.of(program, id);
  const auto* fill = statement ? std::get_if<poly::Number>(&statement->fill) : nullptr;
  const auto zero = [](const poly::Number& number) { return number.integer == 0 && number.real == 0; };
  const auto zero_value = [&](const poly::Expr& value, const auto& again) -> bool {
    return value.match([&](const poly::Number& number) { return zero(number); },
        [&](const poly::Cast& cast) { return again(cast.operand, again); },
        [&](const poly::Read& read) { return is_zero(program, writers, statement->reads[at(read.read)].tensor); },
        [](const auto&) { return false; });
  };
  return fill && zero(*fill) && zero_value(statement->value, zero_value);
}

const Rule* rule_of(const Program& program, TensorId target) {
  for (const Rule& rule : program.rules)
    if (std::find(rule.targets.begin(), rule.targets.end(), target) != rule.targets.end()) return &rule;
  return nullptr;
}

namespace {

// What the derivative of a node's target depends on: by its rule, or by the node.
std::vector<TensorId> sources(const Program& program, const Node& node, TensorId target) {
  const Rule* rule = rule_of(program, target);
  return rule ? rule->operands : operands(node);
}

bool any(const std::vector<bool>& flags, const std::vector<TensorId>& ids) {
  return std::any_of(ids.begin(), ids.end(), [&](TensorId id) { return flags[at(id)]; });
}

// Marks everything that the marked tensors need, rules included: a rule stays whole, since a part of it would be
// another rule.
void close(const Program& program, std::vector<bool>& needed) {
  std::vector<const Node*> writer(program.tensors.size());
  for (const Node& node : program.nodes)
    for (TensorId id : targets(node)) writer[at(id)] = &node;
  std::vector<TensorId> open;
  const auto need = [&](const std::vector<TensorId>& ids) {
    for (TensorId id : ids)
      if (!needed[at(id)]) needed[at(id)] = true, open.push_back(id);
  };
  for (std::size_t id = 0; id < needed.size(); ++id)
    if (needed[id]) open.push_back(static_cast<TensorId>(id));
  while (!open.empty()) {
    const TensorId id = open.back();
    open.pop_back();
    if (const Node* node = writer[at(id)]) need(targets(*node)), need(operands(*node));
    if (const Rule* rule = rule_of(program, id)) need(rule->targets), need(rule->operands);
  }
}

void renumber(Program& program, const std::vector<TensorId>& where) {
  const auto move = [&](TensorId& id) { id = where[at(id)]; };
  const auto move_all = [&](std::vector<TensorId>& ids) { std::for_each(ids.begin(), ids.end(), move); };
  for (Node& node : program.nodes) {
    if (auto* intrinsic = std::get_if<Intrinsic>(&node)) {
      move_all(intrinsic->targets), move_all(intrinsic->operands);
      continue;
    }
    Statement& statement = std::get<Statement>(node);
    move(statement.target.tensor);
    for (Access& read : statement.reads) move(read.tensor);
    if (auto* fill = std::get_if<TensorId>(&statement.fill)) move(*fill);
  }
  for (Rule& rule : program.rules) move_all(rule.targets), move_all(rule.operands);
  move_all(program.inputs), move_all(program.outputs);
}

void drop_dead(Program& program, std::vector<TensorId>& generated) {
  std::vector<bool> needed(program.tensors.size());
  for (TensorId id : program.outputs) needed[at(id)] = true;
  close(program, needed);
  std::erase_if(program.nodes, [&](const Node& node) { return !any(needed, targets(node)); });
  std::erase_if(program.rules, [&](const Rule& rule) { return !any(needed, rule.targets); });
  for (TensorId id : program.inputs) needed[at(id)] = true;

  std::vector<TensorId> where(program.tensors.size(), -1);
  std::vector<Tensor> tensors;
  for (std::size_t id = 0; id < needed.size(); ++id)
    if (needed[id]) {
      where[id] = static_cast<TensorId>(tensors.size());
      tensors.push_back(program.tensors[id]);
    }
  program.tensors = std::move(tensors);
  renumber(program, where);
  for (TensorId& id : generated) id = where[at(id)];
  std::erase(generated, -1);
}

// X ⇒ X, X_1, X_2 …; X' ⇒ X_1'; the mark is not part of what must differ, since the API drops it.
// `tried`: for a wish, how many of these are taken.
std::string unique(const std::string& wish, std::set<std::string>& taken, std::map<std::string, int>& tried) {
  std::string body = without_mark(wish), tick;
  if (body.ends_with('\'')) tick = "'", body.pop_back();
  int& n = tried[body + tick];
  std::string text = n == 0 ? body + tick : fmt::format("{}_{}{}", body, n, tick);
  while (!taken.insert(text).second) text = fmt::format("{}_{}{}", body, ++n, tick);
  return text == without_mark(wish) ? wish : text;
}

void name_all(Program& program, const std::vector<TensorId>& order) {
  const std::set<TensorId> generated(order.begin(), order.end());
  std::set<std::string> taken;
  for (std::size_t id = 0; id < program.tensors.size(); ++id)
    if (!generated.contains(static_cast<TensorId>(id))) taken.insert(without_mark(program.tensors[id].name));
  for (const auto& size : program.sizes) taken.insert(without_mark(size));
  for (const Node& node : program.nodes)
    if (const auto* statement = std::get_if<Statement>(&node))
      taken.insert(statement->indices.begin(), statement->indices.end());

  std::set<TensorId> named;
  std::map<std::string, int> tried;
  for (TensorId id : order)
    if (named.insert(id).second) program.tensors[at(id)].name = unique(program.tensor(id).name, taken, tried);
}

}  // namespace

std::vector<bool> active_tensors(const Program& program, const std::vector<TensorId>& wrt) {
  std::vector<bool> active(program.tensors.size());
  for (TensorId id : wrt) active[at(id)] = true;
  for (const Node& node : program.nodes)
    for (TensorId target : targets(node))
      if (lang::is_float(program.tensor(target).dtype) && any(active, sources(program, node, target)))
        active[at(target)] = true;
  return active;
}

std::vector<bool> tensors_behind(const Program& program, const std::vector<TensorId>& of) {
  std::vector<bool> behind(program.tensors.size());
  for (TensorId id : of) behind[at(id)] = true;
  for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node)
    for (TensorId target : targets(*node)) {
      if (!behind[at(target)]) continue;
      for (TensorId id : sources(program, *node, target))
        if (lang::is_float(program.tensor(id).dtype)) behind[at(id)] = true;
    }
  return behind;
}

void finish(Program& program, std::vector<TensorId> generated) {
  drop_dead(program, generated);
  name_all(program, generated);
}

bool within(lang::Limit limit, double count, lang::Span span, lang::Diagnostics& diagnostics) {
  return lang::within(limit, static_cast<std::int64_t>(std::min(count, 1e18)), span, diagnostics);
}

bool within_limits(const Program& program, lang::Diagnostics& diagnostics) {
  if (!lang::within(lang::Limit::Statements, std::ssize(program.nodes), {}, diagnostics)) return false;
  double all = 0;
  return std::all_of(program.nodes.begin(), program.nodes.end(), [&](const Node& node) {
    const auto* statement = std::get_if<Statement>(&node);
    const double nodes = statement ? poly::length(statement->value) : 0;
    const lang::Span span = statement ? statement->span : lang::Span{};
    all += nodes;
    return within(lang::Limit::Nodes, nodes, span, diagnostics) &&
        within(lang::Limit::Operations, all, span, diagnostics);
  });
}

std::string without_mark(const std::string& name) {
  return name.starts_with('#') || name.starts_with('$') ? name.substr(1) : name;
}

std::string cotangent_name(const std::string& name) {
  const std::string text = "d" + without_mark(name);
  return text == "default" ? "#default" : text;
}

std::string tangent_name(const std::string& name) { return "t" + without_mark(name); }

std::set<std::string> taken_names(const Program& program) {
  std::set<std::string> taken;
  for (const Tensor& tensor : program.tensors) taken.insert(without_mark(tensor.name));
  for (const std::string& size : program.sizes) taken.insert(without_mark(size));
  return taken;
}

}  // namespace tilec::autodiff
