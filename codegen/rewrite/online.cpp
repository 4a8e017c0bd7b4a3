#include "codegen/rewrite/online.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <variant>

#include "autodiff/graph.h"
#include "codegen/choose/pass_tile.h"
#include "codegen/model/thresholds.h"
#include "codegen/online_leaf.h"
#include "codegen/part.h"
#include "codegen/ranges.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/online_maximum.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"
#include "lang/diagnostic.h"
#include "poly/intern.h"

namespace tilec::codegen {

using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Statement;

namespace {

constexpr int deepest = 4;                             // statements between a fold and what was labelled before it
// Indices of rows, and of what is passed over, are called as in the first fold; others by names of their own.
void rename(Statement& s, const Labels& labels, const std::vector<std::string>& names) {
  for (std::size_t k = 0; k < labels.size(); ++k)
    if (labels[k] != unlabelled) s.indices[k] = names[static_cast<std::size_t>(labels[k])];
  for (std::size_t k = 0; k < labels.size(); ++k)
    while (labels[k] == unlabelled && std::ranges::count(s.indices, s.indices[k]) > 1) s.indices[k] += "_";
}

class Passing {
 public:
  Passing(const Rewriting& r, const directives::Online& directive)
      : r_(r), program_(r.program), directive_(directive), p_(r, static_cast<int>(directive.rows.size())) {}

  std::variant<std::vector<OnlineMember>, std::string> made() {
    if (!has_threads(r_.target)) return std::string("a pass is one of blocks of threads");
    if (directive_.rows.empty()) return std::string("there are no rows");
    for (const std::string& name : directive_.tensors) if (const Refusal why = add_root(name)) return *why;
    while (spread()) {}
    if (!fault_.empty()) return fault_;
    std::ranges::sort(p_.all, {}, &OnlineMember::node);
    for (const OnlineMember& m : p_.all)
      if (lang::is_float(p_.statement(m).value.type())) p_.type = compute_type(p_.statement(m).value.type());
    for (const OnlineMember& m : p_.all) if (const Refusal why = fault(m)) return *why;
    if (const Refusal why = order()) return *why;
    const Refusal why = maximum_fault(p_);
    if (why) {
      twice_ = knows_folds_first(p_);
      if (!twice_ || !cycles()) return *why;
    }
    if (!cycles()) return std::string("no tile of its operands fits shared memory");
    return p_.all;
  }

  // Whether the pass goes over the index once for folds that others read, and once more for all.
  bool twice() const { return twice_; }

  // What the tile that is chosen takes.
  std::optional<double> cycles() const {
    std::vector<Nest> nests;
    std::vector<int> nodes;
    std::vector<std::string> names = directive_.rows;
    names.push_back(directive_.over);
    for (const OnlineMember& m : p_.all) {
      Statement s = p_.statement(m);
      rename(s, m.indices, names);
      nests.push_back(online_nest(s, r_.strides)), nodes.push_back(static_cast<int>(m.node));
    }
    const auto tile = choose_tile_of_pass(program_, nests, nodes, directive_.rows, directive_.over, twice_, r_.target);
    return tile ? std::optional(tile->cycles) : std::nullopt;
  }

 private:
  Refusal add_root(const std::string& name) {
    const auto n = statement_of(program_, name);
    if (!n) return no_statement(name);
    const auto& s = std::get<Statement>(program_.nodes[*n]);
    if (in_pass(r_, s.target.tensor)) return fmt::format("`{}` belongs to a pass already", name);
    if (std::ranges::any_of(p_.all, [&](const OnlineMember& m) { return m.node == *n; }))
      return fmt::format("`{}` is named twice", name);
    OnlineMember m{*n, Labels(s.indices.size(), unlabelled), true};
    if (p_.all.empty()) {
      std::set<std::string> seen;
      for (std::size_t k = 0; k <= directive_.rows.size(); ++k) {
        const std::string& index = k < directive_.rows.size() ? directive_.rows[k] : directive_.over;
        const auto at = index_of(s, index);
        if (!at || !seen.insert(index).second)
          return fmt::format("`{}` is no index of `{}`, or stands there twice", index, name);
        m.indices[*at] = static_cast<int>(k);
      }
    }
    p_.all.push_back(std::move(m));
    return std::nullopt;
  }

  // Labels of indices to tensors, of tensors to indices; what is read of the last row and the index joins. False:
  // nothing is new.
  bool spread() {
    bool more = false;
    for (std::size_t at = 0; at < p_.all.size(); ++at) {
      const Statement& s = p_.statement(p_.all[at]);
      if (std::ranges::all_of(p_.all[at].indices, [](int label) { return label == unlabelled; }))
        for (const Access& read : s.reads)
          if (look(read.tensor, deepest)) more = share(p_.all[at], read) || more;
      more = share(p_.all[at], s.target) || more;
      for (const Access& read : s.reads) {
        if (std::ranges::find(program_.inputs, read.tensor) != program_.inputs.end() || !p_.maker.contains(read.tensor))
          continue;
        const std::size_t node = p_.maker.at(read.tensor);
        const auto known = std::ranges::find(p_.all, node, &OnlineMember::node);
        if (known == p_.all.end() && reads_tile(p_.all[at], read) &&
            std::holds_alternative<Statement>(program_.nodes[node])) {
          p_.all.push_back({node, Labels(std::get<Statement>(program_.nodes[node]).indices.size(), unlabelled), false});
          more = true;
        }
        if (std::ranges::find(p_.all, node, &OnlineMember::node) != p_.all.end())
          more = share(p_.all[at], read) || more;
      }
    }
    return more && fault_.empty();
  }

  // Labels of what no member reads yet, by what it is computed from. False: there are none.
  bool look(TensorId id, int depth) {
    if (const auto known = tensors_.find(id); known != tensors_.end()) return true;
    const auto at = p_.maker.find(id);
    const auto* s = at == p_.maker.end() || depth == 0 ? nullptr : std::get_if<Statement>(&program_.nodes[at->second]);
    if (!s) return false;
    OnlineMember through{at->second, Labels(s->indices.size(), unlabelled), false};
    for (const Access& read : s->reads) if (look(read.tensor, depth - 1)) share(through, read);
    return share(through, s->target);
  }

  bool reads_tile(const OnlineMember& m, const Access& read) const {
    bool row = false, over = false;
    for (const Affine& e : read.element) {
      const auto k = plain_index(e);
      if (!k) continue;
      row = row || m.indices[*k] == p_.over - 1, over = over || m.indices[*k] == p_.over;
    }
    return row && over;
  }

  bool share(OnlineMember& m, const Access& access) {
    Labels& tensor = tensors_.try_emplace(access.tensor, Labels(access.element.size(), unlabelled)).first->second;
    bool more = false;
    for (std::size_t d = 0; d < access.element.size(); ++d) {
      const auto k = plain_index(access.element[d]);
      if (!k) continue;
      int &a = m.indices[*k], &b = tensor[d];
      if (a == b) continue;
      if (a != unlabelled && b != unlabelled) {
        fault_ = fmt::format("`{}` has rows and what is passed over at other places than those before it", p_.name(m));
        return false;
      }
      (a == unlabelled ? a : b) = std::max(a, b);
      more = true;
    }
    return more;
  }

  // Whether a member has the form that a pass has, over elements of its own.
  Refusal fault(const OnlineMember& m) const {
    const Statement& s = p_.statement(m);
    if (in_pass(r_, s.target.tensor)) return fmt::format("`{}` belongs to a pass already", p_.name(m));
    for (int label = 0; label <= p_.over; ++label) {
      const auto count = std::ranges::count(m.indices, label);
      if (count != 1)
        return fmt::format("`{}` has {} of `{}`", p_.name(m), count ? "several indices" : "no index",
            label < p_.over ? directive_.rows[static_cast<std::size_t>(label)] : directive_.over);
    }
    if (std::holds_alternative<TensorId>(s.fill)) return fmt::format("`{}` begins as another tensor", p_.name(m));
    if (scan_of(s)) return fmt::format("`{}` is a scan", p_.name(m));
    for (std::size_t k = 0; k < s.indices.size(); ++k) {
      if (extent(s, k) < 1) return fmt::format("`{}` has no point", p_.name(m));
      if (m.indices[k] == unlabelled) continue;
      if (low(s, k) != 0 || extent(s, k) != first_extent(m.indices[k]))
        return fmt::format("`{}` has other values of `{}`", p_.name(m), s.indices[k]);
    }
    std::set<std::size_t> seen;
    for (std::size_t d = 0; d < s.target.element.size(); ++d) {
      const auto k = plain_index(s.target.element[d]);
      if (p_.only_one(s.target, d)) continue;
      const bool own = k && seen.insert(*k).second && low(s, *k) == 0;
      if (!own || (m.root && extent(s, *k) != extents(program_.tensor(s.target.tensor))[d]))
        return fmt::format("`{}` does not write all of its elements by indices of their own", p_.name(m));
    }
    const Nest nest = online_nest(s, r_.strides);
    const auto part = online_part(nest, p_.index_name(m, p_.over - 1), p_.index_name(m, p_.over));
    if (const auto* why = std::get_if<std::string>(&part))
      return fmt::format("`{}` has no place in a pass: {}", p_.name(m), *why);
    const OnlinePart& found = std::get<OnlinePart>(part);
    const bool folds = found.role == OnlinePart::Fold || found.role == OnlinePart::Sum;
    if (found.role == OnlinePart::Sum && m.indices[found.column] != unlabelled)
      return fmt::format("`{}` has a row `{}` that its first factor has not", p_.name(m), s.indices[found.column]);
    if (m.root != folds)
      return fmt::format("`{}` {}", p_.name(m),
          folds ? "is read before all of it is known" : "does not fold over what is passed over");
    const std::size_t more = found.role == OnlinePart::Product || found.role == OnlinePart::Sum ? 1 : 0;
    if (s.indices.size() != directive_.rows.size() + 1 + more)
      return fmt::format("`{}` has further indices", p_.name(m));
    const lang::DType type = compute_type(s.value.type());
    const bool counts = found.role == OnlinePart::Fold && !lang::is_float(type);
    if (!counts && (!lang::is_float(type) || type != p_.type))
      return fmt::format("`{}` is computed in another type than others of the pass, or in integers", p_.name(m));
    if (folds && !identity_is_fill(nest) && !always_reached(nest))
      return fmt::format("an element of `{}` may have no point, and is not what folding nothing gives", p_.name(m));
    for (const Row& row : nest.rows)
      for (std::size_t k = 0; k < s.indices.size(); ++k)
        if (m.indices[k] == unlabelled && row.form.coefficients[k])
          return fmt::format("which points `{}` has depends on `{}`", p_.name(m), s.indices[k]);
    return reads_fault(m, found);
  }
  std::int64_t first_extent(int label) const {
    const OnlineMember& m = *std::ranges::find_if(p_.all, [](const OnlineMember& one) { return one.root; });
    return extent(p_.statement(m), static_cast<std::size_t>(std::ranges::find(m.indices, label) - m.indices.begin()));
  }

  // What the pass makes is read where it is: at the same row and index, and not as an operand that is staged.
  Refusal reads_fault(const OnlineMember& m, const OnlinePart& part) const {
    const Statement& s = p_.statement(m);
    for (std::size_t r = 0; r < s.reads.size(); ++r) {
      const OnlineMember* made = p_.made_by(s.reads[r].tensor);
      if (!made) continue;
      const bool staged = part.role == OnlinePart::Product || (part.by_column && mentions_read(*part.by_column, r));
      const bool decides = std::ranges::any_of(
          part.when, [&](const OnlinePart::When& when) { return mentions_read(when.condition, r); });
      if (decides) return fmt::format("a condition of `{}` depends on what the pass makes", p_.name(m));
      if (staged) return fmt::format("`{}` multiplies what the pass makes by columns", p_.name(m));
      const Labels& labels = tensors_.at(s.reads[r].tensor);
      for (std::size_t d = 0; d < s.reads[r].element.size(); ++d) {
        const auto k = plain_index(s.reads[r].element[d]);
        if (p_.only_one(s.reads[r], d)) continue;
        if (!k || m.indices[*k] == unlabelled || m.indices[*k] != labels[d])
          return fmt::format(
              "`{}` reads `{}` elsewhere than at its own row", p_.name(m), program_.tensor(s.reads[r].tensor).name);
      }
    }
    return std::nullopt;
  }
  static bool mentions_read(const poly::Expr& e, std::size_t r) {
    return std::ranges::any_of(poly::parts(e), [&](const poly::Expr& p) {
      const auto* read = p.as<poly::Read>();
      return read && static_cast<std::size_t>(read->read) == r;
    });
  }
  // What is read from outside is made before; what reads the folds stands behind.
  Refusal order() const {
    std::set<TensorId> later;
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const OnlineMember* m = p_.at(n);
      for (const TensorId id : autodiff::operands(program_.nodes[n])) {
        if (!later.contains(id)) continue;
        const OnlineMember* made = p_.made_by(id);
        if (m && !made)
          return fmt::format("`{}` waits for `{}`, which waits for the pass", p_.name(*m), program_.tensor(id).name);
        if (!m) for (const TensorId own : autodiff::targets(program_.nodes[n])) later.insert(own);
      }
      if (m && m->root) later.insert(p_.statement(*m).target.tensor);
    }
    if (p_.statement(p_.all.front()).target.tensor >= 0 && p_.part(p_.all.front()).role == OnlinePart::Sum)
      return fmt::format("`{}` reads nothing that the pass makes", p_.name(p_.all.front()));
    return std::nullopt;
  }
  const Rewriting& r_;
  const Program& program_;
  const directives::Online& directive_;
  OnlineMembers p_;
  std::map<TensorId, Labels> tensors_;
  std::string fault_;
  bool twice_ = false;
};

// The members one behind the other, where the last fold stands; what waits for a fold stands behind them.
void gather(Rewriting& r, std::vector<OnlineMember> members, const directives::Online& directive, bool twice) {
  Program& program = r.program;
  std::vector<std::string> names = directive.rows;
  names.push_back(directive.over);
  std::set<std::size_t> mine;
  std::map<TensorId, TensorId> again;                  // computed once more
  for (const OnlineMember& m : members) mine.insert(m.node);
  std::set<std::size_t> stays;                         // what others read
  for (std::size_t k = members.size(); k-- > 0;) {
    const TensorId id = std::get<Statement>(program.nodes[members[k].node]).target.tensor;
    bool others = is_output(program, id);
    for (std::size_t n = 0; n < program.nodes.size(); ++n)
      others = others || ((!mine.contains(n) || stays.contains(n)) && reads(program.nodes[n], id));
    if (!members[k].root && others) stays.insert(members[k].node);
  }
  std::vector<poly::Node> own;
  std::set<std::size_t> gone;
  Rewriting::Online made{{}, directive.rows, directive.over, {}, {}, twice};
  for (const OnlineMember& m : members) {
    Statement s = std::get<Statement>(program.nodes[m.node]);
    const TensorId id = s.target.tensor;
    if (stays.contains(m.node)) {
      poly::Tensor tensor = program.tensor(id);
      tensor.name = fresh_name(program, tensor.name);
      program.tensors.push_back(std::move(tensor));
      r.strides.push_back(row_major(extents(program.tensors.back())));
      s.target.tensor = static_cast<TensorId>(program.tensors.size()) - 1;
      again.emplace(id, s.target.tensor);
      if (reduces(s)) made.again.push_back(id);
    } else {
      gone.insert(m.node);
    }
    for (Access& read : s.reads)
      if (const auto at = again.find(read.tensor); at != again.end()) read.tensor = at->second;
    rename(s, m.indices, names);
    made.tensors.push_back(s.target.tensor);
    own.emplace_back(std::move(s));
  }
  const std::size_t last =
      std::ranges::max_element(members, {}, [](const OnlineMember& m) { return m.root ? m.node : 0; })->node;
  std::set<TensorId> later(made.tensors.begin(), made.tensors.end());
  std::vector<poly::Node> before, after;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    if (gone.contains(n)) continue;
    const std::vector<TensorId> operands = autodiff::operands(program.nodes[n]);
    const bool waits = n > last || std::ranges::any_of(operands, [&](TensorId id) { return later.contains(id); });
    if (waits) for (const TensorId id : autodiff::targets(program.nodes[n])) later.insert(id);
    (waits ? after : before).push_back(std::move(program.nodes[n]));
  }
  program.nodes = std::move(before);
  for (auto* list : {&own, &after}) for (poly::Node& node : *list) program.nodes.push_back(std::move(node));
  r.online.push_back(std::move(made));
  r.done.push_back(directive);
}

}  // namespace

Refusal computed_apart(const Rewriting& r) {
  if (!compares_computed(r.program)) return std::nullopt;
  for (const Rewriting::Online& pass : r.online)
    for (const TensorId id : pass.again)
      if (maker(r.program, id) && !in_pass(r, id))
        return fmt::format("`{}` is computed in passes and elsewhere, and something asks whether such values are equal",
            r.program.tensor(id).name);
  return std::nullopt;
}

bool in_pass(const Rewriting& r, TensorId target) {
  return std::ranges::any_of(r.online,
      [&](const Rewriting::Online& pass) { return std::ranges::find(pass.tensors, target) != pass.tensors.end(); });
}

Refusal apply(Rewriting& r, const directives::Online& directive) {
  Passing passing(r, directive);
  auto found = passing.made();
  if (auto* why = std::get_if<std::string>(&found)) return std::move(*why);
  gather(r, std::get<std::vector<OnlineMember>>(std::move(found)), directive, passing.twice());
  return std::nullopt;
}

namespace {

// What launches of their own would take, on one multiprocessor: the multiplications of contractions, and bytes from and
// to memory.
double cycles_apart(const Rewriting& r, const std::vector<OnlineMember>& members) {
  double cycles = 0;
  const double count = r.target.multiprocessors;
  for (const OnlineMember& m : members) {
    const Statement& s = std::get<Statement>(r.program.nodes[m.node]);
    double bytes = bytes_of(r.program, s.target.tensor);
    for (const Access& read : s.reads) bytes += bytes_of(r.program, read.tensor);
    const double multiplied = contracts(r.program, s)
        ? points(s) / (model::threads::issues * static_cast<double>(model::threads::warp)) / model::pass::rate_apart
        : 0;
    cycles += std::max(multiplied / count, bytes / model::threads::memory_bytes) +
        (reduces(s) ? model::threads::cycles_of_a_launch : 0);
  }
  return cycles;
}

// Whether a pass saves a product that memory would hold, and time, or costs little of it.
bool pays(const Rewriting& r, const Passing& passing, const std::vector<OnlineMember>& members) {
  double kept = 0;
  for (const OnlineMember& m : members) {
    const Statement& s = std::get<Statement>(r.program.nodes[m.node]);
    if (!m.root && reduces(s)) kept += bytes_of(r.program, s.target.tensor);
  }
  return kept >= model::pass::least_bytes && *passing.cycles() < model::pass::dearer * cycles_apart(r, members);
}

// Which outputs of a fold over k are rows, by what it reads: the last one is each of them in turn.
std::vector<std::vector<std::string>> rows_of(const Program& program, const Statement& s, std::size_t k) {
  std::vector<std::vector<std::string>> all;
  for (const Access& read : s.reads) {
    if (maker(program, read.tensor) == nullptr) continue;
    std::vector<std::size_t> outputs;
    bool over = false, plain = true;
    for (const Affine& e : read.element) {
      const auto index = plain_index(e);
      plain = plain && (index || std::ranges::all_of(e.coefficients, [](const poly::Size& c) { return c.is(0); }));
      over = over || (index && *index == k);
      if (index && *index != k && is_output_index(s, *index)) outputs.push_back(*index);
    }
    if (!over || !plain || outputs.empty()) continue;
    for (std::size_t last = outputs.size(); last-- > 0;) {
      std::vector<std::string> rows;
      for (std::size_t d = 0; d < outputs.size(); ++d) if (d != last) rows.push_back(s.indices[outputs[d]]);
      rows.push_back(s.indices[outputs[last]]);
      if (std::ranges::find(all, rows) == all.end()) all.push_back(std::move(rows));
    }
  }
  return all;
}

std::optional<directives::Online> pass_of(const Rewriting& r, std::size_t n);

// Whether a maximum, for what waits for its last value and cannot shrink (`bf16(exp(S - M))`), needs a pass before it
// anyway. What else waits for it then goes with that: no element is computed twice.
bool better_apart(const Rewriting& r, const directives::Online& pass) {
  const auto first = statement_of(r.program, pass.tensors[0]);
  if (pass.tensors.size() < 2 || std::get<Statement>(r.program.nodes[*first]).aggregation != Aggregation::Max)
    return false;
  Rewriting behind = r;
  if (apply(behind, {{pass.tensors[0]}, pass.rows, pass.over})) return false;
  const auto rest = pass_of(behind, *statement_of(behind.program, pass.tensors[1]));
  return rest && std::ranges::any_of(rest->tensors, [&](const std::string& name) {
    return std::ranges::find(pass.tensors, name) == pass.tensors.end();
  });
}

// With all later folds that fit in; `all`: none is left. `twice`: where it may go over its index twice for them.
directives::Online with_later(const Rewriting& r, directives::Online one, std::size_t n, bool twice, bool& all) {
  for (std::size_t later = n + 1; later < r.program.nodes.size(); ++later) {
    const auto* other = std::get_if<Statement>(&r.program.nodes[later]);
    if (!other || !reduces(*other) || in_pass(r, other->target.tensor)) continue;
    const std::string& name = target_name(r.program, *other);
    if (std::ranges::find(one.tensors, name) != one.tensors.end()) continue;
    one.tensors.push_back(name);
    Passing passing(r, one);
    if (std::holds_alternative<std::vector<OnlineMember>>(passing.made()) && (twice || !passing.twice())) continue;
    one.tensors.pop_back(), all = false;
  }
  return one;
}

double cycles_of(const Rewriting& r, const directives::Online& pass) {
  Passing passing(r, pass);
  passing.made();
  return *passing.cycles();
}

// This pass and the next one as one that goes over the index twice: a launch less, and rows are read once. None where
// a tile for both takes longer.
std::optional<directives::Online> in_two_sweeps(const Rewriting& r, const directives::Online& first, std::size_t n) {
  bool all = true;
  const directives::Online both = with_later(r, first, n, true, all);
  const std::size_t count = first.tensors.size();
  Passing passing(r, both);
  passing.made();
  if (!passing.twice()) return std::nullopt;
  Rewriting behind = r;
  if (apply(behind, first)) return std::nullopt;
  const auto rest = pass_of(behind, *statement_of(behind.program, both.tensors[count]));
  const std::vector left(both.tensors.begin() + static_cast<std::ptrdiff_t>(count), both.tensors.end());
  if (!rest || rest->tensors != left) return std::nullopt;
  const double apart = cycles_of(r, first) + model::threads::cycles_of_a_launch + cycles_of(behind, *rest);
  return *passing.cycles() < apart ? std::optional(both) : std::nullopt;
}

// A pass that begins with the fold at n, with all later folds that fit in.
std::optional<directives::Online> pass_of(const Rewriting& r, std::size_t n) {
  const auto& s = std::get<Statement>(r.program.nodes[n]);
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    if (is_output_index(s, k)) continue;
    for (const std::vector<std::string>& rows : rows_of(r.program, s, k)) {
      directives::Online one{{target_name(r.program, s)}, rows, s.indices[k]};
      if (!std::holds_alternative<std::vector<OnlineMember>>(Passing(r, one).made())) continue;
      bool all = true;
      one = with_later(r, std::move(one), n, false, all);
      if (!all && better_apart(r, one)) one.tensors.resize(1);
      if (auto both = all ? std::nullopt : in_two_sweeps(r, one, n)) one = *std::move(both);
      Passing passing(r, one);
      const auto members = std::get<std::vector<OnlineMember>>(passing.made());
      if (pays(r, passing, members)) return one;
    }
  }
  return std::nullopt;
}

}  // namespace

void pass_online(Rewriting& r) {
  if (!has_threads(r.target)) return;
  const Rewriting before = r;
  for (std::size_t n = 0; n < r.program.nodes.size(); ++n) {
    const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
    if (!s || !reduces(*s) || in_pass(r, s->target.tensor) || scan_of(*s)) continue;
    const auto pass = pass_of(r, n);
    if (!pass) continue;
    if (const Refusal why = apply(r, *pass)) throw lang::InternalError("a pass that was chosen is refused: " + *why);
    n = 0;
  }
  if (!computed_apart(r)) return;
  r.program = before.program, r.strides = before.strides, r.done = before.done, r.online.clear();
}

}  // namespace tilec::codegen
