// What reduce and defract find out about one statement, as plain numbers and text: for `tilec explain`, and for tests.
// It comes from the run of defract itself (classes.h), so it cannot tell another story.
//
//   dI[3*x + 2*k - 2: 224] = +(dO[x] * K[k])
//     ⇒  F = (3 2), f = -2, S = {0 <= k < 3}, H = (1), U = [-1 -2; 2 3], T = (3), period 3: 3 classes
//        dI[3*q]: k = 1, 75 points;   dI[3*q + 1]: k = 0, 74 points;   dI[3*q + 2]: k = 2, 74 points;
//        223 of 223, no guard
//
// In: a bounded Program and one of its statements.
// Keeps: counts are exact or absent (nullopt: too many points to count one by one).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poly/classes.h"
#include "poly/defract.h"
#include "poly/lattice.h"

namespace tilec::poly {

// A set of indices that the target or a division couples. Matrices are over `indices`, their rows as said.
struct AnalysedPart {
  std::vector<std::string> indices;
  std::vector<std::string> elements;                   // the target's dimensions that mention them, printed: rows of F
                                                       // and H
  lattice::Matrix F;
  lattice::Vector f;
  bool plain = true;                                   // nothing to do: each element has one point, or no index of it
                                                       // is an output
  // Of a part that is not plain: [F; C_S] U = [H 0; G T], taps κ = G y + T z.
  std::vector<std::string> taps;                       // the rows S, printed: `0 <= k < 3`
  lattice::Matrix H, U, G, T, V;                       // V: the period lattice M = V Z^r
  lattice::Vector period;                              // of each output index, diagonal inside V
  double classes = 1;                                  // product of `period`
  bool split = true;                                   // into classes; false: coordinates (y; z) stay, bounds of z
                                                       // depend on y (see notes)
};

// One residue class: a statement with its own address pattern.
struct AnalysedClass {
  std::string element;                                 // `dI[3*q + 1]`
  std::optional<std::int64_t> points;                  // what its loops visit
  std::optional<std::int64_t> taps;                    // points per element, fewer where a guard cuts; absent where
                                                       // nothing was split
  std::vector<std::string> tap_list;                   // `k = 1`, at most 16; empty where longer, or where nothing was
                                                       // split
  std::vector<std::string> guards;                     // rows the hull does not imply, printed: loops clip by them at
                                                       // the borders
};

struct Analysis {
  Course course = Course::Reduced;
  std::vector<std::string> divisions;                  // `i = 6*t + 1`: the indices on the lattice where every division
                                                       // is exact
  std::vector<AnalysedPart> parts;
  std::vector<AnalysedClass> classes;
  std::optional<std::int64_t> valid;                   // points of the statement, counted before
  std::optional<std::int64_t> executed;                // points of the classes, counted after
  std::optional<std::int64_t> box;                     // points of the hull: what a loop nest that tests each point
                                                       // would visit
  std::vector<std::string> notes;                      // what was not applied and why
};

Analysis analyse(const Program& bounded, const Statement& statement, int limit = class_limit);
std::string print(const Analysis& analysis);           // lines of text, indented by two, as `tilec explain` may show
                                                       // them

}  // namespace tilec::poly
