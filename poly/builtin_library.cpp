// Built-ins that are a few statements of Tile, so that their gradients are derived as any other.
#include <fmt/core.h>

#include "lang/messages.h"
#include "lang/parse.h"
#include "poly/build.h"
#include "poly/builtin_arguments.h"
#include "poly/elementwise.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

// cumsum(X, 1)   ⇒   Y[i, j: M, N] = +(X[i, k]), k <= j;
std::optional<Named> running(Scope& scope, const Invocation& invocation, std::string_view aggregation) {
  const auto x = tensor_argument(scope, invocation, 0);
  if (!x) return std::nullopt;
  const std::size_t rank = scope.tensor(*x).shape.size();
  if (invocation.call.arguments.size() < 2 && rank != 1)
    return refuse(scope, invocation, 0, *x, "an axis, unless its tensor has one dimension",
        fmt::format("name the axis: `{}(…, 0)`", invocation.call.function.text));
  const auto axis =
      invocation.call.arguments.size() < 2 ? std::optional<std::size_t>(0) : axis_argument(scope, invocation, 1, rank);
  if (!axis) return std::nullopt;
  const auto indices = letters(rank + 1);
  const auto here = without(indices, rank);
  const auto text = fmt::format("function (X[{1}]) -> (Y) {{ Y[{0}: {1}] = {2}(X[{3}]), {4} <= {5}; }}", listed(here),
      listed(extents(rank)), aggregation, listed(with(here, *axis, indices[rank])), indices[rank], indices[*axis]);
  return expanded(scope, invocation, text, {*x});
}

// X[R, C] with sizes R and C said again, as Tile has it.
std::optional<TensorId> matrix(Scope& scope, const Invocation& invocation) {
  const auto x = tensor_argument(scope, invocation, 0);
  const auto sizes = x ? size_arguments(scope, invocation, 1) : std::nullopt;
  if (!sizes) return std::nullopt;
  const auto shape = scope.tensor(*x).shape;
  const auto wanted = fmt::format("a tensor of shape {}", shape_text(*sizes));
  if (shape.size() != 2) return refuse(scope, invocation, 0, *x, wanted);
  for (std::size_t k = 0; k < 2; ++k)
    if (!require_equal(scope, shape[k], (*sizes)[k],
            fmt::format("`{}` takes {}", invocation.call.function.text, wanted), invocation.span))
      return refuse(scope, invocation, 0, *x, wanted);
  return x;
}

// The type sums are computed in, which half precision must not lose on the way; integers become f32, as for `exp`.
std::string wide(DType type) {
  return std::string(lang::name(lang::is_float(type) ? lang::accumulator(type) : DType::F32));
}
std::string narrow(DType type) { return std::string(lang::name(lang::is_float(type) ? type : DType::F32)); }

std::string literal(double value) {
  const auto digits = fmt::format("{}", value);
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}

// The second argument of reverse_grad: a number in the text of the rule, or a scalar tensor that the rule reads.
struct Factor { std::string text; std::optional<TensorId> tensor; };

std::optional<Factor> factor(Scope& scope, const Invocation& invocation, DType type) {
  const auto& expr = invocation.call.arguments[1];
  const auto name = fresh(scope, invocation.name);
  if (!expr.as<lang::Variable>()) {
    const auto value = elementwise(scope, {.name = name, .span = expr.span()}, expr);
    if (!value) return std::nullopt;
    const auto* number = value->kind == Named::Kind::Weak ? value->scalar->expr.as<Number>() : nullptr;
    if (number) return Factor{literal(number->real), std::nullopt};
    if (value->kind == Named::Kind::Size && value->size.value())
      return Factor{std::to_string(*value->size.value()), std::nullopt};
    const auto id = stored(scope, *value,
        {.name = name,
            .dtype = value->kind == Named::Kind::Tensor ? std::nullopt : std::optional(type),
            .span = expr.span()});
    return id ? std::optional(Factor{"C", id}) : std::nullopt;
  }
  const auto id = tensor_of(scope, expr, name);
  return id ? std::optional(Factor{"C", id}) : std::nullopt;
}

struct Input { std::string name; TensorId like; };

// A derivative as a Program over the caller's sizes, by its position among those of the program.
std::size_t derivative(
    Scope& scope, const std::vector<Input>& inputs, const std::string& results, const std::string& body) {
  Signature signature;
  Texts names;
  for (const auto& [name, like] : inputs) {
    signature.inputs.push_back({.name = name, .dtype = scope.tensor(like).dtype, .shape = scope.tensor(like).shape});
    names.push_back(name);
  }
  lang::Diagnostics faults;
  const auto file =
      lang::parse({"<built-in>", fmt::format("function ({}) -> ({}) {{ {} }}", listed(names), results, body)}, faults);
  auto program = file ? build(*file, signature, faults) : std::nullopt;
  if (!program) throw lang::InternalError("the derivative of a built-in: " + faults.all()[0].message);
  scope.derivations->push_back({.made = std::move(program)});
  return scope.derivations->size() - 1;
}

}  // namespace

std::optional<Named> cumsum(Scope& scope, const Invocation& invocation) { return running(scope, invocation, "+"); }
std::optional<Named> cumprod(Scope& scope, const Invocation& invocation) { return running(scope, invocation, "*"); }

std::optional<Named> softmax(Scope& scope, const Invocation& invocation) {
  const auto x = matrix(scope, invocation);
  if (!x) return std::nullopt;
  const auto type = scope.tensor(*x).dtype;
  return expanded(scope, invocation, fmt::format(R"(function (X[R, C]) -> (Y) {{
    Mx[i: R] = >(X[i, j]);
    {0} E[i, j: R, C] = =(exp({0}(X[i, j]) - Mx[i]));
    S[i: R] = +(E[i, j]);
    {1} Y[i, j: R, C] = =(E[i, j] / S[i]);
  }})", wide(type), narrow(type)), {*x});
}

std::optional<Named> logsoftmax(Scope& scope, const Invocation& invocation) {
  const auto x = matrix(scope, invocation);
  if (!x) return std::nullopt;
  const auto type = scope.tensor(*x).dtype;
  return expanded(scope, invocation, fmt::format(R"(function (X[R, C]) -> (Y) {{
    Mx[i: R] = >(X[i, j]);
    {0} Z[i, j: R, C] = =({0}(X[i, j]) - Mx[i]);
    S[i: R] = +(exp(Z[i, j]));
    {1} Y[i, j: R, C] = =(Z[i, j] - log(S[i]));
  }})", wide(type), narrow(type)), {*x});
}

// The third argument, the number of elements of a mean, is without effect: the gradient is that of the value.
std::optional<Named> binary_crossentropy(Scope& scope, const Invocation& invocation) {
  const auto p = tensor_argument(scope, invocation, 0), t = tensor_argument(scope, invocation, 1);
  if (!p || !t) return std::nullopt;
  const Shaped left{scope.tensor(*p).shape, span_of(invocation, 0)},
      right{scope.tensor(*t).shape, span_of(invocation, 1)};
  if (!broadcast(scope, left, right, invocation.span)) return std::nullopt;
  return expanded(scope, invocation, "function (P, T) -> (Y) { Y = -(T * log(P)) - (1 - T) * log(1 - P); }", {*p, *t});
}

// Sums a tensor to sizes aligned at the last dimension: over dimensions that are missing there, and those that are 1
// there.
std::optional<Named> simple_reduce(Scope& scope, const Invocation& invocation) {
  const auto t = tensor_argument(scope, invocation, 0);
  const auto to = t ? size_arguments(scope, invocation, 1) : std::nullopt;
  if (!to) return std::nullopt;
  const auto from = scope.tensor(*t).shape;
  const auto wanted = fmt::format("a tensor that sums to {}", shape_text(*to));
  if (to->size() > from.size()) return refuse(scope, invocation, 0, *t, wanted);
  const std::size_t missing = from.size() - to->size();
  const auto indices = letters(from.size()), sizes = extents(from.size());
  Texts element, shape;
  bool same = missing == 0;
  for (std::size_t k = missing; k < from.size(); ++k) {
    const auto& size = (*to)[k - missing];
    const bool sums = size.is(1) && !from[k].is(1);
    same &= !sums;
    if (!sums &&
        !require_equal(scope, from[k], size,
            fmt::format("`simple_reduce` keeps `{}` as `{}`", from[k].print(), size.print()), invocation.span))
      return refuse(scope, invocation, 0, *t, wanted);
    element.push_back(sums ? "0" : indices[k]);
    shape.push_back(sums ? "1" : sizes[k]);
  }
  if (same) return Named::of_tensor(*t, invocation.span);
  const auto target = element.empty() ? "" : fmt::format("{}: {}", listed(element), listed(shape));
  return expanded(scope, invocation,
      fmt::format("function (X[{}]) -> (Y) {{ Y[{}] = +(X[{}]); }}", listed(sizes), target, listed(indices)), {*t});
}

// The identity, whose cotangent and tangent are -c times what they were.
std::optional<Named> reverse_grad(Scope& scope, const Invocation& invocation) {
  const auto x = tensor_argument(scope, invocation, 0);
  const auto c = x ? factor(scope, invocation, scope.tensor(*x).dtype) : std::nullopt;
  if (!c) return std::nullopt;
  if (c->tensor && !scope.tensor(*c->tensor).shape.empty())
    return refuse(scope, invocation, 1, *c->tensor, "a scalar factor");
  const auto made = copied(scope, *x, {.name = invocation.name, .span = invocation.span});
  const auto type = scope.tensor(*x).dtype;
  if (!made || !lang::is_float(type)) return made;
  const TensorId y = made->tensor;
  const bool reads = c->tensor.has_value(), differentiates = reads && lang::is_float(scope.tensor(*c->tensor).dtype);
  std::vector<Input> gradient{{"X", *x}}, tangent{{"X", *x}};
  Rule rule{
      .name = "reverse_grad", .operands = {*x}, .targets = {y}, .gradient = {}, .tangent = {}, .span = invocation.span};
  if (reads) {
    rule.operands.push_back(*c->tensor);
    gradient.push_back({"C", *c->tensor}), tangent.push_back({"C", *c->tensor});
  }
  gradient.insert(gradient.end(), {{"Y", y}, {"DY", y}});
  tangent.push_back({"TX", *x});
  if (differentiates) tangent.push_back({"TC", *c->tensor});
  tangent.push_back({"Y", y});
  const std::string name(lang::name(type)),
      zero = differentiates ? fmt::format(", {} DC", lang::name(scope.tensor(*c->tensor).dtype)) : "";
  rule.gradient = derivative(scope, gradient, name + " DX" + zero,
      fmt::format("DX = -({}) * DY; {}", c->text, differentiates ? "DC[] = =(0.0);" : ""));
  rule.tangent = derivative(scope, tangent, name + " TY", fmt::format("TY = -({}) * TX;", c->text));
  scope.program.rules.push_back(std::move(rule));
  return made;
}

}  // namespace tilec::poly
