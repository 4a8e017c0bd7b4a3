// Grows sets of statements that can run row by row; one that cannot join is passed over, with what waits for it.
#include "codegen/rewrite/rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "autodiff/graph.h"
#include "codegen/part.h"
#include "codegen/plan.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/tile.h"
#include "codegen/scan.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Statement;

// A dimension of a target that is an index of its own over the whole extent.
struct Lead { std::size_t dim, index; };
using Leads = std::vector<Lead>;

// Whether rows over outputs alone bound index k: then some of its values have no element.
bool bounded(const Statement& s, std::size_t k) {
  const auto reduces = [&](const Affine& row) {
    for (std::size_t j = 0; j < s.indices.size(); ++j) if (mentions(row, j) && !is_output_index(s, j)) return true;
    return false;
  };
  return std::any_of(s.domain.begin() + static_cast<std::ptrdiff_t>(s.indices.size()), s.domain.end(), [&](const poly::Range& row) { return mentions(row.value, k) && !reduces(row.value); });
}

// Whether a statement reads or writes one of several elements along a dimension, as a step of a recurrence does of its inputs: the
// same statement of another step has another address, so the two have no kernel in common.
bool has_slice(const Program& program, const Statement& s) {
  const auto is_slice = [&](const Access& access) {
    const auto& shape = program.tensor(access.tensor).shape;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (access.element[d].is_constant() && !shape[d].is(1)) return true;
    return false;
  };
  return is_slice(s.target) || std::any_of(s.reads.begin(), s.reads.end(), is_slice);
}

// The target's first such dimensions; where there is one element only, none.
Leads leads_of(const Program& program, const Statement& s) {
  const poly::Tensor& tensor = program.tensor(s.target.tensor);
  Leads leads;
  for (std::size_t d = 0; d < s.target.element.size(); ++d) {
    if (s.target.element[d].is_constant() && tensor.shape[d].is(1)) continue;
    const auto k = plain_index(s.target.element[d]);
    if (!k || bounded(s, *k) || std::any_of(leads.begin(), leads.end(), [&](const Lead& lead) { return lead.index == *k; })) break;
    if (!s.domain[*k].value.constant.is(0) || s.domain[*k].extent != tensor.shape[d]) break;
    leads.push_back({d, *k});
  }
  return leads;
}

// Those that may become loops: a contraction keeps its last dimension for lanes, a scan all that it runs along.
Leads row_candidates(const Program& program, const Statement& s, const Strides& strides) {
  Leads leads = leads_of(program, s);
  if (leads.empty()) return leads;
  if (const auto scan = scan_of(s)) {                  // one turn has the whole scan
    const auto along = std::find_if(leads.begin(), leads.end(), [&](const Lead& lead) { return lead.index == scan->along; });
    leads.erase(along, leads.end());
    return leads;
  }
  const std::size_t rank = s.target.element.size();
  // A reduction down the unit stride of what it reads wants lanes over its last output dimension, many at a time.
  const auto last = plain_index(s.target.element.back());
  const bool down = reduces(s) && last && std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& read) {
    std::int64_t stride = 0;
    for (std::size_t d = 0; d < read.element.size(); ++d) stride += read.element[d].coefficients[*last].get() * strides[static_cast<std::size_t>(read.tensor)][d];
    return read.element.size() > 1 && stride == 1;
  });
  if ((down || (rank > 1 && reuses(s))) && leads.back().dim == rank - 1) leads.pop_back();
  return leads;
}

// One statement of an unrolled recurrence and the same one of another step.
bool alike(const Program& program, const Statement& a, const Statement& b) {
  const auto same_kind = [&](const Access& x, const Access& y) {
    const poly::Tensor &s = program.tensor(x.tensor), &t = program.tensor(y.tensor);
    return s.dtype == t.dtype && s.shape == t.shape && x.element.size() == y.element.size();
  };
  return a.aggregation == b.aggregation && a.domain == b.domain && same_kind(a.target, b.target) && a.target.element == b.target.element &&
         std::equal(a.reads.begin(), a.reads.end(), b.reads.begin(), b.reads.end(), same_kind) && a.value == b.value;
}

class Rows {
 public:
  explicit Rows(const Rewriting& r)
      : r_(r), program_(r.program), strides_(r.strides), target_(r.target), buffer_(buffers(program_)), writer_(program_.tensors.size(), -1), set_of_(program_.nodes.size(), -1), passed_(program_.tensors.size(), -1) {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n)
      for (const TensorId id : autodiff::targets(program_.nodes[n])) writer_[static_cast<std::size_t>(id)] = static_cast<int>(n);
  }

  std::vector<Fused::Set> sets() {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (set_of_[n] >= 0) continue;
      open(static_cast<int>(n));
      grow(n);
      close();
    }
    return std::move(done_);
  }

 private:
  static constexpr int reach = 32;                     // statements that a later one may overtake
  static constexpr double worth_sharing = 250000;      // cycles: what runs longer gains nothing from one launch less

  const Statement* statement(int node) const { return std::get_if<Statement>(&program_.nodes[static_cast<std::size_t>(node)]); }
  int current() const { return static_cast<int>(done_.size()); }

  // No rows when the statement cannot share any.
  Leads candidates(int node) const {
    const Statement* s = statement(node);
    if (!s || tiled(r_, s->target.tensor)) return {};
    if (has_threads(target_) && reuses(*s)) return {};  // blocks of threads want whole contractions
    for (std::size_t k = 0; k < s->indices.size(); ++k) if (!is_output_index(*s, k) && s->domain[k].extent->is(0)) return {};
    if (const auto* fill = std::get_if<TensorId>(&s->fill); fill && buffer_[static_cast<std::size_t>(*fill)] != buffer_[static_cast<std::size_t>(s->target.tensor)]) return {};
    return row_candidates(program_, *s, strides_);
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
    for (std::size_t n = first + 1; rows_ > 0 && n < program_.nodes.size() && skipped < reach; ++n) {
      if (set_of_[n] >= 0) continue;
      if (!waits(n) && joins(static_cast<int>(n), skipped > 0)) continue;
      ++skipped;
      for (const TensorId id : autodiff::targets(program_.nodes[n])) passed_[static_cast<std::size_t>(id)] = current();
    }
  }

  bool waits(std::size_t node) const {
    const std::vector<TensorId> needs = autodiff::operands(program_.nodes[node]);
    return std::any_of(needs.begin(), needs.end(), [&](TensorId id) { return passed_[static_cast<std::size_t>(id)] == current(); });
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
    bool torn = tears_lines(s, own, rows);
    for (std::size_t k = 0; k + 1 < open_.nodes.size(); ++k) torn = torn || tears_lines(*statement(open_.nodes[k]), leads_[k], rows);
    if (local_bytes(rows) > budget() || torn) {
      open_.nodes.pop_back();
      return false;
    }
    leads_.push_back(std::move(own));
    rows_ = rows;
    set_of_[static_cast<std::size_t>(node)] = current();
    return true;
  }

  // What does not go on from the statement before shares a launch where that costs nothing: rows are as they were, no work is left
  // to fewer cores. A step of an unrolled recurrence begins a set of its own, whose kernel is that of the step before.
  bool may_share(const Statement& s, bool dependent, std::size_t rows) const {
    if (!dependent && (has_threads(target_) || rows != rows_)) return false;
    if (cycles(s) > worth_sharing || !s.kernel_name.empty() || has_slice(program_, s)) return false;
    if (std::any_of(open_.nodes.begin(), open_.nodes.end(), [&](int other) { return has_slice(program_, *statement(other)); })) return false;
    if (!dependent && reads_alike(s)) return true;
    return std::none_of(open_.nodes.begin(), open_.nodes.end(), [&](int other) { return alike(program_, *statement(other), s); });
  }

  // Whether both the statement and one of the set read a tensor that is computed.
  bool reads_alike(const Statement& s) const {
    return std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& read) {
      return writer_[static_cast<std::size_t>(read.tensor)] >= 0 && std::any_of(open_.nodes.begin(), open_.nodes.end(), [&](int other) { return reads(program_.nodes[static_cast<std::size_t>(other)], read.tensor); });
    });
  }

  // A set that computes this much for an element gains nothing more from what a longer one would keep in cache, and a kernel that
  // grows without end is one that no other step can share.
  bool heavy() const {
    int sum = 0;
    for (const int node : open_.nodes) sum += weight(statement(node)->value);
    return sum >= 512;
  }

  // A copy that finds a line of what it reads side by side along a row, of which a turn has few, takes them from as many lines.
  bool tears_lines(const Statement& s, const Leads& own, std::size_t rows) const {
    if (s.aggregation != Aggregation::Assign || reduces(s) || has_threads(target_)) return false;
    for (std::size_t r = 0; r < rows; ++r) {
      if (own[r].dim + 1 == s.target.element.size()) continue;
      for (const Access& read : s.reads) {
        std::int64_t stride = 0;
        bool others = false;                           // the turn reads along something else
        for (std::size_t d = 0; d < read.element.size(); ++d) {
          stride += read.element[d].coefficients[own[r].index].get() * strides_[static_cast<std::size_t>(read.tensor)][d];
          for (std::size_t k = 0; k < s.indices.size(); ++k) others = others || (k != own[r].index && mentions(read.element[d], k));
        }
        if (stride != 1 || !others || s.domain[own[r].index].extent->get() <= 1) continue;
        if (r + 1 < rows || local_bytes(rows) * of_a_line > budget()) return true;  // else as many rows as a line has elements are one turn
      }
    }
    return false;
  }
  static constexpr double of_a_line = 16;

  bool same_extents(const Statement& s, const Leads& own, std::size_t rows) const {
    const Statement& first = *statement(open_.nodes.front());
    for (std::size_t r = 0; r < rows; ++r)
      if (s.domain[own[r].index].extent != first.domain[leads_[0][r].index].extent) return false;
    return true;
  }

  double budget() const { return static_cast<double>(has_threads(target_) ? target_.shared_bytes : target_.l2) / 2; }

  // What one row of every target of the set takes.
  double local_bytes(std::size_t rows) const {
    double bytes = 0;
    for (const int node : open_.nodes) {
      const poly::Tensor& tensor = program_.tensor(statement(node)->target.tensor);
      double row = lang::bytes(tensor.dtype);
      for (std::size_t k = 0; k < statement(node)->indices.size(); ++k)
        if (is_output_index(*statement(node), k)) row *= static_cast<double>(statement(node)->domain[k].extent->get());
      for (std::size_t r = 0; r < rows; ++r) row /= std::max(1.0, static_cast<double>(extent(r)));
      bytes += row;
    }
    return bytes;
  }

  std::int64_t extent(std::size_t row) const { return statement(open_.nodes.front())->domain[leads_[0][row].index].extent->get(); }

  void close() {
    if (open_.nodes.size() > 1) {
      // Elementwise statements of one shape leave their last dimension to lanes, where the rows still fit.
      const auto inside = [&](std::size_t n) { return statement(open_.nodes[n])->target.element.size() > leads_[n][rows_ - 1].dim + 1 || reduces(*statement(open_.nodes[n])); };
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
    done_.push_back(std::move(open_));
    open_ = {};
  }

  const Rewriting& r_;
  const Program& program_;
  const Strides& strides_;
  const Target& target_;
  const std::vector<TensorId> buffer_;
  std::vector<int> writer_, set_of_, passed_;          // node of a tensor; set of a node; the last set before which a tensor is not made
  Fused::Set open_;
  std::vector<Leads> leads_;                           // of its statements
  std::size_t rows_ = 0;
  std::vector<Fused::Set> done_;
};

// The set's loops have one name in all its statements; an index that had that name before gets another.
void rename_rows(Program& program, const Fused::Set& set) {
  for (std::size_t n = 0; n < set.loops.size(); ++n) {
    auto& s = std::get<Statement>(program.nodes[static_cast<std::size_t>(set.nodes[n])]);
    for (std::size_t k = 0; k < s.indices.size(); ++k)
      if (std::find(set.indices.begin(), set.indices.end(), s.indices[k]) != set.indices.end()) s.indices[k] += "_";
    for (std::size_t k = 0; k < s.indices.size(); ++k)
      while (std::count(s.indices.begin(), s.indices.end(), s.indices[k]) > 1) s.indices[k] += "_";
    for (std::size_t r = 0; r < set.indices.size(); ++r) s.indices[set.loops[n][r]] = set.indices[r];
  }
}

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

void note(Rewriting& r, const Fused::Set& set) {
  if (set.nodes.size() < 2) return;
  directives::Share done{{}, set.indices};
  Rewriting::Rows rows{{}, set.indices};
  for (const int node : set.nodes) {
    const auto& s = std::get<Statement>(r.program.nodes[static_cast<std::size_t>(node)]);
    done.tensors.push_back(target_name(r.program, s));
    rows.tensors.push_back(s.target.tensor);
  }
  r.done.push_back(std::move(done));
  r.rows.push_back(std::move(rows));
}

// ---- given sets

// The set of these statements, or why they cannot run row by row.
class Sharing {
 public:
  Sharing(const Rewriting& r, const directives::Share& directive) : r_(r), program_(r.program), directive_(directive), buffer_(buffers(r.program)) {}

  std::variant<Fused::Set, std::string> set() {
    if (directive_.tensors.size() < 2) return std::string("one statement shares its launch with nobody");
    for (const std::string& name : directive_.tensors) if (const Refusal why = add(name)) return *why;
    if (const Refusal why = out_of_order()) return *why;
    if (has_threads(r_.target) && bytes_ > static_cast<double>(r_.target.shared_bytes) / 2) return fmt::format("a row of all of them takes {:.0f} bytes of shared memory", bytes_);
    set_.indices = directive_.rows;
    return std::move(set_);
  }

 private:
  const Statement& statement(std::size_t member) const { return std::get<Statement>(program_.nodes[static_cast<std::size_t>(set_.nodes[member])]); }

  Refusal add(const std::string& name) {
    const auto n = statement_of(program_, name);
    if (!n) return no_statement(name);
    if (!set_.nodes.empty() && static_cast<int>(*n) <= set_.nodes.back()) return fmt::format("`{}` is computed before `{}`", name, target_name(program_, statement(set_.nodes.size() - 1)));
    const auto& s = std::get<Statement>(program_.nodes[*n]);
    if (std::any_of(r_.rows.begin(), r_.rows.end(), [&](const Rewriting::Rows& rows) { return std::count(rows.tensors.begin(), rows.tensors.end(), s.target.tensor) > 0; })) return fmt::format("`{}` shares rows already", name);
    if (tiled(r_, s.target.tensor)) return fmt::format("`{}` is tiled", name);
    if (const Refusal why = without_rows(s, name)) return why;
    set_.nodes.push_back(static_cast<int>(*n));
    const auto extents_differ = [&](std::size_t row) { return s.domain[leads_.back()[row].index].extent != statement(0).domain[leads_[0][row].index].extent; };
    for (std::size_t row = 0; row < directive_.rows.size(); ++row)
      if (extents_differ(row)) return fmt::format("`{}` has another number of rows `{}`", name, directive_.rows[row]);
    double row_bytes = lang::bytes(program_.tensor(s.target.tensor).dtype);
    for (std::size_t k = 0; k < s.indices.size(); ++k) if (is_output_index(s, k)) row_bytes *= static_cast<double>(extent(s, k));
    set_.loops.emplace_back();
    for (std::size_t row = 0; row < directive_.rows.size(); ++row) {
      const std::size_t k = leads_.back()[row].index;
      set_.loops.back().push_back(k);
      row_bytes /= std::max(1.0, static_cast<double>(extent(s, k)));
    }
    bytes_ += row_bytes;
    return elsewhere(s, name);
  }

  // A statement whose first dimensions are not the rows.
  Refusal without_rows(const Statement& s, const std::string& name) {
    for (std::size_t k = 0; k < s.indices.size(); ++k) if (!is_output_index(s, k) && extent(s, k) == 0) return fmt::format("the fold of `{}` has no value", name);
    if (const auto* fill = std::get_if<TensorId>(&s.fill); fill && buffer_[static_cast<std::size_t>(*fill)] != buffer_[static_cast<std::size_t>(s.target.tensor)]) return fmt::format("`{}` begins as a copy of another tensor", name);
    Leads leads = leads_of(program_, s);
    if (const auto scan = scan_of(s)) leads.erase(std::find_if(leads.begin(), leads.end(), [&](const Lead& lead) { return lead.index == scan->along; }), leads.end());
    if (leads.size() < directive_.rows.size()) return fmt::format("`{}` has only {} that can be rows", name, lang::counted(leads.size(), "first dimension"));
    for (std::size_t row = 0; set_.nodes.empty() && row < directive_.rows.size(); ++row)
      if (s.indices[leads[row].index] != directive_.rows[row]) return fmt::format("dimension {} of `{}` is `{}`, not `{}`", row + 1, name, s.indices[leads[row].index], directive_.rows[row]);
    leads_.push_back(std::move(leads));
    return std::nullopt;
  }

  // A statement that reads another row of one in the set.
  Refusal elsewhere(const Statement& s, const std::string& name) const {
    for (const Access& read : s.reads)
      for (std::size_t m = 0; m + 1 < set_.nodes.size(); ++m) {
        if (statement(m).target.tensor != read.tensor) continue;
        for (std::size_t row = 0; row < directive_.rows.size(); ++row)
          if (plain_index(read.element[leads_[m][row].dim]) != leads_.back()[row].index) return fmt::format("`{}` reads other rows of `{}`", name, program_.tensor(read.tensor).name);
      }
    return std::nullopt;
  }

  // One that stands between them, and that a later one of them waits for.
  Refusal out_of_order() const {
    std::set<TensorId> later;                          // made behind the first of the set, and not by it
    for (std::size_t n = static_cast<std::size_t>(set_.nodes.front()), m = 0; m < set_.nodes.size(); ++n) {
      if (static_cast<int>(n) != set_.nodes[m]) {
        for (const TensorId id : autodiff::targets(program_.nodes[n])) later.insert(id);
        continue;
      }
      for (const TensorId id : autodiff::operands(program_.nodes[n]))
        if (later.contains(id)) return fmt::format("`{}` waits for `{}`, which is not among them", target_name(program_, statement(m)), program_.tensor(id).name);
      ++m;
    }
    return std::nullopt;
  }

  const Rewriting& r_;
  const Program& program_;
  const directives::Share& directive_;
  const std::vector<TensorId> buffer_;
  Fused::Set set_;
  std::vector<Leads> leads_;
  double bytes_ = 0;
};

// Its statements follow the first of them.
void bring_together(Program& program, std::vector<int> nodes) {
  for (std::size_t m = 1; m < nodes.size(); ++m) {
    const auto to = program.nodes.begin() + nodes.front() + static_cast<std::ptrdiff_t>(m), from = program.nodes.begin() + nodes[m];
    std::rotate(to, from, from + 1);
  }
}

}  // namespace

void share_rows(Rewriting& r) {
  std::vector<Fused::Set> sets = Rows(r).sets();
  for (const Fused::Set& set : sets) {
    note(r, set);
    rename_rows(r.program, set);
  }
  put_in_order(r.program, sets);
}

Refusal apply(Rewriting& r, const directives::Share& directive) {
  const auto found = Sharing(r, directive).set();
  if (const auto* why = std::get_if<std::string>(&found)) return *why;
  const auto& set = std::get<Fused::Set>(found);
  note(r, set);
  rename_rows(r.program, set);
  bring_together(r.program, set.nodes);
  return std::nullopt;
}

std::vector<Fused::Set> sets_of(const Rewriting& r) {
  std::map<TensorId, const Rewriting::Rows*> shared;
  std::map<TensorId, const Rewriting::Tile*> tiles;
  for (const Rewriting::Rows& rows : r.rows)
    for (const TensorId id : rows.tensors) shared.emplace(id, &rows);
  for (const Rewriting::Tile& tile : r.tiles)
    for (const TensorId id : tile.tensors) tiles.emplace(id, &tile);
  std::vector<Fused::Set> sets;
  const Rewriting::Rows* open = nullptr;
  const Rewriting::Tile* open_tile = nullptr;
  for (std::size_t n = 0; n < r.program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
    const auto at = s ? shared.find(s->target.tensor) : shared.end();
    const Rewriting::Rows* rows = at == shared.end() ? nullptr : at->second;
    const auto box = s ? tiles.find(s->target.tensor) : tiles.end();
    const Rewriting::Tile* tile = box == tiles.end() ? nullptr : box->second;
    if ((!rows || rows != open) && (!tile || tile != open_tile)) sets.push_back({{}, rows ? rows->indices : std::vector<std::string>(), {}, false, tile ? tile->steps : decltype(tile->steps)()});
    open = rows, open_tile = tile;
    sets.back().nodes.push_back(static_cast<int>(n));
    sets.back().blocks = sets.back().blocks || (s && reuses(*s));
    if (!rows) continue;
    sets.back().loops.emplace_back();
    for (const std::string& index : rows->indices) sets.back().loops.back().push_back(*index_of(*s, index));
  }
  return sets;
}

}  // namespace tilec::codegen
