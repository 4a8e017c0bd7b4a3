// Substitutes sizes and folds them; checks requirements and assertions.
//
//   (X + 1)/2, Q*u + r    with X = 223, Q = 2     ⇒   112, 2*u + r
//
// In:  any Program.   Out: one in which every Size is an integer.   Keeps: everything else.
#pragma once
#include <map>
#include <optional>
#include "lang/diagnostic.h"
#include "poly/program.h"
namespace tilec::poly {
std::optional<Program> bind(
    const Program& program, const std::map<std::string, std::int64_t>& sizes, lang::Diagnostics& diagnostics);
}  // namespace tilec::poly
