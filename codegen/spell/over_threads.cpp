#include "codegen/spell/over_threads.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "poly/exact.h"

namespace tilec::codegen {

Interval values_from(const Expr& begin, std::int64_t step, std::int64_t extent) {
  const Expr end = begin + Expr(step);
  return {begin, extent % step ? minimum(end, Expr(extent)) : end};
}

namespace {

// What surrounds the element with this number, and where its last turn may have fewer values.
struct Element {
  Surroundings around;
  std::vector<Expr> inside = {};
};

Element element_at(Body& body, const Nest& nest, const std::vector<Digit>& digits, std::int64_t total,
    const Surroundings& around, const Expr& number, Names& names) {
  Element element{around};
  Expr rest = number;
  std::int64_t inner = total;
  for (const Digit& digit : digits) {
    inner = digit.count ? inner / digit.count : 0;
    const std::string name = names.fresh(nest.dims[digit.dim].name);
    const Expr index = quotient(rest, inner);
    rest = remainder(rest, inner);
    const auto limit = element.around.limits.find(digit.dim);  // of a dimension in two parts, those of its first one
    const bool limited = limit != element.around.limits.end();
    body.push_back(
        stmt(Let{name, limited ? limit->second.lo + index * Expr(digit.step) : index * Expr(digit.step)}));
    if (limited && digit.ragged) element.inside.push_back(less(var(name), limit->second.hi));
    if (digit.step == 1)
      element.around.fixed.insert_or_assign(digit.dim, var(name));
    else if (limited)
      element.around.limits.insert_or_assign(
          digit.dim, Interval{var(name), minimum(var(name) + Expr(digit.step), limit->second.hi)});
    else
      element.around.limits.insert_or_assign(
          digit.dim, values_from(var(name), digit.step, nest.dims[digit.dim].extent));
  }
  return element;
}

// Accesses of which the elements of a thread are one, or as few as there are: to how many bytes each begins, and
// whether memory begins there.
struct Wide {
  std::map<std::size_t, std::int64_t> bytes = {};
  std::optional<Expr> aligned = std::nullopt;
};

class OverThreads {
 public:
  OverThreads(const Nest& nest, const Compute& leaf, const std::vector<Digit>& digits, const Storage& storage,
      const Surroundings& around, Names& names, const Speller& spell)
      : nest_(nest), leaf_(leaf), digits_(digits), storage_(storage), around_(around), names_(names), spell_(spell) {}

  Body spell(Kind turns) {
    const std::int64_t total = number_of(digits_), threads = around_.threads, span = threads * leaf_.vectors;
    if (total == 0) return {};
    const std::string turn = names_.fresh("turn"), thread = names_.fresh("l");
    Body elements;
    wide_ = neighbours(elements);
    Body of_turn = turn_of(one_of(leaf_), digits_, leaf_.vectors, Kind::Unroll, var(turn), var(thread));
    if (wide_.aligned) {
      const Expr aligned = *wide_.aligned;
      wide_ = {};
      of_turn = {stmt(If{aligned, std::move(of_turn), one_by_one(var(turn), var(thread))})};
    }
    append(elements, std::move(of_turn));
    Stmt all = stmt(For{thread, Kind::Thread, Expr(threads), {}, std::move(elements)});
    return {stmt(For{turn, turns, Expr(ceil_divide(total, span)), {}, {std::move(all)}})};
  }

 private:
  static std::int64_t number_of(const std::vector<Digit>& digits) {
    std::int64_t total = 1;
    for (const Digit& digit : digits) total = (poly::Exact(total) * digit.count).get();
    return total;
  }

  static Compute one_of(const Compute& leaf) {
    Compute one = leaf;
    one.outer.clear();
    one.n.clear();
    one.vectors = 1;
    if (leaf.rows == 1) one.set_m("");
    return one;
  }

  Wide neighbours(Body& body) const {
    Wide wide;
    if (leaf_.rows == 1 || !leaf_.n.empty() || !leaf_.k.empty() || !leaf_.block() || around_.finishing ||
        !nest_.rows.empty())
      return wide;
    const std::size_t m = *nest_.dim(leaf_.m());
    if (around_.limits.contains(m) || nest_.target.offset.coefficients[m] != 1) return wide;
    std::map<TensorId, std::int64_t> widths;
    const auto ask = [&](std::size_t number, const FlatAccess& access) {
      const std::int64_t width = neighbours_of(storage_, access, m, leaf_.rows & -leaf_.rows);
      if (width == 1 || around_.base.contains(number) || around_.views.contains(number)) return;
      wide.bytes[number] = width * lang::bytes(type_of(access));
      std::int64_t& widest = widths[access.tensor];
      widest = std::max(widest, width);
    };
    for (std::size_t r = 0; r < nest_.reads.size(); ++r) ask(r, nest_.reads[r]);
    ask(target_access, nest_.target);
    for (const auto& [tensor, width] : widths) {
      const Expr one = aligned(storage_, names_, body, tensor, width);
      wide.aligned = wide.aligned ? both(*wide.aligned, one) : one;
    }
    return wide;
  }

  // The elements of a turn, neighbours of which threads have that are neighbours.
  Body one_by_one(const Expr& turn, const Expr& thread) {
    Compute apart = one_of(leaf_);
    apart.rows = 1;
    apart.set_m("");
    std::vector<Digit> digits = digits_;
    for (Digit& digit : digits)
      if (digit.step > 1) digit = {digit.dim, nest_.dims[digit.dim].extent, 1, false};
    return turn_of(apart, digits, leaf_.vectors * leaf_.rows, Kind::Serial, turn, thread);
  }

  // Those of one thread, `vectors` of them.
  Body turn_of(const Compute& one, const std::vector<Digit>& digits, std::int64_t vectors, Kind loop, const Expr& turn,
      const Expr& thread) {
    const std::int64_t total = number_of(digits), span = around_.threads * vectors;
    const Expr first = turn * Expr(span), number = first + thread;
    const auto at = [&](const Expr& of) { return at_element(one, digits, total, of); };
    const auto guarded = [&](const Expr& of) { return stmt(If{less(of, Expr(total)), at(of), {}}); };
    if (vectors == 1) return {guarded(number)};
    const std::string v = names_.fresh("v");
    const Expr next = number + var(v) * Expr(around_.threads);
    const auto all = [&](Body body) { return stmt(For{v, loop, Expr(vectors), {}, std::move(body)}); };
    if (loop == Kind::Serial) return {all({guarded(next)})};
    return {stmt(If{at_least(Expr(total), first + Expr(span)), {all(at(next))}, {all({guarded(next)})}})};
  }

  Body at_element(const Compute& one, const std::vector<Digit>& digits, std::int64_t total, const Expr& number) {
    const std::string name = names_.fresh("e");
    Body body{stmt(Let{name, number})};
    const Element element = element_at(body, nest_, digits, total, around_, var(name), names_);
    Body all = wide_.bytes.empty() ? spell_(one, element.around) : as_many_as_left(one, element.around);
    for (std::size_t at = element.inside.size(); at-- > 0;) all = {stmt(If{element.inside[at], std::move(all), {}})};
    append(body, std::move(all));
    return body;
  }

  // All neighbours that the plan says, or those that are left, one by one.
  Body as_many_as_left(const Compute& one, const Surroundings& around) {
    const std::size_t m = *nest_.dim(one.m());
    const Interval some = around.limits.at(m);
    const Expr end = some.lo + Expr(one.rows);
    Surroundings whole = around;
    whole.limits.insert_or_assign(m, Interval{some.lo, end});
    Body all = widely(one, std::move(whole));
    if (nest_.dims[m].extent % one.rows == 0) return all;
    Compute last = one;
    last.rows = 1;
    last.outer = {one.m()};
    last.set_m("");
    return {stmt(If{at_least(Expr(nest_.dims[m].extent), end), std::move(all), spell_(last, around)})};
  }

  // Registers hold what is read before any of it is asked, and what is written until all of it is there: between
  // accesses that stand apart a compiler does not see that they are one.
  Body widely(const Compute& one, Surroundings around) {
    Body body, stores;
    for (const auto& [number, bytes] : wide_.bytes) {
      const bool read = number != target_access;
      const FlatAccess& access = read ? nest_.reads[number] : nest_.target;
      const DType type = type_of(access);
      const std::string registers = names_.fresh(read ? "x" : "y"), view = names_.fresh(read ? "p" : "o");
      body.push_back(stmt(Allocate{registers, type, one.rows, Memory::Register}));
      Body& moves = read ? body : stores;
      moves.push_back(stmt(View{view, storage_.name(access.tensor), first_of(access, around), bytes}));
      for (std::int64_t u = 0; u < one.rows; ++u)
        moves.push_back(read ? stmt(Store{registers, Expr(u), Load{view, Expr(u), type}})
                             : stmt(Store{view, Expr(u), Load{registers, Expr(u), type}}));
      around.held.emplace(number, registers);
    }
    append(body, spell_(one, around));
    append(body, std::move(stores));
    return body;
  }

  static Expr first_of(const FlatAccess& access, const Surroundings& around) {
    Expr sum(access.offset.constant);
    for (std::size_t d = 0; d < access.offset.coefficients.size(); ++d) {
      if (!access.offset.coefficients[d]) continue;
      const auto limit = around.limits.find(d);
      sum = sum + (limit == around.limits.end() ? around.fixed.at(d) : limit->second.lo) *
              Expr(access.offset.coefficients[d]);
    }
    return sum;
  }

  DType type_of(const FlatAccess& access) const { return storage_.plan.program.tensor(access.tensor).dtype; }

  const Nest& nest_;
  const Compute& leaf_;
  const std::vector<Digit>& digits_;
  const Storage& storage_;
  const Surroundings& around_;
  Names& names_;
  const Speller& spell_;
  Wide wide_ = {};
};

}  // namespace

Body spell_over_threads(const Nest& nest, const Compute& leaf, const std::vector<Digit>& digits, const Storage& storage,
    const Surroundings& around, Kind turns, Names& names, const Speller& spell) {
  return OverThreads(nest, leaf, digits, storage, around, names, spell).spell(turns);
}

}  // namespace tilec::codegen
