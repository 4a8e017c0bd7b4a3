// Grows sets of statements that can run row by row; one that cannot join is passed over, with what waits for it.
#include "codegen/rewrite/rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autodiff/graph.h"
#include "codegen/leaf_choice.h"
#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/plan.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/share.h"
#include "codegen/rewrite/tile.h"
#include "codegen/scan.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Statement;

// Whether an access is to one of several elements along a dimension.
bool is_slice(const Program& program, const Access& access) {
  const auto& shape = program.tensor(access.tensor).shape;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (access.element[d].is_constant() && !shape[d].is(1)) return true;
  return false;
}

// Whether a statement reads or writes a slice, as a step of a recurrence does of its inputs: the same statement of
// another step has another address, so the two have no kernel in common.
bool has_slice(const Program& program, const Statement& s) {
  return is_slice(program, s.target) ||
      std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& read) { return is_slice(program, read); });
}

// Those that may become loops: a contraction keeps its last dimension for lanes, a scan all that it runs along.
Leads row_candidates(const Program& program, const Statement& s, const Strides& strides) {
  Leads leads = leads_of(program, s);
  if (leads.empty()) return leads;
  if (const auto scan = scan_of(s)) {                  // one turn has the whole scan
    const auto along =
        std::find_if(leads.begin(), leads.end(), [&](const Lead& lead) { return lead.index == scan->along; });
    leads.erase(along, leads.end());
    return leads;
  }
  const std::size_t rank = s.target.element.size();
  // A reduction down the unit stride of what it reads wants lanes over its last output dimension, many at a time.
  const auto last = plain_index(s.target.element.back());
  const auto is_down = [&](const Access& read) {
    std::int64_t stride = 0;
    for (std::size_t d = 0; d < read.element.size(); ++d)
      stride += read.element[d].coefficients[*last].get() * strides[static_cast<std::size_t>(read.tensor)][d];
    return read.element.size() > 1 && stride == 1;
  };
  const bool down = reduces(s) && last && std::any_of(s.reads.begin(), s.reads.end(), is_down);
  if ((down || (rank > 1 && reuses(s))) && leads.back().dim == rank - 1) leads.pop_back();
  return leads;
}

// One statement of an unrolled recurrence and the same one of another step.
bool alike(const Program& program, const Statement& a, const Statement& b) {
  const auto same_kind = [&](const Access& x, const Access& y) {
    const poly::Tensor &s = program.tensor(x.tensor), &t = program.tensor(y.tensor);
    return s.dtype == t.dtype && s.shape == t.shape && x.element.size() == y.element.size();
  };
  return a.aggregation == b.aggregation && a.domain == b.domain && same_kind(a.target, b.target) &&
      a.target.element == b.target.element &&
      std::equal(a.reads.begin(), a.reads.end(), b.reads.begin(), b.reads.end(), same_kind) && a.value == b.value;
}

class Rows {
 public:
  explicit Rows(const Rewriting& r)
      : rewriting_(r),
        program_(r.program),
        strides_(r.strides),
        target_(r.target),
        buffer_(buffers(r.program)),
        writer_(r.program.tensors.size(), -1),
        set_of_(r.program.nodes.size(), -1),
        passed_(r.program.tensors.size(), -1) {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n)
      for (const TensorId id : autodiff::targets(program_.nodes[n]))
        writer_[static_cast<std::size_t>(id)] = static_cast<int>(n);
  }

  std::vector<Shared> sets() {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (set_of_[n] >= 0) continue;
      open(static_cast<int>(n));
      grow(n);
      if (take_better(n)) continue;
      close();
    }
    return std::move(done_);
  }

 private:
  const Statement* statement(int node) const {
    return std::get_if<Statement>(&program_.nodes[static_cast<std::size_t>(node)]);
  }
  int current() const { return static_cast<int>(done_.size()); }

  // No rows when the statement cannot share any.
  Leads candidates(int node) const {
    const Statement* s = statement(node);
    if (!s || tiled(rewriting_, s->target.tensor) || in_pass(rewriting_, s->target.tensor)) return {};
    // blocks of threads want whole contractions
    if (has_threads(target_) && reuses(*s) && !folds_elements(*s)) return {};
    for (std::size_t k = 0; k < s->indices.size(); ++k)
      if (!is_output_index(*s, k) && s->domain[k].extent->is(0)) return {};
    if (const auto* fill = std::get_if<TensorId>(&s->fill);
        fill && buffer_[static_cast<std::size_t>(*fill)] != buffer_[static_cast<std::size_t>(s->target.tensor)])
      return {};
    return row_candidates(program_, *s, strides_);
  }

  // Whether each block of threads folds one element.
  bool folds_elements(const Statement& s) const {
    const Nest nest = nest_of(s, strides_);
    const Facts all = facts(nest, {}, target_);
    std::int64_t threads = 0;
    return !staged_leaf(all, 0, target_, threads) && choose_leaf(all, 0).leaf.is<forms::Reduce>();
  }
  bool fill_machine(std::size_t rows) const {
    double blocks = 1;
    for (std::size_t r = 0; r < rows; ++r)
      blocks *= static_cast<double>(statement(open_.nodes.front())->domain[leads_[0][r].index].extent->get());
    return blocks >= model::blocks_of_a_multiprocessor * target_.multiprocessors;
  }

  void open(int node) {
    open_.nodes = {node};
    leads_ = {candidates(node)};
    rows_ = leads_[0].size();
    set_of_[static_cast<std::size_t>(node)] = current();
  }

  // Statements that cannot join are passed over; what needs one of them waits with it.
  void grow(std::size_t first) {
    int skipped = 0;
    for (std::size_t n = first + 1; rows_ > 0 && n < program_.nodes.size() && skipped < model::overtaken; ++n) {
      if (set_of_[n] >= 0) continue;
      if (!waits(n) && joins(static_cast<int>(n), skipped > 0)) continue;
      if (!waits(n)) joins_as_sum(static_cast<int>(n));
      ++skipped;
      for (const TensorId id : autodiff::targets(program_.nodes[n])) passed_[static_cast<std::size_t>(id)] = current();
    }
  }

  bool waits(std::size_t node) const {
    const std::vector<TensorId> needs = autodiff::operands(program_.nodes[node]);
    return std::any_of(
        needs.begin(), needs.end(), [&](TensorId id) { return passed_[static_cast<std::size_t>(id)] == current(); });
  }

  // Where in the set a tensor is made.
  std::optional<std::size_t> member(TensorId id) const {
    const int node = writer_[static_cast<std::size_t>(id)];
    if (node < 0 || set_of_[static_cast<std::size_t>(node)] != current()) return std::nullopt;
    return static_cast<std::size_t>(std::find(open_.nodes.begin(), open_.nodes.end(), node) - open_.nodes.begin());
  }

  // How many rows are left if what is read of the set is read at its own row; whether anything is.
  struct Dependence { bool any; std::size_t rows; };
  Dependence dependence(const Statement& s, const Leads& own) const {
    Dependence found{false, std::min(rows_, own.size())};
    for (const Access& read : s.reads) {
      const auto from = member(read.tensor);
      if (!from) continue;
      found.any = true;
      std::size_t same = 0;
      while (same < found.rows && plain_index(read.element[leads_[*from][same].dim]) == own[same].index) ++same;
      found.rows = same;
    }
    return found;
  }

  bool joins(int node, bool overtakes) {
    Leads own = candidates(node);
    if (own.empty()) return false;
    const Statement& s = *statement(node);
    const auto [dependent, rows] = dependence(s, own);
    if (rows == 0 || heavy() || !same_extents(s, own, rows)) return false;
    if ((!dependent || overtakes) && !may_share(s, dependent, rows)) return false;
    open_.nodes.push_back(node);
    if (local_bytes(rows) > budget() || tears_lines(s, own, rows) || any_torn(rows)) {
      open_.nodes.pop_back();
      return false;
    }
    leads_.push_back(std::move(own));
    rows_ = rows;
    set_of_[static_cast<std::size_t>(node)] = current();
    return true;
  }

  // What does not go on from the statement before shares a launch where that costs nothing: rows are as they were, no
  // work is left to fewer cores. A step of an unrolled recurrence begins a set of its own, whose kernel is that of the
  // step before.
  bool may_share(const Statement& s, bool dependent, std::size_t rows) const {
    if (!dependent && rows != rows_) return false;
    if (has_threads(target_) && !(rows == rows_ && (dependent || (folds_elements(s) && fill_machine(rows)))))
      return false;
    if (is_next_class(s) && s.kernel_name.empty() && saves_traffic(s, rows)) return true;
    if ((cycles(s) > model::worth_sharing && !has_threads(target_) && !saves_traffic(s, rows)) ||
        !s.kernel_name.empty() || has_slice(program_, s))
      return false;
    if (std::any_of(
            open_.nodes.begin(), open_.nodes.end(), [&](int other) { return has_slice(program_, *statement(other)); }))
      return false;
    if (!dependent && reads_alike(s)) return true;
    return std::none_of(
        open_.nodes.begin(), open_.nodes.end(), [&](int other) { return alike(program_, *statement(other), s); });
  }

  // Whether it finds in cache what it would fetch from memory in a launch of its own: a large tensor that the set
  // touches, by rows that the cache holds; the result, where it is the next class of one.
  bool saves_traffic(const Statement& s, std::size_t rows) const {
    const bool next = is_next_class(s);
    if (has_threads(target_) || (contracts(program_, s) && !next)) return false;
    const bool result = next && bytes_from_memory(program_, s.target.tensor, target_) > 0;
    const bool touches = std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& read) {
      return bytes_from_memory(program_, read.tensor, target_) > 0 && touched(read.tensor);
    });
    return (result || touches) &&
        bytes_of_a_row(program_, members(rows)).of(1) <= model::held_in_l2 * static_cast<double>(target_.l2);
  }
  // Whether it writes other elements of a result of the set, as the next residue class of a gradient does. A step of a
  // recurrence writes one slice.
  bool is_next_class(const Statement& s) const {
    const auto* fill = std::get_if<TensorId>(&s.fill);
    return fill != nullptr && member(*fill).has_value() && !is_slice(program_, s.target);
  }
  bool touched(TensorId id) const {
    return std::any_of(open_.nodes.begin(), open_.nodes.end(), [&](int other) {
      return reads(program_.nodes[static_cast<std::size_t>(other)], id) || statement(other)->target.tensor == id;
    });
  }
  std::vector<Member> members(std::size_t rows) const {
    std::vector<Member> all;
    for (std::size_t n = 0; n < leads_.size(); ++n) {
      all.push_back({statement(open_.nodes[n]), {}});
      for (std::size_t r = 0; r < rows; ++r) all.back().rows.push_back(leads_[n][r].index);
    }
    return all;
  }

  // ---- sums over rows, in parts

  // How many of the last row have one part: so many that other cores have something to do.
  std::int64_t part_size(const std::vector<std::int64_t>& extents) const {
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

  static std::vector<std::int64_t> extents_of(const Member& member) {
    std::vector<std::int64_t> extents;
    for (const std::size_t k : member.rows) extents.push_back(member.statement->domain[k].extent->get());
    return extents;
  }

  // What parts of sums over the rows move, and whether the cache holds a row of all statements.
  bool fits_cache(const std::vector<Member>& all, double saved) const {
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

  // The statement as one that sums over rows of the set: its indices that run over them.
  std::optional<Member> sum_over_rows(const std::vector<Member>& all, const Statement& s) const {
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

  // A sum over rows whose large operands the set reads too; fewer rows where parts for all of them would be many.
  void joins_as_sum(int node) {
    const Statement* s = statement(node);
    if (!s || !sums_in_parts(program_, *s) || contracts(program_, *s) || has_slice(program_, *s)) return;
    // What adds up parts that fill a GPU would have fewer blocks for them.
    const auto is_part = [&](const Access& read) { return rewriting_.parts.contains(read.tensor); };
    if (has_threads(target_) && std::ranges::any_of(s->reads, is_part)) return;
    double saved = 0;
    std::set<TensorId> seen;
    for (const Access& read : s->reads)
      if (seen.insert(read.tensor).second && touched(read.tensor)) saved += bytes_to_read_again(read.tensor);
    if (saved == 0) return;
    if (has_threads(target_)) saved += saved_by_sums_ + model::threads::bytes_of_a_launch;
    for (std::size_t rows = rows_; rows > 0; --rows) {
      std::vector<Member> all = members(rows);
      const auto own = sum_over_rows(all, *s);
      if (!own) continue;
      if (rows < rows_ && (local_bytes(rows) > budget() || any_torn(rows))) return;
      all.push_back(*own);
      for (const int other : sums_) {
        const auto known = sum_over_rows(members(rows), *statement(other));
        if (!known) return;
        all.push_back(*known);
      }
      if (has_threads(target_) ? !fits_by_parts(all, saved) : !fits_cache(all, saved)) continue;
      rows_ = rows;
      sums_.push_back(node);
      saved_by_sums_ = saved;
      set_of_[static_cast<std::size_t>(node)] = current();
      return;
    }
  }
  // Whether the bytes and the time allow it, by parts that are longer where need be, while each multiprocessor has a
  // block.
  bool fits_by_parts(const std::vector<Member>& all, double saved) {
    const std::int64_t before = longer_parts_;
    for (; static_cast<double>(longer_parts_) <= model::blocks_of_a_multiprocessor; longer_parts_ *= 2)
      if (fits_cache(all, saved) && walks_in_time(all, saved)) return true;
    longer_parts_ = before;
    return false;
  }

  // Whether blocks of threads have elements of a row for all their threads, and walk their rows, statement by
  // statement, in the time that memory takes.
  bool walks_in_time(const std::vector<Member>& all, double saved) const {
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
    const double steps =
        static_cast<double>(part_size(extents_of(all.front())) * static_cast<std::int64_t>(all.size()));
    return longest >= static_cast<double>(model::threads::warp) && steps * model::threads::bytes_of_a_step <= bytes;
  }
  // What another launch reads again of what this one has in its caches: on a GPU, which has many rows under way, of the
  // second cache too.
  double bytes_to_read_again(TensorId id) const {
    return has_threads(target_) ? elements(program_, id) * lang::bytes(program_.tensor(id).dtype)
                                : bytes_from_memory(program_, id, target_);
  }
  bool any_torn(std::size_t rows) const {
    for (std::size_t k = 0; k < leads_.size(); ++k)
      if (tears_lines(*statement(open_.nodes[k]), leads_[k], rows)) return true;
    return false;
  }

  // The set with its sums; they are looked at again where it cannot be.
  std::optional<Shared> with_sums() {
    if (sums_.empty()) return std::nullopt;
    std::vector<int> nodes = open_.nodes;
    nodes.insert(nodes.end(), sums_.begin(), sums_.end());
    std::sort(nodes.begin(), nodes.end());
    Member first{statement(nodes.front()), {}};
    for (std::size_t r = 0; r < rows_; ++r) first.rows.push_back(leads_[0][r].index);
    auto made = together(nodes, first, true);
    if (!made) for (const int node : sums_) set_of_[static_cast<std::size_t>(node)] = -1;
    return made;
  }

  std::optional<Shared> together(const std::vector<int>& nodes, const Member& first, bool sums) const {
    directives::Share directive;
    for (const int node : nodes) directive.tensors.push_back(target_name(program_, *statement(node)));
    for (const std::size_t k : first.rows) directive.rows.push_back(first.statement->indices[k]);
    directive.size = sums ? part_size(extents_of(first)) : 0;
    auto made = shared(rewriting_, directive);
    if (auto* set = std::get_if<Shared>(&made)) return std::move(*set);
    return std::nullopt;
  }

  // ---- rows that are any indices, where that moves less

  struct Open { std::vector<int> nodes; std::vector<Member> members; double saved = 0; };

  // Replaces the set by one from the same statement whose rows are other dimensions, or reductions of its first
  // statements.
  bool take_better(std::size_t first) {
    if (has_threads(target_) || !touches_memory(first)) return false;
    const auto other = grown_by_any(static_cast<int>(first));
    if (!other) return false;
    std::vector<Member> now = members(rows_);
    for (const int node : sums_) now.push_back({statement(node), {}});
    if (other->saved <= model::clearly_fewer_bytes * bytes_saved(program_, now, target_)) return false;
    auto made =
        together(other->nodes, other->members.front(), std::any_of(other->members.begin(), other->members.end(), sums));
    if (!made) return false;
    for (const int node : open_.nodes) set_of_[static_cast<std::size_t>(node)] = -1;
    for (const int node : sums_) set_of_[static_cast<std::size_t>(node)] = -1;
    for (const int node : other->nodes) set_of_[static_cast<std::size_t>(node)] = current();
    done_.push_back(std::move(*made));
    reset();
    return true;
  }

  bool touches_memory(std::size_t node) const {
    const Statement* s = statement(static_cast<int>(node));
    return s && std::any_of(s->reads.begin(), s->reads.end(), [&](const Access& read) {
      return bytes_from_memory(program_, read.tensor, target_) > 0;
    });
  }

  // Indices that may be rows: whole dimensions, and what is summed over where parts of it can be added up.
  std::vector<std::size_t> row_indices(int node) const {
    const Statement* s = statement(node);
    if (!s || contracts(program_, *s) || !s->kernel_name.empty() || has_slice(program_, *s)) return {};
    for (std::size_t k = 0; k < s->indices.size(); ++k)
      if (!is_output_index(*s, k) && s->domain[k].extent->is(0)) return {};
    if (std::holds_alternative<TensorId>(s->fill)) return {};
    const auto scan = scan_of(*s);
    std::vector<std::size_t> found;
    for (const Lead& lead : open_leads(program_, *s))
      if (!scan || lead.index != scan->along) found.push_back(lead.index);
    if (sums_in_parts(program_, *s))
      for (std::size_t k = 0; k < s->indices.size(); ++k)
        if (!is_output_index(*s, k)) found.push_back(k);
    return found;
  }

  std::optional<Open> grown_by_any(int first) const {
    Open open{{first}, {{statement(first), row_indices(first)}}, 0};
    std::set<TensorId> passed;
    int skipped = 0, sum = weight(statement(first)->value);
    for (std::size_t n = static_cast<std::size_t>(first) + 1; !open.members[0].rows.empty() &&
        n < program_.nodes.size() && skipped < model::overtaken && sum < model::heavy_set;
        ++n) {
      if (set_of_[n] >= 0 && set_of_[n] != current()) continue;
      const std::vector<TensorId> needs = autodiff::operands(program_.nodes[n]);
      const bool free = std::none_of(needs.begin(), needs.end(), [&](TensorId id) { return passed.contains(id); });
      if (free && joins(open, static_cast<int>(n))) {
        sum += weight(statement(static_cast<int>(n))->value);
        if (!sums(open.members.back())) continue;
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
  static bool sums(const Member& member) {
    return std::any_of(
        member.rows.begin(), member.rows.end(), [&](std::size_t k) { return !is_output_index(*member.statement, k); });
  }

  bool joins(Open& open, int node) const {
    const std::vector<std::size_t> own = row_indices(node);
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
    Open wider{open.nodes, only(open.members, kept), 0};
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
      if (fits_cache(only(all, rows), saved)) return rows;
    }
    const bool last =
        !every.empty() && (apart.empty() || apart.back() != every.back()) && apart.size() + 1 >= every.size();
    if (!last || !whole(every)) return std::nullopt;
    const auto strips = only(all, every);
    if (std::any_of(strips.begin(), strips.end(), sums) || !fits_strip(bytes_of_a_row(program_, strips), target_))
      return std::nullopt;
    return every;
  }

  // Whether both the statement and one of the set read a tensor that is computed.
  bool reads_alike(const Statement& s) const {
    return std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& read) {
      return writer_[static_cast<std::size_t>(read.tensor)] >= 0 &&
          std::any_of(open_.nodes.begin(), open_.nodes.end(),
              [&](int other) { return reads(program_.nodes[static_cast<std::size_t>(other)], read.tensor); });
    });
  }

  // A set that computes this much for an element gains nothing more from what a longer one would keep in cache, and a
  // kernel that grows without end is one that no other step can share.
  bool heavy() const {
    int sum = 0;
    for (const int node : open_.nodes) sum += weight(statement(node)->value);
    return sum >= model::heavy_set;
  }

  // A copy that finds a line of what it reads side by side along a row, of which a turn has few, takes them from as
  // many lines.
  bool tears_lines(const Statement& s, const Leads& own, std::size_t rows) const {
    if (s.aggregation != Aggregation::Assign || reduces(s) || has_threads(target_)) return false;
    for (std::size_t r = 0; r < rows; ++r) {
      if (own[r].dim + 1 == s.target.element.size()) continue;
      for (const Access& read : s.reads) {
        std::int64_t stride = 0;
        bool others = false;                           // the turn reads along something else
        for (std::size_t d = 0; d < read.element.size(); ++d) {
          stride +=
              read.element[d].coefficients[own[r].index].get() * strides_[static_cast<std::size_t>(read.tensor)][d];
          for (std::size_t k = 0; k < s.indices.size(); ++k)
            others = others || (k != own[r].index && mentions(read.element[d], k));
        }
        if (stride != 1 || !others || s.domain[own[r].index].extent->get() <= 1) continue;
        // else as many rows as a line has elements are one turn
        if (r + 1 < rows || local_bytes(rows) * model::element_of_line > budget()) return true;
      }
    }
    return false;
  }

  bool same_extents(const Statement& s, const Leads& own, std::size_t rows) const {
    const Statement& first = *statement(open_.nodes.front());
    for (std::size_t r = 0; r < rows; ++r)
      if (s.domain[own[r].index].extent != first.domain[leads_[0][r].index].extent) return false;
    return true;
  }

  double budget() const {
    return has_threads(target_) ? shared_for_rows(target_) : model::local_part_of_l2 * static_cast<double>(target_.l2);
  }

  // What one row of every target of the set takes.
  double local_bytes(std::size_t rows) const {
    double bytes = 0;
    for (const int node : open_.nodes) {
      const poly::Tensor& tensor = program_.tensor(statement(node)->target.tensor);
      // not in shared memory
      if (has_threads(target_) && is_output(program_, statement(node)->target.tensor)) continue;
      double row = lang::bytes(tensor.dtype);
      for (std::size_t k = 0; k < statement(node)->indices.size(); ++k)
        if (is_output_index(*statement(node), k)) row *= static_cast<double>(statement(node)->domain[k].extent->get());
      for (std::size_t r = 0; r < rows; ++r) row /= std::max(1.0, static_cast<double>(extent(r)));
      bytes += row;
    }
    return bytes;
  }

  std::int64_t extent(std::size_t row) const {
    return statement(open_.nodes.front())->domain[leads_[0][row].index].extent->get();
  }

  void close() {
    if (auto made = with_sums()) {
      done_.push_back(std::move(*made));
      return reset();
    }
    if (open_.nodes.size() > 1) {
      // Elementwise statements of one shape leave their last dimension to lanes, where the rows still fit.
      const auto inside = [&](std::size_t n) {
        return statement(open_.nodes[n])->target.element.size() > leads_[n][rows_ - 1].dim + 1 ||
            reduces(*statement(open_.nodes[n]));
      };
      bool any_inside = false;
      for (std::size_t n = 0; n < open_.nodes.size(); ++n) any_inside = any_inside || inside(n);
      if (rows_ > 1 && !any_inside && local_bytes(rows_ - 1) <= budget()) --rows_;
      for (std::size_t r = 0; r < rows_; ++r) {
        open_.indices.push_back(statement(open_.nodes.front())->indices[leads_[0][r].index]);
      }
      for (const Leads& leads : leads_) {
        open_.loops.emplace_back();
        for (std::size_t r = 0; r < rows_; ++r) open_.loops.back().push_back(leads[r].index);
      }
    }
    const std::size_t count = open_.nodes.size();
    done_.push_back({std::move(open_), std::vector<bool>(count, false)});
    reset();
  }

  void reset() {
    open_ = {};
    sums_.clear();
    saved_by_sums_ = 0;
    longer_parts_ = 1;
  }

  const Rewriting& rewriting_;
  const Program& program_;
  const Strides& strides_;
  const Target& target_;
  const std::vector<TensorId> buffer_;
  std::vector<int> writer_, set_of_, passed_;          // node of a tensor; set of a node; the last set before which a
                                                       // tensor is not made
  Fused::Set open_;
  std::vector<int> sums_;                              // over its rows, that join it in parts
  double saved_by_sums_ = 0;                           // bytes, on a GPU
  std::int64_t longer_parts_ = 1;                      // times what fills its multiprocessors best
  std::vector<Leads> leads_;                           // of its statements
  std::size_t rows_ = 0;
  std::vector<Shared> done_;
};

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

}  // namespace

void share_rows(Rewriting& r) {
  std::vector<Shared> chosen = Rows(r).sets();
  std::vector<Fused::Set> sets;
  for (const Shared& one : chosen) {
    note(r, one.set);
    const std::vector<Statement> behind = divide(r, one);
    rename_rows(r.program, one.set);
    sets.push_back(one.set);
    for (Fused::Set& set : sets_of_sums(r, behind)) sets.push_back(std::move(set));
  }
  put_in_order(r.program, sets);
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
    for (const TensorId id : pass.tensors) passes.emplace(id, &pass);
  std::vector<Fused::Set> sets;
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
    if ((!rows || rows != open) && (!tile || tile != open_tile) && (!pass || pass != open_pass))
      sets.push_back({{}, rows ? rows->indices : std::vector<std::string>(), {}});
    open = rows, open_tile = tile, open_pass = pass;
    Fused::Set& set = sets.back();
    if (pass) set.indices = pass->rows, set.over = pass->over;
    if (tile) set.tile = tile->steps;
    set.nodes.push_back(static_cast<int>(n));
    set.blocks = set.blocks || (s && contracts(r.program, *s));
    if (!rows) continue;
    set.parts = rows->parts;
    set.loops.emplace_back();
    for (const std::string& index : rows->indices) set.loops.back().push_back(*index_of(*s, index));
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
