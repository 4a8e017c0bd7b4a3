// Packs: names that stand for any number of dimensions, none included, the same wherever a function mentions them.
//
//   S[b... : B...] = +(X[b..., n]);     with two dimensions in B   ⇒   S[b0, b1: B0, B1] = +(X[b0, b1, n]);
//
// In:  a part of a checked function and how many dimensions each pack stands for.   Out: the same part without packs.
// Keeps: spans, each of what stands for a pack being the pack's.
//
// How many dimensions there are is known where a function is called: poly/pack.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lang/ast.h"

namespace tilec::lang {

using Ranks = std::map<std::string, std::size_t>;      // of packs, by the name as spelled

const Name* pack(const Expr& e);                       // of `b...`; null for all else
const Name* pack_of_ones(const Expr& e);               // of `ones(B...)`, a 1 for each dimension
bool counts_pack(const Call& c);                       // `product(B...)`, `dims(B...)`
std::vector<Name> packs_of(const Function& function);  // that its heading declares, in the order of the text
std::vector<Name> packs_in(const Statement& statement);  // each once, in the order of the text
Name dimension(const Name& pack, std::size_t k);       // `b0`, `b1`, … of `b`
std::optional<Name> pack_of_dimension(const Name& name, const std::vector<Name>& packs);  // `b` of `b0`

// Indices or sizes: what a pack stands for takes its place. `ranks` has all of them.
std::vector<Expr> expanded(const std::vector<Expr>& list, const Ranks& ranks);
Statement expanded(const Statement& statement, const Ranks& ranks);
Function expanded_heading(const Function& function, const Ranks& ranks);

// Of `[[before(A, dim)]]` and `[[after(C, dim)]]`: the pack has the dimensions on one side of an axis.
struct Side { bool after; Name pack; Argument axis; Span span; };
std::optional<Side> side_of(const Attribute& attribute);  // nothing where it is no such attribute, or not well-formed

bool is_told(const Function& function, const Name& pack);  // how many dimensions it has, by an attribute and the usual
                                                           // value of its axis alone
bool may_have(const Input& input, std::size_t rank);   // that many dimensions, as far as its brackets tell

// The sizes that an input shows of a tensor of `rank` dimensions: of `X[B..., N]` and 3, B0, B1 and N. Nothing where it
// shows none, has another rank, or two packs that may share the dimensions.
std::optional<std::vector<Expr>> sizes_shown(const Input& input, std::size_t rank);

}  // namespace tilec::lang
