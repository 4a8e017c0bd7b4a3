#include "codegen/choose/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "codegen/choose/refetched.h"
#include "codegen/model/estimates.h"
#include "codegen/model/sums.h"
#include "codegen/model/thresholds.h"
#include "codegen/ragged.h"
#include "codegen/strip.h"

namespace tilec::codegen {

namespace {

namespace blocks = model::blocks;

// An access that blocks of m may turn: side by side along m, apart along n.
bool turns(const FlatAccess& access, std::size_t n, std::size_t m) {
  return stride(access, m) == 1 && std::abs(stride(access, n)) > 1;
}

bool is_strip(const FlatAccess& access, std::size_t n, std::size_t m, std::int64_t rows, std::int64_t lanes) {
  return codegen::is_strip(stride(access, m), stride(access, n), rows, lanes);
}

bool joined(const Facts& f, std::size_t n, std::optional<std::size_t> m) {
  const std::vector<std::size_t> taps = taps_of(f, n, m);
  return taps.size() == 1 && goes_at_once(f.nest, f.extent, taps[0]);
}

// What blocks of one form cost, with lanes over n and rows of m.
class BlockCosts {
 public:
  BlockCosts(const Facts& f, std::size_t n, std::optional<std::size_t> m, BlockForm form)
      : f_(f),
        n_(n),
        m_(m),
        form_(form),
        lanes_(lanes_for(f, f.extent[n])),
        all_vectors_((f.extent[n] + lanes_ - 1) / lanes_),
        all_rows_(m ? f.extent[*m] : 1),
        scattered_(std::abs(stride(f.nest.target, n)) > 1) {
    for (std::size_t d = 0; d < f.extent.size(); ++d) {
      if (f.nest.dims[d].reduction) steps_ *= static_cast<double>(f.extent[d]);
      else if (d != n && d != m && !f.fixed[d]) others_ *= static_cast<double>(f.extent[d]);
    }
    if (form == BlockForm::Taps) {
      const auto taps = static_cast<double>(passes_of_taps(f.nest, f.extent, taps_of(f, n, m)));
      steps_ /= taps;
      others_ *= taps;
    }
    for (const FlatAccess& read : f.nest.reads) count(read);
    see_borders();
  }

  RegisterBlock best(std::int64_t least_vectors) const {
    const bool apart = scattered_ || !gathered_.empty(), turned = form_ == BlockForm::Turned;
    const std::int64_t most_rows =
        turned ? std::min(all_rows_, lanes_) : std::min(all_rows_, apart ? blocks::most_rows_apart : blocks::most_rows);
    const std::int64_t most_vectors = std::min<std::int64_t>(all_vectors_, turned ? 1 : blocks::most_vectors);
    RegisterBlock best;
    std::pair<Tiles, bool> last{};
    for (std::int64_t rows = turned ? most_rows : 1; rows <= most_rows; ++rows) {
      if (!has_room(rows, least_vectors)) break;
      if (steps_ <= 1 && rows > 1 && !by_n_ && !apart) break;  // nothing is reused: plain rows
      const Tiles of_m = tiles_of_m(rows);
      const bool squares = through_squares(rows);
      // As even as they are, more rows or vectors make the same blocks again.
      if (std::pair now{of_m, squares}; now == std::exchange(last, now)) continue;
      Tiles last_of_n{};
      for (std::int64_t vectors = least_vectors; vectors <= most_vectors && has_room(rows, vectors); ++vectors) {
        const Tiles of_n = balanced(all_vectors_, vectors);
        if (of_n == std::exchange(last_of_n, of_n)) continue;
        const double cost = of_leaf(of_m, of_n, squares);
        // wider strips
        const bool tie = cost < best.cost * (1 + blocks::tie) && of_m.most == best.rows && of_n.most > best.vectors;
        if (cost < best.cost * (1 - blocks::tie) || tie) best = {of_m.most, of_n.most, cost, form_};
      }
    }
    if (steps_ > 1 && f_.nest.reads.size() > 1 && std::isfinite(best.cost)) {
      best.again = Refetched(f_, n_, m_, best.rows, best.vectors).cycles();
      best.cost += best.again;
    }
    return best;
  }

 private:
  void count(const FlatAccess& read) {
    const bool in_n = stride(read, n_) != 0, in_m = m_ && stride(read, *m_) != 0;
    (in_n ? (in_m ? by_both_ : by_n_) : by_m_) += in_n || in_m;
    if (in_n && std::abs(stride(read, n_)) > blocks::shuffled_apart) gathered_.push_back(&read);
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t d = 0; d < f_.extent.size(); ++d)
      if (f_.nest.dims[d].reduction && stride(read, d)) least = std::min(least, std::abs(stride(read, d)));
    paged_ += in_n && least != std::numeric_limits<std::int64_t>::max() && least >= blocks::pages_apart;
  }

  // A vector at the border has a mask; one value of the taps reaches half of the border.
  void see_borders() {
    const double inside_n = interior(f_, n_), inside = m_ ? interior(f_, *m_) : 1;
    ragged_ = form_ == BlockForm::Plain && inside < 1 && f_.squares && !turns(f_.nest.target, n_, *m_) &&
        has_ragged_blocks(f_.nest, *m_);
    const double inside_m = ragged_ ? 1 : inside;
    if (form_ != BlockForm::Taps) {
      inside_ = inside_m;
      masked_ = 1 - inside_n;
    } else if (!joined(f_, n_, m_)) {
      of_lanes_ = (1 + inside_n) / 2 * (m_ ? (1 + inside_m) / 2 : 1);
    }
  }

  // Registers for its sums and operands, and no more code than a kernel should have.
  bool has_room(std::int64_t rows, std::int64_t vectors) const {
    return rows * vectors + by_n_ * vectors + (by_both_ ? 2 : 0) + (by_m_ ? 1 : 0) <= f_.registers - 1 &&
        (rows * vectors <= 1 || static_cast<double>(rows * vectors * f_.ops) <= blocks::spelled_out);
  }

  Tiles tiles_of_m(std::int64_t rows) const {
    const double inside = std::max(1.0, std::round(static_cast<double>(all_rows_) * inside_));
    Tiles tiles = balanced(static_cast<std::int64_t>(inside), rows);
    if (form_ == BlockForm::Turned) tiles.most = rows;
    return tiles;
  }

  // Whether results are transposed on their way.
  bool through_squares(std::int64_t rows) const {
    return form_ == BlockForm::Turned ? rows > 1 && turns(f_.nest.target, n_, *m_) : turns_sums(f_, n_, m_, rows);
  }

  // A square has a load and log2(lanes) shuffles for each of its rows; a strip a load and its shuffles.
  double square(const FlatAccess& access, double r) const {
    const auto rows = static_cast<std::int64_t>(r);
    return is_strip(access, n_, *m_, rows, lanes_)
        ? r * (blocks::load + static_cast<double>(strip_shuffles(rows)))
        : static_cast<double>(lanes_) * (blocks::load + std::log2(static_cast<double>(lanes_)));
  }

  // A gather touches a cache line per lane; the next rows find them again when m has unit stride there.
  double apart_cycles(const FlatAccess& access, double r, double v) const {
    if (form_ == BlockForm::Turned && r > 1 && turns(access, n_, *m_)) return square(access, r) * v;
    const bool again = m_ && std::abs(stride(access, *m_)) == 1;
    const double vectors = m_ && stride(access, *m_) != 0 ? r * v : v;
    return vectors * static_cast<double>(lanes_) *
        (blocks::load + blocks::line_of_lane / (again ? std::min(r, model::element_of_line) : 1.0));
  }

  double gather_cycles(double r, double v) const {
    double cycles = 0;
    for (const FlatAccess* access : gathered_) cycles += apart_cycles(*access, r, v);
    return cycles;
  }

  // Cycles of a block of r rows by v vectors over all steps of the reduction; `of_mask`: of each step.
  double of_block(double r, double v, bool squares, double of_mask = 0) const {
    const double loads = by_n_ * v + by_m_ * r + by_both_ * r * v;
    const double streamed = by_n_ * v + by_both_ * r * v;
    const double panel = streamed * static_cast<double>(lanes_) * 4 * steps_ > blocks::panel_of_l1
        ? blocks::vector_of_l2 * streamed
        : 0;
    const double step = of_mask +
        std::max(std::max(r * v * f_.ops / model::pipes, loads / model::pipes),
            std::max(panel, f_.ops ? model::latency : 1.0));
    const double spread = squares ? square(f_.nest.target, r) * v
        : scattered_ ? apart_cycles(f_.nest.target, r, v) + r * v * static_cast<double>(lanes_) * blocks::scattered
                     : 0.0;
    const double stores = form_ == BlockForm::Taps ? blocks::tap_store : 1;
    const double each =
        step + blocks::of_load * loads + (m_ ? 0.0 : blocks::paged_row) * paged_ + gather_cycles(r, v);
    const double asked = ragged_ && r > 1 ? asked_steps(f_.nest, *m_, r) * (2 * r + v) * model::question : 0;
    return steps_ * left(f_, n_, m_, r, v) * each + asked + spread + stores * r * v + blocks::start;
  }

  // Cycles of all blocks.
  double of_leaf(const Tiles& of_m, const Tiles& of_n, bool squares) const {
    const auto rows = static_cast<double>(of_m.most), vectors = static_cast<double>(of_n.most);
    const double border = inside_ == 1 ? 0
                                       : static_cast<double>(all_rows_) * (1 - inside_) *
            static_cast<double>(of_n.count) * of_block(1, vectors, squares);
    const double whole =
        static_cast<double>(of_m.count) * static_cast<double>(of_n.count) * of_block(rows, vectors, squares) + border;
    // Vectors at the border go one at a time.
    const double at_border = masked_ > 0
        ? static_cast<double>(of_m.count * all_vectors_) * of_block(rows, 1, squares, blocks::mask)
        : 0;
    return others_ * (of_lanes_ * (1 - masked_) * whole + masked_ * at_border);
  }

  const Facts& f_;
  std::size_t n_;
  std::optional<std::size_t> m_;
  BlockForm form_;
  std::int64_t lanes_, all_vectors_, all_rows_;        // all: of n, and of m
  bool scattered_;                                     // lanes of the target lie apart
  bool ragged_ = false;                                // rows of a block have ranges of their own
  double steps_ = 1, others_ = 1;                      // of the reduction; blocks like one of n and m
  int by_n_ = 0, by_m_ = 0, by_both_ = 0;              // reads that depend on n alone, on m alone, on both
  std::vector<const FlatAccess*> gathered_;
  int paged_ = 0;                                      // operands whose rows lie pages apart: they cost their start,
                                                       // however wide a strip is read; blocks of m read them from the
                                                       // cache
  double inside_ = 1, masked_ = 0, of_lanes_ = 1;      // of rows, those without a border; of vectors, those with a
                                                       // mask; of lanes, those that one value of the taps reaches
};

// Lanes over n and no rows.
RegisterBlock without_rows(const Facts& f, std::size_t n) {
  const RegisterBlock plain = best_block(f, n, std::nullopt, BlockForm::Plain);
  if (!may_tap(f, n, std::nullopt)) return plain;
  const RegisterBlock taps = best_block(f, n, std::nullopt, BlockForm::Taps);
  return taps.cost < (joined(f, n, std::nullopt) ? model::clearly_less : blocks::much_less) * plain.cost ? taps : plain;
}

}  // namespace

RegisterBlock best_block(
    const Facts& f, std::size_t n, std::optional<std::size_t> m, BlockForm form, std::int64_t least_vectors) {
  return BlockCosts(f, n, m, form).best(least_vectors);
}

std::pair<std::optional<std::size_t>, RegisterBlock> choose_block(
    const Facts& f, std::size_t n, std::vector<Weighed>& weighed) {
  const auto name = [&](std::size_t d) { return f.nest.dims[d].name; };
  std::optional<std::size_t> m;
  RegisterBlock block = without_rows(f, n);
  weighed.push_back({name(n), "", 1, block.vectors, block.cost});
  each_block(f, n, [&](std::size_t d, const RegisterBlock& with) {
    weighed.push_back({name(n), name(d), with.rows, with.vectors, with.cost});
    const bool first_taps = with.form == BlockForm::Taps && block.form != BlockForm::Taps;
    // Rows of one dimension fetch alike, however they are read.
    const double now = m == d ? with.cost - with.again : with.cost,
                 before = m == d ? block.cost - block.again : block.cost;
    if (now < before * (first_taps ? joined(f, n, d) ? model::clearly_less : blocks::much_less : blocks::less))
      block = with, m = d;
  });
  return {m, block};
}

void each_block(
    const Facts& f, std::size_t n, const std::function<void(std::size_t m, const RegisterBlock& block)>& weigh) {
  for (const bool taps : {false, true})
    for (std::size_t d = f.extent.size(); d-- > 0;) {
      if (d == n || f.fixed[d] || f.nest.dims[d].reduction || f.extent[d] < 2 || share_row(f.nest, d, n)) continue;
      if (taps) {
        if (may_tap(f, n, d)) weigh(d, best_block(f, n, d, BlockForm::Taps));
        continue;
      }
      weigh(d, best_block(f, n, d, BlockForm::Plain));
      if (may_turn(f, n, d)) weigh(d, best_block(f, n, d, BlockForm::Turned));
    }
}

void order_blocks(const Facts& f, std::size_t n, std::optional<std::size_t> m, RegisterBlock& block) {
  if (f.from_memory == 0) return;
  block.torn = Refetched(f, n, m, block.rows, block.vectors).torn();
  block.cost += block.torn;
  if (!m || block.form != BlockForm::Plain) return;
  const Refetched outside(f, n, m, block.rows, block.vectors, true);
  const double again = outside.cycles(), torn = outside.torn(),
               cost = block.cost - block.again - block.torn + again + torn;
  if (cost < blocks::less * block.cost)
    block.cost = cost, block.again = again, block.torn = torn, block.rows_outside = true;
}

bool may_turn(const Facts& f, std::size_t n, std::size_t m) {
  const auto can = [&](const FlatAccess& access) { return turns(access, n, m); };
  return f.squares && lanes_for(f, f.extent[n]) >= 4 &&
      (can(f.nest.target) || std::any_of(f.nest.reads.begin(), f.nest.reads.end(), can));
}

bool may_tap(const Facts& f, std::size_t n, std::optional<std::size_t> m) {
  if (!f.adds || !f.squares || f.nest.rows.empty()) return false;
  const std::vector<std::size_t> taps = taps_of(f, n, m);
  return !taps.empty() &&
      (passes_of_taps(f.nest, f.extent, taps) <= blocks::few_taps || joined(f, n, m)) && !outputs_share_rows(f.nest);
}

std::vector<std::size_t> taps_of(const Facts& f, std::size_t n, std::optional<std::size_t> m) {
  std::vector<std::size_t> taps;
  for (std::size_t d = 0; d < f.extent.size(); ++d)
    if (f.nest.dims[d].reduction && (share_row(f.nest, d, n) || (m && share_row(f.nest, d, *m)))) taps.push_back(d);
  return taps;
}

bool turns_sums(const Facts& f, std::size_t n, std::optional<std::size_t> m, std::int64_t rows) {
  return m && f.squares && turns(f.nest.target, n, *m) && rows <= lanes_for(f, f.extent[n]) &&
      (rows >= blocks::least_of_square || is_strip(f.nest.target, n, *m, rows, lanes_for(f, f.extent[n]))) &&
      std::any_of(f.nest.dims.begin(), f.nest.dims.end(), [](const Dim& d) { return d.reduction; }) &&
      std::none_of(
          f.nest.reads.begin(), f.nest.reads.end(), [&](const FlatAccess& read) { return turns(read, n, *m); });
}

}  // namespace tilec::codegen
