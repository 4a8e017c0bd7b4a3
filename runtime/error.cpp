#include "runtime/error.h"

namespace tilec::runtime {

RuntimeError::RuntimeError(lang::Diagnostic what, Blame whose)
    : std::runtime_error(what.code + ": " + what.message), diagnostic(std::move(what)), blame(whose) {}
RuntimeError::RuntimeError(const RuntimeError&) = default;
RuntimeError& RuntimeError::operator=(const RuntimeError&) = default;
RuntimeError::~RuntimeError() = default;

RuntimeError& RuntimeError::hint(std::string text) {
  diagnostic.hints.push_back(std::move(text));
  return *this;
}

}  // namespace tilec::runtime
