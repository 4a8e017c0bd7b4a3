// Long reductions of few outputs, in two stages, so that more than one thread has work.
//
//   O[o] = +(v(o, k)), 0 <= k < K   ⇒   T[s, o] = +(v(o, C*s + c)), 0 <= c < C, 0 <= C*s + c < K;   O[o] = +(T[s, o]);
//
// By shapes alone: the result does not depend on how many threads there are.
#pragma once
#include "codegen/rewrite/rewriting.h"
namespace tilec::codegen {
void split_reductions(Rewriting& r);
}  // namespace tilec::codegen
