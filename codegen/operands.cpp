// Where an operand lies badly for lanes, rows of a block or pages, and which copies mend it (rewrite/copy.h).
#include "codegen/operands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>

#include "codegen/choose/aligned.h"
#include "codegen/choose/layout.h"
#include "codegen/choose/pairs.h"
#include "codegen/choose/predicted.h"
#include "codegen/choose/rounded.h"
#include "codegen/choose/rows.h"
#include "codegen/conditions.h"
#include "codegen/model/estimates.h"
#include "codegen/model/machine.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/orders.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/copy.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/pairs.h"
#include "codegen/rewrite/rows.h"
#include "codegen/rewrite/stage.h"
#include "codegen/rewrite/tile.h"
#include "lang/diagnostic.h"
#include "poly/print.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Statement;

// The output index that lanes will run over: unit stride in the target.
std::optional<std::size_t> lane_index(const Statement& s, const std::vector<std::int64_t>& strides) {
  std::optional<std::size_t> best;
  for (std::size_t d = 0; d < s.target.element.size(); ++d) {
    const auto k = plain_index(s.target.element[d]);
    if (k && strides[d] == 1 && s.domain[*k].extent->get() > 1) best = k;
  }
  return best;
}

bool unit_stride(const Access& read, std::size_t k, const std::vector<std::int64_t>& strides) {
  std::int64_t stride = 0;
  for (std::size_t d = 0; d < read.element.size(); ++d) stride += read.element[d].coefficients[k].get() * strides[d];
  return stride == 0 || stride == 1;
}

// The order of dimensions in which the lanes, or the rows of a block, find their elements side by side; empty: as it
// is.
std::vector<std::size_t> better_order(
    const Statement& s, const Access& read, std::size_t lane, const std::vector<std::int64_t>& strides) {
  const std::size_t rank = read.element.size();
  std::vector<std::size_t> order = in_order(rank);
  const auto to_the_end = [&](std::size_t d) {
    order.erase(std::find(order.begin(), order.end(), d));
    order.push_back(d);
  };
  if (!unit_stride(read, lane, strides)) {
    const auto d = dimension_of(read, lane);
    if (!d || *d + 1 == rank) return {};
    to_the_end(*d);
    return order;
  }
  // A filter K[co, ci, j, i] whose lanes run elsewhere: rows of a block are far apart, and steps of ci are too.
  //   ⇒  K[j, i, ci, co]
  const auto index = [&](std::size_t d) { return plain_index(read.element[d]); };
  const auto extent = [&](std::size_t d) { return s.domain[*index(d)].extent->get(); };
  const auto reduced = [&](std::size_t d) {
    return std::all_of(s.target.element.begin(), s.target.element.end(),
        [&](const Affine& e) { return e.coefficients[*index(d)].is(0); });
  };
  for (std::size_t d = 0; d < rank; ++d) if (!index(d) || *index(d) == lane) return {};
  if (rank < 3 || !reduced(rank - 1) || extent(rank - 1) >= model::few_lanes) return {};
  std::optional<std::size_t> rows;
  for (std::size_t d = 0; d < rank; ++d)
    if (!reduced(d) && extent(d) >= model::few_lanes && (!rows || extent(d) > extent(*rows))) rows = d;
  if (!rows) return {};
  std::stable_partition(
      order.begin(), order.end(), [&](std::size_t d) { return reduced(d) && extent(d) < model::few_lanes; });
  to_the_end(*rows);
  return order;
}

// Whether conditions that few points meet differ from lane to lane: others may ask them outside of their steps.
bool asks_lanes(const Statement& s, std::size_t lane, const Strides& strides) {
  const auto* value = s.value.as<poly::Apply>();
  if (!value || value->op != lang::Op::Select) return false;
  const Nest nest = nest_of(s, strides, {s.indices[lane]});
  const auto d = nest.dim(s.indices[lane]);
  return d && std::ranges::any_of(conditions(nest), [&](const Condition& one) {
    return one.dims[*d] && one.likely <= model::likely::few && asks_alone(nest, one);
  });
}

std::optional<Panels> panels_of(
    const Program& program, const Strides& strides, const Statement& s, const Target& target) {
  if (!reduces(s) || s.reads.size() < 2 || !reuses(s)) return std::nullopt;
  const auto lane = lane_index(s, strides[static_cast<std::size_t>(s.target.tensor)]);
  if (!lane || !s.domain[*lane].value.constant.is(0)) return std::nullopt;
  for (std::size_t r = 0; r < s.reads.size(); ++r) {
    const TensorId id = s.reads[r].tensor;
    const auto d = dimension_of(s.reads[r], *lane);
    if (!d || plain_index(s.reads[r].element[*d]) != lane || strides[static_cast<std::size_t>(id)][*d] != 1) continue;
    double bytes = lang::bytes(program.tensor(id).dtype);  // of one batch
    for (std::size_t e = 0; e < s.reads[r].element.size(); ++e) {
      const auto k = plain_index(s.reads[r].element[e]);
      const bool batch = k && k != lane &&
          std::any_of(s.target.element.begin(), s.target.element.end(),
              [&](const Affine& x) { return !x.coefficients[*k].is(0); });
      if (!batch) bytes *= static_cast<double>(program.tensor(id).shape[e].get());
    }
    bool paged = false;
    for (std::size_t e = 0; e < s.reads[r].element.size(); ++e)
      paged = paged ||
          (e != *d &&
              strides[static_cast<std::size_t>(id)][e] * lang::bytes(program.tensor(id).dtype) %
                      static_cast<std::int64_t>(model::page) ==
                  0);
    const bool large = bytes >= model::large_for_panels * static_cast<double>(target.l2);
    if (bytes < static_cast<double>(target.l2) || !(paged || large)) continue;
    if (points(s) >= model::reuse_of_panels * elements(program, id)) return Panels{r, *d, *lane};
  }
  return std::nullopt;
}

}  // namespace

Layouts copies_for_lanes(const Program& program, const Strides& strides, const Statement& s) {
  Layouts layouts{std::vector<std::vector<std::size_t>>(s.reads.size()), {}, {}, 0};
  const auto lane = lane_index(s, strides[static_cast<std::size_t>(s.target.tensor)]);
  // too few lanes: a reduction will have them
  if (!lane || s.domain[*lane].extent->get() < model::few_lanes || asks_lanes(s, *lane, strides)) return layouts;
  for (std::size_t read = 0; read < s.reads.size(); ++read) {
    const TensorId source = s.reads[read].tensor;
    if (points(s) >= model::reuse_that_pays * elements(program, source))
      layouts.reads[read] = better_order(s, s.reads[read], *lane, strides[static_cast<std::size_t>(source)]);
  }
  return layouts;
}

namespace {

// The copies and boxes of the statement at n. Returns where the last of its statements stands.
std::size_t lay_out(Rewriting& r, std::size_t n, const Layouts& layouts) {
  for (std::size_t read = 0; read < layouts.reads.size(); ++read)
    if (!layouts.reads[read].empty()) n = read_copy(r, n, read, layouts.reads[read], layouts.bits, layouts.rows);
  const std::size_t sum = n;
  if (!layouts.target.empty()) n = stage_result(r, n, layouts.target);
  if (layouts.boxes.empty()) return n;
  std::vector<std::pair<std::string, std::int64_t>> steps;
  for (const auto& [k, step] : layouts.boxes)
    steps.emplace_back(std::get<Statement>(r.program.nodes[sum]).indices[k], step);
  tile(r, tiled_with(r.program, sum), std::move(steps));
  return n;
}

// Whether the statement may lie as one like it does.
bool suits(const Rewriting& r, const Statement& s, const Layouts& layouts) {
  if (!layouts.target.empty() && !may_stage(r.program, r.strides, s)) return false;
  if (layouts.bits && (may_not_round(r, s, 0) || may_not_round(r, s, 1))) return false;
  if (!layouts.boxes.empty() && !may_tile(r.program, r.strides, s)) return false;
  return std::ranges::all_of(layouts.boxes, [&](const auto& box) { return box.second < extent(s, box.first); });
}

// A program of statements alike, over tensors that lie so.
Rewriting laid_out(Rewriting alike, const Layouts& layouts) {
  for (std::size_t n = 0; n < alike.program.nodes.size(); ++n) {
    const auto& s = std::get<Statement>(alike.program.nodes[n]);
    if (s.reads.size() > 1 && (n == 0 || suits(alike, s, layouts))) n = lay_out(alike, n, layouts);
  }
  panel_operands(alike);
  return alike;
}

// A program of statements alike, and layouts that the model is asked about.
class Alike {
 public:
  explicit Alike(Rewriting program) : program_(std::move(program)), text_(poly::print(program_.program)) {
    for (const auto& strides : program_.strides) text_ += fmt::format("{}\n", fmt::join(strides, " "));
  }
  double predicted(const Layouts& layouts) const {
    constexpr double any = std::numeric_limits<double>::infinity();
    return Weighed(*this, layouts, any).time(any, any).value();
  }
  // Asks about each of the layouts, `take(layouts, milliseconds)`: those that take least by counts first, for they
  // leave the others least to be asked. The best so far takes `least`. `wanted(layouts, least)`: the milliseconds that
  // others must come to less than; `worth(layouts, least)`: from which on nobody asks how long they take.
  template <class Wanted, class Worth, class Take>
  void each(const std::vector<Layouts>& all, const double& least, Wanted wanted, Worth worth, Take take) const {
    std::vector<Weighed> weighed;
    std::vector<std::size_t> order;
    weighed.reserve(all.size());
    double by_counts = least;                          // of the best, before its leaves are others
    for (const Layouts& layouts : all) {
      const Weighed& one = weighed.emplace_back(*this, layouts, worth(layouts, by_counts));
      if (!one.by_counts()) continue;
      order.push_back(weighed.size() - 1);
      if (*one.by_counts() < wanted(layouts, by_counts)) by_counts = *one.by_counts();
    }
    std::ranges::stable_sort(order, {}, [&](std::size_t n) { return *weighed[n].by_counts(); });
    for (const std::size_t n : order)
      if (const auto time = weighed[n].time(least, worth(all[n], least))) take(all[n], *time);
  }
  double enough() const { return enough_for(program_); }

 private:
  class Weighed {
   public:
    Weighed(const Alike& alike, const Layouts& layouts, double worth) : alike_(alike), layouts_(layouts) {
      std::string key = alike.text_;
      for (const auto& read : layouts.reads) key += fmt::format("{}\n", fmt::join(read, " "));
      key += fmt::format("{}\n", fmt::join(layouts.target, " "));
      for (const auto& [k, step] : layouts.boxes) key += fmt::format("{} by {}\n", k, step);
      known_ = &(*alike.program_.predictions)[std::move(key)];
      if (known_->by_counts || known_->at_least >= worth) return;
      planned_ = PlannedByRows::below(worth, laid_out(alike.program_, layouts));
      if (planned_) known_->by_counts = planned_->by_counts();
      else known_->at_least = worth;
    }
    // None where it is not worth planning.
    std::optional<double> by_counts() const { return known_->by_counts; }
    // `least`: of the best so far.
    std::optional<double> time(double least, double worth) {
      if (known_->time) return known_->time;
      if (*known_->by_counts >= model::leaves_of_layout_save * least || known_->at_least >= worth) return std::nullopt;
      if (!planned_) planned_.emplace(laid_out(alike_.program_, layouts_));
      known_->time = planned_->time(worth);
      if (!known_->time) known_->at_least = worth;
      planned_.reset();
      return known_->time;
    }

   private:
    const Alike& alike_;
    const Layouts& layouts_;
    Rewriting::Predicted* known_;
    std::optional<PlannedByRows> planned_;
  };

  Rewriting program_;
  std::string text_;
};

// The same layouts with another box: parts of the index, as even as they can be, about `factor` times as long. Nothing:
// there is no such box.
std::optional<Layouts> with_box(const Statement& s, Layouts layouts, std::size_t box, double factor) {
  auto& [k, step] = layouts.boxes[box];
  const std::int64_t whole = extent(s, k), wanted = static_cast<std::int64_t>(factor * static_cast<double>(step));
  if (wanted < 1) return std::nullopt;
  const std::int64_t parts = (whole + wanted - 1) / wanted, even = (whole + parts - 1) / parts;
  if (even == step) return std::nullopt;
  step = even;
  if (parts == 1) layouts.boxes.erase(layouts.boxes.begin() + static_cast<std::ptrdiff_t>(box));
  return layouts.boxes.empty() ? std::nullopt : std::optional(std::move(layouts));
}

// Boxes were chosen by their bytes. The model, which knows what their leaves come to, may like longer or shorter ones
// better.
Layouts with_better_boxes(const Alike& part, const Statement& s, Layouts best, double& least) {
  for (int round = 0; round < model::rounds_of_boxes; ++round) {
    std::optional<Layouts> better;
    std::vector<Layouts> others;
    for (std::size_t box = 0; box < best.boxes.size(); ++box)
      for (const double factor : model::factors_of_boxes)
        if (std::optional<Layouts> other = with_box(s, best, box, factor)) others.push_back(*std::move(other));
    const auto wanted = [](const Layouts&, double least) { return model::faster_by_a_box * least; };
    part.each(others, least, wanted, wanted, [&](const Layouts& other, double time) {
      if (time < wanted(other, least)) least = time, better = other;
    });
    if (!better) break;
    best = *std::move(better);
  }
  return best;
}

// Layouts one step from these: a dimension of a copy or of a staged result lies elsewhere, or there is one copy more,
// or one less.
std::vector<Layouts> layouts_near(const Statement& s, const Layouts& layouts, bool stages) {
  std::vector<Layouts> all;
  const auto with_read = [&](std::size_t read, std::vector<std::size_t> order) {
    all.push_back(layouts), all.back().reads[read] = std::move(order);
  };
  const auto with_target = [&](std::vector<std::size_t> order) {
    all.push_back(layouts), all.back().target = std::move(order);
  };
  for (std::size_t read = 0; read < s.reads.size(); ++read) {
    const std::vector<std::size_t>& now = layouts.reads[read];
    for (auto& order : other_orders(now.empty() ? in_order(s.reads[read].element.size()) : now))
      with_read(read, std::move(order));
    with_read(read, now.empty() ? in_order(s.reads[read].element.size()) : std::vector<std::size_t>());
  }
  if (!stages) return all;
  std::vector<std::size_t> outputs;
  for (std::size_t k = 0; k < s.indices.size(); ++k) if (is_output_index(s, k)) outputs.push_back(k);
  for (auto& order : other_orders(layouts.target.empty() ? outputs : layouts.target)) with_target(std::move(order));
  if (!layouts.target.empty()) with_target({});
  return all;
}

// What takes much longer than would be enough.
Layouts with_better_orders(
    const Rewriting& r, const Alike& part, const Statement& s, Layouts best, double least, double enough) {
  const bool stages = may_stage(r.program, r.strides, s);
  for (int round = 0;
      round < model::rounds_of_orders && least >= model::worth_other_orders && least > model::far_from_orders * enough;
      ++round) {
    std::optional<Layouts> better;
    const auto wanted = [](const Layouts&, double least) { return model::faster_by_an_order * least; };
    part.each(layouts_near(s, best, stages), least, wanted, wanted, [&](const Layouts& other, double time) {
      if (time < wanted(other, least)) least = time, better = other;
    });
    if (!better) break;
    best = *std::move(better);
  }
  return best;
}

// Of statements alike, the first of which says which layouts there are.
Layouts best_layouts(const Rewriting& r, std::span<const Statement> alike) {
  const Statement& s = alike.front();
  if (auto rounded = rounded_copies(r, s)) return *std::move(rounded);
  if (auto aligned = aligned_copies(r, s)) return *std::move(aligned);
  if (has_threads(r.target)) return layouts_on_gpu(r.program, r.strides, s, r.target);
  // nobody shares rows with these
  const bool own = sums_of_pairs(r, s.target.tensor) || r.parts.contains(s.target.tensor);
  // Parts of one sum are turns, and no lanes.
  const bool turns = r.parts.contains(s.target.tensor) && s.target.element.size() == 1;
  Layouts today = turns ? Layouts{std::vector<std::vector<std::size_t>>(s.reads.size()), {}, {}, 0}
                        : copies_for_lanes(r.program, r.strides, s);
  if (!model::predicts_time(r.target)) return choose_layouts(r.program, r.strides, s, today, r.target, own);
  const Alike part(alone(r, alike));
  const double enough = part.enough();
  if (cycles(s) >= model::worth_a_search && part.predicted(today) <= enough) return today;
  std::vector<Layouts> all = layouts_worth_a_look(r.program, r.strides, s, today, r.target, own);
  if (all.size() == 1) return std::move(all.front());
  const double first = part.predicted(all.front());
  if (first <= enough) return std::move(all.front());
  Layouts chosen = std::move(all.front());
  all.erase(all.begin());
  const double bar = model::faster_by_prediction * first;
  double least = bar;
  std::optional<Layouts> boxed;                        // the best with boxes, which others may make better
  double least_boxed = std::numeric_limits<double>::infinity();
  const auto wanted = [](const Layouts& other, double least) {
    return (other.doubtful ? model::faster_where_doubtful : 1) * least;
  };
  const auto worth = [&](const Layouts& other, double least) {
    return other.boxes.empty() ? wanted(other, least) : std::min(model::boxes_save * least, least_boxed);
  };
  part.each(all, least, wanted, worth, [&](const Layouts& other, double time) {
    if (!other.boxes.empty() && time < least_boxed) boxed = other, least_boxed = time;
    if (time < wanted(other, least)) least = time, chosen = other;
  });
  if (least == bar) least = first;
  if (!chosen.boxes.empty()) chosen = with_better_boxes(part, s, std::move(chosen), least);
  else if (boxed && least_boxed < model::boxes_save * least) {
    Layouts better = with_better_boxes(part, s, *std::move(boxed), least_boxed);
    if (least_boxed < model::faster_by_a_box * least) chosen = std::move(better), least = least_boxed;
  }
  return with_better_orders(r, part, s, std::move(chosen), least, enough);
}

// What residue classes of one window have in common: the tensors that they read, and how they step through them.
std::vector<std::int64_t> steps_of(const Rewriting& r, const Statement& s) {
  std::vector<std::int64_t> key;
  const auto note = [&](const Access& access, std::int64_t tensor) {
    key.push_back(tensor);
    for (const Affine& e : access.element) for (const poly::Size& c : e.coefficients) key.push_back(c.get());
  };
  for (const Access& read : s.reads) note(read, read.tensor);
  note(s.target, -1);
  for (const std::int64_t size : extents(r.program.tensor(s.target.tensor))) key.push_back(size);
  return key;
}

}  // namespace

Rewriting alone(const Rewriting& r, std::span<const Statement> statements) {
  Rewriting part{Program(), {}, r.target};
  part.predictions = r.predictions;
  std::map<TensorId, TensorId> known;
  const auto taken = [&](TensorId id) {
    const auto [at, fresh] = known.emplace(id, static_cast<TensorId>(part.program.tensors.size()));
    if (fresh)
      part.program.tensors.push_back(r.program.tensor(id)),
          part.strides.push_back(r.strides[static_cast<std::size_t>(id)]);
    return at->second;
  };
  std::vector<Statement> own(statements.begin(), statements.end());
  for (Statement& s : own)
    for (Access& read : s.reads) read.tensor = taken(read.tensor);
  for (std::size_t id = 0; id < part.program.tensors.size(); ++id)
    part.program.inputs.push_back(static_cast<TensorId>(id));
  for (Statement& s : own) {
    if (const auto* filled = std::get_if<TensorId>(&s.fill)) {
      const auto made = known.find(*filled);
      // by another of the statements
      const bool before = made != known.end() && std::erase(part.program.outputs, made->second) > 0;
      if (before) s.fill = made->second;
      else s.fill = poly::Number{r.program.tensor(s.target.tensor).dtype};
    }
    s.target.tensor = taken(s.target.tensor);
    part.program.outputs.push_back(s.target.tensor);
    part.program.nodes.emplace_back(std::move(s));
  }
  return part;
}

double enough_for(const Rewriting& r) {
  double bytes = 0, arithmetic = 0;
  for (const auto* outside : {&r.program.inputs, &r.program.outputs})
    for (const TensorId id : *outside) bytes += bytes_of(r.program, id);
  for (const poly::Node& node : r.program.nodes)
    if (const auto* s = std::get_if<Statement>(&node))
      arithmetic += model::arithmetic(points(*s), s->value.type(), r.target);
  return model::near_the_least * model::least_milliseconds(arithmetic, bytes, r.target);
}

void copy_operands(Rewriting& r) {
  const auto laid_out = [&](const Statement& s) {
    return reduces(s) && s.reads.size() >= 2 && !in_pass(r, s.target.tensor);
  };
  std::map<std::vector<std::int64_t>, std::vector<Statement>> alike;
  for (const poly::Node& node : r.program.nodes)
    if (const auto* s = std::get_if<Statement>(&node); s != nullptr && laid_out(*s))
      alike[steps_of(r, *s)].push_back(*s);
  std::map<std::vector<std::int64_t>, Layouts> known;
  for (std::size_t n = 0; n < r.program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
    if (s == nullptr || !laid_out(*s)) continue;
    std::vector<std::int64_t> key = steps_of(r, *s);
    auto found = known.find(key);
    if (found == known.end() || !suits(r, *s, found->second)) {
      const auto group = found == known.end() ? alike.find(key) : alike.end();
      found = known
                  .insert_or_assign(std::move(key),
                      best_layouts(r, group == alike.end() ? std::span(s, 1) : std::span(std::as_const(group->second))))
                  .first;
    }
    n = lay_out(r, n, found->second);
  }
}

void panel_operands(Rewriting& r) {
  if (r.target.family != Target::Family::Cpu) return;
  for (std::size_t n = 0; n < r.program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
    const auto panels = s && !tiled(r, s->target.tensor) ? panels_of(r.program, r.strides, *s, r.target) : std::nullopt;
    if (!panels) continue;
    const std::int64_t width = model::panel_vectors * r.target.vector_bytes / std::max(4, lang::bytes(s->value.type()));
    if (width < s->domain[panels->index].extent->get()) n = read_panels(r, n, *panels, width);
  }
}

}  // namespace tilec::codegen
