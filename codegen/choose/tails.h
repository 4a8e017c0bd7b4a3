// What goes on from a few sums on a GPU, as their quotient does, joins their launch.
//
//   S = +(P[s]);  T = +(W[s]);  L = S / T                      ⇒  share S T L: one block has them all
//   share dS_parts dS  rows c;   dG[c] = =(dS[c] / Q[c])       ⇒  share dS_parts dS dG  rows c
//
// A launch takes longer than all that such a statement does. Sums of other parts go on from the first likewise, as a
// variance from a mean.
#pragma once

#include <vector>

#include "codegen/fuse.h"
#include "codegen/rewrite/rewriting.h"

namespace tilec::codegen {

// `sets`: in the order in which they run. Those of several statements are noted in `r`.
void join_tails(Rewriting& r, std::vector<Fused::Set>& sets);

}  // namespace tilec::codegen
