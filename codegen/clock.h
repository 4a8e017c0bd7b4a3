// Runs the passes of a compilation one after another, and notes how long each took.
//
//   Clock timed(stages.timings);   plan = timed("schedule", [&] { return schedule(fused, target); });
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "codegen/request.h"

namespace tilec::codegen {

class Clock {
 public:
  explicit Clock(std::vector<Timing>& timings) : timings_(timings) {}
  template <class F> auto operator()(std::string_view pass, F f) {
    const auto start = std::chrono::steady_clock::now();
    auto result = f();
    timings_.push_back({std::string(pass),
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()});
    return result;
  }

 private:
  std::vector<Timing>& timings_;
};

}  // namespace tilec::codegen
