// Names of one function.
#include "poly/scope.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "lang/builtin.h"
#include "lang/limit.h"
#include "lang/messages.h"
#include "lang/print.h"
#include "lang/walk.h"
#include "poly/callee.h"

namespace tilec::poly {

namespace messages = lang::messages;

Named Named::of_tensor(TensorId id, Span span, bool weak) {
  Named named;
  named.kind = Kind::Tensor;
  named.tensor = id;
  named.weak = weak;
  named.span = span;
  return named;
}

Named Named::of_size(Size size, Span span, bool literal) {
  Named named;
  named.kind = Kind::Size;
  named.size = std::move(size);
  named.literal = literal;
  named.span = span;
  return named;
}

Named number_of(const lang::Number& number, Span span) {
  const Scalar scalar = number.is_float ? float_literal(number.negative && number.real > 0 ? -number.real : number.real)
                                        : integer_literal(number.integer, number.negative, 0);
  if (const auto* size = scalar.expr.as<Index>()) return Named::of_size(size->value.constant, span, true);
  Named named;                                         // beyond the integers of sizes, or no integer
  named.kind = Named::Kind::Weak;
  named.scalar = scalar;
  named.span = span;
  return named;
}

std::string shape_text(const std::vector<Size>& shape) {
  std::string text;
  for (const auto& size : shape) text += (text.empty() ? "" : ", ") + size.print();
  return "[" + text + "]";
}

namespace {

// `wish`, else `wish_1`, …; the tick stays last. `tried`: up to where they are known to be taken.
template <class Taken> std::string not_taken(const std::string& wish, int& tried, const Taken& taken) {
  const bool primed = wish.ends_with('\'');
  const std::string stem = primed ? wish.substr(0, wish.size() - 1) : wish;
  for (;; ++tried) {
    std::string name = tried == 0 ? wish : fmt::format("{}_{}{}", stem, tried, primed ? "'" : "");
    if (!taken(name)) return name;
  }
}

// Of `Y_1`, which is not to become `Y_1_1`, `Y`.
std::string without_number(const std::string& name) {
  const auto end = name.find_last_not_of("0123456789");
  return end != std::string::npos && end > 0 && end + 1 < name.size() && name[end] == '_' ? name.substr(0, end) : name;
}

}  // namespace

std::string fresh(Scope& scope, const std::string& wish) {
  return not_taken(wish, scope.tried[wish],
      [&](const std::string& name) { return scope.declared.contains(name) || scope.names.contains(name); });
}

std::string wished_name(const Scope& scope, const std::string& name) {
  const auto at = scope.called.find(name);
  return at == scope.called.end() ? name : at->second;
}

// Every tensor of a text comes by here, so what holds of one holds of all.
TensorId add_tensor(Scope& scope, Tensor tensor) {
  if (!lang::within(lang::Limit::Indices, std::ssize(tensor.shape), tensor.span, scope.diagnostics))
    scope.failed = scope.inlined->over = true;
  tensor.name = wished_name(scope, tensor.name);
  scope.program.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(scope.program.tensors.size()) - 1;
}

void name_tensors(Scope& scope) {
  auto& tensors = scope.program.tensors;
  std::set<std::string> taken(scope.program.sizes.begin(), scope.program.sizes.end());
  taken.insert(scope.declared.begin(), scope.declared.end());
  std::vector<bool> done(tensors.size());
  std::set<std::string> held;
  const auto hold = [&](TensorId id) {
    const auto& name = tensors[static_cast<std::size_t>(id)].name;
    const bool is_size =
        std::find(scope.program.sizes.begin(), scope.program.sizes.end(), name) != scope.program.sizes.end();
    done[static_cast<std::size_t>(id)] = done[static_cast<std::size_t>(id)] || (!is_size && held.insert(name).second);
  };
  std::for_each(scope.program.outputs.begin(), scope.program.outputs.end(), hold);
  for (const auto& [name, named] : scope.names)
    if (named.kind == Named::Kind::Tensor && tensors[static_cast<std::size_t>(named.tensor)].name == name)
      hold(named.tensor);
  taken.merge(held);
  std::map<std::string, int> tried;
  for (std::size_t id = 0; id < tensors.size(); ++id) {
    if (done[id]) continue;
    auto& name = tensors[id].name;
    if (taken.contains(name)) {
      const auto stem = without_number(name);
      name = not_taken(stem, tried[stem], [&](const std::string& each) { return taken.contains(each); });
    }
    taken.insert(name);
  }
}

void want(Scope& scope, TensorId tensor, DType type) {
  std::set<TensorId> made_of{tensor};
  for (auto node = scope.program.nodes.rbegin(); node != scope.program.nodes.rend(); ++node) {
    if (const auto* s = std::get_if<Statement>(&*node)) {
      if (!made_of.contains(s->target.tensor)) continue;
      for (const auto& read : s->reads) made_of.insert(read.tensor);
    } else {
      const auto& i = std::get<Intrinsic>(*node);
      if (std::any_of(i.targets.begin(), i.targets.end(), [&](TensorId id) { return made_of.contains(id); }))
        made_of.insert(i.operands.begin(), i.operands.end());
    }
  }
  for (const auto id : made_of)
    if (scope.assumed->inputs.contains(id)) scope.assumed->wanted.emplace(scope.tensor(id).name, type);
}

bool is_index(const Scope& scope, const lang::Name& name) {
  return !name.upper && !scope.declared.contains(name.spelled());
}

const Named* find(const Scope& scope, const lang::Name& name, Span span) {
  const auto at = scope.names.find(name.spelled());
  if (at == scope.names.end()) {
    if (const auto parameter = scope.parameters.find(name.spelled()); parameter != scope.parameters.end())
      scope.diagnostics.report(span, messages::parameter_kind, name.spelled(),
          parameter->second.function || !parameter->second.builtin.empty() ? "a function" : "an aggregation",
          "a value");
    else scope.diagnostics.report(span, messages::no_such_value, name.spelled());
    return nullptr;
  }
  return at->second.kind == Named::Kind::Failed ? nullptr : &at->second;
}

void names_in(const lang::Expr& expr, std::vector<lang::Name>& names) {
  lang::each_variable(expr, [&](const lang::Variable& variable) { names.push_back(variable.name); });
}

bool require_equal(Scope& scope, const Size& left, const Size& right, std::string message, Span span,
    std::vector<lang::Label> labels) {
  if (left == right) return true;
  if (left.value() && right.value()) return false;
  for (const auto& known : scope.program.requirements)
    if (known.condition == Condition::Equal &&
        ((known.left == left && known.right == right) || (known.left == right && known.right == left)))
      return true;
  scope.program.requirements.push_back({left, right, Condition::Equal, std::move(message), span, std::move(labels)});
  return true;
}

void find_declared(const lang::Function& function, Scope& scope) {
  for (const auto& input : function.inputs) {
    scope.declared.insert(input.target.name.spelled());
    if (!input.sizes) continue;
    for (const auto& size : *input.sizes)
      if (const auto* variable = size.as<lang::Variable>()) scope.declared.insert(variable->name.spelled());
  }
  for (const auto& parameter : function.parameters) scope.declared.insert(parameter.name.spelled());
  for (const auto& statement : function.statements) {
    if (const auto* a = std::get_if<lang::Assignment>(&statement.node)) scope.declared.insert(a->target.name.spelled());
    if (const auto* c = std::get_if<lang::Contraction>(&statement.node))
      scope.declared.insert(c->target.name.spelled());
    if (const auto* t = std::get_if<lang::TupleAssignment>(&statement.node))
      for (const auto& target : t->targets) scope.declared.insert(target.name.spelled());
  }
}

namespace {

void mark(const lang::Expr& expr, std::set<std::string>& marked) {
  std::vector<lang::Name> names;
  names_in(expr, names);
  for (const auto& name : names) marked.insert(name.spelled());
}

// The places inside a value where only sizes can stand, and the names that stand for values.
void mark_inside(const lang::Expr& expr, Scope& scope, std::set<std::string>& widths) {
  const auto inside = [&](const lang::Expr& e) { mark_inside(e, scope, widths); };
  expr.match([](const lang::Number&) {}, [&](const lang::Variable& v) { scope.used_as_value.insert(v.name.spelled()); },
      [&](const lang::Unary& u) { inside(u.operand); }, [&](const lang::Binary& b) { inside(b.left), inside(b.right); },
      [&](const lang::Access& a) {
        scope.used_as_value.insert(a.tensor.spelled());
        for (const auto& e : a.element) mark(e, scope.used_as_size);
      },
      [&](const lang::Call& c) {
        const auto* builtin = function_meant(scope, c.function) ? nullptr : lang::builtin_named(c.function.text);
        const std::size_t from = c.function.text.starts_with("assert_") ? 0
            : builtin                                                   ? builtin->sizes_from
                                                                        : lang::any_number;
        const auto uses = size_inputs(scope, c);
        const auto use = [&](std::size_t k) {
          if (k >= from) return InputUse::Size;
          if (builtin && k == builtin->size_or_tensor) return InputUse::Extent;
          return k < uses.size() ? uses[k] : InputUse::Value;
        };
        for (std::size_t k = 0; k < c.arguments.size(); ++k) {
          const bool width = builtin && lang::takes_type_of(builtin->name) && use(k) == InputUse::Extent;
          if (use(k) == InputUse::Value)
            inside(c.arguments[k]);
          else
            mark(c.arguments[k], use(k) == InputUse::Size ? scope.used_as_size : width ? widths : scope.used_as_extent);
        }
      },
      [&](const lang::Select& s) {
        inside(s.condition), inside(s.then);
        if (s.otherwise) inside(*s.otherwise);
      });
}

void mark_contraction(const lang::Contraction& c, Scope& scope, std::set<std::string>& widths) {
  if (const auto* name = c.default_value ? std::get_if<lang::Name>(&c.default_value->value) : nullptr)
    scope.used_as_default.insert(name->spelled());
  for (const auto& e : c.element) mark(e, scope.used_as_size);
  for (const auto& e : c.sizes) mark(e, scope.used_as_size);
  mark_inside(c.body, scope, widths);
  for (const auto& constraint : c.constraints) {
    if (constraint.low) mark(*constraint.low, scope.used_as_size);
    mark(constraint.polynomial, scope.used_as_size), mark(constraint.bound, scope.used_as_size);
  }
}

// `as_float(X, W)`: W is a width if nothing uses it as a value, and so is S of `W = 2*S;`. Of `Both = X + Z;` the
// type is meant, for other statements take X and Z as values.
void mark_widths(const lang::Function& function, Scope& scope, std::set<std::string> widths,
    const std::map<std::string, int>& values) {
  const auto used = [&](const std::string& name) {
    const auto at = values.find(name);
    return at == values.end() ? 0 : at->second;
  };
  std::erase_if(widths, [&](const std::string& name) { return used(name) > 0; });
  for (auto statement = function.statements.rbegin(); statement != function.statements.rend(); ++statement) {
    const auto* a = std::get_if<lang::Assignment>(&statement->node);
    if (!a || !widths.contains(a->target.name.spelled())) continue;
    std::vector<lang::Name> names;
    names_in(a->value, names);
    for (const auto& name : names)
      if (used(name.spelled()) <= 1) widths.insert(name.spelled());
  }
  for (const auto& statement : function.statements)
    if (const auto* a = std::get_if<lang::Assignment>(&statement.node)) widths.erase(a->target.name.spelled());
  scope.used_as_extent.merge(widths);
}

}  // namespace

void find_used_as_size(const lang::Function& function, Scope& scope) {
  for (const auto& input : function.inputs)
    if (input.sizes)
      for (const auto& size : *input.sizes) mark(size, scope.used_as_size);
  std::set<std::string> widths;
  std::map<std::string, int> values;                     // by how many statements a name is used as one
  std::set<std::string> used;
  used.swap(scope.used_as_value);
  for (const auto& statement : function.statements) {
    if (const auto* c = std::get_if<lang::Contraction>(&statement.node)) mark_contraction(*c, scope, widths);
    if (const auto* a = std::get_if<lang::Assignment>(&statement.node)) mark_inside(a->value, scope, widths);
    if (const auto* t = std::get_if<lang::TupleAssignment>(&statement.node)) mark_inside(t->value, scope, widths);
    for (const auto& name : scope.used_as_value) ++values[name];
    used.merge(scope.used_as_value);
    scope.used_as_value.clear();
  }
  scope.used_as_value.swap(used);
  mark_widths(function, scope, std::move(widths), values);
  // `P = S/2;` with P a size makes S one: from the last statement to the first, because names are assigned before use.
  for (auto statement = function.statements.rbegin(); statement != function.statements.rend(); ++statement)
    if (const auto* a = std::get_if<lang::Assignment>(&statement->node))
      for (auto* marked : {&scope.used_as_size, &scope.used_as_extent})
        if (marked->contains(a->target.name.spelled())) mark(a->value, *marked);
}

}  // namespace tilec::poly
