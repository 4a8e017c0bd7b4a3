#include "codegen/model/core.h"

#include <algorithm>
#include <cmath>

#include "codegen/model/estimates.h"
#include "codegen/model/sums.h"
#include "codegen/model/thresholds.h"
#include "codegen/product.h"
#include "codegen/ragged.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"
#include "codegen/sort.h"
#include "codegen/strip.h"

namespace tilec::codegen::model {

namespace {

constexpr double block_start = 10;                     // cycles around a block: addresses, loop, first loads
constexpr double map_start = 3;                         // the same where nothing is folded, so that no block waits for
                                                        // another: copies of 4 elements took 3.5
constexpr double partial_sums = 1.5;                   // additions, one after another, of the elements that a scan
                                                       // takes at once
constexpr double branch_of_row = 1;                    // cycles of a loop over one value
// Cycles of a step to find which lanes a row of the domain leaves, and to begin and end loops of them. Zen 5, lanes 3
// elements apart: 50 of 60.
constexpr double border_of_fold = 40;
constexpr double selected_element = 2;                  // cycles of one that is not among the first few
constexpr double found = 10;                           // cycles: a row found by its number

class Core {
 public:
  Core(const poly::Program& program, const Known& statement, const Compute& leaf, const Walk& walk,
      const Machine& machine)
      : program_(program),
        nest_(statement.nest),
        conditions_(statement.conditions),
        leaf_(leaf),
        walk_(walk),
        machine_(machine),
        n_(nest_.dim(leaf.n)),
        m_(nest_.dim(leaf.m())),
        operations_(statement.operations) {
    const Nest& nest = nest_;
    bytes_ = nest.value ? static_cast<double>(lang::bytes(compute_type(nest.value->type()))) : 4;
    const auto* product = nest.value ? nest.value->as<poly::Apply>() : nullptr;
    const bool fused = nest.aggregation == Aggregation::Sum && product && product->op == lang::Op::Mul &&
        lang::is_float(nest.value->type());
    if (folds() && nest.value && !fused)
      operations_ += has_scale(nest.aggregation, compute_type(nest.value->type())) ? factor_operations : 1;
  }

  double cycles() const {
    if (leaf_.is<forms::Sort>()) return sort();
    if (leaf_.is<forms::Gather>() || leaf_.is<forms::Scatter>()) return rows_found();
    return leaf_.is<forms::Scan>() ? scan() : leaf_.is<forms::Reduce>() ? reduce() : blocks();
  }

 private:
  bool folds() const { return std::ranges::any_of(nest_.dims, &Dim::reduction); }
  double points() const {
    double count = 1;
    for (const Dim& dim : nest_.dims) count *= static_cast<double>(dim.extent);
    return count;
  }
  // An element that is not among the first few is compared once.
  double sort() const {
    const auto length = static_cast<std::int64_t>(rows());
    const bool few = few_places(places_read(program_, nest_.target.tensor), length);
    return points() * (few ? selected_element : sorted_element * std::log2(std::max(2.0, rows())));
  }
  // that the index chooses among, or that are sorted
  double rows() const { return static_cast<double>(nest_.dims[*nest_.dim("v")].extent); }

  // A row is found by a number, and copied; of a Scatter, sums are cleared first.
  double rows_found() const {
    const double all = points() / std::max(1.0, rows());
    const bool along = !leaf_.n.empty() && leaf_.n.front() == 'r';
    const double across = along ? static_cast<double>(std::max<std::int64_t>(1, leaf_.lanes)) : 1;
    return all / across * (along ? 1 : machine_.gathered) + all * (found / std::max(1.0, rest()));
  }
  double rest() const {                                // elements of a row
    double count = 1;
    for (const Dim& dim : nest_.dims) if (dim.name.front() == 'r') count *= static_cast<double>(dim.extent);
    return count;
  }
  std::int64_t stride(const FlatAccess& access, std::optional<std::size_t> d) const {
    return d ? access.offset.coefficients[*d] : 0;
  }
  double width(const FlatAccess& access) const {
    return static_cast<double>(std::max<std::int64_t>(1, leaf_.lanes)) *
        std::max(4.0, static_cast<double>(lang::bytes(program_.tensor(access.tensor).dtype)));
  }

  // Cycles of one vector multiply-add on as many lanes as the leaf has, at most one where they are few.
  double operation() const {
    return std::max(machine_.pipe, static_cast<double>(leaf_.lanes) * std::max(4.0, bytes_)) / machine_.arithmetic;
  }

  // Cycles to load or store one vector of an access. `per_cycle`: bytes of those that lie side by side.
  double vector(const FlatAccess& access, double per_cycle) const {
    const std::int64_t apart = std::abs(stride(access, n_));
    const double whole = std::max(machine_.pipe, width(access)) / per_cycle;
    if (apart == 1) return whole * torn(access);
    if (apart == 0) return whole;
    if (m_ && leaf_.block() && leaf_.block()->turned && std::abs(stride(access, m_)) == 1) {
      if (is_strip(stride(access, m_), stride(access, n_), leaf_.rows, leaf_.lanes))
        return whole * torn(access) + static_cast<double>(strip_shuffles(leaf_.rows)) * operation();
      // A square of fewer rows than lanes is as many loads or stores as lanes all the same.
      const double lanes = static_cast<double>(leaf_.lanes);
      return (whole + std::log2(lanes) * operation()) * lanes /
          static_cast<double>(std::max<std::int64_t>(1, leaf_.rows));
    }
    if (apart <= 4 && &access != &nest_.target) return 2 * static_cast<double>(apart) * whole;
    return (&access == &nest_.target ? machine_.scattered : machine_.gathered) * static_cast<double>(leaf_.lanes);
  }

  // Lines that what one load takes lies in: half of what a cycle loads. Callers' memory begins anywhere, and so do rows
  // whose length is no multiple of a vector.
  double torn(const FlatAccess& access) const {
    const bool ours = std::ranges::find(program_.inputs, access.tensor) == program_.inputs.end() &&
        std::ranges::find(program_.outputs, access.tensor) == program_.outputs.end();
    bool aligned = ours && access.offset.constant % leaf_.lanes == 0;
    for (std::size_t d = 0; d < nest_.dims.size(); ++d)
      aligned = aligned && (d == n_ || access.offset.coefficients[d] % leaf_.lanes == 0);
    return aligned ? 1
                   : 1 +
            (std::min(width(access), machine_.loads / 2) -
                static_cast<double>(lang::bytes(program_.tensor(access.tensor).dtype))) /
                line;
  }

  std::vector<bool> which_reduce() const {
    std::vector<bool> which;
    for (const Dim& dim : nest_.dims) which.push_back(dim.reduction);
    return which;
  }
  bool moves_with(const FlatAccess& access, bool reductions) const {
    for (std::size_t d = 0; d < nest_.dims.size(); ++d)
      if (nest_.dims[d].reduction == reductions && access.offset.coefficients[d] != 0) return true;
    return false;
  }

  // Loads of one step of a block of r x v.
  double loads(double r, double v, bool of_every_step) const {
    double cycles = 0;
    for (const FlatAccess& read : nest_.reads) {
      if (folds() && moves_with(read, true) != of_every_step) continue;
      const bool in_n = stride(read, n_) != 0, in_m = m_ && stride(read, m_) != 0;
      cycles += vector(read, machine_.loads) * (in_n ? v : 1) * (in_m ? r : 1);
    }
    return cycles;
  }

  double blocks() const {
    const double lanes = static_cast<double>(std::max<std::int64_t>(1, leaf_.lanes));
    double outside = 1, steps = 1, visits = 1;
    for (std::size_t d = 0; d < nest_.dims.size(); ++d) {
      const auto extent = static_cast<double>(nest_.dims[d].extent);
      if (nest_.dims[d].reduction) steps *= extent;
      else if (d != n_ && d != m_) outside *= extent;
    }
    const auto* contract = leaf_.as<forms::Contract>();
    if (contract && !leaf_.k.empty() && contract->chunk > 0)
      visits *= std::ceil(
          static_cast<double>(nest_.dims[*nest_.dim(leaf_.k.front())].extent) / static_cast<double>(contract->chunk));
    if (contract && contract->taps > 0) {
      std::vector<std::size_t> taps;
      for (std::int64_t t = 0; t < contract->taps; ++t)
        taps.push_back(*nest_.dim(leaf_.k[static_cast<std::size_t>(t)]));
      visits *= static_cast<double>(passes_of_taps(nest_, walk_.boxes[0], taps));
    }
    const double rows = m_ ? extent_in_turn(*m_) : 1, of_m = std::ceil(rows / static_cast<double>(leaf_.rows)),
                 all_m = m_ ? of_m * turns(*m_) : 1;
    const double columns = n_ ? std::ceil(extent_in_turn(*n_) / lanes) : 1,
                 of_n = std::ceil(columns / static_cast<double>(leaf_.vectors)), all_n = n_ ? of_n * turns(*n_) : 1;
    const double r = rows / of_m, v = columns / of_n;
    const auto step_of = [&](double rows_of_block, double vectors) {
      return std::max({rows_of_block * vectors * operations_ * operation(), loads(rows_of_block, vectors, true),
          folds() && operations_ > 0 ? machine_.step : 0.0});
    };
    const bool exact = contract && contract->taps > 0;  // of such sums every block has exact bounds
    const std::vector<bool> reductions = which_reduce();
    const double inside = m_ && !exact ? interior_part(nest_, walk_.boxes[0], *m_, reductions) : 1;
    const bool ragged =
        contract && inside < 1 && leaf_.rows > 1 && !contract->turned && has_ragged_blocks(nest_, *m_);
    const double inside_m = ragged ? 1 : inside,
                 inside_n = n_ && !exact ? interior_part(nest_, walk_.boxes[0], *n_, reductions) : 1;
    // At a border of m rows go one at a time; at one of n vectors do, with masks, whatever part of them is left.
    const double at_border = inside_m < 1 ? (1 - inside_m) * r * step_of(1, v) : 0;
    const double step = (inside_m * step_of(r, v) + at_border) * walk_.filled * inside_n +
        (1 - inside_n) * v * (step_of(r, 1) + blocks::mask);
    const double once = folds() ? loads(r, v, false) : 0;
    const double stores = r * v * vector(nest_.target, machine_.stores) * (visits > 1 ? 2 : 1);
    const double asked = ragged ? asked_steps(nest_, *m_, r) * (2 * r + v) * model::question : 0;
    const double begins = once + stores + (folds() ? block_start : map_start);
    return outside * all_m * all_n * (steps * left(r, v) * step + asked + visits * begins);
  }

  // The part of the steps that conditions leave.
  double left(double r, double v) const {
    return conditions_.empty() ? 1 : left_by(conditions_, nest_, n_, m_, r, r * v * operations_);
  }

  // Blocks of rows of m: what does not move with m is loaded once for all of them, and their lanes are folded together.
  double reduce() const {
    double outputs = 1, steps = 1;
    for (std::size_t d = 0; d < nest_.dims.size(); ++d) {
      if (d == n_ || d == m_) continue;
      (nest_.dims[d].reduction ? steps : outputs) *= static_cast<double>(nest_.dims[d].extent);
    }
    const auto lanes = static_cast<double>(std::max<std::int64_t>(1, leaf_.lanes)),
               v = static_cast<double>(std::max<std::int64_t>(1, leaf_.vectors));
    const double rows = m_ ? extent_in_turn(*m_) : 1, blocks = std::ceil(rows / static_cast<double>(leaf_.rows)),
                 r = rows / blocks, all = m_ ? outputs * blocks * turns(*m_) : outputs;
    const double vectors = n_ ? std::ceil(static_cast<double>(nest_.dims[*n_].extent) / lanes) : 1;
    const double step = std::max({r * operations_ * operation(), loads(r, 1, true), machine_.step / v});
    const double fold = r > 1 ? r * (blocks::fold_of_row * operation() + (v - 1) * operation()) +
            blocks::fold_of_lanes / 2 + (std::abs(stride(nest_.target, m_)) > 1 ? r * machine_.gathered : 0)
                              : blocks::fold_of_lanes;
    const double at_border =
        n_ ? 1 - interior_part(nest_, walk_.boxes[0], *n_, std::vector<bool>(nest_.dims.size(), true)) : 0;
    return walk_.filled * all * steps * left(r, 1) * (vectors * step + branch_of_row * v) +
        at_border * all * steps * border_of_fold + all * (fold + block_start);
  }

  // One element after the other; lanes of another dimension go side by side.
  double scan() const {
    double elements = 1;
    for (std::size_t d = 0; d < nest_.dims.size(); ++d)
      if (!nest_.dims[d].reduction) elements *= static_cast<double>(nest_.dims[d].extent);
    const auto rows = static_cast<double>(std::max<std::int64_t>(1, leaf_.rows));
    if (!n_) return elements * (partial_sums * machine_.step + operations_ * operation()) / rows;
    const double vectors = elements / static_cast<double>(nest_.dims[*n_].extent) *
        std::ceil(static_cast<double>(nest_.dims[*n_].extent) / static_cast<double>(leaf_.lanes));
    return vectors *
        std::max(
            {operations_ * operation(), loads(1, 1, true) + loads(1, 1, false) + vector(nest_.target, machine_.stores),
                machine_.step / static_cast<double>(leaf_.vectors)});
  }

  double turns(std::size_t d) const {
    double count = 1;
    for (std::size_t l = 0; l < walk_.shared; ++l) if (walk_.loops[l].dims.front() == d) count *= walk_.loops[l].count;
    return count;
  }
  double extent_in_turn(std::size_t d) const { return static_cast<double>(walk_.boxes[walk_.shared][d]); }

  const poly::Program& program_;
  const Nest& nest_;
  const std::vector<Condition>& conditions_;
  const Compute& leaf_;
  const Walk& walk_;
  const Machine& machine_;
  std::optional<std::size_t> n_, m_;
  double bytes_ = 4, operations_;
};

}  // namespace

double core_cycles(const poly::Program& program, const Known& statement, const Compute& leaf, const Walk& walk,
    const Machine& machine) {
  if (box_points(statement.nest) == 0) return 0;
  return Core(program, statement, leaf, walk, machine).cycles();
}

}  // namespace tilec::codegen::model
