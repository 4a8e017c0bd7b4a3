#include "codegen/choose/ahead.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "codegen/leaf.h"
#include "codegen/model/estimates.h"
#include "codegen/model/machine.h"

namespace tilec::codegen {

namespace {

// The extents that one turn sees, and what a step of the block does there.
class Steps {
 public:
  Steps(const Facts& f, const Compute& leaf, std::int64_t chunk)
      : f_(f), leaf_(leaf), n_(position(leaf.n)), m_(position(leaf.m())), level_(level_that_waits(f.nest, leaf).value_or(leaf.k.size() - 1)), asking_(*f.nest.dim(leaf.k[level_])), bytes_(lang::bytes(f.nest.value->type())) {
    for (std::size_t l = 0; l < leaf.k.size(); ++l) {
      const std::size_t d = *f.nest.dim(leaf.k[l]);
      (l <= level_ ? steps_ : inside_) *= static_cast<double>(extent(d));
      if (l > level_) inner_.emplace_back(d, extent(d));
    }
    columns_ = leaf.is<forms::Reduce>() ? extent(static_cast<std::size_t>(n_)) : leaf.vectors * leaf.lanes;
    if (chunk) steps_ *= static_cast<double>(chunk) / static_cast<double>(extent(*f.nest.dim(leaf.k.front())));
  }

  // Lines of a step that are worth asking for, of all reads; 0: none is.
  double lines() const {
    double all = 0;
    if (!inner_.empty() && asks_never()) return 0;
    for (const FlatAccess& read : f_.nest.reads) {
      if (!waits(read)) continue;
      if (readings(read) > model::ahead::most_readings) return 0;
      if ((leaf_.is<forms::Reduce>() || !inner_.empty()) && lines_of(read) > model::ahead::short_run) return 0;
      all += lines_of(read);
    }
    return all * model::ahead::asking > model::ahead::may_cost * cycles() ? 0 : all;
  }
  double cycles() const { return inside_ * std::max(static_cast<double>(leaf_.rows) * std::ceil(static_cast<double>(columns_) / static_cast<double>(leaf_.lanes)) / 2, 4.0); }
  double steps() const { return steps_; }
  double in_a_row() const { return static_cast<double>(extent(asking_)); }
  // In the end memory says how fast blocks follow each other.
  double block() const { return steps_ * std::max(cycles(), lines() * model::line / model::memory_bytes); }
  // Whether all that waits lies along n, and one block reads it and no other.
  bool read_once() const {
    return std::ranges::all_of(f_.nest.reads, [&](const FlatAccess& read) { return !waits(read) || (coefficient(read, static_cast<std::size_t>(n_)) != 0 && readings(read) == 1); });
  }
  // Loops around the blocks whose next turn goes on where rows were left, near enough that the core knows the page: blocks from one of
  // these turns to the next, the most of all reads. None: of some read there is no such loop.
  struct Turns { double blocks = 1, count = 1e9; };
  std::optional<Turns> turns() const {
    Turns all;
    for (const FlatAccess& read : f_.nest.reads) {
      if (!waits(read)) continue;
      double inside = blocks(n_, leaf_.vectors * leaf_.lanes) * blocks(m_, leaf_.rows);
      std::optional<double> count;
      for (auto index = leaf_.outer.rbegin(); index != leaf_.outer.rend() && !count; ++index) {
        const std::size_t d = *f_.nest.dim(*index);
        const auto step = static_cast<double>(coefficient(read, d) * bytes_);
        if (step == 0) inside *= static_cast<double>(extent(d));
        else if (step > model::reach) return std::nullopt;
        else count = static_cast<double>(extent(d));
      }
      if (!count) return std::nullopt;
      all = {std::max(all.blocks, inside), std::min(all.count, *count)};
    }
    return all;
  }
  // Blocks of the dimension that tells the rows' parts apart.
  double blocks_along() const {
    double least = 1e9;
    for (const FlatAccess& read : f_.nest.reads) {
      if (!waits(read)) continue;
      const bool in_n = n_ >= 0 && coefficient(read, static_cast<std::size_t>(n_)) != 0;
      least = std::min(least, in_n ? blocks(n_, leaf_.vectors * leaf_.lanes) : blocks(m_, leaf_.rows));
    }
    return least;
  }

 private:
  // A fold asks in its innermost loop alone; values of taps are loops around the blocks.
  bool asks_never() const {
    const auto* contract = leaf_.as<forms::Contract>();
    return contract == nullptr || static_cast<std::int64_t>(level_) < contract->taps;
  }

  int position(const std::string& name) const { return name.empty() ? -1 : static_cast<int>(*f_.nest.dim(name)); }
  std::int64_t extent(std::size_t d) const { return f_.extent[d]; }
  std::int64_t coefficient(const FlatAccess& read, std::size_t d) const { return std::abs(read.offset.coefficients[d]); }
  double blocks(int d, std::int64_t of) const { return d < 0 ? 1 : std::ceil(static_cast<double>(extent(static_cast<std::size_t>(d))) / static_cast<double>(of)); }

  // Nor does a step read all that lies between it and the next.
  bool waits(const FlatAccess& read) const {
    if (!waits_for(f_.nest, read, asking_, bytes_)) return false;
    const auto step = static_cast<double>(coefficient(read, asking_) * bytes_);
    return step >= std::min(model::page, 2 * lines_of(read) * model::line);
  }
  // By blocks of m and by loops around the blocks.
  double readings(const FlatAccess& read) const {
    double count = m_ >= 0 && coefficient(read, static_cast<std::size_t>(m_)) == 0 ? blocks(m_, leaf_.rows) : 1;
    for (const std::string& index : leaf_.outer)
      if (const std::size_t d = *f_.nest.dim(index); coefficient(read, d) == 0) count *= static_cast<double>(extent(d));
    return count;
  }
  double lines_of(const FlatAccess& read) const { return static_cast<double>(lines_of_step(read.offset, m_, leaf_.rows, n_, columns_, bytes_, inner_).size()); }

  const Facts& f_;
  const Compute& leaf_;
  const int n_, m_;
  const std::size_t level_, asking_;                   // of k, the reduction whose steps ask
  const std::int64_t bytes_;
  std::int64_t columns_ = 1;                           // that a step has
  double steps_ = 1, inside_ = 1;                      // steps that ask; steps of the reductions inside each
  std::vector<std::pair<std::size_t, std::int64_t>> inner_;
};

// How many steps of the reduction that asks take as long as memory does; 0: it has too few.
std::int64_t steps_ahead(const Steps& steps, std::int64_t l1) {
  const double least = std::clamp(std::ceil(model::ahead::memory / steps.cycles()), static_cast<double>(model::ahead::least_steps), static_cast<double>(model::ahead::window_steps));
  const double held = model::ahead::share_of_l1 * static_cast<double>(l1) / (steps.lines() * model::line);
  const double most = std::floor(std::min({std::ceil(2 * model::ahead::memory / steps.cycles()), static_cast<double>(model::ahead::most_steps), held}));
  return 2 * least <= steps.in_a_row() ? static_cast<std::int64_t>(std::clamp(std::floor(steps.in_a_row() / 2), least, std::max(least, most))) : 0;
}

void ask(const Facts& f, const Compute& leaf, forms::Contract& contract) {
  const Steps steps(f, leaf, contract.chunk);
  const double lines = steps.lines();
  if (lines == 0) return;
  const double of_block = steps.steps() * lines * model::line, most = model::ahead::share_of_l2 * static_cast<double>(f.l2);
  const auto far_enough = [](double cycles) { return std::clamp(std::ceil(model::ahead::in_flight / cycles), 1.0, static_cast<double>(model::ahead::most_blocks)); };
  if (const double blocks = far_enough(steps.block()); steps.blocks_along() > blocks && of_block * blocks <= most) {
    contract.ahead = static_cast<std::int64_t>(blocks), contract.ahead_by = forms::Ahead::Blocks;
    return;
  }
  if (const auto around = steps.turns()) {
    if (const double turns = far_enough(steps.block() * around->blocks); around->count > turns && of_block * around->blocks * turns <= most) {
      contract.ahead = static_cast<std::int64_t>(turns), contract.ahead_by = forms::Ahead::Turns;
      return;
    }
  }
  contract.ahead = steps_ahead(steps, f.l1), contract.ahead_by = forms::Ahead::Steps;
}

// The same accumulators as rows of one vector, where these are all rows and hide each other's latency.
std::optional<Compute> narrowed(const Facts& f, const Compute& leaf) {
  if (leaf.vectors < 2 || leaf.m().empty()) return std::nullopt;
  const auto strips = static_cast<double>(f.nest.dims[*f.nest.dim(leaf.n)].extent) / static_cast<double>(leaf.lanes);  // of the whole row: turns lie side by side
  if (strips < model::ahead::strips_of_row) return std::nullopt;
  const std::int64_t all = f.extent[*f.nest.dim(leaf.m())];
  if (all > std::min(leaf.rows * leaf.vectors, model::blocks::most_rows) || static_cast<double>(all) < model::latency) return std::nullopt;
  Compute narrow = leaf;
  narrow.rows = all;
  narrow.vectors = 1;
  return narrow;
}

void ask_for_rows(const Facts& f, Compute& leaf, forms::Contract& contract) {
  ask(f, leaf, contract);
  if (contract.ahead_by != forms::Ahead::Blocks) return;
  std::optional<Compute> narrow = narrowed(f, leaf);
  if (!narrow || !Steps(f, *narrow, contract.chunk).read_once()) return;
  ask(f, *narrow, *narrow->as<forms::Contract>());
  if (narrow->as<forms::Contract>()->ahead_by == forms::Ahead::Blocks) leaf = std::move(*narrow);
}

// A block of one row goes along a stream that a core fetches ahead by itself.
bool claims(const Facts& f, const Compute& leaf) { return (leaf.rows > 1 || !leaf.k.empty()) && leaves_cache(f.nest, f.nest.target, f.stored); }

}  // namespace

void look_ahead(const Facts& f, Compute& leaf) {
  if (leaf.block()) leaf.block()->claims = claims(f, leaf);
  if (leaf.k.empty() || leaf.n.empty()) return;
  if (auto* contract = leaf.as<forms::Contract>()) ask_for_rows(f, leaf, *contract);
  if (auto* reduce = leaf.as<forms::Reduce>())
    if (const Steps steps(f, leaf, 0); steps.lines() > 0) reduce->ahead = steps_ahead(steps, f.l1);
}

}  // namespace tilec::codegen
