#include "poly/rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/messages.h"
#include "poly/call.h"
#include "poly/elementwise.h"
#include "poly/signature.h"
#include "poly/statements.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

bool is_float_tensor(const Program& program, const Named& named) { return named.kind == Named::Kind::Tensor && lang::is_float(program.tensor(named.tensor).dtype); }

bool has_rule(const Program& program, TensorId id) {
  return std::any_of(program.rules.begin(), program.rules.end(), [&](const Rule& rule) { return std::find(rule.targets.begin(), rule.targets.end(), id) != rule.targets.end(); });
}

// One tensor for each result, of which nothing else is known.
bool separate_results(Scope& scope, const std::vector<Named>& arguments, std::vector<Named>& results) {
  std::vector<TensorId> seen;
  for (const auto& argument : arguments)
    if (argument.kind == Named::Kind::Tensor) seen.push_back(argument.tensor);
  for (auto& result : results) {
    if (result.kind != Named::Kind::Tensor) continue;
    if (has_rule(scope.program, result.tensor) || std::find(seen.begin(), seen.end(), result.tensor) != seen.end()) {
      const auto name = fresh(scope, scope.tensor(result.tensor).name);
      auto copy = copied(scope, result.tensor, {.name = name, .span = result.span});
      if (!copy) return false;
      scope.names[name] = *copy;
      result = *copy;
    }
    seen.push_back(result.tensor);
  }
  return true;
}

// A derivative as a Program of its own: its inputs are tensors like those of the call.
class Derivative {
 public:
  Derivative(Scope& caller, const lang::Definition& definition, Span call)
      : caller_(caller), definition_(definition), call_(call), inside_{.diagnostics = found_, .file = definition.file} {
    inside_.program.sizes = caller.program.sizes;
  }

  const lang::Function& function() const { return *definition_.function; }
  Scope& scope() { return inside_; }

  // The next input: a tensor like `like`, or what is no tensor as it is.
  void take(const Named& like) {
    if (like.kind != Named::Kind::Tensor) return arguments_.push_back(like);
    const Tensor tensor = caller_.tensor(like.tensor);
    const auto name = arguments_.size() < function().inputs.size() ? function().inputs[arguments_.size()].target.name.spelled() : tensor.name;
    const auto id = add_tensor(inside_, {name, tensor.dtype, tensor.shape, tensor.span});
    inside_.program.inputs.push_back(id);
    arguments_.push_back(Named::of_tensor(id, like.span));
  }

  // What it gives for each tensor of `wanted`, of the same shape and type.
  std::shared_ptr<const Program> make(const std::vector<Named>& wanted, const lang::Call& call) {
    auto program = build(wanted, call);
    for (auto diagnostic : found_.all()) {
      diagnostic.labels.push_back({call_, "used by this call"});
      caller_.diagnostics.add(std::move(diagnostic));
    }
    return found_.has_errors() ? nullptr : program;
  }

 private:
  bool counts(const std::vector<Named>& wanted) {
    const std::string name = fmt::format("{} {}", function().role == lang::Function::Role::Gradient ? "gradient" : "tangent", function().name->text);
    const bool inputs = function().inputs.size() == arguments_.size(), results = function().results.size() == wanted.size();
    if (!inputs) found_.report(function().name->span, messages::argument_count, name, counted(arguments_.size(), "input") + " for this call", std::to_string(function().inputs.size()));
    else if (!results) found_.report(function().name->span, messages::result_count, name, counted(function().results.size(), "result"), std::to_string(wanted.size())).hint("one for each tensor of a float type");
    return inputs && results;
  }

  std::shared_ptr<const Program> build(const std::vector<Named>& wanted, const lang::Call& call) {
    if (!counts(wanted)) return nullptr;
    const auto& parameters = function().parameters.empty() ? std::vector<lang::Argument>{} : call.parameters;
    if (!bind_parameters(inside_, function(), parameters, caller_, call_)) return nullptr;
    find_declared(function(), inside_);
    find_used_as_size(function(), inside_);
    inside_.taken->names.insert(inside_.declared.begin(), inside_.declared.end());
    declare_arguments(function(), arguments_, inside_);
    for (const auto& statement : function().statements) add_statement(inside_, function(), statement);
    for (std::size_t k = 0; k < wanted.size() && !inside_.failed; ++k) add_result(function().results[k], caller_.tensor(wanted[k].tensor));
    if (inside_.failed) return nullptr;
    auto& requirements = caller_.program.requirements;
    requirements.insert(requirements.end(), inside_.program.requirements.begin(), inside_.program.requirements.end());
    return std::make_shared<const Program>(std::move(inside_.program));
  }

  void add_result(const lang::Target& result, const Tensor& like) {
    inside_.failed = true;
    const auto* named = find(inside_, result.name, result.span);
    if (!named || named->kind == Named::Kind::Tuple) return;
    const auto id = stored(inside_, *named, {.name = fresh(inside_, result.name.spelled()), .dtype = like.dtype, .span = result.span});
    if (!id) return;
    const Tensor tensor = inside_.tensor(*id);
    const ElementwiseTarget whole{.name = fresh(inside_, result.name.spelled()), .dtype = like.dtype, .span = result.span};
    if (tensor.shape.empty() && !like.shape.empty()) {   // one number for all elements
      if (const auto all = spread(inside_, *id, like.shape, whole)) {
        inside_.program.outputs.push_back(all->tensor);
        inside_.failed = false;
      }
      return;
    }
    bool same = tensor.shape.size() == like.shape.size();
    for (std::size_t d = 0; same && d < like.shape.size(); ++d)
      same = require_equal(inside_, tensor.shape[d], like.shape[d], fmt::format("`{}` has the shape of what it is the derivative of", result.name.text), result.span);
    if (!same) {
      found_.report(result.span, messages::derivative_shape, result.name.text, shape_text(tensor.shape), shape_text(like.shape)).label(like.span, "the other is this");
      return;
    }
    inside_.failed = false;
    auto converted = tensor.dtype == like.dtype ? std::optional(Named::of_tensor(*id, result.span)) : copied(inside_, *id, whole);
    inside_.failed = !converted;
    if (converted) inside_.program.outputs.push_back(converted->tensor);
  }

  Scope& caller_;
  lang::Definition definition_;
  Span call_;
  lang::Diagnostics found_;
  Scope inside_;
  std::vector<Named> arguments_;
};

std::vector<Named> float_tensors(const Scope& scope, const std::vector<Named>& all) {
  std::vector<Named> some;
  for (const auto& named : all)
    if (is_float_tensor(scope.program, named)) some.push_back(named);
  return some;
}

std::vector<TensorId> tensors(const std::vector<Named>& all) {
  std::vector<TensorId> ids;
  for (const auto& named : all)
    if (named.kind == Named::Kind::Tensor) ids.push_back(named.tensor);
  return ids;
}

std::shared_ptr<const Program> derivative(Scope& scope, const lang::Definition& definition, const std::vector<std::vector<Named>>& inputs, const std::vector<Named>& wanted,
                                          const lang::Call& call, Span span) {
  Derivative made(scope, definition, span);
  for (const auto& list : inputs)
    for (const auto& named : list) made.take(named);
  return made.make(wanted, call);
}

}  // namespace

Derivatives derivatives_of(const lang::Definition& function) {
  if (!function.function->name) return {};
  const auto& name = *function.function->name;
  return {{function.file, lang::function_of(*function.file, name, lang::Function::Role::Gradient)}, {function.file, lang::function_of(*function.file, name, lang::Function::Role::Tangent)}};
}

bool store_arguments(Scope& scope, std::vector<Named>& arguments) {
  for (auto& argument : arguments) {
    if (argument.kind != Named::Kind::Weak || argument.reads.empty()) continue;
    const auto name = fresh(scope, "S");
    const auto id = stored(scope, argument, {.name = name, .span = argument.span});
    if (!id) return false;
    argument = scope.names[name] = Named::of_tensor(*id, argument.span);
  }
  return true;
}

bool attach_rule(Scope& scope, const Derivatives& derivatives, const lang::Call& call, const std::vector<Named>& arguments, std::vector<Named>& results, Span span) {
  if (!separate_results(scope, arguments, results)) return false;
  const auto in = float_tensors(scope, arguments), out = float_tensors(scope, results);
  if (out.empty()) return true;                         // nothing that has a derivative
  Rule rule{.name = call.function.text, .operands = tensors(arguments), .targets = tensors(results), .gradient = nullptr, .tangent = nullptr, .span = span};
  if (derivatives.gradient.function) rule.gradient = derivative(scope, derivatives.gradient, {arguments, results, out}, in, call, span);
  if (derivatives.tangent.function) rule.tangent = derivative(scope, derivatives.tangent, {arguments, in, results}, out, call, span);
  if ((derivatives.gradient.function && !rule.gradient) || (derivatives.tangent.function && !rule.tangent)) {
    scope.failed = true;
    return false;
  }
  scope.program.rules.push_back(std::move(rule));
  return true;
}

}  // namespace tilec::poly
