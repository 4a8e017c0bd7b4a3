// Long reductions of few outputs, in two stages, so that more than one thread has work.
//
//   O[o] = +(v(o, k)), 0 <= k < K   ⇒   T[s, o] = +(v(o, C*s + c)), 0 <= c < C, 0 <= C*s + c < K;   O[o] = +(T[s, o]);
//
// On a GPU, parts of parts are added up at once: T[t, s, o], O[o] = +(T[t, s, o]).
//
// Shapes and the target decide, threads do not: the result is the same for any number of them.
#pragma once
#include "codegen/rewrite/rewriting.h"
namespace tilec::codegen {
struct Cut { std::size_t index; std::int64_t chunk; };   // which index of a statement, into parts of how many values
// A chunk nearly as long of which the extent is a multiple, so that no part needs bounds of its own; else this one.
std::int64_t whole_chunk(std::int64_t extent, std::int64_t chunk);
// What computes the parts of its fold, and what folds these.
std::pair<poly::Statement, poly::Statement> in_parts(Rewriting& r, const poly::Statement& whole, const Cut& cut);

void split_reductions(Rewriting& r);
}  // namespace tilec::codegen
