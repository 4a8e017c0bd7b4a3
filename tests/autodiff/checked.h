// What a derivation gave of a random program, verified.
#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <utility>

#include "lang/diagnostic.h"
#include "poly/print.h"
#include "poly/program.h"
#include "poly/verify.h"

namespace tilec::test {

struct TooLong {};                                       // a derivative is longer than values may be

inline poly::Program checked(
    std::optional<poly::Program> result, const lang::Diagnostics& diagnostics, const poly::Program& program) {
  for (const lang::Diagnostic& d : diagnostics.all()) {
    if (d.code == "E0132") throw TooLong{};
    REQUIRE_MESSAGE(d.severity != lang::Severity::Error, d.message << "\n" << poly::print(program));
  }
  REQUIRE(result);
  poly::verify(*result, poly::Stage::Bound);
  return *std::move(result);
}

}  // namespace tilec::test
