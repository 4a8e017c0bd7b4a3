#include "codegen/cover.h"

#include <algorithm>
#include <numeric>

#include "codegen/elements.h"
#include "codegen/nest.h"
#include "codegen/part.h"
#include "codegen/plan.h"
#include "codegen/ranges.h"
#include "codegen/rewrite.h"

namespace tilec::codegen {

namespace {

using poly::Affine;
using poly::Statement;

constexpr int most_links = 64;                         // of a chain: a link looks at all before it

// What a dimension of the target goes through: numbers first, first + step, … up to last.
struct Progression { std::int64_t first, step, last; };

Progression progression(const Statement& s, const Affine& element) {
  Progression p{element.constant.get(), 0, element.constant.get()};
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    const std::int64_t c = element.coefficients[k].get(), low = -s.domain[k].value.constant.get(),
                       high = low + std::max<std::int64_t>(1, s.domain[k].extent->get()) - 1;
    p.first += std::min(c * low, c * high);
    p.last += std::max(c * low, c * high);
    p.step = std::gcd(p.step, c);
  }
  return p;
}

bool apart(const Progression& a, const Progression& b) {
  const std::int64_t step = std::gcd(a.step, b.step);
  return a.last < b.first || b.last < a.first || (step != 0 && (a.first - b.first) % step != 0);
}

// Two maps of one matrix reach an element in common only if a difference of points makes up for that of their
// constants. Dimensions that bring in one index each, as those of a Hermite normal form do, give these differences one
// by one.
bool different_cosets(const Statement& a, const Statement& b) {
  if (a.indices.size() != b.indices.size()) return false;
  std::vector<std::int64_t> difference(a.indices.size(), 0);
  std::vector<bool> known(a.indices.size(), false);
  for (std::size_t d = 0; d < a.target.element.size(); ++d) {
    const Affine &x = a.target.element[d], &y = b.target.element[d];
    if (x.coefficients != y.coefficients) return false;
    std::int64_t rest = y.constant.get() - x.constant.get(), c = 0;
    std::size_t fresh = 0;
    int unknown = 0;
    for (std::size_t k = 0; k < known.size(); ++k) {
      const std::int64_t each = x.coefficients[k].get();
      std::int64_t part = 0;
      if (each == 0) continue;
      if (!known[k]) ++unknown, fresh = k, c = each;
      else if (__builtin_mul_overflow(each, difference[k], &part) || __builtin_sub_overflow(rest, part, &rest))
        return false;
    }
    if (unknown == 0 && rest != 0) return true;
    if (unknown == 1 && rest % c != 0) return true;
    if (unknown > 1) return false;
    if (unknown == 1) known[fresh] = true, difference[fresh] = rest / c;
  }
  return false;
}

// The number that the first link of the chain begins with; none where a link before s may write what s may.
// `makers`: of each tensor, the statement that makes it.
std::optional<poly::Number> held(
    const poly::Program& program, const std::vector<const Statement*>& makers, const Statement& s) {
  const Statement* link = &s;
  for (int links = 0; links < most_links; ++links) {
    if (const auto* number = std::get_if<poly::Number>(&link->fill)) return *number;
    const TensorId before = std::get<TensorId>(link->fill);
    const Statement* made = makers[static_cast<std::size_t>(before)];
    if (made == nullptr || program.tensor(before).dtype != program.tensor(s.target.tensor).dtype || !disjoint(*made, s))
      return std::nullopt;
    link = made;
  }
  return std::nullopt;
}

// How many elements a statement is sure to write.
double elements_written(const Fused& fused, const Statement& s) {
  if (s.domain.size() == s.indices.size()) {           // a box, as most are
    double count = 1;
    for (std::size_t k = 0; k < s.indices.size(); ++k)
      if (is_output_index(s, k) || extent(s, k) == 0) count *= static_cast<double>(extent(s, k));
    return count;
  }
  const Nest nest = nest_of(s, fused.strides);
  const bool no_point =
      std::any_of(nest.dims.begin(), nest.dims.end(), [](const Dim& dim) { return dim.reduction && dim.extent == 0; });
  // an element without a point keeps what the link before left
  if (no_point || (!nest.fill && !always_reached(nest))) return 0;
  return static_cast<double>(output_points(nest).value_or(0));
}

}  // namespace

bool disjoint(const Statement& a, const Statement& b) {
  for (std::size_t d = 0; d < a.target.element.size(); ++d)
    if (apart(progression(a, a.target.element[d]), progression(b, b.target.element[d]))) return true;
  if (different_cosets(a, b)) return true;
  const auto x = elements_of(a), y = elements_of(b);
  return x && y && apart(*x, *y);
}

void note_held(poly::Program& program) {
  std::vector<const Statement*> makers(program.tensors.size());
  for (const poly::Node& node : program.nodes)
    if (const auto* s = std::get_if<Statement>(&node)) makers[static_cast<std::size_t>(s->target.tensor)] = s;
  for (poly::Node& node : program.nodes)
    if (auto* s = std::get_if<Statement>(&node); s && std::holds_alternative<TensorId>(s->fill))
      s->held = held(program, makers, *s);
}

Cover::Cover(const Fused& fused)
    : fused_(fused), buffer_(buffers(fused.program)), written_(fused.program.tensors.size(), 0) {
  std::vector<std::vector<const Statement*>> counted(written_.size());
  for (const poly::Node& node : fused.program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    const double count = s ? elements_written(fused, *s) : 0;
    if (count == 0) continue;
    const auto at = static_cast<std::size_t>(buffer_[static_cast<std::size_t>(s->target.tensor)]);
    if (!std::all_of(
            counted[at].begin(), counted[at].end(), [&](const Statement* other) { return disjoint(*other, *s); }))
      continue;
    counted[at].push_back(s);
    written_[at] += count;
  }
}

bool Cover::needs_fill(const Statement& s) const {
  const TensorId buffer = buffer_[static_cast<std::size_t>(s.target.tensor)];
  if (const auto* tensor = std::get_if<TensorId>(&s.fill)) return buffer_[static_cast<std::size_t>(*tensor)] != buffer;
  return written_[static_cast<std::size_t>(buffer)] < elements(fused_.program, s.target.tensor);
}

}  // namespace tilec::codegen
