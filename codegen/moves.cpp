#include "codegen/moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/choose/leaf.h"
#include "codegen/choose/staged.h"
#include "codegen/fits.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/orders.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/rewriting.h"
#include "codegen/rewrite/stage_words.h"

namespace tilec::codegen {

namespace {

using poly::Program;
using poly::Statement;

// Directives as lines, and that there are no others of these stages; of stages behind `last`, nothing.
std::string lines_of(const std::vector<Directive>& directives, RewriteStage last) {
  std::string text;
  for (const auto& [stage, word] : stage_words)
    if (stage <= last && std::ranges::none_of(directives, [stage](const Directive& d) { return stage_of(d) == stage; }))
      text += fmt::format("no {}\n", word);
  for (const Directive& directive : directives)
    if (stage_of(directive) <= last) text += print(directive) + "\n";
  return text;
}

// Half and twice of a number, where it has both.
std::vector<std::int64_t> near(std::int64_t number) {
  std::vector<std::int64_t> all;
  if (number > 1) all.push_back(number / 2);
  if (number > 0) all.push_back(2 * number);
  return all;
}

// ---- directives

class OtherDirectives {
 public:
  OtherDirectives(const Chosen& chosen, std::vector<std::string>& texts)
      : chosen_(chosen), all_(chosen.plan->directives), texts_(texts) {}

  void add() {
    for (std::size_t k = 0; k < all_.size(); ++k) {
      without(k);
      other_numbers(k);
      other_order(k);
    }
    for (const auto& [stage, word] : stage_words)
      // what follows is chosen anew
      if (std::ranges::none_of(all_, [stage](const Directive& d) { return stage_of(d) == stage; }))
        texts_.push_back(lines_of(all_, stage));
    further();
  }

 private:
  void said(const std::vector<Directive>& directives, RewriteStage last) {
    texts_.push_back(lines_of(directives, last));
  }

  void without(std::size_t k) {
    std::vector<Directive> others = all_;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    said(others, stage_of(all_[k]));
  }

  void with(std::size_t k, Directive directive) {
    std::vector<Directive> others = all_;
    const RewriteStage stage = stage_of(directive);
    others[k] = std::move(directive);
    said(others, stage);
  }

  void other_numbers(std::size_t k) {
    const auto each = [&]<class D>(const D& directive, std::int64_t D::* number) {
      for (const std::int64_t n : near(directive.*number)) {
        D other = directive;
        other.*number = n;
        with(k, other);
      }
    };
    if (const auto* d = std::get_if<directives::Chunks>(&all_[k])) each(*d, &directives::Chunks::size);
    if (const auto* d = std::get_if<directives::Blocks>(&all_[k])) each(*d, &directives::Blocks::size);
    if (const auto* d = std::get_if<directives::Split>(&all_[k])) each(*d, &directives::Split::size);
    if (const auto* d = std::get_if<directives::Panels>(&all_[k])) each(*d, &directives::Panels::width);
    if (const auto* d = std::get_if<directives::Share>(&all_[k])) each(*d, &directives::Share::size);
    if (const auto* d = std::get_if<directives::Tile>(&all_[k]))
      for (std::size_t n = 0; n < d->by.size(); ++n)
        for (const std::int64_t by : near(d->by[n])) {
          directives::Tile other = *d;
          other.by[n] = by;
          with(k, other);
        }
  }

  void other_order(std::size_t k) {
    const auto each = [&](const auto& directive) {
      for (auto& order : other_orders(directive.order)) {
        auto other = directive;
        other.order = std::move(order);
        with(k, other);
      }
    };
    if (const auto* d = std::get_if<directives::Copy>(&all_[k])) each(*d);
    if (const auto* d = std::get_if<directives::Stage>(&all_[k])) each(*d);
  }

  // Of statements as the stage before leaves them: names mean those.
  const Program* before(RewriteStage stage) const {
    const auto at = static_cast<std::size_t>(stage);
    return at == 0 || chosen_.rewrites.size() < at ? nullptr : &chosen_.rewrites[at - 1].second;
  }

  void also(Directive directive) {
    std::vector<Directive> others = all_;
    const RewriteStage stage = stage_of(directive);
    const auto at = std::ranges::find_if(others, [stage](const Directive& d) { return stage_of(d) > stage; });
    others.insert(at, std::move(directive));
    said(others, stage);
  }

  void further() {
    for (const RewriteStage stage : {RewriteStage::Splits, RewriteStage::Copies, RewriteStage::Panels}) {
      const Program* program = before(stage);
      if (!program) continue;
      for (const poly::Node& node : program->nodes)
        if (const auto* s = std::get_if<Statement>(&node); s && reduces(*s)) further(stage, *program, *s);
    }
  }

  void further(RewriteStage stage, const Program& program, const Statement& s) {
    const std::string& name = target_name(program, s);
    std::vector<std::string> outputs;
    for (std::size_t k = 0; k < s.indices.size(); ++k) {
      const std::int64_t extent = s.domain[k].extent->get();
      if (is_output_index(s, k)) outputs.push_back(s.indices[k]);
      else if (stage == RewriteStage::Splits)
        for (std::int64_t size = model::shortest_part_tried; 2 * size <= extent; size *= 4)
          also(directives::Split{name, s.indices[k], size});
    }
    if (stage == RewriteStage::Splits) return;
    if (stage == RewriteStage::Copies)
      for (auto& order : other_orders(outputs)) also(directives::Stage{name, std::move(order)});
    std::set<poly::TensorId> seen;
    for (const poly::Access& read : s.reads) {
      if (!seen.insert(read.tensor).second) continue;
      const std::string& operand = program.tensor(read.tensor).name;
      if (stage == RewriteStage::Panels) {
        for (const std::string& index : outputs)
          for (const std::int64_t width : model::panels_tried) also(directives::Panels{operand, name, index, width, 0});
        continue;
      }
      std::vector<std::int64_t> order;
      for (std::size_t d = 0; d < read.element.size(); ++d) order.push_back(static_cast<std::int64_t>(d));
      for (auto& other : other_orders(order)) also(directives::Copy{operand, name, std::move(other), 0});
    }
  }

  const Chosen& chosen_;
  const std::vector<Directive>& all_;
  std::vector<std::string>& texts_;
};

// ---- groups

class OtherGroups {
 public:
  OtherGroups(const Chosen& chosen, const Target& target, std::vector<std::string>& texts)
      : plan_(*chosen.plan), strides_(chosen.strides), target_(target), texts_(texts) {}

  // Those of the groups that take longest first, where this is known.
  void add() {
    const model::KnownPlan statements = model::known(plan_, strides_, target_);
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      model::SeenGroup seen;
      model::OneGroup predicted(plan_.program, statements[g], target_, seen);
      order.emplace_back(model::predicts_time(target_) ? -predicted.predict(plan_.groups[g]).milliseconds : 0, g);
    }
    std::ranges::sort(order);
    for (const auto& [time, g] : order) {
      at_ = g;
      if (plan_.groups[g].body.front().is<forms::Online>()) continue;
      if (plan_.groups[g].tile.empty()) loops();
      for (std::size_t l = 0; l < plan_.groups[g].body.size(); ++l) leaf(l);
    }
  }

 private:
  const Group& group() const { return plan_.groups[at_]; }

  void say(Group other) {
    Plan plan = plan_;
    plan.groups[at_] = std::move(other);
    texts_.push_back(whole_text(plan));
  }

  // With other loops, its leaves are chosen anew.
  void loop_over(std::vector<Loop> other) {
    if (other == group().loops) return;
    Group head = group();
    head.loops = std::move(other);
    if (!head.loops.empty()) head.body.clear();
    say(std::move(head));
  }

  void loops() {
    const std::vector<Loop>& now = group().loops;
    for (std::size_t l = 0; l < now.size(); ++l) {
      std::vector<Loop> other = now;
      other.erase(other.begin() + static_cast<std::ptrdiff_t>(l));
      loop_over(other);
      for (const std::int64_t step : near(now[l].step)) {
        other = now;
        other[l].step = step;
        if (other[l].walk >= step) other[l].walk = 0;
        loop_over(other);
      }
    }
    for (auto& order : other_orders(now)) loop_over(std::move(order));
    if (group().body.size() > 1) return parts();
    const Compute& only = group().body.front();
    const Nest nest = leaf_nest(plan_.program, group(), only, strides_);
    for (const Dim& dim : nest.dims) {
      if (dim.reduction) continue;
      for (const double turns : {model::turns_of_rows, model::most_turns}) {
        const auto step = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(dim.extent) / turns));
        loop_over({{dim.name, step}});
        if (std::ranges::count(now, dim.name, &Loop::index) > 0) continue;
        std::vector<Loop> other = now;
        other.push_back({dim.name, step});
        loop_over(other);
      }
    }
  }

  // How much of a turn the leaves have at a time.
  void parts() {
    std::vector<Loop> other = group().loops;
    if (other.empty()) return;
    for (std::int64_t walk = 0; walk < other.back().step; walk = std::max<std::int64_t>(1, 2 * walk)) {
      other.back().walk = walk;
      loop_over(other);
    }
  }

  void consider(std::size_t l, Compute leaf) {
    Group other = group();
    if (leaf == other.body[l]) return;
    const Compute was = other.body[l];
    other.body[l] = std::move(leaf);
    if (!leaf_fault(plan_, other, other.body[l], was, strides_, target_)) say(std::move(other));
  }

  template <class Change> void change(std::size_t l, Change how) {
    Compute leaf = group().body[l];
    how(leaf);
    consider(l, std::move(leaf));
  }

  void leaf(std::size_t l) {
    const Compute now = group().body[l];
    const auto* contract = now.as<forms::Contract>();
    const bool flat = now.is<forms::Map>() || now.is<forms::Reduce>() || contract;
    if (flat && !has_threads(target_)) {
      const Nest nest = nest_to_choose(plan_.program, group(), now, strides_);
      const Facts known = facts_in(group(), nest, target_);
      for (Compute& other : other_leaves(known, now.node, model::leaves_tried)) {
        ask_ahead(known, other);
        consider(l, std::move(other));
      }
    }
    for (const std::int64_t rows : {now.rows - 1, now.rows + 1, now.rows / 2, now.rows * 2})
      if (rows > 0) change(l, [&](Compute& leaf) { leaf.rows = rows; });
    for (const std::int64_t vectors : {now.vectors - 1, now.vectors + 1})
      if (vectors > 0) change(l, [&](Compute& leaf) { leaf.vectors = vectors; });
    for (const std::int64_t lanes : near(now.lanes)) change(l, [&](Compute& leaf) { leaf.lanes = lanes; });
    for (auto& outer : other_orders(now.outer)) change(l, [&](Compute& leaf) { leaf.outer = std::move(outer); });
    for (auto& k : other_orders(now.k)) change(l, [&](Compute& leaf) { leaf.k = std::move(k); });
    if (now.block()) {
      change(l, [](Compute& leaf) { leaf.block()->m_inner = !leaf.block()->m_inner; });
      change(l, [](Compute& leaf) { leaf.block()->turned = !leaf.block()->turned; });
      change(l, [](Compute& leaf) { leaf.block()->claims = !leaf.block()->claims; });
    }
    if (!now.streams()) change(l, [](Compute& leaf) { if (leaf.set_streams()) leaf.block()->claims = false; });
    else if (now.is<forms::Map>()) change(l, [](Compute& leaf) { leaf.as<forms::Map>()->stream = false; });
    else change(l, [](Compute& leaf) { leaf.as<forms::Contract>()->stream = false; });
    if (contract) chunks(l, *contract);
    if (const auto* cores = now.as<forms::TensorCores>()) on_tensor_cores(l, *cores);
    ahead(l, now);
  }

  // Their warps are the threads of a block.
  void on_tensor_cores(std::size_t l, const forms::TensorCores& now) {
    const auto with = [&](const Compute& leaf, std::int64_t threads) {
      Group other = group();
      other.body[l] = leaf, other.threads = threads;
      if (!leaf_fault(plan_, other, leaf, group().body[l], strides_, target_)) say(std::move(other));
    };
    const auto each = [&](std::int64_t forms::TensorCores::* number, const std::vector<std::int64_t>& values) {
      for (const std::int64_t value : values) {
        Compute leaf = group().body[l];
        auto& cores = *leaf.as<forms::TensorCores>();
        cores.*number = value;
        with(leaf, cores.threads());
      }
    };
    each(&forms::TensorCores::depth, near(now.depth));
    each(&forms::TensorCores::buffers, {now.buffers - 1, now.buffers + 1});
    each(&forms::TensorCores::warps_m, near(now.warps_m));
    each(&forms::TensorCores::warps_n, near(now.warps_n));
    for (const std::int64_t vectors : near(group().body[l].vectors))
      change(l, [&](Compute& leaf) { leaf.vectors = vectors; });
    std::int64_t threads = 0;
    const Nest nest = nest_to_choose(plan_.program, group(), group().body[l], strides_);
    if (const auto staged = staged_leaf(facts(nest, {}, target_), group().body[l].node, target_, threads))
      with(*staged, threads);
  }

  void chunks(std::size_t l, const forms::Contract& now) {
    std::vector<std::int64_t> sizes = near(now.chunk);
    if (now.chunk) sizes.push_back(0);
    else sizes.assign(std::begin(model::chunks_tried), std::end(model::chunks_tried));
    for (const std::int64_t chunk : sizes)
      change(
          l, [&](Compute& leaf) { leaf.as<forms::Contract>()->chunk = chunk, leaf.as<forms::Contract>()->taps = 0; });
    for (const std::int64_t taps : {now.taps - 1, now.taps + 1})
      if (taps >= 0 && !now.chunk) change(l, [&](Compute& leaf) { leaf.as<forms::Contract>()->taps = taps; });
  }

  void ahead(std::size_t l, const Compute& now) {
    for (std::size_t a = 0; a < now.ahead.size(); ++a) {
      change(l, [&](Compute& leaf) { leaf.ahead.erase(leaf.ahead.begin() + static_cast<std::ptrdiff_t>(a)); });
      for (const std::int64_t count : near(now.ahead[a].count))
        change(l, [&](Compute& leaf) { leaf.ahead[a].count = count; });
    }
    if (!now.ahead.empty()) return;
    std::vector<std::string> along = now.outer;
    along.insert(along.end(), now.k.begin(), now.k.end());
    for (const std::string& index : along)
      change(l, [&](Compute& leaf) { leaf.ahead.push_back({index, model::steps_ahead_tried}); });
  }

  const Plan& plan_;
  const Strides& strides_;
  const Target& target_;
  std::vector<std::string>& texts_;
  std::size_t at_ = 0;
};

}  // namespace

std::string whole_text(const Plan& plan) {
  Plan groups = plan;
  groups.directives.clear();
  return lines_of(plan.directives, RewriteStage::Rests) + print(groups);
}

std::vector<std::string> moves(const Chosen& chosen, const Target& target) {
  std::vector<std::string> of_groups, of_directives, all;
  OtherGroups(chosen, target, of_groups).add();
  OtherDirectives(chosen, of_directives).add();
  // in turns, for who has no time for all
  for (std::size_t k = 0; k < std::max(of_groups.size(), of_directives.size()); ++k)
    for (auto* some : {&of_groups, &of_directives})
      if (k < some->size()) all.push_back(std::move((*some)[k]));
  return all;
}

}  // namespace tilec::codegen
