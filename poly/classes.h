// What becomes of one statement: its residue classes, with every step that led to them.
//
//   dI[3*x + 2*k - 2: 224] = +(dO[x] * K[k])   ⇒   {3*q; K[1]}, {3*q + 1; K[0]}, {3*q + 2; K[2]}
//
// In: a statement of a bounded Program.
// Out: statements whose images are disjoint (defract.h says what holds in each).
// Keeps: the original's target in every class; `defract` chains them, `analyse` tells about them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "poly/reduce.h"
#include "poly/substitute.h"

namespace tilec::poly {

enum class Course {
  Reduced,                                             // was so already: at most the indices change places
  Empty,                                               // no point, or none where every division is exact: the fill is
                                                       // the result
  Split,                                               // into `classes`
};
struct Class { Statement statement; Map map; };        // map: indices of `integral` → indices of the class
struct Classes {
  Course course = Course::Reduced;
  // Of Course::Split only:
  std::vector<std::string> indices;                    // outputs first, without those of one value that a lattice would
                                                       // have cost
  std::optional<lattice::Sublattice> divisions;        // the indices with their divisions exact
  Statement integral;                                  // the statement over that lattice; an index that is new has no
                                                       // name
  std::vector<Component> parts;                        // of `integral`
  std::vector<bool> split;                             // per part: into classes; else its coordinates stay triangular
  std::vector<Class> classes;                          // at least one; without a map where the course is another
};
Classes classes_of(const Program& program, const Statement& statement, int class_limit);

}  // namespace tilec::poly
