#include "codegen/model/traffic.h"

#include <algorithm>
#include <set>

#include "codegen/model/machine.h"
#include "codegen/model/run.h"
#include "codegen/rewrite.h"

namespace tilec::codegen::model {

namespace {

// The reads, and the target.
std::vector<const FlatAccess*> accesses(const Nest& nest) {
  std::vector<const FlatAccess*> all;
  for (const FlatAccess& read : nest.reads) all.push_back(&read);
  all.push_back(&nest.target);
  return all;
}

}  // namespace

Footprint GroupTraffic::of(const FlatAccess& access, const std::vector<std::int64_t>& box) const {
  const poly::Tensor& tensor = program.tensor(access.tensor);
  const double size = elements(program, access.tensor);
  Footprint found = footprint(access, box, lang::bytes(tensor.dtype));
  found.elements = std::min(found.elements, size);
  found.lines = std::min(found.lines, size);
  return found;
}

double GroupTraffic::bytes_of(const Seen& leaf, std::size_t at) const {
  double sum = 0;
  for (const FlatAccess* access : accesses(leaf.nest)) sum += of(*access, leaf.walk.boxes[at]).lines * line;
  return sum;
}

bool GroupTraffic::local(TensorId id) const { return std::ranges::find(locals, id) != locals.end(); }

std::map<TensorId, Footprint> GroupTraffic::touched(bool turn) const {
  std::map<TensorId, Footprint> most;
  for (const Seen& leaf : leaves)
    for (const FlatAccess* access : accesses(leaf.nest)) {
      const Footprint one = of(*access, leaf.walk.boxes[turn || local(access->tensor) ? leaf.walk.shared : 0]);
      const auto [at, first] = most.emplace(access->tensor, one);
      if (!first && one.lines > at->second.lines) at->second = one;
    }
  return most;
}

double GroupTraffic::bytes(bool turn) const {
  double sum = 0;
  for (const auto& [id, footprint] : touched(turn)) sum += footprint.lines * line;
  return sum;
}

// Each time the loops outside box `at` turn, what the box touches comes once. A result is fetched, unless it is streamed, and sent back.
Moved GroupTraffic::add(const Seen& leaf, std::size_t at, bool locals_too, const std::map<TensorId, double>* here) const {
  Moved moved;
  const double times = leaf.walk.entered(at) * leaf.walk.filled;
  std::set<TensorId> seen;
  for (const FlatAccess* access : accesses(leaf.nest)) {
    if (!locals_too && local(access->tensor)) continue;
    double comes = times;                              // how often it comes, less what is there
    if (here != nullptr)
      if (const auto found = here->find(access->tensor); found != here->end()) comes *= 1 - found->second;
    const Footprint one = of(*access, leaf.walk.boxes[at]);
    const double ways = access == &leaf.nest.target && !leaf.stream ? 2 : 1;
    if (!seen.insert(access->tensor).second && at == 0) continue;
    // Of what is written, nothing is fetched ahead beyond the next line.
    const bool written = access == &leaf.nest.target;
    const double lines = comes * one.lines * ways, longest = run_of(*access, leaf.walk, lang::bytes(program.tensor(access->tensor).dtype), written ? line : reach), run = std::max(1.0, std::min(one.lines, longest));
    moved.lines += lines;
    if (written ? leaf.stream : leaf.asked[static_cast<std::size_t>(access - leaf.nest.reads.data())]) continue;  // nobody waits
    moved.runs += lines / ways / run;
    if (!written) moved.first += lines / run * std::min(run, ramp);
  }
  return moved;
}

std::vector<Moved> GroupTraffic::through(double held, const std::map<TensorId, double>& here) const {
  std::vector<Moved> moved;
  const bool turn_fits = bytes(true) <= held;
  std::set<TensorId> fetched;                          // by a leaf before: what is left of it in the turn is there
  for (const Seen& leaf : leaves) {
    std::size_t at = 0;
    while (at < leaf.walk.loops.size() && bytes_of(leaf, at) > held) ++at;
    if (leaves.size() > 1 && turn_fits) {
      // A turn holds all it touches, so every tensor comes once, with the first leaf that touches it.
      Seen rest = leaf;
      rest.nest.reads.clear(), rest.asked.clear();
      for (std::size_t r = 0; r < leaf.nest.reads.size(); ++r)
        if (fetched.insert(leaf.nest.reads[r].tensor).second) rest.nest.reads.push_back(leaf.nest.reads[r]), rest.asked.push_back(leaf.asked[r]);
      const std::size_t outside = bytes(false) <= held || leaf.walk.shared == 0 ? 0 : leaf.walk.shared - 1;
      moved.push_back(add(rest, outside, false, outside == 0 && bytes(false) <= held ? &here : nullptr));
      fetched.insert(leaf.nest.target.tensor);
      continue;
    }
    // Neighbouring turns of the loop around the region share what they both touch: the region of that whole loop comes once.
    const bool whole = at == 0;
    moved.push_back(add(leaf, whole ? 0 : at - 1, true, whole ? &here : nullptr));
  }
  return moved;
}

}  // namespace tilec::codegen::model
