#include "codegen/model/run.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "codegen/model/few.h"
#include "codegen/model/machine.h"

namespace tilec::codegen::model {

namespace {

// Streams that advance side by side, as far as the loops so far have taken them.
class Streams {
 public:
  Streams(double element_bytes, double reach) : reach_(reach), span_(element_bytes) {}

  // A loop around them that steps so many bytes, so often. False: a core follows no more.
  bool turn(double step, double count) {
    if (step == 0 || count <= 1) return true;
    if (step <= std::max(reach_, span_)) {
      if (step < apart_ && !turn_rows(step * (count - 1))) return false;
      if (step - span_ >= line) {
        if (apart_ == 0) row_ = span_;
        apart_ = std::max(apart_, step);
        rows_ *= count;
      }
      lines_ = step <= std::max(line, span_) ? (span_ + step * (count - 1)) / line : std::max(1.0, lines_) * count;
      span_ += step * (count - 1);
      return true;
    }
    side_by_side_ *= count;
    return side_by_side_ <= streams;
  }
  double lines() const { return std::max(1.0, lines_); }

 private:
  // Rows with lines between them, of which a loop around them reads what comes next, so far: each row is a stream, and
  // not one behind the other.
  bool turn_rows(double further) {
    side_by_side_ *= rows_;
    rows_ = 1;
    lines_ = std::min(apart_, row_ + further) / line;
    apart_ = 0;
    return side_by_side_ <= streams;
  }

  double reach_;
  double span_, lines_ = 0, side_by_side_ = 1;         // bytes from the first to the last of a stream; its lines; how
                                                       // many streams
  double apart_ = 0, row_ = 0, rows_ = 1;              // bytes from one row to the next, and of a row so far; how many
                                                       // rows
};

}  // namespace

double run_of(const FlatAccess& access, const Walk& walk, std::int64_t element_bytes, double reach) {
  const auto bytes = static_cast<double>(element_bytes);
  const auto step_of = [&](std::size_t d) {
    return bytes * static_cast<double>(std::abs(access.offset.coefficients[d]));
  };
  Streams made(bytes, reach);
  const std::span<const std::int64_t> block = walk.boxes.back();
  Few<std::size_t> inside;
  for (std::size_t d = 0; d < block.size(); ++d) if (block[d] > 1) inside.push_back(d);
  std::ranges::sort(inside, {}, step_of);
  for (const std::size_t d : inside) if (!made.turn(step_of(d), static_cast<double>(block[d]))) return made.lines();
  for (std::size_t l = walk.loops.size(); l-- > 0;) {
    double step = 0;
    for (const std::size_t d : walk.loops[l].dims) step += step_of(d) * static_cast<double>(walk.boxes[l + 1][d]);
    if (!made.turn(step, walk.loops[l].count)) break;
  }
  return made.lines();
}

}  // namespace tilec::codegen::model
