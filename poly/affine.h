// Affine forms over a statement's indices, with Sizes as coefficients.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "poly/size.h"

namespace tilec::poly {

// (Σ coefficients[k] · index k + constant) / divisor. The point is valid only where the division is exact.
struct Affine {
  std::vector<Size> coefficients;                      // one per index of the statement, in the order of
                                                       // Statement::indices
  Size constant = 0;
  Size divisor = 1;                                    // positive once bound
  bool operator==(const Affine&) const = default;

  static Affine index(std::size_t k, std::size_t count);
  static Affine of(Size constant, std::size_t count);
  bool is_constant() const;
  std::optional<std::size_t> single_index() const;     // k when the form is exactly `index k`
  Affine plus(const Affine& other) const;              // common divisor
  Affine times(const Size& factor) const;
  Affine substitute(const std::map<std::string, std::int64_t>& values) const;
  // The indices replaced by affine forms (with divisor 1) over other indices: this ∘ map.
  Affine compose(std::span<const Affine> map, std::size_t new_count) const;
  // The same form among `new_count` indices; where[k] is the new position of index k.
  Affine renumber(std::span<const std::size_t> where, std::size_t new_count) const;
  std::string print(std::span<const std::string> indices) const;
};

// 0 <= value, value < extent (if any), and value is an integer.
struct Range {
  Affine value;
  std::optional<Size> extent;
  bool operator==(const Range&) const = default;
};

}  // namespace tilec::poly
