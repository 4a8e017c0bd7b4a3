// Takes a product apart into what each index decides.
#include "codegen/decay.h"

#include <algorithm>

#include "codegen/scalar.h"
#include "lang/type.h"
#include "poly/estimate.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::DType;
using lang::Op;
using poly::Apply;
using poly::Cast;
using poly::Expr;

Expr in_type(const Expr& e, DType type) { return e.type() == type ? e : Expr(Cast{e, type}); }

void join(std::optional<Expr>& all, Op op, const Expr& e) { all = all ? Expr(Apply{op, {*all, e}, e.type()}) : e; }

// A cast between floats rounds, and changes nothing else. What is rounded to a half is written so, or stored.
const Expr* inside_cast(const Expr& e) {
  const auto* cast = e.as<Cast>();
  return cast && lang::is_float(cast->type) && lang::bits(cast->type) > 16 && lang::is_float(cast->operand.type())
      ? &cast->operand
      : nullptr;
}

class Reader {
 public:
  Reader(poly::Aggregation how, const Expr& value, const ReachOf& reach)
      : how_(how),
        reach_(reach),
        type_(lang::is_float(value.type()) ? DType::F64 : value.type()),
        written_(value.type()) {
    factor(value);
  }

  std::optional<Decay> decay() {
    // sums of f64 texts are those at an anchor, which knows no rise
    if (rise_ && (!lengths_.empty() || written_ == DType::F64)) return std::nullopt;
    if (!separable_ || type_ == DType::Bool || (!sums() && (scale_ || !term_))) return std::nullopt;
    Expr term = term_ ? *term_ : Expr(poly::Number{type_, 1, lang::is_float(type_) ? 1.0 : 0.0});
    if (divisor_) term = Apply{Op::Div, {term, *divisor_}, type_};
    if (negative_) term = Apply{Op::Neg, {term}, type_};
    if (scale_divisor_)
      scale_ = Apply{Op::Div, {scale_ ? *scale_ : Expr(poly::Number{type_, 1, 1.0}), *scale_divisor_}, type_};
    for (const auto& part : {std::optional(term), term_if_, scale_, scale_if_, term_must_, scale_must_})
      if (part && has_gate(*part)) return std::nullopt;  // between ends of which one is fixed
    return Decay{here_, there_, std::move(levels_here_), std::move(levels_there_), std::move(powers_),
        std::move(rates_), std::move(gates_), std::move(lengths_), std::move(rise_), std::move(runs_), term, term_if_,
        scale_, scale_if_, term_must_, scale_must_, type_, written_};
  }

 private:
  bool sums() const { return how_ == poly::Aggregation::Sum; }
  bool ignored(const Expr& e) const {
    const auto* n = e.as<poly::Number>();
    return n && (sums() ? (lang::is_float(n->type) ? n->real == 0 : n->integer == 0) : *n == nothing(how_, n->type));
  }

  void narrow(DType type) {
    if (lang::is_float(type) && poly::largest(type) < poly::largest(written_)) written_ = type;
  }

  bool both(const Expr& e) const {
    const Reach r = reach_(e);
    return r.along && r.over;
  }
  // A number of steps as a float that holds it: f32(t - s) - 1.0.
  static std::optional<Length> length(const Expr& e) {
    if (e.type() != DType::F32 && e.type() != DType::F64) return std::nullopt;
    if (const auto* cast = e.as<Cast>()) {
      if (cast->operand.as<poly::Index>()) return Length{cast->operand};
      return length(cast->operand);
    }
    const auto* apply = e.as<Apply>();
    if (!apply) return std::nullopt;
    const auto* right = apply->operands.size() == 2 ? apply->operands[1].as<poly::Number>() : nullptr;
    const auto* left = apply->operands[0].as<poly::Number>();
    auto found = length(apply->operands[left && !right ? 1 : 0]);
    if (!found) return std::nullopt;
    const auto moved = [&](double times, double plus) {
      return Length{found->index, times * found->times, times * found->plus + plus};
    };
    if (apply->op == Op::Neg) return moved(-1, 0);
    if (!left == !right) return std::nullopt;
    const double by = (right ? right : left)->real;
    switch (apply->op) {
      case Op::Add: return moved(1, by);
      case Op::Sub: return right ? moved(1, -by) : moved(-1, by);
      case Op::Mul: return moved(by, 0);
      case Op::Div: return right ? std::optional(moved(1 / by, 0)) : std::nullopt;
      default: return std::nullopt;
    }
  }

  bool of_term(const Expr& e) const { return reach_(e).over || e.as<poly::Number>(); }

  void factor(const Expr& e) {
    narrow(e.type());
    if (!both(e)) return plain(e);
    if (!sums() && (!e.as<Apply>() || e.as<Apply>()->op != Op::Select)) return void(separable_ = false);
    if (auto steps = length(e)) return lengths_.push_back(std::move(*steps));
    if (const Expr* operand = inside_cast(e)) return factor(*operand);
    const auto* apply = e.as<Apply>();
    if (!apply) return plain(e);
    const auto& x = apply->operands;
    switch (apply->op) {
      case Op::Mul: factor(x[0]); factor(x[1]); return;
      case Op::Neg: negative_ = !negative_; factor(x[0]); return;
      case Op::Sub: rise(x[0], x[1]); return;
      case Op::Div: if (!lang::is_float(apply->type)) break; factor(x[0]); divisor(x[1]); return;
      case Op::Pow: power(e, e); return;
      case Op::Between: gate(e); return;
      case Op::Select:
        if (sums() && is_one_at_equal(x)) return power(e, x[2]);
        condition(x[0], !ignored(x[2]));
        factor(x[1]);
        return;
      case Op::Exp: narrow(e.type()); exponent(x[0], false, std::nullopt); return;
      default: break;
    }
    separable_ = false;
  }

  // t == s ? 1.0 : pow(A, t - s), which at 0 keeps a derivative by A.
  static bool is_one_at_equal(const std::vector<Expr>& x) {
    const auto* equal = x[0].as<Apply>();
    const auto* one = x[1].as<poly::Number>();
    const auto* power = x[2].as<Apply>();
    return equal && equal->op == Op::Eq && equal->operands[0].as<poly::Index>() &&
        equal->operands[1].as<poly::Index>() && one && one->real == 1 && power && power->op == Op::Pow;
  }

  // What depends on one index alone less what depends on the other. Of f64, steps would show how they round.
  void rise(const Expr& a, const Expr& b) {
    const Reach first = reach_(a), second = reach_(b);
    const Expr* inside = inside_cast(a);
    const DType type = (inside ? *inside : a).type();
    if (rise_ || !lang::is_float(type) || type == DType::F64 || first.along == first.over ||
        second.along != first.over || second.over != first.along)
      return void(separable_ = false);
    narrow(a.type());
    const bool minus = first.over;
    rise_ = Rise{in_type(minus ? b : a, DType::F64), in_type(minus ? a : b, DType::F64), minus};
  }

  // A base that depends on neither index to the power of a length.
  void power(const Expr& weight, const Expr& e) {
    const auto& x = e.as<Apply>()->operands;
    const auto exponent = x[1].as<poly::Index>() ? std::optional(Length{x[1]}) : length(x[1]);
    const Reach base = reach_(x[0]);
    narrow(e.type());
    if (base.along || base.over || !exponent || !lang::is_float(x[0].type())) separable_ = false;
    else powers_.push_back({in_type(x[0], DType::F64), in_type(weight, DType::F64), *exponent});
  }

  void gate(const Expr& e) {
    const auto& x = e.as<Apply>()->operands;
    const Reach first = reach_(x[0]), last = reach_(x[1]);
    if (first.along == last.along || first.over == last.over || first.along == first.over)
      return void(separable_ = false);
    gates_.push_back({e, in_type(x[0], DType::F64), in_type(x[1], DType::F64), last.along, Length{x[2]}});
  }

  void plain(const Expr& e) {
    if (const auto* cast = e.as<Cast>()) narrow(cast->operand.type());
    if (both(e)) separable_ = false;
    else join(of_term(e) ? term_ : scale_, Op::Mul, in_type(e, type_));
  }

  void divisor(const Expr& e) {
    if (both(e)) separable_ = false;
    else join(of_term(e) ? divisor_ : scale_divisor_, Op::Mul, in_type(e, type_));
  }

  // Asked of a value that is 0 where it does not hold, or something else: then it must.
  void condition(const Expr& e, bool must) {
    if (!both(e)) return join(of_term(e) ? (must ? term_must_ : term_if_) : must ? scale_must_ : scale_if_, Op::And, e);
    const auto* apply = e.as<Apply>();
    if (apply && apply->op == Op::And && apply->type == DType::Bool) {
      condition(apply->operands[0], must);
      condition(apply->operands[1], must);
    } else if (apply && apply->op == Op::Eq && !both(apply->operands[0]) && !both(apply->operands[1])) {
      const bool first_is_here = reach_(apply->operands[0]).along;
      runs_.push_back({apply->operands[first_is_here ? 0 : 1], apply->operands[first_is_here ? 1 : 0], must});
    } else if (!(must && apply && apply->op == Op::IsFinite && decay_of(how_, apply->operands[0], reach_))) {
      separable_ = false;                              // a weight within the leaf's bounds is finite
    }
  }

  void rate(const Expr& e, const Length& length, bool minus, const std::optional<Expr>& times) {
    const Expr by = times ? *times : Expr(poly::Number{DType::F64, 0, 1.0});
    const Expr rate = minus ? Expr(Apply{Op::Neg, {by}, DType::F64}) : by;
    rates_.push_back({rate, Apply{Op::Mul, {rate, in_type(e, DType::F64)}, DType::F64}, length});
  }

  // ±e, or that times what depends on neither index.
  void exponent(const Expr& e, bool minus, const std::optional<Expr>& times) {
    if (const auto steps = both(e) ? length(e) : std::nullopt) return rate(e, *steps, minus, times);
    if (const Expr* operand = inside_cast(e)) return exponent(*operand, minus, times);
    const auto* apply = e.as<Apply>();
    if (!apply || !both(e)) return exponent_term(e, minus, times);
    const auto& x = apply->operands;
    const auto free = [&](const Expr& o) { return !reach_(o).along && !reach_(o).over; };
    const auto scaled = [&](const Expr& by) {
      return times ? Expr(Apply{Op::Mul, {*times, in_type(by, DType::F64)}, DType::F64}) : in_type(by, DType::F64);
    };
    if (apply->op == Op::Neg) return exponent(x[0], !minus, times);
    if (apply->op == Op::Add || apply->op == Op::Sub) {
      exponent(x[0], minus, times);
      exponent(x[1], minus != (apply->op == Op::Sub), times);
    } else if (apply->op == Op::Mul && free(x[0])) {
      exponent(x[1], minus, scaled(x[0]));
    } else if (apply->op == Op::Mul && free(x[1])) {
      exponent(x[0], minus, scaled(x[1]));
    } else if (apply->op == Op::Div && free(x[1])) {
      exponent(x[0], minus,
          scaled(Apply{Op::Div, {Expr(poly::Number{DType::F64, 0, 1.0}), in_type(x[1], DType::F64)}, DType::F64}));
    } else {
      separable_ = false;
    }
  }

  void exponent_term(const Expr& e, bool minus, const std::optional<Expr>& times) {
    if (both(e) || !lang::is_float(e.type())) {
      separable_ = false;
      return;
    }
    Expr term = in_type(e, DType::F64);
    (of_term(e) ? levels_there_ : levels_here_).push_back({term, times, minus});
    if (times) term = Apply{Op::Mul, {*times, term}, DType::F64};
    if (minus) term = Apply{Op::Neg, {term}, DType::F64};
    join(of_term(e) ? there_ : here_, Op::Add, term);
  }

  poly::Aggregation how_;
  const ReachOf& reach_;
  DType type_, written_;
  bool separable_ = true, negative_ = false;
  std::optional<Expr> here_, there_, term_, divisor_, term_if_, term_must_, scale_, scale_divisor_, scale_if_,
      scale_must_;
  std::vector<Level> levels_here_, levels_there_;
  std::vector<Power> powers_;
  std::vector<Rate> rates_;
  std::vector<Gate> gates_;
  std::vector<Length> lengths_;
  std::optional<Rise> rise_;
  std::vector<Run> runs_;
};

}  // namespace

std::optional<Decay> decay_of(poly::Aggregation how, const poly::Expr& value, const ReachOf& reach) {
  return Reader(how, value, reach).decay();
}

bool has_gate(const poly::Expr& value) {
  return std::ranges::any_of(poly::parts(value), [](const poly::Expr& part) {
    const auto* apply = part.as<poly::Apply>();
    return apply && apply->op == Op::Between;
  });
}

poly::Number nothing(poly::Aggregation how, DType type) {
  const auto none = identity(how, type);
  const auto* constant = none.as<Constant>();
  return {type, constant->integer, constant->real};
}

std::optional<std::vector<double>> binomials(const std::vector<Line>& lengths) {
  constexpr std::size_t most = 4;
  if (lengths.size() > most) return std::nullopt;
  // Differences of the product's values at 0, 1, 2, …
  std::vector<double> found(lengths.size() + 1, 1);
  for (std::size_t d = 0; d < found.size(); ++d)
    for (const Line& line : lengths) found[d] *= line.start + line.slope * static_cast<double>(d);
  for (std::size_t n = 1; n < found.size(); ++n)
    for (std::size_t d = found.size(); d-- > n;) found[d] -= found[d - 1];
  const auto [least, greatest] = std::minmax_element(found.begin(), found.end());
  return *least < 0 && *greatest > 0 ? std::nullopt : std::optional(found);
}

}  // namespace tilec::codegen
