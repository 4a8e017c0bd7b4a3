#include "codegen/spell/products_between.h"

#include "codegen/scalar.h"
#include "poly/intern.h"

namespace tilec::codegen {

void start_gates(const DecayState& d, Body& body, const DecayNames& p, std::int64_t v) {
  for (std::size_t n = 0; n < p.gates.size(); ++n)
    if (const Gate& gate = d.decay.gates[n]; !gate.here_is_last)
      hold(body, p.gates[n], v, d.tile.value(body, gate.first, v, 0));
}

std::optional<Expr> step_of_gates(const DecayState& d, Body& body, const DecayNames& p, std::int64_t v) {
  std::optional<Expr> step;
  for (std::size_t n = 0; n < p.gates.size(); ++n) {
    const Gate& gate = d.decay.gates[n];
    const Expr one = gate.here_is_last ? d.tile.value(body, gate.last, v, 0)
                                       : d.tile.named(body, "gate", d.held(p.gates[n], v, DType::F64));
    if (!gate.here_is_last) hold(body, p.gates[n], v, d.tile.value(body, gate.first, v, 0));
    step = step ? doubles::times(*step, one) : one;
  }
  return step;
}

std::optional<Expr> weight_of_gates(const DecayState& d, Body& body, std::int64_t v) {
  std::optional<Expr> weight;
  for (const Gate& gate : d.decay.gates) {
    if (d.line(gate.length).start == 0) continue;
    const Expr one = d.tile.value(body, gate.last, v, 0);
    weight = weight ? doubles::times(*weight, one) : one;
  }
  return weight;
}

Body ProductsBetween::allocate() {
  Body body;
  for (std::size_t n = 0; n < d_.decay.gates.size(); ++n) {
    products_.push_back({s_.names.fresh("product"), s_.names.fresh("exponent")});
    body.push_back(stmt(Allocate{products_[n].mantissa, DType::F64, s_.vectors, Memory::Register}));
    body.push_back(stmt(Allocate{products_[n].exponent, DType::I32, s_.vectors, Memory::Register}));
  }
  return body;
}

void ProductsBetween::multiply_by(Body& body, std::size_t n, const poly::Expr& factor, std::int64_t v) {
  multiply(body, s_.names, products_[n], v, s_.value(body, factor, v, 0));
}

// The product between an element and its last value, which need not be there any more.
Body ProductsBetween::begin(const Expr& j) {
  Body body;
  if (products_.empty()) return body;
  s_.points.fix(s_.over, j + i64(s_.scan.c));
  s_.views_of_reads(body);
  for (std::int64_t v = 0; v < s_.vectors; ++v)
    append(body, s_.masked_turn(v, [&](Body& inside, std::int64_t) {
      for (std::size_t n = 0; n < products_.size(); ++n) {
        begin_product(inside, products_[n], v, DType::F64);
        if (d_.line(d_.decay.gates[n].length).start == 1) multiply_by(inside, n, d_.decay.gates[n].last, v);
      }
    }));
  s_.points.release(s_.over);
  return body;
}

Body ProductsBetween::turn(const Expr& k, const std::function<void(Body&, std::int64_t)>& add) {
  Body body;
  s_.points.fix(s_.over, k);
  s_.views_of_reads(body);
  for (std::int64_t v = 0; v < s_.vectors; ++v) append(body, s_.masked_turn(v, [&](Body& inside, std::int64_t) {
    for (const poly::Expr& part : poly::parts(*s_.nest.value))
      for (std::size_t n = 0; n < products_.size(); ++n)
        if (part == d_.decay.gates[n].product)
          s_.values.insert_or_assign(part.match([](const auto& x) { return static_cast<const void*>(&x); }),
              product_of(inside, s_.names, products_[n], v, DType::F64));
    add(inside, v);
  }));
  s_.points.release(s_.over);
  return body;
}

Body ProductsBetween::each(
    const Expr& j, const Interval& values, const std::function<void(Body&, std::int64_t)>& add) {
  if (products_.empty())
    return serial(s_.names, s_.nest.dims[s_.over].name, values, [&](const Expr& k) { return turn(k, add); });
  // From the element's last value back; products grow past values that are not there.
  const Expr last = j + i64(s_.scan.c);
  return serial(s_.names, s_.nest.dims[s_.over].name, {i64(0), last + i64(1) - values.lo}, [&](const Expr& back) {
    Body body, after;
    const Expr k = s_.named(body, "k", last - back);
    const auto grow = [&](Body& where, bool here_is_last) {
      s_.points.fix(s_.over, k);
      s_.views_of_reads(where);
      for (std::int64_t v = 0; v < s_.vectors; ++v)
        append(where, s_.masked_turn(v, [&](Body& inside, std::int64_t) {
          for (std::size_t n = 0; n < products_.size(); ++n)
            if (const Gate& gate = d_.decay.gates[n]; gate.here_is_last == here_is_last)
              multiply_by(inside, n, here_is_last ? gate.first : gate.last, v);
        }));
      s_.points.release(s_.over);
    };
    Body further;
    grow(further, false);
    body.push_back(stmt(If{less(i64(0), back), std::move(further), {}}));
    body.push_back(stmt(If{less(k, values.hi), turn(k, add), {}}));
    grow(body, true);
    return body;
  });
}

}  // namespace tilec::codegen
