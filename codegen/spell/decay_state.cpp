#include "codegen/spell/decay_state.h"

#include <algorithm>
#include <cmath>

#include "codegen/scalar.h"

namespace tilec::codegen {

using namespace doubles;

DecayState::DecayState(ScanTile& of) : tile(of), decay(decay_of(of.nest, of.scan)) {
  std::vector<Line> lines;
  for (const Length& length : decay.lengths) {
    const Line one = line(length);
    lines.push_back(one);
    longest *= std::max({1.0, std::abs(one.start),
        std::abs(one.start + one.slope * static_cast<double>(tile.nest.dims[tile.over].extent))});
  }
  binomials = decay.rise ? std::vector<double>{0, decay.rise->minus ? -1.0 : 1.0} : codegen::binomials(lines).value();
}

// A sum of f64 with products of elements is half of one of f32 (codegen/intervals.h).
double DecayState::largest_term() const {
  if (decay.written == DType::F64 && !decay.gates.empty()) return 0x1p600;
  return decay.written == DType::F64 ? 0x1p1000 : decay.written == DType::F16 ? 0x1p15 : 0x1p126;
}

double DecayState::largest_growth() const {
  return decay.written != DType::F64 ? 0x1p700 : decay.gates.empty() ? 0x1p50 : 0x1p300;
}

bool DecayState::anchored() const {
  return decay.written == DType::F64 && lang::is_float(decay.type) && decay.gates.empty() &&
      (weighed() || !decay.lengths.empty());
}

bool DecayState::weighed() const {
  return decay.here || decay.there || !decay.powers.empty() || !decay.rates.empty() || !decay.gates.empty();
}

bool DecayState::bounded() const {
  return weighed() || !decay.lengths.empty() || decay.rise || (decay.scale && lang::is_float(decay.type));
}

Expr DecayState::ignored() const { return identity(tile.nest.aggregation, decay.type); }

Expr DecayState::combined(const Expr& a, const Expr& b) const {
  return tile.nest.aggregation == Aggregation::Sum ? plus(a, b) : combine(tile.nest.aggregation, a, b);
}

Line DecayState::line(const Length& length) const {
  Scan counted = tile.scan;
  counted.along_down = counted.over_down = false;      // as the nest is by now
  const Line found = line_of(tile.nest.form(length.index.as<poly::Index>()->value), counted, tile.nest.dims).value();
  return {length.times * found.start + length.plus, length.times * found.slope};
}

void DecayState::demand(Body& body, const DecayNames& p, std::int64_t v, const Expr& condition) const {
  hold(body, p.wrong, v, chosen(condition, held(p.wrong, v, DType::I32), Expr(Constant{DType::I32, 1, 0})));
}

}  // namespace tilec::codegen
