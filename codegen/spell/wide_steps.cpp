#include "codegen/spell/wide_steps.h"

#include <algorithm>
#include <map>

#include "codegen/model/thresholds.h"
#include "codegen/scalar.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

// Elements of a step that the block reads of it.
struct Elements { std::int64_t rows, vectors; };
Elements elements(const BlockPlace& at, const Form& f) {
  return {at.in_m(f) ? at.tile.rows : 1, at.in_n(f) ? at.tile.vectors : 1};
}

DType type_of(const BlockPlace& at, std::size_t read) {
  return at.leaf.storage.plan.program.tensor(at.leaf.nest.reads[read].tensor).dtype;
}

}  // namespace

std::optional<WideSteps> wide_steps(const BlockPlace& at, std::size_t d, const Expr& first, std::int64_t count) {
  const SpelledLeaf& l = at.leaf;
  if (!l.around.threads || !is_const(first) || at.tile.border || at.tile.guarded || at.tile.valid ||
      !l.conditions.empty() || l.flag)
    return std::nullopt;
  WideSteps wide;
  std::int64_t held = 0;
  for (std::size_t r = 0; r < l.nest.reads.size(); ++r) {
    const FlatAccess& read = l.nest.reads[r];
    if (l.around.base.contains(r) || l.around.views.contains(r)) continue;
    std::int64_t width = neighbours_of(l.storage, read, d, model::threads::most_rows);
    while (width > 1 && (const_or(first, 0) % width || width > count)) width /= 2;
    const Elements each = elements(at, read.offset);
    if (width == 1 || held + each.rows * each.vectors * width > model::threads::held_of_steps) continue;
    held += each.rows * each.vectors * width;
    wide.reads.push_back({r, width});
    wide.steps = std::max(wide.steps, width);
  }
  return wide.reads.empty() ? std::nullopt : std::optional(std::move(wide));
}

Expr may_be_wide(Body& body, const BlockPlace& at, const WideSteps& wide) {
  std::map<TensorId, std::int64_t> widths;
  for (const auto& [read, width] : wide.reads) {
    std::int64_t& widest = widths[at.leaf.nest.reads[read].tensor];
    widest = std::max(widest, width);
  }
  std::optional<Expr> all;
  for (const auto& [tensor, width] : widths) {
    const Expr one = aligned(at.leaf.storage, at.leaf.names, body, tensor, width);
    all = all ? both(*all, one) : one;
  }
  return *all;
}

std::vector<KnownValues> read_widely(
    Body& body, const BlockPlace& at, const Views& views, const KnownValues& known, const WideSteps& wide) {
  SpelledLeaf& l = at.leaf;
  std::vector<KnownValues> all(static_cast<std::size_t>(wide.steps), known);
  for (const auto& [read, width] : wide.reads) {
    const Form& f = l.nest.reads[read].offset;
    const DType type = type_of(at, read);
    const auto [rows, vectors] = elements(at, f);
    const std::string x = l.names.fresh("x");
    body.push_back(stmt(Allocate{x, type, rows * vectors * wide.steps, Memory::Register}));
    const auto slot = [&, vectors = vectors](std::int64_t i, std::int64_t v, std::int64_t u) {
      return Expr((i * vectors + v) * wide.steps + u);
    };
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t v = 0; v < vectors; ++v)
        for (std::int64_t u = 0; u < wide.steps; u += width) {
          const std::string view = l.names.fresh("p");
          body.push_back(stmt(View{view, views[read], at.inside_tile(f, i, v) + Expr(u), width * lang::bytes(type)}));
          for (std::int64_t c = 0; c < width; ++c)
            body.push_back(stmt(Store{x, slot(i, v, u + c), Load{view, Expr(c), type}}));
        }
    for (const poly::Expr& part : poly::parts(l.value())) {
      const auto* node = part.as<poly::Read>();
      if (!node || static_cast<std::size_t>(node->read) != read) continue;
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t v = 0; v < vectors; ++v)
          for (std::int64_t u = 0; u < wide.steps; ++u)
            all[static_cast<std::size_t>(u)].insert_or_assign(
                std::make_tuple(poly::address(part), at.in_m(f) ? i : -1, at.in_n(f) ? v : -1),
                convert(Load{x, slot(i, v, u), type}, compute_type(type)));
    }
  }
  return all;
}

}  // namespace tilec::codegen
