// Values as text, with as few casts as build needs.
#include "poly/print_value.h"

#include <fmt/core.h>

#include <cmath>
#include <unordered_map>

#include "poly/intern.h"

namespace tilec::poly {
namespace {

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

std::string at_least(const PrintedValue& value, int strength) {
  return value.strength >= strength ? value.text : "(" + value.text + ")";
}

// What build makes of an operation on what it made of the operands; the same expression in the end?
bool gives(const std::optional<Scalar>& made, const Expr& wanted) {
  lang::Diagnostics ignored;
  if (!made) return false;
  if (made->weak == Scalar::Weak::No) return made->expr == wanted;
  const auto resolved = resolve(*made, wanted.type(), {}, ignored);
  return resolved && *resolved == wanted;
}

class Printer {
 public:
  Printer(const std::vector<std::string>& reads, const std::vector<std::string>& indices)
      : reads_(reads), indices_(indices) {}

  // A condition is tried in two ways, so what stands inside conditions would be printed 2^n times.
  PrintedValue print(const Expr& value) const {
    if (!value.as<Apply>()) return fresh(value);
    const auto known = known_.find(address(value));
    return known != known_.end() ? known->second : known_.emplace(address(value), fresh(value)).first->second;
  }

 private:
  PrintedValue fresh(const Expr& value) const {
    return value.match(
        [&](const Number& n) { return literal(n); },
        [&](const Read& r) {
          const auto k = static_cast<std::size_t>(r.read);
          return PrintedValue{k < reads_.size() ? reads_[k] : "?", Primary, {value}};
        },
        [&](const Index& i) { return index(i); },
        [&](const Cast& c) { return cast_text(c, print(c.operand)); },
        [&](const Apply& a) { return operation(a, value); });
  }

  // With its type written out.
  static PrintedValue cast_of(const PrintedValue& inner, DType type) {
    return {fmt::format("{}({})", lang::name(type), inner.text), Primary, cast(inner.scalar, type)};
  }

  // A weak operand takes the type of the cast: `i64(u8(k))` needs both.
  static PrintedValue cast_text(const Cast& c, const PrintedValue& operand) {
    auto direct = cast_of(operand, c.type);
    if (operand.scalar.weak == Scalar::Weak::No || direct.scalar.expr == Expr{c}) return direct;
    return cast_of(cast_of(operand, c.operand.type()), c.type);
  }

  PrintedValue literal(const Number& n) const {
    const auto text = print_number(n);
    const auto strength = text[0] == '-' ? UnaryLevel : Primary;
    if (lang::is_float(n.type))
      return {text, strength, float_literal(n.type == DType::F64 || !std::isfinite(n.real) ? n.real : std::stod(text))};
    const bool negative = text[0] == '-';
    const auto magnitude = static_cast<std::uint64_t>(n.integer);
    return {text, strength, integer_literal(negative ? 0 - magnitude : magnitude, negative, indices_.size())};
  }

  PrintedValue index(const Index& i) const {
    const auto number = i.value.is_constant() && i.value.divisor.is(1) ? i.value.constant.value() : std::nullopt;
    const bool primary = i.value.single_index() || (number && *number >= 0);
    return {i.value.print(indices_), primary ? Primary : SumLevel, affine_value(i.value)};
  }

  // The ways to write an operand, the shortest first.
  std::vector<PrintedValue> ways(const Expr& operand, bool condition) const {
    if (const auto* c = operand.as<Cast>()) {
      const auto inner = print(c->operand);
      return {inner, cast_text(*c, inner)};
    }
    std::vector<PrintedValue> all;
    if (const auto* test = operand.as<Apply>(); condition && test && test->op == Op::Ne) {
      const auto* zero = test->operands[1].as<Number>();
      if (zero && *zero == Number{zero->type}) all.push_back(print(test->operands[0]));
    }
    all.push_back(print(operand));
    if (all.back().scalar.weak != Scalar::Weak::No) all.push_back(cast_of(all.back(), operand.type()));
    return all;
  }

  PrintedValue operation(const Apply& a, const Expr& wanted) const {
    std::vector<std::vector<PrintedValue>> choices;
    std::size_t combinations = 1;
    for (std::size_t k = 0; k < a.operands.size(); ++k) {
      choices.push_back(ways(a.operands[k], a.op == Op::Select && k == 0));
      combinations *= choices.back().size();
    }
    std::vector<PrintedValue> operands;
    std::optional<Scalar> made;
    for (std::size_t combination = 0; combination < combinations; ++combination) {
      operands.clear();
      std::vector<Scalar> scalars;
      auto left = combination;
      for (const auto& choice : choices) {
        operands.push_back(choice[left % choice.size()]);
        scalars.push_back(operands.back().scalar);
        left /= choice.size();
      }
      lang::Diagnostics ignored;
      made = apply(a.op, scalars, {}, ignored);
      if (gives(made, wanted)) break;
    }
    // After the last way everything is typed; what build makes of it is as near as text comes.
    return {join(a.op, operands), strength_of(a.op), made.value_or(Scalar{wanted})};
  }

  static std::string join(Op op, const std::vector<PrintedValue>& operands) {
    const auto strength = strength_of(op);
    const auto& facts = lang::info(op);
    if (op == Op::Select)
      return fmt::format("{} ? {} : {}", at_least(operands[0], XorLevel), at_least(operands[1], XorLevel),
          at_least(operands[2], XorLevel));
    if (strength == UnaryLevel) return std::string(facts.symbol) + at_least(operands[0], Primary);
    if (strength == Primary) {
      std::string arguments;
      for (const auto& operand : operands) arguments += (arguments.empty() ? "" : ", ") + operand.text;
      return fmt::format("{}({})", facts.name, arguments);
    }
    // `a | b ^ c` would be right, and text with it earns a warning.
    const auto side = [&](const PrintedValue& operand, int least) {
      return at_least(operand, op == Op::Xor && operand.strength == OrLevel ? int{AndLevel} : least);
    };
    const bool associates = strength != EqualLevel && strength != RelationLevel;
    return fmt::format(
        "{} {} {}", side(operands[0], strength + !associates), facts.symbol, side(operands[1], strength + 1));
  }

  const std::vector<std::string>& reads_;
  const std::vector<std::string>& indices_;
  mutable std::unordered_map<const void*, PrintedValue> known_;  // by a node of the value that is printed
};

}  // namespace

std::string print_number(const Number& number) {
  if (number.type == DType::U64) return std::to_string(static_cast<std::uint64_t>(number.integer));
  if (!lang::is_float(number.type)) return std::to_string(number.integer);
  if (std::isnan(number.real)) return "nan";
  if (std::isinf(number.real)) return number.real < 0 ? "-inf" : "inf";
  // The shortest text that rounds to the number in its type; f32 digits do for what f32 holds.
  const bool is_single =
      static_cast<double>(static_cast<float>(number.real)) == number.real && number.type != DType::F64;
  auto text = is_single ? fmt::format("{}", static_cast<float>(number.real)) : fmt::format("{}", number.real);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

PrintedValue print_value(
    const Expr& value, const std::vector<std::string>& reads, const std::vector<std::string>& indices) {
  return Printer(reads, indices).print(value);
}

}  // namespace tilec::poly
