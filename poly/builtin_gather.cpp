// gather and scatter: the Intrinsics, with shapes and types checked.
#include <fmt/core.h>

#include "lang/messages.h"
#include "poly/builtin_arguments.h"
#include "poly/elementwise.h"
#include "poly/size_expression.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

std::optional<TensorId> positions(Scope& scope, const Invocation& invocation) {
  const auto id = tensor_argument(scope, invocation, 1);
  if (!id) return std::nullopt;
  if (!lang::is_integer(scope.tensor(*id).dtype)) want(scope, *id, DType::I32);
  if (!lang::is_integer(scope.tensor(*id).dtype))
    return refuse(scope, invocation, 1, *id, "positions of an integer type", "a cast makes them: `i32(…)`");
  return id;
}

// `count` leading dimensions of argument 0 that are those of the positions.
bool same_leading(Scope& scope, const Invocation& invocation, TensorId tensor, TensorId positions, std::size_t count) {
  const auto shape = scope.tensor(tensor).shape, of = scope.tensor(positions).shape;
  const auto wanted = fmt::format("the first {} to be {}", counted(count, "dimension"),
      shape_text(Shape(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(count))));
  for (std::size_t k = 0; k < count; ++k) {
    const auto message = fmt::format("`{}` takes dimension {} of `{}` and `{}` to be equal",
        invocation.call.function.text, k, scope.tensor(tensor).name, scope.tensor(positions).name);
    if (require_equal(scope, shape[k], of[k], message, invocation.span)) continue;
    refuse(scope, invocation, 0, tensor, wanted);
    return false;
  }
  return true;
}

// Nothing can be read at, or added to, an element of no elements.
bool has_elements(Scope& scope, const Invocation& invocation, const Size& extent, TensorId positions) {
  const auto count = element_count(scope, scope.tensor(positions).shape, invocation.span);
  if (!count) return false;
  if (!extent.is(0) || count->is(0) || !count->value()) return true;
  scope.diagnostics.report(invocation.span, messages::no_elements, invocation.call.function.text,
      fmt::format("there are positions: {}", shape_text(scope.tensor(positions).shape)));
  return false;
}

// The extent that scatter makes: a size, or that of a tensor, which is not read.
std::optional<Size> extent(Scope& scope, const Invocation& invocation, std::size_t batch) {
  const auto& expr = invocation.call.arguments[2];
  if (is_size_expression(scope, expr)) {
    const auto sizes = size_arguments(scope, invocation, 2);
    return sizes ? std::optional((*sizes)[0]) : std::nullopt;
  }
  std::optional<Shape> shape;
  if (const auto* variable = expr.as<lang::Variable>()) {
    const auto* named = find(scope, variable->name, expr.span());
    if (!named) return std::nullopt;
    if (named->kind == Named::Kind::Tensor) shape = scope.tensor(named->tensor).shape;
  } else {
    Body body{.scope = scope};
    shape = shape_of(body, expr, fresh(scope, invocation.name));
    if (!shape) return std::nullopt;
  }
  if (shape && shape->size() > batch) return (*shape)[batch];
  scope.diagnostics.report(expr.span(), messages::operand_differs, invocation.call.function.text,
      fmt::format("a size, or a tensor with more than {}", counted(batch, "dimension")),
      shape ? fmt::format("this is {}", shape_text(*shape)) : "this is neither");
  return std::nullopt;
}

}  // namespace

// gather<b>(D, I): O[B, J, R] = D[B, I[B, J], R]
std::optional<Named> gather(Scope& scope, const Invocation& invocation) {
  const auto batch = parameter(scope, invocation, 0);
  const auto d = tensor_argument(scope, invocation, 0);
  const auto i = d ? positions(scope, invocation) : std::nullopt;
  if (!batch || !i) return std::nullopt;
  const auto from = scope.tensor(*d).shape;
  const std::size_t rank = scope.tensor(*i).shape.size();
  if (from.size() <= *batch)
    return refuse(scope, invocation, 0, *d, fmt::format("a tensor with more than {}", counted(*batch, "dimension")));
  if (rank < *batch)
    return refuse(scope, invocation, 1, *i, fmt::format("positions with at least {}", counted(*batch, "dimension")));
  if (!same_leading(scope, invocation, *d, *i, *batch) || !has_elements(scope, invocation, from[*batch], *i))
    return std::nullopt;
  auto shape = scope.tensor(*i).shape;
  shape.insert(shape.end(), from.begin() + static_cast<std::ptrdiff_t>(*batch) + 1, from.end());
  const auto id = add_tensor(scope, {invocation.name, scope.tensor(*d).dtype, std::move(shape), invocation.span});
  scope.program.nodes.push_back(
      Intrinsic{IntrinsicOp::Gather, {id}, {*d, *i}, {static_cast<std::int64_t>(*batch)}, invocation.span});
  return Named::of_tensor(id, invocation.span);
}

// scatter<b>(E, I, V): O[B, I[B, J], R] += E[B, J, R], with V elements along the dimension that I addresses
std::optional<Named> scatter(Scope& scope, const Invocation& invocation) {
  const auto batch = parameter(scope, invocation, 0);
  auto e = tensor_argument(scope, invocation, 0);
  const auto i = e ? positions(scope, invocation) : std::nullopt;
  const auto size = batch && i ? extent(scope, invocation, *batch) : std::nullopt;
  if (!size) return std::nullopt;
  const auto from = scope.tensor(*e).shape;
  const std::size_t rank = scope.tensor(*i).shape.size();
  if (rank < *batch)
    return refuse(scope, invocation, 1, *i, fmt::format("positions with at least {}", counted(*batch, "dimension")));
  if (from.size() < rank)
    return refuse(scope, invocation, 0, *e,
        fmt::format("an element, or more, for each position of {}", shape_text(scope.tensor(*i).shape)));
  if (!same_leading(scope, invocation, *e, *i, rank) || !has_elements(scope, invocation, *size, *i))
    return std::nullopt;
  if (scope.tensor(*e).dtype == DType::Bool) {          // sums of bool are i32
    const auto counted =
        copied(scope, *e, {.name = fresh(scope, invocation.name), .dtype = DType::I32, .span = span_of(invocation, 0)});
    if (!counted) return std::nullopt;
    e = counted->tensor;
    scope.names[scope.tensor(*e).name] = *counted;
  }
  Shape shape(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(*batch));
  shape.push_back(*size);
  shape.insert(shape.end(), from.begin() + static_cast<std::ptrdiff_t>(rank), from.end());
  const auto id = add_tensor(scope, {invocation.name, scope.tensor(*e).dtype, std::move(shape), invocation.span});
  scope.program.nodes.push_back(
      Intrinsic{IntrinsicOp::Scatter, {id}, {*e, *i}, {static_cast<std::int64_t>(*batch)}, invocation.span});
  return Named::of_tensor(id, invocation.span);
}

}  // namespace tilec::poly
