// How many dimensions the packs of a function stand for (lang/pack.h), and the function without them.
//
//   function f(X[B..., N]) with X of three dimensions   ⇒   function f(X[B0, B1, N])
//   S[b... : B...] = +(X[b..., n]);                     ⇒   S[b0, b1: B0, B1] = +(X[b0, b1, n]);
//
// Inputs tell the packs of the heading, then statement after statement those of its indices: a tensor has as many
// dimensions as it is read with indices. So a pack is known before the first statement that needs it, whatever made the
// tensors in it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "poly/build.h"
#include "poly/scope.h"

namespace tilec::poly {

// With the packs of its heading expanded, which `scope` then knows. `ranks`: dimensions of what each input is given,
// where they are known. The function itself where it has no packs; null when ranks do not fit or are not told, which is
// reported.
std::shared_ptr<const lang::Function> with_ranks(Scope& scope, const lang::Function& function,
    const std::vector<std::optional<std::size_t>>& ranks, const std::map<std::string, std::int64_t>& asked = {});
std::vector<std::optional<std::size_t>> ranks_of(const lang::Function& function, const Signature& signature);
std::vector<std::optional<std::size_t>> ranks_of(const Scope& scope, const std::vector<Named>& arguments);

// A statement without its packs: itself where it has none. Null when they do not fit, which is reported.
std::shared_ptr<const lang::Statement> without_packs(Scope& scope, const lang::Statement& statement);

}  // namespace tilec::poly
