#include "codegen/rewrite/online.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <variant>

#include "autodiff/graph.h"
#include "codegen/choose/online.h"
#include "codegen/model/thresholds.h"
#include "codegen/online.h"
#include "codegen/part.h"
#include "codegen/ranges.h"
#include "codegen/rewrite.h"
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
constexpr int none = -1;                               // a label: neither a row nor what is passed over
using Labels = std::vector<int>;                       // 0, 1, …: rows; their number: what is passed over

// What a pass has: statements, as they stand in the program.
struct Member {
  std::size_t node;
  Labels indices;                                      // of the statement's
  bool root;                                           // a fold; else it is read by one
};

// Indices of rows, and of what is passed over, are called as in the first fold; others by names of their own.
void rename(Statement& s, const Labels& labels, const std::vector<std::string>& names) {
  for (std::size_t k = 0; k < labels.size(); ++k)
    if (labels[k] != none) s.indices[k] = names[static_cast<std::size_t>(labels[k])];
  for (std::size_t k = 0; k < labels.size(); ++k)
    while (labels[k] == none && std::ranges::count(s.indices, s.indices[k]) > 1) s.indices[k] += "_";
}

class Passing {
 public:
  Passing(const Rewriting& r, const directives::Online& directive)
      : r_(r), program_(r.program), directive_(directive), over_(static_cast<int>(directive.rows.size())) {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n)
      for (const TensorId id : autodiff::targets(program_.nodes[n])) maker_.emplace(id, n);
  }

  std::variant<std::vector<Member>, std::string> made() {
    if (!has_threads(r_.target)) return std::string("a pass is one of blocks of threads");
    if (directive_.rows.empty()) return std::string("there are no rows");
    for (const std::string& name : directive_.tensors) if (const Refusal why = add_root(name)) return *why;
    while (spread()) {}
    if (!fault_.empty()) return fault_;
    std::ranges::sort(members_, {}, &Member::node);
    for (const Member& m : members_)
      if (lang::is_float(statement(m).value.type())) type_ = compute_type(statement(m).value.type());
    for (const Member& m : members_) if (const Refusal why = fault(m)) return *why;
    if (const Refusal why = order()) return *why;
    if (const Refusal why = maximum()) return *why;
    if (!cycles()) return std::string("no tile of its operands fits shared memory");
    return members_;
  }

  // What the tile that is chosen takes.
  std::optional<double> cycles() const {
    std::vector<Nest> nests;
    std::vector<int> nodes;
    std::vector<std::string> names = directive_.rows;
    names.push_back(directive_.over);
    for (const Member& m : members_) {
      Statement s = statement(m);
      rename(s, m.indices, names);
      nests.push_back(online_nest(s, r_.strides)), nodes.push_back(static_cast<int>(m.node));
    }
    const auto tile = choose_tile_of_pass(program_, nests, nodes, directive_.rows, directive_.over, r_.target);
    return tile ? std::optional(tile->cycles) : std::nullopt;
  }

 private:
  const Statement& statement(const Member& m) const { return std::get<Statement>(program_.nodes[m.node]); }
  const std::string& name(const Member& m) const { return target_name(program_, statement(m)); }

  Refusal add_root(const std::string& name) {
    const auto n = statement_of(program_, name);
    if (!n) return no_statement(name);
    const auto& s = std::get<Statement>(program_.nodes[*n]);
    if (in_pass(r_, s.target.tensor)) return fmt::format("`{}` belongs to a pass already", name);
    if (std::ranges::any_of(members_, [&](const Member& m) { return m.node == *n; }))
      return fmt::format("`{}` is named twice", name);
    Member m{*n, Labels(s.indices.size(), none), true};
    if (members_.empty()) {
      std::set<std::string> seen;
      for (std::size_t k = 0; k <= directive_.rows.size(); ++k) {
        const std::string& index = k < directive_.rows.size() ? directive_.rows[k] : directive_.over;
        const auto at = index_of(s, index);
        if (!at || !seen.insert(index).second)
          return fmt::format("`{}` is no index of `{}`, or stands there twice", index, name);
        m.indices[*at] = static_cast<int>(k);
      }
    }
    members_.push_back(std::move(m));
    return std::nullopt;
  }

  // Labels of indices to tensors, of tensors to indices; what is read of the last row and the index joins. False:
  // nothing is new.
  bool spread() {
    bool more = false;
    for (std::size_t at = 0; at < members_.size(); ++at) {
      const Statement& s = statement(members_[at]);
      if (std::ranges::all_of(members_[at].indices, [](int label) { return label == none; }))
        for (const Access& read : s.reads)
          if (look(read.tensor, deepest)) more = share(members_[at], read) || more;
      more = share(members_[at], s.target) || more;
      for (const Access& read : s.reads) {
        if (std::ranges::find(program_.inputs, read.tensor) != program_.inputs.end() || !maker_.contains(read.tensor))
          continue;
        const std::size_t node = maker_.at(read.tensor);
        const auto known = std::ranges::find(members_, node, &Member::node);
        if (known == members_.end() && reads_tile(members_[at], read) &&
            std::holds_alternative<Statement>(program_.nodes[node])) {
          members_.push_back({node, Labels(std::get<Statement>(program_.nodes[node]).indices.size(), none), false});
          more = true;
        }
        if (std::ranges::find(members_, node, &Member::node) != members_.end())
          more = share(members_[at], read) || more;
      }
    }
    return more && fault_.empty();
  }

  // Labels of what no member reads yet, by what it is computed from. False: there are none.
  bool look(TensorId id, int depth) {
    if (const auto known = tensors_.find(id); known != tensors_.end()) return true;
    const auto at = maker_.find(id);
    const auto* s = at == maker_.end() || depth == 0 ? nullptr : std::get_if<Statement>(&program_.nodes[at->second]);
    if (!s) return false;
    Member through{at->second, Labels(s->indices.size(), none), false};
    for (const Access& read : s->reads) if (look(read.tensor, depth - 1)) share(through, read);
    return share(through, s->target);
  }

  bool reads_tile(const Member& m, const Access& read) const {
    bool row = false, over = false;
    for (const Affine& e : read.element) {
      const auto k = plain_index(e);
      if (!k) continue;
      row = row || m.indices[*k] == over_ - 1, over = over || m.indices[*k] == over_;
    }
    return row && over;
  }

  bool share(Member& m, const Access& access) {
    Labels& tensor = tensors_.try_emplace(access.tensor, Labels(access.element.size(), none)).first->second;
    bool more = false;
    for (std::size_t d = 0; d < access.element.size(); ++d) {
      const auto k = plain_index(access.element[d]);
      if (!k) continue;
      int &a = m.indices[*k], &b = tensor[d];
      if (a == b) continue;
      if (a != none && b != none) {
        fault_ = fmt::format("`{}` has rows and what is passed over at other places than those before it", name(m));
        return false;
      }
      (a == none ? a : b) = std::max(a, b);
      more = true;
    }
    return more;
  }

  // A dimension of one element, which no index goes through.
  bool only_one(const Access& access, std::size_t d) const {
    return extents(program_.tensor(access.tensor))[d] == 1 &&
        std::ranges::all_of(access.element[d].coefficients, [](const poly::Size& c) { return c.is(0); });
  }

  // Whether a member has the form that a pass has, over elements of its own.
  Refusal fault(const Member& m) const {
    const Statement& s = statement(m);
    if (in_pass(r_, s.target.tensor)) return fmt::format("`{}` belongs to a pass already", name(m));
    for (int label = 0; label <= over_; ++label) {
      const auto count = std::ranges::count(m.indices, label);
      if (count != 1)
        return fmt::format("`{}` has {} of `{}`", name(m), count ? "several indices" : "no index",
            label < over_ ? directive_.rows[static_cast<std::size_t>(label)] : directive_.over);
    }
    if (std::holds_alternative<TensorId>(s.fill)) return fmt::format("`{}` begins as another tensor", name(m));
    if (scan_of(s)) return fmt::format("`{}` is a scan", name(m));
    for (std::size_t k = 0; k < s.indices.size(); ++k) {
      if (extent(s, k) < 1) return fmt::format("`{}` has no point", name(m));
      if (m.indices[k] == none) continue;
      if (low(s, k) != 0 || extent(s, k) != first_extent(m.indices[k]))
        return fmt::format("`{}` has other values of `{}`", name(m), s.indices[k]);
    }
    std::set<std::size_t> seen;
    for (std::size_t d = 0; d < s.target.element.size(); ++d) {
      const auto k = plain_index(s.target.element[d]);
      if (only_one(s.target, d)) continue;
      const bool own = k && seen.insert(*k).second && low(s, *k) == 0;
      if (!own || (m.root && extent(s, *k) != extents(program_.tensor(s.target.tensor))[d]))
        return fmt::format("`{}` does not write all of its elements by indices of their own", name(m));
    }
    const Nest nest = online_nest(s, r_.strides);
    const auto part = online_part(nest, name_of(m, over_ - 1), name_of(m, over_));
    if (const auto* why = std::get_if<std::string>(&part))
      return fmt::format("`{}` has no place in a pass: {}", name(m), *why);
    const OnlinePart& found = std::get<OnlinePart>(part);
    const bool folds = found.role == OnlinePart::Fold || found.role == OnlinePart::Sum;
    if (found.role == OnlinePart::Sum && m.indices[found.column] != none)
      return fmt::format("`{}` has a row `{}` that its first factor has not", name(m), s.indices[found.column]);
    if (m.root != folds)
      return fmt::format(
          "`{}` {}", name(m), folds ? "is read before all of it is known" : "does not fold over what is passed over");
    const std::size_t more = found.role == OnlinePart::Product || found.role == OnlinePart::Sum ? 1 : 0;
    if (s.indices.size() != directive_.rows.size() + 1 + more) return fmt::format("`{}` has further indices", name(m));
    const lang::DType type = compute_type(s.value.type());
    const bool counts = found.role == OnlinePart::Fold && !lang::is_float(type);
    if (!counts && (!lang::is_float(type) || type != type_))
      return fmt::format("`{}` is computed in another type than others of the pass, or in integers", name(m));
    if (folds && !identity_is_fill(nest) && !always_reached(nest))
      return fmt::format("an element of `{}` may have no point, and is not what folding nothing gives", name(m));
    for (const Row& row : nest.rows)
      for (std::size_t k = 0; k < s.indices.size(); ++k)
        if (m.indices[k] == none && row.form.coefficients[k])
          return fmt::format("which points `{}` has depends on `{}`", name(m), s.indices[k]);
    return reads_fault(m, found);
  }
  std::string name_of(const Member& m, int label) const {
    return statement(m).indices[static_cast<std::size_t>(std::ranges::find(m.indices, label) - m.indices.begin())];
  }
  std::int64_t first_extent(int label) const {
    const Member& m = *std::ranges::find_if(members_, [](const Member& one) { return one.root; });
    return extent(statement(m), static_cast<std::size_t>(std::ranges::find(m.indices, label) - m.indices.begin()));
  }

  // What the pass makes is read where it is: at the same row and index, and not as an operand that is staged.
  Refusal reads_fault(const Member& m, const OnlinePart& part) const {
    const Statement& s = statement(m);
    for (std::size_t r = 0; r < s.reads.size(); ++r) {
      const auto at = maker_.find(s.reads[r].tensor);
      const auto* made = at == maker_.end() ? nullptr : member_of(at->second);
      if (!made) continue;
      const bool staged = part.role == OnlinePart::Product || (part.by_column && mentions_read(*part.by_column, r));
      const bool decides = std::ranges::any_of(
          part.when, [&](const OnlinePart::When& when) { return mentions_read(when.condition, r); });
      if (decides) return fmt::format("a condition of `{}` depends on what the pass makes", name(m));
      if (staged) return fmt::format("`{}` multiplies what the pass makes by columns", name(m));
      const Labels& labels = tensors_.at(s.reads[r].tensor);
      for (std::size_t d = 0; d < s.reads[r].element.size(); ++d) {
        const auto k = plain_index(s.reads[r].element[d]);
        if (only_one(s.reads[r], d)) continue;
        if (!k || m.indices[*k] == none || m.indices[*k] != labels[d])
          return fmt::format(
              "`{}` reads `{}` elsewhere than at its own row", name(m), program_.tensor(s.reads[r].tensor).name);
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
  const Member* member_of(std::size_t node) const {
    const auto at = std::ranges::find(members_, node, &Member::node);
    return at == members_.end() ? nullptr : &*at;
  }

  // What is read from outside is made before; what reads the folds stands behind.
  Refusal order() const {
    std::set<TensorId> later;
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const Member* m = member_of(n);
      for (const TensorId id : autodiff::operands(program_.nodes[n])) {
        if (!later.contains(id)) continue;
        const Member* made = member_of(maker_.at(id));
        if (m && !made)
          return fmt::format("`{}` waits for `{}`, which waits for the pass", name(*m), program_.tensor(id).name);
        if (!m) for (const TensorId own : autodiff::targets(program_.nodes[n])) later.insert(own);
      }
      if (m && m->root) later.insert(statement(*m).target.tensor);
    }
    if (statement(members_.front()).target.tensor >= 0 && online_part_of(members_.front()).role == OnlinePart::Sum)
      return fmt::format("`{}` reads nothing that the pass makes", name(members_.front()));
    return std::nullopt;
  }
  OnlinePart online_part_of(const Member& m) const {
    return std::get<OnlinePart>(
        online_part(online_nest(statement(m), r_.strides), name_of(m, over_ - 1), name_of(m, over_)));
  }

  // ---- the maximum that others read

  Refusal maximum() {
    for (const Member& m : members_)
      for (const Access& read : statement(m).reads) {
        const auto at = maker_.find(read.tensor);
        const Member* made = at == maker_.end() ? nullptr : member_of(at->second);
        if (!made || !made->root) continue;
        if (divides_late(m, read.tensor)) continue;
        if (maximum_ && *maximum_ != read.tensor)
          return fmt::format("both `{}` and `{}` are read before all of them is known", program_.tensor(*maximum_).name,
              program_.tensor(read.tensor).name);
        if (statement(*made).aggregation != Aggregation::Max)
          return fmt::format("`{}` reads `{}` before all of it is known", name(m), name(*made));
        maximum_ = read.tensor;
      }
    if (!maximum_) return std::nullopt;
    // The highest of what was read is one of its elements: no rounding.
    if (program_.tensor(*maximum_).dtype != type_ || maker(program_, *maximum_)->value.type() != type_)
      return fmt::format("`{}` is stored in another type than it is computed in", program_.tensor(*maximum_).name);
    for (const Member& m : members_) {
      const Statement& s = statement(m);
      const poly::Expr value = of_row(m);
      const auto late = late_division(value);
      const auto degree = degree_of(s, late && is_root(s, late->divisor) ? late->numerator : value);
      if (!degree)
        return fmt::format("`{}` is not in proportion to exp(-`{}`)", name(m), program_.tensor(*maximum_).name);
      degrees_[s.target.tensor] = *degree;
      if (*degree == 0) continue;
      if (m.root && !has_rows_of_maximum(m))
        return fmt::format("`{}` has points that `{}` has not", name(m), program_.tensor(*maximum_).name);
      if (m.root && s.aggregation != Aggregation::Sum)
        return fmt::format("`{}` is no sum of what depends on `{}`", name(m), program_.tensor(*maximum_).name);
      if (!m.root && program_.tensor(s.target.tensor).dtype != s.value.type())
        return fmt::format("`{}` is rounded, and depends on `{}`", name(m), program_.tensor(*maximum_).name);
      if (const auto* fill = std::get_if<poly::Number>(&s.fill); !m.root && fill->real != 0)
        return fmt::format("`{}` is {} where it has no point", name(m), fill->real);
    }
    return std::nullopt;
  }

  bool is_root(const Statement& s, std::size_t read) const {
    const auto at = maker_.find(s.reads[read].tensor);
    const Member* made = at == maker_.end() ? nullptr : member_of(at->second);
    return made && made->root;
  }
  // The value of a member; of a sum of products its factor of the row: the other one knows no maximum.
  poly::Expr of_row(const Member& m) const {
    const OnlinePart part = online_part_of(m);
    return part.role == OnlinePart::Sum ? *part.by_row : statement(m).value;
  }
  // Whether a sum divides its factor of the row by one that is known at the end, or a tile so that only sums read it,
  // as that factor: they are divided in its place.
  bool divides_late(const Member& m, TensorId sum) const {
    const Statement& s = statement(m);
    const auto late = late_division(of_row(m));
    const auto* fill = std::get_if<poly::Number>(&s.fill);
    if (!late || s.reads[late->divisor].tensor != sum ||
        statement(*member_of(maker_.at(sum))).aggregation != Aggregation::Sum)
      return false;
    if (m.root) return online_part_of(m).role == OnlinePart::Sum && program_.tensor(sum).dtype == s.value.type();
    if (program_.tensor(s.target.tensor).dtype != s.value.type() || program_.tensor(sum).dtype != s.value.type() ||
        !fill || fill->real != 0)
      return false;
    return std::ranges::all_of(members_, [&](const Member& reader) {
      const Statement& t = statement(reader);
      if (std::ranges::none_of(t.reads, [&](const Access& read) { return read.tensor == s.target.tensor; }))
        return true;
      const OnlinePart part = online_part_of(reader);
      const auto* own = part.by_row ? part.by_row->as<poly::Read>() : nullptr;
      return part.role == OnlinePart::Sum && own &&
          t.reads[static_cast<std::size_t>(own->read)].tensor == s.target.tensor;
    });
  }

  bool has_rows_of_maximum(const Member& m) const {
    const Member& of = *member_of(maker_.at(*maximum_));
    const auto rows = [&](const Member& one) {
      std::vector<std::pair<std::vector<std::int64_t>, std::optional<std::int64_t>>> all;
      for (const Row& row : online_nest(statement(one), r_.strides).rows) {
        std::vector<std::int64_t> form(static_cast<std::size_t>(over_) + 2, row.form.constant);
        for (std::size_t k = 0; k < one.indices.size(); ++k)
          if (one.indices[k] != none) form[static_cast<std::size_t>(one.indices[k])] = row.form.coefficients[k];
        all.emplace_back(std::move(form), row.extent);
      }
      return all;
    };
    const auto own = rows(m);
    return std::ranges::all_of(rows(of), [&](const auto& row) { return std::ranges::find(own, row) != own.end(); });
  }

  // How often a value has the factor exp(-maximum); none: it depends on it in another way. A zero has any degree: see
  // `zero`.
  std::optional<int> degree_of(const Statement& s, const poly::Expr& e) const {
    if (!depends(s, e)) return 0;
    return e.match([&](const poly::Number&) { return std::optional(0); },
        [&](const poly::Index&) { return std::optional(0); },
        [&](const poly::Read& r) -> std::optional<int> {
          const TensorId id = s.reads[static_cast<std::size_t>(r.read)].tensor;
          if (id == *maximum_) return std::nullopt;
          return degrees_.at(id);
        },
        [&](const poly::Cast& c) -> std::optional<int> {
          return lang::is_float(c.type) && compute_type(c.type) == c.type &&
                  lang::bytes(c.type) >= lang::bytes(c.operand.type())
              ? degree_of(s, c.operand)
              : std::nullopt;
        },
        [&](const poly::Apply& a) -> std::optional<int> {
          const auto of = [&](std::size_t k) { return degree_of(s, a.operands[k]); };
          if (a.op == lang::Op::Exp) return is_shifted(s, a.operands[0]) ? std::optional(1) : std::nullopt;
          if (a.op == lang::Op::Neg) return of(0);
          if (a.op == lang::Op::Mul && of(0) && of(1) && *of(0) + *of(1) <= 1) return *of(0) + *of(1);
          if (a.op == lang::Op::Div && !depends(s, a.operands[1])) return of(0);
          if (a.op == lang::Op::Select && (!depends(s, a.operands[0]) || asks_for_none(s, a.operands[0]))) {
            if (zero(a.operands[1])) return of(2);
            if (zero(a.operands[2])) return of(1);
            return of(1) && of(1) == of(2) ? of(1) : std::nullopt;
          }
          return std::nullopt;
        });
  }
  bool depends(const Statement& s, const poly::Expr& e) const {
    return std::ranges::any_of(poly::parts(e), [&](const poly::Expr& p) {
      const auto* read = p.as<poly::Read>();
      if (!read) return false;
      const TensorId id = s.reads[static_cast<std::size_t>(read->read)].tensor;
      const auto degree = degrees_.find(id);
      return id == *maximum_ || (degree != degrees_.end() && degree->second != 0);
    });
  }
  bool is_maximum(const Statement& s, const poly::Expr& e) const {
    const auto* read = e.as<poly::Read>();
    return read && s.reads[static_cast<std::size_t>(read->read)].tensor == *maximum_;
  }
  // x - maximum, where x is what the maximum is of: so it is never above 0.
  bool is_shifted(const Statement& s, const poly::Expr& e) const {
    const auto* minus = e.as<poly::Apply>();
    return minus && minus->op == lang::Op::Sub && is_maximum(s, minus->operands[1]) &&
        !depends(s, minus->operands[0]) && same_as_folded(s, minus->operands[0]);
  }
  bool same_as_folded(const Statement& s, const poly::Expr& e) const {
    const Statement& of = *maker(program_, *maximum_);
    const auto equal = [&](const auto& self, const poly::Expr& a, const poly::Expr& b) -> bool {
      if (a.type() != b.type()) return false;
      const auto *x = a.as<poly::Read>(), *y = b.as<poly::Read>();
      if (x && y)
        return s.reads[static_cast<std::size_t>(x->read)].tensor ==
            of.reads[static_cast<std::size_t>(y->read)].tensor &&
            same_place(s, s.reads[static_cast<std::size_t>(x->read)], of, of.reads[static_cast<std::size_t>(y->read)]);
      const auto *p = a.as<poly::Apply>(), *q = b.as<poly::Apply>();
      if (p && q) {
        if (p->op != q->op || p->operands.size() != q->operands.size()) return false;
        for (std::size_t k = 0; k < p->operands.size(); ++k)
          if (!self(self, p->operands[k], q->operands[k])) return false;
        return true;
      }
      const auto *c = a.as<poly::Cast>(), *d = b.as<poly::Cast>();
      if (c && d) return self(self, c->operand, d->operand);
      const auto *n = a.as<poly::Number>(), *m = b.as<poly::Number>();
      return n && m && *n == *m;
    };
    return equal(equal, e, of.value);
  }
  bool same_place(const Statement& s, const Access& a, const Statement& t, const Access& b) const {
    const Labels &x = of(s), &y = of(t);
    for (std::size_t d = 0; d < a.element.size(); ++d) {
      const auto j = plain_index(a.element[d]), k = plain_index(b.element[d]);
      if (only_one(a, d) && only_one(b, d)) continue;
      if (!j || !k || x[*j] == none || x[*j] != y[*k]) return false;
    }
    return true;
  }
  const Labels& of(const Statement& s) const {
    return std::ranges::find_if(members_, [&](const Member& m) {
      return &statement(m) == &s || statement(m).target.tensor == s.target.tensor;
    })->indices;
  }
  // maximum == -inf: then all that it is of is.
  bool asks_for_none(const Statement& s, const poly::Expr& e) const {
    const auto* equal = e.as<poly::Apply>();
    if (!equal || equal->op != lang::Op::Eq) return false;
    const auto is_none = [](const poly::Expr& x) {
      const auto* n = x.as<poly::Number>();
      return n && n->real == -std::numeric_limits<double>::infinity();
    };
    return (is_maximum(s, equal->operands[0]) && is_none(equal->operands[1])) ||
        (is_maximum(s, equal->operands[1]) && is_none(equal->operands[0]));
  }
  static bool zero(const poly::Expr& e) {
    const auto* n = e.as<poly::Number>();
    return n && n->real == 0 && n->integer == 0;
  }

  const Rewriting& r_;
  const Program& program_;
  const directives::Online& directive_;
  int over_;
  lang::DType type_ = lang::DType::F32;                // of all but counts
  std::map<TensorId, std::size_t> maker_;
  std::vector<Member> members_;
  std::map<TensorId, Labels> tensors_;
  std::optional<TensorId> maximum_;
  std::map<TensorId, int> degrees_;
  std::string fault_;
};

// The members one behind the other, where the last fold stands; what waits for a fold stands behind them.
void gather(Rewriting& r, std::vector<Member> members, const directives::Online& directive) {
  Program& program = r.program;
  std::vector<std::string> names = directive.rows;
  names.push_back(directive.over);
  std::set<std::size_t> mine;
  std::map<TensorId, TensorId> again;                  // computed once more
  for (const Member& m : members) mine.insert(m.node);
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
  Rewriting::Online made{{}, directive.rows, directive.over, {}};
  for (const Member& m : members) {
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
      std::ranges::max_element(members, {}, [](const Member& m) { return m.root ? m.node : 0; })->node;
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
  auto found = Passing(r, directive).made();
  if (auto* why = std::get_if<std::string>(&found)) return std::move(*why);
  gather(r, std::get<std::vector<Member>>(std::move(found)), directive);
  return std::nullopt;
}

namespace {

double bytes_of(const Program& program, TensorId id) {
  return elements(program, id) * static_cast<double>(lang::bytes(program.tensor(id).dtype));
}

// What launches of their own would take, on one multiprocessor: the multiplications of contractions, and bytes from and
// to memory.
double cycles_apart(const Rewriting& r, const std::vector<Member>& members) {
  double cycles = 0;
  const double count = r.target.multiprocessors;
  for (const Member& m : members) {
    const Statement& s = std::get<Statement>(r.program.nodes[m.node]);
    double bytes = bytes_of(r.program, s.target.tensor);
    for (const Access& read : s.reads) bytes += bytes_of(r.program, read.tensor);
    const double multiplied = contracts(r.program, s)
        ? points(s) / (model::threads::issues * static_cast<double>(model::threads::warp)) / model::pass::rate_apart
        : 0;
    cycles += std::max(multiplied / count, bytes / model::pass::memory_bytes) + (reduces(s) ? model::pass::launch : 0);
  }
  return cycles;
}

// Whether a pass saves a product that memory would hold, and time, or costs little of it.
bool pays(const Rewriting& r, const Passing& passing, const std::vector<Member>& members) {
  double kept = 0;
  for (const Member& m : members) {
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

// A pass that begins with the fold at n, with all later folds that fit in.
std::optional<directives::Online> pass_of(const Rewriting& r, std::size_t n) {
  const auto& s = std::get<Statement>(r.program.nodes[n]);
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    if (is_output_index(s, k)) continue;
    for (const std::vector<std::string>& rows : rows_of(r.program, s, k)) {
      directives::Online one{{target_name(r.program, s)}, rows, s.indices[k]};
      if (!std::holds_alternative<std::vector<Member>>(Passing(r, one).made())) continue;
      for (std::size_t later = n + 1; later < r.program.nodes.size(); ++later) {
        const auto* other = std::get_if<Statement>(&r.program.nodes[later]);
        if (!other || !reduces(*other) || in_pass(r, other->target.tensor)) continue;
        one.tensors.push_back(target_name(r.program, *other));
        if (!std::holds_alternative<std::vector<Member>>(Passing(r, one).made())) one.tensors.pop_back();
      }
      Passing passing(r, one);
      const auto members = std::get<std::vector<Member>>(passing.made());
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
