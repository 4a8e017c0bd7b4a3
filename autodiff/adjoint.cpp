// Going backwards through O[F i + f] ⊕= e(T₁[A₁ i + b₁], …) over a domain D.
//
// The whole idea: the statement that computes dT_j runs over the same points, reads dO where the forward statement
// wrote O and writes where it read T_j. Points that share an element of T_j are summed, points outside D never existed;
// so a broadcast becomes a reduction, a convolution a transposed one, and no case is special. What differs is only the
// value:
//
//   dO · share · ∂_j e        share: all, or what share.h says of an extreme or a product
//
// Where O's operation has its derivative in its result (exp), the stored O is read.
#include "autodiff/adjoint.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "autodiff/apart.h"
#include "autodiff/covers.h"
#include "autodiff/derivative.h"
#include "autodiff/graph.h"
#include "autodiff/share.h"
#include "autodiff/term.h"
#include "poly/intern.h"

namespace tilec::autodiff {
namespace {

using namespace term;
using poly::Access;
using poly::Affine;
using poly::Aggregation;
using poly::Apply;
using poly::Cast;
using poly::Program;
using poly::Read;
using poly::Size;
using poly::Statement;
using poly::TensorId;

// The cotangent of one group of reads: those of one element of one tensor.
struct Pull {
  std::set<int> wanted;
  Expr root;
  std::optional<Expr> stored;                          // the forward result, where it is `root` exactly

  std::unordered_map<const void*, bool> reached = {};  // by node: each is looked into once

  bool reaches(const Expr& e) {
    if (const auto* read = e.as<Read>()) return wanted.contains(read->read);
    if (const auto known = reached.find(poly::address(e)); known != reached.end()) return known->second;
    const bool does = e.match(
        [&](const Apply& apply) {
          return std::any_of(apply.operands.begin(), apply.operands.end(), [&](const Expr& o) { return reaches(o); });
        },
        [&](const Cast& cast) { return reaches(cast.operand); }, [](const auto&) { return false; });
    reached.emplace(poly::address(e), does);
    return does;
  }

  std::optional<Expr> operator()(const Expr& e, const Expr& c) {
    if (!lang::is_float(e.type()) || !reaches(e)) return std::nullopt;
    return e.match([&](const Read&) -> std::optional<Expr> { return c; },
                   [&](const Cast& cast) { return under(cast, c); },
                   [&](const Apply& apply) { return through(e, apply, c); },
                   [](const auto&) -> std::optional<Expr> { return std::nullopt; });
  }

  // A cast has derivative 1. What is computed in a wider type than `c` is differentiated in it.
  std::optional<Expr> under(const Cast& cast, const Expr& c) {
    const bool wider = lang::bits(cast.operand.type()) > lang::bits(c.type());
    const auto part = (*this)(cast.operand, wider ? term::cast(c, cast.operand.type()) : c);
    return part ? std::optional<Expr>(term::cast(*part, c.type())) : std::nullopt;
  }

  std::optional<Expr> through(const Expr& e, const Apply& apply, const Expr& c) {
    const Expr result = stored && e.same_as(root) ? *stored : e;
    std::optional<Expr> sum;
    for (std::size_t k = 0; k < apply.operands.size(); ++k) {
      const Expr& operand = apply.operands[k];
      if (!lang::is_float(operand.type()) || !reaches(operand)) continue;
      const auto part = derivative(
          apply.op, apply.operands, result, k, c, [&](const Expr& inner) { return (*this)(operand, inner); });
      if (part) sum = sum ? add(*sum, *part) : *part;
    }
    return sum;
  }
};

// The value that one group of reads receives, for a statement that already has the forward reads.
Expr received(const Companion& companion, TensorId cotangent, const Share& share, const std::set<int>& group,
    DType fold, Statement& statement) {
  const Statement& forward = companion.forward;
  const Expr c = cast(companion.at_target(statement, cotangent), fold);
  Pull pull{group, forward.value, std::nullopt};
  const TensorId target = forward.target.tensor;
  if (forward.aggregation == Aggregation::Assign && companion.program.tensor(target).dtype == forward.value.type())
    pull.stored = companion.at_target(statement, target);
  return share.bracketed(companion, statement, pull(forward.value, share.weighed(companion, statement, c)).value());
}

// Reads of one element of one tensor, in order of first appearance.
std::vector<std::set<int>> groups(const Statement& statement, const std::vector<bool>& active) {
  std::vector<std::set<int>> all;
  poly::Distinct<Access> elements;
  for (std::size_t k = 0; k < statement.reads.size(); ++k) {
    const Access& read = statement.reads[k];
    if (!active[static_cast<std::size_t>(read.tensor)]) continue;
    const std::size_t place = elements.place_of(read);
    if (place == all.size()) all.emplace_back();
    all[place].insert(static_cast<int>(k));
  }
  return all;
}

TensorId partial(const Companion& companion, TensorId operand, DType fold, std::vector<Partial>& partials) {
  const poly::Tensor of = companion.program.tensor(operand);
  partials.push_back(
      {operand, new_tensor(companion.program, cotangent_name(of.name), of.dtype, of.shape, of.span), fold});
  return partials.back().tensor;
}

// dFill[o] = (o was written) ? 0 : dO[o]
void fill_tensor(const Companion& companion, TensorId cotangent, TensorId fill, std::vector<Partial>& partials) {
  const Program& program = companion.program;
  const Statement& forward = companion.forward;
  const std::vector<Size> shape = program.tensor(forward.target.tensor).shape;
  const auto written = image(forward, shape);
  if (written && written->empty()) return;

  std::optional<TensorId> indicator;
  if (!written) {
    Statement mark = companion.start();
    mark.aggregation = Aggregation::Max;
    indicator = companion.helper("W", DType::I32);
    mark.value = number(DType::I32, 1);
    companion.add(std::move(mark), *indicator, forward.target.element);
  }

  const DType fold = lang::accumulator(program.tensor(fill).dtype);
  Statement statement = over_shape(program, shape);
  statement.span = forward.span;
  const std::vector<Affine> element = statement.target.element;
  // While sizes are names, the tensor of a `default` may have others than the target: equal by requirement only.
  const std::vector<Size>& filled = program.tensor(fill).shape;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (filled[d] != shape[d]) statement.domain.push_back({element[d], filled[d]});
  statement.reads.push_back({cotangent, element});
  const Expr c = cast(Read{0, program.tensor(cotangent).dtype}, fold);
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
  companion.add(std::move(statement), partial(companion, fill, fold, partials), element);
}

// The forms of a condition that says of each that it is >= 0.
bool forms_of(const Expr& condition, std::vector<Affine>& forms) {
  const Apply* apply = condition.as<Apply>();
  if (!apply) return false;
  if (apply->op == Op::And)
    return std::ranges::all_of(apply->operands, [&](const Expr& each) { return forms_of(each, forms); });
  const auto* form = apply->op == Op::Ge ? apply->operands[0].as<poly::Index>() : nullptr;
  if (form && is_number(apply->operands[1], 0)) forms.push_back(form->value);
  return form && is_number(apply->operands[1], 0);
}

// A cotangent without some elements: those of which all forms are >= 0, or some of those that a statement reached.
struct Mask { TensorId cotangent; std::vector<Affine> forms; const Statement* mark; };

// What makes an indicator that is 0 elsewhere.
const Statement* marker(const Program& program, TensorId indicator) {
  for (const poly::Node& node : program.nodes)
    if (const auto* s = std::get_if<Statement>(&node); s && s->target.tensor == indicator) {
      const auto* fill = std::get_if<poly::Number>(&s->fill);
      return fill && is_number(*fill, 0) ? s : nullptr;
    }
  return nullptr;
}

// What `statement` leaves of a cotangent of its shape, where it is one that fill_tensor made.
std::optional<Mask> masked(const Program& program, const Statement& statement) {
  const Apply* chosen = statement.value.as<Apply>();
  const std::size_t rank = statement.target.element.size();
  const bool alike = !statement.reads.empty() && statement.reads.size() <= 2 &&
      std::ranges::all_of(
          statement.reads, [&](const Access& read) { return read.element == statement.target.element; }) &&
      statement.domain.size() == rank && statement.indices.size() == rank;
  if (!alike || statement.aggregation != Aggregation::Assign || !chosen || chosen->op != Op::Select ||
      !is_number(chosen->operands[1], 0))
    return std::nullopt;
  const Cast* cast = chosen->operands[2].as<Cast>();
  const auto* left = (cast ? cast->operand : chosen->operands[2]).as<Read>();
  if (!left) return std::nullopt;
  Mask mask{statement.reads[at(left->read)].tensor, {}, nullptr};
  const poly::Tensor &target = program.tensor(statement.target.tensor), &source = program.tensor(mask.cotangent);
  if (target.shape != source.shape || target.dtype != source.dtype) return std::nullopt;
  for (std::size_t d = 0; d < rank; ++d)
    if (statement.target.element[d].single_index() != d) return std::nullopt;
  const Expr& condition = chosen->operands[0];
  if (forms_of(condition, mask.forms)) return mask;
  const Apply* told = condition.as<Apply>();
  const auto* indicator = told && told->op == Op::Ne ? told->operands[0].as<Read>() : nullptr;
  if (!indicator || !is_number(told->operands[1], 0)) return std::nullopt;
  mask.mark = marker(program, statement.reads[at(indicator->read)].tensor);
  return mask.mark ? std::optional(std::move(mask)) : std::nullopt;
}

// No element has all of both >= 0: two of them add up to a number below 0.
bool are_apart(const std::vector<Affine>& some, const std::vector<Affine>& others) {
  const auto excludes = [](const Affine& a, const Affine& b) {
    const Affine sum = a.plus(b);
    return sum.divisor.is(1) && sum.is_constant() && sum.constant.value() && *sum.constant.value() < 0;
  };
  return std::ranges::any_of(some,
      [&](const Affine& a) { return std::ranges::any_of(others, [&](const Affine& b) { return excludes(a, b); }); });
}

// The cotangent that `forward` reads what reaches it from: where later statements wrote other elements over what it
// made, the one in front of their masks. In a chain of many, each would else wait for a copy of the whole.
TensorId in_front_of_masks(const Program& gradient, const Statement& forward, TensorId cotangent) {
  const auto written = image(forward, gradient.tensor(forward.target.tensor).shape);
  if (written && written->empty()) return cotangent;
  const auto may_hide = [&](const Mask& mask) {
    return mask.mark ? apart(gradient, {&forward, mask.mark}).size() > 1 : !written || !are_apart(*written, mask.forms);
  };
  for (auto node = gradient.nodes.rbegin(); node != gradient.nodes.rend(); ++node) {
    const std::vector<TensorId> made = targets(*node);
    if (std::ranges::count(made, cotangent) == 0) continue;
    const auto* statement = std::get_if<Statement>(&*node);
    const auto mask = statement ? masked(gradient, *statement) : std::nullopt;
    if (!mask || may_hide(*mask)) break;
    cotangent = mask->cotangent;
  }
  return cotangent;
}

}  // namespace

Adjoint adjoint(Program& gradient, const Statement& statement, TensorId cotangent, const std::vector<bool>& active) {
  Adjoint made;
  const Companion companion{gradient, statement, made.helpers};
  std::optional<Share> share;                          // made on first use: nothing may ask for it
  TensorId seen = cotangent;
  for (const auto& group : groups(statement, active)) {
    const Access operand = statement.reads[at(*group.begin())];
    if (!Pull{group, statement.value, std::nullopt}(statement.value, number(statement.value.type(), 1))) continue;
    if (!share) share = share_of(companion), seen = in_front_of_masks(gradient, statement, cotangent);
    Statement part = companion.start();
    const DType fold = lang::promote(statement.value.type(), lang::accumulator(gradient.tensor(operand.tensor).dtype));
    part.value = received(companion, seen, *share, group, lang::accumulator(fold), part);
    companion.add(
        std::move(part), partial(companion, operand.tensor, lang::accumulator(fold), made.partials), operand.element);
  }
  if (const auto* fill = std::get_if<TensorId>(&statement.fill); fill && active[at(*fill)])
    fill_tensor(companion, cotangent, *fill, made.partials);
  return made;
}

}  // namespace tilec::autodiff
