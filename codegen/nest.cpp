// Statements flattened: hulls shifted to 0, strides applied, neighbouring dimensions merged.
#include "codegen/nest.h"

#include <algorithm>
#include <cmath>

#include "codegen/model/machine.h"
#include "lang/diagnostic.h"
#include "poly/count.h"
#include "poly/exact.h"
#include "poly/intern.h"
#include "poly/intrinsic.h"

namespace tilec::codegen {

using lang::InternalError;
using poly::Affine;
using poly::Program;
using poly::Statement;

namespace {

// Forms over the statement's original indices, all starting at 0.
struct Shifted {
  std::vector<std::int64_t> begin, extent;
};

Shifted hulls(const Statement& statement) {
  Shifted hull;
  hull.begin.reserve(statement.indices.size()), hull.extent.reserve(statement.indices.size());
  for (std::size_t k = 0; k < statement.indices.size(); ++k) {
    const poly::Range& row = statement.domain.at(k);
    if (row.value.single_index() != k && !(row.value.divisor.is(1) && row.value.coefficients[k].is(1)))
      throw InternalError("a hull row is not its index");
    hull.begin.push_back((-poly::Exact(row.value.constant.get())).get());
    hull.extent.push_back(std::max<std::int64_t>(0, row.extent.value().get()));
  }
  return hull;
}

// `factor` times the affine, added to a form over as many indices.
void add(Form& sum, const Affine& affine, const Shifted& hull, std::int64_t factor) {
  if (!affine.divisor.is(1)) throw InternalError("a fraction reached the scheduler");
  std::int64_t constant = affine.constant.get();
  for (std::size_t k = 0; k < affine.coefficients.size(); ++k) {
    const std::int64_t c = affine.coefficients[k].get();
    poly::add_product(sum.coefficients[k], factor, c);
    poly::add_product(constant, c, hull.begin[k]);
  }
  poly::add_product(sum.constant, factor, constant);
}

Form shifted(const Affine& affine, const Shifted& hull) {
  Form form{std::vector<std::int64_t>(affine.coefficients.size(), 0), 0};
  add(form, affine, hull, 1);
  return form;
}

FlatAccess flatten(const poly::Access& access, const std::vector<std::int64_t>& strides, const Shifted& hull) {
  FlatAccess flat{access.tensor, {std::vector<std::int64_t>(hull.begin.size(), 0), 0}};
  for (std::size_t d = 0; d < access.element.size(); ++d)
    add(flat.offset, access.element[d], hull, strides[d]);
  return flat;
}

template <class F> void each_form(Nest& nest, F f) {
  f(nest.target.offset);
  for (FlatAccess& read : nest.reads) f(read.offset);
  for (Row& row : nest.rows) f(row.form);
  for (auto& form : nest.forms) f(form.second);
}

void erase_dim(Nest& nest, std::size_t d) {
  nest.dims.erase(nest.dims.begin() + static_cast<std::ptrdiff_t>(d));
  each_form(
      nest, [&](Form& form) { form.coefficients.erase(form.coefficients.begin() + static_cast<std::ptrdiff_t>(d)); });
}

// Whether dim d stands in a row or an Index node: then it must stay itself.
bool pinned(const Nest& nest, std::size_t d) {
  if (in_rows(nest, d)) return true;
  for (const auto& form : nest.forms) if (form.second.coefficients[d]) return true;
  return false;
}

bool proportional(const Nest& nest, std::size_t outer, std::size_t inner) {
  const std::int64_t extent = nest.dims[inner].extent;
  std::int64_t together;
  if (__builtin_mul_overflow(extent, nest.dims[outer].extent, &together)) return false;
  const auto fits = [&](const Form& form) {
    std::int64_t stride;
    return !__builtin_mul_overflow(form.coefficients[inner], extent, &stride) && form.coefficients[outer] == stride;
  };
  return fits(nest.target.offset) &&
      std::all_of(nest.reads.begin(), nest.reads.end(), [&](const FlatAccess& read) { return fits(read.offset); });
}

// `a_b`, unless the text, or a sum in parts, has an index of that name.
std::string merged_name(const Nest& nest, std::size_t a, std::size_t b) {
  std::string name = nest.dims[a].name + "_" + nest.dims[b].name;
  while (nest.dim(name)) name += "_";
  return name;
}

void merge_dims(Nest& nest, const std::set<std::string>& keep) {
  const auto fixed = [&](std::size_t d) { return keep.count(nest.dims[d].name) || pinned(nest, d); };
  for (bool again = true; again;) {
    again = false;
    for (std::size_t a = 0; a < nest.dims.size() && !again; ++a)
      for (std::size_t b = 0; b < nest.dims.size() && !again; ++b) {
        if (a == b || nest.dims[a].reduction != nest.dims[b].reduction || fixed(a) || fixed(b) ||
            !proportional(nest, a, b))
          continue;
        nest.dims[b] = {merged_name(nest, a, b), nest.dims[a].extent * nest.dims[b].extent, nest.dims[a].reduction};
        erase_dim(nest, a);
        again = true;
      }
  }
}

}  // namespace

void leave_to_turn(Nest& nest, const std::string& part, const std::string& whole, std::int64_t step) {
  const auto d = nest.dim(part), i = nest.dim(whole);
  if (!d || !i) return;                                // of extent 1
  Form tie{std::vector<std::int64_t>(nest.dims.size(), 0), 0};
  tie.coefficients[*i] = 1, tie.coefficients[*d] = -step;
  std::erase_if(nest.rows, [&](const Row& row) { return row.form == tie && row.extent == step; });
  erase_dim(nest, *d);
}

bool Nest::empty() const { return std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return d.extent == 0; }); }

std::optional<std::size_t> Nest::dim(const std::string& name) const {
  if (name.empty()) return std::nullopt;
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (dims[d].name.front() == name.front() && dims[d].name == name) return d;  // most differ there
  return std::nullopt;
}

const Form& Nest::form(const Affine& affine) const {
  for (const auto& entry : forms) if (entry.first == affine) return entry.second;
  throw InternalError("an index expression is not among the nest's forms");
}

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  if (poly::product(shape) == 0) return strides;       // no element to lie anywhere
  poly::Exact stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride.get();
    stride *= shape[d];
  }
  return strides;
}

std::vector<std::int64_t> rows_apart(
    const std::vector<std::int64_t>& shape, std::int64_t element_bytes, bool at_lines) {
  std::vector<std::int64_t> strides(shape.size());
  if (poly::product(shape) == 0) return strides;
  const std::int64_t of_line = static_cast<std::int64_t>(model::line) / element_bytes;
  std::vector<poly::Exact> rows(shape.size());         // of this dimension and all outer ones: that lie steps of its
                                                       // stride apart
  for (std::size_t d = 0; d < shape.size(); ++d) rows[d] = d == 0 ? poly::Exact(shape[d]) : rows[d - 1] * shape[d];
  poly::Exact stride = 1;
  for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    if (at_lines && d + 2 == shape.size() &&
        static_cast<double>(shape.back()) * static_cast<double>(element_bytes) >= model::row_at_lines)
      stride = (stride + of_line - 1).get() / of_line * of_line;
    if (model::share_sets(rows[d].get(), (stride * element_bytes).get())) stride += of_line;
    strides[d] = stride.get();
  }
  return strides;
}

std::int64_t reach_of(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  if (poly::product(shape) == 0) return 0;
  poly::Exact count = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) count += poly::Exact(shape[d] - 1) * strides[d];
  return count.get();
}

std::vector<std::int64_t> extents(const poly::Tensor& tensor) {
  std::vector<std::int64_t> shape;
  for (const poly::Size& size : tensor.shape) shape.push_back(size.get());
  return shape;
}

namespace {

// `strides`: of a tensor.
template <class Of> Nest nest_from(const Statement& statement, Of strides, const std::set<std::string>& keep) {
  const Shifted hull = hulls(statement);
  Nest nest;
  const auto reduced = [&](std::size_t k) {
    return std::all_of(statement.target.element.begin(), statement.target.element.end(),
        [&](const Affine& e) { return e.coefficients[k].is(0); });
  };
  nest.dims.reserve(statement.indices.size());
  for (std::size_t k = 0; k < statement.indices.size(); ++k)
    nest.dims.push_back({statement.indices[k], hull.extent[k], reduced(k)});
  nest.reads.reserve(statement.reads.size());
  nest.target = flatten(statement.target, strides(statement.target.tensor), hull);
  for (const poly::Access& read : statement.reads) nest.reads.push_back(flatten(read, strides(read.tensor), hull));
  for (std::size_t r = statement.indices.size(); r < statement.domain.size(); ++r) {
    Row row{shifted(statement.domain[r].value, hull), std::nullopt};
    if (statement.domain[r].extent) row.extent = statement.domain[r].extent->get();
    nest.rows.push_back(row);
  }
  nest.aggregation = statement.aggregation;
  nest.value = poly::interned(statement.value);
  for (const poly::Expr& part : poly::parts(*nest.value))
    if (const auto* index = part.as<poly::Index>()) nest.forms.emplace_back(index->value, shifted(index->value, hull));
  if (const auto* number = std::get_if<poly::Number>(&statement.fill)) nest.fill = *number;
  else nest.fill = statement.held;
  for (std::size_t d = nest.dims.size(); d-- > 0;)
    if (nest.dims[d].extent == 1 && !keep.count(nest.dims[d].name)) erase_dim(nest, d);
  merge_dims(nest, keep);
  return nest;
}

}  // namespace

Nest nest_of(const Statement& statement, const Strides& strides, const std::set<std::string>& keep) {
  const auto of = [&](TensorId id) -> const std::vector<std::int64_t>& {
    return strides[static_cast<std::size_t>(id)];
  };
  return nest_from(statement, of, keep);
}

Nest nest_of(const Statement& statement, const StridesOf& strides, const std::set<std::string>& keep) {
  return nest_from<const StridesOf&>(statement, strides, keep);
}

Nest fill_nest(const Program& program, const Statement& statement, const Strides& strides) {
  Nest nest;
  const std::vector<std::int64_t> shape = extents(program.tensor(statement.target.tensor));
  const auto& target = strides[static_cast<std::size_t>(statement.target.tensor)];
  for (std::size_t d = 0; d < shape.size(); ++d) nest.dims.push_back({"i" + std::to_string(d), shape[d], false});
  nest.target = {statement.target.tensor, {target, 0}};
  const lang::DType type = program.tensor(statement.target.tensor).dtype;
  if (const auto* tensor = std::get_if<TensorId>(&statement.fill)) {
    nest.reads.push_back({*tensor, {strides[static_cast<std::size_t>(*tensor)], 0}});
    nest.value = poly::Expr(poly::Read{0, type});
  } else {
    nest.value = poly::Expr(std::get<poly::Number>(statement.fill));
  }
  for (std::size_t d = nest.dims.size(); d-- > 0;) if (nest.dims[d].extent == 1) erase_dim(nest, d);
  merge_dims(nest, {});
  return nest;
}

Nest reshape_nest(const Program& program, TensorId target, TensorId operand) {
  const std::int64_t count = poly::product(extents(program.tensor(target)));
  Nest nest;
  if (count != 1) nest.dims.push_back({"i", count, false});
  const Form form{std::vector<std::int64_t>(nest.dims.size(), 1), 0};
  nest.target = {target, form};
  nest.reads.push_back({operand, form});
  nest.value = poly::Expr(poly::Read{0, program.tensor(target).dtype});
  return nest;
}

std::optional<std::int64_t> output_points(const Nest& nest) {
  std::vector<poly::Row> rows;
  poly::Box box;
  for (const Dim& dim : nest.dims) box.index.push_back({0, dim.reduction ? 0 : dim.extent - 1});
  for (const Row& row : nest.rows) {
    bool reduces = false;
    for (std::size_t d = 0; d < nest.dims.size(); ++d)
      reduces = reduces || (row.form.coefficients[d] && nest.dims[d].reduction);
    if (!reduces) rows.push_back({row.form.coefficients, row.form.constant, 1, row.extent});
  }
  for (const Dim& dim : nest.dims) if (!dim.reduction && dim.extent == 0) return 0;
  return poly::count_points(rows, box, 1 << 15);
}

namespace {

// Which dims of the nest the dimensions of one access are, in order.
FlatAccess over_dims(TensorId id, const std::vector<std::string>& names, const Nest& nest, const Strides& strides) {
  FlatAccess access{id, {std::vector<std::int64_t>(nest.dims.size(), 0), 0}};
  for (std::size_t k = 0; k < names.size(); ++k)
    access.offset.coefficients[*nest.dim(names[k])] = strides[static_cast<std::size_t>(id)].at(k);
  return access;
}

void merge_neighbours(Nest& nest) {
  for (std::size_t d = nest.dims.size(); d-- > 0;) {
    if (nest.dims[d].name == "v") continue;
    const bool alike = d + 1 < nest.dims.size() && nest.dims[d + 1].name[0] == nest.dims[d].name[0];
    if (nest.dims[d].extent != 1 && !(alike && proportional(nest, d, d + 1))) continue;
    if (nest.dims[d].extent != 1)
      nest.dims[d + 1] = {nest.dims[d].name + nest.dims[d + 1].name, nest.dims[d].extent * nest.dims[d + 1].extent,
          nest.dims[d].reduction};
    erase_dim(nest, d);
  }
}

}  // namespace

Nest intrinsic_nest(const Program& program, const poly::Intrinsic& intrinsic, const Strides& strides) {
  const poly::Groups groups = poly::groups(program, intrinsic);
  Nest nest;
  std::vector<std::string> b, j, r;
  const auto add = [&](const std::vector<poly::Size>& sizes, const char* letter, bool reduction,
                       std::vector<std::string>& names) {
    for (const poly::Size& size : sizes) {
      names.push_back(letter + std::to_string(names.size()));
      nest.dims.push_back({names.back(), size.get(), reduction});
    }
  };
  const bool scatters = intrinsic.op == poly::IntrinsicOp::Scatter;
  add(groups.batch, "b", false, b);
  add(groups.index, "j", scatters, j);
  nest.dims.push_back({"v", groups.extent.get(), !scatters});
  add(groups.rest, "r", false, r);
  const auto access = [&](TensorId id, std::initializer_list<std::vector<std::string>> parts) {
    std::vector<std::string> names;
    for (const auto& part : parts) names.insert(names.end(), part.begin(), part.end());
    return over_dims(id, names, nest, strides);
  };
  const TensorId from = intrinsic.operands[0], to = intrinsic.targets[0];
  if (intrinsic.op == poly::IntrinsicOp::Sort) {
    nest.reads = {access(from, {b, {"v"}})};
    nest.target = access(to, {b, {"v"}});
  } else {
    nest.reads = {
        scatters ? access(from, {b, j, r}) : access(from, {b, {"v"}, r}), access(intrinsic.operands[1], {b, j})};
    nest.target = scatters ? access(to, {b, {"v"}, r}) : access(to, {b, j, r});
  }
  merge_neighbours(nest);
  return nest;
}

bool in_rows(const Nest& nest, std::size_t d) {
  return std::ranges::any_of(nest.rows, [&](const Row& row) { return row.form.coefficients[d] != 0; });
}

bool share_row(const Nest& nest, std::size_t a, std::size_t b) {
  return std::ranges::any_of(
      nest.rows, [&](const Row& row) { return row.form.coefficients[a] && row.form.coefficients[b]; });
}

bool staggered(const Nest& nest, std::size_t m, std::size_t n, const std::vector<bool>& open) {
  bool some = false;
  for (const Row& row : nest.rows) {
    if (!row.form.coefficients[m]) continue;
    for (std::size_t d = 0; d < nest.dims.size(); ++d)
      if (d != m && d != n && open[d] && row.form.coefficients[d]) return false;
    some = some || row.form.coefficients[n] != 0;
  }
  return some;
}

std::int64_t box_points(const Nest& nest) {
  std::int64_t points = 1;
  for (const Dim& dim : nest.dims) if (__builtin_mul_overflow(points, dim.extent, &points)) return INT64_MAX;
  return points;
}

double interior_part(
    const Nest& nest, std::span<const std::int64_t> extents, std::size_t d, const std::vector<bool>& inner) {
  const auto extent = static_cast<double>(extents[d]);
  double lo = 0, hi = extent;
  for (const Row& row : nest.rows) {
    const auto a = static_cast<double>(row.form.coefficients[d]);
    if (a == 0) continue;
    double least = static_cast<double>(row.form.constant), most = least;
    bool coupled = false;
    for (std::size_t k = 0; k < extents.size(); ++k) {
      const auto c = static_cast<double>(row.form.coefficients[k]);
      if (k == d || c == 0) continue;
      coupled = coupled || inner[k];
      (c > 0 ? most : least) += c * static_cast<double>(extents[k] - 1);
    }
    if (!coupled) continue;
    const auto size = static_cast<double>(row.extent.value_or(0));
    if (a > 0) {
      lo = std::max(lo, std::ceil(-least / a));
      if (row.extent) hi = std::min(hi, std::ceil((size - most) / a));
    } else {
      hi = std::min(hi, std::trunc(least / -a) + 1);
      if (row.extent) lo = std::max(lo, std::ceil((most - size + 1) / -a));
    }
  }
  return extent > 0 ? std::max(0.0, hi - lo) / extent : 1;
}

std::int64_t passes_of_taps(
    const Nest& nest, std::span<const std::int64_t> extents, const std::vector<std::size_t>& taps) {
  std::vector<bool> outputs;
  for (const Dim& dim : nest.dims) outputs.push_back(!dim.reduction);
  std::int64_t passes = 1;
  for (const std::size_t d : taps) {
    const auto together =
        d == taps.back() ? std::llround(interior_part(nest, extents, d, outputs) * static_cast<double>(extents[d])) : 0;
    passes *= together > 1 ? extents[d] - together + 1 : extents[d];
  }
  return passes;
}

bool goes_at_once(const Nest& nest, std::span<const std::int64_t> extents, std::size_t tap) {
  return 2 * passes_of_taps(nest, extents, {tap}) <= extents[tap];
}

}  // namespace tilec::codegen
