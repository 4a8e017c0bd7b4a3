// Loops as text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "codegen/loops.h"

namespace tilec::codegen {

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

namespace {

using poly::Overloaded;

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
    return fmt::format("view {} = {} + {}{}{}", x.name, x.base, tight(x.offset),
        x.alignment ? fmt::format(" align {}", x.alignment) : "", x.words ? " words" : "");
  }
  static std::string simple(const Aligned& x) { return fmt::format("let {} = {} aligned {}", x.name, x.view, x.bytes); }
  static std::string simple(const Allocate& x) {
    return fmt::format("{} {} {}[{}]", word(x.memory), x.name, lang::name(x.type), x.count);
  }
  static std::string simple(const Store& x) {
    const std::string_view hint = x.hint == Hint::Streaming ? " streaming" : "";
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
    const bool some = x.there.type() != DType::Bool;
    const std::string condition =
        there && there->integer && !some ? "" : fmt::format(" {} {}", some ? "up to" : "if", tight(x.there));
    return fmt::format("copy {} of {}[{}] to {}[{}]{}", x.count, x.from, print(x.offset), x.to, print(x.at), condition);
  }
  static std::string simple(const Commit&) { return "commit"; }
  static std::string simple(const Pack& x) {
    return fmt::format("pack {}[{}] = {}({}, {}){}", x.name, x.at, lang::name(x.type), print(x.low), print(x.high),
        x.parts > 1 ? fmt::format(" in {} parts by {}", x.parts, x.step) : "");
  }
  static std::string simple(const Exchange& x) { return fmt::format("exchange {}[{}]", x.name, x.at); }
  static std::string simple(const StorePacked& x) {
    return fmt::format("{}[{}] = {} pairs {}[{}]", x.view, print(x.offset), x.words, x.name, x.at);
  }
  static std::string simple(const Fragment& x) {
    return fmt::format(
        "fragment {}[{}] = {}{}[{}]", x.name, x.first, x.transposed ? "transposed " : "", x.view, print(x.offset));
  }
  static std::string simple(const MultiplyShared& x) {
    std::string text = fmt::format("multiply {} {} columns {} {} {}{} {}{}", x.instruction->name, x.c, x.columns,
        x.begins ? "=" : "+=", x.a.transposed ? "transposed " : "", x.a.view, x.b.transposed ? "transposed " : "",
        x.b.view);
    for (const SharedProduct& p : x.products) text += fmt::format(", [{}] [{}] [{}]", p.at_c, print(p.a), print(p.b));
    return text;
  }
  static std::string simple(const Await& x) {
    const std::string some = x.count ? fmt::format("[{}] of {}", x.at, x.count) : "";
    return fmt::format("await {}{} but {}", x.c, some, x.pending);
  }
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

}  // namespace tilec::codegen
