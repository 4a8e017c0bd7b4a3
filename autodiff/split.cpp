// What backward keeps, as a minimum cut.
//
// Every tensor v that does not depend on a cotangent gets two yes-no questions: does backward need it (n), does it make it
// again (r)? Costs are then edges that leave the side of yes:
//
//   n_v → r_v   bytes     needed but not made again: it is stored and loaded
//   r_v → no    operations
//   r_v → n_u   infinite  to make v again its operand u is needed
//   yes → n_v   infinite  a statement of the gradient reads v
//
// For attention with 64 features, P = exp(Scaled - Mx) costs 9 operations an element against 40 for its 4 bytes twice, so it is
// made again; the scores cost 128, so they are saved. With 16 features they are made again as well.
//
// Where a gradient asks which element was the maximum, it compares with the stored one. A product summed by another kernel may
// round otherwise and miss it; hence r_u → r_M, infinite, for each u whose bits depend on how it was computed (Exact below).
#include "autodiff/split.h"

#include <algorithm>
#include <map>
#include <set>

#include "autodiff/cut.h"
#include "autodiff/graph.h"
#include "lang/messages.h"
#include "poly/count.h"

namespace tilec::autodiff {
namespace {

using poly::Aggregation;
using poly::Expr;
using poly::Intrinsic;
using poly::Keep;
using poly::Node;
using poly::Program;
using poly::Statement;
using poly::TensorId;

constexpr std::int64_t function_weight = 8;            // as codegen's: a division, a root, a polynomial

template <class Change> void each_tensor(Node& node, const Change& change) {
  if (auto* s = std::get_if<Statement>(&node)) {
    change(s->target.tensor);
    for (auto& read : s->reads) change(read.tensor);
    if (auto* fill = std::get_if<TensorId>(&s->fill)) change(*fill);
    return;
  }
  auto& i = std::get<Intrinsic>(node);
  std::for_each(i.targets.begin(), i.targets.end(), change);
  std::for_each(i.operands.begin(), i.operands.end(), change);
}

// ---- one Program out of two -----------------------------------------------------------------------------------------------------

std::string free_name(const std::string& wish, std::set<std::string>& taken) {
  std::string name = wish;
  for (int n = 1; !taken.insert(name).second; ++n) name = wish + "_" + std::to_string(n);
  return name;
}

// ---- what stands where ----------------------------------------------------------------------------------------------------------

struct Facts {
  std::vector<const Node*> maker;                      // per tensor; null for inputs
  std::vector<bool> from_cotangents;                   // per tensor
  std::vector<bool> in_forward;                        // made for the forward's outputs anyway
  std::vector<bool> is_output;                         // of the forward
};

Facts facts_of(const Program& joint, std::size_t forward_inputs, std::size_t forward_outputs) {
  const std::size_t count = joint.tensors.size();
  Facts facts{std::vector<const Node*>(count, nullptr), std::vector<bool>(count), std::vector<bool>(count), std::vector<bool>(count)};
  for (std::size_t k = forward_inputs; k < joint.inputs.size(); ++k) facts.from_cotangents[at(joint.inputs[k])] = true;
  for (std::size_t k = 0; k < forward_outputs; ++k) facts.in_forward[at(joint.outputs[k])] = facts.is_output[at(joint.outputs[k])] = true;
  for (const Node& node : joint.nodes) {
    const auto reads = operands(node);
    const bool late = std::any_of(reads.begin(), reads.end(), [&](TensorId id) { return facts.from_cotangents[at(id)]; });
    for (const TensorId id : targets(node)) {
      facts.maker[at(id)] = &node;
      facts.from_cotangents[at(id)] = late;
    }
  }
  for (auto node = joint.nodes.rbegin(); node != joint.nodes.rend(); ++node) {
    const auto own = targets(*node);
    if (std::none_of(own.begin(), own.end(), [&](TensorId id) { return facts.in_forward[at(id)]; })) continue;
    for (const TensorId id : operands(*node)) facts.in_forward[at(id)] = true;
  }
  return facts;
}

Keep keep_of(const Node& node) {
  const auto* s = std::get_if<Statement>(&node);
  return s ? s->keep : Keep::Free;
}

// ---- rounding without a choice --------------------------------------------------------------------------------------------------

// The same bits from whatever kernel computes it: no sum over points, no product that a sum might absorb, no polynomial.
bool has_one_rounding(const Expr& value, bool under_sum) {
  if (const auto* cast = value.as<poly::Cast>()) return has_one_rounding(cast->operand, false);
  const auto* apply = value.as<poly::Apply>();
  if (!apply) return true;
  using enum lang::Op;
  switch (apply->op) {
    case Mul:
      if (under_sum && lang::is_float(apply->type)) return false;
      break;
    case Add: case Sub: case Neg: case Div: case Sqrt: case Abs: case Max: case Min: case Relu: case Select: case Eq: case Ne: case Lt: case Le: case Gt: case Ge:
    case And: case Or: case Xor: case Not: case Shl: case Shr: case Sign: case Ceil: case Floor: case Round: case Trunc: case IsNan: case IsFinite: break;
    default: return !lang::is_float(apply->type);
  }
  const bool sum = apply->op == Add || apply->op == Sub || (under_sum && (apply->op == Neg || apply->op == Select));
  return std::all_of(apply->operands.begin(), apply->operands.end(), [&](const Expr& e) { return has_one_rounding(e, sum); });
}

bool is_exact(const Program& joint, const Node& node) {
  const auto* s = std::get_if<Statement>(&node);
  if (!s || !lang::is_float(joint.tensor(s->target.tensor).dtype)) return true;   // intrinsics move, sort or fold in a fixed order
  return s->aggregation != Aggregation::Sum && s->aggregation != Aggregation::Product && has_one_rounding(s->value, false);
}

// Tensors whose bits decide which element is a maximum, and that another kernel might round otherwise.
void add_compared(const Program& joint, const Facts& facts, TensorId id, std::set<TensorId>& seen, std::vector<TensorId>& found) {
  const Node* node = facts.maker[at(id)];
  if (!node || !seen.insert(id).second) return;
  if (!is_exact(joint, *node)) return found.push_back(id);
  for (const TensorId operand : operands(*node)) add_compared(joint, facts, operand, seen, found);
}

struct Pair { TensorId value, extreme; };
std::vector<Pair> compared(const Program& joint, const Facts& facts) {
  std::vector<Pair> pairs;
  for (const Node& node : joint.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    if (!s || (s->aggregation != Aggregation::Max && s->aggregation != Aggregation::Min) || facts.from_cotangents[at(s->target.tensor)]) continue;
    std::set<TensorId> seen;
    std::vector<TensorId> found;
    for (const auto& read : s->reads) add_compared(joint, facts, read.tensor, seen, found);
    if (!has_one_rounding(s->value, false)) found.push_back(s->target.tensor);
    for (const TensorId value : found)
      if (value != s->target.tensor) pairs.push_back({value, s->target.tensor});
  }
  return pairs;
}

// ---- the cut --------------------------------------------------------------------------------------------------------------------

struct Choice { std::vector<bool> needed, again; };

struct Costs { std::int64_t save, recompute; };
Costs costs_of(const Program& joint, const Facts& facts, TensorId id, const Roofline& roofline) {
  const Node* node = facts.maker[at(id)];
  const std::int64_t once = poly::bytes(joint.tensor(id)) * roofline.operations_per_byte;
  if (!node) return {once, Cut::infinite};
  const std::int64_t work = poly::operations(joint, *node, function_weight).count;
  if (facts.is_output[at(id)]) return {once, work};
  return {2 * once + (facts.in_forward[at(id)] ? 0 : work), work};
}

std::optional<Choice> choose(const Program& joint, const Facts& facts, const std::vector<bool>& read_late, const Roofline& roofline, lang::Diagnostics& diagnostics) {
  Cut cut;
  std::vector<std::size_t> n(joint.tensors.size()), r(joint.tensors.size());
  for (std::size_t id = 0; id < n.size(); ++id) n[id] = cut.vertex(), r[id] = cut.vertex();
  for (std::size_t id = 0; id < n.size(); ++id) {
    if (facts.from_cotangents[id]) continue;
    const Node* node = facts.maker[id];
    const auto [save, recompute] = costs_of(joint, facts, static_cast<TensorId>(id), roofline);
    const Keep asked = node ? keep_of(*node) : Keep::Free;
    if (read_late[id]) cut.edge(0, n[id], Cut::infinite);
    cut.edge(n[id], r[id], asked == Keep::Recompute ? Cut::infinite : save);
    cut.edge(r[id], 1, asked == Keep::Save ? Cut::infinite : recompute);
    if (!node) continue;
    for (const TensorId operand : operands(*node)) cut.edge(r[id], n[at(operand)], Cut::infinite);
  }
  const auto pairs = compared(joint, facts);
  for (const auto& [value, extreme] : pairs) cut.edge(r[at(value)], r[at(extreme)], Cut::infinite);
  if (cut.solve() >= Cut::infinite) {
    for (const auto& [value, extreme] : pairs) {
      const Node &one = *facts.maker[at(value)], &other = *facts.maker[at(extreme)];
      if (keep_of(one) != Keep::Recompute || keep_of(other) != Keep::Save) continue;
      const auto span = [&](const Node& node) { return std::visit([](const auto& s) { return s.span; }, node); };
      diagnostics.report(span(one), lang::messages::keep_apart, joint.tensor(value).name, joint.tensor(extreme).name).label(span(other), "is saved").hint("save both, or recompute both");
      return std::nullopt;
    }
    throw lang::InternalError("split: nothing keeps what backward needs");
  }
  Choice choice{std::vector<bool>(n.size()), std::vector<bool>(n.size())};
  for (std::size_t id = 0; id < n.size(); ++id) {
    choice.needed[id] = !facts.from_cotangents[id] && cut.on_first_side(n[id]);
    choice.again[id] = choice.needed[id] && cut.on_first_side(r[id]);
  }
  return choice;
}

// ---- the two Programs -----------------------------------------------------------------------------------------------------------

// The part of the joint Program that makes `outputs` from `inputs`.
Program part(const Program& joint, std::string name, const std::vector<TensorId>& inputs, const std::vector<TensorId>& outputs) {
  Program result;
  result.name = std::move(name);
  std::vector<bool> given(joint.tensors.size()), needed(joint.tensors.size());
  for (const TensorId id : inputs) given[at(id)] = true;
  for (const TensorId id : outputs) needed[at(id)] = true;
  for (auto node = joint.nodes.rbegin(); node != joint.nodes.rend(); ++node) {
    const auto own = targets(*node);
    if (std::none_of(own.begin(), own.end(), [&](TensorId id) { return needed[at(id)] && !given[at(id)]; })) continue;
    for (const TensorId id : operands(*node)) needed[at(id)] = true;
    result.nodes.push_back(*node);
  }
  std::reverse(result.nodes.begin(), result.nodes.end());
  std::vector<TensorId> where(joint.tensors.size(), -1);
  const auto place = [&](TensorId& id) {
    auto& to = where[at(id)];
    if (to < 0) {
      to = static_cast<TensorId>(result.tensors.size());
      result.tensors.push_back(joint.tensor(id));
    }
    id = to;
  };
  result.inputs = inputs;
  result.outputs = outputs;
  std::for_each(result.inputs.begin(), result.inputs.end(), place);
  for (Node& node : result.nodes) each_tensor(node, place);
  std::for_each(result.outputs.begin(), result.outputs.end(), place);
  return result;
}

std::vector<bool> read_by_gradient(const Program& joint, const Facts& facts, std::size_t forward_outputs) {
  std::vector<bool> read(joint.tensors.size());
  const auto note = [&](TensorId id) { read[at(id)] = read[at(id)] || !facts.from_cotangents[at(id)]; };
  for (const Node& node : joint.nodes) {
    const auto ids = operands(node);
    if (facts.from_cotangents[at(targets(node)[0])]) std::for_each(ids.begin(), ids.end(), note);
  }
  std::for_each(joint.outputs.begin() + static_cast<std::ptrdiff_t>(forward_outputs), joint.outputs.end(), note);
  return read;
}

}  // namespace

Program joined(const Program& forward, const Program& gradient) {
  Program joint = forward;
  joint.outputs.insert(joint.outputs.end(), gradient.outputs.begin(), gradient.outputs.end());
  std::set<std::string> taken(joint.sizes.begin(), joint.sizes.end());
  std::map<std::string, TensorId> input_named;
  for (const auto& tensor : forward.tensors) taken.insert(tensor.name);
  for (const TensorId id : forward.inputs) input_named.emplace(forward.tensor(id).name, id);
  std::vector<TensorId> where(gradient.tensors.size(), -1);
  for (const TensorId id : gradient.inputs) {
    const auto known = input_named.find(gradient.tensor(id).name);
    if (known != input_named.end()) where[at(id)] = known->second;
  }
  for (std::size_t id = 0; id < where.size(); ++id) {
    if (where[id] >= 0) continue;
    where[id] = static_cast<TensorId>(joint.tensors.size());
    joint.tensors.push_back(gradient.tensors[id]);
    joint.tensors.back().name = free_name(gradient.tensors[id].name, taken);
  }
  const auto move = [&](TensorId& id) { id = where[at(id)]; };
  for (const TensorId id : gradient.inputs)
    if (where[at(id)] >= static_cast<TensorId>(forward.tensors.size())) joint.inputs.push_back(where[at(id)]);
  for (Node node : gradient.nodes) {
    each_tensor(node, move);
    joint.nodes.push_back(std::move(node));
  }
  std::for_each(joint.outputs.begin() + static_cast<std::ptrdiff_t>(forward.outputs.size()), joint.outputs.end(), move);
  for (const auto& size : gradient.sizes)
    if (std::find(joint.sizes.begin(), joint.sizes.end(), size) == joint.sizes.end()) joint.sizes.push_back(size);
  joint.requirements.insert(joint.requirements.end(), gradient.requirements.begin(), gradient.requirements.end());
  joint.rules.clear();                                 // nothing is differentiated from here on
  return joint;
}

std::optional<Split> split(const Program& joint, std::size_t forward_inputs, std::size_t forward_outputs, const Roofline& roofline, lang::Diagnostics& diagnostics) {
  Split result{joint, forward_inputs, forward_outputs, {}, {}, {}};
  const Facts facts = facts_of(joint, forward_inputs, forward_outputs);
  const auto choice = choose(joint, facts, read_by_gradient(joint, facts, forward_outputs), roofline, diagnostics);
  if (!choice) return std::nullopt;

  const auto forward_end = joint.inputs.begin() + static_cast<std::ptrdiff_t>(forward_inputs);
  const auto outputs_end = joint.outputs.begin() + static_cast<std::ptrdiff_t>(forward_outputs);
  std::vector<TensorId> handed, saved(joint.outputs.begin(), outputs_end);
  const auto decide = [&](TensorId id) {
    if (!choice->needed[at(id)]) return;
    const Node* node = facts.maker[at(id)];
    const auto [save, recompute] = costs_of(joint, facts, id, roofline);
    const Way way = !node ? Way::Input : choice->again[at(id)] ? Way::Recomputed : facts.is_output[at(id)] ? Way::Output : Way::Saved;
    result.residuals.push_back({id, way, node ? keep_of(*node) : Keep::Free, poly::bytes(joint.tensor(id)), node ? recompute : 0, save, node ? recompute : 0});
    if (way != Way::Recomputed) handed.push_back(id);
    if (way == Way::Saved) saved.push_back(id);
  };
  std::for_each(joint.inputs.begin(), forward_end, decide);
  for (const Node& node : joint.nodes)
    for (const TensorId id : targets(node)) decide(id);
  result.forward = part(joint, joint.name, {joint.inputs.begin(), forward_end}, saved);
  handed.insert(handed.end(), forward_end, joint.inputs.end());
  result.backward = part(joint, joint.name.empty() ? "" : joint.name + "_backward", handed, {outputs_end, joint.outputs.end()});
  return result;
}

}  // namespace tilec::autodiff
