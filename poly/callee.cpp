#include "poly/callee.h"

#include <fmt/core.h>

#include <algorithm>

#include "lang/calls.h"
#include "lang/limit.h"
#include "lang/messages.h"
#include "poly/rule.h"
#include "poly/signature.h"
#include "poly/size_expression.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

constexpr double most_expanded = 1000;                 // nodes of an expression that stands for a call in an
                                                       // elementwise statement

// A scope in which the text of a callee is looked at without being built: functions in < > are bound.
Scope looked_into(
    const Scope& scope, const lang::Definition& callee, const lang::Call& call, lang::Diagnostics& unused) {
  Scope inside{.diagnostics = unused,
      .file = callee.file,
      .inlined = scope.inlined,
      .texts = scope.texts,
      .nested = scope.nested,
      .depth = scope.depth + 1};
  for (std::size_t k = 0; k < callee.function->parameters.size() && k < call.parameters.size(); ++k)
    if (const auto* name = std::get_if<lang::Name>(&call.parameters[k].value); name && function_meant(scope, *name))
      inside.parameters[callee.function->parameters[k].name.spelled()] = {.function = function_meant(scope, *name)};
  return inside;
}

KnownTexts::Key key_of(const lang::Definition& callee, const Scope& inside) {
  KnownTexts::Key key{callee.function, {}};
  for (const auto& [name, parameter] : inside.parameters) key.second[name] = parameter.function->function;
  return key;
}

bool is_nested_too_deep(const Scope& scope) { return scope.depth + scope.nested >= lang::most(lang::Limit::Nesting); }

// Its inputs are sizes and so is all it computes.
bool computes_sizes(Scope& inside, const lang::Function& function) {
  const auto size = [&](const lang::Name& name) {
    inside.names[name.spelled()] = Named::of_size(Size::named(name.spelled()), name.span);
  };
  for (const auto& parameter : function.parameters)
    if (!inside.parameters.contains(parameter.name.spelled())) size(parameter.name);
  for (const auto& input : function.inputs) {
    const bool is_integer = !input.value || default_of(input).kind == Named::Kind::Size;
    if (!is_integer || input.target.dtype || (input.sizes && !input.sizes->empty())) return false;
    size(input.target.name);
  }
  for (const auto& statement : function.statements) {
    if (std::holds_alternative<std::monostate>(statement.node)) continue;
    const auto* assignment = std::get_if<lang::Assignment>(&statement.node);
    if (!assignment || assignment->target.dtype || is_comparison(assignment->value) ||
        !is_size_expression(inside, assignment->value))
      return false;
    size(assignment->target.name);
  }
  return true;
}

const std::vector<InputUse>& uses_of_inputs(
    const Scope& scope, const lang::Definition& definition, const lang::Call& call) {
  lang::Diagnostics unused;
  Scope inside = looked_into(scope, definition, call, unused);
  const auto [known, is_new] = scope.texts->size_inputs.try_emplace(key_of(definition, inside));
  if (!is_new) return known->second;
  find_declared(*definition.function, inside);
  find_used_as_size(*definition.function, inside);
  std::vector<InputUse> sizes;
  for (const auto& input : definition.function->inputs) {
    const bool scalar = !input.sizes || input.sizes->empty();
    const auto name = input.target.name.spelled();
    sizes.push_back(!scalar                        ? InputUse::Value
            : inside.used_as_size.contains(name)   ? InputUse::Size
            : inside.used_as_extent.contains(name) ? InputUse::Extent
                                                   : InputUse::Value);
  }
  return known->second = std::move(sizes);
}

std::optional<Expansion> expansion_of(const Scope& scope, const lang::Definition& callee);

// Operations on whole tensors that are operations on their elements: no accesses, no shapes, no calls that make
// tensors. Adds what `expr`, `times` over, has of nodes and of the inputs.
bool expand_into(
    const Scope& scope, const lang::Function& function, const lang::Expr& expr, double times, Expansion& all) {
  const auto go = [&](const lang::Expr& e) { return expand_into(scope, function, e, times, all); };
  all.nodes += times;
  return expr.match([](const lang::Number&) { return true; },
      [&](const lang::Variable& v) {
        for (std::size_t k = 0; k < function.inputs.size(); ++k)
          if (function.inputs[k].target.name == v.name) all.inputs[k] += times;
        return true;
      },
      [&](const lang::Unary& u) { return go(u.operand); },
      [&](const lang::Binary& b) { return go(b.left) && go(b.right); }, [](const lang::Access&) { return false; },
      [&](const lang::Call& c) {
        if (!c.parameters.empty()) return false;
        const auto callee = function_meant(scope, c.function);
        if (!callee)
          return is_scalar_function(meant(scope, c).function.text) &&
              std::all_of(c.arguments.begin(), c.arguments.end(), go);
        const auto inner = expansion_of(scope, *callee);
        if (!inner || inner->inputs.size() != c.arguments.size() || !c.labels.empty()) return false;
        all.nodes += times * inner->nodes;
        for (std::size_t k = 0; k < c.arguments.size(); ++k)
          if (!expand_into(scope, function, c.arguments[k], times * std::max(1.0, inner->inputs[k]), all)) return false;
        return true;
      },
      [&](const lang::Select& s) { return s.otherwise && go(s.condition) && go(s.then) && go(*s.otherwise); });
}

// The one assignment of a function that is nothing else.
const lang::Assignment* only_assignment(const lang::Function& f) {
  const lang::Assignment* only = nullptr;
  for (const auto& statement : f.statements) {
    if (std::holds_alternative<std::monostate>(statement.node)) continue;
    const auto* assignment = std::get_if<lang::Assignment>(&statement.node);
    if (!assignment || only || !statement.attributes.empty()) return nullptr;
    only = assignment;
  }
  return only;
}

std::optional<Expansion> expansion_of(const Scope& scope, const lang::Definition& callee) {
  const lang::Function& f = *callee.function;
  const auto [known, is_new] = scope.texts->expansions.try_emplace(&f);  // none for one that calls itself
  if (!is_new) return known->second;
  const auto* only = only_assignment(f);
  const auto plain = [](const lang::Input& input) {
    return !input.target.dtype && (!input.sizes || input.sizes->empty());
  };
  if (!only || only->target.dtype || f.results.size() != 1 || f.results[0].dtype ||
      !(f.results[0].name == only->target.name) || !f.parameters.empty() ||
      !std::all_of(f.inputs.begin(), f.inputs.end(), plain) || derivatives_of(callee).any() ||
      is_nested_too_deep(scope))
    return std::nullopt;
  lang::Diagnostics unused;
  const Scope inside{.diagnostics = unused,
      .file = callee.file,
      .inlined = scope.inlined,
      .texts = scope.texts,
      .nested = scope.nested,
      .depth = scope.depth + 1};
  Expansion all{0, std::vector<double>(f.inputs.size(), 0.0)};
  if (expand_into(inside, f, only->value, 1, all) && all.nodes <= most_expanded) known->second = std::move(all);
  return known->second;
}

}  // namespace

std::optional<lang::Definition> function_meant(const Scope& scope, const lang::Name& name) {
  if (const auto parameter = scope.parameters.find(name.spelled()); parameter != scope.parameters.end())
    return parameter->second.function;
  if (!scope.file) return std::nullopt;
  const auto found = lang::definitions(*scope.file, name);
  return found.empty() ? std::nullopt : std::optional(found[0]);
}

bool is_called_number(Scope& scope, const lang::Name& name) {
  const auto number = scope.names.find(name.spelled());
  const auto other = scope.parameters.find(name.spelled());
  if (number == scope.names.end() && other == scope.parameters.end()) return false;
  scope.diagnostics.report(name.span, messages::parameter_kind, name.text,
      number == scope.names.end() ? "an aggregation" : "a number", "called");
  return true;
}

lang::Call meant(const Scope& scope, const lang::Call& call) {
  const auto parameter = scope.parameters.find(call.function.spelled());
  if (parameter == scope.parameters.end() || parameter->second.builtin.empty()) return call;
  lang::Call same = call;
  same.function.text = parameter->second.builtin;
  same.function.upper = false;
  return same;
}

bool is_comparison(const lang::Expr& expr) {
  const auto* binary = expr.as<lang::Binary>();
  return binary && lang::info(binary->op).result == lang::Result::Boolean;
}

bool is_scalar_function(std::string_view name) {
  return lang::function_named(name) || lang::dtype_named(name) || name == "ident" || name == "as_bool";
}

bool gives_size(const Scope& scope, const lang::Definition& callee, const lang::Call& call) {
  const lang::Function& function = *callee.function;
  if (function.inputs.empty() || function.results.size() != 1 || function.results[0].dtype || is_nested_too_deep(scope))
    return false;
  lang::Diagnostics unused;
  Scope inside = looked_into(scope, callee, call, unused);
  // so for one that calls itself
  const auto [known, is_new] = scope.texts->gives_size.try_emplace(key_of(callee, inside), false);
  const auto chosen = lang::with_choices(function, lang::first_choices(function));
  if (is_new) known->second = computes_sizes(inside, chosen ? *chosen : function);
  return known->second;
}

std::vector<InputUse> size_inputs(const Scope& scope, const lang::Call& call) {
  const auto definition = function_meant(scope, call.function);
  if (!definition || is_nested_too_deep(scope)) return {};
  const auto& inputs = uses_of_inputs(scope, *definition, call);
  if (call.labels.empty()) return inputs;
  lang::Diagnostics unheard;
  const auto given = lang::in_order(*definition->function, call, {}, unheard);
  std::vector<InputUse> uses(call.arguments.size(), InputUse::Value);
  for (std::size_t k = 0; given && k < inputs.size(); ++k)
    if (const lang::Expr* expr = (*given)[k]) uses[static_cast<std::size_t>(expr - call.arguments.data())] = inputs[k];
  return uses;
}

bool is_one_expression(const Scope& scope, const lang::Definition& callee) {
  return expansion_of(scope, callee).has_value();
}

}  // namespace tilec::poly
