// What --checked adds to a bound Program: of every tensor of indices that a gather or scatter reads, the first one out
// of range.
//
//   O = gather(D, I);   with D[V], I[N]
//     ⇒   First[] = <(I[i] < 0 || I[i] >= V ? i : N);   Value[] = +(i == First[] ? I[i] : 0);   First, Value are
//        outputs too
//
// `First` counts in row-major order. The gather itself is as it was: it clamps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "poly/program.h"

namespace tilec::poly {

// One tensor of indices against one bound. Its two outputs, i64 scalars, stand at the end of the Program's, in order.
struct IndexCheck {
  std::string indices;                                 // the tensor's name
  DType dtype;                                         // its type: a u64 is not negative
  std::vector<std::int64_t> shape;
  std::int64_t bound = 0;                              // 0 <= index < bound
  std::string reader;                                  // `gather` or `scatter`
  Span span;                                           // of it
};
std::vector<IndexCheck> add_index_checks(Program& program);

}  // namespace tilec::poly
