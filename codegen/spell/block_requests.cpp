#include "codegen/spell/block_requests.h"

#include <algorithm>

#include "codegen/model/estimates.h"
#include "codegen/requests.h"

namespace tilec::codegen {

BlockRequests::BlockRequests(const SpelledLeaf& leaf) : l_(leaf) {
  if (!l_.ahead.empty()) {
    level_ = level_that_waits(l_.nest, l_.compute).value_or(l_.k.size());
    by_block_ = asks_by_block(l_.nest, l_.compute);
    taps_around_ = taps_around(l_.nest, l_.compute);
  }
  for (std::size_t r = 0; r < l_.nest.reads.size(); ++r)
    by_stream_.push_back(asks_by_stream(l_.nest, l_.compute, l_.nest.reads[r], l_.bytes_of(r)));
}

Body BlockRequests::claimed(const BlockPlace& at, Body& later) const {
  if (!l_.block.claims) return {};
  const std::string view = l_.names.fresh("w");
  Body body{stmt(View{view, l_.storage.name(l_.nest.target.tensor), at.corner(target_access, l_.nest.target.offset)})};
  const std::int64_t further = further_on(at, l_.nest.target.offset);
  Body lines;
  for (const std::int64_t offset : lines_of_step(l_.nest.target.offset, l_.m, at.tile.blocked_m ? at.tile.rows : 1,
           l_.n, at.tile.blocked_n ? at.tile.vectors * l_.compute.lanes : 1, lang::bytes(l_.target_type)))
    lines.push_back(stmt(Prefetch{view, Expr(offset + further), true}));
  if (further) append(later, std::move(lines));  // of a later block: among the stores
  else append(body, std::move(lines));
  return body;
}

Body BlockRequests::before_block(const BlockPlace& at, std::size_t folded_from) const {
  Body body;
  if (!by_block_) return body;
  for (std::size_t r = 0; r < l_.nest.reads.size(); ++r) {
    if (by_stream_[r] || !leaves_cache(l_.nest, l_.nest.reads[r], l_.bytes_of(r)) || in_turn(at, r)) continue;
    Body asking = asked_from_corner(at, r, folded_from);
    if (asking.size() <= model::ahead::most_of_block + 1) append(body, std::move(asking));  // and its view
  }
  return body;
}

Body BlockRequests::outside(const BlockPlace& at, std::size_t level) const {
  Body body;
  if (l_.ahead.empty() || level_ != level) return body;
  for (std::size_t r = 0; r < l_.nest.reads.size(); ++r)
    if (!by_stream_[r] && asks_for(l_.nest, l_.compute, l_.nest.reads[r], l_.k[level], l_.bytes_of(r)) &&
        !in_turn(at, r))
      append(body, asked_from_corner(at, r, level + 1));
  return body;
}

Body BlockRequests::by_step(
    const BlockPlace& at, const Views& views, std::size_t d, const Expr& u, const Expr& index) const {
  Body body;
  if (l_.ahead.empty()) return body;
  const auto asks = [&](std::size_t r) {
    return by_stream_[r] ||
        (level_ + 1 == l_.k.size() && asks_for(l_.nest, l_.compute, l_.nest.reads[r], d, l_.bytes_of(r)));
  };
  for (std::size_t r = 0; r < l_.nest.reads.size(); ++r) {
    if (!first_of_view(views, r)) continue;
    const Expr moved = u * Expr(l_.nest.reads[r].offset.coefficients[d]);
    append(body, asks(r) ? asked(at, r, views[r], moved, l_.k.size()) : asked_in_turn(at, views, r, moved, index));
  }
  return body;
}

Body BlockRequests::by_block(const BlockPlace& at, const Views& views) const {
  Body body;
  if (l_.ahead.empty()) return body;
  for (std::size_t r = 0; r < l_.nest.reads.size(); ++r)
    if (first_of_view(views, r) && leaves_cache(l_.nest, l_.nest.reads[r], l_.bytes_of(r)))
      append(body, asked(at, r, views[r], Expr(std::int64_t{0}), l_.k.size()));
  return body;
}

// Asks for what is read later of operand r, whose view stands at this block and step, less `moved`; of the reductions
// from `level` on all values.
Body BlockRequests::asked(
    const BlockPlace& at, std::size_t r, const std::string& view, const Expr& moved, std::size_t level) const {
  const Form& f = l_.nest.reads[r].offset;
  const std::int64_t further = further_on(at, f, !by_block_ || by_stream_[r]);
  if (!further) return {};
  std::vector<std::pair<std::size_t, std::int64_t>> inner;
  for (std::size_t l = level; l < l_.k.size(); ++l) inner.emplace_back(l_.k[l], l_.nest.dims[l_.k[l]].extent);
  Body body;
  if (!reads_little(f, inner)) return body;
  const bool stream = is_stream(l_.nest, l_.compute, l_.nest.reads[r], l_.bytes_of(r));
  const auto by_step = std::ranges::find(l_.k, goes_by(f, !by_block_ || by_stream_[r])->first);
  const std::int64_t all = at.tile.blocked_m ? at.tile.rows : 1;
  const RowsOfStep rows = by_step == l_.k.end() || by_block_ ? RowsOfStep{0, all} : new_rows(f, l_.m, all, *by_step);
  for (const std::int64_t offset : lines_of_step(f, l_.m, rows.count, l_.n,
           at.tile.blocked_n ? at.tile.vectors * l_.compute.lanes : 1, l_.bytes_of(r), inner, rows.first))
    body.push_back(stmt(Prefetch{view, Expr(offset + further) + moved, false, stream}));
  return body;
}

Body BlockRequests::asked_in_turn(
    const BlockPlace& at, const Views& views, std::size_t r, const Expr& moved, const Expr& index) const {
  const std::optional<InTurn> found = in_turn(at, r);
  if (!found) return {};
  const Form& f = l_.nest.reads[r].offset;
  const std::int64_t steps = found->steps, rows = found->count;
  std::int64_t each = 1;                             // rows of a step
  while (each * steps < rows) each *= 2;
  const Expr turn = index - floor_divide(index, steps) * Expr(steps);
  Body body;
  for (std::int64_t j = 0; j < each; ++j) {
    const Expr row = floor_divide((turn * Expr(each) + Expr(j)) * Expr(rows), steps * each);
    body.push_back(
        stmt(Prefetch{views[r], row * Expr(f.coefficients[found->along]) + Expr(further_on(at, f, false)) + moved}));
  }
  return body;
}

// The same from the block's corner, where no view stands.
Body BlockRequests::asked_from_corner(const BlockPlace& at, std::size_t r, std::size_t level) const {
  const std::string view = l_.names.fresh("x");
  Body asking = asked(at, r, view, Expr(std::int64_t{0}), level);
  if (asking.empty()) return asking;
  Body body{stmt(View{view, l_.storage.name(l_.nest.reads[r].tensor), at.corner(r, l_.nest.reads[r].offset)})};
  append(body, std::move(asking));
  return body;
}

// The steps of the innermost reduction ask in turn for what is read later. None: whoever asks does so for all lines
// at once, or for none where they are many.
std::optional<InTurn> BlockRequests::in_turn(const BlockPlace& at, std::size_t r) const {
  const auto* by = goes_by(l_.nest.reads[r].offset, false);
  if (by == nullptr) return std::nullopt;
  const std::optional<InTurn> made = codegen::in_turn(l_.nest, l_.compute, l_.nest.reads[r], by->first, at.tile.rows,
      at.tile.vectors * l_.compute.lanes, l_.bytes_of(r));
  const auto blocked = [&] { return static_cast<int>(made->along) == l_.m ? at.tile.blocked_m : at.tile.blocked_n; };
  return made && blocked() &&
          (!by_block_ ||
              static_cast<double>(made->lines) * static_cast<double>(by->second) <= model::ahead::most_lines_between)
      ? made
      : std::nullopt;
}

// What the access goes ahead by, the innermost steps counted or not.
const std::pair<std::size_t, std::int64_t>* BlockRequests::goes_by(const Form& f, bool steps) const {
  for (const auto& one : l_.ahead)
    if (f.coefficients[one.first] && (steps || one.first != l_.k.back() || taps_around_ == l_.k.size())) return &one;
  return nullptr;
}

// How far the elements that are asked for lie behind those that are read.
std::int64_t BlockRequests::further_on(const BlockPlace& at, const Form& f, bool steps) const {
  const auto* by = goes_by(f, steps);
  if (!by) return 0;
  const auto& [d, count] = *by;
  const bool is_m = at.tile.blocked_m && static_cast<int>(d) == l_.m,
             is_n = at.tile.blocked_n && static_cast<int>(d) == l_.n;
  return f.coefficients[d] * count * (is_m ? at.tile.rows : is_n ? at.tile.vectors * l_.compute.lanes : 1);
}

}  // namespace tilec::codegen
