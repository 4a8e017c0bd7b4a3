#include "codegen/spelling.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "codegen/scalar.h"

namespace tilec::codegen {

void append(Body& body, Body more) {
  for (Stmt& s : more) body.push_back(std::move(s));
}

std::string Names::fresh(const std::string& stem) {
  for (int& n = count_[stem];; ) {
    std::string name = n == 0 ? stem : fmt::format("{}_{}", stem, n);
    ++n;
    if (taken_.insert(name).second) return name;
  }
}

std::int64_t neighbours_of(const Storage& storage, const FlatAccess& access, std::size_t d, std::int64_t most) {
  return neighbours_of(access, d, lang::bytes(storage.plan.program.tensor(access.tensor).dtype), most);
}

std::int64_t neighbours_of(const FlatAccess& access, std::size_t d, std::int64_t element_bytes, std::int64_t most) {
  if (access.offset.coefficients[d] != 1) return 1;
  std::int64_t w = std::min(most, most_access_bytes / element_bytes);
  const auto halve = [&](std::int64_t c) { while (c % w) w /= 2; };
  halve(access.offset.constant);
  for (std::size_t x = 0; x < access.offset.coefficients.size(); ++x)
    if (x != d) halve(access.offset.coefficients[x]);
  return std::max<std::int64_t>(w, 1);
}

Expr aligned(const Storage& storage, Names& names, Body& body, TensorId tensor, std::int64_t elements) {
  const std::string name = names.fresh("aligned");
  body.push_back(stmt(
      Aligned{name, storage.name(tensor), elements * lang::bytes(storage.plan.program.tensor(tensor).dtype)}));
  return Variable{name, DType::Bool};
}

Body where(const Expr& condition, Body then, Body otherwise) {
  if (const auto* known = condition.as<Constant>()) return known->integer ? then : otherwise;
  if (then.empty() && otherwise.empty()) return {};
  return {stmt(If{condition, std::move(then), std::move(otherwise)})};
}

Body serial(
    Names& names, const std::string& stem, const Interval& range, const std::function<Body(const Expr&)>& inside) {
  const auto counted = [&](const Expr& count, const Expr& lo) {
    const std::string index = names.fresh(stem);
    return stmt(For{index, Kind::Serial, count, {}, inside(lo + var(index))});
  };
  const Expr count = range.hi - range.lo;
  if (is_const(count)) {
    const std::int64_t c = const_or(count, 0);
    if (c <= 0) return {};
    return c == 1 ? inside(range.lo) : Body{counted(count, range.lo)};
  }
  const std::string lo = names.fresh(stem + "_lo"), turns = names.fresh(stem + "_n");
  Body body{stmt(Let{lo, range.lo}), stmt(Let{turns, range.hi - var(lo)})};
  Stmt loop = counted(var(turns), var(lo));
  body.push_back(stmt(If{less(Expr(std::int64_t{0}), var(turns)), {std::move(loop)}, {}}));
  return body;
}

Expr named(Names& names, Body& body, const std::string& stem, const Expr& e) {
  if (is_const(e)) return e;
  const std::string name = names.fresh(stem);
  body.push_back(stmt(Let{name, e}));
  return Variable{name, e.type()};
}

}  // namespace tilec::codegen
