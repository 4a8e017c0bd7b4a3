// Leaves of an online pass.
#include "codegen/fits/leaf_to_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/online_leaf.h"
#include "codegen/online_cores.h"

namespace tilec::codegen {

namespace {

constexpr std::int64_t most_of_a_pass = 64;            // elements of a thread, of a product or a sum

std::vector<Compute> leaves_of_pass(const LeafToFit& g) {
  std::vector<Compute> leaves;
  for (const Compute& one : g.group.body) if (!one.is<forms::Finish>()) leaves.push_back(one);
  return leaves;
}

std::vector<Nest> nests_of_pass(const LeafToFit& g) {
  std::vector<Nest> nests;
  for (const Compute& one : leaves_of_pass(g)) nests.push_back(leaf_nest(g.plan.program, g.group, one, g.strides));
  return nests;
}

Misfit shared_fault(const LeafToFit& g, const std::vector<Nest>& nests) {
  const std::int64_t bytes = online_bytes(nests, leaves_of_pass(g), g.group.threads);
  return bytes <= g.target.shared_bytes
      ? std::nullopt
      : Misfit(
            fmt::format("a block has {} bytes of shared memory, and the pass takes {}", g.target.shared_bytes, bytes));
}

Misfit pass_on_cores_fault(const LeafToFit& g, const std::string& instruction, const OnlinePart& part) {
  if (Misfit why = instruction_fault(instruction, g.target)) return why;
  const MatrixInstruction* i = matrix_instruction(instruction);
  const std::vector<Nest> nests = nests_of_pass(g);
  std::vector<OnlinePart> parts;
  for (std::size_t l = 0; l < nests.size(); ++l)
    parts.push_back(std::get<OnlinePart>(online_part(nests[l], g.group.body[l].m(), g.group.body.front().n)));
  if (std::string why = refuses_cores(*i, g.plan.program, nests, parts); !why.empty()) return why;
  const bool multiplied = part.role == OnlinePart::Product || part.role == OnlinePart::Sum;
  const std::int64_t stage = g.leaf.as<forms::Online>()->depth,
                     columns = part.role == OnlinePart::Product
      ? stage
      : ceil_divide(g.nest.dims[part.column].extent, i->k) * i->k;
  if (g.group.threads % i->threads() || stage % i->k)
    return fmt::format("{} threads and a stage of {} are no multiples of the {} and {} of `{}`", g.group.threads,
        stage, i->threads(), i->k, i->name);
  if (multiplied && (g.leaf.lanes != i->threads() || g.leaf.vectors * i->n != columns))
    return fmt::format("a warp has the {} columns of `{}`, {} of each result", columns, g.leaf.n, i->n);
  if (!multiplied && (g.leaf.lanes != 4 || g.leaf.vectors != 1))
    return fmt::format("four threads have a row of `{}`", g.name());
  if (multiplied && g.leaf.rows * g.leaf.vectors * i->registers_of_c() > most_of_a_pass)
    return fmt::format("a thread has {} elements of a pass at most", most_of_a_pass);
  return shared_fault(g, nests);
}

}  // namespace

Misfit pass_fault(const LeafToFit& g) {
  const auto *own = g.leaf.as<forms::Online>(), *first = g.group.body.front().as<forms::Online>();
  if (!g.chosen.is<forms::Online>())
    return fmt::format("`{}` belongs to no pass: that is said by the directive `online`", g.name());
  if (!own || !first || g.leaf.outer != g.chosen.outer || g.leaf.n != g.chosen.n || g.leaf.k != g.chosen.k ||
      own->m != g.chosen.m())
    return fmt::format("`{}` belongs to a pass, which says its form and indices", g.name());
  if (const bool twice = g.chosen.as<forms::Online>()->twice; own->twice != twice)
    return fmt::format("a pass goes over `{}` twice where what others read of a fold is not known in time, and `{}` {}",
        g.group.body.front().n, g.name(), twice ? "waits for such a fold" : "does not");
  const std::int64_t most = first->instruction.empty() ? most_staged : 2 * most_staged;
  if (!g.leaf.ahead.empty() || own->depth != first->depth || own->instruction != first->instruction ||
      own->depth < 1 || own->depth > most)
    return fmt::format("the leaves of a pass have one stage, of {} at most, and one instruction", most);
  if (g.group.threads % g.leaf.lanes || g.group.threads % g.group.body.front().lanes)
    return fmt::format("{} threads are no rows of {}", g.group.threads, g.leaf.lanes);
  const std::int64_t rows = online_rows(g.leaf, g.group.threads),
                     threads = g.group.threads / std::max<std::int64_t>(1, rows);
  if (rows != online_rows(g.group.body.front(), g.group.threads) || g.group.threads % rows || own->depth % threads)
    return fmt::format("a block of {} rows and {} columns is no tile of {} threads, or not that of the other leaves",
        rows, own->depth, g.group.threads);
  const auto part = std::get<OnlinePart>(online_part(g.nest, own->m, g.group.body.front().n));
  if (!own->instruction.empty()) return pass_on_cores_fault(g, own->instruction, part);
  const std::int64_t columns = g.leaf.lanes * g.leaf.vectors;
  if (g.leaf.rows * g.leaf.vectors > most_of_a_pass)
    return fmt::format("a thread has {} elements of a pass at most", most_of_a_pass);
  if (part.role == OnlinePart::Product && columns != own->depth)
    return fmt::format("{} threads have {} columns each, and a stage {}", g.leaf.lanes, g.leaf.vectors, own->depth);
  if (part.role == OnlinePart::Sum &&
      (columns < g.nest.dims[part.column].extent || columns > 2 * g.nest.dims[part.column].extent + 128))
    return fmt::format("{} columns are not the {} of `{}`", columns, g.nest.dims[part.column].extent, g.leaf.n);
  if (part.role != OnlinePart::Product && part.role != OnlinePart::Sum && (g.leaf.rows != 1 || g.leaf.vectors != 1))
    return fmt::format("a thread has one row of `{}` or a part of one", g.name());
  return shared_fault(g, nests_of_pass(g));
}

}  // namespace tilec::codegen
