// From the text of a value to a typed expression.
#include "poly/scalar.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lang/builtin.h"
#include "lang/messages.h"
#include "lang/print.h"
#include "poly/body_call.h"
#include "poly/call.h"
#include "poly/callee.h"
#include "poly/elementwise.h"
#include "poly/interpret.h"
#include "poly/size_expression.h"
#include "poly/tuples.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

std::optional<Scalar> refuse(Body& body, Span span, const std::string& what, const std::string& hint = "") {
  auto entry = body.scope.diagnostics.report(span, messages::not_elementwise, what);
  if (!hint.empty()) entry.hint(hint);
  return std::nullopt;
}

bool arity_is(Body& body, const lang::Call& call, std::size_t count, Span span) {
  if (call.arguments.size() == count) return true;
  body.scope.diagnostics.report(span, messages::argument_count, call.function.text, counted(count, "argument"),
      std::to_string(call.arguments.size()));
  return false;
}

// `as_float(X, 16)` ⇒ f16, `as_float(X, Y)` ⇒ the float type that goes with Y's, `as_type(X, Y)` ⇒ Y's,
// `as_sum(X, Y)` ⇒ that of sums over Y; also `f16(X)`, `as_bool(X)`.
bool is_cast(const lang::Name& function) {
  const auto& name = function.text;
  return lang::takes_type_of(name) || name == "as_int" || name == "as_uint" || name == "as_bool" ||
      lang::dtype_named(name);
}

// Of the tensor or number that `expr` names. None: it names a width, or nothing.
std::optional<DType> type_of(const Body& body, const lang::Expr& expr) {
  const auto* variable = expr.as<lang::Variable>();
  const auto at = variable ? body.scope.names.find(variable->name.spelled()) : body.scope.names.end();
  if (at == body.scope.names.end()) return std::nullopt;
  const Named& named = at->second;
  if (named.kind == Named::Kind::Size && body.scope.used_as_value.contains(variable->name.spelled())) return DType::I64;
  const bool scalar = named.kind == Named::Kind::Weak || named.kind == Named::Kind::Element;
  if (named.kind != Named::Kind::Tensor && !scalar) return std::nullopt;
  return scalar ? named.scalar->expr.type() : body.scope.tensor(named.tensor).dtype;
}

// The type of a cast by the name of a tensor: of the elements, of a number near them, of their sum.
DType like(std::string_view cast, DType type) {
  if (cast == "as_type" || lang::is_float(type)) return type;
  if (cast == "as_float") return DType::F32;
  return type == DType::U64 ? type : DType::I64;
}

std::optional<DType> cast_type(Body& body, const lang::Call& call, Span span) {
  const auto& name = call.function.text;
  if (const auto type = lang::dtype_named(name)) return arity_is(body, call, 1, span) ? type : std::nullopt;
  if (name == "as_bool") return arity_is(body, call, 1, span) ? std::optional(DType::Bool) : std::nullopt;
  if (!arity_is(body, call, 2, span)) return std::nullopt;
  const auto named = lang::takes_type_of(name) ? type_of(body, call.arguments[1]) : std::nullopt;
  if (named) return like(name, *named);
  if (name == "as_type" || name == "as_sum") {
    refuse(body, call.arguments[1].span(), lang::print(call.arguments[1]),
        fmt::format("`{}(x, X)` takes the name of a tensor", name));
    return std::nullopt;
  }
  const auto width = size_of(body.scope, call.arguments[1]);
  if (!width) return std::nullopt;
  const std::string prefix = name == "as_float" ? "f" : name == "as_int" ? "i" : "u";
  const auto type = width->value() ? lang::dtype_named(prefix + std::to_string(*width->value())) : std::nullopt;
  if (!type)
    body.scope.diagnostics.report(call.arguments[1].span(), messages::cast_width, name,
        name == "as_float" ? "16, 32 or 64, or a tensor" : "8, 16, 32 or 64");
  return type;
}

// `given(X)`: whether the call gives input X. Nothing: another expression, or no such name.
std::optional<bool> is_given(Body& body, const lang::Expr& expr) {
  const auto* call = expr.as<lang::Call>();
  if (!call || call->function.text != "given" || function_meant(body.scope, call->function)) return std::nullopt;
  if (!arity_is(body, *call, 1, expr.span())) return std::nullopt;
  const auto* variable = call->arguments[0].as<lang::Variable>();
  if (!variable) {
    refuse(body, call->arguments[0].span(), lang::print(call->arguments[0]), "`given(X)` takes the name of an input");
    return std::nullopt;
  }
  const auto* named = find(body.scope, variable->name, expr.span());
  return named ? std::optional(!named->absent) : std::nullopt;
}

// `dims(B...) > 1`, as it is once ranks are known: of two literals.
std::optional<bool> literals_compared(const lang::Expr& expr) {
  const auto* b = expr.as<lang::Binary>();
  const auto* left = b ? b->left.as<lang::Number>() : nullptr;
  const auto* right = b ? b->right.as<lang::Number>() : nullptr;
  if (!left || !right || lang::info(b->op).result != lang::Result::Boolean) return std::nullopt;
  const auto value = [](const lang::Number& n) {
    return poly::Number{.type = DType::F64, .real = n.negative ? -n.real : n.real};
  };
  return evaluate(b->op, {value(*left), value(*right)}, DType::Bool).integer != 0;
}

// Of a `?:` that asks whether an input is given, or how many dimensions there are, the part that counts: the other is
// not compiled.
const lang::Expr* picked(Body& body, const lang::Select& s) {
  auto holds = s.otherwise ? literals_compared(s.condition) : std::nullopt;
  if (!holds && s.otherwise) holds = is_given(body, s.condition);
  return !holds ? nullptr : *holds ? &s.then : &*s.otherwise;
}

const Named* made_before(const Body& body, const lang::Expr& expr) {
  for (const auto& [node, named] : body.made)
    if (node.same_as(expr)) return &named;
  return nullptr;
}

// What `make` makes for an expression, under a name of its own.
template <class Make>
const Named* noted(Body& body, const lang::Expr& expr, const std::string& name, const Make& make) {
  const auto own = fresh(body.scope, name);
  body.scope.names[own] = {};                           // taken: the same expression may call again
  auto named = make(own);
  if (!named) return nullptr;
  body.scope.names[own] = *named;
  body.made.emplace_back(expr, std::move(*named));
  return &body.made.back().second;
}

// What a call that makes tensors stands for: made when first asked for, so its nodes stand before the statement.
const Named* made_once(Body& body, const lang::Call& call, const lang::Expr& expr, const std::string& name) {
  if (const auto* known = made_before(body, expr)) return known;
  return noted(body, expr, name, [&](const std::string& own) { return made_by(body.scope, call, own, expr.span()); });
}

// The k-th component of a tuple, or what a name stands for.
const Named* named_value(Body& body, const lang::Expr& expr) {
  if (const auto* variable = expr.as<lang::Variable>()) return find(body.scope, variable->name, expr.span());
  if (const auto* made = made_before(body, expr)) return made;
  if (makes_tuple(body.scope, expr))
    return noted(body, expr, "T", [&](const std::string& own) { return tuple_made(body.scope, expr, own); });
  const auto* call = expr.as<lang::Call>();
  if (call && call->function.text != "element" && !body.result && mentions_index(body.scope, expr)) {
    refuse(
        body, expr.span(), call->function.text + "(…)", "give its result a name first: a contraction reads elements");
    return nullptr;
  }
  if (call && makes_tensors(body.scope, *call)) return made_once(body, *call, expr, "T");
  if (!call || call->function.text != "element") {
    body.scope.diagnostics.report(expr.span(), messages::not_elementwise, lang::print(expr))
        .hint("`element` takes a tuple apart");
    return nullptr;
  }
  if (!arity_is(body, *call, 2, expr.span())) return nullptr;
  const auto* tuple = named_value(body, call->arguments[0]);
  const auto at = size_of(body.scope, call->arguments[1]);
  if (!tuple || !at) return nullptr;
  if (tuple->kind != Named::Kind::Tuple) {
    body.scope.diagnostics.report(call->arguments[0].span(), messages::not_elementwise, lang::print(call->arguments[0]))
        .hint("`element` takes a tuple apart");
    return nullptr;
  }
  if (!at->value() || *at->value() < 0 || *at->value() >= static_cast<std::int64_t>(tuple->elements.size())) {
    body.scope.diagnostics.report(call->arguments[1].span(), messages::bad_axis, "component " + at->print(),
        "a tuple with " + counted(tuple->elements.size(), "component"));
    return nullptr;
  }
  return &tuple->elements[static_cast<std::size_t>(*at->value())];
}

bool is_constant_name(const Scope& scope, const lang::Name& name) {
  return !name.upper && (name.text == "inf" || name.text == "nan") && !scope.declared.contains(name.spelled());
}

Scalar constant_named(const lang::Name& name) {
  return float_literal(
      name.text == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN());
}

Scalar read_scalar(Body& body, Access access, bool weak) {
  const auto type = body.scope.tensor(access.tensor).dtype;
  const auto expr = read(body, std::move(access));
  if (!weak) return {expr};
  return {expr, lang::is_float(type) ? Scalar::Weak::Float : Scalar::Weak::Integer, false};
}

std::optional<Scalar> value_of(Body& body, const Named& named, const lang::Expr& expr) {
  const Span span = expr.span();
  switch (named.kind) {
    case Named::Kind::Size: return affine_value(Affine::of(named.size, body.indices.size()), named.literal);
    case Named::Kind::Weak: return carried_here(body, named);
    case Named::Kind::Element: return named.scalar;
    case Named::Kind::Tensor: break;
    case Named::Kind::Tuple: return refuse(body, span, lang::print(expr), "a tuple is taken apart by `element`");
    case Named::Kind::Failed: return std::nullopt;
  }
  const auto& tensor = body.scope.tensor(named.tensor);
  if (body.result) return read_scalar(body, {named.tensor, aligned(tensor.shape, *body.result)}, named.weak);
  if (tensor.shape.empty()) return read_scalar(body, {named.tensor, {}}, named.weak);
  body.scope.diagnostics
      .report(
          span, messages::rank_mismatch, tensor.name, counted(tensor.shape.size(), "dimension"), "read", "0 indices")
      .label(tensor.span, "declared here")
      .hint(fmt::format("in a contraction a tensor is read at indices: `{}[…]`", tensor.name));
  return std::nullopt;
}

std::optional<Scalar> variable(Body& body, const lang::Name& name, const lang::Expr& expr) {
  if (!body.result && is_index(body.scope, name))
    for (std::size_t k = 0; k < body.indices.size(); ++k)
      if (body.indices[k] == name.spelled()) return affine_value(Affine::index(k, body.indices.size()));
  if (is_constant_name(body.scope, name)) return constant_named(name);
  const auto* named = find(body.scope, name, expr.span());
  return named ? value_of(body, *named, expr) : std::nullopt;
}

std::optional<Scalar> access(Body& body, const lang::Access& a, const lang::Expr& expr) {
  const Span span = expr.span();
  if (body.result) return refuse(body, span, lang::print(expr), "indices are for contractions: `O[i: N] = =(…);`");
  const auto* named = find(body.scope, a.tensor, span);
  if (!named) return std::nullopt;
  const std::size_t rank = named->kind == Named::Kind::Tensor ? body.scope.tensor(named->tensor).shape.size() : 0;
  if (a.element.size() != rank) {
    auto entry = body.scope.diagnostics.report(span, messages::rank_mismatch, a.tensor.spelled(),
        counted(rank, "dimension"), "read", counted(a.element.size(), "index"));
    entry.label(named->span, "declared here");
    return std::nullopt;
  }
  if (named->kind != Named::Kind::Tensor) return value_of(body, *named, expr);
  Access result{named->tensor, {}};
  bool whole = true;
  for (const auto& e : a.element) {
    auto form = element_of(body.scope, body.indices, e);
    whole &= form.has_value();
    if (form) result.element.push_back(std::move(*form));
  }
  return whole ? std::optional(read_scalar(body, std::move(result), named->weak)) : std::nullopt;
}

std::optional<Scalar> apply_to(Body& body, Op op, const std::vector<lang::Expr>& arguments, Span span) {
  std::vector<Scalar> operands;
  bool whole = true;
  for (const auto& argument : arguments) {
    auto value = scalar_of(body, argument);
    whole &= value.has_value();
    if (value) operands.push_back(std::move(*value));
  }
  return whole ? apply(op, operands, span, body.scope.diagnostics) : std::nullopt;
}

// An input that is not given and is 0.
bool is_nothing(const Scope& scope, const lang::Expr& expr) {
  const auto* variable = expr.as<lang::Variable>();
  const auto* read = expr.as<lang::Access>();
  const auto known = variable ? scope.names.find(variable->name.spelled())
      : read                  ? scope.names.find(read->tensor.spelled())
                              : scope.names.end();
  return known != scope.names.end() && known->second.absent == 0.0;
}

// In a sum of floats the 0 that changes none of them: x + 0.0 is 0.0 for -0.0.
void become_neutral(Scalar& zero, const Scalar& other) {
  const bool weak = zero.weak != Scalar::Weak::No;
  const bool is_float = weak
      ? other.weak == Scalar::Weak::Float || (other.weak == Scalar::Weak::No && lang::is_float(other.expr.type()))
      : lang::is_float(zero.expr.type());
  if (is_float) zero = weak ? float_literal(-0.0) : Scalar{Number{.type = zero.expr.type(), .real = -0.0}};
}

// What is not given costs nothing: `x + B` is x.
std::optional<Scalar> sum(Body& body, const lang::Binary& b, Span span) {
  auto left = scalar_of(body, b.left), right = scalar_of(body, b.right);
  if (!left || !right) return std::nullopt;
  if (is_nothing(body.scope, b.right)) become_neutral(*right, *left);
  else if (is_nothing(body.scope, b.left)) become_neutral(*left, *right);
  return apply(Op::Add, {*left, *right}, span, body.scope.diagnostics);
}

const View* view_of(const Body& body, const lang::Expr& expr) {
  for (const auto& [node, view] : body.views)
    if (node.same_as(expr)) return &view;
  return nullptr;
}

Scalar read_view(Body& body, const View& view) {
  const auto outer = aligned(view.shape, *body.result);
  Access access{view.tensor, {}};
  for (const auto& becomes : view.becomes)
    access.element.push_back(becomes ? outer[*becomes] : Affine::of(0, body.result->size()));
  return read_scalar(body, std::move(access), false);
}

// clamp(x, low, high) = min(max(x, low), high), rsqrt(x) = 1/sqrt(x), isinf(x): neither finite nor NaN.
std::optional<Scalar> composed(Body& body, const lang::Call& call, Span span) {
  const auto on = [&](Op op, const std::vector<Scalar>& operands) {
    return apply(op, operands, span, body.scope.diagnostics);
  };
  const auto& name = call.function.text;
  if (!arity_is(body, call, name == "clamp" ? 3 : 1, span)) return std::nullopt;
  std::vector<Scalar> x;
  for (const auto& argument : call.arguments) {
    auto value = scalar_of(body, argument);
    if (!value) return std::nullopt;
    x.push_back(std::move(*value));
  }
  const auto first = on(name == "clamp" ? Op::Max
          : name == "rsqrt"             ? Op::Sqrt
                                        : Op::IsFinite,
      name == "clamp" ? std::vector{x[0], x[1]} : x);
  if (!first) return std::nullopt;
  if (name == "clamp") return on(Op::Min, {*first, x[2]});
  if (name == "rsqrt") return on(Op::Recip, {*first});
  const auto nan = on(Op::IsNan, x);
  const auto either = nan ? on(Op::Or, {*first, *nan}) : std::nullopt;
  return either ? on(Op::Not, {*either}) : std::nullopt;
}

// The coordinate along an axis of T, as an i32 (Tile's type for it).
std::optional<Scalar> coordinate(Body& body, const lang::Call& call) {
  const auto shape = shape_of(body, call.arguments[0], "");
  const auto axis = size_of(body.scope, call.arguments[1]);
  if (!shape || !axis) return std::nullopt;
  if (!axis->value()) {
    body.scope.diagnostics.report(call.arguments[1].span(), messages::not_known_yet);
    return std::nullopt;
  }
  if (*axis->value() < 0 || *axis->value() >= static_cast<std::int64_t>(shape->size())) {
    body.scope.diagnostics.report(call.arguments[1].span(), messages::bad_axis, "axis " + axis->print(),
        "a tensor with " + counted(shape->size(), "dimension"));
    return std::nullopt;
  }
  return Scalar{Index{aligned(*shape, *body.result)[static_cast<std::size_t>(*axis->value())], DType::I32}};
}

// The extents of T along the last dimension of the result: a chain of choices, as the rank is known.
std::optional<Scalar> extents(Body& body, const lang::Call& call) {
  const auto shape = shape_of(body, call.arguments[0], "");
  if (!shape) return std::nullopt;
  const std::size_t count = body.result->size();
  if (shape->empty()) return Scalar{Number{.type = DType::I32}};
  const auto size = [&](std::size_t k) { return Expr{Index{Affine::of((*shape)[k], count), DType::I32}}; };
  Expr value = size(shape->size() - 1);
  for (std::size_t k = shape->size() - 1; k-- > 0;) {
    const Expr here = Apply{Op::Eq,
        {Index{Affine::index(count - 1, count), DType::I32},
            Number{.type = DType::I32, .integer = static_cast<std::int64_t>(k)}},
        DType::Bool};
    value = Apply{Op::Select, {here, size(k), value}, DType::I32};
  }
  return Scalar{value};
}

std::optional<Scalar> called(Body& body, const lang::Call& written, const lang::Expr& expr) {
  const Span span = expr.span();
  if (const auto* made = made_before(body, expr)) return value_of(body, *made, expr);
  if (const auto callee = function_meant(body.scope, written.function);
      callee && (!body.result || is_one_expression(body.scope, *callee)))
    return inlined_in_body(body, *callee, written, span);
  const lang::Call call = meant(body.scope, written);
  const auto& name = call.function.text;
  if (is_cast(call.function)) {
    const auto type = cast_type(body, call, span);
    const auto value = type ? scalar_of(body, call.arguments[0]) : std::nullopt;
    return value ? std::optional(cast(*value, *type)) : std::nullopt;
  }
  if (makes_tensors(body.scope, call))
    return refuse(body, span, name + "(…)", "give its result a name first: a contraction reads elements");
  if (name == "given") {
    const auto given = is_given(body, expr);
    return given ? std::optional(Scalar{Number{.type = DType::Bool, .integer = *given ? 1 : 0}}) : std::nullopt;
  }
  if (name == "ident") return arity_is(body, call, 1, span) ? scalar_of(body, call.arguments[0]) : std::nullopt;
  if (name == "clamp" || name == "rsqrt" || name == "isinf") return composed(body, call, span);
  if (is_assertion(expr) || is_size_function(call)) {
    const auto size = size_of(body.scope, expr);
    return size ? std::optional(affine_value(Affine::of(*size, body.indices.size()))) : std::nullopt;
  }
  if (name == "element") {
    const auto* named = named_value(body, expr);
    return named ? value_of(body, *named, expr) : std::nullopt;
  }
  if (body.result && (name == "reshape" || name == "index" || name == "shape")) {
    if (const auto* view = view_of(body, expr)) return read_view(body, *view);
    return name == "index" ? coordinate(body, call) : extents(body, call);
  }
  const auto op = lang::function_named(name);
  if (!op && is_called_number(body.scope, call.function)) return std::nullopt;
  if (!op)
    return refuse(
        body, span, name + "(…)", body.result ? "" : "a contraction's body holds scalar functions of elements only");
  if (!arity_is(body, call, static_cast<std::size_t>(lang::info(*op).arity), span)) return std::nullopt;
  return apply_to(body, *op, call.arguments, span);
}

// `a == b ? c` is c where a equals b, else 0, in the type of c. `a * b ? c` and `a + b ? c` mean the same: PlaidML's
// Tile did not look at which operator stood there.
std::optional<Scalar> masked(Body& body, const lang::Select& s, Span span) {
  const auto* test = s.condition.as<lang::Binary>();
  const bool compares = test && (test->op == Op::Eq || test->op == Op::Add || test->op == Op::Mul);
  const auto equal = compares ? apply_to(body, Op::Eq, {test->left, test->right}, span) : scalar_of(body, s.condition);
  const auto then = scalar_of(body, s.then);
  if (!equal || !then) return std::nullopt;
  return apply(
      Op::Select, {*equal, *then, integer_literal(0, false, body.indices.size())}, span, body.scope.diagnostics);
}

// Shapes.

std::optional<Shape> broadcast_all(
    Body& body, const std::vector<lang::Expr>& operands, const std::string& name, Span span) {
  std::optional<Shaped> all;
  bool whole = true;
  for (const auto& operand : operands) {
    const auto shape = shape_of(body, operand, name);
    if (!shape || !whole) {
      whole = false;
      continue;
    }
    if (!all) {
      all = Shaped{*shape, operand.span()};
      continue;
    }
    auto met = broadcast(body.scope, *all, {*shape, operand.span()}, span);
    if (!met) return std::nullopt;
    all = Shaped{std::move(*met), span};
  }
  return whole ? std::optional(all ? all->shape : Shape{}) : std::nullopt;
}

std::optional<Shape> reshaped(Body& body, const lang::Call& call, const lang::Expr& expr, const std::string& name) {
  if (const auto* known = view_of(body, expr)) return known->shape;
  if (call.arguments.empty()) {
    arity_is(body, call, 1, expr.span());
    return std::nullopt;
  }
  Shape to;
  for (std::size_t k = 1; k < call.arguments.size(); ++k) {
    auto size = size_of(body.scope, call.arguments[k]);
    if (!size) return std::nullopt;
    to.push_back(std::move(*size));
  }
  const auto operand = tensor_of(body.scope, call.arguments[0], fresh(body.scope, name));
  if (!operand) return std::nullopt;
  auto view = reshape(body.scope, *operand, to, fresh(body.scope, name), expr.span());
  if (!view) return std::nullopt;
  body.views.emplace_back(expr, std::move(*view));
  return to;
}

std::optional<Shape> made_shape(Body& body, const lang::Call& call, const lang::Expr& expr, const std::string& name) {
  const auto* made = made_once(body, call, expr, name);
  if (!made) return std::nullopt;
  return made->kind == Named::Kind::Tensor ? body.scope.tensor(made->tensor).shape : Shape{};
}

std::optional<Shape> shape_of_call(
    Body& body, const lang::Call& written, const lang::Expr& expr, const std::string& name) {
  if (makes_tensors(body.scope, written)) return made_shape(body, written, expr, name);
  if (const auto callee = function_meant(body.scope, written.function))
    return shape_of_one_expression(body, *callee, written, name, expr.span());
  const lang::Call call = meant(body.scope, written);
  const auto& function = call.function.text;
  if (is_assertion(expr) || is_size_function(call) || function == "given") return Shape{};
  if (function == "reshape") return reshaped(body, call, expr, name);
  if (function == "index")
    return arity_is(body, call, 2, expr.span()) ? shape_of(body, call.arguments[0], name) : std::nullopt;
  if (function == "shape") {
    if (!arity_is(body, call, 1, expr.span())) return std::nullopt;
    const auto shape = shape_of(body, call.arguments[0], name);
    return shape ? std::optional(Shape{static_cast<std::int64_t>(shape->size())}) : std::nullopt;
  }
  if (function == "element") {
    const auto* named = named_value(body, expr);
    if (!named) return std::nullopt;
    return named->kind == Named::Kind::Tensor ? body.scope.tensor(named->tensor).shape : Shape{};
  }
  if (is_cast(call.function) && !call.arguments.empty()) return shape_of(body, call.arguments[0], name);
  return broadcast_all(body, call.arguments, name, expr.span());
}

}  // namespace

Expr read(Body& body, Access access) {
  const auto type = body.scope.tensor(access.tensor).dtype;
  for (std::size_t k = 0; k < body.reads.size(); ++k)
    if (body.reads[k] == access) return Read{static_cast<int>(k), type};
  body.reads.push_back(std::move(access));
  return Read{static_cast<int>(body.reads.size()) - 1, type};
}

Scalar carried_here(Body& body, const Named& weak) {
  std::vector<int> where;
  for (const auto tensor : weak.reads) where.push_back(read(body, {tensor, {}}).as<Read>()->read);
  return {carried(weak.scalar->expr, where, body.indices.size()), weak.scalar->weak, weak.scalar->literal};
}

std::optional<Scalar> scalar_of(Body& body, const lang::Expr& expr) {
  const Span span = expr.span();
  return expr.match(
      [&](const lang::Number& n) -> std::optional<Scalar> {
        if (n.is_float) return float_literal(n.negative && n.real > 0 ? -n.real : n.real);
        return integer_literal(n.integer, n.negative, body.indices.size());
      },
      [&](const lang::Variable& v) { return variable(body, v.name, expr); },
      [&](const lang::Unary& u) {
        const auto* literal = u.op == Op::Neg ? u.operand.as<lang::Number>() : nullptr;
        if (literal && !literal->is_float && !literal->negative)
          return std::optional(integer_literal(literal->integer, true, body.indices.size()));
        return apply_to(body, u.op, {u.operand}, span);
      },
      [&](const lang::Binary& b) {
        return b.op == Op::Add ? sum(body, b, span) : apply_to(body, b.op, {b.left, b.right}, span);
      },
      [&](const lang::Access& a) { return access(body, a, expr); },
      [&](const lang::Call& c) { return called(body, c, expr); },
      [&](const lang::Select& s) {
        if (const auto* part = picked(body, s)) return scalar_of(body, *part);
        return s.otherwise ? apply_to(body, Op::Select, {s.condition, s.then, *s.otherwise}, span)
                           : masked(body, s, span);
      });
}

std::optional<Shape> shape_of(Body& body, const lang::Expr& expr, const std::string& name) {
  const Span span = expr.span();
  return expr.match(
      [](const lang::Number&) -> std::optional<Shape> { return Shape{}; },
      [&](const lang::Variable& v) -> std::optional<Shape> {
        if (is_constant_name(body.scope, v.name)) return Shape{};
        const auto* named = find(body.scope, v.name, span);
        if (!named) return std::nullopt;
        if (named->kind == Named::Kind::Element) return named->shape;
        return named->kind == Named::Kind::Tensor ? body.scope.tensor(named->tensor).shape : Shape{};
      },
      [&](const lang::Unary& u) { return shape_of(body, u.operand, name); },
      [&](const lang::Binary& b) { return broadcast_all(body, {b.left, b.right}, name, span); },
      [](const lang::Access&) -> std::optional<Shape> { return Shape{}; },  // refused by scalar_of
      [&](const lang::Call& c) { return shape_of_call(body, c, expr, name); },
      [&](const lang::Select& s) {
        if (const auto* part = picked(body, s)) return shape_of(body, *part, name);
        std::vector<lang::Expr> all{s.condition, s.then};
        if (s.otherwise) all.push_back(*s.otherwise);
        return broadcast_all(body, all, name, span);
      });
}

std::optional<Scalar> value_of_statement(Body& body, const lang::Expr& expr) {
  const auto before = body.scope.diagnostics.all().size();
  auto value = scalar_of(body, expr);
  const auto& all = body.scope.diagnostics.all();
  if (std::any_of(all.begin() + static_cast<std::ptrdiff_t>(before), all.end(),
          [](const lang::Diagnostic& d) { return d.code == messages::integers_only.code; }))
    for (const auto& read : body.reads) want(body.scope, read.tensor, DType::I32);
  return value;
}

}  // namespace tilec::poly
