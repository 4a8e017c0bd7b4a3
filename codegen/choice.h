// What is chosen for one machine: from a reduced Program to kernels as Loops.
//
//   reduced ─inline▶ ─sums▶ ─scans▶ ─splits▶ ─copies▶ ─panels▶ ─rows▶ rewritten ─schedule▶ plan ─lower▶ loops
//
// Out: every stage up to `until`; nullopt when the program is at fault (the errors are in `diagnostics`).
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/lowered.h"
#include "codegen/plan.h"
#include "codegen/request.h"
#include "lang/diagnostic.h"
#include "poly/program.h"

namespace tilec::codegen {

struct Chosen {
  Chosen();  // these six are long, so they are compiled once, in a .cpp
  Chosen(const Chosen&);
  Chosen(Chosen&&) noexcept;
  Chosen& operator=(const Chosen&);
  Chosen& operator=(Chosen&&) noexcept;
  ~Chosen();

  // where the request keeps them: what each stage of the rewriting left
  std::vector<std::pair<std::string_view, poly::Program>> rewrites;
  std::optional<Plan> plan;                            // its Program is what the last of them left
  Strides strides;                                     // of that Program's tensors
  std::vector<Plan> halves;                            // of a pair, in the place of `plan`: forward's and backward's
  std::optional<Lowered> lowered;
};

std::optional<Chosen> choose(const poly::Program& reduced, const Request& request, Until until,
    std::vector<Timing>& timings, lang::Diagnostics& diagnostics);

}  // namespace tilec::codegen
