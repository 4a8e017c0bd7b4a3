#include "poly/call.h"

#include "lang/messages.h"
#include "poly/builtin.h"

namespace tilec::poly {

bool makes_tensors(const Scope&, const lang::Call& call) { return is_builtin(call.function.text); }

std::optional<Named> made_by(Scope& scope, const lang::Call& call, const std::string& name, Span span) {
  std::vector<std::int64_t> parameters;
  for (const auto& argument : call.parameters) {
    const auto* number = std::get_if<lang::Number>(&argument.value);
    if (!number || number->is_float) {
      scope.diagnostics.report(argument.span, lang::messages::not_known_yet);
      return std::nullopt;
    }
    const auto magnitude = static_cast<std::int64_t>(number->integer);
    parameters.push_back(number->negative ? -magnitude : magnitude);
  }
  return invoke(scope, {call, std::move(parameters), name, span});
}

}  // namespace tilec::poly
