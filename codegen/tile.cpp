#include "codegen/tile.h"

#include <algorithm>
#include <set>

#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Affine;
using poly::Program;
using poly::Range;
using poly::Size;
using poly::Statement;

const Statement& statement_at(const Program& program, int node) {
  return std::get<Statement>(program.nodes[static_cast<std::size_t>(node)]);
}

class Tile {
 public:
  Tile(const Program& program, const Group& group)
      : program_(program), group_(group), sum_(statement_at(program, tiled_node(program, group))) {
    for (std::size_t k = 0; k < sum_.indices.size(); ++k) {
      step_.push_back(std::max<std::int64_t>(1, extent(sum_, k)));
      for (const Loop& loop : group.tile)
        if (loop.index == sum_.indices[k]) step_.back() = loop.step, tiled_.push_back(k);
    }
  }

  std::vector<std::int64_t> shape(TensorId local) const {
    std::vector<std::int64_t> shape;
    for (const Affine& e : access(local).element) shape.push_back(length(e));
    return shape;
  }

  std::vector<std::int64_t> strides(TensorId local) const {
    return rows_apart(shape(local), lang::bytes(program_.tensor(local).dtype), true);
  }

  bool local(TensorId id) const {
    return std::find(group_.locals.begin(), group_.locals.end(), id) != group_.locals.end();
  }

  // Over the indices of the statement and the origins.
  Statement seen(int node) const {
    return node == tiled_node(program_, group_) ? sum() : copy(statement_at(program_, node));
  }

 private:
  const Access& access(TensorId local) const {
    if (sum_.target.tensor == local) return sum_.target;
    for (const Access& read : sum_.reads) if (read.tensor == local) return read;
    throw lang::InternalError("a local of a tiled group is none of its contraction's tensors");
  }

  std::int64_t coefficient(const Affine& e, std::size_t k) const { return e.coefficients[k].get(); }

  // How many values a form has while the origins stay.
  std::int64_t length(const Affine& e) const {
    poly::Exact sum = 1;
    for (std::size_t k = 0; k < step_.size(); ++k) sum += poly::Exact(std::abs(coefficient(e, k))) * (step_[k] - 1);
    return sum.get();
  }
  // The least value of the form when all origins are 0.
  std::int64_t least(const Affine& e) const {
    poly::Exact sum = e.constant.get();
    for (std::size_t k = 0; k < step_.size(); ++k) {
      sum += poly::Exact(coefficient(e, k)) * low(sum_, k);
      if (coefficient(e, k) < 0) sum += poly::Exact(coefficient(e, k)) * (step_[k] - 1);
    }
    return sum.get();
  }

  static std::vector<Affine> each_index(std::size_t indices, std::size_t count) {
    std::vector<Affine> all;
    for (std::size_t k = 0; k < indices; ++k) all.push_back(Affine::index(k, count));
    return all;
  }
  // The same form while the origins, which stand behind its indices, are 0.
  static Affine within_box(Affine e, std::size_t count) {
    e.coefficients.resize(count);
    return e;
  }

  // `s` with the origins behind its indices, and their hulls behind its hulls. Once all sums are made, boxes of what is
  // reduced are one.
  void add_origins(Statement& s, bool behind_sums) const {
    const std::size_t count = s.indices.size() + tiled_.size();
    for (std::size_t t = 0; t < tiled_.size(); ++t) {
      const std::size_t at = s.indices.size();
      s.indices.push_back(origin(sum_.indices[tiled_[t]]));
      const std::int64_t boxes = behind_sums && !is_output_index(sum_, tiled_[t])
          ? 1
          : (extent(sum_, tiled_[t]) + step_[tiled_[t]] - 1) / step_[tiled_[t]];
      s.domain.insert(s.domain.begin() + static_cast<std::ptrdiff_t>(at), {Affine::index(at, count), Size(boxes)});
    }
  }

  Statement sum() const {
    Statement s = sum_;
    const std::size_t old = s.indices.size(), count = old + tiled_.size();
    std::vector<Affine> map = each_index(old, count);  // where an index of the statement stands
    for (std::size_t t = 0; t < tiled_.size(); ++t) map[tiled_[t]].coefficients[old + t] = Size(step_[tiled_[t]]);
    for (std::size_t r = 0; r < s.domain.size(); ++r)
      s.domain[r].value = r < old ? within_box(s.domain[r].value, count) : s.domain[r].value.compose(map, count);
    for (const std::size_t k : tiled_) s.domain[k].extent = Size(step_[k]);
    std::vector<int> same;
    for (std::size_t r = 0; r < s.reads.size(); ++r) same.push_back(static_cast<int>(r));
    s.value = seen_from(s.value, map, count, same);
    std::vector<bool> outside(old, false);             // an element outside the box's part of the tensor would be
                                                       // touched
    const auto see = [&](Access& a) {
      for (Affine& e : a.element) {
        if (!local(a.tensor)) for (std::size_t k = 0; k < old; ++k) outside[k] = outside[k] || coefficient(e, k) != 0;
        const std::int64_t first = local(a.tensor) ? least(e) : 0;
        e = local(a.tensor) ? within_box(e, count) : e.compose(map, count);
        e.constant = Size((poly::Exact(e.constant.get()) - first).get());
      }
    };
    see(s.target);
    for (Access& read : s.reads) see(read);
    add_origins(s, false);
    for (const std::size_t k : tiled_) {
      if (extent(sum_, k) % step_[k] == 0 || (is_output_index(sum_, k) && !outside[k])) continue;
      Range row{map[k], Size(extent(sum_, k))};
      row.value.constant = Size(-low(sum_, k));
      s.domain.push_back(std::move(row));
    }
    return s;
  }

  // A copy from or to a local: each dimension of the local is an index of its own.
  Statement copy(const Statement& was) const {
    Statement s = was;
    const bool in = local(s.target.tensor);
    const TensorId id = in ? s.target.tensor : s.reads.at(0).tensor;
    const Access& own = access(id);
    const std::vector<Affine> element = in ? was.target.element : was.reads[0].element;
    const std::size_t old = s.indices.size(), count = old + tiled_.size();
    std::vector<Affine> map = each_index(old, count);
    std::vector<Range> rows;
    for (std::size_t d = 0; d < element.size(); ++d) {
      const std::size_t k = *plain_index(element[d]);
      const std::int64_t size = extent(s, k), first = least(own.element[d]);
      poly::Exact lowest = first, highest = poly::Exact(first) + length(own.element[d]) - 1;
      for (std::size_t t = 0; t < tiled_.size(); ++t) {
        const std::int64_t c = coefficient(own.element[d], tiled_[t]), step = step_[tiled_[t]];
        const poly::Exact last = poly::Exact(c) * ((extent(sum_, tiled_[t]) - 1) / step * step);
        (c > 0 ? highest : lowest) += last;
        map[k].coefficients[old + t] = Size((poly::Exact(c) * step).get());
      }
      map[k].constant = Size(first);
      s.domain[k].extent = Size(length(own.element[d]));
      if (lowest.get() < 0 || highest.get() >= size) rows.push_back({map[k], Size(size)});
    }
    for (std::size_t r = 0; r < s.domain.size(); ++r)
      s.domain[r].value = r < old ? within_box(s.domain[r].value, count) : s.domain[r].value.compose(map, count);
    const auto see = [&](Access& a) {
      for (Affine& e : a.element) e = a.tensor == id ? within_box(e, count) : e.compose(map, count);
    };
    see(s.target);
    see(s.reads[0]);
    s.value = poly::Read{0, was.value.type()};
    add_origins(s, !in);
    for (Range& row : rows) s.domain.push_back(std::move(row));
    return s;
  }

  const Program& program_;
  const Group& group_;
  const Statement& sum_;
  std::vector<std::int64_t> step_;                     // of each index
  std::vector<std::size_t> tiled_;
};

}  // namespace

std::vector<Loop> origins(const Group& group) {
  std::vector<Loop> loops;
  for (const Loop& loop : group.tile) loops.push_back({origin(loop.index), 1});
  return loops;
}

int tiled_node(const Program& program, const Group& group) {
  for (const Compute& leaf : group.body) if (reduces(statement_at(program, leaf.node))) return leaf.node;
  throw lang::InternalError("a tiled group has no contraction");
}

Nest tile_nest(const Program& program, const Group& group, int node, const Strides& strides) {
  const Tile tile(program, group);
  const auto lies = [&](TensorId id) {
    return tile.local(id) ? tile.strides(id) : strides[static_cast<std::size_t>(id)];
  };
  std::set<std::string> keep;
  for (const Loop& loop : origins(group)) keep.insert(loop.index);
  Nest nest = nest_of(tile.seen(node), lies, keep);
  for (Dim& dim : nest.dims) if (keep.contains(dim.name)) dim.reduction = false;  // one value a turn
  nest.locals = group.locals;
  return nest;
}

std::int64_t tile_elements(const Program& program, const Group& group, TensorId local) {
  const Tile tile(program, group);
  return reach_of(tile.shape(local), tile.strides(local));
}

}  // namespace tilec::codegen
