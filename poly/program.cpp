#include "poly/program.h"

#include <cmath>

namespace tilec::poly {

Program::Program() = default;
Program::Program(const Program&) = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(const Program&) = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

bool Expr::operator==(const Expr& other) const { return node_.get() == other.node_.get() || *node_ == *other.node_; }

bool Number::operator==(const Number& other) const {
  if (type != other.type) return false;
  if (!lang::is_float(type)) return integer == other.integer;
  if (std::isnan(real) || std::isnan(other.real)) return std::isnan(real) && std::isnan(other.real);
  return real == other.real && std::signbit(real) == std::signbit(other.real);
}

}  // namespace tilec::poly
