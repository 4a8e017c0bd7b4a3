#include "lang/dimension/index.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "lang/dimension/alignment.h"
#include "lang/dimension/linear.h"
#include "lang/messages.h"
#include "lang/pack.h"
#include "lang/walk.h"

namespace tilec::lang::dimensions {

namespace {

// Where an index stands alone as one dimension of a tensor.
struct Use { std::string tensor, dimension; Span index, declared; const Access* access; };
using Uses = std::map<std::string, std::vector<Use>>;  // by index

void note(const Access& access, const Shape& shape, Uses& uses) {
  const bool whole = fits(access.element, shape.dimensions);
  for (const Part& part : parts_of(access.element, shape.dimensions)) {
    const auto* v = part.index->as<Variable>();
    if (!v || v->name.upper || !part.dimension) continue;
    const Name index = whole || !v->pack ? v->name : dimension(v->name, part.number);
    uses[index.spelled()].push_back(
        {access.tensor.spelled(), *part.dimension, part.index->span(), shape.where, &access});
  }
}

void accesses(const Tensors& here, const Expr& e, Uses& uses) {
  each_access(e, [&](const Access& a, const Expr&) {
    if (const Value value = here.value_named(a.tensor); value.shape) note(a, *value.shape, uses);
  });
}

// `i == j` makes one index of two.
void equal(Tensors& here, const Constraint& k, const Uses& uses) {
  const auto *left = k.polynomial.as<Variable>(), *right = k.bound.as<Variable>();
  if (k.form != Constraint::Form::Equal || !left || !right) return;
  const auto a = uses.find(left->name.spelled()), b = uses.find(right->name.spelled());
  if (a == uses.end() || b == uses.end() || !here.kept_apart(a->second[0].dimension, b->second[0].dimension)) return;
  here.diagnostics
      .report(k.span, messages::dimensions_mix, a->second[0].dimension, b->second[0].dimension,
          fmt::format("`{}` and `{}` are one index", a->first, b->first))
      .label(a->second[0].index, "this ranges over the first")
      .label(b->second[0].index, "this ranges over the second");
}

std::vector<Dimension> dimensions_of(const Tensors& here, const Use& use) {
  const Value value = here.value_named(use.access->tensor);
  return value.shape ? value.shape->dimensions : std::vector<Dimension>{};
}

// The same indices in another order, in which each dimension is the one its index has elsewhere.
std::optional<std::string> other_order(const Use& use, const std::vector<Dimension>& shape, const Uses& uses) {
  std::vector<std::string> indices;
  for (const Expr& e : use.access->element) {
    const auto* v = e.as<Variable>();
    if (!v) return std::nullopt;
    indices.push_back(v->name.spelled());
  }
  const auto elsewhere = [&](const std::string& index, const std::string& dimension) {
    const auto at = uses.find(index);                  // none where no dimension it stands for has a name
    return at != uses.end() && std::any_of(at->second.begin(), at->second.end(), [&](const Use& u) {
      return u.access != use.access && u.dimension == dimension;
    });
  };
  const std::vector<std::string> there = indices;
  std::sort(indices.begin(), indices.end());
  do {
    bool fits = shape.size() == indices.size() && indices != there;
    for (std::size_t d = 0; fits && d < indices.size(); ++d) fits = shape[d] && elsewhere(indices[d], *shape[d]);
    if (fits) return fmt::format("{}[{}]", use.tensor, fmt::join(indices, ", "));
  } while (indices.size() < 6 && std::next_permutation(indices.begin(), indices.end()));
  return std::nullopt;
}

// A diagonal, `A[i, i]`; or a part: the left side says how far the index goes, another read goes as far, and no other
// order of the indices would read everything. `Y[t, d: T, D] = =(X[t, d] + P[t, d])` takes the first T rows of a
// longer table.
bool is_meant(const Tensors& here, const std::vector<Use>& all, const Use& other, const Access& target,
    const Contraction& c, const Uses& uses) {
  if (other.access == all[0].access) return true;
  const auto written = std::find_if(all.begin(), all.end(), [&](const Use& u) { return u.access == &target; });
  if (written == all.end()) return false;
  bool whole = c.aggregation == AggregationSyntax::Assign && c.body.as<Access>();
  for (const Use& use : all) {
    if (use.access == &target) continue;
    whole |= use.dimension == written->dimension;
    if (use.dimension == written->dimension) continue;
    // `C[i, j: M, N]` with B[N, K] read at `B[i, k]`
    const bool of_another = std::any_of(uses.begin(), uses.end(), [&](const auto& each) {
      return std::any_of(each.second.begin(), each.second.end(),
          [&](const Use& u) { return u.access == &target && u.dimension == use.dimension; });
    });
    if (of_another || other_order(use, dimensions_of(here, use), uses)) return false;
  }
  return whole;
}

void report(Tensors& here, const std::string& index, const Use& a, const Use& b, const Uses& uses) {
  if (here.kept_apart(a.dimension, b.dimension)) {
    here.diagnostics
        .report(b.index, messages::dimensions_mix, a.dimension, b.dimension,
            fmt::format("index `{}` ranges over both", index))
        .label(a.declared, fmt::format("`{}` is declared here", a.tensor));
    return;
  }
  if (here.depth > 0) return;                          // names that one name of the callee stands for are compared
                                                       // before it runs
  auto entry =
      here.diagnostics.report(b.index, messages::dimension, index, a.dimension, a.tensor, b.dimension, b.tensor);
  const auto shape = dimensions_of(here, b);
  std::string by;
  for (const Dimension& d : shape) by += (by.empty() ? "" : " by ") + d.value_or("…");
  entry.label(b.declared,
      by.empty() ? fmt::format("`{}` is declared here", b.tensor)
                 : fmt::format("`{}` is declared {} here", b.tensor, by));
  auto order = other_order(b, shape, uses);
  if (!order) order = other_order(a, dimensions_of(here, a), uses);
  if (order) entry.hint(fmt::format("`{}` reads every element", *order));
}

}  // namespace

void contraction(Tensors& here, const Contraction& c) {
  Uses uses;
  const Access target{c.target.name, c.element};
  const std::optional<Shape> known = here.shape_of(c.sizes, c.target.span);
  const Shape shape = known.value_or(Shape{{}, c.target.span});
  note(target, shape, uses);
  accesses(here, c.body, uses);
  // Reads are compared with each other first: of a swapped operand the read is wrong, not the target.
  for (auto& [index, all] : uses) {
    std::rotate(all.begin(), std::find_if(all.begin(), all.end(), [&](const Use& u) { return u.access != &target; }),
        all.end());
    for (const Use& other : all)
      if (other.dimension != all[0].dimension &&
          (here.kept_apart(other.dimension, all[0].dimension) || !is_meant(here, all, other, target, c, uses))) {
        report(here, index, all[0], other, uses);
        break;
      }
  }
  if (here.depth == 0) {
    look_for_strides(here, c);
    look_for_swapped(here, c);
  }
  for (const Constraint& k : c.constraints) equal(here, k, uses);
  const auto* name = c.default_value ? std::get_if<Name>(&c.default_value->value) : nullptr;
  if (const Value filled = name ? here.value_named(*name) : Value{}; filled.shape && known)
    both(here, shape, {filled.shape->dimensions, c.default_value->span}, "`default` fills the first with the second");
}

}  // namespace tilec::lang::dimensions
