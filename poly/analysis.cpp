// Reads a finished derivation (classes.h): nothing here decides anything.
//
// The taps of a class are the points of its reduction indices under the rows that mention no output; told as values of
// the rows S in the statement's own indices (`k = 1`), because these stay constant in a class while the indices do not.
#include "poly/analysis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "poly/count.h"
#include "poly/exact.h"
#include "poly/sum.h"

namespace tilec::poly {
namespace {

using lattice::Matrix;
using lattice::Vector;

constexpr std::int64_t longest_list = 16;

Affine affine(const Vector& coefficients, std::int64_t constant, std::int64_t divisor = 1) {
  return range_of(Row{coefficients, constant, divisor, std::nullopt}).value;
}

std::string print_row(const Row& row, const std::vector<std::string>& names) {
  const std::string form = affine(row.coefficients, row.constant, row.divisor).print(names);
  return row.extent ? fmt::format("0 <= {} < {}", form, *row.extent) : fmt::format("{} >= 0", form);
}

std::string print_element(const Program& program, const Statement& statement) {
  std::vector<std::string> forms;
  for (const Affine& form : statement.target.element) forms.push_back(form.print(statement.indices));
  return fmt::format("{}[{}]", program.tensor(statement.target.tensor).name, fmt::join(forms, ", "));
}

// Names of the indices of `integral`: those that are new are t, t1, ….
std::vector<std::string> named(std::vector<std::string> names) {
  int number = 0;
  for (std::string& name : names) {
    if (!name.empty()) continue;
    do {
      name = number == 0 ? "t" : fmt::format("t{}", number);
      ++number;
    } while (std::count(names.begin(), names.end(), name) > 1);
  }
  return names;
}

AnalysedPart part_of(
    const Statement& integral, const std::vector<std::string>& names, const Component& component, bool split) {
  AnalysedPart part;
  for (const std::size_t k : component.members) part.indices.push_back(names[k]);
  for (const std::size_t d : component.dimensions) {
    part.elements.push_back(integral.target.element[d].print(names));
    part.f.push_back(integral.target.element[d].constant.get());
  }
  part.F = component.outputs;
  part.plain = component.identity;
  if (component.identity) return part;
  for (const lattice::Candidate& tap : component.taps)
    part.taps.push_back(print_row({tap.coefficients, tap.constant, 1, tap.range}, part.indices));
  const lattice::Stacked& l = component.lattice;
  part.H = l.h, part.U = l.u, part.G = l.g, part.T = l.t, part.V = l.v;
  part.period = component.period;
  part.classes = component.classes;
  part.split = split;
  return part;
}

// Rows that mention reduction indices only, over these alone.
std::vector<Row> tap_rows(const Statement& statement, std::size_t outputs) {
  std::vector<Row> result;
  for (Row row : rows_of(statement)) {
    if (std::any_of(row.coefficients.begin(), row.coefficients.begin() + static_cast<std::ptrdiff_t>(outputs),
            [](auto c) { return c != 0; }))
      continue;
    row.coefficients.erase(row.coefficients.begin(), row.coefficients.begin() + static_cast<std::ptrdiff_t>(outputs));
    result.push_back(std::move(row));
  }
  return result;
}

// The rows S in the class's own indices: coefficients over all of them, and a constant; the text of each in the
// statement's indices.
struct Tap { std::string form; Vector coefficients; std::int64_t constant; };

std::vector<Tap> taps_of(const Classes& all, const Class& one, const std::vector<std::string>& names) {
  std::vector<Tap> result;
  for (std::size_t p = 0; p < all.parts.size(); ++p)
    for (const lattice::Candidate& tap : all.parts[p].taps) {
      Vector whole(names.size(), 0);
      for (std::size_t j = 0; j < tap.coefficients.size(); ++j) whole[all.parts[p].members[j]] = tap.coefficients[j];
      const std::size_t count = one.statement.indices.size();
      Sum constant;
      for (std::size_t i = 0; i < whole.size(); ++i) constant.add(whole[i], one.map.start[i]);
      Tap here{affine(whole, 0).print(names), {}, constant.get()};
      for (std::size_t j = 0; j < count; ++j) {
        Sum coefficient;
        for (std::size_t i = 0; i < whole.size(); ++i) coefficient.add(whole[i], one.map.matrix[i][j]);
        here.coefficients.push_back(coefficient.get());
      }
      result.push_back(std::move(here));
    }
  return result;
}

// A part that stays triangular has taps that depend on the element.
bool constant_taps(const Classes& all) {
  for (std::size_t p = 0; p < all.parts.size(); ++p)
    if (!all.parts[p].identity && !all.split[p]) return false;
  return true;
}

void list_taps(const Classes& all, const Class& one, const std::vector<std::string>& names, AnalysedClass& result) {
  const std::size_t outputs = output_indices(one.statement), count = one.statement.indices.size();
  const std::vector<Row> rows = tap_rows(one.statement, outputs);
  Box box = hull(rows, count - outputs);
  if (!constant_taps(all)) return;
  result.taps = count_points(rows, box);
  const std::vector<Tap> taps = taps_of(all, one, names);
  if (taps.empty() || !result.taps || *result.taps == 0) return;
  // What no tap and no further row mentions, channels mostly, would only repeat the list.
  for (std::size_t j = 0; j < box.index.size(); ++j) {
    const bool in_tap =
        std::any_of(taps.begin(), taps.end(), [&](const Tap& tap) { return tap.coefficients[outputs + j] != 0; });
    const bool coupled = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
      return row.coefficients[j] != 0 &&
          std::count(row.coefficients.begin(), row.coefficients.end(), 0) + 1 < std::ssize(row.coefficients);
    });
    if (!in_tap && !coupled) box.index[j].upper = box.index[j].lower;
  }
  if (!(count_points(rows, box).value_or(longest_list + 1) <= longest_list)) return;
  for_each_point(rows, box, count_cap, [&](const Point& z) {
    std::vector<std::string> values;
    for (const Tap& tap : taps) {
      std::int64_t value = tap.constant;
      for (std::size_t j = 0; j < z.size(); ++j) add_product(value, tap.coefficients[outputs + j], z[j]);
      values.push_back(fmt::format("{} = {}", tap.form, value));
    }
    const std::string text = fmt::format("{}", fmt::join(values, ", "));
    if (std::find(result.tap_list.begin(), result.tap_list.end(), text) == result.tap_list.end())
      result.tap_list.push_back(text);
    return true;
  });
}

AnalysedClass class_of(const Program& program, const Class& one) {
  AnalysedClass result;
  const Statement& statement = one.statement;
  result.element = print_element(program, statement);
  result.points = points(statement);
  const std::vector<Row> rows = rows_of(statement);
  for (std::size_t r = statement.indices.size(); r < rows.size(); ++r)
    result.guards.push_back(print_row(rows[r], statement.indices));
  return result;
}

std::optional<std::int64_t> box_of(const Statement& statement) {
  std::int64_t product = 1;
  for (std::size_t k = 0; k < statement.indices.size(); ++k)
    if (__builtin_mul_overflow(product, statement.domain[k].extent->get(), &product)) return std::nullopt;
  return product;
}

void note_splits(const Classes& all, const std::vector<std::string>& names, int limit, Analysis& result) {
  for (std::size_t p = 0; p < all.parts.size(); ++p) {
    const Component& part = all.parts[p];
    if (part.identity) continue;
    std::vector<std::string> own;
    for (const std::size_t k : part.members) own.push_back(names[k]);
    if (!all.split[p])
      result.notes.push_back(fmt::format(
          "{}: not split into {} classes (the limit is {} per statement): the bounds of the reduction depend on the element",
          fmt::join(own, ", "), std::isfinite(part.classes) ? fmt::format("{:.0f}", part.classes) : "countless",
          limit));
    else if (static_cast<double>(part.lattice.classes) < part.classes)
      result.notes.push_back(
          fmt::format("{}: the period lattice has {} classes but is not diagonal; a diagonal one inside it has {:.0f}",
              fmt::join(own, ", "), part.lattice.classes, part.classes));
  }
}

std::string matrix_text(const Matrix& a) {
  std::vector<std::string> rows;
  for (const Vector& row : a) rows.push_back(fmt::format("{}", fmt::join(row, " ")));
  return fmt::format("[{}]", fmt::join(rows, "; "));
}

std::string number(const std::optional<std::int64_t>& count) {
  return count ? fmt::format("{}", *count) : "too many to count";
}

}  // namespace

Analysis analyse(const Program& bounded, const Statement& statement, int limit) {
  const Classes all = classes_of(bounded, statement, limit);
  Analysis result;
  result.course = all.course;
  result.valid = points(statement);
  result.box = box_of(statement);
  result.executed = 0;
  const std::vector<std::string> names = named(all.integral.indices);
  if (all.divisions)
    for (std::size_t k = 0; k < names.size(); ++k)
      if (const auto value = affine(all.divisions->l[k], all.divisions->start[k]).print(names); value != all.indices[k])
        result.divisions.push_back(fmt::format("{} = {}", all.indices[k], value));
  for (std::size_t p = 0; p < all.parts.size(); ++p)
    result.parts.push_back(part_of(all.integral, names, all.parts[p], all.split[p]));
  for (const Class& one : all.classes) {
    result.classes.push_back(class_of(bounded, one));
    if (all.course != Course::Empty) list_taps(all, one, names, result.classes.back());
    const auto& points = result.classes.back().points;
    result.executed = points && result.executed ? std::optional(*result.executed + *points) : std::nullopt;
  }
  note_splits(all, names, limit, result);
  if (all.course == Course::Empty) result.notes.emplace_back("no point: the result is the fill");
  return result;
}

std::string print(const Analysis& analysis) {
  std::string text;
  for (const std::string& division : analysis.divisions) text += fmt::format("  {}\n", division);
  for (const AnalysedPart& part : analysis.parts) {
    text += fmt::format(
        "  {}: F = {}, f = ({})", fmt::join(part.indices, ", "), matrix_text(part.F), fmt::join(part.f, ", "));
    if (part.plain) text += ", one point per element\n";
    else
      text += fmt::format(", S = {{{}}}, H = {}, U = {}, G = {}, T = {}, V = {}, {:.0f} classes{}\n",
          fmt::join(part.taps, "; "), matrix_text(part.H), matrix_text(part.U), matrix_text(part.G),
          matrix_text(part.T), matrix_text(part.V), part.classes, part.split ? "" : ", not split");
  }
  for (const AnalysedClass& one : analysis.classes) {
    text += fmt::format("  {}: {} points", one.element, number(one.points));
    if (one.taps) text += fmt::format(", {} per element", *one.taps);
    if (!one.tap_list.empty()) text += fmt::format(" ({})", fmt::join(one.tap_list, "; "));
    if (!one.guards.empty()) text += fmt::format(", borders {}", fmt::join(one.guards, ", "));
    text += "\n";
  }
  text += fmt::format("  points: {} valid, {} executed, {} in the hull\n", number(analysis.valid),
      number(analysis.executed), number(analysis.box));
  for (const std::string& note : analysis.notes) text += fmt::format("  {}\n", note);
  return text;
}

}  // namespace tilec::poly
