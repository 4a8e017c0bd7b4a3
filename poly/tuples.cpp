#include "poly/tuples.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "lang/limit.h"
#include "lang/print.h"
#include "poly/call.h"
#include "poly/callee.h"
#include "poly/elementwise.h"

namespace tilec::poly {
namespace {

using Width = std::optional<std::size_t>;

Width tuple_width(const Scope& scope, const lang::Expr& expr);

Width common(const Scope& scope, const std::vector<lang::Expr>& operands) {
  const auto width = operands.empty() ? std::nullopt : tuple_width(scope, operands[0]);
  if (!width) return width;
  const bool all = std::all_of(
      operands.begin() + 1, operands.end(), [&](const lang::Expr& each) { return tuple_width(scope, each) == width; });
  return all ? width : std::nullopt;
}

std::vector<lang::Expr> operands_of(const lang::Select& s) {
  std::vector<lang::Expr> all{s.condition, s.then};
  if (s.otherwise) all.push_back(*s.otherwise);
  return all;
}

// How many components `expr` has when all that it works on are tuples of that many; else nothing.
Width tuple_width(const Scope& scope, const lang::Expr& expr) {
  if (const auto* tuple = known_tuple(scope, expr)) return tuple->elements.size();
  return expr.match([](const lang::Number&) { return Width(); }, [](const lang::Access&) { return Width(); },
      [](const lang::Variable&) { return Width(); },
      [&](const lang::Unary& u) { return tuple_width(scope, u.operand); },
      [&](const lang::Binary& b) { return common(scope, {b.left, b.right}); },
      [&](const lang::Call& c) {
        const auto& name = c.function.text;
        const bool takes_tuples = function_meant(scope, c.function) || name == "iterate" || name == "tuple" ||
            name == "element" || name == "prng_value" || name == "prng_state";
        return takes_tuples ? Width() : common(scope, c.arguments);
      },
      [&](const lang::Select& s) { return common(scope, operands_of(s)); });
}

// The same expression of component k; the scope gets names for components that no text can write.
lang::Expr of_component(Scope& scope, const lang::Expr& expr, std::size_t k) {
  const auto of = [&](const lang::Expr& e) { return of_component(scope, e, k); };
  const auto all = [&](const std::vector<lang::Expr>& list) {
    std::vector<lang::Expr> result;
    for (const auto& e : list) result.push_back(of(e));
    return result;
  };
  if (const auto* tuple = known_tuple(scope, expr)) {
    const lang::Name name{fmt::format("{}.{}", lang::print(expr), k), true, expr.span()};
    scope.names[name.spelled()] = Named(tuple->elements[k]);
    return lang::Expr(lang::Variable{name}, expr.span());
  }
  return expr.match([&](const lang::Number&) { return expr; }, [&](const lang::Access&) { return expr; },
      [&](const lang::Variable&) { return expr; },
      [&](const lang::Unary& u) { return lang::Expr(lang::Unary{u.op, of(u.operand)}, expr.span()); },
      [&](const lang::Binary& b) { return lang::Expr(lang::Binary{b.op, of(b.left), of(b.right)}, expr.span()); },
      [&](const lang::Call& c) {
        return lang::Expr(lang::Call{c.function, c.parameters, all(c.arguments), c.labels}, expr.span());
      },
      [&](const lang::Select& s) {
        return lang::Expr(
            lang::Select{of(s.condition), of(s.then), s.otherwise ? std::optional(of(*s.otherwise)) : std::nullopt},
            expr.span());
      });
}

// What a tuple holds, tuples inside it taken apart.
std::int64_t leaves(const Named& named) {
  if (named.kind != Named::Kind::Tuple) return 1;
  return std::accumulate(named.elements.begin(), named.elements.end(), std::int64_t{0},
      [](std::int64_t sum, const Named& each) { return sum + leaves(each); });
}

Named empty_tuple(Span span) {
  Named tuple;
  tuple.kind = Named::Kind::Tuple;
  tuple.span = span;
  return tuple;
}

// A component: what a name stands for, what a call gives, a tuple, or a tensor for anything else.
std::optional<Named> component(Scope& scope, const lang::Expr& expr, const std::string& name) {
  if (const auto* tuple = known_tuple(scope, expr)) return *tuple;
  if (const auto* variable = expr.as<lang::Variable>()) {
    const auto* named = find(scope, variable->name, expr.span());
    return named ? std::optional(*named) : std::nullopt;
  }
  const auto own = fresh(scope, name);
  scope.names[own] = {};                                // taken, also for what this needs
  if (makes_tuple(scope, expr)) return tuple_made(scope, expr, own);
  if (const auto* call = expr.as<lang::Call>(); call && makes_tensors(scope, *call)) {
    auto made = made_by(scope, *call, own, expr.span());
    if (made) scope.names[own] = *made;
    return made;
  }
  const auto id = tensor_of(scope, expr, own);
  return id ? std::optional(Named::of_tensor(*id, expr.span())) : std::nullopt;
}

// The k of `element(T, k)`, where it is a number or the name of one.
Width position(const Scope& scope, const lang::Expr& expr) {
  if (const auto* number = expr.as<lang::Number>())
    return number->is_float || number->negative ? std::nullopt : Width(number->integer);
  const auto* variable = expr.as<lang::Variable>();
  const auto at = variable ? scope.names.find(variable->name.spelled()) : scope.names.end();
  const auto value =
      at != scope.names.end() && at->second.kind == Named::Kind::Size ? at->second.size.value() : std::nullopt;
  return value && *value >= 0 ? Width(static_cast<std::size_t>(*value)) : std::nullopt;
}

}  // namespace

const Named* known_tuple(const Scope& scope, const lang::Expr& expr) {
  const auto tuple_only = [](const Named& named) { return named.kind == Named::Kind::Tuple ? &named : nullptr; };
  if (const auto* variable = expr.as<lang::Variable>()) {
    const auto at = scope.names.find(variable->name.spelled());
    return at == scope.names.end() ? nullptr : tuple_only(at->second);
  }
  const auto* call = expr.as<lang::Call>();
  const bool takes_apart =
      call && call->function.text == "element" && call->arguments.size() == 2 && !function_meant(scope, call->function);
  const auto* tuple = takes_apart ? known_tuple(scope, call->arguments[0]) : nullptr;
  const auto at = tuple ? position(scope, call->arguments[1]) : std::nullopt;
  return at && *at < tuple->elements.size() ? tuple_only(tuple->elements[*at]) : nullptr;
}

bool makes_tuple(const Scope& scope, const lang::Expr& expr) {
  const auto* call = expr.as<lang::Call>();
  return (call && call->function.text == "tuple") || (!known_tuple(scope, expr) && tuple_width(scope, expr));
}

std::optional<Named> tuple_made(Scope& scope, const lang::Expr& expr, const std::string& name) {
  Named tuple = empty_tuple(expr.span());
  std::int64_t components = 0;
  const auto add = [&](const lang::Expr& each) {
    auto value = component(scope, each, name);
    if (!value) return false;
    components += leaves(*value);
    if (!lang::within(lang::Limit::Components, components, expr.span(), scope.diagnostics)) return false;
    tuple.elements.push_back(std::move(*value));
    return true;
  };
  if (const auto* call = expr.as<lang::Call>(); call && call->function.text == "tuple")
    return std::all_of(call->arguments.begin(), call->arguments.end(), add) ? std::optional(tuple) : std::nullopt;
  const auto width = tuple_width(scope, expr).value();
  for (std::size_t k = 0; k < width; ++k)
    if (!add(of_component(scope, expr, k))) return std::nullopt;
  return tuple;
}

}  // namespace tilec::poly
