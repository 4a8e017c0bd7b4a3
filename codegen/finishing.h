// Statements that finish sums: what the threads which have them compute of each, element by element, before it is
// written.
//
//   S[i, j] = +(A[i, k] * B[k, j]);   O[i, j] = =(max(S[i, j] + b[j], 0))       group O  local S
//                                                                                 contract S  …
//                                                                                 finish O
//     ⇒  one launch, which reads b[j] where it writes O[i, j]; what nobody else reads, S, is in no memory
//
// In:  a sum, and statements whose elements are its elements, in whichever order they lie: each reads the sum, or what
//      finishes it, at one element, and has no others.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "codegen/spelling.h"

namespace tilec::codegen {

bool finishes(const Group& group);                     // whether statements finish what its first leaf sums

// The statements over the indices of the first one, which is the sum; or why one of them does not finish it. What it
// reads of the others it reads where they are written.
std::variant<std::vector<poly::Statement>, std::string> over_sum(
    const poly::Program& program, const std::vector<int>& nodes);

// A nest each, over the same dimensions: neighbours are one where they are in all of them.
std::vector<Nest> finishing_nests(const poly::Program& program, const std::vector<int>& nodes, const Strides& strides);
std::vector<int> nodes_of(const Group& group);

// How threads finish the sums that they have.
class Finishing {
 public:
  // `nests`: the sum's own, then those of what finishes it; the first one alone where nothing does.
  Finishing(const std::vector<Nest>& nests, const Storage& storage, Names& names)
      : nests_(nests), storage_(storage), names_(names) {}

  // What a form is at element `at` of some that a thread computes together.
  using Place = std::function<Expr(const Form& form, std::size_t at)>;
  struct Written { const FlatAccess* target; std::vector<Expr> values; };  // of each element, in the target's type
  // All that is to be written where these are the sums.
  std::vector<Written> values(Body& body, const std::vector<Expr>& sums, const Place& place) const;
  // Stores of one element.
  Body stores(const Expr& sum, const std::function<Expr(const Form&)>& place) const;

  bool writes(const Nest& nest) const;                 // its target is no local
  std::vector<const Form*> forms() const;              // of everything that is read or written
  std::vector<const FlatAccess*> targets() const;      // of everything that is written

 private:
  // Of a statement, at an element at which these are known.
  Expr value(Body& body, const Nest& nest, const std::map<TensorId, Expr>& made,
      const std::function<Expr(const Form&)>& place) const;

  const std::vector<Nest>& nests_;
  const Storage& storage_;
  Names& names_;
};

}  // namespace tilec::codegen
