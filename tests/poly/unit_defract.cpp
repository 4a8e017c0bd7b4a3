// Defract against enumeration: the same points, one writer per element, and the counts of the design.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
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
#include "poly/verify.h"

using namespace tilec::poly;
using Vector = std::vector<std::int64_t>;

namespace {

Affine affine(const Vector& coefficients, std::int64_t constant, std::int64_t divisor = 1) {
  return range_of(Row{coefficients, constant, divisor, std::nullopt}).value;
}

// A contraction written down as numbers. Tensor 0 is the output, 1 is read at every index (so a point can be told from what
// it reads), the others as given; every access adds its rows.
struct Case {
  std::vector<std::string> indices;
  std::vector<Row> rows;
  struct Form { Vector coefficients; std::int64_t constant, divisor, extent; };
  std::vector<Form> target, read;
  Aggregation aggregation = Aggregation::Sum;
};

void add_access(Program& program, Statement& statement, Access& access, const std::string& name, const std::vector<Case::Form>& forms) {
  Tensor tensor{name, DType::F32, {}, {}};
  access.tensor = static_cast<TensorId>(program.tensors.size());
  for (const Case::Form& form : forms) {
    tensor.shape.push_back(form.extent);
    access.element.push_back(affine(form.coefficients, form.constant, form.divisor));
    statement.domain.push_back({access.element.back(), Size(form.extent)});
  }
  program.tensors.push_back(tensor);
}

Program program_of(const Case& c) {
  Program program;
  Statement statement{{}, c.indices, {}, c.aggregation, Number{DType::F32}, {}, Number{DType::F32}, Ties::Split, "", Keep::Free, {}};
  for (const Row& row : c.rows) statement.domain.push_back(range_of(row));
  add_access(program, statement, statement.target, "O", c.target);
  Access point;
  const std::size_t n = c.indices.size();
  for (std::size_t k = 0; k < n; ++k) point.element.push_back(Affine::index(k, n).plus(Affine::of(100, n)));
  point.tensor = 1;
  program.tensors.push_back({"P", DType::F32, std::vector<Size>(n, Size(400)), {}});
  statement.reads.push_back(point);
  statement.reads.emplace_back();
  add_access(program, statement, statement.reads[1], "A", c.read);
  program.inputs = {1, 2};
  program.outputs = {0};
  program.nodes.emplace_back(statement);
  return program;
}

Program bounded(const Case& c) {
  tilec::lang::Diagnostics diagnostics;
  std::optional<Program> program = bounds(program_of(c), diagnostics);
  if (!program) for (const auto& d : diagnostics.all()) MESSAGE(d.message);
  REQUIRE(program);
  verify(*program, Stage::Bounded);
  return *program;
}

Box hull_rows(const Statement& s) {
  Box box{false, {}};
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    const Row row = row_of(s.domain[k]);
    REQUIRE(std::count(row.coefficients.begin(), row.coefficients.end(), 0) + 1 == static_cast<std::ptrdiff_t>(s.indices.size()));
    REQUIRE(row.coefficients[k] == 1);
    box.index.push_back({-row.constant, *row.extent - 1 - row.constant});
    box.empty = box.empty || *row.extent == 0;
  }
  return box;
}

Vector at(const Access& access, const Point& point) {
  Vector result;
  for (const Affine& form : access.element) {
    std::int64_t value = form.constant.get();
    for (std::size_t k = 0; k < point.size(); ++k) value += form.coefficients[k].get() * point[k];
    result.push_back(value % form.divisor.get() == 0 ? value / form.divisor.get() : -999999);
  }
  return result;
}

// (element, old point, what A is read at) of every point.
using Points = std::vector<std::vector<Vector>>;

Points brute_force(const Case& c, const Vector& low, const Vector& high) {
  const Program program = program_of(c);
  const Statement& s = std::get<Statement>(program.nodes[0]);
  const std::vector<Row> rows = rows_of(s);
  Points result;
  Point p = low;
  for (std::size_t k = 0; k < p.size(); ++k) if (low[k] > high[k]) return {};
  for (;;) {
    if (std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return holds(row, p); })) result.push_back({at(s.target, p), at(s.reads[0], p), at(s.reads[1], p)});
    std::size_t k = p.size();
    while (k > 0 && p[k - 1] == high[k - 1]) { p[k - 1] = low[k - 1]; --k; }
    if (k == 0) break;
    ++p[k - 1];
  }
  std::sort(result.begin(), result.end());
  return result;
}

struct Effort { std::int64_t points = 0, loose = 0, statements = 0, triangular = 0; };

// The contract of defract.h, then the points. `before` is the bounded program.
void check(const Program& after, const Points& expected, Effort& effort) {
  verify(after, Stage::Bounded);
  Points all;
  std::map<Vector, std::pair<std::size_t, Vector>> writer;
  for (std::size_t c = 0; c < after.nodes.size(); ++c) {
    const Statement& s = std::get<Statement>(after.nodes[c]);
    const std::size_t outputs = output_indices(s);
    for (const Affine& form : s.target.element) {
      REQUIRE(form.divisor.is(1));
      for (std::size_t k = outputs; k < s.indices.size(); ++k) REQUIRE(form.coefficients[k].is(0));
    }
    for (const Range& range : s.domain) REQUIRE(range.value.divisor.is(1));
    for (const Access& read : s.reads) for (const Affine& form : read.element) REQUIRE(form.divisor.is(1));
    if (c > 0) REQUIRE(std::get<TensorId>(s.fill) == std::get<Statement>(after.nodes[c - 1]).target.tensor);
    const Box box = hull_rows(s);
    Box seen{true, std::vector<Interval>(s.indices.size())};
    for_each_point(rows_of(s), box, 10'000'000, [&](const Point& p) {
      std::vector<Vector> one{at(s.target, p)};
      for (const Access& read : s.reads) one.push_back(at(read, p));
      const std::pair<std::size_t, Vector> me{c, Vector(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(outputs))};
      REQUIRE(writer.emplace(one[0], me).first->second == me);
      all.push_back(one);
      seen.empty = false;
      for (std::size_t k = 0; k < p.size(); ++k) {
        seen.index[k].lower = std::min(p[k], seen.index[k].lower.value_or(p[k]));
        seen.index[k].upper = std::max(p[k], seen.index[k].upper.value_or(p[k]));
      }
      return true;
    });
    effort.loose += !seen.empty && seen.index != box.index;
    const auto counted = points(s, 10'000'000);
    REQUIRE(counted);
    effort.statements += 1;
    effort.points += *counted;
  }
  std::sort(all.begin(), all.end());
  REQUIRE(all == expected);
  REQUIRE(std::get<Statement>(after.nodes.back()).target.tensor == 0);
}

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

struct Dice {
  std::mt19937 engine;
  std::int64_t operator()(std::int64_t low, std::int64_t high) { return std::uniform_int_distribution<std::int64_t>(low, high)(engine); }
};

}  // namespace

TEST_CASE("useful points of the strided gradients are those of the design") {
  const std::vector<std::pair<Vector, std::int64_t>> table{{{2, 1, 3, 1, 224}, 335}, {{2, 1, 7, 3, 224}, 778}, {{4, 1, 11, 2, 224}, 602}, {{4, 2, 3, 2, 224}, 167},
                                                           {{4, 3, 5, 6, 224}, 276}, {{5, 3, 7, 9, 224}, 307}, {{3, 2, 3, 2, 224}, 223}};
  for (const auto& [p, points] : table) {
    CAPTURE(p[0]); CAPTURE(p[1]); CAPTURE(p[2]);
    CHECK(run(strided(p[0], p[1], p[2], p[3], p[4]), {0, 0}, {224, 12}) == points);
  }
  CHECK(defract(bounded(strided(3, 2, 3, 2, 224))).nodes.size() == 3);
}

TEST_CASE("a matrix product comes out as it went in") {
  const Case c{{"i", "j", "k"}, {}, {{{1, 0, 0}, 0, 1, 4}, {{0, 1, 0}, 0, 1, 5}}, {{{1, 0, 0}, 0, 1, 4}, {{0, 0, 1}, 0, 1, 6}, {{0, 1, 0}, 0, 1, 5}}};
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
  const Program patches = bounded({{"x", "k", "c"}, {}, {{{4, 1, 0}, 0, 1, 40}}, {{{1, 0, 0}, 0, 1, 10}, {{0, 1, 0}, 0, 1, 4}, {{0, 0, 1}, 0, 1, 8}}});
  const Program shuffle = bounded({{"x", "y", "j"}, {}, {{{2, 0, 1}, 0, 1, 10}, {{1, 3, 0}, 0, 1, 20}}, {{{1, 0, 0}, 0, 1, 5}, {{0, 1, 0}, 0, 1, 5}, {{0, 0, 1}, 0, 1, 2}}, Aggregation::Assign});
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
  run({{"x", "p", "k"}, {}, {{{4, 2, 1}, 0, 1, 40}}, {{{1, 0, 0}, 0, 1, 9}, {{0, 0, 1}, 0, 1, 3}, {{0, 1, 0}, 0, 1, 3}}}, {0, 0, 0}, {9, 3, 3});
  run({{"x", "p", "k"}, {}, {{{6, 2, 3}, 0, 1, 60}}, {{{1, 0, 0}, 0, 1, 9}, {{0, 0, 1}, 0, 1, 3}, {{0, 1, 0}, 0, 1, 3}}}, {0, 0, 0}, {9, 3, 3});
  CHECK(run({{"x", "y", "k"}, {}, {{{4, 5, 2}, 0, 1, 30}}, {{{1, 0, 0}, 0, 1, 5}, {{0, 1, 0}, 0, 1, 3}, {{0, 0, 1}, 0, 1, 2}}}, {0, 0, 0}, {5, 3, 2}) == 30);
  // O[x, x]
  CHECK(run({{"x"}, {}, {{{1}, 0, 1, 7}, {{1}, 0, 1, 7}}, {{{1}, 0, 1, 7}}}, {0}, {7}) == 7);
  CHECK(run({{"x", "k"}, {}, {{{1, 1}, 0, 1, 7}, {{1, 1}, 0, 1, 7}}, {{{1, 0}, 0, 1, 7}, {{0, 1}, 0, 1, 3}}}, {0, 0}, {7, 3}) == 18);
  // [3x − 3y + k + 6, −3x − 3y + 4k + 15]
  run({{"x", "y", "k"}, {}, {{{3, -3, 1}, 6, 1, 40}, {{-3, -3, 4}, 15, 1, 40}}, {{{1, 0, 0}, 0, 1, 7}, {{0, 1, 0}, 0, 1, 7}, {{0, 0, 1}, 0, 1, 5}}}, {0, 0, 0}, {7, 7, 5});
  // I[i/3 + j, i/2]·J[i/18]
  run({{"i", "j"}, {}, {{{1, 0}, 0, 1, 100}}, {{{1, 3}, 0, 3, 40}, {{1, 0}, 0, 2, 50}, {{1, 0}, 0, 18, 6}}}, {-40, -60}, {120, 60});
  // A[(i + j)/2]·B[(i + k)/3] with j < 4, k < 5: six classes of i
  run({{"i", "j", "k"}, {{{0, 1, 0}, 0, 1, 4}, {{0, 0, 1}, 0, 1, 5}}, {{{1, 0, 0}, 0, 1, 30}}, {{{1, 1, 0}, 0, 2, 20}, {{1, 0, 1}, 0, 3, 15}}}, {0, 0, 0}, {30, 4, 5}, 6);
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
  CHECK_FALSE(bounds(program_of({{"i", "k"}, {{{0, 1}, 0, 1, std::nullopt}}, {{{1, 0}, 0, 1, 6}}, {{{1, 0}, 0, 1, 6}}}), diagnostics));
  REQUIRE(diagnostics.all().size() == 1);
  CHECK(diagnostics.all()[0].message == "index `k` has no upper bound: no access and no constraint limits it");
  tilec::lang::Diagnostics second;
  CHECK_FALSE(bounds(program_of({{"i", "k"}, {}, {{{1, 1}, 0, 1, 6}}, {{{1, 0}, 0, 1, 6}, {{0, 1}, 0, 1, 2}}, Aggregation::Assign}), second));
  REQUIRE(second.all().size() == 1);
  CHECK(second.all()[0].code == "E0241");
  MESSAGE(second.all()[0].message);
  tilec::lang::Diagnostics third;
  CHECK(bounds(program_of({{"i", "k"}, {}, {{{2, 1}, 0, 1, 12}}, {{{1, 0}, 0, 1, 6}, {{0, 1}, 0, 1, 2}}, Aggregation::Assign}), third));
  CHECK(third.all().empty());
  tilec::lang::Diagnostics fourth;
  CHECK(bounds(program_of({{"i"}, {}, {{{1}, 0, 1, 8}}, {{{1}, 1, 1, 8}}, Aggregation::Assign}), fourth));
  REQUIRE(fourth.all().size() == 1);
  CHECK(fourth.all()[0].message == "`i + 1` leaves `A` at i = 7: elements of `O` that only such points reach hold the fill");
}

TEST_CASE("random contractions: every point once, one writer per element") {
  Dice dice{std::mt19937(static_cast<unsigned>(std::getenv("SEED") != nullptr ? std::atoi(std::getenv("SEED")) : 1))};
  const int cases = std::getenv("CASES") != nullptr ? std::atoi(std::getenv("CASES")) : 2000;
  Effort effort;
  double spent = 0, bounding = 0, worst = 0;
  std::size_t most = 0;
  for (int repeat = 0; repeat < cases; ++repeat) {
    CAPTURE(repeat);
    const auto n = static_cast<std::size_t>(dice(1, 6)), m = static_cast<std::size_t>(dice(1, 4));
    Case c;
    Vector low(n), high(n);
    std::int64_t volume = 1;
    for (std::size_t k = 0; k < n; ++k) {
      static const Vector sizes{1, 2, 3, 3, 5, 7, 11};
      std::int64_t size = sizes[static_cast<std::size_t>(dice(0, 6))];
      if (volume * size > 3000) size = 1;
      if (dice(0, 99) == 0) size = 0;
      volume *= std::max<std::int64_t>(size, 1);
      c.indices.push_back(std::string(1, static_cast<char>('a' + static_cast<char>(k))));
      Row row{Vector(n, 0), dice(0, 5) == 0 ? dice(-2, 2) : 0, 1, size};
      row.coefficients[k] = 1;
      low[k] = -row.constant;
      high[k] = size - 1 - row.constant;
      c.rows.push_back(row);
    }
    const auto form = [&] {
      Vector result(n);
      for (std::int64_t& x : result) x = dice(0, 9) < 5 ? dice(-8, 8) : 0;
      return result;
    };
    for (std::size_t d = 0; d < m; ++d) {
      Vector f = form();
      if (dice(0, 2) == 0) { f.assign(n, 0); f[static_cast<std::size_t>(dice(0, static_cast<std::int64_t>(n) - 1))] = dice(0, 1) == 0 ? 1 : dice(1, 4); }
      c.target.push_back({f, dice(-5, 5), dice(0, 9) == 0 ? dice(2, 4) : 1, dice(0, 2) == 0 ? dice(10, 200) : 500});
      if (c.target.back().extent == 500) c.target.back().constant += 120;
    }
    for (std::int64_t r = dice(0, 2); r > 0; --r) c.read.push_back({form(), dice(-5, 5), dice(0, 2) == 0 ? dice(2, 6) : 1, dice(0, 1) == 0 ? dice(5, 60) : 400});
    for (Case::Form& f : c.read) if (f.extent == 400) f.constant += 60 * f.divisor;
    for (std::int64_t r = dice(0, 2); r > 0; --r) {
      Row row{form(), dice(0, 9), 1, dice(3, 40)};
      if (dice(0, 2) == 0) row.extent.reset();
      c.rows.push_back(row);
    }
    const std::clock_t start = std::clock();
    const Program before = bounded(c);
    const std::clock_t middle = std::clock();
    const Program after = defract(before);
    const double took = static_cast<double>(std::clock() - middle) / CLOCKS_PER_SEC;   // processor time: others share the machine
    bounding += static_cast<double>(middle - start) / CLOCKS_PER_SEC;
    spent += took;
    worst = std::max(worst, took);
    most = std::max(most, after.nodes.size());
    check(after, brute_force(c, low, high), effort);
  }
  MESSAGE(cases << " cases, " << effort.statements << " statements (most " << most << "), " << effort.points << " points, " << effort.loose << " loose hulls; bounds "
                << bounding / cases * 1e3 << " ms, defract " << spent / cases * 1e3 << " ms each, worst " << worst * 1e3);
}
