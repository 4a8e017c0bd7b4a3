#include "codegen/choose/kept_rows.h"

#include <algorithm>
#include <set>

#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/copy.h"
#include "codegen/rewrite/share.h"

namespace tilec::codegen {

using poly::Access;
using poly::Program;
using poly::Statement;

// Whether it reads all of the tensor, each element at a place of its own.
static bool reads_whole(const Program& program, const Statement& s, const Access& read) {
  std::set<std::size_t> seen;
  for (std::size_t d = 0; d < read.element.size(); ++d) {
    const auto k = plain_index(read.element[d]);
    if (!k || !seen.insert(*k).second || low(s, *k) != 0) return false;
    if (extent(s, *k) != program.tensor(read.tensor).shape[d].get()) return false;
  }
  return true;
}

bool reads_rows(const Program& program, const Statement& s, const Access& read, std::size_t lead) {
  if (lead == 0 || lead >= read.element.size() || lead > s.target.element.size()) return false;
  for (std::size_t d = 0; d < lead; ++d)
    if (plain_index(s.target.element[d]) != plain_index(read.element[d])) return false;
  return reads_whole(program, s, read);
}

// Whether it sums over the rows, so that a block walks some of them, one after the other (sums_over_rows.h).
static bool sums_over_rows_of(const Program& program, const Statement& s, const Access& read, std::size_t lead) {
  if (s.aggregation != Aggregation::Sum || lead == 0 || lead >= read.element.size()) return false;
  for (std::size_t d = 0; d < lead; ++d)
    if (const auto k = plain_index(read.element[d]); !k || is_output_index(s, *k)) return false;
  return reads_whole(program, s, read);
}

// How many rows a block walks that has them in parts; 1: it walks none, or few blocks do, which would wait for a copy.
static double rows_walked(
    const Program& program, TensorId tensor, std::size_t lead, double rows, const Target& target) {
  if (rows < model::threads::least_rows_walked * target.multiprocessors) return 1;
  const bool walked = std::ranges::any_of(program.nodes, [&](const poly::Node& node) {
    const auto* s = std::get_if<Statement>(&node);
    return s && std::ranges::any_of(s->reads, [&](const Access& read) {
      return read.tensor == tensor && sums_over_rows_of(program, *s, read, lead);
    });
  });
  return walked ? model::threads::rows_walked : 1;
}

bool is_asked_again(const Program& program, const Statement& fold, const Access& read) {
  const std::size_t lead = fold.target.element.size();
  std::set<TensorId> made{fold.target.tensor};
  for (const poly::Node& node : program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    if (!s || std::ranges::none_of(s->reads, [&](const Access& other) { return made.contains(other.tensor); }))
      continue;
    made.insert(s->target.tensor);
    if (std::ranges::any_of(s->reads, [&](const Access& other) {
          return other.tensor == read.tensor && reads_rows(program, *s, other, lead);
        }))
      return true;
  }
  return false;
}

std::map<TensorId, LongRow> rows_to_keep(const Program& program, const Target& target) {
  std::map<TensorId, LongRow> found;
  double room = shared_for_rows(target);
  if (target.family != Target::Family::Cuda) return found;
  for (const poly::Node& node : program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    if (!s || !reduces(*s)) continue;
    const double rows = elements(program, s->target.tensor);
    if (rows < target.multiprocessors * model::shared_rows_of_a_multiprocessor) continue;
    for (const Access& read : s->reads) {
      const std::size_t lead = s->target.element.size();
      const double bytes = bytes_of(program, read.tensor) / rows;
      const double at_once = bytes * target.multiprocessors * model::threads::blocks_of_long_rows *
          rows_walked(program, read.tensor, lead, rows, target);
      if (at_once <= model::threads::kept_in_l2 || bytes > room || found.contains(read.tensor) ||
          std::ranges::find(program.inputs, read.tensor) == program.inputs.end() ||
          !reads_rows(program, *s, read, lead) || !is_asked_again(program, *s, read))
        continue;
      found.emplace(read.tensor, LongRow{bytes, elements(program, read.tensor) / rows, lead});
      room -= bytes;
    }
  }
  return found;
}

std::optional<Rewriting> keeping_rows(const Rewriting& r) {
  const std::map<TensorId, LongRow> kept = rows_to_keep(r.program, r.target);
  if (kept.empty()) return std::nullopt;
  Rewriting with = r;
  for (const auto& [tensor, row] : kept)
    for (std::size_t n = 0; n < with.program.nodes.size(); ++n) {
      const auto* s = std::get_if<Statement>(&with.program.nodes[n]);
      if (!s) continue;
      for (std::size_t read = 0; read < s->reads.size(); ++read)
        if (s->reads[read].tensor == tensor &&
            (reads_rows(with.program, *s, s->reads[read], row.lead) ||
                sums_over_rows_of(with.program, *s, s->reads[read], row.lead))) {
          n = read_copy(with, n, read, in_order(s->reads[read].element.size()));
          s = &std::get<Statement>(with.program.nodes[n]);
        }
    }
  return with;
}

}  // namespace tilec::codegen
