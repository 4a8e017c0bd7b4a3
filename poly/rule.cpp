#include "poly/rule.h"

#include <fmt/core.h>

#include <algorithm>

#include "lang/messages.h"
#include "poly/elementwise.h"
#include "poly/pack.h"
#include "poly/parameters.h"
#include "poly/signature.h"
#include "poly/statements.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

bool is_float_tensor(const Program& program, const Named& named) {
  return named.kind == Named::Kind::Tensor && lang::is_float(program.tensor(named.tensor).dtype);
}

bool has_rule(const Program& program, TensorId id) {
  return std::any_of(program.rules.begin(), program.rules.end(),
      [&](const Rule& rule) { return std::find(rule.targets.begin(), rule.targets.end(), id) != rule.targets.end(); });
}

// One tensor for each result, of which nothing else is known. It has the result's name, unless an argument has that.
bool separate_results(Scope& scope, const std::vector<Named>& arguments, std::vector<Named>& results) {
  std::vector<TensorId> seen;
  for (const auto& argument : arguments)
    if (argument.kind == Named::Kind::Tensor) seen.push_back(argument.tensor);
  for (auto& result : results) {
    if (result.kind != Named::Kind::Tensor) continue;
    const bool given = std::find(seen.begin(), seen.end(), result.tensor) != seen.end();
    if (given || has_rule(scope.program, result.tensor)) {
      const auto name = fresh(scope, scope.tensor(result.tensor).name);
      auto copy = copied(scope, result.tensor, {.name = name, .span = result.span});
      if (!copy) return false;
      auto& tensors = scope.program.tensors;
      if (!given)
        std::swap(tensors[static_cast<std::size_t>(copy->tensor)].name,
            tensors[static_cast<std::size_t>(result.tensor)].name);
      scope.names[name] = given ? *copy : result;
      result = *copy;
    }
    seen.push_back(result.tensor);
  }
  return true;
}

// The values that a derivative takes or gives: those of the call, or what they change by.
struct Values { const std::vector<Named>& of; bool change = false; };

// A derivative as a Program of its own: its inputs are tensors like those of the call.
class Derivative {
 public:
  Derivative(Scope& caller, const lang::Definition& definition, Span call)
      : caller_(caller),
        definition_(definition),
        call_(call),
        inside_{.diagnostics = found_,
            .file = definition.file,
            .derivations = caller.derivations,
            .texts = caller.texts,
            .nested = caller.nested + caller.depth + 1} {
    inside_.program.sizes = caller.program.sizes;
  }

  // What it gives for each float tensor of `wanted`, of the same shape and type, by its position among the program's
  // derivatives.
  std::optional<std::size_t> make(
      const std::vector<Values>& inputs, const std::vector<Named>& wanted, const lang::Call& call) {
    const auto made = begin(inputs, wanted, call) ? known_or_built(wanted) : std::nullopt;
    for (auto diagnostic : found_.all()) {
      const bool said = std::any_of(diagnostic.labels.begin(), diagnostic.labels.end(),
          [&](const lang::Label& label) { return label.span == call_; });
      if (!said) diagnostic.labels.push_back({call_, "used by this call"});
      caller_.diagnostics.add(std::move(diagnostic));
    }
    return found_.has_errors() ? std::nullopt : made;
  }

 private:
  const lang::Function& function() const { return chosen_ ? *chosen_ : *definition_.function; }

  bool begin(const std::vector<Values>& inputs, const std::vector<Named>& wanted, const lang::Call& call) {
    const auto& parameters = function().parameters.empty() ? std::vector<lang::Argument>{} : call.parameters;
    if (!counts(inputs, wanted) || !bind_parameters(inside_, function(), parameters, caller_, call_)) return false;
    chosen_ = lang::with_choices(*definition_.function, inside_.chosen);
    like_.definition = definition_;
    for (const auto& [name, number] : inside_.names) like_.numbers[name] = placeless(number);
    like_.parameters = inside_.parameters;
    like_.chosen = inside_.chosen;
    find_declared(function(), inside_);
    find_used_as_size(function(), inside_);
    for (const auto& values : inputs)
      for (const auto& named : values.of) take(named, values.change);
    for (const auto& argument : arguments_) like_.arguments.push_back(placeless(argument));
    for (const auto& tensor : inside_.program.tensors) like_.tensors.emplace_back(tensor.dtype, tensor.shape);
    return true;
  }

  // One text may serve calls of other types if it has a change for every value; else it has one for each float.
  bool counts(const std::vector<Values>& inputs, const std::vector<Named>& wanted) {
    std::size_t fewest = 0, most = 0;
    for (const auto& values : inputs) {
      most += values.of.size();
      fewest += values.change ? floats(values.of) : values.of.size();
    }
    const auto takes = function().inputs.size(), gives = function().results.size();
    every_change_ = takes == most;
    const std::string name = fmt::format(
        "{} {}", function().role == lang::Function::Role::Gradient ? "gradient" : "tangent", function().name->text);
    const bool taken = takes == fewest || takes == most, given = gives == floats(wanted) || gives == wanted.size();
    if (!taken)
      found_.report(function().name->span, messages::argument_count, name, counted(fewest, "input") + " for this call",
          std::to_string(takes));
    else if (!given)
      found_
          .report(
              function().name->span, messages::result_count, name, counted(gives, "result"), lang::are(floats(wanted)))
          .hint("one for each tensor of a float type");
    return taken && given;
  }

  std::size_t floats(const std::vector<Named>& all) const {
    return static_cast<std::size_t>(std::count_if(
        all.begin(), all.end(), [&](const Named& named) { return is_float_tensor(caller_.program, named); }));
  }

  // The next input: a tensor like `like`, or what is no tensor as it is. Only floats change; of the rest a text that
  // asks gets 0.
  void take(const Named& like, bool change) {
    if (change && !is_float_tensor(caller_.program, like)) {
      if (every_change_) arguments_.push_back(zero(like));
      return;
    }
    if (like.kind != Named::Kind::Tensor) return arguments_.push_back(like);
    const Tensor tensor = caller_.tensor(like.tensor);
    const auto id = add_tensor(
        inside_, {function().inputs[arguments_.size()].target.name.spelled(), tensor.dtype, tensor.shape, tensor.span});
    inside_.program.inputs.push_back(id);
    arguments_.push_back(Named::of_tensor(id, like.span));
  }

  Named zero(const Named& like) {
    Named none;
    none.kind = Named::Kind::Weak;
    none.scalar = float_literal(0);
    none.span = like.span;
    const auto& shape = like.kind == Named::Kind::Tensor ? caller_.tensor(like.tensor).shape : std::vector<Size>{};
    const ElementwiseTarget target{.name = fresh(inside_, "Zero"), .span = like.span};
    const auto id = shape.empty() ? std::nullopt : stored(inside_, none, target);
    return id ? spread(inside_, *id, shape, {.name = fresh(inside_, "Zero"), .span = like.span}).value_or(none) : none;
  }

  // Noted before it is built: a call of the same function inside finds it.
  std::optional<std::size_t> known_or_built(const std::vector<Named>& wanted) {
    auto& all = *caller_.derivations;
    const auto same = [&](const Derivation& each) { return same_call(each, like_); };
    const auto at = static_cast<std::size_t>(std::find_if(all.begin(), all.end(), same) - all.begin());
    if (at < all.size()) return at;
    all.push_back(like_);
    auto program = build(wanted);
    if (!program) return std::nullopt;
    all[at].made = std::move(program);
    return at;
  }

  std::optional<Program> build(const std::vector<Named>& wanted) {
    const auto plain = with_ranks(inside_, function(), ranks_of(inside_, arguments_));
    if (!plain) return std::nullopt;
    find_declared(*plain, inside_);
    declare_arguments(*plain, arguments_, inside_);
    for (const auto& statement : plain->statements) add_statement(inside_, *plain, statement);
    const bool every = function().results.size() == wanted.size();
    std::size_t at = 0;
    for (const auto& named : wanted) {
      const bool is_float = is_float_tensor(caller_.program, named);
      if (is_float && !inside_.failed) add_result(function().results[at], caller_.tensor(named.tensor));
      if (is_float || every) ++at;
    }
    if (inside_.failed) return std::nullopt;
    for (const auto& requirement : inside_.program.requirements) require(requirement);
    name_tensors(inside_);
    return std::move(inside_.program);
  }

  void require(const Requirement& requirement) {
    auto& known = caller_.program.requirements;
    const auto same = [&](const Requirement& each) {
      return each.condition == requirement.condition && each.left == requirement.left &&
          each.right == requirement.right;
    };
    if (std::none_of(known.begin(), known.end(), same)) known.push_back(requirement);
  }

  void add_result(const lang::Target& result, const Tensor& like) {
    const auto id = result_of(result, like);
    inside_.failed = !id;
    if (!id) return;
    inside_.program.tensors[static_cast<std::size_t>(*id)].name = result.name.spelled();  // which E0310 shows
    inside_.program.outputs.push_back(*id);
  }

  std::optional<TensorId> result_of(const lang::Target& result, const Tensor& like) {
    const auto* named = find(inside_, result.name, result.span);
    if (!named || named->kind == Named::Kind::Tuple) return std::nullopt;
    const auto id = stored(
        inside_, *named, {.name = fresh(inside_, result.name.spelled()), .dtype = like.dtype, .span = result.span});
    if (!id) return std::nullopt;
    const Tensor tensor = inside_.tensor(*id);
    const ElementwiseTarget whole{
        .name = fresh(inside_, result.name.spelled()), .dtype = like.dtype, .span = result.span};
    const auto made = [](const std::optional<Named>& tensor_made) {
      return tensor_made ? std::optional(tensor_made->tensor) : std::nullopt;
    };
    // one number for all elements
    if (tensor.shape.empty() && !like.shape.empty()) return made(spread(inside_, *id, like.shape, whole));
    bool same = tensor.shape.size() == like.shape.size();
    for (std::size_t d = 0; same && d < like.shape.size(); ++d)
      same = require_equal(inside_, tensor.shape[d], like.shape[d],
          fmt::format("`{}` has the shape of what it is the derivative of", result.name.text), result.span);
    if (!same) {
      found_
          .report(result.span, messages::derivative_shape, result.name.text, shape_text(tensor.shape),
              shape_text(like.shape))
          .label(like.span, "the other is this");
      return std::nullopt;
    }
    return tensor.dtype == like.dtype ? id : made(copied(inside_, *id, whole));
  }

  Scope& caller_;
  lang::Definition definition_;
  std::optional<lang::Function> chosen_;               // for the names that the call gives its parameters
  Span call_;
  lang::Diagnostics found_;
  Scope inside_;
  std::vector<Named> arguments_;
  Derivation like_;
  bool every_change_ = false;
};

std::vector<TensorId> tensors(const std::vector<Named>& all) {
  std::vector<TensorId> ids;
  for (const auto& named : all)
    if (named.kind == Named::Kind::Tensor) ids.push_back(named.tensor);
  return ids;
}

}  // namespace

Named placeless(Named named) {
  named.span = {};
  for (auto& element : named.elements) element = placeless(std::move(element));
  return named;
}

bool same_call(const Derivation& a, const Derivation& b) {
  return a.definition == b.definition && a.numbers == b.numbers && a.parameters == b.parameters &&
      a.chosen == b.chosen && a.arguments == b.arguments && a.tensors == b.tensors;
}

Derivatives derivatives_of(const lang::Definition& function) {
  if (!function.function->name) return {};
  const auto& name = *function.function->name;
  return {{function.file, lang::function_of(*function.file, name, lang::Function::Role::Gradient)},
      {function.file, lang::function_of(*function.file, name, lang::Function::Role::Tangent)}};
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

bool attach_rule(Scope& scope, const Derivatives& derivatives, const lang::Call& call,
    const std::vector<Named>& arguments, std::vector<Named>& results, Span span) {
  const auto has_float = [&](const std::vector<Named>& all) {
    return std::any_of(
        all.begin(), all.end(), [&](const Named& named) { return is_float_tensor(scope.program, named); });
  };
  if (!has_float(arguments) || !has_float(results)) return true;  // nothing that has a derivative
  if (!separate_results(scope, arguments, results)) return false;
  Rule rule{.name = call.function.text,
      .operands = tensors(arguments),
      .targets = tensors(results),
      .gradient = {},
      .tangent = {},
      .span = span};
  const auto& [gradient, tangent] = derivatives;
  if (gradient.function)
    rule.gradient = Derivative(scope, gradient, span).make({{arguments}, {results}, {results, true}}, arguments, call);
  if (tangent.function)
    rule.tangent = Derivative(scope, tangent, span).make({{arguments}, {arguments, true}, {results}}, results, call);
  if ((gradient.function && !rule.gradient) || (tangent.function && !rule.tangent)) {
    scope.failed = true;
    return false;
  }
  scope.program.rules.push_back(std::move(rule));
  return true;
}

void list_derivatives(Scope& scope) {
  std::vector<Program> all;
  for (auto& derivation : *scope.derivations) all.push_back(std::move(derivation.made.value()));
  if (!all.empty()) scope.program.derivatives = std::make_shared<const std::vector<Program>>(std::move(all));
}

}  // namespace tilec::poly
