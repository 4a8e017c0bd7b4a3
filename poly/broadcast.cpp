// NumPy's broadcasting.
#include "poly/broadcast.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/messages.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

std::optional<Size> meet(Scope& scope, const Size& left, const Size& right, const Shaped& a, const Shaped& b, Span at) {
  if (left.is(1)) return right;
  if (right.is(1)) return left;
  std::vector<lang::Label> labels{{a.span, "has shape " + shape_text(a.shape)}, {b.span, "has shape " + shape_text(b.shape)}};
  if (require_equal(scope, left, right, fmt::format("`{}` and `{}` are taken to be equal here", left.print(), right.print()), at, labels))
    return right.value() ? right : left;
  auto entry = scope.diagnostics.report(at, lang::messages::shapes_differ, shape_text(a.shape), shape_text(b.shape), left.print(), right.print());
  for (auto& label : labels) entry.label(label.span, label.text);
  entry.hint("aligned from the right, sizes must be equal or one of them 1; `reshape` inserts ones");
  return std::nullopt;
}

}  // namespace

std::optional<Shape> broadcast(Scope& scope, const Shaped& left, const Shaped& right, Span at) {
  const std::size_t rank = std::max(left.shape.size(), right.shape.size());
  const auto size = [&](const Shape& shape, std::size_t k) { return k + shape.size() < rank ? Size(1) : shape[k + shape.size() - rank]; };
  Shape result;
  for (std::size_t k = 0; k < rank; ++k) {
    const auto met = meet(scope, size(left.shape, k), size(right.shape, k), left, right, at);
    if (!met) return std::nullopt;
    result.push_back(*met);
  }
  return result;
}

std::vector<Affine> aligned(const Shape& shape, const Shape& result) {
  const std::size_t missing = result.size() - shape.size();
  std::vector<Affine> element;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const bool repeats = shape[k].is(1) && !result[k + missing].is(1);
    element.push_back(repeats ? Affine::of(0, result.size()) : Affine::index(k + missing, result.size()));
  }
  return element;
}

std::optional<std::vector<std::optional<std::size_t>>> same_but_ones(const Shape& from, const Shape& to) {
  std::vector<std::optional<std::size_t>> becomes;
  std::size_t at = 0;
  for (const auto& size : from) {
    if (size.is(1)) {
      becomes.push_back(std::nullopt);
      continue;
    }
    while (at < to.size() && to[at].is(1)) ++at;
    if (at == to.size() || !(to[at] == size)) return std::nullopt;
    becomes.push_back(at++);
  }
  while (at < to.size() && to[at].is(1)) ++at;
  return at == to.size() ? std::optional(becomes) : std::nullopt;
}

}  // namespace tilec::poly
