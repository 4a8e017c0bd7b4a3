// Which factors leave which sums.
//
// A statement sums a product over indices S. Choose some of them, R: the factors that depend on R are summed over R
// into a temporary, over whatever else they and the rows of R depend on; the statement then sums the temporary times
// the other factors over S \ R. Both halves may be taken apart further. All choices are counted, the one with the
// fewest points is taken.
//
// An element that no point reaches must keep its fill. The rows that say which points there are may hold R, so they are
// projected: from s >= 0 and s < t follows t >= 1. Over the integers that is exact where one of the two coefficients is
// 1 (Pugh's Omega test: the dark shadow is the real one); other projections are not tried.
#include "codegen/factor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "autodiff/graph.h"
#include "codegen/intervals.h"
#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/restate.h"
#include "codegen/rewrite.h"
#include "codegen/running.h"
#include "codegen/scan.h"
#include "poly/canonical.h"
#include "poly/count.h"
#include "poly/hull.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::DType;
using lang::Op;
using poly::Access;
using poly::Affine;
using poly::Expr;
using poly::Program;
using poly::Row;
using poly::Statement;
using Indices = std::vector<std::size_t>;

constexpr std::size_t few_sums = 5;                    // 2⁵ choices

// ---- products

enum class Role { Times, Over, When };                 // a factor, a divisor, the condition of `c ? x : 0`
struct Factor {
  Expr value;
  Role role;
  std::vector<bool> mentions;                          // per index
};
struct Product {
  Op op = Op::Mul;                                     // or of maxima and minima, which distribute over each other
  bool negative = false;
  std::vector<Factor> factors;                         // in the order written
  std::vector<std::pair<std::size_t, std::size_t>> written;  // factors that the text multiplies before others: from, to
};

bool is_zero(const Expr& e) {
  const auto* n = e.as<poly::Number>();
  return n && (lang::is_float(n->type) ? n->real == 0 : n->integer == 0);
}

std::optional<Op> product_of(const Statement& s) {
  if (s.aggregation == Aggregation::Sum) return Op::Mul;
  if (s.aggregation != Aggregation::Max && s.aggregation != Aggregation::Min) return std::nullopt;
  const auto* apply = s.value.as<poly::Apply>();
  return apply && (apply->op == Op::Max || apply->op == Op::Min) ? std::optional(apply->op) : std::nullopt;
}

class Reader {
 public:
  explicit Reader(const Statement& s) : s_(s) {}

  std::optional<Product> read() {
    const auto op = product_of(s_);
    if (!op) return std::nullopt;
    product_.op = *op;
    take(s_.value);
    return std::move(product_);
  }

 private:
  void add(const Expr& value, Role role) {
    Factor factor{value, role, std::vector<bool>(s_.indices.size(), false)};
    mark(value, s_.reads, factor.mentions);
    product_.factors.push_back(std::move(factor));
  }

  void take_condition(const Expr& e) {
    const auto* apply = e.as<poly::Apply>();
    if (!apply || apply->op != Op::And || apply->type != DType::Bool) return add(e, Role::When);
    for (const Expr& operand : apply->operands) take_condition(operand);
  }

  void take(const Expr& e) {
    const std::size_t from = product_.factors.size();
    const auto* apply = e.as<poly::Apply>();
    if (!apply || apply->type != s_.value.type()) return add(e, Role::Times);
    if (apply->op == product_.op) {
      for (const Expr& operand : apply->operands) take(operand);
    } else if (product_.op == Op::Mul && apply->op == Op::Neg) {
      product_.negative = !product_.negative;
      return take(apply->operands[0]);
    } else if (product_.op == Op::Mul && apply->op == Op::Div && lang::is_float(apply->type)) {
      take(apply->operands[0]);
      add(apply->operands[1], Role::Over);
    } else if (product_.op == Op::Mul && apply->op == Op::Select && is_zero(apply->operands[2])) {
      take_condition(apply->operands[0]);
      take(apply->operands[1]);
    } else {
      return add(e, Role::Times);
    }
    product_.written.emplace_back(from, product_.factors.size());
  }

  const Statement& s_;
  Product product_;
};

Expr in_type(const Expr& e, DType type) { return e.type() == type ? e : Expr(poly::Cast{e, type}); }

// Whether all factors are finite and no divisor is 0 or NaN, where that may be otherwise.
std::optional<Expr> all_finite(const std::vector<Factor>& factors) {
  std::optional<Expr> all;
  for (const Factor& f : factors) {
    if (f.role == Role::When || !lang::is_float(f.value.type())) continue;
    if (const auto* number = f.value.as<poly::Number>();
        number && std::isfinite(number->real) && (f.role == Role::Times || number->real != 0))
      continue;
    const Expr zero = poly::Number{f.value.type()}, size = poly::Apply{Op::Abs, {f.value}, f.value.type()};
    // neither 0 nor NaN
    const Expr one = f.role == Role::Times ? Expr(poly::Apply{Op::IsFinite, {f.value}, DType::Bool})
                                           : Expr(poly::Apply{Op::Gt, {size, zero}, DType::Bool});
    all = all ? Expr(poly::Apply{Op::And, {*all, one}, DType::Bool}) : one;
  }
  return all;
}

// Inf·(1 - 1) is Inf·0, but Inf·1 - Inf·1 is no number: a sum of products with one factor that is not finite is none,
// or infinite. It is none here, since T may be anything; and 0 where conditions leave nothing to sum.
struct Guard {
  Expr finite;
  std::optional<Expr> reached = std::nullopt;          // the number of points that satisfy the conditions

  Expr operator()(const Expr& value) const {
    const DType type = value.type();
    Expr otherwise = poly::Number{type, 0, std::numeric_limits<double>::quiet_NaN()};
    if (reached)
      otherwise = poly::Apply{Op::Select,
          {Expr(poly::Apply{Op::Ne, {*reached, Expr(poly::Number{reached->type()})}, DType::Bool}), otherwise,
              Expr(poly::Number{type})},
          type};
    return poly::Apply{Op::Select, {finite, value, otherwise}, type};
  }
};

// The product of some factors, in the order written.
Expr joined(const Product& product, const std::vector<Factor>& factors, DType type,
    const std::optional<Guard>& guard = std::nullopt) {
  std::optional<Expr> value, when;
  for (const Factor& f : factors) {
    if (f.role == Role::When) when = when ? Expr(poly::Apply{Op::And, {*when, f.value}, DType::Bool}) : f.value;
    else if (f.role == Role::Times)
      value = value ? Expr(poly::Apply{product.op, {*value, in_type(f.value, type)}, type}) : in_type(f.value, type);
  }
  if (!value) value = Expr(poly::Number{type, 1, lang::is_float(type) ? 1.0 : 0.0});
  for (const Factor& f : factors)
    if (f.role == Role::Over) value = poly::Apply{Op::Div, {*value, in_type(f.value, type)}, type};
  if (guard) value = (*guard)(*value);
  return when ? Expr(poly::Apply{Op::Select, {*when, *value, Expr(poly::Number{type})}, type}) : *value;
}

// f16 keeps within 6e-8 and 65504: f32 holds what four of them give.
bool keeps_range(const std::vector<Factor>& factors) {
  const auto half = [](const Factor& f) {
    const auto* cast = f.value.as<poly::Cast>();
    return f.role == Role::When || f.value.as<poly::Number>() ||
        (f.role == Role::Times && cast && cast->operand.type() == DType::F16);
  };
  return factors.size() <= 4 && std::all_of(factors.begin(), factors.end(), half);
}

// In which type a temporary is summed. Q·(K·V) may leave f32 where (Q·K)·V as written does not: then in f64, which it
// does not leave.
DType type_of(const Product& product, const std::vector<bool>& inside, const std::vector<Factor>& factors, DType type) {
  if (product.op != Op::Mul || type != DType::F32 || keeps_range(factors)) return type;
  const auto counts = [&](std::size_t f) {
    return product.factors[f].role != Role::When && !product.factors[f].value.as<poly::Number>();
  };
  const auto is_written = [&](const std::pair<std::size_t, std::size_t>& range) {
    for (std::size_t f = 0; f < inside.size(); ++f)
      if (counts(f) && inside[f] != (f >= range.first && f < range.second)) return false;
    return true;
  };
  std::size_t several = 0;
  for (std::size_t f = 0; f < inside.size(); ++f)
    several += inside[f] && (counts(f) || product.factors[f].role == Role::Over);
  return several < 2 || std::any_of(product.written.begin(), product.written.end(), is_written) ? type : DType::F64;
}

// ---- projections

constexpr std::int64_t far = std::int64_t{1} << 30;

bool is_near(const Row& row) {
  const auto near = [](std::int64_t c) { return c > -far && c < far; };
  return row.divisor == 1 && near(row.constant) && near(row.extent.value_or(0)) &&
      std::all_of(row.coefficients.begin(), row.coefficients.end(), near);
}

// 0 <= row, and what its extent says.
std::vector<Row> halves_of(const Row& row) {
  std::vector<Row> halves{{row.coefficients, row.constant, 1, std::nullopt}};
  if (!row.extent) return halves;
  Row above{row.coefficients, *row.extent - 1 - row.constant, 1, std::nullopt};
  for (std::int64_t& c : above.coefficients) c = -c;
  halves.push_back(std::move(above));
  return halves;
}

// What rows say of the other indices where an integer k satisfies them; nothing where that is no conjunction of rows.
std::optional<std::vector<Row>> without(const std::vector<Row>& rows, std::size_t k) {
  std::vector<Row> result, below, above;
  for (const Row& row : rows) {
    if (!row.coefficients[k]) {
      result.push_back(row);
      continue;
    }
    if (!is_near(row)) return std::nullopt;
    for (Row& half : halves_of(row)) (half.coefficients[k] > 0 ? below : above).push_back(std::move(half));
  }
  for (const Row& low : below)
    for (const Row& high : above) {
      const std::int64_t a = low.coefficients[k], b = -high.coefficients[k];
      if (a != 1 && b != 1) return std::nullopt;
      Row both{low.coefficients, b * low.constant + a * high.constant, 1, std::nullopt};
      for (std::size_t i = 0; i < both.coefficients.size(); ++i)
        both.coefficients[i] = b * low.coefficients[i] + a * high.coefficients[i];
      result.push_back(std::move(both));
    }
  return result;
}

// ---- halves

struct Part {
  Statement statement;
  poly::Tensor temporary;                              // without a name
};
struct Halves {
  std::vector<Part> inner;                             // the sums, and where conditions matter how many points they
                                                       // have
  Statement outer;
};

bool contains(const Indices& all, std::size_t k) { return std::find(all.begin(), all.end(), k) != all.end(); }
bool mentions_any(const Affine& e, const Indices& indices) {
  return std::any_of(indices.begin(), indices.end(), [&](std::size_t k) { return mentions(e, k); });
}

// Dimensions as those of the largest operand, an index that only a row brings in the place of the one it bounds.
Indices dimensions(
    const Program& program, const Statement& inner, const Indices& summed, const std::vector<bool>& kept) {
  std::vector<const Access*> reads;
  for (const Access& read : inner.reads) reads.push_back(&read);
  std::stable_sort(reads.begin(), reads.end(),
      [&](const Access* a, const Access* b) { return elements(program, a->tensor) > elements(program, b->tensor); });
  Indices order;
  const auto place = [&](std::size_t k) { if (kept[k] && !contains(order, k)) order.push_back(k); };
  for (const Access* read : reads)
    for (const Affine& e : read->element)
      for (std::size_t k = 0; k < kept.size(); ++k) {
        if (!mentions(e, k)) continue;
        place(k);
        if (!contains(summed, k)) continue;
        for (std::size_t r = kept.size(); r < inner.domain.size(); ++r)
          for (std::size_t j = 0; j < kept.size(); ++j)
            if (mentions(inner.domain[r].value, k) && mentions(inner.domain[r].value, j)) place(j);
      }
  for (std::size_t k = 0; k < kept.size(); ++k) place(k);
  return order;
}

bool decays(const Statement& s) {
  const auto scan = scan_of(s);
  return scan ? scan->decays : values_apart(s).has_value();
}

class Cut {
 public:
  // `id`: the tensor that the first temporary will be.
  Cut(const Program& program, const Statement& s, const Product& product, TensorId id)
      : program_(program), s_(s), product_(product), id_(id) {}

  // `quotients`: also where no point is spared, but divisors leave.
  std::optional<Halves> at(const Indices& summed, bool quotients = false) {
    inside_.clear(), in_.clear(), out_.clear(), orders_.clear();
    for (const Factor& f : product_.factors) {
      inside_.push_back(std::any_of(summed.begin(), summed.end(), [&](std::size_t k) { return f.mentions[k]; }));
      (inside_.back() ? in_ : out_).push_back(f);
    }
    const std::vector<bool> used = mentioned(in_, summed);
    const bool divides = quotients && spares_quotients(summed);
    const bool all_in =
        std::all_of(out_.begin(), out_.end(), [](const Factor& f) { return f.value.as<poly::Number>(); });
    if (in_.empty() || (all_in && is_all(summed) && !divides)) return std::nullopt;
    const auto left = projected(summed);
    if (!left) return std::nullopt;
    type_ = type_of(product_, inside_, in_, s_.value.type());
    const bool divided = std::any_of(out_.begin(), out_.end(), [](const Factor& f) { return f.role == Role::Over; });
    // quotients may stay in range where what is divided does not
    if (type_ == DType::F32 && (divides || (divided && !keeps_range(in_)))) type_ = DType::F64;
    const bool is_whole = std::all_of(used.begin(), used.end(), [](bool u) { return u; });
    std::vector<Part> parts;
    parts.push_back(inner(summed, used, in_, type_, 0));
    if (is_whole && !divides && !decays(parts[0].statement)) return std::nullopt;  // as many points as before
    std::optional<Guard> guard;
    if (const auto all = all_finite(out_); all && product_.op == Op::Mul && lang::is_float(type_)) guard = Guard{*all};
    if (std::vector<Factor> conditions = conditions_of(in_); guard && !conditions.empty()) {
      parts.push_back(inner(summed, mentioned(conditions, summed), conditions, DType::I32, 1));
      guard->reached = poly::Read{static_cast<int>(s_.reads.size()) + 1, DType::I32};
    }
    return Halves{std::move(parts), outer(summed, *left, guard)};
  }

 private:
  bool is_all(const Indices& summed) const {
    for (std::size_t k = 0; k < s_.indices.size(); ++k)
      if (!is_output_index(s_, k) && !contains(summed, k)) return false;
    return true;
  }

  // Whether all sums at once leave divisors behind. A condition says where there is a quotient at all, and stays beside
  // it; a constant 0 stays too.
  bool spares_quotients(const Indices& summed) const {
    if (!is_all(summed) || (s_.value.type() != DType::F32 && s_.value.type() != DType::F64)) return false;
    if (std::any_of(
            product_.factors.begin(), product_.factors.end(), [](const Factor& f) { return f.role == Role::When; }))
      return false;
    return std::any_of(
        out_.begin(), out_.end(), [](const Factor& f) { return f.role == Role::Over && !is_zero(f.value); });
  }

  std::vector<bool> mentioned(const std::vector<Factor>& factors, const Indices& summed) const {
    std::vector<bool> used(s_.indices.size(), false);
    for (const Factor& f : factors) for (std::size_t k = 0; k < used.size(); ++k) used[k] = used[k] || f.mentions[k];
    for (const std::size_t k : summed) used[k] = true;
    return used;
  }

  static std::vector<Factor> conditions_of(const std::vector<Factor>& factors) {
    std::vector<Factor> conditions;
    std::copy_if(factors.begin(), factors.end(), std::back_inserter(conditions),
        [](const Factor& f) { return f.role == Role::When; });
    return conditions;
  }

  // Whether a read at indices that are kept may lie outside its tensor, were it not for a row that is left out.
  bool leaves_a_tensor(const Statement& part, const Indices& summed) const {
    const auto leaves = [&](const Affine& e, const poly::Size& size) {
      if (mentions_any(e, summed)) return false;
      std::int64_t least = e.constant.get(), most = least;
      for (std::size_t k = 0; k < s_.indices.size(); ++k) {
        const std::int64_t c = e.coefficients[k].get(), first = c * low(s_, k),
                           last = c * (low(s_, k) + extent(s_, k) - 1);
        least += std::min(first, last), most += std::max(first, last);
      }
      return least < 0 || most >= size.get();
    };
    for (const Access& read : part.reads)
      for (std::size_t d = 0; d < read.element.size(); ++d)
        if (leaves(read.element[d], program_.tensor(read.tensor).shape[d])) return true;
    return false;
  }

  std::optional<std::vector<poly::Range>> projected(const Indices& summed) const {
    std::vector<Row> rows;
    poly::Box box{false, {}};
    for (std::size_t k = 0; k < s_.indices.size(); ++k)
      box.index.push_back({low(s_, k), low(s_, k) + extent(s_, k) - 1});
    for (std::size_t r = 0; r < s_.domain.size(); ++r)
      if (r >= s_.indices.size() || contains(summed, r)) rows.push_back(poly::row_of(s_.domain[r]));
    for (const std::size_t k : summed) {
      auto less = without(rows, k);
      if (!less) return std::nullopt;
      rows = std::move(*less);
    }
    std::vector<poly::Range> result;
    for (const Row& row : rows)
      if (!poly::implied(row, box)) result.push_back(poly::range_of(row));
    return result;
  }

  static std::vector<Expr> reads_of(const Expr& e) {
    std::vector<Expr> found;
    for (const Expr& part : poly::parts(e)) if (part.as<poly::Read>()) found.push_back(part);
    return found;
  }
  // In an order that does not depend on the text, so that equal sums are found to be one. Where the text's order rounds
  // as the text does, it stays.
  std::vector<Factor> alike(std::vector<Factor> factors) const {
    const auto tensors = [&](const Factor& f) {
      std::vector<TensorId> ids;
      for (const Expr& read : reads_of(f.value))
        ids.push_back(s_.reads[static_cast<std::size_t>(read.as<poly::Read>()->read)].tensor);
      return ids;
    };
    std::stable_sort(
        factors.begin(), factors.end(), [&](const Factor& a, const Factor& b) { return tensors(a) < tensors(b); });
    return factors;
  }

  // Reads that the value has, in its order.
  static void read_in_order(Statement& s) {
    std::vector<Access> reads;
    std::vector<int> at(s.reads.size(), -1);
    const std::function<void(const Expr&)> visit = [&](const Expr& e) {
      if (const auto* cast = e.as<poly::Cast>()) return visit(cast->operand);
      if (const auto* apply = e.as<poly::Apply>()) std::for_each(apply->operands.begin(), apply->operands.end(), visit);
      const auto* read = e.as<poly::Read>();
      if (!read || at[static_cast<std::size_t>(read->read)] >= 0) return;
      at[static_cast<std::size_t>(read->read)] = static_cast<int>(reads.size());
      reads.push_back(s.reads[static_cast<std::size_t>(read->read)]);
    };
    visit(s.value);
    std::vector<Affine> same;
    for (std::size_t k = 0; k < s.indices.size(); ++k) same.push_back(Affine::index(k, s.indices.size()));
    for (int& place : at) place = std::max(place, 0);
    s.value = seen_from(s.value, same, same.size(), at);
    s.reads = std::move(reads);
  }

  // The sum of some factors, the temporary of which has the position `n` among those that `outer` reads.
  Part inner(
      const Indices& summed, std::vector<bool> kept, const std::vector<Factor>& factors, DType type, std::size_t n) {
    Statement part = s_;
    const bool is_wider = type != s_.value.type();
    part.value = joined(product_, is_wider ? alike(factors) : factors, type);
    if (is_wider) read_in_order(part);
    else drop_unused(part);
    part.domain.resize(s_.indices.size());
    for (std::size_t r = s_.indices.size(); r < s_.domain.size(); ++r)
      if (mentions_any(s_.domain[r].value, summed)) part.domain.push_back(s_.domain[r]);
    const bool bounded = part.domain.size() > s_.indices.size();
    for (std::size_t r = s_.indices.size(); r < part.domain.size(); ++r)
      for (std::size_t k = 0; k < kept.size(); ++k) kept[k] = kept[k] || mentions(part.domain[r].value, k);
    for (const std::size_t k : summed) kept[k] = false;
    orders_.push_back(dimensions(program_, part, summed, kept));
    const Indices& order = orders_.back();
    Indices all = order;
    all.insert(all.end(), summed.begin(), summed.end());
    // rows of what is kept spare elements that nobody reads
    if (!bounded || leaves_a_tensor(part, summed)) part.domain = s_.domain;
    const Frame f = frame(part, all, {});
    Statement seen = seen_in(part, f, [&](const Affine& row) {
      for (std::size_t k = 0; k < kept.size(); ++k) if (mentions(row, k) && !contains(all, k)) return false;
      return true;
    });
    write_part(seen, id_ + static_cast<TensorId>(n), order.size());
    poly::Tensor temporary{"", type, {}, s_.span};
    for (std::size_t d = 0; d < order.size(); ++d) temporary.shape.push_back(*f.hull[d].extent);
    return {std::move(seen), std::move(temporary)};
  }

  Statement outer(const Indices& summed, std::vector<poly::Range> rows, const std::optional<Guard>& guard) {
    Statement rest = s_;
    for (std::size_t n = 0; n < orders_.size(); ++n) {
      Access read{id_ + static_cast<TensorId>(n), {}};
      for (const std::size_t k : orders_[n]) {
        Affine e = Affine::index(k, s_.indices.size());
        e.constant = poly::Size(-low(s_, k));
        read.element.push_back(std::move(e));
      }
      rest.reads.push_back(std::move(read));
    }
    std::vector<Factor> factors = out_;
    const Factor inner{poly::Read{static_cast<int>(s_.reads.size()), type_}, Role::Times, {}};
    // In the place of the first factor that it stands for.
    const auto first = static_cast<std::size_t>(std::find(inside_.begin(), inside_.end(), true) - inside_.begin());
    factors.insert(factors.begin() + static_cast<std::ptrdiff_t>(first), inner);
    rest.value = in_type(joined(product_, factors, type_, guard), s_.value.type());
    if (product_.negative) rest.value = poly::Apply{Op::Neg, {rest.value}, s_.value.type()};
    drop_unused(rest);
    rest.domain.resize(s_.indices.size());
    rest.domain.insert(rest.domain.end(), rows.begin(), rows.end());
    Indices left;
    bool sums = false;
    for (std::size_t k = 0; k < s_.indices.size(); ++k) {
      if (contains(summed, k)) continue;
      left.push_back(k);
      sums = sums || !is_output_index(s_, k);
    }
    Statement seen = seen_in(rest, frame(rest, left, {}), [](const Affine&) { return true; });
    if (sums) return seen;
    const DType type = program_.tensor(s_.target.tensor).dtype;
    seen.aggregation = Aggregation::Assign;
    seen.value = in_type(seen.value, type);
    return seen;
  }

  const Program& program_;
  const Statement& s_;
  const Product& product_;
  TensorId id_;
  std::vector<bool> inside_;                           // per factor
  std::vector<Factor> in_, out_;
  std::vector<Indices> orders_;                        // the temporaries' dimensions
  DType type_ = DType::F32;
};

// ---- choices

// Points that will be computed.
double computed(const Statement& s) {
  if (scan_of(s) || s.domain.size() == s.indices.size()) return codegen::points(s);
  const auto exact = poly::points(s, poly::count_cap);
  return exact ? static_cast<double>(*exact) : codegen::points(s);
}

// The same, and the quotients and functions of the value as so many more: each as often as what it mentions has values.
double computed_with_quotients(const Statement& s) {
  const double points = computed(s);
  double slow = 0;
  for (const Expr& part : poly::parts(s.value)) {
    const auto* apply = part.as<poly::Apply>();
    if (!apply || !lang::is_float(apply->type) || model::rough_operations_of(apply->op) == 1) continue;
    std::vector<bool> mentioned(s.indices.size(), false);
    mark(part, s.reads, mentioned);
    double times = 1;
    for (std::size_t k = 0; k < mentioned.size(); ++k) if (mentioned[k]) times *= static_cast<double>(extent(s, k));
    slow += std::min(times, points) * model::rough_operations_of(apply->op);
  }
  return points + slow;
}

struct Choice {
  double cost = 0;                                     // in points
  Indices summed;                                      // taken first; empty: as it is
  bool quotients = false;                              // for these alone
};

Choice choose(Program& program, const Statement& s);

// Of a sum as a strip and a scan (restate.h).
std::optional<double> cost_apart(Program& program, const Statement& s) {
  const std::size_t known = program.tensors.size();
  const auto apart = set_apart(program, s);
  if (!apart) return std::nullopt;
  const double cost = choose(program, apart->strip).cost + choose(program, apart->rest).cost +
      2 * model::stored_element * elements(program, s.target.tensor);
  program.tensors.resize(known);
  return cost;
}

double bytes_of(const Halves& halves) {
  double all = 0;
  for (const Part& part : halves.inner) {
    double bytes = lang::bytes(part.temporary.dtype);
    for (const poly::Size& size : part.temporary.shape) bytes *= static_cast<double>(size.get());
    all += bytes;
  }
  return all;
}

// Every sum of some indices before the others, and of each half the same. `program` gives and takes back temporaries.
Choice choose(Program& program, const Statement& s) {
  Choice best{computed(s), {}};
  if (const auto cost = cost_apart(program, s)) best.cost = std::min(best.cost, *cost);
  Indices sums;
  for (std::size_t k = 0; k < s.indices.size(); ++k) if (!is_output_index(s, k)) sums.push_back(k);
  if (sums.empty() || sums.size() > few_sums || best.cost < 1) return best;
  const auto product = Reader(s).read();
  if (!product) return best;
  const std::size_t known = program.tensors.size();
  double limit = best.cost * model::factored_share;
  for (std::size_t subset = 1; subset < (std::size_t{1} << sums.size()); ++subset) {
    Indices summed;
    for (std::size_t n = 0; n < sums.size(); ++n) if (subset >> n & 1) summed.push_back(sums[n]);
    const auto halves = Cut(program, s, *product, static_cast<TensorId>(known)).at(summed);
    if (!halves) continue;
    if (bytes_of(*halves) > static_cast<double>(model::largest_temporary)) continue;
    for (const Part& part : halves->inner) program.tensors.push_back(part.temporary);
    double cost = choose(program, halves->outer).cost;
    for (const Part& part : halves->inner)
      cost += elements(program, part.statement.target.tensor) * model::stored_element +
          choose(program, part.statement).cost;
    if (cost <= limit) best = {cost, summed}, limit = cost;
    program.tensors.resize(known);
  }
  if (!best.summed.empty()) return best;
  const auto halves = Cut(program, s, *product, static_cast<TensorId>(known)).at(sums, true);
  if (!halves || bytes_of(*halves) > static_cast<double>(model::largest_temporary)) return best;
  double cost = computed_with_quotients(halves->outer);
  for (const Part& part : halves->inner) {
    program.tensors.push_back(part.temporary);
    cost += elements(program, part.statement.target.tensor) * model::stored_element +
        computed_with_quotients(part.statement);
  }
  program.tensors.resize(known);
  if (cost <= model::factored_share * computed_with_quotients(s)) best = {best.cost, sums, true};
  return best;
}

// ---- rewrites

std::string form_of(const Program& program, const Statement& s) {
  std::vector<TensorId> same(program.tensors.size());
  std::iota(same.begin(), same.end(), 0);
  return poly::canonical(program, s, same);
}

bool is_made_before(const Program& program, std::size_t n, TensorId id) {
  const auto makes = [&](const poly::Node& node) {
    const auto* s = std::get_if<Statement>(&node);
    return s && s->target.tensor == id;
  };
  return std::any_of(program.nodes.begin(), program.nodes.begin() + static_cast<std::ptrdiff_t>(n), makes);
}

// What is summed first stands in front of the statement at n, but for what equals a statement before it: that is read
// instead. How many statements stand at n now that stood there not.
std::size_t cut_at(Rewriting& r, std::size_t n, Halves halves) {
  Program& program = r.program;
  const std::string name = target_name(program, halves.outer);
  const auto first = static_cast<TensorId>(program.tensors.size());
  std::vector<TensorId> read_as;
  std::vector<Statement> before;
  for (Part& part : halves.inner) {
    const auto id = static_cast<TensorId>(program.tensors.size());
    part.statement.target.tensor = id;
    part.temporary.name = fresh_name(program, name + (read_as.empty() ? "_sums" : "_reached"));
    program.tensors.push_back(part.temporary);
    const auto [made, is_new] = r.sums.try_emplace(form_of(program, part.statement), id);
    read_as.push_back(is_new || !is_made_before(program, n, made->second) ? id : made->second);
    if (read_as.back() == id) {
      r.strides.push_back(row_major(extents(part.temporary)));
      before.push_back(std::move(part.statement));
    } else {
      program.tensors.pop_back();
    }
  }
  for (Access& read : halves.outer.reads)
    if (read.tensor >= first) read.tensor = read_as[static_cast<std::size_t>(read.tensor - first)];
  program.nodes[n] = std::move(halves.outer);
  const std::size_t count = before.size();
  insert(program, n, std::move(before));
  return count;
}

// The sum with conditions as rows or told by runs, and straight indices; nothing where it is that already.
std::optional<Statement> restated(const Program& program, const Statement& s) {
  std::optional<Statement> other = told_by_runs(program, s);
  if (auto products = gathered(other ? *other : s)) other = std::move(products);
  if (auto no_condition = unmasked(program, other ? *other : s)) other = std::move(no_condition);
  if (auto straight = straightened(other ? *other : s)) other = std::move(straight);
  return other;
}

// A statement in its place.
using Readers = std::vector<std::pair<std::size_t, Statement>>;

// The readers of the sum at n, each with that sum in it; nothing where one of them cannot have it.
std::optional<Readers> with_sum(const Program& program, std::size_t n) {
  const Statement& s = std::get<Statement>(program.nodes[n]);
  const TensorId id = s.target.tensor;
  if (s.aggregation != Aggregation::Sum || is_output(program, id) || program.tensor(id).dtype != s.value.type())
    return std::nullopt;
  Readers readers;
  for (std::size_t r = n + 1; r < program.nodes.size(); ++r) {
    if (!reads(program.nodes[r], id)) continue;
    const auto* reader = std::get_if<Statement>(&program.nodes[r]);
    auto one = reader && !(reader->fill == std::variant<poly::Number, TensorId>(id)) ? merged(program, s, *reader)
                                                                                     : std::nullopt;
    if (!one) return std::nullopt;
    readers.emplace_back(r, std::move(*one));
  }
  return readers;
}

void absorb_at(Program& program, std::size_t n, Readers readers) {
  for (auto& [r, one] : readers) program.nodes[r] = std::move(one);
  program.nodes.erase(program.nodes.begin() + static_cast<std::ptrdiff_t>(n));
}

// The statement at n told by running sums, in front of it; products that nobody reads any more go. Where the first of
// the sums is then.
std::size_t told_at(Rewriting& r, std::size_t n, ToldByLogs told) {
  Program& program = r.program;
  while (r.strides.size() < program.tensors.size())
    r.strides.push_back(row_major(extents(program.tensors[r.strides.size()])));
  program.nodes[n] = std::move(told.sum);
  insert(program, n, std::move(told.before));
  for (std::size_t at = n; at-- > 0;) {
    const auto* s = std::get_if<Statement>(&program.nodes[at]);
    if (!s || is_output(program, s->target.tensor)) continue;
    if (std::any_of(program.nodes.begin(), program.nodes.end(),
            [&](const poly::Node& node) { return reads(node, s->target.tensor); }))
      continue;
    program.nodes.erase(program.nodes.begin() + static_cast<std::ptrdiff_t>(at));
    --n;
  }
  return n;
}

void part_at(Rewriting& r, std::size_t n, Apart apart) {
  Program& program = r.program;
  while (r.strides.size() < program.tensors.size())
    r.strides.push_back(row_major(extents(program.tensors[r.strides.size()])));
  program.nodes[n] = std::move(apart.both);
  insert(program, n, {std::move(apart.strip), std::move(apart.rest)});
}

// ---- the pass

class Factoring {
 public:
  explicit Factoring(Rewriting& r) : r_(r), program_(r.program), read_by_sums_(r.program.tensors.size(), true) {
    for (const poly::Node& node : program_.nodes) {
      const auto* s = std::get_if<Statement>(&node);
      for (const TensorId id : autodiff::operands(node))
        read_by_sums_[static_cast<std::size_t>(id)] =
            read_by_sums_[static_cast<std::size_t>(id)] && s && s->aggregation == Aggregation::Sum;
    }
  }

  void run() {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const auto* s = std::get_if<Statement>(&program_.nodes[n]);
      if (!s || s->aggregation == Aggregation::Assign || s->aggregation == Aggregation::Product ||
          box_of(*s) < model::least_to_factor)
        continue;
      if (absorbed(n)) {
        --n;
        continue;
      }
      if (told(n)) {
        --n;
        continue;
      }
      restate(n);
      if (reached(n) || parted(n)) {
        --n;
        continue;
      }
      while (cut(n)) {}
    }
  }

 private:
  static double box_of(const Statement& s) {
    double count = 1;
    for (std::size_t k = 0; k < s.indices.size(); ++k) count *= static_cast<double>(extent(s, k));
    return count;
  }

  // A sum of products over intervals reads running sums instead; n becomes the position of the first of these.
  bool told(std::size_t& n) {
    const std::size_t known = program_.tensors.size();
    const Statement s = std::get<Statement>(program_.nodes[n]);
    auto other = told_by_logs(program_, s);
    if (!other) return false;
    double cost = choose(program_, other->sum).cost;
    for (const Statement& before : other->before) cost += choose(program_, before).cost;
    if (cost > model::factored_share * choose(program_, s).cost) {
      program_.tensors.resize(known);
      return false;
    }
    r_.done.push_back(directives::Logs{target_name(program_, s)});
    n = told_at(r_, n, std::move(*other));
    return true;
  }

  bool reached(std::size_t n) {
    directives::Reach done{target_name(program_, std::get<Statement>(program_.nodes[n]))};
    if (!reach_all_values(r_, n)) return false;
    r_.done.push_back(std::move(done));
    return true;
  }

  bool parted(std::size_t n) {
    const Statement s = std::get<Statement>(program_.nodes[n]);
    const auto cost = cost_apart(program_, s);
    if (!cost || *cost > model::factored_share * computed(s)) return false;
    r_.done.push_back(directives::Restate{target_name(program_, s)});
    part_at(r_, n, set_apart(program_, s).value());
    return true;
  }

  void restate(std::size_t n) {
    const auto& s = std::get<Statement>(program_.nodes[n]);
    std::optional<Statement> other = restated(program_, s);
    if (!other || choose(program_, *other).cost > model::factored_share * choose(program_, s).cost) return;
    r_.done.push_back(directives::Restate{target_name(program_, s)});
    program_.nodes[n] = std::move(*other);
  }

  // A sum that other sums read as a factor goes into them, where all of them together then cost less.
  bool absorbed(std::size_t n) {
    const Statement& s = std::get<Statement>(program_.nodes[n]);
    const TensorId id = s.target.tensor;
    if (static_cast<std::size_t>(id) < read_by_sums_.size() && !read_by_sums_[static_cast<std::size_t>(id)])
      return false;
    std::optional<Readers> readers = with_sum(program_, n);
    if (!readers || readers->empty()) return false;
    double separate = computed(s) + model::stored_element * elements(program_, id), together = 0;
    for (const auto& [r, one] : *readers) {
      separate += choose(program_, std::get<Statement>(program_.nodes[r])).cost;
      together += choose(program_, one).cost;
    }
    if (together > model::factored_share * separate) return false;
    r_.done.push_back(directives::Absorb{target_name(program_, s)});
    absorb_at(program_, n, std::move(*readers));
    return true;
  }

  // Cuts the statement at n, what is summed first further at once; n stays the position of the other half.
  bool cut(std::size_t& n) {
    const Statement s = std::get<Statement>(program_.nodes[n]);
    const Choice choice = choose(program_, s);
    if (choice.summed.empty()) return false;
    directives::Factor done{target_name(program_, s), {}};
    for (const std::size_t k : choice.summed) done.sums.push_back(s.indices[k]);
    r_.done.push_back(std::move(done));
    const Product product = Reader(s).read().value();
    for (std::size_t made = cut_at(r_, n,
             Cut(program_, s, product, static_cast<TensorId>(program_.tensors.size()))
                 .at(choice.summed, choice.quotients)
                 .value());
        made > 0; --made) {
      if (parted(n)) n += 2;
      while (cut(n)) {}
      ++n;
    }
    return true;
  }

  Rewriting& r_;
  Program& program_;
  std::vector<bool> read_by_sums_;                     // of a tensor of the text: by nothing else
};

}  // namespace

void factor_sums(Rewriting& r) { Factoring(r).run(); }

Refusal apply(Rewriting& r, const directives::Absorb& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  std::optional<Readers> readers = with_sum(r.program, *n);
  if (!readers || readers->empty())
    return fmt::format("`{}` is no sum that only sums read, each as a factor", directive.tensor);
  absorb_at(r.program, *n, std::move(*readers));
  r.done.push_back(directive);
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Restate& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  std::optional<Statement> other = restated(r.program, std::get<Statement>(r.program.nodes[*n]));
  if (other) {
    r.program.nodes[*n] = std::move(*other);
  } else {
    auto apart = set_apart(r.program, std::get<Statement>(r.program.nodes[*n]));
    if (!apart)
      return fmt::format(
          "`{}` has no condition that a row could say, no factors in common, no index in one form only, and no values whose weights are of another kind",
          directive.tensor);
    part_at(r, *n, std::move(*apart));
  }
  r.done.push_back(directive);
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Reach& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  if (!reach_all_values(r, *n))
    return fmt::format(
        "`{}` is no running extreme that sums compare with, or has an element for each value", directive.tensor);
  r.done.push_back(directive);
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Logs& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const Statement s = std::get<Statement>(r.program.nodes[*n]);
  auto told = told_by_logs(r.program, s);
  if (!told)
    return fmt::format(
        "`{}` is no sum of products over intervals, narrower than f64, whose factors are told by one index",
        directive.tensor);
  static_cast<void>(told_at(r, *n, std::move(*told)));
  r.done.push_back(directive);
  return std::nullopt;
}

Refusal apply(Rewriting& r, const directives::Factor& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const Statement s = std::get<Statement>(r.program.nodes[*n]);
  Indices summed;
  for (const std::string& name : directive.sums) {
    const auto k = index_of(s, name);
    if (!k || is_output_index(s, *k))
      return fmt::format("`{}` does not reduce over an index `{}`", directive.tensor, name);
    if (!contains(summed, *k)) summed.push_back(*k);
  }
  std::sort(summed.begin(), summed.end());
  const auto product = Reader(s).read();
  auto halves = product ? Cut(r.program, s, *product, static_cast<TensorId>(r.program.tensors.size())).at(summed, true)
                        : std::nullopt;
  if (!halves)
    return fmt::format(
        "no factor of `{}` can leave the sum over {}", directive.tensor, fmt::join(directive.sums, ", "));
  if (bytes_of(*halves) > static_cast<double>(model::largest_temporary))
    return fmt::format("the sums would take {:.0f} bytes", bytes_of(*halves));
  static_cast<void>(cut_at(r, *n, std::move(*halves)));
  r.done.push_back(directive);
  return std::nullopt;
}

}  // namespace tilec::codegen
