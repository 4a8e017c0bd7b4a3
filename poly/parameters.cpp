#include "poly/parameters.h"

#include <fmt/core.h>

#include <limits>

#include "lang/calls.h"
#include "lang/messages.h"
#include "lang/print.h"
#include "poly/builtin.h"
#include "poly/callee.h"
#include "poly/contraction.h"
#include "poly/fold.h"
#include "poly/scalar.h"
#include "poly/size_expression.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

bool is_number(const Named& named) {
  return named.kind == Named::Kind::Size || (named.kind == Named::Kind::Weak && named.reads.empty());
}

void refuse_value(Scope& scope, const std::string& parameter, const lang::Name& name, Span span) {
  scope.diagnostics
      .report(span, messages::parameter_kind, parameter, fmt::format("`{}`, a value computed at run time", name.text),
          "passed in `< >`")
      .hint("pass it as an input");
}

// `K - 2`, of numbers that the caller knows.
std::optional<Named> computed(Scope& caller, const lang::Expr& expr) {
  std::vector<lang::Name> names;
  names_in(expr, names);
  bool literal = true;
  for (const auto& name : names) {
    const Named* named = find(caller, name, name.span);
    if (named && !is_number(*named)) refuse_value(caller, lang::print(expr), name, name.span);
    if (!named || !is_number(*named)) return std::nullopt;
    literal &= named->literal;
  }
  if (is_size_expression(caller, expr)) {
    const auto size = size_of(caller, expr);
    return size ? std::optional(Named::of_size(*size, expr.span(), literal)) : std::nullopt;
  }
  Body body{.scope = caller};
  Named made;
  made.kind = Named::Kind::Weak;
  made.scalar = scalar_of(body, expr);
  if (made.scalar) made.scalar->expr = folded(made.scalar->expr);
  made.span = expr.span();
  return made.scalar ? std::optional(std::move(made)) : std::nullopt;
}

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
    if (is_number(known->second)) scope.names[parameter] = known->second;
    else refuse_value(scope, parameter, name, span);
    return is_number(known->second);
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
    const lang::Argument& value, Scope& caller) {
  const auto name = parameter.name.spelled();
  if (!lang::choices_of(function, parameter.name).empty())
    return bind_choice(scope, function, parameter, value, caller);
  const auto* written = std::get_if<lang::Name>(&value.value);
  if (!written) {
    const auto number = number_given(caller, value);
    if (number) scope.names[name] = *number;
    return number.has_value();
  }
  const lang::Name& given = *written;
  const bool known = caller.names.contains(given.spelled()) || caller.parameters.contains(given.spelled());
  return (known || lang::fits(function, parameter, value, scope.diagnostics)) &&
      bind_name(scope, name, given, caller, value.span);
}

}  // namespace

std::optional<Named> number_given(Scope& scope, const lang::Argument& value) {
  if (const auto* number = std::get_if<lang::Number>(&value.value)) return number_of(*number, value.span);
  if (const auto* expr = std::get_if<lang::Expr>(&value.value)) return computed(scope, *expr);
  const auto known = scope.names.find(std::get<lang::Name>(value.value).spelled());
  return known == scope.names.end() ? std::nullopt : std::optional(known->second);
}

bool bind_parameters(Scope& scope, const lang::Function& function, const std::vector<lang::Argument>& given,
    Scope& caller, Span span) {
  const auto values = lang::in_order(function, given, span, scope.diagnostics);
  for (std::size_t k = 0; values && k < function.parameters.size(); ++k) {
    const auto& parameter = function.parameters[k];
    const lang::Argument& value = (*values)[k] ? *(*values)[k] : *parameter.value;
    if (!bind_parameter(scope, function, parameter, value, (*values)[k] ? caller : scope)) return false;
  }
  return values.has_value();
}

}  // namespace tilec::poly
