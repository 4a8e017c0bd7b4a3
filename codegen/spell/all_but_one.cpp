#include "codegen/spell/all_but_one.h"

#include <functional>
#include <vector>

#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

// One loop in which all of `dims` have the same value; views move with it.
Body walk(ScanTile& s, const std::vector<std::size_t>& dims, const std::function<void(Body&, std::int64_t)>& each) {
  Body body;
  std::vector<Advance> moves;
  const auto view = [&](const std::string& name, const Form& offset) {
    std::int64_t step = 0;
    for (const std::size_t d : dims) step += offset.coefficients[d];
    if (step) moves.push_back({name, i64(step)});
  };
  const auto fix = [&](const Expr& at) { for (const std::size_t d : dims) s.points.fix(d, at); };
  fix(i64(0));
  s.views_of_reads(body);
  for (std::size_t r = 0; r < s.views.size(); ++r) view(s.views[r], s.nest.reads[r].offset);
  if (dims.size() > 1) s.view_of_target(body), view(s.target_view, s.nest.target.offset);
  append(body, s.loop(s.nest.dims[s.over].name, i64(s.nest.dims[s.over].extent), moves, [&](const Expr& index) {
    fix(index);
    Body turn;
    for (std::int64_t v = 0; v < s.vectors; ++v) append(turn, s.masked_turn(v, each));
    return turn;
  }));
  for (const std::size_t d : dims) s.points.release(d);
  return body;
}

}  // namespace

Body all_but_one(ScanTile& s) {
  const auto* select = s.nest.value->as<poly::Apply>();
  const poly::Expr own = select->operands[1], factor = select->operands[2];
  Body body;
  Divisible product;
  allocate_divisible(body, s.names, product, s.vectors, s.fold_type);
  append(body, walk(s, {s.over}, [&](Body& turn, std::int64_t v) {
    multiply_divisible(turn, s.names, product, v, convert(s.value(turn, factor, v, 0), s.fold_type));
  }));
  append(body, walk(s, {s.over, s.along}, [&](Body& turn, std::int64_t v) {
    const Expr x = convert(s.value(turn, factor, v, 0), s.fold_type),
               instead = convert(s.value(turn, own, v, 0), s.fold_type);
    s.put(turn, v, 0, s.stored_value(product_with(turn, s.names, product, v, x, instead)));
  }));
  return body;
}

}  // namespace tilec::codegen
