// Directives are read before the Program is rewritten, groups afterwards: they name what the directives make.
#include "codegen/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "codegen/fits.h"
#include "codegen/rewrite/stage_words.h"
#include "lang/messages.h"
#include "lang/nearest.h"

namespace tilec::codegen {

namespace messages = lang::messages;

namespace {

// `no inline`: of this stage nothing is done but what other lines say.
bool says_none(PlanLine line, Given& given, lang::Diagnostics& diagnostics) {
  line.next();
  const lang::Span span = line.here();
  const auto stage = stage_of(line.next());
  if (!stage || line.more()) {
    diagnostics.report(stage ? line.here() : span, messages::plan_line, "behind `no` stands the word of a directive");
    return false;
  }
  given.stages.insert(*stage);
  return true;
}

bool add(const PlanLine& line, Given& given, lang::Diagnostics& diagnostics) {
  PlanFault fault;
  auto directive = parse_directive(line, fault);
  if (!directive) {
    diagnostics.report(fault.span, messages::plan_line, fault.what);
    return false;
  }
  if (!given.directives.empty() && stage_of(*directive) < stage_of(given.directives.back().directive)) {
    diagnostics.report(line.span(), messages::plan_order, print(*directive), print(given.directives.back().directive))
        .hint("directives stand in this order: " + order_of_directives());
    return false;
  }
  given.stages.insert(stage_of(*directive));
  given.directives.push_back({std::move(*directive), line.span()});
  return true;
}

}  // namespace

std::optional<Given> given_in(const std::vector<PlanLine>& lines, lang::Diagnostics& diagnostics) {
  Given given;
  for (const PlanLine& line : lines) {
    if (line.head() == "group") break;
    if (line.head() == "no" ? !says_none(line, given, diagnostics) : !add(line, given, diagnostics))
      return std::nullopt;
  }
  return given;
}

namespace {

class Replay {
 public:
  Replay(Plan& plan, const Fused& fused, const Target& target, lang::Diagnostics& diagnostics)
      : plan_(plan), fused_(fused), target_(target), diagnostics_(diagnostics), taken_(plan.groups.size(), false) {}

  bool group(const GivenGroup& given) {
    const auto at = place_of(given);
    if (!at)
      return refuse(given.span, given,
          given.leaves.empty()
              ? "no launch has this name"
              : fmt::format(
                    "no launch computes {} and nothing else; `share` says which statements have one", what(given)));
    if (taken_[*at]) return refuse(given.span, given, "it is given twice");
    taken_[*at] = true;
    const Group chosen = plan_.groups[*at];
    Group group = given.group;
    if (group.threads == 0) group.threads = chosen.threads;
    if (given.leaves.empty() && !given.parallel) group.loops = chosen.loops, group.tile = chosen.tile;
    if (given.leaves.empty() && !given.parallel && group.locals.empty())
      group.locals = chosen.locals, group.kept = chosen.kept;
    if (group.loops != chosen.loops || group.tile != chosen.tile || group.locals != chosen.locals ||
        group.kept != chosen.kept || group.threads != chosen.threads || group.name != chosen.name)
      if (const auto why = loops_fault(plan_, group, chosen, fused_.sets, fused_.strides, target_))
        return refuse(given.span, given, *why);
    group.body = chosen.body;                          // so many leaves: their dimensions depend on it
    std::vector<Compute> body;
    for (std::size_t l = 0; l < chosen.body.size(); ++l) {
      if (given.leaves.empty()) {
        body.push_back(group.loops == chosen.loops
                ? chosen.body[l]
                : chosen_leaf(plan_, group, chosen.body[l], fused_.strides, target_));
        continue;
      }
      const auto made = completed(given.leaves[l], group, chosen, l);
      if (!made) return false;
      body.push_back(*made);
    }
    group.body = std::move(body);
    if (group == chosen) return true;
    for (std::size_t l = 0; l < group.body.size(); ++l)
      if (const auto why = leaf_fault(plan_, group, group.body[l], chosen.body[l], fused_.strides, target_))
        return refuse(given.leaves.empty() ? given.span : given.leaves[l].span, given, *why);
    plan_.why[*at] = {extents_of(group), {}};
    plan_.groups[*at] = std::move(group);
    return true;
  }

 private:
  bool refuse(lang::Span span, const GivenGroup& given, const std::string& why) {
    diagnostics_.report(span, messages::plan_group, given.group.name, why);
    return false;
  }

  // How many elements each loop has.
  std::vector<std::int64_t> extents_of(const Group& group) const {
    std::vector<std::int64_t> extents(group.loops.size(), 1);
    for (const Compute& leaf : group.body) {
      const Nest nest = leaf_nest(plan_.program, group, leaf, fused_.strides);
      for (std::size_t l = 0; l < extents.size(); ++l)
        if (const auto d = nest.dim(group.loops[l].index)) extents[l] = nest.dims[*d].extent;
    }
    return extents;
  }

  std::string what(const GivenGroup& given) const {
    std::vector<std::string> names;
    for (const GivenLeaf& leaf : given.leaves)
      names.push_back(fmt::format("`{}`", plan_.program.tensor(target_of(plan_.program, leaf.leaf.node)).name));
    return fmt::format("{}", fmt::join(names, ", "));
  }

  // The launch that computes the same; without leaves, the last one of this name, as that of a fill has it too.
  std::optional<std::size_t> place_of(const GivenGroup& given) const {
    for (std::size_t g = plan_.groups.size(); g-- > 0;) {
      const Group& group = plan_.groups[g];
      if (given.leaves.empty() ? group.name != given.group.name : group.body.size() != given.leaves.size()) continue;
      const auto same = [](const Compute& a, const GivenLeaf& b) {
        return a.node == b.leaf.node && a.is<forms::Fill>() == b.leaf.is<forms::Fill>();
      };
      if (given.leaves.empty() || std::equal(group.body.begin(), group.body.end(), given.leaves.begin(), same))
        return g;
    }
    return std::nullopt;
  }

  // A leaf with what is chosen for these loops where it says nothing.
  std::optional<Compute> completed(const GivenLeaf& given, const Group& group, const Group& chosen, std::size_t l) {
    const auto refused = [&](const std::string& why) -> std::optional<Compute> {
      diagnostics_.report(given.span, messages::plan_group, group.name, why);
      return std::nullopt;
    };
    if (!given.misfit.empty()) return refused(given.misfit);
    if (given.loops && given.block) return given.leaf;
    if (given.loops) return refused("a leaf that says its indices also says its `block` and `lanes`");
    Compute leaf = group.loops == chosen.loops && same_word(given.leaf, chosen.body[l])
        ? chosen.body[l]
        : chosen_leaf(plan_, group, chosen.body[l], fused_.strides, target_);
    if (!same_word(leaf, given.leaf))
      return refused("a leaf of another form than the chosen one says its indices and its `block` and `lanes`");
    return given.block ? sized(given.leaf, leaf) : leaf;
  }

  static bool same_word(const Compute& a, const Compute& b) {
    return std::string_view(word_of(a.form)) == word_of(b.form);
  }

  // What is said, over the indices of what is chosen.
  static Compute sized(Compute said, const Compute& chosen) {
    said.outer = chosen.outer, said.n = chosen.n, said.k = chosen.k;
    said.set_m(chosen.m());
    if (const auto* scan = chosen.as<forms::Scan>()) said.form = *scan;
    return said;
  }

  Plan& plan_;
  const Fused& fused_;
  const Target& target_;
  lang::Diagnostics& diagnostics_;
  std::vector<bool> taken_;
};

}  // namespace

bool replay(Plan& plan, const Fused& fused, const std::vector<PlanLine>& lines, const Target& target,
    lang::Diagnostics& diagnostics) {
  if (lines.empty()) return true;
  PlanFault fault;
  const auto groups = parse_groups(lines, plan.program, fault);
  if (!groups) {
    diagnostics.report(fault.span, messages::plan_line, fault.what);
    return false;
  }
  Replay one(plan, fused, target, diagnostics);
  for (const GivenGroup& group : *groups)
    if (!one.group(group)) return false;
  return true;
}

}  // namespace tilec::codegen
