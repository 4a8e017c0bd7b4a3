// How long a plan takes on one core, and how many bytes it moves.
//
//   group C of C[i, j : 1000, 1000] = +(A[i, k] * B[k, j]), k < 1000   ⇒   20 ms, of which the core alone needs 19;
//                                                                          12 MB must move, 16 MB move from and to
//                                                                          memory, 90 MB from and to the last cache,
//                                                                          900 MB the second
//
// A leaf is a nest of loops over blocks. What the core does for a block is counted (core.h); what moves is found from
// footprints: of all regions that its loops cut the box into, the largest that a cache holds is fetched once each time
// it is entered (traffic.h). Caches are taken for fully associative and least recently used, cores for ones that fetch
// ahead.
//
// A call finds in the caches what the call before it left there: time is of a program that runs again and again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/model/known.h"
#include "codegen/model/traffic.h"
#include "codegen/nest.h"
#include "codegen/plan.h"
#include "codegen/target.h"

namespace tilec::codegen::model {

struct Bytes {
  double memory = 0, last = 0, second = 0;             // that memory, the last-level and the second-level cache give or
                                                       // take
  double must = 0;                                     // the least: each element read once, each result written once
};
struct Prediction {
  double milliseconds = 0;                             // on one core
  double core = 0;                                     // of them, if all data were in the first-level cache
  Bytes bytes;
};
struct PlanPrediction {
  struct Of : Prediction { std::vector<Prediction> leaves; };
  std::vector<Of> groups;                              // as the plan's
  Prediction sum;                                      // `must`: of inputs and outputs only
};

// None for a target whose cores the model does not know: bytes alone are predicted there.
bool predicts_time(const Target& target);
PlanPrediction predict(const Plan& plan, const Strides& strides, const Target& target);
// of the whole plan, and nothing else
double milliseconds_of(const Plan& plan, const Strides& strides, const Target& target);
// Of each group. `least`: what other loops and blocks of its leaves hardly get below, for what a core takes for these
// alone, and what must move.
struct GroupTime { double milliseconds, least; };
// `seen`: of each group, made where it is empty.
std::vector<GroupTime> times_of(
    const Plan& plan, const KnownPlan& statements, const Target& target, std::vector<SeenGroup>& seen);
double sum(const std::vector<GroupTime>& times, double GroupTime::* of);
double arithmetic(double multiply_adds, lang::DType type, const Target& target);  // milliseconds of full vectors
// Below which no plan gets whose arithmetic takes so many milliseconds and whose tensors have so many bytes.
double least_milliseconds(double arithmetic, double bytes, const Target& target);
// How long a core waits at least for so many bytes that must move, whatever caches hold of them.
double least_wait(double bytes, const Target& target);
// Of one group, as if it were all of its plan, whose loops around one statement, or whose leaves, are others again and
// again.
class OneGroup {
 public:
  // `seen`: of its leaves as they are.
  OneGroup(const poly::Program& program, const KnownGroup& statements, const Target& target, SeenGroup& seen)
      : program_(program), statements_(statements), target_(target), seen_(seen) {}

  // Times, and the least that must move: of the group as it is.
  PlanPrediction::Of predict(const Group& group);
  // Of what takes longer than `bar`, a part of the time that is no less: on a target whose time is predicted. `wait`:
  // for what must move (least_wait). `rest`: says the rest of a leaf, which its core does not ask about.
  using Rest = std::function<void(Compute&)>;
  double milliseconds(Group& group, double bar, double wait, const Rest& rest);
  // The other leaves are as they are, and predicted.
  double milliseconds_of_leaf(Group& group, std::size_t leaf, double bar, double wait, const Rest& rest);
  // What was asked about last is how the group is now.
  void keep() { seen_ = std::move(last_); }

 private:
  PlanPrediction::Of with(const Group& group, SeenGroup& seen) const;

  const poly::Program& program_;
  const KnownGroup& statements_;
  const Target& target_;
  SeenGroup& seen_;
  SeenGroup last_;
};
// A line for each group and each of its leaves, and one for the sum: milliseconds, and bytes through each level
// (`--emit=model`).
std::string print(const Plan& plan, const PlanPrediction& prediction, const Target& target);

}  // namespace tilec::codegen::model
