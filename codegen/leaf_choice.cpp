// The scheduler's arithmetic: count loads, multiply-adds and edges for every choice, take the least.
//
// A leaf's time is modelled in cycles of one core: two vector loads and two vector operations a cycle, four cycles from
// one accumulation to the next, a gather as half its lanes. An example, O[x, co] = +(I[x + k, ci] * K[k, ci, co]) with
// 54 x 64 outputs: lanes over co (unit stride in O and K, splat in I), m = x because K does not depend on it. A block
// of 9 x 2 needs max(18 / 2, (9 + 2) / 2, 4) = 9 cycles a step for 288 multiply-adds, 6 blocks by 2, and no edge: the
// least of all blocks.
#include "codegen/leaf_choice.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "codegen/choose/ahead.h"
#include "codegen/model/estimates.h"
#include "codegen/model/footprint.h"
#include "codegen/model/machine.h"
#include "codegen/model/run.h"
#include "codegen/model/thresholds.h"
#include "codegen/product.h"
#include "codegen/ranges.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"
#include "codegen/staged.h"
#include "codegen/tensor_cores.h"
#include "codegen/strip.h"
#include "codegen/tile.h"
#include "codegen/turned.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::DType;

namespace blocks = model::blocks;
using model::pipes;

constexpr double infinite = std::numeric_limits<double>::infinity();

// Of an interned value, whose equal parts are computed once.
int operations(const poly::Expr& value) {
  int count = 0;
  for (const poly::Expr& part : poly::parts(value))
    if (const auto* apply = part.as<poly::Apply>()) count += model::rough_operations_of(apply->op);
  return count;
}

std::int64_t stride(const FlatAccess& access, std::size_t d) { return access.offset.coefficients[d]; }

double interior(const Facts& f, std::size_t d, const std::vector<bool>& inner) {
  return interior_part(f.nest, f.extent, d, inner);
}

// What most bytes of memory belong to: the target, or the read that is larger.
const FlatAccess& largest(const Facts& f) {
  const FlatAccess* most = &f.nest.target;
  const auto bytes = [&](const FlatAccess& access, std::int64_t each) {
    return std::ranges::find(f.nest.locals, access.tensor) != f.nest.locals.end()
        ? 0
        : model::footprint(access, f.extent, each).elements * static_cast<double>(each);
  };
  double held = std::max(2 * bytes(f.nest.target, f.stored), model::ahead::kept);
  for (const FlatAccess& read : f.nest.reads)
    if (const double of_read = bytes(read, lang::bytes(f.nest.value->type())); of_read > held)
      most = &read, held = of_read;
  return *most;
}

std::vector<bool> reductions(const Nest& nest) {
  std::vector<bool> inner;
  for (const Dim& dim : nest.dims) inner.push_back(dim.reduction);
  return inner;
}

double points(const Facts& f) {
  double count = 1;
  for (std::size_t d = 0; d < f.extent.size(); ++d) if (!f.fixed[d]) count *= static_cast<double>(f.extent[d]);
  return count;
}

std::int64_t lanes_for(const Facts& f, std::int64_t extent) {
  std::int64_t lanes = 1;
  while (lanes < f.width && lanes < extent) lanes *= 2;
  return lanes;
}

double access_cost(std::int64_t stride_of_lane, std::int64_t lanes) {
  const std::int64_t apart = std::abs(stride_of_lane);
  // neighbouring vectors, shuffled
  if (apart > 1 && apart <= blocks::shuffled_apart) return static_cast<double>(apart);
  return stride_of_lane == 1 || stride_of_lane == 0 ? blocks::load : blocks::gathered_lane * static_cast<double>(lanes);
}

// Cycles of the whole leaf with lanes over d and no register block.
double lane_cost(const Facts& f, std::size_t d) {
  const std::int64_t lanes = lanes_for(f, f.extent[d]);
  double step = static_cast<double>(f.ops) / pipes;
  for (const FlatAccess& read : f.nest.reads) step += access_cost(stride(read, d), lanes);
  const bool reduce = f.nest.dims[d].reduction;
  double outputs = 1;
  for (std::size_t k = 0; k < f.extent.size(); ++k)
    if (!f.nest.dims[k].reduction && !f.fixed[k]) outputs *= static_cast<double>(f.extent[k]);
  const double vectors = std::ceil(static_cast<double>(f.extent[d]) / static_cast<double>(lanes)) * points(f) /
      std::max(1.0, static_cast<double>(f.extent[d]));
  double cost = step * vectors;
  if (reduce) return cost + f.fold * outputs;
  const double inside = interior(f, d, reductions(f.nest));
  cost = cost * inside + cost * blocks::masked * (1 - inside);
  return cost + access_cost(stride(f.nest.target, d), lanes) * outputs / static_cast<double>(lanes);
}

struct Tiles { std::int64_t count, most; };
Tiles balanced(std::int64_t extent, std::int64_t block) {
  const std::int64_t count = (extent + block - 1) / block;
  return {count, (extent + count - 1) / count};
}

// An access that blocks of m may turn: side by side along m, apart along n.
bool turns(const FlatAccess& access, std::size_t n, std::size_t m) {
  return stride(access, m) == 1 && std::abs(stride(access, n)) > 1;
}
bool may_turn(const Facts& f, std::size_t n, std::size_t m) {
  const auto can = [&](const FlatAccess& access) { return turns(access, n, m); };
  return f.squares && lanes_for(f, f.extent[n]) >= 4 &&
      (can(f.nest.target) || std::any_of(f.nest.reads.begin(), f.nest.reads.end(), can));
}

bool is_strip(const FlatAccess& access, std::size_t n, std::size_t m, std::int64_t rows, std::int64_t lanes) {
  return codegen::is_strip(stride(access, m), stride(access, n), rows, lanes);
}

// Sums of so many rows that are stored through squares, where what they read stays as it lies.
bool turns_sums(const Facts& f, std::size_t n, std::optional<std::size_t> m, std::int64_t rows) {
  return m && f.squares && rows <= lanes_for(f, f.extent[n]) && turns(f.nest.target, n, *m) &&
      (rows >= blocks::least_of_square || is_strip(f.nest.target, n, *m, rows, lanes_for(f, f.extent[n]))) &&
      std::any_of(f.nest.dims.begin(), f.nest.dims.end(), [](const Dim& d) { return d.reduction; }) &&
      std::none_of(
          f.nest.reads.begin(), f.nest.reads.end(), [&](const FlatAccess& read) { return turns(read, n, *m); });
}

// Reductions that a row couples with n or m: taken one value at a time outside the blocks, they leave exact bounds.
std::vector<std::size_t> taps_of(const Facts& f, std::size_t n, std::optional<std::size_t> m) {
  std::vector<std::size_t> taps;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (f.nest.dims[d].reduction && (share_row(f.nest, d, n) || (m && share_row(f.nest, d, *m)))) taps.push_back(d);
  return taps;
}
bool joined(const Facts& f, std::size_t n, std::optional<std::size_t> m) {
  const std::vector<std::size_t> taps = taps_of(f, n, m);
  return taps.size() == 1 && goes_at_once(f.nest, f.extent, taps[0]);
}
enum class BlockForm { Plain, Turned, Taps };
struct Block {
  std::int64_t rows = 1, vectors = 1;
  double cost = infinite;
  BlockForm form = BlockForm::Plain;
  double again = 0;                                    // of the cost, what it takes to fetch lines that a cache has
                                                       // lost
  double torn = 0;                                     // of the cost, what it takes to write a large result in short
                                                       // runs
  bool rows_outside = false;                           // blocks of n run inside blocks of m
};

// What leaves a cache before it is used again: loops from the outermost to the innermost, and how many values of each
// dimension the loops from `first` on see.
class Refetched {
 public:
  Refetched(const Facts& f, std::size_t n, std::optional<std::size_t> m, const Block& block, bool rows_outside = false)
      : f_(f), inside_(f.extent.size(), 1) {
    for (std::size_t d = 0; d < f.extent.size(); ++d)
      if (!f.fixed[d] && !f.nest.dims[d].reduction && d != n && d != m) loops_.push_back(d);
    std::stable_sort(loops_.begin(), loops_.end(), [&](std::size_t a, std::size_t b) {
      return std::abs(stride(f.nest.target, a)) > std::abs(stride(f.nest.target, b));
    });
    loops_.push_back(n);
    if (m) loops_.insert(loops_.end() - (rows_outside ? 1 : 0), *m);
    for (std::size_t d = 0; d < f.extent.size(); ++d)
      if (f.nest.dims[d].reduction && !f.fixed[d] && d != n) loops_.push_back(d);
    const std::int64_t lanes = lanes_for(f, f.extent[n]);
    inside_[n] = std::min(f.extent[n], lanes * block.vectors);
    if (m) inside_[*m] = block.rows;
  }

  double cycles() const {
    double near = 0, far = 0;
    const auto see = [&](const FlatAccess& access) {
      const double once = lines(access, 0);
      near += std::max(0.0, fetched(access, blocks::part_of_l1 * static_cast<double>(f_.l1)) - once);
      far += std::max(0.0, fetched(access, blocks::part_of_l2 * static_cast<double>(f_.l2)) - once);
    };
    for (const FlatAccess& read : f_.nest.reads) see(read);
    see(f_.nest.target);
    return near * blocks::line_of_l2 + far * blocks::line_of_l3;
  }

  // What lines of the target take beyond those of a stream, each written once: a core fetches them before it writes
  // them.
  double torn() const {
    model::Walk walk;
    walk.boxes.push_back(f_.extent);
    for (const std::size_t d : loops_) {
      const auto extent = static_cast<double>(walk.boxes.back()[d]), by = static_cast<double>(inside_[d]);
      walk.loops.push_back({{d}, std::ceil(extent / by), extent / by});
      walk.boxes.push_back(walk.boxes.back());
      walk.boxes.back()[d] = inside_[d];
    }
    const double run = model::run_of(f_.nest.target, walk, f_.stored);
    return f_.from_memory * lines(f_.nest.target, 0) *
        (blocks::first_of_run + blocks::line_of_run * std::min(run, model::ramp)) / run;
  }

 private:
  // Lines of an access that the loops from `first` on touch.
  double lines(const FlatAccess& access, std::size_t first) const {
    double count = 1, run = 1;
    for (std::size_t l = 0; l < loops_.size(); ++l) {
      const std::size_t d = loops_[l];
      const std::int64_t apart = std::abs(stride(access, d));
      if (apart == 0) continue;
      const auto here = static_cast<double>(l >= first ? f_.extent[d] : inside_[d]);
      count *= here;
      const std::int64_t side_by_side = line / apart;
      if (apart < line) run = std::max(run, std::min(here, static_cast<double>(side_by_side)));
    }
    return count / run;
  }
  // Of all turns of the loops, with a cache of so many bytes.
  double fetched(const FlatAccess& access, double bytes) const {
    double turns = 1;
    for (std::size_t first = 0; first < loops_.size(); ++first) {
      const double held = lines(access, first);
      if (held * model::line <= bytes) return held * turns;
      const std::size_t d = loops_[first];
      turns *= std::ceil(static_cast<double>(f_.extent[d]) / static_cast<double>(inside_[d]));
    }
    return lines(access, loops_.size()) * turns;
  }
  static constexpr auto line = static_cast<std::int64_t>(model::element_of_line);

  const Facts& f_;
  std::vector<std::size_t> loops_;
  std::vector<std::int64_t> inside_;                   // a block's, of each dimension
};

// Cycles of one block over all steps of the reduction, and of all blocks. `turned`: rows are as many as lanes, and
// squares of them are transposed in registers. `taps`: the reductions that bound a block stand outside it.
Block best_block(
    const Facts& f, std::size_t n, std::optional<std::size_t> m, BlockForm form, std::int64_t least_vectors = 1) {
  const bool turned = form == BlockForm::Turned;
  const std::int64_t lanes = lanes_for(f, f.extent[n]);
  const std::int64_t all_vectors = (f.extent[n] + lanes - 1) / lanes;
  double steps = 1, others = 1;
  for (std::size_t d = 0; d < f.extent.size(); ++d) {
    if (f.nest.dims[d].reduction) steps *= static_cast<double>(f.extent[d]);
    else if (d != n && d != m && !f.fixed[d]) others *= static_cast<double>(f.extent[d]);
  }
  double taps = 1;
  if (form == BlockForm::Taps) taps = static_cast<double>(passes_of_taps(f.nest, f.extent, taps_of(f, n, m)));
  steps /= taps, others *= taps;
  int by_n = 0, by_m = 0, by_both = 0;
  std::vector<const FlatAccess*> gathered;
  for (const FlatAccess& read : f.nest.reads) {
    const bool in_n = stride(read, n) != 0, in_m = m && stride(read, *m) != 0;
    (in_n ? (in_m ? by_both : by_n) : by_m) += in_n || in_m;
    if (in_n && std::abs(stride(read, n)) > blocks::shuffled_apart) gathered.push_back(&read);
  }
  const bool scattered = std::abs(stride(f.nest.target, n)) > 1;
  const bool apart = scattered || !gathered.empty();
  // Rows of an operand that lie pages apart cost their start, however wide the strip is that is read of them; blocks of
  // m read them from the cache.
  int paged = 0;
  for (const FlatAccess& read : f.nest.reads) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t d = 0; d < f.extent.size(); ++d)
      if (f.nest.dims[d].reduction && stride(read, d)) least = std::min(least, std::abs(stride(read, d)));
    paged += stride(read, n) != 0 && least != std::numeric_limits<std::int64_t>::max() && least >= blocks::pages_apart;
  }
  // A gather touches a cache line per lane; the next rows find them again when m has unit stride there. A square has a
  // load and log2(lanes) shuffles for each of its rows; a strip a load and its shuffles.
  const auto square = [&](const FlatAccess& access, double r) {
    const auto rows = static_cast<std::int64_t>(r);
    return is_strip(access, n, *m, rows, lanes)
        ? r * (blocks::load + static_cast<double>(strip_shuffles(rows)))
        : static_cast<double>(lanes) * (blocks::load + std::log2(static_cast<double>(lanes)));
  };
  const auto apart_cycles = [&](const FlatAccess& access, double r, double v) {
    if (turned && r > 1 && turns(access, n, *m)) return square(access, r) * v;
    const bool again = m && std::abs(stride(access, *m)) == 1;
    const double vectors = m && stride(access, *m) != 0 ? r * v : v;
    return vectors * static_cast<double>(lanes) *
        (blocks::load + blocks::line_of_lane / (again ? std::min(r, model::element_of_line) : 1.0));
  };
  const auto gather_cycles = [&](double r, double v) {
    double cycles = 0;
    for (const FlatAccess* access : gathered) cycles += apart_cycles(*access, r, v);
    return cycles;
  };
  const std::int64_t m_extent = m ? f.extent[*m] : 1;
  const auto free_of_taps = [&](std::size_t d) { return interior(f, d, reductions(f.nest)); };
  const double inside = m && form != BlockForm::Taps ? free_of_taps(*m) : 1;
  // A vector at the border has a mask; one value of the taps reaches half of the border.
  const double inside_n = free_of_taps(n),
               of_lanes = form == BlockForm::Taps && joined(f, n, m) ? 1
      : form == BlockForm::Taps ? (1 + inside_n) / 2 * (m ? (1 + free_of_taps(*m)) / 2 : 1)
                                : 1;
  const double masked_n = form == BlockForm::Taps ? 0 : 1 - inside_n;
  const double stores = form == BlockForm::Taps ? blocks::tap_store : 1;
  Block best;
  const std::int64_t most_rows =
      turned ? std::min(m_extent, lanes) : std::min(m_extent, apart ? blocks::most_rows_apart : blocks::most_rows);
  for (std::int64_t rows = turned ? most_rows : 1; rows <= most_rows; ++rows)
    for (std::int64_t vectors = least_vectors;
        vectors <= std::min<std::int64_t>(all_vectors, turned ? 1 : blocks::most_vectors); ++vectors) {
      if (rows * vectors + by_n * vectors + (by_both ? 2 : 0) + (by_m ? 1 : 0) > f.registers - 1) continue;
      if (static_cast<double>(rows * vectors * f.ops) > blocks::spelled_out && rows * vectors > 1) continue;
      if (steps <= 1 && rows > 1 && !by_n && !apart) continue;  // nothing is reused: plain rows
      const bool squares = turned ? rows > 1 && turns(f.nest.target, n, *m) : turns_sums(f, n, m, rows);
      const auto cycles = [&](double r, double v, double of_mask = 0) {
        const double loads = by_n * v + by_m * r + by_both * r * v;
        const double streamed = by_n * v + by_both * r * v;
        const double panel = streamed * static_cast<double>(lanes) * 4 * steps > blocks::panel_of_l1
            ? blocks::vector_of_l2 * streamed
            : 0;
        const double step =
            of_mask + std::max({r * v * f.ops / pipes, loads / pipes, panel, f.ops ? model::latency : 1.0});
        const double spread = squares ? square(f.nest.target, r) * v
            : scattered ? apart_cycles(f.nest.target, r, v) + r * v * static_cast<double>(lanes) * blocks::scattered
                        : 0.0;
        return steps * (step + blocks::of_load * loads + (m ? 0.0 : blocks::paged_row) * paged + gather_cycles(r, v)) +
            spread + stores * r * v + blocks::start;
      };
      Tiles mt =
          balanced(static_cast<std::int64_t>(std::max(1.0, std::round(static_cast<double>(m_extent) * inside))), rows);
      if (turned) mt.most = rows;
      const Tiles nt = balanced(all_vectors, vectors);
      const double border = static_cast<double>(m_extent) * (1 - inside) * static_cast<double>(nt.count) *
          cycles(1, static_cast<double>(nt.most));
      const double whole = static_cast<double>(mt.count) * static_cast<double>(nt.count) *
              cycles(static_cast<double>(mt.most), static_cast<double>(nt.most)) +
          border;
      // Vectors at the border go one at a time.
      const double at_border = masked_n > 0
          ? static_cast<double>(mt.count * all_vectors) * cycles(static_cast<double>(mt.most), 1, blocks::mask)
          : 0;
      const double cost = others * (of_lanes * (1 - masked_n) * whole + masked_n * at_border);
      // wider strips
      const bool tie = cost < best.cost * (1 + blocks::tie) && mt.most == best.rows && nt.most > best.vectors;
      if (cost < best.cost * (1 - blocks::tie) || tie) best = {mt.most, nt.most, cost, form};
    }
  if (steps > 1 && f.nest.reads.size() > 1 && best.cost < infinite)
    best.again = Refetched(f, n, m, best).cycles(), best.cost += best.again;
  return best;
}

// Rows of m for lanes that fold along n. Long sums have as many accumulators as without rows, so they are as exact.
struct FoldedRows { std::optional<std::size_t> m; std::int64_t rows = 1; double cost = 0; };

// Vectors of n at which some of `rows` rows of m have begun or ended and others not.
double uneven_vectors(const Facts& f, std::size_t n, std::size_t m, std::int64_t rows, std::int64_t lanes) {
  double begins = 0, ends = 0;
  for (const Row& row : f.nest.rows) {
    const auto by_n = static_cast<double>(row.form.coefficients[n]),
               by_m = static_cast<double>(row.form.coefficients[m]);
    if (by_n == 0 || by_m == 0) continue;
    const double vectors =
        std::ceil(std::abs(by_m / by_n) * static_cast<double>(rows - 1) / static_cast<double>(lanes));
    if (by_n > 0 || row.extent) begins = std::max(begins, vectors);
    if (by_n < 0 || row.extent) ends = std::max(ends, vectors);
  }
  return begins + ends;
}

bool ragged(const Facts& f, std::size_t n) {
  return std::ranges::any_of(f.nest.rows, [&](const Row& row) {
    return row.form.coefficients[n] &&
        std::ranges::count_if(row.form.coefficients, [](std::int64_t c) { return c != 0; }) > 1;
  });
}

double folded_cost(
    const Facts& f, std::size_t n, std::optional<std::size_t> m, std::int64_t rows, std::int64_t vectors) {
  const std::int64_t lanes = lanes_for(f, f.extent[n]);
  const double along = std::ceil(static_cast<double>(f.extent[n]) / static_cast<double>(lanes));
  double steps = 1, others = 1;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (d != n && d != m && !f.fixed[d])
      (f.nest.dims[d].reduction ? steps : others) *= static_cast<double>(f.extent[d]);
  const std::vector<bool> inner = reductions(f.nest);
  const bool own_ranges = m && staggered(f.nest, *m, n, inner);
  const auto block = [&](double r) {
    const double uneven = own_ranges && r > 1 ? std::min(along, uneven_vectors(f, n, *m, rows, lanes)) : 0;
    double shared = r * static_cast<double>(f.ops) / pipes, alone = shared;
    for (const FlatAccess& read : f.nest.reads) {
      const double access = access_cost(stride(read, n), lanes);
      shared += access * (m && stride(read, *m) ? r : 1);
      alone += access * r;
    }
    const double chain = model::latency / static_cast<double>(vectors);
    const double step = (along - uneven) * std::max(shared, chain) + uneven * std::max(alone, chain) +
        (ragged(f, n) ? blocks::ragged_row : 0);
    const double store = m && std::abs(stride(f.nest.target, *m)) > 1 ? blocks::scattered_lane * r : blocks::load;
    return steps * step + (r > 1 ? blocks::fold_of_row * r + store + blocks::start : f.fold);
  };
  if (!m) return others * block(1);
  const double extent = static_cast<double>(f.extent[*m]),
               inside = own_ranges ? extent : interior(f, *m, inner) * extent;
  const Tiles tiles = balanced(std::max<std::int64_t>(1, std::llround(inside)), rows);
  return others *
      (static_cast<double>(tiles.count) * block(static_cast<double>(tiles.most)) + (extent - inside) * block(1));
}

std::int64_t folded_vectors(const Facts& f, std::size_t n) {
  return std::clamp<std::int64_t>(f.extent[n] / f.width, 1, blocks::reduced_vectors);
}

FoldedRows folded_alone(const Facts& f, std::size_t n) {
  return {std::nullopt, 1, folded_cost(f, n, std::nullopt, 1, folded_vectors(f, n))};
}

bool may_fold_rows(const Facts& f) {
  return f.squares && !has_scale(f.nest.aggregation, compute_type(f.nest.value->type()));
}

// The best number of rows of m, where they cost less than `most`.
FoldedRows rows_of(const Facts& f, std::size_t n, std::size_t m, double most) {
  FoldedRows best{std::nullopt, 1, most};
  if (f.fixed[m] || f.nest.dims[m].reduction || f.extent[m] < 2) return best;
  // Rows with nothing in common only save folds, and are read as so many streams: softmax of 4096 rows of 256 took 1.15
  // times as long.
  if (std::all_of(
          f.nest.reads.begin(), f.nest.reads.end(), [&](const FlatAccess& read) { return stride(read, m) != 0; }))
    return best;
  const std::int64_t vectors = folded_vectors(f, n), reads = static_cast<std::int64_t>(f.nest.reads.size());
  for (std::int64_t rows = 2; rows <= std::min(f.extent[m], blocks::folded_rows); ++rows) {
    if (rows * vectors + vectors + reads > f.registers - 1 ||
        rows * vectors * f.ops > static_cast<std::int64_t>(blocks::spelled_out))
      continue;
    if (const double cost = folded_cost(f, n, m, rows, vectors); cost < best.cost) best = {m, rows, cost};
  }
  return best;
}

FoldedRows folded_rows(const Facts& f, std::size_t n) {
  FoldedRows best = folded_alone(f, n);
  if (!may_fold_rows(f)) return best;
  const double most = blocks::folded_less * best.cost;
  for (std::size_t m = f.extent.size(); m-- > 0;)
    if (const FoldedRows rows = rows_of(f, n, m, std::min(most, blocks::less * best.cost)); rows.m) best = rows;
  return best;
}

// Which of n and m runs outside: that along which a large result is written, unless what the columns read of the
// operands then comes from a farther cache again and again.
void order_blocks(const Facts& f, std::size_t n, std::optional<std::size_t> m, Block& block) {
  if (f.from_memory == 0) return;
  block.torn = Refetched(f, n, m, block).torn();
  block.cost += block.torn;
  if (!m || block.form != BlockForm::Plain) return;
  const Refetched outside(f, n, m, block, true);
  const double again = outside.cycles(), torn = outside.torn(),
               cost = block.cost - block.again - block.torn + again + torn;
  if (cost < blocks::less * block.cost)
    block.cost = cost, block.again = again, block.torn = torn, block.rows_outside = true;
}

bool may_tap(const Facts& f, std::size_t n, std::optional<std::size_t> m) {
  const std::vector<std::size_t> taps = taps_of(f, n, m);
  return f.adds && f.squares && !taps.empty() &&
      (passes_of_taps(f.nest, f.extent, taps) <= blocks::few_taps || joined(f, n, m)) && !outputs_share_rows(f.nest);
}

// Lanes over n and no rows.
Block alone(const Facts& f, std::size_t n) {
  const Block plain = best_block(f, n, std::nullopt, BlockForm::Plain);
  if (!may_tap(f, n, std::nullopt)) return plain;
  const Block taps = best_block(f, n, std::nullopt, BlockForm::Taps);
  return taps.cost < (joined(f, n, std::nullopt) ? model::clearly_less : blocks::much_less) * plain.cost ? taps : plain;
}

// Blocks of each dimension that rows may run over, with lanes over n.
template <class F> void each_block(const Facts& f, std::size_t n, F weigh) {
  for (const bool taps : {false, true})
    for (std::size_t d = f.extent.size(); d-- > 0;) {
      if (d == n || f.fixed[d] || f.nest.dims[d].reduction || f.extent[d] < 2 || share_row(f.nest, d, n)) continue;
      if (taps) {
        if (may_tap(f, n, d)) weigh(d, best_block(f, n, d, BlockForm::Taps));
        continue;
      }
      weigh(d, best_block(f, n, d, BlockForm::Plain));
      if (may_turn(f, n, d)) weigh(d, best_block(f, n, d, BlockForm::Turned));
    }
}

// More of it than the second cache holds.
bool from_afar(const Facts& f, const FlatAccess& read) {
  double elements = 1;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (stride(read, d)) elements *= static_cast<double>(f.nest.dims[d].extent);
  return elements * static_cast<double>(f.stored) > static_cast<double>(f.l2);
}

// A window: its values share lines with those of an output, whatever the order.
bool slides(const Facts& f, std::size_t d) {
  for (std::size_t out = 0; out < f.extent.size(); ++out)
    if (!f.nest.dims[out].reduction && share_row(f.nest, d, out)) return true;
  return false;
}

// Reductions: large strides outside, in what comes from afar where something does, and innermost one long enough to be
//             worth a loop.
std::vector<std::size_t> reduction_order(const Facts& f, std::optional<std::size_t> lane) {
  bool far =
      std::any_of(f.nest.reads.begin(), f.nest.reads.end(), [&](const FlatAccess& read) { return from_afar(f, read); });
  for (std::size_t d = 0; d < f.extent.size(); ++d) far = far && !(f.nest.dims[d].reduction && slides(f, d));
  std::vector<std::size_t> k;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (f.nest.dims[d].reduction && !f.fixed[d] && d != lane) k.push_back(d);
  const auto weight = [&](std::size_t d) {
    std::int64_t sum = 0;
    for (const FlatAccess& read : f.nest.reads) sum += !far || from_afar(f, read) ? std::abs(stride(read, d)) : 0;
    return sum;
  };
  std::stable_sort(k.begin(), k.end(), [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
  if (k.empty()) return k;
  // Steps of `d` should not go from page to page where those of the innermost one stay on a line.
  const auto pages = [&](std::size_t d) {
    return std::ranges::any_of(f.nest.reads, [&](const FlatAccess& read) {
      return std::abs(stride(read, d)) >= blocks::pages_apart && stride(read, k.back()) &&
          std::abs(stride(read, k.back())) < blocks::shuffled_apart;
    });
  };
  const auto longest_of = [&](auto may) {
    auto longest = k.end();
    for (auto d = k.begin(); d != k.end(); ++d)
      if (may(*d) && (longest == k.end() || f.extent[*d] > f.extent[*longest])) longest = d;
    return longest;
  };
  if (f.extent[k.back()] < (far ? blocks::short_loop_from_afar : blocks::short_loop)) {
    const auto longest = longest_of([](std::size_t) { return true; });
    if (f.extent[*longest] >= 2 * f.extent[k.back()] && !pages(*longest)) std::rotate(longest, longest + 1, k.end());
  }
  // Where no vector is without a border, what decides which lanes are left is found as rarely as may be.
  const auto masks = [&](std::size_t d) { return lane && share_row(f.nest, d, *lane); };
  if (masks(k.back()) &&
      interior(f, *lane, reductions(f.nest)) * static_cast<double>(f.extent[*lane]) <
          static_cast<double>(lanes_for(f, f.extent[*lane])))
    if (const auto longest = longest_of([&](std::size_t d) { return !masks(d); });
        longest != k.end() && f.extent[*longest] >= blocks::short_loop && !pages(*longest))
      std::rotate(longest, longest + 1, k.end());
  return k;
}
std::vector<std::string> names(const Nest& nest, const std::vector<std::size_t>& dims) {
  std::vector<std::string> list;
  for (const std::size_t d : dims) list.push_back(nest.dims[d].name);
  return list;
}

// Steps of a fold in one register: beyond them the roundings of narrow floats add up to more than those of the terms.
constexpr int exact_enough = 2048;

// Parts of a long reduction, added up in the target. A panel of the operand that lanes read should stay in the
// second-level cache while the blocks of m go by; and a sum of many f32 is more exact as a sum of sums.
std::int64_t chunk_of(const Facts& f, const Compute& leaf) {
  double steps = 1;
  for (const std::string& name : leaf.k) steps *= static_cast<double>(f.extent[*f.nest.dim(name)]);
  const double width = static_cast<double>(leaf.vectors * leaf.lanes * std::max(4, lang::bytes(f.nest.value->type())));
  const bool leaves_cache = !leaf.m().empty() &&
      steps * width >= blocks::panel_part_of_l2 * static_cast<double>(f.l2) &&
      f.extent[*f.nest.dim(leaf.m())] >= blocks::panel_reuse * leaf.rows;
  const bool inexact = f.nest.value->type() == DType::F32 && steps >= exact_enough;
  if (leaf.k.empty() || (!leaves_cache && !inexact)) return 0;
  const std::size_t first = *f.nest.dim(leaf.k.front());
  const std::int64_t extent = f.extent[first];
  if (extent < f.nest.dims[first].extent) return 0;    // what a turn has of it is a part already
  const auto wanted = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(blocks::steps_of_chunk / (steps / static_cast<double>(extent))));
  if (2 * wanted > extent) return 0;
  return balanced(extent, wanted).most;
}

// What a step of a block waits for, of what it reads of the second cache: with the whole sum at once, or with parts of
// it as long as the first cache holds what they read, so that further blocks of m find it there.
class Parts {
 public:
  Parts(const Facts& f, const Compute& leaf, double rows, double vectors, double steps)
      : f_(f), rows_(rows), vectors_(vectors), steps_(steps) {
    const std::size_t m = *f.nest.dim(leaf.m()), n = *f.nest.dim(leaf.n);
    blocks_ = std::ceil(static_cast<double>(f.extent[m]) / rows);
    const double element = static_cast<double>(f.stored) / model::line;
    double by_n = 0, by_m = 0, by_both = 0;
    for (const FlatAccess& read : f.nest.reads) {
      const bool in_n = stride(read, n) != 0, in_m = stride(read, m) != 0;
      (in_n ? (in_m ? by_both : by_n) : by_m) += in_n || in_m;
      if (in_n)
        (in_m ? apart_ : columns_) +=
            (in_m ? rows : 1) * (vectors * static_cast<double>(leaf.lanes) * element + blocks::torn_line);
      else if (in_m) apart_ += rows * element, torn_ += torn_lines(read, m);
    }
    held_ = std::floor(blocks::part_of_l1 * static_cast<double>(f.l1) / ((columns_ + apart_ + torn_) * model::line));
    // a vector begins anywhere in its line, so it is two
    const double loads = 2 * (by_n * vectors + by_both * rows * vectors) + by_m * rows;
    computes_ = std::max({rows * vectors * f.ops / pipes, loads / pipes, model::latency}) + f.unhidden * loads;
    // Squares are transposed where results lie across the lanes.
    const bool across = std::abs(stride(f.nest.target, n)) > blocks::shuffled_apart;
    stores_ = rows * vectors * blocks::tap_store +
        (across ? 2 * vectors * static_cast<double>(leaf.lanes) *
                    (blocks::load + std::log2(static_cast<double>(leaf.lanes)))
                : 0);
  }

  double held() const { return held_; }
  // Cycles of a step, for each multiply-add of a vector.
  double whole() const {
    return (together(computes_, steps_ <= held_ ? columns_ / blocks_ + apart_ : columns_ + apart_ + torn_) +
               (stores_ + blocks::start) / steps_) /
        (rows_ * vectors_);
  }
  double in_parts() const {
    return (together(computes_, columns_ / blocks_ + apart_) + (stores_ + blocks::start) / held_) / (rows_ * vectors_);
  }

 private:
  double together(double computes, double lines) const {
    return std::max(computes, lines * f_.near) + f_.exposed * std::min(computes, lines * f_.near);
  }

  // Lines of which later steps do not read the rest: of rows side by side one, of rows apart each.
  double torn_lines(const FlatAccess& read, std::size_t m) const {
    for (std::size_t d = 0; d < f_.extent.size(); ++d)
      if (f_.nest.dims[d].reduction && stride(read, d) &&
          std::abs(static_cast<double>(stride(read, d))) < model::element_of_line)
        return 0;
    return std::min(
        rows_, std::max(1.0, rows_ * static_cast<double>(std::abs(stride(read, m))) / model::element_of_line));
  }

  const Facts& f_;
  double rows_, vectors_, steps_, blocks_, columns_ = 0, apart_ = 0, torn_ = 0, held_, computes_, stores_;
};

// Rows that lie a power of two apart fall on few sets of a cache, which does not hold them then.
bool on_few_sets(const Facts& f, const FlatAccess& access, std::size_t d) {
  return stride(access, d) && stride(access, d) * f.stored % blocks::few_sets == 0;
}

// The block whose sums take least in parts, where that is clearly less than the sums of the block that was chosen take
// as they are.
void cut_sums(const Facts& f, Compute& leaf) {
  if (!f.adds || !f.squares || leaf.m().empty() || leaf.n.empty() || leaf.k.empty() || f.nest.reads.size() != 2 ||
      leaf.block()->turned != turns_sums(f, *f.nest.dim(leaf.n), f.nest.dim(leaf.m()), leaf.rows))
    return;
  const std::size_t n = *f.nest.dim(leaf.n), m = *f.nest.dim(leaf.m()), first = *f.nest.dim(leaf.k.front());
  if (f.extent[first] < f.nest.dims[first].extent) return;  // what a turn has of it is a part already
  if (on_few_sets(f, f.nest.target, m) ||
      std::any_of(f.nest.reads.begin(), f.nest.reads.end(),
          [&](const FlatAccess& read) { return stride(read, n) && on_few_sets(f, read, *f.nest.dim(leaf.k.back())); }))
    return;
  double steps = 1;
  for (const std::string& k : leaf.k) steps *= static_cast<double>(f.extent[*f.nest.dim(k)]);
  if (steps < 2 * blocks::least_of_part) return;
  const double inside = steps / static_cast<double>(f.extent[first]);
  double least = blocks::parts_less *
      Parts(f, leaf, static_cast<double>(leaf.rows), static_cast<double>(leaf.vectors), steps).whole();
  const std::int64_t all_rows = f.extent[m], all_vectors = (f.extent[n] + leaf.lanes - 1) / leaf.lanes;
  Compute best = leaf;
  const bool squares = leaf.block()->turned;
  for (std::int64_t rows = squares ? blocks::least_of_square : 1;
      rows <= std::min(all_rows, squares ? leaf.lanes : blocks::most_rows); ++rows)
    for (std::int64_t vectors = 1; vectors <= std::min(all_vectors, blocks::most_vectors); ++vectors) {
      if (rows * vectors + vectors + 1 > f.registers - 1) continue;
      const Tiles of_m = balanced(all_rows, rows), of_n = balanced(all_vectors, vectors);
      const Parts parts(f, leaf, static_cast<double>(of_m.most), static_cast<double>(of_n.most), steps);
      const double held = std::floor(parts.held() / inside);
      if (held < blocks::least_values_of_part || held * inside < blocks::least_of_part ||
          2 * held > static_cast<double>(f.extent[first]))
        continue;
      const double filled = static_cast<double>(all_rows * all_vectors) /
          static_cast<double>(of_m.count * of_m.most * of_n.count * of_n.most);
      if (const double cost = parts.in_parts() / filled; cost < least) {
        least = cost;
        best.rows = of_m.most, best.vectors = of_n.most;
        best.as<forms::Contract>()->chunk = balanced(f.extent[first], static_cast<std::int64_t>(held)).most;
      }
    }
  leaf = std::move(best);
}

bool in_rows(const Nest& nest, std::size_t d) {
  return std::any_of(nest.rows.begin(), nest.rows.end(), [&](const Row& row) { return row.form.coefficients[d] != 0; });
}

// A vector of elements that lie apart, to load or to store. Not worth its lanes: a scan has work for one element at a
// time.
double spread_cost(std::int64_t stride_of_lane, std::int64_t lanes) {
  return std::abs(stride_of_lane) <= 1 ? blocks::load : blocks::scattered_lane * static_cast<double>(lanes);
}

// Lanes over another output dimension where its neighbours lie better than those along the scan.
Choice choose_scan(const Facts& f, int node, const Scan& scan) {
  const Nest& nest = f.nest;
  Choice choice{Compute{}, 0, {}, 0};
  Compute& leaf = choice.leaf;
  leaf.node = node;
  leaf.form = forms::Scan{nest.dims[scan.along].name};
  leaf.k = {nest.dims[scan.over].name};
  const double ops = scan.all_but_one ? model::scans::all_but_one * f.ops
      : scan.decays                   ? model::scans::decaying * f.ops
                                      : f.ops;
  double best = 1 + ops;                               // cycles per element
  std::optional<std::size_t> lane;
  for (std::size_t d = 0; d < f.extent.size(); ++d) {
    if (d == scan.along || nest.dims[d].reduction || f.fixed[d] || f.extent[d] < 2 || in_rows(nest, d)) continue;
    const std::int64_t lanes = lanes_for(f, f.extent[d]);
    double cost = ops + spread_cost(stride(nest.target, d), lanes);
    for (const FlatAccess& read : nest.reads) cost += spread_cost(stride(read, d), lanes);
    cost *= std::ceil(static_cast<double>(f.extent[d]) / static_cast<double>(lanes)) / static_cast<double>(f.extent[d]);
    if (cost < best) best = cost, lane = d;
  }
  leaf.rows = model::scans::rows_at_once;
  if (lane) {
    leaf.n = nest.dims[*lane].name;
    leaf.lanes = lanes_for(f, f.extent[*lane]);
    leaf.vectors = std::clamp<std::int64_t>(f.extent[*lane] / leaf.lanes, 1,
        f.registers /
            (scan.all_but_one || scan.decays ? model::scans::registers_of_decay : model::scans::registers_of_lane));
    leaf.rows = leaf.vectors >= model::scans::vectors_at_once ? 1 : model::scans::vectors_at_once / leaf.vectors;
  }
  if (!scan.steady() || scan.decays || has_scale(nest.aggregation, compute_type(nest.value->type()))) leaf.rows = 1;
  std::vector<std::size_t> outer;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (!f.fixed[d] && !nest.dims[d].reduction && d != scan.along && d != lane) outer.push_back(d);
  std::stable_sort(outer.begin(), outer.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(stride(nest.target, a)) > std::abs(stride(nest.target, b));
  });
  leaf.outer = names(nest, outer);
  choice.cost =
      best * points(f) / std::max(1.0, static_cast<double>(std::min(f.extent[scan.along], f.extent[scan.over])));
  return choice;
}

}  // namespace

namespace {

// Dimensions that stand neither in the block nor in the fold, those far apart in the target outside.
std::vector<std::size_t> outer_dims(
    const Facts& f, const Compute& leaf, std::optional<std::size_t> lane, std::optional<std::size_t> m) {
  const Nest& nest = f.nest;
  std::vector<std::size_t> outer;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (!f.fixed[d] && !nest.dims[d].reduction && d != lane && d != m) outer.push_back(d);
  // Copies reorder: a dimension that is close to unit stride in some tensor goes inside, so that the line it shares is
  // still in a cache. What rows fold is read where the target is written once; sums go as what most bytes belong to
  // lies.
  const FlatAccess& most = leaf.is<forms::Contract>() ? largest(f) : nest.target;
  const auto apart = [&](std::size_t d) {
    if (leaf.is<forms::Reduce>() && m)
      return std::accumulate(nest.reads.begin(), nest.reads.end(), std::int64_t{0},
          [&](std::int64_t sum, const FlatAccess& read) { return sum + std::abs(stride(read, d)); });
    std::int64_t least = std::abs(stride(most, d));
    if (leaf.is<forms::Map>() && leaf.block()->turned)
      for (const FlatAccess& read : nest.reads)
        if (stride(read, d)) least = std::min(least, std::abs(stride(read, d)));
    return least;
  };
  std::stable_sort(outer.begin(), outer.end(), [&](std::size_t a, std::size_t b) { return apart(a) > apart(b); });
  return outer;
}

// A leaf with lanes over `lane`, and the cycles of its blocks of m.
Choice with_lanes(const Facts& f, int node, std::optional<std::size_t> lane, std::optional<std::size_t> m,
    const Block& block, double cycles) {
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
  if (!rows.m) return with_lanes(f, node, lane, std::nullopt, Block{}, alone);
  why.blocks = {{f.nest.dims[lane].name, "", 1, folded_vectors(f, lane), folded_alone(f, lane).cost},
      {f.nest.dims[lane].name, f.nest.dims[*rows.m].name, rows.rows, folded_vectors(f, lane), rows.cost}};
  Block block;
  block.rows = rows.rows;
  return with_lanes(f, node, lane, rows.m, block, alone);
}

// The rows and the block with lanes over n.
std::pair<std::optional<std::size_t>, Block> blocked(const Facts& f, std::size_t n, std::vector<Weighed>& weighed) {
  const auto name = [&](std::size_t d) { return f.nest.dims[d].name; };
  std::optional<std::size_t> m;
  Block block = alone(f, n);
  weighed.push_back({name(n), "", 1, block.vectors, block.cost});
  each_block(f, n, [&](std::size_t d, const Block& with) {
    weighed.push_back({name(n), name(d), with.rows, with.vectors, with.cost});
    const bool first_taps = with.form == BlockForm::Taps && block.form != BlockForm::Taps;
    // Rows of one dimension fetch alike, however they are read.
    const double now = m == d ? with.cost - with.again : with.cost,
                 before = m == d ? block.cost - block.again : block.cost;
    if (now < before * (first_taps ? joined(f, n, d) ? model::clearly_less : blocks::much_less : blocks::less))
      block = with, m = d;
  });
  return {m, block};
}

// What follows from a block: parts of its sums, and what it asks for ahead.
void finish(const Facts& f, Compute& leaf) {
  if (auto* contract = leaf.as<forms::Contract>()) {
    if (f.adds && !contract->taps) contract->chunk = chunk_of(f, leaf);
    if (!contract->taps) cut_sums(f, leaf);
  }
  if (f.squares) look_ahead(f, leaf);
}

}  // namespace

bool outputs_share_rows(const Nest& nest) {
  for (std::size_t a = 0; a < nest.dims.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (!nest.dims[a].reduction && !nest.dims[b].reduction && share_row(nest, a, b)) return true;
  return false;
}

Choice choose_leaf(const Facts& f, int node) {
  const Nest& nest = f.nest;
  // Along what has one value here, as where a box begins, nothing goes on.
  if (const auto scan = scan_of(nest); scan && !f.fixed[scan->along]) return choose_scan(f, node, *scan);
  Why::Leaf why;
  std::vector<std::pair<double, std::size_t>> lanes;
  for (std::size_t d = 0; d < f.extent.size(); ++d) {
    if (f.fixed[d]) continue;
    lanes.emplace_back(lane_cost(f, d), d);
    why.lanes.push_back({nest.dims[d].name, "", 0, 0, lanes.back().first});
  }
  std::stable_sort(lanes.begin(), lanes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::optional<std::size_t> lane = lanes.empty() ? std::nullopt : std::optional(lanes.front().second);
  Choice best{Compute{}, infinite, {}, 0};
  if (!lane) best = with_lanes(f, node, lane, std::nullopt, Block{}, points(f) * (f.ops + 2));
  else if (nest.dims[*lane].reduction) best = with_folded_rows(f, node, *lane, lanes.front().first, why);
  else {
    auto [m, block] = blocked(f, *lane, why.blocks);
    order_blocks(f, *lane, m, block);
    best = with_lanes(f, node, lane, m, block,
        block.form == BlockForm::Taps ? block.cost
                                      : std::min(lanes.front().first + block.again + block.torn, block.cost));
    best.again = block.again;
    best.torn = block.torn;
  }
  finish(f, best.leaf);
  for (std::vector<Weighed>* list : {&why.lanes, &why.blocks})
    std::stable_sort(
        list->begin(), list->end(), [](const Weighed& a, const Weighed& b) { return a.cycles < b.cycles; });
  best.why = std::move(why);
  return best;
}

std::vector<Compute> other_leaves(const Facts& f, int node, std::size_t most) {
  if (const auto scan = scan_of(f.nest); scan && !f.fixed[scan->along]) return {};
  std::vector<std::pair<double, std::size_t>> lanes;
  for (std::size_t d = 0; d < f.extent.size(); ++d) if (!f.fixed[d]) lanes.emplace_back(lane_cost(f, d), d);
  std::ranges::stable_sort(lanes, {}, &std::pair<double, std::size_t>::first);
  std::vector<Choice> made;
  const auto add = [&](std::size_t n, std::optional<std::size_t> m, Block block) {
    if (block.cost == infinite) return false;
    order_blocks(f, n, m, block);
    made.push_back(with_lanes(f, node, n, m, block, block.cost));
    return true;
  };
  const auto add_with_wider = [&](std::size_t n, std::optional<std::size_t> m, const Block& block) {
    if (add(n, m, block) && block.form != BlockForm::Turned)
      add(n, m, best_block(f, n, m, block.form, 2 * block.vectors));
  };
  for (const auto& [cost, n] : lanes) {
    if (cost > blocks::lanes_worth_asking * lanes.front().first) break;
    if (f.nest.dims[n].reduction) {
      Why::Leaf why;
      made.push_back(with_folded_rows(f, node, n, cost, why));
      continue;
    }
    add_with_wider(n, std::nullopt, best_block(f, n, std::nullopt, BlockForm::Plain));
    if (may_tap(f, n, std::nullopt)) add_with_wider(n, std::nullopt, best_block(f, n, std::nullopt, BlockForm::Taps));
    each_block(f, n, [&, n = n](std::size_t m, const Block& block) {
      if (block.form == BlockForm::Turned || !may_turn(f, n, m)) add_with_wider(n, m, block);
    });
  }
  std::ranges::stable_sort(made, {}, &Choice::cost);
  std::vector<Compute> leaves;
  for (Choice& choice : made) {
    if (leaves.size() == most) break;
    finish(f, choice.leaf);
    if (std::ranges::find(leaves, choice.leaf) == leaves.end()) leaves.push_back(std::move(choice.leaf));
  }
  return leaves;
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
  const double alone = folded_alone(f, lane).cost;
  const FoldedRows rows =
      may_fold_rows(f) ? rows_of(f, lane, *f.nest.dim(m), blocks::folded_less * alone) : FoldedRows{};
  if (!rows.m) return std::nullopt;
  Block block;
  block.rows = rows.rows;
  Choice made = with_lanes(f, node, lane, rows.m, block, alone);
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

bool may_add(const poly::Program& program, const Group& group, int node, const Nest& nest, const Strides& strides) {
  const auto* s = std::get_if<poly::Statement>(&program.nodes[static_cast<std::size_t>(node)]);
  for (const Loop& loop : group.loops)
    if (s && loop.walk && group.body.size() > 1 && part_of_turn(*s, loop, strides)) return false;
  return program.tensor(nest.target.tensor).dtype == compute_type(nest.value->type());
}

Nest nest_to_choose(const poly::Program& program, const Group& group, const Compute& leaf, const Strides& strides) {
  Nest nest = leaf_nest(program, group, leaf, strides);
  nest.adds = !leaf.is<forms::Fill>() && group.tile.empty() && may_add(program, group, leaf.node, nest, strides);
  return nest;
}

std::vector<Loop> loops_of_turn(const Group& group) { return group.tile.empty() ? group.loops : origins(group); }

Facts facts(const Nest& nest, const std::vector<Loop>& loops, const Target& target) {
  Facts f{nest, {}, {}, 1, target.vector_registers, 0, target.l1, target.l2, false,
      has_threads(target) ? blocks::fold_of_threads : blocks::fold_of_lanes, !has_threads(target)};
  for (const Dim& dim : nest.dims) {
    f.extent.push_back(dim.extent);
    f.fixed.push_back(false);
    for (const Loop& loop : loops)
      if (loop.index == dim.name)
        f.extent.back() = std::min(loop.part(), dim.extent), f.fixed.back() = loop.part() == 1;
  }
  const DType type = nest.value->type();
  f.width = has_threads(target) ? model::threads::warp : target.vector_bytes / std::max(4, lang::bytes(type));
  f.ops = operations(*nest.value);
  double elements = 1;
  for (const Dim& dim : nest.dims)
    if (!dim.reduction && nest.target.offset.coefficients[static_cast<std::size_t>(&dim - nest.dims.data())])
      elements *= static_cast<double>(dim.extent);
  f.stored = lang::bytes(type);
  if (const model::Machine* machine = model::machine_of(target)) {
    f.unhidden = machine->unhidden, f.exposed = machine->exposed;
    f.near =
        blocks::of_line * machine->l2.line * machine->arithmetic / (pipes * static_cast<double>(target.vector_bytes));
  }
  f.from_memory = has_threads(target)
      ? 0
      : std::clamp(elements * static_cast<double>(f.stored) / (blocks::part_of_l3 * static_cast<double>(target.l3)) - 1,
            0.0, 1.0);
  f.adds = !has_threads(target) && nest.aggregation == Aggregation::Sum && nest.adds &&
      (identity_is_fill(nest) || always_reached(nest));
  const bool folds = std::any_of(nest.dims.begin(), nest.dims.end(), [](const Dim& d) { return d.reduction; });
  const auto* product = nest.value->as<poly::Apply>();
  const bool fused =
      nest.aggregation == Aggregation::Sum && product && product->op == lang::Op::Mul && lang::is_float(type);
  if (folds && !fused) f.ops += has_scale(nest.aggregation, compute_type(type)) ? model::factor_operations : 1;
  return f;
}

// SIMT: lanes are the threads of a block. A reduction over threads takes one element a block; everything else numbers
//       its
// elements over all threads, with `rows` of m to a thread while there are threads enough.
namespace {

// Elements that a thread has, and how the threads of a block lie.
struct ThreadTile {
  std::int64_t rows, vectors, lanes, threads;
  bool masked = false;                                 // rows of the domain bound m
  std::int64_t height() const { return threads / lanes * rows; }
  std::int64_t width() const { return lanes * vectors; }
};

// Bytes of the sectors that go between a block and the second cache: for each element of a side of its tile, and of the
// tile, a value of the reduction.
struct Moved { double by_m, by_n, result; };

// Blocks that a multiprocessor holds, as its registers allow: sums, operands of two steps, what is on its way,
// addresses.
double resident(const ThreadTile& t, std::int64_t stage) {
  const std::int64_t on_its_way = stage * (t.height() + t.width()) / t.threads,
                     others = model::threads::other_registers + (t.masked ? model::threads::registers_of_rows : 0);
  return std::max(1.0,
      std::floor(model::threads::registers /
          static_cast<double>(t.threads * (t.rows * t.vectors + 2 * (t.rows + t.vectors) + on_its_way + others))));
}

// Cycles of the busiest multiprocessor for one value of the reduction: what it issues, what passes through shared
// memory, what comes from the second cache. One block alone waits at its barriers, and few warps for each other.
double cycles(const ThreadTile& t, double blocks, const Target& target, const Moved& moved) {
  namespace gpu = model::threads;
  const double warp = static_cast<double>(gpu::warp), warps = static_cast<double>(t.threads) / warp,
               elements = static_cast<double>(t.rows * t.vectors), sides = static_cast<double>(t.rows + t.vectors);
  const double copied = static_cast<double>(t.height() + t.width()), turns = std::ceil(blocks / target.multiprocessors);
  const double issued = warps * (elements + sides / 4) + copied / warp * gpu::issued_of_copy,
               shared = warps * sides * gpu::turns_of_operand + copied / warp;
  const double held = std::min(turns, resident(t, gpu::least_of_depth));
  const double waits = (held < 2 ? gpu::of_one_block : 1) * std::max(1.0, gpu::warps_that_hide / (warps * held));
  const double sectors = static_cast<double>(t.height()) * moved.by_m + static_cast<double>(t.width()) * moved.by_n +
      static_cast<double>(t.height() * t.width()) * moved.result;
  return turns * std::max({issued / gpu::issues * waits, shared, sectors / gpu::l2_bytes});
}

// The tile that takes the fewest cycles. Of several that take about as long, the largest, which reads least. A side
// that is no wide tile's is a few threads', and the other one all others'.
struct TileChoice { ThreadTile tile; double cycles; };
TileChoice thread_tile(
    double rows, double columns, double others, bool masked, const Target& target, const Moved& moved) {
  std::optional<ThreadTile> best;
  double least = 0;
  const auto weigh = [&](std::int64_t r, std::int64_t v, std::int64_t lanes, std::int64_t threads) {
    const ThreadTile t{r, v, lanes, threads, masked};
    const double blocks = std::ceil(rows / static_cast<double>(t.height())) *
        std::ceil(columns / static_cast<double>(t.width())) * others;
    const double now = cycles(t, blocks, target, moved);
    if (!best || now < least * model::threads::better_tile) best = t, least = now;
  };
  if (std::min(rows, columns) >= static_cast<double>(model::threads::least_of_tile)) {
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
std::int64_t whole_stage(const Facts& f, std::size_t depth, std::int64_t stage) {
  const bool along =
      std::ranges::any_of(f.nest.reads, [&](const FlatAccess& read) { return std::abs(stride(read, depth)) == 1; });
  const auto steps = [&](std::int64_t of) { return static_cast<double>((f.extent[depth] + of - 1) / of * of); };
  std::int64_t best = stage;
  for (std::int64_t other = stage - 1; other >= model::threads::least_of_depth; --other)
    if ((!along || other % 4 == 0) && steps(other) < model::threads::fewer_steps * steps(best)) best = other;
  return best;
}

// Bytes of the sectors that a warp touches for an element, whose neighbours lie along these dimensions, innermost last,
// `most` of them at a time.
double bytes_touched(
    const Facts& f, const FlatAccess& access, const std::vector<std::size_t>& along, double most, std::int64_t bytes) {
  constexpr std::int64_t sector = 32;
  const auto each = static_cast<double>(bytes);
  const std::int64_t apart = std::abs(stride(access, along.back()));
  if (apart != 1) return apart ? static_cast<double>(std::min(apart * bytes, sector)) : each;
  std::int64_t run = 1;
  bool whole = true;
  for (std::size_t d = along.size(); d-- > 0 && std::abs(stride(access, along[d])) == run;) run *= f.extent[along[d]];
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
  std::vector<std::string> m, n, k;
  std::vector<std::size_t> outer;                      // output dimensions that it has one value of
  double rows, columns, others;                        // values of m, of n, and of `outer`
  bool masked;                                         // rows of the domain bound m
  Moved moved;
};

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
  return {of_factor(roles.by_m, m), of_factor(roles.by_n, n), (of_result - static_cast<double>(f.stored)) / steps};
}

TileChoice tile_of(const TileSides& sides, double parts, const Target& target) {
  return thread_tile(sides.rows, sides.columns, sides.others * parts, sides.masked, target, sides.moved);
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

// Whether all reads of a factor have their neighbours in memory along this dimension: threads with an output each would
// read a sector for each element.
bool reads_along(const Facts& f, const poly::Expr& factor, std::size_t d) {
  return std::ranges::all_of(poly::parts(factor), [&](const poly::Expr& part) {
    const auto* read = part.as<poly::Read>();
    return !read || std::abs(stride(f.nest.reads[static_cast<std::size_t>(read->read)], d)) == 1;
  });
}

std::optional<TileSides> sides_of_tile(const Facts& f, const Target& target) {
  const Nest& nest = f.nest;
  if (points(f) < model::threads::least_to_stage) return std::nullopt;
  const std::vector<std::string> k = names(nest, reduction_order(f, std::nullopt));
  std::vector<std::size_t> outputs;
  for (std::size_t d = 0; d < f.extent.size(); ++d) if (!nest.dims[d].reduction) outputs.push_back(d);
  std::ranges::stable_sort(outputs, {}, [&](std::size_t d) { return std::abs(stride(nest.target, d)); });
  const auto staged = [&](const std::vector<std::size_t>& m, const std::vector<std::size_t>& n) {
    return staging_of(nest, names(nest, m), names(nest, n), k);
  };
  const auto extent_of = [&](const std::vector<std::size_t>& dims) {
    return std::accumulate(dims.begin(), dims.end(), 1.0,
        [&](double product, std::size_t d) { return product * static_cast<double>(f.extent[d]); });
  };
  for (const std::size_t first : outputs)
    for (const std::size_t other : outputs) {
      std::vector<std::size_t> m{other}, n{first}, outer;
      if (other == first || !staged(m, n)) continue;
      // Those that one factor alone reads, and as n no row bounds.
      for (const std::size_t d : outputs) {
        if (d == first || d == other) continue;
        bool taken = false;
        for (auto* side : {&m, &n}) {
          if (taken || !(side == &m ? staged({d}, n) : staged(m, {d}))) continue;
          side->push_back(d);
          taken = staged(m, n).has_value();
          if (!taken) side->pop_back();
        }
        if (!taken) outer.push_back(d);
      }
      const auto roles = staged(m, n);
      if (f.extent[roles->depth] < model::threads::least_of_depth) break;
      const bool narrow = std::min(extent_of(m), extent_of(n)) < static_cast<double>(model::threads::least_of_tile);
      if (narrow && !reads_along(f, extent_of(m) < extent_of(n) ? roles->by_n : roles->by_m, roles->depth)) break;
      const bool masked = std::ranges::any_of(nest.rows, [&](const Row& row) {
        return std::ranges::any_of(m, [&](std::size_t d) { return row.form.coefficients[d] != 0; });
      });
      std::optional<TileSides> best;
      double least = 0;
      for (const auto& of_m : orders_of(nest, m))
        for (const auto& of_n : orders_of(nest, n)) {
          TileSides sides{roles->depth, names(nest, of_m), names(nest, of_n), k, outer, extent_of(m), extent_of(n),
              extent_of(outer), masked, moved_of(f, of_m, of_n, *roles)};
          const double now = tile_of(sides, 1, target).cycles;
          // Of those that take about as long, the one that moves least.
          const auto rank =
              now * (1 + model::tiles::of_a_byte * (sides.moved.by_m + sides.moved.by_n + sides.moved.result));
          if (!best || rank < least) best = std::move(sides), least = rank;
        }
      return best;
    }
  return std::nullopt;
}

}  // namespace

std::optional<double> staged_cycles(const Facts& f, double parts, const Target& target) {
  const auto sides = sides_of_tile(f, target);
  return sides ? std::optional(tile_of(*sides, parts, target).cycles) : std::nullopt;
}

// Large contractions of two factors stage them.
std::optional<Compute> staged_leaf(const Facts& f, int node, const Target& target, std::int64_t& threads) {
  const Nest& nest = f.nest;
  auto sides = sides_of_tile(f, target);
  if (!sides) return std::nullopt;
  auto& [depth, m, n, k, outer, rows, columns, others, masked, moved] = *sides;
  Compute leaf;
  leaf.node = node;
  leaf.k = k;
  leaf.n = n.back();
  n.pop_back();
  std::stable_sort(outer.begin(), outer.end(), [&](std::size_t x, std::size_t y) {
    return std::abs(stride(nest.target, x)) > std::abs(stride(nest.target, y));
  });
  leaf.outer = names(nest, outer);
  const std::int64_t bytes = lang::bytes(compute_type(nest.value->type()));
  const ThreadTile tile = tile_of(*sides, 1, target).tile;
  leaf.rows = tile.rows, leaf.vectors = tile.vectors, leaf.lanes = tile.lanes, threads = tile.threads;
  std::int64_t stage = model::threads::most_staged;
  const auto too_long = [&] {
    return stage >= 2 * f.extent[depth] || staged_bytes(leaf, threads, stage, bytes) > model::threads::shared_of_tile ||
        resident(tile, stage) < 2;
  };
  while (stage > model::threads::least_of_depth && too_long()) stage /= 2;
  stage = whole_stage(f, depth, stage);
  const std::string last = m.back();
  m.pop_back();
  leaf.form = forms::Staged{last, stage, std::move(m), std::move(n)};
  return leaf;
}

// n is the dimension along which the target lies side by side, m the one along which most bytes of the reads that lie
// across it do.
std::optional<Compute> turned_leaf(const Facts& f, int node, const poly::Program& program, const Target& target) {
  const Nest& nest = f.nest;
  if (std::any_of(nest.dims.begin(), nest.dims.end(), [](const Dim& d) { return d.reduction; })) return std::nullopt;
  const auto usable = [&](std::size_t d) { return f.extent[d] >= model::threads::least_to_turn; };
  std::optional<std::pair<std::size_t, std::size_t>> best;
  std::int64_t most = 0;
  for (std::size_t n = 0; n < f.extent.size(); ++n)
    for (std::size_t m = 0; m < f.extent.size(); ++m) {
      if (m == n || std::abs(stride(nest.target, n)) != 1 || !usable(n) || !usable(m) || share_row(nest, m, n))
        continue;
      std::int64_t across = 0;
      for (const FlatAccess& read : nest.reads) {
        const std::int64_t bytes = lang::bytes(program.tensor(read.tensor).dtype);
        if (lies_across(read, m, n, bytes)) across += bytes;
      }
      if (across > most) most = across, best = {m, n};
    }
  if (!best) return std::nullopt;
  Compute leaf;
  leaf.node = node;
  leaf.set_m(nest.dims[best->first].name);
  leaf.n = nest.dims[best->second].name;
  leaf.block()->turned = true;
  leaf.rows = model::threads::most_rows;
  leaf.lanes = threads_of_a_block;
  leaf.outer = names(nest, outer_dims(f, leaf, best->second, best->first));
  while (leaf.rows > 1 && model::threads::turning_blocks * tile_bytes(program, nest, leaf) > target.shared_bytes)
    leaf.rows /= 2;
  return tile_bytes(program, nest, leaf) <= target.shared_bytes ? std::optional(leaf) : std::nullopt;
}

// The tile that costs least: turns of the multiprocessors, each as long as the products of its tile take, or what all
// tiles read of the second cache, if that takes longer; the shorter of both is not hidden wholly. A warp of 64 x 64
// reads so little of shared memory for each product that the tensor cores decide; smaller ones wait for it.
std::optional<Compute> leaf_on_tensor_cores(
    const poly::Program& program, const Facts& f, int node, const Target& target) {
  if (target.family != Target::Family::Cuda) return std::nullopt;
  std::int64_t threads = 0;
  auto leaf = staged_leaf(f, node, target, threads);
  if (!leaf) return std::nullopt;
  std::vector<std::string> m = leaf->all_of_m(), n = leaf->all_of_n();
  const auto extent_of = [&](const std::vector<std::string>& all) {
    return std::accumulate(all.begin(), all.end(), 1.0, [&](double product, const std::string& index) {
      return product * static_cast<double>(f.extent[*f.nest.dim(index)]);
    });
  };
  const double batches = extent_of(leaf->outer), rows = extent_of(m), columns = extent_of(n);
  const double depth = static_cast<double>(f.extent[staging_of(f.nest, m, n, leaf->k)->depth]);
  std::vector<const MatrixInstruction*> instructions;
  for (const MatrixInstruction& i : matrix_instructions())
    if (has_instruction(target, i) && multiplies(i, program, f.nest, m, n, leaf->k, target.tf32))
      instructions.push_back(&i);
  const std::string last = m.back();
  m.pop_back(), n.pop_back();
  std::optional<Compute> best;
  double least = 0;
  const auto weigh = [&](const MatrixInstruction& i, const model::threads::MatrixTile& tile) {
    leaf->rows = tile.rows / i.m, leaf->vectors = tile.columns / i.n, leaf->lanes = i.threads();
    const std::int64_t bytes = lang::bytes(i.operand),
                       all = static_cast<std::int64_t>(std::ceil(depth / static_cast<double>(i.k))) * i.k;
    for (const model::threads::MatrixStages& stages : model::threads::matrix_stages) {
      // its rows are whole lines
      if (i.from_shared() && stages.depth_bytes != model::threads::matrix_stages[0].depth_bytes) continue;
      const std::int64_t turn =
          i.from_shared() ? stages.depth_bytes / bytes : std::min(all, stages.depth_bytes / bytes);
      leaf->form = forms::TensorCores{last, i.name, turn, tile.warps_m, tile.warps_n, stages.buffers, m, n};
      if (tile.blocks * shared_bytes_of(*leaf) > target.shared_bytes) continue;
      const auto height = static_cast<double>(tile.rows * tile.warps_m),
                 width = static_cast<double>(tile.columns * tile.warps_n);
      const double tiles = batches * std::ceil(rows / height) * std::ceil(columns / width),
                   each = static_cast<double>(bytes);
      const double multiplied =
          std::ceil(tiles / target.multiprocessors) * height * width / (tile.rate * model::threads::matrix_rate / each);
      const double read = tiles * (height + width) * each / (target.multiprocessors * model::threads::l2_bytes);
      const double cost = (std::max(multiplied, read) + model::threads::not_hidden * std::min(multiplied, read)) *
          std::ceil(depth / static_cast<double>(turn)) * static_cast<double>(turn);
      if (!best || cost < least) best = *leaf, least = cost;
      return;
    }
  };
  for (const MatrixInstruction* i : instructions)
    for (const model::threads::MatrixTile& tile : model::threads::matrix_tiles)
      if (tile.warps == i->warps) weigh(*i, tile);
  return best;
}

namespace {

// A thread for each scan where there are many and their elements lie side by side; else a block of threads.
void scan_for_threads(Compute& leaf, const Facts& f, std::int64_t threads, const Target& target) {
  const Scan scan = *scan_of(f.nest);
  double scans = 1;
  bool alone = true;
  for (std::size_t d = 0; d < f.extent.size(); ++d) {
    if (!f.nest.dims[d].reduction && d != scan.along) scans *= static_cast<double>(f.extent[d]);
    alone = alone && !f.fixed[d];
  }
  const bool contiguous = std::abs(stride(f.nest.target, scan.along)) == 1;
  const double enough =
      alone ? model::threads::scans_of_a_multiprocessor * target.multiprocessors : model::threads::scans_of_a_block;
  const bool own = !scan.steady() || scan.decays || has_scale(f.nest.aggregation, compute_type(f.nest.value->type())) ||
      f.extent[scan.along] < model::threads::least_to_scan || (!contiguous && scans >= enough);
  if (!leaf.n.empty()) leaf.outer.push_back(leaf.n);
  leaf.n.clear();
  leaf.rows = scan.steady() ? model::threads::scanned_at_once : 1;
  leaf.vectors = 1;
  leaf.lanes = own ? 1 : threads;
}

}  // namespace

std::string rows_of_a_block(const Compute& leaf, const Facts& f, const Target& target) {
  if (!leaf.is<forms::Reduce>() || has_scale(f.nest.aggregation, compute_type(f.nest.value->type()))) return {};
  std::string most;
  std::int64_t rows = 1;
  for (const std::string& name : leaf.outer) {
    const std::size_t m = *f.nest.dim(name);
    double blocks = 1;
    for (std::size_t d = 0; d < f.extent.size(); ++d)
      if (d != m && !f.nest.dims[d].reduction) blocks *= static_cast<double>(f.nest.dims[d].extent);
    const bool shares = std::ranges::any_of(f.nest.reads, [&](const FlatAccess& read) { return stride(read, m) == 0; });
    const bool bounded = !staggered(f.nest, m, *f.nest.dim(leaf.n), reductions(f.nest)) &&
        std::ranges::any_of(f.nest.rows, [&](const Row& row) { return row.form.coefficients[m] != 0; });
    if (f.fixed[m] || f.extent[m] <= rows || f.extent[m] > model::threads::most_rows || !shares || bounded ||
        blocks < model::blocks_of_a_multiprocessor * target.multiprocessors)
      continue;
    rows = f.extent[m];
    most = name;
  }
  return most;
}

std::int64_t threads_of_rows(double rows, double elements, double bytes, const Target& target) {
  const double held = std::floor(static_cast<double>(target.shared_bytes) / std::max(1.0, bytes)),
               given = std::ceil(rows / target.multiprocessors);
  const double blocks = std::max(1.0, std::min(held, given));
  const std::int64_t most = target.family == Target::Family::OpenCl
      ? std::min<std::int64_t>(target.max_threads, model::threads::block_of_opencl)
      : target.max_threads;
  std::int64_t threads = threads_of_a_block;
  while (2 * threads <= most && static_cast<double>(threads) * blocks < model::threads::wanted_of_a_multiprocessor &&
      elements >= model::threads::least_of_a_thread * static_cast<double>(2 * threads))
    threads *= 2;
  return threads;
}

namespace {

// The reduction along which a read goes as it goes along m, as a window does: by so many of its steps for each value of
// m.
struct Slide { std::size_t k; std::int64_t steps; };
std::optional<Slide> slide(const Facts& f, const FlatAccess& read, std::size_t m) {
  for (std::size_t k = 0; k < f.extent.size(); ++k) {
    const std::int64_t apart = stride(read, k), moved = stride(read, m);
    if (f.nest.dims[k].reduction && apart && moved && moved % apart == 0 && std::abs(moved / apart) < f.extent[k])
      return Slide{k, std::abs(moved / apart)};
  }
  return std::nullopt;
}

// Loads for each step of the reduction and element, where a thread has so many rows of m.
double loads_of_rows(const Facts& f, std::size_t m, std::int64_t rows) {
  double loads = 0;
  const auto of = static_cast<double>(rows);
  for (const FlatAccess& read : f.nest.reads) {
    const auto window = slide(f, read, m);
    if (!stride(read, m)) loads += 1 / of;
    else if (!window) loads += 1;
    else
      loads += (of * static_cast<double>(window->steps) + static_cast<double>(f.extent[window->k] - window->steps)) /
          (of * static_cast<double>(f.extent[window->k]));
  }
  return loads;
}

// Rows along which a window slides, where a thread then loads clearly less: its steps follow one another, so that
// registers hold what they share.
bool rows_of_window(Compute& leaf, const Facts& f) {
  if (!leaf.is<forms::Contract>() || leaf.n.empty()) return false;
  const std::size_t n = *f.nest.dim(leaf.n);
  std::optional<std::size_t> best;
  double least = model::clearly_less *
      (leaf.m().empty() ? static_cast<double>(f.nest.reads.size())
                        : loads_of_rows(f, *f.nest.dim(leaf.m()), std::min(leaf.rows, model::threads::most_rows)));
  for (std::size_t m = 0; m < f.extent.size(); ++m) {
    if (f.nest.dims[m].reduction || f.fixed[m] || m == n || f.extent[m] < 2 || share_row(f.nest, m, n)) continue;
    // Values of an output that is short itself, taps, along a long reduction; or of a long one along a short window.
    if (std::none_of(f.nest.reads.begin(), f.nest.reads.end(), [&](const FlatAccess& read) {
          const auto window = slide(f, read, m);
          return window && std::max(f.extent[m], f.extent[window->k]) >= model::threads::most_rows;
        }))
      continue;
    if (const double loads = loads_of_rows(f, m, std::min(f.extent[m], model::threads::most_rows)); loads < least)
      best = m, least = loads;
  }
  if (!best) return false;
  if (!leaf.m().empty()) leaf.outer.push_back(leaf.m());
  leaf.set_m(f.nest.dims[*best].name);
  std::erase(leaf.outer, leaf.m());
  leaf.rows = std::min(f.extent[*best], model::threads::most_rows);
  std::ranges::stable_sort(leaf.outer, std::greater(),
      [&](const std::string& d) { return std::abs(stride(f.nest.target, *f.nest.dim(d))); });
  for (const FlatAccess& read : f.nest.reads)
    if (const auto window = slide(f, read, *best)) {
      if (const auto at = std::ranges::find(leaf.k, f.nest.dims[window->k].name); at != leaf.k.end())
        std::rotate(at, at + 1, leaf.k.end());
      break;
    }
  return true;
}

}  // namespace

void for_threads(Compute& leaf, const Facts& f, std::int64_t threads, const Target& target) {
  if (leaf.is<forms::Scan>()) return scan_for_threads(leaf, f, threads, target);
  const bool window = rows_of_window(leaf, f);
  leaf.lanes = threads;
  if (leaf.is<forms::Reduce>()) {
    const std::int64_t extent = f.nest.dims[*f.nest.dim(leaf.n)].extent;
    leaf.vectors = std::clamp<std::int64_t>(extent / threads, 1, blocks::reduced_vectors);
    if (const std::string rows = rows_of_a_block(leaf, f, target); !rows.empty()) {
      std::erase(leaf.outer, rows);
      leaf.set_m(rows);
      leaf.rows = f.nest.dims[*f.nest.dim(rows)].extent;
    }
    return;
  }
  leaf.vectors = 1;
  leaf.rows = std::min(leaf.rows, model::threads::most_rows);
  double elements = 1, of_turn = 1;
  for (std::size_t d = 0; d < f.extent.size(); ++d) {
    if (f.nest.dims[d].reduction) continue;
    elements *= static_cast<double>(f.extent[d]);
    if (!f.fixed[d]) of_turn *= static_cast<double>(f.nest.dims[d].extent);
  }
  const double enough = model::threads::wanted_of_a_multiprocessor * target.multiprocessors;
  // What the rows of a window load is on its way together, so that fewer threads will do.
  const double threads_wanted = window ? enough / model::threads::rows_that_hide : enough;
  while (leaf.rows > 1 && elements / static_cast<double>(leaf.rows) < threads_wanted) leaf.rows /= 2;
  if (!leaf.m().empty() && leaf.rows == 1) leaf.outer.push_back(leaf.m()), leaf.set_m("");
  if (!leaf.block() || !leaf.k.empty() || leaf.rows > 1) return;
  // Elements of a thread whose operands are on their way together: of a row while it has as many, of all while others
  // wait to begin.
  const bool alone = std::none_of(f.fixed.begin(), f.fixed.end(), [](bool fixed) { return fixed; });
  const double most =
      alone ? of_turn / (model::threads::waves_of_maps * enough) : of_turn / static_cast<double>(threads);
  leaf.vectors = std::clamp<std::int64_t>(static_cast<std::int64_t>(most), 1, model::threads::elements_at_once);
}

}  // namespace tilec::codegen
