#include "poly/tuples.h"

#include <fmt/format.h>

#include <algorithm>

#include "poly/call.h"

namespace tilec::poly {
namespace {

std::optional<std::size_t> common(const Scope& scope, const std::vector<lang::Expr>& operands) {
  const auto width = operands.empty() ? std::nullopt : tuple_width(scope, operands[0]);
  if (!width) return width;
  const bool all = std::all_of(operands.begin() + 1, operands.end(), [&](const lang::Expr& each) { return tuple_width(scope, each) == width; });
  return all ? width : std::nullopt;
}

std::vector<lang::Expr> operands_of(const lang::Select& s) {
  std::vector<lang::Expr> all{s.condition, s.then};
  if (s.otherwise) all.push_back(*s.otherwise);
  return all;
}

}  // namespace

std::optional<std::size_t> tuple_width(const Scope& scope, const lang::Expr& expr) {
  using Width = std::optional<std::size_t>;
  return expr.match([](const lang::Number&) { return Width(); }, [](const lang::Access&) { return Width(); },
                    [&](const lang::Variable& v) {
                      const auto at = scope.names.find(v.name.spelled());
                      const bool tuple = at != scope.names.end() && at->second.kind == Named::Kind::Tuple;
                      return tuple ? Width(at->second.elements.size()) : Width();
                    },
                    [&](const lang::Unary& u) { return tuple_width(scope, u.operand); }, [&](const lang::Binary& b) { return common(scope, {b.left, b.right}); },
                    [&](const lang::Call& c) {
                      const auto& name = c.function.text;
                      const bool takes_tuples = function_meant(scope, c.function) || name == "iterate" || name == "tuple" || name == "element" || name == "prng_value" || name == "prng_state";
                      return takes_tuples ? Width() : common(scope, c.arguments);
                    },
                    [&](const lang::Select& s) { return common(scope, operands_of(s)); });
}

lang::Expr of_component(Scope& scope, const lang::Expr& expr, std::size_t k) {
  const auto of = [&](const lang::Expr& e) { return of_component(scope, e, k); };
  const auto all = [&](const std::vector<lang::Expr>& list) {
    std::vector<lang::Expr> result;
    for (const auto& e : list) result.push_back(of(e));
    return result;
  };
  return expr.match([&](const lang::Number&) { return expr; }, [&](const lang::Access&) { return expr; },
                    [&](const lang::Variable& v) {
                      const lang::Name name{fmt::format("{}.{}", v.name.text, k), v.name.upper, v.name.span};
                      scope.names[name.spelled()] = scope.names.at(v.name.spelled()).elements[k];
                      return lang::Expr(lang::Variable{name}, expr.span());
                    },
                    [&](const lang::Unary& u) { return lang::Expr(lang::Unary{u.op, of(u.operand)}, expr.span()); },
                    [&](const lang::Binary& b) { return lang::Expr(lang::Binary{b.op, of(b.left), of(b.right)}, expr.span()); },
                    [&](const lang::Call& c) { return lang::Expr(lang::Call{c.function, c.parameters, all(c.arguments)}, expr.span()); },
                    [&](const lang::Select& s) {
                      return lang::Expr(lang::Select{of(s.condition), of(s.then), s.otherwise ? std::optional(of(*s.otherwise)) : std::nullopt}, expr.span());
                    });
}

}  // namespace tilec::poly
