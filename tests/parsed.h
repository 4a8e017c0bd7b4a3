// A file from text that is expected to be right: parsed and checked, or the test ends with the messages.
#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>

#include "lang/check.h"
#include "lang/parse.h"
#include "lang/render.h"

namespace tilec::test {

inline lang::File parsed(const std::string& text) {
  lang::Diagnostics diagnostics;
  const lang::Source source{"test.tile", text};
  std::optional<lang::File> file = lang::parse(source, diagnostics);
  REQUIRE_MESSAGE((file && lang::check(*file, diagnostics)), lang::render(diagnostics, {source}, {}));
  return *std::move(file);
}

}  // namespace tilec::test
