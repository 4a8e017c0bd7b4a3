// What backward keeps, as a minimum cut.
//
// Every tensor v that does not depend on a cotangent gets two yes-no questions: does backward need it (n), does it make
// it again (r)? Costs are then edges that leave the side of yes:
//
//   n_v → r_v   bytes     needed but not made again: it is stored and loaded
//   r_v → no    operations
//   r_v → n_u   infinite  to make v again its operand u is needed
//   yes → n_v   infinite  a statement of the gradient reads v
//
// For attention with 64 features, P = exp(Scaled - Mx) costs 9 operations an element against 40 for its 4 bytes twice,
// so it is made again; the scores cost 128, so they are saved. With 16 features they are made again as well.
//
// Where a gradient asks which element was the maximum (invariant.h says when it does not), it compares with the stored
// one. A product summed by another kernel may round otherwise and miss it; hence r_u → r_M, infinite, for each u whose
// bits depend on how it was computed (Exact below).
#include "autodiff/split.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "autodiff/cut.h"
#include "autodiff/graph.h"
#include "lang/messages.h"
#include "poly/count.h"
#include "poly/intern.h"

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

// ---- one Program out of two -----------------------------------------------------------------------------------------

std::string free_name(const std::string& wish, std::set<std::string>& taken) {
  std::string name = wish;
  for (int n = 1; !taken.insert(name).second; ++n) name = wish + "_" + std::to_string(n);
  return name;
}

// ---- what stands where ----------------------------------------------------------------------------------------------

struct Facts {
  std::vector<const Node*> maker;                      // per tensor; null for inputs
  std::vector<bool> from_cotangents;                   // per tensor
  std::vector<bool> in_forward;                        // made for the forward's outputs anyway
  std::vector<bool> is_output;                         // of the forward
};

Facts facts_of(const Program& joint, std::size_t forward_inputs, std::size_t forward_outputs) {
  const std::size_t count = joint.tensors.size();
  Facts facts{std::vector<const Node*>(count, nullptr), std::vector<bool>(count), std::vector<bool>(count),
      std::vector<bool>(count)};
  for (std::size_t k = forward_inputs; k < joint.inputs.size(); ++k) facts.from_cotangents[at(joint.inputs[k])] = true;
  for (std::size_t k = 0; k < forward_outputs; ++k)
    facts.in_forward[at(joint.outputs[k])] = facts.is_output[at(joint.outputs[k])] = true;
  for (const Node& node : joint.nodes) {
    const auto reads = operands(node);
    const bool late =
        std::any_of(reads.begin(), reads.end(), [&](TensorId id) { return facts.from_cotangents[at(id)]; });
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

// ---- rounding without a choice --------------------------------------------------------------------------------------

// The same bits from whatever kernel computes it: no sum over points, no product that a sum might absorb, no
// polynomial.
bool has_one_rounding(const Expr& value, bool under_sum) {
  if (const auto* cast = value.as<poly::Cast>()) return has_one_rounding(cast->operand, false);
  const auto* apply = value.as<poly::Apply>();
  if (!apply) return true;
  using enum lang::Op;
  switch (apply->op) {
    case Mul:
      if (under_sum && lang::is_float(apply->type)) return false;
      break;
    case Add:
    case Sub:
    case Neg:
    case Div:
    case Sqrt:
    case Abs:
    case Max:
    case Min:
    case Relu:
    case Select:
    case Eq:
    case Ne:
    case Lt:
    case Le:
    case Gt:
    case Ge:
    case And:
    case Or:
    case Xor:
    case Not:
    case Shl:
    case Shr:
    case Sign:
    case Ceil:
    case Floor:
    case Round:
    case Trunc:
    case IsNan:
    case IsFinite: break;
    default: return !lang::is_float(apply->type);
  }
  const bool sum = apply->op == Add || apply->op == Sub || (under_sum && (apply->op == Neg || apply->op == Select));
  return std::all_of(
      apply->operands.begin(), apply->operands.end(), [&](const Expr& e) { return has_one_rounding(e, sum); });
}

bool is_exact(const Program& joint, const Node& node) {
  const auto* s = std::get_if<Statement>(&node);
  // intrinsics move, sort or fold in a fixed order
  if (!s || !lang::is_float(joint.tensor(s->target.tensor).dtype)) return true;
  return s->aggregation != Aggregation::Sum && s->aggregation != Aggregation::Product &&
      has_one_rounding(s->value, false);
}

// Tensors whose bits decide which element is a maximum, and that another kernel might round otherwise.
void add_compared(
    const Program& joint, const Facts& facts, TensorId id, std::set<TensorId>& seen, std::vector<TensorId>& found) {
  const Node* node = facts.maker[at(id)];
  if (!node || !seen.insert(id).second) return;
  if (!is_exact(joint, *node)) return found.push_back(id);
  for (const TensorId operand : operands(*node)) add_compared(joint, facts, operand, seen, found);
}

// Whether something asks how this compares with another value, or what is computed from it: then its bits decide.
bool decides(const Program& joint, TensorId extreme) {
  std::set<TensorId> behind{extreme};
  const auto of = [&](const Statement& s, const Expr& e) {
    return std::ranges::any_of(poly::parts(e), [&](const Expr& part) {
      const auto* read = part.as<poly::Read>();
      return read && behind.contains(s.reads[at(read->read)].tensor);
    });
  };
  const auto jumps = [&](const Statement& s, const Expr& e) {
    const auto* apply = e.as<poly::Apply>();
    if (!apply || !of(s, e)) return false;
    using enum lang::Op;
    switch (apply->op) {
      case Eq:
      case Ne:
      case Lt:
      case Le:
      case Gt:
      case Ge: return !apply->operands[0].as<poly::Number>() && !apply->operands[1].as<poly::Number>();
      case Sign: case Ceil: case Floor: case Round: case Trunc: case Mod: return true;
      default: return false;
    }
  };
  for (const Node& node : joint.nodes) {
    const auto reads = operands(node);
    if (std::ranges::none_of(reads, [&](TensorId id) { return behind.contains(id); })) continue;
    const auto* s = std::get_if<Statement>(&node);
    if (!s && std::get<Intrinsic>(node).op == poly::IntrinsicOp::Sort) return true;
    if (s && std::ranges::any_of(poly::parts(s->value), [&](const Expr& e) { return jumps(*s, e); })) return true;
    for (const TensorId id : targets(node)) behind.insert(id);
  }
  return false;
}

struct Pair { TensorId value, extreme; };
std::vector<Pair> compared(const Program& joint, const Facts& facts) {
  std::vector<Pair> pairs;
  for (const Node& node : joint.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    if (!s || (s->aggregation != Aggregation::Max && s->aggregation != Aggregation::Min) ||
        facts.from_cotangents[at(s->target.tensor)] || !decides(joint, s->target.tensor))
      continue;
    std::set<TensorId> seen;
    std::vector<TensorId> found;
    for (const auto& read : s->reads) add_compared(joint, facts, read.tensor, seen, found);
    if (!has_one_rounding(s->value, false)) found.push_back(s->target.tensor);
    for (const TensorId value : found)
      if (value != s->target.tensor) pairs.push_back({value, s->target.tensor});
  }
  return pairs;
}

// ---- the cut --------------------------------------------------------------------------------------------------------

struct Choice { std::vector<bool> needed, again; };

struct Costs { std::int64_t save, recompute; };
// `work`: operations of the tensor's statement.
Costs costs_of(const Program& joint, const Facts& facts, TensorId id, const Roofline& roofline, std::int64_t work) {
  const std::int64_t once = poly::bytes(joint.tensor(id)) * roofline.operations_per_byte;
  if (facts.maker[at(id)] == nullptr) return {once, Cut::infinite};
  if (facts.is_output[at(id)]) return {once, work};
  return {2 * once + (facts.in_forward[at(id)] ? 0 : work), work};
}

bool is_narrow(const Program& joint, const Statement& s, const Expr& factor) {
  if (const auto* cast = factor.as<poly::Cast>()) return is_narrow(joint, s, cast->operand);
  const auto* read = factor.as<poly::Read>();
  if (!read) return false;
  const lang::DType type = joint.tensor(s.reads[static_cast<std::size_t>(read->read)].tensor).dtype;
  return lang::is_float(type) && lang::bytes(type) == 2;
}
// A sum of products of two reads of 16 bits.
bool is_narrow_product(const Program& joint, const Node& node) {
  const auto* s = std::get_if<Statement>(&node);
  const auto* product = s && s->aggregation == Aggregation::Sum ? s->value.as<poly::Apply>() : nullptr;
  return product && product->op == lang::Op::Mul &&
      std::ranges::all_of(product->operands, [&](const Expr& factor) { return is_narrow(joint, *s, factor); });
}

// Counted as one operation an element: a product over an interval whose two ends are indices of its result. Each
// element is its neighbour's and one factor more, and whoever sums over such products goes on likewise, with none of
// them in memory (docs/decisions/interval_products.md).
bool goes_on(const Program& joint, const Node& node) {
  const auto* s = std::get_if<Statement>(&node);
  if (!s || s->aggregation != Aggregation::Product || !lang::is_float(joint.tensor(s->target.tensor).dtype))
    return false;
  const auto in_target = [&](std::size_t k) {
    return std::ranges::any_of(s->target.element, [&](const poly::Affine& e) { return !e.coefficients[k].is(0); });
  };
  std::set<std::size_t> factors, ends;
  for (std::size_t k = 0; k < s->indices.size(); ++k) if (!in_target(k)) factors.insert(k);
  for (std::size_t row = s->indices.size(); row < s->domain.size(); ++row)
    for (std::size_t k = 0; k < s->indices.size(); ++k)
      if (in_target(k) && !s->domain[row].value.coefficients[k].is(0)) ends.insert(k);
  return factors.size() == 1 && ends.size() == 2;
}

// Per tensor, counted once: exact counts take longer than cuts do.
std::vector<std::int64_t> works_of(const Program& joint, const Facts& facts, const Roofline& roofline) {
  std::vector<std::int64_t> works;
  for (std::size_t id = 0; id < facts.maker.size(); ++id) {
    const Node* node = facts.maker[id];
    const poly::Tensor& made = joint.tensors[id];
    if (node == nullptr) works.push_back(0);
    else if (goes_on(joint, *node)) works.push_back(poly::bytes(made) / lang::bytes(made.dtype));
    else
      works.push_back(poly::operations(joint, *node, function_weight).count /
          (is_narrow_product(joint, *node) ? roofline.narrow : 1));
  }
  return works;
}

// What does not depend on prices: vertices, and edges that no cut may have.
struct Questions {
  Cut cut;
  std::vector<std::size_t> n, r;                       // per tensor
  std::vector<Pair> pairs;
};

Questions questions_of(const Program& joint, const Facts& facts, const std::vector<bool>& read_late) {
  Questions q;
  for (std::size_t id = 0; id < joint.tensors.size(); ++id)
    q.n.push_back(q.cut.vertex()), q.r.push_back(q.cut.vertex());
  for (std::size_t id = 0; id < q.n.size(); ++id) {
    if (facts.from_cotangents[id]) continue;
    if (read_late[id]) q.cut.edge(0, q.n[id], Cut::infinite);
    if (facts.maker[id] == nullptr) continue;
    for (const TensorId operand : operands(*facts.maker[id])) q.cut.edge(q.r[id], q.n[at(operand)], Cut::infinite);
  }
  q.pairs = compared(joint, facts);
  for (const auto& [value, extreme] : q.pairs) q.cut.edge(q.r[at(value)], q.r[at(extreme)], Cut::infinite);
  return q;
}

// Which [[recompute]] and [[save]] contradict each other.
void report_apart(
    const Program& joint, const Facts& facts, const std::vector<Pair>& pairs, lang::Diagnostics& diagnostics) {
  for (const auto& [value, extreme] : pairs) {
    const Node &one = *facts.maker[at(value)], &other = *facts.maker[at(extreme)];
    if (keep_of(one) != Keep::Recompute || keep_of(other) != Keep::Save) continue;
    const auto span = [&](const Node& node) { return std::visit([](const auto& s) { return s.span; }, node); };
    diagnostics.report(span(one), lang::messages::keep_apart, joint.tensor(value).name, joint.tensor(extreme).name)
        .label(span(other), "is saved")
        .hint("save both, or recompute both");
    return;
  }
  throw lang::InternalError("split: nothing keeps what backward needs");
}

// The cheapest choice where an operation counts as 1/`cheaper`.
std::optional<Choice> choose(const Program& joint, const Facts& facts, const Questions& q,
    const std::vector<std::int64_t>& works, const Roofline& roofline, std::int64_t cheaper,
    lang::Diagnostics& diagnostics) {
  Cut cut = q.cut;
  for (std::size_t id = 0; id < q.n.size(); ++id) {
    if (facts.from_cotangents[id]) continue;
    const auto [save, recompute] = costs_of(joint, facts, static_cast<TensorId>(id), roofline, works[id] / cheaper);
    const Keep asked = facts.maker[id] == nullptr ? Keep::Free : keep_of(*facts.maker[id]);
    cut.edge(q.n[id], q.r[id], asked == Keep::Recompute ? Cut::infinite : save);
    cut.edge(q.r[id], 1, asked == Keep::Save ? Cut::infinite : recompute);
  }
  if (cut.solve() >= Cut::infinite) {
    report_apart(joint, facts, q.pairs, diagnostics);
    return std::nullopt;
  }
  Choice choice{std::vector<bool>(q.n.size()), std::vector<bool>(q.n.size())};
  for (std::size_t id = 0; id < q.n.size(); ++id) {
    choice.needed[id] = !facts.from_cotangents[id] && cut.on_first_side(q.n[id]);
    choice.again[id] = choice.needed[id] && cut.on_first_side(q.r[id]);
  }
  return choice;
}

double saved_bytes(const Program& joint, const Facts& facts, const Choice& choice) {
  double bytes = 0;
  for (std::size_t id = 0; id < choice.needed.size(); ++id)
    if (choice.needed[id] && !choice.again[id] && facts.maker[id] != nullptr && !facts.is_output[id])
      bytes += static_cast<double>(poly::bytes(joint.tensors[id]));
  return bytes;
}

// The cheapest choice for which there is room.
std::optional<Choice> choose(const Program& joint, const Facts& facts, const std::vector<bool>& read_late,
    const std::vector<std::int64_t>& works, const Prices& prices, lang::Diagnostics& diagnostics) {
  const Questions questions = questions_of(joint, facts, read_late);
  constexpr std::int64_t cheapest = std::int64_t{1} << 56;
  for (std::int64_t cheaper = 1;; cheaper *= 4) {
    std::optional<Choice> choice = choose(joint, facts, questions, works, prices.roofline, cheaper, diagnostics);
    if (!choice || !prices.room) return choice;
    const double bytes = saved_bytes(joint, facts, *choice);
    if (bytes <= static_cast<double>(*prices.room)) return choice;
    if (cheaper < cheapest) continue;
    diagnostics.report({}, lang::messages::keep_too_much, fmt::format("{:.0f}", bytes), *prices.room)
        .hint("allow more, or recompute what [[save]] keeps");
    return std::nullopt;
  }
}

// ---- the two Programs -----------------------------------------------------------------------------------------------

// The part of the joint Program that makes `outputs` from `inputs`.
Program part(
    const Program& joint, std::string name, const std::vector<TensorId>& inputs, const std::vector<TensorId>& outputs) {
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

std::optional<Split> split(const Program& joint, std::size_t forward_inputs, std::size_t forward_outputs,
    const Prices& prices, lang::Diagnostics& diagnostics) {
  Split result{joint, forward_inputs, forward_outputs, {}, {}, {}};
  const Facts facts = facts_of(joint, forward_inputs, forward_outputs);
  const std::vector<std::int64_t> works = works_of(joint, facts, prices.roofline);
  const auto choice = choose(joint, facts, read_by_gradient(joint, facts, forward_outputs), works, prices, diagnostics);
  if (!choice) return std::nullopt;

  const auto forward_end = joint.inputs.begin() + static_cast<std::ptrdiff_t>(forward_inputs);
  const auto outputs_end = joint.outputs.begin() + static_cast<std::ptrdiff_t>(forward_outputs);
  std::vector<TensorId> handed, saved(joint.outputs.begin(), outputs_end);
  const auto decide = [&](TensorId id) {
    if (!choice->needed[at(id)]) return;
    const Node* node = facts.maker[at(id)];
    const auto [save, recompute] = costs_of(joint, facts, id, prices.roofline, works[at(id)]);
    const Way way = !node         ? Way::Input
        : choice->again[at(id)]   ? Way::Recomputed
        : facts.is_output[at(id)] ? Way::Output
                                  : Way::Saved;
    result.residuals.push_back({id, way, node ? keep_of(*node) : Keep::Free, poly::bytes(joint.tensor(id)),
        node ? recompute : 0, save, node ? recompute : 0});
    if (way != Way::Recomputed) handed.push_back(id);
    if (way == Way::Saved) saved.push_back(id);
  };
  std::for_each(joint.inputs.begin(), forward_end, decide);
  for (const Node& node : joint.nodes)
    for (const TensorId id : targets(node)) decide(id);
  result.forward = part(joint, joint.name, {joint.inputs.begin(), forward_end}, saved);
  handed.insert(handed.end(), forward_end, joint.inputs.end());
  result.backward =
      part(joint, joint.name.empty() ? "" : joint.name + "_backward", handed, {outputs_end, joint.outputs.end()});
  for (std::size_t k = 0; k < handed.size(); ++k) {
    const Node* node = facts.maker[at(handed[k])];
    const auto* s = node ? std::get_if<Statement>(node) : nullptr;
    result.backward.tensors[at(result.backward.inputs[k])].maximum = s && s->aggregation == Aggregation::Max;
  }
  return result;
}

}  // namespace tilec::autodiff
