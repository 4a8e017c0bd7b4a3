#include "poly/call.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "lang/calls.h"
#include "lang/limit.h"
#include "lang/messages.h"
#include "poly/builtin.h"
#include "poly/contraction.h"
#include "poly/elementwise.h"
#include "poly/pack.h"
#include "poly/rule.h"
#include "poly/signature.h"
#include "poly/statements.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

constexpr std::int64_t most_iterations = 10000;
constexpr double most_expanded = 1000;                 // nodes of an expression that stands for a call in an
                                                       // elementwise statement

bool is_scalar_function(std::string_view name) {
  return lang::function_named(name) || lang::dtype_named(name) || name == "ident" || name == "as_bool";
}

// ---- compile-time parameters ----

// What a name in < > stands for in the caller: a number it knows, a parameter of its own, a function, an aggregation.
bool bind_name(Scope& scope, const std::string& parameter, const lang::Name& name, const Scope& caller, Span span) {
  if (const auto own = caller.parameters.find(name.spelled()); own != caller.parameters.end()) {
    scope.parameters[parameter] = own->second;
    return true;
  }
  if (caller.chosen.contains(name.spelled())) {
    scope.diagnostics.report(span, messages::parameter_kind, parameter,
        fmt::format("given `{}`, which is one of several names", name.text), "passed on as a value");
    return false;
  }
  if (const auto known = caller.names.find(name.spelled()); known != caller.names.end()) {
    const bool number = known->second.kind == Named::Kind::Size ||
        (known->second.kind == Named::Kind::Weak && known->second.reads.empty());
    if (number) scope.names[parameter] = known->second;
    else
      scope.diagnostics
          .report(span, messages::parameter_kind, parameter,
              fmt::format("`{}`, a value computed at run time", name.text), "passed in `< >`")
          .hint("pass it as an input");
    return number;
  }
  const bool constant = !name.upper && (name.text == "inf" || name.text == "nan");
  Parameter meaning{
      .function = function_meant(caller, name), .builtin = {}, .aggregation = aggregation_named(name.text)};
  if (!meaning.function && (is_scalar_function(name.text) || is_builtin(name.text))) meaning.builtin = name.text;
  if (!meaning.function && constant) {
    scope.names[parameter] = number_of({.text = name.text,
                                           .is_float = true,
                                           .real = name.text == "inf" ? std::numeric_limits<double>::infinity()
                                                                      : std::numeric_limits<double>::quiet_NaN()},
        span);
    return true;
  }
  if (!meaning.function && meaning.builtin.empty() && !meaning.aggregation) {
    scope.diagnostics.report(span, messages::unknown_function, name.text);
    return false;
  }
  scope.parameters[parameter] = std::move(meaning);
  return true;
}

// One of the names that the parameter may be, or what a parameter of the caller is.
bool bind_choice(Scope& scope, const lang::Function& function, const lang::Parameter& parameter,
    const lang::Argument& value, const Scope& caller) {
  const auto* name = std::get_if<lang::Name>(&value.value);
  const auto own = name ? caller.chosen.find(name->spelled()) : caller.chosen.end();
  lang::Argument chosen = value;
  if (own != caller.chosen.end()) chosen.value = own->second;
  if (!lang::fits(function, parameter, chosen, scope.diagnostics)) return false;
  scope.chosen[parameter.name.spelled()] = *lang::choice_given(lang::choices_of(function, parameter.name), chosen);
  return true;
}

bool bind_parameter(Scope& scope, const lang::Function& function, const lang::Parameter& parameter,
    const lang::Argument& value, const Scope& caller) {
  const auto name = parameter.name.spelled();
  if (!lang::choices_of(function, parameter.name).empty())
    return bind_choice(scope, function, parameter, value, caller);
  if (const auto* number = std::get_if<lang::Number>(&value.value)) {
    scope.names[name] = number_of(*number, value.span);
    return true;
  }
  const auto& given = std::get<lang::Name>(value.value);
  const bool known = caller.names.contains(given.spelled()) || caller.parameters.contains(given.spelled());
  return (known || lang::fits(function, parameter, value, scope.diagnostics)) &&
      bind_name(scope, name, given, caller, value.span);
}

// ---- arguments and results ----

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

// ---- inlining ----

// The scope of a callee: its own names, the caller's Program. What it reports is told at the call as well.
class Callee {
 public:
  Callee(Scope& caller, const lang::Definition& callee, Span span)
      : caller_(caller),
        span_(span),
        inside_{.diagnostics = found_,
            .program = std::move(caller.program),
            .file = callee.file,
            .assumed = caller.assumed,
            .derivations = caller.derivations,
            .inlined = caller.inlined,
            .texts = caller.texts,
            .nested = caller.nested,
            .depth = caller.depth + 1} {}
  Callee(const Callee&) = delete;
  Callee& operator=(const Callee&) = delete;
  ~Callee() {
    caller_.program = std::move(inside_.program);
    for (auto diagnostic : found_.all()) {
      diagnostic.labels.push_back({span_, "in this call"});
      caller_.diagnostics.add(std::move(diagnostic));
    }
  }
  Scope& scope() { return inside_; }

 private:
  Scope& caller_;
  Span span_;
  lang::Diagnostics found_;
  Scope inside_;
};

// Recursion through compile-time parameters ends here too. Once a limit is reported, nothing more is inlined.
bool too_many(Scope& scope, Span span) {
  auto& all = *scope.inlined;
  if (all.over) return true;
  all.over = !lang::within(lang::Limit::Nesting, scope.depth + scope.nested + 1, span, scope.diagnostics) ||
      !lang::within(lang::Limit::Calls, ++all.count, span, scope.diagnostics);
  return all.over;
}

bool is_comparison(const lang::Expr& expr) {
  const auto* binary = expr.as<lang::Binary>();
  return binary && lang::info(binary->op).result == lang::Result::Boolean;
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
    Callee callee(scope, definition, span);
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
  const auto* literal = function ? std::get_if<lang::Number>(&call.parameters[1].value) : nullptr;
  const auto* count_name = function ? std::get_if<lang::Name>(&call.parameters[1].value) : nullptr;
  const auto known = count_name ? scope.names.find(count_name->spelled()) : scope.names.end();
  const auto count = literal && !literal->is_float && !literal->negative
      ? std::optional(static_cast<std::int64_t>(literal->integer))
      : known != scope.names.end() && known->second.kind == Named::Kind::Size ? known->second.size.value()
                                                                              : std::nullopt;
  if (!literal && known != scope.names.end() && known->second.kind == Named::Kind::Size && !count) {
    scope.diagnostics
        .report(call.parameters[1].span, messages::unbound_sizes, fmt::format("`{}`", count_name->text), "has")
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
    const auto* number = std::get_if<lang::Number>(&each.value);
    const auto* name = std::get_if<lang::Name>(&each.value);
    const auto known = name ? scope.names.find(name->spelled()) : scope.names.end();
    const Named value = number ? number_of(*number, each.span) : known != scope.names.end() ? known->second : Named{};
    if (value.kind != Named::Kind::Size || !value.size.value()) {
      scope.diagnostics.report(each.span, messages::not_known_yet);
      return std::nullopt;
    }
    numbers.push_back(*value.size.value());
  }
  return numbers;
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

namespace {

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

bool bind_parameters(Scope& scope, const lang::Function& function, const std::vector<lang::Argument>& given,
    const Scope& caller, Span span) {
  const auto values = lang::in_order(function, given, span, scope.diagnostics);
  for (std::size_t k = 0; values && k < function.parameters.size(); ++k) {
    const auto& parameter = function.parameters[k];
    const lang::Argument& value = (*values)[k] ? *(*values)[k] : *parameter.value;
    if (!bind_parameter(scope, function, parameter, value, (*values)[k] ? caller : scope)) return false;
  }
  return values.has_value();
}

namespace {

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

}  // namespace

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

namespace {

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

}  // namespace

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

namespace {

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

// A body holds each call's value as often as it is used: what doubles must end.
bool is_too_large(Scope& scope, const Scalar& value, Span span) {
  const auto bound = static_cast<std::size_t>(lang::most(lang::Limit::Nodes));
  if (node_count(value.expr, bound + 1) <= bound) return false;
  scope.inlined->over =
      !lang::within(lang::Limit::Nodes, static_cast<std::int64_t>(bound) + 1, span, scope.diagnostics);
  return true;
}

}  // namespace

bool is_one_expression(const Scope& scope, const lang::Definition& callee) {
  return expansion_of(scope, callee).has_value();
}

std::optional<Shape> shape_of_one_expression(
    Body& body, const lang::Definition& callee, const lang::Call& call, const std::string& name, Span span) {
  const lang::Function& function = *callee.function;
  const auto given = lang::in_order(function, call, span, body.scope.diagnostics);
  if (!given || !lang::in_order(function, call.parameters, span, body.scope.diagnostics)) return std::nullopt;
  std::vector<Shape> shapes;
  for (const auto* argument : *given) {
    auto shape = argument ? shape_of(body, *argument, name) : std::optional(Shape{});
    if (!shape) return std::nullopt;
    shapes.push_back(std::move(*shape));
  }
  Callee inner(body.scope, callee, span);
  find_declared(function, inner.scope());
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    const auto& input = function.inputs[k];
    if (input.sizes && !shapes[k].empty()) {            // `X[]`: what is one expression has no other brackets
      inner.scope().diagnostics.report(input.span, messages::given_rank, input.target.name.spelled(),
          counted(0, "dimension"), shape_text(shapes[k]));
      return std::nullopt;
    }
    Named named;
    named.kind = Named::Kind::Element;
    named.shape = std::move(shapes[k]);
    inner.scope().names[function.inputs[k].target.name.spelled()] = std::move(named);
  }
  Body within{.scope = inner.scope()};
  for (const auto& statement : function.statements)
    if (const auto* assignment = std::get_if<lang::Assignment>(&statement.node))
      return shape_of(within, assignment->value, name);
  return std::nullopt;
}

std::optional<Scalar> inlined_in_body(Body& body, const lang::Definition& callee, const lang::Call& call, Span span) {
  const lang::Function& written = *callee.function;
  const auto refuse = [&](const std::string& why) -> std::optional<Scalar> {
    body.scope.diagnostics.report(span, messages::not_elementwise, call.function.text + "(…)")
        .label(written.span_of_head(), why)
        .hint("give its result a name first: a body reads elements");
    return std::nullopt;
  };
  if (too_many(body.scope, span)) return std::nullopt;
  if (written.results.size() != 1) return refuse("it has several results");
  if (derivatives_of(callee).any()) return refuse("it has a derivative of its own, which belongs to a tensor");
  const auto given = lang::in_order(written, call, span, body.scope.diagnostics);
  if (!given) return std::nullopt;
  std::vector<lang::Name> mentioned;
  for (const auto& statement : written.statements)
    if (const auto* assignment = std::get_if<lang::Assignment>(&statement.node)) names_in(assignment->value, mentioned);
  std::vector<Named> values;
  for (const auto* argument : *given) {
    Named named;
    if (std::find(mentioned.begin(), mentioned.end(), written.inputs[values.size()].target.name) == mentioned.end()) {
      values.push_back(std::move(named));              // which may have more dimensions than the result
      continue;
    }
    const Named absent = argument ? Named() : default_of(written.inputs[values.size()]);
    const auto scalar = argument           ? scalar_of(body, *argument)
        : absent.kind == Named::Kind::Size ? affine_value(Affine::of(absent.size, body.indices.size()), absent.literal)
                                           : absent.scalar;
    if (!scalar) return std::nullopt;
    named.kind = Named::Kind::Element;
    named.scalar = *scalar;
    named.span = argument ? argument->span() : absent.span;
    named.absent = absent.absent;
    values.push_back(std::move(named));
  }
  Callee inner(body.scope, callee, span);
  Scope& inside = inner.scope();
  if (!bind_parameters(inside, written, call.parameters, body.scope, span)) return std::nullopt;
  const auto chosen = lang::with_choices(written, inside.chosen);
  const lang::Function& function = chosen ? *chosen : written;
  find_declared(function, inside);
  Body within{.scope = inside, .indices = body.indices, .reads = std::move(body.reads), .result = body.result};
  const auto result = [&]() -> std::optional<Scalar> {
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (function.inputs[k].sizes && !function.inputs[k].sizes->empty()) return refuse("it takes a tensor");
      inside.names[function.inputs[k].target.name.spelled()] = values[k];
    }
    for (const auto& statement : function.statements) {
      if (std::holds_alternative<std::monostate>(statement.node)) continue;
      const auto* assignment = std::get_if<lang::Assignment>(&statement.node);
      if (!assignment) return refuse("it is not made of scalar operations alone");
      auto value = scalar_of(within, assignment->value);
      std::optional<DType> type;
      if (!value || is_too_large(inside, *value, span) || !written_type(inside, function, assignment->target, type))
        return std::nullopt;
      Named named;
      named.kind = Named::Kind::Element;
      named.scalar = type ? cast(*value, *type) : *value;
      inside.names[assignment->target.name.spelled()] = std::move(named);
    }
    const auto* named = find(inside, function.results[0].name, function.results[0].span);
    return named ? named->scalar : std::nullopt;
  }();
  body.reads = std::move(within.reads);
  return result;
}

}  // namespace tilec::poly
