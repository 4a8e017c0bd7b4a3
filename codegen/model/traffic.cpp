#include "codegen/model/traffic.h"

#include <algorithm>
#include <cmath>

#include "codegen/model/machine.h"
#include "codegen/model/run.h"
#include "codegen/rewrite.h"

namespace tilec::codegen::model {

namespace {

double lines_of(const OfTensors<Footprint>& touched) {
  double sum = 0;
  for (const auto& [id, footprint] : touched) sum += footprint.lines;
  return sum;
}

// Of a box that comes once, the part that does where lines of an access crowd few sets: nothing is held around it.
std::size_t uncrowded(std::span<const Footprint> boxes, std::size_t at) {
  const auto crowded = [&](std::size_t box) { return boxes[box].room > boxes[box].lines; };
  while (at + 1 < boxes.size() && crowded(at + 1)) ++at;
  return at;
}

// Whether blocks store few elements of a line.
bool scatters(std::span<const Footprint> target) {
  return target.back().elements < scattered_elements * target.back().lines;
}

// Whether a loop comes back to lines of the target, of which less than half is stored, after more than `reach` bytes of
// such lines.
bool tears(const Seen& leaf, double reach, double element_bytes) {
  for (std::size_t around = leaf.walk.loops.size(); around-- > 0;) {
    const Walk::Turns& loop = leaf.walk.loops[around];
    double step = 0;
    for (const std::size_t d : loop.dims)
      step += element_bytes * static_cast<double>(std::abs(leaf.nest.target.offset.coefficients[d])) *
          static_cast<double>(leaf.walk.boxes[around + 1][d]);
    if (loop.count <= 1 || step == 0 || step >= line) continue;
    const Footprint& between = leaf.written()[around + 1];
    return 2 * between.elements * element_bytes < between.lines * line && between.lines * line > reach;
  }
  return false;
}

}  // namespace

Seen seen(const poly::Program& program, const Nest& nest, Walk walk, double core, const Compute& compute,
    Few<Asked, 4> asked, double torn_beyond) {
  Seen leaf{nest, std::move(walk), core, compute.streams(), compute.block() && compute.block()->claims, false, 1,
      std::move(asked), {}, {}, {}};
  leaf.boxes.reserve(leaf.accesses() * leaf.walk.boxes.size());
  for (std::size_t a = 0; a < leaf.accesses(); ++a) {
    const FlatAccess& access = leaf.access(a);
    const double size = elements(program, access.tensor);
    const std::int64_t bytes = lang::bytes(program.tensor(access.tensor).dtype);
    const Footprints footprints(access, bytes);
    for (std::size_t box = 0; box < leaf.walk.boxes.size(); ++box) {
      // A loop that it does not move with leaves it what it had.
      if (box > 0 && std::ranges::none_of(leaf.walk.loops[box - 1].dims,
                         [&](std::size_t d) { return access.offset.coefficients[d] != 0; })) {
        leaf.boxes.push_back(Footprint(leaf.boxes.back()));
        continue;
      }
      const Footprint found = footprints.of(leaf.walk.boxes[box]);
      leaf.boxes.push_back(
          {std::min(found.elements, size), std::min(found.lines, size), std::min(found.pages, size), found.room});
    }
    // Of what is written, nothing is fetched ahead beyond the next line.
    leaf.side_by_side.push_back(run_of(access, leaf.walk, bytes, line));
    leaf.runs.push_back(
        a < leaf.nest.reads.size() ? run_of(access, leaf.walk, bytes, reach) : leaf.side_by_side.back());
    if (a == leaf.nest.reads.size() && !leaf.stream) leaf.sharing = sharing_sets(access, leaf.walk, bytes);
  }
  leaf.torn = tears(leaf, torn_beyond, static_cast<double>(lang::bytes(program.tensor(leaf.nest.target.tensor).dtype)));
  return leaf;
}

GroupTraffic::GroupTraffic(const std::vector<TensorId>& kept, const SeenGroup& all, bool on_chip)
    : locals(kept), leaves(all), on_chip_(on_chip) {
  bytes_ = lines_of(touched(false)) * line;
  bytes_of_turn_ = lines_of(touched(true)) * line;
}

double GroupTraffic::bytes_of(const Seen& leaf, std::size_t at) const {
  double sum = 0;
  for (std::size_t a = 0; a < leaf.accesses(); ++a) sum += leaf.touched(a)[at].lines * line;
  return sum + (scatters(leaf.written()) ? scattered_room - 1 : 0) * leaf.written()[at].lines * line;
}

bool GroupTraffic::local(TensorId id) const { return std::ranges::find(locals, id) != locals.end(); }

OfTensors<Footprint> GroupTraffic::touched(bool turn) const {
  OfTensors<Footprint> most;
  for (const auto& leaf : leaves)
    for (std::size_t a = 0; a < leaf->accesses(); ++a) {
      const TensorId id = leaf->access(a).tensor;
      const Footprint& one = leaf->touched(a)[turn || local(id) ? leaf->walk.shared : 0];
      const auto [at, first] = most.emplace(id, one);
      if (!first && one.lines > at->lines) *at = one;
    }
  return most;
}

// Each time the loops outside box `at` turn, what the box touches comes once. A result is fetched, unless it is
// streamed, and sent back. `there`: per read, whether it is there already; empty: none is.
Moved GroupTraffic::add(const Seen& leaf, std::size_t whole_box, bool locals_too,
    const OfTensors<double>* here, const std::vector<bool>& there, bool first) const {
  Moved moved;
  Few<TensorId> counted;
  for (std::size_t a = 0; a < leaf.accesses(); ++a) {
    const bool written = a == leaf.nest.reads.size();
    const TensorId id = leaf.access(a).tensor;
    if ((!written && !there.empty() && there[a]) || ((on_chip_ || !locals_too) && local(id))) continue;
    if (whole_box == 0 && std::ranges::find(counted, id) != counted.end()) continue;
    counted.push_back(id);
    const std::size_t at = first ? uncrowded(leaf.touched(a), whole_box) : whole_box;
    // how often it comes, less what is there
    double comes = leaf.walk.entered(at) * leaf.walk.filled;
    if (here != nullptr)
      if (const double* part = here->find(id)) comes *= 1 - *part;
    const double ways = written && !leaf.stream ? 2 : 1;
    const double lines = comes * leaf.touched(a)[at].lines * ways,
                 run = std::max(1.0, std::min(leaf.touched(a)[at].lines, leaf.runs[a]));
    moved.lines += lines;
    moved.streamed += written ? -beside_writes * lines : lines * std::min(1.0, leaf.side_by_side[a] / ramp);
    if (written && !leaf.stream) moved.back += lines / ways;
    if (written && leaf.claims && leaf.torn) moved.torn += lines / ways;
    if (written ? leaf.stream || leaf.claims : leaf.asked[a] == Asked::Early) continue;  // nobody waits
    (!written && leaf.asked[a] == Asked::Steps ? moved.asked : moved.runs) += lines / ways / run;
    if (!written && leaf.asked[a] == Asked::Not) moved.first += lines / run * std::min(run, ramp);
  }
  moved.streamed = std::max(0.0, moved.streamed);
  return moved;
}

Few<Moved, 4> GroupTraffic::through(double held, const OfTensors<double>& here, bool first) const {
  Few<Moved, 4> moved;
  Few<TensorId> fetched;                               // by a leaf before: what is left of it in the turn is there
  for (const auto& one : leaves) {
    const Seen& leaf = *one;
    std::vector<bool> there;
    if (leaves.size() > 1 && bytes_of_turn_ <= held) {
      // A turn holds all it touches, so every tensor comes once, with the first leaf that touches it.
      for (const FlatAccess& read : leaf.nest.reads) {
        there.push_back(std::ranges::find(fetched, read.tensor) != fetched.end());
        fetched.push_back(read.tensor);
      }
      const std::size_t outside = bytes_ <= held || leaf.walk.shared == 0 ? 0 : leaf.walk.shared - 1;
      moved.push_back(add(leaf, outside, false, outside == 0 && bytes_ <= held ? &here : nullptr, there, first));
      fetched.push_back(leaf.nest.target.tensor);
      continue;
    }
    // Neighbouring turns of the loop around the region share what they both touch: the region of that whole loop comes
    // once.
    std::size_t at = 0;
    while (at < leaf.walk.loops.size() && bytes_of(leaf, at) > held) ++at;
    const bool whole = at == 0;
    moved.push_back(add(leaf, whole ? 0 : at - 1, true, whole ? &here : nullptr, there, first));
  }
  return moved;
}

Few<double, 4> GroupTraffic::page_cycles(const Machine& machine) const {
  Few<double, 4> cycles;
  for (const auto& leaf : leaves) {
    double sum = 0;
    for (const Pages& level : {machine.near, machine.far}) sum += pages_beyond(*leaf, level.remembered) * level.found;
    cycles.push_back(sum);
  }
  return cycles;
}

Few<double, 4> GroupTraffic::set_cycles() const {
  Few<double, 4> cycles;
  for (const auto& leaf : leaves)
    cycles.push_back(leaf->sharing <= share_freely
            ? 0
            : crowded * std::log2(leaf->sharing / share_freely) * leaf->written().front().lines * leaf->walk.filled);
  return cycles;
}

// As lines that a cache has lost, less those that a stream through as many lines finds anyway.
double GroupTraffic::pages_beyond(const Seen& leaf, double remembered) const {
  const auto touched = [&](std::size_t at) {
    double sum = 0;
    for (std::size_t a = 0; a < leaf.accesses(); ++a) sum += leaf.touched(a)[at].pages;
    return sum;
  };
  if (touched(0) <= remembered) return 0;
  std::size_t at = 0;
  while (at + 1 < leaf.walk.boxes.size() && touched(at + 1) > remembered) ++at;
  double sum = 0;
  for (std::size_t a = 0; a < leaf.accesses(); ++a) {
    const bool written = a == leaf.nest.reads.size();
    if (local(leaf.access(a).tensor) || (written && (leaf.stream || leaf.claims))) continue;  // nobody waits
    sum += std::max(0.0, leaf.touched(a)[at].pages - leaf.touched(a)[at].lines * line / page);
  }
  return sum * leaf.walk.entered(at) * leaf.walk.filled;
}

}  // namespace tilec::codegen::model
