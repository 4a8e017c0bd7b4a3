// Warns of reads that leave their tensors where the text does not say that they may.
//
//   Y[i: N] = =(X[i - 1] + X[i + 1]);     ⇒  `i - 1` leaves `X` at i = 0: `Y` is not computed there and holds 0
//   Y[i: N] = +(X[i + N]);                ⇒  `i + N` is never inside `X`: no point counts
//
// A point counts only where every read is inside. For `+` that is zero padding; an `=` of several reads loses all of
// them at the border. An explicit constraint or `default` says that this is meant.
//
// note_borders looks when a statement is built: what is so for every size is said there, what depends on sizes is kept
// in Program::borders, at which check_borders looks when bind knows them.
#pragma once

#include <map>

#include "poly/scalar.h"

namespace tilec::poly {

struct WrittenContraction {
  const lang::Contraction& text;
  const std::vector<std::string>& indices;
  const std::vector<Affine>& element;
  const std::vector<Size>& shape;
  const std::vector<Range>& domain;
  const std::vector<Range>& constraints;
  Aggregation aggregation;
};
void note_borders(Scope& scope, const WrittenContraction& written);

void check_borders(
    const Program& program, const std::map<std::string, std::int64_t>& sizes, lang::Diagnostics& diagnostics);

}  // namespace tilec::poly
