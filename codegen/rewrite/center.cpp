#include "codegen/rewrite/center.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "autodiff/graph.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/factors.h"
#include "codegen/rewrite/inline.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using lang::DType;
using lang::Op;
using poly::Access;
using poly::Affine;
using poly::Expr;
using poly::Program;
using poly::Statement;
using Role = ProductFactor::Role;

std::vector<bool> mentioned(const Statement& s, const Expr& e) {
  std::vector<bool> found(s.indices.size(), false);
  mark(e, s.reads, found);
  return found;
}
bool runs_over_sum(const Statement& s, const std::vector<bool>& mentions) {
  for (std::size_t k = 0; k < mentions.size(); ++k) if (mentions[k] && !is_output_index(s, k)) return true;
  return false;
}

// A sum of squares: of value - mean, times what does not run over the sum; a mean of two numbers is subtracted one by
// one.
struct Squares {
  FactoredProduct product;                             // without the squares
  Expr value;
  std::vector<Expr> mean;
};

std::optional<Squares> squares_of(const Statement& s, int numbers) {
  if (s.aggregation != Aggregation::Sum || !lang::is_float(s.value.type())) return std::nullopt;
  auto product = product_of(s);
  if (!product || product->negative) return std::nullopt;
  std::vector<ProductFactor> running;
  std::erase_if(product->factors, [&](const ProductFactor& f) {
    const bool runs = runs_over_sum(s, f.mentions);
    if (runs) running.push_back(f);
    return runs;
  });
  product->written.clear();
  const bool square = running.size() == 2 && running[0].value == running[1].value &&
      std::ranges::all_of(running, [](const ProductFactor& f) { return f.role == Role::Times; }) &&
      std::ranges::none_of(product->factors, [](const ProductFactor& f) { return f.role == Role::When; });
  if (!square) return std::nullopt;
  Squares found{std::move(*product), running[0].value, {}};
  for (int n = 0; n < numbers; ++n) {
    const auto* distance = found.value.as<poly::Apply>();
    if (!distance || distance->op != Op::Sub || distance->type != s.value.type() ||
        runs_over_sum(s, mentioned(s, distance->operands[1])))
      return std::nullopt;
    found.mean.insert(found.mean.begin(), distance->operands[1]);
    found.value = Expr(distance->operands[0]);
  }
  return found;
}

// Whether `sum` sums the value, times numbers, over the same points; the value as `s` reads it.
bool sums_value(const Statement& sum, const Statement& s, const Expr& value) {
  if (sum.aggregation != Aggregation::Sum || sum.domain != s.domain || sum.target.element != s.target.element)
    return false;
  const auto product = product_of(sum);
  if (!product) return false;
  const Expr* summed = nullptr;
  for (const ProductFactor& f : product->factors) {
    const auto* number = f.value.as<poly::Number>();
    if (number && lang::is_float(number->type) && f.role != Role::When) continue;
    if (summed || f.role != Role::Times) return false;
    summed = &f.value;
  }
  const auto* wider = summed && summed->type() != value.type() ? summed->as<poly::Cast>() : nullptr;
  if (wider && lang::is_float(wider->type)) summed = &wider->operand;
  if (!summed || summed->type() != value.type()) return false;
  std::vector<int> read_at;
  for (const Access& read : sum.reads) {
    const auto at = std::ranges::find(s.reads, read);
    read_at.push_back(at == s.reads.end() ? -1 : static_cast<int>(at - s.reads.begin()));
  }
  if (std::ranges::find(read_at, -1) != read_at.end()) return false;
  std::vector<Affine> same;
  for (std::size_t k = 0; k < s.indices.size(); ++k) same.push_back(Affine::index(k, s.indices.size()));
  return seen_from(*summed, same, same.size(), read_at) == value;
}

// The statement at `node` sums squares whose values the one at `sum` sums.
struct Centered {
  std::size_t node, sum;
  Squares squares;
};

std::variant<Centered, std::string> centered(const Rewriting& r, std::size_t node, std::size_t sum) {
  const auto& s = std::get<Statement>(r.program.nodes[node]);
  const auto& other = std::get<Statement>(r.program.nodes[sum]);
  const std::string &name = target_name(r.program, s), &of = target_name(r.program, other);
  auto squares = squares_of(s, 1);
  if (!squares)
    return fmt::format("`{}` is no sum of squares of distances to what does not run over it", name);
  if (s.domain.size() != s.indices.size() || !covers(r.program, s) || !std::holds_alternative<poly::Number>(s.fill))
    return fmt::format("conditions say which points `{}` sums, or which elements it has", name);
  if (auto of_two = squares_of(s, 2); of_two && !sums_value(other, s, squares->value)) squares = std::move(of_two);
  if (sum >= node || !sums_value(other, s, squares->value))
    return fmt::format("`{}` does not sum before it, over the same points, what `{}` squares", of, name);
  return Centered{node, sum, std::move(*squares)};
}

// What is built of the statement that sums squares.
class Centering {
 public:
  Centering(Rewriting& r, Centered found)
      : r_(r),
        found_(std::move(found)),
        s_(std::get<Statement>(r.program.nodes[found_.node])),
        of_squares_(s_.reads.size()),
        type_(s_.value.type()) {}

  void run() {
    for (std::size_t k = 0; k < s_.indices.size(); ++k)
      if (!is_output_index(s_, k)) count_ *= static_cast<double>(extent(s_, k));
    near_ = typical_value();
    const Expr distance = apply(Op::Sub, found_.squares.value, near_);
    Statement rest = beside("_rest", distance), squares = beside("_squares", times(distance, distance));
    Statement whole = joined_by(rest.target.tensor, squares.target.tensor);
    r_.program.nodes[found_.node] = std::move(whole);
    into_reader();
    insert(r_.program, found_.sum + 1, {std::move(rest), std::move(squares)});
  }

 private:
  Expr number(double v) const { return poly::Number{type_, 0, type_ == DType::F32 ? static_cast<float>(v) : v}; }
  Expr apply(Op op, Expr a, Expr b) const { return poly::Apply{op, {std::move(a), std::move(b)}, type_}; }
  Expr times(Expr a, Expr b) const { return apply(Op::Mul, std::move(a), std::move(b)); }

  // The median of the first, the middle and the last of those that are squared: none that is far from all others, and
  // of values that fall or rise none of the largest.
  Expr typical_value() {
    const Expr first = value_at([](std::int64_t) { return std::int64_t{0}; }),
               middle = value_at([](std::int64_t n) { return n / 2; }),
               last = value_at([](std::int64_t n) { return n - 1; });
    return apply(Op::Max, apply(Op::Min, first, middle), apply(Op::Min, apply(Op::Max, first, middle), last));
  }

  // Where each index of the sum has this one of its values.
  Expr value_at(std::int64_t (*place)(std::int64_t count)) {
    const std::size_t count = s_.indices.size(), reads = of_squares_;
    std::vector<Affine> there;
    for (std::size_t k = 0; k < count; ++k)
      there.push_back(is_output_index(s_, k) ? Affine::index(k, count)
                                             : Affine::of(poly::Size(low(s_, k) + place(extent(s_, k))), count));
    std::vector<int> read_at;
    for (std::size_t r = 0; r < reads; ++r) {
      Access seen{s_.reads[r].tensor, {}};
      for (const Affine& e : s_.reads[r].element) seen.element.push_back(e.compose(there, count));
      read_at.push_back(static_cast<int>(s_.reads.size()));
      s_.reads.push_back(std::move(seen));
    }
    return seen_from(found_.squares.value, there, count, read_at);
  }

  // A sum over the same points, in a tensor of its own.
  Statement beside(const std::string& suffix, Expr value) {
    poly::Tensor tensor = r_.program.tensor(s_.target.tensor);
    tensor.name = fresh_name(r_.program, tensor.name + suffix);
    tensor.dtype = type_;
    r_.strides.push_back(row_major(extents(tensor)));
    r_.program.tensors.push_back(std::move(tensor));
    Statement sum = s_;
    sum.target.tensor = static_cast<TensorId>(r_.program.tensors.size()) - 1;
    sum.value = std::move(value);
    sum.fill = poly::Number{type_};
    drop_unused(sum);
    r_.parts.insert(sum.target.tensor);
    return sum;
  }

  // Q + 2 (p - m) D + K (p - m) (p - m), times what the sum of squares was multiplied by.
  Statement joined_by(TensorId rest, TensorId squares) {
    Statement whole = s_;
    const auto read = [&](TensorId id) {
      whole.reads.push_back({id, whole.target.element});
      return Expr(poly::Read{static_cast<int>(whole.reads.size()) - 1, type_});
    };
    Expr off = near_;
    for (const Expr& part : found_.squares.mean) off = apply(Op::Sub, std::move(off), part);
    const Expr q = read(squares), linear = times(times(number(2), off), read(rest)),
               square = times(number(count_), times(off, off));
    FactoredProduct& product = found_.squares.product;
    const Expr all = apply(Op::Add, apply(Op::Add, q, linear), square);
    product.factors.insert(product.factors.begin(), {Role::Times, all, {}});
    whole.value = joined(product, product.factors, type_);
    drop_unused(whole);
    std::vector<std::size_t> outputs;
    for (std::size_t k = 0; k < whole.indices.size(); ++k) if (is_output_index(whole, k)) outputs.push_back(k);
    Statement map = seen_in(whole, frame(whole, outputs, {}), [](const Affine&) { return true; });
    map.aggregation = Aggregation::Assign;
    map.value = in_type(map.value, r_.program.tensor(map.target.tensor).dtype);
    return map;
  }

  // What adds up the parts computes them as it reads them.
  void into_reader() {
    const auto& map = std::get<Statement>(r_.program.nodes[found_.node]);
    const TensorId id = map.target.tensor;
    std::vector<std::size_t> readers;
    for (std::size_t n = 0; n < r_.program.nodes.size(); ++n)
      if (codegen::reads(r_.program.nodes[n], id)) readers.push_back(n);
    const auto* only = readers.size() == 1 ? std::get_if<Statement>(&r_.program.nodes[readers[0]]) : nullptr;
    if (is_output(r_.program, id) || !only || only->aggregation != Aggregation::Sum ||
        std::ranges::count(only->reads, id, &Access::tensor) != 1)
      return;
    r_.program.nodes[readers[0]] = inlined(r_.program, map, *only);
    r_.program.nodes.erase(r_.program.nodes.begin() + static_cast<std::ptrdiff_t>(found_.node));
  }

  Rewriting& r_;
  Centered found_;
  Statement s_;
  std::size_t of_squares_;                             // reads that the text has
  DType type_;
  double count_ = 1;                                   // values of a part
  Expr near_ = poly::Number{DType::F32};               // p
};

void center(Rewriting& r, Centered found) {
  r.done.push_back(directives::Center{target_name(r.program, std::get<Statement>(r.program.nodes[found.node])),
      target_name(r.program, std::get<Statement>(r.program.nodes[found.sum]))});
  Centering(r, std::move(found)).run();
}

// Whether the mean of the squares waits for the sum.
bool waits_for(const Program& program, const Centered& found) {
  std::set<TensorId> waiting{std::get<Statement>(program.nodes[found.sum]).target.tensor};
  for (std::size_t n = found.sum + 1; n <= found.node; ++n) {
    const std::vector<TensorId> needs = autodiff::operands(program.nodes[n]);
    if (std::ranges::none_of(needs, [&](TensorId id) { return waiting.contains(id); })) continue;
    if (n == found.node) return true;
    for (const TensorId id : autodiff::targets(program.nodes[n])) waiting.insert(id);
  }
  return false;
}

std::optional<Centered> to_center(const Rewriting& r, std::size_t node) {
  const auto is_part = [&](std::size_t n) {
    const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
    return s && r.parts.contains(s->target.tensor) && !r.of_columns.contains(s->target.tensor);
  };
  if (!is_part(node)) return std::nullopt;
  for (std::size_t n = 0; n < node; ++n) {
    if (!is_part(n)) continue;
    auto found = centered(r, node, n);
    if (auto* one = std::get_if<Centered>(&found); one && waits_for(r.program, *one)) return std::move(*one);
  }
  return std::nullopt;
}

}  // namespace

void center_squares(Rewriting& r) {
  if (!has_threads(r.target)) return;
  for (std::size_t n = 0; n < r.program.nodes.size(); ++n)
    if (auto found = to_center(r, n)) center(r, std::move(*found));
}

Refusal apply(Rewriting& r, const directives::Center& directive) {
  const auto n = statement_of(r.program, directive.tensor), m = statement_of(r.program, directive.sum);
  if (!n || !m) return no_statement(n ? directive.sum : directive.tensor);
  auto found = centered(r, *n, *m);
  if (auto* why = std::get_if<std::string>(&found)) return std::move(*why);
  center(r, std::move(std::get<Centered>(found)));
  return std::nullopt;
}

}  // namespace tilec::codegen
