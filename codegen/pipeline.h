// The one list that knows the order of the passes: text in, every stage out.
//
// In:  a parsed and checked File, how it is called, and how far to go.
// Out: every stage up to `until`; nullopt when the program is at fault (the errors are in `diagnostics`).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/derive.h"
#include "codegen/lowered.h"
#include "codegen/plan.h"
#include "codegen/target.h"
#include "autodiff/split.h"
#include "lang/ast.h"
#include "lang/diagnostic.h"
#include "poly/build.h"
#include "poly/checked.h"
#include "poly/program.h"

namespace tilec::codegen {

struct Request {
  Request();  // these six are long, so they are compiled once, in a .cpp
  Request(const Request&);
  Request(Request&&) noexcept;
  Request& operator=(const Request&);
  Request& operator=(Request&&) noexcept;
  ~Request();

  poly::Signature signature;                           // function, inputs, defines
  std::map<std::string, std::int64_t> sizes;           // --size N=8
  std::vector<std::string> asked_sizes;                // those among `sizes` that the caller named: each must be a size, and what arguments say
  std::string sizes_from = "--size";                   // where the caller named them
  std::vector<Derivative> derivatives;                 // one after another, each of what the one before it makes
  std::vector<std::string> outputs;                    // of the last one, those wanted; empty: all. Others are not computed
  std::vector<std::size_t> accumulate;                 // positions among the outputs: those that are added to, not written
  bool split = false;                                  // the last derivative and what it is of as two Programs, too
  enum class Half { Both, Forward, Backward } half = Half::Both;  // of a split: the one that is compiled
  bool checked = false;                                // indices out of range are looked for, see Stages::checks
  Target target;
  int threads_hint = 0;                                // 0: as many as the machine has
  std::map<std::string, std::vector<std::int64_t>> strides;  // per input, in elements; absent: row-major
  std::optional<PlanText> plan;                        // how it is compiled, or part of that: what it does not say is chosen
  std::map<std::size_t, std::vector<std::int64_t>> output_strides;  // per position among the outputs: one tensor may be several of them
};

struct Timing {
  std::string pass;
  double milliseconds;
};

// What was computed: for --emit, --dump-to and --time.
struct Stages {
  Stages();  // these six are long, so they are compiled once, in a .cpp
  Stages(const Stages&);
  Stages(Stages&&) noexcept;
  Stages& operator=(const Stages&);
  Stages& operator=(Stages&&) noexcept;
  ~Stages();

  std::optional<poly::Program> contraction, gradient, bound, bounded, reduced;
  std::optional<autodiff::Split> split;                // only when asked for
  std::optional<Plan> plan;
  std::optional<Lowered> lowered;
  std::vector<std::string> outputs;                    // names of the outputs that the caller knows; those of checks follow them
  std::vector<poly::IndexCheck> checks;
  std::vector<Timing> timings;
};

enum class Until { Contraction, Gradient, Bound, Reduced, Plan, Lowered };

std::optional<Stages> compile(const lang::File& file, const Request& request, Until until, lang::Diagnostics& diagnostics);

}  // namespace tilec::codegen
