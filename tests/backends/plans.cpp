#include "plans.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "codegen/finishing.h"
#include "codegen/fits.h"
#include "codegen/fuse.h"
#include "codegen/online_leaf.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/pairs.h"
#include "codegen/rewrite/rewriting.h"
#include "codegen/rewrite/stage_words.h"
#include "codegen/rewrite/tile.h"
#include "codegen/scan.h"
#include "codegen/tensor_cores.h"
#include "codegen/tile.h"
#include "codegen/window.h"

namespace backends {

namespace {

using namespace tilec::codegen::directives;
using codegen::Compute;
using codegen::Group;
namespace forms = codegen::forms;
using codegen::RewriteStage;
using poly::Statement;

template <class T> std::vector<T> shuffled(std::vector<T> all, Random& random) {
  for (std::size_t k = all.size(); k > 1; --k)
    std::swap(all[k - 1], all[static_cast<std::size_t>(random.below(static_cast<int>(k)))]);
  return all;
}

std::int64_t up_to(std::int64_t most, Random& random) {
  return most < 1 ? 1 : 1 + random.below(static_cast<int>(std::min<std::int64_t>(most, 1 << 20)));
}

// ---- directives

class Directives {
 public:
  Directives(const Case& c, const codegen::Request& request, const poly::Program& reduced, Random& random)
      : case_(c), request_(request), reduced_(reduced), random_(random) {
    for (const poly::Tensor& tensor : reduced.tensors) strides_.push_back(codegen::row_major(codegen::extents(tensor)));
    // as the pipeline takes what is given
    const auto lies = [&](poly::TensorId id, const std::vector<std::int64_t>& given) {
      for (std::size_t d = 0; d < given.size(); ++d)
        if (reduced.tensor(id).shape[d].get() > 1 && strides_[static_cast<std::size_t>(id)][d] != 0)
          strides_[static_cast<std::size_t>(id)][d] = given[d];
    };
    for (const auto& [o, given] : request.output_strides) {
      const auto id = reduced.outputs[o];
      if (std::ranges::find(reduced.outputs, id) == reduced.outputs.begin() + static_cast<std::ptrdiff_t>(o) &&
          std::ranges::count(reduced.inputs, id) == 0)
        lies(id, given);
    }
    for (const poly::TensorId id : reduced.inputs)
      if (const auto given = request.strides.find(reduced.tensor(id).name); given != request.strides.end())
        lies(id, given->second);
    for (const auto& [stage, word] : codegen::stage_words) given_.stages.insert(stage);
  }

  // The lines, and the Program they make.
  std::pair<std::string, codegen::Fused> drawn() {
    for (const auto& [stage, word] : codegen::stage_words) {
      if (random_.chance(6) && (stage != RewriteStage::Sums || finite())) given_.stages.erase(stage);
      else draw(stage);
    }
    std::string lines;
    for (const auto& [stage, word] : codegen::stage_words)
      if (given_.stages.contains(stage)) lines += fmt::format("no {}\n", word);
    for (const auto& said : given_.directives) lines += codegen::print(said.directive) + "\n";
    return {lines, fused().value()};
  }

 private:
  std::optional<codegen::Fused> fused() const {
    lang::Diagnostics diagnostics;
    std::vector<codegen::Timing> timings;
    return codegen::fuse(reduced_, strides_, request_.output_strides, request_.target, given_, {timings}, diagnostics);
  }

  bool finite() const {
    return std::ranges::all_of(case_.inputs,
        [](const poly::Array& a) { return std::ranges::all_of(a.reals, [](double x) { return std::isfinite(x); }); });
  }

  void draw(RewriteStage stage) {
    if (stage == RewriteStage::Sums && !finite()) return;  // docs/decisions/factored_sums.md
    for (int tries = random_.between(0, 4); tries > 0; --tries) {
      const auto now = fused();
      if (!now) throw lang::InternalError("directives that were taken are refused");
      const auto directive = drawn(stage, now->program);
      if (!directive) continue;
      given_.directives.push_back({*directive, {}});
      if (!fused()) given_.directives.pop_back();
    }
  }

  std::optional<codegen::Directive> drawn(RewriteStage stage, const poly::Program& program) {
    std::vector<const Statement*> all;
    for (const poly::Node& node : program.nodes) if (const auto* s = std::get_if<Statement>(&node)) all.push_back(s);
    if (all.empty()) return std::nullopt;
    const std::size_t at = static_cast<std::size_t>(random_.below(static_cast<int>(all.size())));
    const Statement& s = *all[at];
    const std::string& name = codegen::target_name(program, s);
    std::vector<std::size_t> outputs, sums;
    for (std::size_t k = 0; k < s.indices.size(); ++k) {
      const bool output =
          std::ranges::any_of(s.target.element, [&](const poly::Affine& e) { return !e.coefficients[k].is(0); });
      (output ? outputs : sums).push_back(k);
    }
    const auto extent = [&](std::size_t k) { return s.domain[k].extent->get(); };
    switch (stage) {
      case RewriteStage::Inline: return Inline{name};
      case RewriteStage::Sums: {
        if (random_.chance(6)) return Reach{name};
        if (random_.chance(6)) return Unfold{name};
        if (random_.chance(3))
          return random_.chance(2) ? codegen::Directive(Absorb{name}) : codegen::Directive(Restate{name});
        if (!sums.empty() && random_.chance(3)) {
          const std::size_t k = random_.pick(sums);
          return Chunks{name, s.indices[k], up_to(extent(k), random_)};
        }
        Factor factor{name, {}};
        for (const std::size_t k : sums) if (random_.chance(2)) factor.sums.push_back(s.indices[k]);
        return factor.sums.empty() ? std::nullopt : std::optional<codegen::Directive>(factor);
      }
      case RewriteStage::Seeks: {
        if (s.reads.empty()) return std::nullopt;
        return Seek{program.tensor(random_.pick(s.reads).tensor).name};
      }
      case RewriteStage::Online: return pass(program, all, at);
      case RewriteStage::Scans: {
        const auto scan = codegen::scan_of(s);
        if (const auto window = codegen::window_of(s))
          return window->further ? codegen::Directive(Terms{name}) : codegen::Directive(Windows{name});
        if (!scan) return std::nullopt;
        return scan->further ? codegen::Directive(Terms{name})
                             : codegen::Directive(Blocks{name, up_to(extent(scan->along), random_)});
      }
      case RewriteStage::Pairs: {
        Pairs pairs{name, {}};
        for (const std::size_t k : codegen::plain_sums(program, s))
          if (random_.chance(2)) pairs.sums.push_back(s.indices[k]);
        return pairs.sums.empty() ? std::nullopt : std::optional<codegen::Directive>(pairs);
      }
      case RewriteStage::Splits: {
        if (sums.empty()) return std::nullopt;
        const std::size_t k = random_.pick(sums);
        return Split{name, s.indices[k], up_to(extent(k), random_)};
      }
      case RewriteStage::Copies:
        if (random_.chance(3)) return random_.chance(2) ? other_order(s, name, outputs) : boxes(program, at);
        [[fallthrough]];
      case RewriteStage::Panels: {
        if (s.reads.empty()) return std::nullopt;
        const poly::Access& read = random_.pick(s.reads);
        const std::string& operand = program.tensor(read.tensor).name;
        const std::int64_t which = random_.chance(4) ? 1 : 0;
        if (stage == RewriteStage::Panels && outputs.empty()) return std::nullopt;
        if (stage == RewriteStage::Panels) {
          const std::size_t k = random_.pick(outputs);
          return Panels{operand, name, s.indices[k], up_to(extent(k), random_), which};
        }
        std::vector<std::int64_t> order;
        for (std::size_t d = 0; d < read.element.size(); ++d) order.push_back(static_cast<std::int64_t>(d));
        if (order.empty()) return std::nullopt;
        return Copy{operand, name, shuffled(order, random_), which};
      }
      case RewriteStage::Finishes: return finish(program, all, at);
      case RewriteStage::Rows: return rows(program, all, at);
      case RewriteStage::Rests: return codegen::directives::Rest{name};
    }
    return std::nullopt;
  }

  std::optional<codegen::Directive> other_order(
      const Statement& s, const std::string& name, const std::vector<std::size_t>& outputs) {
    Stage stage{name, {}};
    for (const std::size_t k : shuffled(outputs, random_)) stage.order.push_back(s.indices[k]);
    return stage.order.empty() ? std::nullopt : std::optional<codegen::Directive>(stage);
  }

  // Folds over an index that is called alike, some outputs of the first as rows.
  std::optional<codegen::Directive> pass(
      const poly::Program& program, const std::vector<const Statement*>& all, std::size_t at) {
    for (std::size_t turns = 0; turns < all.size() && !codegen::reduces(*all[at]); ++turns) at = (at + 1) % all.size();
    Online made;
    for (std::size_t k = 0; k < all[at]->indices.size(); ++k) {
      if (!codegen::is_output_index(*all[at], k)) made.over = all[at]->indices[k];
      else if (!random_.chance(4)) made.rows.push_back(all[at]->indices[k]);
    }
    if (made.over.empty() || made.rows.empty()) return std::nullopt;
    made.rows = shuffled(made.rows, random_);
    for (std::size_t n = at; n < all.size(); ++n)
      if (n == at || (codegen::reduces(*all[n]) && random_.chance(2)))
        made.tensors.push_back(codegen::target_name(program, *all[n]));
    return made;
  }

  // Boxes of some indices of a contraction, with some of the copies around it.
  std::optional<codegen::Directive> boxes(const poly::Program& program, std::size_t at) {
    std::vector<const Statement*> all;
    std::vector<std::size_t> nodes;
    for (std::size_t n = 0; n < program.nodes.size(); ++n)
      if (const auto* s = std::get_if<Statement>(&program.nodes[n])) all.push_back(s), nodes.push_back(n);
    for (std::size_t turns = 0; turns < all.size() && !codegen::reduces(*all[at]); ++turns) at = (at + 1) % all.size();
    if (!codegen::reduces(*all[at])) return std::nullopt;
    Tile made;
    std::vector<std::size_t> members = codegen::tiled_with(program, nodes[at]);
    while (members.front() != nodes[at] && random_.chance(4)) members.erase(members.begin());
    if (members.back() != nodes[at] && random_.chance(4)) members.pop_back();
    for (const std::size_t n : members)
      made.tensors.push_back(codegen::target_name(program, std::get<Statement>(program.nodes[n])));
    const Statement& sum = *all[at];
    for (const std::size_t k : shuffled(codegen::in_order(sum.indices.size()), random_)) {
      const std::int64_t extent = sum.domain[k].extent->get();
      if (extent < 2 || random_.chance(3)) continue;
      made.over.push_back(sum.indices[k]), made.by.push_back(up_to(extent - 1, random_));
    }
    return made.over.empty() ? std::nullopt : std::optional<codegen::Directive>(made);
  }

  // A fold, and some of what goes on from it element by element.
  std::optional<codegen::Directive> finish(
      const poly::Program& program, const std::vector<const Statement*>& all, std::size_t at) {
    for (std::size_t turns = 0; turns < all.size() && !codegen::reduces(*all[at]); ++turns) at = (at + 1) % all.size();
    Finish made{{codegen::target_name(program, *all[at])}};
    for (std::size_t n = at + 1; n < all.size(); ++n) {
      const auto follows = [&](const poly::Access& read) {
        return std::ranges::find(made.tensors, program.tensor(read.tensor).name) != made.tensors.end();
      };
      if (!codegen::reduces(*all[n]) && std::ranges::any_of(all[n]->reads, follows) && !random_.chance(4))
        made.tensors.push_back(codegen::target_name(program, *all[n]));
    }
    return made;
  }

  // Some statements from one on, by dimensions of that one, or by what it sums over.
  std::optional<codegen::Directive> rows(
      const poly::Program& program, const std::vector<const Statement*>& all, std::size_t at) {
    Share share;
    for (std::size_t n = at; n < all.size() && share.tensors.size() < 5; ++n)
      if (n == at || !random_.chance(4)) share.tensors.push_back(codegen::target_name(program, *all[n]));
    const std::size_t most = std::min<std::size_t>(3, all[at]->target.element.size());
    if (share.tensors.size() < 2) return std::nullopt;
    const int count = most == 0 ? 0 : random_.between(1, static_cast<int>(most));
    const bool first = random_.chance(2);              // dimensions
    for (const poly::Affine& e : all[at]->target.element) {
      const auto k = e.single_index();
      if (k && static_cast<int>(share.rows.size()) < count && (first || random_.chance(2)))
        share.rows.push_back(all[at]->indices[*k]);
    }
    if (random_.chance(2)) share.size = up_to(6, random_);
    if (share.size > 0 && (share.rows.empty() || random_.chance(3)))
      for (std::size_t k = 0; k < all[at]->indices.size(); ++k)
        if (!codegen::is_output_index(*all[at], k)) share.rows.push_back(all[at]->indices[k]);
    return share.rows.empty() ? std::nullopt : std::optional<codegen::Directive>(share);
  }

  const Case& case_;
  const codegen::Request& request_;
  const poly::Program& reduced_;
  Random& random_;
  codegen::Strides strides_;
  codegen::Given given_;
};

// ---- groups

class Groups {
 public:
  Groups(const codegen::Plan& plan, const codegen::Fused& fused, const codegen::Target& target, Random& random)
      : plan_(plan), fused_(fused), target_(target), random_(random) {}

  // One that fits, in the place of the chosen one; nothing when chance finds none.
  std::optional<Group> drawn(const Group& chosen) {
    for (int tries = 0; tries < 8; ++tries) {
      const Group group = changed(chosen);
      if (codegen::loops_fault(plan_, group, chosen, fused_.sets, fused_.strides, target_)) continue;
      bool fits = true;
      for (std::size_t l = 0; l < group.body.size() && fits; ++l)
        fits = !codegen::leaf_fault(plan_, group, group.body[l], chosen.body[l], fused_.strides, target_);
      if (fits) return group;
    }
    return std::nullopt;
  }

 private:
  Group changed(const Group& chosen) {
    if (chosen.body.front().is<forms::Online>()) return other_tile(chosen);
    if (target_.capability >= 80 && !random_.chance(3))
      if (auto group = on_tensor_cores(chosen)) return *group;
    Group group = chosen;
    if (codegen::finishes(chosen)) {
      std::erase_if(group.locals, [&](const poly::TensorId&) { return random_.chance(3); });
      group.threads = random_.pick({128, 256});
      group.body.front() = changed(group, group.body.front());
      return group;
    }
    if (!random_.chance(3) && group.tile.empty()) group.loops = loops(chosen);
    if (random_.chance(3) && group.tile.empty())
      std::erase_if(group.locals, [&](const poly::TensorId&) { return random_.chance(2); });
    const bool walks = !group.loops.empty() && group.loops.back().walk;
    std::erase_if(group.kept, [&](const poly::TensorId&) { return !walks || random_.chance(3); });
    for (Compute& leaf : group.body)
      if (!random_.chance(5)) leaf = changed(group, leaf);
    return group;
  }

  // A pass on tensor cores, or with a tile of another shape.
  Group other_tile(Group group) {
    for (const codegen::MatrixInstruction& i : codegen::matrix_instructions())
      if (codegen::has_instruction(target_, i) && !i.from_shared() && lang::bytes(i.operand) == 2 && random_.chance(3))
        return tile_on_cores(std::move(group), i);
    for (Compute& leaf : group.body)
      if (auto* online = leaf.as<forms::Online>()) online->instruction.clear();
    group.threads = random_.pick({32, 64, 128});
    const std::int64_t rows = random_.pick({1, 2, 4, 8}), lanes = random_.pick({4, 8, 16}),
                       height = group.threads / lanes * rows, depth = lanes * random_.pick({1, 2, 4});
    for (Compute& leaf : group.body) {
      if (leaf.is<forms::Finish>()) continue;
      const codegen::Nest nest = codegen::leaf_nest(plan_.program, group, leaf, fused_.strides);
      const auto part = std::get<codegen::OnlinePart>(codegen::online_part(nest, leaf.m(), group.body.front().n));
      leaf.as<forms::Online>()->depth = depth;
      leaf.rows = 1, leaf.vectors = 1, leaf.lanes = std::max<std::int64_t>(1, group.threads / height);
      if (part.role != codegen::OnlinePart::Product && part.role != codegen::OnlinePart::Sum) continue;
      const std::int64_t columns = part.role == codegen::OnlinePart::Product ? depth : nest.dims[part.column].extent;
      leaf.rows = rows, leaf.lanes = lanes, leaf.vectors = (columns + lanes - 1) / lanes;
    }
    return group;
  }

  Group tile_on_cores(Group group, const codegen::MatrixInstruction& i) {
    group.threads = random_.pick({32, 64, 128});
    const std::int64_t tall = random_.pick({1, 2}), depth = i.k * random_.pick({1, 2, 3, 4});
    for (Compute& leaf : group.body) {
      if (leaf.is<forms::Finish>()) continue;
      const codegen::Nest nest = codegen::leaf_nest(plan_.program, group, leaf, fused_.strides);
      const auto part = std::get<codegen::OnlinePart>(codegen::online_part(nest, leaf.m(), group.body.front().n));
      *leaf.as<forms::Online>() = {leaf.m(), depth, i.name};
      leaf.rows = 2 * tall, leaf.vectors = 1, leaf.lanes = 4;
      if (part.role != codegen::OnlinePart::Product && part.role != codegen::OnlinePart::Sum) continue;
      const std::int64_t columns =
          part.role == codegen::OnlinePart::Product ? depth : (nest.dims[part.column].extent + i.k - 1) / i.k * i.k;
      leaf.rows = tall, leaf.lanes = i.threads(), leaf.vectors = columns / i.n;
    }
    return group;
  }

  std::vector<codegen::Loop> loops(const Group& chosen) {
    std::vector<codegen::Loop> all;
    const codegen::Nest nest = codegen::leaf_nest(plan_.program, chosen, chosen.body.back(), fused_.strides);
    const auto step = [&](std::int64_t extent) {
      return random_.chance(target_.family == codegen::Target::Family::Cpu ? 3 : 2) ? 1 : up_to(extent + 1, random_);
    };
    if (chosen.body.size() == 1) {
      for (const codegen::Dim& dim : nest.dims)
        if (!dim.reduction && random_.chance(2)) all.push_back({dim.name, step(dim.extent)});
      return shuffled(all, random_);
    }
    for (const codegen::Loop& loop : chosen.loops) {
      const auto d = nest.dim(loop.index);
      const bool summed = std::ranges::any_of(chosen.body, [&](const Compute& leaf) {
        const auto* s = std::get_if<Statement>(&plan_.program.nodes[static_cast<std::size_t>(leaf.node)]);
        return s && codegen::part_of_turn(*s, loop, fused_.strides);
      });
      all.push_back({loop.index, summed ? loop.step : step(d ? nest.dims[*d].extent : 1)});
    }
    if (all.empty()) return all;                       // one block has all of it
    if (all.back().step > 1 && random_.chance(2)) all.back().walk = up_to(all.back().step - 1, random_);
    else if (random_.chance(3)) all.pop_back();
    if (random_.chance(2)) for (std::size_t l = 0; l + 1 < all.size(); ++l) all[l].step = 1;
    return all;
  }

  Compute changed(const Group& group, const Compute& was) {
    const codegen::Nest nest = codegen::leaf_nest(plan_.program, group, was, fused_.strides);
    std::vector<std::string> outputs, sums;
    for (const codegen::Dim& dim : nest.dims) {
      const auto one = [&](const codegen::Loop& loop) { return loop.index == dim.name && loop.part() == 1; };
      const bool fixed = std::ranges::any_of(group.loops, one) || std::ranges::any_of(codegen::origins(group), one);
      if (!fixed) (dim.reduction ? sums : outputs).push_back(dim.name);
    }
    outputs = shuffled(outputs, random_), sums = shuffled(sums, random_);
    Compute leaf;
    leaf.node = was.node;
    const auto scan = was.is<forms::Fill>() ? std::nullopt : codegen::scan_of(nest);
    if (was.is<forms::Fill>()) leaf.form = forms::Fill{};
    else if (scan && !random_.chance(3)) leaf.form = forms::Scan{nest.dims[scan->along].name};
    else if (!sums.empty() && random_.chance(3)) leaf.form = forms::Reduce{};
    else if (!sums.empty()) leaf.form = forms::Contract{};
    const auto take = [&](std::vector<std::string>& from) {
      const std::string name = from.back();
      from.pop_back();
      return name;
    };
    if (const auto* form = leaf.as<forms::Scan>()) {
      std::erase(outputs, form->along);
      sums = {nest.dims[scan->over].name};
    }
    if (leaf.is<forms::Reduce>()) leaf.n = take(sums);
    else if (!outputs.empty() && !random_.chance(6)) leaf.n = take(outputs);
    if ((leaf.block() || (leaf.is<forms::Reduce>() && !group.threads)) && !outputs.empty() && !random_.chance(3))
      leaf.set_m(take(outputs));
    leaf.outer = outputs, leaf.k = sums;
    sizes(group, nest, leaf);
    return leaf;
  }

  void sizes(const Group& group, const codegen::Nest& nest, Compute& leaf) {
    const bool block = !leaf.m().empty() || leaf.is<forms::Scan>();
    leaf.rows = block ? random_.between(1, leaf.is<forms::Scan>() ? 8 : leaf.is<forms::Reduce>() ? 20 : 6) : 1;
    if (group.threads) {
      const bool finishes = codegen::finishes(group);
      leaf.lanes = group.threads;
      leaf.vectors = leaf.is<forms::Reduce>() ? random_.between(1, 4) : 1;
      const bool map = leaf.is<forms::Map>() || leaf.is<forms::Fill>();
      if (map && !leaf.m().empty() && !leaf.n.empty() && group.loops.empty() && group.body.size() == 1)
        leaf.block()->turned = random_.chance(2);
      if (map && !leaf.block()->turned) leaf.vectors = random_.between(1, 4);
      if (leaf.is<forms::Contract>() && !leaf.m().empty() && !leaf.n.empty() && group.loops.empty() &&
          (finishes || (group.body.size() == 1 && random_.chance(2))))
        stage(leaf);
      return;
    }
    leaf.lanes = leaf.n.empty() ? 1 : random_.pick({1, 2, 4, 8, 16, 16, 16, 32});
    leaf.vectors = leaf.n.empty() ? 1 : random_.between(1, 4);
    auto* contract = leaf.as<forms::Contract>();
    if (contract && !leaf.k.empty() && group.tile.empty() && random_.chance(3))
      contract->chunk = up_to(nest.dims[*nest.dim(leaf.k.front())].extent - 1, random_);
    if (contract && !contract->chunk && !leaf.k.empty() && group.tile.empty() && random_.chance(4))
      contract->taps = random_.between(1, static_cast<int>(leaf.k.size()));
    const bool once = leaf.is<forms::Map>() || (contract && !contract->chunk && !contract->taps);
    if (once && random_.chance(4)) leaf.set_streams();
    if ((once || contract || leaf.is<forms::Reduce>()) && random_.chance(3)) go_ahead(leaf);
    if (once && !leaf.streams() && random_.chance(3)) leaf.block()->claims = true;
    if (leaf.block() && !leaf.m().empty() && !leaf.n.empty()) leaf.block()->m_inner = !random_.chance(3);
  }

  void stage(Compute& leaf) {
    forms::Staged staged{leaf.m(), random_.pick({1, 3, 4, 8, 16}), {}, {}};
    for (const std::string& index : std::vector(leaf.outer)) {
      if (!random_.chance(2)) continue;
      (random_.chance(2) ? staged.outside_n : staged.outside).push_back(index);
      std::erase(leaf.outer, index);
    }
    staged.across = random_.chance(3);
    leaf.form = staged;
    leaf.rows = random_.pick({1, 2, 3, 4, 8}), leaf.vectors = random_.pick({1, 2, 4, 6}),
    leaf.lanes = random_.pick({4, 8, 16, 32});
  }

  // On tensor cores, where they multiply its factors.
  std::optional<Group> on_tensor_cores(const Group& chosen) {
    const Compute& was = chosen.body.front();
    if ((chosen.body.size() > 1 && !codegen::finishes(chosen)) || was.is<forms::Fill>() ||
        !std::holds_alternative<Statement>(plan_.program.nodes[static_cast<std::size_t>(was.node)]))
      return std::nullopt;
    Group group = chosen;
    group.loops.clear();
    std::vector<std::string> outputs, sums;
    const codegen::Nest nest = codegen::leaf_nest(plan_.program, group, was, fused_.strides);
    for (const codegen::Dim& dim : nest.dims) (dim.reduction ? sums : outputs).push_back(dim.name);
    outputs = shuffled(outputs, random_), sums = shuffled(sums, random_);
    const bool across = random_.chance(3);
    const auto multiplied = [&](const codegen::MatrixInstruction& i, const std::vector<std::string>& m,
                                const std::vector<std::string>& n) {
      return codegen::multiplies(i, plan_.program, nest, codegen::staging_of(nest, m, n, sums, across),
          target_.math != codegen::Math::F32);
    };
    for (const std::string& m : outputs)
      for (const std::string& n : outputs) {
        std::vector<const codegen::MatrixInstruction*> usable;
        for (const codegen::MatrixInstruction& i : codegen::matrix_instructions())
          if (m != n && codegen::has_instruction(target_, i) && multiplied(i, {m}, {n})) usable.push_back(&i);
        if (usable.empty()) continue;
        // which say how many threads theirs have
        const bool tiles = was.is<forms::Staged>() || was.is<forms::TensorCores>();
        std::erase_if(
            usable, [&](const codegen::MatrixInstruction* i) { return !tiles && i->threads() > group.threads; });
        if (usable.empty()) continue;
        const codegen::MatrixInstruction* i = random_.pick(usable);
        // rows of shared memory are whole lines there
        const std::int64_t lines = i->from_shared() ? 128 / lang::bytes(i->operand) / i->k : 1;
        forms::TensorCores cores{m, i->name, i->k * lines * random_.between(1, i->from_shared() ? 2 : 4),
            random_.between(1, i->from_shared() ? 2 : 4), random_.between(1, i->from_shared() ? 2 : 4),
            random_.between(i->from_shared() ? 3 : 2, 4), {}, {}, across};
        if (!tiles)
          cores.warps_m = std::min<std::int64_t>(random_.pick({1, 2, 4}), group.threads / i->threads()),
          cores.warps_n = group.threads / i->threads() / cores.warps_m;
        group.threads = cores.threads();
        Compute& leaf = group.body.front();
        leaf = Compute();
        leaf.node = was.node, leaf.n = n, leaf.k = sums;
        std::vector<std::string> all_m{m}, all_n{n};
        for (const std::string& index : outputs) {
          if (index == m || index == n) continue;
          leaf.outer.push_back(index);
          for (const auto& [all, outside] : {std::pair(&all_m, &cores.outside), std::pair(&all_n, &cores.outside_n)}) {
            all->insert(all->begin(), index);
            const bool fits = multiplied(*i, all_m, all_n) && random_.chance(2);
            if (!fits) {
              all->erase(all->begin());
              continue;
            }
            outside->insert(outside->begin(), index);
            leaf.outer.pop_back();
            break;
          }
        }
        leaf.form = cores;
        leaf.rows = i->from_shared() ? 1 : random_.between(1, 4),
        leaf.vectors = (i->from_shared() ? 8 : 2) * random_.between(1, 4), leaf.lanes = i->threads();
        return group;
      }
    return std::nullopt;
  }

  void go_ahead(Compute& leaf) {
    std::vector<std::string> along = leaf.outer;
    along.insert(along.end(), leaf.k.begin(), leaf.k.end());
    if (!leaf.m().empty()) along.push_back(leaf.m());
    if (!leaf.n.empty()) along.push_back(leaf.n);
    for (int times = along.empty() ? 0 : random_.between(1, 2); times > 0; --times)
      leaf.ahead.push_back({random_.pick(along), random_.between(1, 40)});
  }

  const codegen::Plan& plan_;
  const codegen::Fused& fused_;
  const codegen::Target& target_;
  Random& random_;
};

std::optional<codegen::Stages> planned(
    const Case& c, codegen::Request request, const std::string& text, codegen::Until until) {
  lang::Diagnostics diagnostics;
  request.plan = codegen::PlanText{text, 0};
  auto stages = codegen::compile(c.file, request, until, diagnostics);
  if (!stages)
    throw lang::InternalError(fmt::format("a legal plan is refused: {}\n{}", diagnostics.all().back().message, text));
  return stages;
}

void count(const std::string& text, std::map<std::string, int>& counts) {
  for (codegen::PlanLine line : codegen::lines_of(text)) ++counts[line.head() == "no" ? "no" : line.next()];
  const auto within = [&](const std::string& word) {
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++counts[word];
  };
  for (const char* word : {"  mma", "  mma m64", "  stage", "  turned", "  across"}) within(word);
}

std::string kernels_of(const codegen::Stages& stages) {
  std::string text;
  for (const codegen::Step& step : stages.lowered->steps)
    text += fmt::format("{} {} {}\n{}", step.kernel, fmt::join(step.buffers, " "), fmt::join(step.numbers, " "),
        codegen::print(step.loops));
  return text;
}

}  // namespace

double in_one_register(const poly::Program& bounded) {
  double most = 1;
  for (const poly::Node& node : bounded.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    if (!s || s->aggregation != poly::Aggregation::Sum) continue;
    double terms = 1;
    for (std::size_t k = 0; k < s->indices.size(); ++k)
      if (std::ranges::all_of(s->target.element, [&](const poly::Affine& e) { return e.coefficients[k].is(0); }))
        terms *= static_cast<double>(s->domain[k].extent->get());
    most = std::max(most, terms / 16 / (1 + std::sqrt(terms) / 32 + terms / 1024));
  }
  return most;
}

std::string random_plan(
    const Case& c, const codegen::Request& request, Random& random, std::map<std::string, int>& counts) {
  lang::Diagnostics diagnostics;
  const auto chosen = codegen::compile(c.file, request, codegen::Until::Reduced, diagnostics);
  if (!chosen) throw lang::InternalError("refused where the reference is not");
  auto [text, fused] = Directives(c, request, *chosen->reduced, random).drawn();
  codegen::Plan plan = *planned(c, request, text, codegen::Until::Plan)->plan;
  std::vector<Group> groups;
  for (const Group& group : plan.groups)
    if (!random.chance(4))
      if (auto other = Groups(plan, fused, request.target, random).drawn(group)) groups.push_back(std::move(*other));
  plan.directives.clear();
  plan.groups = std::move(groups);
  text += codegen::print(plan);
  count(text, counts);
  return text;
}

std::string replay_fault(const Case& c, const codegen::Request& request, const codegen::Stages& chosen) {
  const std::string text = codegen::print(*chosen.plan);
  const auto again = planned(c, request, text, codegen::Until::Lowered);
  if (codegen::print(*again->plan) != text)
    return "its plan is followed to another one:\n" + text + "and\n" + codegen::print(*again->plan);
  if (kernels_of(*again) != kernels_of(chosen)) return "its plan is followed to other kernels:\n" + text;
  return "";
}

}  // namespace backends
