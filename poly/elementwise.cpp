// Elementwise statements.
#include "poly/elementwise.h"

#include <fmt/core.h>

#include <algorithm>

#include "lang/messages.h"
#include "poly/call.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

// i, j, k, …: letters the function does not use.
std::vector<std::string> index_names(const Scope& scope, std::size_t rank) {
  std::vector<std::string> names;
  for (char letter = 'i'; names.size() < rank && letter <= 'z'; ++letter)
    if (!scope.declared.contains(std::string(1, letter))) names.emplace_back(1, letter);
  for (int k = 0; names.size() < rank; ++k)
    if (const auto name = fmt::format("i{}", k); !scope.declared.contains(name)) names.push_back(name);
  return names;
}

// 0 <= element < shape, for the target and every read, each row once.
std::vector<Range> rows_of_accesses(const Scope& scope, const Access& target, const std::vector<Access>& reads) {
  std::vector<Range> rows;
  const auto add = [&](const Access& access) {
    for (std::size_t k = 0; k < access.element.size(); ++k) {
      Range row{access.element[k], scope.tensor(access.tensor).shape[k]};
      if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(std::move(row));
    }
  };
  add(target);
  for (const auto& read : reads) add(read);
  return rows;
}

TensorId emit(Scope& scope, Body&& body, const Shape& shape, Expr value, DType dtype, const ElementwiseTarget& target) {
  const auto id = add_tensor(scope, {target.name, dtype, shape, target.span});
  Access element{id, {}};
  for (std::size_t k = 0; k < shape.size(); ++k) element.element.push_back(Affine::index(k, shape.size()));
  auto domain = rows_of_accesses(scope, element, body.reads);
  scope.program.nodes.push_back(Statement{.target = std::move(element),
      .indices = std::move(body.indices),
      .domain = std::move(domain),
      .aggregation = Aggregation::Assign,
      .value = std::move(value),
      .reads = std::move(body.reads),
      .fill = Number{.type = dtype},
      .ties = Ties::Split,
      .kernel_name = target.kernel_name,
      .span = target.span});
  return id;
}

// Inlining must not make text grow without end: `A = A0*A0 + 1.5; B = A*A + 1.5; …`
constexpr std::size_t inline_limit = 200;

std::optional<Named> waiting(const Scalar& scalar, const Body& body, Span span) {
  if (const auto* index = scalar.expr.as<Index>(); index && scalar.weak == Scalar::Weak::Integer)
    return Named::of_size(index->value.constant, span, scalar.literal);
  if (node_count(scalar.expr, inline_limit) >= inline_limit) return std::nullopt;
  Named named;
  named.kind = Named::Kind::Weak;
  named.scalar = scalar;
  for (const auto& read : body.reads) named.reads.push_back(read.tensor);
  named.span = span;
  return named;
}

// `Y = reshape(X, …)`: the tensor that the Reshape fills is Y itself. `before`: the nodes of earlier statements.
std::optional<TensorId> reshape_alone(
    Body& body, const ElementwiseTarget& target, const lang::Expr& expr, std::size_t before) {
  if (body.views.empty() || !body.views.back().first.same_as(expr) || body.scope.program.nodes.size() == before)
    return std::nullopt;
  const auto id = body.views.back().second.tensor;
  const auto* last = std::get_if<Intrinsic>(&body.scope.program.nodes.back());
  if (!last || last->op != IntrinsicOp::Reshape || last->targets[0] != id ||
      target.dtype.value_or(body.scope.tensor(id).dtype) != body.scope.tensor(id).dtype)
    return std::nullopt;
  auto& tensor = body.scope.program.tensors[static_cast<std::size_t>(id)];
  std::erase_if(body.scope.names,
      [&](const auto& entry) { return entry.second.kind == Named::Kind::Tensor && entry.second.tensor == id; });
  tensor.name = wished_name(body.scope, target.name);
  tensor.span = target.span;
  return id;
}

}  // namespace

std::optional<Named> elementwise(Scope& scope, const ElementwiseTarget& target, const lang::Expr& expr) {
  Body body{.scope = scope};
  const std::size_t before = scope.program.nodes.size();
  const auto shape = shape_of(body, expr, target.name);
  if (!shape) return std::nullopt;
  if (const auto made = reshape_alone(body, target, expr, before)) return Named::of_tensor(*made, target.span);
  body.result = &*shape;
  body.indices = index_names(scope, shape->size());
  const auto scalar = value_of_statement(body, expr);
  if (!scalar) return std::nullopt;
  if (scalar->weak != Scalar::Weak::No && shape->empty() && !target.dtype)
    if (auto named = waiting(*scalar, body, target.span)) return named;
  const DType dtype = target.dtype.value_or(type_alone(*scalar));
  auto value = resolve(*scalar, dtype, expr.span(), scope.diagnostics);
  if (!value) return std::nullopt;
  return Named::of_tensor(emit(scope, std::move(body), *shape, std::move(*value), dtype, target), target.span);
}

std::optional<TensorId> stored(Scope& scope, const Named& named, const ElementwiseTarget& target) {
  if (named.kind == Named::Kind::Tensor) return named.tensor;
  if (named.kind != Named::Kind::Size && named.kind != Named::Kind::Weak) return std::nullopt;
  Body body{.scope = scope};
  const Scalar scalar = named.kind == Named::Kind::Size ? affine_value(Affine::of(named.size, 0), named.literal)
                                                        : carried_here(body, named);
  const DType dtype = target.dtype.value_or(type_alone(scalar));
  auto value = resolve(scalar, dtype, target.span, scope.diagnostics);
  if (!value) return std::nullopt;
  return emit(scope, std::move(body), {}, std::move(*value), dtype, target);
}

std::optional<Named> spread(Scope& scope, TensorId tensor, const Shape& shape, const ElementwiseTarget& target) {
  Body body{.scope = scope};
  body.result = &shape;
  body.indices = index_names(scope, shape.size());
  const DType dtype = target.dtype.value_or(scope.tensor(tensor).dtype);
  auto value = resolve(
      {read(body, {tensor, aligned(scope.tensor(tensor).shape, shape)})}, dtype, target.span, scope.diagnostics);
  if (!value) return std::nullopt;
  return Named::of_tensor(emit(scope, std::move(body), shape, std::move(*value), dtype, target), target.span);
}

std::optional<Named> copied(Scope& scope, TensorId tensor, const ElementwiseTarget& target) {
  return spread(scope, tensor, Shape(scope.tensor(tensor).shape), target);
}

std::optional<TensorId> tensor_of(Scope& scope, const lang::Expr& expr, const std::string& name) {
  if (const auto* variable = expr.as<lang::Variable>()) {
    const auto* named = find(scope, variable->name, expr.span());
    if (!named) return std::nullopt;
    if (named->kind == Named::Kind::Tensor) return named->tensor;
  }
  const ElementwiseTarget target{.name = name, .span = expr.span()};
  scope.names[name] = {};                               // taken, also for what this expression needs
  if (const auto* call = expr.as<lang::Call>(); call && makes_tensors(scope, *call)) {
    const auto made = made_by(scope, *call, name, expr.span());
    return made ? stored(scope, *made, target) : std::nullopt;
  }
  const auto made = elementwise(scope, target, expr);
  if (!made) return std::nullopt;
  const auto id = stored(scope, *made, target);
  if (id) scope.names[name] = Named::of_tensor(*id, expr.span());
  return id;
}

std::optional<Size> element_count(Scope& scope, const Shape& shape, Span span) {
  try {
    Size count = 1;
    for (const auto& size : shape) count = count * size;
    return count;
  } catch (const SizeError& error) {
    scope.diagnostics.report(span, messages::size_arithmetic, error.what());
    return std::nullopt;
  }
}

namespace {

// `reshape(X, -1)`: the size that is left over, where it can be told.
void report_negative(Scope& scope, const Tensor& from, const Shape& shape, const Size& negative, Span span) {
  if (!negative.is(-1)) {
    scope.diagnostics.report(span, messages::negative_size, negative.print(), std::to_string(*negative.value()));
    return;
  }
  auto entry = scope.diagnostics.report(span, messages::reshape_rest);
  entry.label(from.span, fmt::format("`{}` is {}", from.name, shape_text(from.shape)));
  if (std::count(shape.begin(), shape.end(), negative) > 1) return;
  // What both have cancels.
  Shape mine(from.shape), others(shape);
  std::erase(others, negative);
  std::erase_if(others, [&](const Size& size) {
    const auto same = std::find(mine.begin(), mine.end(), size);
    if (same == mine.end()) return size.is(1);
    mine.erase(same);
    return true;
  });
  const auto all = element_count(scope, mine, span), given = element_count(scope, others, span);
  if (!all || !given) return;
  std::string sizes;
  for (const Size& size : shape)
    sizes += ", " +
        (size == negative ? (given->is(1) ? *all : Size::apply(Size::Kind::Divide, {*all, *given})).print()
                          : size.print());
  entry.hint(fmt::format("write `reshape({}{})`", from.name, sizes));
}

}  // namespace

std::optional<View> reshape(Scope& scope, TensorId operand, const Shape& shape, const std::string& name, Span span) {
  const Tensor from = scope.tensor(operand);
  for (const auto& size : shape)
    if (size.value().value_or(0) < 0) {
      report_negative(scope, from, shape, size, span);
      return std::nullopt;
    }
  if (auto becomes = same_but_ones(from.shape, shape)) return View{operand, shape, std::move(*becomes)};
  const auto before = element_count(scope, from.shape, span), after = element_count(scope, shape, span);
  if (!before || !after) return std::nullopt;
  if (!require_equal(scope, *before, *after, "`reshape` keeps the number of elements", span)) {
    scope.diagnostics.report(span, messages::reshape_count, after->print(), before->print())
        .label(from.span, fmt::format("`{}` is {}", from.name, shape_text(from.shape)));
    return std::nullopt;
  }
  const auto id = add_tensor(scope, {name, from.dtype, shape, span});
  scope.names[name] = Named::of_tensor(id, span);
  scope.program.nodes.push_back(Intrinsic{IntrinsicOp::Reshape, {id}, {operand}, shape, span});
  View view{id, shape, {}};
  for (std::size_t k = 0; k < shape.size(); ++k) view.becomes.emplace_back(k);
  return view;
}

}  // namespace tilec::poly
