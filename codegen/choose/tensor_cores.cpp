#include "codegen/choose/tensor_cores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/choose/staged.h"
#include "codegen/core_operands.h"
#include "codegen/model/thresholds.h"
#include "codegen/staged.h"
#include "codegen/tensor_cores.h"

namespace tilec::codegen {

namespace {

// Whether neighbours of an operand come to shared memory together, so many bytes.
bool come_together(const poly::Program& program, const Nest& nest, const Staging& roles, const poly::Expr& of,
    const std::vector<std::size_t>& side, std::int64_t bytes) {
  const poly::Read* factor = read_of(of);
  if (!factor) return false;
  const FlatAccess& read = nest.reads[static_cast<std::size_t>(factor->read)];
  const std::size_t along = reads_along(read.offset, roles.depth, side.back());
  const std::int64_t elements = bytes / lang::bytes(type_read(program, nest, of));
  // What is copied as it is may end with a part of a group, if there is one dimension to end.
  const bool part = roles.staged.size() == 1 && side.size() == 1 && read_of(roles.by_m) && read_of(roles.by_n) &&
      type_read(program, nest, roles.by_m) == type_read(program, nest, roles.by_n);
  return elements > 0 && in_groups(read.offset, along, 0, part ? elements : nest.dims[along].extent, elements);
}

// Instructions of an element on its way to shared memory, where not pieces are copied as they are.
double issued_of(const poly::Program& program, const Nest& nest, const Staging& roles, const poly::Expr& of,
    const std::vector<std::size_t>& side, DType operand) {
  if (!come_together(program, nest, roles, of, side, 4)) return model::threads::issued_of_element;
  return type_read(program, nest, of) == operand ? 0 : model::threads::issued_of_converted;
}

// Whether operands come to shared memory by pieces of 16 bytes: one by one, products wait for them.
bool in_pieces(const poly::Program& program, const Nest& nest, const Staging& roles) {
  return come_together(program, nest, roles, roles.by_m, roles.m, piece_bytes) &&
      come_together(program, nest, roles, roles.by_n, roles.n, piece_bytes);
}

// cycles: for one value of the reductions, where a tile takes longer that lacks others beside it.
// `all`: of the device, for all of them.
struct Chosen { Compute leaf; double cycles, all; bool in_pieces; };

// Of a contraction on tensor cores: how many values of each kind of index.
struct Extents {
  double batches, rows, columns, depth;
  bool masked;
};

// Cycles for one value of the reductions.
struct TileCycles {
  double one, tiles, read, copied, padded;             // products of a tile; tiles; what all read of the second cache,
                                                       // or the busiest multiprocessor copies
  double alone;                                        // more, of a tile that lacks the others of its multiprocessor
  // Nothing is read of steps that are there to fill a turn.
  double all(double products) const {
    const double multiplied = products * padded;
    return std::max(multiplied, read) + model::threads::not_hidden * std::min(multiplied, read) + copied * padded;
  }
};
// `issued_m`, `issued_n`: for an element of an operand (issued_of).
TileCycles cycles_of(const Extents& all, const MatrixInstruction& i, const model::threads::MatrixTile& tile,
    std::int64_t turn, double issued_m, double issued_n, const Target& target) {
  const auto height = static_cast<double>(tile.rows * tile.warps_m),
             width = static_cast<double>(tile.columns * tile.warps_n),
             each = static_cast<double>(lang::bytes(i.operand)), stage = static_cast<double>(turn);
  TileCycles c{};
  c.one = height * width / (tile.rate * model::threads::matrix_rate / each);
  c.tiles = all.batches * std::ceil(all.rows / height) * std::ceil(all.columns / width);
  const double turns = std::ceil(c.tiles / target.multiprocessors), bytes = (height + width) * each;
  c.read = std::max(c.tiles * bytes / (target.multiprocessors * model::threads::l2_bytes),
      turns * bytes / model::threads::copied_bytes);
  // The copies of a block that is alone are not hidden where each asks for its place.
  const double copies = bytes / static_cast<double>(piece_bytes) * model::threads::issued_of_piece /
      (model::threads::issues * model::threads::warp);
  if (all.masked && tile.blocks == 1) c.copied = turns * copies;
  c.alone = all.masked ? copies : c.one * model::threads::more_of_lonely_tile;
  c.copied += turns * (height * issued_m + width * issued_n) /
      (model::threads::issues * model::threads::warp);
  c.padded = std::ceil(all.depth / stage) * stage / all.depth;
  return c;
}

// The tile that costs least: turns of the multiprocessors, each as long as the products of its tile take, or what all
// tiles read of the second cache, if that takes longer; the shorter of both is not hidden wholly. A warp of 64 x 64
// reads so little of shared memory for each product that the tensor cores decide; smaller ones wait for it.
std::optional<Chosen> cheapest(
    const poly::Program& program, const Facts& f, Compute leaf, double parts, const Target& target) {
  std::vector<std::string> m = leaf.all_of_m(), n = leaf.all_of_n();
  const auto extent_of = [&](const std::vector<std::string>& all) {
    return std::accumulate(all.begin(), all.end(), 1.0, [&](double product, const std::string& index) {
      return product * static_cast<double>(f.extent[*f.nest.dim(index)]);
    });
  };
  const Staging roles = *staging_of(f.nest, leaf);
  const bool across = leaf.across();
  const double values = extent_of(leaf.k);
  const Extents all{parts * extent_of(leaf.outer), extent_of(m), extent_of(n),
      across ? values : static_cast<double>(f.extent[roles.depth]), !f.nest.rows.empty()};
  const bool pieces = in_pieces(program, f.nest, roles);
  const std::string last = m.back();
  m.pop_back(), n.pop_back();
  std::optional<Chosen> best;
  double least = 0;
  const auto weigh = [&](const MatrixInstruction& i, const model::threads::MatrixTile& tile) {
    leaf.rows = tile.rows / i.m, leaf.vectors = tile.columns / i.n, leaf.lanes = i.threads();
    const std::int64_t bytes = lang::bytes(i.operand),
                       whole = static_cast<std::int64_t>(std::ceil(all.depth / static_cast<double>(i.k))) * i.k;
    const double issued_m = issued_of(program, f.nest, roles, roles.by_m, roles.m, i.operand),
                 issued_n = issued_of(program, f.nest, roles, roles.by_n, roles.n, i.operand);
    for (const model::threads::MatrixStages& stages : model::threads::matrix_stages) {
      if (i.operand == DType::F32 && !i.from_shared() && stages.buffers > model::threads::buffers_of_f32) continue;
      // `wgmma` reads rows of a whole line each
      if (i.from_shared() && stages.depth_bytes != model::threads::matrix_stages[0].depth_bytes) continue;
      const std::int64_t turn =
          i.from_shared() ? stages.depth_bytes / bytes : std::min(whole, stages.depth_bytes / bytes);
      leaf.form = forms::TensorCores{last, i.name, turn, tile.warps_m, tile.warps_n, stages.buffers, m, n, across};
      const TileCycles c = cycles_of(all, i, tile, turn, issued_m, issued_n, target);
      const auto given = static_cast<std::int64_t>(std::ceil(c.tiles / target.multiprocessors));
      if (std::min(given, tile.blocks) * shared_bytes_of(leaf) > target.shared_bytes) continue;
      const auto turns = static_cast<double>(given);
      const double cost = c.all(turns * c.one);
      if (best && cost >= least) return;
      least = cost;
      best = Chosen{leaf, c.all(turns * c.one + (given < tile.blocks ? c.alone : 0)), cost * values, pieces};
      return;
    }
  };
  const auto is_for = [](const model::threads::MatrixTile& tile, const MatrixInstruction& i) {
    return tile.warps == i.warps && (!tile.bytes || tile.bytes == lang::bytes(i.operand));
  };
  for (const MatrixInstruction& i : matrix_instructions()) {
    if (!has_instruction(target, i) || !multiplies(i, program, f.nest, roles, target.math != Math::F32)) continue;
    for (const model::threads::MatrixTile& tile : model::threads::matrix_tiles) if (is_for(tile, i)) weigh(i, tile);
  }
  return best;
}

// Where a turn is longer than the reduction that it goes through, it may go through all of them as one.
std::optional<Chosen> chosen(
    const poly::Program& program, const Facts& f, int node, double parts, const Target& target) {
  if (target.family != Target::Family::Cuda) return std::nullopt;
  std::int64_t threads = 0;
  const auto leaf = staged_leaf(f, node, target, threads);
  if (!leaf) return std::nullopt;
  auto best = cheapest(program, f, *leaf, parts, target);
  if (!best || leaf->across()) return best;
  const lang::DType operand = matrix_instruction(best->leaf.as<forms::TensorCores>()->instruction)->operand;
  if (f.extent[staging_of(f.nest, *leaf)->depth] >= model::threads::matrix_stages[0].depth_bytes / lang::bytes(operand))
    return best;
  const auto across = staged_leaf(f, node, target, threads, Staged::Across);
  if (!across) return best;
  auto other = cheapest(program, f, *across, parts, target);
  return other && other->all < model::threads::better_tile * best->all ? other : best;
}

}  // namespace

std::optional<Compute> leaf_on_tensor_cores(
    const poly::Program& program, const Facts& f, int node, const Target& target) {
  auto best = chosen(program, f, node, 1, target);
  return best ? std::optional(std::move(best->leaf)) : std::nullopt;
}

std::optional<double> cycles_on_tensor_cores(
    const poly::Program& program, const Facts& f, double parts, const Target& target) {
  const auto best = chosen(program, f, 0, parts, target);
  return best && best->in_pieces ? std::optional(best->cycles) : std::nullopt;
}

std::optional<OnCores> contraction_on_cores(
    const poly::Program& program, const Nest& nest, const Target& target) {
  auto best = chosen(program, facts(nest, {}, target), 0, 1, target);
  if (!best) return std::nullopt;
  const auto* instruction = matrix_instruction(best->leaf.as<forms::TensorCores>()->instruction);
  return OnCores{instruction, best->all, best->in_pieces};
}

}  // namespace tilec::codegen
