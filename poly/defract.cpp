// Defract: from a statement to residue classes in which every output element has one writer and constant taps.
//
// The gradient of a stride 3, dilation 2, 3-tap, pad 2 convolution, 224 → 75, scatters
//
//   dI[3*x + 2*k - 2: 224] = +(dO[x] * K[k])             225 atomic additions, or 672 divisions by 3 with a remainder to test
//
// In the coordinates of lattice.cpp, y = 3x + 2k and k = 2y + 3z, the taps of an element depend on y mod 3 only, so
// the statement is three, one per residue, each without a guard on integrality:
//
//   dI_0[3*q: 224]     = +(dO[q] * K[1])                       75 elements, one tap each
//   dI_1[3*q + 1: 224] = +(dO[q + 1] * K[0]) default dI_0      74
//   dI[3*q + 2: 224]   = +(dO[q] * K[2]) default dI_1          74: together 223 points, the other two fell off the border
//
// Why not substitute and keep the fractions (PlaidML): a gather then tests `%` per tap, runs 46 % useful points on average
// and loses terms on carry chains such as 4x + 2p + k. See polyhedral.md; H. Cohen 2.4; M. Wolf, M. Lam (unimodular loops).
//
// Steps for one statement: indices of one value leave; output indices come first; divisions restrict the indices to a
// sublattice; components get their lattice (reduce.cpp); every combination of residues is one substitution; bounds again.
#include "poly/defract.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "poly/hull.h"
#include "poly/reduce.h"
#include "poly/substitute.h"

namespace tilec::poly {
namespace {

using lattice::Matrix;
using lattice::Vector;

constexpr const char* fresh = "";                      // an index that needs a name; given at the end

Box box_of(const Statement& statement) {               // from the hull rows (bounds.h)
  Box box{false, std::vector<Interval>(statement.indices.size())};
  for (std::size_t k = 0; k < box.index.size(); ++k) {
    const Row row = row_of(statement.domain[k]);
    box.index[k] = {-row.constant, *row.extent - 1 - row.constant};
    box.empty = box.empty || *row.extent <= 0;
  }
  for (const Range& range : statement.domain) box.empty = box.empty || (range.extent && range.extent->is(0));
  return box;
}

bool is_output(const Statement& statement, std::size_t k) {
  return std::any_of(statement.target.element.begin(), statement.target.element.end(), [&](const Affine& form) { return mentions(form, k); });
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

// Where an output index first appears in the target; behind all dimensions for a reduction index.
std::size_t first_dimension(const Statement& statement, std::size_t k) {
  std::size_t d = 0;
  while (d < statement.target.element.size() && !mentions(statement.target.element[d], k)) ++d;
  return d;
}

// Unchanged when it is so already; else outputs in the order of the target's dimensions, then the rest as written.
Statement outputs_first(const Statement& statement) {
  const std::size_t n = statement.indices.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (std::is_partitioned(order.begin(), order.end(), [&](std::size_t k) { return is_output(statement, k); })) return statement;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return first_dimension(statement, a) < first_dimension(statement, b); });
  Statement result = keep(statement, order, Vector(n, 0));
  std::vector<Range> hulls;                            // domain[k] stays the hull of index k
  for (const std::size_t k : order) hulls.push_back(std::move(result.domain[k]));
  std::move(hulls.begin(), hulls.end(), result.domain.begin());
  return result;
}

// Indices with one value become that value where they would cost a lattice: in a sum inside the target, or in a division.
Statement without_pinned(const Statement& statement, const Box& box) {
  const std::size_t n = statement.indices.size();
  const auto costly = [&](std::size_t k) {
    const auto in = [&](const Affine& form) { return mentions(form, k) && (!form.divisor.is(1) || !form.single_index()); };
    return std::any_of(statement.target.element.begin(), statement.target.element.end(), in) ||
           std::any_of(statement.domain.begin(), statement.domain.end(), [&](const Range& range) { return !range.value.divisor.is(1) && in(range.value); });
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

struct Integral { Statement statement; std::vector<std::vector<std::size_t>> coupled; };

// nullopt when no point makes every division exact.
std::optional<Integral> integral(const Statement& statement) {
  const std::size_t n = statement.indices.size();
  if (!has_divisors(statement)) return Integral{statement, {}};
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
  return Integral{substitute(statement, Map{found->l, found->start}, std::move(names)), std::move(coupled)};
}

// ---- step 2: one class

// Column j of the new coordinates, as a vector over the old indices.
struct Column { Vector direction; std::string name; bool output; std::size_t order; };

struct Frame { std::vector<Column> columns; Vector start; };

void place(Vector& direction, const Component& component, const Matrix& matrix, std::size_t column) {
  for (std::size_t i = 0; i < component.members.size(); ++i) direction[component.members[i]] = matrix[i][column];
}

// The component's columns for residue `rho`; without one, the triangular form (y; z).
void add_component(const Statement& statement, const Component& component, const Vector* rho, Frame& frame) {
  const lattice::Stacked& l = component.lattice;
  const std::size_t n = statement.indices.size();
  Matrix outputs = l.u;                                // U, or U [diag d; winding]
  if (rho != nullptr)
    for (std::size_t i = 0; i < l.u.size(); ++i)
      for (std::size_t j = 0; j < l.outputs; ++j) {
        outputs[i][j] = l.u[i][j] * component.period[j];
        for (std::size_t t = 0; t < l.taps; ++t) outputs[i][j] += l.u[i][l.outputs + t] * component.winding[t][j];
      }
  for (std::size_t i = 0; i < component.members.size(); ++i)
    for (std::size_t j = 0; rho != nullptr && j < l.outputs; ++j) frame.start[component.members[i]] += l.u[i][j] * (*rho)[j];
  for (std::size_t j = 0; j < l.outputs; ++j) {
    std::size_t row = 0;                               // the dimension where output j first appears
    while (l.h[row][j] == 0) ++row;
    Column column{Vector(n, 0), fresh, true, component.dimensions[row]};
    place(column.direction, component, outputs, j);
    const Affine& form = statement.target.element[component.dimensions[row]];
    std::int64_t constant = form.constant.get(), stride = 0;
    for (std::size_t k = 0; k < n; ++k) {
      constant += form.coefficients[k].get() * frame.start[k];
      stride += form.coefficients[k].get() * column.direction[k];
    }
    // Count the class from its residue: 0 <= constant < stride.
    const std::int64_t shift = constant / stride - (constant % stride < 0);
    for (std::size_t k = 0; k < n; ++k) frame.start[k] -= shift * column.direction[k];
    frame.columns.push_back(std::move(column));
  }
  for (std::size_t t = 0; t < l.taps; ++t) {
    Column column{Vector(n, 0), fresh, false, component.members.front()};
    place(column.direction, component, l.u, l.outputs + t);
    frame.columns.push_back(std::move(column));
  }
}

void add_identity(const Statement& statement, const Component& component, Frame& frame) {
  for (const std::size_t k : component.members) {
    Column column{Vector(statement.indices.size(), 0), statement.indices[k], is_output(statement, k), k};
    column.direction[k] = 1;
    if (column.output) column.order = first_dimension(statement, k);
    frame.columns.push_back(std::move(column));
  }
}

Statement in_frame(const Statement& statement, Frame frame) {
  std::stable_sort(frame.columns.begin(), frame.columns.end(), [](const Column& a, const Column& b) {
    return a.output != b.output ? a.output : a.order < b.order;
  });
  Map map{Matrix(statement.indices.size(), Vector(frame.columns.size(), 0)), frame.start};
  std::vector<std::string> names;
  for (std::size_t j = 0; j < frame.columns.size(); ++j) {
    for (std::size_t k = 0; k < map.matrix.size(); ++k) map.matrix[k][j] = frame.columns[j].direction[k];
    names.push_back(frame.columns[j].name);
  }
  return substitute(statement, map, std::move(names));
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

// Rows that held by the old hulls may not follow from the new ones by intervals alone: then they stay, as guards. They help
// interval arithmetic too: the target's rows are triangular in q, the taps' in z.
void add_accesses(const Program& program, Statement& statement) {
  const auto add = [&](const Access& access) {
    for (std::size_t d = 0; d < access.element.size(); ++d) statement.domain.push_back({access.element[d], program.tensor(access.tensor).shape[d]});
  };
  for (const Access& read : statement.reads) add(read);
  add(statement.target);
}

// Bounds again: new reduction indices count from 0, new indices of one value leave. nullopt when there is no point.
std::optional<Statement> finish(const Program& program, Statement statement, unsigned long patience) {
  const std::size_t n = statement.indices.size();
  Box box = hull(rows_of(statement), n, patience), left{false, {}};
  add_accesses(program, statement);
  if (!box.empty && !bounded(box)) tighten(rows_of(statement), box);         // isl gave up
  if (box.empty) return std::nullopt;
  std::vector<std::size_t> kept;
  Vector start(n, 0);
  for (std::size_t k = 0; k < n; ++k) {
    Interval& interval = box.index[k];
    if (!interval.lower || !interval.upper) throw lang::InternalError("a new index of `" + statement.indices[k] + "` has no bound");
    const bool moved = statement.indices[k] == fresh, single = interval.lower == interval.upper;
    if (moved && (single || !is_output(statement, k))) start[k] = *interval.lower;
    if (moved && single) continue;
    kept.push_back(k);
    left.index.push_back({*interval.lower - start[k], *interval.upper - start[k]});
  }
  Statement result = keep(statement, kept, start);
  result.domain = bounded_domain(result.domain, left);
  give_names(result);
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

// Which components are split into classes: the ones with the fewest first, while the product stays within the limit.
std::vector<bool> choose_split(const std::vector<Component>& parts, int class_limit) {
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return parts[a].classes < parts[b].classes; });
  std::vector<bool> split(parts.size(), false);
  double product = 1;
  for (const std::size_t c : order) {
    if (parts[c].identity || product * parts[c].classes > class_limit) continue;
    product *= parts[c].classes;
    split[c] = true;
  }
  return split;
}

std::vector<Frame> frames(const Statement& statement, const std::vector<Component>& parts, int class_limit) {
  const std::vector<bool> split = choose_split(parts, class_limit);
  std::vector<Frame> result{Frame{{}, Vector(statement.indices.size(), 0)}};
  for (std::size_t c = 0; c < parts.size(); ++c) {
    std::vector<Frame> next;
    for (const Frame& frame : result) {
      if (parts[c].identity || !split[c]) {
        next.push_back(frame);
        parts[c].identity ? add_identity(statement, parts[c], next.back()) : add_component(statement, parts[c], nullptr, next.back());
        continue;
      }
      Vector rho(parts[c].period.size(), 0);
      for (bool more = true; more;) {
        next.push_back(frame);
        add_component(statement, parts[c], &rho, next.back());
        more = false;
        for (std::size_t j = rho.size(); j-- > 0 && !more;) {
          more = ++rho[j] < parts[c].period[j];
          if (!more) rho[j] = 0;
        }
      }
    }
    result = std::move(next);
  }
  return result;
}

bool residue_order(const Statement& a, const Statement& b) {
  const auto constants = [](const Statement& s) {
    Vector result;
    for (const Affine& form : s.target.element) result.push_back(form.constant.get());
    return result;
  };
  return constants(a) < constants(b);
}

std::vector<Statement> classes(const Program& program, const Statement& original, int class_limit) {
  if (is_reduced(original)) return {outputs_first(original)};
  const Box box = box_of(original);
  if (box.empty) return {nothing(original)};
  const std::optional<Integral> whole = integral(outputs_first(without_pinned(original, box)));
  if (!whole) return {nothing(original)};
  const Statement& statement = whole->statement;
  const std::vector<Component> parts = components(statement, whole->coupled);
  const bool same = std::all_of(parts.begin(), parts.end(), [](const Component& part) { return part.identity; });
  if (same && statement.indices == original.indices && !has_divisors(original)) return {outputs_first(original)};
  std::vector<Statement> result;
  std::vector<Frame> all = frames(statement, parts, class_limit);
  const unsigned long patience = 3'000 / all.size();   // of isl, shared: milliseconds per statement, not per class
  for (Frame& frame : all)
    if (std::optional<Statement> one = finish(program, in_frame(statement, std::move(frame)), patience)) result.push_back(std::move(*one));
  if (result.empty()) return {nothing(original)};
  std::stable_sort(result.begin(), result.end(), residue_order);
  return result;
}

// The classes as nodes: each but the last writes a tensor of its own, and the next starts from it.
void append_chain(Program& program, std::vector<Statement> parts, std::set<std::string>& names) {
  const TensorId target = parts.back().target.tensor;
  for (std::size_t c = 0; c < parts.size(); ++c) {
    if (c > 0) parts[c].fill = std::get<Statement>(program.nodes.back()).target.tensor;
    if (c + 1 < parts.size()) {
      Tensor tensor = program.tensor(target);
      const std::string base = tensor.name + "_";
      for (std::size_t number = c; !names.insert(tensor.name).second; ++number) tensor.name = base + std::to_string(number);
      parts[c].target.tensor = static_cast<TensorId>(program.tensors.size());
      program.tensors.push_back(std::move(tensor));
    }
    program.nodes.emplace_back(std::move(parts[c]));
  }
}

}  // namespace

Program defract(const Program& program, int class_limit) {
  Program result = program;
  result.nodes.clear();
  std::set<std::string> names;
  for (const Tensor& tensor : program.tensors) names.insert(tensor.name);
  for (const Node& node : program.nodes) {
    if (const Statement* statement = std::get_if<Statement>(&node)) append_chain(result, classes(program, *statement, class_limit), names);
    else result.nodes.push_back(node);
  }
  return result;
}

std::size_t output_indices(const Statement& statement) {
  std::size_t count = 0;
  for (std::size_t k = 0; k < statement.indices.size(); ++k)
    if (is_output(statement, k)) count = k + 1;
  return count;
}

}  // namespace tilec::poly
