#include "codegen/choose/splits.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "codegen/choose/pairs.h"
#include "codegen/choose/predicted.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/operands.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"

namespace tilec::codegen {

namespace {

using poly::Statement;

Rewriting cut(const Rewriting& whole, const Cut& by) {
  Rewriting made = whole;
  std::vector<poly::Node>& nodes = made.program.nodes;
  auto [part, sum] = in_parts(made, Statement(std::get<Statement>(nodes.front())), by);
  nodes.front() = std::move(part);
  nodes.push_back(std::move(sum));
  return made;
}

// Whether no other statement could share rows with it: none reads what it reads, and it has no neighbours.
bool has_rows_alone(const poly::Program& program, const Statement& s) {
  const auto reads_alike = [&](const poly::Node& node) {
    const auto* other = std::get_if<Statement>(&node);
    return other != nullptr && other->target.tensor != s.target.tensor &&
        std::ranges::any_of(s.reads, [&](const poly::Access& read) { return reads(node, read.tensor); });
  };
  return stands_alone(program, s) && std::ranges::none_of(program.nodes, reads_alike);
}

// Whether parts find anything in a cache, for what it reads most of is read again, or go along rows of that, for it
// comes from memory.
bool may_gain(const Rewriting& r, const Statement& s) {
  double largest = 0, bytes = 0;
  for (const poly::Access& read : s.reads) {
    const double count = elements(r.program, read.tensor);
    largest = std::max(largest, count);
    bytes = std::max(bytes, count * lang::bytes(r.program.tensor(read.tensor).dtype));
  }
  return points(s) >= 2 * largest || bytes > static_cast<double>(r.target.l3);
}

std::vector<Cut> cuts_of(const Statement& s) {
  std::vector<Cut> cuts;
  for (std::size_t k = 0; k < s.indices.size(); ++k)
    for (const std::int64_t chunk : model::parts_looked_at)
      if (!is_output_index(s, k) && 2 * chunk <= extent(s, k)) cuts.push_back({k, chunk});
  return cuts;
}

double with_copies(Rewriting whole) {
  choose_pairs(whole);
  copy_operands(whole);
  panel_operands(whole);
  return predicted(std::move(whole));
}

}  // namespace

std::optional<Cut> cut_by_time(const Rewriting& r, const Statement& s) {
  if (!model::predicts_time(r.target) || !has_rows_alone(r.program, s) || !may_gain(r, s)) return std::nullopt;
  const std::vector<Cut> cuts = cuts_of(s);
  if (cuts.empty()) return std::nullopt;
  const Rewriting whole = alone(r, std::span(&s, 1));
  const double today = predicted(whole);
  if (today < model::worth_cutting || today <= model::far_from_enough * enough_for(whole)) return std::nullopt;
  std::optional<Cut> best;
  double least = model::clearly_faster * today;
  for (const Cut& one : cuts)
    if (const double time = predicted(cut(whole, one), least); time < least) best = one, least = time;
  return best && least < model::clearly_faster * with_copies(whole) ? best : std::nullopt;
}

}  // namespace tilec::codegen
