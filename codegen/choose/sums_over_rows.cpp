#include "codegen/choose/sums_over_rows.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "codegen/choose/threads.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/share.h"

namespace tilec::codegen {

using poly::Access;
using poly::Program;
using poly::Statement;

std::optional<Member> SumsOverRows::sum_over_rows(const std::vector<Member>& all, const Statement& s) const {
  Member own{&s, {}};
  bool sums = false;
  const auto found = aligned(all, s);
  const Leads leads = open_leads(program_, s);
  for (std::size_t r = 0; r < found.size(); ++r) {
    if (!found[r] || std::count(own.rows.begin(), own.rows.end(), *found[r]) > 0) return std::nullopt;
    const std::size_t k = *found[r];
    const bool output = is_output_index(s, k),
               lead = std::any_of(leads.begin(), leads.end(), [&](const Lead& one) { return one.index == k; });
    if ((output && !lead) || s.domain[k].extent != all.front().statement->domain[all.front().rows[r]].extent)
      return std::nullopt;
    sums = sums || !output;
    own.rows.push_back(k);
  }
  return sums ? std::optional(own) : std::nullopt;
}

bool SumsOverRows::fits_cache(const std::vector<Member>& all, double saved) const {
  const std::vector<std::int64_t> extents = extents_of(all.front());
  if (extents.empty() || extents.back() == 0) return false;
  double parts = 0;
  for (const Member& member : all) {
    double copies = 1;
    bool sums = false;
    for (std::size_t r = 0; r < member.rows.size(); ++r) {
      if (is_output_index(*member.statement, member.rows[r])) continue;
      sums = true;
      const std::int64_t size = r + 1 < extents.size() ? 1 : part_size(extents);
      const std::int64_t turns = (extents[r] + size - 1) / size;
      copies *= static_cast<double>(turns);
    }
    if (sums)
      parts += 2 * copies * elements(program_, member.statement->target.tensor) *
          lang::bytes(member.statement->value.type());
  }
  return parts * model::worth_parts <= saved &&
      bytes_of_a_row(program_, all).of(1) <= model::held_in_l2 * static_cast<double>(target_.l2);
}

bool SumsOverRows::fits_by_parts(const std::vector<Member>& all, double saved) {
  const std::int64_t before = longer_parts_;
  for (; static_cast<double>(longer_parts_) <= model::blocks_of_a_multiprocessor; longer_parts_ *= 2)
    if (fits_cache(all, saved) && walks_in_time(all, saved)) return true;
  longer_parts_ = before;
  return false;
}

// Whether blocks of threads have elements of a row for all their threads, and walk their rows, statement by
// statement, in the time that memory takes.
bool SumsOverRows::walks_in_time(const std::vector<Member>& all, double saved) const {
  std::set<TensorId> moved;
  double bytes = saved, longest = 0;
  for (const Member& member : all) {
    double inside = 1;
    for (std::size_t k = 0; k < member.statement->indices.size(); ++k)
      if (std::ranges::find(member.rows, k) == member.rows.end())
        inside *= static_cast<double>(codegen::extent(*member.statement, k));
    longest = std::max(longest, inside);
    moved.insert(member.statement->target.tensor);
    for (const Access& read : member.statement->reads) moved.insert(read.tensor);
  }
  for (const TensorId id : moved) bytes += bytes_to_read_again(id);
  // A row shorter than a block leaves threads of it idle, and less is on its way from memory. Blocks that the machine
  // has no room for walk theirs later.
  const std::vector<std::int64_t> extents = extents_of(all.front());
  double blocks = 1;
  for (const std::int64_t extent : extents) blocks *= static_cast<double>(extent);
  const auto part = static_cast<double>(part_size(extents));
  const double steps = part * static_cast<double>(all.size()),
               idle = std::max(1.0, static_cast<double>(threads_of_a_block) / longest),
               waves = std::max(1.0, blocks / part / (model::blocks_of_a_multiprocessor * target_.multiprocessors));
  return longest >= static_cast<double>(model::threads::warp) &&
      steps * idle * waves * model::threads::bytes_of_a_step <= bytes;
}

std::int64_t SumsOverRows::part_size(const std::vector<std::int64_t>& extents) const {
  double turns = 1;
  for (std::size_t r = 0; r + 1 < extents.size(); ++r) turns *= static_cast<double>(extents[r]);
  if (has_threads(target_)) {
    const double blocks = model::blocks_of_a_multiprocessor * target_.multiprocessors;
    return std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::ceil(static_cast<double>(extents.back()) * turns / blocks)) * longer_parts_, 1,
        extents.back());
  }
  const double each = static_cast<double>(extents.back()) * std::min(1.0, turns / model::turns_of_parts);
  return std::min(extents.back(),
      static_cast<std::int64_t>(std::ceil(each / static_cast<double>(model::whole_parts))) * model::whole_parts);
}

double SumsOverRows::bytes_to_read_again(TensorId id) const {
  return has_threads(target_) ? bytes_of(program_, id) : bytes_from_memory(program_, id, target_);
}

std::vector<std::int64_t> extents_of(const Member& member) {
  std::vector<std::int64_t> extents;
  for (const std::size_t k : member.rows) extents.push_back(member.statement->domain[k].extent->get());
  return extents;
}

}  // namespace tilec::codegen
