#include "codegen/narrow.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/scan.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::DType;
using lang::Op;
using poly::Aggregation;
using poly::Statement;

// Of types that an i64 holds.
std::int64_t least_of(DType type) { return lang::is_signed(type) ? -(std::int64_t{1} << (lang::bits(type) - 1)) : 0; }
std::int64_t greatest_of(DType type) {
  const int bits = lang::bits(type) - (lang::is_signed(type) ? 1 : 0);
  return static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
}
bool is_held(DType type) { return type == DType::Bool || (lang::is_integer(type) && type != DType::U64); }

// What an element may be: a number from `low` to `high`, if these are in order, or, too, the greatest of its type, as
// the least of no numbers is.
struct Values {
  std::int64_t low = 0, high = -1;
  bool greatest = false;
  bool some() const { return low <= high; }
};
using Known = std::optional<Values>;

Known within(DType type, Values values) {
  const bool fits = !values.some() || (values.low >= least_of(type) && values.high <= greatest_of(type));
  return fits ? Known(values) : std::nullopt;
}

Known either(const Known& a, const Known& b) {
  if (!a || !b) return std::nullopt;
  Values both{a->low, a->high, a->greatest || b->greatest};
  if (!a->some()) both.low = b->low, both.high = b->high;
  else if (b->some()) both.low = std::min(a->low, b->low), both.high = std::max(a->high, b->high);
  return both;
}

// Of numbers alone, as far as 64 bits go; arithmetic that wraps is not known.
Known combined(Op op, DType type, const Known& a, const Known& b) {
  if (!a || !b || !a->some() || !b->some() || a->greatest || b->greatest) return std::nullopt;
  Values result;
  bool first = true;
  for (const std::int64_t x : {a->low, a->high})
    for (const std::int64_t y : {b->low, b->high}) {
      std::int64_t z = 0;
      if (op == Op::Add   ? __builtin_add_overflow(x, y, &z)
              : op == Op::Sub ? __builtin_sub_overflow(x, y, &z)
                              : __builtin_mul_overflow(x, y, &z))
        return std::nullopt;
      result = first ? Values{z, z} : Values{std::min(result.low, z), std::max(result.high, z)};
      first = false;
    }
  return within(type, result);
}

class Narrowing {
 public:
  explicit Narrowing(Fused& fused) : program_(fused.program) {
    for (const poly::TensorId id : program_.inputs) fixed_.insert(id);
    for (const poly::TensorId id : program_.outputs) fixed_.insert(id);
    for (const Fused::Set& set : fused.sets)           // whose spellers know statements by their form
      if (!set.over.empty() || !set.tile.empty())
        for (const int node : set.nodes) fix(program_.nodes[static_cast<std::size_t>(node)]);
    for (const poly::Node& node : program_.nodes) {
      if (std::holds_alternative<poly::Intrinsic>(node)) fix(node);
      const auto* s = std::get_if<Statement>(&node);
      if (s && scan_of(*s)) fixed_.insert(s->target.tensor);  // sums that it tells ask it by their form
      if (const auto* held = s ? std::get_if<poly::TensorId>(&s->fill) : nullptr)
        fixed_.insert({*held, s->target.tensor});
    }
  }

  void run() {
    for (poly::Node& node : program_.nodes) {
      auto* s = std::get_if<Statement>(&node);
      if (!s) continue;
      read_narrow(*s);
      const poly::TensorId id = s->target.tensor;
      poly::Tensor& tensor = program_.tensors[static_cast<std::size_t>(id)];
      if (fixed_.contains(id) || !lang::is_integer(tensor.dtype) || !is_held(tensor.dtype)) continue;
      const Known values = values_of(*s);
      const auto type = values ? narrowest(*values, tensor.dtype) : std::nullopt;
      if (!type) continue;
      narrowed_.emplace(id, Narrowed{tensor.dtype, *values});
      tensor.dtype = *type;
      if (auto* fill = std::get_if<poly::Number>(&s->fill))
        *fill = {*type, fill->integer == greatest_of(fill->type) ? greatest_of(*type) : fill->integer};
    }
  }

 private:
  struct Narrowed { DType was; Values values; };

  void fix(const poly::Node& node) {
    if (const auto* s = std::get_if<Statement>(&node)) {
      fixed_.insert(s->target.tensor);
      for (const poly::Access& read : s->reads) fixed_.insert(read.tensor);
      return;
    }
    const auto& intrinsic = std::get<poly::Intrinsic>(node);
    fixed_.insert(intrinsic.targets.begin(), intrinsic.targets.end());
    fixed_.insert(intrinsic.operands.begin(), intrinsic.operands.end());
  }

  // The greatest is stored as what is left of it: all bits are set, which is a number of its own in no signed type.
  static std::optional<DType> narrowest(const Values& values, DType type) {
    for (const DType narrow : {DType::U8, DType::I8, DType::U16, DType::I16, DType::U32, DType::I32}) {
      if (lang::bytes(narrow) >= lang::bytes(type) || (values.greatest && lang::is_signed(narrow))) continue;
      const std::int64_t most = greatest_of(narrow) - (values.greatest ? 1 : 0);
      if (!values.some() || (values.low >= least_of(narrow) && values.high <= most)) return narrow;
    }
    return std::nullopt;
  }

  // Reads of narrow tensors are what they were.
  void read_narrow(Statement& s) const {
    const poly::Expr value = poly::with_leaves(s.value, [&](const poly::Expr& leaf) -> poly::Expr {
      const auto* read = leaf.as<poly::Read>();
      if (!read) return leaf;
      const poly::TensorId id = s.reads[static_cast<std::size_t>(read->read)].tensor;
      const auto narrowed = narrowed_.find(id);
      if (narrowed == narrowed_.end()) return leaf;
      const auto& [was, values] = narrowed->second;
      const DType type = program_.tensor(id).dtype;
      const poly::Expr stored = poly::Read{read->read, type}, wide = poly::Cast{stored, was};
      if (!values.greatest) return wide;
      return poly::Apply{Op::Select,
          {poly::Apply{Op::Eq, {stored, poly::Number{type, greatest_of(type)}}, DType::Bool},
              poly::Number{was, greatest_of(was)}, wide},
          was};
    });
    if (!value.same_as(s.value)) s.value = poly::interned(value);
  }

  Known values_of(const Statement& s) const {
    const auto* fill = std::get_if<poly::Number>(&s.fill);
    Known values = of(s, s.value);
    if (!fill || !values) return std::nullopt;
    if (s.aggregation == Aggregation::Product) return std::nullopt;
    if (s.aggregation == Aggregation::Sum) {
      std::int64_t terms = 1;
      for (std::size_t k = 0; k < s.indices.size(); ++k)
        if (!of_target(s, k) && __builtin_mul_overflow(terms, s.domain[k].extent->get(), &terms)) return std::nullopt;
      if (values->some()) values = either(Values{0, 0, values->greatest}, values);
      values = combined(Op::Mul, s.value.type(), values, Values{0, terms});
    }
    const DType type = program_.tensor(s.target.tensor).dtype;
    // What is cast at the store stays what it is.
    if (!values || (values->greatest && s.value.type() != type) || !within(type, *values)) return std::nullopt;
    return either(values, of(s, *fill));
  }

  static bool of_target(const Statement& s, std::size_t k) {
    return std::ranges::any_of(
        s.target.element, [&](const poly::Affine& form) { return !form.coefficients[k].is(0); });
  }

  Known of(const Statement& s, const poly::Expr& e) const {
    if (!is_held(e.type())) return std::nullopt;
    return e.match(
        [&](const poly::Number& n) -> Known {
          if (n.type != DType::Bool && n.integer == greatest_of(n.type)) return Values{0, -1, true};
          return Values{n.integer, n.integer};
        },
        [&](const poly::Read& r) -> Known {
          const auto narrowed = narrowed_.find(s.reads[static_cast<std::size_t>(r.read)].tensor);
          // Where it holds what stands for the greatest, that is chosen in its place.
          if (narrowed != narrowed_.end() && narrowed->second.values.some())
            return Values{narrowed->second.values.low, narrowed->second.values.high};
          return lang::bits(r.type) <= 16 ? Known(of_type(r.type)) : std::nullopt;
        },
        [&](const poly::Index& i) { return index(s, i); },
        [&](const poly::Cast& c) -> Known {
          const Known inside = of(s, c.operand);
          if (!inside || inside->greatest || e.type() == DType::Bool) return std::nullopt;
          return within(e.type(), *inside);
        },
        [&](const poly::Apply& a) { return apply(s, a); });
  }

  static Values of_type(DType type) {
    return type == DType::Bool ? Values{0, 1} : Values{least_of(type), greatest_of(type)};
  }

  Known apply(const Statement& s, const poly::Apply& a) const {
    if (a.type == DType::Bool) return Values{0, 1};
    const auto operand = [&](std::size_t o) { return of(s, a.operands[o]); };
    switch (a.op) {
      case Op::Select: return either(operand(1), operand(2));
      case Op::Max:
      case Op::Min: return either(operand(0), operand(1));
      case Op::Add:
      case Op::Sub:
      case Op::Mul: return combined(a.op, a.type, operand(0), operand(1));
      default: return std::nullopt;
    }
  }

  // Over the hulls of the indices.
  static Known index(const Statement& s, const poly::Index& i) {
    if (!i.value.divisor.is(1)) return std::nullopt;
    Known sum = Values{i.value.constant.get(), i.value.constant.get()};
    for (std::size_t k = 0; k < s.indices.size() && sum; ++k) {
      const std::int64_t c = i.value.coefficients[k].get();
      if (c == 0) continue;
      std::int64_t low = 0, high = 0;
      const std::int64_t extent = s.domain[k].extent->get();
      if (extent <= 0 || __builtin_sub_overflow(std::int64_t{0}, s.domain[k].value.constant.get(), &low) ||
          __builtin_add_overflow(low, extent - 1, &high))
        return std::nullopt;
      sum = combined(Op::Add, DType::I64, sum, combined(Op::Mul, DType::I64, Values{c, c}, Values{low, high}));
    }
    return sum ? within(i.type, *sum) : sum;
  }

  poly::Program& program_;
  std::set<poly::TensorId> fixed_ = {};
  std::map<poly::TensorId, Narrowed> narrowed_ = {};
};

}  // namespace

void narrow(Fused& fused) { Narrowing(fused).run(); }

}  // namespace tilec::codegen
