#include "codegen/choose/sums_in_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "codegen/choose/blocks.h"
#include "codegen/model/estimates.h"
#include "codegen/model/machine.h"
#include "codegen/model/thresholds.h"

namespace tilec::codegen {

namespace {

using lang::DType;

namespace blocks = model::blocks;

// Steps of a fold in one register: beyond them the roundings of narrow floats add up to more than those of the terms.
constexpr int exact_enough = 2048;

bool is_told(const Facts& f, const std::string& name) {
  const auto d = f.nest.dim(name);
  return std::ranges::any_of(f.conditions, [&](const Condition& one) { return one.told && one.told->dim == d; });
}
double steps_of(const Facts& f, const Compute& leaf) {
  double steps = 1;
  for (const std::string& name : leaf.k)
    if (!is_told(f, name)) steps *= static_cast<double>(f.extent[*f.nest.dim(name)]);
  return steps;
}

// Parts whose panel of the operand that lanes read stays in the second cache, or which are as short as exact sums ask
// for; 0: the sum as a whole.
std::int64_t chunk_of(const Facts& f, const Compute& leaf) {
  const double steps = steps_of(f, leaf);
  const double width = static_cast<double>(leaf.vectors * leaf.lanes * std::max(4, lang::bytes(f.nest.value->type())));
  const bool leaves_cache = !leaf.m().empty() &&
      steps * width >= blocks::panel_part_of_l2 * static_cast<double>(f.l2) &&
      f.extent[*f.nest.dim(leaf.m())] >= blocks::panel_reuse * leaf.rows;
  const bool inexact = f.nest.value->type() == DType::F32 && steps >= exact_enough;
  if (leaf.k.empty() || (!leaves_cache && !inexact)) return 0;
  const std::size_t first = *f.nest.dim(leaf.k.front());
  const std::int64_t extent = f.extent[first];
  if (extent < f.nest.dims[first].extent) return 0;    // what a turn has of it is a part already
  const auto wanted = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(blocks::steps_of_chunk / (steps / static_cast<double>(extent))));
  if (2 * wanted > extent) return 0;
  return balanced(extent, wanted).most;
}

// What a step of a block waits for, of what it reads of the second cache: with the whole sum at once, or with parts of
// it as long as the first cache holds what they read, so that further blocks of m find it there.
class Parts {
 public:
  Parts(const Facts& f, const Compute& leaf, double rows, double vectors, double steps)
      : f_(f), rows_(rows), vectors_(vectors), steps_(steps) {
    const std::size_t m = *f.nest.dim(leaf.m()), n = *f.nest.dim(leaf.n);
    blocks_ = std::ceil(static_cast<double>(f.extent[m]) / rows);
    const double element = static_cast<double>(f.stored) / model::line;
    double by_n = 0, by_m = 0, by_both = 0;
    for (const FlatAccess& read : f.nest.reads) {
      const bool in_n = stride(read, n) != 0, in_m = stride(read, m) != 0;
      (in_n ? (in_m ? by_both : by_n) : by_m) += in_n || in_m;
      if (in_n)
        (in_m ? apart_ : columns_) +=
            (in_m ? rows : 1) * (vectors * static_cast<double>(leaf.lanes) * element + blocks::torn_line);
      else if (in_m) apart_ += rows * element, torn_ += torn_lines(read, m);
    }
    held_ = std::floor(blocks::part_of_l1 * static_cast<double>(f.l1) / ((columns_ + apart_ + torn_) * model::line));
    // a vector begins anywhere in its line, so it is two
    const double loads = 2 * (by_n * vectors + by_both * rows * vectors) + by_m * rows;
    computes_ = std::max({rows * vectors * f.ops / model::pipes, loads / model::pipes, model::latency}) +
        f.unhidden * loads;
    // Squares are transposed where results lie across the lanes.
    const bool across = std::abs(stride(f.nest.target, n)) > blocks::shuffled_apart;
    stores_ = rows * vectors * blocks::tap_store +
        (across ? 2 * vectors * static_cast<double>(leaf.lanes) *
                    (blocks::load + std::log2(static_cast<double>(leaf.lanes)))
                : 0);
  }

  double held() const { return held_; }
  // Cycles of a step, for each multiply-add of a vector.
  double whole() const {
    return (together(computes_, steps_ <= held_ ? columns_ / blocks_ + apart_ : columns_ + apart_ + torn_) +
               (stores_ + blocks::start) / steps_) /
        (rows_ * vectors_);
  }
  double in_parts() const {
    return (together(computes_, columns_ / blocks_ + apart_) + (stores_ + blocks::start) / held_) / (rows_ * vectors_);
  }

 private:
  double together(double computes, double lines) const {
    return std::max(computes, lines * f_.near) + f_.exposed * std::min(computes, lines * f_.near);
  }

  // Lines of which later steps do not read the rest: of rows side by side one, of rows apart each.
  double torn_lines(const FlatAccess& read, std::size_t m) const {
    for (std::size_t d = 0; d < f_.extent.size(); ++d)
      if (f_.nest.dims[d].reduction && stride(read, d) &&
          std::abs(static_cast<double>(stride(read, d))) < model::element_of_line)
        return 0;
    return std::min(
        rows_, std::max(1.0, rows_ * static_cast<double>(std::abs(stride(read, m))) / model::element_of_line));
  }

  const Facts& f_;
  double rows_, vectors_, steps_, blocks_, columns_ = 0, apart_ = 0, torn_ = 0, held_, computes_, stores_;
};

// Rows that lie a power of two apart fall on few sets of a cache, which does not hold them then.
bool on_few_sets(const Facts& f, const FlatAccess& access, std::size_t d) {
  return stride(access, d) && stride(access, d) * f.stored % blocks::few_sets == 0;
}

// The block whose sums take least in parts, where that is clearly less than the sums of the block that was chosen take
// as they are.
void cut_sums(const Facts& f, Compute& leaf) {
  if (!f.adds || !f.squares || leaf.m().empty() || leaf.n.empty() || leaf.k.empty() || f.nest.reads.size() != 2 ||
      leaf.block()->turned != turns_sums(f, *f.nest.dim(leaf.n), f.nest.dim(leaf.m()), leaf.rows))
    return;
  const std::size_t n = *f.nest.dim(leaf.n), m = *f.nest.dim(leaf.m()), first = *f.nest.dim(leaf.k.front());
  if (f.extent[first] < f.nest.dims[first].extent) return;  // what a turn has of it is a part already
  if (on_few_sets(f, f.nest.target, m) ||
      std::any_of(f.nest.reads.begin(), f.nest.reads.end(),
          [&](const FlatAccess& read) { return stride(read, n) && on_few_sets(f, read, *f.nest.dim(leaf.k.back())); }))
    return;
  double steps = 1;
  for (const std::string& k : leaf.k) steps *= static_cast<double>(f.extent[*f.nest.dim(k)]);
  if (steps < 2 * blocks::least_of_part) return;
  const double inside = steps / static_cast<double>(f.extent[first]);
  double least = blocks::parts_less *
      Parts(f, leaf, static_cast<double>(leaf.rows), static_cast<double>(leaf.vectors), steps).whole();
  const std::int64_t all_rows = f.extent[m], all_vectors = (f.extent[n] + leaf.lanes - 1) / leaf.lanes;
  Compute best = leaf;
  const bool squares = leaf.block()->turned;
  for (std::int64_t rows = squares ? blocks::least_of_square : 1;
      rows <= std::min(all_rows, squares ? leaf.lanes : blocks::most_rows); ++rows)
    for (std::int64_t vectors = 1; vectors <= std::min(all_vectors, blocks::most_vectors); ++vectors) {
      if (rows * vectors + vectors + 1 > f.registers - 1) continue;
      const Tiles of_m = balanced(all_rows, rows), of_n = balanced(all_vectors, vectors);
      const Parts parts(f, leaf, static_cast<double>(of_m.most), static_cast<double>(of_n.most), steps);
      const double held = std::floor(parts.held() / inside);
      if (held < blocks::least_values_of_part || held * inside < blocks::least_of_part ||
          2 * held > static_cast<double>(f.extent[first]))
        continue;
      const double filled = static_cast<double>(all_rows * all_vectors) /
          static_cast<double>(of_m.count * of_m.most * of_n.count * of_n.most);
      if (const double cost = parts.in_parts() / filled; cost < least) {
        least = cost;
        best.rows = of_m.most, best.vectors = of_n.most;
        best.as<forms::Contract>()->chunk = balanced(f.extent[first], static_cast<std::int64_t>(held)).most;
      }
    }
  leaf = std::move(best);
}

}  // namespace

void sum_in_parts(const Facts& f, Compute& leaf) {
  auto* contract = leaf.as<forms::Contract>();
  if (contract->taps) return;
  if (!leaf.k.empty() && is_told(f, leaf.k.front())) {
    // Parts of what is told are as many questions. A sum that rounds is cut where another index goes first.
    const auto other = std::ranges::find_if(leaf.k, [&](const std::string& name) { return !is_told(f, name); });
    if (other == leaf.k.end() || steps_of(f, leaf) < exact_enough) return;
    std::rotate(leaf.k.begin(), other, other + 1);
  }
  if (f.adds) contract->chunk = chunk_of(f, leaf);
  cut_sums(f, leaf);
}

}  // namespace tilec::codegen
