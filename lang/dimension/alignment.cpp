#include "lang/dimension/alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "lang/messages.h"

namespace tilec::lang::dimensions {

namespace {

// `reshape(…, M, 1)` of [M] beside [M, N]: its sizes where they are in the longer shape, ones elsewhere.
std::string other_alignment(const Shape& shorter, const Shape& longer) {
  std::string sizes;
  std::size_t next = 0;
  for (const Dimension& d : longer.dimensions) {
    const bool mine = next < shorter.dimensions.size() && d && shorter.dimensions[next] == d;
    next += mine;
    sizes += (sizes.empty() ? "" : ", ") + (mine ? *d : "1");
  }
  if (next < shorter.dimensions.size() || next == longer.dimensions.size())
    return "a contraction says which index is meant: `O[i, j: M, N] = =(X[i, j] - Y[j, i]);`";
  if (shorter.name.empty())
    return fmt::format(
        "where the sizes of the same name are meant to meet, give the shorter one a name, `T = …;`, and write `reshape(T, {})`",
        sizes);
  return fmt::format(
      "where the sizes of the same name are meant to meet, write `reshape({}, {})`", shorter.name, sizes);
}

// [M, N] with [M]: the M meets the N, though there is another M. poly/broadcast sees more, but only where sizes are
// names still.
void look_for_misaligned(Tensors& here, const Shape& a, const Shape& b, Span at) {
  if (has_pack(a) || has_pack(b)) return;
  const std::size_t rank = std::max(a.dimensions.size(), b.dimensions.size());
  const auto name = [&](const Shape& shape, std::size_t k) {
    return k + shape.dimensions.size() < rank ? Dimension() : shape.dimensions[k + shape.dimensions.size() - rank];
  };
  for (std::size_t k = 0; k < rank; ++k) {
    const Dimension left = name(a, k), right = name(b, k);
    if (!left || !right || *left == *right || here.kept_apart(*left, *right) ||
        here.equal.contains(std::minmax(*left, *right)))
      continue;
    bool elsewhere = false;
    for (std::size_t j = 0; j < rank; ++j) elsewhere |= j != k && (name(a, j) == right || name(b, j) == left);
    if (!elsewhere) continue;
    here.diagnostics.report(at, messages::misaligned, text_of(a), text_of(b), *left, *right)
        .label(a.where, "has shape " + text_of(a))
        .label(b.where, "has shape " + text_of(b))
        .hint(other_alignment(
            a.dimensions.size() < b.dimensions.size() ? a : b, a.dimensions.size() < b.dimensions.size() ? b : a))
        .hint(fmt::format(
            "where the two are always equal, say so in front: `Same = assert_equal({} == {});`", *left, *right));
    return;
  }
}

}  // namespace

Shape both(Tensors& here, const Shape& a, const Shape& b, std::string_view how) {
  if (a.dimensions == b.dimensions) return a;
  if (has_pack(a) || has_pack(b))
    return both(here, {behind_packs(a.dimensions), a.where}, {behind_packs(b.dimensions), b.where}, how);
  const Shape &longer = a.dimensions.size() >= b.dimensions.size() ? a : b,
              &shorter = a.dimensions.size() >= b.dimensions.size() ? b : a;
  Shape result = longer;
  const std::size_t ahead = longer.dimensions.size() - shorter.dimensions.size();
  for (std::size_t d = 0; d < shorter.dimensions.size(); ++d) {
    Dimension& mine = result.dimensions[ahead + d];
    const Dimension& other = shorter.dimensions[d];
    if (mine && other && here.kept_apart(*mine, *other))
      here.diagnostics
          .report(
              b.where, messages::dimensions_mix, &longer == &a ? *mine : *other, &longer == &a ? *other : *mine, how)
          .label(a.where, "with this");
    if (!mine) mine = other;
  }
  return result;
}

Value meet(Tensors& here, const std::vector<Value>& operands, Span at) {
  std::optional<Shape> all;
  bool known = true;
  for (const Value& operand : operands) {
    known &= operand.shape.has_value() &&
        (!all || operand.shape->dimensions == all->dimensions || !(has_pack(*all) || has_pack(*operand.shape)));
    if (operand.shape && all && here.depth == 0) look_for_misaligned(here, *all, *operand.shape, at);
    if (operand.shape && all) all = both(here, *all, *operand.shape, "they are aligned");
    else if (operand.shape) all = operand.shape;
  }
  return known ? Value{all} : Value{};
}

void note_assertion(Tensors& here, const Expr& e) {
  const auto* call = e.as<Call>();
  const auto* equation = call && call->function.text.starts_with("assert_") && call->arguments.size() == 1
      ? call->arguments[0].as<Binary>()
      : nullptr;
  const auto left = equation && equation->op == Op::Eq ? plain(equation->left) : std::nullopt,
             right = equation ? plain(equation->right) : std::nullopt;
  if (left && right) here.equal.insert(std::minmax(*left, *right));
}

}  // namespace tilec::lang::dimensions
