#include "codegen/choose/threads.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>

#include "codegen/choose/leaf.h"
#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/numbered.h"
#include "codegen/product.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"

namespace tilec::codegen {

namespace {

// Steps of a scan that a thread takes at once: as many as hide a load, within its registers and some text.
std::int64_t steps_of_a_thread(const Facts& f) {
  const double reads = static_cast<double>(f.nest.reads.size()),
               each = std::max(static_cast<double>(f.ops), model::threads::registers_of_read * reads);
  std::int64_t steps = model::threads::most_steps;
  while (steps > model::threads::scanned_at_once && static_cast<double>(steps) * each > model::threads::text_of_steps)
    steps /= 2;
  return steps;
}

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
  leaf.rows = !scan.steady() ? 1 : own ? steps_of_a_thread(f) : model::threads::scanned_at_once;
  leaf.vectors = 1;
  leaf.lanes = own ? 1 : threads;
}

// The reduction along which a read goes as it goes along m, as a window does: by so many of its steps for each value of
// m, or by so many values of m for each of its steps.
struct Slide { std::size_t k; std::int64_t steps, values; };
std::optional<Slide> slide(const Facts& f, const FlatAccess& read, std::size_t m) {
  for (std::size_t k = 0; k < f.extent.size(); ++k) {
    const std::int64_t apart = stride(read, k), moved = stride(read, m);
    if (f.nest.dims[k].reduction && apart && moved && moved % apart == 0 && std::abs(moved / apart) < f.extent[k])
      return Slide{k, std::abs(moved / apart), 1};
    if (f.nest.dims[k].reduction && apart && moved && apart % moved == 0 && std::abs(apart / moved) < f.extent[m])
      return Slide{k, 1, std::abs(apart / moved)};
  }
  return std::nullopt;
}

// Loads of a read for each step of the reduction and element, where a thread has so many rows of m.
double loads_of_rows(const Facts& f, const FlatAccess& read, std::size_t m, std::int64_t rows) {
  const auto of = static_cast<double>(rows);
  const auto window = slide(f, read, m);
  if (!stride(read, m)) return 1 / of;
  if (!window) return 1;
  const auto steps = static_cast<double>(window->steps), all = static_cast<double>(f.extent[window->k]);
  return (of * steps + (all - steps) * std::min(of, static_cast<double>(window->values))) / (of * all);
}
double loads_of_rows(const Facts& f, std::size_t m, std::int64_t rows) {
  double loads = 0;
  for (const FlatAccess& read : f.nest.reads) loads += loads_of_rows(f, read, m, rows);
  return loads;
}

// Sectors that a warp touches, whose threads are neighbours as the elements are numbered.
double sectors_of_warp(const Facts& f, const FlatAccess& access, const Compute& leaf) {
  const auto each = static_cast<double>(f.stored);
  double left = static_cast<double>(model::threads::warp), apart_rows = 1, bytes = 0;
  const auto along = [&](const std::string& name, std::int64_t step) {
    const std::size_t d = *f.nest.dim(name);
    const double count = std::min(left, std::ceil(static_cast<double>(f.extent[d]) / static_cast<double>(step)));
    const double apart = static_cast<double>(std::abs(stride(access, d)) * step) * each;
    left = std::ceil(left / count);
    if (apart <= std::max(bytes + each, model::threads::sector)) bytes += apart * (count - 1);
    else apart_rows *= count;
  };
  if (leaf.is<forms::Reduce>()) along(leaf.n, 1);
  else {
    const std::vector<std::string> order = numbered(f.nest, leaf);
    for (auto d = order.rbegin(); d != order.rend() && left > 1; ++d) along(*d, *d == leaf.m() ? leaf.rows : 1);
  }
  return std::min(static_cast<double>(model::threads::warp), apart_rows * (1 + bytes / model::threads::sector));
}

// Goes through the window's reduction innermost.
void slide_innermost(Compute& leaf, const Facts& f, std::size_t m) {
  for (const FlatAccess& read : f.nest.reads)
    if (const auto window = slide(f, read, m)) {
      if (const auto at = std::ranges::find(leaf.k, f.nest.dims[window->k].name); at != leaf.k.end())
        std::rotate(at, at + 1, leaf.k.end());
      return;
    }
}

// Whether the rows that a leaf has are all taps of a filter, along a long reduction, already.
bool has_taps(const Compute& leaf, const Facts& f) {
  if (leaf.m().empty()) return false;
  const std::size_t m = *f.nest.dim(leaf.m());
  return leaf.rows == f.extent[m] && std::ranges::any_of(f.nest.reads, [&](const FlatAccess& read) {
    const auto window = slide(f, read, m);
    return window && f.extent[m] <= f.extent[window->k] && f.extent[window->k] >= model::threads::most_rows;
  });
}

// Rows along which a window slides, where a thread then loads clearly less: its steps follow one another, so that
// registers hold what they share.
bool rows_of_window(Compute& leaf, const Facts& f) {
  if (!leaf.is<forms::Contract>() || leaf.n.empty()) return false;
  const std::size_t n = *f.nest.dim(leaf.n);
  std::optional<std::size_t> best;
  const auto none = static_cast<double>(f.nest.reads.size());
  const double today = leaf.m().empty()
      ? none
      : loads_of_rows(f, *f.nest.dim(leaf.m()), std::min(leaf.rows, model::threads::most_rows));
  // Rows that share nothing (images of a batch) only lie far apart.
  const bool apart = !leaf.m().empty() && today >= none;
  double least = (apart ? model::threads::less_of_window : model::clearly_less) * today;
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
  if (!best && has_taps(leaf, f)) return slide_innermost(leaf, f, *f.nest.dim(leaf.m())), true;
  if (!best) return false;
  if (!leaf.m().empty()) leaf.outer.push_back(leaf.m());
  leaf.set_m(f.nest.dims[*best].name);
  std::erase(leaf.outer, leaf.m());
  leaf.rows = std::min(f.extent[*best], model::threads::most_rows);
  while (apart && leaf.rows > 1 &&
      model::threads::less_of_window * loads_of_rows(f, *best, leaf.rows / 2) <= loads_of_rows(f, *best, leaf.rows))
    leaf.rows /= 2;
  std::ranges::stable_sort(leaf.outer, std::greater(),
      [&](const std::string& d) { return std::abs(stride(f.nest.target, *f.nest.dim(d))); });
  slide_innermost(leaf, f, *best);
  return true;
}

// Loads of a read for each step of the reductions and element of what a thread has.
double loads_of_thread(const Facts& f, const FlatAccess& read, const Compute& leaf) {
  const auto m = f.nest.dim(leaf.m());
  if (!m) return 1;
  std::int64_t rows = leaf.rows;
  double others = 1;
  if (const auto* contract = leaf.as<forms::Contract>())
    for (const std::string& name : contract->outside) {
      const std::size_t d = *f.nest.dim(name);
      rows /= f.extent[d];
      if (!stride(read, d)) others *= static_cast<double>(f.extent[d]);
    }
  return loads_of_rows(f, read, *m, rows) / others;
}
double loads_of_thread(const Facts& f, const Compute& leaf) {
  double loads = 0;
  for (const FlatAccess& read : f.nest.reads) loads += loads_of_thread(f, read, leaf);
  return loads;
}

// Whether a thread may have all values of the output d.
bool may_have_all(const Facts& f, std::size_t d, std::size_t n) {
  return !f.nest.dims[d].reduction && !f.fixed[d] && f.extent[d] == f.nest.dims[d].extent && d != n &&
      !share_row(f.nest, d, n);
}

// The reduction along which a window goes whose taps an output counts: of which a row has other values for each tap, or
// which slides as it does.
std::optional<std::size_t> reduction_of_taps(const Facts& f, std::size_t output) {
  for (const Row& row : f.nest.rows)
    for (std::size_t k = 0; k < f.extent.size(); ++k)
      if (row.form.coefficients[output] && row.form.coefficients[k] && f.nest.dims[k].reduction) return k;
  for (const FlatAccess& read : f.nest.reads)
    if (const auto window = slide(f, read, output)) return window->k;
  return std::nullopt;
}

// Whether all rows that bound a reduction are of this output: else parts of it are not all as long.
bool bounds_by(const Facts& f, std::size_t k, std::size_t output) {
  return std::ranges::all_of(f.nest.rows,
      [&](const Row& row) { return !row.form.coefficients[k] || row.form.coefficients[output]; });
}

// The leaf with all taps of other directions, too, those of `first` before others; they go through `first`'s reduction
// innermost.
Compute with_all(const Facts& f, const Compute& leaf, std::size_t first) {
  Compute all = leaf;
  auto& outside = all.as<forms::Contract>()->outside;
  const std::size_t n = *f.nest.dim(leaf.n);
  const auto add = [&](const std::string& name) {
    Compute more = all;
    const std::size_t d = *f.nest.dim(name);
    more.rows *= f.extent[d];
    if (more.rows > model::threads::most_taps || f.extent[d] < 2 || !may_have_all(f, d, n)) return;
    auto& names = more.as<forms::Contract>()->outside;
    names.insert(names.begin(), name);
    std::erase(more.outer, name);
    if (loads_of_thread(f, more) <= model::threads::less_of_window * loads_of_thread(f, all)) all = std::move(more);
  };
  add(f.nest.dims[first].name);
  if (outside.empty()) return leaf;
  for (const std::string& name : leaf.outer)
    if (name != f.nest.dims[first].name && reduction_of_taps(f, *f.nest.dim(name))) add(name);
  const auto at = std::ranges::find(all.k, f.nest.dims[*reduction_of_taps(f, first)].name);
  std::rotate(at, at + 1, all.k.end());
  return all;
}

// Where a leaf has all taps of one direction, and those of another may be its thread's, too: the output that counts
// these, for each one that does.
std::vector<std::size_t> other_directions(const Facts& f, const Compute& leaf) {
  std::vector<std::size_t> found;
  if (!leaf.is<forms::Contract>() || leaf.m().empty() || leaf.n.empty() || leaf.k.size() < 2 || bounds_elements(f.nest))
    return found;
  const std::size_t m = *f.nest.dim(leaf.m()), n = *f.nest.dim(leaf.n);
  if (leaf.rows != f.nest.dims[m].extent || !may_have_all(f, m, n) || !reduction_of_taps(f, m) ||
      !(identity_is_fill(f.nest) || always_reached(f.nest)))
    return found;
  for (const std::string& name : leaf.outer)
    if (const auto k = reduction_of_taps(f, *f.nest.dim(name)); k && k != reduction_of_taps(f, m))
      found.push_back(*f.nest.dim(name));
  return found;
}

// What does not move along the taps of the other direction is then read once. Their reduction has few values, in the
// end: neighbours of what they read are in registers as the other one's loop goes on.
void have_all_taps(Compute& leaf, const Facts& f, double elements, double threads) {
  Compute best = leaf;
  for (const std::size_t d : other_directions(f, leaf)) {
    const std::int64_t steps = f.nest.dims[*reduction_of_taps(f, d)].extent;
    if (steps < 2 || steps > model::threads::most_side_by_side || !bounds_by(f, *reduction_of_taps(f, d), d)) continue;
    Compute all = with_all(f, leaf, d);
    if (elements / static_cast<double>(all.rows) < threads || loads_of_thread(f, all) >= loads_of_thread(f, best))
      continue;
    best = std::move(all);
  }
  leaf = std::move(best);
}

// So many of an index, of which blocks have as many each where a divisor is near.
std::int64_t rows_at_once(std::int64_t extent) {
  for (std::int64_t rows = std::min(extent, model::threads::most_rows); 2 * rows >= model::threads::most_rows; --rows)
    if (extent % rows == 0) return rows;
  return std::min(extent, model::threads::most_rows);
}

}  // namespace

bool counts_taps(const Facts& f, std::size_t output) {
  return in_rows(f.nest, output) || std::ranges::any_of(f.nest.reads, [&](const FlatAccess& read) {
    const auto window = slide(f, read, output);
    return window && f.nest.dims[output].extent <= f.nest.dims[window->k].extent;
  });
}

RowsOfBlock rows_of_a_block(const Compute& leaf, const Facts& f, const Target& target) {
  if (!leaf.is<forms::Reduce>() || has_scale(f.nest.aggregation, compute_type(f.nest.value->type()))) return {};
  RowsOfBlock most;
  for (const std::string& name : leaf.outer) {
    const std::size_t m = *f.nest.dim(name);
    const std::int64_t extent = f.nest.dims[m].extent, rows = rows_at_once(extent);
    auto blocks = static_cast<double>(ceil_divide(extent, rows));
    for (std::size_t d = 0; d < f.extent.size(); ++d)
      if (d != m && !f.nest.dims[d].reduction) blocks *= static_cast<double>(f.nest.dims[d].extent);
    const bool shares = std::ranges::any_of(f.nest.reads, [&](const FlatAccess& read) { return stride(read, m) == 0; });
    const bool bounded = !staggered(f.nest, m, *f.nest.dim(leaf.n), reductions(f.nest)) && in_rows(f.nest, m);
    // Of more rows some share with others what they read: where each has elements of its own, memory is read as often.
    const bool own = rows < extent && std::ranges::any_of(f.nest.reads, [&](const FlatAccess& read) {
      return stride(read, m) != 0 && !slide(f, read, m);
    });
    if (f.fixed[m] || rows <= most.rows || !shares || own || bounded ||
        blocks < model::blocks_of_a_multiprocessor * target.multiprocessors)
      continue;
    most = {name, rows};
  }
  return most;
}

std::int64_t elements_of_a_thread(double elements, const Target& target) {
  const double most = elements /
      (model::threads::waves_of_maps * model::threads::wanted_of_a_multiprocessor * target.multiprocessors);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(most), 1, model::threads::elements_at_once);
}

std::int64_t threads_of_short_rows(double rows, double elements, const Target& target) {
  if (target.family == Target::Family::OpenCl) return 0;
  std::int64_t threads = model::threads::warp;
  while (static_cast<double>(threads) * model::threads::least_of_a_thread < elements) threads *= 2;
  const bool enough =
      rows * static_cast<double>(threads) >= model::threads::wanted_of_a_multiprocessor * target.multiprocessors;
  return enough && threads < threads_of_a_block ? threads : 0;
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

void for_threads(Compute& leaf, const Facts& f, std::int64_t threads, const Target& target) {
  if (leaf.is<forms::Scan>()) return scan_for_threads(leaf, f, threads, target);
  const bool window = rows_of_window(leaf, f);
  leaf.lanes = threads;
  if (leaf.is<forms::Reduce>()) {
    const std::int64_t extent = f.nest.dims[*f.nest.dim(leaf.n)].extent;
    leaf.vectors = std::clamp<std::int64_t>(extent / threads, 1, model::blocks::reduced_vectors);
    if (const auto [rows, count] = rows_of_a_block(leaf, f, target); !rows.empty()) {
      std::erase(leaf.outer, rows);
      leaf.set_m(rows);
      leaf.rows = count;
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
  if (window) have_all_taps(leaf, f, elements, enough / model::threads::taps_that_hide);
  if (!leaf.block() || !leaf.k.empty() || leaf.rows > 1) return;
  // Elements of a thread whose operands are on their way together: of a row while it has as many, of all while others
  // wait to begin.
  const bool alone = std::none_of(f.fixed.begin(), f.fixed.end(), [](bool fixed) { return fixed; });
  leaf.vectors = alone ? elements_of_a_thread(of_turn, target)
                       : std::clamp<std::int64_t>(static_cast<std::int64_t>(of_turn) / threads, 1,
                             model::threads::elements_at_once);
}

std::optional<Compute> leaf_of_own_elements(const Facts& f, int node, const Target& target) {
  if (bounds_elements(f.nest) || f.nest.empty() || scan_of(f.nest)) return std::nullopt;
  Compute leaf = choose_leaf(f, node).leaf;
  if (!leaf.is<forms::Contract>() || leaf.k.empty() || leaf.n.empty()) return std::nullopt;
  for_threads(leaf, f, threads_of_a_block, target);
  return leaf.is<forms::Contract>() ? std::optional(std::move(leaf)) : std::nullopt;
}

std::optional<PartOfTaps> part_of_taps(const Facts& f, const Compute& leaf, const Target& target) {
  std::optional<PartOfTaps> best;
  double least = 0;
  for (const std::size_t d : other_directions(f, leaf)) {
    const std::size_t k = *reduction_of_taps(f, d);
    const Compute all = with_all(f, leaf, d);
    const auto& outside = all.as<forms::Contract>()->outside;
    const std::int64_t extent = f.nest.dims[k].extent;
    if (outside.empty() || extent <= model::threads::most_side_by_side) continue;
    std::int64_t steps = 0;
    for (const std::int64_t some : model::threads::side_by_side)
      if (!steps && extent % some == 0) steps = some;
    double threads = static_cast<double>(extent) / static_cast<double>(std::max<std::int64_t>(1, steps));
    for (std::size_t o = 0; o < f.extent.size(); ++o)
      if (!f.nest.dims[o].reduction && std::ranges::find(outside, f.nest.dims[o].name) == outside.end() &&
          f.nest.dims[o].name != all.m())
        threads *= static_cast<double>(f.nest.dims[o].extent);
    if (!steps || threads * model::threads::taps_that_hide <
            model::threads::wanted_of_a_multiprocessor * target.multiprocessors)
      continue;
    if (const double loads = loads_of_thread(f, all); !best || loads < least)
      best = PartOfTaps{f.nest.dims[k].name, steps}, least = loads;
  }
  return best;
}

double cycles_of_threads(const Facts& f, double parts, const Target& target) {
  Compute leaf = choose_leaf(f, 0).leaf;
  for_threads(leaf, f, threads_of_a_block, target);
  if (leaf.n.empty()) return points(f);
  double loads = 0, sectors = 0, values = 1;
  for (const FlatAccess& read : f.nest.reads) {
    const double each = loads_of_thread(f, read, leaf);
    loads += each, sectors += each * sectors_of_warp(f, read, leaf);
  }
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (f.nest.dims[d].reduction) values *= static_cast<double>(f.extent[d]);
  sectors += sectors_of_warp(f, f.nest.target, leaf) / values;
  const double steps = points(f) / static_cast<double>(model::threads::warp * target.multiprocessors),
               alone = values / parts / (leaf.is<forms::Reduce>() ? static_cast<double>(leaf.lanes) : 1);
  return std::max({steps * sectors * model::threads::sector / model::threads::l2_bytes,
      steps * (1 + loads) / model::threads::issues, alone * model::tiles::of_a_step});
}

}  // namespace tilec::codegen
