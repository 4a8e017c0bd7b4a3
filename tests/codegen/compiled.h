// What a text that is expected to be right is compiled to; or the test ends with the messages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "codegen/pipeline.h"
#include "tests/parsed.h"

namespace tilec::test {

using Sizes = std::map<std::string, std::int64_t>;

// Four products one behind the other: launches enough for a graph.
inline constexpr const char* chain = R"(
function f(A[M, K], B[K, K]) -> (C) {
  S[i, j: M, K] = +(A[i, k] * B[k, j]);
  T[i, j: M, K] = +(S[i, k] * B[k, j]);
  U[i, j: M, K] = +(T[i, k] * B[k, j]);
  C[i, j: M, K] = +(U[i, k] * B[k, j]);
}
)";

// Of gradients one of another, `derivatives` times.
inline codegen::Request request_for(const Sizes& sizes, const codegen::Target& target, int derivatives = 0) {
  codegen::Request request;
  request.sizes = sizes;
  request.target = target;
  for (int n = 0; n < derivatives; ++n) request.derivatives.emplace_back();
  return request;
}
inline codegen::Request request_for(const Sizes& sizes, const std::string& target, int derivatives = 0) {
  return request_for(sizes, *codegen::target_named(target), derivatives);
}

inline codegen::Stages compiled(const std::string& text, const codegen::Request& request, codegen::Until until) {
  lang::Diagnostics diagnostics;
  std::optional<codegen::Stages> stages = codegen::compile(parsed(text), request, until, diagnostics);
  REQUIRE_MESSAGE(stages, lang::render(diagnostics, {{"test.tile", text}}, {}));
  return *std::move(stages);
}

}  // namespace tilec::test
