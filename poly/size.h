// A size: an exact 64-bit integer, or an expression over size names in a canonical form.
//
//   P + Q, Q + P  ⇒  the same Size            (N + 1)/2 with N = 224  ⇒  112
//
// A number and a sum of terms `coefficient · factor · …`; a factor is a name or one of the operations that do not
// distribute (truncating `/`, max, min, mod, comparisons, `?:`). Equality is equality of canonical forms: equal Sizes
// are equal for all values of their names, unequal ones may still agree. Overflow and division by zero throw SizeError.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "poly/exact.h"

namespace tilec::poly {

class Size {
 public:
  enum class Kind { Name, Divide, Max, Min, Mod, Equal, Less, Cond };  // Less(a, b): a < b, 1 or 0; Cond(c, a, b)
  struct Factor {
    Kind kind;
    std::string name;                                  // of Kind::Name, as the program spells it (`#n` for a lower-case
                                                       // size)
    std::vector<Size> arguments;
    bool operator==(const Factor&) const;
    bool operator<(const Factor&) const;
  };
  struct Term {
    std::int64_t coefficient;
    std::vector<Factor> factors;                       // sorted, one at least
    bool operator==(const Term&) const = default;
  };

  Size() = default;                                    // 0
  Size(std::int64_t value) : constant_(value) {}       // NOLINT: implicit on purpose
  static Size named(std::string name);
  static Size apply(Kind kind, std::vector<Size> arguments);  // folds when it can

  // when no name is left
  std::optional<std::int64_t> value() const { return terms_ ? std::nullopt : std::optional(constant_); }
  // value(), or InternalError: use only on bound programs
  std::int64_t get() const { return terms_ ? not_bound() : constant_; }
  bool is(std::int64_t v) const { return !terms_ && constant_ == v; }
  std::int64_t constant() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_ ? *terms_ : none(); }  // the others
  const Factor* lone_factor() const;                   // what the size consists of, if it is one factor and nothing
                                                       // else
  std::set<std::string> names() const;
  Size substitute(const std::map<std::string, std::int64_t>& values) const;
  std::string print(bool as_calls = false) const;      // Tile; as_calls: `div(K, 2)`, as indices and constraints need
                                                       // it

  Size operator-() const;
  friend Size operator+(const Size&, const Size&);
  friend Size operator-(const Size&, const Size&);
  friend Size operator*(const Size&, const Size&);
  friend Size operator/(const Size&, const Size&);     // truncates toward zero
  bool operator==(const Size& other) const { return constant_ == other.constant_ && has_terms_of(other); }
  bool operator<(const Size& other) const;             // an order for containers, not of values

 private:
  [[noreturn]] std::int64_t not_bound() const;
  static const std::vector<Term>& none();
  bool has_terms_of(const Size& other) const { return terms_ == other.terms_ || terms() == other.terms(); }
  void set_terms(std::vector<Term> terms);

  std::int64_t constant_ = 0;
  // Sorted by factors, no zero coefficients; null: there is none, as of nearly every size that is copied.
  std::shared_ptr<const std::vector<Term>> terms_;
};

}  // namespace tilec::poly
