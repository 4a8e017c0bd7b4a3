// Partial results: a triangular contraction whose value does not depend on the output index that cuts the triangle.
//
//   Y[r, j] = +(X[r, k]), k <= j      ⇒   a running sum: n additions a row instead of n²/2
//
// Also k < j, k >= j + 3, 2*k <= 3*j + 1, 7 - j - k >= 0: after counting both indices from the end where that is
// needed, element j folds the first ⌊(p·j + c)/q⌋ + 1 values of k, with p, q > 0; so each element goes on where the one
// before stopped. A product of all values but one is taken for a scan too: it costs a division for each element instead
// of n² multiplications.
//
//   Y[r, j] = *(j == k ? C[r, j] : X[r, k])           n values in both dimensions, C or an expression without k, X one
//                                                     without j
//
// And a sum whose value depends on j by a decay (decay.h): partial results are multiplied from one element to the next.
//
//   Y[r, j] = +(exp(L[j] - L[k]) * X[r, k]), k <= j
//
// Not a scan: any other value that reads or mentions j, a window (two rows between j and k: window.h), further rows
// between j or k and a reduction.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/decay.h"
#include "codegen/nest.h"
#include "codegen/rewrite/rewriting.h"
#include "poly/program.h"

namespace tilec::codegen {

struct Scan {
  std::size_t along, over;                             // output dimension j and reduction k
  bool along_down, over_down;                          // counted from the end
  std::int64_t p, q, c;                                // k <= ⌊(p·j + c)/q⌋, both counted so
  bool further = false;                                // other reductions, which no row mentions
  bool all_but_one = false;                            // the product of all values but the j-th: no triangle
  bool decays = false;                                 // the value is a Decay
  bool steady() const { return p == 1 && q == 1; }     // one more value for each element
};

std::optional<Scan> scan_of(const poly::Statement& statement);  // bound
std::optional<Scan> scan_of(const Nest& nest);
Decay decay_of(const Nest& nest, const Scan& scan);    // of one that decays
// A triangle that is a scan but for the last values of each element: the row that cuts it, and how many values these
// are.
//   +((j - k - 3) * X[k]), k <= j      3: distances below 3 are of another sign
//   +(pow(A, j - k) * X[k]), k <= j + 2      2: powers of distances below 0 do not go on from one another
struct LastValues { std::size_t row; std::int64_t count; };
std::optional<LastValues> values_apart(const poly::Statement& statement);
// A form of the scanned dimensions alone that grows with the distance between them.
std::optional<Line> line_of(const Form& form, const Scan& scan, const std::vector<Dim>& dims);

// 0 <= form over the statement's indices counted from 0, which some points of the box do not satisfy.
std::vector<Form> halves_of(const poly::Statement& statement);
poly::Expr combined(Aggregation how, const poly::Expr& a, const poly::Expr& b);  // two partial results

// Rewrites scans for speed, and windows (window.h) as scans.
//   further reductions first        Y[j] = +(A[k, d]), k <= j       ⇒  T[k] = +(A[k, d]); Y[j] = +(T[k]), k <= j
//   few long ones in two passes     Y[j] = +(X[k]), k <= j  ⇒  S[s] = +(X[64*s + t]); P[s] = +(S[b]), b <= s - 1;
//                                                                      Y[64*s + t] = +(u == 0 ? P[s] + X[64*s + u] :
//                                                                      X[64*s + u]), u <= t
// Blocks depend on shapes alone: the same sums for any number of threads.
void split_scans(Rewriting& r);

}  // namespace tilec::codegen
