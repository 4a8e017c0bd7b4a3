// Composition in plain integers: bound statements have no names in their coefficients, and defract composes every
// Affine of a statement once per residue class.
#include "poly/substitute.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "poly/exact.h"
#include "poly/sum.h"

namespace tilec::poly {
namespace {

Affine compose(const Affine& form, const Map& map, std::size_t count) {
  std::vector<Sum> sums(count);
  Sum moved(form.constant.get());
  for (std::size_t k = 0; k < form.coefficients.size(); ++k) {
    const std::int64_t c = form.coefficients[k].get();
    if (c == 0) continue;
    moved.add(c, map.start[k]);
    for (std::size_t j = 0; j < count; ++j) sums[j].add(c, map.matrix[k][j]);
  }
  // What all have in common leaves before they must fit: over the lattice on which a division is exact, that is the
  // divisor.
  const std::int64_t divisor = form.divisor.get();
  std::int64_t common = moved.common(divisor);
  for (const Sum& sum : sums) common = sum.common(common);
  const auto reduced = [&](const Sum& sum) {
    const std::int64_t value = sum.over(common).get();
    if (value == INT64_MIN) throw Overflow("an index coefficient, -2^63, has no negative");
    return value;
  };
  Affine result;
  for (const Sum& sum : sums) result.coefficients.push_back(reduced(sum));
  result.constant = reduced(moved);
  result.divisor = divisor / common;
  return result;
}

Expr compose(const Expr& value, const Map& map, std::size_t count) {
  return value.match([&](const Number&) { return value; },
                     [&](const Read&) { return value; },
                     [&](const Index& index) { return Expr(Index{compose(index.value, map, count), index.type}); },
                     [&](const Cast& cast) {
                       Expr operand = compose(cast.operand, map, count);
                       return operand.same_as(cast.operand) ? value : Expr(Cast{std::move(operand), cast.type});
                     },
                     [&](const Apply& apply) {
                       Apply result{apply.op, {}, apply.type};
                       bool same = true;
                       for (const Expr& operand : apply.operands) {
                         result.operands.push_back(compose(operand, map, count));
                         same = same && result.operands.back().same_as(operand);
                       }
                       return same ? value : Expr(std::move(result));
                     });
}

void compose(Access& access, const Map& map, std::size_t count) {
  for (Affine& form : access.element) form = compose(form, map, count);
}

}  // namespace

Statement substitute(const Statement& statement, const Map& map, std::vector<std::string> names) {
  Statement result = statement;
  const std::size_t count = names.size();
  compose(result.target, map, count);
  for (Access& read : result.reads) compose(read, map, count);
  for (Range& range : result.domain) range.value = compose(range.value, map, count);
  result.value = compose(statement.value, map, count);
  result.indices = std::move(names);
  return result;
}

}  // namespace tilec::poly
