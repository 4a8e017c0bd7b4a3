// A Program on its way from `reduced` to what is planned: each directive, chosen or given, changes it.
//
// A pass that chooses (inline.h, factor.h, …) applies one directive after another and notes it in `done`; `apply` does
// what a given one says, or tells why it would not mean the same.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/nest.h"
#include "codegen/rewrite/directive.h"
#include "codegen/target.h"
#include "poly/program.h"

namespace tilec::codegen {

struct Rewriting {
  poly::Program program;
  Strides strides;                                     // of all its tensors
  const Target& target;
  std::vector<Directive> done = {};

  // Statements that share a launch, by their targets, the indices that are its loops, and how many of the last have one
  // part of a sum.
  struct Rows { std::vector<TensorId> tensors; std::vector<std::string> indices; std::int64_t parts = 0; };
  std::vector<Rows> rows = {};
  // Of one launch, too: what passes over an index together (online.h), and its rows.
  struct Online {
    std::vector<TensorId> tensors;
    std::vector<std::string> rows;
    std::string over;
    std::vector<TensorId> again;                       // what is computed elsewhere, too
    std::vector<TensorId> finishing = {};              // its sums (finish.h)
    bool twice = false;                                // it goes over the index once for folds that others read
  };
  std::vector<Online> online = {};
  // Of one launch, too: a contraction with copies that only its turns need (tile.h), and the boxes of its indices.
  struct Tile { std::vector<TensorId> tensors; std::vector<std::pair<std::string, std::int64_t>> steps; };
  std::vector<Tile> tiles = {};
  // Of one launch, too: a contraction, and what finishes it (finish.h).
  std::vector<std::vector<TensorId>> finishes = {};
  std::map<std::string, TensorId> sums = {};           // that factors have left, by canonical form: equal ones are one
                                                       // tensor
  std::map<std::string, TensorId> pairs = {};          // that windows share (pairs.h), likewise
  std::set<TensorId> parts = {};                       // of folds, which are folded again (split.h)
  std::set<TensorId> of_columns = {};                  // that stay with what shares their rows, unfinished: folds down
                                                       // strips of columns (choose/columns.h), what a given line shares
  // of a tensor in an order of its dimensions, with so many bits of its f32 (0: all), rows at multiples of so many
  // elements (0: side by side)
  using CopyKey = std::tuple<TensorId, std::vector<std::size_t>, std::int64_t, std::int64_t>;
  std::map<CopyKey, TensorId> copies = {};
  // What the model has said of programs by their text, which those made of this one ask about again.
  // `time`: with the leaves that it likes best. None: nobody has asked for it, or it is `at_least` so long.
  struct Predicted { std::optional<double> by_counts, time; double at_least = 0; };
  std::shared_ptr<std::map<std::string, Predicted>> predictions = std::make_shared<std::map<std::string, Predicted>>();
};

// Why a directive does not apply; none: it was applied.
using Refusal = std::optional<std::string>;

Refusal apply(Rewriting& r, const Directive& directive);
Refusal apply(Rewriting& r, const directives::Inline& directive);
Refusal apply(Rewriting& r, const directives::Absorb& directive);
Refusal apply(Rewriting& r, const directives::Unfold& directive);
Refusal apply(Rewriting& r, const directives::Restate& directive);
Refusal apply(Rewriting& r, const directives::Reach& directive);
Refusal apply(Rewriting& r, const directives::Gates& directive);
Refusal apply(Rewriting& r, const directives::Logs& directive);
Refusal apply(Rewriting& r, const directives::Factor& directive);
Refusal apply(Rewriting& r, const directives::Chunks& directive);
Refusal apply(Rewriting& r, const directives::Seek& directive);
Refusal apply(Rewriting& r, const directives::Online& directive);
Refusal apply(Rewriting& r, const directives::Terms& directive);
Refusal apply(Rewriting& r, const directives::Blocks& directive);
Refusal apply(Rewriting& r, const directives::Windows& directive);
Refusal apply(Rewriting& r, const directives::Split& directive);
Refusal apply(Rewriting& r, const directives::Pairs& directive);
Refusal apply(Rewriting& r, const directives::Center& directive);
Refusal apply(Rewriting& r, const directives::Copy& directive);
Refusal apply(Rewriting& r, const directives::Stage& directive);
Refusal apply(Rewriting& r, const directives::Tile& directive);
Refusal apply(Rewriting& r, const directives::Panels& directive);
Refusal apply(Rewriting& r, const directives::Finish& directive);
Refusal apply(Rewriting& r, const directives::Share& directive);
Refusal apply(Rewriting& r, const directives::Rest& directive);

// The statement that computes the tensor of this name: its place in the program.
std::optional<std::size_t> statement_of(const poly::Program& program, const std::string& tensor);
std::string no_statement(const std::string& tensor);   // why there is none
std::optional<std::size_t> index_of(const poly::Statement& s, const std::string& name);
// Among the statement's reads, the `read`-th one of the tensor of this name.
std::optional<std::size_t> read_of(
    const poly::Program& program, const poly::Statement& s, const std::string& tensor, std::int64_t read);
// The statement that computes `made` and stands at n or later moves before the one at n. Returns where that one stands
// then.
std::size_t move_before(poly::Program& program, std::size_t n, TensorId made);
const std::string& target_name(const poly::Program& program, const poly::Statement& s);
// How copies, panels, staged results and sums of pairs lie.
std::vector<std::int64_t> strides_between(const poly::Tensor& tensor, const Target& target);
// Long rows of tensors in between begin at lines, where no loop over two of their dimensions becomes two by that.
void align_rows(const poly::Program& program, Strides& strides, const Target& target);

}  // namespace tilec::codegen
