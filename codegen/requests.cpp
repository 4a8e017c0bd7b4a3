#include "codegen/requests.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "codegen/model/estimates.h"
#include "codegen/model/few.h"
#include "codegen/model/footprint.h"
#include "codegen/model/machine.h"

namespace tilec::codegen {

namespace {

// How often blocks read the same. `extent_of`: of a dimension.
template <class Extent>
double readings(const Nest& nest, const Compute& leaf, const FlatAccess& read, Extent extent_of) {
  const auto again = [&](const std::string& index) { return read.offset.coefficients[*nest.dim(index)] == 0; };
  const auto extent = [&](const std::string& index) { return static_cast<double>(extent_of(*nest.dim(index))); };
  double count =
      !leaf.m().empty() && again(leaf.m()) ? std::ceil(extent(leaf.m()) / static_cast<double>(leaf.rows)) : 1;
  for (const std::string& index : leaf.outer) if (again(index)) count *= extent(index);
  return count;
}

double readings_of_whole(const Nest& nest, const Compute& leaf, const FlatAccess& read) {
  return readings(nest, leaf, read, [&](std::size_t d) { return nest.dims[d].extent; });
}

}  // namespace

bool waits_for(const Nest& nest, const FlatAccess& read, std::size_t d, std::int64_t bytes) {
  return static_cast<double>(std::abs(read.offset.coefficients[d]) * bytes) >= model::ahead::followed &&
      leaves_cache(nest, read, bytes);
}

double readings(
    const Nest& nest, const Compute& leaf, const FlatAccess& read, const std::vector<std::int64_t>& extents) {
  return readings(nest, leaf, read, [&](std::size_t d) { return extents[d]; });
}

bool asks_for(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::size_t d, std::int64_t bytes) {
  return waits_for(nest, read, d, bytes) && readings_of_whole(nest, leaf, read) <= model::ahead::ever_readings;
}

std::optional<std::size_t> level_that_waits(const Nest& nest, const Compute& leaf) {
  const std::int64_t bytes = lang::bytes(nest.value->type());
  std::optional<std::size_t> near, far;
  double waits = 0;                                    // elements of the largest read that waits far
  std::int64_t inside = 1;                             // steps of the reductions inside
  std::vector<std::int64_t> extents(nest.dims.size(), 1);
  for (std::size_t level = leaf.k.size(); level-- > 0 && inside <= model::ahead::most_inside;) {
    const std::size_t d = *nest.dim(leaf.k[level]);
    for (const FlatAccess& read : nest.reads) {
      if (!asks_for(nest, leaf, read, d, bytes) ||
          model::footprint(read, extents, bytes).lines > model::ahead::short_run)
        continue;
      if (!near) near = level;
      if (static_cast<double>(std::abs(read.offset.coefficients[d]) * bytes) < model::ahead::apart) continue;
      if (const double elements = model::elements_of(read, nest);
          !far || elements > model::ahead::much_more * waits)
        far = level, waits = elements;
    }
    extents[d] = nest.dims[d].extent;
    if (__builtin_mul_overflow(inside, std::max<std::int64_t>(1, nest.dims[d].extent), &inside)) break;
  }
  return far ? far : near;
}

bool streams_under_masks(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::int64_t bytes) {
  if (!leaf.is<forms::Contract>() || leaf.n.empty() || taps_around(nest, leaf) >= leaf.k.size()) return false;
  const auto step = [&](const std::string& index) { return std::abs(read.offset.coefficients[*nest.dim(index)]); };
  const auto extent = [&](const std::string& index) { return nest.dims[*nest.dim(index)].extent; };
  if (step(leaf.n) != 1 || extent(leaf.n) >= leaf.lanes || step(leaf.k.back()) == 0 ||
      static_cast<double>(step(leaf.k.back()) * bytes) >= model::ahead::followed)
    return false;
  return readings_of_whole(nest, leaf, read) <= model::ahead::most_readings && leaves_cache(nest, read, bytes);
}

bool asks_by_stream(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::int64_t bytes) {
  const auto by = std::ranges::find_if(
      leaf.ahead, [&](const Ahead& one) { return read.offset.coefficients[*nest.dim(one.index)] != 0; });
  return by != leaf.ahead.end() && !leaf.k.empty() && by->index == leaf.k.back() &&
      streams_under_masks(nest, leaf, read, bytes);
}

std::size_t taps_around(const Nest& nest, const Compute& leaf) {
  const auto* contract = leaf.as<forms::Contract>();
  const std::size_t taps = contract != nullptr ? static_cast<std::size_t>(contract->taps) : 0;
  if (taps == 0) return 0;
  std::vector<std::int64_t> extents;
  for (const Dim& dim : nest.dims) extents.push_back(dim.extent);
  return goes_at_once(nest, extents, *nest.dim(leaf.k[taps - 1])) ? taps - 1 : taps;
}

bool asks_by_block(const Nest& nest, const Compute& leaf) {
  if (!leaf.is<forms::Contract>() || leaf.k.empty()) return false;
  const auto level = level_that_waits(nest, leaf);
  return !level || *level < taps_around(nest, leaf);
}

std::optional<InTurn> in_turn(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::size_t d,
    std::int64_t rows, std::int64_t columns, std::int64_t bytes) {
  const std::size_t taps = taps_around(nest, leaf);
  if (!leaf.is<forms::Contract>() || taps >= leaf.k.size()) return std::nullopt;
  const auto dim = [&](std::size_t level) { return *nest.dim(leaf.k[level]); };
  const auto moves = [&](const std::string& index) {
    return !index.empty() && read.offset.coefficients[*nest.dim(index)] != 0;
  };
  constexpr auto line = static_cast<std::int64_t>(model::line);
  const std::size_t last = leaf.k.size() - 1;
  const std::int64_t step = std::abs(read.offset.coefficients[dim(last)]) * bytes, extent = nest.dims[dim(last)].extent;
  if (d == dim(last) || step == 0 || step >= line || extent * step < model::ahead::run_in_turn * line)
    return std::nullopt;
  if (moves(leaf.m()) == moves(leaf.n)) return std::nullopt;
  // in the same lines
  if (const std::int64_t further = std::abs(read.offset.coefficients[d]) * bytes; further && further < line)
    return std::nullopt;
  const bool by_rows = moves(leaf.m());
  InTurn made{*nest.dim(by_rows ? leaf.m() : leaf.n), by_rows ? rows : columns, 1, 0};
  if (std::abs(read.offset.coefficients[made.along]) * bytes < extent * step) return std::nullopt;
  if (asks_by_stream(nest, leaf, read, bytes) || !leaves_cache(nest, read, bytes)) return std::nullopt;
  // By blocks, or by steps of a reduction, what the reductions inside them read.
  const std::optional<std::size_t> asking = asks_by_block(nest, leaf) ? std::nullopt : level_that_waits(nest, leaf);
  if (__builtin_mul_overflow(made.count, extent * step / line, &made.lines)) return std::nullopt;
  if (made.lines <= model::ahead::at_once) return std::nullopt;
  for (std::size_t level = last; level > taps;) {
    --level;
    if (dim(level) == d || (asking && level <= *asking)) break;
    if (!moves(leaf.k[level]) && nest.dims[dim(level)].extent > 1) return std::nullopt;
    if (__builtin_mul_overflow(made.lines, nest.dims[dim(level)].extent, &made.lines)) return std::nullopt;
  }
  while (2 * made.steps <= std::min(line / step, extent)) made.steps *= 2;
  if (model::ahead::again_in_turn * made.count < made.steps) return std::nullopt;
  return made;
}

bool is_stream(const Nest& nest, const Compute& leaf, const FlatAccess& read, std::int64_t bytes) {
  if (leaf.n.empty() || !(leaf.is<forms::Map>() || leaf.is<forms::Reduce>())) return false;
  const std::size_t n = *nest.dim(leaf.n);
  const bool one_row = leaf.m().empty() || leaf.rows == 1 || read.offset.coefficients[*nest.dim(leaf.m())] == 0;
  if (!one_row || read.offset.coefficients[n] != 1) return false;
  std::vector<std::string> around(leaf.outer);         // of the vectors, innermost last
  if (!leaf.m().empty()) around.push_back(leaf.m());
  around.insert(around.end(), leaf.k.begin(), leaf.k.end());
  double run = static_cast<double>(nest.dims[n].extent);
  for (auto index = around.rbegin(); index != around.rend(); ++index) {
    const std::size_t d = *nest.dim(*index);
    if (nest.dims[d].extent == 1) continue;
    if (static_cast<double>(read.offset.coefficients[d]) != run) break;
    run *= static_cast<double>(nest.dims[d].extent);
  }
  return run * static_cast<double>(bytes) >= model::ahead::followed_far;
}

bool leaves_cache(const Nest& nest, const FlatAccess& access, std::int64_t bytes) {
  if (std::ranges::find(nest.locals, access.tensor) != nest.locals.end()) return false;
  return model::elements_of(access, nest) * static_cast<double>(bytes) > model::ahead::kept;
}

bool reads_little(const Form& offset, const std::vector<std::pair<std::size_t, std::int64_t>>& inner) {
  double elements = 1;
  for (const auto& [d, count] : inner) if (offset.coefficients[d]) elements *= static_cast<double>(count);
  return elements <= static_cast<double>(model::ahead::elements_of_block);
}

RowsOfStep new_rows(const Form& offset, int m, std::int64_t rows, std::size_t d) {
  const std::int64_t by_m = m < 0 ? 0 : offset.coefficients[static_cast<std::size_t>(m)], by_d = offset.coefficients[d];
  if (by_m == 0 || by_d == 0) return {0, rows};
  for (std::int64_t steps = 1; steps <= model::ahead::steps_of_window; ++steps) {
    // What row i reads, row i + moved has read so many steps before.
    const std::int64_t moved = steps * by_d / by_m;
    if (steps * by_d % by_m != 0 || std::abs(moved) >= rows) continue;
    return {moved > 0 ? rows - moved : 0, std::abs(moved)};
  }
  return {0, rows};
}

std::vector<std::int64_t> lines_of_step(const Form& offset, int m, std::int64_t rows, int n, std::int64_t columns,
    std::int64_t bytes, const std::vector<std::pair<std::size_t, std::int64_t>>& inner, std::int64_t first) {
  const std::int64_t by_m = m < 0 ? 0 : offset.coefficients[static_cast<std::size_t>(m)],
                     by_n = n < 0 ? 0 : offset.coefficients[static_cast<std::size_t>(n)];
  std::vector<std::int64_t> starts{first * by_m};
  for (const auto& [d, count] : inner) {
    const std::size_t known = starts.size();
    for (std::int64_t value = 1; value < (offset.coefficients[d] ? count : 1); ++value)
      for (std::size_t s = 0; s < known; ++s) starts.push_back(starts[s] + value * offset.coefficients[d]);
  }
  struct Element { std::int64_t line, at; };           // as if the block started with a line
  std::vector<Element> elements;
  struct Run { std::int64_t count, step; };            // what moves less goes inside: it stays in a line for long
  Run outside{by_m ? rows : 1, by_m}, inside{by_n ? columns : 1, by_n};
  if (by_m != 0 && std::abs(by_m) < std::abs(by_n)) std::swap(outside, inside);
  for (const std::int64_t start : starts)
    for (std::int64_t i = 0; i < outside.count; ++i)
      for (std::int64_t j = 0; j < inside.count; ++j) {
        const std::int64_t at = start + i * outside.step + j * inside.step;
        const auto line = static_cast<std::int64_t>(std::floor(static_cast<double>(at * bytes) / model::line));
        if (elements.empty() || elements.back().line != line) elements.push_back({line, at});
        else elements.back().at = std::max(elements.back().at, at);
      }
  std::ranges::sort(elements, {}, [](const Element& e) { return std::pair(e.line, -e.at); });
  std::vector<std::int64_t> offsets;
  for (std::size_t e = 0; e < elements.size(); ++e)
    if (e == 0 || elements[e].line != elements[e - 1].line) offsets.push_back(elements[e].at);
  return offsets;
}

std::int64_t count_lines_of_step(const Form& offset, int m, std::int64_t rows, int n, std::int64_t columns,
    std::int64_t bytes, const std::vector<std::pair<std::size_t, std::int64_t>>& inner) {
  struct Side { std::int64_t step, count; };           // in bytes
  model::Few<Side> sides;
  std::int64_t lowest = 0;
  const auto add = [&](std::int64_t d, std::int64_t count) {
    const std::int64_t step = d < 0 ? 0 : offset.coefficients[static_cast<std::size_t>(d)] * bytes;
    if (step == 0 || count <= 1) return;
    if (step < 0) lowest += step * (count - 1);
    sides.push_back({std::abs(step), count});
  };
  add(m, rows), add(n, columns);
  for (const auto& [d, count] : inner) add(static_cast<std::int64_t>(d), count);
  std::ranges::sort(sides, {}, &Side::step);
  // What steps no further than a line beyond what there is so far leaves no line out.
  constexpr auto line = static_cast<std::int64_t>(model::line);
  std::int64_t span = 0;
  auto side = sides.begin();
  for (; side != sides.end() && side->step <= span + line; ++side) span += side->step * (side->count - 1);
  std::vector<std::int64_t> starts{lowest};
  for (; side != sides.end(); ++side) {
    const std::size_t known = starts.size();
    for (std::int64_t value = 1; value < side->count; ++value)
      for (std::size_t s = 0; s < known; ++s) starts.push_back(starts[s] + value * side->step);
  }
  if (!std::ranges::is_sorted(starts)) std::ranges::sort(starts);
  const auto line_of = [&](std::int64_t at) { return at >= 0 ? at / line : -((line - 1 - at) / line); };
  std::int64_t count = 0, next = line_of(lowest);      // the first line that is not counted yet
  for (const std::int64_t start : starts) {
    const std::int64_t first = std::max(next, line_of(start)), end = line_of(start + span) + 1;
    if (end > first) count += end - first, next = end;
  }
  return count;
}

Body among_stores(Body body, const std::string& view, Body requests) {
  if (requests.empty()) return body;
  const auto split =
      std::ranges::stable_partition(requests, [](const Stmt& s) { return !std::get<Prefetch>(s.node).to_write; });
  std::span<Stmt> reads(requests.begin(), split.begin()), claims(split.begin(), split.end());
  const auto stores = [&](const Stmt& s) {
    const auto* store = std::get_if<Store>(&s.node);
    return std::holds_alternative<If>(s.node) || (store != nullptr && store->view == view);
  };
  auto left = static_cast<std::size_t>(std::ranges::count_if(body, stores));
  Body made;
  const auto ask = [&](std::span<Stmt>& some, std::size_t count) {
    std::ranges::move(some.first(count), std::back_inserter(made));
    some = some.subspan(count);
  };
  for (Stmt& s : body) {
    const bool next = stores(s);
    made.push_back(std::move(s));
    if (!next) continue;
    for (std::span<Stmt>* some : {&reads, &claims}) ask(*some, (some->size() + left - 1) / left);
    --left;
  }
  for (std::span<Stmt>* some : {&reads, &claims}) ask(*some, some->size());
  return made;
}

}  // namespace tilec::codegen
