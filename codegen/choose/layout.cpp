// Which tensors of a contraction are copied, and into which orders.
//
// An index is of the batch (in all tensors), of the rows or the columns (in the result and one operand), or reduced.
// Lanes run over the columns, say. Then every tensor lies best in classes: result [batch, rows, columns], operand of
// the columns [batch, reduced, columns], the other one [batch, rows, reduced]. Neighbours of a class in one order
// everywhere are one loop, so that three columns of 31 fill lanes as 93 do. Each tensor may stay as it is or be copied
// into that form; within a class, the tensors that stay say the order. That makes eight layouts for each class that
// lanes may run over, and the model of the leaf says what each is worth.
#include "codegen/choose/layout.h"

#include <algorithm>
#include <numeric>

#include "codegen/choose/boxes.h"
#include "codegen/choose/leaf.h"
#include "codegen/choose/side_by_side.h"
#include "codegen/choose/staged.h"
#include "codegen/choose/tensor_cores.h"
#include "codegen/choose/threads.h"
#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/stage.h"
#include "codegen/rewrite/tile.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Statement;

namespace copies = model::copies;

// `run`: how many elements stay side by side.
double copy_cycles(double count, double bytes, double run, const Target& target) {
  const double size = count * bytes;
  const double each = 2 * size <= static_cast<double>(target.l2) ? copies::in_l2
      : 2 * size <= static_cast<double>(target.l3) / 2           ? copies::in_l3
                                                                 : copies::in_memory;
  return copies::start +
      count * (each * std::max(bytes, 2.0) / 4 + (run < copies::vector_run ? copies::short_run / run : 0));
}

// A contraction, the class of each of its indices, and how its tensors lie.
class Lying {
 public:
  Lying(const Program& program, const Strides& strides, const Statement& s, const Target& target)
      : program_(program), strides_(strides), s_(s), target_(target) {
    const std::size_t count = s.indices.size();
    for (std::size_t k = 0; k < count; ++k) {
      const bool out = is_output_index(s, k), a = in_read(0, k), b = in_read(1, k);
      class_.push_back(out ? (a && b     ? Class::Batch
                                     : a ? Class::First
                                     : b ? Class::Second
                                         : Class::Single)
              : a && b     ? Class::Reduced
                           : Class::Single);
    }
    for (const Access& read : s.reads) sizes_.push_back(elements(program, read.tensor));
    outputs_ = 1;
    for (std::size_t k = 0; k < count; ++k) if (is_output_index(s, k)) outputs_ *= static_cast<double>(extent(s, k));
  }

  bool has_singles() const { return has(Class::Single); }
  bool has(Class c) const { return std::find(class_.begin(), class_.end(), c) != class_.end(); }

  Nest nest(const Layouts& layouts) const {
    Statement seen = s_;
    Strides strides;
    for (std::size_t r = 0; r < s_.reads.size(); ++r) {
      seen.reads[r].tensor = static_cast<TensorId>(r);
      strides.push_back(layouts.reads[r].empty()
              ? strides_[static_cast<std::size_t>(s_.reads[r].tensor)]
              : permuted(extents(program_.tensor(s_.reads[r].tensor)), layouts.reads[r]));
    }
    seen.target.tensor = static_cast<TensorId>(s_.reads.size());
    strides.push_back(strides_[static_cast<std::size_t>(s_.target.tensor)]);
    if (!layouts.target.empty()) {
      std::vector<std::int64_t> shape;
      seen.target.element.clear();
      for (const std::size_t k : layouts.target) {
        shape.push_back(extent(s_, k));
        seen.target.element.push_back(Affine::index(k, s_.indices.size()));
        seen.target.element.back().constant = poly::Size(-low(s_, k));
      }
      strides.back() = row_major(shape);
    }
    Nest nest = nest_of(seen, strides);
    nest.adds = program_.tensor(s_.target.tensor).dtype == compute_type(nest.value->type());
    return nest;
  }

 protected:
  // Dimensions, or output indices, from far apart to side by side.
  std::vector<std::size_t> as_it_is(std::size_t r) const {
    const std::vector<std::int64_t>& strides = strides_[static_cast<std::size_t>(s_.reads[r].tensor)];
    std::vector<std::size_t> order = in_order(strides.size());
    std::stable_sort(order.begin(), order.end(),
        [&](std::size_t a, std::size_t b) { return std::abs(strides[a]) > std::abs(strides[b]); });
    return order;
  }
  std::vector<std::size_t> as_it_is() const {
    std::vector<std::size_t> order;
    for (std::size_t k = 0; k < class_.size(); ++k) if (is_output_index(s_, k)) order.push_back(k);
    std::stable_sort(
        order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return in_tensor(2, a) > in_tensor(2, b); });
    return order;
  }

  bool in_read(std::size_t r, std::size_t k) const {
    return std::any_of(
        s_.reads[r].element.begin(), s_.reads[r].element.end(), [&](const Affine& e) { return mentions(e, k); });
  }

  static std::vector<std::int64_t> permuted(
      const std::vector<std::int64_t>& shape, const std::vector<std::size_t>& order) {
    std::vector<std::int64_t> strides(shape.size());
    std::int64_t stride = 1;
    for (std::size_t at = order.size(); at-- > 0;)
      strides[order[at]] = stride, stride *= std::max<std::int64_t>(1, shape[order[at]]);
    return strides;
  }

  static std::int64_t stride_in(const Access& access, std::size_t k, const std::vector<std::int64_t>& strides) {
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < access.element.size(); ++d) sum += access.element[d].coefficients[k].get() * strides[d];
    return std::abs(sum);
  }
  std::int64_t in_tensor(std::size_t tensor, std::size_t k) const {
    return tensor == 2 ? stride_in(s_.target, k, strides_[static_cast<std::size_t>(s_.target.tensor)])
                       : stride_in(s_.reads[tensor], k, strides_[static_cast<std::size_t>(s_.reads[tensor].tensor)]);
  }

  const Program& program_;
  const Strides& strides_;
  const Statement& s_;
  const Target& target_;
  std::vector<Class> class_;
  std::vector<double> sizes_;                          // of the reads' tensors, in elements
  double outputs_ = 1;
};

// Orders of dimensions, and what tensors cost that lie so.
class Search : public Lying {
 public:
  using Lying::Lying;

  // The layouts in which lanes run over the class, tensors of `copied` (bits: reads 0 and 1, the result) are copied,
  // and `last` is the innermost index of the class.
  std::optional<Layouts> layouts(Class lanes, unsigned copied, std::optional<std::size_t> last) const {
    Layouts made{std::vector<std::vector<std::size_t>>(s_.reads.size()), {}, {}, 0};
    const std::vector<double> key = keys(lanes, copied, last);
    for (std::size_t r = 0; r < 2; ++r) {
      if (!(copied >> r & 1)) continue;
      made.reads[r] = order_of(r, lanes, key);
      if (made.reads[r] == as_it_is(r)) return std::nullopt;
    }
    if (copied >> 2 & 1) {
      made.target = result_order(lanes, key);
      if (made.target == as_it_is()) return std::nullopt;
    }
    return made;
  }

  // As the tensors lie, but with one index of the class innermost in those of `copied`: the other indices stay outside,
  // where a copy has long runs and a turn has a part of it.
  std::optional<Layouts> moved(unsigned copied, std::size_t index) const {
    Layouts made{std::vector<std::vector<std::size_t>>(s_.reads.size()), {}, {}, 0};
    const auto to_end = [](std::vector<std::size_t>& order, auto is) {
      const auto at = std::ranges::find_if(order, is);
      if (at == order.end() || at + 1 == order.end()) return false;
      std::rotate(at, at + 1, order.end());
      return true;
    };
    for (std::size_t r = 0; r < 2; ++r) {
      if (!(copied >> r & 1)) continue;
      made.reads[r] = as_it_is(r);
      if (!to_end(made.reads[r], [&](std::size_t d) { return mentions(s_.reads[r].element[d], index); }))
        return std::nullopt;
    }
    if (copied >> 2 & 1) {
      made.target = as_it_is();
      if (!to_end(made.target, [&](std::size_t k) { return k == index; })) return std::nullopt;
    }
    return made;
  }
  std::vector<std::size_t> indices(Class c) const {
    std::vector<std::size_t> found;
    for (std::size_t k = 0; k < class_.size(); ++k) if (class_[k] == c) found.push_back(k);
    return found;
  }

  double copies(const Layouts& layouts) const {
    double cycles = 0;
    for (std::size_t r = 0; r < s_.reads.size(); ++r)
      if (!layouts.reads[r].empty())
        cycles += copy_cycles(sizes_[r], lang::bytes(program_.tensor(s_.reads[r].tensor).dtype),
            run(r, layouts.reads[r].back()), target_);
    if (!layouts.target.empty())
      cycles += copy_cycles(outputs_, lang::bytes(program_.tensor(s_.target.tensor).dtype),
          static_cast<double>(extent(s_, layouts.target.back())), target_);
    return cycles;
  }

  // What the model says of the statement over tensors that lie so.
  Choice leaf(const Layouts& layouts) const { return weigh_leaf(facts(nest(layouts), {}, target_), 0); }

  Boxed boxed() const {
    Boxed made;
    for (std::size_t k = 0; k < class_.size(); ++k) made.extent.push_back(extent(s_, k));
    made.classes = class_;
    for (std::size_t t = 0; t < 3; ++t) {
      const Access& access = t == 2 ? s_.target : s_.reads[t];
      for (std::size_t d = 0; d < access.element.size(); ++d) {
        made.tensors[t].push_back({{}, std::abs(strides_[static_cast<std::size_t>(access.tensor)][d]),
            program_.tensor(access.tensor).shape[d].get()});
        for (const poly::Size& c : access.element[d].coefficients)
          made.tensors[t].back().coefficients.push_back(c.get());
      }
    }
    for (std::size_t k = 0; k < class_.size(); ++k) made.whole.push_back(bounds_outputs(s_, k));
    made.bounded = s_.domain.size() > s_.indices.size();
    made.bytes = lang::bytes(s_.value.type());
    made.lanes = static_cast<double>(target_.vector_bytes) / std::max(4.0, made.bytes);
    return made;
  }

  // The same copies, of some batches that lie side by side and of all else. A box may be larger than what the estimate
  // takes for cached: lines that are read once need no cache.
  std::optional<Layouts> of_batches(Layouts layouts) const {
    for (std::size_t k = 0; k < class_.size(); ++k) {
      const bool is_beside = class_[k] == Class::Batch && (in_tensor(0, k) == 1 || in_tensor(1, k) == 1);
      if (!is_beside || extent(s_, k) <= model::boxes::whole_lines) continue;
      layouts.boxes = {{k, model::boxes::whole_lines}};
      layouts.doubtful = !layouts.target.empty();      // what boxes write lies apart
      return layouts;
    }
    return std::nullopt;
  }

  // Whether vectors of the class are found side by side in every tensor that has it and is not `copied`.
  bool vectors(Class lanes, unsigned copied) const {
    std::optional<std::size_t> one;
    for (std::size_t t = 0; t < 3; ++t) {
      if (copied >> t & 1 || (t < 2 && lanes != Class::Batch && (lanes == Class::First ? 0U : 1U) != t)) continue;
      std::optional<std::size_t> own;
      for (std::size_t k = 0; k < class_.size(); ++k) if (class_[k] == lanes && in_tensor(t, k) == 1) own = k;
      if (!own || (one && *one != *own)) return false;
      one = own;
    }
    return true;
  }

  // Cycles of the multiply-adds alone.
  double least() const {
    return points(s_) /
        (model::pipes * static_cast<double>(target_.vector_bytes) / std::max(4, lang::bytes(s_.value.type())));
  }

  std::vector<std::size_t> windows(Class c) const {
    std::vector<std::size_t> found;
    for (const std::size_t k : indices(c))
      for (const Access& read : s_.reads)
        for (const Affine& e : read.element)
          if (mentions(e, k) && !plain_index(e) && (found.empty() || found.back() != k)) found.push_back(k);
    return found;
  }

 private:
  // Of the copy's innermost dimension, or of the operand's: a square has the shorter one.
  double run(std::size_t r, std::size_t last) const {
    const std::vector<std::int64_t> shape = extents(program_.tensor(s_.reads[r].tensor));
    return static_cast<double>(std::max<std::int64_t>(1, std::min(shape[last], shape[as_it_is(r).back()])));
  }

  // Per index its place within its class: the larger, the further out. The first of these tensors that stays as it is
  // says it.
  std::vector<double> keys(Class lanes, unsigned copied, std::optional<std::size_t> last) const {
    std::vector<double> key;
    for (std::size_t k = 0; k < class_.size(); ++k) {
      const Class c = class_[k];
      const std::size_t of_lanes = lanes == Class::First ? 0 : 1;
      const std::size_t own = c == Class::First ? 0 : 1;
      std::vector<std::size_t> voices = c == Class::Reduced ? std::vector<std::size_t>{of_lanes, 1 - of_lanes}
          : c == Class::Batch                               ? std::vector<std::size_t>{2, of_lanes, 1 - of_lanes}
                                                            : std::vector<std::size_t>{2, own};
      const auto stays = std::find_if(voices.begin(), voices.end(), [&](std::size_t t) { return !(copied >> t & 1); });
      key.push_back(static_cast<double>(in_tensor(stays == voices.end() ? voices.front() : *stays, k)));
      if (k == last) key.back() = 0;
    }
    return key;
  }

  int outside(Class c, Class lanes) const {
    return c == Class::Single ? 0 : c == lanes ? 4 : c == Class::Batch ? 1 : c == Class::Reduced ? 3 : 2;
  }

  std::vector<std::size_t> order_of(std::size_t r, Class lanes, const std::vector<double>& key) const {
    const Access& read = s_.reads[r];
    struct Place { int outside = -1; double key = 0; };
    std::vector<Place> place(read.element.size());
    for (std::size_t d = 0; d < place.size(); ++d)
      for (std::size_t k = 0; k < class_.size(); ++k) {
        if (!mentions(read.element[d], k)) continue;
        // a window goes where its output index does
        const int at = is_output_index(s_, k) ? outside(class_[k], lanes) + 10 : outside(class_[k], lanes);
        if (at > place[d].outside) place[d] = {at, key[k]};
      }
    for (Place& p : place) p.outside %= 10;
    std::vector<std::size_t> order = in_order(place.size());
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return place[a].outside != place[b].outside ? place[a].outside < place[b].outside : place[a].key > place[b].key;
    });
    return order;
  }

  std::vector<std::size_t> result_order(Class lanes, const std::vector<double>& key) const {
    std::vector<std::size_t> order;
    for (std::size_t k = 0; k < class_.size(); ++k) if (is_output_index(s_, k)) order.push_back(k);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const int x = outside(class_[a], lanes), y = outside(class_[b], lanes);
      return x != y ? x < y : key[a] > key[b];
    });
    return order;
  }

};

// On a GPU, cycles of the busiest multiprocessor, with copies and their launches and without the launch of the
// statement.
class OnMultiprocessors : public Lying {
 public:
  using Lying::Lying;

  // None: layouts do not matter.
  std::optional<double> cycles(const Layouts& layouts) const {
    const Nest seen = nest(layouts);
    const Facts of_all = facts(seen, {}, target_);
    const auto own = cheapest_side_by_side(program_, of_all, 0, target_);
    if (!own && leaf_on_tensor_cores(program_, of_all, 0, target_)) return std::nullopt;  // whose stages take any order
    double cycles = 0, bytes = 0;
    const auto each = own ? std::nullopt : staged_cycles(of_all, 1, target_);
    if (own) {
      cycles = own->cycles;
    } else if (each) {
      cycles = *each;
      for (const Dim& dim : seen.dims) if (dim.reduction) cycles *= static_cast<double>(dim.extent);
    } else if (seen.empty() || has_singles() || scan_of(seen) || copies_what_is_read_once(layouts)) {
      return std::nullopt;
    } else {
      cycles = cycles_of_threads(of_all, 1, target_);
    }
    const auto size = [&](TensorId id, double count) { return count * lang::bytes(program_.tensor(id).dtype); };
    const auto moved = [&](const FlatAccess& access, double of) { return each ? torn(seen, access, of) : of; };
    for (std::size_t r = 0; r < s_.reads.size(); ++r)
      bytes += moved(seen.reads[r], size(s_.reads[r].tensor, sizes_[r]));
    const double written = size(s_.target.tensor, outputs_), of_result = moved(seen.target, written);
    bytes += of_result > written ? 2 * of_result : written;  // memory fills sectors that are written in part
    cycles = std::max(cycles, bytes / model::threads::memory_bytes);
    const auto copy = [&](double bytes, double apart) {
      const double l2 = model::threads::l2_bytes * target_.multiprocessors;
      cycles += model::threads::cycles_of_a_launch +
          std::max(2 * bytes / model::threads::memory_bytes, bytes * (1 + apart) / l2);
    };
    for (std::size_t r = 0; r < s_.reads.size(); ++r)
      if (!layouts.reads[r].empty())
        copy(size(s_.reads[r].tensor, sizes_[r]),
            sectors_apart(extents(program_.tensor(s_.reads[r].tensor)), as_it_is(r), layouts.reads[r]));
    if (!layouts.target.empty()) {
      std::vector<std::int64_t> counts;
      for (std::size_t k = 0; k < s_.indices.size(); ++k) counts.push_back(extent(s_, k));
      copy(size(s_.target.tensor, outputs_), sectors_apart(counts, layouts.target, as_it_is()));
    }
    return cycles;
  }

 private:
  // What memory moves of a tensor's bytes, where blocks stage tiles: each has one batch, and moves a sector for an
  // element where batches lie side by side; the second cache has lost it when the next batch comes.
  static double torn(const Nest& seen, const FlatAccess& access, double bytes) {
    if (bytes < model::threads::kept_in_l2) return bytes;
    for (std::size_t d = 0; d < seen.dims.size(); ++d) {
      const bool is_batch = !seen.dims[d].reduction &&
          std::ranges::all_of(seen.reads, [&](const FlatAccess& read) { return stride(read, d) != 0; });
      if (is_batch && std::abs(stride(access, d)) == 1)
        return bytes * std::min(model::threads::sector / 4, static_cast<double>(seen.dims[d].extent));
    }
    return bytes;
  }

  bool copies_what_is_read_once(const Layouts& layouts) const {
    for (std::size_t r = 0; r < s_.reads.size(); ++r)
      if (!layouts.reads[r].empty() && points(s_) < 2 * sizes_[r]) return true;
    return false;
  }

  // Of a copy on a GPU, how many times its elements' bytes the sectors are that its threads read, or write: those of
  // runs that stay side by side, or 1 where tiles of it are turned in shared memory.
  static double sectors_apart(const std::vector<std::int64_t>& counts, const std::vector<std::size_t>& from,
      const std::vector<std::size_t>& to) {
    const double of_sector = model::threads::sector / 4;
    double run = 1;
    for (std::size_t at = to.size(); at > 0 && from[at - 1] == to[at - 1]; --at)
      run *= static_cast<double>(counts[to[at - 1]]);
    if (run > 1) return std::max(1.0, of_sector / run);
    return std::min(counts[from.back()], counts[to.back()]) < model::threads::least_to_turn ? of_sector : 1;
  }
};

// A box at a time, with copies of the box: the best of these where it costs clearly less than `cost`, which is the best
// without. `all`: every one of them, where somebody asks.
void consider_boxes(const Search& search, const Boxed& boxed, bool stages, const Target& target, double cost,
    Layouts& best, std::vector<Layouts>* all) {
  double bar = (cost > model::memory_decides * search.least() ? model::boxes_up_to : model::clearly_less) * cost;
  for (const Class lanes : {Class::First, Class::Second, Class::Batch}) {
    if (!search.has(lanes)) continue;
    for (unsigned copied = 1; copied < 8; ++copied) {
      if ((copied >> 2 && !stages) || !search.vectors(lanes, copied)) continue;
      std::optional<Layouts> made = search.layouts(lanes, copied, std::nullopt);
      if (!made) continue;
      const Boxes boxes = choose_boxes(boxed, lanes, copied, target);
      if (boxes.cycles >= bar && all == nullptr) continue;
      for (std::size_t k = 0; k < boxes.steps.size(); ++k)
        if (boxes.steps[k] < boxed.extent[k]) made->boxes.emplace_back(k, boxes.steps[k]);
      if (made->boxes.empty()) continue;
      made->cost = boxes.cycles;
      if (all != nullptr) {
        all->push_back(*made);
        if (auto batches = search.of_batches(*made)) all->push_back(*std::move(batches));
      }
      if (boxes.cycles >= bar) continue;
      bar = boxes.cycles;
      best = std::move(*made);
    }
  }
}

Layouts search_layouts(const Program& program, const Strides& strides, const Statement& s, const Layouts& today,
    const Target& target, bool alone, std::vector<Layouts>* all) {
  Layouts best = today;
  if (has_threads(target) || s.reads.size() != 2 || !reduces(s) || scan_of(s) || s.aggregation == Aggregation::Assign)
    return best;
  const Search search(program, strides, s, target);
  const double at_least = search.least();
  const Boxed boxed = search.boxed();
  const Choice leaf = search.leaf(today);
  const double copies_today = search.copies(today), in_cache = leaf.cost - leaf.again + copies_today;
  best.cost = std::max(leaf.cost, streaming_cycles(boxed, 0, target)) + copies_today;
  // Of boxes nobody estimates how long the runs are that they write: they are compared with what costs least were all
  // runs long.
  double whole = std::max(leaf.cost - leaf.torn, streaming_cycles(boxed, 0, target)) + copies_today;
  const bool computes = at_least > model::mostly_computes * streaming_cycles(boxed, 0, target);
  if (in_cache < model::worth_a_search || ((all == nullptr || computes) && in_cache < model::near_the_best * at_least))
    return best;
  if (all != nullptr) all->push_back(best);
  const bool stages = may_stage(program, strides, s);
  double bar = model::clearly_less * best.cost, whole_bar = model::clearly_less * whole;
  for (const Class lanes : {Class::First, Class::Second, Class::Batch, Class::Reduced}) {
    if (!search.has(lanes)) continue;
    std::vector<std::optional<std::size_t>> lasts{std::nullopt};
    for (const std::size_t k : search.windows(lanes)) lasts.emplace_back(k);
    for (const auto& last : lasts)
      for (unsigned copied = 1; copied < 8; ++copied) {
        if (copied >> 2 && (!stages || lanes == Class::Reduced)) continue;  // lanes that fold write one element
        std::optional<Layouts> made = search.layouts(lanes, copied, last);
        if (!made) continue;
        const double copies = search.copies(*made);
        const double streamed = streaming_cycles(boxed, copied, target);
        if (all == nullptr && copies + std::max(at_least, streamed) >= std::max(bar, whole_bar)) continue;
        const Choice seen = search.leaf(*made);
        made->cost = copies + std::max(seen.cost, streamed);
        if (all != nullptr) all->push_back(*made);
        if (const double unbroken = copies + std::max(seen.cost - seen.torn, streamed); unbroken < whole_bar)
          whole_bar = whole = unbroken;
        if (made->cost < bar) bar = made->cost, best = std::move(*made);
      }
  }
  if (!computes && !search.has_singles() && (alone || stands_alone(program, s)) && may_tile(program, strides, s))
    consider_boxes(search, boxed, stages, target, whole, best, all);
  return best;
}

// The layouts of which each moves one index of lanes, by their cost.
std::vector<Layouts> layouts_that_move(
    const Program& program, const Strides& strides, const Statement& s, const Target& target, double bar) {
  const Search search(program, strides, s, target);
  const Boxed boxed = search.boxed();
  const bool stages = may_stage(program, strides, s);
  const double at_least = search.least();
  std::vector<Layouts> all;
  // that have the class, as bits
  for (const auto& [lanes, tensors] : {std::pair{Class::First, 5U}, {Class::Second, 6U}, {Class::Batch, 7U}})
    for (const std::size_t index : search.indices(lanes))
      for (unsigned copied = 1; copied < 8; ++copied) {
        if ((copied & ~tensors) || (copied >> 2 && !stages)) continue;
        std::optional<Layouts> made = search.moved(copied, index);
        if (!made) continue;
        const double streamed = streaming_cycles(boxed, copied, target);
        if (std::max(at_least, streamed) >= bar) continue;
        const double cycles = std::max(search.leaf(*made).cost, streamed);
        if (cycles >= bar) continue;                   // whatever the copies take: their cost is for runs that are torn
        made->cost = cycles + search.copies(*made);
        made->doubtful = true;                         // moves one index, and leaves all others where they are
        all.push_back(std::move(*made));
      }
  std::ranges::stable_sort(all, {}, &Layouts::cost);
  return all;
}

}  // namespace

bool stands_alone(const Program& program, const Statement& s) {
  const auto reads_it = [&](const poly::Node& node) {
    const auto* other = std::get_if<Statement>(&node);
    if (!other) return reads(node, s.target.tensor);
    return std::any_of(
        other->reads.begin(), other->reads.end(), [&](const Access& read) { return read.tensor == s.target.tensor; });
  };
  return std::none_of(s.reads.begin(), s.reads.end(),
             [&](const Access& read) { return maker(program, read.tensor) != nullptr; }) &&
      std::none_of(program.nodes.begin(), program.nodes.end(), reads_it);
}

Layouts choose_layouts(const Program& program, const Strides& strides, const Statement& s, const Layouts& today,
    const Target& target, bool alone) {
  return search_layouts(program, strides, s, today, target, alone, nullptr);
}

std::vector<Layouts> layouts_worth_a_look(const Program& program, const Strides& strides, const Statement& s,
    const Layouts& today, const Target& target, bool alone) {
  std::vector<Layouts> all;
  Layouts chosen =
      search_layouts(program, strides, s, today, target, alone, alone || stands_alone(program, s) ? &all : nullptr);
  std::ranges::stable_sort(all, {}, &Layouts::cost);
  std::vector<Layouts> others;
  for (Layouts& one : all)
    if (!one.lies_as(chosen) && std::ranges::none_of(others, [&](const Layouts& other) { return one.lies_as(other); }))
      others.push_back(std::move(one));
  all = std::move(others);
  if (all.size() >= model::layouts_looked_at) all.resize(model::layouts_looked_at - 1);
  all.insert(all.begin(), std::move(chosen));
  if (all.size() == 1) return all;
  const std::size_t most = all.size() + model::moved_looked_at;
  for (Layouts& one : layouts_that_move(program, strides, s, target, all.front().cost)) {
    if (all.size() == most) break;
    if (std::ranges::none_of(all, [&](const Layouts& other) { return one.lies_as(other); }))
      all.push_back(std::move(one));
  }
  return all;
}

Layouts layouts_on_gpu(const Program& program, const Strides& strides, const Statement& s, const Target& target) {
  Layouts best{std::vector<std::vector<std::size_t>>(s.reads.size()), {}, {}, 0};
  if (s.reads.size() != 2) return best;
  const Search search(program, strides, s, target);
  const OnMultiprocessors times(program, strides, s, target);
  const auto as_it_lies = times.cycles(best);
  if (!as_it_lies) return best;
  double bar = model::tiles::faster_by_copies * *as_it_lies;
  best.cost = *as_it_lies;
  const bool stages = may_stage(program, strides, s);
  for (const Class lanes : {Class::First, Class::Second, Class::Batch})
    for (unsigned copied = 1; copied < (stages ? 8U : 4U); ++copied) {
      auto layouts = search.layouts(lanes, copied, std::nullopt);
      if (!layouts) continue;
      const auto cost = times.cycles(*layouts);
      if (!cost || *cost >= bar) continue;
      layouts->cost = bar = *cost;
      best = *std::move(layouts);
    }
  return best;
}

}  // namespace tilec::codegen
