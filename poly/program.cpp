#include "poly/program.h"

#include <cmath>

namespace tilec::poly {

bool Number::operator==(const Number& other) const {
  if (type != other.type) return false;
  if (!lang::is_float(type)) return integer == other.integer;
  if (std::isnan(real) || std::isnan(other.real)) return std::isnan(real) && std::isnan(other.real);
  return real == other.real && std::signbit(real) == std::signbit(other.real);
}

}  // namespace tilec::poly
