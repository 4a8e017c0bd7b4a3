// How a File is compiled: the function, what its inputs are, which derivative; for which machine, and how tensors lie
// in memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/derive.h"
#include "codegen/plan_text.h"
#include "codegen/target.h"
#include "poly/build.h"

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
  std::vector<std::string> asked_sizes;                // those among `sizes` that the caller named: each must be a
                                                       // size, and what arguments say
  std::string sizes_from = "--size";                   // where the caller named them
  std::vector<Derivative> derivatives;                 // one after another, each of the one before it
  std::vector<std::string> outputs;                    // of the last one, those wanted; empty: all. Others are not
                                                       // computed
  std::vector<std::size_t> accumulate;                 // positions among the outputs: those that are added to, not
                                                       // written
  bool split = false;                                  // the last derivative and what it is of as two Programs, too
  bool pair = false;                                   // these two are compiled, each for itself: the cotangents are
                                                       // nobody's arguments yet
  std::optional<std::int64_t> room;                    // bytes that forward may keep for backward; none: what pays
  bool keeps_rewrites = false;                         // each stage of the rewriting is to be shown
  bool checked = false;                                // indices out of range are looked for, see Stages::checks
  Target target;
  int threads_hint = 0;                                // 0: as many as the machine has
  std::map<std::string, std::vector<std::int64_t>> strides;  // per input, in elements; absent: row-major
  bool in_place = false;                               // of a device: they are those of its own memory, and the
                                                       // caller's tensors lie there
  std::optional<PlanText> plan;                        // how it is compiled, or part of that: what it does not say is
                                                       // chosen
  // per position among the outputs: one tensor may be several of them
  std::map<std::size_t, std::vector<std::int64_t>> output_strides;
};

enum class Until { Contraction, Gradient, Bound, Reduced, Plan, Lowered };

struct Timing {
  std::string pass;
  double milliseconds;
};

}  // namespace tilec::codegen
