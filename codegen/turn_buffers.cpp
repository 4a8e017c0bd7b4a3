#include "codegen/turn_buffers.h"

#include <algorithm>

#include "poly/exact.h"

namespace tilec::codegen {

bool TurnBuffers::local(TensorId id) const {
  return std::find(group_.locals.begin(), group_.locals.end(), id) != group_.locals.end();
}

// A local holds a part of a turn of each loop's dimension, and all of the others.
Body TurnBuffers::allocate() const {
  Body body;
  for (const TensorId id : group_.locals) {
    // a link: the last of its chain brings the buffer
    if (storage_.buffer[static_cast<std::size_t>(id)] != id) continue;
    std::vector<std::int64_t> shape = turn_shape(plan_.program, group_, id);
    const std::int64_t count = poly::product(shape);
    body.push_back(stmt(Allocate{plan_.program.tensor(id).name, plan_.program.tensor(id).dtype,
        std::max<std::int64_t>(1, count), group_.threads ? Memory::Shared : Memory::Local}));
  }
  for (const TensorId id : group_.kept)
    body.push_back(stmt(Allocate{storage_.name(id), plan_.program.tensor(id).dtype,
        poly::product(turn_shape(plan_.program, group_, id)), Memory::Shared}));
  return body;
}

// At the loops' first values in the dimensions that they are of. An access may have a loop's index in further
// dimensions, as E[i, i] has.
Expr TurnBuffers::base(TensorId id) const {
  Expr sum(std::int64_t{0});
  for (const Compute& leaf : group_.body) {
    const auto* s = std::get_if<poly::Statement>(&plan_.program.nodes[static_cast<std::size_t>(leaf.node)]);
    if (!s || s->target.tensor != id) continue;
    for (const Loop& loop : group_.loops)
      for (std::size_t d = 0; d < s->target.element.size(); ++d) {
        const auto k = s->target.element[d].single_index();
        if (!k || s->indices[*k] != loop.index) continue;
        sum = sum + var(turns_.first.at(loop.index)) * Expr(turn_strides(plan_.program, group_, strides_, id)[d]);
        break;
      }
  }
  return sum;
}

Body TurnBuffers::write_kept(Names& names) const {
  Body body;
  for (const TensorId id : group_.kept) {
    const std::vector<std::int64_t> shape = turn_shape(plan_.program, group_, id), dense = row_major(shape),
                                    &strides = strides_[static_cast<std::size_t>(id)];
    const std::int64_t count = poly::product(shape);
    const std::string turn = names.fresh("turn"), thread = names.fresh("l"), element = names.fresh("e");
    Expr place = start_of_part(id);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      const Expr here = quotient(var(element), dense[d]);
      const bool outermost = dense[d] * shape[d] == count;
      place = place + (outermost ? here : remainder(here, shape[d])) * Expr(strides[d]);
    }
    Body one{stmt(Store{plan_.program.tensor(id).name, place,
        Load{storage_.name(id), var(element), plan_.program.tensor(id).dtype}})};
    Body all{stmt(Let{element, var(turn) * Expr(group_.threads) + var(thread)}),
        stmt(If{less(var(element), Expr(count)), std::move(one), {}})};
    body.push_back(stmt(Barrier{}));
    body.push_back(stmt(For{turn, Kind::Serial, Expr(ceil_divide(count, group_.threads)), {},
        {stmt(For{thread, Kind::Thread, Expr(group_.threads), {}, std::move(all)})}}));
  }
  return body;
}

// Where it begins in the whole tensor.
Expr TurnBuffers::start_of_part(TensorId id) const {
  Expr place(std::int64_t{0});
  for (const Compute& leaf : group_.body) {
    const auto* s = std::get_if<poly::Statement>(&plan_.program.nodes[static_cast<std::size_t>(leaf.node)]);
    if (!s || s->target.tensor != id) continue;
    for (const Loop& loop : group_.loops) {
      if (const auto sum = part_of_turn(*s, loop, strides_))
        place = place + var(turns_.turn.at(loop.index)) * Expr(sum->stride);
      for (std::size_t d = 0; d < s->target.element.size(); ++d)
        if (const auto k = s->target.element[d].single_index(); k && s->indices[*k] == loop.index)
          place = place + var(turns_.first.at(loop.index)) * Expr(strides_[static_cast<std::size_t>(id)][d]);
    }
  }
  return place;
}

}  // namespace tilec::codegen
