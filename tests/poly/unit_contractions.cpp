// Claims C1, C4 and C7 on random contractions over their whole range: |coefficients| <= 8, up to 4 output dimensions
// and 6 indices, fractions, coupled constraints, rank-deficient maps, indices that nothing bounds alone, `=` that may
// collide.
//
//   FIRST=0 CASES=100000 SEED=7 unit_poly_contractions   cases [FIRST, CASES)
//   ONLY=1234 repeats one and prints it; TALK=1 names slow ones
//
// Against enumeration: every point of the domain once, one writer per element, `=` refused if and only if two points
// share an element, and then two such points are shown. Every tenth case runs once more with extents that are too large
// to enumerate, where points are counted before and after. Time is the processor's: others share the machine.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <numeric>
#include <random>

#include "poly/bounds.h"
#include "poly/count.h"
#include "poly/defract.h"
#include "poly/injective.h"
#include "poly/solve.h"
#include "poly/verify.h"
#include "tests/poly/contractions.h"

using namespace tilec::poly;
using namespace tilec::poly::testing;
using tilec::lang::Diagnostics;

namespace {

struct Dice {
  std::mt19937_64 engine;
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int64_t n) { return (*this)(1, n) == 1; }
};

// What is drawn, and its candidates: all points of the domain are among them.
struct Drawn { Case c; std::vector<Point> candidates; };

std::int64_t extent_of(Dice& dice, std::int64_t& volume, bool large) {
  static const Vector small{1, 2, 3, 3, 5, 7, 11}, wide{3, 5, 16, 64, 100, 224, 1000};
  std::int64_t size = (large ? wide : small)[static_cast<std::size_t>(dice(0, 6))];
  if (!large && volume * size > 3000) size = 1;
  if (dice.one_in(150)) size = 0;
  volume *= std::max<std::int64_t>(size, 1);
  return size;
}

Vector form_of(Dice& dice, std::size_t n) {
  Vector result(n);
  const std::int64_t density = dice(2, 10);
  for (std::int64_t& x : result) x = dice(1, 10) <= density ? dice(-8, 8) : 0;
  return result;
}

// One two-sided row per index, in some order of the indices: index k alone, or with multiples of those before it, so
// that most indices have no bounds of their own. The points of such a domain come from the values of its rows.
void draw_domain(Dice& dice, Drawn& drawn, std::size_t n, bool large) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), dice.engine);
  const bool skewed = dice.one_in(4);
  std::int64_t volume = 1;
  std::vector<Row> rows;
  for (std::size_t k = 0; k < n; ++k) {
    Row row{Vector(n, 0), dice.one_in(6) ? dice(-9, 9) : 0, 1, extent_of(dice, volume, large)};
    for (std::size_t j = 0; skewed && j < k; ++j) row.coefficients[order[j]] = dice.one_in(2) ? dice(-8, 8) : 0;
    row.coefficients[order[k]] = dice.one_in(8) ? -1 : 1;
    rows.push_back(row);
  }
  if (!large) {
    std::vector<Point> found{Point(n, 0)};
    for (std::size_t k = 0; k < n; ++k) {
      std::vector<Point> next;
      for (const Point& start : found)
        for (std::int64_t value = 0; value < *rows[k].extent; ++value) {
          std::int64_t rest = value - rows[k].constant;
          for (std::size_t j = 0; j < k; ++j) rest -= rows[k].coefficients[order[j]] * start[order[j]];
          next.push_back(start);
          next.back()[order[k]] = rest * rows[k].coefficients[order[k]];
        }
      found = std::move(next);
    }
    drawn.candidates = std::move(found);
  }
  std::shuffle(rows.begin(), rows.end(), dice.engine);
  drawn.c.rows = std::move(rows);
}

void draw_target(Dice& dice, Case& c, std::size_t n, bool large) {
  const std::int64_t scale = large ? 40 : 1;
  for (std::int64_t d = dice(0, 9) == 0 ? 0 : dice(1, 4); d > 0; --d) {
    Vector f = form_of(dice, n);
    const std::int64_t kind = dice(0, 5);
    if (kind <= 1) {                                   // one index, as most programs have it
      f.assign(n, 0);
      f[static_cast<std::size_t>(dice(0, static_cast<std::int64_t>(n) - 1))] = dice.one_in(2) ? 1 : dice(-8, 8);
    } else if (kind == 2 && !c.target.empty()) {       // a multiple of one before: rank-deficient
      const Vector& before =
          c.target[static_cast<std::size_t>(dice(0, static_cast<std::int64_t>(c.target.size()) - 1))].coefficients;
      const std::int64_t factor = dice(-2, 2);
      for (std::size_t k = 0; k < n; ++k) f[k] = std::clamp<std::int64_t>(factor * before[k], -8, 8);
    }
    const bool clipped = dice.one_in(3);
    const std::int64_t divisor = dice.one_in(6) ? dice(2, 8) : 1,
                       extent = clipped ? dice(10, 200) * scale : 500 * scale;
    c.target.push_back({f, dice(-5, 5) + (clipped ? 0 : 120 * scale), divisor, extent});
  }
}

Drawn draw(std::uint64_t seed, std::uint64_t number, bool large) {
  Dice dice{std::mt19937_64(seed * 1'000'000'007 + number)};
  Drawn drawn;
  Case& c = drawn.c;
  const auto n = static_cast<std::size_t>(dice(1, 6));
  for (std::size_t k = 0; k < n; ++k)
    c.indices.push_back(std::string(1, static_cast<char>('a' + static_cast<char>(k))));
  draw_domain(dice, drawn, n, large);
  draw_target(dice, c, n, large);
  const std::int64_t scale = large ? 40 : 1;
  for (std::int64_t r = dice(0, 3); r > 0; --r) {
    const bool clipped = dice.one_in(2);
    const std::int64_t divisor = dice.one_in(3) ? dice(2, 8) : 1;
    c.read.push_back({form_of(dice, n), dice(-5, 5) + (clipped ? 0 : 60 * divisor * scale), divisor,
        clipped ? dice(5, 60) * scale : 400 * scale});
  }
  for (std::int64_t r = dice(0, 2); r > 0; --r) {
    Row row{form_of(dice, n), dice(0, 9), dice.one_in(6) ? dice(2, 8) : 1, dice(3, 40) * scale};
    if (dice.one_in(3)) row.extent.reset();
    c.rows.push_back(row);
  }
  const std::int64_t kind = dice(0, 9);
  c.aggregation = kind < 3 ? Aggregation::Assign : kind == 3 ? Aggregation::Max : Aggregation::Sum;
  return drawn;
}

double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Timed { std::optional<Program> before, after; double bounds = 0, defract = 0; std::string code; };

Timed analysed(const Case& c) {
  const Program program = program_of(c);
  Diagnostics diagnostics;
  Timed result;
  const double start = seconds();
  result.before = bounds(program, diagnostics);
  const double middle = seconds();
  if (result.before) result.after = defract(*result.before);
  result.defract = seconds() - middle;
  result.bounds = middle - start;
  for (const auto& d : diagnostics.all())
    if (d.code[0] == 'E') result.code = d.code;
  return result;
}

bool collides(const Points& points) {
  return std::adjacent_find(points.begin(), points.end(), [](const auto& a, const auto& b) { return a[0] == b[0]; }) !=
      points.end();
}

// Two points shown for a collision are two points of the domain with one element.
void check_collision(const Case& c, const Points& points) {
  const Program program = program_of(c);
  const Statement& s = std::get<Statement>(program.nodes[0]);
  const std::vector<Row> rows = rows_of(s);
  const Verdict verdict = injective(s, rows, hull(rows, s.indices.size()));
  REQUIRE(verdict.answer == Injective::No);
  const auto find = [&](const Point& p) {
    return std::find_if(points.begin(), points.end(), [&](const auto& one) { return one[1] == p; });
  };
  const auto a = find(verdict.points.first), b = find(verdict.points.second);
  REQUIRE(a != points.end());
  REQUIRE(b != points.end());
  REQUIRE(a != b);
  REQUIRE((*a)[0] == (*b)[0]);
}

struct Tally {
  Effort effort;
  double spent = 0, slowest = 0;
  std::int64_t slow = 0, assigns = 0, collisions = 0, undecided = 0, counted = 0, large = 0, capped_cases = 0,
               asked_cases = 0;
  std::size_t most = 0;
};

constexpr double slow_limit = 0.050;

void note_time(const Timed& timed, std::uint64_t seed, std::uint64_t number, bool large, Tally& tally) {
  const double took = timed.bounds + timed.defract;
  tally.spent += took;
  tally.slowest = std::max(tally.slowest, took);
  const solve::Usage usage = solve::usage();
  tally.asked_cases += usage.asked > 0;
  tally.capped_cases += usage.capped > 0;
  const bool slow = took > slow_limit, talk = std::getenv("TALK") != nullptr;
  tally.slow += slow;
  if (slow || (talk && (took > 0.005 || usage.capped > 0)))
    fmt::print("case {} of seed {}{}: {:.1f} ms (bounds {:.1f}, defract {:.1f}), isl asked {} capped {} {}\n", number,
        seed, large ? ", large" : "", took * 1e3, timed.bounds * 1e3, timed.defract * 1e3, usage.asked, usage.capped,
        timed.code);
}

void check_small(std::uint64_t seed, std::uint64_t number, Tally& tally) {
  const Drawn drawn = draw(seed, number, false);
  if (std::getenv("ONLY") != nullptr) fmt::print("{}\n", print(drawn.c));
  solve::reset_usage();
  const Timed timed = analysed(drawn.c);
  note_time(timed, seed, number, false, tally);
  const Points expected = among(drawn.c, drawn.candidates);
  const bool refused = drawn.c.aggregation == Aggregation::Assign && collides(expected);
  tally.assigns += drawn.c.aggregation == Aggregation::Assign;
  tally.collisions += refused;
  REQUIRE(timed.code == (refused ? "E0241" : ""));
  if (refused) return check_collision(drawn.c, expected);
  verify(*timed.before, Stage::Bounded);
  tally.most = std::max(tally.most, timed.after->nodes.size());
  check(*timed.after, expected, tally.effort);
}

void check_large(std::uint64_t seed, std::uint64_t number, Tally& tally) {
  const Drawn drawn = draw(seed, number, true);
  if (std::getenv("ONLY") != nullptr) fmt::print("{}\n", print(drawn.c));
  solve::reset_usage();
  const Timed timed = analysed(drawn.c);
  note_time(timed, seed, number, true, tally);
  ++tally.large;
  tally.undecided += timed.code == "E0242";
  if (!timed.after) return;
  verify(*timed.after, Stage::Bounded);
  const auto before = points(std::get<Statement>(timed.before->nodes[0]), 30'000);
  std::int64_t after = 0;
  for (const Node& node : timed.after->nodes) {
    const auto count = before ? points(std::get<Statement>(node), 30'000) : std::nullopt;
    if (!count) return;
    after += *count;
  }
  REQUIRE(after == *before);
  ++tally.counted;
}

std::uint64_t number_in(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("random contractions: every point once, one writer per element, = refused exactly where two points meet") {
  const std::uint64_t seed = number_in("SEED", 1), only = number_in("ONLY", UINT64_MAX);
  const std::uint64_t first = only != UINT64_MAX ? only : number_in("FIRST", 0),
                      last = only != UINT64_MAX ? only + 1 : number_in("CASES", 3000);
  Tally tally;
  for (std::uint64_t number = first; number < last; ++number) {
    CAPTURE(seed);
    CAPTURE(number);
    check_small(seed, number, tally);
    if (number % 10 == 0) check_large(seed, number, tally);
  }
  const std::uint64_t cases = last - first;
  const auto total = static_cast<double>(cases) + static_cast<double>(tally.large);
  fmt::print(
      "seed {}: {} cases ({} of them `=`, {} refused for two points, {} undecided), {} larger ({} counted); {} statements (most {}), {} points, {} loose hulls\n"
      "analysis {:.3f} ms each, worst {:.1f} ms, {} over {:.0f} ms; isl asked in {:.2f} %, its cap reached in {:.3f} %\n",
      seed, cases, tally.assigns, tally.collisions, tally.undecided, tally.large, tally.counted,
      tally.effort.statements, tally.most, tally.effort.points, tally.effort.loose, tally.spent / total * 1e3,
      tally.slowest * 1e3, tally.slow, slow_limit * 1e3, 100.0 * static_cast<double>(tally.asked_cases) / total,
      100.0 * static_cast<double>(tally.capped_cases) / total);
  CHECK(tally.capped_cases <= static_cast<std::int64_t>(cases / 100));
}
