#include "codegen/choose/columns.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "autodiff/graph.h"
#include "codegen/choose/row_candidates.h"
#include "codegen/loops.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/finish.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/share.h"
#include "codegen/rewrite/split.h"
#include "codegen/rewrite/tile.h"
#include "codegen/scan.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Program;
using poly::Statement;

class Columns {
 public:
  explicit Columns(const Rewriting& r) : r_(r), program_(r.program) {}

  std::optional<OpenSet> grow(int first, const std::function<bool(std::size_t)>& free) {
    const Statement* fold = statement(first);
    if (!fold || !reduces(*fold) || !may_join(*fold)) return std::nullopt;
    OpenSet open{{first}, {{fold, rows_of_fold(*fold)}}, 0};
    if (!runs_down(open.members.front())) return std::nullopt;
    std::set<TensorId> passed;
    int skipped = 0, sum = weight(fold->value);
    for (std::size_t n = static_cast<std::size_t>(first) + 1;
        n < program_.nodes.size() && skipped < model::overtaken && sum < model::heavy_set; ++n) {
      if (!free(n)) continue;
      const std::vector<TensorId> needs = autodiff::operands(program_.nodes[n]);
      const bool waits = std::ranges::any_of(needs, [&](TensorId id) { return passed.contains(id); });
      if (!waits && joins(open, static_cast<int>(n))) {
        sum += weight(statement(static_cast<int>(n))->value);
        continue;
      }
      ++skipped;
      for (const TensorId id : autodiff::targets(program_.nodes[n])) passed.insert(id);
    }
    const bool pays = open.saved > 0 && goes_on(open.members) && stays_near(open.members) && fills(open.members);
    return pays ? std::optional(std::move(open)) : std::nullopt;
  }

  // How many columns a turn has.
  std::int64_t strip(const std::vector<Member>& all) const {
    const Member& first = all.front();
    const std::int64_t extent = codegen::extent(*first.statement, first.rows.back());
    const auto fit = static_cast<std::int64_t>(shared_for_rows(r_.target) / std::max(1.0, bytes_of_column(all)));
    return columns_of_a_turn(fit, extent, other_rows(first),
        lang::bytes(program_.tensor(all.back().statement->target.tensor).dtype), r_.target);
  }

 private:
  const Statement* statement(int node) const {
    return std::get_if<Statement>(&program_.nodes[static_cast<std::size_t>(node)]);
  }

  bool may_join(const Statement& s) const {
    const TensorId id = s.target.tensor;
    return !contracts(program_, s) && s.kernel_name.empty() && !is_step(r_, s) && !scan_of(s) &&
        !std::holds_alternative<TensorId>(s.fill) && !tiled(r_, id) && !in_pass(r_, id) && !finished(r_, id);
  }

  // Its whole outputs, in the order of the target; parts of a fold are folded within the block.
  std::vector<std::size_t> rows_of_fold(const Statement& s) const {
    std::vector<std::size_t> rows;
    for (const Lead& lead : open_leads(program_, s)) rows.push_back(lead.index);
    if (r_.parts.contains(s.target.tensor) && !rows.empty()) rows.erase(rows.begin());
    return rows;
  }

  // Whether neighbours along the last row lie side by side wherever it is mentioned, and nothing else does that is
  // folded.
  bool runs_down(const Member& member) const {
    if (member.rows.empty()) return false;
    const Statement& s = *member.statement;
    const std::size_t last = member.rows.back();
    const auto stride = [&](const Access& access, std::size_t k) {
      return std::abs(stride_along(access, k, r_.strides));
    };
    if (stride(s.target, last) != 1) return false;
    const bool few = points(s) <= model::threads::small_sum;  // slices of which take as long as a launch
    return std::ranges::all_of(s.reads, [&](const Access& read) {
      if (stride(read, last) != 1) return stride(read, last) == 0 || (few && is_slice(program_, read));
      for (std::size_t k = 0; k < s.indices.size(); ++k)
        if (!is_output_index(s, k) && stride(read, k) == 1) return false;
      return true;
    });
  }

  bool touched(const OpenSet& open, TensorId id) const {
    return std::ranges::any_of(open.nodes, [&](int node) {
      return statement(node)->target.tensor == id || reads(program_.nodes[static_cast<std::size_t>(node)], id);
    });
  }

  // Bytes of what it reads or writes that the set reads or writes.
  double bytes_in_common(const OpenSet& open, const Statement& s) const {
    std::set<TensorId> own{s.target.tensor};
    for (const Access& read : s.reads) own.insert(read.tensor);
    double bytes = 0;
    for (const TensorId id : own) if (touched(open, id)) bytes += bytes_of(program_, id);
    return bytes;
  }

  // Its indices that run over the rows of the set; none: there are none for some of them.
  std::vector<std::size_t> rows_in(const OpenSet& open, const Statement& s) const {
    const Member& first = open.members.front();
    const auto found = aligned(open.members, s);
    const Leads leads = open_leads(program_, s);
    std::vector<std::size_t> rows;
    for (std::size_t r = 0; r < found.size(); ++r) {
      const auto& k = found[r];
      const bool is_row = k && std::ranges::any_of(leads, [&](const Lead& lead) { return lead.index == *k; }) &&
          std::ranges::find(rows, *k) == rows.end() &&
          s.domain[*k].extent == first.statement->domain[first.rows[r]].extent;
      if (!is_row) return {};
      rows.push_back(*k);
    }
    return rows;
  }

  // The same of a fold beside the set that reads nothing of what this reads, where what reads both would wait for it.
  std::vector<std::size_t> rows_beside(const OpenSet& open, const Statement& s, std::size_t node) const {
    const Member& first = open.members.front();
    if (!reduces(s) || rows_of_fold(s).size() != first.rows.size() || rows_of_fold(*first.statement) != first.rows ||
        s.target.element.size() != first.statement->target.element.size())
      return {};
    const std::vector<std::size_t> rows = rows_of_fold(s);
    for (std::size_t r = 0; r < rows.size(); ++r)
      if (s.domain[rows[r]].extent != first.statement->domain[first.rows[r]].extent) return {};
    for (std::size_t n = node + 1; n < program_.nodes.size(); ++n) {
      if (!reads(program_.nodes[n], s.target.tensor)) continue;
      const std::vector<TensorId> needs = autodiff::operands(program_.nodes[n]);
      if (std::ranges::any_of(needs, [&](TensorId id) { return touched(open, id); })) return rows;
    }
    return {};
  }

  bool joins(OpenSet& open, int node) const {
    const Statement* s = statement(node);
    if (!s || !may_join(*s)) return false;
    Member member{s, rows_in(open, *s)};
    const bool beside = member.rows.empty();
    if (beside) member.rows = rows_beside(open, *s, static_cast<std::size_t>(node));
    const double common = bytes_in_common(open, *s);
    if ((common == 0 && !beside) || !runs_down(member)) return false;
    OpenSet wider = open;
    wider.nodes.push_back(node);
    wider.members.push_back(std::move(member));
    wider.saved += common;
    if (strip(wider.members) == 0) return false;
    open = std::move(wider);
    return true;
  }

  // What stays in shared memory, of one column.
  double bytes_of_column(const std::vector<Member>& all) const {
    double bytes = 0;
    for (const Member& member : all) {
      if (is_output(program_, member.statement->target.tensor)) continue;
      double column = bytes_of(program_, member.statement->target.tensor);
      for (const std::size_t k : member.rows) column /= static_cast<double>(extent(*member.statement, k));
      bytes += column;
    }
    return bytes;
  }

  static double other_rows(const Member& member) {
    double rows = 1;
    for (std::size_t r = 0; r + 1 < member.rows.size(); ++r)
      rows *= static_cast<double>(extent(*member.statement, member.rows[r]));
    return rows;
  }

  double blocks(const std::vector<Member>& all) const {
    const Member& first = all.front();
    const auto columns = static_cast<double>(extent(*first.statement, first.rows.back()));
    return other_rows(first) * std::ceil(columns / static_cast<double>(strip(all)));
  }

  double bytes_touched(const std::vector<Member>& all) const {
    std::map<TensorId, double> seen;
    for (const Member& member : all) {
      const auto touch = [&](TensorId id) {
        const double bytes = std::min(bytes_of(program_, id), points(*member.statement) *
                lang::bytes(program_.tensor(id).dtype));
        seen[id] = std::max(seen[id], bytes);
      };
      touch(member.statement->target.tensor);
      for (const Access& read : member.statement->reads) touch(read.tensor);
    }
    double bytes = 0;
    for (const auto& [id, touched] : seen) bytes += touched;
    return bytes;
  }

  // Whether it adds up parts, which are no sums of parts themselves: those share a launch already (rows.h).
  bool adds_up_parts(const Statement& s) const {
    const auto is_part = [&](const Access& read) { return r_.parts.contains(read.tensor); };
    return std::ranges::any_of(s.reads, is_part) && std::ranges::none_of(s.reads, [&](const Access& read) {
      const Statement* made = is_part(read) ? maker(program_, read.tensor) : nullptr;
      return made && std::ranges::any_of(made->reads, is_part);
    });
  }

  // Whether what was folded is met again, column by column; or what adds up parts is so little that a launch takes
  // longer.
  bool goes_on(const std::vector<Member>& all) const {
    const auto made = [&](const Access& read) {
      return std::ranges::any_of(
          all, [&](const Member& member) { return member.statement->target.tensor == read.tensor; });
    };
    const bool meets = std::ranges::any_of(all, [&](const Member& member) {
      const Statement& s = *member.statement;
      return 2 * points(s) > points(*all.front().statement) && std::ranges::any_of(s.reads, made);
    });
    return meets || (adds_up_parts(*all.front().statement) && is_small(all));
  }
  bool is_small(const std::vector<Member>& all) const {
    return bytes_touched(all) * r_.target.multiprocessors / blocks(all) <= model::threads::bytes_of_a_launch;
  }

  // Whether the second cache still has what the blocks that are under way read again.
  bool stays_near(const std::vector<Member>& all) const {
    std::map<TensorId, int> readers;
    for (const Member& member : all) {
      std::set<TensorId> own;
      for (const Access& read : member.statement->reads) own.insert(read.tensor);
      for (const TensorId id : own) ++readers[id];
    }
    for (const Member& member : all) readers.erase(member.statement->target.tensor);
    double bytes = 0;
    for (const auto& [id, count] : readers) if (count > 1) bytes += bytes_of(program_, id);
    const double count = blocks(all),
                 under_way = std::min(count, model::threads::blocks_of_long_rows * r_.target.multiprocessors);
    return bytes / count * under_way <= model::threads::kept_in_l2;
  }

  // Blocks fewer than multiprocessors should not take longer than the launches that they save.
  bool fills(const std::vector<Member>& all) const {
    const double launches = static_cast<double>(all.size() - 1) * model::threads::bytes_of_a_launch;
    return bytes_touched(all) * (r_.target.multiprocessors / blocks(all) - 1) <= launches;
  }

  const Rewriting& r_;
  const Program& program_;
};

// Parts as many as each has values, but no more than a block has threads for.
std::optional<Cut> cut_of_column(const Statement& fold, std::int64_t strip, std::int64_t threads) {
  std::optional<std::size_t> longest;
  double values = 1;
  for (std::size_t k = 0; k < fold.indices.size(); ++k) {
    if (is_output_index(fold, k)) continue;
    values *= static_cast<double>(extent(fold, k));
    if (!longest || extent(fold, k) > extent(fold, *longest)) longest = k;
  }
  if (values < model::threads::least_column_of_parts) return std::nullopt;
  const double parts = std::min(std::sqrt(values), static_cast<double>(threads / strip));
  const double each = std::ceil(static_cast<double>(extent(fold, *longest)) / parts);
  const std::int64_t chunk = whole_chunk(extent(fold, *longest), static_cast<std::int64_t>(each));
  return chunk < extent(fold, *longest) ? std::optional(Cut{*longest, chunk}) : std::nullopt;
}

}  // namespace

std::int64_t columns_of_a_turn(
    std::int64_t fit, std::int64_t extent, double others, std::int64_t bytes, const Target& target) {
  const std::int64_t sector = static_cast<std::int64_t>(model::threads::sector) / bytes;
  std::int64_t columns = std::min({fit, extent, model::threads::warp});
  if (columns < extent) columns -= columns % sector;
  while (columns > sector && others * static_cast<double>(ceil_divide(extent, columns)) < target.multiprocessors)
    columns = (columns - 1) / sector * sector;
  return columns;
}

std::optional<OpenSet> grown_by_columns(const Rewriting& r, int first, const std::function<bool(std::size_t)>& free) {
  return Columns(r).grow(first, free);
}

void split_for_columns(Rewriting& r, const Rewriting& shared) {
  std::vector<directives::Split> cuts;
  for (const Rewriting::Rows& rows : shared.rows) {
    std::vector<int> nodes;
    for (std::size_t n = 0; n < r.program.nodes.size(); ++n)
      if (const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
          s && std::ranges::find(rows.tensors, s->target.tensor) != rows.tensors.end())
        nodes.push_back(static_cast<int>(n));
    const auto of_set = [&](std::size_t n) { return std::ranges::find(nodes, static_cast<int>(n)) != nodes.end(); };
    const auto set = nodes.empty() ? std::nullopt : grown_by_columns(r, nodes.front(), of_set);
    if (!set || set->nodes.size() != rows.tensors.size() ||
        set->members.front().rows.size() != rows.indices.size())
      continue;
    for (const Member& member : set->members) {
      const Statement& s = *member.statement;
      if (!reduces(s)) continue;
      r.of_columns.insert(s.target.tensor);
      if (const auto cut = cut_of_column(s, Columns(r).strip(set->members), r.target.max_threads))
        cuts.push_back({target_name(r.program, s), s.indices[cut->index], cut->chunk});
    }
  }
  const std::set<TensorId> before = r.parts;
  for (const directives::Split& cut : cuts) apply(r, cut);
  std::ranges::set_difference(r.parts, before, std::inserter(r.of_columns, r.of_columns.end()));
}

}  // namespace tilec::codegen
