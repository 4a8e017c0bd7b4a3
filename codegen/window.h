// Windows: a contraction over values that lie within a constant distance of the output index.
//
//   Y[j] = >(X[k]), k <= j, k > j - W
//     ⇒  P[b, r] = >(X[W*b + u]), u <= r;   S[b, r] = >(X[W*(b - 1) + u]), u > r;   Y[W*b + r] = max(S[b, r], P[b, r])
//
// In blocks of W, a window is the end of one block and the beginning of the next (van Herk 1992, Gil and Werman 1993),
// and both are scans: three operations for each element however wide the window is, and nothing that cancels, as a
// difference of running sums does.
//
// A window is told like a scan (scan.h): two rows couple one output index j with one reduction k, the value does not
// depend on j, and no other row couples either with a reduction. Products of floats are no windows: their parts have no
// range.
#pragma once

#include <optional>

#include "codegen/rewrite/rewriting.h"
#include "poly/program.h"

namespace tilec::codegen {

struct Window {
  std::size_t along, over;                             // output dimension j and reduction k
  bool down;                                           // k is counted from the end
  std::int64_t last, width;                            // element j folds the values up to k = j + last
  bool further = false;                                // other reductions
};

std::optional<Window> window_of(const poly::Statement& statement);  // bound
// The two scans go in front of the statement at n.
void cut_window(Rewriting& r, std::size_t n, const Window& window);
bool pays(const Rewriting& r, const poly::Statement& s, const Window& window);

}  // namespace tilec::codegen
