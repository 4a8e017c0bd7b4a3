#include "codegen/model/walk.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "codegen/tile.h"

namespace tilec::codegen::model {

namespace {

class Walker {
 public:
  Walker(const Known& statement, const Compute& leaf)
      : nest_(statement.nest), conditions_(statement.conditions), n_(statement.nest.dim(leaf.n)) {
    const Nest& nest = nest_;
    constexpr std::size_t usual = 12;                  // loops of a leaf
    walk_.loops.reserve(usual);
    std::vector<std::int64_t> box;
    box.reserve((usual + 1) * nest.dims.size());
    for (const Dim& dim : nest.dims) box.push_back(dim.extent);
    walk_.boxes.begin(std::move(box));
  }

  // Dimensions that a leaf does not name, or that the nest lacks, have no loop.
  void loop(std::span<const std::string> names, std::int64_t step) {
    Walk::Turns turns{{}, 1, 1};
    std::span<std::int64_t> box;
    for (const std::string& name : names) {
      const auto d = nest_.dim(name);
      if (!d) continue;
      if (box.empty()) box = walk_.boxes.again();
      const std::int64_t by = std::clamp<std::int64_t>(step, 1, std::max<std::int64_t>(1, box[*d]));
      const std::int64_t count = (box[*d] + by - 1) / by;
      turns.count = std::max(turns.count, static_cast<double>(count));
      turns.whole = std::max(turns.whole, static_cast<double>(box[*d]) / static_cast<double>(by));
      turns.dims.push_back(*d);
      box[*d] = by;
    }
    if (turns.dims.empty()) return;
    for (const Condition& one : conditions_)
      if (tells(one, box)) turns.dims.push_back(one.told->dim), box[one.told->dim] = 1;
    walk_.loops.push_back(std::move(turns));
  }
  void loop(const std::string& name, std::int64_t step) { loop({&name, 1}, step); }

  Walk& made() { return walk_; }

 private:
  // Whether all is known that tells a dimension: it goes on with the last loop of that.
  bool tells(const Condition& one, std::span<const std::int64_t> box) const {
    if (!one.told || one.told->dim == n_ || box[one.told->dim] <= 1 || !asks_alone(nest_, one)) return false;
    for (std::size_t d = 0; d < one.dims.size(); ++d)
      if (one.dims[d] && d != one.told->dim && box[d] > 1) return false;
    return true;
  }

  const Nest& nest_;
  const std::vector<Condition>& conditions_;
  std::optional<std::size_t> n_;
  Walk walk_;
};

}  // namespace

double Walk::entered(std::size_t at) const {
  return std::accumulate(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(at), 1.0,
      [](double product, const Turns& turns) { return product * turns.whole; });
}

Walk walk(const Known& statement, const Group& group, const Compute& leaf) {
  const Nest& nest = statement.nest;
  Walker walker(statement, leaf);
  // the leaves of a group are run one behind the other for each part
  for (const Loop& loop : group.loops) walker.loop(loop.index, loop.part());
  for (const Loop& loop : origins(group)) walker.loop(loop.index, 1);
  walker.made().shared = walker.made().loops.size();
  for (const std::string& name : leaf.outer) walker.loop(name, 1);
  std::span<const std::string> k = leaf.k;
  if (const auto* contract = leaf.as<forms::Contract>()) {
    if (contract->chunk > 0 && !k.empty()) walker.loop(k.front(), contract->chunk);
    for (std::int64_t t = 0; t < contract->taps && !k.empty(); ++t) {
      const std::span<const std::int64_t> whole = walker.made().boxes.front();
      if (const auto d = nest.dim(k.front()); d && t + 1 == contract->taps && goes_at_once(nest, whole, *d)) break;
      walker.loop(k.front(), 1);
      k = k.subspan(1);
    }
  }
  const std::int64_t across = leaf.lanes * leaf.vectors;
  if (leaf.is<forms::Reduce>()) {
    walker.loop(leaf.m(), leaf.rows);
    for (const std::string& name : k) walker.loop(name, 1);
    walker.loop(leaf.n, across);
  } else if (const auto* scan = leaf.as<forms::Scan>()) {
    walker.loop(leaf.n, across);
    std::vector<std::string> together(k.begin(), k.end());
    together.push_back(scan->along);                   // the fold goes on where the element before it stopped
    walker.loop(together, 1);
  } else {
    const bool m_inner = !leaf.block() || leaf.block()->m_inner;
    if (!m_inner) walker.loop(leaf.m(), leaf.rows);
    walker.loop(leaf.n, across);
    if (m_inner) walker.loop(leaf.m(), leaf.rows);
    for (const std::string& name : k) walker.loop(name, 1);
  }
  walker.made().filled = leaf.is<forms::Scan>() ? 1 : statement.filled;
  return std::move(walker.made());
}

}  // namespace tilec::codegen::model
