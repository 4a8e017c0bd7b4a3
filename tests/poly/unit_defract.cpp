// Defract against enumeration: the same points, one writer per element, and the counts of the design.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <random>

#include "poly/bounds.h"
#include "poly/count.h"
#include "poly/defract.h"
#include "poly/hull.h"
#include "tests/poly/contractions.h"

using namespace tilec::poly;
using namespace tilec::poly::testing;

namespace {

std::int64_t run(const Case& c, const Vector& low, const Vector& high, std::size_t expected_classes = 0) {
  Effort effort;
  const Program after = defract(bounded(c));
  check(after, brute_force(c, low, high), effort);
  CHECK(effort.loose == 0);
  if (expected_classes > 0) CHECK(after.nodes.size() == expected_classes);
  return effort.points;
}

// dI[s·x + d·k - pad: X] += dO[x] · K[k]
Case strided(std::int64_t s, std::int64_t d, std::int64_t taps, std::int64_t pad, std::int64_t size) {
  const std::int64_t out = (size + 2 * pad - d * (taps - 1) - 1) / s + 1;
  return {{"x", "k"}, {}, {{{s, d}, -pad, 1, size}}, {{{1, 0}, 0, 1, out}, {{0, 1}, 0, 1, taps}}};
}

}  // namespace

TEST_CASE("useful points of the strided gradients are those of the design") {
  const std::vector<std::pair<Vector, std::int64_t>> table{{{2, 1, 3, 1, 224}, 335}, {{2, 1, 7, 3, 224}, 778},
      {{4, 1, 11, 2, 224}, 602}, {{4, 2, 3, 2, 224}, 167}, {{4, 3, 5, 6, 224}, 276}, {{5, 3, 7, 9, 224}, 307},
      {{3, 2, 3, 2, 224}, 223}};
  for (const auto& [p, points] : table) {
    CAPTURE(p[0]);
    CAPTURE(p[1]);
    CAPTURE(p[2]);
    CHECK(run(strided(p[0], p[1], p[2], p[3], p[4]), {0, 0}, {224, 12}) == points);
  }
  CHECK(defract(bounded(strided(3, 2, 3, 2, 224))).nodes.size() == 3);
}

TEST_CASE("a matrix product comes out as it went in") {
  const Case c{{"i", "j", "k"}, {}, {{{1, 0, 0}, 0, 1, 4}, {{0, 1, 0}, 0, 1, 5}},
      {{{1, 0, 0}, 0, 1, 4}, {{0, 0, 1}, 0, 1, 6}, {{0, 1, 0}, 0, 1, 5}}};
  const Program before = bounded(c), after = defract(before);
  const Statement &a = std::get<Statement>(before.nodes[0]), &b = std::get<Statement>(after.nodes[0]);
  CHECK(after.nodes.size() == 1);
  CHECK(a.indices == b.indices);
  CHECK(a.domain == b.domain);
  CHECK(a.target == b.target);
  CHECK(a.reads == b.reads);
  CHECK(output_indices(b) == 2);
}

TEST_CASE("digits need no lattice: patches and shuffles come out as they went in") {
  // dI[4x + k] += dO[x]·K[k, c] with k < 4, and O[2x + j, 3y + x] = A[x, y, j]
  const Program patches = bounded({{"x", "k", "c"}, {}, {{{4, 1, 0}, 0, 1, 40}},
      {{{1, 0, 0}, 0, 1, 10}, {{0, 1, 0}, 0, 1, 4}, {{0, 0, 1}, 0, 1, 8}}});
  const Program shuffle = bounded({{"x", "y", "j"}, {}, {{{2, 0, 1}, 0, 1, 10}, {{1, 3, 0}, 0, 1, 20}},
      {{{1, 0, 0}, 0, 1, 5}, {{0, 1, 0}, 0, 1, 5}, {{0, 0, 1}, 0, 1, 2}}, Aggregation::Assign});
  for (const Program& before : {patches, shuffle}) {
    const Program after = defract(before);
    const Statement &a = std::get<Statement>(before.nodes[0]), &b = std::get<Statement>(after.nodes[0]);
    CHECK(after.nodes.size() == 1);
    CHECK(a.indices == b.indices);
    CHECK(a.domain == b.domain);
    CHECK(a.target == b.target);
  }
  CHECK(output_indices(std::get<Statement>(defract(patches).nodes[0])) == 2);
}

TEST_CASE("stacked windows, diagonals, skewed maps and fractions keep every point") {
  // dA[4x + 2p + k] += dO[x]·W[k, p]
  run({{"x", "p", "k"}, {}, {{{4, 2, 1}, 0, 1, 40}},
          {{{1, 0, 0}, 0, 1, 9}, {{0, 0, 1}, 0, 1, 3}, {{0, 1, 0}, 0, 1, 3}}},
      {0, 0, 0}, {9, 3, 3});
  run({{"x", "p", "k"}, {}, {{{6, 2, 3}, 0, 1, 60}},
          {{{1, 0, 0}, 0, 1, 9}, {{0, 0, 1}, 0, 1, 3}, {{0, 1, 0}, 0, 1, 3}}},
      {0, 0, 0}, {9, 3, 3});
  CHECK(run({{"x", "y", "k"}, {}, {{{4, 5, 2}, 0, 1, 30}},
                {{{1, 0, 0}, 0, 1, 5}, {{0, 1, 0}, 0, 1, 3}, {{0, 0, 1}, 0, 1, 2}}},
            {0, 0, 0}, {5, 3, 2}) == 30);
  // O[x, x]
  CHECK(run({{"x"}, {}, {{{1}, 0, 1, 7}, {{1}, 0, 1, 7}}, {{{1}, 0, 1, 7}}}, {0}, {7}) == 7);
  CHECK(run({{"x", "k"}, {}, {{{1, 1}, 0, 1, 7}, {{1, 1}, 0, 1, 7}}, {{{1, 0}, 0, 1, 7}, {{0, 1}, 0, 1, 3}}}, {0, 0},
            {7, 3}) == 18);
  // [3x − 3y + k + 6, −3x − 3y + 4k + 15]
  run({{"x", "y", "k"}, {}, {{{3, -3, 1}, 6, 1, 40}, {{-3, -3, 4}, 15, 1, 40}},
          {{{1, 0, 0}, 0, 1, 7}, {{0, 1, 0}, 0, 1, 7}, {{0, 0, 1}, 0, 1, 5}}},
      {0, 0, 0}, {7, 7, 5});
  // I[i/3 + j, i/2]·J[i/18]
  run({{"i", "j"}, {}, {{{1, 0}, 0, 1, 100}}, {{{1, 3}, 0, 3, 40}, {{1, 0}, 0, 2, 50}, {{1, 0}, 0, 18, 6}}}, {-40, -60},
      {120, 60});
  // A[(i + j)/2]·B[(i + k)/3] with j < 4, k < 5: six classes of i
  run({{"i", "j", "k"}, {{{0, 1, 0}, 0, 1, 4}, {{0, 0, 1}, 0, 1, 5}}, {{{1, 0, 0}, 0, 1, 30}},
          {{{1, 1, 0}, 0, 2, 20}, {{1, 0, 1}, 0, 3, 15}}},
      {0, 0, 0}, {30, 4, 5}, 6);
  // O[i: 6] = +(I[(i - 1)/2])
  CHECK(run({{"i"}, {}, {{{1}, 0, 1, 6}}, {{{1}, -1, 2, 3}}}, {0}, {6}, 1) == 3);
  // O[i: 2N] = +(I[i/2 + k/2] * K[k]), K extent 5: residues of i keep their own taps
  run({{"i", "k"}, {}, {{{1, 0}, 0, 1, 20}}, {{{1, 1}, 0, 2, 10}, {{0, 1}, 0, 1, 5}}}, {0, 0}, {20, 5}, 2);
}

TEST_CASE("a fraction no integer satisfies leaves the fill, and so does an empty tensor") {
  const Program none = defract(bounded({{"i"}, {}, {{{2}, 0, 1, 6}}, {{{2}, 1, 2, 3}}}));
  CHECK(none.nodes.size() == 1);
  CHECK(points(std::get<Statement>(none.nodes[0])) == 0);
  const Program empty = defract(bounded({{"i", "k"}, {}, {{{1, 1}, 0, 1, 6}}, {{{1, 0}, 0, 1, 0}, {{0, 1}, 0, 1, 3}}}));
  CHECK(empty.nodes.size() == 1);
  CHECK(output_indices(std::get<Statement>(empty.nodes[0])) == 1);
  CHECK(points(std::get<Statement>(empty.nodes[0])) == 0);
}

TEST_CASE("more classes than the limit become one triangular statement") {
  const Case c = strided(7, 3, 5, 2, 60);
  Effort effort;
  const Program after = defract(bounded(c), 4);
  CHECK(after.nodes.size() == 1);
  check(after, brute_force(c, {0, 0}, {60, 5}), effort);
}

TEST_CASE("bounds: an index nothing bounds, and an Assign that collides, are errors with the place") {
  tilec::lang::Diagnostics diagnostics;
  CHECK_FALSE(bounds(
      program_of({{"i", "k"}, {{{0, 1}, 0, 1, std::nullopt}}, {{{1, 0}, 0, 1, 6}}, {{{1, 0}, 0, 1, 6}}}), diagnostics));
  REQUIRE(diagnostics.all().size() == 1);
  CHECK(diagnostics.all()[0].message == "index `k` has no upper bound: no access and no constraint limits it");
  tilec::lang::Diagnostics second;
  CHECK_FALSE(bounds(
      program_of({{"i", "k"}, {}, {{{1, 1}, 0, 1, 6}}, {{{1, 0}, 0, 1, 6}, {{0, 1}, 0, 1, 2}}, Aggregation::Assign}),
      second));
  REQUIRE(second.all().size() == 1);
  CHECK(second.all()[0].code == "E0241");
  MESSAGE(second.all()[0].message);
  tilec::lang::Diagnostics third;
  CHECK(bounds(
      program_of({{"i", "k"}, {}, {{{2, 1}, 0, 1, 12}}, {{{1, 0}, 0, 1, 6}, {{0, 1}, 0, 1, 2}}, Aggregation::Assign}),
      third));
  CHECK(third.all().empty());
  tilec::lang::Diagnostics fourth;
  CHECK(bounds(program_of({{"i"}, {}, {{{1}, 0, 1, 8}}, {{{1}, 1, 1, 8}}, Aggregation::Assign}), fourth));
  REQUIRE(fourth.all().size() == 1);
  CHECK(fourth.all()[0].message ==
      "`i + 1` leaves `A` at i = 7: elements of `O` that only such points reach hold the fill");
}
