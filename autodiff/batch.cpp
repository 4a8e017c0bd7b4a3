// Two steps. Which tensors get the dimension: the batched inputs, what is made of one that has it, and all targets of a
// Rule that one of its operands or targets brings it to, since a Rule stays whole. Then every node that makes such a
// tensor gets it: a statement an index in front, over whose values its domain is a box, so that no row of it changes;
// an intrinsic one more dimension of its batch. Where one of several operands must have the dimension and has not, it
// is repeated:
//
//   O = gather(D, I);   D[V, R], I[J], D batched     ⇒     I_1[b, i: Bt, J] = =(I[i]);   O = gather<1>(D, I_1);
//   O = gather(D, I);   I batched                    ⇒     O = gather(D, I);             its J is Bt, J
#include "autodiff/batch.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "autodiff/companion.h"
#include "autodiff/graph.h"
#include "autodiff/request.h"
#include "autodiff/term.h"
#include "lang/messages.h"

namespace tilec::autodiff {
namespace {

using namespace term;
using poly::Access;
using poly::Affine;
using poly::Intrinsic;
using poly::IntrinsicOp;
using poly::Node;
using poly::Program;
using poly::Rule;
using poly::Size;
using poly::Statement;
using poly::Tensor;
using poly::TensorId;

bool any(const std::vector<bool>& flags, const std::vector<TensorId>& ids) {
  return std::any_of(ids.begin(), ids.end(), [&](TensorId id) { return flags[at(id)]; });
}

// In: the batched inputs.
// Out: every tensor that gets the dimension. A rule may bring it to a tensor that others were made of already.
std::vector<bool> batched_tensors(const Program& program, std::vector<bool> batched) {
  for (bool changed = true; changed;) {
    changed = false;
    const auto mark = [&](const std::vector<TensorId>& ids) {
      for (TensorId id : ids)
        if (!batched[at(id)]) batched[at(id)] = changed = true;
    };
    for (const Node& node : program.nodes)
      if (any(batched, operands(node))) mark(targets(node));
    for (const Rule& rule : program.rules)
      if (any(batched, rule.operands) || any(batched, rule.targets)) mark(rule.targets);
  }
  return batched;
}

// What an output is to be: with the dimension, or, as a cotangent of what has it not, the sum along it.
enum class Along { Repeated, Summed };

// The derivatives of rules, by which of their inputs are batched and what becomes of their outputs. One may be that of
// a rule inside it.
struct Derivatives {
  struct Key {
    std::size_t of;
    std::vector<bool> inputs;
    std::vector<Along> outputs;
    auto operator<=>(const Key&) const = default;
  };
  std::vector<Program> all;                              // the program's own, then those made here
  std::map<Key, std::size_t> made = {};
};

class Batching {
 public:
  Batching(const Program& program, const std::vector<bool>& inputs, const Size& extent, Derivatives& derivatives)
      : before_(program),
        result_(program),
        extent_(extent),
        derivatives_(derivatives),
        batched_(batched_tensors(program, inputs)),
        taken_(taken_names(program)) {
    for (const std::string& size : extent.names()) {
      result_.sizes.push_back(size);
      taken_.insert(size);
    }
    for (std::size_t id = 0; id < batched_.size(); ++id)
      if (batched_[id]) lengthen(result_.tensors[id].shape);
  }

  // `along`: of each output.
  Program batched(const std::vector<Along>& along) {
    result_.nodes.clear();
    for (const Node& node : before_.nodes) {
      const bool reached = any(batched_, targets(node)), alone = !any(batched_, operands(node));
      if (!reached) result_.nodes.push_back(node);
      else if (alone) repeat_targets(node);
      else std::visit([&](const auto& n) { step(n); }, node);
    }
    for (Rule& rule : result_.rules)
      if (any(batched_, rule.targets)) step(rule);
    for (std::size_t k = 0; k < result_.outputs.size(); ++k) {
      TensorId& output = result_.outputs[k];
      if (batched_[at(output)] != (along[k] == Along::Repeated)) output = changed(output, along[k]);
    }
    finish(result_, named_);
    return std::move(result_);
  }

 private:
  void lengthen(std::vector<Size>& shape) const { shape.insert(shape.begin(), extent_); }

  Affine longer(const Affine& form) const {
    Affine copy = form;
    copy.coefficients.insert(copy.coefficients.begin(), 0);
    return copy;
  }

  // A name for the new index: no tensor, size or index of the statement has it.
  std::string index_for(const std::vector<std::string>& others) const {
    std::string name = "b";
    const auto clashes = [&] {
      return taken_.contains(name) || std::find(others.begin(), others.end(), name) != others.end();
    };
    for (int n = 1; clashes(); ++n) name = "b" + std::to_string(n);
    return name;
  }

  // Over every element of a shape whose first dimension is the batch.
  Statement over(const std::vector<Size>& shape) const {
    Statement statement = over_shape(result_, shape);
    statement.indices = over_shape(result_, {shape.begin() + 1, shape.end()}).indices;
    statement.indices.insert(statement.indices.begin(), index_for(statement.indices));
    return statement;
  }

  TensorId made(
      Statement statement, const std::string& wish, lang::DType type, const std::vector<Size>& shape, lang::Span span) {
    statement.fill = poly::Number{type};
    statement.span = span;
    statement.target.tensor = new_tensor(result_, wish, type, shape, span);
    result_.nodes.emplace_back(statement);
    named_.push_back(statement.target.tensor);
    return statement.target.tensor;
  }

  // T_1[b, i: Bt, N] = =(T[i])
  TensorId repeated(TensorId id) {
    if (const auto known = repeated_.find(id); known != repeated_.end()) return known->second;
    const Tensor of = result_.tensor(id);
    std::vector<Size> shape = of.shape;
    lengthen(shape);
    Statement statement = over(shape);
    statement.reads = {{id, {statement.target.element.begin() + 1, statement.target.element.end()}}};
    statement.value = poly::Read{0, of.dtype};
    return repeated_[id] = made(std::move(statement), of.name, of.dtype, shape, of.span);
  }

  // T_1[i: N] = +(T[b, i]), in the type that sums are made in.
  TensorId summed(TensorId id) {
    const Tensor of = result_.tensor(id);
    Statement statement = over(of.shape);
    statement.aggregation = poly::Aggregation::Sum;
    statement.reads = {{id, statement.target.element}};
    statement.value = cast(poly::Read{0, of.dtype}, lang::accumulator(of.dtype));
    statement.target.element.erase(statement.target.element.begin());
    return made(std::move(statement), of.name, of.dtype, {of.shape.begin() + 1, of.shape.end()}, of.span);
  }

  // An output in its other form, under its name; the tensor that it was steps aside, unless it is an input.
  TensorId changed(TensorId output, Along along) {
    if (const auto known = outputs_.find(output); known != outputs_.end()) return known->second;
    const TensorId id = along == Along::Repeated ? repeated(output) : summed(output);
    if (std::find(result_.inputs.begin(), result_.inputs.end(), output) == result_.inputs.end())
      named_.push_back(output);
    return outputs_[output] = id;
  }

  // A node that reads nothing batched, whose targets a rule has batched: each is made once and repeated.
  void repeat_targets(Node node) {
    std::vector<std::pair<TensorId, TensorId>> pairs;
    const auto apart = [&](TensorId& target) {
      const Tensor& of = before_.tensor(target);
      const TensorId once = new_tensor(result_, of.name, of.dtype, of.shape, of.span);
      named_.push_back(once);
      pairs.emplace_back(once, std::exchange(target, once));
    };
    if (auto* intrinsic = std::get_if<Intrinsic>(&node))
      std::for_each(intrinsic->targets.begin(), intrinsic->targets.end(), apart);
    else apart(std::get<Statement>(node).target.tensor);
    result_.nodes.push_back(std::move(node));
    for (const auto& [once, target] : pairs) {
      Statement statement = over(result_.tensor(target).shape);
      statement.reads = {{once, {statement.target.element.begin() + 1, statement.target.element.end()}}};
      statement.value = poly::Read{0, result_.tensor(target).dtype};
      statement.fill = poly::Number{result_.tensor(target).dtype};
      statement.span = result_.tensor(target).span;
      statement.target.tensor = target;
      result_.nodes.emplace_back(std::move(statement));
    }
  }

  void step(const Statement& before) {
    Statement statement = before;
    statement.indices.insert(statement.indices.begin(), index_for(before.indices));
    const Affine index = Affine::index(0, statement.indices.size());
    const auto access = [&](Access& a) {
      for (Affine& form : a.element) form = longer(form);
      if (batched_[at(a.tensor)]) a.element.insert(a.element.begin(), index);
    };
    access(statement.target);
    std::for_each(statement.reads.begin(), statement.reads.end(), access);
    for (poly::Range& row : statement.domain) row.value = longer(row.value);
    statement.domain.insert(statement.domain.begin(), {index, extent_});
    statement.value = with_leaves(before.value, [&](const Expr& leaf) -> Expr {
      const auto* i = leaf.as<poly::Index>();
      return i ? Expr(poly::Index{longer(i->value), i->type}) : leaf;
    });
    if (auto* fill = std::get_if<TensorId>(&statement.fill); fill != nullptr && !batched_[at(*fill)])
      *fill = repeated(*fill);
    result_.nodes.emplace_back(std::move(statement));
  }

  // Of Sort every dimension but the last is its batch already, and Reshape takes elements in row-major order.
  void step(const Intrinsic& before) {
    Intrinsic intrinsic = before;
    if (intrinsic.op == IntrinsicOp::Reshape) lengthen(intrinsic.parameters);
    if (intrinsic.op == IntrinsicOp::Gather || intrinsic.op == IntrinsicOp::Scatter) lead(intrinsic);
    result_.nodes.emplace_back(std::move(intrinsic));
  }

  void lead(Intrinsic& intrinsic) {
    Size& batch = intrinsic.parameters.at(0);
    const bool gathers_from_one = intrinsic.op == IntrinsicOp::Gather && !batched_[at(intrinsic.operands[0])];
    if (gathers_from_one && batch.is(0)) return;         // the positions have one dimension more, and so has what is
                                                         // gathered
    batch = batch + 1;
    for (TensorId& operand : intrinsic.operands)
      if (!batched_[at(operand)]) operand = repeated(operand);
  }

  void step(Rule& rule) {
    const auto is_float = [&](TensorId id) { return lang::is_float(before_.tensor(id).dtype); };
    const auto add = [&](std::vector<bool>& flags, const std::vector<TensorId>& ids, bool floats_only) {
      for (TensorId id : ids)
        if (!floats_only || is_float(id)) flags.push_back(batched_[at(id)]);
    };
    std::vector<bool> of_gradient, of_tangent;
    add(of_gradient, rule.operands, false), add(of_gradient, rule.targets, false), add(of_gradient, rule.targets, true);
    add(of_tangent, rule.operands, false), add(of_tangent, rule.operands, true), add(of_tangent, rule.targets, false);
    std::vector<Along> cotangents;
    for (TensorId id : rule.operands)
      if (is_float(id)) cotangents.push_back(batched_[at(id)] ? Along::Repeated : Along::Summed);
    const std::vector<Along> tangents(
        static_cast<std::size_t>(std::count_if(rule.targets.begin(), rule.targets.end(), is_float)), Along::Repeated);
    if (rule.gradient) rule.gradient = derivative({*rule.gradient, of_gradient, cotangents});
    if (rule.tangent) rule.tangent = derivative({*rule.tangent, of_tangent, tangents});
  }

  std::size_t derivative(const Derivatives::Key& key) {
    const auto [known, is_new] = derivatives_.made.emplace(key, derivatives_.all.size());
    const std::size_t place = known->second;
    if (!is_new) return place;
    derivatives_.all.emplace_back();                     // its place, which a rule inside it may name
    const Program of = derivatives_.all[key.of];
    std::vector<bool> inputs(of.tensors.size());
    for (std::size_t k = 0; k < key.inputs.size(); ++k) inputs[at(of.inputs.at(k))] = key.inputs[k];
    Program made = Batching(of, inputs, extent_, derivatives_).batched(key.outputs);
    derivatives_.all[place] = std::move(made);
    return place;
  }

  const Program& before_;
  Program result_;
  Size extent_;
  Derivatives& derivatives_;
  std::vector<bool> batched_;                            // tensors of `before_`, which have the same numbers in
                                                         // `result_` until the end
  std::set<std::string> taken_;
  std::map<TensorId, TensorId> repeated_, outputs_;
  std::vector<TensorId> named_;                          // new tensors, in the order in which they get their names
};

// `Bt`, which no tensor and no size is called; a program of programs batched before has one already.
Size new_size(const Program& program) {
  const std::set<std::string> taken = taken_names(program);
  std::string name = "Bt";
  for (int n = 1; taken.contains(name); ++n) name = "Bt_" + std::to_string(n);
  return Size::named(name);
}

}  // namespace

std::optional<Program> batch(const Program& program, const std::vector<std::string>& inputs,
    std::optional<std::int64_t> extent, lang::Diagnostics& diagnostics) {
  const auto wanted = inputs_to_batch(program, inputs, diagnostics);
  if (!wanted) return std::nullopt;
  std::vector<bool> batched(program.tensors.size());
  for (TensorId id : *wanted) batched[at(id)] = true;
  Derivatives derivatives;
  if (program.derivatives) derivatives.all = *program.derivatives;
  Program result = Batching(program, batched, extent ? Size(*extent) : new_size(program), derivatives)
                       .batched(std::vector<Along>(program.outputs.size(), Along::Repeated));
  if (!derivatives.made.empty())
    result.derivatives = std::make_shared<const std::vector<Program>>(std::move(derivatives.all));
  if (!program.name.empty()) result.name = program.name + "_batch";
  if (!within_limits(result, diagnostics)) return std::nullopt;
  return result;
}

}  // namespace tilec::autodiff
