// Programs from text, differentiated, bound and run: what the unit tests of autodiff say everything with.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "autodiff/forward.h"
#include "autodiff/reverse.h"
#include "poly/bind.h"
#include "poly/interpret.h"
#include "poly/simplify.h"
#include "poly/verify.h"
#include "tests/poly/built.h"

namespace tilec::test {

using namespace poly;

using Sizes = std::map<std::string, std::int64_t>;
using Names = std::vector<std::string>;

inline std::string messages(const lang::Diagnostics& diagnostics) {
  std::string text;
  for (const auto& d : diagnostics.all()) {
    text += d.code + ": " + d.message + "\n";
    for (const auto& hint : d.hints) text += "hint: " + hint + "\n";
  }
  return text;
}

inline Program gradient_of(const Program& program, const Names& of = {}, const Names& wrt = {}) {
  lang::Diagnostics diagnostics;
  const auto gradient = autodiff::reverse(program, of, wrt, diagnostics);
  REQUIRE_MESSAGE(gradient, messages(diagnostics));
  verify(*gradient, Stage::Symbolic);
  return *gradient;
}

inline Program tangent_of(const Program& program, const Names& of = {}, const Names& wrt = {}) {
  lang::Diagnostics diagnostics;
  const auto tangent = autodiff::forward(program, of, wrt, diagnostics);
  REQUIRE_MESSAGE(tangent, messages(diagnostics));
  verify(*tangent, Stage::Symbolic);
  return *tangent;
}

inline Program bound(const Program& program, const Sizes& sizes) {
  lang::Diagnostics diagnostics;
  const auto result = bind(program, sizes, diagnostics);
  REQUIRE_MESSAGE(result, messages(diagnostics));
  verify(*result, Stage::Bound);
  return *result;
}

inline Array reals(std::vector<std::int64_t> shape, std::vector<double> values, DType type = DType::F64) {
  return {type, std::move(shape), std::move(values), {}};
}

using Doubles = std::vector<double>;

inline Names input_names(const Program& program) {
  Names names;
  for (TensorId id : program.inputs) names.push_back(program.tensor(id).name);
  return names;
}

inline Names output_names(const Program& program) {
  Names names;
  for (TensorId id : program.outputs) names.push_back(program.tensor(id).name);
  return names;
}

}  // namespace tilec::test
