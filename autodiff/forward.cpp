// Forward mode over a whole Program: nodes are taken in order, and each makes the tangent of its target from those of
// what it reads (tangent.h). The forward statements come first, so every tangent may read whatever it likes; a tensor
// without a tangent has the tangent 0, and costs nothing.
#include "autodiff/forward.h"

#include <algorithm>

#include "autodiff/companion.h"
#include "autodiff/graph.h"
#include "autodiff/invariant.h"
#include "autodiff/request.h"
#include "autodiff/share.h"
#include "autodiff/splice.h"
#include "autodiff/tangent.h"
#include "autodiff/total.h"

namespace tilec::autodiff {
namespace {

using poly::Intrinsic;
using poly::IntrinsicOp;
using poly::Node;
using poly::Program;
using poly::Rule;
using poly::Statement;
using poly::Tensor;
using poly::TensorId;

struct Sweep {
  Program program;
  std::vector<std::optional<TensorId>> tangents;       // per tensor of the forward program
  std::vector<bool> behind;                            // what the wanted outputs depend on
  std::vector<TensorId> parameters, made, helpers;     // generated, in the order in which they get their names
  Writers writers = {};
};

TensorId tangent_of(Sweep& sweep, TensorId id) {
  if (sweep.tangents[at(id)]) return *sweep.tangents[at(id)];
  const Tensor of = sweep.program.tensor(id);
  sweep.tangents[at(id)] = zeros(sweep.program, of, tangent_name(of.name));
  sweep.made.push_back(*sweep.tangents[at(id)]);
  return *sweep.tangents[at(id)];
}

void step(Sweep& sweep, const Statement& statement, lang::Diagnostics& diagnostics) {
  if (!has_rule(sweep.program, statement, diagnostics)) return;
  const Tangent made = tangent(sweep.program, statement, sweep.tangents);
  sweep.tangents[at(statement.target.tensor)] = made.tensor;
  if (made.tensor) sweep.made.push_back(*made.tensor);
  sweep.helpers.insert(sweep.helpers.end(), made.helpers.begin(), made.helpers.end());
}

// What is linear in its first operand is its own tangent; an index has none.
void step(Sweep& sweep, const Intrinsic& intrinsic, lang::Diagnostics&) {
  switch (intrinsic.op) {
    case IntrinsicOp::Reshape:
    case IntrinsicOp::Gather:
    case IntrinsicOp::Scatter: break;
    case IntrinsicOp::Sort: throw lang::InternalError("a sort has no tangent");
  }
  const TensorId target = intrinsic.targets.at(0);
  const Tensor of = sweep.program.tensor(target);
  Intrinsic node = intrinsic;
  node.operands[0] = *sweep.tangents[at(intrinsic.operands[0])];
  node.targets = {new_tensor(sweep.program, tangent_name(of.name), of.dtype, of.shape, of.span)};
  sweep.tangents[at(target)] = node.targets[0];
  sweep.made.push_back(node.targets[0]);
  sweep.program.nodes.emplace_back(std::move(node));
}

// Tangents of all targets of a rule, by the rule.
void apply(Sweep& sweep, const Rule& rule, lang::Diagnostics& diagnostics) {
  if (!rule.tangent) return report_missing(sweep.program, rule, Mode::Tangent, diagnostics);
  const auto is_float = [&](TensorId id) { return lang::is_float(sweep.program.tensor(id).dtype); };
  std::vector<TensorId> inputs = rule.operands;
  for (TensorId id : rule.operands)
    if (is_float(id)) inputs.push_back(tangent_of(sweep, id));
  inputs.insert(inputs.end(), rule.targets.begin(), rule.targets.end());
  std::vector<Wish> wishes;
  for (TensorId id : rule.targets)
    if (is_float(id)) wishes.push_back({id, tangent_name(sweep.program.tensor(id).name)});
  const Spliced spliced = splice(sweep.program, sweep.program.derivatives->at(*rule.tangent), inputs, wishes);
  for (std::size_t k = 0; k < wishes.size(); ++k)
    if (!is_zero(sweep.program, sweep.writers, spliced.results[k]))
      sweep.tangents[at(wishes[k].like)] = spliced.results[k];
  sweep.made.insert(sweep.made.end(), spliced.results.begin(), spliced.results.end());
  sweep.helpers.insert(sweep.helpers.end(), spliced.helpers.begin(), spliced.helpers.end());
}

void forwards(Sweep& sweep, const Program& program, lang::Diagnostics& diagnostics) {
  const auto flows = [&](const std::vector<TensorId>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](TensorId id) { return sweep.tangents[at(id)].has_value(); });
  };
  const auto wanted = [&](const std::vector<TensorId>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](TensorId id) { return sweep.behind[at(id)]; });
  };
  std::vector<const Rule*> applied;
  for (const Node& node : program.nodes) {
    const auto written = targets(node);
    if (const Rule* rule = rule_of(program, written.at(0))) {
      if (std::find(applied.begin(), applied.end(), rule) != applied.end()) continue;
      applied.push_back(rule);                         // its operands are made before the first of its targets
      if (wanted(rule->targets) && flows(rule->operands)) apply(sweep, *rule, diagnostics);
    } else if (wanted(written) && lang::is_float(program.tensor(written[0]).dtype) && flows(operands(node))) {
      std::visit([&](const auto& n) { poly::located(n.span, [&] { step(sweep, n, diagnostics); }); }, node);
    }
  }
}

// A parameter per name; one that is named twice has the sum of both as its tangent.
void add_parameters(Sweep& sweep, const std::vector<TensorId>& wrt) {
  std::vector<std::vector<Part>> parts(sweep.tangents.size());
  for (TensorId input : wrt) {
    const Tensor of = sweep.program.tensor(input);
    const TensorId parameter = new_tensor(sweep.program, tangent_name(of.name), of.dtype, of.shape, of.span);
    sweep.program.inputs.push_back(parameter);
    sweep.parameters.push_back(parameter);
    parts[at(input)].push_back({parameter, std::nullopt});
  }
  for (TensorId input : wrt) {
    auto& whole = sweep.tangents[at(input)];
    if (whole) continue;
    const Tensor of = sweep.program.tensor(input);
    whole = parts[at(input)].size() == 1
        ? parts[at(input)][0].tensor
        : sum(sweep.program, sweep.writers, of, parts[at(input)], tangent_name(of.name), sweep.helpers);
    if (parts[at(input)].size() > 1) sweep.made.push_back(*whole);
  }
}

}  // namespace

std::optional<Program> forward(const Program& program, const std::vector<std::string>& of,
    const std::vector<std::string>& wrt, lang::Diagnostics& diagnostics) {
  const auto wanted = request(program, of, wrt, diagnostics);
  if (!wanted) return std::nullopt;

  Sweep sweep{program, std::vector<std::optional<TensorId>>(program.tensors.size()),
      tensors_behind(program, wanted->of), {}, {}, {}};
  if (!program.name.empty()) sweep.program.name = program.name + "_tangent";
  const std::vector<bool> idle = without_effect(program, wanted->of);
  for (std::size_t id = 0; id < idle.size(); ++id) if (idle[id]) sweep.behind[id] = false;
  add_parameters(sweep, wanted->wrt);
  const std::size_t errors_before = diagnostics.all().size();
  forwards(sweep, program, diagnostics);
  if (diagnostics.all().size() > errors_before) return std::nullopt;
  sweep.program.outputs.clear();
  for (TensorId output : wanted->of) sweep.program.outputs.push_back(tangent_of(sweep, output));
  std::vector<TensorId> generated = sweep.parameters;
  for (const auto* list : {&sweep.program.outputs, &sweep.made, &sweep.helpers})
    generated.insert(generated.end(), list->begin(), list->end());
  finish(sweep.program, std::move(generated));
  if (!within_limits(sweep.program, diagnostics)) return std::nullopt;
  return std::move(sweep.program);
}

}  // namespace tilec::autodiff
