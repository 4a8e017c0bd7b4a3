// Two points i and i + v write one element when F v = 0; so the kernel of F is searched, not pairs of points.
//
// A kernel vector that joins two points keeps each row in its range: |c·v| <= R - 1. These differences are few where
// `=` is injective. For O[4*x + k] = =(A[x, k]), k < 4: v = z·(1, -4), and |4 z| <= 3 leaves z = 0 alone: one tap per
// residue class is the proof. With the taps S of reduce.h as coordinates, c·v is triangular in z, so the list of
// differences is found by loops, without search. Each one but 0 is then a question about one domain, { i : i and i + v
// in D }, which intervals or a point settle.
//
// v and -v ask the same, and on convex rows 2 v asks more than v: if primitive v joins nothing, no multiple does. Rows
// with divisors are no obstacle: over the lattice on which every division is exact (lattice.h, step 0) they have none.
// Many differences mean room to collide; the short ones find it. What is left is enumerated where it is small, then isl
// is asked.
#include "poly/injective.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "poly/count.h"
#include "poly/exact.h"
#include "poly/lattice.h"
#include "poly/linear.h"
#include "poly/reduce.h"
#include "poly/sum.h"

namespace tilec::poly {
namespace {

using lattice::Matrix;
using lattice::Vector;

constexpr std::int64_t difference_cap = 4'000;         // kernel vectors looked at
constexpr std::int64_t point_cap = 20'000;             // domain points enumerated
constexpr std::int64_t look_cap = 60'000;               // rows looked at by each kind of search: 5 ms
constexpr std::int64_t linear_looks = 4'000;            // what a rational hull costs, in rows looked at
constexpr unsigned long isl_cap = 4'000;               // its operations

Point moved(const Point& start, const Point& v) {
  Point end(start);
  for (std::size_t k = 0; k < v.size(); ++k) add_product(end[k], 1, v[k]);
  return end;
}

// i with i and i + v both in the domain; `proven` when there is none for certain.
std::optional<Point> shared_start(
    const std::vector<Row>& rows, const Box& box, const Point& v, std::int64_t& budget, bool& proven) {
  std::vector<Row> both(rows);
  Box inside = box;
  for (std::size_t k = 0; k < v.size(); ++k) {         // the hull holds at both ends
    inside.index[k].lower = std::max(*box.index[k].lower, (Exact(*box.index[k].lower) - v[k]).get());
    inside.index[k].upper = std::min(*box.index[k].upper, (Exact(*box.index[k].upper) - v[k]).get());
    inside.empty = inside.empty || *inside.index[k].lower > *inside.index[k].upper;
  }
  proven = inside.empty;
  if (inside.empty) return std::nullopt;
  for (Row row : rows) {
    Sum constant(row.constant);
    for (std::size_t k = 0; k < v.size(); ++k) constant.add(row.coefficients[k], v[k]);
    row.constant = constant.get();
    both.push_back(std::move(row));
  }
  budget -= tighten(both, inside);
  proven = inside.empty;
  if (inside.empty) return std::nullopt;
  std::int64_t share = std::min<std::int64_t>(budget, 12'000);
  budget -= share;
  std::optional<Point> found = find_point(both, inside, share, proven);
  budget += std::max<std::int64_t>(share, 0);
  if (found || proven || budget < 0) return found;
  budget -= linear_looks;
  const std::optional<Box> rational = rational_hull(both, v.size());        // intervals are loose where rows are skewed
  if (!rational) return std::nullopt;
  inside = *rational;
  if (!inside.empty) budget -= tighten(both, inside);
  proven = inside.empty;
  share = std::min<std::int64_t>(std::max<std::int64_t>(budget, 0), 12'000);
  return proven ? std::nullopt : find_point(both, inside, share, proven);
}

// A kernel basis as columns over all indices (those of one value stand still), such that many rows are triangular on
// it.
struct Kernel { Matrix basis; std::size_t directions = 0; };

Kernel kernel_of(const Matrix& forms, const std::vector<Row>& rows, const Box& box) {
  const std::size_t n = box.index.size();
  std::vector<std::size_t> varying;
  for (std::size_t k = 0; k < n; ++k)
    if (box.index[k].lower != box.index[k].upper) varying.push_back(k);
  const auto restricted = [&](const Vector& form) {
    Vector result;
    for (const std::size_t k : varying) result.push_back(form[k]);
    return result;
  };
  Matrix f;
  for (const Vector& form : forms) f.push_back(restricted(form));
  std::vector<lattice::Candidate> candidates;
  const auto consider = [&](const Vector& c, std::int64_t range) {
    if (std::any_of(c.begin(), c.end(), [](auto x) { return x != 0; })) candidates.push_back({c, range});
  };
  for (std::size_t k = 0; k < varying.size(); ++k) {
    Vector unit(varying.size(), 0);
    unit[k] = 1;
    consider(unit, (Exact(*box.index[varying[k]].upper) - *box.index[varying[k]].lower + 1).get());
  }
  for (const Row& row : rows)
    if (row.extent && row.divisor == 1) consider(restricted(row.coefficients), *row.extent);
  Kernel kernel{Matrix(n), varying.size() - lattice::rank(f, varying.size())};
  for (Vector& row : kernel.basis) row.assign(kernel.directions, 0);
  if (kernel.directions == 0) return kernel;
  Matrix taps;
  const auto chosen = lattice::choose_taps(f, candidates, varying.size());
  for (const std::size_t s : *chosen) taps.push_back(candidates[s].coefficients);
  const lattice::Stacked stacked = lattice::stack(f, taps, varying.size());
  for (std::size_t k = 0; k < varying.size(); ++k)
    for (std::size_t z = 0; z < kernel.directions; ++z) kernel.basis[varying[k]][z] = stacked.u[k][stacked.outputs + z];
  return kernel;
}

// What the rows say of z when v = N z joins two of their points. A row that does not fit 64 bits says nothing: the
// others must do.
std::vector<Row> difference_rows(const Kernel& kernel, const std::vector<Row>& rows, const Box& box) {
  std::vector<Row> result;
  const auto add = [&](const Vector& c, std::int64_t divisor, std::int64_t width) {
    Row row{Vector(kernel.directions, 0), (Exact(divisor) * width).get(), divisor, (Exact(2) * width + 1).get()};
    for (std::size_t z = 0; z < kernel.directions; ++z) {
      Sum along;
      for (std::size_t k = 0; k < c.size(); ++k) along.add(c[k], kernel.basis[k][z]);
      row.coefficients[z] = along.get();
    }
    if (std::any_of(row.coefficients.begin(), row.coefficients.end(), [](auto x) { return x != 0; }))
      result.push_back(std::move(row));
  };
  const auto try_to_add = [&](const Vector& c, std::int64_t divisor, std::int64_t width) {
    try {
      add(c, divisor, width);
    } catch (const Overflow&) {
      return;                                          // one row fewer to reason with
    }
  };
  for (std::size_t k = 0; k < box.index.size(); ++k) {
    Vector unit(box.index.size(), 0);
    unit[k] = 1;
    try_to_add(unit, 1, (Exact(*box.index[k].upper) - *box.index[k].lower).get());
  }
  for (const Row& row : rows)
    if (row.extent) try_to_add(row.coefficients, row.divisor, *row.extent - 1);
  return result;
}

struct Search {
  const std::vector<Row>& rows;
  const Box& box;
  const Kernel& kernel;
  std::int64_t budget = look_cap;
  bool all_proven = true;
  std::optional<solve::Collision> found = std::nullopt;

  // False when a collision was found or the budget ended.
  bool look_at(const Point& z) {
    const auto first = std::find_if(z.begin(), z.end(), [](auto x) { return x != 0; });
    if (first == z.end() || *first < 0) return true;   // v and -v are one question
    if (std::accumulate(z.begin(), z.end(), std::int64_t{0}, [](auto a, auto b) { return std::gcd(a, b); }) != 1)
      return true;
    bool proven = false;
    try {
      look_along(z, proven);
    } catch (const Overflow&) {                        // a step too long to take
      proven = false;
    }
    all_proven = all_proven && proven;
    return !found && budget > 0;
  }

  void look_along(const Point& z, bool& proven) {
    Point v(box.index.size(), 0);
    for (std::size_t k = 0; k < v.size(); ++k) {
      Sum step;
      for (std::size_t j = 0; j < z.size(); ++j) step.add(kernel.basis[k][j], z[j]);
      v[k] = step.get();
    }
    if (const auto start = shared_start(rows, box, v, budget, proven)) found = {*start, moved(*start, v)};
  }
};

// The basis with short vectors: each is shortened by the others while that helps (pairwise, as Gauss and Lagrange do
// it). Euclid's steps leave long ones, and what two points differ by is short, measured in what the rows allow: c·v
// against R. The basis as it is where a step does not fit.
Kernel shortened(const Kernel& given, std::vector<Row> lengths) try {
  Kernel kernel = given;
  const auto dot = [&](std::size_t i, std::size_t j) {
    double sum = 0;
    for (const Row& row : lengths) {
      const double width = static_cast<double>(*row.extent);
      sum += static_cast<double>(row.coefficients[i]) * static_cast<double>(row.coefficients[j]) / (width * width);
    }
    return sum;
  };
  int rounds = 0;
  for (bool changed = true; changed && rounds < 50; ++rounds) {
    changed = false;
    for (std::size_t i = 0; i < kernel.directions; ++i)
      for (std::size_t j = 0; j < kernel.directions; ++j) {
        const double factor = i == j ? 0 : std::round(dot(i, j) / dot(j, j));
        if (factor == 0 || !(std::abs(factor) < 1e9)) continue;
        const auto whole = static_cast<std::int64_t>(factor);
        for (Vector& row : kernel.basis) add_product(row[i], -whole, row[j]);
        for (Row& row : lengths) add_product(row.coefficients[i], -whole, row.coefficients[j]);
        changed = true;
      }
  }
  return kernel;
} catch (const Overflow&) {
  return given;
}

// z with entries -1, 0, 1: the short vectors.
void look_at_short(Search& search) {
  Point z(search.kernel.directions, -1);
  for (;;) {
    if (!search.look_at(z)) return;
    std::size_t k = z.size();
    while (k > 0 && z[k - 1] == 1) z[--k] = -1;
    if (k == 0) return;
    ++z[k - 1];
  }
}

// Elements sorted: equal ones meet.
Verdict by_enumeration(const std::vector<Row>& rows, const Box& box, const Matrix& forms) {
  std::vector<std::pair<Point, Point>> writers;
  const bool finished = for_each_point(rows, box, point_cap, [&](const Point& point) {
    writers.emplace_back(lattice::Vector(), point);
    for (const Vector& form : forms) {
      Sum element;
      for (std::size_t k = 0; k < form.size(); ++k) element.add(form[k], point[k]);
      writers.back().first.push_back(element.get());
    }
    return true;
  }, 3 * look_cap);
  std::sort(writers.begin(), writers.end());
  const auto same = std::adjacent_find(
      writers.begin(), writers.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (same != writers.end()) return {Injective::No, {same->second, (same + 1)->second}, {}};
  return {finished ? Injective::Yes : Injective::Unknown, {}, {}};
}

std::string why_unknown(const Kernel& kernel, bool finished, const Box& box) {
  double points = 1;
  for (const Interval& i : box.index) points *= static_cast<double>(*i.upper) - static_cast<double>(*i.lower) + 1;
  return fmt::format(
      "{} of {} indices can move without the element, in {} ways, and of {:.0f} points {} are enumerated",
      kernel.directions, box.index.size(), finished ? "some" : fmt::format("more than {}", difference_cap), points,
      point_cap);
}

// On convex rows.
Verdict decide(const std::vector<Row>& rows, const Box& box, const Matrix& forms) {
  if (box.empty) return {Injective::Yes, {}, {}};
  const Kernel kernel = kernel_of(forms, rows, box);
  if (kernel.directions == 0) return {Injective::Yes, {}, {}};
  const std::vector<Row> between = difference_rows(kernel, rows, box);
  const Kernel brief = shortened(kernel, between);
  Search nearby{rows, box, brief}, search{rows, box, kernel};
  look_at_short(nearby);
  if (nearby.found) return {Injective::No, *nearby.found, {}};
  const Box steps = hull(between, kernel.directions, 0);
  const bool bounded =
      steps.empty || std::ranges::all_of(steps.index, [](const Interval& i) { return i.lower && i.upper; });
  const bool finished = bounded &&
      for_each_point(between, steps, difference_cap, [&](const Point& z) { return search.look_at(z); }, look_cap);
  if (search.found) return {Injective::No, *search.found, {}};
  if (finished && search.all_proven) return {Injective::Yes, {}, {}};
  if (const Verdict verdict = by_enumeration(rows, box, forms); verdict.answer != Injective::Unknown) return verdict;
  if (const auto answer = solve::collision(rows, forms, box.index.size(), isl_cap))
    return *answer ? Verdict{Injective::No, **answer, {}} : Verdict{Injective::Yes, {}, {}};
  return {Injective::Unknown, {}, why_unknown(kernel, finished, box)};
}

// The same question over the lattice i = L t + start on which every division is exact: there the rows are convex.
Verdict decide_divided(const std::vector<Row>& rows, const Matrix& forms, std::size_t n) {
  Matrix a;
  Vector b, d;
  for (const Row& row : rows) {
    if (row.divisor == 1) continue;
    a.push_back(row.coefficients);
    b.push_back(row.constant);
    d.push_back(row.divisor);
  }
  const auto found = lattice::sublattice(a, b, d, n);
  if (!found) return {Injective::Yes, {}, {}};
  std::vector<Row> convex;
  for (const Row& row : rows) {
    Row next{lattice::multiply({row.coefficients}, found->l)[0], 0, 1, row.extent};
    next.constant = (Exact(lattice::apply({row.coefficients}, found->start)[0]) + row.constant).get() / row.divisor;
    for (std::int64_t& c : next.coefficients) c /= row.divisor;
    convex.push_back(std::move(next));
  }
  Verdict verdict = decide(convex, hull(convex, n, 0), forms.empty() ? forms : lattice::multiply(forms, found->l));
  for (Point* point : {&verdict.points.first, &verdict.points.second})
    if (!point->empty()) *point = moved(found->start, lattice::apply(found->l, *point));
  return verdict;
}

}  // namespace

Verdict injective(const Statement& statement, const std::vector<Row>& rows, const Box& box) try {
  if (box.empty) return {Injective::Yes, {}, {}};
  Matrix forms;
  for (const Affine& form : statement.target.element) {
    forms.emplace_back();
    for (const Size& c : form.coefficients) forms.back().push_back(c.get());
  }
  if (std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.divisor == 1; }))
    return decide(rows, box, forms);
  std::vector<Row> all(rows);
  const std::size_t n = box.index.size();
  for (std::size_t k = 0; k < n; ++k) {
    all.push_back(
        {Vector(n, 0), -*box.index[k].lower, 1, (Exact(*box.index[k].upper) - *box.index[k].lower + 1).get()});
    all.back().coefficients[k] = 1;
  }
  return decide_divided(all, forms, n);
} catch (const Overflow&) {
  return {Injective::Unknown, {}, "what its points differ by does not fit 64 bits"};
}

}  // namespace tilec::poly
