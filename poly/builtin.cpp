// One function per built-in; the table lists them.
#include "poly/builtin.h"

#include <map>

#include "lang/builtin.h"
#include "lang/messages.h"
#include "poly/builtin_arguments.h"

namespace tilec::poly {
namespace {

const std::map<std::string_view, MakesTensors*>& table() {
  static const std::map<std::string_view, MakesTensors*> all = {
      {"cumsum", cumsum},
      {"cumprod", cumprod},
      {"argmax", argmax},
      {"argmin", argmin},
      {"sort", sort},
      {"argsort", argsort},
      {"argsort_descending", argsort_descending},
      {"top_k", top_k},
      {"gather", gather},
      {"scatter", scatter},
      {"prng_step", prng_step},
      {"prng_value", prng_value},
      {"prng_state", prng_state},
      {"simple_reduce", simple_reduce},
      {"builtin_softmax", softmax},
      {"builtin_logsoftmax", logsoftmax},
      {"builtin_binary_crossentropy", binary_crossentropy},
      {"reverse_grad", reverse_grad},
  };
  return all;
}

bool counts_fit(Scope& scope, const Invocation& invocation) {
  const auto& call = invocation.call;
  const auto* form = lang::builtin_named(call.function.text);
  const bool arguments = form->arguments.holds(call.arguments.size()),
             parameters = form->parameters.holds(invocation.parameters.size());
  if (!arguments)
    scope.diagnostics.report(invocation.span, lang::messages::argument_count, form->name,
        lang::described(form->arguments, "argument"), std::to_string(call.arguments.size()));
  else if (!parameters)
    scope.diagnostics.report(invocation.span, lang::messages::argument_count, form->name,
        lang::described(form->parameters, "number") + " in `< >`", std::to_string(invocation.parameters.size()));
  return arguments && parameters;
}

}  // namespace

bool is_builtin(std::string_view name) { return table().contains(name); }

std::optional<Named> invoke(Scope& scope, const Invocation& invocation) {
  if (!counts_fit(scope, invocation)) return std::nullopt;
  scope.names.try_emplace(invocation.name);             // taken, also for what the arguments need
  return table().at(invocation.call.function.text)(scope, invocation);
}

}  // namespace tilec::poly
