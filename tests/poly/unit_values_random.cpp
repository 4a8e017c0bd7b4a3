// Random typed contractions: the print reads back to a program that prints alike and computes the same (reading numbers
// the indices anew, so sums may be in another order); simplify and bounds do not change a bit, defract keeps to the
// error bounds. TILEC_SEED and TILEC_CASES choose others.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>

#include "lang/parse.h"
#include "poly/bounds.h"
#include "poly/build.h"
#include "poly/defract.h"
#include "poly/interpret.h"
#include "poly/print.h"
#include "poly/sample.h"
#include "poly/simplify.h"
#include "poly/verify.h"

using namespace tilec;
using namespace tilec::poly;

namespace {

constexpr DType types[] = {DType::Bool, DType::U8, DType::I8, DType::I32, DType::U32, DType::I64, DType::U64,
    DType::F16, DType::BF16, DType::F32, DType::F64};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  Program program() {
    Program p;
    p.name = "f";
    for (int k = 0, n = 1 + below(3); k < n; ++k) p.inputs.push_back(tensor(p, "A" + std::to_string(k), type()));
    for (int k = 0, n = 1 + below(3); k < n; ++k) statement(p, "T" + std::to_string(k));
    p.outputs = {static_cast<TensorId>(p.tensors.size()) - 1};
    if (chance(3) && p.tensors.size() > p.inputs.size() + 1) p.outputs.push_back(p.outputs[0] - 1);
    return p;
  }

  Array array(const Tensor& tensor) {
    Array a{tensor.dtype, {}, {}, {}};
    for (const auto& size : tensor.shape) a.shape.push_back(size.get());
    const double special[] = {0.0, -0.0, 1.0, INFINITY, -INFINITY, NAN};
    for (std::int64_t k = 0; k < a.count(); ++k) {
      if (lang::is_float(a.dtype))
        a.reals.push_back(chance(12) ? special[below(6)] : round_to(a.dtype, (below(4001) - 2000) / 256.0));
      else a.integers.push_back(wrap_to(a.dtype, chance(6) ? static_cast<std::int64_t>(random_()) : below(9) - 3));
    }
    return a;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(int n) { return below(n) == 0; }
  DType type() { return types[below(std::ssize(types))]; }

  TensorId tensor(Program& p, std::string name, DType dtype) {
    Tensor t{std::move(name), dtype, {}, {}};
    for (int rank = below(3), d = 0; d < rank; ++d) t.shape.emplace_back(chance(9) ? 0 : 1 + below(4));
    p.tensors.push_back(std::move(t));
    return static_cast<TensorId>(p.tensors.size()) - 1;
  }

  Affine form() {
    Affine a = Affine::of(chance(3) ? below(5) - 2 : 0, count_);
    for (std::size_t k = 0; k < count_; ++k)
      if (chance(2)) a = a.plus(Affine::index(k, count_).times(chance(3) ? below(5) - 2 : 1));
    if (chance(6)) a.divisor = 2 + below(2);
    return a.times(1);
  }

  Access access(const Program& p, TensorId id) {
    Access a{id, {}};
    for (std::size_t d = 0; d < p.tensor(id).shape.size(); ++d) a.element.push_back(form());
    return a;
  }

  Expr converted(Expr e, DType to) { return e.type() == to ? e : Expr{Cast{std::move(e), to}}; }

  Expr leaf(const Program& p, Statement& s, DType wanted) {
    switch (below(4)) {
      case 0:
        if (lang::is_float(wanted))
          return Number{wanted, 0,
              round_to(wanted,
                  std::vector{0.0, 1.0, -1.0, 0.5, 0.1, 3e4, -0.0, double{INFINITY},
                      double{NAN}}[static_cast<std::size_t>(below(9))])};
        return Number{wanted, wrap_to(wanted, below(7) - 3), 0};
      case 1: {
        const DType integer = lang::is_integer(wanted) ? wanted : DType::I64;
        auto value = form();
        value.divisor = 1;
        if (value.is_constant()) return converted(Number{integer, wrap_to(integer, value.constant.get()), 0}, wanted);
        return converted(Index{value, integer}, wanted);
      }
      default: {
        const auto id = static_cast<TensorId>(below(static_cast<int>(p.tensors.size()) - 1));
        s.reads.push_back(access(p, id));
        return converted(Read{static_cast<int>(s.reads.size()) - 1, p.tensor(id).dtype}, wanted);
      }
    }
  }

  Expr expr(const Program& p, Statement& s, DType wanted, int depth) {
    if (depth == 0 || chance(4)) return leaf(p, s, wanted);
    if (chance(5)) return converted(expr(p, s, type(), depth - 1), wanted);
    const auto op = static_cast<Op>(below(static_cast<int>(Op::IsFinite) + 1));
    const auto& facts = lang::info(op);
    const bool boolean = facts.result == lang::Result::Boolean;
    if (boolean != (wanted == DType::Bool)) {
      if (boolean) return converted(expr(p, s, DType::Bool, depth), wanted);
      if (op != Op::Select && op != Op::And && op != Op::Or && op != Op::Xor && op != Op::Not && op != Op::Max &&
          op != Op::Min)
        return leaf(p, s, wanted);
    }
    const bool floats = facts.result == lang::Result::Float || op == Op::IsNan || op == Op::IsFinite;
    DType operand = boolean ? type() : wanted;
    if (floats && !lang::is_float(operand)) operand = DType::F32;
    if (facts.integers_only && lang::is_float(operand)) operand = DType::I32;
    Apply a{op, {}, boolean ? DType::Bool : operand};
    for (int k = 0; k < facts.arity; ++k)
      a.operands.push_back(expr(p, s, op == Op::Select && k == 0 ? DType::Bool : operand, depth - 1));
    return converted(std::move(a), wanted);
  }

  void statement(Program& p, const std::string& name) {
    const auto dtype = type();
    const auto id = tensor(p, name, dtype);
    count_ = static_cast<std::size_t>(below(4));
    Statement s{.target = {},
        .indices = {},
        .domain = {},
        .aggregation = static_cast<Aggregation>(below(5)),
        .value = Number{dtype},
        .reads = {},
        .fill = Number{dtype},
        .ties = Ties::Split,
        .kernel_name = {},
        .span = {}};
    const char* names[] = {"i", "j", "k"};
    for (std::size_t k = 0; k < count_; ++k) s.indices.push_back(names[k]);
    if (s.aggregation == Aggregation::Assign) assign_target(p, s, id);
    else s.target = access(p, id);
    const bool adds = s.aggregation == Aggregation::Sum || s.aggregation == Aggregation::Product;
    s.value = expr(p, s, adds ? lang::accumulator(lang::accumulator(dtype)) : dtype, 3);
    rows(p, s);
    if (!lang::is_float(dtype) && chance(3)) s.fill = Number{dtype, 1, 0};
    for (std::size_t other = 0; other + 1 < p.tensors.size(); ++other)
      if (p.tensors[other].dtype == dtype && p.tensors[other].shape == p.tensor(id).shape && chance(2))
        s.fill = static_cast<TensorId>(other);
    if (s.aggregation == Aggregation::Max && chance(2)) s.ties = chance(2) ? Ties::First : Ties::All;
    p.nodes.push_back(std::move(s));
  }

  void assign_target(const Program& p, Statement& s, TensorId id) {
    count_ = p.tensor(id).shape.size();
    s.indices.clear();
    s.target = {id, {}};
    for (std::size_t k = 0; k < count_; ++k) {
      s.indices.push_back(k == 0 ? "i" : "j");
      s.target.element.push_back(Affine::index(count_ - 1 - k, count_).times(chance(4) ? 2 : 1));
    }
  }

  void rows(const Program& p, Statement& s) {
    const auto add = [&](const Access& a) {
      for (std::size_t d = 0; d < a.element.size(); ++d)
        s.domain.push_back({a.element[d], p.tensor(a.tensor).shape[d]});
    };
    add(s.target);
    for (const auto& read : s.reads) add(read);
    for (std::size_t k = 0; k < count_; ++k)
      s.domain.push_back({Affine::index(k, count_).plus(Affine::of(below(3), count_)), Size(1 + below(4))});
    if (chance(3)) s.domain.push_back({form(), chance(2) ? std::optional<Size>(below(6)) : std::nullopt});
    std::shuffle(s.domain.begin(), s.domain.end(), random_);
  }

  std::mt19937_64 random_;
  std::size_t count_ = 0;
};

bool same_bits(const Array& a, const Array& b) {
  if (a.dtype != b.dtype || a.shape != b.shape || a.integers != b.integers || a.reals.size() != b.reals.size())
    return false;
  for (std::size_t k = 0; k < a.reals.size(); ++k)
    if (std::bit_cast<std::uint64_t>(a.reals[k]) != std::bit_cast<std::uint64_t>(b.reals[k]) &&
        !(std::isnan(a.reals[k]) && std::isnan(b.reals[k])))
      return false;
  return true;
}

bool same_results(const Program& a, const Program& b, const std::vector<Array>& inputs) {
  const auto x = interpret(a, inputs), y = interpret(b, inputs);
  for (std::size_t k = 0; k < x.outputs.size(); ++k)
    if (!same_bits(x.outputs[k], y.outputs[k])) return false;
  return true;
}

// Within the error bounds: another order of the points is another order of rounding.
bool close_results(const Program& a, const Program& b, const std::vector<Array>& inputs) {
  const auto x = interpret(a, inputs), y = interpret(b, inputs);
  for (std::size_t k = 0; k < x.outputs.size(); ++k) {
    const auto &one = x.outputs[k], &other = y.outputs[k];
    for (std::size_t e = 0; e < one.reals.size(); ++e) {
      const double allowed = 8 *
          (one.dtype == DType::F16           ? 0x1p-10
                  : one.dtype == DType::BF16 ? 0x1p-7
                  : one.dtype == DType::F32  ? 0x1p-23
                                             : 0x1p-52) *
          x.magnitudes[k][e];
      const double p = one.reals[e], q = other.reals[e];
      if (p != q && !(std::isnan(p) && std::isnan(q)) && !(std::fabs(p - q) <= allowed) && std::isfinite(p))
        return false;
    }
    for (std::size_t e = 0; e < one.integers.size(); ++e)
      if (one.integers[e] != other.integers[e] && x.magnitudes[k][e] == 0) return false;
  }
  return true;
}

std::string without_comments(std::string text) {
  for (auto at = text.find("  //"); at != std::string::npos; at = text.find("  //"))
    text.erase(at, text.find('\n', at) - at);
  return text;
}

// nullopt and the reason when the text is refused.
std::optional<Program> reread(const std::string& text, std::string& reason) {
  lang::Diagnostics diagnostics;
  const auto file = lang::parse({"random.tile", text}, diagnostics);
  auto program = file ? build(*file, {}, diagnostics) : std::nullopt;
  for (const auto& d : diagnostics.all())
    if (d.severity == lang::Severity::Error) reason += d.code + ": " + d.message + "\n";
  return program;
}

// Reading numbers the indices by first appearance; from then on the text does not change.
void check_text(const Program& program) {
  const auto text = print(program);
  std::string reason;
  const auto again = reread(text, reason);
  REQUIRE_MESSAGE(again, reason);
  CHECK(without_comments(print(*again)) == without_comments(text));
}

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("random contractions print, read back and simplify without a change of meaning") {
  const auto seed = setting("TILEC_SEED", 1), cases = setting("TILEC_CASES", 1500);
  for (std::uint64_t k = seed; k < seed + cases; ++k) {
    Generator generator(k);
    const auto program = generator.program();
    const auto text = print(program);
    CAPTURE(k);
    CAPTURE(text);
    REQUIRE_NOTHROW(verify(program, Stage::Bound));
    std::vector<Array> inputs;
    for (const auto id : program.inputs) inputs.push_back(generator.array(program.tensor(id)));
    std::string reason;
    const auto again = reread(text, reason);
    REQUIRE_MESSAGE(again, reason);
    CHECK_NOTHROW(verify(*again, Stage::Bound));
    CHECK(close_results(program, *again, inputs));
    const auto small = simplify(program);
    const auto small_text = print(small);
    CAPTURE(small_text);
    REQUIRE_NOTHROW(verify(small, Stage::Bound));
    CHECK(same_results(program, small, inputs));
    const auto small_again = reread(small_text, reason);
    REQUIRE_MESSAGE(small_again, reason);
    check_text(*small_again);
    CHECK(close_results(program, *small_again, inputs));
    lang::Diagnostics diagnostics;
    const auto hulls = bounds(small, diagnostics);
    if (!hulls) continue;
    REQUIRE_NOTHROW(verify(*hulls, Stage::Bounded));
    CHECK(same_results(program, *hulls, inputs));
    const auto hull_text = print(*hulls);
    const auto hulls_again = reread(hull_text, reason);
    REQUIRE_MESSAGE(hulls_again, hull_text << reason);
    CHECK_MESSAGE(close_results(program, *hulls_again, inputs), hull_text);
    const auto classes = defract(*hulls);
    const auto class_text = print(classes);
    CAPTURE(class_text);
    REQUIRE_NOTHROW(verify(classes, Stage::Bounded));
    CHECK(close_results(program, classes, inputs));
    const auto classes_again = reread(class_text, reason);
    REQUIRE_MESSAGE(classes_again, class_text << reason);
    CHECK(close_results(program, *classes_again, inputs));
  }
}

TEST_CASE("elements that are computed alone are what they are in the whole, with the same error") {
  const auto seed = setting("TILEC_SEED", 1), cases = setting("TILEC_CASES", 600);
  std::size_t parts = 0;
  for (std::uint64_t k = seed; k < seed + cases; ++k) {
    Generator generator(k);
    const auto program = generator.program();
    std::vector<Array> inputs;
    for (const auto id : program.inputs) inputs.push_back(generator.array(program.tensor(id)));
    const auto selection = select(program, {.steps = 0, .elements = 1 + k % 3, .seed = k});
    const auto whole = interpret(program, inputs), some = interpret(program, inputs, selection, {});
    for (std::size_t n = 0; n < whole.outputs.size(); ++n) {
      const auto& needed = selection.tensors[static_cast<std::size_t>(program.outputs[n])];
      parts += needed.all ? 0 : 1;
      if (needed.all) CHECK_MESSAGE(same_bits(whole.outputs[n], some.outputs[n]), "seed " << k);
      for (const auto element : needed.elements) {
        const auto one = [&](const Array& array) {
          return array.reals.empty() ? static_cast<double>(array.integers[element]) : array.reals[element];
        };
        const double a = one(whole.outputs[n]), b = one(some.outputs[n]);
        CHECK_MESSAGE((a == b || (std::isnan(a) && std::isnan(b))), "seed " << k << " element " << element);
        const double x = whole.magnitudes[n][element], y = some.magnitudes[n][element];
        CHECK_MESSAGE((x == y || (std::isnan(x) && std::isnan(y))), "seed " << k << " element " << element);
      }
    }
  }
  CHECK(parts > cases / 4);
}
