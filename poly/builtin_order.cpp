// Built-ins that put elements in order. Positions are i32, as those of `index`; NaN is greater than every number, as in
// NumPy.
#include <fmt/format.h>

#include "lang/messages.h"
#include "poly/builtin_arguments.h"
#include "poly/elementwise.h"

namespace tilec::poly {
namespace {

// argmax(X, 1)   ⇒   Best[i: M] = >(X[i, k]);   I[i: M] = <(X[i, k] == Best[i] | isnan(X[i, k]) ? k : N);
// A NaN makes Best one, which equals nothing: the first NaN is then the first of the equals.
std::string first_best(
    std::string_view aggregation, DType type, const Texts& sizes, std::size_t axis, const std::string& before = "") {
  const auto indices = letters(sizes.size());
  const std::string tensor = before.empty() ? "X" : "F", x = fmt::format("{}[{}]", tensor, listed(indices)),
                    target = listed(without(indices, axis));
  const auto declared = target.empty() ? "" : fmt::format("{}: {}", target, listed(without(sizes, axis)));
  const auto nan = lang::is_float(type) ? fmt::format(" | isnan({})", x) : "";
  return fmt::format(
      "{before} Best[{declared}] = {aggregation}({x}); i32 I[{declared}] = <({x} == Best[{target}]{nan} ? {position} : {extent});",
      fmt::arg("before", before), fmt::arg("declared", declared), fmt::arg("aggregation", aggregation),
      fmt::arg("x", x), fmt::arg("target", target), fmt::arg("nan", nan), fmt::arg("position", indices[axis]),
      fmt::arg("extent", sizes[axis]));
}

std::optional<Named> best(Scope& scope, const Invocation& invocation, std::string_view aggregation) {
  const auto x = tensor_argument(scope, invocation, 0);
  if (!x) return std::nullopt;
  const auto shape = scope.tensor(*x).shape;
  const auto type = scope.tensor(*x).dtype;
  const auto sizes = extents(shape.size());
  std::string body;
  if (invocation.call.arguments.size() == 2) {
    const auto axis = axis_argument(scope, invocation, 1, shape.size());
    if (!axis || !positions_fit(scope, invocation, shape[*axis])) return std::nullopt;
    body = first_best(aggregation, type, sizes, *axis);
  } else {
    const auto count = element_count(scope, shape, invocation.span);
    if (!count || !positions_fit(scope, invocation, *count)) return std::nullopt;
    const auto product = sizes.empty() ? "1" : fmt::format("{}", fmt::join(sizes, "*"));
    body = shape.size() == 1
        ? first_best(aggregation, type, sizes, 0)
        : first_best(aggregation, type, {"N"}, 0, fmt::format("N = {0}; F = reshape(X, {0});", product));
  }
  return expanded(scope, invocation, fmt::format("function (X[{}]) -> (I) {{ {} }}", listed(sizes), body), {*x});
}

std::optional<Named> intrinsic_sort(Scope& scope, TensorId x, bool descending, const std::string& name, Span span) {
  const auto id = add_tensor(scope, {name, DType::I32, scope.tensor(x).shape, span});
  scope.program.nodes.push_back(Intrinsic{IntrinsicOp::Sort, {id}, {x}, {descending ? 1 : 0}, span});
  return Named::of_tensor(id, span);
}

struct Sorted { TensorId x; std::size_t rank, axis; };

// The tensor and the axis along which it is sorted, the last one unless another is named.
std::optional<Sorted> sorted(Scope& scope, const Invocation& invocation) {
  const auto x = tensor_argument(scope, invocation, 0);
  if (!x) return std::nullopt;
  const std::size_t rank = scope.tensor(*x).shape.size();
  if (rank == 0) return refuse(scope, invocation, 0, *x, "a tensor with a dimension to sort along");
  const auto axis =
      invocation.call.arguments.size() < 2 ? std::optional(rank - 1) : axis_argument(scope, invocation, 1, rank);
  if (!axis || !positions_fit(scope, invocation, scope.tensor(*x).shape[*axis])) return std::nullopt;
  return Sorted{*x, rank, *axis};
}

// Statements that exchange the axis with the last dimension, sort along that, and exchange back.
std::string exchanged(const Sorted& of, const std::string& sort) {
  const auto indices = letters(of.rank), sizes = extents(of.rank);
  const auto swap = [&](Texts texts) {
    std::swap(texts[of.axis], texts.back());
    return listed(texts);
  };
  return fmt::format(
      "function (X[{sizes}]) -> (Y) {{ T[{last}: {lasts}] = =(X[{here}]); {sort} Y[{here}: {sizes}] = =(S[{last}]); }}",
      fmt::arg("sizes", listed(sizes)), fmt::arg("last", swap(indices)), fmt::arg("lasts", swap(sizes)),
      fmt::arg("here", listed(indices)), fmt::arg("sort", sort));
}

std::optional<Named> positions(Scope& scope, const Invocation& invocation, bool descending) {
  const auto of = sorted(scope, invocation);
  if (!of) return std::nullopt;
  if (of->axis == of->rank - 1) return intrinsic_sort(scope, of->x, descending, invocation.name, invocation.span);
  return expanded(
      scope, invocation, exchanged(*of, descending ? "S = argsort_descending(T);" : "S = argsort(T);"), {of->x});
}

}  // namespace

std::optional<Named> argmax(Scope& scope, const Invocation& invocation) { return best(scope, invocation, ">"); }
std::optional<Named> argmin(Scope& scope, const Invocation& invocation) { return best(scope, invocation, "<"); }
std::optional<Named> argsort(Scope& scope, const Invocation& invocation) { return positions(scope, invocation, false); }
std::optional<Named> argsort_descending(Scope& scope, const Invocation& invocation) {
  return positions(scope, invocation, true);
}

// The values are gathered, so they have a gradient: that of the elements they are.
std::optional<Named> sort(Scope& scope, const Invocation& invocation) {
  const auto of = sorted(scope, invocation);
  if (!of) return std::nullopt;
  const auto gather = fmt::format("gather<{}>", of->rank - 1);
  if (of->axis == of->rank - 1)
    return expanded(scope, invocation,
        fmt::format("function (X) -> (Y) {{ Order = argsort(X); Y = {}(X, Order); }}", gather), {of->x});
  return expanded(
      scope, invocation, exchanged(*of, fmt::format("Order = argsort(T); S = {}(T, Order);", gather)), {of->x});
}

// The k largest along the last dimension, largest first, and where they are.
std::optional<Named> top_k(Scope& scope, const Invocation& invocation) {
  const auto of = sorted(scope, invocation);
  const auto k = of ? parameter(scope, invocation, 0) : std::nullopt;
  if (!k) return std::nullopt;
  const Size extent = scope.tensor(of->x).shape.back(), count = static_cast<std::int64_t>(*k);
  const auto wanted = fmt::format("at least {} along the last dimension", counted(*k, "element"));
  const Size fits = Size(1) - Size::apply(Size::Kind::Less, {extent, count});
  if (fits.is(0)) return refuse(scope, invocation, 0, of->x, wanted);
  if (!fits.value())
    scope.program.requirements.push_back(
        {fits, 0, Condition::Nonzero, fmt::format("`top_k<{}>` needs {}", *k, wanted), invocation.span, {}});
  const auto indices = listed(letters(of->rank)), sizes = listed(extents(of->rank)),
             some = listed(with(extents(of->rank), of->rank - 1, std::to_string(*k)));
  const auto text =
      fmt::format("function (X[{1}]) -> (I) {{ Order = argsort_descending(X); I[{0}: {2}] = =(Order[{0}]); }}", indices,
          sizes, some);
  const auto position =
      expanded(scope, {invocation.call, {}, fresh(scope, invocation.name), invocation.span}, text, {of->x});
  if (!position) return std::nullopt;
  const auto value = expanded(scope, invocation,
      fmt::format("function (X, I) -> (V) {{ V = gather<{}>(X, I); }}", of->rank - 1), {of->x, position->tensor});
  if (!value) return std::nullopt;
  Named both;
  both.kind = Named::Kind::Tuple;
  both.elements = {*value, *position};
  both.span = invocation.span;
  return both;
}

}  // namespace tilec::poly
