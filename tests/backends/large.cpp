// Random programs whose numbers are close to 2^63: coefficients, constraints, scalars of the caller, indices used as
// values, and gradients. Every index has a small box of its own, so the right answer is found by trying all points with
// 128-bit arithmetic. Each target either agrees with it or refuses with a diagnostic; none crashes, ends in an internal
// error or gives another number.
//
//   large [--seed S] [--cases N] [--case K] [--target NAME]... [--show]
//
// Targets that this machine lacks are left out. Without a cpu target: `--target reference --target opencl`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>

#include "case.h"
#include "options.h"
#include "runtime/error.h"
#include "runtime/specialise.h"

using namespace backends;

namespace {

__extension__ using Wide = __int128;

constexpr std::array<const char*, 3> names{"i", "j", "k"};

// (Σ coefficient·index + constant)/divisor. `scalar`: instead S·first - (S - 1)·second, as the caller's S says.
struct Form {
  std::array<std::int64_t, 3> coefficients{};
  std::int64_t constant = 0;
  bool scalar = false;
  std::size_t first = 0, second = 0;
  std::int64_t divisor = 1;
};
struct Constraint { Form left, right; std::string relation; };

struct Large {
  std::size_t count = 0;                               // of indices
  std::array<std::int64_t, 3> extent{1, 1, 1};
  std::int64_t n = 0, m = 0, s = 0;
  Form read, written, value;
  bool has_value = false, gradient = false;
  std::string aggregation;
  std::vector<Constraint> constraints;
};

std::int64_t huge(Random& random) {
  const std::int64_t size = random.pick<std::int64_t>({1'000'000'000, 1'000'000'000'000, 100'000'000'000'000'000,
      1'000'000'000'000'000'000, std::int64_t{1} << 60, std::int64_t{1} << 61, std::int64_t{1} << 62, INT64_MAX});
  return random.chance(3) ? size
                          : size - static_cast<std::int64_t>(random.bits() % static_cast<std::uint64_t>(size / 4));
}

Form small(Random& random, std::size_t count) {
  Form form;
  for (std::size_t k = 0; k < count; ++k) form.coefficients[k] = random.chance(2) ? 1 : random.between(-2, 3);
  form.constant = random.between(-2, 4);
  return form;
}

// Of two indices, a multiple of whose difference is large: inside a tensor where they are equal.
Form cancelling(Random& random, std::size_t count) {
  Form form;
  form.first = static_cast<std::size_t>(random.below(static_cast<int>(count)));
  form.second = (form.first + 1) % count;
  form.scalar = random.chance(3);
  const std::int64_t g = huge(random);
  form.coefficients[form.first] += g;
  form.coefficients[form.second] -= g - random.between(0, 3);
  return form;
}

Form any_form(Random& random, std::size_t count) {
  const int kind = random.below(10);
  if (kind < 4) return small(random, count);
  if (kind < 8 && count > 1) return cancelling(random, count);
  Form form = small(random, count);
  form.coefficients[static_cast<std::size_t>(random.below(static_cast<int>(count)))] =
      random.chance(2) ? huge(random) : -huge(random);
  if (random.chance(2)) form.constant = random.chance(2) ? huge(random) : -huge(random);
  return form;
}

// What an access may be: as any form, or divided, by a number close to a coefficient or by a small one.
Form any_element(Random& random, std::size_t count) {
  Form form = any_form(random, count);
  if (form.scalar || !random.chance(4)) return form;
  const std::int64_t near = form.coefficients[static_cast<std::size_t>(random.below(static_cast<int>(count)))];
  form.divisor = random.chance(2) || near < 2 ? random.between(2, 4) : near - random.between(0, 1);
  return form;
}

Large random_large(Random& random) {
  Large l;
  l.count = static_cast<std::size_t>(random.between(1, 3));
  for (std::size_t k = 0; k < l.count; ++k) l.extent[k] = random.pick<std::int64_t>({1, 2, 3, 5, 17, 40});
  l.n = random.between(1, 40), l.m = random.between(1, 40), l.s = huge(random);
  l.read = any_element(random, l.count);
  l.written = random.chance(3) ? any_element(random, l.count) : Form{{1, 0, 0}, 0, false, 0, 0};
  l.has_value = random.chance(4);
  if (l.has_value) l.value = any_form(random, l.count);
  l.gradient = !l.has_value && random.chance(3);
  l.aggregation = l.gradient ? "+" : random.pick<std::string>({"+", "+", ">", "="});
  while (random.chance(2))
    l.constraints.push_back(
        {any_form(random, l.count), any_form(random, l.count), random.pick<std::string>({"<", "<=", ">=", "=="})});
  return l;
}

std::string print(const Form& f, std::size_t count) {
  if (f.scalar) return fmt::format("S*{} - (S - 1)*{}", names[f.first], names[f.second]);
  std::string text;
  for (std::size_t k = 0; k < count; ++k)
    if (f.coefficients[k] != 0) text += fmt::format("{}{}*{}", text.empty() ? "" : " + ", f.coefficients[k], names[k]);
  text = text.empty() ? fmt::format("{}", f.constant) : fmt::format("{} + {}", text, f.constant);
  return f.divisor == 1 ? text : fmt::format("({})/{}", text, f.divisor);
}

std::string print(const Large& l) {
  const auto form = [&](const Form& f) { return print(f, l.count); };
  std::string text =
      fmt::format("function f({} A[N], S) -> (O) {{\n  O[{}: {}] = {}({}A[{}])", l.has_value ? "i64" : "f64",
          form(l.written), l.m, l.aggregation, l.has_value ? "(" + form(l.value) + ")*" : "", form(l.read));
  for (const Constraint& c : l.constraints) text += fmt::format(", {} {} {}", form(c.left), c.relation, form(c.right));
  for (std::size_t k = 0; k < l.count; ++k) text += fmt::format(", 0 <= {} < {}", names[k], l.extent[k]);
  return text + ";\n}\n";
}

// ---- the right answer

using Place = std::array<std::int64_t, 3>;

Wide at(const Large& l, const Form& f, const Place& p) {
  if (f.scalar) return Wide{l.s} * p[f.first] - (Wide{l.s} - 1) * p[f.second];
  Wide sum = f.constant;
  for (std::size_t k = 0; k < l.count; ++k) sum += Wide{f.coefficients[k]} * p[k];
  return sum;
}

// A single `<` bounds from below as well: 0 <= left < right.
bool holds(const Large& l, const Constraint& c, const Place& p) {
  const Wide a = at(l, c.left, p), b = at(l, c.right, p);
  return c.relation == "<" ? 0 <= a && a < b : c.relation == "<=" ? a <= b : c.relation == ">=" ? a >= b : a == b;
}

// visit(element of O, element of A, value of the index expression) for every point.
template <class Visit> void each_point(const Large& l, Visit visit) {
  for (Place p{}; p[0] < l.extent[0]; ++p[0])
    for (p[1] = 0; p[1] < l.extent[1]; ++p[1])
      for (p[2] = 0; p[2] < l.extent[2]; ++p[2]) {
        Wide o = at(l, l.written, p), a = at(l, l.read, p);
        if (o < 0 || a < 0 || o % l.written.divisor != 0 || a % l.read.divisor != 0) continue;
        o /= l.written.divisor, a /= l.read.divisor;
        if (o >= l.m || a >= l.n) continue;
        if (!std::all_of(
                l.constraints.begin(), l.constraints.end(), [&](const Constraint& c) { return holds(l, c, p); }))
          continue;
        visit(static_cast<std::size_t>(o), static_cast<std::size_t>(a),
            l.has_value ? static_cast<std::uint64_t>(at(l, l.value, p)) : 1);
      }
}

poly::Array counting(lang::DType type, std::int64_t count) {
  poly::Array array{type, {count}, {}, {}};
  for (std::int64_t k = 0; k < count; ++k) {
    if (lang::is_float(type)) array.reals.push_back(static_cast<double>(k * 7 % 31 - 9));
    else array.integers.push_back(k * 7 % 31 - 9);
  }
  return array;
}

// All values are integers, so one sum serves both types; those of i64 wrap.
std::vector<std::int64_t> wanted(const Large& l) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(l.gradient ? l.n : l.m), 0);
  std::vector<bool> reached(result.size(), false);
  const poly::Array from = counting(lang::DType::I64, l.gradient ? l.m : l.n);
  each_point(l, [&](std::size_t o, std::size_t a, std::uint64_t factor) {
    const std::size_t to = l.gradient ? a : o, read = l.gradient ? o : a;
    const auto term = static_cast<std::int64_t>(factor * static_cast<std::uint64_t>(from.integers[read]));
    std::int64_t& sum = result[to];
    sum = !reached[to] || l.aggregation == "=" ? term
        : l.aggregation == ">"
        ? std::max(sum, term)
        : static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(term));
    reached[to] = true;
  });
  return result;
}

// ---- the targets

struct Outcome { std::string refusal; std::vector<std::int64_t> values; };

Outcome run_on(const Large& l, const std::string& target) {
  const lang::Source source{"large.tile", print(l)};
  lang::Diagnostics diagnostics;
  const auto refused = [&] {
    for (const lang::Diagnostic& d : diagnostics.all())
      if (d.severity == lang::Severity::Error) return Outcome{d.code, {}};
    throw lang::InternalError("refused without a word");
  };
  std::optional<lang::File> file = lang::parse(source, diagnostics);
  if (!file || !lang::check(*file, diagnostics)) return refused();
  codegen::Request request;
  request.target = *codegen::target_named(target);
  if (l.gradient) request.derivatives.push_back({false, {}, {"A"}});
  const auto tensor = [&](const std::string& name, std::int64_t count) {
    runtime::Argument argument{
        name, runtime::allocate(name, l.has_value ? lang::DType::I64 : lang::DType::F64, {count})};
    runtime::from_array(counting(argument.tensor->dtype, count), *argument.tensor);
    return argument;
  };
  std::vector<runtime::Argument> arguments{tensor("A", l.n), {"S", std::nullopt, true, l.s, static_cast<double>(l.s)}};
  if (l.gradient) arguments.push_back(tensor("dO", l.m));
  const runtime::Callable callable({source}, std::move(*file), std::move(request));
  const auto made = callable.specialise(arguments, {}, diagnostics);
  if (!made) return refused();
  const std::vector<runtime::Tensor> outputs = runtime::allocate_outputs(*made->module);
  runtime::run(*made->module, runtime::bind_inputs(*made->module, arguments), outputs);
  const poly::Array got = runtime::to_array(outputs.at(0));
  Outcome outcome{"", got.integers};
  for (const double x : got.reals) outcome.values.push_back(static_cast<std::int64_t>(x));
  return outcome;
}

struct Options {
  std::uint64_t seed = 1;
  int cases = 200;
  std::optional<int> only;
  std::vector<std::string> targets;
  bool show = false, sparing = false;                  // OpenCL compiles each program for itself: every fifth
};

Options arguments(int argc, char** argv) {
  Options o;
  read_options(argc, argv,
      {{"--seed", &o.seed}, {"--cases", &o.cases}, {"--case", &o.only}, {"--target", &o.targets}, {"--show", &o.show}});
  o.sparing = o.targets.empty() && !o.only;
  if (o.targets.empty()) o.targets = {"reference", "cpu", "opencl"};
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = arguments(argc, argv);
  int failures = 0, agreed = 0;
  std::map<std::string, int> refusals;
  std::vector<std::string> absent;
  for (int number = options.only.value_or(0); number < options.only.value_or(options.cases - 1) + 1; ++number) {
    Random random(options.seed * 1'000'003 + static_cast<std::uint64_t>(number));
    const Large l = random_large(random);
    const std::vector<std::int64_t> right = wanted(l);
    if (options.show)
      std::cout << fmt::format("--seed {} --case {}  S={} N={}{}\n{}", options.seed, number, l.s, l.n,
                       l.gradient ? "  (gradient)" : "", print(l))
                << std::flush;
    std::optional<bool> refused;                         // a program is, not a target; but the numbers of residue
                                                         // classes are the compiler's (E0244)
    for (const std::string& target : options.targets) {
      if (std::ranges::count(absent, target) > 0 || (options.sparing && target == "opencl" && number % 5 != 0))
        continue;
      std::string wrong;
      try {
        const Outcome outcome = run_on(l, target);
        if (!outcome.refusal.empty()) ++refusals[outcome.refusal];
        else if (outcome.values == right) ++agreed;
        else wrong = fmt::format("[{}]\n  where [{}] is right", fmt::join(outcome.values, " "), fmt::join(right, " "));
        if (outcome.refusal != "E0244" && !l.gradient) {
          const bool here = !outcome.refusal.empty();
          if (wrong.empty() && refused.value_or(here) != here)
            wrong = *refused ? "another target refuses it" : "another target runs it, this one says " + outcome.refusal;
          refused = here;
        }
        if (options.show)
          std::cout << fmt::format(
              "  {}: {}\n", target, outcome.refusal.empty() ? wrong.empty() ? "agrees" : "WRONG" : outcome.refusal);
      } catch (const runtime::RuntimeError& error) {
        if (error.diagnostic.code == lang::messages::no_device.code) absent.push_back(target);
        else wrong = error.diagnostic.message;
      } catch (const std::exception& error) {
        wrong = error.what();
      }
      if (wrong.empty()) continue;
      ++failures;
      std::cout << fmt::format("FAILED --seed {} --case {}  on {}, S={} N={}{}\n{}  {}\n", options.seed, number, target,
                       l.s, l.n, l.gradient ? " (gradient)" : "", print(l), wrong)
                << std::flush;
    }
  }
  int refused = 0;
  std::string codes;
  for (const auto& [code, count] : refusals) refused += count, codes += fmt::format(" {} {}", code, count);
  std::cout << fmt::format("{} agreed, {} refused ({} ), {} failed; without {}\n", agreed, refused, codes, failures,
      absent.empty() ? "none" : fmt::format("{}", fmt::join(absent, ", ")));
  const bool lopsided = !options.only && (agreed == 0 || refusals["E0243"] == 0);
  if (lopsided) std::cout << "one of the two was never seen\n";
  return failures > 0 || lopsided ? 1 : 0;
}
