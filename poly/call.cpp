#include "poly/call.h"

#include <fmt/core.h>

#include <algorithm>

#include "lang/calls.h"
#include "lang/limit.h"
#include "lang/messages.h"
#include "lang/print.h"
#include "poly/builtin.h"
#include "poly/callee.h"
#include "poly/elementwise.h"
#include "poly/inlining.h"
#include "poly/pack.h"
#include "poly/parameters.h"
#include "poly/rule.h"
#include "poly/signature.h"
#include "poly/size_expression.h"
#include "poly/statements.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

constexpr std::int64_t most_iterations = 10000;

std::optional<Named> argument(Scope& scope, const lang::Expr& expr, const std::string& stem) {
  const bool constant = expr.as<lang::Variable>() && !scope.names.contains(expr.as<lang::Variable>()->name.spelled());
  if (const auto* variable = expr.as<lang::Variable>(); variable && !constant) {
    const auto* named = find(scope, variable->name, expr.span());
    return named ? std::optional(*named) : std::nullopt;
  }
  if (is_size_expression(scope, expr)) {
    const auto size = size_of(scope, expr);
    return size ? std::optional(Named::of_size(*size, expr.span(), expr.as<lang::Number>())) : std::nullopt;
  }
  const auto name = fresh(scope, stem);
  scope.names[name] = {};                               // taken, also for what this argument needs
  const auto* call = expr.as<lang::Call>();
  auto named = call && makes_tensors(scope, *call) ? made_by(scope, *call, name, expr.span())
                                                   : elementwise(scope, {.name = name, .span = expr.span()}, expr);
  if (named) scope.names[name] = *named;
  return named;
}

std::optional<std::vector<Named>> arguments_of(
    Scope& scope, const lang::Function& callee, const lang::Call& call, Span span) {
  const auto given = lang::in_order(callee, call, span, scope.diagnostics);
  if (!given) return std::nullopt;
  std::vector<Named> values;
  bool whole = true;
  for (std::size_t k = 0; k < given->size(); ++k) {
    const lang::Input& input = callee.inputs[k];
    auto value = (*given)[k] ? argument(scope, *(*given)[k], input.target.name.spelled()) : default_of(input);
    whole &= value.has_value();
    if (value) values.push_back(std::move(*value));
  }
  return whole ? std::optional(std::move(values)) : std::nullopt;
}

std::optional<Named> result_of(Scope& scope, const lang::Target& result) {
  const auto* named = find(scope, result.name, result.span);
  if (!named) return std::nullopt;
  const auto type = result.dtype ? lang::dtype_named(result.dtype->text) : std::nullopt;
  if (!type || named->kind == Named::Kind::Failed || named->kind == Named::Kind::Tuple) return *named;
  if (named->kind == Named::Kind::Tensor && scope.tensor(named->tensor).dtype != *type) {
    scope.diagnostics
        .report(result.span, messages::type_conflict, lang::name(*type), lang::name(scope.tensor(named->tensor).dtype))
        .label(scope.tensor(named->tensor).span, "declared here");
    return std::nullopt;
  }
  const auto id =
      stored(scope, *named, {.name = fresh(scope, result.name.spelled()), .dtype = type, .span = result.span});
  return id ? std::optional(Named::of_tensor(*id, result.span)) : std::nullopt;
}

Named tuple_of(std::vector<Named> elements, Span span) {
  if (elements.size() == 1) return std::move(elements[0]);
  Named tuple;
  tuple.kind = Named::Kind::Tuple;
  tuple.elements = std::move(elements);
  tuple.span = span;
  return tuple;
}

// A function of sizes gives sizes where it can. A comparison stays a bool.
void compute_sizes(const lang::Function& function, Scope& scope) {
  for (const auto& statement : function.statements) {
    const auto* assignment = std::get_if<lang::Assignment>(&statement.node);
    if (assignment && !is_comparison(assignment->value)) scope.used_as_size.insert(assignment->target.name.spelled());
  }
}

std::optional<std::vector<Named>> run(
    Scope& scope, const lang::Function& written, const std::vector<Named>& arguments) {
  const auto made = lang::with_choices(written, scope.chosen);
  const auto plain = with_ranks(scope, made ? *made : written, ranks_of(scope, arguments));
  if (!plain) return std::nullopt;
  const lang::Function& function = *plain;
  find_declared(function, scope);
  find_used_as_size(function, scope);
  if (!arguments.empty() &&
      std::all_of(arguments.begin(), arguments.end(), [](const Named& n) { return n.kind == Named::Kind::Size; }))
    compute_sizes(function, scope);
  declare_arguments(function, arguments, scope);
  for (const auto& statement : function.statements) add_statement(scope, function, statement);
  std::vector<Named> results;
  for (const auto& result : function.results)
    if (auto named = result_of(scope, result)) results.push_back(std::move(*named));
  return scope.failed || results.size() < function.results.size() ? std::nullopt : std::optional(std::move(results));
}

// A call, by what decides what it gives.
Derivation likeness(const lang::Definition& definition, const Scope& inside, const std::vector<Named>& arguments) {
  Derivation like{.definition = definition, .parameters = inside.parameters, .chosen = inside.chosen};
  for (const auto& [name, number] : inside.names) like.numbers[name] = placeless(number);
  for (const auto& argument : arguments) like.arguments.push_back(placeless(argument));
  return like;
}

std::size_t hash(const Derivation& like) {
  std::size_t value = std::hash<const void*>()(like.definition.function);
  for (const auto& argument : like.arguments)
    value = value * 31 + static_cast<std::size_t>(argument.tensor + 1) + 7 * static_cast<std::size_t>(argument.kind);
  return value;
}

const InlinedCall* known_call(const InlinedCalls& calls, const Derivation& like) {
  const auto [first, last] = calls.known.equal_range(hash(like));
  const auto at = std::find_if(first, last, [&](const auto& each) { return same_call(each.second.like, like); });
  return at == last ? nullptr : &at->second;
}

std::optional<Named> inlined(
    Scope& scope, const lang::Definition& definition, const lang::Call& call, const std::string& name, Span span) {
  const lang::Function& function = *definition.function;
  const auto derivatives = derivatives_of(definition);
  auto arguments = arguments_of(scope, function, call, span);
  if (!arguments || too_many(scope, span)) return std::nullopt;
  if (derivatives.any() && !store_arguments(scope, *arguments)) return std::nullopt;
  std::optional<std::vector<Named>> results;
  Derivation like;
  {
    Inlining callee(scope, definition, span);
    Scope& inside = callee.scope();
    if (!bind_parameters(inside, function, call.parameters, scope, span)) return std::nullopt;
    like = likeness(definition, inside, *arguments);
    if (const auto* known = scope.depth > 0 && !scope.keeps ? known_call(*scope.inlined, like) : nullptr) {
      scope.failed |= !known->made;
      return known->made;
    }
    if (function.results.size() == 1) inside.called[function.results[0].name.spelled()] = wished_name(scope, name);
    results = run(inside, function, *arguments);
  }
  const bool whole =
      results && (!derivatives.any() || attach_rule(scope, derivatives, call, *arguments, *results, span));
  auto made = whole ? std::optional(tuple_of(std::move(*results), span)) : std::nullopt;
  scope.failed |= !made;
  scope.inlined->known.emplace(hash(like), InlinedCall{like, made});
  return made;
}

// iterate<f, 20>(X, W): X = f(X, W), twenty times; what f does not return stays.
std::optional<Named> iterated(Scope& scope, const lang::Call& call, const std::string& name, Span span) {
  const auto* function = call.parameters.size() == 2 ? std::get_if<lang::Name>(&call.parameters[0].value) : nullptr;
  const std::size_t errors = scope.diagnostics.all().size();
  const auto given = function ? number_given(scope, call.parameters[1]) : std::nullopt;
  if (scope.diagnostics.all().size() > errors) return std::nullopt;
  const bool is_size = given && given->kind == Named::Kind::Size;
  const auto count = is_size ? given->size.value() : std::nullopt;
  if (is_size && !count) {
    scope.diagnostics
        .report(call.parameters[1].span, messages::unbound_sizes,
            fmt::format("`{}`", lang::print(call.parameters[1])), "has")
        .hint("`iterate` applies a function that often: give the shapes of the inputs, such as `X=3x2xf32`");
    return std::nullopt;
  }
  if (!count || *count < 0 || *count > most_iterations) {
    scope.diagnostics
        .report(span, messages::parameter_count, "iterate",
            fmt::format("a function and a number of times, at most {}", most_iterations))
        .hint("write `iterate<f, 20>(X)`, or `iterate<f, N>(X)` of a size `N`");
    return std::nullopt;
  }
  std::vector<std::string> state;
  lang::Call step{*function, {}, {}};
  for (const auto& expr : call.arguments) {
    const auto value = argument(scope, expr, name);
    if (!value) return std::nullopt;
    state.push_back(fresh(scope, name));
    scope.names[state.back()] = *value;
    step.arguments.emplace_back(lang::Variable{{state.back(), true, expr.span()}}, expr.span());
  }
  const auto definition = function_meant(scope, *function);
  std::size_t returned = definition ? definition->function->results.size() : 1;  // also where it is applied 0 times
  for (std::int64_t k = 0; k < *count; ++k) {
    auto value = argument(scope, lang::Expr(step, span), name);
    if (!value) return std::nullopt;
    const auto parts = value->kind == Named::Kind::Tuple ? value->elements : std::vector<Named>{*value};
    returned = parts.size();
    if (returned > state.size()) {
      scope.diagnostics
          .report(span, messages::result_count, function->text, counted(returned, "result"), lang::are(state.size()))
          .hint("`iterate` feeds results back into the first inputs");
      return std::nullopt;
    }
    for (std::size_t part = 0; part < returned; ++part) scope.names[state[part]] = parts[part];
  }
  std::vector<Named> results;
  for (std::size_t part = 0; part < std::min(returned, state.size()); ++part)
    results.push_back(scope.names[state[part]]);
  return tuple_of(std::move(results), span);
}

// Numbers in < > of a built-in.
std::optional<std::vector<std::int64_t>> numbers_of(Scope& scope, const lang::Call& call) {
  std::vector<std::int64_t> numbers;
  for (const auto& each : call.parameters) {
    const std::size_t errors = scope.diagnostics.all().size();
    const auto value = number_given(scope, each);
    if (!value || value->kind != Named::Kind::Size || !value->size.value()) {
      if (scope.diagnostics.all().size() == errors) scope.diagnostics.report(each.span, messages::not_known_yet);
      return std::nullopt;
    }
    numbers.push_back(*value->size.value());
  }
  return numbers;
}

// `half(N)` may be a size too, which only the call as a whole can tell.
bool is_of_sizes(const Scope& scope, const lang::Call& call) {
  return !call.arguments.empty() && std::all_of(call.arguments.begin(), call.arguments.end(), [&](const lang::Expr& e) {
    return is_size_expression(scope, e);
  });
}

}  // namespace

bool makes_tensors(const Scope& scope, const lang::Call& call) {
  if (const auto callee = function_meant(scope, call.function))
    return !is_one_expression(scope, *callee) || is_of_sizes(scope, call);
  const auto name = meant(scope, call).function.text;
  return is_builtin(name) || name == "iterate";
}

std::optional<Named> made_by(Scope& scope, const lang::Call& written, const std::string& name, Span span) {
  if (const auto definition = function_meant(scope, written.function))
    return inlined(scope, *definition, written, name, span);
  const lang::Call call = meant(scope, written);
  if (call.function.text == "iterate") return iterated(scope, call, name, span);
  const auto numbers = numbers_of(scope, call);
  return numbers ? invoke(scope, {call, *numbers, name, span}) : std::nullopt;
}

}  // namespace tilec::poly
