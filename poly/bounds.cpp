// Bounds: the hull of every index, errors for what has none, and for an `=` that writes an element twice (injective.h).
#include "poly/bounds.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/messages.h"
#include "poly/exact.h"
#include "poly/fit.h"
#include "poly/hull.h"
#include "poly/injective.h"
#include "poly/recession.h"
#include "poly/repeat.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

std::string print_point(const std::vector<std::string>& names, const Point& point) {
  std::string text;
  for (std::size_t k = 0; k < point.size(); ++k)
    text += fmt::format("{}{} = {}", k == 0 ? "" : ", ", names[k], point[k]);
  return text.empty() ? "the only point" : text;
}

std::string print_element(const Program& program, const Statement& statement, const Point& point) {
  std::string text = program.tensor(statement.target.tensor).name + "[";
  for (std::size_t d = 0; d < statement.target.element.size(); ++d) {
    const Affine& form = statement.target.element[d];
    __extension__ __int128 value = form.constant.get();
    for (std::size_t k = 0; k < point.size(); ++k) value += __int128{form.coefficients[k].get()} * point[k];
    text += fmt::format("{}{}", d == 0 ? "" : ", ", static_cast<std::int64_t>(value / form.divisor.get()));
  }
  return text + "]";
}

// ---- unbounded indices

// An index without an end either goes on for ever or has one beyond what the hull holds.
bool report_unbounded(const Statement& statement, const Box& box, lang::Diagnostics& diagnostics) {
  std::vector<Escape> escape;
  for (std::size_t k = 0; k < statement.indices.size(); ++k) {
    const Interval& interval = box.index[k];
    if (interval.lower && interval.upper) continue;
    if (escape.empty()) escape = escapes(statement.domain, statement.indices.size());
    const std::string& name = statement.indices[k];
    if (!escape[k].down && !escape[k].up) {
      diagnostics.report(statement.span, messages::index_too_large, name, fmt::format("more than {:.2g}", 0x1p62))
          .hint(fmt::format("constrain `{}` further, or write smaller numbers", name));
      continue;
    }
    const std::string_view side = !escape[k].down ? "upper" : !escape[k].up ? "lower" : "lower or upper";
    diagnostics.report(statement.span, messages::unbounded_index, name, side)
        .hint(fmt::format("add a constraint such as `{} < 10`, or read a tensor at `{}`", name, name));
  }
  return !escape.empty();
}

// ---- reads that shrink what is written

// A dimension of the target is this index and nothing else: a lost value is then a lost element.
bool is_target_index(const Statement& statement, std::size_t k) {
  return std::any_of(statement.target.element.begin(), statement.target.element.end(),
      [&](const Affine& form) { return form.single_index() == k; });
}

// The first value of a target index that exists only without the read's row.
std::optional<std::pair<std::size_t, std::int64_t>> first_lost(
    const Statement& statement, const Box& with, const Box& without) {
  for (std::size_t k = 0; k < statement.indices.size(); ++k) {
    if (!is_target_index(statement, k) || without.empty || !without.index[k].lower || !without.index[k].upper) continue;
    if (*without.index[k].upper > *with.index[k].upper) return std::pair{k, *with.index[k].upper + 1};
    if (*without.index[k].lower < *with.index[k].lower) return std::pair{k, *with.index[k].lower - 1};
  }
  return std::nullopt;
}

__extension__ using Wide = __int128;

// Rows of one form c·i + e bound it together, so one of them moves a bound only if no other is as tight on one of its
// sides.
class Tightest {
 public:
  explicit Tightest(const std::vector<Row>& rows) {
    std::map<std::vector<std::int64_t>, std::set<Ends>> forms;  // equal rows count once
    for (const Row& row : rows)
      if (row.divisor == 1) forms[row.coefficients].insert(ends_of(row));
    for (const auto& [form, ends] : forms) {
      const Ends first = *ends.begin(), none{-unlimited, unlimited};
      auto& [one, two] = best_.emplace(form, std::pair(first, none)).first->second;
      for (auto at = std::next(ends.begin()); at != ends.end(); ++at) {
        two.first = std::max(two.first, std::min(one.first, at->first));
        one.first = std::max(one.first, at->first);
        two.second = std::min(two.second, std::max(one.second, at->second));
        one.second = std::min(one.second, at->second);
      }
    }
  }

  bool needs(const Row& row) const {
    const auto at = best_.find(row.coefficients);
    if (at == best_.end()) return true;
    const auto& [one, two] = at->second;
    const Ends own = ends_of(row);
    return (own.first == one.first && two.first < one.first) || (own.second == one.second && two.second > one.second);
  }

 private:
  using Ends = std::pair<Wide, Wide>;                  // of c·i
  static constexpr Wide unlimited = Wide{1} << 100;

  static Ends ends_of(const Row& row) {
    return {-Wide{row.constant}, row.extent ? Wide{*row.extent} - 1 - row.constant : unlimited};
  }

  std::map<std::vector<std::int64_t>, std::pair<Ends, Ends>> best_;
};

void remark_on_reads(const Program& program, const Statement& statement, const std::vector<Row>& rows, const Box& box,
    lang::Diagnostics& diagnostics) {
  if (box.empty) return;
  const Tightest tightest(rows);
  for (const Access& read : statement.reads)
    for (std::size_t d = 0; d < read.element.size(); ++d) {
      const Row own = row_of(Range{read.element[d], program.tensor(read.tensor).shape[d]});
      if (own.divisor != 1 || !tightest.needs(own)) continue;  // between the multiples nothing is read: no element
                                                               // leaves
      std::vector<Row> others;
      for (const Row& row : rows)
        if (row != own) others.push_back(row);
      if (others.size() == rows.size()) continue;
      Box without{false, std::vector<Interval>(box.index.size())};
      tighten(others, without);
      const auto lost = first_lost(statement, box, without);
      if (!lost) continue;
      diagnostics.report(statement.span, messages::leaves_tensor, read.element[d].print(statement.indices),
          program.tensor(read.tensor).name, fmt::format("{} = {}", statement.indices[lost->first], lost->second),
          program.tensor(statement.target.tensor).name);
    }
}

// ---- Assign writes each element once

bool report_collision(const Program& program, const Statement& statement, const std::vector<Row>& rows, const Box& box,
    lang::Diagnostics& diagnostics) {
  if (statement.aggregation != Aggregation::Assign) return false;
  const Verdict verdict = injective(statement, rows, box);
  const std::string& name = program.tensor(statement.target.tensor).name;
  if (verdict.answer == Injective::Unknown)
    diagnostics.report(statement.span, messages::undecided_assign, name, verdict.why)
        .hint("use an aggregation such as `+(…)`");
  if (verdict.answer == Injective::No)
    diagnostics
        .report(statement.span, messages::colliding_assign, name, print_point(statement.indices, verdict.points.first),
            print_point(statement.indices, verdict.points.second),
            print_element(program, statement, verdict.points.first))
        .hint("use an aggregation such as `+(…)` or `>(…)`, or constrain the indices to one point per element");
  return verdict.answer != Injective::Yes;
}

// The statement with its hull; false when an error was reported.
bool bound_statement(const Program& program, Statement& statement, lang::Diagnostics& diagnostics) {
  const std::vector<Row> rows = rows_of(statement);
  const Box box = hull(rows, statement.indices.size());
  if (!box.empty && report_unbounded(statement, box, diagnostics)) return false;
  remark_on_reads(program, statement, rows, box, diagnostics);
  if (report_collision(program, statement, rows, box, diagnostics)) return false;
  statement.domain = bounded_domain(statement.domain, box);
  statement = without_repeats(std::move(statement));
  auto fit = fitted(program, std::move(statement), diagnostics);
  if (fit) statement = std::move(*fit);
  return fit.has_value();
}

}  // namespace

std::optional<Program> bounds(const Program& program, lang::Diagnostics& diagnostics) {
  Program result = program;
  bool ok = true;
  for (Node& node : result.nodes)
    if (Statement* statement = std::get_if<Statement>(&node))
      ok = located(statement->span, [&] { return bound_statement(program, *statement, diagnostics); }) && ok;
  if (!ok) return std::nullopt;
  return result;
}

}  // namespace tilec::poly
