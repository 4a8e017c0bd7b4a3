// What elements a statement reaches, from outside: an interval for each dimension, with sizes for ends.
#include "autodiff/apart.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>

namespace tilec::autodiff {
namespace {

using poly::Affine;
using poly::Program;
using poly::Size;
using poly::Statement;

struct Reach {
  Size low = 0, end = 0;
  std::int64_t first = 0, step = 0;                    // elements first + step·n, where that is numbers; step 0: not
                                                       // known
  bool operator==(const Reach&) const = default;
  bool operator<(const Reach& o) const {
    return std::tie(first, step, low, end) < std::tie(o.first, o.step, o.low, o.end);
  }
};
using Reaches = std::vector<std::optional<Reach>>;     // per dimension

// The range of index k, where a row states it.
const poly::Range* range_of(const Statement& s, std::size_t k) {
  for (const poly::Range& row : s.domain) {
    Affine alone = row.value;
    alone.constant = 0;
    if (row.extent && alone.single_index() == k) return &row;
  }
  return nullptr;
}

std::optional<Reach> reach(const Statement& s, const Affine& form) try {
  if (!form.divisor.is(1)) return std::nullopt;
  Reach reach{form.constant, form.constant, form.constant.value().value_or(0), 0};
  for (std::size_t k = 0; k < form.coefficients.size(); ++k) {
    const auto c = form.coefficients[k].value();
    if (c == 0) continue;
    const poly::Range* row = c ? range_of(s, k) : nullptr;
    if (!row) return std::nullopt;
    const Size low = -row->value.constant, high = low + *row->extent - 1;
    reach.low = reach.low + *c * (*c > 0 ? low : high);
    reach.end = reach.end + *c * (*c > 0 ? high : low);
    reach.step = std::gcd(reach.step, *c);
  }
  reach.end = reach.end + 1;
  if (!form.constant.value()) reach.step = 0;
  return reach;
} catch (const poly::SizeError&) {
  return std::nullopt;                                 // an end beyond 64 bits
}

Reaches reaches(const Statement& s) {
  Reaches all;
  for (const Affine& form : s.target.element) all.push_back(reach(s, form));
  return all;
}

// Whether the name is an extent of the tensor: it is a count then. Other names are scalars, which may be negative.
bool counts(const poly::Tensor& tensor, const std::string& name) {
  return std::any_of(tensor.shape.begin(), tensor.shape.end(), [&](const Size& size) {
    const auto* factor = size.lone_factor();
    return factor && factor->kind == Size::Kind::Name && factor->name == name;
  });
}

class Sets {
 public:
  explicit Sets(const Program& program) : program_(program) {}

  void add(std::size_t n, const Statement& s) {
    Reaches own = reaches(s);
    if (is_whole(own, program_.tensor(s.target.tensor).shape)) {
      wholes_.push_back(n);
      return;
    }
    std::size_t& next = next_[own];                    // what had no room, or what took one that reaches the same,
                                                       // stays so
    while (next < sets_.size() && !(compared_ < most && fits(own, sets_[next]))) ++next;
    Set& to = next == sets_.size() ? sets_.emplace_back() : sets_[next];
    ++next;
    if (to.members.empty()) to.taken.assign(own.size(), Intervals{});
    for (std::size_t d = 0; d < own.size(); ++d) {
      const auto low = own[d] ? own[d]->low.value() : std::nullopt, end = own[d] ? own[d]->end.value() : std::nullopt;
      if (low && end && to.taken[d] && free(*to.taken[d], *low, *end)) to.taken[d]->emplace(*low, *end);
      else to.taken[d].reset();
    }
    to.members.push_back(n);
    to.reaches.push_back(std::move(own));
  }

  std::vector<std::vector<std::size_t>> members() const {
    std::vector<std::vector<std::size_t>> all;
    for (const Set& set : sets_) all.push_back(set.members);
    for (const std::size_t n : wholes_) all.push_back({n});
    return all;
  }

 private:
  using Intervals = std::map<std::int64_t, std::int64_t>;  // of one dimension, none in another: low, end
  struct Set {
    std::vector<std::size_t> members;
    std::vector<Reaches> reaches;
    std::vector<std::optional<Intervals>> taken;       // per dimension, while all members are apart there
  };
  static constexpr std::size_t few = 32;               // pairs that are compared one by one
  static constexpr std::size_t most = 1'000'000;       // comparisons; after them, each is apart from nothing

  static bool free(const Intervals& taken, std::int64_t low, std::int64_t end) {
    const auto next = taken.lower_bound(low);
    return end > low && (next == taken.end() || next->first >= end) &&
        (next == taken.begin() || std::prev(next)->second <= low);
  }

  // Meets whatever has an element.
  static bool is_whole(const Reaches& own, const std::vector<Size>& shape) {
    for (std::size_t d = 0; d < own.size(); ++d)
      if (!own[d] || own[d]->step != 1 || !own[d]->low.is(0) || own[d]->end != shape[d]) return false;
    return true;
  }

  bool fits(const Reaches& own, const Set& set) {
    ++compared_;
    for (std::size_t d = 0; d < own.size(); ++d) {
      const auto low = own[d] ? own[d]->low.value() : std::nullopt, end = own[d] ? own[d]->end.value() : std::nullopt;
      if (low && end && set.taken[d] && free(*set.taken[d], *low, *end)) return true;
    }
    if (set.reaches.size() > few) return false;
    compared_ += set.reaches.size();
    return std::all_of(
        set.reaches.begin(), set.reaches.end(), [&](const Reaches& other) { return are_apart(own, other); });
  }

  bool are_apart(const Reaches& a, const Reaches& b) const {
    for (std::size_t d = 0; d < a.size(); ++d) {
      if (!a[d] || !b[d]) continue;
      const std::int64_t step = a[d]->step && b[d]->step ? std::gcd(a[d]->step, b[d]->step) : 0;
      const bool other_residue = step && residue(a[d]->first, step) != residue(b[d]->first, step);
      if (is_before(*a[d], *b[d]) || is_before(*b[d], *a[d]) || other_residue) return true;
    }
    return false;
  }

  static std::int64_t residue(std::int64_t value, std::int64_t step) {
    return value % step + (value % step < 0 ? step : 0);
  }

  bool is_before(const Reach& a, const Reach& b) const try {
    return nonnegative(b.low - a.end);
  } catch (const poly::SizeError&) {
    return false;                                      // too far to say
  }

  bool nonnegative(const Size& size) const {
    const auto count = [&](const Size::Factor& f) { return f.kind == Size::Kind::Name && is_count(f.name); };
    return size.constant() >= 0 && std::all_of(size.terms().begin(), size.terms().end(), [&](const Size::Term& t) {
      return t.coefficient >= 0 && std::all_of(t.factors.begin(), t.factors.end(), count);
    });
  }

  // Mostly an input has it.
  bool is_count(const std::string& name) const {
    const auto has = [&](const poly::Tensor& tensor) { return counts(tensor, name); };
    return std::any_of(program_.inputs.begin(), program_.inputs.end(),
               [&](poly::TensorId id) { return has(program_.tensor(id)); }) ||
        std::any_of(program_.tensors.begin(), program_.tensors.end(), has);
  }

  const Program& program_;
  std::vector<Set> sets_;
  std::map<Reaches, std::size_t> next_;                // for what reaches the same: the first set that may have room
  std::size_t compared_ = 0;
  std::vector<std::size_t> wholes_;
};

}  // namespace

std::vector<std::vector<std::size_t>> apart(const Program& program, const std::vector<const Statement*>& statements) {
  Sets sets(program);
  for (std::size_t n = 0; n < statements.size(); ++n) sets.add(n, *statements[n]);
  return sets.members();
}

}  // namespace tilec::autodiff
