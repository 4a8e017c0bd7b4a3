#include "tests/poly/contractions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "poly/bounds.h"
#include "poly/count.h"
#include "poly/defract.h"
#include "poly/print.h"
#include "poly/verify.h"

namespace tilec::poly::testing {
namespace {

Affine affine(const Vector& coefficients, std::int64_t constant, std::int64_t divisor = 1) {
  return range_of(Row{coefficients, constant, divisor, std::nullopt}).value;
}

Access add_access(Program& program, Statement& statement, const std::string& name, DType dtype,
    const std::vector<Case::Form>& forms) {
  Tensor tensor{name, dtype, {}, {}};
  Access access{static_cast<TensorId>(program.tensors.size()), {}};
  for (const Case::Form& form : forms) {
    tensor.shape.push_back(form.extent);
    access.element.push_back(affine(form.coefficients, form.constant, form.divisor));
    statement.domain.push_back({access.element.back(), Size(form.extent)});
  }
  program.tensors.push_back(tensor);
  return access;
}

// The affine values in the order in which program_of put them there; none left when the statement has no points.
void collect_indices(const Expr& value, std::vector<Affine>& found) {
  value.match([](const auto&) {},
              [&](const Index& index) { found.push_back(index.value); },
              [&](const Apply& apply) { for (const Expr& operand : apply.operands) collect_indices(operand, found); });
}

Vector at(const std::vector<Affine>& forms, const Point& point) {
  Vector result;
  for (const Affine& form : forms) {
    std::int64_t value = form.constant.get();
    for (std::size_t k = 0; k < point.size(); ++k) value += form.coefficients[k].get() * point[k];
    result.push_back(value % form.divisor.get() == 0 ? value / form.divisor.get() : INT64_MIN);
  }
  return result;
}

Box hull_rows(const Statement& s) {
  Box box{false, {}};
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    const Row row = row_of(s.domain[k]);
    REQUIRE(std::count(row.coefficients.begin(), row.coefficients.end(), 0) + 1 ==
        static_cast<std::ptrdiff_t>(s.indices.size()));
    REQUIRE(row.coefficients[k] == 1);
    box.index.push_back({-row.constant, *row.extent - 1 - row.constant});
    box.empty = box.empty || *row.extent == 0;
  }
  return box;
}

// Every Affine without divisor, the target without reduction indices.
void check_forms(const Statement& s, std::size_t outputs) {
  for (const Affine& form : s.target.element) {
    REQUIRE(form.divisor.is(1));
    for (std::size_t k = outputs; k < s.indices.size(); ++k) REQUIRE(form.coefficients[k].is(0));
  }
  for (const Range& range : s.domain) REQUIRE(range.value.divisor.is(1));
  for (const Access& read : s.reads)
    for (const Affine& form : read.element) REQUIRE(form.divisor.is(1));
}

}  // namespace

Program program_of(const Case& c) {
  Program program;
  const std::size_t n = c.indices.size();
  Expr value = Index{Affine::index(0, n), DType::I64};
  for (std::size_t k = 1; k < n; ++k)
    value = Apply{Op::Add, {value, Index{Affine::index(k, n), DType::I64}}, DType::I64};
  value = Apply{Op::Add, {value, Read{0, DType::I64}}, DType::I64};
  Statement statement{{}, c.indices, {}, c.aggregation, value, {}, Number{DType::I64}, Ties::Split, "", Keep::Free, {}};
  for (const Row& row : c.rows) statement.domain.push_back(range_of(row));
  statement.target = add_access(program, statement, "O", DType::I64, c.target);
  statement.reads = {add_access(program, statement, "A", DType::I64, c.read)};
  program.inputs = {1};
  program.outputs = {0};
  program.nodes.emplace_back(std::move(statement));
  return program;
}

Program bounded(const Case& c) {
  lang::Diagnostics diagnostics;
  std::optional<Program> program = bounds(program_of(c), diagnostics);
  if (!program)
    for (const auto& d : diagnostics.all()) MESSAGE(d.message);
  REQUIRE(program);
  verify(*program, Stage::Bounded);
  return *program;
}

std::string print(const Case& c) { return poly::print(program_of(c)); }

// In small numbers, without the compiler's own arithmetic.
bool satisfies(const Row& row, const Point& point) {
  std::int64_t value = row.constant;
  for (std::size_t k = 0; k < point.size(); ++k) value += row.coefficients[k] * point[k];
  if (value < 0 || (row.extent && value >= *row.extent * row.divisor)) return false;
  return row.divisor == 1 || value % row.divisor == 0;
}

Points among(const Case& c, const std::vector<Point>& candidates) {
  const Program program = program_of(c);
  const Statement& s = std::get<Statement>(program.nodes[0]);
  const std::vector<Row> rows = rows_of(s);
  Points result;
  for (const Point& p : candidates)
    if (std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return satisfies(row, p); }))
      result.push_back({at(s.target.element, p), p, at(s.reads[0].element, p)});
  std::sort(result.begin(), result.end());
  return result;
}

Points brute_force(const Case& c, const Vector& low, const Vector& high) {
  std::vector<Point> candidates;
  Point p = low;
  for (std::size_t k = 0; k < p.size(); ++k)
    if (low[k] > high[k]) return {};
  for (;;) {
    candidates.push_back(p);
    std::size_t k = p.size();
    while (k > 0 && p[k - 1] == high[k - 1]) {
      p[k - 1] = low[k - 1];
      --k;
    }
    if (k == 0) break;
    ++p[k - 1];
  }
  return among(c, candidates);
}

void check(const Program& after, const Points& expected, Effort& effort) {
  verify(after, Stage::Bounded);
  Points all;
  std::map<Vector, std::pair<std::size_t, Vector>> writer;
  for (std::size_t c = 0; c < after.nodes.size(); ++c) {
    const Statement& s = std::get<Statement>(after.nodes[c]);
    const std::size_t outputs = output_indices(s);
    check_forms(s, outputs);
    if (c > 0) REQUIRE(std::get<TensorId>(s.fill) == std::get<Statement>(after.nodes[c - 1]).target.tensor);
    std::vector<Affine> indices;
    collect_indices(s.value, indices);
    const Box box = hull_rows(s);
    Box seen{true, std::vector<Interval>(s.indices.size())};
    const bool complete = for_each_point(rows_of(s), box, 4'000'000'000, [&](const Point& p) {
      const std::vector<Vector> one{at(s.target.element, p), at(indices, p), at(s.reads[0].element, p)};
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
    REQUIRE(complete);
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

}  // namespace tilec::poly::testing
