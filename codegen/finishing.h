// Statements that finish sums: what the threads which have them compute of each, element by element, before it is
// written.
//
//   S[i, j] = +(A[i, k] * B[k, j]);   O[i, j] = =(max(S[i, j] + b[j], 0))       group O  local S
//                                                                                 contract S  …
//                                                                                 finish O
//     ⇒  one launch, which reads b[j] where it writes O[i, j]; what nobody else reads, S, is in no memory
//
// In:  a sum, and statements whose elements are its elements, in whichever order they lie: each reads the sum, or what
//      finishes it, at one element, and has no others. In a pass also what the same row has of other folds.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/spelling.h"

namespace tilec::codegen {

bool finishes(const Group& group);                     // whether its last leaves finish what others sum

// What a launch sums: a contraction, or a pass over an index (online_leaf.h), whose folds have an element for each row.
struct SumsOfLaunch {
  std::vector<int> nodes;
  std::vector<std::string> rows = {};
  std::string over = {};
};
SumsOfLaunch sums_of(const std::vector<Compute>& leaves);
std::vector<int> finishing_of(const std::vector<Compute>& leaves);  // nodes of those that finish

// A statement over the indices of the sum that it finishes, and which of the launch that is.
struct Finished {
  std::size_t sum;
  poly::Statement statement;
};
// Or why one of them finishes none of these. What it reads of the launch it reads at its own element, or row.
std::variant<std::vector<Finished>, std::string> finished_by(
    const poly::Program& program, const SumsOfLaunch& sums, const std::vector<int>& finishing);

// Of a contraction and of what finishes it, a nest each, over the same dimensions: neighbours are one where they are in
// all of them.
std::vector<Nest> finishing_nests(
    const poly::Program& program, const std::vector<int>& finishing, int sum, const Strides& strides);
// Of what finishes sums of a pass: dimensions are those of the sum.
std::vector<std::pair<std::size_t, Nest>> finishing_nests(
    const poly::Program& program, const std::vector<Compute>& leaves, const Strides& strides);

// How threads finish the sums that they have.
class Finishing {
 public:
  // `nests`: the sum's own, then those of what finishes it; the first one alone where nothing does.
  Finishing(const std::vector<Nest>& nests, const Storage& storage, Names& names)
      : nests_(nests), storage_(storage), names_(names) {}

  // What a form is at element `at` of some that a thread computes together.
  using Place = std::function<Expr(const Form& form, std::size_t at)>;
  using Known = std::map<TensorId, Expr>;              // of a row, what it has of other sums
  // So many neighbours of a target are one access, where it begins at their bytes; a constant is known. `by`: pairs of
  // 16 bits are packed in a word; and what pairs of threads have of two blocks of columns they exchange, so that each
  // has four neighbours of one of them, and four threads a sector. Words wait for it in `packed`.
  enum class By { Elements, Words, Exchange };
  struct Together {
    std::int64_t width = 1;
    std::optional<Expr> aligned = {};
    By by = By::Elements;
    std::string packed = {};
    std::optional<std::size_t> reads_along = {};       // a dimension along which pairs of what is read are one access
  };
  // Of each target: how many neighbours along dimension d, where threads have `most` of them side by side.
  std::vector<Together> side_by_side(Body& body, std::size_t d, std::int64_t most) const;
  // Stores of neighbours; `together`: per target. Words that are exchanged go to register `at` in the place of memory.
  Body stores(const std::vector<Expr>& sums, const Place& place, const std::vector<Together>& together,
      const Known& known = {}, std::int64_t at = 0) const;

  // ---- where threads have results of tensor cores (docs/decisions/tensor_cores.md), two neighbours of each block of
  // columns, and an even number of blocks

  // What `write` does with the targets, one way where all begin at such a multiple and another where not.
  Body in_pairs(std::size_t d, const std::function<Body(const std::vector<Together>&)>& write) const;
  // Of one row: registers for its words; what was packed in two of them, from `at` on.
  std::vector<Together> with_registers(
      Body& body, const std::vector<Together>& together, std::int64_t words) const;
  Body exchange(const std::vector<Together>& together, std::int64_t at) const;
  Body exchanged(
      const std::vector<Together>& together, std::int64_t at, const std::function<Expr(const Form&)>& place) const;
  static bool exchanges(const std::vector<Together>& together);

  Body stores(const Expr& sum, const std::function<Expr(const Form&)>& place, const Known& known = {}) const;

  bool writes(const Nest& nest) const;                 // its target is no local
  std::vector<const Form*> forms() const;              // of everything that is read or written
  std::vector<const FlatAccess*> targets() const;      // of everything that is written

 private:
  struct Written { const FlatAccess* target; std::vector<Expr> values; };  // of each element, in the target's type
  // All that is to be written where these are the sums.
  std::vector<Written> values(Body& body, const std::vector<Expr>& sums, const Place& place, const Known& known,
      std::optional<std::size_t> pairs_along) const;
  // Registers that hold pairs of what is read; by read.
  using Pairs = std::map<const FlatAccess*, std::string>;
  Pairs read_pairs(Body& body, std::size_t d, const Place& place, const Known& known) const;
  bool is_pair(const FlatAccess& read, std::size_t d) const;
  // Two neighbours of 16 bits as a word.
  Body words(const FlatAccess& target, const std::vector<Expr>& values, const Place& place, const Together& together,
      std::int64_t at) const;
  // Of a statement, at an element at which these are known.
  Expr value(Body& body, const Nest& nest, const Known& made, const std::function<Expr(const Form&)>& place,
      const Pairs& pairs = {}, std::size_t at = 0) const;

  const std::vector<Nest>& nests_;
  const Storage& storage_;
  Names& names_;
};

}  // namespace tilec::codegen
