#include "codegen/choose/any_rows.h"

#include <algorithm>
#include <set>
#include <utility>

#include "autodiff/graph.h"
#include "codegen/choose/row_candidates.h"
#include "codegen/choose/sums_over_rows.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/share.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Program;
using poly::Statement;

class AnyRows {
 public:
  AnyRows(const Program& program, const Strides& strides, const Target& target)
      : program_(program), strides_(strides), target_(target) {}

  std::optional<OpenSet> grow(int first, const std::function<bool(std::size_t node)>& free) const {
    OpenSet open{{first}, {{statement(first), indices(first)}}, 0};
    std::set<TensorId> passed;
    int skipped = 0, sum = weight(statement(first)->value);
    for (std::size_t n = static_cast<std::size_t>(first) + 1; !open.members[0].rows.empty() &&
        n < program_.nodes.size() && skipped < model::overtaken && sum < model::heavy_set;
        ++n) {
      if (!free(n)) continue;
      const std::vector<TensorId> needs = autodiff::operands(program_.nodes[n]);
      const bool may = std::none_of(needs.begin(), needs.end(), [&](TensorId id) { return passed.contains(id); });
      if (may && joins(open, static_cast<int>(n))) {
        sum += weight(statement(static_cast<int>(n))->value);
        if (!sums_over_rows(open.members.back())) continue;
      } else {
        ++skipped;
      }
      for (const TensorId id : autodiff::targets(program_.nodes[n])) passed.insert(id);
    }
    if (open.nodes.size() < 2 || open.saved == 0) return std::nullopt;
    const auto rows = feasible(open.members, open.saved);
    if (!rows) return std::nullopt;
    open.members = only(open.members, *rows);
    return open;
  }

 private:
  const Statement* statement(int node) const {
    return std::get_if<Statement>(&program_.nodes[static_cast<std::size_t>(node)]);
  }
  std::vector<std::size_t> indices(int node) const {
    const Statement* s = statement(node);
    return s ? row_indices(program_, *s) : std::vector<std::size_t>();
  }

  bool joins(OpenSet& open, int node) const {
    const std::vector<std::size_t> own = indices(node);
    if (own.empty()) return false;
    const Statement& s = *statement(node);
    const auto found = aligned(open.members, s);
    Member member{&s, {}};
    std::vector<std::size_t> kept;
    for (std::size_t r = 0; r < found.size(); ++r) {
      if (!found[r] || std::count(own.begin(), own.end(), *found[r]) == 0 ||
          std::count(member.rows.begin(), member.rows.end(), *found[r]) > 0)
        continue;
      if (s.domain[*found[r]].extent != open.members[0].statement->domain[open.members[0].rows[r]].extent) continue;
      member.rows.push_back(*found[r]);
      kept.push_back(r);
    }
    if (kept.empty()) return false;
    OpenSet wider{open.nodes, only(open.members, kept), 0};
    wider.nodes.push_back(node);
    wider.members.push_back(std::move(member));
    wider.saved = bytes_saved(program_, wider.members, target_);
    const bool goes_on = std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& read) {
      return std::any_of(open.members.begin(), open.members.end(),
          [&](const Member& one) { return one.statement->target.tensor == read.tensor; });
    });
    if (wider.saved < open.saved || (wider.saved == open.saved && !goes_on) || !feasible(wider.members, wider.saved))
      return false;
    open = std::move(wider);
    return true;
  }

  static std::vector<Member> only(const std::vector<Member>& all, const std::vector<std::size_t>& rows) {
    std::vector<Member> fewer;
    for (const Member& member : all) {
      fewer.push_back({member.statement, {}});
      for (const std::size_t r : rows) fewer.back().rows.push_back(member.rows[r]);
    }
    return fewer;
  }

  // Which of the rows become loops: those along which nothing lies side by side, else strips of the last.
  std::optional<std::vector<std::size_t>> feasible(const std::vector<Member>& all, double saved) const {
    std::vector<std::size_t> apart, every;
    for (std::size_t r = 0; r < all.front().rows.size(); ++r) {
      every.push_back(r);
      const bool along = std::any_of(all.begin(), all.end(), [&](const Member& member) {
        return lies_along(program_, strides_, *member.statement, member.rows[r], target_);
      });
      if (!along) apart.push_back(r);
    }
    const auto whole = [&](const std::vector<std::size_t>& rows) {
      return std::all_of(rows.begin(), rows.end(),
          [&](std::size_t r) { return is_output_index(*all.front().statement, all.front().rows[r]); });
    };
    for (std::size_t count = apart.size(); count > 0; --count) {
      std::vector<std::size_t> rows(apart.begin(), apart.begin() + static_cast<std::ptrdiff_t>(count));
      if (SumsOverRows(program_, target_).fits_cache(only(all, rows), saved)) return rows;
    }
    const bool last =
        !every.empty() && (apart.empty() || apart.back() != every.back()) && apart.size() + 1 >= every.size();
    if (!last || !whole(every)) return std::nullopt;
    const auto strips = only(all, every);
    if (std::any_of(strips.begin(), strips.end(), sums_over_rows) ||
        !fits_strip(bytes_of_a_row(program_, strips), target_))
      return std::nullopt;
    return every;
  }

  const Program& program_;
  const Strides& strides_;
  const Target& target_;
};

}  // namespace

std::optional<OpenSet> grown_by_any_rows(const Program& program, const Strides& strides, const Target& target,
    int first, const std::function<bool(std::size_t node)>& free) {
  return AnyRows(program, strides, target).grow(first, free);
}

bool sums_over_rows(const Member& member) {
  return std::any_of(
      member.rows.begin(), member.rows.end(), [&](std::size_t k) { return !is_output_index(*member.statement, k); });
}

}  // namespace tilec::codegen
