// Walks over an expression.
//
//   A[i + 1] * exp(b)   ⇒   children `A[i + 1]`, `exp(b)`; accesses `A[i + 1]`
#pragma once

#include <vector>

#include "lang/ast.h"

namespace tilec::lang {

// What stands directly in an expression, brackets of an access included, in the order of the text.
template <class Visit> void each_child(const Expr& e, const Visit& visit) {
  const auto all = [&](const std::vector<Expr>& list) { for (const Expr& each : list) visit(each); };
  e.match([](const Number&) {}, [](const Variable&) {}, [&](const Unary& u) { visit(u.operand); },
      [&](const Binary& b) { visit(b.left), visit(b.right); }, [&](const Access& a) { all(a.element); },
      [&](const Call& c) { all(c.arguments); },
      [&](const Select& s) {
        visit(s.condition), visit(s.then);
        if (s.otherwise) visit(*s.otherwise);
      });
}

// visit(variable), in the order of the text, also in brackets
template <class Visit> void each_variable(const Expr& e, const Visit& visit) {
  if (const auto* variable = e.as<Variable>()) visit(*variable);
  else each_child(e, [&](const Expr& inner) { each_variable(inner, visit); });
}

// The accesses of a value, outside brackets: visit(access, the expression that it is).
template <class Visit> void each_access(const Expr& e, const Visit& visit) {
  if (const auto* access = e.as<Access>()) visit(*access, e);
  else each_child(e, [&](const Expr& inner) { each_access(inner, visit); });
}

}  // namespace tilec::lang
