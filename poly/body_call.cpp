#include "poly/body_call.h"

#include <fmt/core.h>

#include <algorithm>

#include "lang/calls.h"
#include "lang/limit.h"
#include "lang/messages.h"
#include "poly/elementwise.h"
#include "poly/inlining.h"
#include "poly/parameters.h"
#include "poly/rule.h"
#include "poly/signature.h"
#include "poly/statements.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

// A body holds each call's value as often as it is used: what doubles must end.
bool is_too_large(Scope& scope, const Scalar& value, Span span) {
  const auto bound = static_cast<std::size_t>(lang::most(lang::Limit::Nodes));
  if (node_count(value.expr, bound + 1) <= bound) return false;
  scope.inlined->over =
      !lang::within(lang::Limit::Nodes, static_cast<std::int64_t>(bound) + 1, span, scope.diagnostics);
  return true;
}

}  // namespace

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
  Inlining inner(body.scope, callee, span);
  find_declared(function, inner.scope());
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    const auto& input = function.inputs[k];
    if (input.sizes && !shapes[k].empty()) {           // `X[]`: what is one expression has no other brackets
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

namespace {

std::optional<Scalar> refuse(
    Scope& scope, const lang::Call& call, const lang::Function& function, Span span, std::string_view why) {
  scope.diagnostics.report(span, messages::not_elementwise, call.function.text + "(…)")
      .label(function.span_of_head(), std::string(why))
      .hint("give its result a name first: a body reads elements");
  return std::nullopt;
}

// The inputs of a call as elements. An input that no value mentions may have more dimensions than the result: it stays
// empty.
std::optional<std::vector<Named>> elements_of(
    Body& body, const lang::Function& function, const std::vector<const lang::Expr*>& given) {
  std::vector<lang::Name> mentioned;
  for (const auto& statement : function.statements)
    if (const auto* assignment = std::get_if<lang::Assignment>(&statement.node)) names_in(assignment->value, mentioned);
  std::vector<Named> values;
  for (const auto* argument : given) {
    const lang::Input& input = function.inputs[values.size()];
    Named named;
    if (std::find(mentioned.begin(), mentioned.end(), input.target.name) == mentioned.end()) {
      values.push_back(std::move(named));
      continue;
    }
    const Named absent = argument ? Named() : default_of(input);
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
  return values;
}

// The statements of the callee, one after the other, in place of the call.
std::optional<Scalar> computed(Body& within, const lang::Call& call, const lang::Function& function,
    const lang::Function& written, const std::vector<Named>& values, Scope& caller, Span span) {
  Scope& inside = within.scope;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (function.inputs[k].sizes && !function.inputs[k].sizes->empty())
      return refuse(caller, call, written, span, "it takes a tensor");
    inside.names[function.inputs[k].target.name.spelled()] = values[k];
  }
  for (const auto& statement : function.statements) {
    if (std::holds_alternative<std::monostate>(statement.node)) continue;
    const auto* assignment = std::get_if<lang::Assignment>(&statement.node);
    if (!assignment) return refuse(caller, call, written, span, "it is not made of scalar operations alone");
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
}

}  // namespace

std::optional<Scalar> inlined_in_body(Body& body, const lang::Definition& callee, const lang::Call& call, Span span) {
  const lang::Function& written = *callee.function;
  if (too_many(body.scope, span)) return std::nullopt;
  if (written.results.size() != 1) return refuse(body.scope, call, written, span, "it has several results");
  if (derivatives_of(callee).any())
    return refuse(body.scope, call, written, span, "it has a derivative of its own, which belongs to a tensor");
  const auto given = lang::in_order(written, call, span, body.scope.diagnostics);
  const auto values = given ? elements_of(body, written, *given) : std::nullopt;
  if (!values) return std::nullopt;
  Inlining inner(body.scope, callee, span);
  Scope& inside = inner.scope();
  if (!bind_parameters(inside, written, call.parameters, body.scope, span)) return std::nullopt;
  const auto chosen = lang::with_choices(written, inside.chosen);
  const lang::Function& function = chosen ? *chosen : written;
  find_declared(function, inside);
  Body within{.scope = inside, .indices = body.indices, .reads = std::move(body.reads), .result = body.result};
  const auto result = computed(within, call, function, written, *values, body.scope, span);
  body.reads = std::move(within.reads);
  return result;
}

}  // namespace tilec::poly
