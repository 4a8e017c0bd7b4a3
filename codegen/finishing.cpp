#include "codegen/finishing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/scalar.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Statement;

// An affine form without the indices that have one value.
Affine without_single(const Statement& s, Affine e) {
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    if (extent(s, k) != 1 || e.coefficients[k].is(0)) continue;
    e.constant = poly::Size((poly::Exact(e.constant.get()) + poly::Exact(e.coefficients[k].get()) * low(s, k)).get());
    e.coefficients[k] = poly::Size(0);
  }
  return e;
}

// The index that a form mentions; none where there are several, `count` where there is none.
std::optional<std::size_t> mentioned(const Affine& e) {
  std::optional<std::size_t> found;
  for (std::size_t k = 0; k < e.coefficients.size(); ++k) {
    if (e.coefficients[k].is(0)) continue;
    if (found) return std::nullopt;
    found = k;
  }
  return found ? found : std::optional(e.coefficients.size());
}

// Statements over the indices of a sum.
class OverSum {
 public:
  OverSum(const poly::Program& program, const Statement& sum) : program_(program), seen_{sum} {}

  // Why the statement does not finish the sum; none: it is one of `seen` now.
  std::optional<std::string> add(const Statement& s) {
    const std::string &name = program_.tensor(s.target.tensor).name,
                      &of = program_.tensor(seen_.front().target.tensor).name;
    if (reduces(s) || s.domain.size() != s.indices.size())
      return fmt::format("`{}` is not computed element by element", name);
    std::vector<std::optional<std::size_t>> map(s.indices.size());
    bool any = false;
    for (const Access& read : s.reads)
      for (const Statement& made : seen_) {
        if (made.target.tensor != read.tensor) continue;
        any = true;
        if (!match(s, read, made, map)) return fmt::format("`{}` reads `{}` elsewhere than at its own element", name,
            program_.tensor(read.tensor).name);
      }
    if (!any) return fmt::format("`{}` reads nothing of `{}`", name, of);
    if (!same_elements(s, map)) return fmt::format("`{}` has other elements than `{}`", name, of);
    seen_.push_back(seen(s, map));
    return std::nullopt;
  }

  std::vector<Statement> take() { return std::move(seen_); }

 private:
  using Map = std::vector<std::optional<std::size_t>>;  // of each index, the sum's

  static bool match(const Statement& s, const Access& read, const Statement& made, Map& map) {
    for (std::size_t d = 0; d < read.element.size(); ++d) {
      const Affine own = without_single(s, read.element[d]), theirs = without_single(made, made.target.element[d]);
      const auto k = mentioned(own), x = mentioned(theirs);
      if (!k || !x || own.constant != theirs.constant || !own.divisor.is(1) || !theirs.divisor.is(1)) return false;
      if ((*k == s.indices.size()) != (*x == made.indices.size())) return false;
      if (*k == s.indices.size()) continue;
      if (own.coefficients[*k] != theirs.coefficients[*x] || (map[*k] && map[*k] != x)) return false;
      map[*k] = x;
    }
    return true;
  }

  // Whether its indices run over the sum's outputs, each over one.
  bool same_elements(const Statement& s, const Map& map) const {
    const Statement& sum = seen_.front();
    std::set<std::size_t> met;
    for (std::size_t k = 0; k < map.size(); ++k) {
      if (extent(s, k) == 1) continue;
      if (!map[k] || !met.insert(*map[k]).second || low(s, k) != low(sum, *map[k]) ||
          extent(s, k) != extent(sum, *map[k]) || !is_output_index(s, k))
        return false;
    }
    for (std::size_t x = 0; x < sum.indices.size(); ++x)
      if (is_output_index(sum, x) && extent(sum, x) != 1 && !met.contains(x)) return false;
    return true;
  }

  Statement seen(const Statement& s, const Map& map) const {
    const Statement& sum = seen_.front();
    const std::size_t count = sum.indices.size();
    std::vector<Affine> to;
    for (std::size_t k = 0; k < map.size(); ++k)
      to.push_back(extent(s, k) == 1 ? Affine::of(poly::Size(low(s, k)), count) : Affine::index(*map[k], count));
    Statement made = s;
    made.indices = sum.indices, made.domain = sum.domain;
    std::vector<int> same;
    for (std::size_t r = 0; r < s.reads.size(); ++r) same.push_back(static_cast<int>(r));
    for (Affine& e : made.target.element) e = e.compose(to, count);
    for (Access& read : made.reads) for (Affine& e : read.element) e = e.compose(to, count);
    made.value = seen_from(s.value, to, count, same);
    return made;
  }

  const poly::Program& program_;
  std::vector<Statement> seen_;
};

}  // namespace

bool finishes(const Group& group) { return group.body.size() > 1 && group.body.back().is<forms::Finish>(); }

std::vector<int> nodes_of(const Group& group) {
  std::vector<int> nodes;
  for (const Compute& leaf : group.body) nodes.push_back(leaf.node);
  return nodes;
}

std::variant<std::vector<Statement>, std::string> over_sum(
    const poly::Program& program, const std::vector<int>& nodes) {
  const auto at = [&](int node) -> const Statement& {
    return std::get<Statement>(program.nodes[static_cast<std::size_t>(node)]);
  };
  OverSum all(program, at(nodes.front()));
  for (std::size_t n = 1; n < nodes.size(); ++n) if (auto why = all.add(at(nodes[n]))) return *std::move(why);
  return all.take();
}

std::vector<Nest> finishing_nests(const poly::Program& program, const std::vector<int>& nodes, const Strides& strides) {
  auto found = over_sum(program, nodes);
  if (const auto* why = std::get_if<std::string>(&found))
    throw lang::InternalError("the plan finishes a sum by what does not: " + *why);
  const auto& all = std::get<std::vector<Statement>>(found);
  std::set<std::string> keep;                          // whose values are asked for
  for (const Statement& s : all)
    for (const poly::Expr& part : poly::parts(s.value))
      if (const auto* index = part.as<poly::Index>())
        for (std::size_t k = 0; k < s.indices.size(); ++k)
          if (mentions(index->value, k) && extent(s, k) != 1) keep.insert(s.indices[k]);
  std::vector<Nest> nests;
  for (const Statement& s : all) {
    Statement with = s;
    for (const Statement& other : all) {
      with.reads.push_back(other.target);
      with.reads.insert(with.reads.end(), other.reads.begin(), other.reads.end());
    }
    Nest nest = nest_of(with, strides, keep);
    nest.reads.resize(s.reads.size());
    if (!nests.empty()) nest.rows.clear();
    nests.push_back(std::move(nest));
  }
  return nests;
}

bool Finishing::writes(const Nest& nest) const {
  return std::ranges::find(nest.locals, nest.target.tensor) == nest.locals.end();
}

std::vector<const FlatAccess*> Finishing::targets() const {
  std::vector<const FlatAccess*> all;
  for (const Nest& nest : nests_) if (writes(nest)) all.push_back(&nest.target);
  return all;
}

std::vector<const Form*> Finishing::forms() const {
  std::vector<const Form*> all;
  for (const FlatAccess* target : targets()) all.push_back(&target->offset);
  for (std::size_t n = 1; n < nests_.size(); ++n) {
    for (const FlatAccess& read : nests_[n].reads) all.push_back(&read.offset);
    for (const auto& [affine, form] : nests_[n].forms) all.push_back(&form);
  }
  return all;
}

namespace {

// The value of a statement at one element: each part of it once.
class OfElement {
 public:
  using Load = std::function<Expr(const FlatAccess&)>;
  OfElement(Body& body, Names& names, const Nest& nest, Load load, std::function<Expr(const Form&)> place)
      : body_(body), names_(names), nest_(nest), load_(std::move(load)), place_(std::move(place)) {}

  Expr operator()(const poly::Expr& e) {
    if (const auto* number = e.as<poly::Number>()) return constant_of(*number);
    const void* node = e.match([](const auto& n) { return static_cast<const void*>(&n); });
    if (const auto known = known_.find(node); known != known_.end()) return known->second;
    const Expr value = fresh(e);
    return known_.emplace(node, value.as<Variable>() ? value : named(names_, body_, "t", value)).first->second;
  }

 private:
  Expr fresh(const poly::Expr& e) {
    return e.match([](const poly::Number& n) { return constant_of(n); },
        [&](const poly::Index& x) { return convert(place_(nest_.form(x.value)), compute_type(x.type)); },
        [&](const poly::Read& r) {
          return convert(load_(nest_.reads[static_cast<std::size_t>(r.read)]), compute_type(r.type));
        },
        [&](const poly::Cast& c) { return cast((*this)(c.operand), c.operand, c.type); },
        [&](const poly::Apply& a) {
          std::vector<Expr> operands;
          for (const poly::Expr& o : a.operands) operands.push_back((*this)(o));
          return Expr(Operation{a.op, std::move(operands), compute_type(a.type)});
        });
  }

  Body& body_;
  Names& names_;
  const Nest& nest_;
  Load load_;
  std::function<Expr(const Form&)> place_;
  std::map<const void*, Expr> known_;
};

}  // namespace

Expr Finishing::value(Body& body, const Nest& nest, const std::map<TensorId, Expr>& made,
    const std::function<Expr(const Form&)>& place) const {
  OfElement of(
      body, names_, nest,
      [&](const FlatAccess& read) {
        const auto known = made.find(read.tensor);
        if (known != made.end()) return known->second;
        return Expr(Load{
            storage_.name(read.tensor), place(read.offset), storage_.plan.program.tensor(read.tensor).dtype});
      },
      place);
  const Expr all = of(*nest.value);
  if (nest.aggregation == Aggregation::Assign) return all;
  return combine(nest.aggregation, identity(nest.aggregation, all.type()), all);
}

std::vector<Finishing::Written> Finishing::values(
    Body& body, const std::vector<Expr>& sums, const Place& place) const {
  std::vector<Written> written;
  for (const Nest& nest : nests_) if (writes(nest)) written.push_back({&nest.target, {}});
  for (std::size_t x = 0; x < sums.size(); ++x) {
    std::map<TensorId, Expr> made;
    std::size_t at = 0;
    for (const Nest& nest : nests_) {
      const TensorId id = nest.target.tensor;
      const DType type = storage_.plan.program.tensor(id).dtype;
      const Expr value = &nest == &nests_.front()
          ? sums[x]
          : this->value(body, nest, made, [&](const Form& form) { return place(form, x); });
      const Expr stored = convert(convert(value, compute_type(type)), type);
      if (nests_.size() > 1) made.emplace(id, convert(stored, compute_type(type)));
      if (writes(nest)) written[at++].values.push_back(stored);
    }
  }
  return written;
}

Body Finishing::stores(const Expr& sum, const std::function<Expr(const Form&)>& place) const {
  Body body;
  for (const Written& one : values(body, {sum}, [&](const Form& form, std::size_t) { return place(form); }))
    body.push_back(stmt(Store{storage_.name(one.target->tensor), place(one.target->offset), one.values.front()}));
  return body;
}

}  // namespace tilec::codegen
