#include "codegen/figures.h"

#include <fmt/core.h>

#include <cmath>

namespace tilec::codegen {

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string grouped(double value) {
  return value >= 1e15 ? fmt::format("{:.3g}", value) : grouped(static_cast<std::int64_t>(std::nearbyint(value)));
}

std::string scaled(double value, const char* unit) {
  for (const char* prefix : {"", "k", "M", "G", "T"}) {
    if (value < 999.5)
      return fmt::format("{:.3g} {}{}", value, prefix, *prefix == '\0' && *unit == ' ' ? unit + 1 : unit);
    value /= 1000;
  }
  return fmt::format("{:.3g} P{}", value, unit);
}

}  // namespace tilec::codegen
