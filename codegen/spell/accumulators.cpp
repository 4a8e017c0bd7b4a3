#include "codegen/spell/accumulators.h"

#include "codegen/scalar.h"

namespace tilec::codegen {

Accumulators begin_sums(Body& body, SpelledLeaf& leaf, std::int64_t rows, std::int64_t vectors) {
  const std::int64_t count = rows * vectors;
  Accumulators sums{leaf, vectors, leaf.names.fresh("acc")};
  body.push_back(stmt(Allocate{sums.name, leaf.type, count, Memory::Register}));
  if (leaf.scaled) {
    sums.product = {sums.name, leaf.names.fresh("exponent")};
    body.push_back(stmt(Allocate{sums.product.exponent, DType::I32, count, Memory::Register}));
    for (std::int64_t a = 0; a < count; ++a) begin_product(body, sums.product, a, leaf.type);
  } else {
    for (std::int64_t a = 0; a < count; ++a)
      body.push_back(stmt(Store{sums.name, Expr(a), identity(leaf.nest.aggregation, leaf.type)}));
  }
  if (leaf.flag) {
    sums.hit = leaf.names.fresh("hit");
    body.push_back(stmt(Allocate{sums.hit, DType::I64, 1, Memory::Register}));
    body.push_back(stmt(Store{sums.hit, Expr(std::int64_t{0}), Expr(std::int64_t{0})}));
  }
  return sums;
}

Body Accumulators::add(std::int64_t slot, const Expr& x) const {
  if (!leaf.scaled)
    return {stmt(Store{name, Expr(slot), combine(leaf.nest.aggregation, Load{name, Expr(slot), leaf.type}, x)})};
  Body multiplied;
  multiply(multiplied, leaf.names, product, slot, x);
  return multiplied;
}

Body Accumulators::add_product(std::int64_t slot, const Expr& a, const Expr& b) const {
  return {stmt(Store{
      name, Expr(slot), Operation{Op::Fma, {a, b, Expr(Load{name, Expr(slot), leaf.type})}, leaf.type}})};
}

Expr Accumulators::folded(Body& body, std::int64_t slot) const {
  return leaf.scaled ? product_of(body, leaf.names, product, slot, leaf.type)
                     : Expr(Load{name, Expr(slot), leaf.type});
}

Stmt Accumulators::met() const { return stmt(Store{hit, Expr(std::int64_t{0}), Expr(std::int64_t{1})}); }

Expr Accumulators::has_met() const {
  return less(Expr(std::int64_t{0}), Load{hit, Expr(std::int64_t{0}), DType::I64});
}

Expr Accumulators::or_fill(const Expr& value) const {
  if (!leaf.flag || !leaf.nest.fill) return value;
  return Operation{Op::Select, {has_met(), value, constant_of(*leaf.nest.fill)}, compute_type(leaf.target_type)};
}

}  // namespace tilec::codegen
