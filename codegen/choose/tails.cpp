#include "codegen/choose/tails.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "autodiff/graph.h"
#include "codegen/choose/row_candidates.h"
#include "codegen/model/thresholds.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/finish.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/share.h"
#include "codegen/rewrite/tile.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Statement;

class Tails {
 public:
  Tails(Rewriting& r, std::vector<Fused::Set>& sets) : r_(r), sets_(sets) {}

  void join() {
    for (std::size_t n = 1; n < sets_.size(); ++n) {
      std::optional<std::size_t> joined;               // a set before n
      if (sets_[n].nodes.size() > 1) joined = adds_behind(n);
      else if (is_tail(sets_[n])) joined = goes_on_by_columns(n);
      if (!joined && is_tail(sets_[n])) joined = goes_on_from_numbers(n);
      if (joined) n = *joined;
    }
  }

 private:
  const Statement* statement(int node) const {
    return std::get_if<Statement>(&r_.program.nodes[static_cast<std::size_t>(node)]);
  }
  const Statement& only(std::size_t n) const { return *statement(sets_[n].nodes.front()); }

  bool is_free(const Statement& s) const {
    const TensorId id = s.target.tensor;
    for (const poly::Range& range : s.domain)
      if (range.extent && range.extent->is(0)) return false;  // no values
    return std::holds_alternative<poly::Number>(s.fill) && s.kernel_name.empty() && !is_step(r_, s) &&
        !tiled(r_, id) && !in_pass(r_, id) && !finished(r_, id);
  }
  bool is_tail(const Fused::Set& set) const {
    const Statement* s = set.nodes.size() == 1 ? statement(set.nodes.front()) : nullptr;
    return s && elementwise(r_.program, *s) && is_free(*s);
  }

  bool makes(const Fused::Set& set, TensorId id) const {
    return std::ranges::any_of(set.nodes, [&](int node) {
      const std::vector<TensorId> made = autodiff::targets(r_.program.nodes[static_cast<std::size_t>(node)]);
      return std::ranges::find(made, id) != made.end();
    });
  }
  // Whether a set behind `first` and before `n` makes what n needs; but for these.
  bool waits(std::size_t n, std::size_t first, const std::vector<std::size_t>& but = {}) const {
    for (const int node : sets_[n].nodes)
      for (const TensorId id : autodiff::operands(r_.program.nodes[static_cast<std::size_t>(node)]))
        for (std::size_t m = first + 1; m < n; ++m)
          if (std::ranges::find(but, m) == but.end() && makes(sets_[m], id)) return true;
    return false;
  }

  // ---- columns: what adds up parts has all of them for some columns

  std::optional<std::size_t> goes_on_by_columns(std::size_t n) {
    const Statement& s = only(n);
    if (s.target.element.empty()) return std::nullopt;
    for (std::size_t m = n; m-- > 0;) {
      if (!adds_columns(sets_[m], s) || !reads_own_columns(s, sets_[m])) continue;
      if (waits(n, m)) return std::nullopt;
      const Leads leads = leads_of(r_.program, s);
      if (leads.size() != s.target.element.size()) return std::nullopt;
      std::vector<std::size_t> own;
      for (const Lead& lead : leads) own.push_back(lead.index);
      Fused::Set one{sets_[n].nodes, sets_[m].indices, {own}};
      rename_rows(r_.program, one);
      extend(sets_[m], one.nodes.front());
      sets_[m].loops.push_back(std::move(own));
      sets_.erase(sets_.begin() + static_cast<std::ptrdiff_t>(n));
      return m;
    }
    return std::nullopt;
  }

  // Whether the set adds up parts of as many columns as the statement has elements.
  bool adds_columns(const Fused::Set& set, const Statement& s) const {
    const std::size_t rank = s.target.element.size();
    return set.nodes.size() > 1 && set.indices.size() == rank && !set.parts && !set.finishing && set.tile.empty() &&
        set.over.empty() && reduces(*statement(set.nodes.front())) &&
        std::ranges::all_of(set.nodes, [&](int node) {
          const auto& shape = r_.program.tensor(statement(node)->target.tensor).shape;
          return shape.size() >= rank && std::equal(shape.end() - static_cast<std::ptrdiff_t>(rank), shape.end(),
                                             r_.program.tensor(s.target.tensor).shape.begin());
        });
  }
  bool reads_own_columns(const Statement& s, const Fused::Set& set) const {
    bool any = false;
    for (const Access& read : s.reads) {
      if (!makes(set, read.tensor)) continue;
      if (read.element != s.target.element) return false;
      any = true;
    }
    return any;
  }

  // What adds up other parts, which reads what the first sums came to for its columns.
  std::optional<std::size_t> adds_behind(std::size_t n) {
    if (!adds_columns(sets_[n], *statement(sets_[n].nodes.back()))) return std::nullopt;
    for (std::size_t m = n; m-- > 0;) {
      if (!adds_columns(sets_[m], *statement(sets_[n].nodes.back())) || !reads_own_columns(n, m)) continue;
      if (waits(n, m)) return std::nullopt;
      Fused::Set one = sets_[n];
      one.indices = sets_[m].indices;
      rename_rows(r_.program, one);
      forget(one);
      for (const int node : one.nodes) extend(sets_[m], node);
      sets_[m].loops.insert(sets_[m].loops.end(), one.loops.begin(), one.loops.end());
      sets_.erase(sets_.begin() + static_cast<std::ptrdiff_t>(n));
      return m;
    }
    return std::nullopt;
  }
  bool reads_own_columns(std::size_t n, std::size_t m) const {
    const Fused::Set &set = sets_[n], &from = sets_[m];
    bool any = false;
    for (std::size_t k = 0; k < set.nodes.size(); ++k)
      for (const Access& read : statement(set.nodes[k])->reads)
        for (std::size_t l = 0; l < from.nodes.size(); ++l) {
          const Access& made = statement(from.nodes[l])->target;
          if (made.tensor != read.tensor) continue;
          any = true;
          for (std::size_t d = 0; d < made.element.size(); ++d)
            for (std::size_t row = 0; row < from.indices.size(); ++row)
              if (plain_index(made.element[d]) == from.loops[l][row] &&
                  plain_index(read.element[d]) != set.loops[k][row])
                return false;
        }
    return any;
  }
  // Of a set that is noted and no more one by itself.
  void forget(const Fused::Set& set) {
    const TensorId last = statement(set.nodes.back())->target.tensor;
    std::erase_if(r_.rows, [&](const Rewriting::Rows& rows) { return rows.tensors.back() == last; });
    const std::string& name = r_.program.tensor(last).name;
    std::erase_if(r_.done, [&](const Directive& done) {
      const auto* share = std::get_if<directives::Share>(&done);
      return share && share->tensors.back() == name;
    });
  }

  // Of a set that is noted.
  void extend(Fused::Set& set, int node) {
    const TensorId last = statement(set.nodes.back())->target.tensor, id = statement(node)->target.tensor;
    for (Rewriting::Rows& rows : r_.rows)
      if (rows.tensors.back() == last) rows.tensors.push_back(id);
    const std::string &name = r_.program.tensor(last).name, &own = r_.program.tensor(id).name;
    for (Directive& done : r_.done)
      if (auto* share = std::get_if<directives::Share>(&done); share && share->tensors.back() == name)
        share->tensors.push_back(own);
    set.nodes.push_back(node);
  }

  // ---- numbers: a block has each of them whole

  bool is_number(TensorId id) const { return elements(r_.program, id) == 1; }

  std::optional<std::size_t> goes_on_from_numbers(std::size_t n) {
    const Statement& s = only(n);
    if (!is_number(s.target.tensor)) return std::nullopt;
    std::vector<std::size_t> from;
    for (std::size_t m = 0; m < n; ++m)
      if (std::ranges::any_of(s.reads, [&](const Access& read) { return makes(sets_[m], read.tensor); }) &&
          sums_to_numbers(sets_[m]))
        from.push_back(m);
    if (from.empty() || waits(n, from.front(), from)) return std::nullopt;
    for (const std::size_t m : from)
      if (waits(m, from.front(), from)) return std::nullopt;
    if (from.size() == 1 && sets_[from[0]].nodes.size() > 1) {
      extend(sets_[from[0]], sets_[n].nodes.front());
      sets_[from[0]].loops.emplace_back();
    } else {
      if (std::ranges::any_of(from, [&](std::size_t m) { return sets_[m].nodes.size() > 1; })) return std::nullopt;
      from.push_back(n);
      Fused::Set all{{}, {}, std::vector<std::vector<std::size_t>>(from.size())};
      for (const std::size_t m : from) all.nodes.push_back(sets_[m].nodes.front());
      note(r_, all);
      sets_[from.front()] = std::move(all);
      for (std::size_t m = from.size() - 1; m-- > 1;)
        sets_.erase(sets_.begin() + static_cast<std::ptrdiff_t>(from[m]));
      n -= from.size() - 2;
    }
    sets_.erase(sets_.begin() + static_cast<std::ptrdiff_t>(n));
    return from.front();
  }

  // Whether the set is a sum of little, or several that share a block.
  bool sums_to_numbers(const Fused::Set& set) const {
    return set.indices.empty() && !set.finishing && set.tile.empty() && set.over.empty() &&
        std::ranges::all_of(set.nodes, [&](int node) {
          const Statement* s = statement(node);
          if (!s || !is_free(*s) || !is_number(s->target.tensor)) return false;
          double bytes = 0;
          for (const Access& read : s->reads) bytes += bytes_of(r_.program, read.tensor);
          return bytes <= model::threads::small_sum && points(*s) <= model::threads::small_sum;
        }) &&
        reduces(*statement(set.nodes.front()));
  }

  Rewriting& r_;
  std::vector<Fused::Set>& sets_;
};

}  // namespace

void join_tails(Rewriting& r, std::vector<Fused::Set>& sets) { Tails(r, sets).join(); }

}  // namespace tilec::codegen
