// The recession cone of a domain.
//
// Far out, only the directions of the rows matter: a two-sided row 0 <= c·i + e < R stays satisfied along a direction d when
// c·d = 0, a one-sided one when c·d >= 0. Index k escapes upwards when some such d has d_k > 0. For
//
//   0 <= i < N,  0 <= i - k     d_i = 0,  d_i - d_k >= 0   ⇒   d_k <= 0: k can fall for ever, not rise
//
// Counting rows or asking "does the index occur in a two-sided row" fails both ways: 0 <= i + k < N mentions both and bounds
// neither; 0 <= i + k < N with 0 <= i - k < N bounds both. So: eliminate the equations (Gauss), then every direction
// but d_k (Fourier and Motzkin); what remains are rows a·d_k >= 0. Systems have a handful of indices. Where the elimination
// would grow out of proportion the index counts as bounded, because `bounds` decides again, exactly, on numbers.
#include "poly/recession.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace tilec::poly {
namespace {

using Vector = std::vector<std::int64_t>;
struct Cone { std::vector<Vector> zero, nonnegative; };

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

std::optional<Vector> numbers_of(const Range& row) {
  Vector result;
  for (const auto& coefficient : row.value.coefficients) {
    try {
      const auto value = coefficient.substitute(generic_values(coefficient.names())).value();
      if (!value) return std::nullopt;
      if (*value == INT64_MIN) return std::nullopt;    // what has no negative
      result.push_back(*value == 0 && !coefficient.value() ? 1 : *value);  // not 0 in general
    } catch (const SizeError&) {
      return std::nullopt;
    }
  }
  return result;
}

// p·a + q·b, shortened; nullopt when it does not fit.
std::optional<Vector> combined(const Vector& a, std::int64_t p, const Vector& b, std::int64_t q) {
  Vector sum(a.size());
  std::int64_t shared = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    std::int64_t left, right;
    if (__builtin_mul_overflow(a[k], p, &left) || __builtin_mul_overflow(b[k], q, &right) || __builtin_add_overflow(left, right, &sum[k])) return std::nullopt;
    if (sum[k] == INT64_MIN) return std::nullopt;      // what has no negative
    shared = std::gcd(shared, sum[k]);
  }
  if (shared > 1)
    for (auto& entry : sum) entry /= shared;
  return sum;
}

bool is_zero(const Vector& row) { return std::all_of(row.begin(), row.end(), [](std::int64_t x) { return x == 0; }); }

// `row` without variable v, using `pivot` with pivot[v] != 0; the sign of `row` is kept.
std::optional<Vector> without(const Vector& row, const Vector& pivot, std::size_t v) {
  const std::int64_t sign = pivot[v] < 0 ? -1 : 1;
  return row[v] == 0 ? row : combined(row, sign * pivot[v], pivot, -sign * row[v]);
}

bool eliminate_equation(Cone& cone, std::size_t kept) {
  const Vector pivot = cone.zero.back();
  cone.zero.pop_back();
  std::size_t v = kept;
  for (std::size_t k = 0; k < pivot.size(); ++k)
    if (k != kept && pivot[k] != 0) v = k;
  if (pivot[v] == 0) return true;                      // 0 = 0
  for (auto* rows : {&cone.zero, &cone.nonnegative})
    for (auto& row : *rows) {
      const auto next = without(row, pivot, v);
      if (!next) return false;
      row = *next;
    }
  if (v == kept) cone.nonnegative.insert(cone.nonnegative.end(), {pivot, *combined(pivot, -1, pivot, 0)});  // d_k = 0
  return true;
}

bool eliminate_variable(Cone& cone, std::size_t v) {
  std::vector<Vector> rest, above, below;
  for (const auto& row : cone.nonnegative) (row[v] == 0 ? rest : row[v] > 0 ? above : below).push_back(row);
  std::set<Vector> kept(rest.begin(), rest.end());
  for (const auto& a : above)
    for (const auto& b : below) {
      const auto row = combined(a, -b[v], b, a[v]);
      if (!row) return false;
      if (!is_zero(*row)) kept.insert(*row);
      if (kept.size() > row_limit) return false;
    }
  cone.nonnegative.assign(kept.begin(), kept.end());
  return true;
}

Escape escape_of(Cone cone, std::size_t kept, std::size_t indices) {
  while (!cone.zero.empty())
    if (!eliminate_equation(cone, kept)) return {};
  for (std::size_t v = 0; v < indices; ++v)
    if (v != kept && !eliminate_variable(cone, v)) return {};
  Escape escape{true, true};
  for (const auto& row : cone.nonnegative) {
    if (row[kept] > 0) escape.down = false;
    if (row[kept] < 0) escape.up = false;
  }
  return escape;
}

}  // namespace

std::vector<Escape> escapes(const std::vector<Range>& domain, std::size_t indices) {
  Cone cone;
  std::vector<Escape> result;
  for (const auto& row : domain) {
    const auto numbers = numbers_of(row);
    if (!numbers) return std::vector<Escape>(indices);
    if (!is_zero(*numbers)) (row.extent ? cone.zero : cone.nonnegative).push_back(*numbers);
  }
  for (std::size_t k = 0; k < indices; ++k) result.push_back(escape_of(cone, k, indices));
  return result;
}

}  // namespace tilec::poly
