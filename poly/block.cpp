#include "poly/block.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "poly/evaluate.h"
#include "poly/intern.h"

namespace tilec::poly {

std::int64_t Linear::at(std::span<const std::int64_t> point) const {
  auto sum = static_cast<std::uint64_t>(constant);       // what is on the way may wrap: the sum fits
  for (std::size_t k = 0; k < coefficients.size(); ++k)
    sum += static_cast<std::uint64_t>(coefficients[k]) * static_cast<std::uint64_t>(point[k]);
  return divisor == 1 ? static_cast<std::int64_t>(sum) : static_cast<std::int64_t>(sum) / divisor;
}

Linear linear(const Affine& affine) {
  Linear form{{}, affine.constant.get(), affine.divisor.get()};
  for (const auto& coefficient : affine.coefficients) form.coefficients.push_back(coefficient.get());
  return form;
}

std::size_t Location::at(std::span<const std::int64_t> point) const {
  for (const auto d : unguarded) {
    const auto x = element[d].at(point);
    if (x < 0 || x >= shape[d])
      throw lang::InternalError(fmt::format("an access leaves its tensor: {} of {}", x, shape[d]));
  }
  std::uint64_t offset = 0;
  for (std::size_t d = 0; d < element.size(); ++d)
    offset += static_cast<std::uint64_t>(element[d].at(point)) * strides[d];
  return offset;
}

Location location(const Access& access, const std::vector<Range>& domain, std::vector<std::int64_t> shape) {
  Location where;
  where.shape = std::move(shape);
  where.strides.assign(where.shape.size(), 1);
  for (std::size_t d = where.shape.size(); d-- > 1;)
    where.strides[d - 1] = where.strides[d] * static_cast<std::uint64_t>(where.shape[d]);
  for (std::size_t d = 0; d < where.shape.size(); ++d) {
    const auto& affine = access.element.at(d);
    where.element.push_back(linear(affine));
    where.steady &= where.element[d].divisor == 1;
    if (where.steady && !affine.coefficients.empty())
      where.step += static_cast<std::uint64_t>(where.element[d].coefficients.back()) * where.strides[d];
    const Range row{affine, Size(where.shape[d])};
    if (std::find(domain.begin(), domain.end(), row) == domain.end()) where.unguarded.push_back(d);
  }
  return where;
}

void Trace::add(std::span<std::int64_t> point, std::int64_t first, std::size_t count, std::size_t at) {
  std::int64_t unused = 0;
  std::int64_t& last = point.empty() ? unused : point.back();
  last = first;
  const bool steady = where_.steady && where_.unguarded.empty();
  const std::size_t start = where_.at(point);
  for (std::size_t k = 0; k < count; ++k, ++last)
    elements_[at + k] = steady ? start + k * where_.step : where_.at(point);
}

Block::Block(const Statement& statement, std::vector<const Stored*> operands) : operands_(std::move(operands)) {
  for (std::size_t r = 0; r < statement.reads.size(); ++r)
    reads_.emplace_back(location(statement.reads[r], statement.domain, operands_.at(r)->array.shape));
  columns_.emplace_back();                               // an operand that is not there
  result_ = compile(statement.value);
  if (statement.aggregation == Aggregation::Sum || statement.aggregation == Aggregation::Assign)
    may_fuse(statement.value);
}

void Block::add(std::span<std::int64_t> point, std::int64_t first, std::size_t count) {
  for (auto& read : reads_) read.add(point, first, count, size_);
  for (std::size_t f = 0; f < forms_.size(); ++f)
    for (std::size_t k = 0; k < count; ++k) {
      if (!point.empty()) point.back() = first + static_cast<std::int64_t>(k);
      form_values_[f][size_ + k] = forms_[f].at(point);
    }
  size_ += count;
}

const Column& Block::run() {
  for (const auto& instruction : instructions_) execute(instruction);
  size_ = 0;
  return columns_[result_];
}

void Block::execute(const Instruction& i) {
  const Column &a = columns_[i.a], &b = columns_[i.b], &c = columns_[i.c];
  Column& result = columns_[i.result];
  const auto each = [&](auto value) {
    result.exact = true;
    for (std::size_t k = 0; k < size_; ++k) result.set(k, value(k));
  };
  switch (i.kind) {
    case Instruction::Load: return load(*operands_[i.a], size_, reads_[i.a].elements().data(), result);
    case Instruction::Form:
      return each([&](std::size_t k) { return Value{0, wrap_to(i.type, form_values_[i.a][k]), 0}; });
    case Instruction::Real: return apply_real(i.op, i.type, i.fuses, size_, a, b, c, result);
    case Instruction::Integer:
      return each([&](std::size_t k) { return apply_integer(i.op, i.type, a.at(k), b.at(k), c.at(k)); });
    case Instruction::Compare: return each([&](std::size_t k) { return compare(i.op, i.from, a.at(k), b.at(k)); });
    case Instruction::Choose:
      return each([&](std::size_t k) { return choose(i.from, i.type, a.at(k), b.at(k), c.at(k)); });
    case Instruction::Convert: return each([&](std::size_t k) { return cast(i.from, i.type, a.at(k)); });
    case Instruction::IsNan: return each([&](std::size_t k) { return Value{0, std::isnan(a.real[k]), 0}; });
    case Instruction::IsFinite: return each([&](std::size_t k) { return Value{0, std::isfinite(a.real[k]), 0}; });
    case Instruction::Between: return each([&](std::size_t k) { return between(i, k, c.at(k).integer); });
  }
}

// The elements of a read behind one place, up to another, all as far from each other.
Value Block::between(const Instruction& i, std::size_t k, std::int64_t count) const {
  Value product{1, 0, 0};
  const std::size_t first = reads_[i.a].elements()[k], last = reads_[i.b].elements()[k];
  if (count == 0) return product;
  const auto step = static_cast<std::int64_t>(last - first) / count;
  for (std::int64_t n = 1; n <= count; ++n)
    product = apply_real(Op::Mul, i.type, product,
        load(*operands_[i.a], first + static_cast<std::size_t>(n * step)), Value{});
  return product;
}

std::size_t Block::emit(Instruction instruction) {
  instruction.result = columns_.size();
  columns_.emplace_back();
  instructions_.push_back(instruction);
  return instruction.result;
}

std::size_t Block::compile(const Expr& value) {
  const void* node = value.match([](const auto& n) { return static_cast<const void*>(&n); });
  const auto known = seen_.find(node);
  if (known != seen_.end()) return known->second;
  const auto column = value.match([&](const Number& n) { return constant(n); },
      [&](const Read& r) {
        return emit({.kind = Instruction::Load, .type = r.type, .a = static_cast<std::size_t>(r.read)});
      },
      [&](const Index& i) {
        forms_.push_back(linear(i.value));
        form_values_.emplace_back(block_size);
        return emit({.kind = Instruction::Form, .type = i.type, .a = forms_.size() - 1});
      },
      [&](const Cast& c) {
        const auto operand = compile(c.operand);
        return emit({.kind = Instruction::Convert, .type = c.type, .from = c.operand.type(), .a = operand});
      },
      [&](const Apply& a) { return operation(a); });
  seen_.emplace(node, column);
  return column;
}

std::size_t Block::constant(const Number& n) {
  const bool inexact = lang::is_float(n.type) && round_to(n.type, n.real) != n.real && std::isfinite(n.real);
  columns_.emplace_back();
  for (std::size_t k = 0; k < block_size; ++k)
    columns_.back().set(k, {n.real, n.integer, inexact ? epsilon(n.type) * std::fabs(n.real) : 0});
  return columns_.size() - 1;
}

std::size_t Block::operation(const Apply& a) {
  std::size_t operand[3] = {0, 0, 0};
  for (std::size_t k = 0; k < a.operands.size(); ++k) operand[k] = compile(a.operands[k]);
  if (a.op == Op::Add || a.op == Op::Sub)
    for (const auto& term : a.operands) may_fuse(term);
  if (a.op == Op::Between) {
    const auto read = [&](std::size_t k) {
      return static_cast<std::size_t>(below_casts(a.operands[k]).as<Read>()->read);
    };
    return emit(
        {.kind = Instruction::Between, .op = a.op, .type = a.type, .a = read(0), .b = read(1), .c = operand[2]});
  }
  const auto from = a.operands.at(0).type();
  const bool boolean = lang::info(a.op).result == lang::Result::Boolean;
  const auto kind = a.op == Op::Select ? Instruction::Choose
                    : a.op == Op::IsNan ? Instruction::IsNan
                    : a.op == Op::IsFinite ? Instruction::IsFinite
                    : boolean ? Instruction::Compare
                    : lang::is_float(a.type) ? Instruction::Real : Instruction::Integer;
  return emit(
      {.kind = kind, .op = a.op, .type = a.type, .from = from, .a = operand[0], .b = operand[1], .c = operand[2]});
}

// A product in a sum, of this statement or of one that it is inlined into.
void Block::may_fuse(const Expr& value) {
  if (const auto* cast = value.as<Cast>()) return may_fuse(cast->operand);
  const auto* apply = value.as<Apply>();
  if (apply != nullptr && apply->op == Op::Neg) return may_fuse(apply->operands[0]);
  if (apply == nullptr || apply->op != Op::Mul) return;
  const auto column = compile(value);
  for (auto& instruction : instructions_)
    if (instruction.result == column) instruction.fuses = true;
}

}  // namespace tilec::poly
