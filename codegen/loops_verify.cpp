// The rules of Loops that need no machine: names, types, places.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/loops.h"
#include "codegen/scalar.h"
#include "lang/diagnostic.h"

namespace tilec::codegen {

namespace {

// What names mean inside a body; at its end they mean again what they did before.
template <class T> class Scope {
 public:
  void declare(const std::string& name, T what) {
    const auto [at, is_new] = names_.try_emplace(name, what);
    changes_.push_back({name, is_new ? std::nullopt : std::optional(at->second)});
    at->second = what;
  }
  const T* find(const std::string& name) const {
    const auto at = names_.find(name);
    return at == names_.end() ? nullptr : &at->second;
  }
  std::size_t depth() const { return changes_.size(); }
  void back_to(std::size_t depth) {
    for (; changes_.size() > depth; changes_.pop_back()) {
      auto& [name, before] = changes_.back();
      if (before) names_.at(name) = *before;
      else names_.erase(name);
    }
  }

 private:
  std::unordered_map<std::string, T> names_;
  std::vector<std::pair<std::string, std::optional<T>>> changes_;
};

// Names are checked by scope: a view, register or table is `memory`, a loop index, Let, Fold or parameter a `variable`.
class Verifier {
 public:
  explicit Verifier(const Loops& loops) : loops_(loops) {}

  void function(const Function& f) {
    where_ = f.name;
    memory_ = {}, variables_ = {};
    for (const Table& t : loops_.tables) memory_.declare(t.name, {DType::I64, false});
    for (const ViewParameter& v : f.views) memory_.declare(v.name, {v.type, false});
    for (const std::string& name : f.integers) variables_.declare(name, DType::I64);
    body(f.body, {});
    done_.insert(f.name);
  }

 private:
  struct Memory_ { DType type; bool is_register; std::int64_t count = 0; };
  struct Inside { bool vector = false; std::int64_t lanes = 0; };

  template <class... Arguments>
  void require(bool holds, fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    if (!holds) throw wrong(text, std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  lang::InternalError wrong(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    return lang::InternalError(
        fmt::format("Loops, `{}`: {}", where_, fmt::format(text, std::forward<Arguments>(arguments)...)));
  }

  const Memory_& memory(const std::string& name) const {
    const Memory_* found = memory_.find(name);
    if (!found) throw wrong("`{}` is no view here", name);
    return *found;
  }

  void i64(const Expr& e) const {
    expr(e);
    if (e.type() != DType::I64) require(false, "`{}` is {}, not i64", print(e), lang::name(e.type()));
  }

  void expr(const Expr& e) const {
    e.match([](const Constant&) {},
            [&](const Variable& v) {
              const DType* type = variables_.find(v.name);
              if (type == nullptr) throw wrong("`{}` is not defined here", v.name);
              require(*type == v.type, "`{}` is {}, used as {}", v.name, lang::name(*type), lang::name(v.type));
            },
            [&](const Load& l) {
              i64(l.offset);
              require(memory(l.view).type == l.type, "`{}` is loaded as {}", l.view, lang::name(l.type));
            },
            [&](const Operation& o) { operation(o); }, [&](const Convert& c) { expr(c.operand); });
  }

  void operation(const Operation& o) const {
    const lang::OpInfo& row = lang::info(o.op);
    const bool quotient = o.op == Op::Div && o.type == DType::F32 && o.operands.size() == 3;
    const bool apart = o.below_maximum && o.type == DType::F32 &&
        (o.operands.size() == 2 || o.operands.size() == 3);
    require(quotient || apart || static_cast<int>(o.operands.size()) == row.arity, "`{}` has {} operands", row.name,
        o.operands.size());
    for (const Expr& e : o.operands) expr(e);
    const std::size_t first = o.op == Op::Select ? 1 : 0;
    for (std::size_t i = first + 1; i < o.operands.size(); ++i)
      require(o.operands[i].type() == o.operands[first].type(), "operands of `{}` differ: {} and {}", row.name,
              lang::name(o.operands[first].type()), lang::name(o.operands[i].type()));
    require(
        o.op != Op::Select || o.operands[0].type() == DType::Bool, "a select on {}", lang::name(o.operands[0].type()));
  }

  void body(const Body& statements, Inside inside) {
    const std::size_t memory = memory_.depth(), variables = variables_.depth();
    for (const Stmt& s : statements) std::visit([&](const auto& x) { statement(x, inside); }, s.node);
    memory_.back_to(memory), variables_.back_to(variables);
  }

  void statement(const For& x, Inside inside) {
    i64(x.extent);
    for (const Advance& a : x.advance) {
      i64(a.step);
      require(!memory(a.view).is_register, "`{}` cannot advance: a register array", a.view);
    }
    const Constant* extent = x.extent.as<Constant>();
    require(extent || (x.kind != Kind::Unroll && x.kind != Kind::Vector && x.kind != Kind::Thread),
            "the extent of {} `{}` is not constant", word(x.kind), x.index);
    require(!inside.vector || x.kind == Kind::Serial || x.kind == Kind::Unroll, "{} `{}` inside a vector loop",
        word(x.kind), x.index);
    const std::size_t before = variables_.depth();
    variables_.declare(x.index, DType::I64);
    body(x.body, {inside.vector || x.kind == Kind::Vector, x.kind == Kind::Vector ? extent->integer : inside.lanes});
    variables_.back_to(before);
  }

  void statement(const If& x, Inside inside) {
    expr(x.condition);
    require(x.condition.type() == DType::Bool, "a condition of type {}", lang::name(x.condition.type()));
    body(x.then, inside), body(x.otherwise, inside);
  }

  void statement(const Let& x, Inside) { expr(x.value), variables_.declare(x.name, x.value.type()); }

  void statement(const View& x, Inside) {
    i64(x.offset);
    require(!memory(x.base).is_register, "`{}` views the register array `{}`", x.name, x.base);
    memory_.declare(x.name, x.words ? Memory_{DType::U32, false} : memory(x.base));
  }

  void statement(const Aligned& x, Inside) {
    require(!memory(x.view).is_register, "`{}` is a register array, which has no address", x.view);
    require(x.bytes > 0 && std::has_single_bit(static_cast<std::uint64_t>(x.bytes)), "{} bytes are no power of two",
        x.bytes);
    variables_.declare(x.name, DType::Bool);
  }

  void statement(const Allocate& x, Inside) {
    require(x.count > 0, "`{}` has {} elements", x.name, x.count);
    memory_.declare(x.name, {x.type, x.memory == Memory::Register, x.count});
  }

  void statement(const Store& x, Inside) {
    i64(x.offset), expr(x.value);
    require(memory(x.view).type == x.value.type(), "{} is stored in `{}`, which is {}", lang::name(x.value.type()),
        x.view, lang::name(memory(x.view).type));
  }

  void statement(const Fold& x, Inside) {
    expr(x.value);
    require(x.how != Aggregation::Assign, "`{}` folds by assignment", x.name);
    require(x.among >= 0 && x.among <= 32 && (x.among & (x.among - 1)) == 0, "`{}` folds among {} threads of a warp",
        x.name, x.among);
    require(variables_.find(x.over) != nullptr, "`{}` folds over `{}`, which is no loop here", x.name, x.over);
    variables_.declare(x.name, x.value.type());
  }

  void statement(const Barrier&, Inside) {}
  void statement(const Prefetch& x, Inside) { i64(x.offset), memory(x.view); }

  void over_lanes(const std::string& name, bool fits, const char* what, Inside inside) const {
    require(inside.vector && memory(name).is_register && fits, "`{}` is {}, with {} registers over {} lanes", name, what,
        memory(name).count, inside.lanes);
  }

  void statement(const Transpose& x, Inside inside) {
    over_lanes(x.name, memory(x.name).count == inside.lanes, "transposed", inside);
  }

  void statement(const Interleave& x, Inside inside) {
    over_lanes(x.name, memory(x.name).count <= inside.lanes, "interleaved", inside);
  }

  void statement(const FoldRows& x, Inside inside) {
    const Memory_& array = memory(x.name);
    require(x.how != Aggregation::Assign, "`{}` folds by assignment", x.name);
    require(inside.vector && array.is_register && x.rows > 0 && x.rows <= array.count && x.rows <= inside.lanes,
        "{} rows of `{}` are folded, with {} registers over {} lanes", x.rows, x.name, array.count, inside.lanes);
  }

  void statement(const Copy& x, Inside inside) {
    i64(x.at), i64(x.offset), expr(x.there);
    const Memory_ &to = memory(x.to), &from = memory(x.from);
    require(x.there.type() == DType::Bool || x.there.type() == DType::I64, "a condition of type {}",
        lang::name(x.there.type()));
    require(!inside.vector && !to.is_register && !from.is_register && to.type == from.type, "`{}` is copied to `{}`",
        x.from, x.to);
    const std::int64_t bytes = x.count * lang::bytes(to.type);
    require(bytes == 4 || bytes == 8 || bytes == 16, "{} bytes are copied to `{}`", bytes, x.to);
  }

  void statement(const Commit&, Inside) {}

  void statement(const Fragment& x, Inside inside) {
    i64(x.offset);
    const Memory_& array = memory(x.name);
    require(!inside.vector && array.is_register && (array.type == DType::U32 || array.type == DType::F32) &&
            x.first >= 0 && x.first + 4 <= array.count,
        "`{}` has no four registers for a fragment from {} on", x.name, x.first);
    require(!memory(x.view).is_register, "a fragment of the register array `{}`", x.view);
    require(!x.transposed || lang::bytes(memory(x.view).type) == 2,
        "`{}` is transposed, whose elements have no 16 bits", x.view);
  }

  void statement(const Pack& x, Inside inside) {
    expr(x.low), expr(x.high);
    require(x.low.type() == DType::F32 && x.high.type() == DType::F32 && lang::bytes(x.type) == 2 &&
            (x.parts == 1 || ((x.parts == 2 || x.parts == 3) && x.type == DType::BF16)),
        "{} parts of {} are packed in `{}`", x.parts, lang::name(x.type), x.name);
    registers(x.name, x.at, (x.parts - 1) * x.step + 1, DType::U32, inside);
  }

  void registers(const std::string& name, std::int64_t first, std::int64_t count, DType type, Inside inside) const {
    const Memory_& array = memory(name);
    require(!inside.vector && array.is_register && array.type == type && first >= 0 && first + count <= array.count,
        "`{}` has no {} registers of {} from {} on", name, count, lang::name(type), first);
  }

  void statement(const Exchange& x, Inside inside) { registers(x.name, x.at, 2, DType::U32, inside); }

  void statement(const StorePacked& x, Inside inside) {
    i64(x.offset), registers(x.name, x.at, x.words, DType::U32, inside);
    require(!memory(x.view).is_register && lang::bytes(memory(x.view).type) == 2 && (x.words == 1 || x.words == 2),
        "{} pairs of elements are stored in `{}`", x.words, x.view);
  }

  void statement(const Multiply& x, Inside inside) {
    const MatrixInstruction& i = *x.instruction;
    registers(x.c, x.at_c, i.registers_of_c(), i.accumulator, inside);
    registers(x.a, x.at_a, i.registers_of_a(), i.fragment(), inside);
    registers(x.b, x.at_b, i.registers_of_b(), i.fragment(), inside);
  }

  void statement(const MultiplyShared& x, Inside inside) {
    const MatrixInstruction& i = *x.instruction;
    const Memory_ &c = memory(x.c), &a = memory(x.a.view), &b = memory(x.b.view);
    require(!inside.vector && c.is_register && c.type == i.accumulator && !b.is_register && b.type == i.operand &&
            a.type == (a.is_register ? i.fragment() : i.operand),
        "{} of `{}` and `{}` into `{}`", i.name, x.a.view, x.b.view, x.c);
    require(x.columns > 0 && x.columns % i.n == 0, "{} columns of {}", x.columns, i.name);
    for (const SharedProduct& p : x.products) {
      i64(p.a), i64(p.b);
      require(p.at_c >= 0 && p.at_c + x.columns / i.n * i.registers_of_c() <= c.count,
          "`{}` has no registers from {} on for {}", x.c, p.at_c, i.name);
      require(!a.is_register || (is_const(p.a) && const_or(p.a, -1) >= 0 &&
                  const_or(p.a, -1) + i.registers_of_a() <= a.count),
          "`{}` has no registers from {} on for {}", x.a.view, print(p.a), i.name);
    }
  }

  void statement(const Await& x, Inside inside) {
    registers(x.c, x.at, x.count, memory(x.c).type, inside);
  }

  void statement(const CallStmt& x, Inside inside) {
    require(!inside.vector, "a call of `{}` inside a vector loop", x.function);
    const auto callee = std::find_if(
        loops_.functions.begin(), loops_.functions.end(), [&](const Function& f) { return f.name == x.function; });
    require(callee != loops_.functions.end() && done_.contains(x.function), "`{}` is not a function before this one",
        x.function);
    require(callee->views.size() == x.views.size() && callee->integers.size() == x.integers.size(),
        "`{}` is called with {} views and {} integers", x.function, x.views.size(), x.integers.size());
    for (std::size_t i = 0; i < x.views.size(); ++i)
      require(memory(x.views[i]).type == callee->views[i].type && !memory(x.views[i]).is_register,
          "`{}` does not fit `{}` of `{}`", x.views[i], callee->views[i].name, x.function);
    for (const Expr& e : x.integers) i64(e);
  }

  const Loops& loops_;
  std::string where_;
  Scope<Memory_> memory_;
  Scope<DType> variables_;
  std::set<std::string> done_;
};

}  // namespace

void verify(const Loops& loops) {
  if (loops.functions.empty()) throw lang::InternalError("Loops without a function");
  Verifier verifier(loops);
  for (const Function& f : loops.functions) verifier.function(f);
}

}  // namespace tilec::codegen
