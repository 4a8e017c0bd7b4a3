// What a step of a reduction reads that an earlier one has read: as a window slides, all but its end.
//
//   acc[i] += I[x + i] * dO[x] for three rows i, x in turns of three steps
//     ⇒  held = I[0], I[1];  for turn: t = I[x + 2], t_1 = I[x + 3], t_2 = I[x + 4];
//        acc += held[0] …, held[1] …, t …;  acc += held[1] …, t …, t_1 …;  …;  held = t_1, t_2
//
// In which register a value lies changes from step to step, and after as many as the window is long it is the first one
// again: so many are spelled out, and nothing is moved. A compiler that unrolls a loop otherwise loads again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/scalar.h"
#include "codegen/spell/step_values.h"

namespace tilec::codegen {

// What each step goes through, in few steps side by side.
struct Inside {
  std::optional<std::size_t> dim = std::nullopt;       // none: it is one
  Interval values = {Expr(std::int64_t{0}), Expr(std::int64_t{1})};
  std::int64_t count() const { return const_or(values.hi, 0) - const_or(values.lo, 0); }
};

class SlidingLoads {
 public:
  // Whether a row has a point in an inner step.
  using Has = std::function<bool(std::int64_t row, std::int64_t step)>;
  // Of steps of d. None: no step reads what another has read, or it is more than registers hold.
  static std::optional<SlidingLoads> of(
      const BlockPlace& at, std::size_t d, const Inside& inside, const Has& has);

  std::size_t dim() const { return d_; }
  const Inside& inside() const { return inside_; }
  std::int64_t steps() const { return steps_; }        // of a turn
  // Before all turns, with `views` at the first step.
  Body begin(const Views& views);
  // What is new in the steps of a turn, with `views` at the first one: all of it is on its way together.
  Body loads();
  // From here on `values` are those of step u.
  void step(std::int64_t u);
  // What the next turn finds.
  Body end() const;
  const LoadedValues& values() const { return values_; }

 private:
  SlidingLoads(SpelledLeaf& leaf, std::size_t d, const Inside& inside) : l_(leaf), d_(d), inside_(inside) {}
  // Offsets that steps of this read have, one step further each; all but the last are held from step to step.
  struct Chain { std::size_t read; std::vector<std::int64_t> offsets; };
  Expr value(Body& body, const Chain& chain, std::int64_t offset) const;

  SpelledLeaf& l_;
  std::size_t d_;
  Inside inside_;
  std::vector<Chain> chains_ = {};
  std::int64_t steps_ = 1;
  Views views_ = {};
  std::vector<std::string> registers_ = {};            // of each chain
  std::vector<std::vector<Expr>> loads_ = {};          // of each chain, in each step
  LoadedValues values_ = {};
};

// All steps of the dimension: turns of them, and `rest` for those that are left. `step`: the v-th step inside of one.
using SlidingStep = std::function<Body(const Views& views, const LoadedValues& loaded, std::int64_t v)>;
Body spell_sliding(
    const BlockPlace& at, SlidingLoads slides, const SlidingStep& step, const std::function<Body()>& rest);

}  // namespace tilec::codegen
