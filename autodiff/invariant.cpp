// One extreme at a time, moved by s at each of its elements: every tensor behind it is x + c s, x exp(c s), or what is
// not known, where s is that of one element of the extreme, which lies along dimensions of the tensor.
#include "autodiff/invariant.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "autodiff/covers.h"
#include "autodiff/graph.h"
#include "poly/intern.h"

namespace tilec::autodiff {
namespace {

using lang::Op;
using poly::Affine;
using poly::Aggregation;
using poly::Expr;
using poly::Number;
using poly::Program;
using poly::Statement;
using poly::TensorId;

// x + by s, or x exp(by s); none of it for 0.
struct Moved {
  bool scaled = false;
  double by = 0;
  bool operator==(const Moved&) const = default;
  bool stays() const { return by == 0; }
};
using Answer = std::optional<Moved>;                   // empty: not known

Moved scaled(double by) { return by == 0 ? Moved{} : Moved{true, by}; }

const Number* literal(const Expr& e) { return poly::below_casts(e).as<Number>(); }
bool zero(const Number& n) { return n.integer == 0 && n.real == 0; }
// Whether a number is as it is under that: 0 however it is scaled, an infinity whatever is added.
bool bears(const Number& n, const Moved& moved) {
  return moved.stays() || (moved.scaled ? zero(n) : std::isinf(n.real));
}

class Behind {
 public:
  Behind(const Program& program, const Statement& extreme)
      : program_(program), of_(program.tensors.size(), Of{Moved{}, {}}) {
    Of own{Moved{false, 1}, {}};
    for (std::size_t d = 0; d < extreme.target.element.size(); ++d) own.dims.push_back(d);
    of_[at(extreme.target.tensor)] = own;
    bool after = false;
    for (const poly::Node& node : program.nodes) {
      if (after) follow(node);
      after = after || (std::holds_alternative<Statement>(node) && &std::get<Statement>(node) == &extreme);
    }
  }
  bool reaches(TensorId id) const { return !stays(id); }

 private:
  struct Of { Answer moved; std::vector<std::size_t> dims; };  // dims: along which dimensions the extreme's lie
  bool stays(TensorId id) const { return of_[at(id)].moved && of_[at(id)].moved->stays(); }

  void follow(const poly::Node& node) {
    const std::vector<TensorId> read = operands(node);
    if (std::ranges::all_of(read, [&](TensorId id) { return stays(id); })) return;
    const auto* s = std::get_if<Statement>(&node);
    for (const TensorId id : targets(node)) of_[at(id)] = s && !by_rule(id) ? target(*s) : Of{std::nullopt, {}};
  }
  // A rule may say what it likes of the derivative by what it reads.
  bool by_rule(TensorId id) const {
    const poly::Rule* rule = rule_of(program_, id);
    return rule && std::ranges::any_of(rule->operands, [&](TensorId operand) { return !stays(operand); });
  }

  Of target(const Statement& s) const {
    Of unknown{std::nullopt, {}};
    const std::vector<Affine>* where = nullptr;        // the extreme's element, at a point
    std::vector<Affine> found;
    for (const poly::Access& read : s.reads) {
      if (stays(read.tensor)) continue;
      const Of& own = of_[at(read.tensor)];
      if (!own.moved) return unknown;
      std::vector<Affine> here;
      for (const std::size_t d : own.dims) here.push_back(read.element[d]);
      if (where && *where != here) return unknown;
      found = std::move(here), where = &found;
    }
    const auto* fill = std::get_if<Number>(&s.fill);
    if (!fill && !stays(std::get<TensorId>(s.fill))) return unknown;
    const Answer value = moved(s, s.value);
    if (!value || value->stays()) return {value, {}};
    const bool folds = s.aggregation == Aggregation::Assign || s.aggregation == Aggregation::Max ||
        s.aggregation == Aggregation::Min || (s.aggregation == Aggregation::Sum && value->scaled);
    if (!folds || (!(fill && bears(*fill, *value)) && !reaches_all(s))) return unknown;
    Of made{value, {}};
    for (const Affine& one : found) {
      const auto d = std::ranges::find(s.target.element, one);
      if (d == s.target.element.end()) return unknown;
      made.dims.push_back(static_cast<std::size_t>(d - s.target.element.begin()));
    }
    return made;
  }
  bool reaches_all(const Statement& s) const {
    const auto rows = image(s, program_.tensor(s.target.tensor).shape);
    return rows && rows->empty();
  }

  // Of two values that are compared, added or chosen from.
  Answer alike(const Statement& s, const Expr& a, const Expr& b) const {
    const Answer x = moved(s, a), y = moved(s, b);
    if (!x || !y) return std::nullopt;
    if (*x == *y) return x;
    const Number *m = literal(a), *n = literal(b);
    if (m && bears(*m, *y)) return y;
    if (n && bears(*n, *x)) return x;
    return std::nullopt;
  }

  Answer moved(const Statement& s, const Expr& e) const {
    return e.match([](const Number&) -> Answer { return Moved{}; },
        [](const poly::Index&) -> Answer { return Moved{}; },
        [&](const poly::Read& r) -> Answer { return of_[at(s.reads[static_cast<std::size_t>(r.read)].tensor)].moved; },
        [&](const poly::Cast& c) -> Answer {
          const Answer own = moved(s, c.operand);
          return own && (own->stays() || lang::is_float(c.type)) ? own : std::nullopt;
        },
        [&](const poly::Apply& a) -> Answer {
          const auto all_stay = [&] {
            return std::ranges::all_of(a.operands, [&](const Expr& o) {
              const Answer own = moved(s, o);
              return own && own->stays();
            });
          };
          const Answer known = applied(s, a);
          return known || !all_stay() ? known : Moved{};
        });
  }
  Answer applied(const Statement& s, const poly::Apply& a) const {
    const auto of = [&](std::size_t k) { return moved(s, a.operands[k]); };
    const Answer x = of(0), y = a.operands.size() > 1 ? of(1) : Moved{};
    if (!x || !y) return std::nullopt;
    switch (a.op) {
      case Op::Neg: return x->scaled ? x : Moved{false, -x->by};
      case Op::Add:
        if (!x->scaled && !y->scaled) return Moved{false, x->by + y->by};
        return alike(s, a.operands[0], a.operands[1]);
      case Op::Sub:
        if (!x->scaled && !y->scaled) return Moved{false, x->by - y->by};
        return alike(s, a.operands[0], a.operands[1]);
      case Op::Mul: return product(a, *x, *y, 1);
      case Op::Div: return product(a, *x, *y, -1);
      case Op::Recip: return x->scaled ? Answer(scaled(-x->by)) : std::nullopt;
      case Op::Exp: return x->scaled ? std::nullopt : Answer(scaled(x->by));
      case Op::Log: return x->scaled ? Answer(Moved{false, x->by}) : std::nullopt;
      case Op::Abs: case Op::Relu: return x->scaled ? x : std::nullopt;
      case Op::Sqrt: return x->scaled ? Answer(scaled(x->by / 2)) : std::nullopt;
      case Op::Max: case Op::Min: return alike(s, a.operands[0], a.operands[1]);
      case Op::Eq:
      case Op::Ne:
      case Op::Lt:
      case Op::Le:
      case Op::Gt:
      case Op::Ge: return alike(s, a.operands[0], a.operands[1]) ? Answer(Moved{}) : std::nullopt;
      case Op::Select: return x->stays() ? alike(s, a.operands[1], a.operands[2]) : std::nullopt;
      default: return std::nullopt;
    }
  }
  // x y, or x / y: `sign` -1.
  static Answer product(const poly::Apply& a, const Moved& x, const Moved& y, int sign) {
    const auto scales = [](const Moved& m) { return m.scaled || m.stays(); };
    if (scales(x) && scales(y)) return scaled(x.by + sign * y.by);
    const auto number = [&](std::size_t k) {
      const Number* n = literal(a.operands[k]);
      return n && lang::is_float(n->type) ? std::optional(n->real) : std::nullopt;
    };
    if (const auto n = number(1); n && !x.scaled) return Moved{false, sign > 0 ? x.by * *n : x.by / *n};
    if (const auto n = number(0); n && !y.scaled && sign > 0) return Moved{false, y.by * *n};
    return std::nullopt;
  }

  const Program& program_;
  std::vector<Of> of_;
};

}  // namespace

std::vector<bool> without_effect(const Program& program, const std::vector<TensorId>& of) {
  std::vector<bool> found(program.tensors.size());
  const std::vector<bool> behind = tensors_behind(program, of);
  for (const poly::Node& node : program.nodes) {
    const auto* s = std::get_if<Statement>(&node);
    if (!s || (s->aggregation != Aggregation::Max && s->aggregation != Aggregation::Min) ||
        !behind[at(s->target.tensor)])
      continue;
    const Behind moved(program, *s);
    found[at(s->target.tensor)] = std::ranges::none_of(of, [&](TensorId id) { return moved.reaches(id); });
  }
  return found;
}

}  // namespace tilec::autodiff
