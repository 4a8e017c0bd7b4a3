// Going backwards through O[F i + f] ⊕= e(T₁[A₁ i + b₁], …) over a domain D (polyhedral.md, the table).
//
// The whole idea: the statement that computes dT_j runs over the same points, reads dO where the forward statement wrote O and
// writes where it read T_j. Points that share an element of T_j are summed, points outside D never existed; so a broadcast
// becomes a reduction, a convolution a transposed one, and no case is special. What differs is only the value:
//
//   +, =         dO · ∂_j e
//   max, min     e == O ? (dO / Cnt) · ∂_j e : 0        Cnt = number of points that reach the extreme (ties: split)
//
// `e == O` compares e rounded to O's type with what was stored: comparing with a recomputed maximum would miss it by one
// contraction, and lose the gradient. Where O's operation has its derivative in its result (exp), the stored O is read.
#include "autodiff/adjoint.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "autodiff/covers.h"
#include "autodiff/derivative.h"
#include "autodiff/term.h"
#include "lang/messages.h"

namespace tilec::autodiff {
namespace {

using namespace term;
using poly::Access;
using poly::Affine;
using poly::Aggregation;
using poly::Apply;
using poly::Cast;
using poly::Number;
using poly::Program;
using poly::Read;
using poly::Size;
using poly::Statement;
using poly::TensorId;
using poly::Ties;

// The cotangent of one group of reads: those of one element of one tensor.
struct Pull {
  std::set<int> wanted;
  Expr root;
  std::optional<Expr> stored;                          // the forward result, where it is `root` exactly

  bool reaches(const Expr& e) const {
    return e.match([&](const Read& read) { return wanted.contains(read.read); },
                   [&](const Apply& apply) { return std::any_of(apply.operands.begin(), apply.operands.end(), [&](const Expr& o) { return reaches(o); }); },
                   [&](const Cast& cast) { return reaches(cast.operand); },
                   [](const auto&) { return false; });
  }

  std::optional<Expr> operator()(const Expr& e, const Expr& c) const {
    if (!lang::is_float(e.type()) || !reaches(e)) return std::nullopt;
    return e.match([&](const Read&) -> std::optional<Expr> { return c; },
                   [&](const Cast& cast) { return under(cast, c); },
                   [&](const Apply& apply) { return through(e, apply, c); },
                   [](const auto&) -> std::optional<Expr> { return std::nullopt; });
  }

  // A cast has derivative 1. What is computed in a wider type than `c` is differentiated in it.
  std::optional<Expr> under(const Cast& cast, const Expr& c) const {
    const bool wider = lang::bits(cast.operand.type()) > lang::bits(c.type());
    const auto part = (*this)(cast.operand, wider ? term::cast(c, cast.operand.type()) : c);
    return part ? std::optional<Expr>(term::cast(*part, c.type())) : std::nullopt;
  }

  std::optional<Expr> through(const Expr& e, const Apply& apply, const Expr& c) const {
    const Expr result = stored && e.same_as(root) ? *stored : e;
    std::optional<Expr> sum;
    for (std::size_t k = 0; k < apply.operands.size(); ++k) {
      const Expr& operand = apply.operands[k];
      if (!lang::is_float(operand.type()) || !reaches(operand)) continue;
      const auto part = derivative(apply.op, apply.operands, result, k, c, [&](const Expr& inner) { return (*this)(operand, inner); });
      if (part) sum = sum ? add(*sum, *part) : *part;
    }
    return sum;
  }
};

Expr renumbered(const Expr& e, const std::function<int(int)>& renumber) {
  return e.match([&](const Read& read) -> Expr { return Read{renumber(read.read), read.type}; },
                 [&](const Apply& apply) -> Expr {
                   Apply copy{apply.op, {}, apply.type};
                   for (const auto& operand : apply.operands) copy.operands.push_back(renumbered(operand, renumber));
                   return copy;
                 },
                 [&](const Cast& cast) -> Expr { return Cast{renumbered(cast.operand, renumber), cast.type}; },
                 [&](const auto&) -> Expr { return e; });
}

// Every element has at most one point, because every index is a dimension of it.
bool one_point_each(const Statement& statement) {
  std::set<std::size_t> seen;
  for (const auto& form : statement.target.element)
    if (const auto k = form.single_index()) seen.insert(*k);
  return seen.size() == statement.indices.size();
}

// Makes statements over the points of the forward one.
struct Maker {
  Program& gradient;
  const Statement& forward;
  TensorId cotangent;
  Adjoint& made;

  TensorId tensor(std::string name, DType type, const std::vector<Size>& shape) {
    gradient.tensors.push_back({std::move(name), type, shape, forward.span});
    return static_cast<TensorId>(gradient.tensors.size()) - 1;
  }
  // A read of a tensor where the forward statement writes.
  Expr at_target(Statement& statement, TensorId id) const {
    statement.reads.push_back({id, forward.target.element});
    return Read{static_cast<int>(statement.reads.size()) - 1, gradient.tensor(id).dtype};
  }
  Statement start() const {
    Statement statement = forward;
    statement.aggregation = Aggregation::Sum;
    statement.ties = Ties::Split;
    statement.kernel_name.clear();
    return statement;
  }
  void finish(Statement statement, TensorId target, const std::vector<Affine>& element) {
    statement.target = {target, element};
    statement.fill = Number{gradient.tensor(target).dtype};
    if (statement.aggregation == Aggregation::Sum && one_point_each(statement)) statement.aggregation = Aggregation::Assign;
    tidy_reads(statement);
    gradient.nodes.emplace_back(std::move(statement));
  }
  TensorId helper(std::string name, DType type) {
    const TensorId id = tensor(std::move(name), type, std::vector<Size>(gradient.tensor(forward.target.tensor).shape));
    made.helpers.push_back(id);
    return id;
  }
  TensorId partial(TensorId operand, DType fold) {
    const poly::Tensor of = gradient.tensor(operand);
    const TensorId id = tensor(cotangent_name(of.name), of.dtype, of.shape);
    gradient.tensors.back().span = of.span;
    made.partials.push_back({operand, id, fold});
    return id;
  }
};

bool is_extreme(const Statement& statement) { return statement.aggregation == Aggregation::Max || statement.aggregation == Aggregation::Min; }

// e == O, as stored.
Expr hit(const Maker& maker, Statement& statement) {
  const DType stored = maker.gradient.tensor(maker.forward.target.tensor).dtype;
  return compare(Op::Eq, cast(maker.forward.value, stored), maker.at_target(statement, maker.forward.target.tensor));
}

// Cnt[F i + f] = +(e == O ? 1 : 0)
TensorId count_ties(Maker& maker) {
  Statement statement = maker.start();
  const TensorId id = maker.helper("Cnt", DType::I32);
  statement.value = select(hit(maker, statement), number(DType::I32, 1), number(DType::I32, 0));
  maker.finish(std::move(statement), id, maker.forward.target.element);
  return id;
}

// First[F i + f] = <(e == O ? rank : none)
TensorId first_tie(Maker& maker, const Affine& order) {
  Statement statement = maker.start();
  statement.aggregation = Aggregation::Min;
  const TensorId id = maker.helper("First", DType::I64);
  statement.value = select(hit(maker, statement), poly::Index{order, DType::I64}, Number{DType::I64, INT64_MAX});
  maker.finish(std::move(statement), id, maker.forward.target.element);
  return id;
}

// Where a point of max or min takes part, and with what share of dO.
struct Share {
  std::optional<TensorId> count, first;
  std::optional<Affine> order;
};

Share share_of(Maker& maker) {
  Share share;
  if (!is_extreme(maker.forward)) return share;
  if (maker.forward.ties == Ties::Split) share.count = count_ties(maker);
  if (maker.forward.ties == Ties::First) {
    share.order = rank(maker.forward);
    share.first = first_tie(maker, share.order.value());
  }
  return share;
}

// The value that one group of reads receives, for a statement that already has the forward reads.
std::optional<Expr> received(const Maker& maker, const Share& share, const std::set<int>& group, DType fold, Statement& statement) {
  const Statement& forward = maker.forward;
  Expr c = cast(maker.at_target(statement, maker.cotangent), fold);
  if (share.count) c = div(c, cast(maker.at_target(statement, *share.count), fold));
  Pull pull{group, forward.value, std::nullopt};
  const TensorId target = forward.target.tensor;
  if (forward.aggregation == Aggregation::Assign && maker.gradient.tensor(target).dtype == forward.value.type())
    pull.stored = maker.at_target(statement, target);
  const auto value = pull(forward.value, c);
  if (!value || !is_extreme(forward)) return value;
  const Expr wins = share.first ? compare(Op::Eq, maker.at_target(statement, *share.first), poly::Index{*share.order, DType::I64}) : hit(maker, statement);
  return select(wins, *value, number(fold, 0));
}

// Reads of one element of one tensor, in order of first appearance.
std::vector<std::set<int>> groups(const Statement& statement, const std::vector<bool>& active) {
  std::vector<std::set<int>> all;
  for (std::size_t k = 0; k < statement.reads.size(); ++k) {
    const Access& read = statement.reads[k];
    if (!active[static_cast<std::size_t>(read.tensor)]) continue;
    const auto same = std::find_if(all.begin(), all.end(), [&](const std::set<int>& g) { return statement.reads[static_cast<std::size_t>(*g.begin())] == read; });
    if (same != all.end()) same->insert(static_cast<int>(k));
    else all.push_back({static_cast<int>(k)});
  }
  return all;
}

// dFill[o] = (o was written) ? 0 : dO[o]
void fill_tensor(Maker& maker, TensorId fill) {
  const TensorId target = maker.forward.target.tensor;
  const std::vector<Size> shape = maker.gradient.tensor(target).shape;
  const auto written = image(maker.forward, shape);
  if (written && written->empty()) return;

  std::optional<TensorId> indicator;
  if (!written) {
    Statement mark = maker.start();
    mark.aggregation = Aggregation::Max;
    indicator = maker.helper("W", DType::I32);
    mark.value = number(DType::I32, 1);
    maker.finish(std::move(mark), *indicator, maker.forward.target.element);
  }

  const DType fold = lang::accumulator(maker.gradient.tensor(fill).dtype);
  Statement statement = over_shape(maker.gradient, shape);
  statement.span = maker.forward.span;
  const std::vector<Affine> element = statement.target.element;
  // While sizes are names, the tensor of a `default` may have others than the target: equal by requirement only.
  const std::vector<Size>& filled = maker.gradient.tensor(fill).shape;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (filled[d] != shape[d]) statement.domain.push_back({element[d], filled[d]});
  statement.reads.push_back({maker.cotangent, element});
  const Expr c = cast(Read{0, maker.gradient.tensor(maker.cotangent).dtype}, fold);
  std::optional<Expr> condition;
  if (indicator) {
    statement.reads.push_back({*indicator, element});
    condition = compare(Op::Ne, Read{1, DType::I32}, number(DType::I32, 0));
  } else {
    for (const auto& form : *written) {
      const Expr holds = compare(Op::Ge, poly::Index{form, DType::I64}, number(DType::I64, 0));
      condition = condition ? both(*condition, holds) : holds;
    }
  }
  statement.value = select(*condition, number(fold, 0), c);
  maker.finish(std::move(statement), maker.partial(fill, fold), element);
}

}  // namespace

Adjoint adjoint(Program& gradient, const Statement& statement, TensorId cotangent, const std::vector<bool>& active) {
  Adjoint made;
  Maker maker{gradient, statement, cotangent, made};
  std::optional<Share> share;                          // made on first use: nothing may ask for it
  for (const auto& group : groups(statement, active)) {
    const Access operand = statement.reads[static_cast<std::size_t>(*group.begin())];
    if (!Pull{group, statement.value, std::nullopt}(statement.value, number(statement.value.type(), 1))) continue;
    if (!share) share = share_of(maker);
    Statement partial = maker.start();
    const DType fold = lang::promote(statement.value.type(), lang::accumulator(gradient.tensor(operand.tensor).dtype));
    partial.value = *received(maker, *share, group, lang::accumulator(fold), partial);
    maker.finish(std::move(partial), maker.partial(operand.tensor, lang::accumulator(fold)), operand.element);
  }
  if (const auto* fill = std::get_if<TensorId>(&statement.fill); fill && active[static_cast<std::size_t>(*fill)]) fill_tensor(maker, *fill);
  return made;
}

bool has_rule(const Program& program, const Statement& statement, lang::Diagnostics& diagnostics) {
  const std::string& name = program.tensor(statement.target.tensor).name;
  if (statement.aggregation == Aggregation::Product) {
    diagnostics.report(statement.span, lang::messages::gradient_of_product, name)
        .hint("a product of a fixed number of factors can be written with `*` inside `=( )` or `+( )`");
    return false;
  }
  if (is_extreme(statement) && statement.ties == Ties::First && !rank(statement)) {
    diagnostics.report(statement.span, lang::messages::unordered_ties, name).hint("write `[[ties(split)]]`, or bound the indices on both sides");
    return false;
  }
  return true;
}

void tidy_reads(Statement& statement) {
  std::vector<Access> kept;
  statement.value = renumbered(statement.value, [&](int read) {
    const Access& access = statement.reads.at(static_cast<std::size_t>(read));
    const auto at = std::find(kept.begin(), kept.end(), access);
    if (at != kept.end()) return static_cast<int>(at - kept.begin());
    kept.push_back(access);
    return static_cast<int>(kept.size()) - 1;
  });
  statement.reads = std::move(kept);
}

Statement over_shape(const Program& program, const std::vector<Size>& shape) {
  std::set<std::string> taken;
  const auto take = [&](const std::string& name) { taken.insert(name.starts_with('#') || name.starts_with('$') ? name.substr(1) : name); };
  for (const auto& tensor : program.tensors) take(tensor.name);
  for (const auto& size : program.sizes) take(size);

  Statement statement{.target = {}, .indices = {}, .domain = {}, .aggregation = Aggregation::Assign, .value = number(DType::F32, 0),
                      .reads = {}, .fill = Number{DType::F32}, .ties = Ties::Split, .kernel_name = {}, .span = {}};
  constexpr std::string_view letters = "ijklmnpqrstuvwxyz";
  for (std::size_t n = 0; statement.indices.size() < shape.size(); ++n) {
    std::string name(1, letters[n % letters.size()]);
    if (n >= letters.size()) name += std::to_string(n / letters.size());
    if (!taken.contains(name)) statement.indices.push_back(name);
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    statement.target.element.push_back(Affine::index(d, shape.size()));
    statement.domain.push_back({Affine::index(d, shape.size()), shape[d]});
  }
  return statement;
}

std::string cotangent_name(const std::string& name) {
  const std::string text = "d" + (name.starts_with('#') || name.starts_with('$') ? name.substr(1) : name);
  return text == "default" ? "#default" : text;
}

}  // namespace tilec::autodiff
