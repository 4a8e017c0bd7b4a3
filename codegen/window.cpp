#include "codegen/window.h"

#include <algorithm>

#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/product.h"
#include "codegen/rewrite.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using poly::Affine;
using poly::Program;
using poly::Range;
using poly::Size;
using poly::Statement;

std::int64_t floor_of(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

// The first and the last k of element j = 0, both ends from their own row.
struct Ends {
  std::optional<std::int64_t> first, last;
  bool plain = true;                                   // one row each, and steps of 1
};

Ends ends_of(const std::vector<Form>& halves, std::size_t along, std::size_t over, bool down, std::int64_t values) {
  Ends ends;
  for (const Form& half : halves) {
    std::int64_t k = half.coefficients[over], constant = half.constant;
    const std::int64_t j = half.coefficients[along];
    if (!j || !k) continue;
    if (down) constant += k * (values - 1), k = -k;
    if (j != -k || std::abs(j) != 1) ends.plain = false;
    std::optional<std::int64_t>& end = k < 0 ? ends.last : ends.first;
    ends.plain = ends.plain && !end;
    end = k < 0 ? constant : -constant;
  }
  return ends;
}

}  // namespace

std::optional<Window> window_of(const Statement& s) {
  if (s.aggregation == Aggregation::Assign || has_scale(s.aggregation, compute_type(s.value.type())) ||
      s.domain.size() == s.indices.size())
    return std::nullopt;
  for (std::size_t k = 0; k < s.indices.size(); ++k) if (extent(s, k) < 1) return std::nullopt;
  std::vector<bool> used(s.indices.size(), false);
  mark(s.value, s.reads, used);
  const std::vector<Form> halves = halves_of(s);
  for (const Form& half : halves) {
    std::optional<std::size_t> along, over;
    std::size_t mentioned = 0;
    for (std::size_t k = 0; k < s.indices.size(); ++k) {
      if (!half.coefficients[k]) continue;
      ++mentioned;
      (is_output_index(s, k) ? along : over) = k;
    }
    if (mentioned != 2 || !along || !over || used[*along]) continue;
    const bool others = std::any_of(halves.begin(), halves.end(), [&](const Form& other) {
      bool reduces = false, more = false;
      for (std::size_t k = 0; k < s.indices.size(); ++k) {
        reduces = reduces || (other.coefficients[k] && !is_output_index(s, k));
        more = more || (other.coefficients[k] && k != *along && k != *over);
      }
      return (other.coefficients[*over] && (more || !other.coefficients[*along])) ||
          (other.coefficients[*along] && reduces && more);
    });
    const bool down = (half.coefficients[*along] > 0) == (half.coefficients[*over] > 0);
    const Ends ends = ends_of(halves, *along, *over, down, extent(s, *over));
    if (others || !ends.plain || !ends.first || !ends.last || *ends.last < *ends.first) continue;
    Window window{*along, *over, down, *ends.last, *ends.last - *ends.first + 1};
    for (std::size_t k = 0; k < s.indices.size(); ++k)
      window.further = window.further || (!is_output_index(s, k) && k != *over);
    // elements that reach a value
    if (window.last + extent(s, *along) - 1 >= 0 && window.last - window.width + 1 < extent(s, *over)) return window;
  }
  return std::nullopt;
}

bool pays(const Rewriting& r, const Statement& s, const Window& window) {
  const auto& stride = r.strides[static_cast<std::size_t>(s.target.tensor)];
  std::int64_t step = 0;
  for (std::size_t d = 0; d < s.target.element.size(); ++d)
    step += s.target.element[d].coefficients[window.along].get() * stride[d];
  // a scan has lanes over another index only
  return window.width > (std::abs(step) == 1 ? model::wide_window : model::wide_window_across);
}

namespace {

// The elements of a statement in blocks as wide as its window.
struct WindowBlocks {
  std::int64_t width, values, first, last, low,
      count;                                           // v = j + window.last of the elements that have values: first to
                                                       // last; blocks [low, low + count)
  std::string block, place;                            // indices: which block, and where in it
  std::vector<std::size_t> others, used;               // outputs but for the one along the window; those that the value
                                                       // depends on
};

WindowBlocks blocks_of(const Statement& whole, const Window& window) {
  const std::int64_t width = window.width, values = extent(whole, window.over), length = extent(whole, window.along);
  const std::int64_t first = std::max<std::int64_t>(0, window.last),
                     last = std::min(window.last + length - 1, values + width - 2), low = floor_of(first, width);
  WindowBlocks all{width, values, first, last, low, floor_of(last, width) - low + 1,
      fresh_index(whole, whole.indices[window.over] + "_b"), fresh_index(whole, whole.indices[window.over] + "_r"), {},
      {}};
  std::vector<bool> in_value(whole.indices.size(), false);
  mark(whole.value, whole.reads, in_value);
  for (std::size_t k = 0; k < whole.indices.size(); ++k) {
    if (!is_output_index(whole, k) || k == window.along) continue;
    all.others.push_back(k);
    if (in_value[k]) all.used.push_back(k);
  }
  return all;
}

void bound(Statement& s, const Affine& e, std::int64_t count) { s.domain.push_back({e, Size(count)}); }

// One end of the windows: of block b + shift the values u with sign * (r - u) + from >= 0, for each place r.
struct End { const char* suffix; std::int64_t shift, sign, from; };

std::pair<Statement, TensorId> sum_of_end(
    Rewriting& r, const Statement& whole, const Window& window, const WindowBlocks& blocks, const End& end) {
  const std::vector<std::size_t>& used = blocks.used;
  Frame f = frame(whole, used,
      {{blocks.block, blocks.count, false}, {blocks.place, blocks.width, false},
          {whole.indices[window.over], blocks.width, true}});
  const std::size_t b = used.size(), u = b + 2;
  Affine k = Affine::index(b, f.count()).times(Size(blocks.width)).plus(Affine::index(u, f.count()));
  k.constant = Size((blocks.low + end.shift) * blocks.width);
  const Affine counted = k;
  if (window.down) k = k.times(Size(-1));
  k.constant = Size(k.constant.get() + low(whole, window.over) + (window.down ? blocks.values - 1 : 0));
  f.map[window.over] = k;
  // rows that hold the value's reads inside their tensors
  Statement part = seen_in(whole, f, [&](const Affine& row) {
    for (std::size_t i = 0; i < whole.indices.size(); ++i)
      if (mentions(row, i) && std::find(used.begin(), used.end(), i) == used.end()) return false;
    return true;
  });
  Affine distance =
      Affine::index(b + 1, f.count()).plus(Affine::index(u, f.count()).times(Size(-1))).times(Size(end.sign));
  distance.constant = Size(end.from);
  part.domain.push_back({distance, std::nullopt});
  const std::int64_t least = (blocks.low + end.shift) * blocks.width, most = least + blocks.count * blocks.width - 1;
  if (least < 0 || most >= blocks.values) bound(part, counted, blocks.values);
  const TensorId id = new_tensor(r.program, r.strides, whole, end.suffix, f, b + 2);
  write_part(part, id, b + 2);
  drop_unused(part);
  return {std::move(part), id};
}

// Each element from both ends of its window.
Statement both_ends(Program& program, const Statement& whole, const Window& window, const WindowBlocks& blocks,
    std::vector<TensorId> ends) {
  const std::vector<std::size_t>& others = blocks.others;
  Frame f = frame(whole, others, {{blocks.block, blocks.count, false}, {blocks.place, blocks.width, false}});
  const std::size_t b = others.size();
  const Affine v = Affine::index(b, f.count()).times(Size(blocks.width)).plus(Affine::index(b + 1, f.count()));
  const std::int64_t start = blocks.low * blocks.width;
  Affine j = v;
  j.constant = Size(start - window.last + low(whole, window.along));
  f.map[window.along] = j;
  Statement rest = seen_in(whole, f, [&](const Affine& row) { return !mentions(row, window.over); });
  Affine reached = v;
  reached.constant = Size(start - blocks.first);
  if (start != blocks.first || start + blocks.count * blocks.width - 1 != blocks.last)
    bound(rest, reached, blocks.last - blocks.first + 1);
  rest.reads.clear();
  for (const TensorId id : ends) {
    poly::Access access{id, {}};
    for (const std::size_t k : blocks.used)
      access.element.push_back(Affine::index(
          static_cast<std::size_t>(std::find(others.begin(), others.end(), k) - others.begin()), f.count()));
    access.element.push_back(Affine::index(b, f.count()));
    access.element.push_back(Affine::index(b + 1, f.count()));
    rest.reads.push_back(std::move(access));
  }
  const auto type = whole.value.type();
  rest.value = combined(whole.aggregation, poly::Read{0, type}, poly::Read{1, type});
  const auto stored = program.tensor(whole.target.tensor).dtype;
  if (stored != type) rest.value = poly::Cast{rest.value, stored};
  rest.aggregation = Aggregation::Assign;
  return rest;
}

}  // namespace

void cut_window(Rewriting& r, std::size_t n, const Window& window) {
  const Statement whole = std::get<Statement>(r.program.nodes[n]);
  const WindowBlocks blocks = blocks_of(whole, window);
  auto [beginning, begun] = sum_of_end(r, whole, window, blocks, {"_begun", 0, 1, 0});
  auto [ending, ended] = sum_of_end(r, whole, window, blocks, {"_ended", -1, -1, -1});
  r.program.nodes[n] = both_ends(r.program, whole, window, blocks, {ended, begun});
  insert(r.program, n, {std::move(ending), std::move(beginning)});
}

}  // namespace tilec::codegen
