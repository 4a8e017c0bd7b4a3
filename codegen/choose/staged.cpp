#include "codegen/choose/staged.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "codegen/choose/loop_order.h"
#include "codegen/choose/threads.h"
#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/scalar.h"
#include "codegen/staged.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

// Elements that a thread has, and how the threads of a block lie.
struct ThreadTile {
  std::int64_t rows, vectors, lanes, threads;
  bool masked = false;                                 // rows of the domain bound m
  bool asked = false;                                  // at each value of the reduction
  std::int64_t words = 1;                              // registers of an element
  double issued = 1;                                   // instructions of an element
  std::int64_t held = 0;                               // what it holds beside its sum
  std::int64_t height() const { return threads / lanes * rows; }
  std::int64_t width() const { return lanes * vectors; }
};

// Bytes of the sectors that go between a block and the second cache: for each element of a side of its tile, and of the
// tile, a value of the reduction. `arrives`: cycles that a stage of a tile with a short side is on its way.
struct Moved { double by_m, by_n, result, arrives = 0; };

// Registers of a thread: sums, operands of two steps, what is on its way, addresses.
std::int64_t registers(const ThreadTile& t, std::int64_t stage) {
  const std::int64_t on_its_way = stage * (t.height() + t.width()) / t.threads,
                     others = model::threads::other_registers + (t.masked ? model::threads::registers_of_rows : 0);
  return t.words * ((1 + t.held) * t.rows * t.vectors + 2 * (t.rows + t.vectors) + on_its_way) + others;
}

constexpr std::int64_t word = 4;                       // bytes

// Values of the reduction of which both buffers of a block are so large at most as those of a tile may be.
std::int64_t stage_of(const ThreadTile& t) {
  std::int64_t stage = model::threads::most_staged;
  while (stage > model::threads::least_of_depth &&
      2 * stage * t.words * word * (t.height() + t.width()) > model::threads::shared_of_tile)
    stage /= 2;
  return stage;
}

// Blocks that a multiprocessor holds, as its registers allow.
double resident(const ThreadTile& t, std::int64_t stage) {
  return std::max(
      1.0, std::floor(model::threads::registers / static_cast<double>(t.threads * registers(t, stage))));
}

// Cycles of the busiest multiprocessor for one value of the reduction: what it issues, what passes through shared
// memory, what comes from the second cache. One block alone waits at its barriers, and few warps for each other.
double cycles(const ThreadTile& t, double blocks, const Target& target, const Moved& moved) {
  namespace gpu = model::threads;
  const double warp = static_cast<double>(gpu::warp), warps = static_cast<double>(t.threads) / warp,
               words = static_cast<double>(t.words),   // an f64 takes as many turns, of arithmetic too
               elements = static_cast<double>(t.rows * t.vectors), sides = static_cast<double>(t.rows + t.vectors);
  const double copied = static_cast<double>(t.height() + t.width()), turns = std::ceil(blocks / target.multiprocessors);
  const double of_copy =
      gpu::issued_of_copy + (t.masked ? gpu::issued_of_rows : 0) + (t.asked ? gpu::issued_of_value : 0);
  const double issued = warps * words * (t.issued * elements + sides / 4) + copied / warp * of_copy,
               shared = words * (warps * sides * gpu::turns_of_operand + copied / warp);
  const double held = std::min(turns, resident(t, gpu::least_of_depth));
  const double alone = elements < gpu::sums_that_hide ? gpu::of_one_block : gpu::of_one_block_of_many_sums;
  const double waits = (held < 2 ? alone : 1) * std::max(1.0, gpu::warps_that_hide / (warps * held));
  const double sectors = static_cast<double>(t.height()) * moved.by_m + static_cast<double>(t.width()) * moved.by_n +
      static_cast<double>(t.height() * t.width()) * moved.result;
  // While a stage is multiplied the next one is on its way. Where little is multiplied, blocks wait for it; others of
  // the multiprocessor wait at the same time.
  const double waited = moved.arrives / static_cast<double>(stage_of(t)) / held;
  return turns * std::max({issued / gpu::issues * waits, shared, sectors / gpu::l2_bytes, waited});
}

// The tile that takes the fewest cycles. Of several that take about as long, the largest, which reads least. A side
// that is no wide tile's is a few threads', and the other one all others'.
struct TileChoice { ThreadTile tile; double cycles; };
TileChoice thread_tile(double rows, double columns, double others, const ThreadTile& like, const Target& target,
    const Moved& moved) {
  std::optional<ThreadTile> best;
  double least = 0;
  const auto weigh = [&](std::int64_t r, std::int64_t v, std::int64_t lanes, std::int64_t threads) {
    ThreadTile t = like;
    t.rows = r, t.vectors = v, t.lanes = lanes, t.threads = threads;
    const double blocks = std::ceil(rows / static_cast<double>(t.height())) *
        std::ceil(columns / static_cast<double>(t.width())) * others;
    const double now = cycles(t, blocks, target, moved);
    if (!best || now < least * model::threads::better_tile) best = t, least = now;
  };
  if (std::min(rows, columns) >= static_cast<double>(model::threads::least_of_tile)) {
    // beside what bounds rows its registers would spill
    if (!like.masked && like.words == 1 && !like.held)
      for (const std::int64_t threads : {256, 128}) weigh(16, 8, 16, threads);
    for (const auto& [r, v] : {std::pair<std::int64_t, std::int64_t>{8, 8}, {8, 4}, {4, 4}})
      for (const std::int64_t lanes : {16, 8})
        for (const std::int64_t threads : {256, 128}) weigh(r, v, lanes, threads);
    return {*best, least};
  }
  for (const std::int64_t long_side : {4, 2, 1})
    for (const std::int64_t short_side : {8, 4, 2})
      for (const std::int64_t few : {1, 2, 4})
        for (const std::int64_t threads : {256, 128})
          if (columns < rows) weigh(long_side, short_side, few, threads);
          else weigh(short_side, long_side, threads / few, threads);
  return {*best, least};
}

// A shorter stage where its last one is clearly less empty. Accesses along the reduction are of four elements.
std::int64_t whole_stage(const Facts& f, std::size_t depth, std::int64_t deep, std::int64_t stage) {
  const bool along =
      std::ranges::any_of(f.nest.reads, [&](const FlatAccess& read) { return std::abs(stride(read, depth)) == 1; });
  const auto steps = [&](std::int64_t of) {
    const std::int64_t all = (deep + of - 1) / of * of;
    return static_cast<double>(all);
  };
  std::int64_t best = stage;
  for (std::int64_t other = stage - 1; other >= model::threads::least_of_depth; --other)
    if ((!along || other % 4 == 0) && steps(other) < model::threads::fewer_steps * steps(best)) best = other;
  return best;
}

// Bytes of the sectors that a warp touches for an element, whose neighbours lie along these dimensions, innermost last,
// `most` of them at a time.
double bytes_touched(
    const Facts& f, const FlatAccess& access, const std::vector<std::size_t>& along, double most, std::int64_t bytes) {
  constexpr auto sector = static_cast<std::int64_t>(model::threads::sector);
  const auto each = static_cast<double>(bytes);
  const std::int64_t apart = std::abs(stride(access, along.back()));
  if (apart != 1) return apart ? static_cast<double>(std::min(apart * bytes, sector)) : each;
  std::int64_t run = 1;
  bool whole = true;
  for (std::size_t d = along.size(); d > 0 && std::abs(stride(access, along[d - 1])) == run; --d)
    run *= f.extent[along[d - 1]];
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    whole = whole && (std::abs(stride(access, d)) < run || stride(access, d) * bytes % sector == 0);
  const double held = std::min(static_cast<double>(run), most) * each;
  return each * std::max(1.0, (whole ? std::ceil(held / sector) * sector : held + sector - each) / held);
}

// What a tile of a staged contraction is of: n all output dimensions that one factor has alone, among them the one with
// the smallest stride that will do, m all of the other factor's, one after the other, so that a tile ends in the middle
// of none but the last.
struct TileSides {
  std::size_t depth;
  std::int64_t deep;                                   // values of what is staged: of `depth`, or `across` all of k
  bool across;
  std::vector<std::string> m, n, k;
  std::vector<std::size_t> outer;                      // output dimensions that it has one value of
  double rows, columns, others;                        // values of m, of n, and of `outer`
  ThreadTile like;                                     // what all tiles have in common
  Moved moved;
  Staging roles;
};

double extent_of(const Facts& f, const std::vector<std::size_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), 1.0,
      [&](double product, std::size_t d) { return product * static_cast<double>(f.extent[d]); });
}

// What its blocks move. Along a reduction that is side by side in memory a stage is copied at once, else along its own
// side.
Moved moved_of(
    const Facts& f, const std::vector<std::size_t>& m, const std::vector<std::size_t>& n, const Staging& roles) {
  const auto of_factor = [&](const poly::Expr& factor, const std::vector<std::size_t>& side) {
    double most = 0;
    for (const poly::Expr& part : poly::parts(factor)) {
      const auto* read = part.as<poly::Read>();
      if (!read) continue;
      const FlatAccess& access = f.nest.reads[static_cast<std::size_t>(read->read)];
      const bool along_depth = std::abs(stride(access, roles.depth)) == 1 && std::abs(stride(access, side.back())) != 1;
      most += bytes_touched(f, access, along_depth ? std::vector{roles.depth} : side,
          along_depth ? static_cast<double>(model::threads::most_staged) : model::tiles::of_a_copy,
          lang::bytes(read->type));
    }
    return most;
  };
  double steps = 1;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (f.nest.dims[d].reduction) steps *= static_cast<double>(f.extent[d]);
  const double of_result = std::min(bytes_touched(f, f.nest.target, n, model::tiles::along_n, f.stored),
      bytes_touched(f, f.nest.target, m, model::tiles::along_m, f.stored));
  const bool thin =
      std::min(extent_of(f, m), extent_of(f, n)) < static_cast<double>(model::threads::least_of_tile);
  double by_m = 0, by_n = 0;
  if (!roles.joined) by_m = of_factor(roles.by_m, m), by_n = of_factor(roles.by_n, n);
  else {
    for (const poly::Expr& value : roles.joined->of_m) by_m += of_factor(value, m);
    for (const poly::Expr& value : roles.joined->of_n) by_n += of_factor(value, n);
  }
  return {by_m, by_n, (of_result - static_cast<double>(f.stored)) / steps,
      thin ? model::threads::of_a_stage : 0};
}

TileChoice tile_of(const TileSides& sides, double parts, const Target& target) {
  return thread_tile(sides.rows, sides.columns, sides.others * parts, sides.like, target, sides.moved);
}

// Orders of a side that are worth a look: that of the result, and those of the operands, smallest strides innermost.
std::vector<std::vector<std::size_t>> orders_of(const Nest& nest, const std::vector<std::size_t>& side) {
  std::vector<std::vector<std::size_t>> orders;
  const auto by = [&](const FlatAccess& access) {
    std::vector<std::size_t> order = side;
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t d) { return std::abs(stride(access, d)); });
    if (std::ranges::find(orders, order) == orders.end()) orders.push_back(std::move(order));
  };
  by(nest.target);
  for (const FlatAccess& read : nest.reads)
    if (std::ranges::all_of(side, [&](std::size_t d) { return stride(read, d) != 0; })) by(read);
  return orders;
}

// Which output dimensions are m, which n, and which lie around the tiles.
struct Sides { std::vector<std::size_t> m, n, outer; Staging roles; };

// With `first` as n, the first m that will do, and beside them all that one factor alone reads, and as n no row bounds.
std::optional<Sides> sides_with(const Nest& nest, const std::vector<std::size_t>& outputs, std::size_t first,
    const std::vector<std::string>& k, bool across) {
  const auto staged = [&](const std::vector<std::size_t>& m, const std::vector<std::size_t>& n) {
    return staging_of(nest, names(nest, m), names(nest, n), k, across);
  };
  const auto other =
      std::ranges::find_if(outputs, [&](std::size_t d) { return d != first && staged({d}, {first}).has_value(); });
  if (other == outputs.end()) return std::nullopt;
  std::vector<std::size_t> m{*other}, n{first}, outer;
  for (const std::size_t d : outputs) {
    if (d == first || d == *other) continue;
    bool taken = false;
    for (auto* side : {&m, &n}) {
      if (taken || !(side == &m ? staged({d}, n) : staged(m, {d}))) continue;
      side->push_back(d);
      taken = staged(m, n).has_value();
      if (!taken) side->pop_back();
    }
    if (!taken) outer.push_back(d);
  }
  Staging roles = *staged(m, n);
  return Sides{std::move(m), std::move(n), std::move(outer), std::move(roles)};
}

bool is_one_instruction(lang::Op op) {
  using enum lang::Op;
  if (op <= Select) return op != Div;
  return std::ranges::count(std::array{Max, Min, Fma, Relu, Sign, Ceil, Floor, Round, Trunc, IsNan, IsFinite}, op) > 0;
}

// Instructions of an element for a value of the reduction: what joins its values, and the fold.
double issued_of(const Nest& nest, const Staging& roles) {
  if (!roles.joined) return 1;
  double issued = 1;
  std::set<const void*> seen;
  const std::function<void(const poly::Expr&)> count = [&](const poly::Expr& e) {
    for (const auto* staged : {&roles.joined->of_m, &roles.joined->of_n, &roles.joined->own})
      if (std::ranges::find(*staged, e) != staged->end()) return;
    if (!seen.insert(poly::address(e)).second) return;
    if (const auto* cast = e.as<poly::Cast>()) count(cast->operand);
    const auto* apply = e.as<poly::Apply>();
    if (!apply) return;
    for (const poly::Expr& operand : apply->operands) count(operand);
    const bool modifier = apply->op == lang::Op::Abs || apply->op == lang::Op::Neg;
    issued += modifier ? 0 : is_one_instruction(apply->op) ? 1 : model::threads::issued_of_function;
  };
  count(*nest.value);
  const auto* product = nest.value->as<poly::Apply>();
  if (nest.aggregation == poly::Aggregation::Sum && product && product->op == lang::Op::Mul) --issued;
  return issued;
}

// Whether rows of the domain bound m by the value of the reduction that a stage goes through.
bool is_asked(const Nest& nest, const Sides& sides) {
  return std::ranges::any_of(sides.m, [&](std::size_t d) { return share_row(nest, sides.roles.depth, d); });
}

// The orders of both sides whose tiles take the fewest cycles.
std::optional<TileSides> in_best_orders(
    const Facts& f, const Sides& sides, const std::vector<std::string>& k, const Target& target) {
  const Nest& nest = f.nest;
  const auto deep = static_cast<std::int64_t>(extent_of(f, sides.roles.staged));
  const bool masked = std::ranges::any_of(nest.rows, [&](const Row& row) {
    return std::ranges::any_of(sides.m, [&](std::size_t d) { return row.form.coefficients[d] != 0; });
  });
  const std::int64_t words = std::max<std::int64_t>(1, lang::bytes(compute_type(nest.value->type())) / word);
  const auto held = sides.roles.joined ? static_cast<std::int64_t>(sides.roles.joined->own.size()) : 0;
  const bool asked = masked && (sides.roles.staged.size() > 1 || is_asked(nest, sides));
  const ThreadTile like{0, 0, 0, 0, masked, asked, words, issued_of(nest, sides.roles), held};
  std::optional<TileSides> best;
  double least = 0;
  for (const auto& m : orders_of(nest, sides.m))
    for (const auto& n : orders_of(nest, sides.n)) {
      TileSides tile{sides.roles.depth, deep, sides.roles.staged.size() > 1, names(nest, m), names(nest, n), k,
          sides.outer, extent_of(f, sides.m), extent_of(f, sides.n), extent_of(f, sides.outer), like,
          moved_of(f, m, n, sides.roles), sides.roles};
      const double now = tile_of(tile, 1, target).cycles;
      // Of those that take about as long, the one that moves least.
      const auto rank = now * (1 + model::tiles::of_a_byte * (tile.moved.by_m + tile.moved.by_n + tile.moved.result));
      if (!best || rank < least) best = std::move(tile), least = rank;
    }
  return best;
}

// A tile with a short side must take less than threads with an output each, where parts of the sum let both fill the
// machine.
bool pays(const Facts& f, const TileSides& sides, const Target& target) {
  if (sides.deep < model::threads::least_of_depth) return false;
  if (std::min(sides.rows, sides.columns) >= static_cast<double>(model::threads::least_of_tile)) return true;
  const ThreadTile tile = tile_of(sides, 1, target).tile;
  const double blocks = std::ceil(sides.rows / static_cast<double>(tile.height())) *
      std::ceil(sides.columns / static_cast<double>(tile.width())) * sides.others;
  const double parts =
      std::max(1.0, std::floor(model::threads::tiles_of_a_multiprocessor * target.multiprocessors / blocks));
  const double values = points(f) / (sides.rows * sides.columns * sides.others);
  return tile_of(sides, parts, target).cycles * values / parts < cycles_of_threads(f, values, target);
}

// All reductions as one: what is side by side in most reads innermost.
std::vector<std::string> reductions_across(const Facts& f) {
  std::vector<std::size_t> k = reduction_order(f, std::nullopt);
  std::ranges::stable_sort(k, std::greater(), [&](std::size_t d) {
    std::int64_t apart = 0;
    for (const FlatAccess& read : f.nest.reads) apart += std::abs(stride(read, d));
    return apart;
  });
  return names(f.nest, k);
}

// Whether a stage goes through all reductions as one: the one that it would go through is so short that stages are
// hardly filled, and each of its values is asked, as it is then, or it is no stage at all.
bool goes_across(const Facts& f, const Sides& sides) {
  return f.extent[sides.roles.depth] <
      (is_asked(f.nest, sides) ? 2 * model::threads::most_staged : model::threads::least_of_depth);
}

std::optional<TileSides> sides_of_tile(const Facts& f, const Target& target, Staged which, double parts = 1) {
  const Nest& nest = f.nest;
  const bool small = which == Staged::AlsoSmall;
  if (!small && parts * points(f) < model::threads::least_to_stage) return std::nullopt;
  const std::vector<std::string> k = names(nest, reduction_order(f, std::nullopt));
  std::vector<std::size_t> outputs;
  for (std::size_t d = 0; d < f.extent.size(); ++d) if (!nest.dims[d].reduction) outputs.push_back(d);
  std::ranges::stable_sort(outputs, {}, [&](std::size_t d) { return std::abs(stride(nest.target, d)); });
  for (const std::size_t first : outputs) {
    auto sides = sides_with(nest, outputs, first, k, false);
    if (!sides) continue;
    std::optional<TileSides> tile;
    const bool may_go_across = k.size() > 1 && !sides->roles.joined;
    if (which == Staged::Across && !may_go_across) continue;
    if (may_go_across && (which == Staged::Across || goes_across(f, *sides))) {
      const std::vector<std::string> all = reductions_across(f);
      if ((sides = sides_with(nest, outputs, first, all, true))) tile = in_best_orders(f, *sides, all, target);
    } else {
      tile = in_best_orders(f, *sides, k, target);
    }
    if (tile && (small || pays(f, *tile, target))) return tile;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> staged_cycles(const Facts& f, double parts, const Target& target) {
  const auto sides = sides_of_tile(f, target, Staged::Large, parts);
  return sides ? std::optional(tile_of(*sides, parts, target).cycles) : std::nullopt;
}

// Large contractions of two factors stage them.
std::optional<Compute> staged_leaf(
    const Facts& f, int node, const Target& target, std::int64_t& threads, Staged which) {
  const Nest& nest = f.nest;
  auto sides = sides_of_tile(f, target, which);
  if (!sides) return std::nullopt;
  auto& [depth, deep, across, m, n, k, outer, rows, columns, others, like, moved, roles] = *sides;
  Compute leaf;
  leaf.node = node;
  leaf.k = k;
  leaf.n = n.back();
  n.pop_back();
  std::stable_sort(outer.begin(), outer.end(), [&](std::size_t x, std::size_t y) {
    return std::abs(stride(nest.target, x)) > std::abs(stride(nest.target, y));
  });
  leaf.outer = names(nest, outer);
  const lang::DType type = compute_type(nest.value->type());
  const ThreadTile tile = tile_of(*sides, 1, target).tile;
  leaf.rows = tile.rows, leaf.vectors = tile.vectors, leaf.lanes = tile.lanes, threads = tile.threads;
  std::int64_t stage = model::threads::most_staged;
  const auto too_long = [&] {
    const std::int64_t bytes = staged_bytes(leaf, threads, stage, roles, type);
    return stage >= 2 * deep || bytes > model::threads::shared_of_tile ||
        resident(tile, stage) <
        std::min(model::threads::blocks_that_hide, resident(tile, model::threads::least_of_depth));
  };
  while (stage > model::threads::least_of_depth && too_long()) stage /= 2;
  stage = whole_stage(f, depth, deep, stage);
  const std::string last = m.back();
  m.pop_back();
  leaf.form = forms::Staged{last, stage, std::move(m), std::move(n), across};
  return leaf;
}

}  // namespace tilec::codegen
