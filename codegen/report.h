// What a program costs, and what backward keeps, as text: `--emit=report-text`.
//
//   statement  of        points        flop  bytes read  bytes written
//   Score      forward   …
//
//   tensor     bytes     way         why
//   P          8,388,608 recomputed  37,748,736 operations cost less than 83,886,080 for its bytes
//
// In: the stages of a compilation up to the package; with a derivative, also its split.
// Out: aligned columns, exact counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/pipeline.h"

namespace tilec::codegen {

std::string report(const Stages& stages);

// How backward has a tensor of the forward, and why so.
struct KeptRow { std::string tensor, way, why; std::int64_t bytes = 0; };
std::vector<KeptRow> kept_rows(const autodiff::Split& split);

// Of a bound Program, statement by statement: scalar operations, and bytes of the tensors that each reads and writes.
struct Totals {
  std::int64_t operations = 0, read = 0, written = 0;
  bool exact = true;                                   // of `operations`: else they are at most so many
};
Totals totals(const poly::Program& program);

}  // namespace tilec::codegen
