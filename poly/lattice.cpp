// One primitive, the column Hermite normal form with its unimodular U, and what residue classes are built from.
//
// Example: the gradient of a stride 3, dilation 2 convolution writes I[3x + 2k - 2]; k has 3 values. Stacking the
//          output map
// on the tap k gives
//
//   F = (3 2), C = (0 1)    U = [[1, -2], [-1, 3]]    [F; C] U = [1 0; -1 3]    H = (1)  G = (-1)  T = (3)
//
// so o = y and k = -y + 3z: y mod 3 decides which taps exist, and V = (3) says so. In coordinates y = y_rho + 3q the
// tap no longer mentions q: three classes with one constant tap each, 223 points, where testing every tap of every
// element costs 672.
//
// Euclid's steps let entries grow, so elimination runs in GMP; results are small and leave as 64-bit integers.
// H. Cohen, A Course in Computational Algebraic Number Theory, 2.4 (Hermite normal form, kernel, image index).
#include "poly/lattice.h"

#include <fmt/core.h>
#include <gmpxx.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <tuple>

#include "lang/diagnostic.h"
#include "poly/exact.h"

namespace tilec::poly::lattice {
namespace {

using Big = mpz_class;
using BigVector = std::vector<Big>;
using BigMatrix = std::vector<BigVector>;

struct BigHermite { BigMatrix h, u; std::vector<std::size_t> pivots; };

Big floor_div(const Big& a, const Big& b) {
  Big q;
  mpz_fdiv_q(q.get_mpz_t(), a.get_mpz_t(), b.get_mpz_t());
  return q;
}

std::int64_t fit(const Big& value) {
  if (!value.fits_slong_p())
    throw Overflow(fmt::format("a coefficient of the residue classes, {}, does not fit 64 bits", value.get_str()));
  return value.get_si();
}

BigMatrix grow(const Matrix& a) {
  BigMatrix result;
  for (const Vector& row : a) {
    result.emplace_back();
    for (const std::int64_t x : row) result.back().emplace_back(static_cast<long>(x));
  }
  return result;
}

Matrix shrink(const BigMatrix& a) {
  Matrix result;
  for (const BigVector& row : a) {
    result.emplace_back();
    for (const Big& x : row) result.back().push_back(fit(x));
  }
  return result;
}

bool fits(const BigMatrix& a) {
  return std::ranges::all_of(a, [](const BigVector& row) {
    return std::ranges::all_of(row, [](const Big& x) { return x.fits_slong_p() != 0; });
  });
}

BigMatrix identity(std::size_t n) {
  BigMatrix result(n, BigVector(n));
  for (std::size_t i = 0; i < n; ++i) result[i][i] = 1;
  return result;
}

void add_column(BigMatrix& a, std::size_t to, std::size_t from, const Big& factor) {
  for (BigVector& row : a) row[to] += factor * row[from];
}
void swap_columns(BigMatrix& a, std::size_t x, std::size_t y) {
  for (BigVector& row : a) std::swap(row[x], row[y]);
}
void negate_column(BigMatrix& a, std::size_t x) {
  for (BigVector& row : a) row[x] = -row[x];
}

// Columns from `from` on: their greatest common divisor in this row ends in one column. Which, or nullopt when all are
// zero.
std::optional<std::size_t> euclid(BigMatrix& a, BigMatrix& u, std::size_t row, std::size_t from) {
  for (;;) {
    std::optional<std::size_t> least;
    std::size_t nonzero = 0;
    for (std::size_t j = from; j < a[row].size(); ++j) {
      if (a[row][j] == 0) continue;
      ++nonzero;
      if (!least || abs(a[row][j]) < abs(a[row][*least])) least = j;
    }
    if (nonzero <= 1) return least;
    for (std::size_t j = from; j < a[row].size(); ++j) {
      if (j == *least || a[row][j] == 0) continue;
      const Big factor = -floor_div(a[row][j], a[row][*least]);
      add_column(a, j, *least, factor);
      add_column(u, j, *least, factor);
    }
  }
}

BigHermite hermite(BigMatrix a, std::size_t columns) {
  BigHermite result{{}, identity(columns), {}};
  for (std::size_t row = 0, c = 0; row < a.size() && c < columns; ++row) {
    const std::optional<std::size_t> found = euclid(a, result.u, row, c);
    if (!found) continue;
    swap_columns(a, c, *found);
    swap_columns(result.u, c, *found);
    if (a[row][c] < 0) {
      negate_column(a, c);
      negate_column(result.u, c);
    }
    for (std::size_t j = 0; j < c; ++j) {
      const Big factor = -floor_div(a[row][j], a[row][c]);
      if (factor == 0) continue;
      add_column(a, j, c, factor);
      add_column(result.u, j, c, factor);
    }
    result.pivots.push_back(row);
    ++c;
  }
  result.h = std::move(a);
  return result;
}

// The columns from `first` to `last` of every row from `top` to `bottom`.
BigMatrix part(const BigMatrix& a, std::size_t top, std::size_t bottom, std::size_t first, std::size_t last) {
  BigMatrix result;
  for (std::size_t i = top; i < bottom; ++i)
    result.emplace_back(
        a[i].begin() + static_cast<std::ptrdiff_t>(first), a[i].begin() + static_cast<std::ptrdiff_t>(last));
  return result;
}

BigMatrix kernel_of(const BigMatrix& a, std::size_t columns) {
  const BigHermite form = hermite(a, columns);
  return part(form.u, 0, columns, form.pivots.size(), columns);
}

BigMatrix product(const BigMatrix& a, const BigMatrix& b, std::size_t columns) {
  BigMatrix result;
  for (const BigVector& row : a) {
    BigVector out(columns);
    for (std::size_t l = 0; l < row.size(); ++l)
      for (std::size_t j = 0; j < columns; ++j) out[j] += row[l] * b[l][j];
    result.push_back(std::move(out));
  }
  return result;
}

// V: the period lattice { y : G y in T Z^k } as the first r rows of the kernel of [G T].
BigMatrix period(const BigMatrix& g, const BigMatrix& t, std::size_t r) {
  BigMatrix both;
  for (std::size_t i = 0; i < g.size(); ++i) {
    both.push_back(g[i]);
    both.back().insert(both.back().end(), t[i].begin(), t[i].end());
  }
  const BigMatrix basis = kernel_of(both, r + t.size());
  const std::size_t directions = basis.empty() ? 0 : basis[0].size();
  return part(hermite(part(basis, 0, r, 0, directions), directions).h, 0, r, 0, r);
}

// W = -T^-1 G V by forward substitution; exact because V's columns lie in the period lattice.
BigMatrix winding(const BigMatrix& g, const BigMatrix& t, const BigMatrix& v, std::size_t r) {
  const BigMatrix gv = product(g, v, r);
  BigMatrix w;
  for (std::size_t i = 0; i < t.size(); ++i) {
    BigVector row(r);
    for (std::size_t j = 0; j < r; ++j) {
      Big sum = -gv[i][j];
      for (std::size_t l = 0; l < i; ++l) sum -= t[i][l] * w[l][j];
      if (!mpz_divisible_p(sum.get_mpz_t(), t[i][i].get_mpz_t()))
        throw lang::InternalError("the period lattice is not one");
      row[j] = sum / t[i][i];
    }
    w.push_back(std::move(row));
  }
  return w;
}

// ---- choosing the taps

// One more tap row, eliminated fraction-free (Bareiss) by the rows before it: after k rows the last pivot is the
// determinant.
template <class T> struct Elimination {
  std::vector<std::vector<T>> rows;
  std::vector<std::size_t> pivots;
};

struct Overflow {};
__extension__ using Wide = __int128;
std::int64_t cross(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d, std::int64_t e) {  // (a·b - c·d)/e
  const Wide value = (Wide{a} * b - Wide{c} * d) / e;
  if (value > INT64_MAX || value < -INT64_MAX) throw Overflow{};
  return static_cast<std::int64_t>(value);
}
Big cross(const Big& a, const Big& b, const Big& c, const Big& d, const Big& e) { return (a * b - c * d) / e; }
double magnitude(std::int64_t x) { return std::abs(static_cast<double>(x)); }
double magnitude(const Big& x) { return std::abs(x.get_d()); }

template <class T> bool push(Elimination<T>& elimination, std::vector<T> row) {
  T previous = 1;
  for (std::size_t i = 0; i < elimination.rows.size(); ++i) {
    const std::vector<T>& by = elimination.rows[i];
    const std::size_t p = elimination.pivots[i];
    const T factor = row[p];
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = cross(by[p], row[j], factor, by[j], previous);
    previous = by[p];
  }
  const auto pivot = std::find_if(row.begin(), row.end(), [](const T& x) { return x != 0; });
  if (pivot == row.end()) return false;
  elimination.pivots.push_back(static_cast<std::size_t>(pivot - row.begin()));
  elimination.rows.push_back(std::move(row));
  return true;
}
template <class T> void pop(Elimination<T>& elimination) {
  elimination.rows.pop_back();
  elimination.pivots.pop_back();
}

struct Choice { double taps, determinant; std::vector<std::size_t> rows; };

// Every independent set S of k rows with its taps per output, estimated as ∏ R_S / |det(C_S N)|: that determinant is
// classes · [Z^k : C_S Z^n].
template <class T>
void enumerate(const std::vector<std::vector<T>>& on_kernel, const std::vector<Candidate>& candidates, std::size_t k,
    std::size_t from, double range, Elimination<T>& elimination, std::vector<std::size_t>& chosen,
    std::vector<Choice>& choices) {
  if (chosen.size() == k) {
    const double determinant = k == 0 ? 1.0 : magnitude(elimination.rows.back()[elimination.pivots.back()]);
    choices.push_back({range / determinant, determinant, chosen});
    return;
  }
  for (std::size_t s = from; s + (k - chosen.size()) <= candidates.size(); ++s) {
    if (!push(elimination, on_kernel[s])) continue;
    chosen.push_back(s);
    enumerate(on_kernel, candidates, k, s + 1,
        range * static_cast<double>(std::max<std::int64_t>(candidates[s].range, 1)), elimination, chosen, choices);
    chosen.pop_back();
    pop(elimination);
  }
}

std::vector<Choice> choices_of(const BigMatrix& on_kernel, const std::vector<Candidate>& candidates, std::size_t k) {
  std::vector<Choice> choices;
  std::vector<std::size_t> chosen;
  try {
    if (!fits(on_kernel)) throw Overflow{};
    Elimination<std::int64_t> elimination;
    enumerate(shrink(on_kernel), candidates, k, 0, 1.0, elimination, chosen, choices);
  } catch (const Overflow&) {
    choices.clear();
    chosen.clear();
    Elimination<Big> elimination;
    enumerate(on_kernel, candidates, k, 0, 1.0, elimination, chosen, choices);
  }
  return choices;
}

// At most `most` candidates: a row's direction once, the shortest ranges first (the hull rows among them bound
// everything).
std::vector<std::size_t> shortlist(const std::vector<Candidate>& candidates, std::size_t most) {
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
      [&](std::size_t a, std::size_t b) { return candidates[a].range < candidates[b].range; });
  std::vector<std::size_t> kept;
  for (const std::size_t s : order)
    if (std::none_of(kept.begin(), kept.end(),
            [&](std::size_t t) { return candidates[t].coefficients == candidates[s].coefficients; }))
      kept.push_back(s);
  // A row that names one index alone is never dropped: together these span every kernel.
  const auto single = [&](std::size_t s) {
    return std::count(candidates[s].coefficients.begin(), candidates[s].coefficients.end(), 0) + 1 ==
        static_cast<std::ptrdiff_t>(candidates[s].coefficients.size());
  };
  for (std::size_t at = kept.size(); at-- > 0 && kept.size() > most;)
    if (!single(kept[at])) kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(at));
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace

Hermite col_hnf(const Matrix& a, std::size_t columns) {
  const BigHermite form = hermite(grow(a), columns);
  return {shrink(form.h), shrink(form.u), form.pivots.size(), form.pivots};
}

std::size_t rank(const Matrix& a, std::size_t columns) { return hermite(grow(a), columns).pivots.size(); }

Matrix kernel(const Matrix& a, std::size_t columns) { return shrink(kernel_of(grow(a), columns)); }

std::int64_t index_of_image(const Matrix& a, std::size_t columns) {
  const BigHermite form = hermite(grow(a), columns);
  Big index = 1;
  for (std::size_t c = 0; c < form.pivots.size(); ++c) index *= form.h[form.pivots[c]][c];
  return fit(index);
}

Matrix multiply(const Matrix& a, const Matrix& b) {
  return shrink(product(grow(a), grow(b), b.empty() ? 0 : b[0].size()));
}

Vector apply(const Matrix& a, const Vector& x) {
  Vector result;
  for (const Vector& row : a) {
    Big sum = 0;
    for (std::size_t j = 0; j < x.size(); ++j) sum += Big(static_cast<long>(row[j])) * Big(static_cast<long>(x[j]));
    result.push_back(fit(sum));
  }
  return result;
}

std::optional<Sublattice> sublattice(const Matrix& a, const Vector& b, const Vector& d, std::size_t columns) {
  const std::size_t m = a.size(), all = columns + m;
  BigMatrix both = grow(a);
  for (std::size_t j = 0; j < m; ++j) {
    both[j].resize(all);
    both[j][columns + j] = static_cast<long>(d[j]);
  }
  const BigHermite form = hermite(std::move(both), all);
  const std::size_t r = form.pivots.size();
  BigVector w(r);                                      // [A Δ] U w = -b, pivot by pivot
  for (std::size_t row = 0, c = 0; row < m; ++row) {
    Big rest = -Big(static_cast<long>(b[row]));
    for (std::size_t x = 0; x < c; ++x) rest -= form.h[row][x] * w[x];
    if (c < r && form.pivots[c] == row) {
      if (!mpz_divisible_p(rest.get_mpz_t(), form.h[row][c].get_mpz_t())) return std::nullopt;
      w[c] = rest / form.h[row][c];
      ++c;
    } else if (rest != 0) {
      return std::nullopt;
    }
  }
  const BigMatrix directions = part(form.u, 0, columns, r, all);
  const BigMatrix l = part(hermite(directions, all - r).h, 0, columns, 0, columns);
  BigVector start(columns);
  for (std::size_t k = 0; k < columns; ++k)
    for (std::size_t c = 0; c < r; ++c) start[k] += form.u[k][c] * w[c];
  for (std::size_t c = 0; c < columns; ++c) {          // the start nearest the origin: in [0, L_cc) along each column
    const Big factor = -floor_div(start[c], l[c][c]);
    for (std::size_t k = c; k < columns; ++k) start[k] += factor * l[k][c];
  }
  return Sublattice{shrink(l), shrink({start})[0]};
}

Stacked stack(const Matrix& f, const Matrix& c, std::size_t columns) {
  BigMatrix rows = grow(f);
  for (BigVector& row : grow(c)) rows.push_back(std::move(row));
  const std::size_t m = f.size(), k = c.size();
  const BigHermite form = hermite(rows, columns);
  if (form.pivots.size() != columns || k > columns) throw lang::InternalError("the taps do not bound every direction");
  const std::size_t r = columns - k;
  const BigMatrix h = part(form.h, 0, m, 0, r), g = part(form.h, m, m + k, 0, r),
                  t = part(form.h, m, m + k, r, columns);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = r; j < columns; ++j)
      if (form.h[i][j] != 0) throw lang::InternalError("a tap direction moves the output");
  const BigMatrix v = r == 0 || k == 0 ? identity(r) : period(g, t, r);
  const BigMatrix w = winding(g, t, v, r);
  BigMatrix block(columns, BigVector(columns));
  Big classes = 1;
  for (std::size_t i = 0; i < r; ++i) {
    std::copy(v[i].begin(), v[i].end(), block[i].begin());
    classes *= v[i][i];
  }
  for (std::size_t i = 0; i < k; ++i) {
    std::copy(w[i].begin(), w[i].end(), block[r + i].begin());
    block[r + i][r + i] = 1;
  }
  const BigMatrix b = product(form.u, block, columns);
  if (!classes.fits_slong_p() || !fits(v) || !fits(w) || !fits(b))
    return {shrink(form.u), shrink(h), shrink(g), shrink(t), {}, {}, {}, r, k, INT64_MAX};
  return {shrink(form.u), shrink(h), shrink(g), shrink(t), shrink(v), shrink(w), shrink(b), r, k, fit(classes)};
}

std::optional<std::vector<std::size_t>> choose_taps(
    const Matrix& f, const std::vector<Candidate>& candidates, std::size_t columns) {
  const BigMatrix n = kernel_of(grow(f), columns);
  const std::size_t k = n.empty() ? 0 : n[0].size();
  const std::vector<std::size_t> kept = shortlist(candidates, 14);
  std::vector<Candidate> rows;
  Matrix coefficients;
  for (const std::size_t s : kept) {
    rows.push_back(candidates[s]);
    coefficients.push_back(candidates[s].coefficients);
  }
  std::vector<Choice> choices = choices_of(product(grow(coefficients), n, k), rows, k);
  if (choices.empty()) return std::nullopt;
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) { return a.taps < b.taps; });
  const double most = choices.front().taps * 1.1 + 1e-9;
  std::optional<std::tuple<double, double, std::size_t>> best;               // classes, taps, position
  for (std::size_t c = 0; c < choices.size() && c < 48 && choices[c].taps <= most; ++c) {
    Matrix chosen;
    for (const std::size_t s : choices[c].rows) chosen.push_back(rows[s].coefficients);
    const double classes = k == 0 ? 1.0 : choices[c].determinant / static_cast<double>(index_of_image(chosen, columns));
    const std::tuple<double, double, std::size_t> here{classes, choices[c].taps, c};
    if (!best || here < *best) best = here;
  }
  std::vector<std::size_t> result;
  for (const std::size_t s : choices[std::get<2>(*best)].rows) result.push_back(kept[s]);
  return result;
}

}  // namespace tilec::poly::lattice
