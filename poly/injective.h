// Does `=` write each element once? Decided exactly, with two colliding points as the witness of a no.
//
//   O[2*i + k], k < 2   ⇒  Yes        O[i + k]   ⇒  No: i = 1, k = 0 and i = 0, k = 1
//
// In: a bound statement, the rows of its domain, their hull.
// Keeps: capped work that does not depend on the machine; Unknown beyond.
#pragma once

#include <string>
#include <vector>

#include "poly/hull.h"
#include "poly/program.h"

namespace tilec::poly {

enum class Injective { Yes, No, Unknown };
struct Verdict {
  Injective answer;
  solve::Collision points;                             // of a No
  std::string why;                                     // of an Unknown: what was tried and ended first
};
Verdict injective(const Statement& statement, const std::vector<Row>& rows, const Box& hull);

}  // namespace tilec::poly
