// Aligns statements by what they read in common; divides sums; applies the directive.
#include "codegen/rewrite/share.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "autodiff/graph.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/plan.h"
#include "codegen/product.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/finish.h"
#include "codegen/rewrite/split.h"
#include "codegen/rewrite/tile.h"
#include "codegen/scan.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Statement;

// Whether rows over outputs alone bound index k: then some of its values have no element.
bool bounded(const Statement& s, std::size_t k) {
  const auto reduces = [&](const Affine& row) {
    for (std::size_t j = 0; j < s.indices.size(); ++j) if (mentions(row, j) && !is_output_index(s, j)) return true;
    return false;
  };
  return std::any_of(s.domain.begin() + static_cast<std::ptrdiff_t>(s.indices.size()), s.domain.end(),
      [&](const poly::Range& row) { return mentions(row.value, k) && !reduces(row.value); });
}

// An index of its own, all values of which have an element.
bool is_whole(const Statement& s, std::size_t k) { return !bounded(s, k) && s.domain[k].value.constant.is(0); }

// Of a dimension of a map that is in groups, D*g + d with 0 <= d < D: g, by which groups are rows.
std::optional<std::size_t> index_of_groups(const Statement& s, const Affine& e, const poly::Size& size) {
  std::vector<std::size_t> both;
  for (std::size_t k = 0; k < s.indices.size(); ++k) if (mentions(e, k)) both.push_back(k);
  if (both.size() != 2 || !e.divisor.is(1) || !e.constant.is(0)) return std::nullopt;
  if (e.coefficients[both[0]].is(1)) std::swap(both[0], both[1]);
  const auto [g, d] = std::pair(both[0], both[1]);
  const std::int64_t step = e.coefficients[g].get();
  const bool tiles = step > 1 && e.coefficients[d].is(1) && is_whole(s, g) && is_whole(s, d) &&
      extent(s, d) == step && extent(s, g) * step == size.get();
  return tiles ? std::optional(g) : std::nullopt;
}

Leads leads(const Program& program, const Statement& s, bool first_only) {
  const poly::Tensor& tensor = program.tensor(s.target.tensor);
  Leads found;
  const auto is_new = [&](std::size_t k) {
    return std::none_of(found.begin(), found.end(), [&](const Lead& other) { return other.index == k; });
  };
  for (std::size_t d = 0; d < s.target.element.size(); ++d) {
    const Affine& e = s.target.element[d];
    if (e.is_constant() && tensor.shape[d].is(1)) continue;
    const auto k = plain_index(e),
               g = first_only && !reduces(s) ? index_of_groups(s, e, tensor.shape[d]) : std::nullopt;
    const bool lead = k && is_whole(s, *k) && is_new(*k) && s.domain[*k].extent == tensor.shape[d];
    if (lead) found.push_back({d, *k});
    else if (g && is_new(*g)) return found.push_back({d, *g}), found;
    else if (first_only) break;
  }
  return found;
}

// Without the index that a scan runs along: one turn has the whole scan.
Leads without_scan(Leads leads, const Statement& s) {
  if (const auto scan = scan_of(s)) std::erase_if(leads, [&](const Lead& lead) { return lead.index == scan->along; });
  return leads;
}

bool summed_whole(const Statement& s, std::size_t k) {
  return s.domain[k].value.constant.is(0) && !is_output_index(s, k);
}

// ---- the set of a directive

class Sharing {
 public:
  Sharing(const Rewriting& r, const directives::Share& directive)
      : r_(r), program_(r.program), directive_(directive), buffer_(buffers(r.program)) {}

  std::variant<Shared, std::string> made() {
    if (directive_.tensors.size() < 2) return std::string("one statement shares its launch with nobody");
    if (directive_.rows.empty() && !has_threads(r_.target))
      return std::string("without `rows` one block of threads has all of them, which a CPU has not");
    if (std::set<std::string>(directive_.rows.begin(), directive_.rows.end()).size() < directive_.rows.size())
      return std::string("a row is named twice");
    for (const std::string& name : directive_.tensors) if (const Refusal why = add(name)) return *why;
    if (has_threads(r_.target) && bytes_ > shared_for_rows(r_.target))
      return fmt::format("a row of all of them takes {:.0f} bytes of shared memory", bytes_);
    const bool any_sums = std::ranges::count(shared_.sums, true) > 0;
    if (any_sums != (directive_.size > 0))
      return any_sums ? std::string("a sum over the rows has `parts`")
                      : std::string("none of them sums over the rows, so there are no `parts`");
    shared_.set.indices = directive_.rows;
    shared_.set.parts = directive_.size;
    return std::move(shared_);
  }

 private:
  const Statement& statement(std::size_t member) const { return *members_[member].statement; }

  Refusal add(const std::string& name) {
    const auto n = statement_of(program_, name);
    if (!n) return no_statement(name);
    std::vector<int>& nodes = shared_.set.nodes;
    if (!nodes.empty() && static_cast<int>(*n) <= nodes.back())
      return fmt::format("`{}` is computed before `{}`", name, target_name(program_, statement(nodes.size() - 1)));
    const auto& s = std::get<Statement>(program_.nodes[*n]);
    if (std::any_of(r_.rows.begin(), r_.rows.end(), [&](const Rewriting::Rows& rows) {
          return std::count(rows.tensors.begin(), rows.tensors.end(), s.target.tensor) > 0;
        }))
      return fmt::format("`{}` shares rows already", name);
    if (tiled(r_, s.target.tensor)) return fmt::format("`{}` is tiled", name);
    if (finished(r_, s.target.tensor)) return fmt::format("`{}` is finished, or finishes a sum", name);
    for (std::size_t k = 0; k < s.indices.size(); ++k)
      if (!is_output_index(s, k) && extent(s, k) == 0) return fmt::format("the fold of `{}` has no value", name);
    if (const auto* fill = std::get_if<TensorId>(&s.fill);
        fill && buffer_[static_cast<std::size_t>(*fill)] != buffer_[static_cast<std::size_t>(s.target.tensor)])
      return fmt::format("`{}` begins as a copy of another tensor", name);
    auto found = members_.empty() ? named(s, name) : rows_of(s, name);
    if (auto* why = std::get_if<std::string>(&found)) return std::move(*why);
    auto& own = std::get<std::vector<std::size_t>>(found);
    bool sums = false;
    for (std::size_t row = 0; row < own.size(); ++row) {
      if (!members_.empty() && s.domain[own[row]].extent != statement(0).domain[members_[0].rows[row]].extent)
        return fmt::format("`{}` has another number of rows `{}`", name, directive_.rows[row]);
      sums = sums || !is_output_index(s, own[row]);
    }
    if (sums && !sums_in_parts(program_, s)) return fmt::format("`{}` sums over the rows, but not in parts", name);
    if (!sums) count_bytes(s, own);
    members_.push_back({&s, own});
    shared_.set.nodes.push_back(static_cast<int>(*n));
    shared_.set.loops.push_back(std::move(own));
    shared_.sums.push_back(sums);
    return std::nullopt;
  }

  using Found = std::variant<std::vector<std::size_t>, std::string>;

  // Of the first statement, as the directive says.
  Found named(const Statement& s, const std::string& name) {
    const Leads all = without_scan(open_leads(program_, s), s);
    std::vector<std::size_t> own;
    for (const std::string& row : directive_.rows) {
      const auto lead =
          std::find_if(all.begin(), all.end(), [&](const Lead& one) { return s.indices[one.index] == row; });
      const auto index = index_of(s, row);
      const bool summed = directive_.size > 0 && index && summed_whole(s, *index);
      if (lead == all.end() && !summed)
        return fmt::format("`{}` is no whole dimension of `{}` that can be a row", row, name);
      own.push_back(*index);
    }
    const Leads first = without_scan(leads_of(program_, s), s);
    last_ = are_last(s, own);
    first_ = own.size() <= first.size() &&
        std::equal(
            own.begin(), own.end(), first.begin(), [](std::size_t k, const Lead& lead) { return k == lead.index; });
    return own;
  }

  // Of a later one: its first dimensions, where all have these; else the index that stands where the row's index does.
  // With sums over the rows the other way about: the first dimension of dG[j] may be as long as i.
  Found rows_of(const Statement& s, const std::string& name) {
    if (directive_.size == 0) {
      Found first = by_place(s, name);
      if (std::holds_alternative<std::vector<std::size_t>>(first)) return first;
      Found common = by_reads(s, name);
      return std::holds_alternative<std::string>(common) && first_ ? first : common;
    }
    Found common = by_reads(s, name);
    if (std::holds_alternative<std::vector<std::size_t>>(common)) return common;
    Found first = by_place(s, name);
    return std::holds_alternative<std::string>(first) ? common : first;
  }

  // Whether these indices are the last dimensions of the target.
  static bool are_last(const Statement& s, const std::vector<std::size_t>& own) {
    const auto& element = s.target.element;
    if (own.size() > element.size()) return false;
    return std::equal(own.begin(), own.end(), element.end() - static_cast<std::ptrdiff_t>(own.size()),
        [](std::size_t k, const Affine& e) { return plain_index(e) == k; });
  }

  Found by_place(const Statement& s, const std::string& name) const {
    Leads first = without_scan(leads_of(program_, s), s);
    if (last_ && !first_) {
      Leads all = without_scan(open_leads(program_, s), s);
      const auto count = std::min(all.size(), directive_.rows.size());
      all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(count));
      std::vector<std::size_t> own;
      for (const Lead& lead : all) own.push_back(lead.index);
      if (!are_last(s, own)) return fmt::format("the last dimensions of `{}` are no rows", name);
      first = std::move(all);
    } else if (!first_) {
      first.clear();
    }
    if (first.size() < directive_.rows.size())
      return fmt::format("`{}` has only {} that can be rows", name, lang::counted(first.size(), "first dimension"));
    std::vector<std::size_t> own;
    for (std::size_t row = 0; row < directive_.rows.size(); ++row) {
      own.push_back(first[row].index);
      if (s.domain[own.back()].extent != statement(0).domain[members_[0].rows[row]].extent)
        return fmt::format("`{}` has another number of rows `{}`", name, directive_.rows[row]);
    }
    if (const Refusal why = reads_elsewhere(s, own, name)) return *why;
    return own;
  }

  Found by_reads(const Statement& s, const std::string& name) const {
    const Leads all = without_scan(open_leads(program_, s), s);
    std::vector<std::size_t> own;
    const auto found = aligned(members_, s);
    for (std::size_t row = 0; row < found.size(); ++row) {
      const auto is_lead = [&](const Lead& lead) { return lead.index == *found[row]; };
      const bool usable = found[row] &&
          (std::any_of(all.begin(), all.end(), is_lead) || summed_whole(s, *found[row])) &&
          std::find(own.begin(), own.end(), *found[row]) == own.end();
      if (!usable) return fmt::format("no whole dimension of `{}` runs over the rows `{}`", name, directive_.rows[row]);
      own.push_back(*found[row]);
    }
    if (const Refusal why = reads_elsewhere(s, own, name)) return *why;
    return own;
  }

  // A statement that reads another row of one in the set.
  Refusal reads_elsewhere(const Statement& s, const std::vector<std::size_t>& own, const std::string& name) const {
    for (const Access& read : s.reads)
      for (const Member& member : members_) {
        if (member.statement->target.tensor != read.tensor) continue;
        for (std::size_t row = 0; row < own.size(); ++row)
          if (!runs_along(read, member, row, own[row]))
            return fmt::format("`{}` reads other rows of `{}`", name, program_.tensor(read.tensor).name);
      }
    return std::nullopt;
  }
  static bool runs_along(const Access& read, const Member& member, std::size_t row, std::size_t k) {
    const auto& element = member.statement->target.element;
    for (std::size_t d = 0; d < element.size(); ++d)
      if (plain_index(element[d]) == member.rows[row]) return plain_index(read.element[d]) == k;
    return false;                                      // a sum over the rows is whole behind the set only
  }

  void count_bytes(const Statement& s, const std::vector<std::size_t>& own) {
    if (is_output(program_, s.target.tensor)) return;    // stays where it is
    double row_bytes = lang::bytes(program_.tensor(s.target.tensor).dtype);
    for (std::size_t k = 0; k < s.indices.size(); ++k)
      if (is_output_index(s, k)) row_bytes *= static_cast<double>(extent(s, k));
    for (const std::size_t k : own) row_bytes /= std::max(1.0, static_cast<double>(extent(s, k)));
    bytes_ += row_bytes;
  }

  const Rewriting& r_;
  const Program& program_;
  const directives::Share& directive_;
  const std::vector<TensorId> buffer_;
  std::vector<Member> members_;
  Shared shared_;
  bool first_ = false, last_ = false;                  // the rows are the first, or the last, dimensions of the first
                                                       // statement
  double bytes_ = 0;
};

// ---- sums in parts

// P[s…, o] = +(v(o, i)), 0 <= i - size s < size in the place of O[o] = +(v(o, i)); gives back O[o] = +(P[s…, o]).
Statement divide(Rewriting& r, std::size_t n, const std::vector<Tie>& parts) {
  Program& program = r.program;
  const Statement whole = std::get<Statement>(program.nodes[n]);
  const std::size_t old = whole.indices.size(), count = old + parts.size(), rank = whole.target.element.size();
  poly::Tensor tensor{fresh_name(program, target_name(program, whole) + "_parts"), whole.value.type(), {}, whole.span};
  const std::vector<std::size_t> where = in_order(old);
  Statement part = whole;
  for (poly::Range& row : part.domain) row.value = row.value.renumber(where, count);
  for (Access& read : part.reads) for (Affine& e : read.element) e = e.renumber(where, count);
  std::vector<Affine> map;
  std::vector<int> same;
  for (std::size_t k = 0; k < old; ++k) map.push_back(Affine::index(k, count));
  for (std::size_t read = 0; read < part.reads.size(); ++read) same.push_back(static_cast<int>(read));
  part.value = seen_from(whole.value, map, count, same);
  part.target.element.clear();
  Statement sum = copy(program, whole.target.tensor, whole.target.tensor, in_order(rank));
  const std::vector<std::size_t> outputs = in_order(rank);
  for (Affine& e : sum.target.element) e = e.renumber(outputs, rank + parts.size());
  for (poly::Range& row : sum.domain) row.value = row.value.renumber(outputs, rank + parts.size());
  Access all{-1, {}};
  std::vector<poly::Range> hulls, rows;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::size_t s = old + p;
    const poly::Size number((extent(whole, parts[p].whole) + parts[p].size - 1) / parts[p].size);
    part.indices.push_back(fresh_index(part, whole.indices[parts[p].whole] + "_s"));
    part.target.element.push_back(Affine::index(s, count));
    hulls.push_back({Affine::index(s, count), number});
    Affine inside = Affine::index(parts[p].whole, count);
    inside.coefficients[s] = poly::Size(-parts[p].size);
    rows.push_back({inside, poly::Size(parts[p].size)});
    tensor.shape.push_back(number);
    sum.indices.push_back(fmt::format("s{}", p));
    sum.domain.push_back({Affine::index(rank + p, rank + parts.size()), number});
    all.element.push_back(Affine::index(rank + p, rank + parts.size()));
  }
  part.domain.insert(part.domain.begin() + static_cast<std::ptrdiff_t>(old), hulls.begin(), hulls.end());
  part.domain.insert(part.domain.end(), rows.begin(), rows.end());
  for (const Affine& e : whole.target.element) part.target.element.push_back(e.renumber(where, count));
  for (const poly::Size& size : program.tensor(whole.target.tensor).shape) tensor.shape.push_back(size);
  for (const Affine& e : sum.target.element) all.element.push_back(e);
  r.strides.push_back(row_major(extents(tensor)));
  program.tensors.push_back(tensor);
  part.target.tensor = all.tensor = static_cast<TensorId>(program.tensors.size()) - 1;
  part.fill = poly::Number{whole.value.type()};      // no part is empty
  sum.reads = {all};
  sum.aggregation = whole.aggregation;
  sum.value = poly::Read{0, whole.value.type()};
  sum.fill = whole.fill;
  sum.span = whole.span;
  program.nodes[n] = std::move(part);
  return sum;
}

// Its statements follow the first of them, and `behind` these.
void bring_together(Program& program, const std::vector<int>& nodes, std::vector<Statement> behind) {
  for (std::size_t m = 1; m < nodes.size(); ++m) {
    const auto to = program.nodes.begin() + nodes.front() + static_cast<std::ptrdiff_t>(m),
               from = program.nodes.begin() + nodes[m];
    std::rotate(to, from, from + 1);
  }
  insert(program, static_cast<std::size_t>(nodes.front()) + nodes.size(), std::move(behind));
}

}  // namespace

// Parts of a turn each are many on a GPU, so what adds them up is cut in two, which a block of threads does for some
// columns: a part for each of its warps.
std::optional<Cut> cut_of_parts(const Rewriting& r, const Statement& sum) {
  const std::size_t rank = sum.target.element.size();
  double count = 1;
  std::size_t longest = rank;
  for (std::size_t k = rank; k < sum.indices.size(); ++k) {
    count *= static_cast<double>(extent(sum, k));
    if (extent(sum, k) > extent(sum, longest)) longest = k;
  }
  const std::int64_t warps = r.target.max_threads / model::threads::warp,
                     chunk = warps ? (extent(sum, longest) + warps - 1) / warps : 0;
  // Of one value of the longest index there are others to add up.
  const bool adds = static_cast<double>(chunk) * count >= 2 * static_cast<double>(extent(sum, longest));
  if (!has_threads(r.target) || rank == 0 || count < model::threads::least_parts_to_cut || !adds) return std::nullopt;
  return Cut{longest, chunk};
}

Leads leads_of(const Program& program, const Statement& s) { return leads(program, s, true); }
Leads open_leads(const Program& program, const Statement& s) { return leads(program, s, false); }

bool sums_in_parts(const Program& program, const Statement& s) {
  return reduces(s) && s.aggregation == Aggregation::Sum && !scan_of(s) && s.domain.size() == s.indices.size() &&
      covers(program, s);
}

std::vector<std::optional<std::size_t>> aligned(const std::vector<Member>& members, const Statement& s) {
  const std::size_t rows = members.front().rows.size();
  std::vector<std::optional<std::size_t>> found(rows);
  std::vector<bool> other(rows, false);                // rows of a member are read elsewhere
  const auto compare = [&](const Access& own, const Access& theirs, const Member& member, bool made) {
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t d = 0; d < theirs.element.size(); ++d) {
        if (plain_index(theirs.element[d]) != member.rows[row]) continue;
        const auto k = plain_index(own.element[d]);
        if (made && (!k || (found[row] && found[row] != k))) other[row] = true;
        if (k && !found[row]) found[row] = k;
        break;
      }
  };
  for (const bool made : {true, false})
    for (const Access& own : s.reads)
      for (const Member& member : members) {
        if (made && member.statement->target.tensor == own.tensor) compare(own, member.statement->target, member, true);
        if (made) continue;
        for (const Access& theirs : member.statement->reads)
          if (theirs.tensor == own.tensor) compare(own, theirs, member, false);
      }
  for (std::size_t row = 0; row < rows; ++row) if (other[row]) found[row].reset();
  return found;
}

double shared_for_rows(const Target& target) {
  return static_cast<double>(target.shared_bytes) -
      (target.family == Target::Family::OpenCl ? model::beside_rows_of_opencl : model::beside_rows);
}

bool reads_at_row(const Statement& s, const Access& read) {
  if (read.element.empty() || read.element.size() >= s.target.element.size()) return false;
  for (std::size_t d = 0; d < read.element.size(); ++d) {
    const auto k = plain_index(s.target.element[d]);
    if (!k || plain_index(read.element[d]) != k) return false;
  }
  return true;
}

std::variant<Shared, std::string> shared(const Rewriting& r, const directives::Share& directive) {
  return Sharing(r, directive).made();
}

Refusal out_of_order(const Program& program, const std::vector<int>& nodes) {
  std::set<TensorId> later;                            // made behind the first of the set, and not by it
  for (std::size_t n = static_cast<std::size_t>(nodes.front()), m = 0; m < nodes.size(); ++n) {
    if (static_cast<int>(n) != nodes[m]) {
      for (const TensorId id : autodiff::targets(program.nodes[n])) later.insert(id);
      continue;
    }
    for (const TensorId id : autodiff::operands(program.nodes[n]))
      if (later.contains(id))
        return fmt::format("`{}` waits for `{}`, which is not among them",
            target_name(program, std::get<Statement>(program.nodes[n])), program.tensor(id).name);
    ++m;
  }
  return std::nullopt;
}

std::vector<Statement> divide(Rewriting& r, const Shared& shared) {
  std::vector<Statement> behind;
  for (std::size_t m = 0; m < shared.sums.size(); ++m) {
    if (!shared.sums[m]) continue;
    const auto n = static_cast<std::size_t>(shared.set.nodes[m]);
    std::vector<Tie> parts;
    const std::vector<std::size_t>& loops = shared.set.loops[m];
    for (std::size_t row = 0; row < loops.size(); ++row)
      if (!is_output_index(std::get<Statement>(r.program.nodes[n]), loops[row]))
        parts.push_back({loops[row], 0, row + 1 < loops.size() ? 1 : shared.set.parts});
    Statement sum = divide(r, n, parts);
    if (const auto cut = cut_of_parts(r, sum)) {
      auto [some, rest] = in_parts(r, sum, *cut);
      behind.push_back(std::move(some)), behind.push_back(std::move(rest));
    } else {
      behind.push_back(std::move(sum));
    }
    r.rows.back().tensors[m] = std::get<Statement>(r.program.nodes[n]).target.tensor;
  }
  return behind;
}

// The set's loops have one name in all its statements; an index that had that name before gets another.
void rename_rows(Program& program, const Fused::Set& set) {
  for (std::size_t n = 0; n < set.loops.size(); ++n) {
    auto& s = std::get<Statement>(program.nodes[static_cast<std::size_t>(set.nodes[n])]);
    const auto of_row = [&](const std::string& name) {
      return std::find(set.indices.begin(), set.indices.end(), name) != set.indices.end();
    };
    for (std::string& name : s.indices) while (of_row(name)) name += "_";
    for (std::string& name : s.indices)
      while (of_row(name) || std::count(s.indices.begin(), s.indices.end(), name) > 1) name += "_";
    for (std::size_t r = 0; r < set.indices.size(); ++r) s.indices[set.loops[n][r]] = set.indices[r];
  }
}

void note(Rewriting& r, const Fused::Set& set) {
  if (set.nodes.size() < 2) return;
  directives::Share done{{}, set.indices, set.parts};
  Rewriting::Rows rows{{}, set.indices, set.parts};
  for (const int node : set.nodes) {
    const auto& s = std::get<Statement>(r.program.nodes[static_cast<std::size_t>(node)]);
    done.tensors.push_back(target_name(r.program, s));
    rows.tensors.push_back(s.target.tensor);
  }
  r.done.push_back(std::move(done));
  r.rows.push_back(std::move(rows));
}

Refusal apply(Rewriting& r, const directives::Share& directive) {
  const auto found = shared(r, directive);
  if (const auto* why = std::get_if<std::string>(&found)) return *why;
  const auto& together = std::get<Shared>(found);
  if (Refusal why = out_of_order(r.program, together.set.nodes)) return why;
  note(r, together.set);
  std::vector<Statement> behind = divide(r, together);
  rename_rows(r.program, together.set);
  bring_together(r.program, together.set.nodes, std::move(behind));
  return std::nullopt;
}

}  // namespace tilec::codegen
