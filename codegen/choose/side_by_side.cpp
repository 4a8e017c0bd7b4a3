#include "codegen/choose/side_by_side.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "codegen/choose/staged.h"
#include "codegen/choose/tensor_cores.h"
#include "codegen/choose/threads.h"
#include "codegen/model/side_by_side.h"
#include "codegen/model/thresholds.h"
#include "codegen/numbered.h"
#include "codegen/scalar.h"
#include "codegen/spelling.h"

namespace tilec::codegen {

namespace {

namespace of = model::side_by_side;

// Which output a thread has all values of, of which one it has some, and along which threads lie.
struct Roles { std::size_t all, m, n; };

// Which outputs may have these roles.
class AllRoles {
 public:
  explicit AllRoles(const Facts& f) : f_(f), nest_(f.nest) {}

  std::vector<Roles> found() const {
    std::vector<Roles> roles;
    if (!has_groups()) return roles;
    const auto output = [&](std::size_t d) { return !nest_.dims[d].reduction && !f_.fixed[d] && extent(d) > 1; };
    for (std::size_t all = 0; all < nest_.dims.size(); ++all) {
      if (!output(all) || extent(all) > of::most_of_output || in_rows(nest_, all) || !is_shared(all) ||
          !is_whole_side(all))
        continue;
      const auto n = side_of_threads(all);
      if (!n) continue;
      for (std::size_t m = 0; m < nest_.dims.size(); ++m)
        if (output(m) && m != all && m != *n && is_shared(m) && !share_row(nest_, m, *n) && shares_little(m) &&
            (slides(m) || is_of_both(*n)))
          roles.push_back({all, m, *n});
    }
    if (std::ranges::any_of(roles, [&](const Roles& r) { return slides(r.m); }))
      std::erase_if(roles, [&](const Roles& r) { return !slides(r.m); });
    return roles;
  }

 private:
  std::int64_t extent(std::size_t d) const { return nest_.dims[d].extent; }
  bool moves(const FlatAccess& read, std::size_t d) const { return stride(read, d) != 0; }

  // Whether one read moves along d, and the other has no part in it.
  bool is_shared(std::size_t d) const { return moves(nest_.reads[0], d) != moves(nest_.reads[1], d); }
  // Whether nothing else moves along what d moves along, so that a tile has no more on this side.
  bool is_whole_side(std::size_t d) const {
    for (std::size_t o = 0; o < nest_.dims.size(); ++o)
      if (o != d && !nest_.dims[o].reduction && extent(o) > 1 && is_shared(o) &&
          moves(nest_.reads[0], o) == moves(nest_.reads[0], d))
        return false;
    return true;
  }
  bool has_groups() const {
    for (std::size_t d = 0; d < nest_.dims.size(); ++d)
      if (!nest_.dims[d].reduction && extent(d) > 1 && is_of_both(d)) return true;
    return false;
  }
  // Whether what values of d share is less than the result: the gradient of a filter sums over all of an image instead.
  bool shares_little(std::size_t d) const {
    const FlatAccess& read = nest_.reads[moves(nest_.reads[0], d) ? 1 : 0];
    double elements = 1, outputs = 1;
    for (std::size_t k = 0; k < nest_.dims.size(); ++k) {
      if (moves(read, k)) elements *= static_cast<double>(extent(k));
      if (!nest_.dims[k].reduction) outputs *= static_cast<double>(extent(k));
    }
    return elements < outputs;
  }
  bool is_of_both(std::size_t d) const { return moves(nest_.reads[0], d) && moves(nest_.reads[1], d); }
  // Whether so many steps of this length come to a place that another step goes to.
  static bool meets(std::int64_t far, std::int64_t step, std::int64_t count) {
    return far && step && far % step == 0 && std::abs(far / step) < count;
  }
  // Whether a window goes along d, so that neighbours read the same.
  bool slides(std::size_t d) const {
    return std::ranges::any_of(nest_.reads, [&](const FlatAccess& read) {
      if (!moves(read, d)) return false;
      for (std::size_t k = 0; k < nest_.dims.size(); ++k)
        if (nest_.dims[k].reduction && (meets(stride(read, d), stride(read, k), extent(k)) ||
                                           meets(stride(read, k), stride(read, d), extent(d))))
          return true;
      return false;
    });
  }
  // What lies side by side in the result, but for that one.
  std::optional<std::size_t> side_of_threads(std::size_t all) const {
    std::optional<std::size_t> least;
    for (std::size_t d = 0; d < nest_.dims.size(); ++d) {
      if (nest_.dims[d].reduction || f_.fixed[d] || d == all) continue;
      if (!least || std::abs(stride(nest_.target, d)) < std::abs(stride(nest_.target, *least))) least = d;
    }
    return least;
  }

  const Facts& f_;
  const Nest& nest_;
};

class Candidates {
 public:
  Candidates(const poly::Program& program, const Facts& f, const Target& target)
      : program_(program), f_(f), nest_(f.nest), target_(target) {}

  std::optional<SideBySideLeaf> best(int node) {
    std::optional<SideBySideLeaf> least;
    for (const Roles& roles : AllRoles(f_).found())
      for (std::int64_t most : {8, 4, 2}) {
        if (most * extent(roles.all) > of::most_sums) continue;
        Compute leaf = leaf_of(roles, balanced(extent(roles.m), most).most, node);
        const double now = cycles(leaf, roles);
        if (!least || now < least->cycles) least = SideBySideLeaf{std::move(leaf), now};
      }
    return least;
  }

 private:
  std::int64_t extent(std::size_t d) const { return nest_.dims[d].extent; }
  bool moves(const FlatAccess& read, std::size_t d) const { return stride(read, d) != 0; }

  // Reductions whose bounds are known last, and of these what lies side by side.
  std::vector<std::string> order_of_reductions(const Roles& roles) const {
    std::vector<std::size_t> k;
    for (std::size_t d = 0; d < nest_.dims.size(); ++d) if (nest_.dims[d].reduction) k.push_back(d);
    const auto rank = [&](std::size_t d) {
      bool bounded = false, contiguous = false;
      for (const Row& row : nest_.rows)
        for (std::size_t o = 0; o < nest_.dims.size(); ++o)
          bounded = bounded || (row.form.coefficients[d] && row.form.coefficients[o] && o != d && o != roles.m);
      for (const FlatAccess& read : nest_.reads) contiguous = contiguous || std::abs(stride(read, d)) == 1;
      return std::pair(!bounded, contiguous);
    };
    std::ranges::stable_sort(k, {}, rank);
    return names(nest_, k);
  }

  Compute leaf_of(const Roles& roles, std::int64_t rows, int node) const {
    Compute leaf;
    leaf.node = node;
    leaf.form = forms::Contract{};
    leaf.as<forms::Contract>()->outside = {nest_.dims[roles.all].name};
    leaf.set_m(nest_.dims[roles.m].name);
    leaf.n = nest_.dims[roles.n].name;
    leaf.rows = rows * extent(roles.all), leaf.vectors = 1, leaf.lanes = threads_of_a_block;
    leaf.k = order_of_reductions(roles);
    std::vector<std::size_t> outer;
    for (std::size_t d = 0; d < nest_.dims.size(); ++d)
      if (!nest_.dims[d].reduction && d != roles.all && d != roles.m && d != roles.n) outer.push_back(d);
    std::ranges::stable_sort(
        outer, std::greater(), [&](std::size_t d) { return std::abs(stride(nest_.target, d)); });
    leaf.outer = names(nest_, outer);
    return leaf;
  }

  // The steps that stand side by side: those of the last reductions of which there are not too many.
  struct Steps { std::vector<std::pair<std::size_t, std::int64_t>> counts; };
  Steps steps_of(const Compute& leaf) const {
    Steps steps;
    std::int64_t folds = leaf.rows;
    for (auto name = leaf.k.rbegin(); name != leaf.k.rend(); ++name) {
      const std::size_t d = *nest_.dim(*name);
      std::int64_t count = extent(d);
      if (steps.counts.empty())
        while (count > of::steps_of_part) count = count % 2 ? 1 : count / 2;
      if (folds * count > of::most_folds) break;
      folds *= count;
      steps.counts.emplace_back(d, count);
    }
    return steps;
  }

  // Where a read goes from these places on, for so many values of these dimensions.
  using Counts = std::vector<std::pair<std::size_t, std::int64_t>>;
  std::set<std::int64_t> spread(const FlatAccess& read, const Counts& counts, std::set<std::int64_t> from = {0}) const {
    for (const auto& [d, count] : counts) {
      if (!moves(read, d)) continue;
      std::set<std::int64_t> more;
      for (const std::int64_t at : from)
        for (std::int64_t u = 0; u < count; ++u) more.insert(at + u * stride(read, d));
      from = std::move(more);
    }
    return from;
  }

  // Accesses, and elements, that a read takes for all these steps of a thread.
  struct Loads { double accesses, elements; std::int64_t width; };
  Loads loads_of(const FlatAccess& read, const Compute& leaf, const Roles& roles, const Steps& steps) const {
    const std::int64_t bytes = lang::bytes(program_.tensor(read.tensor).dtype);
    std::int64_t width = neighbours_of(read, roles.all, bytes, of::most_neighbours);
    while (extent(roles.all) % width) width /= 2;
    if (!steps.counts.empty()) {
      std::int64_t along = neighbours_of(read, steps.counts.front().first, bytes, of::most_neighbours);
      while (steps.counts.front().second % along) along /= 2;
      width = std::max(width, along);
    }
    std::set<std::int64_t> places =
        spread(read, {{roles.all, extent(roles.all)}, {roles.m, leaf.rows / extent(roles.all)}});
    places = spread(read, steps.counts, std::move(places));
    const auto elements = static_cast<double>(places.size());
    return {elements / static_cast<double>(width), elements, width};
  }

  // Lines of memory that an access of a warp touches.
  double lines_of(const FlatAccess& read, const Compute& leaf, const Roles& roles, std::int64_t width) const {
    const std::int64_t bytes = lang::bytes(program_.tensor(read.tensor).dtype);
    const auto lanes =
        static_cast<double>(std::min(model::threads::warp, values_of_line(program_, nest_, leaf)));
    const auto touched = [&](double count, std::int64_t apart) {
      return apart ? std::max(1.0, std::ceil(count * static_cast<double>(std::abs(apart) * bytes) /
                                       static_cast<double>(of::line_bytes)))
                   : 1.0;
    };
    const double along = std::min(lanes, touched(lanes, stride(read, roles.n)));
    if (leaf.outer.empty()) return along;
    const double others = static_cast<double>(model::threads::warp) / lanes;
    const double around = std::min(others, touched(others, stride(read, *nest_.dim(leaf.outer.back()))));
    return std::max(along * around,
        moves(read, roles.n) ? static_cast<double>(model::threads::warp * width * bytes) /
                static_cast<double>(of::line_bytes) / (moves(read, *nest_.dim(leaf.outer.back())) ? 1 : others)
                             : 1.0);
  }

  // Of a thread: what it issues beside its folds, for all steps side by side; registers that wait for its accesses;
  // lines, and bytes of sectors, that its warp's touch; elements that registers hold.
  struct Taken {
    double folds, issued = 0, awaited = 0, lines = 0, bytes = 0, held = 0;
    bool wide = false;                                 // some access of the window brings neighbours
  };
  Taken taken_by(const Compute& leaf, const Roles& roles) const {
    const Steps steps = steps_of(leaf);
    Taken taken{static_cast<double>(leaf.rows)};
    for (const auto& [d, count] : steps.counts) taken.folds *= static_cast<double>(count);
    for (const FlatAccess& read : nest_.reads) {
      const Loads loads = loads_of(read, leaf, roles, steps);
      const bool narrow = lang::bytes(program_.tensor(read.tensor).dtype) < model::threads::narrow_bytes;
      taken.issued += loads.accesses + (narrow ? of::issued_of_narrow * loads.elements : 0);
      const double lines = lines_of(read, leaf, roles, loads.width), line = static_cast<double>(of::line_bytes),
                   bytes = static_cast<double>(
                       model::threads::warp * loads.width * lang::bytes(program_.tensor(read.tensor).dtype));
      taken.awaited += loads.accesses * std::max(1.0, bytes / static_cast<double>(model::threads::warp * 4));
      taken.lines += loads.accesses * lines;
      taken.bytes += loads.accesses * std::min(lines * line, std::max(bytes, model::threads::sector));
      if (!moves(read, roles.m)) continue;
      taken.held += of::held_of_element * loads.elements;
      taken.wide = taken.wide || loads.width > 1;
    }
    return taken;
  }

  // Bytes of all that a block reads and writes.
  double bytes_of_block(const Compute& leaf, const Roles& roles) const {
    const std::int64_t line = values_of_line(program_, nest_, leaf);
    std::int64_t left = ceil_divide(threads_of_a_block, line);
    double bytes = static_cast<double>(threads_of_a_block * leaf.rows * f_.stored);
    std::optional<std::size_t> around;
    std::int64_t values = 1;
    if (!leaf.outer.empty()) around = *nest_.dim(leaf.outer.back()), values = std::min(left, extent(*around));
    left = std::min(ceil_divide(left, values), extent(roles.n) / line);
    for (const FlatAccess& read : nest_.reads) {
      std::set<std::int64_t> places =
          spread(read, {{roles.all, extent(roles.all)}, {roles.m, leaf.rows / extent(roles.all)}});
      for (std::size_t d = 0; d < nest_.dims.size(); ++d)
        if (nest_.dims[d].reduction) places = spread(read, {{d, extent(d)}}, std::move(places));
      if (around) places = spread(read, {{*around, values}}, std::move(places));
      bytes += static_cast<double>(places.size() * static_cast<std::size_t>(moves(read, roles.n) ? line * left : 1)) *
          static_cast<double>(lang::bytes(program_.tensor(read.tensor).dtype));
    }
    return bytes;
  }

  double cycles(const Compute& leaf, const Roles& roles) const {
    const Taken taken = taken_by(leaf, roles);
    double each = static_cast<double>(leaf.rows);      // points of a thread
    for (std::size_t d = 0; d < nest_.dims.size(); ++d)
      if (nest_.dims[d].reduction) each *= static_cast<double>(f_.extent[d]);
    const double blocks = points(f_) / each / threads_of_a_block, turns = std::ceil(blocks / target_.multiprocessors),
                 warps = threads_of_a_block / static_cast<double>(model::threads::warp), units = each / taken.folds;
    // Of what blocks read, the first cache holds a part, and each access asks the second one for the others.
    const double registers = of::other_registers + static_cast<double>(leaf.rows) + taken.held,
                 resident = std::clamp(
                     std::floor(model::threads::registers / (threads_of_a_block * registers)), 1.0, turns),
                 block = bytes_of_block(leaf, roles);
    const double missed = std::max(0.0, 1 - of::first_cache / (resident * block)),
                 moved = block + missed * std::max(0.0, warps * units * taken.bytes - block);
    const double waits = std::ceil(turns / resident) * units * taken.awaited * of::waits_of_register,
                 issues = std::max((taken.folds + taken.issued) / model::threads::issues, taken.lines),
                 busy = turns * std::max(warps * units * issues, moved / model::threads::l2_bytes);
    return std::max(waits, (taken.wide ? of::not_hidden : of::not_hidden_one_by_one) * busy);
  }

  const poly::Program& program_;
  const Facts& f_;
  const Nest& nest_;
  const Target& target_;
};

bool may_be(const Facts& f, const Target& target) {
  const Nest& nest = f.nest;
  if (target.family != Target::Family::Cuda || nest.aggregation != Aggregation::Sum || nest.reads.size() != 2 ||
      nest.empty() || compute_type(nest.value->type()) != DType::F32)
    return false;
  const auto* product = nest.value->as<poly::Apply>();
  return product && product->op == lang::Op::Mul && identity_is_fill(nest) && !bounds_elements(nest);
}

}  // namespace

std::optional<SideBySideLeaf> leaf_side_by_side(
    const poly::Program& program, const Facts& f, int node, const Target& target) {
  if (!may_be(f, target)) return std::nullopt;
  return Candidates(program, f, target).best(node);
}

std::optional<SideBySideLeaf> cheapest_side_by_side(
    const poly::Program& program, const Facts& f, int node, const Target& target) {
  auto own = leaf_side_by_side(program, f, node, target);
  if (!own) return std::nullopt;
  double other = 0, values = 1;
  for (const Dim& dim : f.nest.dims) if (dim.reduction) values *= static_cast<double>(dim.extent);
  const auto staged = staged_cycles(f, 1, target);
  if (const auto cores = contraction_on_cores(program, f.nest, target))
    other = cores->cycles * (cores->in_pieces ? of::longer_in_pieces : of::longer_on_cores);
  else if (staged) other = *staged * values * of::longer_in_stages;
  else other = model::clearly_less * cycles_of_threads(f, 1, target);
  return own->cycles < other ? std::move(own) : std::nullopt;
}

}  // namespace tilec::codegen
