// Windows and residue classes of one sum, seen together: what they cost as they are, and what one product without
// windows costs that all of them read.
#include "codegen/choose/pairs.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "codegen/choose/layout.h"
#include "codegen/choose/rows.h"
#include "codegen/choose/threads.h"
#include "codegen/model/machine.h"
#include "codegen/model/estimates.h"
#include "codegen/model/predict.h"
#include "codegen/model/thresholds.h"
#include "codegen/operands.h"
#include "codegen/part.h"
#include "codegen/rewrite.h"
#include "codegen/rewrite/online.h"
#include "codegen/rewrite/pairs.h"
#include "codegen/rewrite/split.h"

namespace tilec::codegen {

namespace {

using poly::Program;
using poly::Statement;

using namespace model::pairs;

double summed_values(const Statement& s, const std::vector<std::size_t>& summed) {
  double count = 1;
  for (const std::size_t k : summed) count *= static_cast<double>(extent(s, k));
  return count;
}

double shape_points(const poly::Tensor& tensor) {
  double count = 1;
  for (const poly::Size& size : tensor.shape) count *= static_cast<double>(size.get());
  return count;
}

double cycles_between(const poly::Tensor& sums, const Target& target) {
  const double bytes = shape_points(sums) * lang::bytes(sums.dtype);
  return bytes / model::line *
      (2 * bytes <= static_cast<double>(target.l2)          ? in_second
              : 2 * bytes <= static_cast<double>(target.l3) ? in_last
                                                            : in_memory);
}

struct Member { std::size_t n; std::vector<std::size_t> summed; PairSums made; };

std::optional<Member> member(const Rewriting& r, std::size_t n) {
  const auto* s = std::get_if<Statement>(&r.program.nodes[n]);
  if (s == nullptr || !reduces(*s) || s->reads.size() != 2 || in_pass(r, s->target.tensor)) return std::nullopt;
  std::vector<std::size_t> summed = plain_sums(r.program, *s);
  if (summed_values(*s, summed) < least_summed) return std::nullopt;
  auto made = pair_sums(r.program, r.strides, *s, summed);
  if (!made) return std::nullopt;
  return Member{n, std::move(summed), std::move(*made)};
}

double cost(const Program& program, const Strides& strides, const Statement& s, const Target& target, bool alone) {
  return choose_layouts(program, strides, s, copies_for_lanes(program, strides, s), target, alone).cost;
}

// Of a statement with one operand.
double cycles_of_sum_on_gpu(const Rewriting& r, const Statement& s) {
  const Nest nest = nest_of(s, r.strides);
  double bytes = 0;
  for (const TensorId id : {s.reads.front().tensor, s.target.tensor})
    bytes += bytes_of(r.program, id);
  return std::max(cycles_of_threads(facts(nest, {}, r.target), 1, r.target), bytes / model::threads::memory_bytes);
}

// Cycles of the device, each statement a launch, or several where its sums are cut into parts; none where nobody
// estimates one of them.
std::optional<double> cost_on_gpu(const Rewriting& r, std::span<const Statement> statements) {
  Rewriting own = alone(r, statements);
  split_reductions(own);
  double sum = 0;
  for (const poly::Node& node : own.program.nodes) {
    const auto& s = std::get<Statement>(node);
    const double cycles = s.reads.size() == 1 ? cycles_of_sum_on_gpu(own, s)
                                              : layouts_on_gpu(own.program, own.strides, s, own.target).cost;
    if (cycles <= 0) return std::nullopt;
    sum += cycles + model::threads::cycles_of_a_launch;
  }
  return sum;
}

// Whether one product that all windows read takes clearly less than the windows, each of which reads all operands.
bool pays_on_gpu(Rewriting& r, const std::vector<Member>& all) {
  std::vector<Statement> windows, rests;
  for (const Member& m : all) {
    windows.push_back(std::get<Statement>(r.program.nodes[m.n]));
    rests.push_back(m.made.rest);
  }
  const auto today = cost_on_gpu(r, windows);
  if (!today) return false;
  r.program.tensors.push_back(all.front().made.tensor);
  r.strides.push_back(strides_between(all.front().made.tensor, r.target));
  const auto product = cost_on_gpu(r, std::span(&all.front().made.of_pair, 1)), sums = cost_on_gpu(r, rests);
  r.program.tensors.pop_back();
  r.strides.pop_back();
  return product && sums && *product + *sums < clearly_less * *today;
}

// What reads the same sums as `first`, from there on.
std::vector<Member> sharing(const Rewriting& r, Member first) {
  const Program& program = r.program;
  const std::size_t n = first.n;
  std::vector<Member> all;
  all.push_back(std::move(first));
  const auto& s = std::get<Statement>(program.nodes[n]);
  for (std::size_t other = n + 1; other < program.nodes.size(); ++other) {
    const auto* t = std::get_if<Statement>(&program.nodes[other]);
    if (t == nullptr || t->reads.size() != 2 || t->reads[0].tensor != s.reads[0].tensor ||
        t->reads[1].tensor != s.reads[1].tensor)
      continue;
    auto next = member(r, other);
    if (next && next->made.form == all.front().made.form) all.push_back(std::move(*next));
  }
  return all;
}

// Whether windows lie along what is side by side in their result: lanes over it meet their borders.
bool lanes_in_window(const Program& program, const Strides& strides, const std::vector<Member>& all) {
  const auto meets = [&](const Member& m) {
    const auto& s = std::get<Statement>(program.nodes[m.n]);
    const std::vector<std::int64_t>& lie = strides[static_cast<std::size_t>(s.target.tensor)];
    for (std::size_t d = 0; d < lie.size(); ++d)
      for (std::size_t k = 0; k < s.indices.size(); ++k) {
        if (lie[d] != 1 || !mentions(s.target.element[d], k) || extent(s, k) == 1) continue;
        for (const poly::Access& read : s.reads)
          for (const poly::Affine& e : read.element) if (mentions(e, k) && plain_index(e) != k) return true;
      }
    return false;
  };
  return std::any_of(all.begin(), all.end(), meets);
}

// Counts take lanes at the borders of windows for too cheap, and sums over far rows for too dear: where they do not
// decide, the model plans both.
bool predicted_to_pay(const Rewriting& r, const std::vector<Member>& all) {
  if (!model::predicts_time(r.target)) return false;
  std::vector<Statement> own;
  for (const Member& m : all) own.push_back(std::get<Statement>(r.program.nodes[m.n]));
  Rewriting windows = alone(r, own), pairs = windows;
  const double enough = enough_for(windows);
  const auto time_of = [](Rewriting one, double wanted) {
    copy_operands(one), panel_operands(one);
    return PlannedByRows(std::move(one)).time(wanted).value_or(wanted);
  };
  const double today = time_of(std::move(windows), std::numeric_limits<double>::infinity());
  if (today <= enough) return false;
  std::size_t moved = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (auto made =
            pair_sums(pairs.program, pairs.strides, std::get<Statement>(pairs.program.nodes[i + moved]), all[i].summed))
      moved = sum_pairs(pairs, i + moved, std::move(*made), all[i].summed) - i;
  const poly::Tensor& sums = all.front().made.tensor;
  const bool kept =
      shape_points(sums) * lang::bytes(sums.dtype) <= kept_pairs * static_cast<double>(r.target.l3);
  const double bar = (kept ? windows_take : 1) * today;
  if (least_of(pairs) >= bar) return false;
  return time_of(std::move(pairs), bar) < bar;
}

bool pays(Rewriting& r, const std::vector<Member>& all) {
  Program& program = r.program;
  Strides& strides = r.strides;
  const Target& target = r.target;
  const PairSums& made = all.front().made;
  if (all.size() == 1 && !reduces(made.rest)) return false;
  double windows = 0;
  for (const Member& m : all) windows += points(std::get<Statement>(program.nodes[m.n]));
  const double pairs = shape_points(made.tensor);
  if (pairs * lang::bytes(made.tensor.dtype) > static_cast<double>(model::largest_temporary)) return false;
  if (pairs * summed_values(std::get<Statement>(program.nodes[all.front().n]), all.front().summed) >
      most_points * windows)
    return false;
  if (has_threads(target)) return pays_on_gpu(r, all);
  double today = 0;
  for (const Member& m : all) today += cost(program, strides, std::get<Statement>(program.nodes[m.n]), target, false);
  program.tensors.push_back(made.tensor);              // for as long as the question is asked: a copy of the program
                                                       // for each would take the square
  strides.push_back(strides_between(made.tensor, target));
  const double product = cost(program, strides, made.of_pair, target, true), sums = cycles_between(made.tensor, target);
  program.tensors.pop_back();
  strides.pop_back();
  if (product + sums < (lanes_in_window(program, strides, all) ? clearly_less : much_less) * today) return true;
  return today > model::worth_pairs && product + sums < hardly_more * today && predicted_to_pay(r, all);
}

}  // namespace

void choose_pairs(Rewriting& r) {
  std::set<std::string> dear;                          // forms of sums that do not pay: each is asked about once
  for (std::size_t n = 0; n < r.program.nodes.size(); ++n) {
    auto first = member(r, n);
    if (!first || dear.contains(first->made.form)) continue;
    const std::vector<Member> all = sharing(r, std::move(*first));
    if (!pays(r, all)) {
      dear.insert(all.front().made.form);
      continue;
    }
    std::size_t moved = 0;
    for (const Member& m : all) {
      const std::size_t at = m.n + moved;
      if (auto made = pair_sums(r.program, r.strides, std::get<Statement>(r.program.nodes[at]), m.summed))
        moved = sum_pairs(r, at, std::move(*made), m.summed) - m.n;
    }
    ++n;
  }
}

}  // namespace tilec::codegen
