#include "codegen/choose/rows.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "autodiff/graph.h"
#include "codegen/choose/kept_rows.h"
#include "codegen/choose/predicted.h"
#include "codegen/choose/short_rows.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/rows.h"

namespace tilec::codegen {

namespace {

std::vector<directives::Share> shares_of(const Rewriting& r) {
  std::vector<directives::Share> shares;
  for (const Directive& one : r.done)
    if (const auto* share = std::get_if<directives::Share>(&one)) shares.push_back(*share);
  return shares;
}

// Whether one launch makes the tensor and has all that read it.
bool stays_in_launch(const Rewriting& r, TensorId tensor) {
  return std::ranges::any_of(r.rows, [&](const Rewriting::Rows& rows) {
    const auto has = [&](TensorId id) { return std::ranges::find(rows.tensors, id) != rows.tensors.end(); };
    return has(tensor) && std::ranges::none_of(r.program.nodes, [&](const poly::Node& node) {
      return reads(node, tensor) &&
          std::ranges::none_of(autodiff::targets(node), [&](TensorId id) { return has(id); });
    });
  });
}

// Rows that are read again stay in shared memory, and short rows come through it.
void share_rows_kept(Rewriting& r) {
  for (const auto& copying : {keeping_rows, staging_short_rows}) {
    std::optional<Rewriting> with = copying(r);
    if (!with) continue;
    share_rows(*with);
    const bool all = std::ranges::all_of(with->copies, [&](const auto& copy) {
      return r.copies.contains(copy.first) || stays_in_launch(*with, copy.second);
    });
    if (!all) continue;
    r.program = std::move(with->program), r.strides = std::move(with->strides), r.done = std::move(with->done),
    r.rows = std::move(with->rows), r.parts = std::move(with->parts), r.copies = std::move(with->copies);
    return;
  }
  share_rows(r);
}

}  // namespace

void share_rows_that_pay(Rewriting& r) {
  double work = 0;
  for (const poly::Node& node : r.program.nodes)
    if (const auto* s = std::get_if<poly::Statement>(&node)) work += cycles(*s);
  if (work < model::worth_parting || !model::predicts_time(r.target)) return share_rows_kept(r);
  const Rewriting before = r;
  share_rows(r);
  std::vector<directives::Share> kept = shares_of(r);
  if (kept.empty() || kept.size() > model::most_sets_to_part) return;
  double least = predicted(r);
  for (std::size_t n = kept.size(); n-- > 0;) {
    std::vector<directives::Share> others = kept;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(n));
    Rewriting apart = before;
    if (std::ranges::any_of(others, [&](const directives::Share& share) { return apply(apart, share).has_value(); }))
      continue;
    const double with = predicted(apart, least);
    if (with >= model::faster_apart * least) continue;
    least = with, kept = std::move(others);
    r.program = std::move(apart.program), r.strides = std::move(apart.strides), r.done = std::move(apart.done),
    r.rows = std::move(apart.rows), r.parts = std::move(apart.parts);
  }
}

PlannedByRows::PlannedByRows(Rewriting r) : PlannedByRows(std::move(r), may_share_rows(r)) {}

std::optional<PlannedByRows> PlannedByRows::below(double wanted, Rewriting r) {
  const bool shares = may_share_rows(r);
  if (!shares && least_of(r) >= wanted) return std::nullopt;
  return PlannedByRows(std::move(r), shares);
}

PlannedByRows::PlannedByRows(Rewriting&& r, bool shares) {
  if (shares) {
    Rewriting apart = r;
    share_rows(r);
    if (!r.rows.empty()) apart_.emplace(std::move(apart));
  }
  together_.emplace(std::move(r));
}

double PlannedByRows::faster(double together, double apart) {
  return apart < model::faster_apart * together ? apart : together;
}

double PlannedByRows::by_counts() const {
  return apart_ ? faster(together_->by_counts(), apart_->by_counts()) : together_->by_counts();
}

std::optional<double> PlannedByRows::time(double wanted) {
  const std::optional<double> together = together_->time(wanted);
  if (!apart_) return together;
  const double all = together.value_or(together_->by_counts());
  const std::optional<double> apart = apart_->time(std::min(wanted, all));
  return apart && faster(all, *apart) == *apart ? apart : together;
}

}  // namespace tilec::codegen
