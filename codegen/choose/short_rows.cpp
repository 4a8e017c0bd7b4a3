#include "codegen/choose/short_rows.h"

#include <algorithm>
#include <set>

#include "codegen/choose/kept_rows.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/copy.h"
#include "codegen/scan.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Program;
using poly::Statement;

// Longer than a sector, which a thread reads whole, and too short for a warp.
bool is_short(double elements, lang::DType type) {
  return elements * lang::bytes(type) > model::threads::sector && elements < model::threads::least_row_of_a_warp;
}

bool are_many(double rows, const Target& target) {
  return target.family == Target::Family::Cuda &&
      rows >= model::threads::wanted_of_a_multiprocessor * target.multiprocessors;
}

bool moves_with_fold(const Statement& s, const Access& read) {
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    if (!is_output_index(s, k) &&
        std::ranges::any_of(read.element, [&](const poly::Affine& e) { return mentions(e, k); }))
      return true;
  return false;
}

}  // namespace

bool folds_short_rows(const Rewriting& r, const Statement& s) {
  const double rows = elements(r.program, s.target.tensor);
  const bool read_by_row = std::ranges::all_of(r.program.nodes, [&](const poly::Node& node) {
    const auto* other = std::get_if<Statement>(&node);
    return !reads(node, s.target.tensor) || (other && points(*other) <= rows);
  });
  if (!reduces(s) || scan_of(s) || !read_by_row || !are_many(rows, r.target) || s.target.element.empty() ||
      !plain_index(s.target.element.back()) ||
      extent(s, *plain_index(s.target.element.back())) < model::threads::short_rows_of_a_block)
    return false;
  return !s.reads.empty() && std::ranges::all_of(s.reads, [&](const Access& read) {
    if (!moves_with_fold(s, read)) return true;
    const bool is_input = std::ranges::find(r.program.inputs, read.tensor) != r.program.inputs.end();
    return is_input && reads_rows(r.program, s, read, s.target.element.size()) &&
        is_short(elements(r.program, read.tensor) / rows, r.program.tensor(read.tensor).dtype) &&
        !is_asked_again(r.program, s, read);
  });
}

double rows_of(const Program& program, const Fused::Set& set) {
  const auto& first = std::get<Statement>(program.nodes[static_cast<std::size_t>(set.nodes.front())]);
  double rows = 1;
  for (const std::size_t k : set.loops.front()) rows *= static_cast<double>(first.domain[k].extent->get());
  return std::max(1.0, rows);
}

bool has_short_rows(const Fused& fused, const Fused::Set& set, const Target& target) {
  const double rows = rows_of(fused.program, set);
  if (set.parts || set.nodes.size() < 2 || !are_many(rows, target)) return false;
  std::set<TensorId> made;
  bool folds = false;
  for (const int node : set.nodes) {
    const auto& s = std::get<Statement>(fused.program.nodes[static_cast<std::size_t>(node)]);
    const double each = points(s) / rows;
    if (scan_of(s) || each >= model::threads::least_row_of_a_warp) return false;
    const bool all_made = std::ranges::all_of(
        s.reads, [&](const Access& read) { return !moves_with_fold(s, read) || made.contains(read.tensor); });
    if (reduces(s) && (!all_made || !is_short(each, fused.program.tensor(s.target.tensor).dtype))) return false;
    folds = folds || reduces(s);
    made.insert(s.target.tensor);
  }
  return folds;
}

std::optional<Rewriting> staging_short_rows(const Rewriting& r) {
  if (std::ranges::none_of(r.program.nodes, [&](const poly::Node& node) {
        const auto* s = std::get_if<Statement>(&node);
        return s && folds_short_rows(r, *s);
      }))
    return std::nullopt;
  Rewriting with = r;
  for (std::size_t n = 0; n < with.program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&with.program.nodes[n]);
    if (!s || !folds_short_rows(with, *s)) continue;
    for (std::size_t read = 0; read < s->reads.size(); ++read) {
      if (!moves_with_fold(*s, s->reads[read])) continue;
      n = read_copy(with, n, read, in_order(s->reads[read].element.size()));
      s = &std::get<Statement>(with.program.nodes[n]);
    }
  }
  return with;
}

}  // namespace tilec::codegen
