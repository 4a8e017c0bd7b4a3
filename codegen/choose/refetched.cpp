#include "codegen/choose/refetched.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "codegen/model/estimates.h"
#include "codegen/model/machine.h"
#include "codegen/model/run.h"
#include "codegen/model/walk.h"

namespace tilec::codegen {

namespace {

namespace blocks = model::blocks;

constexpr auto line = static_cast<std::int64_t>(model::element_of_line);

}  // namespace

Refetched::Refetched(const Facts& f, std::size_t n, std::optional<std::size_t> m, std::int64_t rows,
    std::int64_t vectors, bool rows_outside)
    : f_(f) {
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (!f.fixed[d] && !f.nest.dims[d].reduction && d != n && d != m) loops_.push_back(d);
  model::sort_few(loops_, [&](std::size_t a, std::size_t b) {
    return std::abs(stride(f.nest.target, a)) > std::abs(stride(f.nest.target, b));
  });
  if (m && rows_outside) loops_.push_back(*m);
  loops_.push_back(n);
  if (m && !rows_outside) loops_.push_back(*m);
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (f.nest.dims[d].reduction && !f.fixed[d] && d != n) loops_.push_back(d);
  for (std::size_t d = 0; d < f.extent.size(); ++d) inside_.push_back(1);
  inside_[n] = std::min(f.extent[n], lanes_for(f, f.extent[n]) * vectors);
  if (m) inside_[*m] = rows;
}

double Refetched::cycles() const {
  double near = 0, far = 0;
  const auto see = [&](const FlatAccess& access) {
    const Moved with = moved(access);
    const double once = lines(with, 0);
    near += std::max(0.0, fetched(with, blocks::part_of_l1 * static_cast<double>(f_.l1)) - once);
    far += std::max(0.0, fetched(with, blocks::part_of_l2 * static_cast<double>(f_.l2)) - once);
  };
  for (const FlatAccess& read : f_.nest.reads) see(read);
  see(f_.nest.target);
  return near * blocks::line_of_l2 + far * blocks::line_of_l3;
}

double Refetched::torn() const {
  model::Walk walk;
  walk.loops.reserve(loops_.size());
  walk.boxes.begin(f_.extent);
  for (const std::size_t d : loops_) {
    const auto extent = static_cast<double>(walk.boxes.back()[d]), by = static_cast<double>(inside_[d]);
    walk.loops.push_back({{d}, std::ceil(extent / by), extent / by});
    walk.boxes.again()[d] = inside_[d];
  }
  const double run = model::run_of(f_.nest.target, walk, f_.stored);
  return f_.from_memory * lines(moved(f_.nest.target), 0) *
      (blocks::first_of_run + blocks::line_of_run * std::min(run, model::ramp)) / run;
}

Refetched::Moved Refetched::moved(const FlatAccess& access) const {
  Moved with;
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    const std::size_t d = loops_[l];
    const std::int64_t apart = std::abs(stride(access, d));
    if (apart == 0) continue;
    const std::int64_t side_by_side = std::max<std::int64_t>(1, line / apart);
    with.push_back({l, static_cast<double>(f_.extent[d]), static_cast<double>(inside_[d]),
        static_cast<double>(side_by_side)});
  }
  return with;
}

double Refetched::lines(const Moved& moved, std::size_t first) {
  double count = 1, run = 1;
  for (const Moves& one : moved) {
    const double here = one.loop >= first ? one.whole : one.inside;
    count *= here;
    run = std::max(run, std::min(here, one.side_by_side));
  }
  return count / run;
}

double Refetched::fetched(const Moved& moved, double bytes) const {
  double turns = 1;
  for (std::size_t first = 0; first < loops_.size(); ++first) {
    const double held = lines(moved, first);
    if (held * model::line <= bytes) return held * turns;
    const std::size_t d = loops_[first];
    turns *= std::ceil(static_cast<double>(f_.extent[d]) / static_cast<double>(inside_[d]));
  }
  return lines(moved, loops_.size()) * turns;
}

}  // namespace tilec::codegen
