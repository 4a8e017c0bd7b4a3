// The products that leave out one factor, without a division: what is before a point times what is after it.
//
//   O[r: R] = *(X[r, c]);
//     ⇒  Pre[r, c: R, C] = *(X[r, b]), b <= c - 1 default 1;      Suf[r, c: R, C] = *(X[r, b]), b >= c + 1 default 1;
//
// Exact with any number of zeros, and since these are products again, at any order. Where the factors are not simply the
// elements of a tensor they are first written out in an order, one row per element of O: Fac[o, rank] default 1.
//
// In:  a product; its points can be ordered, within bounds (`has_rule`).
// Out: the Program with the statements, and which tensors hold the two products of a point: at [its element, its rank].
#pragma once

#include "autodiff/companion.h"
#include "autodiff/covers.h"

namespace tilec::autodiff {

struct Factors {
  Order order;                                         // with a count
  poly::TensorId before, after;
};

Factors factors_of(const Companion& companion);

}  // namespace tilec::autodiff
