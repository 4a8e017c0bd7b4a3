// Reverse mode over a whole Program: nodes are taken from the last to the first, and each hands the cotangent of its target on
// to what it reads (adjoint.h). By the time a node is reached, everything that reads its target has been; so the parts of its
// cotangent are complete and are added up in one statement, in the order of the text:
//
//   S[i: M] = +(E[i, j]);   Y[i, j: M, N] = =(E[i, j] / S[i]);
//     ⇒  dS[i: M] = +(-dY[i, j] * E[i, j] / S[i] / S[i]);    dE[i, j: M, N] = =(dS[i] + dY[i, j] / S[i]);
//
// A part that gives every element one point, as both of dE do, is written into the sum; others are tensors dE_1, dE_2 in the
// type they are summed in. A tensor's whole cotangent has the tensor's own type.
#include "autodiff/reverse.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "autodiff/adjoint.h"
#include "autodiff/covers.h"
#include "autodiff/request.h"
#include "autodiff/term.h"
#include "lang/messages.h"

namespace tilec::autodiff {
namespace {

using namespace term;
using poly::Access;
using poly::Intrinsic;
using poly::IntrinsicOp;
using poly::Node;
using poly::Program;
using poly::Size;
using poly::Statement;
using poly::Tensor;
using poly::TensorId;

std::size_t at(TensorId id) { return static_cast<std::size_t>(id); }

// ---- what depends on what -------------------------------------------------------------------------------------------------------

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

// Float tensors through which a wanted input reaches anything.
std::vector<bool> active_tensors(const Program& program, const std::vector<TensorId>& wrt) {
  std::vector<bool> active(program.tensors.size());
  for (TensorId id : wrt) active[at(id)] = true;
  for (const Node& node : program.nodes) {
    const auto reads = operands(node);
    if (std::none_of(reads.begin(), reads.end(), [&](TensorId id) { return active[at(id)]; })) continue;
    for (TensorId target : targets(node))
      if (lang::is_float(program.tensor(target).dtype)) active[at(target)] = true;
  }
  return active;
}

// ---- the sweep ------------------------------------------------------------------------------------------------------------------

struct Part { TensorId tensor; std::optional<DType> fold; };  // no fold: its type is fixed

struct Sweep {
  Program gradient;
  std::vector<bool> active;
  std::vector<std::vector<Part>> parts;                // per forward tensor, in the order of the text
  std::vector<TensorId> parameters, totals, partials, helpers;  // generated, in the order in which they get their names
};

TensorId new_tensor(Program& program, const Tensor& like) {
  program.tensors.push_back({cotangent_name(like.name), like.dtype, like.shape, like.span});
  return static_cast<TensorId>(program.tensors.size()) - 1;
}

Statement* writer_of(Program& program, TensorId id) {
  for (Node& node : program.nodes)
    if (auto* statement = std::get_if<Statement>(&node); statement && statement->target.tensor == id) return statement;
  return nullptr;
}

// For every index of a statement the dimension of the target that it is; nothing unless the statement assigns every element.
std::optional<std::vector<std::size_t>> dimension_of_index(const Statement& statement, const std::vector<Size>& shape) {
  const auto conditions = image(statement, shape);
  if (statement.aggregation != poly::Aggregation::Assign || !conditions || !conditions->empty()) return std::nullopt;
  std::vector<std::optional<std::size_t>> found(statement.indices.size());
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (const auto k = statement.target.element[d].single_index()) found[*k] = d;
  std::vector<std::size_t> where;
  for (const auto& d : found) {
    if (!d) return std::nullopt;
    where.push_back(*d);
  }
  return where;
}

Expr moved(const Expr& e, const std::vector<std::size_t>& where, std::size_t rank, int first_read) {
  return e.match([&](const poly::Read& read) -> Expr { return poly::Read{read.read + first_read, read.type}; },
                 [&](const poly::Index& index) -> Expr { return poly::Index{index.value.renumber(where, rank), index.type}; },
                 [&](const poly::Cast& cast) -> Expr { return poly::Cast{moved(cast.operand, where, rank, first_read), cast.type}; },
                 [&](const poly::Apply& apply) -> Expr {
                   poly::Apply copy{apply.op, {}, apply.type};
                   for (const auto& operand : apply.operands) copy.operands.push_back(moved(operand, where, rank, first_read));
                   return copy;
                 },
                 [&](const auto&) -> Expr { return e; });
}

// A part that is one point for every element needs no tensor: its value, over the indices of the sum.
std::optional<Expr> in_place(Program& program, const Part& part, Statement& sum) {
  const Statement* writer = part.fold ? writer_of(program, part.tensor) : nullptr;
  const auto where = writer ? dimension_of_index(*writer, program.tensor(part.tensor).shape) : std::nullopt;
  if (!where) return std::nullopt;
  const std::size_t rank = sum.indices.size();
  const int first_read = static_cast<int>(sum.reads.size());
  if (sum.reads.empty() && where->size() == rank)      // all indices at once: two of one name cannot arise
    for (std::size_t k = 0; k < where->size(); ++k) sum.indices[(*where)[k]] = writer->indices[k];
  for (const Access& read : writer->reads) {
    Access copy{read.tensor, {}};
    for (const auto& form : read.element) copy.element.push_back(form.renumber(*where, rank));
    sum.reads.push_back(std::move(copy));
  }
  for (const auto& row : writer->domain) {
    const poly::Range copy{row.value.renumber(*where, rank), row.extent};
    if (std::find(sum.domain.begin(), sum.domain.end(), copy) == sum.domain.end()) sum.domain.push_back(copy);
  }
  return cast(moved(writer->value, *where, rank, first_read), *part.fold);
}

// dX[i: N] = =(dX_1[i] + dX_2[i]);
TensorId sum(Program& program, const Tensor& of, const std::vector<Part>& parts) {
  Statement statement = over_shape(program, of.shape);
  DType type = lang::accumulator(of.dtype);
  for (const Part& part : parts) type = lang::promote(type, program.tensor(part.tensor).dtype);
  std::optional<Expr> value;
  for (const Part& part : parts) {
    std::optional<Expr> term = in_place(program, part, statement);
    if (!term) {
      term = poly::Read{static_cast<int>(statement.reads.size()), program.tensor(part.tensor).dtype};
      statement.reads.push_back({part.tensor, statement.target.element});
    }
    value = value ? add(*value, cast(*term, type)) : cast(*term, type);
  }
  statement.value = *value;
  statement.target.tensor = new_tensor(program, of);
  statement.fill = poly::Number{of.dtype};
  statement.span = of.span;
  tidy_reads(statement);
  program.nodes.emplace_back(statement);
  return statement.target.tensor;
}

// The cotangent of a tensor from its parts, all of which are known.
TensorId total(Sweep& sweep, TensorId id) {
  const Tensor of = sweep.gradient.tensor(id);
  auto& parts = sweep.parts[at(id)];
  if (parts.size() == 1) {
    sweep.totals.push_back(parts[0].tensor);
    return parts[0].tensor;
  }
  for (const Part& part : parts) {
    if (!part.fold) continue;
    sweep.gradient.tensors[at(part.tensor)].dtype = *part.fold;
    writer_of(sweep.gradient, part.tensor)->fill = poly::Number{*part.fold};
  }
  const TensorId result = sum(sweep.gradient, of, parts);
  sweep.totals.push_back(result);
  return result;
}

TensorId zeros(Sweep& sweep, TensorId id) {
  Program& program = sweep.gradient;
  const Tensor of = program.tensor(id);
  Statement statement = over_shape(program, of.shape);
  statement.value = number(of.dtype, 0);
  statement.fill = poly::Number{of.dtype};
  statement.span = of.span;
  statement.target.tensor = new_tensor(program, of);
  sweep.totals.push_back(statement.target.tensor);
  program.nodes.emplace_back(statement);
  return statement.target.tensor;
}

std::string_view spelled(IntrinsicOp op) {
  switch (op) {
    case IntrinsicOp::Reshape: return "reshape";
    case IntrinsicOp::Gather: return "gather";
    case IntrinsicOp::Scatter: return "scatter";
    case IntrinsicOp::Sort: return "sort";
  }
  return "intrinsic";
}

// Parts from a later node go behind those that an earlier node will bring.
void prepend(Sweep& sweep, const std::vector<Partial>& made) {
  for (auto partial = made.rbegin(); partial != made.rend(); ++partial) {
    auto& parts = sweep.parts[at(partial->operand)];
    parts.insert(parts.begin(), Part{partial->tensor, partial->fold});
    sweep.partials.insert(sweep.partials.begin(), partial->tensor);
  }
}

void step(Sweep& sweep, const Statement& statement, lang::Diagnostics& diagnostics) {
  if (!has_rule(sweep.gradient, statement, diagnostics)) return;
  const Adjoint made = adjoint(sweep.gradient, statement, total(sweep, statement.target.tensor), sweep.active);
  prepend(sweep, made.partials);
  sweep.helpers.insert(sweep.helpers.begin(), made.helpers.begin(), made.helpers.end());
}

void step(Sweep& sweep, const Intrinsic& intrinsic, lang::Diagnostics& diagnostics) {
  const TensorId target = intrinsic.targets.at(0);
  if (intrinsic.op != IntrinsicOp::Reshape) {
    diagnostics.report(intrinsic.span, lang::messages::gradient_of_intrinsic, spelled(intrinsic.op), sweep.gradient.tensor(target).name);
    return;
  }
  const TensorId operand = intrinsic.operands.at(0);
  const TensorId cotangent = total(sweep, target);
  const Tensor of = sweep.gradient.tensor(operand);
  const TensorId part = new_tensor(sweep.gradient, of);
  sweep.gradient.nodes.emplace_back(Intrinsic{IntrinsicOp::Reshape, {part}, {cotangent}, of.shape, intrinsic.span});
  sweep.parts[at(operand)].insert(sweep.parts[at(operand)].begin(), Part{part, std::nullopt});
  sweep.partials.insert(sweep.partials.begin(), part);
}

void backwards(Sweep& sweep, lang::Diagnostics& diagnostics) {
  const std::vector<Node> forward = sweep.gradient.nodes;
  for (auto node = forward.rbegin(); node != forward.rend(); ++node) {
    const auto written = targets(*node);
    const bool needed = std::any_of(written.begin(), written.end(), [&](TensorId id) { return sweep.active[at(id)] && !sweep.parts[at(id)].empty(); });
    if (needed) std::visit([&](const auto& n) { step(sweep, n, diagnostics); }, *node);
  }
}

// ---- the result -----------------------------------------------------------------------------------------------------------------

// Keeps inputs and what outputs need; tensors are numbered anew.
void drop_dead(Sweep& sweep) {
  Program& program = sweep.gradient;
  std::vector<bool> needed(program.tensors.size());
  for (TensorId id : program.outputs) needed[at(id)] = true;
  std::vector<Node> kept;
  for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node) {
    const auto written = targets(*node);
    if (std::none_of(written.begin(), written.end(), [&](TensorId id) { return needed[at(id)]; })) continue;
    for (TensorId id : written) needed[at(id)] = true;
    for (TensorId id : operands(*node)) needed[at(id)] = true;
    kept.push_back(*node);
  }
  for (TensorId id : program.inputs) needed[at(id)] = true;
  program.nodes.assign(kept.rbegin(), kept.rend());

  std::vector<TensorId> where(program.tensors.size(), -1);
  std::vector<Tensor> tensors;
  for (std::size_t id = 0; id < needed.size(); ++id)
    if (needed[id]) {
      where[id] = static_cast<TensorId>(tensors.size());
      tensors.push_back(program.tensors[id]);
    }
  program.tensors = std::move(tensors);
  const auto move = [&](TensorId& id) { id = where[at(id)]; };
  for (Node& node : program.nodes) {
    if (auto* intrinsic = std::get_if<Intrinsic>(&node)) {
      std::for_each(intrinsic->targets.begin(), intrinsic->targets.end(), move);
      std::for_each(intrinsic->operands.begin(), intrinsic->operands.end(), move);
      continue;
    }
    Statement& statement = std::get<Statement>(node);
    move(statement.target.tensor);
    for (Access& read : statement.reads) move(read.tensor);
    if (auto* fill = std::get_if<TensorId>(&statement.fill)) move(*fill);
  }
  for (auto* list : {&program.inputs, &program.outputs}) std::for_each(list->begin(), list->end(), move);
  for (auto* list : {&sweep.parameters, &sweep.totals, &sweep.partials, &sweep.helpers}) {
    std::for_each(list->begin(), list->end(), move);
    std::erase(*list, -1);
  }
}

// X ⇒ X, X_1, X_2 …; X' ⇒ X_1'; the mark is not part of what must differ, since the API drops it.
std::string unique(const std::string& wish, std::set<std::string>& taken) {
  std::string body = without_mark(wish), tick;
  if (body.ends_with('\'')) tick = "'", body.pop_back();
  std::string text = body + tick;
  for (int n = 1; !taken.insert(text).second; ++n) text = body + "_" + std::to_string(n) + tick;
  return text == without_mark(wish) ? wish : text;
}

// Gives every generated tensor a name that no tensor, size or index has: parameters first, then results, in their order.
void name_all(Sweep& sweep) {
  Program& program = sweep.gradient;
  std::vector<TensorId> order = sweep.parameters;
  for (const auto* list : {&program.outputs, &sweep.totals, &sweep.partials, &sweep.helpers}) order.insert(order.end(), list->begin(), list->end());
  const std::set<TensorId> generated(order.begin(), order.end());

  std::set<std::string> taken;
  for (std::size_t id = 0; id < program.tensors.size(); ++id)
    if (!generated.contains(static_cast<TensorId>(id))) taken.insert(without_mark(program.tensors[id].name));
  for (const auto& size : program.sizes) taken.insert(without_mark(size));
  for (const Node& node : program.nodes)
    if (const auto* statement = std::get_if<Statement>(&node)) taken.insert(statement->indices.begin(), statement->indices.end());

  std::set<TensorId> named;
  for (TensorId id : order)
    if (named.insert(id).second) program.tensors[at(id)].name = unique(program.tensor(id).name, taken);
}

void add_parameters(Sweep& sweep, const std::vector<TensorId>& of) {
  for (TensorId output : of) {
    const Tensor like = sweep.gradient.tensor(output);
    const TensorId parameter = new_tensor(sweep.gradient, like);
    sweep.gradient.inputs.push_back(parameter);
    sweep.parameters.push_back(parameter);
    sweep.parts[at(output)].push_back({parameter, std::nullopt});
  }
}

}  // namespace

std::optional<Program> reverse(const Program& program, const std::vector<std::string>& of, const std::vector<std::string>& wrt, lang::Diagnostics& diagnostics) {
  const auto wanted = request(program, of, wrt, diagnostics);
  if (!wanted) return std::nullopt;

  Sweep sweep{program, active_tensors(program, wanted->wrt), std::vector<std::vector<Part>>(program.tensors.size()), {}, {}, {}, {}};
  if (!program.name.empty()) sweep.gradient.name = program.name + "_grad";
  add_parameters(sweep, wanted->of);
  const std::size_t errors_before = diagnostics.all().size();
  backwards(sweep, diagnostics);
  if (diagnostics.all().size() > errors_before) return std::nullopt;
  // From here on the parts of every input's cotangent are complete.
  sweep.gradient.outputs.clear();
  std::vector<std::optional<TensorId>> done(program.tensors.size());
  for (TensorId input : wanted->wrt) {
    auto& result = done[at(input)];
    if (!result) result = sweep.parts[at(input)].empty() ? zeros(sweep, input) : total(sweep, input);
    sweep.gradient.outputs.push_back(*result);
  }
  drop_dead(sweep);
  name_all(sweep);
  return std::move(sweep.gradient);
}

}  // namespace tilec::autodiff
