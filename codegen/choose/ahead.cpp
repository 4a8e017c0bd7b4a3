#include "codegen/choose/ahead.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "codegen/model/estimates.h"
#include "codegen/model/machine.h"
#include "codegen/requests.h"

namespace tilec::codegen {

namespace {

// The extents that one turn sees, and what a step of the block does there.
class Steps {
 public:
  Steps(const Facts& f, const Compute& leaf, std::int64_t chunk)
      : f_(f),
        leaf_(leaf),
        n_(position(leaf.n)),
        m_(position(leaf.m())),
        level_(level_that_waits(f.nest, leaf).value_or(leaf.k.size() - 1)),
        asking_(*f.nest.dim(leaf.k[level_])),
        bytes_(lang::bytes(f.nest.value->type())) {
    for (std::size_t l = 0; l < leaf.k.size(); ++l) {
      const std::size_t d = *f.nest.dim(leaf.k[l]);
      (l <= level_ ? steps_ : inside_) *= static_cast<double>(extent(d));
      if (l > level_) inner_.emplace_back(d, extent(d));
    }
    columns_ = leaf.is<forms::Reduce>() ? extent(static_cast<std::size_t>(n_)) : leaf.vectors * leaf.lanes;
    if (chunk) steps_ *= static_cast<double>(chunk) / static_cast<double>(extent(*f.nest.dim(leaf.k.front())));
    for (const FlatAccess& read : f.nest.reads) if (waits(read)) waiting_.push_back(&read);
    lines_ = worth_asking();
  }

  // Lines of a step that are worth asking for, of all reads; 0: none is.
  double lines() const { return lines_; }
  double cycles() const {
    return inside_ *
        std::max(static_cast<double>(leaf_.rows) *
                std::ceil(static_cast<double>(columns_) / static_cast<double>(leaf_.lanes)) / 2,
            4.0);
  }
  double steps() const { return steps_; }
  const std::string& asks() const { return leaf_.k[level_]; }
  double in_a_row() const { return static_cast<double>(extent(asking_)); }
  // In the end memory says how fast blocks follow each other.
  double block() const { return steps_ * std::max(cycles(), lines() * model::line / model::memory_bytes); }
  // Whether all that waits lies along n, and one block reads it and no other.
  bool read_once() const {
    return std::ranges::all_of(waiting_, [&](const FlatAccess* read) {
      return coefficient(*read, static_cast<std::size_t>(n_)) != 0 && readings(*read) == 1;
    });
  }
  // Whether steps ask for rows of a later block in turn.
  bool ask_in_turn() const {
    return std::ranges::any_of(waiting_, [&](const FlatAccess* read) { return in_turn(*read); });
  }
  // Whether a step goes on, or nearly, where the last one ended: steps are the order of memory.
  bool goes_on() const {
    return std::ranges::all_of(waiting_, [&](const FlatAccess* read) {
      return static_cast<double>(coefficient(*read, asking_) * bytes_) < model::ahead::apart;
    });
  }
  // Loops whose later turns read other parts of the rows: their indices, the fewest turns that one of them has, and the
  // most blocks between two turns of one.
  struct Further {
    std::vector<std::string> along;
    double turns = 1e9, blocks = 1;
    void add(const std::string& index, double count, double between) {
      if (std::ranges::find(along, index) == along.end()) along.push_back(index);
      turns = std::min(turns, count), blocks = std::max(blocks, between);
    }
    std::vector<Ahead> by(double count) const {
      std::vector<Ahead> all;
      for (const std::string& index : along) all.push_back({index, static_cast<std::int64_t>(count)});
      return all;
    }
  };
  // Blocks of n, or of m.
  Further by_blocks() const {
    Further all;
    for (const FlatAccess* read : waiting_)
      if (along_n(*read)) all.add(leaf_.n, blocks(n_, leaf_.vectors * leaf_.lanes), 1);
      else all.add(leaf_.m(), blocks(m_, leaf_.rows), 1);
    return all;
  }
  // Whether a block goes on, or nearly, where the last one ended.
  bool blocks_go_on() const {
    return std::ranges::all_of(waiting_, [&](const FlatAccess* read) {
      const int d = along_n(*read) ? n_ : m_;
      const std::int64_t count = along_n(*read) ? leaf_.vectors * leaf_.lanes : leaf_.rows;
      return d < 0 ||
          static_cast<double>(coefficient(*read, static_cast<std::size_t>(d)) * count * bytes_) < model::ahead::apart;
    });
  }
  // How many blocks or turns of so many blocks take as long as memory does.
  double apart_by(double blocks) const {
    return std::clamp(
        std::ceil(model::ahead::in_flight / (block() * blocks)), 1.0, static_cast<double>(model::ahead::most_blocks));
  }
  // Loops around the blocks, their steps no wider than `reach` bytes. None: of some read there is no such loop.
  std::optional<Further> by_turns(double reach, double least) const {
    Further all;
    for (const FlatAccess* read : waiting_) {
      double between = blocks(n_, leaf_.vectors * leaf_.lanes) * blocks(m_, leaf_.rows);
      bool found = false;
      for (auto index = leaf_.outer.rbegin(); index != leaf_.outer.rend() && !found; ++index) {
        const std::size_t d = *f_.nest.dim(*index);
        const auto step = static_cast<double>(coefficient(*read, d) * bytes_);
        if (step > reach) return std::nullopt;
        if (step == 0 || static_cast<double>(extent(d)) < least * apart_by(between))
          between *= static_cast<double>(extent(d));
        else all.add(*index, static_cast<double>(extent(d)), between), found = true;
      }
      if (!found) return std::nullopt;
    }
    return all;
  }

 private:
  double worth_asking() const {
    double all = 0;
    if (!inner_.empty() && asks_never()) return 0;
    for (const FlatAccess* read : waiting_) {
      // What is read again asks again: worth it where all readings take less time than fetching does.
      const double times = readings(*read), each = lines_of(*read);
      if (times > model::ahead::ever_readings ||
          (times > model::ahead::most_readings && times * cycles() > model::ahead::of_a_line * each))
        return 0;
      if (leaf_.is<forms::Reduce>() ? each > model::ahead::short_run
                                    : !inner_.empty() && each > model::ahead::most_of_step && !in_turn(*read))
        return 0;
      all += each;
    }
    return all * model::ahead::asking > model::ahead::may_cost * cycles() ? 0 : all;
  }
  // A fold asks in its innermost loop alone; values of taps are loops around the blocks.
  bool asks_never() const {
    return !leaf_.is<forms::Contract>() || level_ < taps_around(f_.nest, leaf_);
  }

  int position(const std::string& name) const { return name.empty() ? -1 : static_cast<int>(*f_.nest.dim(name)); }
  std::int64_t extent(std::size_t d) const { return f_.extent[d]; }
  std::int64_t coefficient(const FlatAccess& read, std::size_t d) const {
    return std::abs(read.offset.coefficients[d]);
  }
  // Whether blocks of n read other parts of the rows; else those of m do.
  bool along_n(const FlatAccess& read) const {
    const bool in_m = m_ >= 0 && coefficient(read, static_cast<std::size_t>(m_)) != 0;
    return !leaf_.is<forms::Reduce>() && n_ >= 0 && coefficient(read, static_cast<std::size_t>(n_)) != 0 &&
        !(in_m && leaf_.block() && leaf_.block()->m_inner && blocks(m_, leaf_.rows) > 1);
  }
  double blocks(int d, std::int64_t of) const {
    return d < 0 ? 1 : std::ceil(static_cast<double>(extent(static_cast<std::size_t>(d))) / static_cast<double>(of));
  }

  // Nor does a step read all that lies between it and the next.
  bool waits(const FlatAccess& read) const {
    if (!asks_for(f_.nest, leaf_, read, asking_, bytes_) || kept(read)) return false;
    const auto step = static_cast<double>(coefficient(read, asking_) * bytes_);
    const bool apart =
        m_ >= 0 && static_cast<double>(coefficient(read, static_cast<std::size_t>(m_)) * bytes_) >= model::ahead::apart;
    return step >= std::min(model::page, 2 * lines_of(read, apart ? 1 : leaf_.rows) * model::line);
  }
  // Whether blocks of n read the same again and again, and the second cache has it from the first of them.
  bool kept(const FlatAccess& read) const {
    if (leaf_.is<forms::Reduce>() || n_ < 0 || coefficient(read, static_cast<std::size_t>(n_)) != 0) return false;
    if (leaf_.block() && !leaf_.block()->m_inner && blocks(m_, leaf_.rows) > 1) return false;
    const double bytes = steps_ * lines_of(read, m_ < 0 ? 1 : extent(static_cast<std::size_t>(m_))) * model::line;
    return blocks(n_, columns_) > model::ahead::most_readings &&
        bytes <= model::ahead::share_of_l2 * static_cast<double>(f_.l2);
  }
  double readings(const FlatAccess& read) const { return codegen::readings(f_.nest, leaf_, read, f_.extent); }
  double lines_of(const FlatAccess& read) const {
    return lines_of(read, new_rows(read.offset, m_, leaf_.rows, asking_).count);
  }
  bool in_turn(const FlatAccess& read) const {
    return codegen::in_turn(f_.nest, leaf_, read, asking_, leaf_.rows, columns_, bytes_).has_value();
  }
  double lines_of(const FlatAccess& read, std::int64_t rows) const {
    return static_cast<double>(count_lines_of_step(read.offset, m_, rows, n_, columns_, bytes_, inner_));
  }

  const Facts& f_;
  const Compute& leaf_;
  const int n_, m_;
  const std::size_t level_, asking_;                   // of k, the reduction whose steps ask
  const std::int64_t bytes_;
  std::int64_t columns_ = 1;                           // that a step has
  double steps_ = 1, inside_ = 1;                      // steps that ask; steps of the reductions inside each
  std::vector<std::pair<std::size_t, std::int64_t>> inner_;
  std::vector<const FlatAccess*> waiting_;             // reads that a step waits for
  double lines_ = 0;
};

// How many steps of the reduction that asks take as long as memory does, or up to twice as long where the first cache
// holds what they ask for; 0: it has too few.
std::int64_t steps_ahead(const Steps& steps, std::int64_t l1) {
  const double least = std::clamp(std::ceil(model::ahead::memory / steps.cycles()),
      static_cast<double>(model::ahead::least_steps), static_cast<double>(model::ahead::window_steps));
  const double held = model::ahead::share_of_l1 * static_cast<double>(l1) / (steps.lines() * model::line);
  const double most = std::floor(std::min(
      {std::ceil(2 * model::ahead::memory / steps.cycles()), static_cast<double>(model::ahead::most_steps), held}));
  return 2 * least <= steps.in_a_row()
      ? static_cast<std::int64_t>(std::clamp(std::floor(steps.in_a_row() / 2), least, std::max(least, most)))
      : 0;
}

// Blocks or turns that are far enough from those that read, where there are more than `least` times as many and the
// second cache holds what comes between. `nearer`: half of those there are, where there are no more than that.
std::vector<Ahead> early(
    const Facts& f, const Steps& steps, const Steps::Further& further, double least = 1, bool nearer = false) {
  const double bytes = steps.steps() * steps.lines() * model::line * further.blocks,
               far = steps.apart_by(further.blocks);
  const auto fits = [&](double count) {
    return further.turns > least * count && bytes * count <= model::ahead::share_of_l2 * static_cast<double>(f.l2);
  };
  double count = nearer && further.turns <= far ? std::max(1.0, std::floor(further.turns / 2)) : far;
  if (count < model::ahead::not_next && !steps.ask_in_turn() && fits(model::ahead::not_next))
    count = model::ahead::not_next;
  return fits(count) ? further.by(count) : std::vector<Ahead>();
}

// The nearest first: what goes on with lines that the core knows.
struct Asking { std::vector<Ahead> ahead; bool by_blocks = false; };
Asking asking(const Facts& f, const Compute& leaf, const Steps& steps) {
  const auto* contract = leaf.as<forms::Contract>();
  if (steps.lines() == 0) return {};
  const auto by_turns = [&](double reach, double least = model::ahead::least_turns) {
    const auto around = contract != nullptr ? steps.by_turns(reach, least) : std::nullopt;
    return around ? early(f, steps, *around) : std::vector<Ahead>();
  };
  const std::int64_t count = steps_ahead(steps, f.l1);
  const bool long_row = count > 0 && model::ahead::least_row * static_cast<double>(count) <= steps.in_a_row();
  if (contract != nullptr && !steps.goes_on()) {
    std::vector<Ahead> blocks = early(f, steps, steps.by_blocks(), model::ahead::least_blocks);
    // Blocks as far apart as steps are no nearer to lines that the core knows.
    if (!blocks.empty() && (steps.blocks_go_on() || !long_row)) return {std::move(blocks), true};
    if (std::vector<Ahead> turns = by_turns(model::reach); !turns.empty()) return {std::move(turns)};
  }
  if (long_row) return {{{steps.asks(), count}}};
  if (std::vector<Ahead> turns = by_turns(std::numeric_limits<double>::infinity()); !turns.empty())
    return {std::move(turns)};
  if (count > 0) return {{{steps.asks(), count}}};
  if (std::vector<Ahead> turns = by_turns(std::numeric_limits<double>::infinity(), 1); !turns.empty())
    return {std::move(turns)};
  const bool masked = f.extent[*f.nest.dim(leaf.n)] < leaf.lanes;  // then a core fetches not even the next line
  return {contract != nullptr || masked ? early(f, steps, steps.by_blocks(), 1, true) : std::vector<Ahead>()};
}

// The same accumulators as rows of one vector, where these are all rows and hide each other's latency.
std::optional<Compute> narrowed(const Facts& f, const Compute& leaf) {
  if (leaf.vectors < 2 || leaf.m().empty()) return std::nullopt;
  // of the whole row: turns lie side by side
  const auto strips = static_cast<double>(f.nest.dims[*f.nest.dim(leaf.n)].extent) / static_cast<double>(leaf.lanes);
  if (strips < model::ahead::strips_of_row) return std::nullopt;
  const std::int64_t all = f.extent[*f.nest.dim(leaf.m())];
  if (all > std::min(leaf.rows * leaf.vectors, model::blocks::most_rows) || static_cast<double>(all) < model::latency)
    return std::nullopt;
  if (leaf.block() && leaf.block()->turned && all > leaf.lanes) return std::nullopt;
  Compute narrow = leaf;
  narrow.rows = all;
  narrow.vectors = 1;
  return narrow;
}

void ask_for_rows(const Facts& f, Compute& leaf) {
  const auto* contract = leaf.as<forms::Contract>();
  const Steps steps(f, leaf, contract != nullptr ? contract->chunk : 0);
  leaf.ahead = asking(f, leaf, steps).ahead;
  if (contract == nullptr || leaf.ahead.empty()) return;
  if (steps.goes_on() || early(f, steps, steps.by_blocks()).empty()) return;
  std::optional<Compute> narrow = narrowed(f, leaf);
  if (!narrow) return;
  const Steps of_narrow(f, *narrow, contract->chunk);
  if (!of_narrow.read_once()) return;
  Asking narrower = asking(f, *narrow, of_narrow);
  if (!narrower.by_blocks) return;
  narrow->ahead = std::move(narrower.ahead);
  leaf = std::move(*narrow);
}

// The loops around what asks at once, a block or a step of a fold of lanes, as ask_for_blocks sees them.
class Around {
 public:
  Around(const Facts& f, const Compute& leaf)
      : f_(f), leaf_(leaf), folds_(leaf.is<forms::Reduce>()), n_(f.nest.dim(leaf.n)), m_(f.nest.dim(leaf.m())) {
    const std::size_t taps = taps_around(f.nest, leaf);
    loops_.reserve(f.extent.size());
    if (!leaf.n.empty()) add(leaf.n, leaf.vectors * leaf.lanes);
    if (folds_) for (auto index = leaf.k.rbegin(); index != leaf.k.rend(); ++index) add(*index, 1);
    if (!leaf.m().empty()) add(leaf.m(), leaf.rows);
    if (m_inner()) std::ranges::rotate(loops_, loops_.end() - 1);
    for (std::size_t tap = taps; tap-- > 0;) add(leaf.k[tap], 1);
    for (auto index = leaf.outer.rbegin(); index != leaf.outer.rend(); ++index) add(*index, 1);
    if (folds_) return;
    inner_.reserve(leaf.k.size());
    for (std::size_t k = taps; k < leaf.k.size(); ++k) {
      const std::size_t d = *f.nest.dim(leaf.k[k]);
      inner_.emplace_back(d, f.extent[d]);
    }
  }

  // What goes ahead so that as much time comes between as memory takes: blocks, else turns of a loop around them, else
  // steps that others ask for in turn. None: nothing is far enough, or too far.
  std::optional<Ahead> ahead_of(const FlatAccess& access, std::int64_t bytes) const {
    if (std::optional<Ahead> blocks = by_blocks(access, bytes)) return blocks;
    return by_steps(access, bytes);
  }
  // Rows of a block, each a page away from the next, that lanes go along for long: so many streams a core fetches ahead
  // well enough.
  bool followed(const FlatAccess& access, std::int64_t bytes) const {
    if (leaf_.m().empty() || leaf_.n.empty() || leaf_.rows < model::ahead::rows_followed) return false;
    const std::size_t m = *f_.nest.dim(leaf_.m()), n = *f_.nest.dim(leaf_.n);
    return (!m_inner() || f_.extent[m] <= leaf_.rows) && std::abs(access.offset.coefficients[n]) == 1 &&
           static_cast<double>(std::abs(access.offset.coefficients[m]) * bytes) >= model::ahead::apart &&
           static_cast<double>(f_.extent[n] * bytes) >= model::ahead::short_run * model::line;
  }

 private:
  std::optional<Ahead> by_blocks(const FlatAccess& access, std::int64_t bytes) const {
    const auto in_turn = leaf_.m().empty() ? std::nullopt
                                           : codegen::in_turn(f_.nest, leaf_, access, *f_.nest.dim(leaf_.m()),
                                                 leaf_.rows, leaf_.vectors * leaf_.lanes, bytes);
    if (!in_turn && !reads_little(access.offset, inner_)) return std::nullopt;
    double lines = in_turn ? static_cast<double>(in_turn->lines)
                           : static_cast<double>(count_lines_of_step(access.offset, position(leaf_.m()),
                                 leaf_.rows, position(leaf_.n), leaf_.vectors * leaf_.lanes, bytes, inner_));
    if (!in_turn && !inner_.empty() && lines > static_cast<double>(model::ahead::most_of_block)) return std::nullopt;
    double cycles = static_cast<double>(leaf_.rows * leaf_.vectors) / 2;
    for (const auto& [d, count] : inner_) cycles *= static_cast<double>(count);
    for (const auto& [d, turns] : loops_) {
      if (access.offset.coefficients[d] == 0 || overlaps(access.offset, d)) {
        cycles *= turns;
        continue;
      }
      if (cycles >= std::max(model::ahead::between, model::ahead::waits * lines * model::line / model::memory_bytes))
        return std::nullopt;
      const double fresh = lines * std::min(1.0, step_of(access, d, bytes) / model::line);
      const double count = count_ahead(cycles, fresh), all = lines + fresh * (turns - 1);
      if (turns < model::ahead::least_turns * count && all < model::ahead::most_lines_between) {
        lines = all, cycles *= turns;
        continue;
      }
      return turns > count && lines * count <= model::ahead::most_lines_between
          ? std::optional(Ahead{f_.nest.dims[d].name, static_cast<std::int64_t>(count)})
          : std::nullopt;
    }
    return std::nullopt;
  }
  // Bytes from one turn of a loop to the next.
  double step_of(const FlatAccess& access, std::size_t d, std::int64_t bytes) const {
    const std::int64_t values = d == n_ ? leaf_.vectors * leaf_.lanes : d == m_ ? leaf_.rows : 1;
    return static_cast<double>(std::abs(access.offset.coefficients[d]) * values * bytes);
  }
  // How many take as long as memory does, of so many cycles and lines each.
  static double count_ahead(double cycles, double lines) {
    return std::ceil(model::ahead::between / std::max(cycles, lines * model::line / model::memory_bytes));
  }
  // Steps of a reduction around the innermost one.
  std::optional<Ahead> by_steps(const FlatAccess& access, std::int64_t bytes) const {
    if (inner_.size() < 2) return std::nullopt;
    if (!leaf_.n.empty() && access.offset.coefficients[*f_.nest.dim(leaf_.n)] == 0 &&
        static_cast<double>(f_.extent[*f_.nest.dim(leaf_.n)]) >
            model::ahead::most_readings * static_cast<double>(leaf_.vectors * leaf_.lanes))
      return std::nullopt;
    double cycles = static_cast<double>(leaf_.rows * leaf_.vectors) / 2 * static_cast<double>(inner_.back().second);
    for (std::size_t level = inner_.size() - 1; level-- > 0;) {
      const auto& [d, turns] = inner_[level];
      const auto in_turn = access.offset.coefficients[d]
          ? codegen::in_turn(f_.nest, leaf_, access, d, leaf_.rows, leaf_.vectors * leaf_.lanes, bytes)
          : std::nullopt;
      if (in_turn) {
        const auto lines = static_cast<double>(in_turn->lines);
        const double count = count_ahead(cycles, lines);
        if (lines * count > model::ahead::most_lines_between) return std::nullopt;
        if (static_cast<double>(turns) >= model::ahead::least_turns * count)
          return Ahead{f_.nest.dims[d].name, static_cast<std::int64_t>(count)};
      }
      cycles *= static_cast<double>(turns);
    }
    return std::nullopt;
  }
  void add(const std::string& index, std::int64_t step) {
    const std::size_t d = *f_.nest.dim(index);
    loops_.emplace_back(d, std::ceil(static_cast<double>(f_.extent[d]) / static_cast<double>(step)));
  }
  int position(const std::string& index) const { return index.empty() ? -1 : static_cast<int>(*f_.nest.dim(index)); }
  bool m_inner() const { return leaf_.block() && leaf_.block()->m_inner && !leaf_.m().empty(); }
  // Whether the next turn, as that of a window, reads mostly what the block has.
  bool overlaps(const Form& offset, std::size_t d) const {
    const auto within = [&](std::optional<std::size_t> side, std::int64_t values) {
      if (!side || side == d) return false;
      const std::int64_t step = offset.coefficients[*side], moved = offset.coefficients[d];
      return step != 0 && moved % step == 0 && std::abs(moved / step) < std::min(values, f_.extent[*side]);
    };
    return within(m_, leaf_.rows) || within(n_, leaf_.vectors * leaf_.lanes);
  }

  const Facts& f_;
  const Compute& leaf_;
  const bool folds_;
  const std::optional<std::size_t> n_, m_;
  std::vector<std::pair<std::size_t, double>> loops_;  // innermost first, and how often they turn
  std::vector<std::pair<std::size_t, std::int64_t>> inner_;  // reductions inside a block, and their extents
};

// Lines of memory that a block reads or claims. Of a contraction whose steps ask, those that it claims.
void ask_for_blocks(const Facts& f, Compute& leaf, const Around& around, bool by_block) {
  const auto ask = [&](const FlatAccess& access, std::int64_t bytes) {
    const auto moves = [&](const Ahead& one) { return access.offset.coefficients[*f.nest.dim(one.index)] != 0; };
    if (!leaves_cache(f.nest, access, bytes) || std::ranges::any_of(leaf.ahead, moves)) return;
    if (auto ahead = around.ahead_of(access, bytes)) leaf.ahead.push_back(std::move(*ahead));
  };
  if (leaf.block() && leaf.block()->claims) ask(f.nest.target, f.stored);
  if (!leaf.is<forms::Reduce>() && !by_block && (!leaf.is<forms::Map>() || leaf.streams())) return;
  const std::int64_t bytes = lang::bytes(f.nest.value->type());
  for (const FlatAccess& read : f.nest.reads)
    if (!around.followed(read, bytes)) ask(read, bytes);
}

// Streams that nothing asks for yet, by steps of the innermost reduction.
void ask_for_streams(const Facts& f, Compute& leaf, const Around& around, bool by_block) {
  if (leaf.k.empty()) return;
  const std::int64_t bytes = lang::bytes(f.nest.value->type());
  const std::size_t d = *f.nest.dim(leaf.k.back());
  const auto moves = [&](const FlatAccess& read) {
    return [&](const Ahead& one) { return read.offset.coefficients[*f.nest.dim(one.index)] != 0; };
  };
  std::int64_t step = 0;
  for (const FlatAccess& read : f.nest.reads) {
    const std::int64_t moved = std::abs(read.offset.coefficients[d]);
    if (streams_under_masks(f.nest, leaf, read, bytes)) {
      if (!by_block || !around.ahead_of(read, bytes)) step = std::max(step, moved);
    } else if (!by_block && moved && leaves_cache(f.nest, read, bytes) && std::ranges::any_of(leaf.ahead, moves(read)))
      return;
  }
  if (!step || std::ranges::any_of(leaf.ahead, [&](const Ahead& one) { return one.index == leaf.k.back(); })) return;
  const auto count = std::min(std::ceil(model::ahead::of_stream / static_cast<double>(step * bytes)),
      std::floor(static_cast<double>(f.extent[d]) / 2));
  if (count * static_cast<double>(step * bytes) >= model::ahead::least_of_stream)
    leaf.ahead.insert(leaf.ahead.begin(), {leaf.k.back(), static_cast<std::int64_t>(count)});
}

// A block of one row goes along a stream that a core fetches ahead by itself.
bool claims(const Facts& f, const Compute& leaf) {
  return (leaf.rows > 1 || !leaf.k.empty()) && leaves_cache(f.nest, f.nest.target, f.stored);
}

}  // namespace

bool may_narrow(const Facts& f, const Compute& leaf) {
  return leaf.is<forms::Contract>() && !leaf.k.empty() && !leaf.n.empty() && narrowed(f, leaf);
}

void look_ahead(const Facts& f, Compute& leaf) {
  if (leaf.block()) leaf.block()->claims = claims(f, leaf);
  leaf.ahead.clear();
  if (!leaf.k.empty() && !leaf.n.empty() && (leaf.is<forms::Contract>() || leaf.is<forms::Reduce>()))
    ask_for_rows(f, leaf);
  if (!leaf.is<forms::Map>() && !leaf.is<forms::Contract>() && !leaf.is<forms::Reduce>()) return;
  const Around around(f, leaf);
  const bool by_block = asks_by_block(f.nest, leaf);
  ask_for_blocks(f, leaf, around, by_block);
  if (leaf.is<forms::Contract>()) ask_for_streams(f, leaf, around, by_block);
}

}  // namespace tilec::codegen
