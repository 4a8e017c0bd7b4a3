// Steps for one statement: indices of one value leave; output indices come first; divisions restrict the indices to a
// sublattice; components get their lattice (reduce.cpp); every combination of residues is one substitution; bounds
// again.
#include "poly/classes.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "poly/exact.h"
#include "poly/frame.h"
#include "poly/hull.h"
#include "poly/sum.h"

namespace tilec::poly {
namespace {

using lattice::Matrix;
using lattice::Vector;

Box box_of(const Statement& statement) {               // from the hull rows (bounds.h)
  Box box{false, std::vector<Interval>(statement.indices.size())};
  for (std::size_t k = 0; k < box.index.size(); ++k) {
    const Row row = row_of(statement.domain[k]);
    box.index[k] = {-row.constant, (Exact(*row.extent) - 1 - row.constant).get()};
    box.empty = box.empty || *row.extent <= 0;
  }
  for (const Range& range : statement.domain) box.empty = box.empty || (range.extent && range.extent->is(0));
  return box;
}

// The old indices in a new order, some of them replaced by constants.
Statement keep(const Statement& statement, const std::vector<std::size_t>& kept, const Vector& start) {
  Map map{Matrix(statement.indices.size(), Vector(kept.size(), 0)), start};
  std::vector<std::string> names;
  for (std::size_t j = 0; j < kept.size(); ++j) {
    map.matrix[kept[j]][j] = 1;
    names.push_back(statement.indices[kept[j]]);
  }
  return substitute(statement, map, std::move(names));
}

// The map that `keep` goes through, after `map`.
Map composed(const Map& map, const std::vector<std::size_t>& kept, const Vector& start) {
  Map result{Matrix(map.matrix.size(), Vector(kept.size(), 0)), map.start};
  for (std::size_t i = 0; i < map.matrix.size(); ++i) {
    for (std::size_t j = 0; j < kept.size(); ++j) result.matrix[i][j] = map.matrix[i][kept[j]];
    Sum at(map.start[i]);
    for (std::size_t j = 0; j < start.size(); ++j) at.add(map.matrix[i][j], start[j]);
    result.start[i] = at.get();
  }
  return result;
}

// Unchanged when it is so already; else outputs in the order of the target's dimensions, then the rest as written.
Statement outputs_first(const Statement& statement) {
  const std::size_t n = statement.indices.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (std::is_partitioned(order.begin(), order.end(), [&](std::size_t k) { return is_output(statement, k); }))
    return statement;
  std::stable_sort(order.begin(), order.end(),
      [&](std::size_t a, std::size_t b) { return first_dimension(statement, a) < first_dimension(statement, b); });
  Statement result = keep(statement, order, Vector(n, 0));
  std::vector<Range> hulls;                            // domain[k] stays the hull of index k
  for (const std::size_t k : order) hulls.push_back(std::move(result.domain[k]));
  std::move(hulls.begin(), hulls.end(), result.domain.begin());
  return result;
}

// Indices with one value become that value where they would cost a lattice: in a sum inside the target, or in a
// division.
Statement without_pinned(const Statement& statement, const Box& box) {
  const std::size_t n = statement.indices.size();
  const auto costly = [&](std::size_t k) {
    const auto in = [&](const Affine& form) {
      return mentions(form, k) && (!form.divisor.is(1) || !form.single_index());
    };
    return std::any_of(statement.target.element.begin(), statement.target.element.end(), in) ||
        std::any_of(statement.domain.begin(), statement.domain.end(),
            [&](const Range& range) { return !range.value.divisor.is(1) && in(range.value); });
  };
  std::vector<std::size_t> kept;
  Vector start(n, 0);
  for (std::size_t k = 0; k < n; ++k) {
    if (box.index[k].lower != box.index[k].upper || !costly(k)) kept.push_back(k);
    else start[k] = *box.index[k].lower;
  }
  return kept.size() == n ? statement : keep(statement, kept, start);
}

// ---- step 0: divisions

struct Integral {
  Statement statement;
  std::vector<std::vector<std::size_t>> coupled;
  std::optional<lattice::Sublattice> divisions;
};

// nullopt when no point makes every division exact.
std::optional<Integral> integral(const Statement& statement) {
  const std::size_t n = statement.indices.size();
  if (!has_divisors(statement)) return Integral{statement, {}, std::nullopt};
  Matrix a;
  Vector b, d;
  const auto collect = [&](const Affine& form) {
    const Row row = row_of(Range{form, std::nullopt});
    if (row.divisor == 1) return;
    a.push_back(row.coefficients);
    b.push_back(row.constant);
    d.push_back(row.divisor);
  };
  for (const Affine& form : statement.target.element) collect(form);
  for (const Access& read : statement.reads) for (const Affine& form : read.element) collect(form);
  for (const Range& range : statement.domain) collect(range.value);
  const auto found = lattice::sublattice(a, b, d, n);
  if (!found) return std::nullopt;
  std::vector<std::string> names;
  std::vector<std::vector<std::size_t>> coupled;
  for (std::size_t k = 0; k < n; ++k) {
    std::vector<std::size_t> group;                    // the indices that t_k moves
    for (std::size_t i = k; i < n; ++i) if (found->l[i][k] != 0) group.push_back(i);
    bool same = found->l[k][k] == 1 && found->start[k] == 0 && group.size() == 1;
    for (std::size_t j = 0; j < k; ++j) same = same && found->l[k][j] == 0;
    names.push_back(same ? statement.indices[k] : fresh);
    if (group.size() > 1) coupled.push_back(std::move(group));
  }
  return Integral{substitute(statement, Map{found->l, found->start}, std::move(names)), std::move(coupled), found};
}

// ---- every class

void give_names(Statement& statement) {
  std::set<std::string> taken(statement.indices.begin(), statement.indices.end());
  for (std::size_t k = 0; k < statement.indices.size(); ++k) {
    if (statement.indices[k] != fresh) continue;
    const std::string base = is_output(statement, k) ? "q" : "z";
    std::string name = base;
    for (int number = 1; taken.count(name) != 0; ++number) name = base + std::to_string(number);
    taken.insert(name);
    statement.indices[k] = name;
  }
}

bool bounded(const Box& box) {
  return std::all_of(box.index.begin(), box.index.end(), [](const Interval& i) { return i.lower && i.upper; });
}

// Rows that held by the old hulls may not follow from the new ones by intervals alone: then they stay, as guards. They
// help interval arithmetic too: the target's rows are triangular in q, the taps' in z.
void add_accesses(const Program& program, Statement& statement) {
  const auto add = [&](const Access& access) {
    for (std::size_t d = 0; d < access.element.size(); ++d)
      statement.domain.push_back({access.element[d], program.tensor(access.tensor).shape[d]});
  };
  for (const Access& read : statement.reads) add(read);
  add(statement.target);
}

// Bounds again: new reduction indices count from 0, new indices of one value leave. nullopt when there is no point.
std::optional<Class> finish(const Program& program, Statement statement, const Map& map, unsigned long patience) {
  const std::size_t n = statement.indices.size();
  Box box = hull(rows_of(statement), n, patience), left{false, {}};
  add_accesses(program, statement);
  if (!box.empty && !bounded(box)) tighten(rows_of(statement), box);         // isl gave up
  if (box.empty) return std::nullopt;
  std::vector<std::size_t> kept;
  Vector start(n, 0);
  for (std::size_t k = 0; k < n; ++k) {
    Interval& interval = box.index[k];
    // all are bounded, as the old ones are
    if (!interval.lower || !interval.upper) throw Overflow("an index of the residue classes goes beyond 2^62");
    const bool moved = statement.indices[k] == fresh, single = interval.lower == interval.upper;
    if (moved && (single || !is_output(statement, k))) start[k] = *interval.lower;
    if (moved && single) continue;
    kept.push_back(k);
    left.index.push_back({(Exact(*interval.lower) - start[k]).get(), (Exact(*interval.upper) - start[k]).get()});
  }
  Class result{keep(statement, kept, start), composed(map, kept, start)};
  result.statement.domain = bounded_domain(result.statement.domain, left);
  give_names(result.statement);
  return result;
}

// What is left of a statement without points: the fill.
Statement nothing(const Statement& statement) {
  Statement result = statement;
  const std::size_t rank = statement.target.element.size(), n = std::max<std::size_t>(rank, 1);
  result.indices.assign(n, fresh);
  result.reads.clear();
  result.value = Number{statement.value.type()};
  for (std::size_t d = 0; d < rank; ++d) result.target.element[d] = Affine::index(d, n);
  result.domain = bounded_domain({}, Box{true, std::vector<Interval>(n)});
  give_names(result);
  return result;
}

bool residue_order(const Class& a, const Class& b) {
  const auto constants = [](const Statement& s) {
    Vector result;
    for (const Affine& form : s.target.element) result.push_back(form.constant.get());
    return result;
  };
  return constants(a.statement) < constants(b.statement);
}

}  // namespace

Classes classes_of(const Program& program, const Statement& original, int class_limit) {
  const auto whole_as = [&](Course course, Statement statement) {
    return Classes{course, {}, std::nullopt, original, {}, {}, {{std::move(statement), {}}}};
  };
  if (is_reduced(original)) return whole_as(Course::Reduced, outputs_first(original));
  const Box box = box_of(original);
  if (box.empty) return whole_as(Course::Empty, nothing(original));
  const Statement ordered = outputs_first(without_pinned(original, box));
  std::optional<Integral> whole = integral(ordered);
  if (!whole) return whole_as(Course::Empty, nothing(original));
  std::vector<Component> parts = components(whole->statement, whole->coupled);
  const bool same = std::all_of(parts.begin(), parts.end(), [](const Component& part) { return part.identity; });
  if (same && whole->statement.indices == original.indices && !has_divisors(original))
    return whole_as(Course::Reduced, outputs_first(original));
  Classes result{Course::Split, ordered.indices, std::move(whole->divisions), std::move(whole->statement),
      std::move(parts), {}, {}};
  result.split = choose_split(result.parts, class_limit);
  std::vector<Placement> all = placements(result.integral, result.parts, result.split);
  const unsigned long patience = 3'000 / all.size();   // of isl, shared: milliseconds per statement, not per class
  for (Placement& one : all)
    if (auto found = finish(program, substitute(result.integral, one.map, std::move(one.names)), one.map, patience))
      result.classes.push_back(std::move(*found));
  if (result.classes.empty()) return whole_as(Course::Empty, nothing(original));
  std::stable_sort(result.classes.begin(), result.classes.end(), residue_order);
  return result;
}

}  // namespace tilec::poly
