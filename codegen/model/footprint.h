// What a box of points touches of one tensor: distinct elements, cache lines, pages; and the room that its lines take
// of a first cache, where some of its sets would hold more of them than they can.
//
//   I[1000*x + c] for 10 x, 16 c of 1000, f32       ⇒   160 elements, 20 lines, 10 pages
//   I[x + k] for 54 x, 3 k                          ⇒   56 elements, 4 lines, 1 page
//   I[320*x + c] for 297 x, 16 c of 320, f32        ⇒   297 lines in 16 of 64 sets: room for 1188
#pragma once

#include <cstdint>
#include <span>

#include "codegen/model/few.h"
#include "codegen/model/walk.h"
#include "codegen/nest.h"

namespace tilec::codegen::model {

struct Footprint { double elements = 1, lines = 1, pages = 1, room = 1; };

// Of one access and many boxes. `extent`: of each dimension of the nest.   Exact where dimensions do not overlap, or
// overlap without holes.
class Footprints {
 public:
  Footprints(const FlatAccess& access, std::int64_t element_bytes);
  Footprint of(std::span<const std::int64_t> extent) const;

 private:
  struct Moves { std::int64_t stride; std::size_t d; };
  Few<Moves> moves_;                                   // shortest strides first
  std::int64_t element_bytes_;
};
inline Footprint footprint(
    const FlatAccess& access, std::span<const std::int64_t> extent, std::int64_t element_bytes) {
  return Footprints(access, element_bytes).of(extent);
}

// Elements alone; of all of the nest.
double elements_of(const FlatAccess& access, const Nest& nest);
double elements_of(const FlatAccess& access, std::span<const std::int64_t> extent);

// Of 64 lines that a leaf touches one after the other, how many share a set of a first cache. 1: steps are no multiples
// of a quarter of a page.
//
//   B[j, i] = =(A[i, j]) of 1024 x 1024, f32, turns of i, blocks of 16 x 16, then j     ⇒   of B 64, of A 1
double sharing_sets(const FlatAccess& access, const Walk& walk, std::int64_t element_bytes);

}  // namespace tilec::codegen::model
