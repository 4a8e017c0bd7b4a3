// U (y_rho; 0) + B (q; z), component by component, put together to one map per combination of residues.
//
// A component whose classes are too many keeps its triangular coordinates (y; z): the same points, whose taps then
// depend on y.
#include "poly/frame.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lang/diagnostic.h"
#include "poly/exact.h"
#include "poly/sum.h"

namespace tilec::poly {
namespace {

using lattice::Matrix;
using lattice::Vector;

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
        Sum entry;
        entry.add(l.u[i][j], component.period[j]);
        for (std::size_t t = 0; t < l.taps; ++t) entry.add(l.u[i][l.outputs + t], component.winding[t][j]);
        outputs[i][j] = entry.get();
      }
  for (std::size_t i = 0; rho != nullptr && i < component.members.size(); ++i) {
    Sum start(frame.start[component.members[i]]);
    for (std::size_t j = 0; j < l.outputs; ++j) start.add(l.u[i][j], (*rho)[j]);
    frame.start[component.members[i]] = start.get();
  }
  for (std::size_t j = 0; j < l.outputs; ++j) {
    std::size_t row = 0;                               // the dimension where output j first appears
    while (l.h[row][j] == 0) ++row;
    Column column{Vector(n, 0), fresh, true, component.dimensions[row]};
    place(column.direction, component, outputs, j);
    const Affine& form = statement.target.element[component.dimensions[row]];
    Sum at(form.constant.get()), step;
    for (std::size_t k = 0; k < n; ++k) {
      at.add(form.coefficients[k].get(), frame.start[k]);
      step.add(form.coefficients[k].get(), column.direction[k]);
    }
    const std::int64_t constant = at.get(), stride = step.get();
    if (stride == 0) throw lang::InternalError("an output that does not move its element");
    // Count the class from its residue: 0 <= constant < stride.
    const std::int64_t shift = constant / stride - (constant % stride < 0);
    for (std::size_t k = 0; k < n; ++k) add_product(frame.start[k], (-Exact(shift)).get(), column.direction[k]);
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

Placement placement(Frame frame) {
  std::stable_sort(frame.columns.begin(), frame.columns.end(), [](const Column& a, const Column& b) {
    return a.output != b.output ? a.output : a.order < b.order;
  });
  Placement result{{Matrix(frame.start.size(), Vector(frame.columns.size(), 0)), frame.start}, {}};
  for (std::size_t j = 0; j < frame.columns.size(); ++j) {
    for (std::size_t k = 0; k < frame.start.size(); ++k) result.map.matrix[k][j] = frame.columns[j].direction[k];
    result.names.push_back(frame.columns[j].name);
  }
  return result;
}

}  // namespace

std::vector<bool> choose_split(const std::vector<Component>& parts, int class_limit) {
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(
      order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return parts[a].classes < parts[b].classes; });
  std::vector<bool> split(parts.size(), false);
  double product = 1;
  for (const std::size_t c : order) {
    if (parts[c].identity || product * parts[c].classes > class_limit) continue;
    product *= parts[c].classes;
    split[c] = true;
  }
  return split;
}

std::vector<Placement> placements(
    const Statement& statement, const std::vector<Component>& parts, const std::vector<bool>& split) {
  std::vector<Frame> result{Frame{{}, Vector(statement.indices.size(), 0)}};
  for (std::size_t c = 0; c < parts.size(); ++c) {
    std::vector<Frame> next;
    for (const Frame& frame : result) {
      if (parts[c].identity || !split[c]) {
        next.push_back(frame);
        parts[c].identity ? add_identity(statement, parts[c], next.back())
                          : add_component(statement, parts[c], nullptr, next.back());
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
  std::vector<Placement> all;
  for (Frame& frame : result) all.push_back(placement(std::move(frame)));
  return all;
}

}  // namespace tilec::poly
