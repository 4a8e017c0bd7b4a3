#include "poly/intern.h"

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace tilec::poly {
namespace {

class Interner {
 public:
  Expr of(const Expr& e) {
    const auto known = done_.find(address(e));
    if (known != done_.end()) return known->second;
    Expr result = rebuilt(e);
    done_.emplace(address(e), result);
    return result;
  }

 private:
  // Numbers, reads and indices are compared; the rest by operation and by the nodes of its operands.
  Expr rebuilt(const Expr& e) {
    return e.match([&](const Apply& a) { return apply(a, e); },
        [&](const Cast& c) {
          Expr operand = of(c.operand);
          return only(Key(-1, static_cast<int>(c.type), {address(operand)}),
              operand.same_as(c.operand) ? e : Expr(Cast{operand, c.type}));
        },
        [&](const Read& r) {
          return only(
              Key(-2, static_cast<int>(r.type), {reinterpret_cast<const void*>(static_cast<std::intptr_t>(r.read))}),
              e);
        },
        [&](const auto&) {
          for (const Expr& leaf : leaves_)
            if (leaf == e) return leaf;
          leaves_.push_back(e);
          return e;
        });
  }

  Expr apply(const Apply& a, const Expr& e) {
    Apply same{a.op, {}, a.type};
    std::vector<const void*> operands;
    bool changed = false;
    for (const Expr& operand : a.operands) {
      same.operands.push_back(of(operand));
      operands.push_back(address(same.operands.back()));
      changed = changed || !same.operands.back().same_as(operand);
    }
    return only(Key(static_cast<int>(a.op), static_cast<int>(a.type), std::move(operands)),
        changed ? Expr(std::move(same)) : e);
  }

  using Key = std::tuple<int, int, std::vector<const void*>>;
  Expr only(Key key, const Expr& e) { return made_.try_emplace(std::move(key), e).first->second; }

  std::map<const void*, Expr> done_;                   // by a node of the original, which outlives this
  std::map<Key, Expr> made_;
  std::vector<Expr> leaves_;
};

void collect(const Expr& e, std::set<const void*>& seen, std::vector<Expr>& all) {
  if (!seen.insert(address(e)).second) return;
  all.push_back(e);
  e.match(
      [&](const Apply& a) {
        for (const Expr& operand : a.operands) collect(operand, seen, all);
      },
      [&](const Cast& c) { collect(c.operand, seen, all); }, [](const auto&) {});
}

}  // namespace

const void* address(const Expr& e) {
  return e.match([](const auto& node) { return static_cast<const void*>(&node); });
}

namespace {

double length_of(const Expr& e, std::unordered_map<const void*, double>& known) {
  const auto of = [&](const Expr& operand) { return length_of(operand, known); };
  const auto at = known.find(address(e));
  if (at != known.end()) return at->second;
  const double all = e.match([&](const Apply& a) {
                               double sum = 1;
                               for (const Expr& operand : a.operands) sum += of(operand);
                               return sum;
                             },
                             [&](const Cast& c) { return 1 + of(c.operand); }, [](const auto&) { return 1.0; });
  known.emplace(address(e), all);
  return all;
}

}  // namespace

double length(const Expr& value) {
  std::unordered_map<const void*, double> known;
  return length_of(value, known);
}

namespace {

// Whether it is one operation at most, of different reads: most values are, and hundreds of them are looked at while
// one contraction is planned.
bool is_of_reads(const Expr& value) {
  if (value.as<Read>()) return true;
  const auto* apply = value.as<Apply>();
  if (apply == nullptr) return false;
  for (std::size_t a = 0; a < apply->operands.size(); ++a) {
    if (!apply->operands[a].as<Read>()) return false;
    for (std::size_t b = 0; b < a; ++b) if (apply->operands[a] == apply->operands[b]) return false;
  }
  return true;
}

}  // namespace

Expr interned(const Expr& value) { return is_of_reads(value) ? value : Interner().of(value); }

std::vector<Expr> parts(const Expr& value) {
  if (is_of_reads(value)) {
    std::vector<Expr> all{value};
    if (const auto* apply = value.as<Apply>()) all.insert(all.end(), apply->operands.begin(), apply->operands.end());
    return all;
  }
  std::set<const void*> seen;
  std::vector<Expr> all;
  collect(value, seen, all);
  return all;
}

void mark(const Expr& value, const std::vector<Access>& reads, std::vector<bool>& indices) {
  const auto form = [&](const Affine& affine) {
    for (std::size_t k = 0; k < indices.size(); ++k)
      if (!affine.coefficients[k].is(0)) indices[k] = true;
  };
  value.match(
      [&](const Read& r) {
        for (const Affine& x : reads[static_cast<std::size_t>(r.read)].element) form(x);
      },
      [&](const Index& i) { form(i.value); },
      [&](const Apply& a) {
        for (const Expr& o : a.operands) mark(o, reads, indices);
      },
      [&](const Cast& c) { mark(c.operand, reads, indices); }, [](const Number&) {});
}

const Expr& below_casts(const Expr& value) {
  const auto* cast = value.as<Cast>();
  return cast ? below_casts(cast->operand) : value;
}

}  // namespace tilec::poly
