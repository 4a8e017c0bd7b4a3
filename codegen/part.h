// A statement cut into statements: the indices that each part keeps, and the tensor between them.
//
//   Y[j] = +(A[k, d]), k <= j  ⇒  part T[k] = +(A[k, d]) in the frame {k, d}, the rest Y[j] = +(T[k]), k <= j in {j, k}
//
// What the rewrites scan.h and factor.h share. All statements are bound.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/nest.h"
#include "poly/program.h"

namespace tilec::codegen {

// A statement's indices as forms over others, which count from 0.
struct Frame {
  std::vector<std::string> names;
  std::vector<poly::Affine> map;                       // per old index; one that is gone is 0
  std::vector<poly::Range> hull;                       // per new index
  std::size_t count() const { return names.size(); }
};
// New indices for the old ones `kept`, and behind them `more`.
Frame frame(const poly::Statement& s, const std::vector<std::size_t>& kept, const std::vector<Dim>& more);
// The statement over the frame's indices, with its rows that `keeps` says.
poly::Statement seen_in(
    const poly::Statement& s, const Frame& f, const std::function<bool(const poly::Affine&)>& keeps);

// A tensor named after the statement's, over the frame's first `rank` indices, in the type of the fold.
TensorId new_tensor(poly::Program& program, Strides& strides, const poly::Statement& s, const std::string& suffix,
    const Frame& f, std::size_t rank);
// A part is written to the first `rank` indices of its frame; the fill is what a fold of nothing is.
void write_part(poly::Statement& part, TensorId target, std::size_t rank);
// Drops reads that nothing mentions: an index of theirs may be gone.
void drop_unused(poly::Statement& s);
void insert(poly::Program& program, std::size_t n, std::vector<poly::Statement> before);

std::int64_t low(const poly::Statement& s, std::size_t k);     // of an index
std::int64_t extent(const poly::Statement& s, std::size_t k);
bool mentions(const poly::Affine& e, std::size_t k);
bool is_output_index(const poly::Statement& s, std::size_t k);
std::string fresh_index(const poly::Statement& s, std::string stem);

}  // namespace tilec::codegen
