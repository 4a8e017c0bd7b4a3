// Where a statement's points lie, on one or two of its indices, and which residue class each belongs to: for pictures.
//
//   dI[3*x + 2*k - 2: 224] = +(dO[x] * K[k])
//     ⇒  domain    x, k:   (0, 1) of class 0, (0, 2) of class 2, (1, 0) of class 1, …
//        elements  dI's only dimension:  0 of class 0, 1 of class 1, …
//
// In: a statement of a bounded Program.
// Out: points of a window, which starts at the lowest values; of several classes that meet there, the first.
// Keeps: classes are numbered as analyse() (analysis.h) lists them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "poly/defract.h"
#include "poly/program.h"

namespace tilec::poly {

// Values low … low + extent - 1, of which the window has the first `shown`.
struct Axis { std::string name; std::int64_t low = 0, extent = 1, shown = 1; };
struct Projection {
  std::vector<Axis> axes;                              // one or two
  std::map<std::array<std::int64_t, 2>, std::size_t> points;  // class of each; without a second axis that place is 0
  bool whole = true;                                   // false: there were too many points to look at all
};
struct Projections {
  std::vector<Projection> domain;                      // for each part of the indices that a lattice couples, else one;
                                                       // none where there is no index
  std::vector<Projection> elements;                    // of the target, one or none: on dimensions whose elements these
                                                       // indices decide
};
Projections project(const Program& bounded, const Statement& statement, int limit = class_limit);

}  // namespace tilec::poly
