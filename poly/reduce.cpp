// Reduce: components of indices, and for each the Hermite normal form of its output map stacked on its taps.
//
// dI[2*x + k - 1] needs new coordinates because many (x, k) write one element. O[3*x - 3*y, x + y] does not: two rows,
// two indices, full rank, one point per element. A[(i + j)/2] in O[i] does, although its target is plain: which j exist
// depends on i's parity, and a loop over j for a constant i wants to know its taps without asking. And O[4*x + k] with
// k < 4 is injective where it matters, on the domain: digits x and k, no lattice (patches, pixel shuffles, flattened
// indices).
#include "poly/reduce.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lang/diagnostic.h"
#include "poly/exact.h"
#include "poly/hull.h"

namespace tilec::poly {
namespace {

using lattice::Matrix;
using lattice::Vector;

// The target's coefficients: the given dimensions, the given indices.
Matrix output_map(
    const Statement& statement, const std::vector<std::size_t>& dimensions, const std::vector<std::size_t>& members) {
  Matrix f;
  for (const std::size_t d : dimensions) {
    f.emplace_back();
    for (const std::size_t k : members) f.back().push_back(statement.target.element[d].coefficients[k].get());
  }
  return f;
}

std::vector<std::size_t> all_dimensions(const Statement& statement) {
  std::vector<std::size_t> result(statement.target.element.size());
  std::iota(result.begin(), result.end(), std::size_t{0});
  return result;
}

struct Groups {
  std::vector<std::size_t> of;
  explicit Groups(std::size_t n) : of(n) { std::iota(of.begin(), of.end(), std::size_t{0}); }
  void join(std::size_t a, std::size_t b) {
    const std::size_t from = of[b], to = of[a];
    std::replace(of.begin(), of.end(), from, to);
  }
};

// The smallest diagonal lattice inside V's: d_j is the least multiple of unit vector j that lies in V Z^r. With the
// solution X of V X = diag d, the winding W X belongs to it. V is lower triangular. What does not fit 64 bits has more
// classes than are split.
void diagonal_period(Component& component) try {
  const Matrix& v = component.lattice.v;
  const std::size_t r = component.lattice.outputs;
  if (v.size() != r) throw Overflow("the period of the classes does not fit 64 bits");
  Matrix x(r, Vector(r, 0));
  component.period.assign(r, 1);
  component.classes = 1;
  for (std::size_t j = 0; j < r; ++j) {
    // V column by column for d·e_j; each step may ask for a multiple of what was so far.
    Vector rest(r, 0), solution(r, 0);
    std::int64_t d = 1;
    rest[j] = 1;
    for (std::size_t i = j; i < r; ++i) {
      const std::int64_t factor = v[i][i] / std::gcd(v[i][i], rest[i]);
      d = (Exact(d) * factor).get();
      for (std::int64_t& value : rest) value = (Exact(value) * factor).get();
      for (std::int64_t& value : solution) value = (Exact(value) * factor).get();
      solution[i] = rest[i] / v[i][i];
      for (std::size_t l = i; l < r; ++l) add_product(rest[l], (-Exact(v[l][i])).get(), solution[i]);
    }
    component.period[j] = d;
    component.classes *= static_cast<double>(d);
    for (std::size_t i = 0; i < r; ++i) x[i][j] = solution[i];
  }
  component.winding = component.lattice.taps == 0 || r == 0 ? Matrix(component.lattice.taps, Vector(r, 0))
                                                            : lattice::multiply(component.lattice.w, x);
} catch (const Overflow&) {
  component.classes = HUGE_VAL;
}

// Rows that mention members only, bounded on both sides, without a divisor.
std::vector<lattice::Candidate> candidates(const Statement& statement, const std::vector<std::size_t>& members) {
  std::vector<lattice::Candidate> result;
  for (const Range& range : statement.domain) {
    const Row row = row_of(range);
    if (!row.extent || row.divisor != 1) continue;
    lattice::Candidate candidate{{}, *row.extent, row.constant};
    for (const std::size_t k : members) candidate.coefficients.push_back(row.coefficients[k]);
    const auto mentioned = [](const Vector& c) {
      return std::count_if(c.begin(), c.end(), [](auto x) { return x != 0; });
    };
    if (mentioned(candidate.coefficients) > 0 && mentioned(candidate.coefficients) == mentioned(row.coefficients))
      result.push_back(std::move(candidate));
  }
  return result;
}

// Is `form` a number in a mixed radix, digit by digit: each coefficient larger than all smaller digits together?
bool is_mixed_radix(const Affine& form, const std::vector<std::size_t>& digits, const Box& box) {
  __extension__ using Wide = __int128;
  std::vector<std::pair<Wide, Wide>> parts;            // coefficient, greatest digit
  for (const std::size_t k : digits) {
    const std::int64_t c = form.coefficients[k].get();
    if (!box.index[k].lower || !box.index[k].upper) return false;
    if (c != 0) parts.emplace_back(c < 0 ? -Wide{c} : Wide{c}, Wide{*box.index[k].upper} - *box.index[k].lower);
  }
  std::sort(parts.begin(), parts.end());
  Wide below = 0;
  for (const auto& [c, greatest] : parts) {
    if (c <= below) return false;
    below += c * greatest;                             // c exceeded what is below: no sum leaves 128 bits
  }
  return true;
}

// Dimension after dimension, digits found in one are known in the next. True when every index is found.
bool is_injective(const Statement& statement, std::vector<std::size_t> unknown, const Box& box) {
  for (bool found = true; found && !unknown.empty();) {
    found = false;
    for (const Affine& form : statement.target.element) {
      const auto known = [&](std::size_t k) { return mentions(form, k); };
      if (std::none_of(unknown.begin(), unknown.end(), known) || !is_mixed_radix(form, unknown, box)) continue;
      std::erase_if(unknown, known);
      found = true;
    }
  }
  return unknown.empty();
}

void plan(const Statement& statement, Component& component) {
  const std::vector<lattice::Candidate> rows = candidates(statement, component.members);
  const auto taps = lattice::choose_taps(component.outputs, rows, component.members.size());
  if (!taps) throw lang::InternalError("an index of a bounded statement has no bound");
  Matrix c;
  for (const std::size_t s : *taps) {
    c.push_back(rows[s].coefficients);
    component.taps.push_back(rows[s]);
  }
  component.lattice = lattice::stack(component.outputs, c, component.members.size());
  component.identity = false;
  diagonal_period(component);
}

}  // namespace

bool mentions(const Affine& form, std::size_t k) { return !form.coefficients[k].is(0); }

bool is_output(const Statement& statement, std::size_t k) {
  return std::any_of(statement.target.element.begin(), statement.target.element.end(),
      [&](const Affine& form) { return mentions(form, k); });
}

std::size_t first_dimension(const Statement& statement, std::size_t k) {
  std::size_t d = 0;
  while (d < statement.target.element.size() && !mentions(statement.target.element[d], k)) ++d;
  return d;
}

bool has_divisors(const Statement& statement) {
  const auto fractional = [](const Affine& form) { return !form.divisor.is(1); };
  const auto any = [&](const Access& access) {
    return std::any_of(access.element.begin(), access.element.end(), fractional);
  };
  return any(statement.target) || std::any_of(statement.reads.begin(), statement.reads.end(), any) ||
      std::any_of(statement.domain.begin(), statement.domain.end(),
          [&](const Range& range) { return fractional(range.value); });
}

bool is_reduced(const Statement& statement) {
  if (has_divisors(statement)) return false;
  if (statement.aggregation == Aggregation::Assign) return true;             // bounds has seen to it
  std::vector<std::size_t> outputs;
  bool single = true;                                  // one index per dimension, each once: no rank to compute
  std::vector<int> uses(statement.indices.size(), 0);
  for (const Affine& form : statement.target.element) {
    int mentioned = 0;
    for (std::size_t k = 0; k < uses.size(); ++k)
      if (mentions(form, k)) {
        ++mentioned;
        ++uses[k];
      }
    single = single && mentioned <= 1;
  }
  for (std::size_t k = 0; k < uses.size(); ++k)
    if (uses[k] > 0) outputs.push_back(k);
  if (single) return true;
  return lattice::rank(output_map(statement, all_dimensions(statement), outputs), outputs.size()) == outputs.size();
}

std::vector<Component> components(const Statement& statement, const std::vector<std::vector<std::size_t>>& coupled) {
  const std::size_t n = statement.indices.size();
  Groups groups(n);
  for (const Affine& form : statement.target.element) {
    std::optional<std::size_t> first;
    for (std::size_t k = 0; k < n; ++k) {
      if (!mentions(form, k)) continue;
      if (first) groups.join(*first, k);
      else first = k;
    }
  }
  for (const std::vector<std::size_t>& group : coupled)
    for (const std::size_t k : group) groups.join(group.front(), k);
  Box box{false, std::vector<Interval>(n)};
  tighten(rows_of(statement), box);
  std::vector<Component> result;
  for (std::size_t g = 0; g < n; ++g) {
    Component component;
    for (std::size_t k = 0; k < n; ++k)
      if (groups.of[k] == g) component.members.push_back(k);
    if (component.members.empty()) continue;
    for (const std::size_t d : all_dimensions(statement))
      if (std::any_of(component.members.begin(), component.members.end(),
              [&](std::size_t k) { return mentions(statement.target.element[d], k); }))
        component.dimensions.push_back(d);
    component.outputs = output_map(statement, component.dimensions, component.members);
    std::vector<std::size_t> outputs;
    for (const std::size_t k : component.members)
      if (is_output(statement, k)) outputs.push_back(k);
    const Matrix f = output_map(statement, component.dimensions, outputs);
    const bool injective = statement.aggregation == Aggregation::Assign ||
        lattice::rank(f, outputs.size()) == outputs.size() || is_injective(statement, outputs, box);
    if (!injective || (!outputs.empty() && outputs.size() < component.members.size())) plan(statement, component);
    result.push_back(std::move(component));
  }
  return result;
}

}  // namespace tilec::poly
