#include "poly/size_expression.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "lang/builtin.h"
#include "lang/messages.h"
#include "lang/print.h"
#include "poly/call.h"
#include "poly/callee.h"
#include "poly/fold.h"
#include "poly/interpret.h"
#include "poly/scalar.h"

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

// Of parameters that are no integers `delta > 0` is known before the run too, and so is `as_type(alpha, X) == alpha`: 0
// or 1.
std::optional<Size> numbers_compared(Scope& scope, const lang::Expr& expr) {
  std::vector<lang::Name> names;
  names_in(expr, names);
  const auto is_number = [&](const lang::Name& name) {
    const auto at = scope.names.find(name.spelled());
    return at != scope.names.end() && at->second.kind == Named::Kind::Weak;
  };
  const auto* condition = is_condition(expr) ? expr.as<lang::Binary>() : nullptr;
  const auto* cast = condition ? condition->left.as<lang::Call>() : nullptr;
  const bool typed = cast && cast->function.text == "as_type" && !function_meant(scope, cast->function);
  if (!condition || (!typed && std::none_of(names.begin(), names.end(), is_number))) return std::nullopt;
  Body body{.scope = scope};
  const auto value = scalar_of(body, expr);
  if (!value) return Size(1);                            // it was reported
  const Expr known = folded(value->expr);
  const auto* number = known.as<Number>();
  return number ? std::optional(Size(number->integer != 0 ? 1 : 0)) : std::nullopt;
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
    const auto at = scope.names.find(name.spelled());
    const bool whole = at == scope.names.end() || at->second.kind == Named::Kind::Size;
    const auto size = known || !whole ? std::nullopt : size_named(scope, name, span);
    if (size) sizes.emplace_back(name.text, *size);
  }
  if (value.is(0)) {                                     // said at once, before what it guards goes wrong
    std::string with;
    for (const auto& [name, size] : sizes)
      with += fmt::format("{}{} = {}", with.empty() ? ", with " : " and ", name, size.print());
    scope.diagnostics.report(span, messages::assertion_fails, call.function.text, lang::print(condition), with);
    scope.failed = true;
    return;
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
      [&](const lang::Binary& b) {
        const auto known = numbers_compared(scope, expr);
        return known ? known : size_applied(scope, b.op, {b.left, b.right}, span);
      },
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

}  // namespace tilec::poly
