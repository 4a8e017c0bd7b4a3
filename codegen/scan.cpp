// Which statements are scans, and the statements they are cut into.
#include "codegen/scan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/product.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/scan_blocks.h"
#include "codegen/scalar.h"
#include "codegen/window.h"
#include "lang/diagnostic.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Expr;
using poly::Program;
using poly::Range;
using poly::Statement;

// ---- recognition

// What there is to know of a statement or nest: its box from 0, its rows, on which dimensions its value depends.
struct Shape {
  std::vector<Dim> dims;
  std::vector<Row> rows;
  std::vector<bool> in_value;
};

// 0 <= form, which some points of the box do not satisfy.
std::vector<Form> halves(const Shape& shape) {
  std::vector<Form> found;
  const auto add = [&](const Form& form) {
    std::int64_t least = form.constant;
    for (std::size_t d = 0; d < shape.dims.size(); ++d)
      least += std::min<std::int64_t>(0, form.coefficients[d] * (shape.dims[d].extent - 1));
    if (least < 0) found.push_back(form);
  };
  for (const Row& row : shape.rows) {
    add(row.form);
    if (!row.extent) continue;
    Form above = row.form;
    for (std::int64_t& c : above.coefficients) c = -c;
    above.constant = *row.extent - 1 - above.constant;
    add(above);
  }
  return found;
}

// The scan that `half` cuts, if it couples one output that the value does not mention with one reduction.
std::optional<Scan> cut_by(const Shape& shape, const Form& half) {
  std::optional<std::size_t> along, over;
  for (std::size_t d = 0; d < shape.dims.size(); ++d) {
    if (!half.coefficients[d]) continue;
    std::optional<std::size_t>& role = shape.dims[d].reduction ? over : along;
    if (role) return std::nullopt;
    role = d;
  }
  if (!along || !over) return std::nullopt;
  const std::int64_t j = half.coefficients[*along], k = half.coefficients[*over];
  Scan scan{*along, *over, j < 0, k > 0, std::abs(j), std::abs(k), half.constant};
  if (scan.along_down) scan.c += j * (shape.dims[*along].extent - 1);
  if (scan.over_down) scan.c += k * (shape.dims[*over].extent - 1);
  return scan;
}

// Whether the value depends on the scanned output index by a decay.
using Decays = std::function<bool(const Scan&)>;

std::optional<Scan> find(const Shape& shape, const Decays& decays) {
  for (const Dim& dim : shape.dims) if (dim.extent == 0) return std::nullopt;
  const std::vector<Form> all = halves(shape);
  for (const Form& half : all) {
    std::optional<Scan> scan = cut_by(shape, half);
    if (!scan) continue;
    const auto reductions = [&](const Form& form, bool and_over) {
      for (std::size_t d = 0; d < shape.dims.size(); ++d)
        if (shape.dims[d].reduction && form.coefficients[d] && (and_over || d != scan->over)) return true;
      return false;
    };
    const bool plain = std::none_of(all.begin(), all.end(), [&](const Form& other) {
      return &other != &half &&
          (reductions(other, false) || (other.coefficients[scan->along] && reductions(other, true)));
    });
    if (!plain) continue;
    for (std::size_t d = 0; d < shape.dims.size(); ++d)
      scan->further = scan->further || (shape.dims[d].reduction && d != scan->over);
    if (shape.in_value[scan->along]) {
      if (scan->further || !scan->steady() || !decays(*scan)) continue;
      scan->decays = true;
    }
    return scan;
  }
  return std::nullopt;
}

// What a value depends on, over the dimensions of `shape`.
using Mark = std::function<void(const Expr&, std::vector<bool>&)>;
using FormOf = std::function<Form(const Affine&)>;

// Y[j] = *(j == k ? own : factor) over the whole of both dimensions.
std::optional<Scan> all_but_one(const Shape& shape, const Expr& value, const Mark& mark_value, const FormOf& form_of) {
  const auto* select = value.as<poly::Apply>();
  const auto* equal = select && select->op == Op::Select ? select->operands[0].as<poly::Apply>() : nullptr;
  const auto* left = equal && equal->op == Op::Eq ? equal->operands[0].as<poly::Index>() : nullptr;
  const auto* right = left ? equal->operands[1].as<poly::Index>() : nullptr;
  if (!right) return std::nullopt;
  Form difference = form_of(left->value);
  const Form other = form_of(right->value);
  difference.constant -= other.constant;
  for (std::size_t d = 0; d < shape.dims.size(); ++d) difference.coefficients[d] -= other.coefficients[d];

  std::optional<std::size_t> along, over;
  for (std::size_t d = 0; d < shape.dims.size(); ++d) {
    if (shape.dims[d].reduction && over) return std::nullopt;
    if (shape.dims[d].reduction) over = d;
    else if (difference.coefficients[d] && along) return std::nullopt;
    else if (difference.coefficients[d]) along = d;
  }
  if (!along || !over || difference.constant || std::abs(difference.coefficients[*along]) != 1 ||
      difference.coefficients[*along] != -difference.coefficients[*over])
    return std::nullopt;
  if (shape.dims[*along].extent != shape.dims[*over].extent || shape.dims[*over].extent < 2) return std::nullopt;
  if (std::any_of(shape.rows.begin(), shape.rows.end(),
          [&](const Row& row) { return row.form.coefficients[*along] || row.form.coefficients[*over]; }))
    return std::nullopt;
  std::vector<bool> own(shape.dims.size(), false), factor = own;
  mark_value(select->operands[1], own);
  mark_value(select->operands[2], factor);
  if (own[*over] || factor[*along]) return std::nullopt;
  Scan scan{*along, *over, false, false, 1, 1, 0};
  scan.all_but_one = true;
  return scan;
}

// ---- decays

// The element that a value reads, however it is cast, as a form in each dimension.
struct Place { TensorId tensor = -1; std::vector<Form> element; };
using PlaceOf = std::function<Place(int read)>;

// Whether `there` is what `here` was at an earlier element, or is at this one: the same tensor, each index in the
// other's place. Then what rises along it and is equal at two elements is equal in between.
bool is_earlier(const Shape& shape, const Scan& scan, const Run& run, const PlaceOf& place_of) {
  const auto* here = poly::below_casts(run.here).as<poly::Read>();
  const auto* there = poly::below_casts(run.there).as<poly::Read>();
  if (!here || !there || here->type != there->type || run.here.type() != run.there.type() ||
      scan.along_down != scan.over_down)
    return false;
  const Place p = place_of(here->read), q = place_of(there->read);
  if (p.tensor != q.tensor) return false;
  // the last value of element j is j + last
  const std::int64_t last =
      scan.over_down ? shape.dims[scan.over].extent - shape.dims[scan.along].extent - scan.c : scan.c;
  bool moves = false;
  for (std::size_t e = 0; e < p.element.size(); ++e) {
    Form moved = q.element[e];
    const std::int64_t step = moved.coefficients[scan.over];
    if (moved.coefficients[scan.along]) return false;
    std::swap(moved.coefficients[scan.along], moved.coefficients[scan.over]);
    if (moved.coefficients != p.element[e].coefficients) return false;
    const std::int64_t ahead = moved.constant + step * last - p.element[e].constant;
    const std::int64_t wrong = (step > 0) == scan.over_down ? -ahead : ahead;
    if (step == 0 ? ahead != 0 : ahead % step != 0 || wrong > 0) return false;
    moves = moves || step;
  }
  return moves;
}

// Each length as a line in the number of steps from a term to an element. Nothing where one is no such line, or where
// the first element has several terms.
std::optional<std::vector<Line>> lines_of(
    const std::vector<Length>& lengths, const Scan& scan, const std::vector<Dim>& dims, const FormOf& form_of) {
  std::vector<Line> lines;
  for (const Length& length : lengths) {
    const auto line = line_of(form_of(length.index.as<poly::Index>()->value), scan, dims);
    if (!line || scan.c > 0) return std::nullopt;
    lines.push_back({length.times * line->start + length.plus, length.times * line->slope});
  }
  return lines;
}

bool decays(const Shape& shape, const Scan& scan, Aggregation how, const poly::Expr& value, const ReachOf& reach,
    const PlaceOf& place_of, const FormOf& form_of) {
  const auto decay = decay_of(how, value, reach);
  if (!decay) return false;
  const bool weighed = decay->here || decay->there || !decay->powers.empty() || !decay->rates.empty() ||
      !decay->gates.empty();
  if (!weighed && decay->lengths.empty() && !decay->rise && decay->runs.empty()) return false;
  if (decay->rise && !is_earlier(shape, scan, {decay->rise->here, decay->rise->there}, place_of)) return false;
  const auto line = [&](const Length& length) { return lines_of({length}, scan, shape.dims, form_of); };
  if (!std::all_of(decay->powers.begin(), decay->powers.end(),
          [&](const Power& power) { return line(power.exponent).has_value(); }))
    return false;
  if (!std::all_of(
          decay->rates.begin(), decay->rates.end(), [&](const Rate& rate) { return line(rate.length).has_value(); }))
    return false;
  if (!std::all_of(decay->gates.begin(), decay->gates.end(), [&](const Gate& gate) {
        const auto of = line(gate.length);             // the last value of an element has one factor or none
        return of && of->front().slope == 1 && (of->front().start == 0 || of->front().start == 1);
      }))
    return false;
  const auto lengths = lines_of(decay->lengths, scan, shape.dims, form_of);
  if (!lengths || !binomials(*lengths)) return false;
  return std::all_of(
      decay->runs.begin(), decay->runs.end(), [&](const Run& run) { return is_earlier(shape, scan, run, place_of); });
}

Form from_zero(const Affine& affine, const Statement& s) {
  Form form{{}, affine.constant.get()};
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    form.coefficients.push_back(affine.coefficients[k].get());
    form.constant -= form.coefficients[k] * s.domain[k].value.constant.get();
  }
  return form;
}

void mark_dims(const Nest& nest, const poly::Expr& e, std::vector<bool>& used) {
  const auto form = [&](const Form& f) {
    for (std::size_t d = 0; d < used.size(); ++d)
      if (f.coefficients[d]) used[d] = true;
  };
  for (const poly::Expr& part : poly::parts(e)) {
    if (const auto* read = part.as<poly::Read>()) form(nest.reads[static_cast<std::size_t>(read->read)].offset);
    if (const auto* index = part.as<poly::Index>()) form(nest.form(index->value));
  }
}

Shape shape_of(const Statement& s) {
  Shape shape{{}, {}, std::vector<bool>(s.indices.size(), false)};
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    shape.dims.push_back({s.indices[k], std::max<std::int64_t>(0, s.domain[k].extent->get()), !is_output_index(s, k)});
  for (std::size_t r = s.indices.size(); r < s.domain.size(); ++r) {
    Row row{from_zero(s.domain[r].value, s), std::nullopt};
    if (s.domain[r].extent) row.extent = s.domain[r].extent->get();
    shape.rows.push_back(std::move(row));
  }
  return shape;
}

// How many of its last values a scan of a decay is without, if it is one then.
std::int64_t last_values(const Shape& shape, const Scan& scan, const Decay& decay, const FormOf& form_of) {
  std::int64_t count = 0;
  const auto begins = [&](const Length& length, bool at_zero) {
    const auto line = line_of(form_of(length.index.as<poly::Index>()->value), scan, shape.dims);
    if (!line) return;
    const double zero = -(length.times * line->start + length.plus) / (length.times * line->slope);
    count = std::max(count, scan.c);
    if (at_zero && zero < 0x1p30) count = std::max(count, static_cast<std::int64_t>(std::ceil(zero)));
  };
  for (const Power& power : decay.powers) begins(power.exponent, false);
  for (const Rate& rate : decay.rates) begins(rate.length, false);
  for (const Length& length : decay.lengths) begins(length, true);
  return count;
}

}  // namespace

std::optional<LastValues> values_apart(const Statement& s) {
  if (s.aggregation != Aggregation::Sum || s.domain.size() == s.indices.size()) return std::nullopt;
  const Shape shape = shape_of(s);
  for (std::size_t row = s.indices.size(); row < s.domain.size(); ++row) {
    if (s.domain[row].extent || !s.domain[row].value.divisor.is(1)) continue;
    const Form half = from_zero(s.domain[row].value, s);
    const auto scan = cut_by(shape, half);
    if (!scan || !scan->steady()) continue;
    const auto decay = decay_of(s.aggregation, s.value, [&](const poly::Expr& e) {
      std::vector<bool> used(s.indices.size(), false);
      mark(e, s.reads, used);
      return Reach{used[scan->along], used[scan->over]};
    });
    const std::int64_t count =
        decay ? last_values(shape, *scan, *decay, [&](const Affine& e) { return from_zero(e, s); }) : 0;
    if (count > 0) return LastValues{row, count};
  }
  return std::nullopt;
}

std::vector<Form> halves_of(const Statement& s) { return halves(shape_of(s)); }

std::optional<Scan> scan_of(const Statement& s) {
  const bool scaled = has_scale(s.aggregation, compute_type(s.value.type()));
  if (s.aggregation == Aggregation::Assign || (!scaled && s.domain.size() == s.indices.size())) return std::nullopt;
  Shape shape = shape_of(s);
  if (scaled)
    if (const auto scan = all_but_one(
            shape, s.value, [&](const poly::Expr& e, std::vector<bool>& used) { mark(e, s.reads, used); },
            [&](const Affine& e) { return from_zero(e, s); }))
      return scan;
  mark(s.value, s.reads, shape.in_value);
  std::optional<Scan> scan = find(shape, [&](const Scan& found) {
    const ReachOf reach = [&](const poly::Expr& e) {
      std::vector<bool> used(s.indices.size(), false);
      mark(e, s.reads, used);
      return Reach{used[found.along], used[found.over]};
    };
    return s.aggregation != Aggregation::Product && decays(shape, found, s.aggregation, s.value, reach, [&](int read) {
      const Access& access = s.reads[static_cast<std::size_t>(read)];
      Place place{access.tensor, {}};
      for (const Affine& e : access.element) place.element.push_back(from_zero(e, s));
      return place;
    }, [&](const Affine& e) { return from_zero(e, s); });
  });
  return scan && scan->further && scaled ? std::nullopt : scan;  // its terms would be products of their own
}

namespace {

ReachOf reach_in(const Nest& nest, const Scan& scan) {
  return [&nest, along = scan.along, over = scan.over](const poly::Expr& e) {
    std::vector<bool> used(nest.dims.size(), false);
    mark_dims(nest, e, used);
    return Reach{used[along], used[over]};
  };
}

}  // namespace

std::optional<Line> line_of(const Form& form, const Scan& scan, const std::vector<Dim>& dims) {
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (form.coefficients[d] && d != scan.along && d != scan.over) return std::nullopt;
  const std::int64_t j = form.coefficients[scan.along], k = form.coefficients[scan.over];
  const std::int64_t up = scan.along_down ? -j : j;    // counted so that elements go on from one another
  if (up != (scan.over_down ? k : -k)) return std::nullopt;
  const std::int64_t first = form.constant + (scan.along_down ? j * (dims[scan.along].extent - 1) : 0) +
      (scan.over_down ? k * (dims[scan.over].extent - 1) : 0);
  return Line{static_cast<double>(first - up * scan.c), static_cast<double>(up)};
}

Decay decay_of(const Nest& nest, const Scan& scan) {
  return decay_of(nest.aggregation, *nest.value, reach_in(nest, scan)).value();
}

std::optional<Scan> scan_of(const Nest& nest) {
  if (nest.aggregation == Aggregation::Assign || !nest.value) return std::nullopt;
  Shape shape{nest.dims, nest.rows, std::vector<bool>(nest.dims.size(), false)};
  for (std::size_t d = 0; d < nest.dims.size(); ++d) {
    for (const FlatAccess& read : nest.reads) shape.in_value[d] = shape.in_value[d] || read.offset.coefficients[d];
    for (const auto& form : nest.forms) shape.in_value[d] = shape.in_value[d] || form.second.coefficients[d];
  }
  if (has_scale(nest.aggregation, compute_type(nest.value->type())))
    if (const auto scan = all_but_one(
            shape, *nest.value, [&](const poly::Expr& e, std::vector<bool>& used) { mark_dims(nest, e, used); },
            [&](const Affine& e) { return nest.form(e); }))
      return scan;
  if (nest.rows.empty()) return std::nullopt;
  std::optional<Scan> scan = find(shape, [&](const Scan& found) {
    return nest.aggregation != Aggregation::Product &&
        decays(
            shape, found, nest.aggregation, *nest.value, reach_in(nest, found),
            [&](int read) {
              const FlatAccess& access = nest.reads[static_cast<std::size_t>(read)];
              return Place{access.tensor, {access.offset}};
            },
            [&](const Affine& e) { return nest.form(e); });
  });
  return scan && !scan->further ? scan : std::nullopt;  // split_scans has seen to those
}

namespace {

// ---- rewrites

// The other output indices on which partial results depend: those of the value, and of rows that bound a reduction.
std::vector<std::size_t> outputs_of_parts(const Statement& s, const Scan& scan) {
  std::vector<bool> used(s.indices.size(), false);
  mark(s.value, s.reads, used);
  for (std::size_t r = s.indices.size(); r < s.domain.size(); ++r) {
    const Affine& row = s.domain[r].value;
    bool reduces = false;
    for (std::size_t k = 0; k < used.size(); ++k) reduces = reduces || (mentions(row, k) && !is_output_index(s, k));
    for (std::size_t k = 0; k < used.size(); ++k) used[k] = used[k] || (reduces && mentions(row, k));
  }
  std::vector<std::size_t> found;
  for (std::size_t k = 0; k < used.size(); ++k)
    if (used[k] && k != scan.along && is_output_index(s, k)) found.push_back(k);
  return found;
}

// T[r, k] = ⊕ over the further reductions; the scan reads T.
void fold_further(Program& program, Strides& strides, std::size_t n, const Scan& scan) {
  const Statement whole = std::get<Statement>(program.nodes[n]);
  std::vector<std::size_t> kept = outputs_of_parts(whole, scan);
  kept.push_back(scan.over);
  const std::size_t rank = kept.size();
  std::vector<std::size_t> left;
  for (std::size_t k = 0; k < whole.indices.size(); ++k) {
    if (k == scan.over || is_output_index(whole, k)) left.push_back(k);
    else kept.push_back(k);
  }
  const Frame inner = frame(whole, kept, {});
  const auto within = [&](const std::vector<std::size_t>& seen) {
    return [&](const Affine& row) {
      for (std::size_t k = 0; k < whole.indices.size(); ++k)
        if (mentions(row, k) && std::find(seen.begin(), seen.end(), k) == seen.end()) return false;
      return true;
    };
  };
  Statement part = seen_in(whole, inner, within(kept));
  const TensorId id = new_tensor(program, strides, whole, "_terms", inner, rank);
  write_part(part, id, rank);
  drop_unused(part);
  const Frame outer = frame(whole, left, {});
  Statement rest = whole;
  rest.value = poly::Read{0, whole.value.type()};
  rest.reads = {{id, {}}};
  for (std::size_t d = 0; d < rank; ++d) {
    Affine e = Affine::index(kept[d], whole.indices.size());
    e.constant = poly::Size(-low(whole, kept[d]));
    rest.reads[0].element.push_back(e);
  }
  program.nodes[n] = seen_in(rest, outer, within(left));
  insert(program, n, {std::move(part)});
}

void fold_terms(Rewriting& r, std::size_t n, const Window& window) {
  fold_further(r.program, r.strides, n, Scan{window.along, window.over, false, false, 1, 1, 0});
}

// ---- two passes

// Whether every block but the first starts with a value of its own, which brings what is before it. Values that another
// row leaves out may be these.
bool starts_blocks(const Statement& s, const Scan& scan, std::int64_t block) {
  for (std::size_t r = s.indices.size(); r < s.domain.size(); ++r)
    if (mentions(s.domain[r].value, scan.over) && !mentions(s.domain[r].value, scan.along)) return false;
  const std::int64_t blocks = (extent(s, scan.along) + block - 1) / block;
  return scan.c >= -block && scan.c + block * (blocks - 1) < extent(s, scan.over);
}

// How long the blocks are; 0: the rows are enough to share out, or too short to cut.
std::int64_t block_of(const Strides& strides, const Statement& s, const Scan& scan, const Target& target) {
  const std::int64_t length = extent(s, scan.along);
  double rows = 1;
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    if (k != scan.along && is_output_index(s, k)) rows *= static_cast<double>(extent(s, k));
  std::int64_t stride = 0;
  for (std::size_t d = 0; d < s.target.element.size(); ++d)
    stride +=
        s.target.element[d].coefficients[scan.along].get() * strides[static_cast<std::size_t>(s.target.tensor)][d];
  const bool threads = has_threads(target);
  // rows side by side are one unit
  const double shared = threads ? model::threads::scan_units
                                : model::scan_vectors * target.vector_bytes / std::max(4, lang::bytes(s.value.type()));
  const double units = std::max(1.0, std::abs(stride) == 1 ? rows : rows / shared),
               wanted = threads ? model::threads::scan_wanted * target.multiprocessors : model::scans_wanted;
  const double cached = static_cast<double>(target.l1) / 2 / std::max(4, lang::bytes(s.value.type()));
  if (!scan.steady() || scan.decays || has_scale(s.aggregation, compute_type(s.value.type())) || units >= wanted / 4 ||
      rows < 1 || rows * static_cast<double>(length) < model::scan_worth_blocks * cached)
    return 0;
  const double least =
      threads ? model::threads::scan_block : std::max(static_cast<double>(model::scan_block), cached / rows);
  const auto block =
      static_cast<std::int64_t>(std::max(least, std::ceil(static_cast<double>(length) / std::ceil(wanted / units))));
  std::int64_t rounded = (block + model::scan_block - 1) / model::scan_block * model::scan_block;
  // Of whole blocks no element is asked whether it is there, so that neighbours are one access.
  if (threads)
    for (std::int64_t other = rounded; 2 * other > rounded; other -= model::scan_block)
      if (length % other == 0) {
        rounded = other;
        break;
      }
  const std::int64_t blocks = (length + rounded - 1) / rounded;
  return blocks < model::least_blocks || !starts_blocks(s, scan, rounded) ? 0 : rounded;
}

}  // namespace

poly::Expr combined(Aggregation how, const poly::Expr& a, const poly::Expr& b) {
  const lang::DType type = a.type();
  const bool truth = type == lang::DType::Bool;
  const lang::Op op = how == Aggregation::Sum ? (truth ? lang::Op::Or : lang::Op::Add)
      : how == Aggregation::Product           ? (truth ? lang::Op::And : lang::Op::Mul)
      : how == Aggregation::Max               ? lang::Op::Max
                                              : lang::Op::Min;
  return poly::Apply{op, {a, b}, type};
}

namespace {

// The window at n as two scans in front of it; its terms first, if they are sums, and then n is where that sum was.
bool windows(Rewriting& r, std::size_t& n) {
  const auto& s = std::get<Statement>(r.program.nodes[n]);
  auto window = window_of(s);
  if (!window || !pays(r, s, *window)) return false;
  if (window->further) {
    r.done.push_back(directives::Terms{target_name(r.program, s)});
    fold_terms(r, n++, *window);
    window = window_of(std::get<Statement>(r.program.nodes[n]));
    if (!window) throw lang::InternalError("a window of terms is none");
  }
  r.done.push_back(directives::Windows{target_name(r.program, std::get<Statement>(r.program.nodes[n]))});
  cut_window(r, n, *window);
  return true;
}

}  // namespace

void split_scans(Rewriting& r) {
  Program& program = r.program;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&program.nodes[n]);
    if (s && in_pass(r, s->target.tensor)) continue;
    std::optional<Scan> scan = s ? scan_of(*s) : std::nullopt;
    if (s && !scan && windows(r, n)) --n;              // the scans that it made are next
    if (!scan) continue;
    if (scan->further) {
      r.done.push_back(directives::Terms{target_name(program, *s)});
      fold_further(program, r.strides, n++, *scan);
      s = &std::get<Statement>(program.nodes[n]);
      scan = scan_of(*s);
      if (!scan) throw lang::InternalError("a scan of terms is none");
    }
    const std::int64_t block = block_of(r.strides, *s, *scan, r.target);
    if (!block) continue;
    r.done.push_back(directives::Blocks{target_name(program, *s), block});
    scan_in_blocks(program, r.strides, n, *scan, block, outputs_of_parts(*s, *scan));
    n += 2;
  }
}

Refusal apply(Rewriting& r, const directives::Terms& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const auto scan = scan_of(std::get<Statement>(r.program.nodes[*n]));
  if (const auto window = window_of(std::get<Statement>(r.program.nodes[*n])); window && window->further) {
    fold_terms(r, *n, *window);
    r.done.push_back(directive);
    return std::nullopt;
  }
  if (!scan || !scan->further) return fmt::format("`{}` is no scan whose terms are sums", directive.tensor);
  fold_further(r.program, r.strides, *n, *scan);
  r.done.push_back(directive);
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Blocks& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const auto& s = std::get<Statement>(r.program.nodes[*n]);
  const auto scan = scan_of(s);
  if (!scan || scan->further) return fmt::format("`{}` is no scan, or its terms are sums", directive.tensor);
  if (!scan->steady() || scan->all_but_one || has_scale(s.aggregation, compute_type(s.value.type())))
    return fmt::format("`{}` does not take one more value for each element", directive.tensor);
  if (scan->decays)
    return fmt::format("`{}` decays: what is before a block changes from one element to the next", directive.tensor);
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    if (extent(s, k) < 1) return fmt::format("`{}` has no value", directive.tensor);
  if (directive.size < 1 || directive.size >= extent(s, scan->along))
    return fmt::format("blocks of {} are not shorter than the {} elements of `{}`, or are empty", directive.size,
        extent(s, scan->along), directive.tensor);
  if (!starts_blocks(s, *scan, directive.size)) return "a block would start without a value of its own";
  scan_in_blocks(r.program, r.strides, *n, *scan, directive.size, outputs_of_parts(s, *scan));
  r.done.push_back(directive);
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Windows& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const auto window = window_of(std::get<Statement>(r.program.nodes[*n]));
  if (!window || window->further) return fmt::format("`{}` has no windows, or its terms are sums", directive.tensor);
  cut_window(r, *n, *window);
  r.done.push_back(directive);
  return std::nullopt;
}

}  // namespace tilec::codegen
