// In which order the dimensions of a contraction's operands and of its result should lie, by cost.
//
//   C[b, n, m] = +(A[k, m, b] * B[n, k, b])   ⇒   copies A[b, m, k] and B[b, k, n], the result as it is, lanes over …
//
// A copy costs its bytes twice; what it buys is what the leaf's model says of the statement whose tensors lie so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/nest.h"
#include "codegen/target.h"

namespace tilec::codegen {

struct Layouts {
  std::vector<std::vector<std::size_t>> reads;         // per read, its tensor's dimensions in the copy's order; empty:
                                                       // no copy
  std::vector<std::size_t> target;                     // output indices of the statement in the order of a staged
                                                       // result; empty: none
  // indices of which a turn has a part, and how many: copies are of a turn (tile.h)
  std::vector<std::pair<std::size_t, std::int64_t>> boxes = {};
  double cost = 0;                                     // cycles, copies included
  std::int64_t bits = 0;                               // that copies of operands keep of f32 (rewrite/copy.h)
  std::int64_t rows = 0;                               // of copies begin at multiples of so many elements, likewise
  bool doubtful = false;                               // of these the model knows less: they must save more
  bool lies_as(const Layouts& other) const {
    return reads == other.reads && target == other.target && boxes == other.boxes;
  }
};

// `today`: copies that are made otherwise, with no staged result. Other layouts are chosen where they cost a good deal
// less. `alone`: whoever reads the result does not want to share rows with it.
Layouts choose_layouts(const poly::Program& program, const Strides& strides, const poly::Statement& s,
    const Layouts& today, const Target& target, bool alone = false);
// The same, and behind it others that a better model may prefer, the cheapest first. That one alone where the
// statement's neighbours have a say.
std::vector<Layouts> layouts_worth_a_look(const poly::Program& program, const Strides& strides,
    const poly::Statement& s, const Layouts& today, const Target& target, bool alone = false);

// On a GPU, the copies with which a contraction's blocks take less than without, the copies included; none: as it lies.
// `cost`: cycles of the device, with the launches of copies and without the one of the statement; 0 where nobody
// estimates them.
Layouts layouts_on_gpu(
    const poly::Program& program, const Strides& strides, const poly::Statement& s, const Target& target);

// Nothing here computes what the statement reads or reads what it computes: such statements may share rows, which boxes
// would forbid.
bool stands_alone(const poly::Program& program, const poly::Statement& s);

}  // namespace tilec::codegen
