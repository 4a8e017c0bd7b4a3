// Where packs may stand, and where their `...` is missing.
//
//   Y[b: B...] = +(X[b..., n]);
//     ⇒   error: `b` stands for any number of dimensions in `X[b..., n]`, but for one here
#pragma once

#include <string_view>
#include <vector>

#include "lang/check/names.h"
#include "lang/pack.h"

namespace tilec::lang::checking {

void note_packs(Names& here, const Function& f);       // of indices; before statements are read
void names_of_packs(Names& here, const Function& f);   // `B0` beside `B...`

bool as_indexed(Names& here, const Variable& v);       // false: it is a pack that lacks its `...`
void misplaced(Names& here, const Name& name, std::string_view where);
void pack_in_list(Names& here, const Variable& v, Role role);
// `Y[b, n: B..., N]`, and `X[b, n]` of X[B..., N]: an index where there are any number of dimensions.
void pack_missed(
    Names& here, const std::vector<Expr>& element, const std::vector<Expr>& sizes, std::string_view tensor);

// Elements of a list in which packs may stand.
template <class Check> void elements(Names& here, const std::vector<Expr>& list, Role role, const Check& check) {
  for (const Expr& e : list)
    if (pack(e)) pack_in_list(here, *e.as<Variable>(), role);
    else check(e);
}

}  // namespace tilec::lang::checking
