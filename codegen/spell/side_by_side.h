// Steps of several reductions side by side, of a block whose rows are all values of one output and a few of another:
// each element that they read is read once, with those that lie beside it.
//
//   Y[y, g, c] += I[y + j, g, k] * K[j, k, g, c], rows all four c and eight y; reductions j and k
//     ⇒  x[0 … 3] = I[y, g, 0 … 3], one access; …; w[0 … 3] = K[0, 0, g, 0 … 3]; acc += x[0] * w[0] …
//
// A window that slides along the rows reads again what they have read, and so do all values of the output. What a row
// at the border lacks is not read, and not folded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "codegen/spell/accumulators.h"
#include "codegen/spell/block_place.h"

namespace tilec::codegen {

struct SideBySide {
  std::vector<std::size_t> dims = {};                  // the last of k, of known bounds
  std::int64_t part = 1;                               // steps of the last one of them; it is a multiple
  std::vector<std::int64_t> widths = {};               // of each read: elements that one access brings
};

// From reduction `level` on; none: there are too many steps, or no such block.
std::optional<SideBySide> side_by_side(const BlockPlace& at, std::size_t level);
// `plainly`: the same reductions, where memory begins at no multiple of an access.
Body spell_side_by_side(
    const BlockPlace& at, const SideBySide& steps, const Accumulators& sums, const std::function<Body()>& plainly);

// Along which of all values of an output, or of the dimension `last`, an access has neighbours, and how many at most.
struct Neighbours { std::optional<std::size_t> along; std::int64_t width = 1; };
Neighbours neighbours_in_rows(
    const BlockPlace& at, const FlatAccess& access, std::optional<std::size_t> last = {}, std::int64_t part = 1);

}  // namespace tilec::codegen
