#include "codegen/spell/steps_ahead.h"

#include <fmt/format.h>

#include "codegen/scalar.h"

namespace tilec::codegen {

StepsAhead::StepsAhead(ScanTile& tile, std::int64_t steps) : tile_(tile), steps_(steps) {
  for (std::size_t r = 0; r < tile.nest.reads.size(); ++r) {
    const Form& offset = tile.nest.reads[r].offset;
    if (offset.coefficients[tile.along] || offset.coefficients[tile.over])
      kept_.push_back({r, tile.storage.plan.program.tensor(tile.nest.reads[r].tensor).dtype,
          tile.names.fresh(fmt::format("x{}", r)), tile.names.fresh(fmt::format("next{}", r))});
  }
}

Body StepsAhead::allocate() const {
  Body body;
  for (const Kept& k : kept_)
    for (const std::string& name : {k.now, k.next})
      body.push_back(stmt(Allocate{name, compute_type(k.stored), steps_, Memory::Register}));
  return body;
}

Body StepsAhead::each_step(const std::function<Body(const Expr&)>& body) const {
  const std::string step = tile_.names.fresh("u");
  return {stmt(For{step, Kind::Unroll, i64(steps_), {}, body(var(step))})};
}

Body StepsAhead::read(const Expr& j, bool next) {
  return each_step([&](const Expr& step) {
    Body body;
    const Expr at = tile_.named(body, "at", j + step);
    tile_.points.fix(tile_.along, at);
    tile_.points.fix(tile_.over, at + i64(tile_.scan.c));
    for (const Kept& k : kept_) {
      const FlatAccess& access = tile_.nest.reads[k.read];
      const Expr x = Load{tile_.storage.name(access.tensor), tile_.corner(k.read, access.offset), k.stored};
      body.push_back(stmt(Store{next ? k.next : k.now, step, convert(x, compute_type(k.stored))}));
    }
    tile_.points.release(tile_.over);
    tile_.points.release(tile_.along);
    return body;
  });
}

Body StepsAhead::take_next() const {
  return each_step([&](const Expr& step) {
    Body body;
    for (const Kept& k : kept_)
      body.push_back(stmt(Store{k.now, step, Load{k.next, step, compute_type(k.stored)}}));
    return body;
  });
}

void StepsAhead::begin(const Expr& step) const {
  for (const Kept& k : kept_) tile_.held.insert_or_assign(k.read, Load{k.now, step, compute_type(k.stored)});
}

}  // namespace tilec::codegen
