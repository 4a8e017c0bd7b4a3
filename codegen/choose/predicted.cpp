#include "codegen/choose/predicted.h"

#include <algorithm>
#include <map>
#include <utility>

#include "codegen/choose/leaves.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/rows.h"
#include "codegen/scan.h"
#include "codegen/schedule.h"

namespace tilec::codegen {

namespace {

using poly::Statement;

// The elements that an access touches at least: of indices that share a dimension, those that the longest one reaches.
double touched(const poly::Access& access, const Statement& s) {
  double count = 1;
  for (const poly::Affine& e : access.element) {
    std::int64_t longest = 1;
    for (std::size_t k = 0; k < s.indices.size(); ++k) if (mentions(e, k)) longest = std::max(longest, extent(s, k));
    count *= static_cast<double>(longest);
  }
  return count;
}

double least_of(const Statement& s, const poly::Program& program, const Target& target) {
  // Rows leave a part of all this, and so do conditions.
  const auto* choice = s.value.as<poly::Apply>();
  if (s.domain.size() > s.indices.size() || (choice && choice->op == lang::Op::Select)) return 0;
  std::map<TensorId, double> bytes;
  const auto touch = [&](const poly::Access& access) {
    double& most = bytes[access.tensor];
    most = std::max(most, touched(access, s) * lang::bytes(program.tensor(access.tensor).dtype));
  };
  touch(s.target);
  for (const poly::Access& read : s.reads) touch(read);
  double all = 0;
  for (const auto& [id, most] : bytes) all += most;
  const bool folds = reduces(s) && s.reads.size() > 1 && !scan_of(s);
  return std::max(folds ? model::arithmetic(points(s), s.value.type(), target) : 0, model::least_wait(all, target));
}

}  // namespace

double least_of(const Rewriting& r) {
  const bool apart = r.rows.empty() && r.tiles.empty() && r.online.empty() && r.finishes.empty();
  if (!apart || !model::predicts_time(r.target)) return 0;
  double sum = 0;
  for (const poly::Node& node : r.program.nodes)
    if (const auto* s = std::get_if<Statement>(&node)) sum += least_of(*s, r.program, r.target);
  return sum;
}

Planned::Planned(Rewriting r)
    : target_(r.target),
      fused_(in_sets(std::move(r))),
      plan_(schedule(std::move(fused_), target_, nests_)),
      statements_(model::known(plan_, std::move(nests_), fused_.strides, target_)),
      times_(model::times_of(plan_, statements_, target_, seen_)) {}

double Planned::by_counts() const { return sum(times_, &model::GroupTime::milliseconds); }

std::optional<double> Planned::time(double wanted) {
  if (by_counts() >= model::leaves_save * wanted) return std::nullopt;
  const auto others = choose_leaves(plan_, statements_, seen_, fused_.strides, target_, times_, wanted);
  if (!others) return std::nullopt;
  return *others ? sum(model::times_of(plan_, statements_, target_, seen_), &model::GroupTime::milliseconds)
                 : by_counts();
}

}  // namespace tilec::codegen
