// Lattices, hulls, counts and isl against enumeration.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "poly/count.h"
#include "poly/hull.h"
#include "poly/lattice.h"
#include "poly/solve.h"

using namespace tilec::poly;
using lattice::Matrix;
using lattice::Vector;

namespace {

struct Dice {
  std::mt19937 engine;
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine);
  }
  Matrix matrix(std::size_t rows, std::size_t columns) {
    Matrix a(rows, Vector(columns));
    for (Vector& row : a) for (std::int64_t& x : row) x = (*this)(0, 9) < 6 ? (*this)(-8, 8) : 0;
    return a;
  }
};

std::int64_t determinant(Matrix a) {                   // fraction-free; small matrices
  std::int64_t sign = 1, previous = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t p = i;
    while (p < a.size() && a[p][i] == 0) ++p;
    if (p == a.size()) return 0;
    if (p != i) {
      std::swap(a[p], a[i]);
      sign = -sign;
    }
    for (std::size_t r = i + 1; r < a.size(); ++r)
      for (std::size_t c = i + 1; c < a.size(); ++c) a[r][c] = (a[r][c] * a[i][i] - a[r][i] * a[i][c]) / previous;
    previous = a[i][i];
  }
  return a.empty() ? 1 : sign * a.back().back();
}

std::vector<Row> random_rows(Dice& dice, std::size_t n) {
  std::vector<Row> rows;
  for (std::size_t k = 0; k < n; ++k) {
    Row row{Vector(n, 0), dice(-3, 3), 1, dice(0, 20) == 0 ? 0 : dice(1, 7)};
    row.coefficients[k] = dice(0, 4) == 0 ? -1 : 1;
    rows.push_back(row);
  }
  for (std::int64_t extra = dice(0, 3); extra > 0; --extra) {
    Row row{dice.matrix(1, n)[0], dice(-5, 5), dice(0, 3) == 0 ? dice(2, 4) : 1, dice(3, 40)};
    if (dice(0, 3) == 0) row.extent.reset();
    rows.push_back(row);
  }
  return rows;
}

std::vector<Point> brute_force(const std::vector<Row>& rows, std::size_t n) {
  std::vector<Point> found;
  Point point(n, -12);
  for (;;) {
    if (std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return holds(row, point); }))
      found.push_back(point);
    std::size_t k = n;
    while (k > 0 && point[k - 1] == 12) point[--k] = -12;
    if (k == 0) return found;
    ++point[k - 1];
  }
}

Box exact_box(const std::vector<Point>& points, std::size_t n) {
  Box box{points.empty(), std::vector<Interval>(n)};
  for (const Point& p : points)
    for (std::size_t k = 0; k < n; ++k) {
      box.index[k].lower = std::min(p[k], box.index[k].lower.value_or(p[k]));
      box.index[k].upper = std::max(p[k], box.index[k].upper.value_or(p[k]));
    }
  return box;
}

}  // namespace

TEST_CASE("the Hermite normal form is A U, echelon, reduced, and U is unimodular") {
  Dice dice{std::mt19937(1)};
  for (int repeat = 0; repeat < 500; ++repeat) {
    const auto m = static_cast<std::size_t>(dice(1, 5)), n = static_cast<std::size_t>(dice(1, 6));
    const Matrix a = dice.matrix(m, n);
    const lattice::Hermite form = lattice::col_hnf(a, n);
    CHECK(lattice::multiply(a, form.u) == form.h);
    CHECK(std::abs(determinant(form.u)) == 1);
    for (std::size_t c = 0; c < n; ++c)
      for (std::size_t row = 0; row < m; ++row) {
        const bool above = c >= form.rank || row < form.pivots[c];
        if (above) CHECK(form.h[row][c] == 0);
        if (!above && row == form.pivots[c]) {
          CHECK(form.h[row][c] > 0);
          for (std::size_t left = 0; left < c; ++left)
            CHECK((form.h[row][left] >= 0 && form.h[row][left] < form.h[row][c]));
        }
      }
    const Matrix basis = lattice::kernel(a, n);
    for (std::size_t c = 0; c < basis[0].size(); ++c) {
      Vector v;
      for (const Vector& row : basis) v.push_back(row[c]);
      CHECK(lattice::apply(a, v) == Vector(m, 0));
    }
  }
}

TEST_CASE("stride 3, dilation 2 stacks to the lattice of the design") {
  const lattice::Stacked s = lattice::stack({{3, 2}}, {{0, 1}}, 2);
  CHECK(s.u == Matrix{{-1, -2}, {2, 3}});              // y's column is reduced by z's: G = 2, where the design prints
                                                       // -1
  CHECK(s.h == Matrix{{1}});
  CHECK(s.g == Matrix{{2}});
  CHECK(s.t == Matrix{{3}});
  CHECK(s.v == Matrix{{3}});
  CHECK(s.b == Matrix{{1, -2}, {0, 3}});
  CHECK(s.classes == 3);
}

TEST_CASE("the sublattice holds exactly the points where every division is exact") {
  Dice dice{std::mt19937(2)};
  for (int repeat = 0; repeat < 300; ++repeat) {
    const auto m = static_cast<std::size_t>(dice(1, 3)), n = static_cast<std::size_t>(dice(1, 3));
    const Matrix a = dice.matrix(m, n);
    Vector b, d;
    for (std::size_t j = 0; j < m; ++j) {
      b.push_back(dice(-9, 9));
      d.push_back(dice(1, 8));
    }
    const auto found = lattice::sublattice(a, b, d, n);
    Point point(n, -3);
    for (;;) {
      bool exact = true, inside = found.has_value();
      const Vector value = lattice::apply(a, point);
      for (std::size_t j = 0; j < m; ++j) exact = exact && (value[j] + b[j]) % d[j] == 0;
      Vector t;
      for (std::size_t k = 0; found && k < n; ++k) {
        std::int64_t rest = point[k] - found->start[k];
        for (std::size_t c = 0; c < k; ++c) rest -= found->l[k][c] * t[c];
        inside = inside && rest % found->l[k][k] == 0;
        t.push_back(rest / found->l[k][k]);
      }
      REQUIRE(inside == exact);
      std::size_t k = n;
      while (k > 0 && point[k - 1] == 3) point[--k] = -3;
      if (k == 0) break;
      ++point[k - 1];
    }
  }
}

TEST_CASE("hulls and counts are exact, and isl agrees") {
  Dice dice{std::mt19937(3)};
  for (int repeat = 0; repeat < 600; ++repeat) {
    const auto n = static_cast<std::size_t>(dice(1, 3));
    const std::vector<Row> rows = random_rows(dice, n);
    const std::vector<Point> points = brute_force(rows, n);
    const Box expected = exact_box(points, n), box = hull(rows, n);
    REQUIRE(box.empty == expected.empty);
    if (!box.empty) REQUIRE(box.index == expected.index);
    CHECK(count_points(rows, box) == static_cast<std::int64_t>(points.size()));
    if (repeat % 4 != 0) continue;
    const auto asked = solve::hull(rows, n);
    REQUIRE(asked);
    CHECK(asked->empty == expected.empty);
    if (!asked->empty) CHECK(asked->index == expected.index);
    CHECK(solve::is_empty(rows, n) == expected.empty);
  }
}

TEST_CASE("isl shows two colliding points exactly when there are some") {
  Dice dice{std::mt19937(4)};
  for (int repeat = 0; repeat < 200; ++repeat) {
    const auto n = static_cast<std::size_t>(dice(1, 3));
    const std::vector<Row> rows = random_rows(dice, n);
    const Matrix forms = dice.matrix(static_cast<std::size_t>(dice(1, 2)), n);
    std::vector<Vector> elements;
    for (const Point& p : brute_force(rows, n)) elements.push_back(lattice::apply(forms, p));
    std::sort(elements.begin(), elements.end());
    const bool collide = std::adjacent_find(elements.begin(), elements.end()) != elements.end();
    const auto answer = solve::collision(rows, forms, n);
    if (!answer) continue;
    REQUIRE(answer->has_value() == collide);
    if (!*answer) continue;
    CHECK((*answer)->first != (*answer)->second);
    CHECK(lattice::apply(forms, (*answer)->first) == lattice::apply(forms, (*answer)->second));
    for (const Row& row : rows) CHECK((holds(row, (*answer)->first) && holds(row, (*answer)->second)));
  }
}

TEST_CASE("an index bounded only together with another has a hull; one bounded on one side has none") {
  const Box skewed = hull({{{1, 1}, 0, 1, 5}, {{1, -1}, 0, 1, 5}}, 2);
  CHECK(skewed.index == std::vector<Interval>{{0, 4}, {-2, 2}});
  const Box open = hull({{{1, 0}, 0, 1, 5}, {{1, 1}, 0, 1, std::nullopt}}, 2);
  CHECK(open.index[1].lower == -4);
  CHECK_FALSE(open.index[1].upper);
}
