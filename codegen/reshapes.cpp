#include "codegen/reshapes.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/part.h"
#include "codegen/rewrite.h"

namespace tilec::codegen {

namespace {

using poly::Access;
using poly::Intrinsic;
using poly::Statement;
using Shape = std::vector<std::int64_t>;

// Of each dimension of `coarse`, the first one of `fine` that it is cut into, and behind the last one their number;
// none where it is not.
std::optional<std::vector<std::size_t>> cuts(const Shape& coarse, const Shape& fine) {
  std::vector<std::size_t> first{0};
  for (const std::int64_t extent : coarse) {
    std::size_t d = first.back();
    std::int64_t all = 1;
    while (d < fine.size() && all < extent && extent % (all * fine[d]) == 0) all *= fine[d++];
    if (all != extent) return std::nullopt;
    first.push_back(d);
  }
  while (first.back() < fine.size() && fine[first.back()] == 1) ++first.back();
  return first.back() == fine.size() ? std::optional(first) : std::nullopt;
}

class Reshapes {
 public:
  explicit Reshapes(Fused& fused) : fused_(fused), program_(fused.program) {}

  void run() {
    for (std::size_t n = 0; n < program_.nodes.size();) {
      const auto* reshape = std::get_if<Intrinsic>(&program_.nodes[n]);
      const bool is_one = reshape && reshape->op == poly::IntrinsicOp::Reshape;
      if (is_one && drop(n, reshape->operands[0], reshape->targets[0])) erase(n);
      else ++n;
    }
  }

 private:
  // `fine` becomes `coarse`, which it cuts.
  struct Seen { TensorId fine, coarse; std::vector<std::size_t> first; };

  bool drop(std::size_t node, TensorId from, TensorId to) {
    const Shape of_from = shape(from), of_to = shape(to);
    if (std::ranges::count(of_from, 0) || is_fill(to) || is_fill(from)) return false;
    if (!is_output(program_, to))
      if (const auto first = cuts(of_from, of_to); first && may_read({to, from, *first}, node))
        return read({to, from, *first}), true;
    const auto first = cuts(of_to, of_from);
    if (!first || is_output(program_, from) || std::ranges::count(program_.inputs, from)) return false;
    const Seen seen{from, to, *first};
    if (!may_read(seen, node) || !may_write(seen)) return false;
    write(seen);
    read(seen);
    return true;
  }

  Shape shape(TensorId id) const { return extents(program_.tensor(id)); }

  bool is_fill(TensorId id) const {
    return std::ranges::any_of(program_.nodes, [&](const poly::Node& node) {
      const auto* s = std::get_if<Statement>(&node);
      const auto* from = s ? std::get_if<TensorId>(&s->fill) : nullptr;
      return from && *from == id;
    });
  }

  // Whether elements lie in memory as they lay.
  bool lies_alike(const Seen& seen) const {
    const std::vector<std::int64_t>&fine = fused_.strides[static_cast<std::size_t>(seen.fine)],
          &coarse = fused_.strides[static_cast<std::size_t>(seen.coarse)];
    const Shape of_fine = shape(seen.fine);
    for (std::size_t c = 0; c < coarse.size(); ++c) {
      std::int64_t stride = coarse[c];
      for (std::size_t d = seen.first[c + 1]; d-- > seen.first[c];) {
        if (of_fine[d] > 1 && fine[d] != stride) return false;
        stride *= of_fine[d];
      }
    }
    return true;
  }

  // A set that is spelled statement by statement, as each of them says.
  static bool is_plain(const Fused::Set& set) { return set.over.empty() && set.tile.empty() && set.finishing == 0; }
  const Fused::Set& set_of(std::size_t node) const {
    return *std::ranges::find_if(fused_.sets, [&](const Fused::Set& set) {
      return std::ranges::count(set.nodes, static_cast<int>(node)) != 0;
    });
  }

  // Only statements read it, or Reshapes like that of `node`.
  bool may_read(const Seen& seen, std::size_t node) const {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (n == node || !reads(program_.nodes[n], seen.fine)) continue;
      const auto* intrinsic = std::get_if<Intrinsic>(&program_.nodes[n]);
      if (intrinsic && intrinsic->op == poly::IntrinsicOp::Reshape) continue;
      if (intrinsic || (!lies_alike(seen) && !is_plain(set_of(n)))) return false;
    }
    return true;
  }
  bool may_write(const Seen& seen) const {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const auto* s = std::get_if<Statement>(&program_.nodes[n]);
      if (!s || s->target.tensor != seen.fine) continue;
      const Fused::Set& set = set_of(n);
      const bool kept = std::ranges::any_of(set.nodes, [&](int node) {
        return reads(program_.nodes[static_cast<std::size_t>(node)], seen.fine);
      });
      return std::holds_alternative<poly::Number>(s->fill) && !kept &&
          (lies_alike(seen) || (is_plain(set) && set.nodes.size() == 1));
    }
    return false;
  }

  void read(const Seen& seen) {
    for (poly::Node& node : program_.nodes) {
      if (auto* s = std::get_if<Statement>(&node)) {
        for (Access& one : s->reads) replace(one, seen, s->indices.size());
      } else {
        for (TensorId& id : std::get<Intrinsic>(node).operands) if (id == seen.fine) id = seen.coarse;
      }
    }
  }
  void write(const Seen& seen) {
    for (poly::Node& node : program_.nodes)
      if (auto* s = std::get_if<Statement>(&node)) replace(s->target, seen, s->indices.size());
  }

  void replace(Access& access, const Seen& seen, std::size_t indices) const {
    if (access.tensor != seen.fine) return;
    const Shape of_fine = shape(seen.fine);
    std::vector<poly::Affine> element;
    for (std::size_t c = 0; c + 1 < seen.first.size(); ++c) {
      poly::Affine sum = poly::Affine::of(0, indices);
      std::int64_t stride = 1;
      for (std::size_t d = seen.first[c + 1]; d-- > seen.first[c];) {
        sum = sum.plus(access.element[d].times(stride));
        stride *= of_fine[d];
      }
      element.push_back(std::move(sum));
    }
    access = {seen.coarse, std::move(element)};
  }

  // The Reshape alone is a set.
  void erase(std::size_t n) {
    const int gone = static_cast<int>(n);
    program_.nodes.erase(program_.nodes.begin() + gone);
    std::erase_if(fused_.sets, [&](const Fused::Set& set) { return std::ranges::count(set.nodes, gone) != 0; });
    for (Fused::Set& set : fused_.sets)
      for (int& node : set.nodes) node -= node > gone ? 1 : 0;
  }

  Fused& fused_;
  poly::Program& program_;
};

}  // namespace

void drop_reshapes(Fused& fused) { Reshapes(fused).run(); }

}  // namespace tilec::codegen
