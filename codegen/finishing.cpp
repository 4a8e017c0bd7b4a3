#include "codegen/finishing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/online_leaf.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/rewriting.h"
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

// Statements over the indices of a sum. `folds` have an element for each row, and indices of rows are called alike.
class OverSum {
 public:
  // `launch`: all that is made there.
  OverSum(const poly::Program& program, const Statement& sum, const std::vector<const Statement*>& folds,
      const std::set<TensorId>& launch)
      : program_(program), launch_(launch), seen_{sum} {
    for (const Statement* fold : folds) if (fold->target.tensor != sum.target.tensor) seen_.push_back(by_name(*fold));
  }

  // Why the statement does not finish the sum; none: it is one of `seen` now.
  std::optional<std::string> add(const Statement& s) {
    const std::string &name = program_.tensor(s.target.tensor).name,
                      &of = program_.tensor(seen_.front().target.tensor).name;
    if (reduces(s) || s.domain.size() != s.indices.size())
      return fmt::format("`{}` is not computed element by element", name);
    std::vector<std::optional<std::size_t>> map(s.indices.size());
    bool any = false;
    for (const Access& read : s.reads) {
      if (!launch_.contains(read.tensor)) continue;
      const auto made = std::ranges::find(seen_, read.tensor, [](const Statement& one) { return one.target.tensor; });
      any = true;
      if (made == seen_.end() || !match(s, read, *made, map))
        return fmt::format(
            "`{}` reads `{}` elsewhere than at its own element", name, program_.tensor(read.tensor).name);
    }
    if (!any) return fmt::format("`{}` reads nothing of `{}`", name, of);
    if (!same_elements(s, map)) return fmt::format("`{}` has other elements than `{}`", name, of);
    seen_.push_back(seen(s, map));
    return std::nullopt;
  }
  const Statement& last() const { return seen_.back(); }

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

  Statement by_name(const Statement& fold) const {
    const Statement& sum = seen_.front();
    const std::size_t count = sum.indices.size();
    std::vector<Affine> to;
    for (const std::string& index : fold.indices) {
      const auto k = index_of(sum, index);
      to.push_back(k ? Affine::index(*k, count) : Affine::of(0, count));
    }
    Statement made = sum;
    made.target = fold.target;
    for (Affine& e : made.target.element) e = e.compose(to, count);
    return made;
  }

  // Whether its indices run over the sum's outputs, each over one: one that is not known yet over the only one that is
  // left.
  bool same_elements(const Statement& s, Map& map) const {
    const Statement& sum = seen_.front();
    for (std::size_t k = 0; k < map.size(); ++k) {
      if (map[k] || extent(s, k) == 1) continue;
      for (std::size_t x = 0; x < sum.indices.size(); ++x) {
        if (!is_output_index(sum, x) || extent(sum, x) == 1 || std::ranges::find(map, x) != map.end()) continue;
        if (map[k]) return false;
        map[k] = x;
      }
    }
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
  const std::set<TensorId>& launch_;
  std::vector<Statement> seen_;
};

}  // namespace

bool finishes(const Group& group) { return group.body.size() > 1 && group.body.back().is<forms::Finish>(); }

SumsOfLaunch sums_of(const std::vector<Compute>& leaves) {
  SumsOfLaunch sums;
  for (const Compute& leaf : leaves) if (!leaf.is<forms::Finish>()) sums.nodes.push_back(leaf.node);
  if (!leaves.front().is<forms::Online>()) return sums;
  sums.rows = leaves.front().outer, sums.over = leaves.front().n;
  sums.rows.push_back(leaves.front().m());
  return sums;
}

std::vector<int> finishing_of(const std::vector<Compute>& leaves) {
  std::vector<int> nodes;
  for (const Compute& leaf : leaves) if (leaf.is<forms::Finish>()) nodes.push_back(leaf.node);
  return nodes;
}

std::variant<std::vector<Finished>, std::string> finished_by(
    const poly::Program& program, const SumsOfLaunch& sums, const std::vector<int>& finishing) {
  const auto at = [&](int node) -> const Statement& {
    return std::get<Statement>(program.nodes[static_cast<std::size_t>(node)]);
  };
  const auto output = [&](const Statement& s, std::size_t k) { return is_output_index(s, k) && extent(s, k) != 1; };
  std::vector<const Statement*> folds;
  std::set<TensorId> launch;
  for (const std::vector<int>* nodes : {&sums.nodes, &finishing})
    for (const int node : *nodes) launch.insert(at(node).target.tensor);
  std::vector<std::pair<std::size_t, OverSum>> all;
  for (const int node : sums.nodes) {
    const Statement& s = at(node);
    bool of_rows = reduces(s) && !sums.over.empty();
    for (std::size_t k = 0; k < s.indices.size(); ++k)
      of_rows = of_rows && (!output(s, k) || std::ranges::find(sums.rows, s.indices[k]) != sums.rows.end());
    if (of_rows) folds.push_back(&s);
  }
  for (std::size_t n = 0; n < sums.nodes.size(); ++n) {
    const Statement& s = at(sums.nodes[n]);
    const auto over = index_of(s, sums.over);
    if (reduces(s) && !(over && is_output_index(s, *over))) all.emplace_back(n, OverSum(program, s, folds, launch));
  }
  if (all.empty()) return fmt::format("`{}` sums nothing", program.tensor(at(sums.nodes.front()).target.tensor).name);
  std::vector<Finished> found;
  for (const int node : finishing) {
    std::optional<std::string> why;
    for (auto& [n, sum] : all) {
      auto fault = sum.add(at(node));
      if (!fault) {
        found.push_back({n, sum.last()});
        why.reset();
        break;
      }
      if (!why) why = std::move(fault);
    }
    if (why) return *std::move(why);
  }
  return found;
}

namespace {

std::vector<Finished> finished(
    const poly::Program& program, const SumsOfLaunch& sums, const std::vector<int>& finishing) {
  auto found = finished_by(program, sums, finishing);
  if (const auto* why = std::get_if<std::string>(&found))
    throw lang::InternalError("the plan finishes a sum by what does not: " + *why);
  return std::get<std::vector<Finished>>(std::move(found));
}

}  // namespace

std::vector<Nest> finishing_nests(
    const poly::Program& program, const std::vector<int>& finishing, int sum, const Strides& strides) {
  std::vector<Statement> all{std::get<Statement>(program.nodes[static_cast<std::size_t>(sum)])};
  for (Finished& one : finished(program, {{sum}}, finishing)) all.push_back(std::move(one.statement));
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

std::vector<std::pair<std::size_t, Nest>> finishing_nests(
    const poly::Program& program, const std::vector<Compute>& leaves, const Strides& strides) {
  std::vector<std::pair<std::size_t, Nest>> nests;
  for (const Finished& one : finished(program, sums_of(leaves), finishing_of(leaves))) {
    nests.emplace_back(one.sum, online_nest(one.statement, strides));
    nests.back().second.rows.clear();
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

// What is the same for all rows is read once for them, whichever way.
bool Finishing::is_pair(const FlatAccess& read, std::size_t d) const {
  const std::vector<std::int64_t>& along = read.offset.coefficients;
  const bool of_rows = std::ranges::count_if(along, [](std::int64_t c) { return c != 0; }) > 1;
  return of_rows && nests_.front().dims[d].extent % 2 == 0 && neighbours_of(storage_, read, d, 2) == 2 &&
      std::ranges::none_of(nests_, [&](const Nest& nest) { return nest.target.tensor == read.tensor; });
}

Finishing::Pairs Finishing::read_pairs(Body& body, std::size_t d, const Place& place, const Known& known) const {
  Pairs pairs;
  for (std::size_t n = 1; n < nests_.size(); ++n)
    for (const FlatAccess& read : nests_[n].reads) {
      if (!is_pair(read, d) || known.contains(read.tensor)) continue;
      const DType type = storage_.plan.program.tensor(read.tensor).dtype;
      const std::string x = names_.fresh("x"), view = names_.fresh("v");
      body.push_back(stmt(Allocate{x, type, 2, Memory::Register}));
      body.push_back(stmt(View{view, storage_.name(read.tensor), place(read.offset, 0), 2 * lang::bytes(type)}));
      for (std::int64_t c = 0; c < 2; ++c) body.push_back(stmt(Store{x, i64(c), Load{view, i64(c), type}}));
      pairs.emplace(&read, x);
    }
  return pairs;
}

Expr Finishing::value(Body& body, const Nest& nest, const Known& made, const std::function<Expr(const Form&)>& place,
    const Pairs& pairs, std::size_t at) const {
  OfElement of(
      body, names_, nest,
      [&](const FlatAccess& read) {
        const auto known = made.find(read.tensor);
        if (known != made.end()) return known->second;
        const DType type = storage_.plan.program.tensor(read.tensor).dtype;
        const auto pair = pairs.find(&read);
        if (pair != pairs.end()) return Expr(Load{pair->second, i64(static_cast<std::int64_t>(at)), type});
        return Expr(Load{storage_.name(read.tensor), place(read.offset), type});
      },
      place);
  Expr all = of(*nest.value);
  if (nest.aggregation == Aggregation::Assign) return all;
  return combine(nest.aggregation, identity(nest.aggregation, all.type()), all);
}

std::vector<Finishing::Written> Finishing::values(
    Body& body, const std::vector<Expr>& sums, const Place& place, const Known& known,
    std::optional<std::size_t> pairs_along) const {
  std::vector<Written> written;
  const Pairs pairs = pairs_along && sums.size() == 2 ? read_pairs(body, *pairs_along, place, known) : Pairs();
  for (const Nest& nest : nests_) if (writes(nest)) written.push_back({&nest.target, {}});
  for (std::size_t x = 0; x < sums.size(); ++x) {
    Known made = known;
    std::size_t at = 0;
    for (const Nest& nest : nests_) {
      const TensorId id = nest.target.tensor;
      const DType type = storage_.plan.program.tensor(id).dtype;
      const Expr value = &nest == &nests_.front()
          ? sums[x]
          : this->value(body, nest, made, [&](const Form& form) { return place(form, x); }, pairs, x);
      const Expr stored = convert(convert(value, compute_type(type)), type);
      if (nests_.size() > 1) made.emplace(id, convert(stored, compute_type(type)));
      if (writes(nest)) written[at++].values.push_back(stored);
    }
  }
  return written;
}

std::vector<Finishing::Together> Finishing::side_by_side(Body& body, std::size_t d, std::int64_t most) const {
  std::vector<Together> all;
  for (const FlatAccess* target : targets()) {
    const std::int64_t own = nests_.front().dims[d].extent % most ? 1 : neighbours_of(storage_, *target, d, most);
    all.push_back({own, own > 1 ? std::optional(aligned(storage_, names_, body, target->tensor, own)) : std::nullopt});
  }
  return all;
}

Body Finishing::stores(const std::vector<Expr>& sums, const Place& place, const std::vector<Together>& together,
    const Known& known, std::int64_t at) const {
  Body body;
  const std::vector<Written> all = values(
      body, sums, place, known, together.empty() ? std::nullopt : together.front().reads_along);
  for (std::size_t t = 0; t < all.size(); ++t) {
    const auto& [target, values] = all[t];
    if (together[t].by != By::Elements) {
      append(body, words(*target, values, place, together[t], at));
      continue;
    }
    const std::int64_t width = together[t].width;
    const std::optional<Expr>& aligned = together[t].aligned;
    const std::string& name = storage_.name(target->tensor);
    for (std::size_t first = 0; first < values.size(); first += static_cast<std::size_t>(width)) {
      const auto some = [&](std::int64_t alignment) {
        const std::string view = names_.fresh("v");
        Body stores{stmt(View{view, name, place(target->offset, first), alignment})};
        for (std::int64_t c = 0; c < width; ++c)
          stores.push_back(stmt(Store{view, i64(c), values[first + static_cast<std::size_t>(c)]}));
        return stores;
      };
      const std::int64_t bytes = width * lang::bytes(storage_.plan.program.tensor(target->tensor).dtype);
      if (!aligned) append(body, some(0));
      else if (is_const(*aligned)) append(body, some(aligned->as<Constant>()->integer ? bytes : 1));
      else body.push_back(stmt(If{*aligned, some(bytes), some(1)}));
    }
  }
  return body;
}

Body Finishing::words(const FlatAccess& target, const std::vector<Expr>& values, const Place& place,
    const Together& together, std::int64_t at) const {
  Body body;
  const DType type = storage_.plan.program.tensor(target.tensor).dtype;
  const auto before = [](const Expr& stored) {         // packing rounds it
    const auto* rounded = stored.as<Convert>();
    return rounded && rounded->operand.type() == DType::F32 ? rounded->operand : convert(stored, DType::F32);
  };
  const bool waits = together.by == By::Exchange;
  const std::string packed = waits ? together.packed : names_.fresh("word");
  if (!waits) body.push_back(stmt(Allocate{packed, DType::U32, 1, Memory::Register}));
  body.push_back(stmt(Pack{packed, waits ? at : 0, type, before(values[0]), before(values[1])}));
  if (!waits) body.push_back(stmt(StorePacked{storage_.name(target.tensor), place(target.offset, 0), packed}));
  return body;
}

Body Finishing::in_pairs(std::size_t d, const std::function<Body(const std::vector<Together>&)>& write) const {
  Body body;
  std::vector<Together> all = side_by_side(body, d, 2);
  const std::vector<const FlatAccess*> targets = this->targets();
  std::optional<Expr> pairs;
  for (std::size_t t = 0; t < all.size(); ++t) {
    Together& one = all[t];
    if (one.width < 2) continue;
    if (lang::bytes(storage_.plan.program.tensor(targets[t]->tensor).dtype) == 2) {
      const bool four =
          nests_.front().dims[d].extent % 4 == 0 && neighbours_of(storage_, *targets[t], d, 4) == 4;
      one.by = four ? By::Exchange : By::Words;
      if (four) one.aligned = aligned(storage_, names_, body, targets[t]->tensor, 4);
    }
    pairs = pairs ? both(*pairs, *one.aligned) : *one.aligned;
  }
  if (!pairs) {
    append(body, write(all));
    return body;
  }
  std::set<TensorId> read;
  for (std::size_t n = 1; n < nests_.size(); ++n)
    for (const FlatAccess& one : nests_[n].reads)
      if (is_pair(one, d) && read.insert(one.tensor).second)
        pairs = both(*pairs, aligned(storage_, names_, body, one.tensor, 2));
  const auto known = [&](bool aligned) {
    std::vector<Together> some = all;
    for (Together& one : some) {
      if (aligned) one.reads_along = d;
      if (one.aligned) one.aligned = Constant{DType::Bool, aligned};
      if (!aligned) one.by = By::Elements;
    }
    return write(some);
  };
  const Expr asked = named(names_, body, "pairs", *pairs);
  Body so = known(true), otherwise = known(false);
  body.push_back(stmt(If{asked, std::move(so), std::move(otherwise)}));
  return body;
}

bool Finishing::exchanges(const std::vector<Together>& together) {
  return std::ranges::any_of(together, [](const Together& one) { return one.by == By::Exchange; });
}

std::vector<Finishing::Together> Finishing::with_registers(
    Body& body, const std::vector<Together>& together, std::int64_t words) const {
  std::vector<Together> all = together;
  for (Together& one : all) {
    if (one.by != By::Exchange) continue;
    one.packed = names_.fresh("packed");
    body.push_back(stmt(Allocate{one.packed, DType::U32, words, Memory::Register}));
  }
  return all;
}

Body Finishing::exchange(const std::vector<Together>& together, std::int64_t at) const {
  Body body;
  for (const Together& one : together) if (one.by == By::Exchange) body.push_back(stmt(Exchange{one.packed, at}));
  return body;
}

Body Finishing::exchanged(
    const std::vector<Together>& together, std::int64_t at, const std::function<Expr(const Form&)>& place) const {
  Body body;
  const std::vector<const FlatAccess*> all = targets();
  for (std::size_t t = 0; t < all.size(); ++t)
    if (together[t].by == By::Exchange)
      body.push_back(
          stmt(StorePacked{storage_.name(all[t]->tensor), place(all[t]->offset), together[t].packed, at, 2}));
  return body;
}

Body Finishing::stores(
    const Expr& sum, const std::function<Expr(const Form&)>& place, const Known& known) const {
  Body body;
  for (const Written& one : values(body, {sum}, [&](const Form& form, std::size_t) { return place(form); }, known, {}))
    body.push_back(stmt(Store{storage_.name(one.target->tensor), place(one.target->offset), one.values.front()}));
  return body;
}

}  // namespace tilec::codegen
