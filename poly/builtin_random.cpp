// Random numbers from a counter, as ordinary integer statements: the same numbers on every backend, and no code of
// theirs.
//
// A state u32[3, L] has L lanes. Words 0 and 1 of lane l, with l itself, are hashed into where its sequence starts;
// word 2 counts what it gave. Flat element k of a draw belongs to lane k mod L, which counts k/L on; the state after
// the draw has counted all of its elements, so draws that follow each other share none. The sequence of a lane is
// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014): a multiple of an odd
// constant, mixed; the upper 24 bits are the number.
#include <fmt/core.h>

#include <algorithm>

#include "lang/messages.h"
#include "poly/builtin_arguments.h"
#include "poly/elementwise.h"
#include "poly/expand.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

bool is_state(Scope& scope, const Invocation& invocation, TensorId state) {
  const auto& tensor = scope.tensor(state);
  const auto shape = tensor.shape;
  const bool fits = tensor.dtype == DType::U32 && shape.size() == 2 && !shape[1].is(0) &&
      require_equal(scope, shape[0], 3, "a random state has 3 words a lane", invocation.span);
  if (!fits) want(scope, state, DType::U32);
  if (!fits) refuse(scope, invocation, 0, state, "a state of type u32 and shape [3, L], L at least 1");
  return fits;
}

// What prng_step stands for: the tuple of the state and the sizes.
const Named* step_named(Scope& scope, const Invocation& invocation) {
  const auto& expr = invocation.call.arguments[0];
  const auto* variable = expr.as<lang::Variable>();
  const auto* named = variable ? find(scope, variable->name, expr.span()) : nullptr;
  if (variable && !named) return nullptr;
  const auto is_size = [](const Named& each) { return each.kind == Named::Kind::Size; };
  if (named && named->kind == Named::Kind::Tuple && !named->elements.empty() &&
      named->elements[0].kind == Named::Kind::Tensor &&
      std::all_of(named->elements.begin() + 1, named->elements.end(), is_size))
    return named;
  scope.diagnostics
      .report(expr.span(), messages::operand_differs, invocation.call.function.text, "what `prng_step` gave",
          named ? fmt::format("`{}` is something else", variable->name.spelled()) : "this is something else")
      .hint("name the step first: `P = prng_step(S, N);`");
  return nullptr;
}

struct Step { TensorId state; Shape shape; Size count; };

std::optional<Step> step(Scope& scope, const Invocation& invocation) {
  const auto* named = step_named(scope, invocation);
  if (!named) return std::nullopt;
  Step result{named->elements[0].tensor, {}, 1};
  for (std::size_t k = 1; k < named->elements.size(); ++k) result.shape.push_back(named->elements[k].size);
  if (!is_state(scope, invocation, result.state)) return std::nullopt;
  const auto count = element_count(scope, result.shape, invocation.span);
  if (count) result.count = *count;
  return count ? std::optional(std::move(result)) : std::nullopt;
}

// A text over the state X[W, L], the number of elements N and the sizes D0, D1, …
std::optional<Named> drawn(Scope& scope, const Invocation& invocation, const Step& of, const std::string& text) {
  std::vector<Named> inputs{Named::of_tensor(of.state, invocation.span), Named::of_size(of.count, invocation.span)};
  for (const auto& size : of.shape) inputs.push_back(Named::of_size(size, invocation.span));
  auto sizes = listed(extents(of.shape.size()));
  auto made =
      expand(scope, fmt::format("function (X[W, L], N{}{}) -> (Y) {{ {} }}", sizes.empty() ? "" : ", ", sizes, text),
          inputs, {invocation.name}, invocation.span);
  return made ? std::optional(std::move((*made)[0])) : std::nullopt;
}

// The finaliser of splitmix64 over the elements of `from`, in statements: each is read twice by the next.
std::string mixed(const std::string& from, const std::string& element, const std::string& shape) {
  return fmt::format(
      "{0}1[{1}: {2}] = =(({0}0[{1}] ^ ({0}0[{1}] >> 30)) * 13787848793156543929); {0}2[{1}: {2}] = =(({0}1[{1}] ^ ({0}1[{1}] >> 27)) * 10723151780598845931);",
      from, element, shape);
}

}  // namespace

std::optional<Named> prng_step(Scope& scope, const Invocation& invocation) {
  const auto state = tensor_argument(scope, invocation, 0);
  const auto shape = state ? size_arguments(scope, invocation, 1) : std::nullopt;
  if (!shape || !is_state(scope, invocation, *state) || !element_count(scope, *shape, invocation.span))
    return std::nullopt;
  Named step;
  step.kind = Named::Kind::Tuple;
  step.span = invocation.span;
  step.elements.push_back(Named::of_tensor(*state, invocation.span));
  for (const auto& size : *shape) step.elements.push_back(Named::of_size(size, invocation.span));
  return step;
}

std::optional<Named> prng_value(Scope& scope, const Invocation& invocation) {
  const auto of = step(scope, invocation);
  if (!of) return std::nullopt;
  const auto sizes = listed(extents(of->shape.size()));
  return drawn(scope, invocation, *of,
      "K0[l: L] = =((u64(X[0, l]) << 32 | u64(X[1, l])) + u64(l + 1) * 11400714819323198485); " + mixed("K", "l", "L") +
          "Z0[L*q + l: N] = =((K2[l] ^ (K2[l] >> 31)) + u64(X[2, l] + q + 1) * 11400714819323198485), 0 <= l < L, 0 <= q < (N + L - 1)/L; " +
          mixed("Z", "k", "N") +
          "F[k: N] = =(f32((Z2[k] ^ (Z2[k] >> 31)) >> 40) * 5.9604644775390625e-8); Y = reshape(F" +
          (sizes.empty() ? "" : ", ") + sizes + ");");
}

std::optional<Named> prng_state(Scope& scope, const Invocation& invocation) {
  const auto of = step(scope, invocation);
  if (!of) return std::nullopt;
  return drawn(scope, invocation, *of, "u32 Y[w, l: W, L] = =(w == 2 ? X[w, l] + (N + L - 1 - l)/L : X[w, l]);");
}

}  // namespace tilec::poly
