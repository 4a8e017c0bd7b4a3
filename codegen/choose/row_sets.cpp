#include "codegen/choose/row_sets.h"

#include <algorithm>
#include <set>
#include <utility>

#include "autodiff/graph.h"
#include "codegen/choose/any_rows.h"
#include "codegen/choose/columns.h"
#include "codegen/choose/leaf.h"
#include "codegen/choose/row_candidates.h"
#include "codegen/choose/staged.h"
#include "codegen/choose/sums_over_rows.h"
#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/finish.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/tile.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Program;
using poly::Statement;

// The set that grows: its statements, the dimensions of each that may be rows, and how many of these are.
struct RowSet {
  const Program& program;
  const Strides& strides;
  const Target& target;
  std::vector<int> nodes = {};
  std::vector<Leads> leads = {};                       // of each statement
  std::size_t count = 0;

  const Statement* statement(int node) const {
    return std::get_if<Statement>(&program.nodes[static_cast<std::size_t>(node)]);
  }

  std::vector<Member> members(std::size_t rows) const {
    std::vector<Member> all;
    for (std::size_t n = 0; n < leads.size(); ++n) {
      all.push_back({statement(nodes[n]), {}});
      for (std::size_t r = 0; r < rows; ++r) all.back().rows.push_back(leads[n][r].index);
    }
    return all;
  }

  bool touched(TensorId id) const {
    return std::any_of(nodes.begin(), nodes.end(), [&](int other) {
      return reads(program.nodes[static_cast<std::size_t>(other)], id) || statement(other)->target.tensor == id;
    });
  }

  // Whether both the statement and one of the set read a tensor that a node writes.
  bool reads_alike(const Statement& s, const std::vector<int>& writer) const {
    return std::ranges::any_of(s.reads, [&](const Access& read) {
      return writer[static_cast<std::size_t>(read.tensor)] >= 0 && std::ranges::any_of(nodes, [&](int other) {
        return reads(program.nodes[static_cast<std::size_t>(other)], read.tensor);
      });
    });
  }

  std::int64_t extent(std::size_t row) const {
    return statement(nodes.front())->domain[leads[0][row].index].extent->get();
  }

  bool same_extents(const Statement& s, const Leads& own, std::size_t rows) const {
    const Statement& first = *statement(nodes.front());
    for (std::size_t r = 0; r < rows; ++r)
      if (s.domain[own[r].index].extent != first.domain[leads[0][r].index].extent) return false;
    return true;
  }

  double blocks(std::size_t rows) const {
    double count = 1;
    for (std::size_t r = 0; r < rows; ++r) count *= static_cast<double>(extent(r));
    return count;
  }
  bool fill_machine(std::size_t rows) const {
    return blocks(rows) >= model::blocks_of_a_multiprocessor * target.multiprocessors;
  }
  bool leaves_idle(std::size_t rows) const { return blocks(rows) < target.multiprocessors; }

  // Whether blocks for so many rows, fewer than the GPU has multiprocessors, move what it alone reads and writes in a
  // longer time than a launch of its own takes: a map of whole images behind the sums of their groups.
  bool has_few_blocks(const Statement& s, std::size_t rows) const {
    double bytes = 0;
    if (!has_threads(target) || !leaves_idle(rows)) return false;
    std::set<TensorId> own{s.target.tensor};
    for (const Access& read : s.reads) own.insert(read.tensor);
    for (const TensorId id : own)
      if (!touched(id))
        bytes += std::min(bytes_of(program, id), points(s) * lang::bytes(program.tensor(id).dtype));
    return bytes * (target.multiprocessors / blocks(rows) - 1) > model::threads::bytes_of_a_launch;
  }

  // Whether it is a value for each row, on a GPU, that a later statement reads beside what the set reads or makes: that
  // one would wait for it.
  bool goes_between(const Statement& s, std::size_t rows) const {
    const double values = elements(program, s.target.tensor);
    if (!has_threads(target) || rows != count || !elementwise(program, s) ||
        s.target.element.size() != rows || std::ranges::none_of(nodes, [&](int node) {
          return points(*statement(node)) >= model::threads::elements_of_a_value * values;
        }))
      return false;
    return std::ranges::any_of(program.nodes, [&](const poly::Node& node) {
      const std::vector<TensorId> needs = autodiff::operands(node);
      return std::ranges::find(needs, s.target.tensor) != needs.end() &&
          std::ranges::any_of(needs, [&](TensorId id) { return touched(id); });
    });
  }

  // Whether a statement that needs none of the set is one of it all the same.
  bool joins_apart(const Statement& s, std::size_t rows) const {
    return s.kernel_name.empty() && !has_slice(program, s) && (maps_alike(s, rows) || goes_between(s, rows));
  }

  // Whether it is elementwise on a GPU, as all of the set are, of as many elements, and reads a large tensor that one
  // of them reads: the first cache has what a thread read just now.
  bool maps_alike(const Statement& s, std::size_t rows) const {
    if (!has_threads(target) || rows != count || !elementwise(program, s)) return false;
    const auto& shape = program.tensor(s.target.tensor).shape;
    if (!std::ranges::all_of(nodes, [&](int node) {
          const Statement& other = *statement(node);
          return elementwise(program, other) && program.tensor(other.target.tensor).shape == shape;
        }))
      return false;
    return std::ranges::any_of(s.reads, [&](const Access& read) {
      return read.element == s.target.element && bytes_from_memory(program, read.tensor, target) > 0 &&
          touched(read.tensor);
    });
  }

  // Whether it sums, on a GPU, over the points of each sum of the set, of which one reads a tensor as it does, of so
  // many bytes or more: the first cache has what a thread read just now.
  bool sums_alike(const Statement& s, std::size_t rows, double bytes) const {
    if (!has_threads(target) || rows != count || !reduces(s) || contracts(program, s) || !s.kernel_name.empty())
      return false;
    const auto reads_with = [&](const Statement& other) {
      return std::ranges::any_of(s.reads, [&](const Access& read) {
        return bytes_of(program, read.tensor) >= bytes &&
            std::ranges::find(other.reads, read) != other.reads.end();
      });
    };
    return std::ranges::all_of(nodes, [&](int node) {
      const Statement& other = *statement(node);
      return reduces(other) && other.domain == s.domain && other.target.element == s.target.element;
    }) && std::ranges::any_of(nodes, [&](int node) { return reads_with(*statement(node)); });
  }

  // A set that computes this much for an element gains nothing more from what a longer one would keep in cache, and a
  // kernel that grows without end is one that no other step can share.
  bool heavy() const {
    int sum = 0;
    for (const int node : nodes) sum += weight(statement(node)->value);
    return sum >= model::heavy_set;
  }

  // What one row of every target of the set takes.
  double local_bytes(std::size_t rows) const {
    double bytes = 0;
    for (const int node : nodes) {
      const poly::Tensor& tensor = program.tensor(statement(node)->target.tensor);
      // not in shared memory
      if (has_threads(target) && is_output(program, statement(node)->target.tensor)) continue;
      double row = lang::bytes(tensor.dtype);
      for (std::size_t k = 0; k < statement(node)->indices.size(); ++k)
        if (is_output_index(*statement(node), k)) row *= static_cast<double>(statement(node)->domain[k].extent->get());
      for (std::size_t r = 0; r < rows; ++r) row /= std::max(1.0, static_cast<double>(extent(r)));
      bytes += row;
    }
    return bytes;
  }

  double budget() const {
    return has_threads(target) ? shared_for_rows(target) : model::local_part_of_l2 * static_cast<double>(target.l2);
  }

  // A copy that finds a line of what it reads side by side along a row, of which a turn has few, takes them from as
  // many lines.
  bool tears_lines(const Statement& s, const Leads& own, std::size_t rows) const {
    if (s.aggregation != Aggregation::Assign || reduces(s) || has_threads(target)) return false;
    for (std::size_t r = 0; r < rows; ++r) {
      if (own[r].dim + 1 == s.target.element.size()) continue;
      for (const Access& read : s.reads) {
        bool others = false;                           // the turn reads along something else
        for (std::size_t d = 0; d < read.element.size(); ++d)
          for (std::size_t k = 0; k < s.indices.size(); ++k)
            others = others || (k != own[r].index && mentions(read.element[d], k));
        if (!others || stride_along(read, own[r].index, strides) != 1 || s.domain[own[r].index].extent->get() <= 1)
          continue;
        // else as many rows as a line has elements are one turn
        if (r + 1 < rows || local_bytes(rows) * model::element_of_line > budget()) return true;
      }
    }
    return false;
  }

  bool any_torn(std::size_t rows) const {
    for (std::size_t k = 0; k < leads.size(); ++k)
      if (tears_lines(*statement(nodes[k]), leads[k], rows)) return true;
    return false;
  }

  // With its rows as loops, none where it is one statement.
  Fused::Set as_set() const {
    Fused::Set set;
    if (nodes.size() < 2) return set;
    // Elementwise statements of one shape leave their last dimension to lanes, where the rows still fit.
    const auto inside = [&](std::size_t n) {
      return statement(nodes[n])->target.element.size() > leads[n][count - 1].dim + 1 ||
          reduces(*statement(nodes[n]));
    };
    bool any_inside = false;
    for (std::size_t n = 0; n < nodes.size(); ++n) any_inside = any_inside || inside(n);
    const std::size_t rows = count > 1 && !any_inside && local_bytes(count - 1) <= budget() ? count - 1 : count;
    std::vector<std::size_t> first;
    for (std::size_t r = 0; r < rows; ++r) first.push_back(leads[0][r].index);
    const auto columns = columns_of_few_rows(rows);
    if (columns) first.push_back(*columns);
    for (const std::size_t k : first) set.indices.push_back(statement(nodes.front())->indices[k]);
    for (const Leads& own : leads) {
      set.loops.emplace_back();
      for (std::size_t r = 0; r < rows; ++r) set.loops.back().push_back(own[r].index);
      if (columns) set.loops.back().push_back(*columns);
    }
    return set;
  }

  // Of sums down columns that read alike, whose rows are too few for the machine: the index of the columns, some of
  // which are a block's.
  std::optional<std::size_t> columns_of_few_rows(std::size_t rows) const {
    if (!has_threads(target) || !leaves_idle(rows)) return std::nullopt;
    const Statement& first = *statement(nodes.front());
    const Leads all = open_leads(program, first);
    const bool alike = std::ranges::all_of(nodes, [&](int node) {
      const Statement& s = *statement(node);
      return reduces(s) && s.domain == first.domain && s.target.element == first.target.element &&
          !touched_by(nodes, s.target.tensor);
    });
    const bool last = alike && all.size() > rows && all.back().dim + 1 == first.target.element.size();
    return last ? std::optional(all.back().index) : std::nullopt;
  }

  bool touched_by(const std::vector<int>& readers, TensorId id) const {
    return std::ranges::any_of(
        readers, [&](int node) { return reads(program.nodes[static_cast<std::size_t>(node)], id); });
  }
};

// Whether each block of threads folds one element.
bool folds_elements(const Rewriting& r, const Statement& s) {
  const Nest nest = nest_of(s, r.strides);
  const Facts all = facts(nest, {}, r.target);
  std::int64_t threads = 0;
  return !staged_leaf(all, 0, r.target, threads) && choose_leaf(all, 0).leaf.is<forms::Reduce>();
}

// Whether an operand was copied for it, by a launch that fills the machine: in another order, rounded, or with its rows
// apart.
bool reads_copy(const Rewriting& r, const Statement& s) {
  return std::ranges::any_of(s.reads, [&](const Access& read) {
    return std::ranges::any_of(r.copies, [&](const auto& made) {
      const auto& [tensor, order, bits, apart] = made.first;
      return made.second == read.tensor && (bits != 0 || apart != 0 || order != in_order(order.size()));
    });
  });
}

// No rows when the statement cannot share any.
Leads candidates(const Rewriting& r, const std::vector<TensorId>& buffer, int node) {
  const auto* s = std::get_if<Statement>(&r.program.nodes[static_cast<std::size_t>(node)]);
  if (!s || tiled(r, s->target.tensor) || in_pass(r, s->target.tensor) || finished(r, s->target.tensor)) return {};
  // Blocks of threads want whole contractions; a part of a sum that goes through its largest operand once is none.
  const bool streams = r.parts.contains(s->target.tensor) && !contracts(r.program, *s);
  if (has_threads(r.target) && reuses(*s) && !streams && !folds_elements(r, *s)) return {};
  for (std::size_t k = 0; k < s->indices.size(); ++k)
    if (!is_output_index(*s, k) && s->domain[k].extent->is(0)) return {};
  if (const auto* fill = std::get_if<TensorId>(&s->fill);
      fill && buffer[static_cast<std::size_t>(*fill)] != buffer[static_cast<std::size_t>(s->target.tensor)])
    return {};
  return row_candidates(r.program, *s, r.strides);
}

// Whether it may join a set as a sum over its rows, which parts add up.
bool joins_in_parts(const Rewriting& r, const Statement& s) {
  return sums_in_parts(r.program, s) && !contracts(r.program, s) && !has_slice(r.program, s) &&
      !finished(r, s.target.tensor);
}

// Whether it copies rows into shared memory for what reads them beside the set's.
bool brings_rows(const Rewriting& r, const RowSet& set, const Statement& s) {
  const bool copies = has_threads(r.target) && std::ranges::any_of(r.copies, [&](const auto& made) {
    const auto& [tensor, order, bits, apart] = made.first;
    return made.second == s.target.tensor && bits == 0 && apart == 0 && order == in_order(order.size());
  });
  return copies && std::ranges::any_of(r.program.nodes, [&](const poly::Node& node) {
    return reads(node, s.target.tensor) &&
        std::ranges::any_of(autodiff::operands(node), [&](TensorId id) { return set.touched(id); });
  });
}

bool touches_memory(const Rewriting& r, std::size_t node) {
  const auto* s = std::get_if<Statement>(&r.program.nodes[node]);
  return s && std::any_of(s->reads.begin(), s->reads.end(), [&](const Access& read) {
    return bytes_from_memory(r.program, read.tensor, r.target) > 0;
  });
}

// Of how many bytes a tensor is at least that sums share a launch for.
double bytes_to_share(const Rewriting& r, const Statement& s) {
  return r.parts.contains(s.target.tensor) ? 0 : model::threads::bytes_of_a_launch;
}

// As a directive would have them: with rows of the first one, and parts of so many of the last where it sums over them.
std::optional<Shared> together(
    const Rewriting& r, const std::vector<int>& nodes, const Member& first, std::int64_t part) {
  directives::Share directive;
  for (const int node : nodes)
    directive.tensors.push_back(
        target_name(r.program, std::get<Statement>(r.program.nodes[static_cast<std::size_t>(node)])));
  for (const std::size_t k : first.rows) directive.rows.push_back(first.statement->indices[k]);
  directive.size = part;
  auto made = shared(r, directive);
  if (auto* set = std::get_if<Shared>(&made)) return std::move(*set);
  return std::nullopt;
}

class RowSets {
 public:
  explicit RowSets(const Rewriting& r)
      : rewriting_(r),
        program_(r.program),
        strides_(r.strides),
        target_(r.target),
        buffer_(buffers(r.program)),
        writer_(r.program.tensors.size(), -1),
        set_of_(r.program.nodes.size(), -1),
        passed_(r.program.tensors.size(), -1),
        open_{r.program, r.strides, r.target},
        parts_(r.program, r.target) {
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
  int current() const { return static_cast<int>(done_.size()); }
  void open(int node) {
    open_.nodes = {node};
    open_.leads = {candidates(rewriting_, buffer_, node)};
    open_.count = open_.leads[0].size();
    set_of_[static_cast<std::size_t>(node)] = current();
  }

  // Statements that cannot join are passed over; what needs one of them waits with it.
  void grow(std::size_t first) {
    int skipped = 0;
    for (std::size_t n = first + 1; open_.count > 0 && n < program_.nodes.size() && skipped < model::overtaken; ++n) {
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
    Dependence found{false, std::min(open_.count, own.size())};
    for (const Access& read : s.reads) {
      const auto from = member(read.tensor);
      if (!from) continue;
      found.any = true;
      std::size_t same = 0;
      while (same < found.rows && plain_index(read.element[open_.leads[*from][same].dim]) == own[same].index) ++same;
      found.rows = same;
    }
    return found;
  }

  bool joins(int node, bool overtakes) {
    Leads own = candidates(rewriting_, buffer_, node);
    if (own.empty()) return false;
    const Statement& s = *open_.statement(node);
    const auto [dependent, rows] = dependence(s, own);
    if (rows == 0 || open_.heavy() || !open_.same_extents(s, own, rows) || open_.has_few_blocks(s, rows)) return false;
    if (has_threads(target_) && reads_copy(rewriting_, s) && !open_.fill_machine(rows)) return false;
    if ((!dependent || overtakes) && !may_share(s, dependent, rows)) return false;
    open_.nodes.push_back(node);
    if (open_.local_bytes(rows) > open_.budget() || open_.tears_lines(s, own, rows) || open_.any_torn(rows)) {
      open_.nodes.pop_back();
      return false;
    }
    open_.leads.push_back(std::move(own));
    open_.count = rows;
    set_of_[static_cast<std::size_t>(node)] = current();
    return true;
  }

  // What does not go on from the statement before shares a launch where that costs nothing: rows are as they were, no
  // work is left to fewer cores. A step of an unrolled recurrence begins a set of its own, whose kernel is that of the
  // step before.
  bool may_share(const Statement& s, bool dependent, std::size_t rows) const {
    if (!dependent && rows != open_.count) return false;
    if (!dependent && (open_.joins_apart(s, rows) || brings_rows(rewriting_, open_, s))) return true;
    const double bytes = bytes_to_share(rewriting_, s);
    const bool fills = open_.fill_machine(rows), folds = has_threads(target_) && folds_elements(rewriting_, s);
    if (!dependent && open_.sums_alike(s, rows, bytes)) return true;
    if (has_threads(target_) && !(rows == open_.count && (dependent || (folds && fills)))) return false;
    if (is_next_class(s) && s.kernel_name.empty() && saves_traffic(s, rows)) return true;
    if ((cycles(s) > model::worth_sharing && !has_threads(target_) && !saves_traffic(s, rows)) ||
        !s.kernel_name.empty() || is_step(rewriting_, s))
      return false;
    const auto steps = [&](int other) { return is_step(rewriting_, *open_.statement(other)); };
    if (std::ranges::any_of(open_.nodes, steps)) return false;
    if (!dependent && open_.reads_alike(s, writer_)) return true;
    return std::none_of(
        open_.nodes.begin(), open_.nodes.end(), [&](int other) { return alike(program_, *open_.statement(other), s); });
  }

  // Whether it finds in cache what it would fetch from memory in a launch of its own: a large tensor that the set
  // touches, by rows that the cache holds; the result, where it is the next class of one.
  bool saves_traffic(const Statement& s, std::size_t rows) const {
    const bool next = is_next_class(s);
    if (has_threads(target_) || (contracts(program_, s) && !next)) return false;
    const bool result = next && bytes_from_memory(program_, s.target.tensor, target_) > 0;
    const bool touches = std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& read) {
      return bytes_from_memory(program_, read.tensor, target_) > 0 && open_.touched(read.tensor);
    });
    return (result || touches) &&
        bytes_of_a_row(program_, open_.members(rows)).of(1) <= model::held_in_l2 * static_cast<double>(target_.l2);
  }
  // Whether it writes other elements of a result of the set, as the next residue class of a gradient does. A step of a
  // recurrence writes one slice.
  bool is_next_class(const Statement& s) const {
    const auto* fill = std::get_if<TensorId>(&s.fill);
    return fill != nullptr && member(*fill).has_value() && !is_slice(program_, s.target);
  }

  // ---- sums over rows, in parts

  // A sum over rows whose large operands the set reads too; fewer rows where parts for all of them would be many.
  void joins_as_sum(int node) {
    const Statement* s = open_.statement(node);
    if (!s || !joins_in_parts(rewriting_, *s)) return;
    // What adds up parts that fill a GPU would have fewer blocks for them.
    const auto is_part = [&](const Access& read) { return rewriting_.parts.contains(read.tensor); };
    if (has_threads(target_) && std::ranges::any_of(s->reads, is_part)) return;
    double saved = 0;
    std::set<TensorId> seen;
    for (const Access& read : s->reads)
      if (seen.insert(read.tensor).second && open_.touched(read.tensor))
        saved += parts_.bytes_to_read_again(read.tensor);
    if (saved == 0) return;
    if (has_threads(target_)) saved += saved_by_sums_ + model::threads::bytes_of_a_launch;
    for (std::size_t rows = open_.count; rows > 0; --rows) {
      std::vector<Member> all = open_.members(rows);
      const auto own = parts_.sum_over_rows(all, *s);
      if (!own) continue;
      if (rows < open_.count && (open_.local_bytes(rows) > open_.budget() || open_.any_torn(rows))) return;
      all.push_back(*own);
      for (const int other : sums_) {
        const auto known = parts_.sum_over_rows(open_.members(rows), *open_.statement(other));
        if (!known) return;
        all.push_back(*known);
      }
      if (has_threads(target_) ? !parts_.fits_by_parts(all, saved) : !parts_.fits_cache(all, saved)) continue;
      open_.count = rows;
      sums_.push_back(node);
      saved_by_sums_ = saved;
      set_of_[static_cast<std::size_t>(node)] = current();
      return;
    }
  }

  // The set with its sums; they are looked at again where it cannot be.
  std::optional<Shared> with_sums() {
    if (sums_.empty()) return std::nullopt;
    std::vector<int> nodes = open_.nodes;
    nodes.insert(nodes.end(), sums_.begin(), sums_.end());
    std::sort(nodes.begin(), nodes.end());
    Member first{open_.statement(nodes.front()), {}};
    for (std::size_t r = 0; r < open_.count; ++r) first.rows.push_back(open_.leads[0][r].index);
    auto made = together(rewriting_, nodes, first, parts_.part_size(extents_of(first)));
    if (!made) for (const int node : sums_) set_of_[static_cast<std::size_t>(node)] = -1;
    return made;
  }

  // ---- rows that are any indices, where that moves less

  // Replaces the set by one from the same statement whose rows are other dimensions, or reductions of its first
  // statements.
  bool take_better(std::size_t first) {
    const auto other = better(static_cast<int>(first));
    if (!other) return false;
    const Member& all = other->members.front();
    const bool sums = std::ranges::any_of(other->members, sums_over_rows);
    auto made = together(rewriting_, other->nodes, all, sums ? parts_.part_size(extents_of(all)) : 0);
    if (!made) return false;
    for (const auto* nodes : {&open_.nodes, &sums_})
      for (const int node : *nodes) set_of_[static_cast<std::size_t>(node)] = -1;
    for (const int node : other->nodes) set_of_[static_cast<std::size_t>(node)] = current();
    done_.push_back(std::move(*made));
    reset();
    return true;
  }

  std::optional<OpenSet> better(int first) const {
    const auto free = [&](std::size_t node) { return set_of_[node] < 0 || set_of_[node] == current(); };
    if (has_threads(target_)) {
      auto other = grown_by_columns(rewriting_, first, free);
      const std::size_t now = open_.nodes.size() + sums_.size(), least = now + !open_.leaves_idle(open_.count);
      return other && other->nodes.size() >= least ? other : std::nullopt;
    }
    if (!touches_memory(rewriting_, static_cast<std::size_t>(first))) return std::nullopt;
    std::vector<Member> now = open_.members(open_.count);
    for (const int node : sums_) now.push_back({open_.statement(node), {}});
    auto other = grown_by_any_rows(program_, strides_, target_, first, free);
    const bool fewer = other && other->saved > model::clearly_fewer_bytes * bytes_saved(program_, now, target_);
    return fewer ? other : std::nullopt;
  }

  void close() {
    if (auto made = with_sums()) return done_.push_back(std::move(*made)), reset();
    Fused::Set set = open_.as_set();
    set.nodes = std::move(open_.nodes);
    const std::size_t count = set.nodes.size();
    done_.push_back({std::move(set), std::vector<bool>(count, false)});
    reset();
  }

  void reset() {
    open_.nodes.clear();
    sums_.clear();
    saved_by_sums_ = 0;
    parts_.make_shortest();
  }

  const Rewriting& rewriting_;
  const Program& program_;
  const Strides& strides_;
  const Target& target_;
  const std::vector<TensorId> buffer_;
  std::vector<int> writer_, set_of_, passed_;          // node of a tensor; set of a node; the last set before which a
                                                       // tensor is not made
  RowSet open_;
  SumsOverRows parts_;
  std::vector<int> sums_;                              // over its rows, that join it in parts
  double saved_by_sums_ = 0;                           // bytes, on a GPU
  std::vector<Shared> done_;
};

}  // namespace

std::vector<Shared> sets_that_share_rows(const Rewriting& r) { return RowSets(r).sets(); }

}  // namespace tilec::codegen
