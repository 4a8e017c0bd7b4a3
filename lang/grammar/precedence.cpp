#include "lang/grammar/precedence.h"

#include <utility>

namespace tilec::lang::grammar {
namespace {

int level(Op op) {
  switch (op) {
    case Op::Xor: return 1;
    case Op::Or: return 2;
    case Op::And: return 3;
    case Op::Eq: case Op::Ne: return 4;
    case Op::Lt: case Op::Le: case Op::Gt: case Op::Ge: return 5;
    case Op::Shl: case Op::Shr: return 6;
    case Op::Add: case Op::Sub: return 7;
    default: return 8;
  }
}

struct Folding { const std::vector<Tail>& tails; std::size_t at = 0; Progress& progress; };

Expr fold(Folding& chain, Expr left, int lowest) {
  const Span start = left.span();
  while (chain.at < chain.tails.size() && level(chain.tails[chain.at].op.op) >= lowest) {
    const Tail& tail = chain.tails[chain.at++];
    const int here = level(tail.op.op);
    const Expr right = fold(chain, tail.operand, here + 1);
    const auto bare_or = [](const Expr& e, Span operand) {
      return e.as<Binary>() && e.as<Binary>()->op == Op::Or && e.span() != operand;
    };
    if (tail.op.op == Op::Xor && (bare_or(right, tail.operand.span()) || bare_or(left, start)))
      chain.progress.warnings.push_back({"", Severity::Warning, "xor", join(left.span(), right.span()), {}, {}});
    const Span span = join(left.span(), right.span());
    left = Expr(Binary{tail.op.op, std::move(left), right}, span);
    if (left.height() > max_height) throw TooDeep{chain.progress.begin + tail.op.span.begin, max_height, "operators"};
    const bool chains = here != 4 && here != 5;
    if (!chains && chain.at < chain.tails.size() && level(chain.tails[chain.at].op.op) == here)
      throw Chained{chain.tails[chain.at].op.span, chain.tails[chain.at].op.op};
  }
  return left;
}

}  // namespace

Expr grouped(const Chain& chain, Progress& progress) {
  Folding folding{chain.tails, 0, progress};
  return fold(folding, chain.first, 1);
}

}  // namespace tilec::lang::grammar
