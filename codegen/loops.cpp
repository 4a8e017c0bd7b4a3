// Loops as a value: its print, the checks that need no machine, and i64 arithmetic that folds while it is spelled.
#include "codegen/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <unordered_map>

#include "codegen/parts.h"
#include "codegen/scalar.h"
#include "lang/diagnostic.h"
#include "poly/exact.h"

namespace tilec::codegen {

Stmt::Stmt(const Stmt&) = default;
Stmt::Stmt(Stmt&&) noexcept = default;
Stmt& Stmt::operator=(const Stmt&) = default;
Stmt& Stmt::operator=(Stmt&&) noexcept = default;
Stmt::~Stmt() = default;

Expr::Expr(std::int64_t value) : Expr(Constant{DType::I64, value, 0}) {}
DType Expr::type() const { return std::visit([](const auto& n) { return n.type; }, *node_); }
bool Expr::operator==(const Expr& other) const { return node_.get() == other.node_.get() || *node_ == *other.node_; }

bool Constant::operator==(const Constant& other) const {
  return type == other.type && integer == other.integer &&
      std::bit_cast<std::int64_t>(real) == std::bit_cast<std::int64_t>(other.real);
}

// ---- spelling

Expr var(std::string name) { return Variable{std::move(name), DType::I64}; }

namespace {

using poly::Exact;
using poly::Overloaded;

const std::int64_t* constant(const Expr& e) {
  const Constant* c = e.as<Constant>();
  return c && c->type == DType::I64 ? &c->integer : nullptr;
}

Expr i64_operation(Op op, const Expr& a, const Expr& b) { return Operation{op, {a, b}, DType::I64}; }

Expr add_constant(const Expr& e, std::int64_t c) {
  if (c == 0) return e;
  if (const std::int64_t* value = constant(e)) return Expr((Exact(*value) + c).get());
  return i64_operation(Op::Add, e, Expr(c));
}

Expr comparison(Op op, const Expr& a, const Expr& b, bool (*fold)(std::int64_t, std::int64_t)) {
  const std::int64_t *x = constant(a), *y = constant(b);
  if (x && y) return Constant{DType::Bool, fold(*x, *y) ? 1 : 0, 0};
  return Operation{op, {a, b}, DType::Bool};
}

}  // namespace

std::pair<Expr, std::int64_t> constant_apart(const Expr& e) {
  if (const std::int64_t* c = constant(e)) return {Expr(std::int64_t{0}), *c};
  const Operation* sum = e.as<Operation>();
  if (sum && sum->op == Op::Add && sum->type == DType::I64)
    if (const std::int64_t* c = constant(sum->operands[1])) return {sum->operands[0], *c};
  return {e, 0};
}

Expr operator+(const Expr& a, const Expr& b) {
  auto [x, p] = constant_apart(a);
  auto [y, q] = constant_apart(b);
  if (constant(x)) return add_constant(y, (Exact(p) + q).get());      // x is 0 here
  if (constant(y)) return add_constant(x, (Exact(p) + q).get());
  return add_constant(i64_operation(Op::Add, x, y), (Exact(p) + q).get());
}

Expr operator-(const Expr& a, const Expr& b) {
  auto [x, p] = constant_apart(a);
  auto [y, q] = constant_apart(b);
  const std::int64_t rest = (Exact(p) - q).get();
  if (constant(y)) return add_constant(x, rest);
  if (x == y) return Expr(rest);
  return add_constant(i64_operation(Op::Sub, x, y), rest);
}

Expr operator*(const Expr& a, const Expr& b) {
  const std::int64_t *x = constant(a), *y = constant(b);
  if (x && y) return Expr((Exact(*x) * *y).get());
  if (x) return b * a;
  if (y && *y == 0) return Expr(std::int64_t{0});
  if (y && *y == 1) return a;
  if (y) {
    const Operation* product = a.as<Operation>();
    if (product && product->op == Op::Mul)
      if (const std::int64_t* c = constant(product->operands[1]))
        return product->operands[0] * Expr((Exact(*c) * *y).get());
  }
  return i64_operation(Op::Mul, a, b);
}

Expr less(const Expr& a, const Expr& b) {
  return comparison(Op::Lt, a, b, [](std::int64_t x, std::int64_t y) { return x < y; });
}

Expr at_least(const Expr& a, const Expr& b) {
  return comparison(Op::Ge, a, b, [](std::int64_t x, std::int64_t y) { return x >= y; });
}

Expr both(const Expr& a, const Expr& b) {
  if (const Constant* c = a.as<Constant>()) return c->integer ? b : a;
  if (const Constant* c = b.as<Constant>()) return c->integer ? a : b;
  return Operation{Op::And, {a, b}, DType::Bool};
}

Expr minimum(const Expr& a, const Expr& b) {
  const std::int64_t *x = constant(a), *y = constant(b);
  if (x && y) return Expr(std::min(*x, *y));
  return a == b ? a : i64_operation(Op::Min, a, b);
}

Expr maximum(const Expr& a, const Expr& b) {
  const std::int64_t *x = constant(a), *y = constant(b);
  if (x && y) return Expr(std::max(*x, *y));
  return a == b ? a : i64_operation(Op::Max, a, b);
}

// Op::Div truncates, so a negative dividend is moved down first; a power of two is an arithmetic shift.
Expr floor_divide(const Expr& a, std::int64_t b) {
  if (b <= 0) throw lang::InternalError(fmt::format("floor_divide by {}", b));
  if (b == 1) return a;
  if (const std::int64_t* x = constant(a)) return Expr(*x / b - (*x % b < 0 ? 1 : 0));
  const auto divisor = static_cast<std::uint64_t>(b);
  if (std::has_single_bit(divisor)) return i64_operation(Op::Shr, a, Expr(std::int64_t{std::countr_zero(divisor)}));
  const Expr down =
      Operation{Op::Select, {less(a, Expr(std::int64_t{0})), Expr(1 - b), Expr(std::int64_t{0})}, DType::I64};
  return i64_operation(Op::Div, i64_operation(Op::Add, a, down), Expr(b));
}

Expr ceil_divide(const Expr& a, std::int64_t b) { return floor_divide(a + Expr(b - 1), b); }

Expr quotient(const Expr& a, std::int64_t b) { return b > 1 ? i64_operation(Op::Div, a, i64(b)) : a; }

Expr remainder(const Expr& a, std::int64_t b) { return b > 1 ? i64_operation(Op::Mod, a, i64(b)) : i64(0); }

// ---- print

namespace {

std::string_view word(Kind kind) {
  switch (kind) {
    case Kind::Serial: return "serial";
    case Kind::Unroll: return "unroll";
    case Kind::Vector: return "vector";
    case Kind::Parallel: return "parallel";
    case Kind::Block: return "block";
    case Kind::Thread: return "thread";
  }
  return "?";
}

std::string_view word(Memory memory) {
  return memory == Memory::Register ? "register" : memory == Memory::Local ? "local" : "shared";
}

std::string_view word(Direction direction) {
  return direction == Direction::In ? "in" : direction == Direction::Out ? "out" : "inout";
}

std::string_view word(Aggregation how) {
  switch (how) {
    case Aggregation::Assign: return "=";
    case Aggregation::Sum: return "+";
    case Aggregation::Product: return "*";
    case Aggregation::Max: return "max";
    case Aggregation::Min: return "min";
  }
  return "?";
}

std::string spell(const Constant& c) {
  if (c.type == DType::I64) return fmt::format("{}", c.integer);
  if (c.type == DType::Bool) return c.integer ? "true" : "false";
  if (lang::is_float(c.type)) return fmt::format("{}({})", lang::name(c.type), c.real);
  if (c.type == DType::U64) return fmt::format("u64({})", static_cast<std::uint64_t>(c.integer));
  return fmt::format("{}({})", lang::name(c.type), c.integer);
}

// With parentheses around anything that is not one word.
std::string tight(const Expr& e) {
  const Operation* operation = e.as<Operation>();
  const bool open = operation && (operation->op == Op::Select || !lang::info(operation->op).symbol.empty());
  const Constant* c = e.as<Constant>();
  return open || (c && c->integer < 0) ? "(" + print(e) + ")" : print(e);
}

std::string list(const std::vector<Expr>& operands) {
  std::string text;
  for (const Expr& e : operands) text += (text.empty() ? "" : ", ") + print(e);
  return text;
}

std::string spell(const Operation& operation) {
  const lang::OpInfo& row = lang::info(operation.op);
  const std::vector<Expr>& in = operation.operands;
  if (operation.op == Op::Select) return fmt::format("{} ? {} : {}", tight(in[0]), tight(in[1]), tight(in[2]));
  if (row.symbol.empty()) return fmt::format("{}{}({})", row.name, operation.below_maximum ? "_below" : "", list(in));
  if (in.size() == 1) return fmt::format("{}{}", row.symbol, tight(in[0]));
  if (in.size() == 3) return fmt::format("quotient({})", list(in));
  return fmt::format("{} {} {}", tight(in[0]), row.symbol, tight(in[1]));
}

class Printer {
 public:
  std::string text;

  void body(const Body& statements, int depth) {
    for (const Stmt& s : statements) statement(s, depth);
  }

 private:
  void line(int depth, std::string_view words) { text += fmt::format("{:{}}{}\n", "", depth * 2, words); }

  void statement(const Stmt& s, int depth) {
    std::visit(Overloaded{[&](const For& x) { loop(x, depth); }, [&](const If& x) { branch(x, depth); },
                          [&](const auto& x) { line(depth, simple(x)); }}, s.node);
  }

  void loop(const For& x, int depth) {
    std::string advance;
    for (const Advance& a : x.advance)
      advance += fmt::format("{} {} by {}", advance.empty() ? " advance" : ",", a.view, print(a.step));
    line(depth, fmt::format("for {} in {} {}{}", x.index, word(x.kind), print(x.extent), advance));
    body(x.body, depth + 1);
  }

  void branch(const If& x, int depth) {
    line(depth, fmt::format("if {}", print(x.condition)));
    body(x.then, depth + 1);
    if (x.otherwise.empty()) return;
    line(depth, "else");
    body(x.otherwise, depth + 1);
  }

  static std::string simple(const Let& x) { return fmt::format("let {} = {}", x.name, print(x.value)); }
  static std::string simple(const View& x) {
    return fmt::format("view {} = {} + {}{}", x.name, x.base, tight(x.offset),
        x.alignment ? fmt::format(" align {}", x.alignment) : "");
  }
  static std::string simple(const Aligned& x) { return fmt::format("let {} = {} aligned {}", x.name, x.view, x.bytes); }
  static std::string simple(const Allocate& x) {
    return fmt::format("{} {} {}[{}]", word(x.memory), x.name, lang::name(x.type), x.count);
  }
  static std::string simple(const Store& x) {
    const std::string_view hint = x.hint == Hint::Streaming ? " streaming" : x.to_tf32 ? " tf32" : "";
    return fmt::format("{}[{}] = {}{}", x.view, print(x.offset), print(x.value), hint);
  }
  static std::string simple(const Fold& x) {
    return fmt::format("fold {} = {} {} over {}", x.name, word(x.how), tight(x.value), x.over) +
        (x.among ? fmt::format(" among {}", x.among) : "");
  }
  static std::string simple(const Barrier& x) { return x.pending ? fmt::format("barrier {}", x.pending) : "barrier"; }
  static std::string simple(const Prefetch& x) {
    return fmt::format("prefetch {}[{}]{}{}", x.view, print(x.offset), x.to_write ? " to write" : "",
        x.first ? " into the first cache" : "");
  }
  static std::string simple(const Transpose& x) { return fmt::format("transpose {}", x.name); }
  static std::string simple(const Interleave& x) {
    return fmt::format("{} {}", x.apart ? "take apart" : "interleave", x.name);
  }
  static std::string simple(const FoldRows& x) {
    return fmt::format("fold {} rows of {} {}", x.rows, x.name, word(x.how));
  }
  static std::string simple(const Copy& x) {
    const Constant* there = x.there.as<Constant>();
    const std::string condition = there && there->integer ? "" : fmt::format(" if {}", tight(x.there));
    return fmt::format("copy {} of {}[{}] to {}[{}]{}", x.count, x.from, print(x.offset), x.to, print(x.at), condition);
  }
  static std::string simple(const Commit&) { return "commit"; }
  static std::string simple(const Pack& x) {
    return fmt::format("pack {}[{}] = {}({}, {}){}", x.name, x.at, lang::name(x.type), print(x.low), print(x.high),
        x.parts > 1 ? fmt::format(" in {} parts by {}", x.parts, x.step) : "");
  }
  static std::string simple(const Fragment& x) {
    return fmt::format(
        "fragment {}[{}] = {}{}[{}]", x.name, x.first, x.transposed ? "transposed " : "", x.view, print(x.offset));
  }
  static std::string simple(const MultiplyShared& x) {
    std::string text = fmt::format("multiply {} {} columns {} {} {}{} {}{}", x.instruction->name, x.c, x.columns,
        x.begins ? "=" : "+=", x.a.transposed ? "transposed " : "", x.a.view, x.b.transposed ? "transposed " : "", x.b.view);
    for (const SharedProduct& p : x.products) text += fmt::format(", [{}] [{}] [{}]", p.at_c, print(p.a), print(p.b));
    return text;
  }
  static std::string simple(const Await& x) { return fmt::format("await {} but {}", x.c, x.pending); }
  static std::string simple(const Multiply& x) {
    return fmt::format(
        "multiply {} {}[{}] += {}[{}] {}[{}]", x.instruction->name, x.c, x.at_c, x.a, x.at_a, x.b, x.at_b);
  }
  static std::string simple(const CallStmt& x) {
    return fmt::format(
        "call {}({}{}{})", x.function, fmt::join(x.views, ", "), x.integers.empty() ? "" : "; ", list(x.integers));
  }
};

}  // namespace

std::string print(const Expr& expr) {
  return expr.match([](const Constant& c) { return spell(c); }, [](const Variable& v) { return v.name; },
                    [](const Load& l) { return fmt::format("{}[{}]", l.view, print(l.offset)); },
                    [](const Operation& o) { return spell(o); },
                    [](const Convert& c) { return fmt::format("{}({})", lang::name(c.type), print(c.operand)); });
}

std::string print(const Function& function) {
  std::string parameters;
  for (const ViewParameter& v : function.views) {
    parameters +=
        fmt::format("{}{}: {} {}", parameters.empty() ? "" : ", ", v.name, lang::name(v.type), word(v.direction));
    if (v.alignment) parameters += fmt::format(" align {}", v.alignment);
  }
  if (!function.integers.empty()) parameters += fmt::format("; {}", fmt::join(function.integers, ", "));
  Printer printer;
  printer.body(function.body, 1);
  return fmt::format("fn {}({})\n{}", function.name, parameters, printer.text);
}

std::string print(const Loops& loops) {
  std::string text;
  for (const Table& t : loops.tables) text += fmt::format("table {} = [{}]\n", t.name, fmt::join(t.values, ", "));
  for (const Function& f : loops.functions) text += print(f);
  return text;
}

// ---- verify

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
              require(type != nullptr, "`{}` is not defined here", v.name);
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
    const bool apart = o.below_maximum && o.type == DType::F32 && o.operands.size() == 2;
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
    memory_.declare(x.name, memory(x.base));
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

  void statement(const Transpose& x, Inside inside) {
    const Memory_& array = memory(x.name);
    require(inside.vector && array.is_register && array.count == inside.lanes,
        "`{}` is transposed, with {} registers over {} lanes", x.name, array.count, inside.lanes);
  }

  void statement(const Interleave& x, Inside inside) {
    const Memory_& array = memory(x.name);
    require(inside.vector && array.is_register && array.count <= inside.lanes,
        "`{}` is interleaved, with {} registers over {} lanes", x.name, array.count, inside.lanes);
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
    require(x.there.type() == DType::Bool, "a condition of type {}", lang::name(x.there.type()));
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
    const Memory_& array = memory(x.name);
    require(x.low.type() == DType::F32 && x.high.type() == DType::F32 && lang::bytes(x.type) == 2 &&
            (x.parts == 1 || ((x.parts == 2 || x.parts == 3) && x.type == DType::BF16)),
        "{} parts of {} are packed in `{}`", x.parts, lang::name(x.type), x.name);
    require(!inside.vector && array.is_register && array.type == DType::U32 && x.at >= 0 &&
            x.at + (x.parts - 1) * x.step < array.count,
        "`{}` has no registers for {} parts from {} on", x.name, x.parts, x.at);
  }

  void statement(const Multiply& x, Inside inside) {
    const MatrixInstruction& i = *x.instruction;
    const auto holds = [&](const std::string& name, std::int64_t first, std::int64_t count, DType type) {
      const Memory_& array = memory(name);
      require(!inside.vector && array.is_register && array.type == type && first >= 0 && first + count <= array.count,
          "`{}` has no {} registers from {} on for {}", name, count, first, i.name);
    };
    holds(x.c, x.at_c, i.registers_of_c(), i.accumulator);
    holds(x.a, x.at_a, i.registers_of_a(), i.fragment());
    holds(x.b, x.at_b, i.registers_of_b(), i.fragment());
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
    require(!inside.vector && memory(x.c).is_register, "`{}` is awaited", x.c);
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
