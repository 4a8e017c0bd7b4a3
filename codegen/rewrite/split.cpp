// Cuts the longest reduction index of a statement with few outputs into chunks.
#include "codegen/rewrite/split.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "codegen/choose/columns.h"
#include "codegen/choose/leaf.h"
#include "codegen/choose/splits.h"
#include "codegen/choose/staged.h"
#include "codegen/choose/tensor_cores.h"
#include "codegen/choose/threads.h"
#include "codegen/decay.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/product.h"
#include "codegen/ranges.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/center.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/rows.h"
#include "codegen/rewrite/share.h"
#include "codegen/scalar.h"
#include "codegen/tensor_cores.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Expr;
using poly::Program;
using poly::Range;
using poly::Statement;

// Whether parts of its fold can be folded again: the fold has no scale of its own, and no element is left out and no
// part empty, or what these hold then, 0, is what its sum begins with. What others wrote before it would be lost.
bool folds_in_parts(const Rewriting& r, const Statement& s) {
  if (!reduces(s) || s.aggregation == Aggregation::Assign || has_scale(s.aggregation, compute_type(s.value.type())) ||
      has_gate(s.value) || std::holds_alternative<poly::TensorId>(s.fill))
    return false;
  return (s.domain.size() == s.indices.size() && covers(r.program, s)) ||
      (s.aggregation == Aggregation::Sum && identity_is_fill(nest_of(s, r.strides)));
}

// Whether statements that share the rows which it folds, a block of threads a row, keep a GPU busy as they are
// (share.h): what comes of it is read, at once or later, beside as many elements as it folds, or as the next fold does.
// `alone`: a block of threads folds one element.
bool shares_rows(const Program& program, const Statement& s, const Target& target, bool alone) {
  const double outputs = elements(program, s.target.tensor), folded = points(s);
  const bool fits = folded / outputs * lang::bytes(s.value.type()) <= shared_for_rows(target);
  if (!has_threads(target) || outputs < (fits ? model::shared_rows_of_a_multiprocessor : 1.0) * target.multiprocessors)
    return false;
  for (const Access& read : s.reads) {                 // beside the fold before it
    const Statement* made = maker(program, read.tensor);
    if (alone && made && reduces(*made) && points(*made) >= folded && read.element == s.target.element) return true;
  }
  std::set<poly::TensorId> of_rows{s.target.tensor};
  for (const poly::Node& node : program.nodes) {
    const auto* other = std::get_if<Statement>(&node);
    if (!other) continue;
    const auto of_row = [&](const Access& read) { return of_rows.contains(read.tensor); };
    const auto same_element = [&](const Access& read) {
      return alone && reduces(*other) && !read.element.empty() && read.element == other->target.element;
    };
    const auto beside = [&](const Access& read) {
      return of_row(read) && (reads_at_row(*other, read) || same_element(read));
    };
    if (points(*other) >= folded && std::ranges::any_of(other->reads, beside)) return true;
    if (points(*other) < folded && std::ranges::any_of(other->reads, of_row)) of_rows.insert(other->target.tensor);
  }
  return false;
}

bool is_reduced(const Statement& s, std::size_t k) {
  return std::ranges::all_of(s.target.element, [&](const Affine& e) { return e.coefficients[k].is(0); });
}
bool in_rows(const Statement& s, std::size_t k) {
  return std::any_of(s.domain.begin() + static_cast<std::ptrdiff_t>(s.indices.size()), s.domain.end(),
      [&](const Range& row) { return !row.value.coefficients[k].is(0); });
}

// Whether a read goes along the index as it goes along an output: a window.
bool slides(const Statement& s, std::size_t k) {
  return std::ranges::any_of(s.reads, [&](const Access& read) {
    return std::ranges::any_of(read.element, [&](const Affine& e) {
      if (!mentions(e, k)) return false;
      for (std::size_t o = 0; o < s.indices.size(); ++o) if (!is_reduced(s, o) && mentions(e, o)) return true;
      return false;
    });
  });
}

// How many parts would do, by what one part at least has of `points`, those of one element; from how many on another
// launch pays.
struct Parts { double wanted, points, least, enough; };

Parts parts_for_cores(const Program& program, const Statement& s) {
  const double outputs = std::max(1.0, elements(program, s.target.tensor));
  return {std::ceil(model::parts_of_a_fold / outputs), points(s) / outputs, model::least_of_a_part,
      2 * model::least_of_a_part};
}

// How threads have the taps of a filter's gradient, or a block that folds them, if parts are enough for that: they read
// once what they share. None: they have none.
std::optional<Compute> leaf_with_taps(const Facts& f, const Target& target) {
  Target small = target;
  small.multiprocessors = 1;
  Compute leaf = choose_leaf(f, 0).leaf;
  for_threads(leaf, f, threads_of_a_block, small);
  const auto m = f.nest.dim(leaf.m());
  const bool taps = m && counts_taps(f, *m);
  return taps ? std::optional(std::move(leaf)) : std::nullopt;
}

double taps_at_once(const Facts& f, const Target& target) {
  const auto leaf = leaf_with_taps(f, target);
  return leaf ? static_cast<double>(leaf->rows) : 1;
}

// Blocks of the tiles of a staged contraction.
std::optional<double> tiles_for(const Rewriting& r, const Nest& nest, const Target& target) {
  const Facts all = facts(nest, {}, target);
  std::int64_t threads = 0;
  const auto tile = staged_leaf(all, 0, target, threads);
  if (!tile) return std::nullopt;
  const auto all_of = [&](const std::vector<std::string>& indices) {
    double count = 1;
    for (const std::string& index : indices) count *= static_cast<double>(nest.dims[*nest.dim(index)].extent);
    return count;
  };
  const auto tiles = [](double count, std::int64_t of) { return std::ceil(count / static_cast<double>(of)) / count; };
  const auto cores = leaf_on_tensor_cores(r.program, all, 0, target);
  const auto [height, width] =
      cores ? tile_of(*cores) : std::pair(threads / tile->lanes * tile->rows, tile->lanes * tile->vectors);
  double outputs = 1;
  for (const Dim& dim : nest.dims) if (!dim.reduction) outputs *= static_cast<double>(dim.extent);
  return outputs * tiles(all_of(tile->all_of_m()), height) * tiles(all_of(tile->all_of_n()), width);
}

// Blocks of each part: of the tiles that the sum has as it is, or of those that cost least where many fill the machine,
// if these are fewer. Without parts few of a large result would, and smaller ones, which read more, would seem enough.
std::optional<double> tiles_of_a_part(const Rewriting& r, const Nest& nest) {
  Target full = r.target;
  full.multiprocessors = 1;
  const auto now = tiles_for(r, nest, r.target), best = tiles_for(r, nest, full);
  return now && best ? std::min(*now, *best) : best;
}

// A block of threads folds one element, or has as many elements as threads, or a tile of a contraction.
Parts parts_for_threads(const Rewriting& r, const Statement& s) {
  const Nest nest = nest_of(s, r.strides);
  const Facts all = facts(nest, {}, r.target);
  const double outputs = std::max(1.0, elements(r.program, s.target.tensor)), each = points(s) / outputs;
  if (const auto blocks = tiles_of_a_part(r, nest))
    return {std::ceil(model::threads::tiles_of_a_multiprocessor * r.target.multiprocessors / *blocks), each,
        model::threads::least_of_a_tile_part, model::threads::least_tile_to_cut};
  const double wanted = model::blocks_of_a_multiprocessor * r.target.multiprocessors,
               taps = taps_at_once(all, r.target);
  if (choose_leaf(all, 0).leaf.is<forms::Reduce>())
    return {std::ceil(wanted * taps / outputs), each, model::least_of_a_thread_part, model::threads::least_fold_to_cut};
  const double elements_wanted = wanted * static_cast<double>(threads_of_a_block),
               of_a_thread = std::max(1.0, taps / model::threads::rows_that_hide);
  return {std::ceil(elements_wanted * of_a_thread / outputs), each, model::threads::least_of_a_column_part,
      model::threads::least_column_to_cut};
}

bool is_staged(const Rewriting& r, const Statement& s) {
  const Nest nest = nest_of(s, r.strides);
  return staged_cycles(facts(nest, {}, r.target), 1, r.target).has_value();
}

// Cycles for one value of the reductions of what one launch computes, by threads or by tensor cores.
std::optional<double> cycles_of_tiles(const Rewriting& r, const Nest& nest, double parts) {
  const Facts all = facts(nest, {}, r.target);
  const auto cores = cycles_on_tensor_cores(r.program, all, parts, r.target);
  return cores ? cores : staged_cycles(all, parts, r.target);
}

constexpr std::int64_t piece = 16;                     // values: 16 bytes of any type, or more

// What the parts of a cut cost, in cycles: their tiles, what goes through memory, and the launch that adds them up.
struct CostOfCut { Cut cut; double count, cost; };

// What goes to the second cache and comes back where a sum has one part more.
double moved_by_a_part(const Rewriting& r, const Statement& s) {
  return 2 * elements(r.program, s.target.tensor) * lang::bytes(s.value.type()) /
      (model::threads::l2_bytes * r.target.multiprocessors);
}

// Whether parts of k are what this is a part of: their number stands first among the indices of the result.
bool is_cut(const Rewriting& r, const Statement& s, std::size_t k) {
  if (!r.parts.contains(s.target.tensor)) return false;
  const Affine& number = s.target.element.front();
  for (std::size_t j = 0; j < s.indices.size(); ++j)
    if (!number.coefficients[j].is(0))
      return std::ranges::all_of(s.reads, [&](const Access& read) {
        return std::ranges::all_of(read.element, [&](const Affine& e) {
          return e.coefficients[j].get() == e.coefficients[k].get() * extent(s, k);
        });
      });
  return false;
}

// Of a staged contraction the cut of each index after which its tiles and the parts take the fewest cycles, if those
// are fewer than now: whole waves of tiles, and few parts, which are staged contractions themselves. Of what is a part
// already, beside what it costs that there are any.
std::vector<CostOfCut> cuts_of_tiles(const Rewriting& r, const Statement& s, const Parts& parts) {
  const double moved = moved_by_a_part(r, s),
               added = r.parts.contains(s.target.tensor) ? -moved : model::threads::cycles_of_a_launch;
  std::vector<CostOfCut> cuts;
  const auto whole = cycles_of_tiles(r, nest_of(s, r.strides), 1);
  if (!whole) return cuts;
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    const std::int64_t extent = codegen::extent(s, k);
    if (!is_reduced(s, k) || extent < 2 || is_cut(r, s, k)) continue;
    std::optional<CostOfCut> best;
    double least = *whole * parts.points;
    Nest part = nest_of(s, r.strides, {s.indices[k]});
    const std::size_t d = *part.dim(s.indices[k]);
    // Whether what is copied lies along it: parts that end within a piece are copied element by element.
    const bool along = std::ranges::any_of(
        part.reads, [&](const FlatAccess& read) { return std::abs(read.offset.coefficients[d]) == 1; });
    std::int64_t before = extent;
    for (std::int64_t wanted = 2; wanted <= extent; ++wanted) {
      // As even as they can be, or, where that takes little more or they must, of whole pieces of what is copied.
      const std::int64_t even = ceil_divide(extent, wanted), pieces = ceil_divide(even, piece) * piece,
                         within = along && even >= piece ? even / piece * piece : even,
                         chunk = 8 * pieces <= 9 * even ? pieces : within, count = ceil_divide(extent, chunk);
      if (chunk >= before) continue;
      before = chunk;
      // Of one value of what bounds taps, a row would bound elements of the parts, and no tile computes these.
      if (chunk == 1 && in_rows(s, k)) break;
      const double each = parts.points / static_cast<double>(extent) * static_cast<double>(chunk),
                   all = static_cast<double>(count);
      if (all > model::threads::most_cut * parts.wanted || each < parts.least) break;
      part.dims[d].extent = chunk;
      const auto cycles = cycles_of_tiles(r, part, all);
      if (!cycles) continue;
      const double cost = *cycles * each + all * moved + added;
      if (cost < model::threads::better_tile * least) best = CostOfCut{{k, chunk}, all, cost}, least = cost;
      else if (best && cost > 2 * least) break;
    }
    if (best) cuts.push_back(*best);
  }
  return cuts;
}

// What is cheapest with this cut: its parts as they are, or cut along a second index.
double with_a_second(const Rewriting& r, const Statement& s, const CostOfCut& first) {
  Rewriting made = r;
  const Statement part = in_parts(made, s, first.cut).first;
  const Parts parts = parts_for_threads(made, part);
  double least = first.cost;
  if (parts.wanted < 2) return least;
  for (const CostOfCut& second : cuts_of_tiles(made, part, parts))
    least = std::min(
        least, second.cost + first.count * moved_by_a_part(r, s) + model::threads::cycles_of_a_launch);
  return least;
}

std::optional<Cut> cut_of_tiles(const Rewriting& r, const Statement& s, const Parts& parts) {
  std::optional<Cut> best;
  double least = 0;
  for (const CostOfCut& one : cuts_of_tiles(r, s, parts)) {
    const double cost = r.parts.contains(s.target.tensor) ? one.cost : with_a_second(r, s, one);
    if (!best || cost < model::threads::better_tile * least) best = one.cut, least = cost;
  }
  return best;
}

// Of taps that a block would fold, all values of what it folds along: threads have them then, whose registers hold what
// steps along another direction of the window share.
std::optional<Cut> cut_of_lanes(const Rewriting& r, const Statement& s, const Parts& parts) {
  const Nest nest = nest_of(s, r.strides);
  const auto leaf = leaf_with_taps(facts(nest, {}, r.target), r.target);
  const auto k = leaf && leaf->is<forms::Reduce>() ? index_of(s, leaf->n) : std::nullopt;
  if (!k || parts.points / static_cast<double>(extent(s, *k)) < model::threads::least_column_to_cut)
    return std::nullopt;
  double read = 0;
  for (const Access& access : s.reads) read += elements(r.program, access.tensor);
  const double made = elements(r.program, s.target.tensor) * static_cast<double>(extent(s, *k));
  if (model::worth_parts * made > read) return std::nullopt;
  const std::size_t n = *nest.dim(leaf->n);
  bool other = std::ranges::any_of(nest.rows, [&](const Row& row) {
    bool output = false, along = false;
    for (std::size_t d = 0; d < nest.dims.size(); ++d)
      if (row.form.coefficients[d]) (nest.dims[d].reduction ? along : output) = true;
    return output && along && !row.form.coefficients[n];
  });
  for (std::size_t j = 0; j < s.indices.size(); ++j) other = other || (j != *k && is_reduced(s, j) && slides(s, j));
  return other ? std::optional(Cut{*k, 1}) : std::nullopt;
}

// Of a sum that is a part already: parts so short that threads have the taps of all directions, if those are few beside
// what is read.
std::optional<Cut> cut_of_taps(const Rewriting& r, const Statement& s) {
  if (!has_threads(r.target) || !folds_in_parts(r, s) || is_staged(r, s)) return std::nullopt;
  const Nest nest = nest_of(s, r.strides);
  const Facts all = facts(nest, {}, r.target);
  const auto leaf = leaf_with_taps(all, r.target);
  const auto part = leaf ? part_of_taps(all, *leaf, r.target) : std::nullopt;
  const auto k = part ? index_of(s, part->index) : std::nullopt;
  if (!k || is_cut(r, s, *k)) return std::nullopt;
  double read = 0;
  for (const Access& access : s.reads) read += elements(r.program, access.tensor);
  const double made = elements(r.program, s.target.tensor) * static_cast<double>(extent(s, *k) / part->steps);
  return model::threads::worth_taps * made > read ? std::nullopt : std::optional(Cut{*k, part->steps});
}

// Which reduction index to cut into chunks, and how long they are. By shapes and the kind of machine alone, so that
// results do not depend on threads. `is_part`: shorter parts are no further launch.
std::optional<Cut> cut_of(const Rewriting& r, const Statement& s, bool is_part = false) {
  if (!folds_in_parts(r, s)) return std::nullopt;
  const bool threads = has_threads(r.target);
  if (!threads && s.domain.size() != s.indices.size()) return std::nullopt;
  const Parts parts = threads ? parts_for_threads(r, s) : parts_for_cores(r.program, s);
  const bool alone = threads && choose_leaf(facts(nest_of(s, r.strides), {}, r.target), 0).leaf.is<forms::Reduce>();
  if (parts.points < (is_part ? 2 * parts.least : parts.enough) || shares_rows(r.program, s, r.target, alone))
    return std::nullopt;
  const bool staged = threads && is_staged(r, s);
  if (threads && !staged)
    if (const auto cut = cut_of_lanes(r, s, parts)) return cut;
  if (parts.wanted < 2) return std::nullopt;
  if (staged) return cut_of_tiles(r, s, parts);
  // The longest one; those that no row bounds go first, and whose neighbours share nothing.
  std::optional<std::size_t> longest;
  const auto shares = [&](std::size_t k) { return in_rows(s, k) || (threads && slides(s, k)); };
  const auto after = [&](std::size_t a, std::size_t b) {
    return shares(a) != shares(b) ? shares(b) : s.domain[a].extent->get() > s.domain[b].extent->get();
  };
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    if (is_reduced(s, k) && codegen::extent(s, k) > 1 && (!longest || after(k, *longest))) longest = k;
  if (!longest) return std::nullopt;
  const std::int64_t extent = s.domain[*longest].extent->get();
  // Of parts that read each value once, fewer: their threads have several on their way, and all of them are added up
  // again.
  const double wanted = is_part && threads && !alone && !contracts(r.program, s)
      ? std::ceil(parts.wanted / static_cast<double>(model::threads::elements_at_once))
      : parts.wanted;
  const double chunks = std::min({parts.points / parts.least, wanted, static_cast<double>(extent)});
  if (chunks < 2) return std::nullopt;
  const double chunk = static_cast<double>(extent) / chunks;
  return Cut{*longest,
      threads ? whole_chunk(extent, static_cast<std::int64_t>(chunk)) : static_cast<std::int64_t>(std::ceil(chunk))};
}

}  // namespace

std::int64_t whole_chunk(std::int64_t extent, std::int64_t chunk) {
  for (std::int64_t other = chunk; other <= chunk + chunk / 8; ++other) if (extent % other == 0) return other;
  for (std::int64_t other = chunk; other > chunk / 2; --other) if (extent % other == 0) return other;
  return chunk;
}

std::pair<Statement, Statement> in_parts(Rewriting& r, const Statement& whole, const Cut& cut) {
  Program& program = r.program;
  const std::size_t count = whole.indices.size(), chunk_index = count;  // the new index stands last
  const std::int64_t extent = whole.domain[cut.index].extent->get(),
                     begin = -whole.domain[cut.index].value.constant.get();
  const std::int64_t chunks = (extent + cut.chunk - 1) / cut.chunk;
  std::vector<Affine> map;
  for (std::size_t k = 0; k < count; ++k) map.push_back(Affine::index(k, count + 1));
  map[cut.index].coefficients[chunk_index] = poly::Size(cut.chunk);
  map[cut.index].constant = poly::Size(begin);
  poly::Tensor parts{fresh_name(program, program.tensor(whole.target.tensor).name + "_parts"), whole.value.type(),
      {poly::Size(chunks)}, whole.span};
  for (const poly::Size& size : program.tensor(whole.target.tensor).shape) parts.shape.push_back(size);
  r.strides.push_back(row_major(extents(parts)));
  program.tensors.push_back(parts);
  const TensorId id = static_cast<TensorId>(program.tensors.size()) - 1;
  r.parts.insert(id);
  const auto seen = [&](const Affine& e) { return e.compose(map, count + 1); };
  Statement part = whole;
  part.target = {id, {Affine::index(chunk_index, count + 1)}};
  for (const Affine& e : whole.target.element) part.target.element.push_back(seen(e));
  part.indices.push_back(fresh_index(part, part.indices[cut.index] + "_s"));
  part.domain.clear();
  for (std::size_t k = 0; k < count; ++k) {
    Range row = whole.domain[k];
    row.value = k == cut.index ? Affine::index(k, count + 1) : seen(row.value);
    if (k == cut.index) row.extent = poly::Size(cut.chunk);
    part.domain.push_back(std::move(row));
  }
  part.domain.push_back({Affine::index(chunk_index, count + 1), poly::Size(chunks)});
  for (std::size_t k = count; k < whole.domain.size(); ++k)
    part.domain.push_back({seen(whole.domain[k].value), whole.domain[k].extent});
  if (chunks * cut.chunk != extent) {
    Range rest{map[cut.index], poly::Size(extent)};
    rest.value.constant = poly::Size(0);
    part.domain.push_back(std::move(rest));
  }
  for (Access& read : part.reads) for (Affine& e : read.element) e = seen(e);
  std::vector<int> same;
  for (std::size_t r = 0; r < part.reads.size(); ++r) same.push_back(static_cast<int>(r));
  part.value = seen_from(whole.value, map, count + 1, same);
  part.fill = poly::Number{whole.value.type()};
  Statement sum = copy(program, whole.target.tensor, whole.target.tensor, in_order(whole.target.element.size()));
  const std::size_t rank = sum.indices.size();
  std::vector<std::size_t> where = in_order(rank);
  for (Affine& e : sum.target.element) e = e.renumber(where, rank + 1);
  for (Range& row : sum.domain) row.value = row.value.renumber(where, rank + 1);
  sum.indices.push_back("s");
  sum.domain.push_back({Affine::index(rank, rank + 1), poly::Size(chunks)});
  sum.reads = {{id, {Affine::index(rank, rank + 1)}}};
  for (const Affine& e : sum.target.element) sum.reads[0].element.push_back(e);
  sum.aggregation = whole.aggregation;
  sum.value = poly::Read{0, whole.value.type()};
  sum.fill = whole.fill;
  sum.span = whole.span;
  return {std::move(part), std::move(sum)};
}

namespace {

// The sum of the parts of `part`, which `sum` adds up with others: of all of them at once.
void add_up(Statement& sum, const Statement& part) {
  const std::size_t count = sum.indices.size();
  const std::vector<std::size_t> where = in_order(count);
  for (Affine& e : sum.target.element) e = e.renumber(where, count + 1);
  for (Range& row : sum.domain) row.value = row.value.renumber(where, count + 1);
  for (Affine& e : sum.reads.front().element) e = e.renumber(where, count + 1);
  sum.indices.push_back(fresh_index(sum, "s"));
  sum.domain.push_back({Affine::index(count, count + 1), part.domain[part.indices.size() - 1].extent});
  sum.reads.front().tensor = part.target.tensor;
  sum.reads.front().element.insert(sum.reads.front().element.begin(), Affine::index(count, count + 1));
}

// The statement becomes two; on a GPU, what is a part already is cut into shorter ones.
void split(Rewriting& r, std::size_t n, const Cut& cut) {
  const Statement whole = std::get<Statement>(r.program.nodes[n]);
  r.done.push_back(directives::Split{target_name(r.program, whole), whole.indices[cut.index], cut.chunk});
  auto [part, sum] = in_parts(r, whole, cut);
  r.program.nodes[n] = std::move(part);
  if (auto* all = n + 1 < r.program.nodes.size() ? std::get_if<Statement>(&r.program.nodes[n + 1]) : nullptr;
      all && has_threads(r.target) && r.parts.contains(whole.target.tensor) && all->reads.size() == 1 &&
      all->reads.front().tensor == whole.target.tensor && all->aggregation == whole.aggregation)
    return add_up(*all, std::get<Statement>(r.program.nodes[n]));
  r.program.nodes.insert(r.program.nodes.begin() + static_cast<std::ptrdiff_t>(n) + 1, std::move(sum));
}

// Sums that a launch of rows takes beside others: they have parts there (rows.h).
std::set<poly::TensorId> sums_beside_rows(const Rewriting& r, const Rewriting& shared) {
  std::set<poly::TensorId> found;
  for (const Directive& one : shared.done)
    if (const auto* share = std::get_if<directives::Share>(&one); share && share->size > 0)
      for (const std::string& name : share->tensors)
        for (std::size_t id = 0; id < r.program.tensors.size(); ++id)
          if (r.program.tensors[id].name == name) found.insert(static_cast<poly::TensorId>(id));
  return found;
}

// What adds up parts of few columns takes as long as one column: a thread each goes down all of them. So it is cut in
// two, which one launch adds up (rows.h).
std::optional<Cut> cut_of_few_columns(const Rewriting& r, const Statement& sum) {
  if (sum.aggregation != Aggregation::Sum ||
      elements(r.program, sum.target.tensor) > static_cast<double>(threads_of_a_block * r.target.multiprocessors))
    return std::nullopt;
  return cut_of_parts(r, sum);
}

}  // namespace

void split_reductions(Rewriting& r) {
  std::set<poly::TensorId> beside_rows;
  if (has_threads(r.target)) {
    Rewriting shared = r;
    share_rows(shared);
    beside_rows = sums_beside_rows(r, shared);
    split_for_columns(r, shared);
  }
  for (std::size_t n = 0; n < r.program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
    if (!s || beside_rows.contains(s->target.tensor) || r.of_columns.contains(s->target.tensor) ||
        in_pass(r, s->target.tensor))
      continue;
    std::optional<Cut> cut = cut_of(r, *s);
    if (!cut && !has_threads(r.target) && folds_in_parts(r, *s)) cut = cut_by_time(r, *s);
    if (!cut) continue;
    // On a GPU, parts of one value each that are still too few are cut along another index, and parts in tiles where
    // that fills the machine better.
    for (bool again = true; again && cut;) {
      again = has_threads(r.target) && (cut->chunk == 1 || is_staged(r, std::get<Statement>(r.program.nodes[n])));
      split(r, n, *cut);
      if (const auto taps = cut_of_taps(r, std::get<Statement>(r.program.nodes[n]))) {
        split(r, n, *taps);
        break;
      }
      if (again) cut = cut_of(r, std::get<Statement>(r.program.nodes[n]), true);
    }
    ++n;
    if (const auto few = cut_of_few_columns(r, std::get<Statement>(r.program.nodes[n]))) split(r, n, *few), ++n;
  }
  center_squares(r);
}

Refusal apply(Rewriting& r, const directives::Split& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const auto& s = std::get<Statement>(r.program.nodes[*n]);
  const auto index = index_of(s, directive.index);
  if (!index || is_output_index(s, *index))
    return fmt::format("`{}` does not reduce over an index `{}`", directive.tensor, directive.index);
  if (!folds_in_parts(r, s)) return fmt::format("parts of the fold of `{}` cannot be folded again", directive.tensor);
  if (directive.size < 1 || directive.size >= extent(s, *index))
    return fmt::format("parts of {} are not shorter than the {} values of `{}`, or are empty", directive.size,
        extent(s, *index), directive.index);
  split(r, *n, {*index, directive.size});
  return std::nullopt;
}

}  // namespace tilec::codegen
