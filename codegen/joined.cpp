// A run of steps grows while the next one may run beside all that are in it.
#include "codegen/joined.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "codegen/cover.h"
#include "codegen/simt/grid.h"

namespace tilec::codegen {
namespace {

using poly::Statement;

// What a multiprocessor has room for.
constexpr std::int64_t threads_at_once = 2048, blocks_at_once = 32, shared_at_once = 228 << 10;
constexpr std::size_t most_views = 64;                 // of a kernel: OpenCL promises 1024 bytes of arguments
constexpr std::int64_t most_blocks = simt::axis_limit[0];

std::int64_t room(const Body& kernel) {
  return std::min({threads_at_once / simt::threads_of(kernel), blocks_at_once,
      shared_at_once / std::max<std::int64_t>(1, simt::shared_bytes(kernel))});
}

bool is_block(const Stmt& s) {
  const For* loop = std::get_if<For>(&s.node);
  return loop && loop->kind == Kind::Block;
}

class Joiner {
 public:
  Joiner(Lowered package, const Plan& plan)
      : package_(std::move(package)), plan_(plan), buffer_(buffers(plan.program)) {}

  Lowered joined() {
    std::vector<Step> steps, run;
    const auto end_run = [&] {
      if (!run.empty()) steps.push_back(run.size() == 1 ? std::move(run[0]) : one_of(std::move(run)));
      run.clear();
    };
    for (Step& step : package_.steps) {
      if (!joins(run, step)) end_run();
      run.push_back(std::move(step));
    }
    end_run();
    package_.steps = std::move(steps);
    return std::move(package_);
  }

 private:
  static const Function& kernel(const Step& step) { return step.loops.functions.back(); }

  // Of a step's group; none where something else is done, or all of a buffer is filled for others.
  std::vector<const Statement*> statements(const Step& step) const {
    std::vector<const Statement*> all;
    for (const Compute& leaf : plan_.groups[step.groups[0]].body) {
      const auto* s = std::get_if<Statement>(&plan_.program.nodes[static_cast<std::size_t>(leaf.node)]);
      if (s == nullptr || leaf.is<forms::Fill>()) return {};
      all.push_back(s);
    }
    return all;
  }

  bool is_in(TensorId tensor, TensorId buffer) const {
    return buffer_[static_cast<std::size_t>(tensor)] == buffer;
  }

  // Two statements that have to do with one buffer, in which one writes at least.
  bool apart(const Statement& a, const Statement& b) const {
    const auto reads = [&](const Statement& s, TensorId buffer) {
      return std::ranges::any_of(s.reads, [&](const poly::Access& read) { return is_in(read.tensor, buffer); });
    };
    const auto buffer_of = [&](const Statement& s) { return buffer_[static_cast<std::size_t>(s.target.tensor)]; };
    return !reads(a, buffer_of(b)) && !reads(b, buffer_of(a)) && (buffer_of(a) != buffer_of(b) || disjoint(a, b));
  }

  // A kernel of Block loops alone has nothing that belongs to all of them.
  static bool is_plain(const Step& step) {
    const Body& body = kernel(step).body;
    return step.loops.functions.size() == 1 && step.loops.tables.empty() && kernel(step).integers.empty() &&
        std::ranges::all_of(body, is_block) && simt::blocks_of(body) > 0;
  }

  static bool alike(const Step& a, const Step& b) {
    const Body &x = kernel(a).body, &y = kernel(b).body;
    return simt::threads_of(x) == simt::threads_of(y) && room(x) == room(y) &&
        simt::has_copies(x) == simt::has_copies(y) && simt::multiplies_shared(x) == simt::multiplies_shared(y);
  }

  // Some buffer is written by both, and none by one and read by the other.
  static bool write_together(const Step& a, const Step& b) {
    bool any = false;
    for (std::size_t v = 0; v < a.buffers.size(); ++v)
      for (std::size_t w = 0; w < b.buffers.size(); ++w) {
        if (a.buffers[v] != b.buffers[w]) continue;
        const bool first = kernel(a).views[v].direction != Direction::In,
                   second = kernel(b).views[w].direction != Direction::In;
        if (first != second) return false;
        any = any || first;
      }
    return any;
  }

  bool joins(const std::vector<Step>& run, const Step& step) const {
    if (run.empty() || !is_plain(step) || !is_plain(run[0]) || !alike(run[0], step)) return false;
    const std::vector<const Statement*> own = statements(step);
    std::size_t views = step.buffers.size();
    std::int64_t blocks = simt::blocks_of(kernel(step).body);
    if (own.empty()) return false;
    for (const Step& other : run) {
      const std::vector<const Statement*> those = statements(other);
      views += other.buffers.size(), blocks += simt::blocks_of(kernel(other).body);
      const bool beside = !those.empty() && std::ranges::all_of(those, [&](const Statement* a) {
        return std::ranges::all_of(own, [&](const Statement* b) { return apart(*a, *b); });
      });
      if (!beside || !write_together(other, step) || views > most_views || blocks > most_blocks) return false;
    }
    return true;
  }

  // How much a block has to do, in points.
  double points_of_block(const Step& step) const {
    double points = 0;
    for (const Statement* s : statements(step)) {
      double box = 1;
      for (std::size_t k = 0; k < s->indices.size(); ++k)
        box *= static_cast<double>(std::max<std::int64_t>(1, s->domain[k].extent->get()));
      points += box;
    }
    return points / static_cast<double>(simt::blocks_of(kernel(step).body));
  }

  // A buffer's name is the same in all of them.
  static void add_views(Step& to, const Step& from) {
    std::vector<ViewParameter>& views = to.loops.functions.back().views;
    for (std::size_t v = 0; v < from.buffers.size(); ++v) {
      const ViewParameter& view = kernel(from).views[v];
      const auto known = std::ranges::find(to.buffers, from.buffers[v]) - to.buffers.begin();
      if (known == std::ssize(to.buffers)) {
        to.buffers.push_back(from.buffers[v]), views.push_back(view);
        continue;
      }
      ViewParameter& had = views[static_cast<std::size_t>(known)];
      had.alignment = std::max(had.alignment, view.alignment);
      if (had.direction != view.direction) had.direction = Direction::InOut;
    }
  }

  Step one_of(std::vector<Step> run) const {
    const std::string name = fmt::format("k{}_to_{}", run[0].groups[0], run.back().kernel);
    std::vector<std::size_t> groups;
    for (const Step& step : run) groups.push_back(step.groups[0]);
    std::ranges::stable_sort(run, std::greater(), [&](const Step& step) { return points_of_block(step); });
    Step one = std::move(run[0]);
    one.kernel = name, one.groups = std::move(groups);
    Function& whole = one.loops.functions.back();
    whole.name = name;
    for (std::size_t k = 1; k < run.size(); ++k) {
      add_views(one, run[k]);
      const Body& body = kernel(run[k]).body;
      whole.body.insert(whole.body.end(), body.begin(), body.end());
    }
    return one;
  }

  Lowered package_;
  const Plan& plan_;
  std::vector<TensorId> buffer_;
};

}  // namespace

Lowered join_steps(Lowered package, const Plan& plan) {
  if (std::ranges::none_of(plan.groups, [](const Group& group) { return group.threads > 0; })) return package;
  return Joiner(std::move(package), plan).joined();
}

}  // namespace tilec::codegen
