// The product that has something else in place of one of its factors, without a division.
//
//   O[r: R] = *(X[r, c]);
//     ⇒  Others[r, c: R, C] = *(c == b ? dO[r] : X[r, b])          what reaches X[r, c]
//
// One product and not what is before a point times what is after it times dO: each of these may leave the range where
// all of them together do not (1e30 · 1e30 · 1e-30), and a product is exact whatever is in between. Exact with any
// number of zeros too, and since it is a product again, at any order. Where the factors are not simply the elements of
// a tensor they are first written out in an order, one row per element of O that has a point: Fac[o, rank] default 1.
//
// In:  a product; its points can be ordered, within bounds (`has_rule`).
#pragma once

#include "autodiff/companion.h"
#include "autodiff/order.h"

namespace tilec::autodiff {

struct Factors {
  Coordinates outer;                                   // which element it is of
  Order order;                                         // with a count
  bool written;                                        // Fac; else the factors are where they were
  poly::Expr value;                                    // a factor, over one read …
  poly::Access read;                                   // … whose indices are `outer`, then the rank
  std::vector<std::string> names;                      // of those indices
  std::vector<std::size_t> where;                      // in place: which of them each index of the forward statement is

  // `own`, of the type the product is made in, times the factors of all other points of the element: a read for
  // `statement`, which has the forward statement's points and the reads of `own`.
  poly::Expr times_others(const Companion& companion, poly::Statement& statement, const poly::Expr& own) const;
};

Factors factors_of(const Companion& companion);

}  // namespace tilec::autodiff
