#include "runtime/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "codegen/model/predict.h"
#include "codegen/moves.h"
#include "poly/print.h"
#include "runtime/compiled.h"
#include "runtime/error.h"
#include "runtime/extended.h"
#include "runtime/parallel.h"
#include "runtime/samples.h"

namespace tilec::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double batch_seconds = 200e-6;                 // of calls between two looks at the clock
constexpr double hopeless = 1.5;                         // times the best: one call is enough
constexpr double worth_going_on = 1.05;                  // times the best: plans near it are tried too, when those near
                                                         // the best are used up
constexpr double faster = 0.99;                          // times the best: what less is gained by is a matter of luck
constexpr double looking = 0.2;                          // of the time that is left, for what the model says of plans
                                                         // near one
constexpr double proving = 0.1;                          // of the whole time, for the last comparison
constexpr std::size_t least_turns = 5, turns_of_second_look = 9, most_turns = 21, turns_of_proof = 51;

// How far results of two plans may lie apart, as a part of the largest value: sums are added up in another order.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::F64: return 1e-9;
    case DType::F16: return 2e-2;
    case DType::BF16: return 1e-1;
    default: return 1e-4;
  }
}

bool agree(const Tensor& one, const Tensor& other) {
  const poly::Array a = to_array(one), b = to_array(other);
  if (!lang::is_float(one.dtype)) return a.integers == b.integers;
  double largest = 0;
  for (const double value : a.reals)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  const double most = tolerance_of(one.dtype) * largest;
  for (std::size_t k = 0; k < a.reals.size(); ++k) {
    const double x = a.reals[k], y = b.reals[k];
    if (x != y && !(std::isnan(x) && std::isnan(y)) && !(std::fabs(x - y) <= most)) return false;
  }
  return true;
}

class Search {
 public:
  Search(const Callable& callable, codegen::Request request, codegen::Stages untuned,
      const std::vector<Argument>& arguments, const TuneOptions& options)
      : callable_(callable),
        request_(std::move(request)),
        untuned_(std::move(untuned)),
        options_(options),
        first_{module_of(untuned_), codegen::whole_text(*untuned_.plan), predicted(untuned_), 0},
        best_(first_) {
    inputs_ = bind_inputs(*first_.module, arguments);
    expected_ = allocate_outputs(*first_.module), outputs_ = allocate_outputs(*first_.module);
    for (const Tensor& tensor : inputs_) in_.push_back(tensor.data);
    for (const Tensor& tensor : outputs_) out_.push_back(tensor.data);
    run(*first_.module, inputs_, expected_);
    first_.seconds = std::min(once(first_), once(first_));
    best_ = first_;
    seen_.insert(first_.text);
  }

  Tuned run_all() {
    if (request_.plan) try_one({request_.plan->text, 0});
    expand(best_);
    std::set<std::string> expanded{best_.text};
    while (goes_on()) {
      if (queue_.empty()) {
        const auto next = std::ranges::find_if(near_, [&](const Plan& plan) {
          return !expanded.contains(plan.text) && plan.seconds < worth_going_on * best_.seconds;
        });
        if (next == near_.end()) break;
        expanded.insert(next->text);
        expand(Plan(*next));
        continue;
      }
      const auto next = std::ranges::min_element(queue_, {}, &Candidate::expected);
      const Candidate candidate = std::move(*next);
      *next = std::move(queue_.back());
      queue_.pop_back();
      if (try_one(candidate) && expanded.insert(best_.text).second) expand(best_);
    }
    return proved();
  }

 private:
  struct Plan { std::shared_ptr<const Module> module; std::string text; double predicted, seconds; };
  struct Candidate { std::string text; double expected; };  // seconds

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  bool goes_on() {
    if (elapsed() >= options_.seconds) return false;
    return !options_.goes_on ||
        options_.goes_on({elapsed(), options_.seconds, measured_, first_.seconds, best_.seconds});
  }

  double predicted(const codegen::Chosen& chosen) const {
    return codegen::model::predicts_time(request_.target)
        ? codegen::model::milliseconds_of(*chosen.plan, chosen.strides, request_.target)
        : 0;
  }

  std::shared_ptr<const Module> module_of(const codegen::Stages& stages) const {
    return extended(
        load(half_of(stages, request_).package, request_), {{}, stages.outputs, stages.checks}, callable_.sources());
  }

  // Nothing: the plan is not legal.
  std::optional<codegen::Stages> planned(const std::string& text, codegen::Until until) const {
    codegen::Request own = request_;
    own.plan = codegen::PlanText{text, 0};
    own.keeps_rewrites = until == codegen::Until::Plan;
    lang::Diagnostics unheard;
    std::vector<codegen::Timing> timings;
    try {
      std::optional<codegen::Chosen> chosen = codegen::choose(*untuned_.reduced, own, until, timings, unheard);
      if (!chosen) return std::nullopt;
      codegen::Stages stages;
      static_cast<codegen::Chosen&>(stages) = std::move(*chosen);
      stages.outputs = untuned_.outputs, stages.checks = untuned_.checks;
      return stages;
    } catch (const std::exception&) {                    // a bug of ours, or more memory than there is: no plan for
                                                         // anybody
      return std::nullopt;
    }
  }

  // On one thread the time that it has a core: other programs, which take it away, change nothing.
  double time_of(std::size_t calls, const Plan& plan) {
    const auto work = [&] { for (std::size_t k = 0; k < calls; ++k) plan.module->run(in_.data(), out_.data()); };
    return (alone_ ? thread_seconds_of(work) : seconds_of(work)) / static_cast<double>(calls);
  }
  double once(const Plan& plan) { return time_of(1, plan); }

  // What lies one step away, with what is expected of it.
  void expand(const Plan& plan) {
    const std::optional<codegen::Stages> stages = planned(plan.text, codegen::Until::Plan);
    if (!stages) return;
    const double last = elapsed() + looking * (options_.seconds - elapsed());
    for (const std::string& text : codegen::moves(*stages, request_.target)) {
      if (elapsed() > last || !goes_on()) return;
      if (!seen_.insert(text).second) continue;
      const std::optional<codegen::Stages> other = planned(text, codegen::Until::Plan);
      if (!other) continue;
      std::string whole = codegen::whole_text(*other->plan);
      if (whole != text && !seen_.insert(whole).second) continue;
      const double expects = predicted(*other);
      queue_.push_back({std::move(whole), plan.seconds * (plan.predicted > 0 ? expects / plan.predicted : 1)});
    }
  }

  // Whether it is the best now.
  bool try_one(const Candidate& candidate) {
    const std::optional<codegen::Stages> stages = planned(candidate.text, codegen::Until::Lowered);
    if (!stages) return false;
    try {
      return measure({module_of(*stages), candidate.text, predicted(*stages), 0});
    } catch (const std::exception&) {                    // more memory than there is, or what a device refuses
      return false;
    }
  }

  bool measure(Plan plan) {
    ++measured_;
    // what a candidate leaves out shows
    for (const Tensor& tensor : outputs_)
      std::memset(tensor.data, 0xff, static_cast<std::size_t>(byte_count("", tensor.dtype, tensor.shape)));
    double least = once(plan);
    for (std::size_t o = 0; o < outputs_.size(); ++o)
      if (!agree(expected_[o], outputs_[o])) return false;
    least = std::min(least, once(plan));
    if (least > hopeless * best_.seconds) return false;
    Verdict verdict = compared(plan, best_, least_turns, most_turns);
    // of many, some are lucky once
    if (verdict.is_faster) verdict = compared(plan, best_, turns_of_second_look, most_turns);
    plan.seconds = best_.seconds * verdict.ratio.median;
    if (!verdict.is_faster || verdict.ratio.median > faster) {
      if (verdict.ratio.median < worth_going_on) plan.module.reset(), near_.push_back(std::move(plan));
      return false;
    }
    std::swap(best_, plan);
    plan.module.reset();
    near_.push_back(std::move(plan));
    return true;
  }

  // Turns of both, until the interval of their ratio says which is faster.
  struct Verdict { bool is_faster; Interval ratio; double seconds; };
  Verdict compared(const Plan& plan, const Plan& other, std::size_t least, std::size_t most,
      double seconds = std::numeric_limits<double>::infinity()) {
    const auto calls = static_cast<std::size_t>(std::ceil(batch_seconds / std::max(other.seconds, 1e-9)));
    std::vector<double> mine, theirs;
    const double end = elapsed() + seconds;
    for (;;) {
      const bool first = mine.size() % 2 == 0;           // in turns: what comes first may find colder caches
      if (first) mine.push_back(time_of(calls, plan));
      theirs.push_back(time_of(calls, other));
      if (!first) mine.push_back(time_of(calls, plan));
      if (mine.size() < least_turns || (mine.size() < least && elapsed() < end)) continue;
      const Interval ratio = ratio_of(mine, theirs);
      if (ratio.low > 1 || ratio.high < 1 || mine.size() >= most || elapsed() > end)
        return {ratio.high < 1, ratio, interval_of(mine).median};
    }
  }

  Tuned proved() {
    Tuned tuned{first_.text, first_.seconds, first_.seconds, 1, 1, 1, measured_, false};
    if (best_.text == first_.text) return tuned;
    const Verdict verdict = compared(best_, first_, turns_of_proof, turns_of_proof, proving * options_.seconds);
    const Interval& ratio = verdict.ratio;
    if (!verdict.is_faster || ratio.median > faster) return tuned;
    tuned.plan = best_.text;
    tuned.best = verdict.seconds, tuned.first = verdict.seconds / ratio.median;
    tuned.ratio = 1 / ratio.median, tuned.low = 1 / ratio.high, tuned.high = 1 / ratio.low;
    return tuned;
  }

  const Callable& callable_;
  const codegen::Request request_;
  const codegen::Stages untuned_;
  const TuneOptions& options_;
  const Clock::time_point start_ = Clock::now();
  const bool alone_ = request_.target.family == codegen::Target::Family::Cpu && tuned_threads(request_) == 1;
  Plan first_, best_;
  std::vector<Tensor> inputs_, expected_, outputs_;
  std::vector<void*> in_, out_;
  std::vector<Candidate> queue_;
  std::vector<Plan> near_;                               // measured, about as fast as the best was
  std::set<std::string> seen_;
  std::size_t measured_ = 0;
};

}  // namespace

std::string tuning_key(const codegen::Stages& untuned, const codegen::Request& request) {
  if (request.plan || request.pair || !untuned.reduced || !untuned.plan) return {};
  return hash_of(text_for_plans(poly::print(*untuned.reduced) + codegen::print(*untuned.plan), request));
}

std::int64_t tuned_threads(const codegen::Request& request) {
  return request.threads_hint == 1 ? 1 : default_pool()->workers;
}

std::optional<Tuned> tune(const Callable& callable, const std::vector<Argument>& arguments, const TuneOptions& options,
    lang::Diagnostics& diagnostics) {
  std::optional<codegen::Request> request = callable.request_for(arguments, {}, diagnostics);
  if (!request) return std::nullopt;
  if (request->target.family == codegen::Target::Family::Reference)
    throw argument_error(messages::plan_unused, "the interpreter")
        .hint("choose a target that compiles: `cpu`, `opencl` or `cuda`");
  if (request->pair)
    throw argument_error(messages::bad_call, "tune", "a pair has two plans").hint("tune the function, or its gradient");
  *request = as_compiled(std::move(*request));
  codegen::Request plain = *request;
  plain.plan.reset();
  std::optional<codegen::Stages> untuned =
      codegen::compile(callable.file(), plain, until_for(request->target), diagnostics);
  if (!untuned) return std::nullopt;
  const std::string key = tuning_key(*untuned, plain);
  Tuned tuned = Search(callable, *request, std::move(*untuned), arguments, options).run_all();
  if (tuned.ratio > 1 && callable.disk() != nullptr)
    tuned.kept = callable.disk()->keep_plan(key, tuned_threads(*request), tuned.plan, diagnostics);
  return tuned;
}

}  // namespace tilec::runtime
