#include "codegen/rewrite/chunk_frames.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "codegen/rewrite.h"

namespace tilec::codegen {

using lang::DType;
using poly::Access;
using poly::Affine;
using poly::Expr;
using poly::Statement;
using poly::TensorId;

ChunkFrames::ChunkFrames(const Statement& s, const ChunkedTriangle& t, std::int64_t chunk)
    : s_(s),
      t_(t),
      chunk_(chunk),
      length_(extent(s, t.along)),
      values_(extent(s, t.over)),
      count_((length_ + chunk - 1) / chunk),
      of_chunk_(fresh_index(s, s.indices[t.along] + "_c")),
      before_(fresh_index(s, s.indices[t.over] + "_c")) {}

ChunkFrames::Axes ChunkFrames::within_axes(const Indices& order) const {
  Axes axes;
  for (const std::size_t k : order) {
    if (k == t_.along) axes.push_back({of_chunk_, count_});
    if (k == t_.along || k == t_.over) axes.push_back({s_.indices[k], chunk_});
    else axes.push_back({s_.indices[k], extent(s_, k), k});
  }
  return axes;
}

Frame ChunkFrames::within_at(const Axes& axes) const {
  Frame f = framed(axes);
  const std::size_t b = place_of(axes, of_chunk_), j = place_of(axes, s_.indices[t_.over]);
  f.map[t_.along] = from_end(t_.along, place_at(b, 0, b + 1, axes.size()), t_.along_down);
  f.map[t_.over] = from_end(t_.over, value_at(b, j, axes.size()), t_.over_down);
  return f;
}

Statement ChunkFrames::of_within(const Frame& f, Statement part) const {
  const auto at = [&](const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(f.names, name) - f.names.begin());
  };
  const std::size_t b = at(of_chunk_), j = at(s_.indices[t_.over]);
  bound(part, place_at(b, 0, b + 1, f.count()), count_ * chunk_ - 1, length_);
  bound(part, value_at(b, j, f.count()), t_.c + count_ * chunk_ - 1, values_, t_.c);
  part.domain.push_back(not_after(b + 1, j, f.count()));
  return part;
}

Statement ChunkFrames::within_chunks() const {
  const Frame f = within_at(within_axes(in_order(s_.indices.size())));
  return of_within(f, seen_in(s_, f, [](const Affine&) { return false; }));
}

ChunkFrames::Indices ChunkFrames::order_of(const std::vector<bool>& mentions) const {
  Indices order;
  const auto place = [&](std::size_t k) {
    if (mentions[k] && std::ranges::find(order, k) == order.end()) order.push_back(k);
  };
  std::vector<std::pair<std::size_t, Indices>> reads;  // how many indices each has, in the order of its dimensions
  for (const Access& read : s_.reads) {
    Indices found;
    for (const Affine& e : read.element)
      for (std::size_t k = 0; k < mentions.size(); ++k) if (codegen::mentions(e, k)) found.push_back(k);
    if (std::ranges::all_of(found, [&](std::size_t k) { return bool(mentions[k]); }))
      reads.emplace_back(found.size(), std::move(found));
  }
  std::ranges::stable_sort(reads, std::greater<>(), [](const auto& read) { return read.first; });
  for (const auto& [rank, indices] : reads) std::ranges::for_each(indices, place);
  for (std::size_t k = 0; k < mentions.size(); ++k) place(k);
  return order;
}

ChunkFrames::Axes ChunkFrames::axes_of(const Indices& order, bool places) const {
  Axes axes;
  for (const std::size_t k : order) {
    if (k != t_.along && k != t_.over) {
      axes.push_back({s_.indices[k], extent(s_, k), k});
      continue;
    }
    axes.push_back({k == t_.along ? of_chunk_ : before_, count_ - 1});
    if (places) axes.push_back({s_.indices[k], chunk_});
  }
  return axes;
}

ChunkFrames::Axes ChunkFrames::state_axes() const { return axes_of(t_.state, false); }

std::size_t ChunkFrames::place_of(const Axes& axes, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::find(axes, name, &Axis::name) - axes.begin());
}

std::vector<std::size_t> ChunkFrames::places(const Statement& part, const Indices& order) const {
  const auto place = [&](const std::string& index) {
    return static_cast<std::size_t>(std::ranges::find(part.indices, index) - part.indices.begin());
  };
  std::vector<std::size_t> at;
  for (const std::size_t k : order) {
    if (k == t_.along) at.push_back(place(of_chunk_));
    at.push_back(place(s_.indices[k]));
  }
  return at;
}

Frame ChunkFrames::framed(const Axes& axes) const {
  Frame f;
  f.map.assign(s_.indices.size(), Affine::of(poly::Size(0), axes.size()));
  for (std::size_t n = 0; n < axes.size(); ++n) {
    f.names.push_back(axes[n].name);
    f.hull.push_back({Affine::index(n, axes.size()), poly::Size(axes[n].extent)});
    if (!axes[n].old) continue;
    f.map[*axes[n].old] = Affine::index(n, axes.size());
    f.map[*axes[n].old].constant = poly::Size(low(s_, *axes[n].old));
  }
  return f;
}

Affine ChunkFrames::place_at(std::size_t b, std::int64_t later, std::size_t i, std::size_t count) const {
  Affine p = Affine::index(b, count).times(poly::Size(chunk_)).plus(Affine::index(i, count));
  p.constant = poly::Size(later * chunk_);
  return p;
}

Affine ChunkFrames::value_at(std::size_t a, std::size_t j, std::size_t count) const {
  Affine u = place_at(a, 0, j, count);
  u.constant = poly::Size(t_.c);
  return u;
}

Affine ChunkFrames::from_end(std::size_t k, Affine e, bool down) const {
  if (down) e = e.times(poly::Size(-1));
  e.constant = poly::Size(e.constant.get() + low(s_, k) + (down ? extent(s_, k) - 1 : 0));
  return e;
}

// Keeps e, which is `least` to `most`, in [0, end).
void ChunkFrames::bound(
    Statement& part, const Affine& e, std::int64_t most, std::int64_t end, std::int64_t least) {
  if (least < 0 || most >= end) part.domain.push_back({e, poly::Size(end)});
}

Frame ChunkFrames::values_at(const Axes& axes, std::size_t a, std::size_t j) const {
  Frame f = framed(axes);
  f.map[t_.over] = from_end(t_.over, value_at(a, j, axes.size()), t_.over_down);
  return f;
}

Statement ChunkFrames::of_values(
    const Frame& f, Aggregation how, DType type, std::size_t a, std::size_t j) const {
  Statement part = empty(f, how, type);
  bound(part, value_at(a, j, f.count()), t_.c + (count_ - 1) * chunk_ - 1, values_, t_.c);
  return part;
}

Frame ChunkFrames::places_at(const Axes& axes) const {
  Frame f = framed(axes);
  const std::size_t b = place_of(axes, of_chunk_);
  f.map[t_.along] = from_end(t_.along, place_at(b, 1, b + 1, axes.size()), t_.along_down);
  return f;
}

Statement ChunkFrames::of_places(const Frame& f, Aggregation how, DType type) const {
  Statement part = empty(f, how, type);
  const auto b = static_cast<std::size_t>(std::ranges::find(f.names, of_chunk_) - f.names.begin());
  bound(part, place_at(b, 1, b + 1, f.count()), count_ * chunk_ - 1, length_);
  return part;
}

Statement ChunkFrames::empty(const Frame& f, Aggregation how, DType type) const {
  Statement part = s_;
  part.indices = f.names, part.domain = f.hull, part.reads.clear();
  part.aggregation = how, part.ties = {}, part.keep = {}, part.held.reset();
  part.value = poly::Number{type};
  part.kernel_name.clear();
  return part;
}

poly::Range ChunkFrames::not_after(std::size_t b, std::size_t a, std::size_t count) {
  return {Affine::index(b, count).plus(Affine::index(a, count).times(poly::Size(-1))), std::nullopt};
}

Expr ChunkFrames::add(Statement& part, const Expr& e, const Frame& f) const {
  std::vector<int> at;
  for (const Access& read : s_.reads) {
    at.push_back(static_cast<int>(part.reads.size()));
    Access seen = read;
    for (Affine& element : seen.element) element = element.compose(f.map, f.count());
    part.reads.push_back(std::move(seen));
  }
  return seen_from(e, f.map, f.count(), at);
}

Expr ChunkFrames::read(Statement& part, TensorId id, DType type, const std::vector<std::size_t>& indices) {
  Access access{id, {}};
  for (const std::size_t k : indices) access.element.push_back(Affine::index(k, part.indices.size()));
  part.reads.push_back(std::move(access));
  return poly::Read{static_cast<int>(part.reads.size()) - 1, type};
}

Expr ChunkFrames::level(Statement& part, TensorId levels, std::size_t at) const {
  std::vector<std::size_t> indices;
  for (const std::size_t k : order_of(t_.there_mentions))
    indices.push_back(k == t_.over ? at
                                   : static_cast<std::size_t>(
                                         std::ranges::find(part.indices, s_.indices[k]) - part.indices.begin()));
  return read(part, levels, DType::F64, indices);
}

TensorId ChunkParts::make(Statement part, const Frame& f, std::size_t rank, const std::string& suffix) {
  const TensorId id = next();
  poly::Tensor tensor{suffix, part.value.type(), {}, s_.span};
  for (std::size_t d = 0; d < rank; ++d) tensor.shape.push_back(*f.hull[d].extent);
  if (part.aggregation == Aggregation::Assign) {
    part.target = {id, {}};
    for (std::size_t d = 0; d < rank; ++d) part.target.element.push_back(Affine::index(d, f.count()));
    part.fill = poly::Number{part.value.type()};
  } else {
    write_part(part, id, rank);
  }
  drop_unused(part);
  made_.push_back({std::move(part), std::move(tensor)});
  return id;
}

void ChunkParts::make_whole(Statement part, const Frame& f, const std::string& suffix) {
  wholes_.push_back(write_whole(std::move(part), f, suffix, std::nullopt));
}

void ChunkParts::make_whole_after_first(Statement part, const Frame& f, const std::string& suffix) {
  Axes axes;
  double written = 1;
  for (std::size_t k = 0; k < s_.indices.size(); ++k) {
    if (!is_output_index(s_, k)) continue;
    written *= static_cast<double>(extent(s_, k));
    if (k == t_.along) axes.push_back({s_.indices[k], chunk_});
    else axes.push_back({s_.indices[k], extent(s_, k), k});
  }
  if (written < elements(program_, s_.target.tensor) || !is_output_index(s_, t_.along))
    return make_whole(std::move(part), f, suffix);
  Frame first = framed(axes);
  first.map[t_.along] =
      from_end(t_.along, Affine::index(place_of(axes, s_.indices[t_.along]), axes.size()), t_.along_down);
  const TensorId none =
      write_whole(empty(first, Aggregation::Assign, part.value.type()), first, "_first", std::nullopt);
  wholes_.push_back(write_whole(std::move(part), f, suffix, none));
}

TensorId ChunkParts::write_whole(
    Statement part, const Frame& f, const std::string& suffix, std::optional<TensorId> before) {
  const TensorId id = next();
  poly::Tensor tensor = program_.tensor(s_.target.tensor);
  tensor.name = suffix, tensor.dtype = part.value.type();
  part.target = s_.target;
  part.target.tensor = id;
  for (Affine& e : part.target.element) e = e.compose(f.map, f.count());
  part.fill = poly::Number{tensor.dtype};
  if (before) part.fill = *before;
  part.kernel_name.clear();
  drop_unused(part);
  made_.push_back({std::move(part), std::move(tensor)});
  return id;
}

Halves ChunkParts::sum_of_wholes() {
  const poly::Tensor& target = program_.tensor(s_.target.tensor);
  const std::size_t rank = target.shape.size();
  Frame f;
  for (std::size_t d = 0; d < rank; ++d) {
    f.names.push_back(fmt::format("c{}", d));
    f.hull.push_back({Affine::index(d, rank), target.shape[d]});
  }
  Statement sum = empty(f, Aggregation::Assign, target.dtype);
  sum.kernel_name = s_.kernel_name;
  sum.fill = poly::Number{target.dtype};
  sum.target = {s_.target.tensor, {}};
  for (std::size_t d = 0; d < rank; ++d) sum.target.element.push_back(Affine::index(d, rank));
  const DType type = s_.value.type();
  std::optional<Expr> all;
  for (const TensorId id : wholes_) {
    const DType own = made_[static_cast<std::size_t>(id - first_)].temporary.dtype;
    const Expr one = in_type(read(sum, id, own, in_order(rank)), type);
    all = all ? Expr(poly::Apply{lang::Op::Add, {*all, one}, type}) : one;
  }
  sum.value = in_type(*all, target.dtype);
  return {std::move(made_), std::move(sum)};
}

}  // namespace tilec::codegen
