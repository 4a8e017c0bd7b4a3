#include "codegen/rewrite/rows.h"

#include <algorithm>
#include <map>

#include "codegen/choose/row_sets.h"
#include "codegen/choose/tails.h"
#include "codegen/part.h"
#include "codegen/plan.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/finish.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/share.h"
#include "codegen/rewrite/tile.h"
#include "codegen/scan.h"

namespace tilec::codegen {

namespace {

using poly::Program;
using poly::Statement;

// Sets in the order in which they begin, their statements one behind the other.
void put_in_order(Program& program, std::vector<Fused::Set>& sets) {
  std::vector<poly::Node> nodes;
  for (Fused::Set& set : sets)
    for (int& node : set.nodes) {
      nodes.push_back(std::move(program.nodes[static_cast<std::size_t>(node)]));
      node = static_cast<int>(nodes.size()) - 1;
    }
  program.nodes = std::move(nodes);
}

// What adds up parts, as further statements: by columns of all that are cut in two and have as many of them, else
// alone.
std::vector<Fused::Set> sets_of_sums(Rewriting& r, const std::vector<Statement>& sums) {
  std::vector<Fused::Set> sets;
  const auto shape = [&](const Statement& s) { return extents(r.program.tensor(s.target.tensor)); };
  for (std::size_t n = 0; n < sums.size(); ++n) {
    const int node = static_cast<int>(r.program.nodes.size());
    r.program.nodes.emplace_back(sums[n]);
    const bool cut = n + 1 < sums.size() && reads(sums[n + 1], sums[n].target.tensor);
    if (!cut) {
      sets.push_back({{node}, {}, {}});
      continue;
    }
    const Statement& rest = sums[++n];
    r.program.nodes.emplace_back(rest);
    const std::vector<std::size_t> columns = in_order(rest.target.element.size());
    const auto like = std::ranges::find_if(sets, [&](const Fused::Set& set) {
      return set.nodes.size() > 1 &&
          shape(std::get<Statement>(r.program.nodes[static_cast<std::size_t>(set.nodes[1])])) == shape(rest);
    });
    Fused::Set& set = like == sets.end() ? sets.emplace_back() : *like;
    if (set.nodes.empty())
      set.indices.assign(rest.indices.begin(), rest.indices.begin() + static_cast<std::ptrdiff_t>(columns.size()));
    for (const int member : {node, node + 1}) set.nodes.push_back(member), set.loops.push_back(columns);
  }
  for (const Fused::Set& set : sets) note(r, set), rename_rows(r.program, set);
  return sets;
}

// Sums of parts that were cut in two (split.h): the first adds up what the second adds up.
bool sums_of_parts(const Rewriting& r, const Fused::Set& first, const Fused::Set& second) {
  if (!has_threads(r.target) || first.nodes.size() != 1 || second.nodes.size() != 1) return false;
  const auto of = [&](const Fused::Set& set) {
    return std::get_if<Statement>(&r.program.nodes[static_cast<std::size_t>(set.nodes.front())]);
  };
  const auto adds_parts = [&](const Statement* s) {
    const auto is_part = [&](const poly::Access& read) { return r.parts.contains(read.tensor); };
    return s && reduces(*s) && !s->target.element.empty() && std::ranges::any_of(s->reads, is_part);
  };
  const Statement *some = of(first), *rest = of(second);
  return adds_parts(some) && adds_parts(rest) && !finished(r, rest->target.tensor) && rest->reads.size() == 1 &&
      rest->value.as<poly::Read>() && rest->reads.front().tensor == some->target.tensor;
}

}  // namespace

void share_rows(Rewriting& r) {
  std::vector<Shared> chosen = sets_that_share_rows(r);
  std::vector<Fused::Set> sets;
  for (std::size_t n = 0; n < chosen.size(); ++n) {
    const Shared& one = chosen[n];
    if (n + 1 < chosen.size() && sums_of_parts(r, one.set, chosen[n + 1].set)) {
      const auto statement = [&](const Shared& of) {
        return std::get<Statement>(r.program.nodes[static_cast<std::size_t>(of.set.nodes.front())]);
      };
      for (Fused::Set& set : sets_of_sums(r, {statement(one), statement(chosen[++n])})) sets.push_back(std::move(set));
      continue;
    }
    note(r, one.set);
    const std::vector<Statement> behind = divide(r, one);
    rename_rows(r.program, one.set);
    sets.push_back(one.set);
    for (Fused::Set& set : sets_of_sums(r, behind)) sets.push_back(std::move(set));
  }
  if (has_threads(r.target)) join_tails(r, sets);
  put_in_order(r.program, sets);
}

bool may_share_rows(const Rewriting& r) {
  return std::ranges::any_of(sets_that_share_rows(r), [](const Shared& one) { return one.set.nodes.size() > 1; });
}

namespace {

std::vector<Fused::Set> sets_of(const Rewriting& r) {
  std::map<TensorId, const Rewriting::Rows*> shared;
  std::map<TensorId, const Rewriting::Tile*> tiles;
  for (const Rewriting::Rows& rows : r.rows)
    for (const TensorId id : rows.tensors) shared.emplace(id, &rows);
  for (const Rewriting::Tile& tile : r.tiles)
    for (const TensorId id : tile.tensors) tiles.emplace(id, &tile);
  std::map<TensorId, const Rewriting::Online*> passes;
  for (const Rewriting::Online& pass : r.online)
    for (const auto* tensors : {&pass.tensors, &pass.finishing})
      for (const TensorId id : *tensors) passes.emplace(id, &pass);
  std::map<TensorId, const std::vector<TensorId>*> finishes;
  for (const std::vector<TensorId>& all : r.finishes)
    for (const TensorId id : all) finishes.emplace(id, &all);
  std::vector<Fused::Set> sets;
  const std::vector<TensorId>* open_finish = nullptr;
  const Rewriting::Rows* open = nullptr;
  const Rewriting::Tile* open_tile = nullptr;
  const Rewriting::Online* open_pass = nullptr;
  for (std::size_t n = 0; n < r.program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
    const auto at = s ? shared.find(s->target.tensor) : shared.end();
    const Rewriting::Rows* rows = at == shared.end() ? nullptr : at->second;
    const auto box = s ? tiles.find(s->target.tensor) : tiles.end();
    const Rewriting::Tile* tile = box == tiles.end() ? nullptr : box->second;
    const auto through = s ? passes.find(s->target.tensor) : passes.end();
    const Rewriting::Online* pass = through == passes.end() ? nullptr : through->second;
    const auto done = s ? finishes.find(s->target.tensor) : finishes.end();
    const std::vector<TensorId>* finish = done == finishes.end() ? nullptr : done->second;
    if ((!rows || rows != open) && (!tile || tile != open_tile) && (!pass || pass != open_pass) &&
        (!finish || finish != open_finish))
      sets.push_back({{}, rows ? rows->indices : std::vector<std::string>(), {}});
    open = rows, open_tile = tile, open_pass = pass, open_finish = finish;
    Fused::Set& set = sets.back();
    if (pass) set.indices = pass->rows, set.over = pass->over, set.twice = pass->twice;
    if (tile) set.tile = tile->steps;
    set.finishing += (pass && std::ranges::find(pass->finishing, s->target.tensor) != pass->finishing.end()) ||
        (finish && finish->front() != s->target.tensor);
    set.nodes.push_back(static_cast<int>(n));
    set.blocks = set.blocks || (s && contracts(r.program, *s));
    if (!rows) continue;
    set.parts = rows->parts;
    set.loops.emplace_back();
    for (const std::string& index : rows->indices) set.loops.back().push_back(*index_of(*s, index));
    if (rows->indices.empty()) continue;
    set.strips = set.strips || lies_along(r.program, r.strides, *s, set.loops.back().back(), r.target);
  }
  return sets;
}

}  // namespace

Fused in_sets(Rewriting r) {
  align_rows(r.program, r.strides, r.target);
  std::vector<Fused::Set> sets = sets_of(r);
  return Fused{std::move(r.program), std::move(r.strides), std::move(sets), std::move(r.done)};
}

}  // namespace tilec::codegen
