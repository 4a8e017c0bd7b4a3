// Substitutions, each with what it needs to be exact.
#include "codegen/restate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "codegen/decay.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/scan.h"
#include "poly/hull.h"

namespace tilec::codegen {

namespace {

using lang::DType;
using lang::Op;
using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Row;
using poly::Statement;

constexpr std::int64_t far = std::int64_t{1} << 30;

bool is_near(const Row& row) {
  const auto near = [](std::int64_t c) { return c > -far && c < far; };
  return row.divisor == 1 && near(row.constant) && near(row.extent.value_or(0)) &&
      std::all_of(row.coefficients.begin(), row.coefficients.end(), near);
}

// With a range per index first, as everywhere in codegen; nothing where there is none.
std::optional<Statement> bounded(Statement s) {
  const std::vector<Row> rows = poly::rows_of(s);
  if (!std::all_of(rows.begin(), rows.end(), is_near)) return std::nullopt;
  const poly::Box box = poly::hull(rows, s.indices.size());
  const auto both = [](const poly::Interval& i) { return i.lower && i.upper; };
  if (box.empty || !std::all_of(box.index.begin(), box.index.end(), both)) return std::nullopt;
  s.domain = poly::bounded_domain(s.domain, box);
  return s;
}

// The only form in which the value mentions index k: ±k + others.
std::optional<Affine> only_form(const Statement& s, std::size_t k) {
  std::optional<Affine> found;
  bool one = true;
  const auto see = [&](const Affine& e) {
    if (!mentions(e, k)) return;
    one = one && (!found || *found == e);
    found = e;
  };
  const std::function<void(const poly::Expr&)> visit = [&](const poly::Expr& e) {
    e.match(
        [&](const poly::Read& r) {
          for (const Affine& x : s.reads[static_cast<std::size_t>(r.read)].element) see(x);
        },
        [&](const poly::Index& i) { see(i.value); }, [&](const poly::Cast& c) { visit(c.operand); },
        [&](const poly::Apply& a) {
          for (const poly::Expr& o : a.operands) visit(o);
        },
        [](const poly::Number&) {});
  };
  visit(s.value);
  if (!found || !one || found->single_index()) return std::nullopt;
  const std::int64_t c = found->coefficients[k].get();
  return c == 1 || c == -1 ? found : std::nullopt;
}

}  // namespace

bool follow(const std::vector<poly::Range>& wanted, const Statement& s) {
  const std::vector<poly::Row> rows = poly::rows_of(s);
  poly::Box box{false, std::vector<poly::Interval>(s.indices.size())};
  poly::tighten(rows, box);
  return std::all_of(wanted.begin(), wanted.end(),
      [&](const poly::Range& row) { return poly::follows(poly::row_of(row), rows, box); });
}

namespace {

// ---- conditions

poly::Range at_least_zero(Affine form) { return {std::move(form), std::nullopt}; }

// An integer that is affine in the indices, in a type that it does not leave.
std::optional<Affine> affine(const poly::Expr& e, std::size_t count) {
  if (e.type() != DType::I32 && e.type() != DType::I64) return std::nullopt;
  if (const auto* index = e.as<poly::Index>())
    return index->value.divisor.is(1) ? std::optional(index->value) : std::nullopt;
  if (const auto* number = e.as<poly::Number>()) return Affine::of(poly::Size(number->integer), count);
  return std::nullopt;
}

// The same of a float that is such an integer and whole numbers more, which it holds exactly where it is near 0.
std::optional<Affine> whole(const poly::Expr& e, std::size_t count) {
  constexpr int small = 1024;
  if (!lang::is_float(e.type())) return affine(e, count);
  if (e.type() != DType::F32 && e.type() != DType::F64) return std::nullopt;
  if (const auto* number = e.as<poly::Number>()) {
    if (std::abs(number->real) > small || number->real != std::trunc(number->real)) return std::nullopt;
    return Affine::of(poly::Size(static_cast<std::int64_t>(number->real)), count);
  }
  if (const auto* cast = e.as<poly::Cast>()) return whole(cast->operand, count);
  const auto* apply = e.as<poly::Apply>();
  if (!apply || (apply->op != Op::Add && apply->op != Op::Sub) || !apply->operands[1].as<poly::Number>())
    return std::nullopt;
  const auto left = whole(apply->operands[0], count), right = whole(apply->operands[1], count);
  if (!left || !right) return std::nullopt;
  return left->plus(right->times(poly::Size(apply->op == Op::Add ? 1 : -1)));
}

// form != 0, where the statement and the rows say that it is on one side of 0.
bool add_side(const Affine& form, const Statement& s, std::vector<poly::Range>& rows) {
  Statement known = s;
  known.domain.insert(known.domain.end(), rows.begin(), rows.end());
  for (const std::int64_t sign : {1, -1}) {
    Affine side = form.times(poly::Size(sign));
    if (!follow({at_least_zero(side)}, known)) continue;
    side.constant = poly::Size(side.constant.get() - 1);
    rows.push_back(at_least_zero(std::move(side)));
    return true;
  }
  return false;
}

// The rows that hold iff the condition does, or iff it does not; false where it is no conjunction of rows.
bool add_rows(const poly::Expr& condition, bool wanted, const Statement& s, std::vector<poly::Range>& rows) {
  const std::size_t count = s.indices.size();
  const auto* apply = condition.as<poly::Apply>();
  if (!apply) return false;
  const auto& operands = apply->operands;
  if (apply->op == Op::Not) return add_rows(operands[0], !wanted, s, rows);
  if (apply->op == (wanted ? Op::And : Op::Or) && apply->type == DType::Bool)
    return add_rows(operands[0], wanted, s, rows) && add_rows(operands[1], wanted, s, rows);
  if (apply->op == (wanted ? Op::Ne : Op::Eq)) {
    const auto left = whole(operands[0], count), right = whole(operands[1], count);
    return left && right && add_side(left->plus(right->times(poly::Size(-1))), s, rows);
  }
  const bool compares = apply->op == Op::Lt || apply->op == Op::Le || apply->op == Op::Gt || apply->op == Op::Ge;
  const auto left = compares ? affine(operands[0], count) : std::nullopt,
             right = compares ? affine(operands[1], count) : std::nullopt;
  if (!left || !right) return false;
  const bool less = (apply->op == Op::Lt || apply->op == Op::Le) == wanted,
             strict = (apply->op == Op::Lt || apply->op == Op::Gt) == wanted;
  Affine form = less ? right->plus(left->times(poly::Size(-1))) : left->plus(right->times(poly::Size(-1)));
  if (strict) form.constant = poly::Size(form.constant.get() - 1);
  rows.push_back(at_least_zero(std::move(form)));
  return true;
}

// Takes conditions off the value, as long as what they choose instead is `ignored`.
poly::Expr without_conditions(
    const poly::Expr& value, const poly::Number& ignored, const Statement& s, std::vector<poly::Range>& rows) {
  const auto* select = value.as<poly::Apply>();
  if (!select || select->op != Op::Select) return value;
  for (const bool wanted : {true, false}) {
    const auto* other = select->operands[wanted ? 2 : 1].as<poly::Number>();
    const std::size_t before = rows.size();
    if (other && *other == ignored && add_rows(select->operands[0], wanted, s, rows))
      return without_conditions(select->operands[wanted ? 1 : 2], ignored, s, rows);
    rows.resize(before);
  }
  return value;
}

// Rows that another one says and more: 0 <= t - s where 0 <= t - s - 1.
void drop_weaker_rows(Statement& s) {
  for (std::size_t n = s.domain.size(); n-- > s.indices.size();) {
    const poly::Range row = s.domain[n];
    const auto says_it = [&](std::size_t m) {
      const Affine& other = s.domain[m].value;
      const std::int64_t gap = row.value.constant.get() - other.constant.get();
      return m != n && !row.extent && other.coefficients == row.value.coefficients &&
          other.divisor == row.value.divisor && (gap > 0 || (gap == 0 && m < n));
    };
    for (std::size_t m = s.indices.size(); m < s.domain.size(); ++m) {
      if (!says_it(m)) continue;
      s.domain.erase(s.domain.begin() + static_cast<std::ptrdiff_t>(n));
      break;
    }
  }
}

// ---- one sum in another

bool is_zero(const std::variant<poly::Number, TensorId>& fill) {
  const auto* number = std::get_if<poly::Number>(&fill);
  return number && number->integer == 0 && number->real == 0;
}

// Is the read a factor of the value, once, so that a sum may stand in its place?
bool is_factor(const poly::Expr& e, int read) {
  if (const auto* r = e.as<poly::Read>()) return r->read == read;
  const auto* apply = e.as<poly::Apply>();
  if (!apply || !lang::is_float(apply->type)) return false;
  const auto uses = [&](const poly::Expr& o) {
    const std::function<bool(const poly::Expr&)> has = [&](const poly::Expr& x) {
      if (const auto* r = x.as<poly::Read>()) return r->read == read;
      if (const auto* cast = x.as<poly::Cast>()) return has(cast->operand);
      const auto* inner = x.as<poly::Apply>();
      return inner && std::any_of(inner->operands.begin(), inner->operands.end(), has);
    };
    return has(o);
  };
  const auto only = [&](std::size_t at) {
    for (std::size_t k = 0; k < apply->operands.size(); ++k) if (k != at && uses(apply->operands[k])) return false;
    return is_factor(apply->operands[at], read);
  };
  switch (apply->op) {
    case Op::Mul: return only(0) || only(1);
    case Op::Neg:
    case Op::Div: return only(0);
    default: return false;
  }
}

}  // namespace

std::optional<Statement> straightened(const Statement& s) {
  Statement result = s;
  bool changed = false;
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    if (is_output_index(s, k)) continue;
    const auto form = only_form(result, k);
    if (!form || std::count_if(form->coefficients.begin(), form->coefficients.end(), [](const poly::Size& c) {
          return !c.is(0);
        }) < 2)
      continue;
    // form = c·k + rest   ⇒   k = c·(form - rest), the form being the new index
    const std::size_t count = s.indices.size();
    std::vector<Affine> map;
    for (std::size_t i = 0; i < count; ++i) map.push_back(Affine::index(i, count));
    const poly::Size c = form->coefficients[k];
    Affine rest = *form;
    rest.coefficients[k] = poly::Size(0);
    map[k] = Affine::index(k, count).plus(rest.times(poly::Size(-1))).times(c);
    const auto seen = [&](Affine& e) { e = e.compose(map, count); };
    for (Access& read : result.reads) std::for_each(read.element.begin(), read.element.end(), seen);
    for (poly::Range& row : result.domain) seen(row.value);
    std::vector<int> same(result.reads.size());
    std::iota(same.begin(), same.end(), 0);
    result.value = seen_from(result.value, map, count, same);
    changed = true;
  }
  if (!changed) return std::nullopt;
  return bounded(std::move(result));
}

namespace {

// The factors of a float product, in the order written, and its sign.
struct Factors {
  bool negative = false;
  std::vector<poly::Expr> all;

  void take(const poly::Expr& e, DType type) {
    const auto* apply = e.as<poly::Apply>();
    if (apply && apply->type == type && apply->op == Op::Mul) {
      for (const poly::Expr& operand : apply->operands) take(operand, type);
    } else if (apply && apply->type == type && apply->op == Op::Neg) {
      negative = !negative;
      take(apply->operands[0], type);
    } else {
      all.push_back(e);
    }
  }
  poly::Expr product(DType type) const {
    std::optional<poly::Expr> result;
    for (const poly::Expr& e : all) result = result ? poly::Expr(poly::Apply{Op::Mul, {*result, e}, type}) : e;
    const poly::Expr one = result.value_or(poly::Expr(poly::Number{type, 1, 1.0}));
    return negative ? poly::Expr(poly::Apply{Op::Neg, {one}, type}) : one;
  }
};

// a·x ± a·y as a·(x ± y); nothing where they have no factor in common.
std::optional<poly::Expr> in_front(Op op, const poly::Expr& left, const poly::Expr& right, DType type) {
  const auto *p = left.as<poly::Apply>(), *q = right.as<poly::Apply>();
  const auto is_masked = [](const poly::Apply* a) {
    const auto* other = a && a->op == Op::Select ? a->operands[2].as<poly::Number>() : nullptr;
    return other && other->real == 0;
  };
  if (is_masked(p) && is_masked(q) && p->operands[0] == q->operands[0]) {
    const poly::Expr sum = in_front(op, p->operands[1], q->operands[1], type)
                               .value_or(poly::Expr(poly::Apply{op, {p->operands[1], q->operands[1]}, type}));
    return poly::Expr(poly::Apply{Op::Select, {p->operands[0], sum, p->operands[2]}, type});
  }
  Factors a, b, common;
  a.take(left, type);
  b.take(right, type);
  for (std::size_t k = 0; k < a.all.size();) {
    const auto same = std::find(b.all.begin(), b.all.end(), a.all[k]);
    if (same == b.all.end() || a.all[k].as<poly::Number>()) {
      ++k;
      continue;
    }
    common.all.push_back(a.all[k]);
    b.all.erase(same);
    a.all.erase(a.all.begin() + static_cast<std::ptrdiff_t>(k));
  }
  if (common.all.empty()) return std::nullopt;
  common.all.push_back(poly::Apply{op, {a.product(type), b.product(type)}, type});
  return common.product(type);
}

poly::Expr gathered(const poly::Expr& e) {
  const auto* apply = e.as<poly::Apply>();
  if (!apply || !lang::is_float(apply->type)) return e;
  poly::Apply copy{apply->op, {}, apply->type};
  for (const poly::Expr& operand : apply->operands) copy.operands.push_back(gathered(operand));
  if (copy.op == Op::Add || copy.op == Op::Sub)
    if (auto product = in_front(copy.op, copy.operands[0], copy.operands[1], copy.type)) return *product;
  return poly::Expr(std::move(copy));
}

// Written out as a tree: parts that it has several times count as often.
bool is_small(const poly::Expr& e, int& left) {
  if (--left < 0) return false;
  if (const auto* cast = e.as<poly::Cast>()) return is_small(cast->operand, left);
  const auto* apply = e.as<poly::Apply>();
  return !apply || std::all_of(apply->operands.begin(), apply->operands.end(), [&](const poly::Expr& operand) {
    return is_small(operand, left);
  });
}

}  // namespace

std::optional<Statement> gathered(const Statement& s) {
  int left = 1000;
  if (s.aggregation != Aggregation::Sum || !is_small(s.value, left)) return std::nullopt;
  Statement result = s;
  result.value = gathered(s.value);
  return result.value == s.value ? std::nullopt : std::optional(std::move(result));
}

std::optional<Statement> unmasked(const Program& program, const Statement& s) {
  if (s.aggregation == Aggregation::Assign) return std::nullopt;
  const poly::Number none = nothing(s.aggregation, s.value.type());
  Statement result = s;
  std::vector<poly::Range> rows;
  result.value = without_conditions(s.value, none, s, rows);
  if (rows.empty()) return std::nullopt;
  // An element all of whose points are masked has no point any more: its fill is what it was.
  const bool has_points = covers(program, s) && s.domain.size() == s.indices.size();
  const poly::Number stored = nothing(s.aggregation, program.tensor(s.target.tensor).dtype);
  if (has_points) result.fill = stored;
  else if (const auto* fill = std::get_if<poly::Number>(&s.fill); !fill || *fill != stored) return std::nullopt;
  result.domain.insert(result.domain.end(), rows.begin(), rows.end());
  drop_weaker_rows(result);
  drop_unused(result);
  return bounded(std::move(result));
}

std::optional<Apart> set_apart(Program& program, const Statement& s) {
  const auto apart = values_apart(s);
  if (!apart || !is_zero(s.fill)) return std::nullopt;
  const Affine row = s.domain[apart->row].value;
  std::size_t along = 0, over = 0;
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    if (mentions(row, k)) (is_output_index(s, k) ? along : over) = k;
  if (apart->count >= extent(s, over)) return std::nullopt;
  Apart result{s, s, s};
  result.rest.domain[apart->row].value.constant = poly::Size(row.constant.get() - apart->count);
  // row = w   ⇒   the summed index is ±(w - the rest of the row)
  const std::size_t count = s.indices.size();
  std::vector<Affine> map;
  for (std::size_t k = 0; k < count; ++k) map.push_back(Affine::index(k, count));
  const poly::Size sign = row.coefficients[over];
  Affine others = row;
  others.coefficients[over] = poly::Size(0);
  map[over] = Affine::index(over, count).plus(others.times(poly::Size(-1))).times(sign);
  Statement& strip = result.strip;
  const auto seen = [&](Affine& e) { e = e.compose(map, count); };
  for (Access& read : strip.reads) std::for_each(read.element.begin(), read.element.end(), seen);
  for (poly::Range& range : strip.domain) seen(range.value);
  std::vector<int> same(strip.reads.size());
  std::iota(same.begin(), same.end(), 0);
  strip.value = seen_from(s.value, map, count, same);
  strip.domain.push_back(strip.domain[over]);
  strip.domain[over] = {Affine::index(over, count), poly::Size(apart->count)};
  strip.domain.erase(strip.domain.begin() + static_cast<std::ptrdiff_t>(apart->row));
  auto bounded_strip = bounded(std::move(strip)), bounded_rest = bounded(std::move(result.rest));
  if (!bounded_strip || !bounded_rest) return std::nullopt;
  result.strip = std::move(*bounded_strip);
  result.rest = std::move(*bounded_rest);

  const TensorId target = s.target.tensor;
  const DType type = s.value.type(), stored = program.tensor(target).dtype;
  const auto into_own = [&](Statement& part, const char* suffix) {
    poly::Tensor tensor = program.tensor(target);
    tensor.name = fresh_name(program, tensor.name + suffix);
    tensor.dtype = type;
    part.target.tensor = static_cast<TensorId>(program.tensors.size());
    part.fill = poly::Number{type};
    part.kernel_name.clear();
    program.tensors.push_back(std::move(tensor));
  };
  into_own(result.strip, "_strip");
  into_own(result.rest, "_rest");
  std::vector<std::size_t> order(s.target.element.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  result.both = copy(program, target, result.strip.target.tensor, order);
  result.both.reads.push_back({result.rest.target.tensor, result.both.reads[0].element});
  result.both.value = poly::Apply{Op::Add, {poly::Expr(poly::Read{0, type}), poly::Expr(poly::Read{1, type})}, type};
  if (stored != type) result.both.value = poly::Cast{result.both.value, stored};
  result.both.kernel_name = s.kernel_name;
  result.both.span = s.span;
  return result;
}

namespace {

// The read of the producer's tensor in the reader, where that is a sum of its type which reads it once.
std::optional<std::size_t> only_read(const Program& program, const Statement& producer, const Statement& reader) {
  const TensorId id = producer.target.tensor;
  const DType type = program.tensor(id).dtype;
  const auto is_typed = [&](const Statement& s, bool sums) {
    return s.value.type() == type &&
        (s.aggregation == Aggregation::Sum || (!sums && s.aggregation == Aggregation::Assign));
  };
  const auto is = [&](const Access& read) { return read.tensor == id; };
  if (!is_typed(producer, false) || !is_typed(reader, true) || std::ranges::count_if(reader.reads, is) != 1 ||
      !producer.kernel_name.empty() || !lang::is_float(type))
    return std::nullopt;
  return static_cast<std::size_t>(std::ranges::find_if(reader.reads, is) - reader.reads.begin());
}

// The producer's rows over what the reader's element fixes, and those over what is summed.
struct ProducerRows { std::vector<poly::Range> outer, inner; };

ProducerRows rows_seen(const Statement& producer, const std::vector<std::optional<std::size_t>>& dimension,
    const std::vector<Affine>& map, std::size_t count) {
  ProducerRows rows;
  for (const poly::Range& row : producer.domain) {
    bool sum = false;
    for (std::size_t k = 0; k < dimension.size(); ++k) sum = sum || (!dimension[k] && mentions(row.value, k));
    (sum ? rows.inner : rows.outer).push_back({row.value.compose(map, count), row.extent});
  }
  return rows;
}

poly::Expr with_read(const poly::Expr& e, int read, const poly::Expr& instead) {
  if (const auto* own = e.as<poly::Read>()) return own->read == read ? instead : e;
  if (const auto* cast = e.as<poly::Cast>()) return poly::Cast{with_read(cast->operand, read, instead), cast->type};
  const auto* apply = e.as<poly::Apply>();
  if (!apply) return e;
  poly::Apply copy{apply->op, {}, apply->type};
  for (const poly::Expr& operand : apply->operands) copy.operands.push_back(with_read(operand, read, instead));
  return copy;
}

}  // namespace

std::optional<Statement> merged(const Program& program, const Statement& producer, const Statement& reader) {
  if (has_gate(producer.value) || has_gate(reader.value)) return std::nullopt;
  const auto r = only_read(program, producer, reader);
  if (!r || !is_factor(reader.value, static_cast<int>(*r))) return std::nullopt;
  std::vector<std::optional<std::size_t>> dimension(
      producer.indices.size());  // of the producer's tensor, an index each
  for (std::size_t d = 0; d < producer.target.element.size(); ++d) {
    const Affine& element = producer.target.element[d];
    if (only_element(element, program.tensor(producer.target.tensor).shape[d])) continue;
    const auto k = plain_index(element);
    if (!k || dimension[*k]) return std::nullopt;
    dimension[*k] = d;
  }
  Statement result = reader;
  for (std::size_t k = 0; k < dimension.size(); ++k)
    if (!dimension[k]) result.indices.push_back(fresh_index(result, producer.indices[k]));
  const std::size_t count = result.indices.size();
  std::vector<std::size_t> where(reader.indices.size());
  std::iota(where.begin(), where.end(), std::size_t{0});
  const auto wider = [&](Affine& e) { e = e.renumber(where, count); };
  for (Affine& e : result.target.element) wider(e);
  for (Access& read : result.reads) std::for_each(read.element.begin(), read.element.end(), wider);
  for (poly::Range& row : result.domain) wider(row.value);
  std::vector<Affine> same, map;
  for (const std::size_t k : where) same.push_back(Affine::index(k, count));
  for (std::size_t k = 0, next = reader.indices.size(); k < dimension.size(); ++k)
    map.push_back(dimension[k] ? result.reads[*r].element[*dimension[k]] : Affine::index(next++, count));
  // Elements of the producer that no point reaches are its fill: none are read, or they are 0 and add nothing.
  const auto [outer, inner] = rows_seen(producer, dimension, map, count);
  const bool coupled = std::ranges::any_of(inner, [](const poly::Range& row) { return !row.value.single_index(); });
  if ((coupled || !follow(outer, result)) && !(is_zero(producer.fill) && is_zero(reader.fill))) return std::nullopt;
  std::vector<int> read_at, renamed(reader.reads.size());
  for (const Access& access : producer.reads) {
    Access seen{access.tensor, {}};
    for (const Affine& e : access.element) seen.element.push_back(e.compose(map, count));
    read_at.push_back(static_cast<int>(result.reads.size()));
    result.reads.push_back(std::move(seen));
  }
  std::iota(renamed.begin(), renamed.end(), 0);
  const poly::Expr inside = seen_from(producer.value, map, count, read_at);
  result.value = with_read(seen_from(reader.value, same, count, renamed), static_cast<int>(*r), inside);
  result.domain.insert(result.domain.end(), outer.begin(), outer.end());
  result.domain.insert(result.domain.end(), inner.begin(), inner.end());
  drop_unused(result);
  return bounded(std::move(result));
}

namespace {

// A row that bounds an output by a reduction.
std::optional<std::pair<std::size_t, std::size_t>> triangle_in(const Statement& s) {
  for (std::size_t row = s.indices.size(); row < s.domain.size(); ++row) {
    std::vector<std::size_t> along, over;
    for (std::size_t k = 0; k < s.indices.size(); ++k)
      if (mentions(s.domain[row].value, k)) (is_output_index(s, k) ? along : over).push_back(k);
    if (along.size() == 1 && over.size() == 1) return std::pair(along[0], over[0]);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Statement> unfolded(const Program& program, std::size_t n) {
  constexpr std::size_t most_indices = 8;
  Statement result = std::get<Statement>(program.nodes[n]);
  bool changed = false;
  for (std::size_t m = n; m-- > 0 && result.indices.size() < most_indices;) {
    const auto* producer = std::get_if<Statement>(&program.nodes[m]);
    const auto read = producer ? only_read(program, *producer, result) : std::nullopt;
    if (!read) continue;
    const auto triangle = triangle_in(result);
    const auto is_of = [&](std::size_t k) {
      return std::ranges::any_of(result.reads[*read].element, [&](const Affine& e) { return mentions(e, k); });
    };
    if (triangle ? !is_of(triangle->first) || !is_of(triangle->second)
                 : producer->domain.size() == producer->indices.size())
      continue;
    auto one = merged(program, *producer, result);
    if (!one) continue;
    result = std::move(*one);
    changed = true;
  }
  return changed && triangle_in(result) ? std::optional(std::move(result)) : std::nullopt;
}

}  // namespace tilec::codegen
