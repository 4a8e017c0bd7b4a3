// Going forwards through O[F i + f] ⊕= e(T₁[A₁ i + b₁], …): tO[F i + f] += share · Σ_j ∂_j e · tT_j[A_j i + b_j]. An
// element that no point reaches holds the fill, and its tangent the fill's; so a `default` needs no mask here.
#include "autodiff/tangent.h"

#include "autodiff/derivative.h"
#include "autodiff/graph.h"
#include "autodiff/share.h"
#include "autodiff/term.h"

namespace tilec::autodiff {
namespace {

using namespace term;
using poly::Aggregation;
using poly::Apply;
using poly::Cast;
using poly::Program;
using poly::Read;
using poly::Statement;
using poly::TensorId;

using Tangents = std::vector<std::optional<TensorId>>;

// The tangent of an expression, in the type that sums of it are made in; nothing where it is zero by declaration.
struct Push {
  const Companion& companion;
  const Tangents& tangents;
  Statement& statement;                                // gets the reads
  std::optional<Expr> stored = std::nullopt;           // the forward result, where it is `root` exactly

  std::optional<Expr> operator()(const Expr& e) const {
    if (!lang::is_float(e.type())) return std::nullopt;
    return e.match([&](const Read& read) { return at_read(read); },
                   [&](const Cast& cast) -> std::optional<Expr> {
                     const auto inner = (*this)(cast.operand);
                     return inner ? std::optional(term::cast(*inner, lang::accumulator(cast.type))) : std::nullopt;
                   },
                   [&](const Apply& apply) { return through(e, apply); },
                   [](const auto&) -> std::optional<Expr> { return std::nullopt; });
  }

  std::optional<Expr> at_read(const Read& read) const {
    const poly::Access access = companion.forward.reads[at(read.read)];
    const auto of = tangents[at(access.tensor)];
    if (!of) return std::nullopt;
    statement.reads.push_back({*of, access.element});
    return cast(Read{static_cast<int>(statement.reads.size()) - 1, read.type}, lang::accumulator(read.type));
  }

  std::optional<Expr> through(const Expr& e, const Apply& apply) const {
    if (apply.op == Op::Select) return choice(apply);
    const Expr result = stored && e.same_as(companion.forward.value) ? *stored : e;
    std::optional<Expr> sum;
    for (std::size_t k = 0; k < apply.operands.size(); ++k) {
      const auto c = (*this)(apply.operands[k]);
      if (!c) continue;
      const auto part =
          derivative(apply.op, apply.operands, result, k, *c, [](const Expr& inner) { return std::optional(inner); });
      if (part) sum = sum ? add(*sum, *part) : *part;
    }
    return sum;
  }

  // The tangent of the arm that is taken.
  std::optional<Expr> choice(const Apply& apply) const {
    const auto a = (*this)(apply.operands[1]), b = (*this)(apply.operands[2]);
    if (!a && !b) return std::nullopt;
    const Expr zero = number(lang::accumulator(apply.type), 0);
    return select(apply.operands[0], a.value_or(zero), b.value_or(zero));
  }
};

}  // namespace

Tangent tangent(Program& program, const Statement& forward, const Tangents& tangents) {
  Tangent made;
  const Companion companion{program, forward, made.helpers};
  const poly::Tensor of = program.tensor(forward.target.tensor);
  Statement statement = companion.start();
  Push push{companion, tangents, statement};
  if (forward.aggregation == Aggregation::Assign && of.dtype == forward.value.type())
    push.stored = companion.at_target(statement, forward.target.tensor);
  auto value = push(forward.value);
  const auto* fill = std::get_if<TensorId>(&forward.fill);
  const auto of_fill = fill ? tangents[at(*fill)] : std::nullopt;
  if (!value && !of_fill) return made;
  if (value) {
    const Share share = share_of(companion);
    value = share.bracketed(companion, statement, share.weighed(companion, statement, *value));
  }
  statement.value = value.value_or(number(lang::accumulator(of.dtype), 0));
  made.tensor = new_tensor(program, tangent_name(of.name), of.dtype, of.shape, of.span);
  companion.add(std::move(statement), *made.tensor, forward.target.element);
  if (of_fill) std::get<Statement>(program.nodes.back()).fill = *of_fill;
  return made;
}

}  // namespace tilec::autodiff
