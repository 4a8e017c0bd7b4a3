#include "codegen/choose/leaf.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "codegen/choose/ahead.h"
#include "codegen/choose/blocks.h"
#include "codegen/choose/folded_rows.h"
#include "codegen/choose/loop_order.h"
#include "codegen/choose/scan.h"
#include "codegen/choose/sums_in_parts.h"
#include "codegen/model/estimates.h"
#include "codegen/model/few.h"
#include "codegen/model/thresholds.h"
#include "codegen/requests.h"
#include "codegen/scan.h"

namespace tilec::codegen {

namespace {

namespace blocks = model::blocks;

// Elements of shared memory come together unless they lie in one of its banks.
double read_cost(const Facts& f, const FlatAccess& read, std::size_t d, std::int64_t lanes) {
  if (std::ranges::find(f.shared, read.tensor) == f.shared.end()) return access_cost(stride(read, d), lanes);
  return blocks::load * static_cast<double>(std::gcd(std::max<std::int64_t>(1, std::abs(stride(read, d))), lanes));
}

// Cycles of the whole leaf with lanes over d and no register block.
double lane_cost(const Facts& f, std::size_t d) {
  const std::int64_t lanes = lanes_for(f, f.extent[d]);
  double step = static_cast<double>(f.ops) / model::pipes;
  for (const FlatAccess& read : f.nest.reads) step += read_cost(f, read, d, lanes);
  const bool reduce = f.nest.dims[d].reduction;
  double outputs = 1;
  for (std::size_t k = 0; k < f.extent.size(); ++k)
    if (!f.nest.dims[k].reduction && !f.fixed[k]) outputs *= static_cast<double>(f.extent[k]);
  const double vectors = std::ceil(static_cast<double>(f.extent[d]) / static_cast<double>(lanes)) * points(f) /
      std::max(1.0, static_cast<double>(f.extent[d]));
  double cost = step * vectors * left(f, d);
  if (reduce) return cost + f.fold * outputs;
  const double inside = interior(f, d);
  cost = cost * inside + cost * blocks::masked * (1 - inside);
  return cost + access_cost(stride(f.nest.target, d), lanes) * outputs / static_cast<double>(lanes);
}

// Dimensions that lanes may run over, those that cost least first.
std::vector<std::pair<double, std::size_t>> lanes_by_cost(const Facts& f) {
  std::vector<std::pair<double, std::size_t>> lanes;
  lanes.reserve(f.extent.size());
  for (std::size_t d = 0; d < f.extent.size(); ++d) if (!f.fixed[d]) lanes.emplace_back(lane_cost(f, d), d);
  model::sort_few(lanes, [](const auto& a, const auto& b) { return a.first < b.first; });
  return lanes;
}

// A leaf with lanes over `lane`, and the cycles of its blocks of m.
Choice with_lanes(const Facts& f, int node, std::optional<std::size_t> lane, std::optional<std::size_t> m,
    const RegisterBlock& block, double cycles) {
  const Nest& nest = f.nest;
  Choice choice{Compute{}, cycles, {}, 0};
  Compute& leaf = choice.leaf;
  leaf.node = node;
  if (lane && nest.dims[*lane].reduction) {
    leaf.form = forms::Reduce{m ? nest.dims[*m].name : ""};
    leaf.vectors = folded_vectors(f, *lane);
    leaf.rows = m ? block.rows : 1;
  } else {
    const bool has_reduction =
        std::any_of(nest.dims.begin(), nest.dims.end(), [](const Dim& d) { return d.reduction; });
    if (has_reduction) leaf.form = forms::Contract{};
    leaf.rows = m ? block.rows : 1;
    leaf.vectors = block.vectors;
    leaf.set_m(m ? nest.dims[*m].name : "");
    leaf.block()->turned =
        block.form == BlockForm::Turned || (block.form == BlockForm::Plain && turns_sums(f, *lane, m, block.rows));
    // Of a copy, what is written is written side by side: a line that is written in two parts at two times is fetched
    // and sent back twice.
    leaf.block()->m_inner =
        !block.rows_outside && (has_reduction || !leaf.block()->turned || stride(nest.target, *lane) != 1);
  }
  leaf.lanes = lane ? lanes_for(f, f.extent[*lane]) : 1;
  leaf.n = lane ? nest.dims[*lane].name : "";
  std::vector<std::size_t> k = reduction_order(f, lane);
  if (block.form == BlockForm::Taps) {
    const std::vector<std::size_t> taps = taps_of(f, *lane, m);
    std::stable_partition(
        k.begin(), k.end(), [&](std::size_t d) { return std::find(taps.begin(), taps.end(), d) != taps.end(); });
    leaf.as<forms::Contract>()->taps = static_cast<std::int64_t>(taps.size());
  }
  leaf.k = names(nest, k);
  leaf.outer = names(nest, outer_dims(f, leaf, lane, m));
  return choice;
}

// Lanes that fold along `lane`. `alone`: cycles of one element at a time, which the leaf is weighed by: the cost of
// rows does not know what each block of them fetches again, and layouts that were chosen by it took up to 3.5 times as
// long.
Choice with_folded_rows(const Facts& f, int node, std::size_t lane, double alone, Why::Leaf& why) {
  const FoldedRows rows = folded_rows(f, lane);
  if (!rows.m) return with_lanes(f, node, lane, std::nullopt, RegisterBlock{}, alone);
  why.blocks = {{f.nest.dims[lane].name, "", 1, folded_vectors(f, lane), folded_alone(f, lane).cost},
      {f.nest.dims[lane].name, f.nest.dims[*rows.m].name, rows.rows, folded_vectors(f, lane), rows.cost}};
  RegisterBlock block;
  block.rows = rows.rows;
  return with_lanes(f, node, lane, rows.m, block, alone);
}

// What follows from a block.
void finish(const Facts& f, Compute& leaf) {
  settle_block(f, leaf);
  ask_ahead(f, leaf);
}

}  // namespace

void settle_block(const Facts& f, Compute& leaf) {
  if (leaf.is<forms::Contract>()) sum_in_parts(f, leaf);
  if (may_narrow(f, leaf)) ask_ahead(f, leaf);
}

void ask_ahead(const Facts& f, Compute& leaf) {
  if (f.squares && !leaf.is<forms::Scan>()) look_ahead(f, leaf);
}

Choice choose_leaf(const Facts& f, int node) {
  Choice choice = weigh_leaf(f, node);
  finish(f, choice.leaf);
  return choice;
}

Choice weigh_leaf(const Facts& f, int node) {
  const Nest& nest = f.nest;
  // Along what has one value here, as where a box begins, nothing goes on.
  if (const auto scan = scan_of(nest); scan && !f.fixed[scan->along]) {
    auto [leaf, cycles] = choose_scan(f, node, *scan);
    return {std::move(leaf), cycles, {}};
  }
  Why::Leaf why;
  const std::vector<std::pair<double, std::size_t>> lanes = lanes_by_cost(f);
  why.lanes.reserve(lanes.size()), why.blocks.reserve(2 * lanes.size());
  for (const auto& [cycles, d] : lanes) why.lanes.push_back({nest.dims[d].name, "", 0, 0, cycles});
  const std::optional<std::size_t> lane = lanes.empty() ? std::nullopt : std::optional(lanes.front().second);
  Choice best{};
  if (!lane) best = with_lanes(f, node, lane, std::nullopt, RegisterBlock{}, points(f) * (f.ops + 2));
  else if (nest.dims[*lane].reduction) best = with_folded_rows(f, node, *lane, lanes.front().first, why);
  else {
    auto [m, block] = choose_block(f, *lane, why.blocks);
    order_blocks(f, *lane, m, block);
    best = with_lanes(f, node, lane, m, block,
        block.form == BlockForm::Taps ? block.cost
                                      : std::min(lanes.front().first + block.again + block.torn, block.cost));
    best.again = block.again;
    best.torn = block.torn;
  }
  model::sort_few(why.blocks, [](const Weighed& a, const Weighed& b) { return a.cycles < b.cycles; });
  best.why = std::move(why);
  return best;
}

std::vector<Compute> other_leaves(const Facts& f, int node, std::size_t most) {
  if (const auto scan = scan_of(f.nest); scan && !f.fixed[scan->along]) return {};
  const std::vector<std::pair<double, std::size_t>> lanes = lanes_by_cost(f);
  struct Made { std::size_t n; std::optional<std::size_t> m; RegisterBlock block; };
  std::vector<Made> made;
  const auto add = [&](std::size_t n, std::optional<std::size_t> m, RegisterBlock block) {
    if (!std::isfinite(block.cost)) return false;
    order_blocks(f, n, m, block);
    made.push_back({n, m, block});
    return true;
  };
  const auto add_with_wider = [&](std::size_t n, std::optional<std::size_t> m, const RegisterBlock& block) {
    if (add(n, m, block) && block.form != BlockForm::Turned)
      add(n, m, best_block(f, n, m, block.form, 2 * block.vectors));
  };
  for (const auto& [cost, n] : lanes) {
    if (cost > blocks::lanes_worth_asking * lanes.front().first) break;
    if (f.nest.dims[n].reduction) {
      made.push_back({n, std::nullopt, RegisterBlock{.cost = cost}});
      continue;
    }
    add_with_wider(n, std::nullopt, best_block(f, n, std::nullopt, BlockForm::Plain));
    if (may_tap(f, n, std::nullopt)) add_with_wider(n, std::nullopt, best_block(f, n, std::nullopt, BlockForm::Taps));
    each_block(f, n, [&, n = n](std::size_t m, const RegisterBlock& block) {
      if (block.form == BlockForm::Turned || !may_turn(f, n, m)) add_with_wider(n, m, block);
    });
  }
  std::ranges::stable_sort(made, {}, [](const Made& one) { return one.block.cost; });
  std::vector<Compute> leaves;
  for (const auto& [n, m, block] : made) {
    if (leaves.size() == most) break;
    Why::Leaf why;
    Compute leaf = (f.nest.dims[n].reduction ? with_folded_rows(f, node, n, block.cost, why)
                                             : with_lanes(f, node, n, m, block, block.cost))
                       .leaf;
    settle_block(f, leaf);
    if (std::ranges::find(leaves, leaf) == leaves.end()) leaves.push_back(std::move(leaf));
  }
  return leaves;
}

std::optional<Compute> along_rows(const Facts& f, Compute leaf) {
  auto* contract = leaf.as<forms::Contract>();
  if (contract == nullptr || !f.adds || contract->taps || leaf.n.empty() || leaf.k.empty() || leaf.block()->turned)
    return std::nullopt;
  const std::size_t n = *f.nest.dim(leaf.n), first = *f.nest.dim(leaf.k.front());
  if (f.extent[first] < f.nest.dims[first].extent || f.extent[first] < 2 * blocks::rows_at_once) return std::nullopt;
  if (!leaf.m().empty() && f.extent[*f.nest.dim(leaf.m())] > leaf.rows) return std::nullopt;
  const auto goes_along = [&](const FlatAccess& read) {
    return stride(read, n) == 1 && stride(read, first) != 0 &&
        leaves_cache(f.nest, read, lang::bytes(f.nest.value->type()));
  };
  if (std::ranges::none_of(f.nest.reads, goes_along)) return std::nullopt;
  // Where there is one row, operands come from memory and all but a few registers are accumulators.
  const std::int64_t all = (f.extent[n] + leaf.lanes - 1) / leaf.lanes,
                     most = std::max<std::int64_t>(1, (f.registers - leaf.rows - 2) / (leaf.rows + 1));
  leaf.vectors = all <= 2 * most && leaf.rows == 1 ? all : std::min({all, most, blocks::vectors_along_rows});
  contract->chunk = 0;
  sum_in_parts(f, leaf);
  if (leaf.vectors < all) leaf.as<forms::Contract>()->chunk = blocks::rows_at_once;
  look_ahead(f, leaf);
  return leaf;
}

std::optional<Compute> with_half_vectors(const Facts& f, Compute leaf) {
  leaf.lanes /= 2;
  if (leaf.lanes < blocks::least_half || !leaf.block() || leaf.streams() ||
      (leaf.block()->turned && leaf.rows > leaf.lanes))
    return std::nullopt;
  if (auto* contract = leaf.as<forms::Contract>()) contract->chunk = 0;
  finish(f, leaf);
  return leaf;
}

std::optional<Choice> fold_rows_of(const Facts& f, int node, const std::string& n, const std::string& m) {
  const std::size_t lane = *f.nest.dim(n);
  const FoldedRows rows = folded_rows_of(f, lane, *f.nest.dim(m));
  if (!rows.m) return std::nullopt;
  RegisterBlock block;
  block.rows = rows.rows;
  Choice made = with_lanes(f, node, lane, rows.m, block, folded_alone(f, lane).cost);
  look_ahead(f, made.leaf);
  return made;
}

void widen_for_streams(Compute& leaf, const Facts& f) {
  if (leaf.rows <= blocks::streamed_rows) return;
  // a splat, the columns' vectors
  const std::int64_t wide = f.extent[*f.nest.dim(leaf.n)] / leaf.lanes,
                     room = (f.registers - 2) / (blocks::streamed_rows + 1);
  leaf.rows = blocks::streamed_rows;
  leaf.vectors = std::max(leaf.vectors, std::min({wide, room, blocks::most_vectors}));
}

}  // namespace tilec::codegen
