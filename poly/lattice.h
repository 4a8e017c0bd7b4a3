// Integer lattices: the column Hermite normal form and what follows from it. Exact (GMP inside), plain data outside;
// a result that does not fit 64 bits throws Overflow. With coefficients of at most 8, four dimensions and six indices,
// entries stay below 6,000.
//
//   F = (3 2)    ⇒    H = (1 0),  U = [[1, -2], [-1, 3]],  F U = H
//
// Matrices are rows of columns; a matrix without rows needs its number of columns beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tilec::poly::lattice {

using Vector = std::vector<std::int64_t>;
using Matrix = std::vector<Vector>;

// A U = H: H column echelon with positive pivots, entries left of a pivot reduced into [0, pivot); U unimodular.
// pivots[c]: the row where column c starts
struct Hermite { Matrix h, u; std::size_t rank; std::vector<std::size_t> pivots; };
Hermite col_hnf(const Matrix& a, std::size_t columns);
std::size_t rank(const Matrix& a, std::size_t columns);
Matrix kernel(const Matrix& a, std::size_t columns);   // columns × (columns - rank): a basis of { i : A i = 0 } over
                                                       // the integers
std::int64_t index_of_image(const Matrix& a, std::size_t columns);  // [Z^rows : A Z^columns] for full row rank
Matrix multiply(const Matrix& a, const Matrix& b);
Vector apply(const Matrix& a, const Vector& x);

// Step 0. All i with (A i + b)_j divisible by d_j: i = L t + start, t integer; nullopt if there is none. L is lower
// triangular.
struct Sublattice { Matrix l; Vector start; };
std::optional<Sublattice> sublattice(const Matrix& a, const Vector& b, const Vector& d, std::size_t columns);

// Steps 1 and 2. The output map F stacked on the tap rows C, both over `columns` indices:
//   [F; C] U = [H 0; G T]     M = { y : G y in T Z^k } = V Z^r     W = -T^-1 G V     B = U [V 0; W I]
// i = U (y_rho; 0) + B (q; z) for 0 <= y_rho < diag V meets every integer point once; classes = det V. Where a number
// of V, W or B leaves 64 bits all three are empty and the classes INT64_MAX: nobody enumerates so many.
struct Stacked { Matrix u, h, g, t, v, w, b; std::size_t outputs, taps; std::int64_t classes; };
Stacked stack(const Matrix& f, const Matrix& c, std::size_t columns);

// A candidate for the taps, 0 <= coefficients·i + constant < range.
struct Candidate { Vector coefficients; std::int64_t range, constant = 0; };
// Which candidates become the taps: the fewest classes within a tenth of the fewest taps per output. nullopt when the
// candidates do not span the kernel of F.
std::optional<std::vector<std::size_t>> choose_taps(
    const Matrix& f, const std::vector<Candidate>& candidates, std::size_t columns);

}  // namespace tilec::poly::lattice
