// A contraction for a block of threads, its operands staged in shared memory: a sum of products of two factors, or a
// sum or an extreme of whatever has values of both sides (distances, max-plus products, additive attention).
//
//   C[i, j] = +(A[i, k] * B[k, j])     block 8x8  lanes 16  stage 8  threads 256
//     ⇒  a block of 128 x 128 elements. There are two buffers: while 8 of k are multiplied from one, the next 8 are on
//        their way to registers, and from there to the other; then one barrier. A thread has 2 x 2 squares of 4 x 4
//        elements, a warp 8 x 4 threads.
//
//        Both copies lie k by k, so a thread reads 4 neighbours at once. What lies along k in global memory is turned
//        on its way; its rows are 16 bytes longer, so that the banks of a column differ.
//
// Four neighbours in global memory are one access where the strides say that they lie together and the tensor's address
// is seen to be a multiple of their size, else four.
//
// Several output dimensions may be one m (the pixels of an image, `m n y x`), or one n: a block then ends in the middle
// of none but the last. Rows of the domain that couple m with reductions (a filter's taps at an image's border, a
// triangle) stage zeros in the place of elements outside. A zero times what is not finite is no number: a thread whose
// sums are not finite computes them again, from their own points. Rows over outputs alone say which elements there are:
// such a statement is not staged. What is no product has no rows, and no element that counts as nothing: of its last
// stage only the values that are there are taken.
//
// Reductions that are short, each for itself (3 channels of 7 taps in each of 7 lines), are one to a stage: `across`. A
// thread then finds the value of each in every stage, and no stage but the last is less than full.
#pragma once

#include <optional>

#include "codegen/spelling.h"

namespace tilec::codegen {

// What else than a product may be folded: values of one side each, which are staged, and what is read at the element
// itself, whatever the reductions are, which a thread holds. What depends on neither side is of m.
//
//   D[i, j] = >(abs(X[i, k] - Y[j, k]))                    of_m X[i, k]         of_n Y[j, k]
//   dX[i, k] = +(X[i, k] > Y[j, k] ? dD[i, j] : 0)         of_m dD[i, j]        of_n Y[j, k]      own X[i, k]
struct Joined { std::vector<poly::Expr> of_m, of_n, own; };

// Which side of the product depends on m, which on n; which reduction is staged. None: the statement is no such
// contraction.
struct Staging {
  std::vector<std::size_t> m, n;                       // one dimension after the other, innermost last
  std::size_t depth;
  poly::Expr by_m, by_n;                               // the factors; of what is no sum of products, of which there is
                                                       // `joined`, the first value of each side
  std::vector<std::size_t> staged;                     // `depth`, or all reductions, of which it is the innermost
  std::optional<Joined> joined = {};
};
// `across`: stages go through all of k as one.
std::optional<Staging> staging_of(const Nest& nest, const std::vector<std::string>& m,
    const std::vector<std::string>& n, const std::vector<std::string>& k, bool across);
std::optional<Staging> staging_of(const Nest& nest, const Compute& leaf);

// Bytes of shared memory, where sums have this type.
std::int64_t staged_bytes(
    const Compute& leaf, std::int64_t threads, std::int64_t depth, const Staging& roles, DType type);

// The kernel's body: one Block loop. `nests`: of the contraction, and of what finishes it (finishing.h).
Body spell_staged(const std::vector<Nest>& nests, const Compute& leaf, const Storage& storage, Names& names,
    std::int64_t threads);

}  // namespace tilec::codegen
