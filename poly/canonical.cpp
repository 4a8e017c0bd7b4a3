// Forms are texts, so that a hash table compares whole statements at once and a program of n statements takes n looks.
//
// What may be reordered is decided by what evaluate.cpp does bit for bit: a + b, a * b, a == b … are symmetric, max and
// min are so for integers only (max(0, -0) is its first operand). x > y is written y < x.
#include "poly/canonical.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace tilec::poly {
namespace {

bool commutes(Op op, DType type) {
  switch (op) {
    case Op::Add: case Op::Mul: case Op::Eq: case Op::Ne: case Op::And: case Op::Or: case Op::Xor: return true;
    case Op::Max: case Op::Min: return !lang::is_float(type);
    default: return false;
  }
}

class Form {
 public:
  Form(const Program& program, const std::vector<TensorId>& stands_for) : program_(program), stands_for_(stands_for) {}

  std::string of(const Statement& s) {
    order(s);
    std::string text = "S" + std::to_string(static_cast<int>(s.aggregation)) +
        std::to_string(static_cast<int>(s.ties)) + shape(s.target.tensor) + std::to_string(s.indices.size());
    for (const auto& form : s.target.element) text += affine(form);
    std::vector<std::string> rows;
    for (const auto& row : s.domain) rows.push_back(affine(row.value) + (row.extent ? "<" + size(*row.extent) : ""));
    if (s.ties != Ties::First) {                       // whose order of points is that of the rows
      std::sort(rows.begin(), rows.end());
      rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    }
    for (const auto& row : rows) text += "\n" + row;
    text += "\n" + value(s, s.value) + "|";
    if (const auto* fill = std::get_if<TensorId>(&s.fill)) text += tensor(*fill);
    else text += number(std::get<Number>(s.fill));
    return text + s.kernel_name;
  }

  std::string of(const Intrinsic& i) const {
    std::string text = "I" + std::to_string(static_cast<int>(i.op));
    for (const auto id : i.targets) text += shape(id);
    for (const auto id : i.operands) text += tensor(id);
    for (const auto& parameter : i.parameters) text += "," + size(parameter);
    return text;
  }

 private:
  static std::string size(const Size& size) {
    const auto known = size.value();
    return known ? std::to_string(*known) : "(" + size.print(true) + ")";
  }

  std::string tensor(TensorId id) const { return "T" + std::to_string(stands_for_[static_cast<std::size_t>(id)]); }

  std::string shape(TensorId id) const {
    const auto& t = program_.tensor(id);
    std::string text = ":" + std::to_string(static_cast<int>(t.dtype));
    for (const auto& extent : t.shape) text += "," + size(extent);
    return text + ";";
  }

  // Indices that are a dimension of the target by themselves come first: they are fixed among the points of an element.
  void order(const Statement& s) {
    order_.clear();
    std::vector<bool> taken(s.indices.size(), false);
    const auto take = [&](std::size_t k) {
      if (!taken[k]) order_.push_back(k);
      taken[k] = true;
    };
    if (s.ties != Ties::First)
      for (const auto& form : s.target.element)
        if (const auto k = form.single_index()) take(*k);
    for (std::size_t k = 0; k < taken.size(); ++k) take(k);
  }

  std::string affine(const Affine& form) const {
    std::string text = "[";
    for (std::size_t k = 0; k < order_.size(); ++k)
      if (const auto& c = form.coefficients[order_[k]]; !c.is(0)) text += size(c) + "i" + std::to_string(k) + "+";
    text += size(form.constant);
    return form.divisor.is(1) ? text + "]" : text + "/" + size(form.divisor) + "]";
  }

  static std::string number(const Number& n) {
    const auto bits = lang::is_float(n.type) ? std::bit_cast<std::uint64_t>(std::isnan(n.real) ? std::nan("") : n.real)
                                             : static_cast<std::uint64_t>(n.integer);
    return "#" + std::to_string(bits) + ":" + std::to_string(static_cast<int>(n.type));
  }

  std::string value(const Statement& s, const Expr& e) const {
    return e.match(
        [&](const Number& n) { return number(n); },
        [&](const Read& r) {
          const auto& access = s.reads[static_cast<std::size_t>(r.read)];
          std::string text = tensor(access.tensor);
          for (const auto& form : access.element) text += affine(form);
          return text;
        },
        [&](const Index& i) { return affine(i.value) + ":" + std::to_string(static_cast<int>(i.type)); },
        [&](const Cast& c) { return "c" + std::to_string(static_cast<int>(c.type)) + "(" + value(s, c.operand) + ")"; },
        [&](const Apply& a) { return apply(s, a); });
  }

  std::string apply(const Statement& s, const Apply& a) const {
    std::vector<std::string> operands;
    for (const auto& operand : a.operands) operands.push_back(value(s, operand));
    Op op = a.op;
    if (op == Op::Gt || op == Op::Ge) {
      op = op == Op::Gt ? Op::Lt : Op::Le;
      std::swap(operands[0], operands[1]);
    }
    if (commutes(op, a.operands[0].type()) || op == Op::Fma) std::sort(operands.begin(), operands.begin() + 2);
    std::string text =
        "o" + std::to_string(static_cast<int>(op)) + ":" + std::to_string(static_cast<int>(a.type)) + "(";
    for (const auto& operand : operands) text += operand + ",";
    return text + ")";
  }

  const Program& program_;
  const std::vector<TensorId>& stands_for_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::string canonical(const Program& program, const Node& node, const std::vector<TensorId>& stands_for) {
  return std::visit([&](const auto& n) { return Form(program, stands_for).of(n); }, node);
}

bool equal_in_any_order(const Expr& a, const Expr& b) {
  if (a.same_as(b)) return true;
  const auto *x = a.as<Apply>(), *y = b.as<Apply>();
  if (const auto *c = a.as<Cast>(), *d = b.as<Cast>(); c && d)
    return c->type == d->type && equal_in_any_order(c->operand, d->operand);
  if (!x || !y) return a == b;
  if (x->op != y->op || x->type != y->type || x->operands.size() != y->operands.size()) return false;
  const auto pairs = [&](std::size_t p, std::size_t q) {
    return equal_in_any_order(x->operands[0], y->operands[p]) && equal_in_any_order(x->operands[1], y->operands[q]);
  };
  const bool swappable = x->operands.size() == 2 && commutes(x->op, x->operands[0].type());
  if (swappable) return pairs(0, 1) || pairs(1, 0);
  for (std::size_t k = 0; k < x->operands.size(); ++k)
    if (!equal_in_any_order(x->operands[k], y->operands[k])) return false;
  return true;
}

}  // namespace tilec::poly
