#include "codegen/choose/boxes.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "codegen/model/estimates.h"
#include "codegen/model/machine.h"

namespace tilec::codegen {

namespace {

using namespace model::boxes;
using model::latency;
using model::line;

class Search {
 public:
  Search(const Boxed& c, Class lanes, unsigned packed, const Target& target)
      : c_(c), lanes_(lanes), packed_(packed), target_(target) {
    for (int t = 0; t < 3; ++t) {
      double count = c_.bytes;
      for (const Boxed::Dimension& d : c_.tensors[t]) count *= static_cast<double>(d.size);
      bytes_[t] = count, all_ += count;
      side_by_side_[t] = side_by_side(t);
      for (std::size_t k = 0; k < c_.extent.size(); ++k)
        mentions_[t].push_back(std::any_of(c_.tensors[t].begin(), c_.tensors[t].end(),
            [&](const Boxed::Dimension& d) { return d.coefficients[k] != 0; }));
    }
  }

  Boxes found() {
    Boxes best;
    const std::size_t count = c_.extent.size();
    best.steps.assign(count, 1);
    for (std::size_t k = 0; k < count; ++k) if (c_.whole[k]) best.steps[k] = c_.extent[k];
    for (int t = 0; t < 3; ++t)
      if (const auto k = side_by_side_[t]; k && !c_.whole[*k])
        best.steps[*k] = std::min<std::int64_t>(c_.extent[*k], whole_lines);
    const double room = share_of_l2 * static_cast<double>(target_.l2);
    best.cycles = cycles(best.steps);
    for (bool grows = true; grows;) {
      grows = false;
      Boxes next = best;
      for (std::size_t k = 0; k < count; ++k) {
        if (best.steps[k] >= c_.extent[k]) continue;
        for (const std::int64_t factor : {2, 8}) {
          std::vector<std::int64_t> steps = best.steps;
          steps[k] = std::min(c_.extent[k], factor * steps[k]);
          if (held(steps) > room) continue;
          const double cost = cycles(steps);
          if (cost < next.cycles) next.steps = std::move(steps), next.cycles = cost, grows = true;
        }
      }
      best = std::move(next);
    }
    even(best.steps);
    best.cycles = cycles(best.steps);
    return best;
  }

 private:
  bool packed(int t) const { return packed_ >> t & 1; }

  // The index along which the tensor's elements lie side by side.
  std::optional<std::size_t> side_by_side(int t) const {
    for (const Boxed::Dimension& d : c_.tensors[t]) {
      if (d.stride != 1 || d.size == 1) continue;
      for (std::size_t k = 0; k < d.coefficients.size(); ++k) if (d.coefficients[k] != 0 && c_.extent[k] > 1) return k;
    }
    return std::nullopt;
  }

  static double length(const Boxed::Dimension& d, const std::vector<std::int64_t>& steps) {
    double sum = 1;
    for (std::size_t k = 0; k < steps.size(); ++k)
      sum += static_cast<double>(std::abs(d.coefficients[k]) * (steps[k] - 1));
    return sum;
  }
  double elements(int t, const std::vector<std::int64_t>& steps) const {
    double count = 1;
    for (const Boxed::Dimension& d : c_.tensors[t]) count *= length(d, steps);
    return count;
  }
  double held(const std::vector<std::int64_t>& steps) const {
    double bytes = 0;
    for (int t = 0; t < 3; ++t) bytes += elements(t, steps) * c_.bytes * (packed(t) ? 1 : read_in_place);
    return bytes;
  }

  // How many elements of a box lie one behind the other.
  double run(int t, const std::vector<std::int64_t>& steps) const {
    double run = 1;
    std::int64_t next = 1;
    for (bool more = true; more;) {
      more = false;
      for (const Boxed::Dimension& d : c_.tensors[t]) {
        if (d.stride != next || d.size == 1) continue;
        const double here = std::min(length(d, steps), static_cast<double>(d.size));
        run *= here;
        more = here >= static_cast<double>(d.size);
        next *= d.size;
        break;
      }
    }
    return run;
  }

  static double per_line(const Level& level, double lines_of_run) {
    return lines_of_run >= long_run ? level.streamed : level.scattered;
  }

  // What it takes to have the boxes' parts of a tensor in the first cache: once from where it lies, then from where it
  // was left.
  double fetched(int t, const std::vector<std::int64_t>& steps, double times) const {
    const double length = run(t, steps) * c_.bytes / line,
                 lines = elements(t, steps) / run(t, steps) * (length + torn_line);
    double boxes = 1;
    for (std::size_t k = 0; k < steps.size(); ++k) if (mentions_[t][k]) boxes *= parts(steps, k);
    const Level& first = all_ > all_of_l3 * static_cast<double>(target_.l3) ? memory : last;
    const Level& again = bytes_[t] < again_of_l2 * static_cast<double>(target_.l2) ? second
        : bytes_[t] < again_of_l3 * static_cast<double>(target_.l3)                ? last
                                                                                   : memory;
    return lines * boxes * (per_line(first, length) + (times - 1) * per_line(again, length)) * (t == 2 ? 2 : 1);
  }
  double parts(const std::vector<std::int64_t>& steps, std::size_t k) const {
    const std::int64_t count = (c_.extent[k] + steps[k] - 1) / steps[k];
    return static_cast<double>(count);
  }

  double cycles(const std::vector<std::int64_t>& steps) const {
    double boxes = 1, sums = 1;
    for (std::size_t k = 0; k < steps.size(); ++k) {
      boxes *= parts(steps, k);
      if (c_.classes[k] == Class::Reduced) sums *= parts(steps, k);
    }
    double cost = of_box * boxes;
    for (int t = 0; t < 3; ++t) {
      double times = 1;                                // each element is fetched
      for (std::size_t k = 0; k < steps.size(); ++k)
        if (!mentions_[t][k] && !(t == 2 && c_.classes[k] == Class::Reduced)) times *= parts(steps, k);
      cost += fetched(t, steps, times);
      const bool in_order = side_by_side_[t] && c_.classes[*side_by_side_[t]] == lanes_;
      if (packed(t)) cost += elements(t, steps) * (t == 2 ? boxes / sums : boxes) * (in_order ? moved_in_order : moved);
    }
    return cost + folded(steps) * boxes;
  }

  // Of one box. Several indices of a class are one loop where all that have it are packed; else the longest is.
  double folded(const std::vector<std::int64_t>& steps) const {
    double along[5] = {1, 1, 1, 1, 1}, longest[5] = {1, 1, 1, 1, 1}, points = 1;
    for (std::size_t k = 0; k < steps.size(); ++k) {
      const auto c = static_cast<std::size_t>(c_.classes[k]);
      along[c] *= static_cast<double>(steps[k]);
      longest[c] = std::max(longest[c], static_cast<double>(steps[k]));
      points *= static_cast<double>(steps[k]);
    }
    const auto loop = [&](Class c) {
      const bool one = c == Class::Batch ? packed_ == 7
          : c == Class::Reduced          ? (packed_ & 3) == 3
          : c == Class::First            ? (packed_ & 5) == 5
                                         : (packed_ & 6) == 6;
      return one ? along[static_cast<std::size_t>(c)] : longest[static_cast<std::size_t>(c)];
    };
    const double n = loop(lanes_), vectors = std::ceil(n / c_.lanes),
                 depth = along[static_cast<std::size_t>(Class::Reduced)];
    double rows = lanes_ == Class::Batch ? std::max(loop(Class::First), loop(Class::Second))
                                         : loop(lanes_ == Class::First ? Class::Second : Class::First);
    double wide = std::min(vectors, most_vectors);
    wide = vectors / std::ceil(vectors / wide);
    rows = rows / std::ceil(rows / std::min(most_rows, std::floor(most_accumulators / std::max(1.0, wide))));
    const double block = rows * wide;
    // Of batches, one factor is a vector for every row, or both are.
    const double loads = lanes_ == Class::Batch ? block / std::max(1.0, std::min(rows, 1.0)) + wide : rows + wide;
    const double inner = loop(Class::Reduced);
    const double step = std::max({block, loads / model::pipes, latency}) + (inner < depth ? of_inner_loop / inner : 0);
    const double blocks = points / depth / (n * block) * vectors;
    return blocks * (step * depth + of_block + of_accumulator * block) * (c_.bounded ? bounded : 1);
  }

  // Parts as even as they can be; of what lies side by side, whole vectors.
  void even(std::vector<std::int64_t>& steps) const {
    for (std::size_t k = 0; k < steps.size(); ++k) {
      if (steps[k] >= c_.extent[k]) continue;
      const auto count = static_cast<std::int64_t>(parts(steps, k));
      std::int64_t each = (c_.extent[k] + count - 1) / count;
      const auto w = static_cast<std::int64_t>(c_.lanes);
      if (each > w &&
          (c_.classes[k] == lanes_ || std::count(std::begin(side_by_side_), std::end(side_by_side_), k) > 0))
        each = (each + w - 1) / w * w;
      steps[k] = std::min(each, c_.extent[k]);
    }
  }

  const Boxed& c_;
  const Class lanes_;
  const unsigned packed_;
  const Target& target_;
  double bytes_[3] = {}, all_ = 0;
  std::optional<std::size_t> side_by_side_[3];
  std::vector<bool> mentions_[3];                      // per tensor and index
};

}  // namespace

Boxes choose_boxes(const Boxed& contraction, Class lanes, unsigned packed, const Target& target) {
  return Search(contraction, lanes, packed, target).found();
}

double streaming_cycles(const Boxed& contraction, unsigned copied, const Target& target) {
  double all = 0, left = 0;
  for (unsigned t = 0; t < 3; ++t) {
    double bytes = contraction.bytes;
    for (const Boxed::Dimension& d : contraction.tensors[t]) bytes *= static_cast<double>(d.size);
    all += bytes;
    if (!(copied >> t & 1)) left += bytes * (t == 2 ? 2 : 1);
  }
  return left / line * (all > all_of_l3 * static_cast<double>(target.l3) ? memory : last).streamed;
}

}  // namespace tilec::codegen
