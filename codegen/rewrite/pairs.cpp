// How a statement is cut into sums of pairs and what reads them.
#include "codegen/rewrite/pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "codegen/model/thresholds.h"
#include "codegen/part.h"
#include "codegen/product.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/tile.h"
#include "codegen/scalar.h"
#include "poly/canonical.h"

namespace tilec::codegen {

using poly::Access;
using poly::Affine;

using poly::Program;
using poly::Statement;
using poly::Tensor;

namespace {

bool tells_indices(const poly::Expr& e) {
  return e.match([](const poly::Index&) { return true; }, [](const poly::Cast& c) { return tells_indices(c.operand); },
      [](const poly::Apply& a) { return std::any_of(a.operands.begin(), a.operands.end(), tells_indices); },
      [](const auto&) { return false; });
}

bool cuts(const Statement& s) {
  const lang::DType type = s.value.type();
  return s.reads.size() == 2 && s.aggregation != Aggregation::Assign && compute_type(type) == type &&
      !has_scale(s.aggregation, type) && !tells_indices(s.value);
}

// Read of k in one dimension, by itself, from its first element to its last; or not at all.
bool plain_in(const Program& program, const Statement& s, const Access& read, std::size_t k) {
  bool found = false;
  for (std::size_t d = 0; d < read.element.size(); ++d) {
    if (!mentions(read.element[d], k)) continue;
    if (found || plain_index(read.element[d]) != k || program.tensor(read.tensor).shape[d].get() != extent(s, k))
      return false;
    found = true;
  }
  return true;
}

// A dimension of an operand that stays: which index of the pair it is.
struct Side { std::size_t read, dimension; };

// In the order in which they lie: those that no output index moves, then as the target has them, what lies side by side
// last.
std::vector<Side> sides_of(
    const Statement& s, const std::vector<std::int64_t>& of_target, const std::vector<bool>& summed) {
  std::vector<Side> sides;
  std::vector<std::int64_t> apart;
  for (std::size_t r = 0; r < s.reads.size(); ++r)
    for (std::size_t d = 0; d < s.reads[r].element.size(); ++d) {
      const Affine& e = s.reads[r].element[d];
      std::int64_t most = std::numeric_limits<std::int64_t>::max();
      bool sums = false;
      for (std::size_t k = 0; k < s.indices.size(); ++k) {
        if (!mentions(e, k)) continue;
        sums = sums || summed[k];
        for (std::size_t t = 0; t < s.target.element.size(); ++t)
          if (mentions(s.target.element[t], k)) most = std::min(most, std::abs(of_target[t]));
      }
      if (sums) continue;
      sides.push_back({r, d});
      apart.push_back(most);
    }
  std::vector<std::size_t> order = in_order(sides.size());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return apart[a] > apart[b]; });
  std::vector<Side> sorted;
  for (const std::size_t at : order) sorted.push_back(sides[at]);
  return sorted;
}

std::string form_of(const Program& program, const Statement& s) {
  std::vector<TensorId> same(program.tensors.size());
  std::iota(same.begin(), same.end(), 0);
  return poly::canonical(program, s, same);
}

}  // namespace

std::vector<std::size_t> plain_sums(const Program& program, const Statement& s) {
  std::vector<std::size_t> found;
  for (std::size_t k = 0; k < s.indices.size(); ++k) {
    const auto in_row = [&](const poly::Range& row) { return mentions(row.value, k); };
    // of an empty sum no element has a point, where what is left of it would have some
    if (is_output_index(s, k) || low(s, k) != 0 || extent(s, k) < 1 ||
        std::any_of(s.domain.begin() + static_cast<std::ptrdiff_t>(s.indices.size()), s.domain.end(), in_row))
      continue;
    if (std::all_of(s.reads.begin(), s.reads.end(), [&](const Access& read) { return plain_in(program, s, read, k); }))
      found.push_back(k);
  }
  return found;
}

std::optional<PairSums> pair_sums(
    const Program& program, const Strides& strides, const Statement& s, const std::vector<std::size_t>& summed) {
  if (!cuts(s) || summed.empty()) return std::nullopt;
  std::vector<bool> is_summed(s.indices.size(), false);
  for (const std::size_t k : summed) is_summed[k] = true;
  std::vector<std::size_t> kept;
  for (std::size_t k = 0; k < s.indices.size(); ++k) if (!is_summed[k]) kept.push_back(k);
  Statement rest = seen_in(s, frame(s, kept, {}), [](const Affine&) { return true; });

  PairSums made{s, rest, Tensor{program.tensor(s.target.tensor).name, s.value.type(), {}, s.span}, ""};
  Statement& sum = made.of_pair;
  std::vector<Affine> of_rest;                         // of the element that the rest reads
  std::vector<std::vector<std::optional<std::size_t>>> index(s.reads.size());  // of the pair, per read and dimension
  for (std::size_t r = 0; r < s.reads.size(); ++r) index[r].resize(s.reads[r].element.size());
  sum.indices.clear();
  for (const Side& side : sides_of(s, strides[static_cast<std::size_t>(s.target.tensor)], is_summed)) {
    const Affine& e = rest.reads[side.read].element[side.dimension];
    const poly::Size& size = program.tensor(s.reads[side.read].tensor).shape[side.dimension];
    // both operands move along together
    const auto same = e.is_constant() ? of_rest.end() : std::find(of_rest.begin(), of_rest.end(), e);
    const auto at = static_cast<std::size_t>(same - of_rest.begin());
    index[side.read][side.dimension] = same != of_rest.end() && made.tensor.shape[at] == size ? at : of_rest.size();
    if (*index[side.read][side.dimension] < of_rest.size()) continue;
    const auto plain = plain_index(s.reads[side.read].element[side.dimension]);
    sum.indices.push_back(
        fresh_index(sum, plain ? s.indices[*plain] : fmt::format("{}{}", "xy"[side.read], side.dimension)));
    of_rest.push_back(e);
    made.tensor.shape.push_back(size);
  }
  const std::size_t rank = of_rest.size(), count = rank + summed.size();
  for (const std::size_t k : summed) sum.indices.push_back(fresh_index(sum, s.indices[k]));
  sum.domain.clear();
  for (std::size_t n = 0; n < count; ++n)
    sum.domain.push_back(
        {Affine::index(n, count), n < rank ? made.tensor.shape[n] : poly::Size(extent(s, summed[n - rank]))});
  for (std::size_t r = 0; r < s.reads.size(); ++r)
    for (std::size_t d = 0; d < s.reads[r].element.size(); ++d) {
      const auto k = plain_index(s.reads[r].element[d]);
      const auto at = index[r][d]
          ? *index[r][d]
          : rank + static_cast<std::size_t>(std::find(summed.begin(), summed.end(), *k) - summed.begin());
      sum.reads[r].element[d] = Affine::index(at, count);
    }
  write_part(sum, s.target.tensor, rank);
  made.form = form_of(program, sum);                   // of a tensor that the program has: the new one has none of its
                                                       // own yet
  sum.target.tensor = static_cast<TensorId>(program.tensors.size());
  made.rest.reads = {{static_cast<TensorId>(program.tensors.size()), std::move(of_rest)}};
  made.rest.value = poly::Read{0, s.value.type()};
  if (!reduces(made.rest)) made.rest.aggregation = Aggregation::Assign;
  return made;
}

std::size_t sum_pairs(Rewriting& r, std::size_t n, PairSums made, const std::vector<std::size_t>& summed) {
  Program& program = r.program;
  const auto& whole = std::get<Statement>(program.nodes[n]);
  directives::Pairs done{target_name(program, whole), {}};
  for (const std::size_t k : summed) done.sums.push_back(whole.indices[k]);
  r.done.push_back(std::move(done));
  const auto [known, fresh] = r.pairs.try_emplace(made.form, static_cast<TensorId>(program.tensors.size()));
  made.rest.reads[0].tensor = known->second;
  program.nodes[n] = std::move(made.rest);
  if (!fresh) return move_before(program, n, known->second);
  made.tensor.name = fresh_name(program, made.tensor.name + "_pairs");
  r.strides.push_back(strides_between(made.tensor, r.target));
  program.tensors.push_back(std::move(made.tensor));
  program.nodes.insert(program.nodes.begin() + static_cast<std::ptrdiff_t>(n), std::move(made.of_pair));
  return n + 1;
}

bool sums_of_pairs(const Rewriting& r, TensorId id) {
  return std::any_of(r.pairs.begin(), r.pairs.end(), [&](const auto& made) { return made.second == id; });
}

Refusal apply(Rewriting& r, const directives::Pairs& directive) {
  const auto n = statement_of(r.program, directive.tensor);
  if (!n) return no_statement(directive.tensor);
  const auto& s = std::get<Statement>(r.program.nodes[*n]);
  if (tiled(r, s.target.tensor)) return fmt::format("`{}` is tiled", directive.tensor);
  if (sums_of_pairs(r, s.target.tensor)) return fmt::format("`{}` holds sums of pairs already", directive.tensor);
  const std::vector<std::size_t> plain = plain_sums(r.program, s);
  std::vector<std::size_t> summed;
  for (const std::string& name : directive.sums) {
    const auto k = index_of(s, name);
    if (!k || std::find(plain.begin(), plain.end(), *k) == plain.end())
      return fmt::format("`{}` is no sum of `{}` over whole dimensions of its operands", name, directive.tensor);
    if (std::find(summed.begin(), summed.end(), *k) == summed.end()) summed.push_back(*k);
  }
  std::sort(summed.begin(), summed.end());
  auto made = pair_sums(r.program, r.strides, s, summed);
  if (!made) return fmt::format("`{}` is no fold over two operands that can be cut", directive.tensor);
  double bytes = lang::bytes(made->tensor.dtype);
  for (const poly::Size& size : made->tensor.shape) bytes *= static_cast<double>(size.get());
  if (bytes > static_cast<double>(model::largest_temporary))
    return fmt::format("the sums would take {:.0f} bytes", bytes);
  static_cast<void>(sum_pairs(r, *n, std::move(*made), summed));
  return std::nullopt;
}

}  // namespace tilec::codegen
