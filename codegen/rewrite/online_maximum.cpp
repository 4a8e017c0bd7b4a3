#include "codegen/rewrite/online_maximum.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "codegen/ranges.h"
#include "codegen/rewrite.h"
#include "codegen/scalar.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Program;
using poly::Statement;

class Maximum {
 public:
  explicit Maximum(const OnlineMembers& members) : p_(members), program_(members.program) {}

  // ---- the maximum that others read

  Refusal fault() {
    for (const OnlineMember& m : p_.all)
      for (const Access& read : p_.statement(m).reads) {
        const OnlineMember* made = p_.made_by(read.tensor);
        if (!made || !made->root) continue;
        if (divides_late(m, read.tensor)) continue;
        if (maximum_ && *maximum_ != read.tensor)
          return fmt::format("both `{}` and `{}` are read before all of them is known", program_.tensor(*maximum_).name,
              program_.tensor(read.tensor).name);
        if (p_.statement(*made).aggregation != Aggregation::Max)
          return fmt::format("`{}` reads `{}` before all of it is known", p_.name(m), p_.name(*made));
        maximum_ = read.tensor;
      }
    if (!maximum_) return std::nullopt;
    // The highest of what was read is one of its elements: no rounding.
    if (program_.tensor(*maximum_).dtype != p_.type || maker(program_, *maximum_)->value.type() != p_.type)
      return fmt::format("`{}` is stored in another type than it is computed in", program_.tensor(*maximum_).name);
    for (const OnlineMember& m : p_.all) {
      const Statement& s = p_.statement(m);
      const poly::Expr value = of_row(m);
      const auto late = late_division(value);
      const auto degree = degree_of(s, late && is_root(s, late->divisor) ? late->numerator : value);
      if (!degree)
        return fmt::format("`{}` is not in proportion to exp(-`{}`)", p_.name(m), program_.tensor(*maximum_).name);
      degrees_[s.target.tensor] = *degree;
      if (*degree == 0) continue;
      if (m.root && !has_rows_of_maximum(m))
        return fmt::format("`{}` has points that `{}` has not", p_.name(m), program_.tensor(*maximum_).name);
      if (m.root && s.aggregation != Aggregation::Sum)
        return fmt::format("`{}` is no sum of what depends on `{}`", p_.name(m), program_.tensor(*maximum_).name);
      if (!m.root && program_.tensor(s.target.tensor).dtype != s.value.type())
        return fmt::format("`{}` is rounded, and depends on `{}`", p_.name(m), program_.tensor(*maximum_).name);
      if (const auto* fill = std::get_if<poly::Number>(&s.fill); !m.root && fill->real != 0)
        return fmt::format("`{}` is {} where it has no point", p_.name(m), fill->real);
    }
    return std::nullopt;
  }

 private:
  bool is_root(const Statement& s, std::size_t read) const {
    const OnlineMember* made = p_.made_by(s.reads[read].tensor);
    return made && made->root;
  }
  // The value of a member; of a sum of products its factor of the row: the other one knows no maximum.
  poly::Expr of_row(const OnlineMember& m) const {
    const OnlinePart part = p_.part(m);
    return part.role == OnlinePart::Sum ? *part.by_row : p_.statement(m).value;
  }
  // Whether a sum divides its factor of the row by one that is known at the end, or a tile so that only sums read it,
  // as that factor: they are divided in its place.
  bool divides_late(const OnlineMember& m, TensorId sum) const {
    const Statement& s = p_.statement(m);
    const auto late = late_division(of_row(m));
    const auto* fill = std::get_if<poly::Number>(&s.fill);
    if (!late || s.reads[late->divisor].tensor != sum ||
        p_.statement(*p_.made_by(sum)).aggregation != Aggregation::Sum)
      return false;
    if (m.root) return p_.part(m).role == OnlinePart::Sum && program_.tensor(sum).dtype == s.value.type();
    if (program_.tensor(s.target.tensor).dtype != s.value.type() || program_.tensor(sum).dtype != s.value.type() ||
        !fill || fill->real != 0)
      return false;
    return std::ranges::all_of(p_.all, [&](const OnlineMember& reader) {
      const Statement& t = p_.statement(reader);
      if (std::ranges::none_of(t.reads, [&](const Access& read) { return read.tensor == s.target.tensor; }))
        return true;
      const OnlinePart part = p_.part(reader);
      const auto* own = part.by_row ? part.by_row->as<poly::Read>() : nullptr;
      return part.role == OnlinePart::Sum && own &&
          t.reads[static_cast<std::size_t>(own->read)].tensor == s.target.tensor;
    });
  }

  bool has_rows_of_maximum(const OnlineMember& m) const {
    const OnlineMember& of = *p_.made_by(*maximum_);
    const auto rows = [&](const OnlineMember& one) {
      std::vector<std::pair<std::vector<std::int64_t>, std::optional<std::int64_t>>> all;
      for (const Row& row : online_nest(p_.statement(one), p_.strides).rows) {
        std::vector<std::int64_t> form(static_cast<std::size_t>(p_.over) + 2, row.form.constant);
        for (std::size_t k = 0; k < one.indices.size(); ++k)
          if (one.indices[k] != unlabelled) form[static_cast<std::size_t>(one.indices[k])] = row.form.coefficients[k];
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
      if (p_.only_one(a, d) && p_.only_one(b, d)) continue;
      if (!j || !k || x[*j] == unlabelled || x[*j] != y[*k]) return false;
    }
    return true;
  }
  const Labels& of(const Statement& s) const {
    return std::ranges::find_if(p_.all, [&](const OnlineMember& m) {
      return &p_.statement(m) == &s || p_.statement(m).target.tensor == s.target.tensor;
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

  const OnlineMembers& p_;
  const Program& program_;
  std::optional<TensorId> maximum_;
  std::map<TensorId, int> degrees_;
};

}  // namespace

Refusal maximum_fault(const OnlineMembers& members) { return Maximum(members).fault(); }

bool knows_folds_first(const OnlineMembers& members) {
  std::vector<Nest> nests;
  std::vector<OnlinePart> parts;
  for (const OnlineMember& m : members.all) {
    nests.push_back(online_nest(members.statement(m), members.strides));
    parts.push_back(members.part(m));
  }
  const FirstSweep first = first_sweep(nests, parts);
  OnlineMembers own = members;
  own.all.clear();
  for (const std::size_t l : first.members) {
    if (parts[l].role == OnlinePart::Sum) return false;
    own.all.push_back(members.all[l]);
  }
  return !first.known.empty() && !maximum_fault(own);
}

}  // namespace tilec::codegen
