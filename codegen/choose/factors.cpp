#include "codegen/choose/factors.h"

#include <algorithm>
#include <utility>

#include "codegen/model/estimates.h"
#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/restate.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/chunks.h"
#include "codegen/rewrite/halves.h"
#include "codegen/scalar.h"
#include "codegen/scan.h"
#include "poly/count.h"
#include "poly/intern.h"

namespace tilec::codegen {

namespace {

using poly::Expr;
using poly::Program;
using poly::Statement;
using Indices = std::vector<std::size_t>;

// The points, and the quotients and functions of the value as so many more: each as often as what it mentions has
// values.
double computed_with_quotients(const Statement& s) {
  const double points = computed_points(s);
  double slow = 0;
  for (const Expr& part : poly::parts(s.value)) {
    const auto* apply = part.as<poly::Apply>();
    if (!apply || !lang::is_float(apply->type) || model::rough_operations_of(apply->op) == 1) continue;
    std::vector<bool> mentioned(s.indices.size(), false);
    mark(part, s.reads, mentioned);
    double times = 1;
    for (std::size_t k = 0; k < mentioned.size(); ++k) if (mentioned[k]) times *= static_cast<double>(extent(s, k));
    slow += std::min(times, points) * model::rough_operations_of(apply->op);
  }
  return points + slow;
}

// What all chunks of a triangle cost, without what is computed within them.
double cost_of_states(const Statement& s, const ChunkedTriangle& t, std::int64_t chunk, const Target& target) {
  const bool threads = has_threads(target);
  const double point = threads ? model::threads::product_point : model::product_point,
               stored = threads ? 2 * model::threads::stored_element : model::stored_element;
  const double length = static_cast<double>(extent(s, t.along)), chunks = length / static_cast<double>(chunk);
  double state = 1, reads = 1, outputs = 1;
  for (const std::size_t k : t.state) if (k != t.along) state *= static_cast<double>(extent(s, k));
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    if (k != t.over) reads *= static_cast<double>(extent(s, k));
    if (is_output_index(s, k)) outputs *= static_cast<double>(extent(s, k));
  }
  // a total and a state, each stored and read
  const double of_state = 1 + 2 * stored + (t.here ? point * chunks / 2 : 0);
  return point * (length * state + reads) + chunks * state * of_state + 2 * stored * outputs;
}

// The sum over one of the indices in chunks, if it then costs less than `limit`.
std::optional<FactorChoice> in_chunks(
    Program& program, const Statement& s, const FactoredProduct& product, const Indices& sums, double limit,
    const Target& target) {
  constexpr std::int64_t first = 16, last = 256;
  std::optional<FactorChoice> best;
  for (const std::size_t over : sums) {
    if (s.domain.size() != s.indices.size() + 1 || extent(s, over) < model::least_chunked) continue;
    const auto triangle = chunked_triangle(program, s, product, over);
    if (!triangle || extent(s, triangle->along) < model::least_chunked || triangle->c <= -first) continue;
    const double within = choose_factors(program, sum_in_chunks(s, *triangle, first), target).cost / first;
    double weights = 0;
    if (triangle->here) {
      // exponentials run at the rate of f32 products, over half a square on a CPU
      weights = model::rough_operations_of(lang::Op::Exp) *
          (has_threads(target) ? model::threads::product_point : model::product_point / 4);
      for (std::size_t k = 0; k < s.indices.size(); ++k)
        if (k != over && (triangle->here_mentions[k] || triangle->there_mentions[k]))
          weights *= static_cast<double>(extent(s, k));
    }
    for (std::int64_t chunk = first; chunk <= std::min(last, extent(s, triangle->along) / 4); chunk *= 2) {
      const double cost = cost_of_states(s, *triangle, chunk, target) + (within + weights) * static_cast<double>(chunk);
      if (cost < limit) best = FactorChoice{cost, cost, {over}, false, chunk}, limit = cost;
    }
  }
  return best;
}

}  // namespace

double stored_element(const Target& target) {
  return has_threads(target) ? model::threads::stored_element : model::stored_element;
}

double computed_points(const Statement& s) {
  if (scan_of(s) || s.domain.size() == s.indices.size()) return codegen::points(s);
  const auto exact = poly::points(s, poly::count_cap);
  return exact ? static_cast<double>(*exact) : codegen::points(s);
}

std::optional<double> cost_apart(Program& program, const Statement& s, const Target& target) {
  const std::size_t known = program.tensors.size();
  const auto apart = set_apart(program, s);
  if (!apart) return std::nullopt;
  const double cost = choose_factors(program, apart->strip, target).cost +
      choose_factors(program, apart->rest, target).cost +
      2 * stored_element(target) * elements(program, s.target.tensor);
  program.tensors.resize(known);
  return cost;
}

FactorChoice choose_factors(Program& program, const Statement& s, const Target& target) {
  FactorChoice best{computed_points(s), 0, {}};
  if (const auto cost = cost_apart(program, s, target)) best.cost = std::min(best.cost, *cost);
  best.time = best.cost;
  Indices sums;
  for (std::size_t k = 0; k < s.indices.size(); ++k) if (!is_output_index(s, k)) sums.push_back(k);
  if (sums.empty() || sums.size() > most_sums_tried || best.cost < 1) return best;
  const auto product = product_of(s);
  if (!product) return best;
  const std::size_t known = program.tensors.size();
  const double limit = best.cost * model::factored_share,
               product_limit = best.cost * (has_threads(target) ? model::threads::product_first : model::product_first);
  std::optional<FactorChoice> factored, product_first;
  for (std::size_t subset = 1; subset < (std::size_t{1} << sums.size()); ++subset) {
    Indices summed;
    for (std::size_t n = 0; n < sums.size(); ++n) if (subset >> n & 1) summed.push_back(sums[n]);
    const auto halves = halves_of_sum(program, s, *product, static_cast<TensorId>(known), summed);
    if (!halves) continue;
    if (bytes_of(*halves) > static_cast<double>(model::largest_temporary)) continue;
    for (const HalfSum& part : halves->inner) program.tensors.push_back(part.temporary);
    FactorChoice one = choose_factors(program, halves->outer, target);
    one.summed = std::move(summed), one.quotients = false, one.chunk = 0;
    for (const HalfSum& part : halves->inner) {
      const FactorChoice inner = choose_factors(program, part.statement, target);
      const double stored = elements(program, part.statement.target.tensor) * stored_element(target);
      const bool wide = lang::bytes(part.temporary.dtype) > lang::bytes(compute_type(s.value.type()));
      one.cost += stored + inner.cost, one.time += (wide ? 2 : 1) * (stored + inner.time);
    }
    program.tensors.resize(known);
    if (one.cost > (halves->as_many_points ? product_limit : limit)) continue;
    if (halves->as_many_points) {
      if (!product_first || one.cost <= product_first->cost) product_first = std::move(one);
    } else if (!factored || one.time <= factored->time) {
      factored = std::move(one);
    }
  }
  const double least = factored ? factored->cost : limit;
  if (auto chunks = in_chunks(program, s, *product, sums, least - model::points_to_chunk, target)) return *chunks;
  if (factored) return *factored;
  if (product_first) {
    best.summed = std::move(product_first->summed);
    return best;
  }
  const auto halves = halves_of_sum(program, s, *product, static_cast<TensorId>(known), sums,
      {.quotients = true, .reciprocals = has_threads(target)});
  if (!halves || bytes_of(*halves) > static_cast<double>(model::largest_temporary)) return best;
  double cost = computed_with_quotients(halves->outer);
  for (const HalfSum& part : halves->inner) {
    program.tensors.push_back(part.temporary);
    cost += elements(program, part.statement.target.tensor) * stored_element(target) +
        computed_with_quotients(part.statement);
  }
  program.tensors.resize(known);
  if (cost <= model::factored_share * computed_with_quotients(s)) best.summed = std::move(sums), best.quotients = true;
  return best;
}

}  // namespace tilec::codegen
