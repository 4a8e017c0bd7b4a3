#include "codegen/choose/pass_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>

#include "codegen/model/thresholds.h"
#include "codegen/online_boxes.h"
#include "codegen/online_leaf.h"
#include "codegen/online_cores.h"
#include "codegen/scalar.h"

namespace tilec::codegen {

namespace {

constexpr std::int64_t warp = model::threads::warp;
constexpr std::int64_t most_registers = 255;           // of a thread: CUDA C++ Programming Guide, "Compute
                                                       // Capabilities"

std::int64_t extent(const Nest& nest, std::size_t d) { return nest.dims[d].extent; }

// Its indices.
Compute leaf_of(const Nest& nest, int node, const OnlinePart& part, std::int64_t depth) {
  Compute leaf;
  leaf.node = node;
  leaf.form = forms::Online{nest.dims[part.row].name, depth};
  leaf.n = nest.dims[part.column].name;
  for (std::size_t d = 0; d < nest.dims.size(); ++d)
    if (d != part.row && d != part.column && !nest.dims[d].reduction) leaf.outer.push_back(nest.dims[d].name);
  if (part.role == OnlinePart::Product) leaf.k = {nest.dims[part.depth].name};
  if (part.role == OnlinePart::Sum) leaf.k = {nest.dims[part.over].name};
  return leaf;
}

// All leaves of a block of `height` rows and `depth` of what is passed over, `tall` rows of a thread.
std::optional<std::vector<Compute>> leaves_of(const std::vector<Nest>& nests, const std::vector<int>& nodes,
    const std::vector<OnlinePart>& parts, std::int64_t threads, std::int64_t height, std::int64_t tall,
    std::int64_t depth) {
  const std::int64_t lanes = threads * tall / height;
  if (height % tall || threads % (height / tall) || threads % height || depth % lanes || depth % (threads / height) ||
      depth / lanes > 8)
    return std::nullopt;
  std::vector<Compute> leaves;
  for (std::size_t l = 0; l < nests.size(); ++l) {
    const OnlinePart& part = parts[l];
    Compute leaf = leaf_of(nests[l], nodes[l], part, depth);
    leaf.rows = 1, leaf.vectors = 1, leaf.lanes = threads / height;
    if (part.role == OnlinePart::Product) {
      leaf.rows = tall, leaf.lanes = lanes, leaf.vectors = depth / lanes;
    }
    if (part.role == OnlinePart::Sum) {
      leaf.rows = tall, leaf.lanes = lanes, leaf.vectors = ceil_divide(extent(nests[l], part.column), lanes);
      if (leaf.vectors > 2) leaf.vectors = (leaf.vectors + 3) / 4 * 4;
      if (leaf.rows * leaf.vectors > 64) return std::nullopt;
    }
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

// Of all blocks, one multiprocessor's part, as if its threads hid each other's latency.
double cycles_of(const std::vector<Nest>& nests, const std::vector<Compute>& leaves,
    const std::vector<OnlinePart>& parts, std::int64_t threads, std::int64_t height, std::int64_t depth,
    const Target& target) {
  const Nest& first = nests.front();
  const double rows = static_cast<double>(extent(first, parts.front().row)),
               over = static_cast<double>(extent(first, parts.front().over));
  double blocks = std::ceil(rows / static_cast<double>(height)), multiplied = 0, accesses = 0,
         registers = model::threads::other_registers, each = 0;
  for (const std::string& name : leaves.front().outer) blocks *= static_cast<double>(extent(first, *first.dim(name)));
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    const Compute& leaf = leaves[l];
    const double block = static_cast<double>(leaf.rows * leaf.vectors),
                 sides = static_cast<double>(leaf.rows + leaf.vectors);
    if (parts[l].role == OnlinePart::Product || parts[l].role == OnlinePart::Sum) {
      const bool product = parts[l].role == OnlinePart::Product;
      // Multiplications of an element of the tile, and accesses to shared memory of a warp.
      const double steps = product ? static_cast<double>(extent(nests[l], parts[l].depth))
                                   : static_cast<double>(leaf.lanes * leaf.vectors);
      multiplied += steps;
      accesses += steps * sides * model::threads::turns_of_operand / block;
      registers += product ? 0 : block;
      each += 2;                                       // into the tile, and out of it
    } else {
      each += 2;
    }
  }
  double most = 0;
  for (std::size_t l = 0; l < leaves.size(); ++l)
    if (parts[l].role == OnlinePart::Product)
      most = std::max(most, static_cast<double>(leaves[l].rows * leaves[l].vectors));
  registers += most + model::pass::other_registers;
  const double shared = static_cast<double>(online_bytes(nests, leaves, threads)) + model::pass::shared_of_block;
  const double resident = std::max(1.0,
      std::floor(std::min({static_cast<double>(target.shared_bytes) / shared,
          model::threads::registers / (registers * static_cast<double>(threads)),
          model::pass::threads / static_cast<double>(threads)})));
  const double warps = static_cast<double>(threads) / static_cast<double>(warp);
  const double elements =
      static_cast<double>(height) * std::ceil(over / static_cast<double>(depth)) * static_cast<double>(depth);
  const double fma = multiplied / (model::threads::issues * static_cast<double>(warp)),
               lsu = (accesses + each) / static_cast<double>(warp);
  const double one = elements *
      (std::max(fma, lsu) + model::pass::beside * std::min(fma, lsu) +
          model::pass::of_element / (model::threads::issues * static_cast<double>(warp)));
  const double waves = std::ceil(blocks / static_cast<double>(target.multiprocessors));  // blocks of one multiprocessor
  const double together = std::min(resident, waves);
  const double hidden = std::max(1.0,
      1 + (model::threads::of_one_block - 1) * (1 - std::min(1.0, warps * together / model::threads::warps_that_hide)));
  return waves * (one * hidden + std::ceil(over / static_cast<double>(depth)) * model::pass::of_turn / together);
}

// A warp has `tall` results above one another, and all columns.
std::optional<std::vector<Compute>> leaves_on_cores(const std::vector<Nest>& nests, const std::vector<int>& nodes,
    const std::vector<OnlinePart>& parts, const MatrixInstruction& i, std::int64_t tall, std::int64_t depth) {
  std::vector<Compute> leaves;
  for (std::size_t l = 0; l < nests.size(); ++l) {
    Compute leaf = leaf_of(nests[l], nodes[l], parts[l], depth);
    leaf.as<forms::Online>()->instruction = i.name;
    leaf.rows = 2 * tall, leaf.vectors = 1, leaf.lanes = 4;
    if (parts[l].role == OnlinePart::Product || parts[l].role == OnlinePart::Sum) {
      const std::int64_t columns =
          parts[l].role == OnlinePart::Product ? depth : ceil_divide(extent(nests[l], parts[l].column), i.k) * i.k;
      leaf.rows = tall, leaf.vectors = columns / i.n, leaf.lanes = i.threads();
      if (leaf.rows * leaf.vectors * i.registers_of_c() > model::pass::most_results) return std::nullopt;
    }
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

// Of a product or a sum: its results, and fragments of a step of so much of the reduction; of instructions that read
// shared memory, those of a sum's rows alone, of all steps.
double registers_of(const Compute& leaf, const MatrixInstruction& i, bool product, double reduced) {
  const auto results = static_cast<double>(leaf.rows * leaf.vectors * i.registers_of_c()),
             rows = reduced / 4 * static_cast<double>(leaf.rows);
  if (i.from_shared()) return results + (product ? 0 : rows);
  if (!product) return results;
  return model::pass::of_result * results + static_cast<double>(leaf.vectors * i.registers_of_b()) + rows;
}

// As above, by multiplications of tensor cores, what warps read of shared memory, and instructions of elements. A
// multiprocessor has `most` blocks at most.
struct CyclesOnCores {
  double cycles, resident;
  double read;                                         // that the second cache takes for columns, of all blocks
  double with_copies() const { return std::max(cycles + model::pass::of_copies * read, read); }
};
// Whether no member before this one has brought the same columns into shared memory.
bool copies_columns(const std::vector<Nest>& nests, const std::vector<OnlinePart>& parts, std::size_t l) {
  for (std::size_t other = 0; other < l; ++other)
    if ((parts[other].role == OnlinePart::Product || parts[other].role == OnlinePart::Sum) &&
        same_columns(nests[other], parts[other], nests[l], parts[l]))
      return false;
  return true;
}
CyclesOnCores cycles_on_cores(const poly::Program& program, const std::vector<Nest>& nests,
    const std::vector<Compute>& leaves, const std::vector<OnlinePart>& parts, const MatrixInstruction& i,
    std::int64_t threads, std::int64_t depth, const Target& target,
    double most = std::numeric_limits<double>::infinity()) {
  const Nest& first = nests.front();
  const double rows = static_cast<double>(extent(first, parts.front().row)),
               over = static_cast<double>(extent(first, parts.front().over)),
               height = static_cast<double>(online_rows(leaves.front(), threads));
  double blocks = std::ceil(rows / height), multiplied = 0, accesses = 0, issued = 0,
         registers = model::threads::other_registers + model::pass::other_registers, copied = 0;
  for (const std::string& name : leaves.front().outer) blocks *= static_cast<double>(extent(first, *first.dim(name)));
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    const Compute& leaf = leaves[l];
    if (parts[l].role != OnlinePart::Product && parts[l].role != OnlinePart::Sum) continue;
    const bool product = parts[l].role == OnlinePart::Product;
    const double width =
        static_cast<double>(product ? ceil_divide(extent(nests[l], parts[l].depth), i.k) * i.k : leaf.vectors * i.n);
    const SplitFactors split = product ? SplitFactors{&i} : split_factors(i, target.math, program, nests[l], parts[l]);
    const double times = static_cast<double>(split.products()), tall = static_cast<double>(leaf.rows);
    multiplied += width * times;
    issued += (i.from_shared() ? 0 : width * times / static_cast<double>(i.n * i.k)) +
        (split.of_row > 1 ? model::pass::of_parts : 0) +
        (split.of_column > 1 ? width / static_cast<double>(i.m) / tall * model::pass::of_parts : 0);
    // Each warp's columns, by ldmatrix; the block's, out of memory and into shared memory.
    const double lines = width * static_cast<double>(lang::bytes(i.operand)) / model::pass::line_bytes;
    if (copies_columns(nests, parts, l)) copied += lines * model::pass::line_bytes;
    accesses += (i.from_shared() ? 0 : lines / (static_cast<double>(i.m) * tall)) + 2 * lines / height;
    registers += registers_of(leaf, i, product, product ? width : static_cast<double>(depth * split.of_row));
  }
  const std::int64_t above = static_cast<std::int64_t>(height) / (threads / i.threads() * i.m);
  const bool twice = leaves.front().as<forms::Online>()->twice;
  const double shared = static_cast<double>(cores_bytes(i, nests, parts, threads, above, depth, twice)) +
      model::pass::shared_of_block;
  const double resident = std::floor(std::min({static_cast<double>(target.shared_bytes) / shared,
      model::threads::registers / (registers * static_cast<double>(threads)),
      model::pass::threads / static_cast<double>(threads), most}));
  if (resident < 1 || registers > static_cast<double>(most_registers))
    return {std::numeric_limits<double>::infinity(), 0, 0};
  const double elements = height * std::ceil(over / static_cast<double>(depth)) * static_cast<double>(depth);
  // Of an element, with its share of what a thread does once a turn.
  const double each = i.from_shared() ? model::pass::of_element_in_groups +
              model::pass::of_turn_in_groups * static_cast<double>(threads) / (height * static_cast<double>(depth))
                                      : model::pass::of_element_on_cores;
  const double tensor =
      multiplied / (i.from_shared() ? model::pass::multiplied_by_groups : model::pass::multiplied_by_warps);
  const double issue = (issued + each) / (model::threads::issues * static_cast<double>(warp));
  const double longest = std::max({tensor, issue, accesses}),
               one = elements * (longest + model::pass::beside * (tensor + issue + accesses - longest));
  const double waves = std::ceil(blocks / static_cast<double>(target.multiprocessors)),
               together = std::min(resident, waves), warps = static_cast<double>(threads) / static_cast<double>(warp);
  const double alone = i.from_shared() && together < 2 ? model::pass::of_block_alone : 1;
  const double hidden = alone *
      std::max(1.0,
          1 +
              (model::threads::of_one_block - 1) *
                  (1 - std::min(1.0, warps * together / model::threads::warps_that_hide)));
  const double turns = std::ceil(over / static_cast<double>(depth));
  return {waves * (one * hidden + turns * model::pass::of_turn / together), resident,
      blocks * over * copied / (model::threads::l2_bytes * static_cast<double>(target.multiprocessors))};
}

// Of all sweeps, with what the second cache takes for them. Of blocks side by side one is in its first sweep while
// another is in its second; a block alone has as few registers left for others in both.
double cycles_of_sweeps(const poly::Program& program, const std::vector<Nest>& nests,
    const std::vector<Compute>& leaves, const std::vector<OnlinePart>& parts, const MatrixInstruction& i,
    std::int64_t threads, std::int64_t depth, const Target& target) {
  const CyclesOnCores all = cycles_on_cores(program, nests, leaves, parts, i, threads, depth, target);
  if (!leaves.front().as<forms::Online>()->twice || all.resident < 1) return all.with_copies();
  std::vector<Nest> own_nests;
  std::vector<Compute> own_leaves;
  std::vector<OnlinePart> own_parts;
  for (const std::size_t l : first_sweep(nests, parts).members)
    own_nests.push_back(nests[l]), own_leaves.push_back(leaves[l]), own_parts.push_back(parts[l]);
  const double most = all.resident < 2 ? all.resident : std::numeric_limits<double>::infinity();
  const CyclesOnCores first =
      cycles_on_cores(program, own_nests, own_leaves, own_parts, i, threads, depth, target, most);
  return CyclesOnCores{all.cycles + first.cycles, all.resident, all.read + first.read}.with_copies();
}

}  // namespace

std::optional<PassTile> choose_tile_of_pass(const poly::Program& program, const std::vector<Nest>& nests,
    const std::vector<int>& nodes, const std::vector<std::string>& rows, const std::string& over, bool twice,
    const Target& target) {
  std::vector<OnlinePart> parts;
  for (const Nest& nest : nests) {
    auto part = online_part(nest, rows.back(), over);
    if (!std::holds_alternative<OnlinePart>(part)) return std::nullopt;
    parts.push_back(std::get<OnlinePart>(std::move(part)));
  }
  std::optional<PassTile> best;
  for (const std::int64_t threads : {128, 256})
    for (const std::int64_t height : twice ? std::vector<std::int64_t>() : std::vector<std::int64_t>{128, 64, 32})
      for (const std::int64_t tall : {8, 4, 2})
        for (const std::int64_t depth : {64, 32, 16}) {
          if (threads > target.max_threads) continue;
          auto leaves = leaves_of(nests, nodes, parts, threads, height, tall, depth);
          if (!leaves || online_bytes(nests, *leaves, threads) > target.shared_bytes) continue;
          const double cycles = cycles_of(nests, *leaves, parts, threads, height, depth, target);
          if (!best || cycles < best->cycles) best = PassTile{std::move(*leaves), threads, cycles};
        }
  for (const MatrixInstruction& i : matrix_instructions()) {
    if (!has_instruction(target, i) || !refuses_cores(i, program, nests, parts).empty()) continue;
    for (const std::int64_t threads : {128, 256})
      for (const std::int64_t tall : {1, 2})
        for (const std::int64_t depth : {128, 64, 32}) {
          auto leaves = leaves_on_cores(nests, nodes, parts, i, tall, depth);
          if (!leaves || cores_bytes(i, nests, parts, threads, tall, depth, twice) > target.shared_bytes) continue;
          for (Compute& leaf : *leaves) leaf.as<forms::Online>()->twice = twice;
          const double cycles = cycles_of_sweeps(program, nests, *leaves, parts, i, threads, depth, target);
          if (!best || cycles < best->cycles) best = PassTile{std::move(*leaves), threads, cycles};
        }
  }
  return best;
}

}  // namespace tilec::codegen
