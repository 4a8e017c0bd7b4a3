#include "codegen/spell/beside.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace tilec::codegen {

namespace {

bool walks_alike(const Nest& a, const Nest& b) {
  return a.rows.empty() && b.rows.empty() && a.fill && b.fill &&
      std::ranges::equal(a.dims, b.dims, [](const Dim& x, const Dim& y) {
        return x.name == y.name && x.extent == y.extent && x.reduction == y.reduction;
      });
}

// The only loop of a body; none: it has none, or several.
Body::iterator loop_of(Body& body) {
  const auto is_loop = [](const Stmt& s) { return std::get_if<For>(&s.node) != nullptr; };
  const auto found = std::ranges::find_if(body, is_loop);
  return found != body.end() && std::find_if(found + 1, body.end(), is_loop) == body.end() ? found : body.end();
}

Body beside(Body first, Body second) {
  const auto a = loop_of(first), b = loop_of(second);
  Body all;
  const auto take = [&](auto from, auto to) {
    all.insert(all.end(), std::make_move_iterator(from), std::make_move_iterator(to));
  };
  const bool both = a != first.end() && b != second.end();
  auto* one = both ? &std::get<For>(a->node) : nullptr;
  auto* other = both ? &std::get<For>(b->node) : nullptr;
  if (!both || one->kind != other->kind || print(one->extent) != print(other->extent)) {
    take(first.begin(), first.end()), take(second.begin(), second.end());
    return all;
  }
  take(first.begin(), a), take(second.begin(), b);
  For loop = std::move(*one);
  std::ranges::move(other->advance, std::back_inserter(loop.advance));
  Body inside{stmt(Let{other->index, var(loop.index)})};
  append(inside, std::move(other->body));
  loop.body = beside(std::move(loop.body), std::move(inside));
  all.push_back(stmt(std::move(loop)));
  take(a + 1, first.end()), take(b + 1, second.end());
  return all;
}

}  // namespace

std::size_t leaves_beside(const std::vector<Compute>& leaves, const std::vector<Nest>& nests, const Storage& storage,
    std::size_t first) {
  const auto* contract = leaves[first].as<forms::Contract>();
  if (!contract || contract->chunk || contract->taps || leaves[first].k.empty()) return 1;
  const auto buffer = [&](TensorId id) { return storage.buffer[static_cast<std::size_t>(id)]; };
  std::size_t end = first + 1;
  for (; end < leaves.size(); ++end) {
    Compute same = leaves[end];
    same.node = leaves[first].node;
    if (same != leaves[first] || !walks_alike(nests[first], nests[end])) break;
    const bool waits = std::any_of(nests.begin() + static_cast<std::ptrdiff_t>(first),
        nests.begin() + static_cast<std::ptrdiff_t>(end), [&](const Nest& before) {
          const TensorId made = buffer(before.target.tensor), own = buffer(nests[end].target.tensor);
          return made == own ||
              std::ranges::any_of(
                  nests[end].reads, [&](const FlatAccess& read) { return buffer(read.tensor) == made; }) ||
              std::ranges::any_of(before.reads, [&](const FlatAccess& read) { return buffer(read.tensor) == own; });
        });
    if (waits) break;
  }
  return end - first;
}

Body all_beside(std::size_t count, const std::function<Body(std::size_t)>& spell) {
  Body all = spell(0);
  for (std::size_t k = 1; k < count; ++k) all = beside(std::move(all), spell(k));
  return all;
}

}  // namespace tilec::codegen
