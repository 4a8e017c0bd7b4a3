// Equal parts of a value become one node, so that whoever remembers values by node computes each once.
//
//   (x + b) * (1.0 + tanh(x + b))     both `x + b` are one node; a gradient that spells tanh(…) seven times holds one
//
// In: a typed expression.   Out: an equal one.
#pragma once

#include <unordered_map>
#include <vector>

#include "poly/program.h"

namespace tilec::poly {

Expr interned(const Expr& value);
std::vector<Expr> parts(const Expr& value);            // every node of it once, itself first
// Sets the indices that the value depends on; the others stay.
void mark(const Expr& value, const std::vector<Access>& reads, std::vector<bool>& indices);
const Expr& below_casts(const Expr& value);            // what is cast, however often; itself where it is no cast
double length(const Expr& value);                      // operations and operands of its text: a node counts as often as
                                                       // it is reached
const void* address(const Expr& value);                // of its node: what `same_as` compares

namespace detail {

template <class Leaf>
Expr with_leaves(const Expr& value, const Leaf& leaf, std::unordered_map<const void*, Expr>& done) {
  if (value.as<Number>()) return value;
  const auto* apply = value.as<Apply>();
  const auto* cast = value.as<Cast>();
  if (!apply && !cast) return leaf(value);
  if (const auto known = done.find(address(value)); known != done.end()) return known->second;
  Expr result = value;
  if (cast) {
    Expr operand = with_leaves(cast->operand, leaf, done);
    if (!operand.same_as(cast->operand)) result = Cast{std::move(operand), cast->type};
  } else {
    Apply copy{apply->op, {}, apply->type};
    bool changed = false;
    for (const Expr& operand : apply->operands) {
      copy.operands.push_back(with_leaves(operand, leaf, done));
      changed = changed || !copy.operands.back().same_as(operand);
    }
    if (changed) result = std::move(copy);
  }
  done.emplace(address(value), result);
  return result;
}

}  // namespace detail

// The expression with other leaves: `leaf` gets each Read and Index. What is one node stays one.
template <class Leaf> Expr with_leaves(const Expr& value, const Leaf& leaf) {
  std::unordered_map<const void*, Expr> done;
  return detail::with_leaves(value, leaf, done);
}

}  // namespace tilec::poly
