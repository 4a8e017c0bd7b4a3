#include "lang/choice.h"

#include <algorithm>

namespace tilec::lang {
namespace {

class Chooser {
 public:
  Chooser(const Function& function, const Chosen& chosen) : function_(function), chosen_(chosen) {}

  void in(Statement& statement) const {
    std::visit(Overloaded{[](std::monostate) {}, [&](Contraction& c) { in(c); },
                   [&](auto& assignment) { assignment.value = of(assignment.value); }},
        statement.node);
  }

 private:
  const Function& function_;
  const Chosen& chosen_;

  void in(Contraction& c) const {
    for (Expr& each : c.element) each = of(each);
    for (Expr& each : c.sizes) each = of(each);
    c.body = of(c.body);
    for (Constraint& each : c.constraints) {
      if (each.low) each.low = of(*each.low);
      each.polynomial = of(each.polynomial);
      each.bound = of(each.bound);
    }
  }

  // Of tests, joined by `&` and `|`.
  std::optional<bool> truth(const Expr& e) const {
    if (const auto test = choice_test(function_, e)) {
      const auto* name = test->other->as<Variable>();
      const bool same = name && chosen_.at(test->parameter->spelled()) == name->name;
      return same == (e.as<Binary>()->op == Op::Eq);
    }
    const Binary* binary = e.as<Binary>();
    if (!binary || (binary->op != Op::And && binary->op != Op::Or)) return std::nullopt;
    const auto left = truth(binary->left), right = truth(binary->right);
    if (!left || !right) return std::nullopt;
    return binary->op == Op::And ? *left && *right : *left || *right;
  }

  std::vector<Expr> all(std::vector<Expr> list) const {
    for (Expr& each : list) each = of(each);
    return list;
  }

  Expr of(const Expr& e) const {
    const Span span = e.span();
    if (const auto value = truth(e)) {                  // a comparison still, as one that is a bool or a size where it
                                                        // stands
      const Expr one(Number{"1", false, 1, 1, false}, span),
          other(Number{*value ? "1" : "0", false, *value ? 1U : 0U, *value ? 1.0 : 0.0, false}, span);
      return Expr(Binary{Op::Eq, one, other}, span);
    }
    return e.match([&](const Number&) { return e; }, [&](const Variable&) { return e; },
        [&](const Unary& u) { return Expr(Unary{u.op, of(u.operand)}, span); },
        [&](const Binary& b) { return Expr(Binary{b.op, of(b.left), of(b.right), b.juxtaposed}, span); },
        [&](const Access& a) { return Expr(Access{a.tensor, all(a.element)}, span); },
        [&](const Call& c) { return Expr(Call{c.function, c.parameters, all(c.arguments), c.labels}, span); },
        [&](const Select& s) {
          const auto holds = s.otherwise ? truth(s.condition) : std::nullopt;
          if (holds) return of(*holds ? s.then : *s.otherwise);
          return Expr(
              Select{of(s.condition), of(s.then), s.otherwise ? std::optional(of(*s.otherwise)) : std::nullopt}, span);
        });
  }
};

}  // namespace

const std::vector<Name>& choices_of(const Function& function, const Name& parameter) {
  static const std::vector<Name> none;
  const auto named = [&](const Name& name, auto end) {
    return std::find_if(function.parameters.begin(), end, [&](const Parameter& p) { return p.name == name; });
  };
  auto at = named(parameter, function.parameters.end());
  while (at != function.parameters.end() && at->choices.empty()) {  // each step goes to an earlier one
    const auto* name = at->value ? std::get_if<Name>(&at->value->value) : nullptr;
    const auto before = name ? named(*name, at) : at;
    if (before == at) return none;
    at = before;
  }
  return at == function.parameters.end() ? none : at->choices;
}

std::string listed(const std::vector<Name>& choices) {
  std::string text;
  for (std::size_t k = 0; k < choices.size(); ++k)
    text += (k == 0 ? "`" : k + 1 == choices.size() ? " and `" : ", `") + choices[k].spelled() + "`";
  return text;
}

std::optional<Name> choice_given(const std::vector<Name>& choices, const Argument& value) {
  const auto* name = std::get_if<Name>(&value.value);
  const auto* number = std::get_if<Number>(&value.value);
  if (!name && !(number && (number->real == 0 || number->real == 1))) return std::nullopt;
  const Name wanted = name ? *name : Name{number->real == 1 ? "true" : "false", false, {}};
  const auto at = std::find(choices.begin(), choices.end(), wanted);
  return at == choices.end() ? std::nullopt : std::optional(*at);
}

std::optional<ChoiceTest> choice_test(const Function& function, const Expr& expr) {
  const Binary* binary = expr.as<Binary>();
  if (!binary || (binary->op != Op::Eq && binary->op != Op::Ne)) return std::nullopt;
  const auto parameter = [&](const Expr& side) {
    const auto* variable = side.as<Variable>();
    return variable && !choices_of(function, variable->name).empty() ? &variable->name : nullptr;
  };
  if (const Name* name = parameter(binary->left)) return ChoiceTest{name, &binary->right};
  if (const Name* name = parameter(binary->right)) return ChoiceTest{name, &binary->left};
  return std::nullopt;
}

Chosen first_choices(const Function& function) {
  Chosen chosen;
  for (const Parameter& each : function.parameters)
    if (const auto& choices = choices_of(function, each.name); !choices.empty())
      chosen.emplace(each.name.spelled(), choices.front());
  return chosen;
}

std::optional<Function> with_choices(const Function& function, const Chosen& chosen) {
  if (chosen.empty()) return std::nullopt;
  Function made = function;
  const Chooser chooser(function, chosen);
  for (Statement& each : made.statements) chooser.in(each);
  return made;
}

}  // namespace tilec::lang
