// Rewrites a reduced Program for speed, and says which statements share a launch.
//
//   Y = relu(O) of O[i, j] = +(A[i, k] * B[k, j])  ⇒  one group: rows of O are a local of the turn that also makes Y
//   E[i, j] = =(exp(X[i, j] - M[i])), read once by Y   ⇒  inlined into Y (with the cast that keeps E's rounding)
//   dK[s] = +(dS[t, d] * V[s, d]), t >= s              ⇒  T[s, d] = +(dS[t, d]), t >= s first
//   C[i, j] = +(A[i, k] * B[j, k])  ⇒  B_t[k, j] = =(B[j, k]) first, where B is read often enough to pay
//
// In:  a reduced Program, strides of its inputs and outputs.  Out: a Program of the same meaning; strides for all its
//      tensors.
// Keeps: inputs, outputs, every rounding.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/nest.h"
#include "codegen/rewrite/directive.h"
#include "codegen/request.h"
#include "codegen/target.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

struct Fused {
  poly::Program program;
  Strides strides;
  // Consecutive statements (positions in program.nodes) of one launch, and the names of the indices that they share as
  // loops; `loops`: per statement, which of its indices these are. `blocks`: one of them wants blocks of rows.
  struct Set {
    std::vector<int> nodes;
    std::vector<std::string> indices;
    std::vector<std::vector<std::size_t>> loops;
    bool blocks = false, strips = false;               // `strips`: neighbours along the last of them lie side by side
    std::int64_t parts = 0;                            // so many of the last index have one part of each sum over it;
                                                       // 0: no sums
    std::string over = {};                             // what they pass over, a block of rows of the last of `indices`
                                                       // a turn (rewrite/online.h); empty: nothing
    bool twice = false;                                // they go over it once for folds that others read, then for all
    std::size_t finishing = 0;                         // so many of the last ones finish sums (rewrite/finish.h)
    // indices of the contraction among them, and how many make a box (tile.h)
    std::vector<std::pair<std::string, std::int64_t>> tile = {};
  };
  std::vector<Set> sets;
  std::vector<Directive> directives;                   // that made it of the reduced Program, chosen or given
};

// What a plan says before its groups, each directive with its place.
struct Given {
  struct Said { Directive directive; lang::Span span; };
  std::vector<Said> directives;
  std::set<RewriteStage> stages;                       // of which something is said: nothing is chosen there
};

// What a caller hears of the rewriting: how long each stage took, and what it left; both in order. `programs`: null
// where nobody looks.
struct Heard {
  std::vector<Timing>& timings;
  std::vector<std::pair<std::string_view, poly::Program>>* programs = nullptr;
};

// `output_strides`: per position among the outputs, for those that need a copy of their own; absent: row-major.
Fused fuse(const poly::Program& program, const Strides& strides,
    const std::map<std::size_t, std::vector<std::int64_t>>& output_strides, const Target& target);
// What `given` does not say is chosen. Nothing where one of its directives does not apply (E0561).
std::optional<Fused> fuse(const poly::Program& program, const Strides& strides,
    const std::map<std::size_t, std::vector<std::int64_t>>& output_strides, const Target& target, const Given& given,
    const Heard& heard, lang::Diagnostics& diagnostics);

}  // namespace tilec::codegen
