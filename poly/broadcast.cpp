// NumPy's broadcasting.
#include "poly/broadcast.h"

#include <fmt/core.h>

#include <algorithm>

#include "lang/messages.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

std::optional<Size> meet(Scope& scope, const Size& left, const Size& right, const Shaped& a, const Shaped& b, Span at) {
  if (left.is(1)) return right;
  if (right.is(1)) return left;
  std::vector<lang::Label> labels{
      {a.span, "has shape " + shape_text(a.shape)}, {b.span, "has shape " + shape_text(b.shape)}};
  if (require_equal(scope, left, right,
          fmt::format("`{}` and `{}` are taken to be equal here", left.print(), right.print()), at, labels))
    return right.value() ? right : left;
  auto entry = scope.diagnostics.report(
      at, lang::messages::shapes_differ, shape_text(a.shape), shape_text(b.shape), left.print(), right.print());
  for (auto& label : labels) entry.label(label.span, label.text);
  entry.hint("aligned from the right, sizes must be equal or one of them 1; `reshape` inserts ones");
  return std::nullopt;
}

// Did an assertion of the text say that they are equal?
bool is_assumed(const Scope& scope, const Size& left, const Size& right) {
  const auto says = [&](const Requirement& r) {
    return r.condition == Condition::Nonzero &&
        (r.left == Size::apply(Size::Kind::Equal, {left, right}) ||
            r.left == Size::apply(Size::Kind::Equal, {right, left}));
  };
  return std::any_of(scope.program.requirements.begin(), scope.program.requirements.end(), says);
}

// `M, 1` of [M] beside [M, N]: its sizes where they are in the longer shape, ones elsewhere.
std::optional<std::string> with_ones(const Shape& shorter, const Shape& longer) {
  std::string text;
  std::size_t next = 0;
  for (const Size& size : longer) {
    const bool mine = next < shorter.size() && shorter[next] == size;
    next += mine;
    text += (text.empty() ? "" : ", ") + (mine ? size.print() : "1");
  }
  return next == shorter.size() && shorter.size() < longer.size() ? std::optional(text) : std::nullopt;
}

// [M, N] with [M]: the M meets the N, though there is another M. Right only for squares, and a slip most often.
void look_for_misaligned(
    Scope& scope, const Shaped& a, const Shaped& b, const std::vector<std::pair<Size, Size>>& meeting, Span at) {
  for (std::size_t k = 0; k < meeting.size(); ++k) {
    const auto& [left, right] = meeting[k];
    if (left == right || left.is(1) || right.is(1) || (left.value() && right.value()) || is_assumed(scope, left, right))
      continue;
    const bool elsewhere = std::any_of(meeting.begin(), meeting.end(),
        [&](const auto& other) { return &other != &meeting[k] && (other.first == right || other.second == left); });
    if (!elsewhere) continue;
    auto entry = scope.diagnostics.report(
        at, messages::misaligned, shape_text(a.shape), shape_text(b.shape), left.print(), right.print());
    entry.label(a.span, "has shape " + shape_text(a.shape)).label(b.span, "has shape " + shape_text(b.shape));
    if (const auto ones = with_ones(
            a.shape.size() < b.shape.size() ? a.shape : b.shape, a.shape.size() < b.shape.size() ? b.shape : a.shape))
      entry.hint(fmt::format(
          "where the sizes of the same name are meant to meet, write `reshape(…, {})` around it, or a contraction",
          *ones));
    else entry.hint("a contraction says which index is meant: `O[i, j: M, N] = =(X[i, j] - Y[j, i]);`");
    entry.hint(fmt::format("where the two are always equal, say so in front: `Same = assert_equal({} == {});`",
        left.print(), right.print()));
    return;
  }
}

}  // namespace

std::optional<Shape> broadcast(Scope& scope, const Shaped& left, const Shaped& right, Span at) {
  const std::size_t rank = std::max(left.shape.size(), right.shape.size());
  const auto size = [&](const Shape& shape, std::size_t k) {
    return k + shape.size() < rank ? Size(1) : shape[k + shape.size() - rank];
  };
  std::vector<std::pair<Size, Size>> meeting;
  for (std::size_t k = 0; k < rank; ++k) meeting.emplace_back(size(left.shape, k), size(right.shape, k));
  look_for_misaligned(scope, left, right, meeting, at);
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
