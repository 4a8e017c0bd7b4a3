// Sizes as polynomials.
//
// A size such as `(N + 1)*M - M` is kept multiplied out: here `N*M`. Whatever distributes over sums is gone after that,
// so two polynomials are equal exactly when their terms are; what does not distribute (truncating division, max, `?:`
// …) is an opaque factor whose arguments are polynomials again. The obvious alternative, a tree with rewriting rules,
// needs a rule for each way of writing the same thing and still misses some.
//
// Sums are formed in 128 bits and must fit 64 when done: `N*K - M*K` may pass through values that `(N - M)*K` avoids.
#include "poly/size.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>

#include "lang/diagnostic.h"
#include "lang/limit.h"

namespace tilec::poly {
namespace {

__extension__ using Wide = __int128;
using Factors = std::vector<Size::Factor>;
using Polynomial = std::map<Factors, Wide>;

// What is computed; its text is made only when something goes wrong.
struct Operation {
  const Size& a;
  const char* symbol = nullptr;                        // nullptr: `a` alone
  const Size* b = nullptr;
};

[[noreturn]] void overflow(const std::string& operation) {
  throw Overflow(fmt::format("`{}` does not fit a 64-bit size", operation));
}

[[noreturn]] void overflow(const Operation& o) {
  overflow(o.symbol ? fmt::format("{} {} {}", o.a.print(), o.symbol, o.b->print()) : o.a.print());
}

Polynomial polynomial_of(const Size& size) {
  Polynomial sum;
  if (size.constant() != 0) sum.emplace(Factors{}, size.constant());
  for (const auto& term : size.terms()) sum.emplace(term.factors, term.coefficient);
  return sum;
}

// Sums multiplied out: `(A + B)*(C + D)*…` has 2^n terms.
void check_count(std::size_t terms) {
  constexpr std::size_t few = 100;
  if (terms <= few) return;
  const auto most = static_cast<std::size_t>(lang::most(lang::Limit::Terms));
  if (terms > most)
    throw SizeError(fmt::format(
        "multiplied out, a size has more than {} terms (the environment variable TILEC_LIMIT_TERMS raises this limit)",
        most));
}

void add_term(Polynomial& sum, const Factors& factors, Wide coefficient, const Operation& operation) {
  Wide& total = sum[factors];
  if (__builtin_add_overflow(total, coefficient, &total)) overflow(operation);
}

Factors merged(const Factors& a, const Factors& b) {
  Factors all;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

void add_product(Polynomial& sum, const Polynomial& a, const Polynomial& b, const Operation& operation) {
  check_count(std::max(a.size(), b.size()));
  for (const auto& [factors, coefficient] : a) {
    for (const auto& [others, other] : b) {
      Wide product;
      if (__builtin_mul_overflow(coefficient, other, &product)) overflow(operation);
      add_term(sum, merged(factors, others), product, operation);
    }
    check_count(sum.size());
  }
}

std::int64_t narrow(Wide coefficient, const Operation& operation) {
  if (coefficient < INT64_MIN || coefficient > INT64_MAX) overflow(operation);
  return static_cast<std::int64_t>(coefficient);
}

// But for the constant.
std::vector<Size::Term> terms_of(const Polynomial& sum, const Operation& operation) {
  std::vector<Size::Term> terms;
  for (const auto& [factors, coefficient] : sum)
    if (coefficient != 0 && !factors.empty()) terms.push_back({narrow(coefficient, operation), factors});
  return terms;
}

std::int64_t constant_of(const Polynomial& sum, const Operation& operation) {
  const auto constant = sum.find(Factors{});
  return constant == sum.end() ? 0 : narrow(constant->second, operation);
}

// a + sign·b, but for the constant: both are sorted.
std::vector<Size::Term> terms_of_sum(const Size& a, int sign, const Size& b, const Operation& operation) {
  std::vector<Size::Term> terms;
  auto x = a.terms().begin(), y = b.terms().begin();
  const auto x_end = a.terms().end(), y_end = b.terms().end();
  const auto take_y = [&] { return Wide{sign} * y++->coefficient; };
  while (x != x_end || y != y_end) {
    if (y == y_end || (x != x_end && x->factors < y->factors)) terms.push_back(*x++);
    else if (x == x_end || y->factors < x->factors) {
      const Factors& factors = y->factors;
      terms.push_back({narrow(take_y(), operation), factors});
    } else {
      const Wide sum = x->coefficient + take_y();
      if (sum != 0) terms.push_back({narrow(sum, operation), x->factors});
      ++x;
    }
  }
  check_count(terms.size());
  return terms;
}

// -1, 0, 1 when a < b, a == b, a > b whatever the names are: a - b is a constant.
std::optional<int> compare(const Size& a, const Size& b) {
  if (a.terms() != b.terms()) return std::nullopt;
  return a.constant() < b.constant() ? -1 : a.constant() > b.constant() ? 1 : 0;
}

std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

std::int64_t truncated(std::int64_t a, std::int64_t b, const char* symbol) {
  if (b == 0) throw SizeError(fmt::format("`{} {} 0` divides by zero", a, symbol));
  if (a == INT64_MIN && b == -1) {
    if (*symbol == '/') overflow(fmt::format("{} / -1", a));
    return 0;
  }
  return *symbol == '/' ? a / b : a % b;
}

}  // namespace

void overflow(std::int64_t a, char operation, std::int64_t b) {
  throw Overflow(fmt::format("`{} {} {}` does not fit 64 bits", a, operation, b));
}

bool Size::Factor::operator==(const Factor& other) const {
  return kind == other.kind && name == other.name && arguments == other.arguments;
}
bool Size::Factor::operator<(const Factor& other) const {
  return std::tie(kind, name, arguments) < std::tie(other.kind, other.name, other.arguments);
}

// As of sums whose constant is the first term, unless it is 0.
bool Size::operator<(const Size& other) const {
  if (constant_ != other.constant_) {
    if (constant_ == 0) return !terms_;
    if (other.constant_ == 0) return other.terms_ != nullptr;
    return constant_ < other.constant_;
  }
  return std::lexicographical_compare(
      terms().begin(), terms().end(), other.terms().begin(), other.terms().end(), [](const Term& a, const Term& b) {
        return a.factors != b.factors ? a.factors < b.factors : a.coefficient < b.coefficient;
      });
}

Size Size::named(std::string name) {
  Size size;
  size.set_terms({{1, {Factor{Kind::Name, std::move(name), {}}}}});
  return size;
}

const std::vector<Size::Term>& Size::none() {
  static const std::vector<Term> terms;
  return terms;
}

void Size::set_terms(std::vector<Term> terms) {
  terms_ = terms.empty() ? nullptr : std::make_shared<const std::vector<Term>>(std::move(terms));
}

std::int64_t Size::not_bound() const { throw lang::InternalError(fmt::format("size `{}` is not bound", print())); }

const Size::Factor* Size::lone_factor() const {
  if (constant_ != 0 || terms().size() != 1 || terms()[0].coefficient != 1 || terms()[0].factors.size() != 1)
    return nullptr;
  return &terms()[0].factors[0];
}

Size Size::operator-() const { return Size(0) - *this; }

Size operator+(const Size& a, const Size& b) {
  const Operation operation{a, "+", &b};
  Size result = narrow(Wide{a.constant_} + b.constant_, operation);
  if (a.terms_ || b.terms_) result.set_terms(terms_of_sum(a, 1, b, operation));
  return result;
}

Size operator-(const Size& a, const Size& b) {
  const Operation operation{a, "-", &b};
  Size result = narrow(Wide{a.constant_} - b.constant_, operation);
  if (a.terms_ || b.terms_) result.set_terms(terms_of_sum(a, -1, b, operation));
  return result;
}

Size operator*(const Size& a, const Size& b) {
  const auto x = a.value(), y = b.value();
  std::int64_t folded;
  if (x && y && !__builtin_mul_overflow(*x, *y, &folded)) return folded;
  const Operation operation{a, "*", &b};
  Polynomial product;
  add_product(product, polynomial_of(a), polynomial_of(b), operation);
  Size result = constant_of(product, operation);
  result.set_terms(terms_of(product, operation));
  return result;
}

Size operator/(const Size& a, const Size& b) { return Size::apply(Size::Kind::Divide, {a, b}); }

namespace {

Size size_of(const Size::Factor& factor) {
  return factor.kind == Size::Kind::Name ? Size::named(factor.name) : Size::apply(factor.kind, factor.arguments);
}

// The first of the terms decides the sign of a dividend: `(M - N)/2` is `-((N - M)/2)`.
bool leads_negative(const Size& size) {
  const auto& terms = size.terms();
  if (terms.empty() || terms.front().coefficient > 0 || size.constant() == INT64_MIN) return false;
  return std::none_of(terms.begin(), terms.end(), [](const Size::Term& t) { return t.coefficient == INT64_MIN; });
}

// trunc(g·a / g·b) = trunc(a/b), and trunc(trunc(a/b) / c) = trunc(a / b·c): both for any signs.
Size divide(const Size& a, const Size& b, Size (*make)(Size::Kind, std::vector<Size>)) {
  const auto divisor = b.value();
  if (!divisor) return make(Size::Kind::Divide, {a, b});
  if (const auto number = a.value()) return truncated(*number, *divisor, "/");
  if (*divisor == 0) throw SizeError(fmt::format("`{} / 0` divides by zero", a.print()));
  if (*divisor < 0 && *divisor != INT64_MIN) return -divide(a, -*divisor, make);
  if (*divisor == 1) return a;
  if (leads_negative(a)) return -divide(-a, b, make);
  if (const auto* inner = a.lone_factor(); inner && inner->kind == Size::Kind::Divide) {
    const auto first = inner->arguments[1].value();
    std::int64_t product;
    if (first && !__builtin_mul_overflow(*first, *divisor, &product)) return divide(inner->arguments[0], product, make);
  }
  std::uint64_t common = std::gcd(magnitude(*divisor), magnitude(a.constant()));
  for (const auto& term : a.terms()) common = std::gcd(common, magnitude(term.coefficient));
  if (common > 1 && common <= INT64_MAX) {
    Size reduced = a.constant() / static_cast<std::int64_t>(common);
    for (const auto& term : a.terms()) {
      Size product = term.coefficient / static_cast<std::int64_t>(common);
      for (const auto& factor : term.factors) product = product * size_of(factor);
      reduced = reduced + product;
    }
    return divide(reduced, *divisor / static_cast<std::int64_t>(common), make);
  }
  return make(Size::Kind::Divide, {a, b});
}

// Max and Min of any number of arguments: flattened, sorted, each once, decided where the difference is a constant.
std::vector<Size> extremes(Size::Kind kind, const std::vector<Size>& arguments) {
  std::vector<Size> all;
  for (const auto& argument : arguments) {
    const auto* factor = argument.lone_factor();
    const auto parts = factor && factor->kind == kind ? factor->arguments : std::vector<Size>{argument};
    for (const auto& part : parts) {
      bool decided = false;
      for (auto& known : all)
        if (const auto order = compare(part, known)) {
          if ((kind == Size::Kind::Max) == (*order > 0)) known = part;
          decided = true;
          break;
        }
      if (!decided) all.push_back(part);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

Size Size::apply(Kind kind, std::vector<Size> arguments) {
  const auto make = [](Kind k, std::vector<Size> parts) -> Size {
    Size size;
    size.set_terms({{1, {Factor{k, "", std::move(parts)}}}});
    return size;
  };
  switch (kind) {
    case Kind::Name: break;
    case Kind::Divide: return divide(arguments.at(0), arguments.at(1), make);
    case Kind::Mod:
      if (const auto divisor = arguments.at(1).value()) {
        if (const auto number = arguments[0].value()) return truncated(*number, *divisor, "%");
        if (*divisor == 0) throw SizeError(fmt::format("`{} % 0` divides by zero", arguments[0].print()));
        if (*divisor == 1 || *divisor == -1) return 0;
      }
      return make(kind, std::move(arguments));
    case Kind::Max:
    case Kind::Min: {
      auto parts = extremes(kind, arguments);
      return parts.size() == 1 ? parts[0] : make(kind, std::move(parts));
    }
    case Kind::Equal:
      if (const auto order = compare(arguments.at(0), arguments.at(1))) return *order == 0 ? 1 : 0;
      std::sort(arguments.begin(), arguments.end());
      return make(kind, std::move(arguments));
    case Kind::Less:
      if (const auto order = compare(arguments.at(0), arguments.at(1))) return *order < 0 ? 1 : 0;
      return make(kind, std::move(arguments));
    case Kind::Cond: {
      if (const auto condition = arguments.at(0).value()) return *condition != 0 ? arguments.at(1) : arguments.at(2);
      if (arguments.at(1) == arguments.at(2)) return arguments[1];
      const auto* test = arguments[0].lone_factor();
      if (test && (test->kind == Kind::Equal || test->kind == Kind::Less) && arguments[1].is(1) && arguments[2].is(0))
        return arguments[0];
      return make(kind, std::move(arguments));
    }
  }
  throw lang::InternalError("a size name is made by Size::named");
}

std::set<std::string> Size::names() const {
  std::set<std::string> all;
  for (const auto& term : terms())
    for (const auto& factor : term.factors) {
      if (factor.kind == Kind::Name) all.insert(factor.name);
      for (const auto& argument : factor.arguments) all.merge(argument.names());
    }
  return all;
}

Size Size::substitute(const std::map<std::string, std::int64_t>& values) const {
  if (value()) return *this;
  const Operation operation{*this};
  Polynomial sum{{{}, constant_}};
  for (const auto& term : terms()) {
    Polynomial product{{{}, term.coefficient}};
    for (const auto& factor : term.factors) {
      Size replaced;
      if (factor.kind == Kind::Name) {
        const auto known = values.find(factor.name);
        replaced = known == values.end() ? named(factor.name) : Size(known->second);
      } else if (factor.kind == Kind::Cond) {
        // Only the arm taken is evaluated, as in the language: the other may divide by zero.
        const auto condition = factor.arguments[0].substitute(values);
        const auto number = condition.value();
        replaced = number
            ? factor.arguments[*number != 0 ? 1 : 2].substitute(values)
            : apply(Kind::Cond,
                  {condition, factor.arguments[1].substitute(values), factor.arguments[2].substitute(values)});
      } else {
        std::vector<Size> arguments;
        for (const auto& argument : factor.arguments) arguments.push_back(argument.substitute(values));
        replaced = apply(factor.kind, std::move(arguments));
      }
      Polynomial next;
      add_product(next, product, polynomial_of(replaced), operation);
      product = std::move(next);
    }
    for (const auto& [factors, coefficient] : product) add_term(sum, factors, coefficient, operation);
  }
  Size result = constant_of(sum, operation);
  result.set_terms(terms_of(sum, operation));
  return result;
}

// Printing. Positive terms come first, so that `N - 1` and not `-1 + N`; every operation that is not a sum or a product
// stands alone or in parentheses.
namespace {

bool is_atom(const Size& size) {
  const auto number = size.value();
  if (number) return *number >= 0;
  const auto* factor = size.lone_factor();
  return factor && factor->kind != Size::Kind::Divide;  // the others are calls, or bring their parentheses
}

std::string call(std::string_view name, std::span<const Size> arguments) {
  if (arguments.size() > 2 && name != "cond")
    return fmt::format("{}({}, {})", name, arguments[0].print(), call(name, arguments.subspan(1)));
  std::string text;
  for (const auto& argument : arguments) text += (text.empty() ? "" : ", ") + argument.print();
  return fmt::format("{}({})", name, text);
}

std::string operand(const Size& size) { return is_atom(size) ? size.print() : "(" + size.print() + ")"; }

std::string print_factor(const Size::Factor& factor, bool as_calls, bool alone) {
  using Kind = Size::Kind;
  const auto& a = factor.arguments;
  const auto enclosed = [](const std::string& text) { return "(" + text + ")"; };
  switch (factor.kind) {
    case Kind::Name: return factor.name;
    case Kind::Max: return call("max", a);
    case Kind::Min: return call("min", a);
    case Kind::Mod: return call("mod", a);
    case Kind::Divide: {
      if (as_calls) return call("div", a);
      const auto text = operand(a[0]) + "/" + operand(a[1]);
      return alone ? text : enclosed(text);
    }
    case Kind::Equal:
    case Kind::Less: {
      const auto text = fmt::format("{} {} {}", operand(a[0]), factor.kind == Kind::Equal ? "==" : "<", operand(a[1]));
      return as_calls ? fmt::format("cond({}, 1, 0)", text) : enclosed(text);
    }
    case Kind::Cond:
      if (as_calls) return call("cond", a);
      return fmt::format("({} ? {} : {})", operand(a[0]), operand(a[1]), operand(a[2]));
  }
  return "";
}

std::string print_term(const Size::Term& term, bool as_calls) {
  const auto number = magnitude(term.coefficient);
  const bool alone = number == 1 && term.factors.size() == 1;
  std::string text = number == 1 ? "" : std::to_string(number);
  for (const auto& factor : term.factors) text += (text.empty() ? "" : "*") + print_factor(factor, as_calls, alone);
  return text;
}

bool is_division(const Size::Term& term) {
  return term.factors.size() == 1 && term.factors[0].kind == Size::Kind::Divide;
}

}  // namespace

std::string Size::print(bool as_calls) const {
  std::string text;
  const auto add = [&](bool negative, const std::string& part) {
    text += text.empty() ? (negative ? "-" : "") : negative ? " - " : " + ";
    text += part;
  };
  for (const bool negative : {false, true}) {
    for (const auto& term : terms()) {
      if ((term.coefficient < 0) != negative) continue;
      auto part = print_term(term, as_calls);
      if (text.empty() && term.coefficient == -1 && !as_calls && is_division(term)) part.insert(0, "(").append(")");
      add(negative, part);
    }
    if (constant_ != 0 && (constant_ < 0) == negative) add(negative, std::to_string(magnitude(constant_)));
  }
  return text.empty() ? "0" : text;
}

}  // namespace tilec::poly
