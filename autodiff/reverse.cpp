// Reverse mode over a whole Program: nodes are taken from the last to the first, and each hands the cotangent of its
// target on to what it reads (adjoint.h). By the time a node is reached, everything that reads its target has been; so
// the parts of its cotangent are complete and are added up in one statement, in the order of the text:
//
//   S[i: M] = +(E[i, j]);   Y[i, j: M, N] = =(E[i, j] / S[i]);
//     ⇒  dS[i: M] = +(-dY[i, j] * E[i, j] / S[i] / S[i]);    dE[i, j: M, N] = =(dS[i] + dY[i, j] / S[i]);
#include "autodiff/reverse.h"

#include <algorithm>

#include "autodiff/adjoint.h"
#include "autodiff/companion.h"
#include "autodiff/graph.h"
#include "autodiff/invariant.h"
#include "autodiff/request.h"
#include "autodiff/share.h"
#include "autodiff/splice.h"
#include "autodiff/total.h"
#include "poly/intern.h"

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
  Program gradient;
  std::vector<bool> active;
  std::vector<std::vector<Part>> parts;                // per forward tensor, in the order of the text
  std::vector<TensorId> parameters, totals, partials, helpers;  // generated, in the order in which they get their names
  Writers writers = {};
  double written = 0;                                  // operations and operands that the cotangents may have
};

// The cotangent of a tensor from its parts, all of which are known.
TensorId total(Sweep& sweep, TensorId id) {
  const Tensor of = sweep.gradient.tensor(id);
  const auto& parts = sweep.parts[at(id)];
  const TensorId whole = parts.empty() ? zeros(sweep.gradient, of, cotangent_name(of.name))
      : parts.size() == 1              ? parts[0].tensor
                          : sum(sweep.gradient, sweep.writers, of, parts, cotangent_name(of.name), sweep.helpers);
  sweep.totals.push_back(whole);
  return whole;
}

// Parts from a later node go behind those that an earlier node will bring.
void prepend(Sweep& sweep, TensorId operand, const Part& part) {
  auto& parts = sweep.parts[at(operand)];
  parts.insert(parts.begin(), part);
  sweep.partials.insert(sweep.partials.begin(), part.tensor);
}

void step(Sweep& sweep, const Statement& statement, lang::Diagnostics& diagnostics) {
  if (!has_rule(sweep.gradient, statement, diagnostics)) return;
  // Of a product of n tensors each of n cotangents reads all others, so the work is counted before it is done.
  sweep.written +=
      static_cast<double>(statement.reads.size()) * static_cast<double>(poly::parts(statement.value).size());
  if (!within(lang::Limit::Operations, sweep.written, statement.span, diagnostics)) return;
  const Adjoint made = adjoint(sweep.gradient, statement, total(sweep, statement.target.tensor), sweep.active);
  for (auto partial = made.partials.rbegin(); partial != made.partials.rend(); ++partial)
    prepend(sweep, partial->operand, {partial->tensor, partial->fold});
  sweep.helpers.insert(sweep.helpers.begin(), made.helpers.begin(), made.helpers.end());
}

// Reshape hands back the shape; what gather reads scatter adds to, and the other way round. Sort makes integers: never
// here.
void step(Sweep& sweep, const Intrinsic& intrinsic, lang::Diagnostics&) {
  const TensorId operand = intrinsic.operands.at(0);
  Intrinsic node = intrinsic;
  node.operands[0] = total(sweep, intrinsic.targets.at(0));
  const Tensor of = sweep.gradient.tensor(operand);
  node.targets = {new_tensor(sweep.gradient, cotangent_name(of.name), of.dtype, of.shape, of.span)};
  switch (intrinsic.op) {
    case IntrinsicOp::Reshape: node.parameters = of.shape; break;
    case IntrinsicOp::Gather: node.op = IntrinsicOp::Scatter; break;
    case IntrinsicOp::Scatter: node.op = IntrinsicOp::Gather; break;
    case IntrinsicOp::Sort: throw lang::InternalError("a sort has no cotangent");
  }
  prepend(sweep, operand, {node.targets[0], std::nullopt});
  sweep.gradient.nodes.emplace_back(std::move(node));
}

// Cotangents of all operands of a rule, by the rule.
void apply(Sweep& sweep, const Rule& rule, lang::Diagnostics& diagnostics) {
  if (!rule.gradient) return report_missing(sweep.gradient, rule, Mode::Gradient, diagnostics);
  const auto is_float = [&](TensorId id) { return lang::is_float(sweep.gradient.tensor(id).dtype); };
  std::vector<TensorId> inputs = rule.operands;
  inputs.insert(inputs.end(), rule.targets.begin(), rule.targets.end());
  for (TensorId id : rule.targets)
    if (is_float(id)) inputs.push_back(total(sweep, id));
  std::vector<Wish> wishes;
  for (TensorId id : rule.operands)
    if (is_float(id)) wishes.push_back({id, cotangent_name(sweep.gradient.tensor(id).name)});
  const Spliced spliced = splice(sweep.gradient, sweep.gradient.derivatives->at(*rule.gradient), inputs, wishes);
  for (std::size_t k = wishes.size(); k-- > 0;)
    if (sweep.active[at(wishes[k].like)] && !is_zero(sweep.gradient, sweep.writers, spliced.results[k]))
      prepend(sweep, wishes[k].like, {spliced.results[k], std::nullopt});
    else sweep.helpers.push_back(spliced.results[k]);
  sweep.helpers.insert(sweep.helpers.begin(), spliced.helpers.begin(), spliced.helpers.end());
}

// The node that makes the first of a rule's targets: there the cotangents of all of them are complete.
bool is_first(const Program& program, const Rule& rule, const Node& node) {
  for (const Node& other : program.nodes)
    for (TensorId id : targets(other))
      if (std::find(rule.targets.begin(), rule.targets.end(), id) != rule.targets.end()) return &other == &node;
  return false;
}

void backwards(Sweep& sweep, const Program& program, lang::Diagnostics& diagnostics) {
  const auto arrives = [&](TensorId id) { return sweep.active[at(id)] && !sweep.parts[at(id)].empty(); };
  for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node) {
    const auto written = targets(*node);
    if (const Rule* rule = rule_of(program, written.at(0))) {
      if (is_first(program, *rule, *node) && std::any_of(rule->targets.begin(), rule->targets.end(), arrives))
        apply(sweep, *rule, diagnostics);
    } else if (std::any_of(written.begin(), written.end(), arrives)) {
      std::visit([&](const auto& n) { poly::located(n.span, [&] { step(sweep, n, diagnostics); }); }, *node);
    }
  }
}

void add_parameters(Sweep& sweep, const std::vector<TensorId>& of) {
  for (TensorId output : of) {
    const Tensor like = sweep.gradient.tensor(output);
    const TensorId parameter = new_tensor(sweep.gradient, cotangent_name(like.name), like.dtype, like.shape, like.span);
    sweep.gradient.inputs.push_back(parameter);
    sweep.parameters.push_back(parameter);
    sweep.parts[at(output)].push_back({parameter, std::nullopt});
  }
}

}  // namespace

std::optional<Program> reverse(const Program& program, const std::vector<std::string>& of,
    const std::vector<std::string>& wrt, lang::Diagnostics& diagnostics) {
  const auto wanted = request(program, of, wrt, diagnostics);
  if (!wanted) return std::nullopt;

  Sweep sweep{program, active_tensors(program, wanted->wrt), std::vector<std::vector<Part>>(program.tensors.size()), {},
      {}, {}, {}};
  if (!program.name.empty()) sweep.gradient.name = program.name + "_grad";
  const std::vector<bool> idle = without_effect(program, wanted->of);
  for (std::size_t id = 0; id < idle.size(); ++id) if (idle[id]) sweep.active[id] = false;
  add_parameters(sweep, wanted->of);
  const std::size_t errors_before = diagnostics.all().size();
  backwards(sweep, program, diagnostics);
  if (diagnostics.all().size() > errors_before) return std::nullopt;
  // From here on the parts of every input's cotangent are complete.
  sweep.gradient.outputs.clear();
  std::vector<std::optional<TensorId>> done(program.tensors.size());
  for (TensorId input : wanted->wrt) {
    auto& result = done[at(input)];
    if (!result) result = total(sweep, input);
    sweep.gradient.outputs.push_back(*result);
  }
  std::vector<TensorId> generated = sweep.parameters;
  for (const auto* list : {&sweep.gradient.outputs, &sweep.totals, &sweep.partials, &sweep.helpers})
    generated.insert(generated.end(), list->begin(), list->end());
  finish(sweep.gradient, std::move(generated));
  if (!within_limits(sweep.gradient, diagnostics)) return std::nullopt;
  return std::move(sweep.gradient);
}

}  // namespace tilec::autodiff
