// A Program from text that is expected to be right, verified; or the test ends with the messages.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "poly/build.h"
#include "poly/verify.h"
#include "tests/parsed.h"

namespace tilec::test {

inline poly::Program built(const std::string& text, const poly::Signature& signature = {}) {
  lang::Diagnostics diagnostics;
  std::optional<poly::Program> program = poly::build(parsed(text), signature, diagnostics);
  REQUIRE_MESSAGE((program && !diagnostics.has_errors()), lang::render(diagnostics, {{"test.tile", text}}, {}));
  poly::verify(*program, poly::Stage::Symbolic);
  return *std::move(program);
}

}  // namespace tilec::test
