// Lines that a group moves between the levels of memory, from the footprints of what its leaves read and write.
//
// A loop nest fetches a region again each time it enters it, unless the region, and all else that is touched inside, is
// held by a cache. So of the boxes that the loops leave, the outermost one whose footprint the cache holds is fetched
// once for each turn of the loop around it, less what neighbouring turns share. (Wolf and Lam, "A data locality
// optimizing algorithm", 1991.)
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "codegen/model/few.h"
#include "codegen/model/footprint.h"
#include "codegen/model/walk.h"
#include "codegen/nest.h"
#include "codegen/plan.h"

namespace tilec::codegen::model {

struct Machine;

// Both ways. `back`: of the lines, those that are sent back; `runs` that begin, and those that are `asked` for before;
// `first`: lines at the beginning of a run (machine.h: ramp); `streamed`: lines read side by side for as long, and a
// part of those in shorter runs; `torn`: lines that nobody would wait for, but that they are stored in parts.
struct Moved { double lines = 0, back = 0, runs = 0, asked = 0, first = 0, streamed = 0, torn = 0; };

// Whether lines of a read are asked for: some steps before, on pages that the core must find first; or longer, where it
// goes on with lines that it knows.
enum class Asked { Not, Steps, Early };
// A leaf whose loops and blocks are settled, as traffic sees it. Of each access (the reads, then the target): what each
// box touches of it, and how many lines come one behind the other; and how many of them with nothing between.
struct Seen {
  const Nest& nest;
  Walk walk;
  double core = 0;                                     // cycles, if all data were in the first-level cache
  bool stream = false, claims = false;
  bool torn = false;                                   // lines of the target come again before half of each is stored
  double sharing = 1;                                  // of the target: sharing_sets
  Few<Asked, 4> asked;                                 // per read
  std::vector<Footprint> boxes;                        // of each access, those of all boxes
  Few<double, 4> runs, side_by_side;

  // Of each box.
  std::span<const Footprint> touched(std::size_t a) const {
    return {boxes.data() + a * walk.boxes.size(), walk.boxes.size()};
  }
  std::span<const Footprint> written() const { return touched(nest.reads.size()); }
  std::size_t accesses() const { return nest.reads.size() + 1; }
  const FlatAccess& access(std::size_t a) const { return a < nest.reads.size() ? nest.reads[a] : nest.target; }
};
Seen seen(const poly::Program& program, const Nest& nest, Walk walk, double core, const Compute& leaf,
    Few<Asked, 4> asked, double torn_beyond);

// Of each leaf of a group; null: nobody has looked at it yet. Leaves that stay are seen once for many predictions.
using SeenGroup = std::vector<std::shared_ptr<const Seen>>;

class GroupTraffic {
 public:
  // `on_chip`: locals are in no cache, but in shared memory or registers.
  GroupTraffic(const std::vector<TensorId>& locals, const SeenGroup& leaves, bool on_chip);

  // What passes into and out of a cache that holds as many bytes, per leaf. `here`: the part of a tensor that is in
  // this cache when the group begins. `first`: it is a first one, whose few sets lines may crowd.
  Few<Moved, 4> through(double held, const OfTensors<double>& here, bool first) const;
  // Cycles to find pages again that a core has forgotten, per leaf.
  Few<double, 4> page_cycles(const Machine& machine) const;
  // Cycles that stored lines wait for their sets, per leaf.
  Few<double, 4> set_cycles() const;
  // Of each tensor, the most that one of the leaves touches: of the whole box, or of what a turn leaves.
  OfTensors<Footprint> touched(bool turn) const;
  double bytes() const { return bytes_; }              // of the whole box

  const std::vector<TensorId>& locals;
  const SeenGroup& leaves;

 private:
  double bytes_of(const Seen& leaf, std::size_t at) const;
  Moved add(const Seen& leaf, std::size_t whole_box, bool locals_too, const OfTensors<double>* here,
      const std::vector<bool>& there, bool first) const;
  double pages_beyond(const Seen& leaf, double remembered) const;
  bool local(TensorId id) const;

  bool on_chip_;
  double bytes_ = 0, bytes_of_turn_ = 0;
};

}  // namespace tilec::codegen::model
