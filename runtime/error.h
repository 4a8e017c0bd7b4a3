// Faults of a run: of the machine (no device, no file, no memory: exit status 3), or of an argument (a wrong shape:
// exit status 1).
//
//   throw machine_error(messages::unreadable, path, "it is a folder").hint("…");
//
// Caught in the C API and in cli/main.cpp only.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "lang/diagnostic.h"
#include "lang/messages.h"
#include "lang/source.h"

namespace tilec::runtime {

namespace messages = lang::messages;

enum class Blame { Machine, Argument };

struct RuntimeError : std::runtime_error {
  lang::Diagnostic diagnostic;                         // without a span unless an argument's declaration is known
  Blame blame;
  std::shared_ptr<const std::vector<lang::Source>> sources;  // what the span points into; null: no span
  RuntimeError(lang::Diagnostic what, Blame whose);    // in error.cpp, with the next three: they are long
  RuntimeError(const RuntimeError&);
  RuntimeError& operator=(const RuntimeError&);
  ~RuntimeError() override;
  RuntimeError& hint(std::string text);
};

template <class... Arguments>
RuntimeError error(
    const lang::Message<Arguments...>& message, Blame blame, const std::type_identity_t<Arguments>&... arguments) {
  return RuntimeError(
      lang::formatted(message.code, message.severity, message.format, fmt::make_format_args(arguments...)), blame);
}

template <class... Arguments>
RuntimeError machine_error(
    const lang::Message<Arguments...>& message, const std::type_identity_t<Arguments>&... arguments) {
  return error(message, Blame::Machine, arguments...);
}

template <class... Arguments>
RuntimeError argument_error(
    const lang::Message<Arguments...>& message, const std::type_identity_t<Arguments>&... arguments) {
  return error(message, Blame::Argument, arguments...);
}

}  // namespace tilec::runtime
