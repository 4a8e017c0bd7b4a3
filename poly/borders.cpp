#include "poly/borders.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "lang/messages.h"
#include "lang/print.h"
#include "lang/walk.h"
#include "poly/exact.h"
#include "poly/hull.h"
#include "poly/size_expression.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;
using Values = std::map<std::string, std::int64_t>;

// ---- what the text reads --------------------------------------------------------------------------------------------

void collect_reads(const lang::Expr& expr, std::vector<const lang::Access*>& reads) {
  lang::each_access(expr, [&](const lang::Access& a, const lang::Expr&) {
    const bool known = std::any_of(reads.begin(), reads.end(), [&](const lang::Access* other) { return *other == a; });
    if (!known && !a.element.empty()) reads.push_back(&a);
  });
}

// Is an index a value here, outside brackets?
bool has_index(const Scope& scope, const lang::Expr& expr) {
  const auto go = [&](const lang::Expr& e) { return has_index(scope, e); };
  return expr.match([](const lang::Number&) { return false; },
      [&](const lang::Variable& v) { return is_index(scope, v.name) && v.name.text != "inf" && v.name.text != "nan"; },
      [&](const lang::Unary& u) { return go(u.operand); },
      [&](const lang::Binary& b) { return go(b.left) || go(b.right); }, [](const lang::Access&) { return false; },
      [&](const lang::Call& c) { return std::any_of(c.arguments.begin(), c.arguments.end(), go); },
      [&](const lang::Select& s) { return go(s.condition) || go(s.then) || (s.otherwise && go(*s.otherwise)); });
}

// `i > 0 ? X[i - 1] : 1.0`: the condition is meant to keep the point, and does not.
bool chooses_by_index(const Scope& scope, const lang::Expr& expr) {
  const auto go = [&](const lang::Expr& e) { return chooses_by_index(scope, e); };
  return expr.match([](const lang::Number&) { return false; }, [](const lang::Variable&) { return false; },
      [&](const lang::Unary& u) { return go(u.operand); },
      [&](const lang::Binary& b) { return go(b.left) || go(b.right); }, [](const lang::Access&) { return false; },
      [&](const lang::Call& c) { return std::any_of(c.arguments.begin(), c.arguments.end(), go); },
      [&](const lang::Select& s) {
        return has_index(scope, s.condition) || go(s.then) || (s.otherwise && go(*s.otherwise));
      });
}

// ---- whether a read leaves, for given sizes -------------------------------------------------------------------------

enum class Answer { Unknown, Inside, Leaves, Never };
struct Look { Answer answer = Answer::Unknown; Point point = {}; };

std::optional<Range> bound(const Range& range, const Values& sizes) {
  Range result{range.value.substitute(sizes), range.extent};
  if (result.extent) result.extent = result.extent->substitute(sizes);
  const bool numbers = std::all_of(result.value.coefficients.begin(), result.value.coefficients.end(),
      [](const Size& s) { return s.value().has_value(); });
  if (!numbers || !result.value.constant.value() || !result.value.divisor.value() || result.value.divisor.get() < 1)
    return std::nullopt;
  if (result.extent && !result.extent->value()) return std::nullopt;
  return result;
}

// A point of the rows at which `form >= least`.
std::optional<Point> point_where(std::vector<Row> rows, const Row& form, std::int64_t sign, std::int64_t least) {
  Row beyond{form.coefficients, 0, 1, std::nullopt};
  for (std::int64_t& c : beyond.coefficients) c = (Exact(sign) * c).get();
  beyond.constant = (Exact(sign) * form.constant - least).get();
  rows.push_back(beyond);
  Box box{false, std::vector<Interval>(form.coefficients.size())};
  tighten(rows, box);
  bool proven = false;
  std::int64_t budget = 10'000;
  return box.empty ? std::nullopt : find_point(rows, box, budget, proven);
}

// Where leaving loses nothing, only Never is looked for: what is not, is said to be Inside.
Look look_at(const std::vector<Row>& others, const Row& own, bool loses) {
  const std::size_t count = own.coefficients.size();
  if (!own.extent || *own.extent == 0) return {};
  const std::int64_t top = (Exact(*own.extent) * own.divisor).get();
  std::vector<Row> all = others;
  all.push_back(Row{own.coefficients, own.constant, 1, top});
  Box within{false, std::vector<Interval>(count)};
  tighten(all, within);
  if (!within.empty && !loses) return {Answer::Inside};
  Box box{false, std::vector<Interval>(count)};
  tighten(others, box);
  if (box.empty) return {};
  std::int64_t budget = 10'000;
  bool proven = false;
  if (!find_point(others, box, budget, proven)) return {};
  auto below = point_where(others, own, -1, 1), above = point_where(others, own, 1, top);
  if (!below && !above) return {Answer::Inside};
  return {within.empty ? Answer::Never : Answer::Leaves, below ? *below : *above};
}

// Unknown where a number leaves 64 bits: what was not computed says nothing.
Look look_at(const Border& border, const Values& sizes) {
  try {
    const auto own = bound(border.range, sizes);
    std::vector<Row> others;
    for (const Range& row : border.others) {
      const auto known = bound(row, sizes);
      if (!known || (known->extent && known->extent->get() < 0)) return {};
      others.push_back(row_of(*known));
    }
    return own && own->extent && own->extent->get() >= 0 ? look_at(others, row_of(*own), border.loses) : Look{};
  } catch (const SizeError&) {
    return {};
  }
}

// ---- for every size -------------------------------------------------------------------------------------------------

void add_names(const Range& range, std::set<std::string>& names) {
  const auto add = [&](const Size& size) { names.merge(size.names()); };
  std::for_each(range.value.coefficients.begin(), range.value.coefficients.end(), add);
  add(range.value.constant), add(range.value.divisor);
  if (range.extent) add(*range.extent);
}

// Small and large sizes, near each other and far, every two of them in both orders: what is so for all of these is
// taken to be so for all.
std::vector<Values> samples(const Border& border) {
  std::set<std::string> names;
  add_names(border.range, names);
  for (const Range& row : border.others) add_names(row, names);
  if (names.empty()) return {{}};
  std::vector<Values> result;
  constexpr std::array<std::pair<std::int64_t, std::int64_t>, 3> scales{{{5, 2}, {97, 11}, {1009, 101}}};
  const auto add = [&](const std::vector<std::int64_t>& numbers) {
    for (const bool descending : {false, true}) {
      Values values;
      std::size_t next = descending ? numbers.size() : 0;
      for (const std::string& name : names) values[name] = descending ? numbers[--next] : numbers[next++];
      result.push_back(std::move(values));
    }
  };
  for (const auto& [first, step] : scales) {
    std::vector<std::int64_t> near;
    for (std::size_t k = 0; k < names.size(); ++k) near.push_back(first + step * static_cast<std::int64_t>(k));
    add(near);
  }
  // Far from each other, as a stride or a window is from a picture: each name is among the small ones once.
  std::vector<std::int64_t> apart;
  for (std::size_t k = 0; k < names.size(); ++k)
    apart.push_back(k % 4 == 0 ? 3 : k % 4 == 1 ? 22 : k % 4 == 2 ? 151 : 1030);
  for (std::size_t turn = 0; turn < std::min<std::size_t>(names.size(), 4); ++turn) {
    add(apart);
    std::rotate(apart.begin(), apart.begin() + 1, apart.end());
  }
  // One that is far larger than all others together, as an array is that the others are packed into.
  for (const std::string& large : names) {
    Values values;
    std::int64_t next = 2;
    for (const std::string& name : names) values[name] = name == large ? 1'000'003 : next++;
    result.push_back(std::move(values));
  }
  return result;
}

struct Always { Answer answer = Answer::Unknown; std::vector<std::pair<Values, Point>> points = {}; };

Always always(const Border& border) {
  Always result;
  for (const Values& sizes : samples(border)) {
    const Look look = look_at(border, sizes);
    if (look.answer == Answer::Unknown) continue;
    if (look.answer == Answer::Inside && !border.loses) return {Answer::Inside};
    if (result.answer != Answer::Unknown && look.answer != result.answer) return {};
    result.answer = look.answer;
    result.points.emplace_back(sizes, look.point);
  }
  return result;
}

// ---- what is said ---------------------------------------------------------------------------------------------------

// By index: how far it goes on the left side, and what is written there. Sizes that are known have no name any more.
using Extents = std::map<std::string, std::pair<std::int64_t, std::string>>;

// `i = 0`, or `i = N - 1` where the value is that in all samples.
std::string place_of(const Border& border, const std::vector<std::pair<Values, Point>>& points, const Extents& named) {
  std::string text;
  for (std::size_t k = 0; k < border.indices.size(); ++k) {
    if (border.range.value.coefficients[k].is(0)) continue;
    std::vector<Size> candidates{Size(points[0].second[k])};
    std::vector<Range> rows = border.others;
    rows.push_back(border.range);
    for (const Range& row : rows) {
      std::int64_t less;                               // than the extent
      if (row.value.coefficients[k].is(0) || !row.extent ||
          __builtin_sub_overflow(row.extent->substitute(points[0].first).get(), points[0].second[k], &less))
        continue;
      candidates.push_back(*row.extent - Size(less));
    }
    const auto fits = [&](const Size& value) {
      return std::all_of(points.begin(), points.end(),
          [&](const auto& point) { return value.substitute(point.first).is(point.second[k]); });
    };
    const auto value = std::find_if(candidates.begin(), candidates.end(), fits);
    if (const auto name = named.find(border.indices[k]);
        name != named.end() && name->second.first > 1 && Size(name->second.first - 1).is(points[0].second[k])) {
      text += fmt::format("{}{} = {} - 1", text.empty() ? "" : ", ", border.indices[k], name->second.second);
      continue;
    }
    text += fmt::format(
        "{}{} = {}", text.empty() ? "" : ", ", border.indices[k], value == candidates.end() ? "…" : value->print());
  }
  return text.empty() ? "the only point" : text;
}

std::string condition_of(const Border& border, const Extents& named) {
  std::string extent = border.range.extent->print(true);
  for (std::size_t k = 0; k < border.indices.size(); ++k)
    if (const auto name = named.find(border.indices[k]);
        !border.range.value.coefficients[k].is(0) && name != named.end() && border.range.extent->is(name->second.first))
      extent = name->second.second;
  return fmt::format("0 <= {} < {}", border.range.value.print(border.indices), extent);
}

class Report {
 public:
  explicit Report(lang::Diagnostics& diagnostics, Extents named = {})
      : diagnostics_(diagnostics), named_(std::move(named)) {}

  // Once for a result: what else leaves is a label.
  void leaves(const Border& border, const std::string& place, const std::string& form) {
    const auto known =
        std::find_if(told_.begin(), told_.end(), [&](const auto& each) { return each.first == border.target; });
    if (known != told_.end()) {
      known->second.label(border.span, fmt::format("leaves `{}` at {}", border.tensor, place));
      return;
    }
    auto entry = diagnostics_.report(border.span, messages::border_lost, form, border.tensor, place, border.target);
    entry.hint(fmt::format(
        "if that is meant, say so with `default 0` or with a constraint such as `{}`; `tilec explain W0211` shows other borders",
        condition_of(border, named_)));
    told_.emplace_back(border.target, entry);
  }

  void never(const Border& border, const std::string& form, const std::string& why) {
    // An index that constraints leave no value, as `s <= t - 1` does where there is one t, is meant to have none.
    if (border.range.value.single_index() || !never_.insert(border.target).second) return;
    auto entry = diagnostics_.report(border.span, messages::never_inside, form, border.tensor, why);
    entry.hint(fmt::format("indices begin at 0, and the last one here is `{}`", (*border.range.extent - 1).print()));
  }

 private:
  lang::Diagnostics& diagnostics_;
  Extents named_;
  std::vector<std::pair<std::string, lang::Diagnostics::Entry>> told_;
  std::set<std::string> never_;                        // results of which that is said
};

// ---- collecting -----------------------------------------------------------------------------------------------------

// Each value of the index is a slice of the result: a form of the target has this index alone.
bool anchored(const std::vector<Affine>& element, std::size_t k) {
  return std::any_of(element.begin(), element.end(), [&](const Affine& form) {
    for (std::size_t other = 0; other < form.coefficients.size(); ++other)
      if (form.coefficients[other].is(0) != (other != k)) return false;
    return true;
  });
}

bool contains(const std::vector<Range>& rows, const Range& row) {
  return std::find(rows.begin(), rows.end(), row) != rows.end();
}

std::vector<Range> without(const std::vector<Range>& rows, const Range& own) {
  std::vector<Range> others;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(others), [&](const Range& row) { return row != own; });
  return others;
}

// What the target and the constraints say; a read that says the same leaves nowhere.
std::vector<Range> said_by(const WrittenContraction& written) {
  std::vector<Range> said = written.constraints;
  for (std::size_t d = 0; d < written.element.size(); ++d) said.push_back({written.element[d], written.shape[d]});
  return said;
}

void add_reads(Scope& scope, const WrittenContraction& written, std::vector<Border>& borders) {
  std::vector<const lang::Access*> reads;
  collect_reads(written.text.body, reads);
  const std::string target = written.text.target.name.spelled();
  // What a later statement has for its `default` is completed there.
  const bool assigns = written.aggregation == Aggregation::Assign && !written.text.default_value &&
      !scope.used_as_default.contains(target);
  const bool loses = assigns && (reads.size() > 1 || chooses_by_index(scope, written.text.body));
  const std::vector<Range> said = said_by(written);
  for (const lang::Access* read : reads) {
    const auto named = scope.names.find(read->tensor.spelled());
    if (named == scope.names.end() || named->second.kind != Named::Kind::Tensor) continue;
    const Tensor& tensor = scope.tensor(named->second.tensor);
    for (std::size_t d = 0; d < read->element.size() && d < tensor.shape.size(); ++d) {
      const auto form = affine_of(scope, written.indices, read->element[d]);
      const Range own{form.value_or(Affine{}), tensor.shape[d]};
      if (!form || contains(said, own)) continue;
      bool here = loses;
      for (std::size_t k = 0; k < written.indices.size(); ++k)
        here &= form->coefficients[k].is(0) || anchored(written.element, k);
      borders.push_back({written.indices, own, here ? said : without(written.domain, own), here, tensor.name, target,
          read->element[d].span()});
    }
  }
}

// The result has no such element.
void add_target(const WrittenContraction& written, std::vector<Border>& borders) {
  const std::string name = written.text.target.name.spelled();
  for (std::size_t d = 0; d < written.element.size(); ++d) {
    const Range own{written.element[d], written.shape[d]};
    if (!contains(written.constraints, own))
      borders.push_back(
          {written.indices, own, without(written.domain, own), false, name, name, written.text.element[d].span()});
  }
}

}  // namespace

Extents named_extents(const WrittenContraction& written) {
  Extents named;
  for (std::size_t d = 0; d < written.element.size() && d < written.text.sizes.size(); ++d) {
    const auto* size = written.text.sizes[d].as<lang::Variable>();
    const auto index = written.element[d].single_index();
    if (size && index && written.shape[d].value())
      named[written.indices[*index]] = {written.shape[d].get(), size->name.spelled()};
  }
  return named;
}

void note_borders(Scope& scope, const WrittenContraction& written) {
  std::vector<Border> borders;
  add_reads(scope, written, borders);
  add_target(written, borders);
  // Of two that exclude each other, `i + 5` and `i`, the longer is at fault.
  std::stable_partition(
      borders.begin(), borders.end(), [](const Border& border) { return !border.range.value.single_index(); });
  const Extents named = named_extents(written);
  Report report(scope.diagnostics, named);
  for (Border& border : borders) {
    const Always found = always(border);
    const std::string form = border.range.value.print(border.indices);
    if (found.answer == Answer::Leaves && border.loses)
      report.leaves(border, place_of(border, found.points, named), form);
    else if (found.answer == Answer::Never) report.never(border, form, "");
    else if (found.answer == Answer::Unknown || found.answer == Answer::Inside)
      scope.program.borders.push_back(std::move(border));
  }
}

void check_borders(const Program& program, const Values& sizes, lang::Diagnostics& diagnostics) {
  Report report(diagnostics);
  for (const Border& border : program.borders) {
    const Look look = look_at(border, sizes);
    const std::string form = border.range.value.print(border.indices);
    if (look.answer == Answer::Leaves && border.loses)
      report.leaves(border, place_of(border, {{sizes, look.point}}, {}), form);
    if (look.answer == Answer::Never)
      report.never(border, form, fmt::format(" of extent {}", border.range.extent->substitute(sizes).print()));
  }
}

}  // namespace tilec::poly
