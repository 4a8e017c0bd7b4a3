// Gather, Scatter and Sort, element by element. An index that rounding may move reaches every row it may name: a
// gathered element is then off by the largest difference among them, and each of them may gain or lose a scattered
// term. A key that may change places with another leaves its position unknown.
#include "poly/interpret_intrinsic.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "poly/evaluate.h"

namespace tilec::poly {

namespace {

std::size_t count(const std::vector<Size>& shape) {
  std::vector<std::int64_t> extents;
  for (const auto& size : shape) extents.push_back(size.get());
  return static_cast<std::size_t>(product(extents));
}

void allocate(Stored& tensor) {
  const auto elements = static_cast<std::size_t>(tensor.array.count());
  tensor.errors.assign(elements, 0);
  (lang::is_float(tensor.array.dtype) ? tensor.array.reals.assign(elements, 0)
                                      : tensor.array.integers.assign(elements, 0));
}

void reshape(const Stored& from, Stored& to) {
  if (from.array.count() != to.array.count())
    throw lang::InternalError(fmt::format("reshape makes {} elements of {}", to.array.count(), from.array.count()));
  to.array.reals = from.array.reals;
  to.array.integers = from.array.integers;
  to.errors = from.errors;
}

// An index brought into [0, extent), and the range that its error leaves.
struct Row { std::size_t at, low, high; };
Row row_of(const Stored& indices, std::size_t at, std::size_t extent) {
  const auto value = load(indices, at);
  const auto last = static_cast<std::int64_t>(extent) - 1;
  const bool huge = indices.array.dtype == DType::U64 && value.integer < 0;
  const auto row = static_cast<std::size_t>(huge ? last : std::clamp<std::int64_t>(value.integer, 0, last));
  if (value.error == 0) return {row, row, row};
  const double seen = as_real(indices.array.dtype, value), end = static_cast<double>(last);
  const auto bound = [&](double x) {
    return static_cast<std::size_t>(std::isnan(x) ? 0 : std::clamp(std::round(x), 0.0, end));
  };
  if (std::isinf(value.error)) return {row, 0, static_cast<std::size_t>(last)};
  return {row, std::min(row, bound(seen - value.error)), std::max(row, bound(seen + value.error))};
}

void gather(const Groups& groups, const Stored& data, const Stored& indices, Stored& target) {
  const auto batches = count(groups.batch), terms = count(groups.index), rest = count(groups.rest),
             extent = static_cast<std::size_t>(groups.extent.get());
  const auto type = data.array.dtype;
  if (extent == 0) return;
  for (std::size_t b = 0; b < batches; ++b)
    for (std::size_t j = 0; j < terms; ++j) {
      const auto row = row_of(indices, b * terms + j, extent);
      for (std::size_t r = 0; r < rest; ++r) {
        auto value = load(data, (b * extent + row.at) * rest + r);
        const double exact = as_real(type, value);
        for (auto v = row.low; row.low != row.high && v <= row.high; ++v) {
          const auto other = load(data, (b * extent + v) * rest + r);
          value.error = std::max(value.error, distance(as_real(type, other), exact) + other.error);
        }
        store(target, (b * terms + j) * rest + r, value);
      }
    }
}

void scatter(const Groups& groups, const Stored& terms, const Stored& indices, Stored& target) {
  const auto batches = count(groups.batch), many = count(groups.index), rest = count(groups.rest),
             extent = static_cast<std::size_t>(groups.extent.get());
  const auto type = terms.array.dtype, sum = lang::accumulator(type);
  std::vector<Fold> folds(target.errors.size());
  for (std::size_t b = 0; b < batches && extent > 0; ++b)
    for (std::size_t j = 0; j < many; ++j) {
      const auto row = row_of(indices, b * many + j, extent);
      for (std::size_t r = 0; r < rest; ++r) {
        const auto term = cast(type, sum, load(terms, (b * many + j) * rest + r));
        fold(Aggregation::Sum, sum, folds[(b * extent + row.at) * rest + r], term);
        const double apart = distance(as_real(sum, term), 0) + term.error;
        for (auto v = row.low; row.low != row.high && v <= row.high; ++v)
          folds[(b * extent + v) * rest + r].value.error += apart;
      }
    }
  for (std::size_t k = 0; k < folds.size(); ++k) {
    const double uncertain = folds[k].value.error;
    if (folds[k].count > 0) store(target, k, finished(Aggregation::Sum, sum, target.array.dtype, folds[k]));
    else target.errors[k] = uncertain;
  }
}

// Where one key ends and the next may begin.
struct Key { double low, high; bool certain; };
Key key_of(const Stored& keys, std::size_t at) {
  const auto value = load(keys, at);
  double x = as_real(keys.array.dtype, value);
  if (std::isnan(x)) x = infinity;
  const double low = x - value.error, high = x + value.error;
  return {std::isnan(low) ? -infinity : low, std::isnan(high) ? infinity : high, value.error == 0};
}

// Errors of the sorted positions: unbounded where the errors of the keys leave open which of two comes first.
void uncertain_places(
    const Stored& keys, std::size_t first, const std::vector<std::int64_t>& order, bool descending, Stored& target) {
  std::vector<Key> sorted;
  for (const auto k : order) sorted.push_back(key_of(keys, first + static_cast<std::size_t>(k)));
  if (std::all_of(sorted.begin(), sorted.end(), [](const Key& k) { return k.certain; })) return;
  if (descending) for (auto& key : sorted) key = {-key.high, -key.low, key.certain};
  const auto sweep = [&](bool forward) {
    double reached = -infinity, reached_uncertain = -infinity;  // by any key so far; by those with an error
    bool any = false, any_uncertain = false;
    for (std::size_t n = 0; n < sorted.size(); ++n) {
      const auto at = forward ? n : sorted.size() - 1 - n;
      const Key& key = sorted[at];
      const double begin = forward ? key.low : -key.high, end = forward ? key.high : -key.low;
      if (key.certain ? any_uncertain && reached_uncertain >= begin : any && reached >= begin)
        target.errors[first + at] = infinity;
      reached = std::max(reached, end), any = true;
      if (!key.certain) reached_uncertain = std::max(reached_uncertain, end), any_uncertain = true;
    }
  };
  sweep(true);
  sweep(false);
}

void sort(const Groups& groups, bool descending, const Stored& keys, Stored& target) {
  const auto rows = count(groups.batch), length = static_cast<std::size_t>(groups.extent.get());
  const auto type = keys.array.dtype;
  const bool real = lang::is_float(type);
  std::vector<std::int64_t> order(length);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto first = row * length;
    const auto smaller = [&](std::int64_t i, std::int64_t j) {
      const auto x = load(keys, first + static_cast<std::size_t>(i)),
                 y = load(keys, first + static_cast<std::size_t>(j));
      if (!real) return compare_integers(Op::Lt, type, x.integer, y.integer);
      return std::isnan(y.real) ? !std::isnan(x.real) : x.real < y.real;
    };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
        [&](std::int64_t i, std::int64_t j) { return descending ? smaller(j, i) : smaller(i, j); });
    std::copy(order.begin(), order.end(), target.array.integers.begin() + static_cast<std::ptrdiff_t>(first));
    uncertain_places(keys, first, order, descending, target);
  }
}

}  // namespace

void run(const Intrinsic& intrinsic, const Groups& groups, const std::vector<const Stored*>& operands, Stored& target) {
  allocate(target);
  switch (intrinsic.op) {
    case IntrinsicOp::Reshape: return reshape(*operands.at(0), target);
    case IntrinsicOp::Gather: return gather(groups, *operands.at(0), *operands.at(1), target);
    case IntrinsicOp::Scatter: return scatter(groups, *operands.at(0), *operands.at(1), target);
    case IntrinsicOp::Sort: return sort(groups, !intrinsic.parameters.at(0).is(0), *operands.at(0), target);
  }
}

}  // namespace tilec::poly
