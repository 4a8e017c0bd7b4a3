#include "poly/builtin_arguments.h"

#include <fmt/format.h>

#include "lang/messages.h"
#include "lang/print.h"
#include "poly/elementwise.h"
#include "poly/expand.h"
#include "poly/size_expression.h"

namespace tilec::poly {

namespace messages = lang::messages;

Span span_of(const Invocation& invocation, std::size_t k) {
  return k < invocation.call.arguments.size() ? invocation.call.arguments[k].span() : invocation.span;
}

std::optional<TensorId> tensor_argument(Scope& scope, const Invocation& invocation, std::size_t k) {
  return tensor_of(scope, invocation.call.arguments[k], fresh(scope, invocation.name));
}

std::optional<std::size_t> axis_argument(Scope& scope, const Invocation& invocation, std::size_t k, std::size_t rank) {
  const auto axis = size_of(scope, invocation.call.arguments[k]);
  if (!axis) return std::nullopt;
  const auto number = axis->value();
  if (!number) {
    scope.diagnostics.report(span_of(invocation, k), messages::not_known_yet);
    return std::nullopt;
  }
  if (*number >= 0 && *number < static_cast<std::int64_t>(rank)) return static_cast<std::size_t>(*number);
  auto entry = scope.diagnostics.report(span_of(invocation, k), messages::bad_axis, "axis " + axis->print(),
      "a tensor with " + counted(rank, "dimension"));
  if (*number < 0 && *number + static_cast<std::int64_t>(rank) >= 0)
    entry.hint(fmt::format("axes count from 0: write `{}`", *number + static_cast<std::int64_t>(rank)));
  return std::nullopt;
}

std::optional<Shape> size_arguments(Scope& scope, const Invocation& invocation, std::size_t k) {
  Shape sizes;
  for (; k < invocation.call.arguments.size(); ++k) {
    auto size = size_of(scope, invocation.call.arguments[k]);
    if (!size) return std::nullopt;
    if (size->value().value_or(0) < 0) {
      scope.diagnostics.report(span_of(invocation, k), messages::negative_size,
          lang::print(invocation.call.arguments[k]), std::to_string(*size->value()));
      return std::nullopt;
    }
    sizes.push_back(std::move(*size));
  }
  return sizes;
}

std::optional<std::size_t> parameter(Scope& scope, const Invocation& invocation, std::size_t otherwise) {
  if (invocation.parameters.empty()) return otherwise;
  if (invocation.parameters[0] >= 0) return static_cast<std::size_t>(invocation.parameters[0]);
  const auto& call = invocation.call;
  scope.diagnostics.report(call.parameters.empty() ? invocation.span : call.parameters[0].span,
      messages::negative_parameter, call.function.text, invocation.parameters[0]);
  return std::nullopt;
}

std::nullopt_t refuse(Scope& scope, const Invocation& invocation, std::size_t k, TensorId tensor,
    const std::string& wanted, const std::string& hint) {
  const auto& t = scope.tensor(tensor);
  const auto seen =
      fmt::format("`{}` is {}{}", lang::print(invocation.call.arguments[k]), lang::name(t.dtype), shape_text(t.shape));
  auto entry = scope.diagnostics.report(
      span_of(invocation, k), messages::operand_differs, invocation.call.function.text, wanted, seen);
  if (const auto declared = scope.tensor(tensor).span; !declared.empty() && declared != span_of(invocation, k))
    entry.label(declared, "declared here");
  if (!hint.empty()) entry.hint(hint);
  return std::nullopt;
}

bool positions_fit(Scope& scope, const Invocation& invocation, const Size& size) {
  if (!size.value())
    scope.program.requirements.push_back(
        {size, 0, Condition::Positions, invocation.call.function.text, invocation.span, {}});
  if (size.value().value_or(0) <= INT32_MAX) return true;
  scope.diagnostics.report(
      span_of(invocation, 0), messages::too_many_positions, invocation.call.function.text, size.print());
  return false;
}

Texts letters(std::size_t count) {
  Texts names;
  for (std::size_t k = 0; k < count; ++k)
    names.push_back(k < 18 ? std::string(1, static_cast<char>('i' + k)) : fmt::format("i{}", k));
  return names;
}

Texts extents(std::size_t count) {
  Texts names;
  for (std::size_t k = 0; k < count; ++k) names.push_back(fmt::format("D{}", k));
  return names;
}

std::string listed(const Texts& texts) { return fmt::format("{}", fmt::join(texts, ", ")); }

Texts with(Texts texts, std::size_t k, std::string text) {
  texts[k] = std::move(text);
  return texts;
}

Texts without(Texts texts, std::size_t k) {
  texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(k));
  return texts;
}

std::optional<Named> expanded(
    Scope& scope, const Invocation& invocation, const std::string& text, const std::vector<TensorId>& tensors) {
  std::vector<Named> inputs;
  for (const auto id : tensors) inputs.push_back(Named::of_tensor(id, scope.tensor(id).span));
  auto made = expand(scope, text, inputs, {invocation.name}, invocation.span);
  return made ? std::optional(std::move((*made)[0])) : std::nullopt;
}

}  // namespace tilec::poly
