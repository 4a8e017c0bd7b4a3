#include "poly/tidy.h"

#include <optional>

#include "poly/intern.h"

namespace tilec::poly {
namespace {

// A hash of parts: `mix` for each.
class Hash {
 public:
  explicit Hash(std::size_t first) : value_(first) {}
  void mix(std::size_t part) { value_ = value_ * 1'000'003 + part; }
  // names are left to the comparison
  void mix(const Size& size) { mix(static_cast<std::size_t>(size.value().value_or(-7))); }
  std::size_t value() const { return value_; }

 private:
  std::size_t value_;
};

}  // namespace

std::size_t hash_of(const Affine& form) {
  Hash hash(form.coefficients.size());
  for (const Size& coefficient : form.coefficients) hash.mix(coefficient);
  hash.mix(form.constant);
  return hash.value();
}

std::size_t hash_of(const Access& access) {
  Hash hash(static_cast<std::size_t>(access.tensor));
  for (const Affine& form : access.element) hash.mix(hash_of(form));
  return hash.value();
}

std::size_t hash_of(const Range& row) { return hash_of(row.value); }

void tidy_reads(Statement& statement) {
  Distinct<Access> kept;
  std::vector<std::optional<int>> place(statement.reads.size());  // of each among those kept
  statement.value = with_leaves(statement.value, [&](const Expr& leaf) -> Expr {
    const auto* read = leaf.as<Read>();
    if (!read) return leaf;
    const auto k = static_cast<std::size_t>(read->read);
    if (!place.at(k)) place[k] = static_cast<int>(kept.place_of(statement.reads[k]));
    return *place[k] == read->read ? leaf : Expr{Read{*place[k], read->type}};
  });
  statement.reads = kept.take();
}

}  // namespace tilec::poly
