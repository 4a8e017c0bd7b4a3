// Names, sizes and index expressions of one function.
#include "poly/scope.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "lang/builtin.h"
#include "lang/limit.h"
#include "lang/messages.h"
#include "lang/print.h"
#include "poly/call.h"
#include "poly/interpret.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

std::optional<Size> fault(Scope& scope, Span span, const std::string& what) {
  scope.diagnostics.report(span, messages::size_arithmetic, what);
  return std::nullopt;
}

std::string what_it_is(const Scope& scope, const Named& named) {
  switch (named.kind) {
    case Named::Kind::Tensor: {
      const auto& tensor = scope.tensor(named.tensor);
      return tensor.shape.empty() ? fmt::format("an element of type {}, computed or given", lang::name(tensor.dtype))
                                  : fmt::format("a tensor with {}", counted(tensor.shape.size(), "dimension"));
    }
    case Named::Kind::Weak:
      return named.scalar->weak == Scalar::Weak::Integer && named.scalar->literal
          ? "beyond the integers of sizes, which have 64 bits and a sign"
          : "not an integer";
    case Named::Kind::Tuple: return "a tuple";
    case Named::Kind::Element: return "a value of the statement";
    default: return "not a size";
  }
}

std::optional<Size> size_named(Scope& scope, const lang::Name& name, Span span) {
  const auto* named = find(scope, name, span);
  if (!named) return std::nullopt;
  if (named->kind == Named::Kind::Size) return named->size;
  auto entry = scope.diagnostics.report(span, messages::not_a_size, name.spelled(), what_it_is(scope, *named));
  entry.label(named->span, "declared here");
  if (!name.upper && named->kind == Named::Kind::Tensor)
    entry.hint(fmt::format(
        "an index has a name that nothing else has: call the tensor `{}_values`, or the index `i`", name.spelled()));
  return std::nullopt;
}

// Bit operations and comparisons of numbers; what sizes have as operations of their own stays symbolic.
Size size_apply(Op op, const std::vector<Size>& a) {
  using Kind = Size::Kind;
  const auto less = [](const Size& x, const Size& y) { return Size::apply(Kind::Less, {x, y}); };
  switch (op) {
    case Op::Add: return a[0] + a[1];
    case Op::Sub: return a[0] - a[1];
    case Op::Mul: return a[0] * a[1];
    case Op::Div: return a[0] / a[1];
    case Op::Neg: return -a[0];
    case Op::Eq: return Size::apply(Kind::Equal, a);
    case Op::Ne: return Size(1) - Size::apply(Kind::Equal, a);
    case Op::Lt: return less(a[0], a[1]);
    case Op::Gt: return less(a[1], a[0]);
    case Op::Le: return Size(1) - less(a[1], a[0]);
    case Op::Ge: return Size(1) - less(a[0], a[1]);
    case Op::Max: return Size::apply(Kind::Max, a);
    case Op::Min: return Size::apply(Kind::Min, a);
    case Op::Mod: return Size::apply(Kind::Mod, a);
    case Op::Abs: return Size::apply(Kind::Max, {a[0], -a[0]});
    case Op::Relu: return Size::apply(Kind::Max, {a[0], 0});
    case Op::Fma: return a[0] * a[1] + a[2];
    case Op::Select: return Size::apply(Kind::Cond, a);
    case Op::Ceil: case Op::Floor: case Op::Round: case Op::Trunc: return a[0];
    default: break;
  }
  std::vector<Number> numbers;
  for (const auto& size : a) {
    if (!size.value()) throw SizeError(fmt::format("`{}` needs numbers, not size names", lang::info(op).name));
    numbers.push_back({.type = DType::I64, .integer = *size.value()});
  }
  return evaluate(op, numbers, DType::I64).integer;
}

bool is_condition(const lang::Expr& expr) {
  const auto* b = expr.as<lang::Binary>();
  return b &&
      (lang::info(b->op).result == lang::Result::Boolean ||
          ((b->op == Op::And || b->op == Op::Or) && is_condition(b->left) && is_condition(b->right)));
}

std::optional<Size> size_applied(Scope& scope, Op op, const std::vector<lang::Expr>& arguments, Span span) {
  const auto& facts = lang::info(op);
  if (static_cast<std::size_t>(facts.arity) != arguments.size()) {
    scope.diagnostics.report(span, messages::argument_count, facts.name,
        counted(static_cast<std::size_t>(facts.arity), "argument"), std::to_string(arguments.size()));
    return std::nullopt;
  }
  if (facts.result == lang::Result::Float || op == Op::IsNan || op == Op::IsFinite)
    return fault(scope, span, fmt::format("`{}` does not give an integer", facts.name));
  std::vector<Size> values;
  for (const auto& argument : arguments) {
    auto value = size_of(scope, argument);
    if (!value) return std::nullopt;
    values.push_back(std::move(*value));
  }
  // Of conditions, 0 or 1 each, `&` is the smaller and `|` the larger, for names too.
  const bool conditions = std::all_of(arguments.begin(), arguments.end(), is_condition);
  if (conditions && (op == Op::And || op == Op::Or))
    return Size::apply(op == Op::And ? Size::Kind::Min : Size::Kind::Max, values);
  try {
    return size_apply(op, values);
  } catch (const SizeError& error) {
    return fault(scope, span, error.what());
  }
}

// broadcast(N, 1) ⇒ N; of two names the first, and an assertion that they agree or one of them is 1.
std::optional<Size> size_broadcast(Scope& scope, const Size& a, const Size& b, Span span) {
  if (a == b || b.is(1)) return a;
  if (a.is(1)) return b;
  const auto equals = [](const Size& x, const Size& y) { return Size::apply(Size::Kind::Equal, {x, y}); };
  const Size fits = equals(a, b) + equals(a, 1) + equals(b, 1);
  if (fits.is(0))
    return fault(
        scope, span, fmt::format("`broadcast` of {} and {}: they differ, and neither is 1", a.print(), b.print()));
  if (!fits.value())
    scope.program.requirements.push_back(
        {fits, 0, Condition::Nonzero, "`broadcast`: sizes differ, and neither is 1", span, {}});
  return Size::apply(Size::Kind::Cond, {equals(a, 1), b, a});
}

std::optional<Size> size_match(Scope& scope, const Size& a, const Size& b, Span span) {
  if (require_equal(scope, a, b, "`match` takes equal sizes", span)) return a;
  return fault(scope, span, fmt::format("`match` of {} and {}, which differ", a.print(), b.print()));
}

std::optional<Size> size_function(Scope& scope, const lang::Call& call, Span span) {
  if (call.arguments.size() != 2) {
    scope.diagnostics.report(
        span, messages::argument_count, call.function.text, "2 arguments", std::to_string(call.arguments.size()));
    return std::nullopt;
  }
  const auto a = size_of(scope, call.arguments[0]), b = size_of(scope, call.arguments[1]);
  if (!a || !b) return std::nullopt;
  return call.function.text == "match" ? size_match(scope, *a, *b, span) : size_broadcast(scope, *a, *b, span);
}

// half(N), a function of the text: inlined like any call, of which a size must come.
std::optional<Size> size_made(Scope& scope, const lang::Call& call, Span span) {
  const auto made = made_by(scope, call, fresh(scope, "S"), span);
  if (!made) return std::nullopt;
  if (made->kind == Named::Kind::Size) return made->size;
  scope.diagnostics.report(span, messages::not_a_size, call.function.text + "(…)", what_it_is(scope, *made));
  return std::nullopt;
}

// With the condition as it is written: folded, or with a caller's sizes in it, its reader would not know it again.
void assert_nonzero(Scope& scope, const lang::Call& call, const Size& value, Span span) {
  const lang::Expr& condition = call.arguments[0];
  std::vector<lang::Name> names;
  names_in(condition, names);
  std::vector<std::pair<std::string, Size>> sizes;
  for (const auto& name : names) {
    const bool known =
        std::any_of(sizes.begin(), sizes.end(), [&](const auto& size) { return size.first == name.text; });
    const auto size = known ? std::nullopt : size_named(scope, name, span);
    if (size) sizes.emplace_back(name.text, *size);
  }
  scope.program.requirements.push_back(
      {value, 0, Condition::Nonzero, call.function.text, span, {}, lang::print(condition), std::move(sizes)});
}

std::optional<Size> size_called(Scope& scope, const lang::Call& written, Span span) {
  if (function_meant(scope, written.function)) return size_made(scope, written, span);
  const lang::Call call = meant(scope, written);
  if (is_size_function(call)) return size_function(scope, call, span);
  if (call.function.text == "clamp" && call.arguments.size() == 3) {
    const auto x = size_of(scope, call.arguments[0]), low = size_of(scope, call.arguments[1]),
               high = size_of(scope, call.arguments[2]);
    if (!x || !low || !high) return std::nullopt;
    return Size::apply(Size::Kind::Min, {Size::apply(Size::Kind::Max, {*x, *low}), *high});
  }
  if (call.function.text.starts_with("assert_") && call.arguments.size() == 1) {
    const auto value = size_of(scope, call.arguments[0]);
    if (value && value->value().value_or(0) == 0) assert_nonzero(scope, call, *value, span);
    return value;
  }
  if (call.function.text == "ident" && call.arguments.size() == 1) return size_of(scope, call.arguments[0]);
  if (const auto op = lang::function_named(call.function.text)) return size_applied(scope, *op, call.arguments, span);
  if (call.function.text == "div") return size_applied(scope, Op::Div, call.arguments, span);
  if (is_called_number(scope, call.function)) return std::nullopt;
  return fault(scope, span, fmt::format("`{}` is no function of sizes", call.function.text));
}

std::optional<Size> size_literal(Scope& scope, const lang::Number& number, Span span) {
  if (number.is_float) {
    scope.diagnostics.report(span, messages::not_a_size, number.text, "not an integer");
    return std::nullopt;
  }
  if (number.integer > static_cast<std::uint64_t>(INT64_MAX))
    return fault(scope, span, fmt::format("`{}` does not fit a 64-bit size", number.text));
  const auto value = static_cast<std::int64_t>(number.integer);
  return Size(number.negative ? -value : value);
}

std::optional<Affine> not_affine(Scope& scope, Span span, const std::string& what) {
  scope.diagnostics.report(span, messages::not_affine, what);
  return std::nullopt;
}

std::optional<Affine> combine(Scope& scope, Op op, const Affine& left, const Affine& right, Span span) {
  switch (op) {
    case Op::Add: return left.plus(right);
    case Op::Sub: return left.plus(right.times(-1));
    case Op::Mul: {
      if (!left.is_constant() && !right.is_constant()) return not_affine(scope, span, "it multiplies two indices");
      const Affine& factor = left.is_constant() ? left : right;
      Affine product = left.is_constant() ? right : left;
      product.divisor = product.divisor * factor.divisor;
      return product.times(factor.constant);
    }
    case Op::Div: {
      if (!right.is_constant()) return not_affine(scope, span, "it divides by an index");
      if (right.constant.is(0)) {
        fault(scope, span, "an index expression divides by zero");
        return std::nullopt;
      }
      const bool negative = right.constant.value().value_or(0) < 0;
      Affine quotient = left.times(negative ? -right.divisor : right.divisor);
      quotient.divisor = quotient.divisor * (negative ? -right.constant : right.constant);
      return quotient.times(1);
    }
    default: return not_affine(scope, span, fmt::format("`{}` of an index", lang::info(op).symbol));
  }
}

// (2*i + 1)/2 has no integer value: the gcd of coefficients and divisor must divide the constant.
bool never_integral(const Affine& form) {
  const auto divisor = form.divisor.value(), constant = form.constant.value();
  if (!divisor || !constant || *divisor == 1) return false;
  std::int64_t shared = *divisor;
  for (const auto& coefficient : form.coefficients) {
    if (!coefficient.value() || coefficient.is(INT64_MIN)) return false;
    shared = std::gcd(shared, *coefficient.value());
  }
  return shared != 0 && *constant % shared != 0;
}

}  // namespace

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
  Named named;                                          // beyond the integers of sizes, or no integer
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

}  // namespace

namespace {

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
  const auto all = [&](const std::vector<lang::Expr>& list) {
    for (const auto& e : list) names_in(e, names);
  };
  expr.match([](const lang::Number&) {}, [&](const lang::Variable& v) { names.push_back(v.name); },
             [&](const lang::Unary& u) { names_in(u.operand, names); },
             [&](const lang::Binary& b) { names_in(b.left, names), names_in(b.right, names); },
             [&](const lang::Access& a) { all(a.element); }, [&](const lang::Call& c) { all(c.arguments); },
             [&](const lang::Select& s) {
               names_in(s.condition, names), names_in(s.then, names);
               if (s.otherwise) names_in(*s.otherwise, names);
             });
}

bool mentions_index(const Scope& scope, const lang::Expr& expr) {
  std::vector<lang::Name> names;
  names_in(expr, names);
  return std::any_of(names.begin(), names.end(), [&](const lang::Name& name) { return is_index(scope, name); });
}

bool is_size_expression(const Scope& scope, const lang::Expr& expr) {
  const auto all = [&](const std::vector<lang::Expr>& list) {
    return std::all_of(list.begin(), list.end(), [&](const lang::Expr& e) { return is_size_expression(scope, e); });
  };
  return expr.match([](const lang::Number& n) { return !n.is_float; },
      [&](const lang::Variable& v) {
        const auto at = scope.names.find(v.name.spelled());
        return at != scope.names.end() && at->second.kind == Named::Kind::Size;
      },
      [&](const lang::Unary& u) { return is_size_expression(scope, u.operand); },
      [&](const lang::Binary& b) { return all({b.left, b.right}); }, [](const lang::Access&) { return false; },
      [&](const lang::Call& written) {
        if (const auto callee = function_meant(scope, written.function))
          return all(written.arguments) && gives_size(scope, *callee, written);
        const lang::Call c = meant(scope, written);
        const auto op = lang::function_named(c.function.text);
        const bool integer =
            op && lang::info(*op).result != lang::Result::Float && *op != Op::IsNan && *op != Op::IsFinite;
        return (integer || c.function.text == "ident" || c.function.text == "div" || c.function.text == "clamp" ||
                   is_assertion(expr) || is_size_function(c)) &&
            all(c.arguments);
      },
      [&](const lang::Select& s) { return s.otherwise && all({s.condition, s.then, *s.otherwise}); });
}

bool is_assertion(const lang::Expr& expr) {
  const auto* call = expr.as<lang::Call>();
  return call && call->function.text.starts_with("assert_");
}

bool is_size_function(const lang::Call& call) {
  return call.function.text == "broadcast" || call.function.text == "match";
}

std::optional<Size> size_of(Scope& scope, const lang::Expr& expr) {
  const Span span = expr.span();
  return expr.match(
      [&](const lang::Number& n) { return size_literal(scope, n, span); },
      [&](const lang::Variable& v) { return size_named(scope, v.name, span); },
      [&](const lang::Unary& u) { return size_applied(scope, u.op, {u.operand}, span); },
      [&](const lang::Binary& b) { return size_applied(scope, b.op, {b.left, b.right}, span); },
      [&](const lang::Access& a) -> std::optional<Size> {
        if (a.element.empty()) return size_named(scope, a.tensor, span);
        scope.diagnostics.report(span, messages::not_a_size, lang::print(expr), "an element of a tensor");
        return std::nullopt;
      },
      [&](const lang::Call& c) { return size_called(scope, c, span); },
      [&](const lang::Select& s) -> std::optional<Size> {
        if (!s.otherwise) return fault(scope, span, "`?` without `:`");
        return size_applied(scope, Op::Select, {s.condition, s.then, *s.otherwise}, span);
      });
}

std::optional<Affine> affine_of(Scope& scope, const std::vector<std::string>& indices, const lang::Expr& expr) {
  const Span span = expr.span();
  const auto constant = [&](const std::optional<Size>& size) {
    return size ? std::optional(Affine::of(*size, indices.size())) : std::nullopt;
  };
  try {
    return expr.match(
        [&](const lang::Variable& v) -> std::optional<Affine> {
          if (!is_index(scope, v.name)) return constant(size_named(scope, v.name, span));
          const auto at = std::find(indices.begin(), indices.end(), v.name.spelled());
          if (at == indices.end()) throw lang::InternalError("index `" + v.name.spelled() + "` was not collected");
          return Affine::index(static_cast<std::size_t>(at - indices.begin()), indices.size());
        },
        [&](const lang::Unary& u) -> std::optional<Affine> {
          const auto operand = affine_of(scope, indices, u.operand);
          if (!operand) return std::nullopt;
          return u.op == Op::Neg ? std::optional(operand->times(-1))
                                 : not_affine(scope, span, "`~` of an index expression");
        },
        [&](const lang::Binary& b) -> std::optional<Affine> {
          const auto left = affine_of(scope, indices, b.left), right = affine_of(scope, indices, b.right);
          return left && right ? combine(scope, b.op, *left, *right, span) : std::nullopt;
        },
        [&](const auto&) -> std::optional<Affine> {
          if (mentions_index(scope, expr))
            return not_affine(scope, span, fmt::format("`{}` works on an index", lang::print(expr)));
          return constant(size_of(scope, expr));
        });
  } catch (const SizeError& error) {
    fault(scope, span, error.what());
    return std::nullopt;
  }
}

std::optional<Affine> element_of(Scope& scope, const std::vector<std::string>& indices, const lang::Expr& expr) {
  auto form = affine_of(scope, indices, expr);
  if (form && never_integral(*form))
    scope.diagnostics.report(expr.span(), messages::never_integral, form->print(indices))
        .hint("`/` is exact in an index; assign a truncated quotient first: `P = K/2;`, then use `P`");
  return form;
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
          const bool width = builtin && builtin->name == "as_float" && use(k) == InputUse::Extent;
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

}  // namespace

void find_used_as_size(const lang::Function& function, Scope& scope) {
  for (const auto& input : function.inputs)
    if (input.sizes)
      for (const auto& size : *input.sizes) mark(size, scope.used_as_size);
  std::set<std::string> widths;
  for (const auto& statement : function.statements) {
    if (const auto* c = std::get_if<lang::Contraction>(&statement.node)) mark_contraction(*c, scope, widths);
    if (const auto* a = std::get_if<lang::Assignment>(&statement.node)) mark_inside(a->value, scope, widths);
    if (const auto* t = std::get_if<lang::TupleAssignment>(&statement.node)) mark_inside(t->value, scope, widths);
  }
  for (const auto& name : widths)
    if (!scope.used_as_value.contains(name)) scope.used_as_extent.insert(name);
  // `P = S/2;` with P a size makes S one: from the last statement to the first, because names are assigned before use.
  for (auto statement = function.statements.rbegin(); statement != function.statements.rend(); ++statement)
    if (const auto* a = std::get_if<lang::Assignment>(&statement->node))
      for (auto* marked : {&scope.used_as_size, &scope.used_as_extent})
        if (marked->contains(a->target.name.spelled())) mark(a->value, *marked);
}

}  // namespace tilec::poly
