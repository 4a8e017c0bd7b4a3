// What a request means, without any machine: the Programs from its text to one that is reduced.
//
//   text ─build▶ contraction ─reverse▶ gradient ─bind▶ bound ─simplify▶ simplified ─bounds▶ bounded ─defract▶ reduced
//                                                                                  └split▶ forward, backward ─┘
//
// In:  a parsed and checked File, how it is called, and how far to go.
// Out: every Program on the way; nullopt when the program is at fault (the errors are in `diagnostics`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autodiff/split.h"
#include "codegen/request.h"
#include "lang/ast.h"
#include "lang/diagnostic.h"
#include "poly/checked.h"
#include "poly/program.h"

namespace tilec::codegen {

struct Meaning {
  Meaning();  // these six are long, so they are compiled once, in a .cpp
  Meaning(const Meaning&);
  Meaning(Meaning&&) noexcept;
  Meaning& operator=(const Meaning&);
  Meaning& operator=(Meaning&&) noexcept;
  ~Meaning();

  std::optional<poly::Program> contraction, gradient, bound, simplified, bounded, reduced;
  std::optional<autodiff::Split> split;                // only when asked for
  std::vector<std::string> outputs;                    // names of the outputs that the caller knows; those of checks
                                                       // follow them
  std::vector<poly::IndexCheck> checks;
  std::vector<Timing> timings;                         // of all passes so far
};

// Of a request for a pair, as far as the split: what each half is chosen from, `half_of` says.
std::optional<Meaning> meaning_of(
    const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics);

// From here on there is one Program again, from `bounded` on: forward, whose last outputs are kept, or backward, which
// begins with them.
enum class Half { Forward, Backward };
// What a request for a pair says of one half alone: the results that the caller adds to, and their strides, are
// backward's. Of others: the request.
Request request_of(const Request& request, Half half);
// own: request_of
std::optional<Meaning> half_of(
    const Meaning& pair, Half half, const Request& own, Until until, lang::Diagnostics& diagnostics);

}  // namespace tilec::codegen
