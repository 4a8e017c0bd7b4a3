#include "codegen/window.h"

#include <algorithm>

#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/product.h"
#include "codegen/rewrite.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"

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

void cut_window(Rewriting& r, std::size_t n, const Window& window) {
  Program& program = r.program;
  const Statement whole = std::get<Statement>(program.nodes[n]);
  const std::int64_t width = window.width, values = extent(whole, window.over), length = extent(whole, window.along);
  // v = j + last of the elements that have values
  const std::int64_t first = std::max<std::int64_t>(0, window.last),
                     last = std::min(window.last + length - 1, values + width - 2);
  const std::int64_t low_block = floor_of(first, width), blocks = floor_of(last, width) - low_block + 1;
  std::vector<std::size_t> used, others;
  std::vector<bool> in_value(whole.indices.size(), false);
  mark(whole.value, whole.reads, in_value);
  for (std::size_t k = 0; k < whole.indices.size(); ++k) {
    if (!is_output_index(whole, k) || k == window.along) continue;
    others.push_back(k);
    if (in_value[k]) used.push_back(k);
  }
  const std::string block = fresh_index(whole, whole.indices[window.over] + "_b"),
                    place = fresh_index(whole, whole.indices[window.over] + "_r");
  const auto bounded = [](Statement& s, const Affine& e, std::int64_t count) { s.domain.push_back({e, Size(count)}); };

  // One end of the windows: the values u of a block with ±(r - u) + from >= 0.
  const auto end = [&](const char* suffix, std::int64_t shift, std::int64_t sign, std::int64_t from) {
    Frame f =
        frame(whole, used, {{block, blocks, false}, {place, width, false}, {whole.indices[window.over], width, true}});
    const std::size_t b = used.size(), u = b + 2;
    Affine k = Affine::index(b, f.count()).times(Size(width)).plus(Affine::index(u, f.count()));
    k.constant = Size((low_block + shift) * width);
    const Affine counted = k;
    if (window.down) k = k.times(Size(-1));
    k.constant = Size(k.constant.get() + low(whole, window.over) + (window.down ? values - 1 : 0));
    f.map[window.over] = k;
    // rows that hold the value's reads inside their tensors
    Statement part = seen_in(whole, f, [&](const Affine& row) {
      for (std::size_t i = 0; i < whole.indices.size(); ++i)
        if (mentions(row, i) && std::find(used.begin(), used.end(), i) == used.end()) return false;
      return true;
    });
    Affine distance =
        Affine::index(b + 1, f.count()).plus(Affine::index(u, f.count()).times(Size(-1))).times(Size(sign));
    distance.constant = Size(from);
    part.domain.push_back({distance, std::nullopt});
    const std::int64_t least = (low_block + shift) * width, most = least + blocks * width - 1;
    if (least < 0 || most >= values) bounded(part, counted, values);
    const TensorId id = new_tensor(program, r.strides, whole, suffix, f, b + 2);
    write_part(part, id, b + 2);
    drop_unused(part);
    return std::pair(std::move(part), id);
  };
  auto [beginning, begun] = end("_begun", 0, 1, 0);
  auto [ending, ended] = end("_ended", -1, -1, -1);

  Frame f = frame(whole, others, {{block, blocks, false}, {place, width, false}});
  const std::size_t b = others.size();
  const Affine v = Affine::index(b, f.count()).times(Size(width)).plus(Affine::index(b + 1, f.count()));
  Affine j = v;
  j.constant = Size(low_block * width - window.last + low(whole, window.along));
  f.map[window.along] = j;
  Statement rest = seen_in(whole, f, [&](const Affine& row) { return !mentions(row, window.over); });
  Affine reached = v;
  reached.constant = Size(low_block * width - first);
  if (low_block * width != first || (low_block + blocks) * width - 1 != last) bounded(rest, reached, last - first + 1);
  rest.reads.clear();
  for (const TensorId id : {ended, begun}) {
    poly::Access access{id, {}};
    for (const std::size_t k : used)
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
  program.nodes[n] = std::move(rest);
  insert(program, n, {std::move(ending), std::move(beginning)});
}

}  // namespace tilec::codegen
