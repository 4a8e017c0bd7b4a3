// A class has indices of its own; its map leads back to the statement's. So a picture of a class is one of its own
// points, under the rows that keep the projected forms inside the window. Indices that no row ties to those forms
// repeat the picture and are left out.
#include "poly/projection.h"

#include <algorithm>
#include <set>

#include "poly/classes.h"
#include "poly/count.h"
#include "poly/exact.h"
#include "poly/hull.h"
#include "poly/sum.h"

namespace tilec::poly {
namespace {

// small: of a box, where every place has a point
constexpr std::array<std::int64_t, 2> window{24, 16}, small_window{12, 6};
constexpr std::int64_t most_points = 10'000, most_looks = 80'000;  // of a class: some 7 ms
constexpr std::int64_t looks_for_a_place = 2'000;

struct Form { lattice::Vector coefficients; std::int64_t constant = 0; };
// A class over its own indices, and each index of the statement as a form of them.
struct Layer { const Statement* statement; std::vector<Form> indices; };

Form composed(const Form& outer, const Map& map) {
  Form result{lattice::Vector(map.matrix.empty() ? 0 : map.matrix[0].size(), 0), 0};
  Sum constant(outer.constant);
  for (std::size_t i = 0; i < outer.coefficients.size(); ++i) constant.add(outer.coefficients[i], map.start[i]);
  for (std::size_t j = 0; j < result.coefficients.size(); ++j) {
    Sum sum;
    for (std::size_t i = 0; i < outer.coefficients.size(); ++i) sum.add(outer.coefficients[i], map.matrix[i][j]);
    result.coefficients[j] = sum.get();
  }
  result.constant = constant.get();
  return result;
}

// An index that the classes left out has one value: its lowest.
std::int64_t low_of(const Statement& statement, std::size_t k) { return -row_of(statement.domain[k]).constant; }

std::vector<Layer> layers_of(const Statement& statement, const Classes& all) {
  std::vector<Layer> layers;
  for (const Class& one : all.classes) {
    const std::vector<std::string>& order = all.course == Course::Split ? all.indices : one.statement.indices;
    Layer layer{&one.statement, {}};
    for (std::size_t k = 0; k < statement.indices.size(); ++k) {
      const auto at = std::find(order.begin(), order.end(), statement.indices[k]);
      if (at == order.end()) {
        layer.indices.push_back({lattice::Vector(one.statement.indices.size(), 0), low_of(statement, k)});
        continue;
      }
      const auto place = static_cast<std::size_t>(at - order.begin());
      Form form{lattice::Vector(order.size(), 0), 0};
      form.coefficients[place] = 1;
      if (all.course == Course::Split) {
        if (all.divisions) form = {all.divisions->l[place], all.divisions->start[place]};
        form = composed(form, one.map);
      }
      layer.indices.push_back(std::move(form));
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

Form form_of(const Affine& affine) {
  const Row row = row_of({affine, std::nullopt});
  return {row.coefficients, row.constant};
}

// Indices that rows tie to those that the forms mention.
std::set<std::size_t> tied(const std::vector<Row>& rows, const std::vector<Form>& forms) {
  std::set<std::size_t> found;
  const auto mentioned = [](const lattice::Vector& coefficients) {
    std::set<std::size_t> here;
    for (std::size_t j = 0; j < coefficients.size(); ++j) if (coefficients[j] != 0) here.insert(j);
    return here;
  };
  for (const Form& form : forms) found.merge(mentioned(form.coefficients));
  for (std::size_t before = found.size() + 1; before != found.size();) {
    before = found.size();
    for (const Row& row : rows) {
      std::set<std::size_t> here = mentioned(row.coefficients);
      if (std::ranges::any_of(here, [&](std::size_t j) { return found.contains(j); })) found.merge(here);
    }
  }
  return found;
}

// Whether the class has a point at this place, where points are too many to go through all.
bool has_point(std::vector<Row> rows, const std::vector<Form>& forms, const std::array<std::int64_t, 2>& place,
    const Box& outer, bool& proven) {
  for (std::size_t a = 0; a < forms.size(); ++a)
    rows.push_back({forms[a].coefficients, (Exact(forms[a].constant) - place[a]).get(), 1, 1});
  Box box = outer;
  tighten(rows, box);
  proven = box.empty;
  std::int64_t budget = looks_for_a_place;
  return !box.empty && find_point(rows, box, budget, proven).has_value();
}

void add_places(const std::vector<Row>& rows, const std::vector<Form>& forms, const Box& box, std::size_t number,
    Projection& projection) {
  const std::vector<Axis>& axes = projection.axes;
  const std::int64_t up = axes.size() > 1 ? axes[1].low : 0, top = axes.size() > 1 ? up + axes[1].shown : 1;
  for (std::int64_t i = axes[0].low; i < axes[0].low + axes[0].shown; ++i)
    for (std::int64_t k = up; k < top; ++k) {
      bool proven = false;
      if (projection.points.contains({i, k})) continue;
      if (has_point(rows, forms, {i, k}, box, proven)) projection.points.emplace(std::array{i, k}, number);
      else if (!proven) projection.whole = false;
    }
}

void add_points(const Statement& of_class, const std::vector<Form>& forms, std::size_t number, Projection& projection) {
  const std::size_t n = of_class.indices.size();
  std::vector<Row> rows = rows_of(of_class);
  for (std::size_t a = 0; a < forms.size(); ++a)
    rows.push_back({forms[a].coefficients, (Exact(forms[a].constant) - projection.axes[a].low).get(), 1,
        projection.axes[a].shown});
  const std::set<std::size_t> kept = tied(rows, forms);
  std::erase_if(rows, [&](const Row& row) {
    for (std::size_t j = 0; j < n; ++j) if (row.coefficients[j] != 0 && !kept.contains(j)) return true;
    return false;
  });
  Box box{false, std::vector<Interval>(n)};
  for (std::size_t j = 0; j < n; ++j)
    if (!kept.contains(j)) box.index[j] = {0, 0};
  tighten(rows, box);
  if (box.empty) return;
  const bool all = for_each_point(rows, box, most_points, [&](const Point& point) {
    std::array<std::int64_t, 2> place{};
    for (std::size_t a = 0; a < forms.size(); ++a) {
      Sum sum(forms[a].constant);
      for (std::size_t j = 0; j < n; ++j) sum.add(forms[a].coefficients[j], point[j]);
      place[a] = sum.get();
    }
    projection.points.emplace(place, number);
    return true;
  }, most_looks);
  if (!all) add_places(rows, forms, box, number, projection);
}

Axis axis_of(std::string name, std::int64_t low, std::int64_t extent, std::int64_t most) {
  return {std::move(name), low, extent, std::min(extent, most)};
}

Projection on_indices(
    const Statement& statement, const std::vector<Layer>& layers, const std::vector<std::size_t>& indices) {
  Projection projection;
  const bool is_box = layers.size() == 1 && statement.domain.size() == statement.indices.size();
  for (const std::size_t k : indices)
    projection.axes.push_back(axis_of(statement.indices[k], low_of(statement, k), statement.domain[k].extent->get(),
        (is_box ? small_window : window)[projection.axes.size()]));
  for (std::size_t c = 0; c < layers.size(); ++c) {
    std::vector<Form> forms;
    for (const std::size_t k : indices) forms.push_back(layers[c].indices[k]);
    add_points(*layers[c].statement, forms, c, projection);
  }
  return projection;
}

Projection on_elements(const Program& program, const Statement& statement, const std::vector<Layer>& layers,
    const std::vector<std::size_t>& dimensions) {
  Projection projection;
  const Tensor& tensor = program.tensor(statement.target.tensor);
  for (const std::size_t d : dimensions)
    projection.axes.push_back(axis_of(statement.target.element[d].print(statement.indices), 0, tensor.shape[d].get(),
        window[projection.axes.size()]));
  for (std::size_t c = 0; c < layers.size(); ++c) {
    std::vector<Form> forms;
    for (const std::size_t d : dimensions) forms.push_back(form_of(layers[c].statement->target.element[d]));
    add_points(*layers[c].statement, forms, c, projection);
  }
  return projection;
}

// No lattice and no division has a say in its indices.
bool is_plain(const Classes& all, const Component& part) {
  if (!part.identity || !all.divisions) return part.identity;
  for (const std::size_t m : part.members) {
    if (all.divisions->start[m] != 0) return false;
    for (std::size_t i = 0; i < all.divisions->l.size(); ++i)
      if (all.divisions->l[i][m] != (i == m)) return false;
  }
  return true;
}

// Of a part that a lattice couples: those of the statement's indices that its coordinates move, two at most.
std::vector<std::size_t> indices_of(const Statement& statement, const Classes& all, const Component& part) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < all.indices.size(); ++i) {
    const bool moves = std::ranges::any_of(
        part.members, [&](std::size_t m) { return all.divisions ? all.divisions->l[i][m] != 0 : i == m; });
    const auto at = std::ranges::find(statement.indices, all.indices[i]);
    if (moves && at != statement.indices.end())
      found.push_back(static_cast<std::size_t>(at - statement.indices.begin()));
  }
  found.resize(std::min<std::size_t>(found.size(), 2));
  return found;
}

bool varies(const Statement& statement, std::size_t k) { return statement.domain[k].extent->get() > 1; }

// Two that a row couples, else the longest output and the longest reduction, else the first ones.
std::vector<std::size_t> telling_indices(const Statement& statement) {
  const std::size_t n = statement.indices.size();
  std::vector<std::size_t> kept, reduced;
  for (std::size_t k = 0; k < n; ++k)
    if (varies(statement, k)) (is_output(statement, k) ? kept : reduced).push_back(k);
  for (std::size_t r = n; r < statement.domain.size(); ++r) {
    std::vector<std::size_t> here;
    for (std::size_t k = 0; k < n; ++k)
      if (varies(statement, k) && mentions(statement.domain[r].value, k)) here.push_back(k);
    if (here.size() < 2) continue;
    here.resize(2);
    return here;
  }
  const auto longest = [&](const std::vector<std::size_t>& among) {
    return *std::ranges::max_element(among, {}, [&](std::size_t k) { return statement.domain[k].extent->get(); });
  };
  if (!kept.empty() && !reduced.empty()) return {longest(kept), longest(reduced)};
  std::vector<std::size_t>& some = kept.empty() ? reduced : kept;
  some.resize(std::min<std::size_t>(some.size(), 2));
  return some;
}

}  // namespace

Projections project(const Program& program, const Statement& statement, int limit) {
  const Classes all = classes_of(program, statement, limit);
  Projections made;
  if (all.course == Course::Empty) return made;
  const std::vector<Layer> layers = layers_of(statement, all);
  std::vector<std::size_t> dimensions;
  if (all.course == Course::Split)
    for (const Component& part : all.parts) {
      if (is_plain(all, part)) continue;
      const std::vector<std::size_t> indices = indices_of(statement, all, part);
      if (!indices.empty() && made.domain.size() < 2 &&
          std::ranges::any_of(indices, [&](std::size_t k) { return varies(statement, k); }))
        made.domain.push_back(on_indices(statement, layers, indices));
      dimensions.insert(dimensions.end(), part.dimensions.begin(), part.dimensions.end());
    }
  if (made.domain.empty())
    if (const std::vector<std::size_t> indices = telling_indices(statement); !indices.empty())
      made.domain.push_back(on_indices(statement, layers, indices));
  if (dimensions.empty())
    for (std::size_t d = 0; d < statement.target.element.size(); ++d)
      if (program.tensor(statement.target.tensor).shape[d].get() > 1) dimensions.push_back(d);
  std::ranges::sort(dimensions);
  if (dimensions.size() > 2) dimensions.resize(2);
  if (!dimensions.empty()) made.elements.push_back(on_elements(program, statement, layers, dimensions));
  return made;
}

}  // namespace tilec::poly
