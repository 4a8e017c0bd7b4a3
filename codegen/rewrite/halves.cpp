#include "codegen/rewrite/halves.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/restate.h"
#include "codegen/rewrite/projection.h"
#include "codegen/scan.h"
#include "poly/canonical.h"
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
using Role = ProductFactor::Role;

bool contains(const Indices& all, std::size_t k) { return std::find(all.begin(), all.end(), k) != all.end(); }
bool mentions_any(const Affine& e, const Indices& indices) {
  return std::any_of(indices.begin(), indices.end(), [&](std::size_t k) { return mentions(e, k); });
}

// Dimensions as those of the largest operand, an index that only a row brings in the place of the one it bounds. Of
// equal sums they are the same, in whichever order each reads its operands.
Indices dimensions(
    const Program& program, const Statement& inner, const Indices& summed, const std::vector<bool>& kept) {
  std::vector<const Access*> reads;
  for (const Access& read : inner.reads) reads.push_back(&read);
  std::ranges::stable_sort(reads, std::less<>(), [&](const Access* read) {
    return std::pair(-elements(program, read->tensor), read->tensor);
  });
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

// Also one that is NaN where it is not finite.
bool is_read(const Expr& e) {
  const Expr& below = poly::below_casts(e);
  const auto* asked = below.as<poly::Apply>();
  return asked && asked->op == Op::Select ? asked->operands[2].as<poly::Number>() && is_read(asked->operands[1])
                                          : below.as<poly::Read>() != nullptr;
}

class Cutting {
 public:
  // `id`: the tensor that the first temporary will be.
  Cutting(const Program& program, const Statement& s, const FactoredProduct& product, TensorId id)
      : program_(program), s_(s), product_(product), id_(id) {}

  std::optional<Halves> at(const Indices& summed, WorthHalves worth) {
    inside_.clear(), in_.clear(), out_.clear(), orders_.clear();
    for (const ProductFactor& f : product_.factors) {
      inside_.push_back(std::any_of(summed.begin(), summed.end(), [&](std::size_t k) { return f.mentions[k]; }));
      (inside_.back() ? in_ : out_).push_back(f);
    }
    const std::vector<bool> used = mentioned(in_, summed);
    const bool divides = worth.quotients && spares_quotients(summed);
    const bool all_in =
        std::all_of(out_.begin(), out_.end(), [](const ProductFactor& f) { return f.value.as<poly::Number>(); });
    if (in_.empty() || (all_in && is_all(summed) && !divides)) return std::nullopt;
    const auto left = projected(summed);
    if (!left) return std::nullopt;
    type_ = type_of_sums(product_, inside_, in_, s_.value.type());
    const bool divided =
        std::any_of(out_.begin(), out_.end(), [](const ProductFactor& f) { return f.role == Role::Over; });
    // quotients may stay in range where what is divided does not
    if (type_ == DType::F32 && (worth.wide || divides || (divided && !keeps_range(in_)))) type_ = DType::F64;
    const bool is_whole = std::all_of(used.begin(), used.end(), [](bool u) { return u; });
    std::vector<HalfSum> parts;
    parts.push_back(inner(summed, used, in_, type_, 0));
    if (worth.reciprocals && divides && is_whole && s_.value.type() == DType::F32 && !decays(parts[0].statement) &&
        !is_matrix_product(parts[0].statement)) {
      Statement multiplied = s_;
      multiplied.value = times_reciprocals(s_, summed);
      return Halves{{}, std::move(multiplied)};
    }
    const bool as_many = is_whole && !divides && !decays(parts[0].statement);
    // what leaves all sums is a factor of each element, which a product takes along
    if (as_many && !worth.others && (s_.reads.size() < 3 || is_all(summed) || !is_matrix_product(parts[0].statement)))
      return std::nullopt;
    std::vector<ProductFactor> conditions = conditions_of(in_);
    std::optional<FiniteGuard> guard;
    if (const auto all = all_finite(out_, !conditions.empty());
        all && product_.op == Op::Mul && lang::is_float(type_))
      guard = FiniteGuard{*all};
    if (guard && !conditions.empty()) {
      parts.push_back(inner(summed, mentioned(conditions, summed), conditions, DType::I32, 1));
      guard->reached = poly::Read{static_cast<int>(s_.reads.size()) + 1, DType::I32};
    }
    return Halves{std::move(parts), outer(summed, *left, guard), as_many};
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
    if (std::any_of(product_.factors.begin(), product_.factors.end(),
            [](const ProductFactor& f) { return f.role == Role::When; }))
      return false;
    return std::any_of(
        out_.begin(), out_.end(), [](const ProductFactor& f) { return f.role == Role::Over && !is_zero(f.value); });
  }

  std::vector<bool> mentioned(const std::vector<ProductFactor>& factors, const Indices& summed) const {
    std::vector<bool> used(s_.indices.size(), false);
    for (const ProductFactor& f : factors)
      for (std::size_t k = 0; k < used.size(); ++k) used[k] = used[k] || f.mentions[k];
    for (const std::size_t k : summed) used[k] = true;
    return used;
  }

  static std::vector<ProductFactor> conditions_of(const std::vector<ProductFactor>& factors) {
    std::vector<ProductFactor> conditions;
    std::copy_if(factors.begin(), factors.end(), std::back_inserter(conditions),
        [](const ProductFactor& f) { return f.role == Role::When; });
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
  HalfSum inner(const Indices& summed, std::vector<bool> kept, const std::vector<ProductFactor>& factors, DType type,
      std::size_t n) {
    Statement part = s_;
    const bool is_wider = type != s_.value.type();
    part.value = joined(product_, is_wider ? alike(s_, factors) : factors, type);
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
    poly::Tensor temporary{n == 0 ? "_sums" : "_reached", type, {}, s_.span};
    for (std::size_t d = 0; d < order.size(); ++d) temporary.shape.push_back(*f.hull[d].extent);
    return {std::move(seen), std::move(temporary)};
  }

  Statement outer(const Indices& summed, std::vector<poly::Range> rows, const std::optional<FiniteGuard>& guard) {
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
    // several factors are asked one by one: they may leave further sums
    const bool each = guard && !guard->reached && out_.size() > 1;
    std::vector<ProductFactor> factors = each ? each_finite(out_, type_) : out_;
    const ProductFactor inner{Role::Times, poly::Read{static_cast<int>(s_.reads.size()), type_}, {}};
    // In the place of the first factor that it stands for.
    const auto first = static_cast<std::size_t>(std::find(inside_.begin(), inside_.end(), true) - inside_.begin());
    factors.insert(factors.begin() + static_cast<std::ptrdiff_t>(first), inner);
    rest.value = in_type(joined(product_, factors, type_, each ? std::nullopt : guard), s_.value.type());
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
  const FactoredProduct& product_;
  TensorId id_;
  std::vector<bool> inside_;                           // per factor
  std::vector<ProductFactor> in_, out_;
  std::vector<Indices> orders_;                        // the temporaries' dimensions
  DType type_ = DType::F32;
};

}  // namespace

bool is_matrix_product(const Statement& s) {
  const auto* product = s.value.as<poly::Apply>();
  if (s.aggregation != poly::Aggregation::Sum || s.reads.size() != 2 || !product || product->op != lang::Op::Mul ||
      !std::ranges::all_of(product->operands, is_read))
    return false;
  bool rows = false, columns = false, summed = false;
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    if (extent(s, k) < model::least_side_of_product) continue;
    const auto in = [&](const Access& read) {
      return std::ranges::any_of(read.element, [&](const Affine& e) { return mentions(e, k); });
    };
    const bool a = in(s.reads[0]), b = in(s.reads[1]), out = is_output_index(s, k);
    rows = rows || (out && a && !b), columns = columns || (out && b && !a), summed = summed || (!out && a && b);
  }
  return rows && columns && summed;
}

std::optional<Halves> halves_of_sum(const Program& program, const Statement& s, const FactoredProduct& product,
    TensorId id, const Indices& summed, WorthHalves worth) {
  return Cutting(program, s, product, id).at(summed, worth);
}

std::string form_of(const Program& program, const Statement& s) {
  std::vector<TensorId> same(program.tensors.size());
  std::iota(same.begin(), same.end(), 0);
  return poly::canonical(program, s, same);
}

double bytes_of(const Halves& halves) {
  double all = 0;
  for (const HalfSum& part : halves.inner) {
    double bytes = lang::bytes(part.temporary.dtype);
    for (const poly::Size& size : part.temporary.shape) bytes *= static_cast<double>(size.get());
    all += bytes;
  }
  return all;
}

}  // namespace tilec::codegen
