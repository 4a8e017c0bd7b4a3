#include "autodiff/splice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "autodiff/companion.h"
#include "autodiff/graph.h"
#include "autodiff/term.h"
#include "lang/messages.h"

namespace tilec::autodiff {

using namespace term;
using poly::Access;
using poly::Intrinsic;
using poly::Node;
using poly::Program;
using poly::Rule;
using poly::Statement;
using poly::Tensor;
using poly::TensorId;

namespace {

// An index that is called as a tensor or a size of the program gets another name: in text the tensor would win.
void rename_indices(Statement& statement, const std::set<std::string>& taken) {
  for (std::size_t k = 0; k < statement.indices.size(); ++k) {
    std::string& name = statement.indices[k];
    const std::string base = name;
    const auto clashes = [&] {
      return taken.contains(name) || std::count(statement.indices.begin(), statement.indices.end(), name) > 1;
    };
    for (int n = 1; clashes(); ++n) name = base + std::to_string(n);
  }
}

void move(Node& node, const std::vector<TensorId>& where, const std::set<std::string>& taken) {
  const auto to = [&](TensorId& id) { id = where[at(id)]; };
  if (auto* intrinsic = std::get_if<Intrinsic>(&node)) {
    std::for_each(intrinsic->targets.begin(), intrinsic->targets.end(), to);
    std::for_each(intrinsic->operands.begin(), intrinsic->operands.end(), to);
    return;
  }
  Statement& statement = std::get<Statement>(node);
  to(statement.target.tensor);
  for (Access& read : statement.reads) to(read.tensor);
  if (auto* fill = std::get_if<TensorId>(&statement.fill)) to(*fill);
  rename_indices(statement, taken);
}

// name[i: N] = =(from[i])
TensorId copy(Program& program, TensorId from, const Wish& wish) {
  const Tensor like = program.tensor(wish.like);
  Statement statement = over_shape(program, like.shape);
  // While sizes are names, the two shapes may be equal by requirement only.
  for (std::size_t d = 0; d < like.shape.size(); ++d)
    if (program.tensor(from).shape.at(d) != like.shape[d])
      statement.domain.push_back({statement.target.element[d], program.tensor(from).shape[d]});
  statement.reads = {{from, statement.target.element}};
  statement.value = cast(poly::Read{0, program.tensor(from).dtype}, like.dtype);
  statement.fill = poly::Number{like.dtype};
  statement.span = like.span;
  statement.target.tensor = new_tensor(program, wish.name, like.dtype, like.shape, like.span);
  program.nodes.emplace_back(statement);
  return statement.target.tensor;
}

std::string list(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

}  // namespace

Spliced splice(
    Program& program, const Program& part, const std::vector<TensorId>& inputs, const std::vector<Wish>& results) {
  if (inputs.size() != part.inputs.size() || results.size() != part.outputs.size())
    throw lang::InternalError("the derivative of a rule has another number of inputs or outputs than its rule");
  const std::set<std::string> taken = taken_names(program);
  Spliced spliced;
  std::vector<TensorId> where(part.tensors.size(), -1);
  for (std::size_t k = 0; k < inputs.size(); ++k) where[at(part.inputs[k])] = inputs[k];
  for (std::size_t id = 0; id < part.tensors.size(); ++id) {
    if (where[id] >= 0) continue;
    program.tensors.push_back(part.tensors[id]);
    where[id] = static_cast<TensorId>(program.tensors.size()) - 1;
  }
  for (Node node : part.nodes) {
    move(node, where, taken);
    program.nodes.push_back(std::move(node));
  }
  for (Rule rule : part.rules) {
    for (auto* ids : {&rule.operands, &rule.targets})
      for (TensorId& id : *ids) id = where[at(id)];
    program.rules.push_back(std::move(rule));
  }

  std::set<TensorId> used(inputs.begin(), inputs.end());
  for (std::size_t k = 0; k < results.size(); ++k) {
    TensorId id = where[at(part.outputs[k])];
    const Tensor &like = program.tensor(results[k].like), &found = program.tensor(id);
    if (!used.insert(id).second || found.dtype != like.dtype || found.shape != like.shape)
      id = copy(program, id, results[k]);
    program.tensors[at(id)].name = results[k].name;
    spliced.results.push_back(id);
  }
  const std::set<TensorId> is_result(spliced.results.begin(), spliced.results.end());
  for (std::size_t id = 0; id < part.tensors.size(); ++id)
    if (std::find(inputs.begin(), inputs.end(), where[id]) == inputs.end() && !is_result.contains(where[id]))
      spliced.helpers.push_back(where[id]);
  return spliced;
}

void report_missing(const Program& program, const Rule& rule, Mode mode, lang::Diagnostics& diagnostics) {
  const bool gradient = mode == Mode::Gradient;
  const Program& other = program.derivatives->at(gradient ? *rule.tangent : *rule.gradient);
  const auto names = [&](const std::vector<TensorId>& ids, std::size_t from, std::size_t count) {
    std::vector<std::string> all;
    for (std::size_t k = from; k < from + count; ++k) all.push_back(other.tensor(ids.at(k)).name);
    return all;
  };
  // gradient: operands, targets, cotangents ⇒ cotangents; tangent: operands, tangents, targets ⇒ tangents.
  const std::size_t n = rule.operands.size(), m = rule.targets.size(), derivatives = other.inputs.size() - n - m;
  std::vector<std::string> parameters = names(other.inputs, 0, n);
  const auto add = [&](const std::vector<std::string>& more) {
    parameters.insert(parameters.end(), more.begin(), more.end());
  };
  std::vector<std::string> results;
  if (gradient) {
    add(names(other.inputs, n + derivatives, m)), add(names(other.outputs, 0, other.outputs.size()));
    results = names(other.inputs, n, derivatives);
  } else {
    add(names(other.outputs, 0, other.outputs.size())), add(names(other.inputs, n, m));
    results = names(other.inputs, n + m, derivatives);
  }
  const std::string_view missing = gradient ? "gradient" : "tangent", there = gradient ? "tangent" : "gradient";
  diagnostics.report(rule.span, lang::messages::half_a_rule, rule.name, there, missing)
      .hint(fmt::format("write `{} {}({}) -> ({}) {{ … }}`", missing, rule.name, list(parameters), list(results)));
}

}  // namespace tilec::autodiff
