// A value that depends on both indices of a triangle by a decay only, so that its partial sums go on from one another.
//
//   O[t] = +(Q[t] * exp(L[t] - L[s]) * V[s]), s <= t
//     ⇒  h[t] = exp(L[t] - L[t-1]) * h[t-1] + exp(L[t] - L[t]) * V[t];   O[t] = Q[t] * h[t]
//   C[t] = +(P[t] == P[s] && X[s] == P[s] ? 1 : 0), s <= t                    where P rises or falls
//     ⇒  h[t] = (P[t] == P[t-1] ? h[t-1] : 0) + (X[t] == P[t] ? 1 : 0)
//   D[t] = +((t - s) * pow(A, t - s - 1) * X[s]), s < t
//     ⇒  m[t] = A * (m[t-1] + h[t-1]);   h[t] = A * h[t-1] + X[t-1];   D[t] = m[t] + h[t]
//
//   G[t] = +((L[t] - L[s]) * exp(L[t] - L[s]) * X[s]), s <= t                  where L rises or falls
//     ⇒  g[t] = a(t) * (g[t-1] + (L[t] - L[t-1]) * h[t-1]);   G[t] = g[t]
//
//   H[t] = +(between(A[s], A[t], t - s) * X[s]), s <= t
//     ⇒  h[t] = A[t] * h[t-1] + X[t];   H[t] = h[t]
//
// A weight w(t, s) is a decay if w(t, s) = a(t) w(t-1, s): exponentials of sums of what depends on t, what depends on s
// and multiples of t - s; powers `pow(A, t - s)`; products of what lies between s and t; and whether a tensor has the
// same element at both, if it rises or falls between. What else the value multiplies depends on t or on s, is a
// polynomial of t - s, which is a sum of binomials C(t - s, n), and C(d + 1, n) = C(d, n) + C(d, n - 1); or is how far
// a tensor has risen or fallen.
//
// In: the value of a fold, with what each part of it depends on.
// Out: its parts; nothing where it is no such product.
// Why the steps are f64, and what is done where they leave it: docs/decisions/decays.md.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "poly/program.h"

namespace tilec::codegen {

struct Reach { bool along = false, over = false; };    // the output index and the summed one
using ReachOf = std::function<Reach(const poly::Expr&)>;

struct Run { poly::Expr here, there; bool must = false; };  // equal or not; `must`: where not, something else holds
                                                            // than the decay
struct Length { poly::Expr index; double times = 1, plus = 0; };  // times · index + plus
struct Rise { poly::Expr here, there; bool minus = false; };  // the factor ±(here - there); f64
struct Power { poly::Expr base, weight; Length exponent; };  // of a base that depends on neither index; f64
struct Rate { poly::Expr rate, exponent; Length length; };   // exp(exponent), exponent = rate · length; f64
struct Level { poly::Expr value; std::optional<poly::Expr> times; bool minus = false; };  // ±times · value; f64
struct Gate {                                          // Op::Between from an element to another; f64
  poly::Expr product, first, last;                     // the elements that it begins behind and ends with
  bool here_is_last = false;                           // `last` depends on the output index, `first` on the summed one
  Length length;                                       // how many elements it has
};
struct Decay {
  std::optional<poly::Expr> here, there;               // the weight exp(here + there); f64
  std::vector<Level> levels_here, levels_there;        // what they are sums of
  std::vector<Power> powers;                           // more weights
  std::vector<Rate> rates;                             // and more
  std::vector<Gate> gates;                             // and more
  std::vector<Length> lengths;                         // factors
  std::optional<Rise> rise;                            // another factor, where there are no lengths
  std::vector<Run> runs;                               // each a weight of 0 or 1
  poly::Expr term;                                     // what is summed besides, in `type`
  std::optional<poly::Expr> term_if;                   // else nothing
  std::optional<poly::Expr> scale, scale_if;           // of a whole sum
  std::optional<poly::Expr> term_must, scale_must;     // else something else holds
  poly::DType type;                                    // of partial sums
  poly::DType written;                                 // the narrowest float that the text has in it
};

// Of a maximum or minimum: what is compared at equal elements only,
// `<(P[t] == P[s] && X[s] == P[s] ? s : none), s <= t`.
std::optional<Decay> decay_of(poly::Aggregation how, const poly::Expr& value, const ReachOf& reach);
// Whether it multiplies by what lies between two elements: then nothing but a scan computes it.
bool has_gate(const poly::Expr& value);
poly::Number nothing(poly::Aggregation how, poly::DType type);  // what a fold of nothing is

// What a length is at the last value of an element, and at each value before that one more.
struct Line { double start, slope; };
// How often the product of such lengths has each binomial: Σ result[n] · C(distance, n). Nothing where they have both
// signs, which would cancel, or where there are too many.
std::optional<std::vector<double>> binomials(const std::vector<Line>& lengths);

}  // namespace tilec::codegen
