// Prints a Program as Tile.
#include "poly/print.h"

#include <fmt/format.h>

#include <cmath>

namespace tilec::poly {
namespace {

// Binding strength, as in the grammar: ?: ^ | & == < << + * unary primary.
enum Strength { Choice, XorLevel, OrLevel, AndLevel, EqualLevel, RelationLevel, ShiftLevel, SumLevel, ProductLevel, UnaryLevel, Primary };
struct Text { std::string text; Strength strength; };

Strength strength_of(Op op) {
  switch (op) {
    case Op::Add: case Op::Sub: return SumLevel;
    case Op::Mul: case Op::Div: return ProductLevel;
    case Op::Neg: case Op::Not: return UnaryLevel;
    case Op::Eq: case Op::Ne: return EqualLevel;
    case Op::Lt: case Op::Le: case Op::Gt: case Op::Ge: return RelationLevel;
    case Op::And: return AndLevel;
    case Op::Or: return OrLevel;
    case Op::Xor: return XorLevel;
    case Op::Shl: case Op::Shr: return ShiftLevel;
    case Op::Select: return Choice;
    default: return Primary;
  }
}

std::string at_least(const Text& text, int strength) { return text.strength >= strength ? text.text : "(" + text.text + ")"; }

Text print_number(const Number& number) {
  std::string text;
  if (lang::is_float(number.type)) {
    if (std::isnan(number.real)) return {"nan", Primary};
    text = std::isinf(number.real) ? (number.real < 0 ? "-inf" : "inf") : fmt::format("{}", number.real);
    if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  } else if (number.type == DType::U64) {
    text = std::to_string(static_cast<std::uint64_t>(number.integer));
  } else {
    text = std::to_string(number.integer);
  }
  return {text, text[0] == '-' ? UnaryLevel : Primary};
}

std::string list(const std::vector<Affine>& element, const std::vector<std::string>& indices) {
  std::string text;
  for (const auto& affine : element) text += (text.empty() ? "" : ", ") + affine.print(indices);
  return text;
}

std::string print_access(const Program& program, const Access& access, const std::vector<std::string>& indices) {
  return fmt::format("{}[{}]", program.tensor(access.tensor).name, list(access.element, indices));
}

Text print_expr(const Program& program, const Statement& statement, const Expr& value) {
  return value.match(
      [](const Number& n) { return print_number(n); },
      [&](const Read& r) { return Text{print_access(program, statement.reads[static_cast<std::size_t>(r.read)], statement.indices), Primary}; },
      [&](const Index& i) { return Text{i.value.print(statement.indices), i.value.single_index() ? Primary : SumLevel}; },
      [&](const Cast& c) { return Text{fmt::format("{}({})", lang::name(c.type), print_expr(program, statement, c.operand).text), Primary}; },
      [&](const Apply& a) {
        const auto operand = [&](std::size_t k) { return print_expr(program, statement, a.operands[k]); };
        const auto strength = strength_of(a.op);
        const auto& op = lang::info(a.op);
        if (a.op == Op::Select) return Text{fmt::format("{} ? {} : {}", at_least(operand(0), XorLevel), at_least(operand(1), XorLevel), at_least(operand(2), XorLevel)), Choice};
        if (strength == UnaryLevel) return Text{std::string(op.symbol) + at_least(operand(0), Primary), UnaryLevel};
        if (strength != Primary) {
          const bool associates = strength != EqualLevel && strength != RelationLevel;
          return Text{fmt::format("{} {} {}", at_least(operand(0), strength + !associates), op.symbol, at_least(operand(1), strength + 1)), strength};
        }
        std::string arguments;
        for (std::size_t k = 0; k < a.operands.size(); ++k) arguments += (k ? ", " : "") + operand(k).text;
        return Text{fmt::format("{}({})", op.name, arguments), Primary};
      });
}

std::string_view symbol(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::Assign: return "=";
    case Aggregation::Sum: return "+";
    case Aggregation::Product: return "*";
    case Aggregation::Max: return ">";
    case Aggregation::Min: return "<";
  }
  return "";
}

std::string sizes(const std::vector<Size>& shape) {
  std::string text;
  for (const auto& size : shape) text += (text.empty() ? "" : ", ") + size.print();
  return text;
}

}  // namespace

std::string print(const Program& program, const Statement& s) {
  const auto& target = program.tensor(s.target.tensor);
  std::string text = fmt::format("{} {}[{}", lang::name(target.dtype), target.name, list(s.target.element, s.indices));
  if (!target.shape.empty()) text += ": " + sizes(target.shape);
  text += fmt::format("] = {}({})", symbol(s.aggregation), print_expr(program, s, s.value).text);
  for (const auto& row : s.domain) text += ", 0 <= " + row.value.print(s.indices) + (row.extent ? " < " + row.extent->print(true) : "");
  if (const auto* tensor = std::get_if<TensorId>(&s.fill)) text += " default " + program.tensor(*tensor).name;
  else if (std::get<Number>(s.fill) != Number{target.dtype}) text += " default " + print_number(std::get<Number>(s.fill)).text;
  return text + ";";
}

std::string print(const Program& program) {
  std::string text = "function " + program.name + "(";
  const auto names = [&](const std::vector<TensorId>& ids, bool shapes) {
    std::string all;
    for (const auto id : ids) {
      const auto& tensor = program.tensor(id);
      all += fmt::format("{}{} {}", all.empty() ? "" : ", ", lang::name(tensor.dtype), tensor.name);
      if (shapes && !tensor.shape.empty()) all += "[" + sizes(tensor.shape) + "]";
    }
    return all;
  };
  text += names(program.inputs, true) + ") -> (" + names(program.outputs, false) + ") {\n";
  for (const auto& node : program.nodes) {
    if (const auto* statement = std::get_if<Statement>(&node)) text += "  " + print(program, *statement) + "\n";
    else {
      const auto& intrinsic = std::get<Intrinsic>(node);
      text += fmt::format("  {} = reshape({}, {});\n", program.tensor(intrinsic.targets[0]).name, program.tensor(intrinsic.operands[0]).name, sizes(intrinsic.parameters));
    }
  }
  return text + "}\n";
}

}  // namespace tilec::poly
