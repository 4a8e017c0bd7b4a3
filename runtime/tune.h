// Searches for a faster plan of one call, by the clock.
//
//   tune(conv, {I, K}, {.seconds = 60}, …)
//     ⇒  a plan, 1.4 times as fast as what is chosen, on the disk: later compilations of this program for these shapes
//        follow it
//
// From what is chosen it goes to plans one step away (codegen/moves.h), in the order of what the model expects of them,
// given what the plan before them took; from each that is among the best, on. A candidate runs beside the best so far
// in turns, and is dropped as soon as it is known to be slower; its results must be those of the plan that was chosen.
// In the end the best one is measured against that plan again, and is no better unless the interval of the ratio says
// so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/specialise.h"

namespace tilec::runtime {

struct TuneProgress {
  double elapsed = 0, seconds = 0;                     // of the search, and how long it may be
  std::size_t measured = 0;                            // plans, by now
  double first = 0, best = 0;                          // seconds of a call: as chosen, and of the fastest so far
};

struct TuneOptions {
  double seconds = 60;
  std::function<bool(const TuneProgress&)> goes_on = {};  // asked between candidates; false ends the search
};

struct Tuned {
  std::string plan;                                    // as `--plan` takes it: the one that was chosen, where none is
                                                       // faster
  double first = 0, best = 0;                          // seconds of a call, measured in turns
  double ratio = 1, low = 1, high = 1;                 // first / best, and where 95 % of such medians lie; 1 where none
                                                       // is faster
  std::size_t measured = 0;
  bool kept = false;                                   // on the disk
};

// `callable` is called with these arguments: shapes and values. Nothing where the program does not compile, the errors
// are in `diagnostics`; or RuntimeError, also of a target that is measured nowhere.
std::optional<Tuned> tune(const Callable& callable, const std::vector<Argument>& arguments, const TuneOptions& options,
    lang::Diagnostics& diagnostics);

// Under which a plan lies on the disk: a hash of whatever a choice depends on. Empty where none is looked for.
std::string tuning_key(const codegen::Stages& untuned, const codegen::Request& request);
std::int64_t tuned_threads(const codegen::Request& request);  // how many it is for

}  // namespace tilec::runtime
