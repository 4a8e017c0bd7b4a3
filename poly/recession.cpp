// The recession cone of a domain.
//
// Far out, only the directions of the rows matter: a two-sided row 0 <= c·i + e < R stays satisfied along a direction d
// when c·d = 0, a one-sided one when c·d >= 0. Index k escapes upwards when some such d has d_k > 0. For
//
//   0 <= i < N,  0 <= i - k     d_i = 0,  d_i - d_k >= 0   ⇒   d_k <= 0: k can fall for ever, not rise
//
// Counting rows or asking "does the index occur in a two-sided row" fails both ways: 0 <= i + k < N mentions both and
// bounds neither; 0 <= i + k < N with 0 <= i - k < N bounds both. So: eliminate the equations (Gauss), then every
// direction but d_k (Fourier and Motzkin); what remains are rows a·d_k >= 0. Systems have a handful of indices. Where
// the elimination would grow out of proportion the index counts as bounded, because `bounds` decides again, exactly, on
// numbers. Entries are 64 bits; a system in which one does not fit is done again in GMP, so that a large coefficient is
// not taken for a missing row.
#include "poly/recession.h"

#include <gmpxx.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace tilec::poly {
namespace {

using Big = mpz_class;
template <class T> using Vector = std::vector<T>;
template <class T> struct Cone { std::vector<Vector<T>> zero, nonnegative; };
struct TooLarge {};                                    // an entry does not fit its type

constexpr std::size_t row_limit = 512;

// Names in general position: different numbers without small common factors.
std::map<std::string, std::int64_t> generic_values(const std::set<std::string>& names) {
  constexpr std::array<std::int64_t, 8> primes{7919, 6997, 5003, 4001, 8887, 9973, 3499, 2503};
  std::map<std::string, std::int64_t> values;
  std::size_t k = 0;
  for (const auto& name : names) {
    values[name] = primes[k % primes.size()] + 2 * static_cast<std::int64_t>(k / primes.size());
    ++k;
  }
  return values;
}

std::optional<Vector<std::int64_t>> numbers_of(const Range& row) {
  Vector<std::int64_t> result;
  for (const auto& coefficient : row.value.coefficients) {
    try {
      const auto value = coefficient.substitute(generic_values(coefficient.names())).value();
      if (!value) return std::nullopt;
      result.push_back(*value == 0 && !coefficient.value() ? 1 : *value);  // not 0 in general
    } catch (const SizeError&) {
      return std::nullopt;
    }
  }
  return result;
}

// p·a + q·b.
std::int64_t sum_of(std::int64_t p, std::int64_t a, std::int64_t q, std::int64_t b) {
  std::int64_t left, right, sum;
  if (__builtin_mul_overflow(p, a, &left) || __builtin_mul_overflow(q, b, &right) ||
      __builtin_add_overflow(left, right, &sum))
    throw TooLarge{};
  if (sum == INT64_MIN) throw TooLarge{};              // what has no negative
  return sum;
}
Big sum_of(const Big& p, const Big& a, const Big& q, const Big& b) { return p * a + q * b; }
std::int64_t common(std::int64_t a, std::int64_t b) { return std::gcd(a, b); }
Big common(const Big& a, const Big& b) { return gcd(a, b); }

// p·a + q·b, shortened.
template <class T> Vector<T> combined(const Vector<T>& a, const T& p, const Vector<T>& b, const T& q) {
  Vector<T> sum(a.size());
  T shared = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    sum[k] = sum_of(p, a[k], q, b[k]);
    shared = common(shared, sum[k]);
  }
  if (shared > 1)
    for (auto& entry : sum) entry /= shared;
  return sum;
}

template <class T>
bool is_zero(const Vector<T>& row) {
  return std::all_of(row.begin(), row.end(), [](const T& x) { return x == 0; });
}

// `row` without variable v, using `pivot` with pivot[v] != 0; the sign of `row` is kept.
template <class T> Vector<T> without(const Vector<T>& row, const Vector<T>& pivot, std::size_t v) {
  const T sign = pivot[v] < 0 ? -1 : 1;
  return row[v] == 0 ? row : combined<T>(row, sign * pivot[v], pivot, -sign * row[v]);
}

template <class T> void eliminate_equation(Cone<T>& cone, std::size_t kept) {
  const Vector<T> pivot = cone.zero.back();
  cone.zero.pop_back();
  std::size_t v = kept;
  for (std::size_t k = 0; k < pivot.size(); ++k)
    if (k != kept && pivot[k] != 0) v = k;
  if (pivot[v] == 0) return;                           // 0 = 0
  for (auto* rows : {&cone.zero, &cone.nonnegative})
    for (auto& row : *rows) row = without(row, pivot, v);
  if (v == kept) cone.nonnegative.insert(cone.nonnegative.end(), {pivot, combined<T>(pivot, -1, pivot, 0)});  // d_k = 0
}

// False where the rows become too many.
template <class T> bool eliminate_variable(Cone<T>& cone, std::size_t v) {
  std::vector<Vector<T>> rest, above, below;
  for (const auto& row : cone.nonnegative) (row[v] == 0 ? rest : row[v] > 0 ? above : below).push_back(row);
  std::set<Vector<T>> kept(rest.begin(), rest.end());
  for (const auto& a : above)
    for (const auto& b : below) {
      const auto row = combined<T>(a, -b[v], b, a[v]);
      if (!is_zero(row)) kept.insert(row);
      if (kept.size() > row_limit) return false;
    }
  cone.nonnegative.assign(kept.begin(), kept.end());
  return true;
}

template <class T> Escape escape_of(Cone<T> cone, std::size_t kept, std::size_t indices) {
  while (!cone.zero.empty()) eliminate_equation(cone, kept);
  for (std::size_t v = 0; v < indices; ++v)
    if (v != kept && !eliminate_variable(cone, v)) return {};
  Escape escape{true, true};
  for (const auto& row : cone.nonnegative) {
    if (row[kept] > 0) escape.down = false;
    if (row[kept] < 0) escape.up = false;
  }
  return escape;
}

Cone<Big> in_full(const Cone<std::int64_t>& cone) {
  Cone<Big> result;
  const auto copy = [](const std::vector<Vector<std::int64_t>>& from, std::vector<Vector<Big>>& to) {
    for (const auto& row : from) to.emplace_back(row.begin(), row.end());
  };
  copy(cone.zero, result.zero);
  copy(cone.nonnegative, result.nonnegative);
  return result;
}

}  // namespace

std::vector<Escape> escapes(const std::vector<Range>& domain, std::size_t indices) {
  Cone<std::int64_t> cone;
  std::vector<Escape> result;
  for (const auto& row : domain) {
    const auto numbers = numbers_of(row);
    if (!numbers) return std::vector<Escape>(indices);
    if (!is_zero(*numbers)) (row.extent ? cone.zero : cone.nonnegative).push_back(*numbers);
  }
  const auto has_no_negative = [](const Vector<std::int64_t>& row) { return std::ranges::count(row, INT64_MIN) > 0; };
  for (std::size_t k = 0; k < indices; ++k) {
    try {
      if (std::ranges::any_of(cone.zero, has_no_negative) || std::ranges::any_of(cone.nonnegative, has_no_negative))
        throw TooLarge{};
      result.push_back(escape_of(cone, k, indices));
    } catch (const TooLarge&) {
      result.push_back(escape_of(in_full(cone), k, indices));
    }
  }
  return result;
}

}  // namespace tilec::poly
