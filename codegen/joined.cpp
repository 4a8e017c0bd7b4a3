// A run of steps grows while the next one may run beside all that are in it; what is alike in it is one launch.
#include "codegen/joined.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "codegen/cover.h"
#include "codegen/equal_kernels.h"
#include "codegen/lower.h"
#include "codegen/rewrite.h"
#include "codegen/same_grid.h"
#include "codegen/simt/grid.h"
#include "codegen/spelling.h"

namespace tilec::codegen {
namespace {

using poly::Statement;

// What a multiprocessor has room for.
constexpr std::int64_t threads_at_once = 2048, blocks_at_once = 32, shared_at_once = 228 << 10;
constexpr std::size_t most_views = 64;                 // of a kernel: OpenCL promises 1024 bytes of arguments
constexpr std::int64_t most_blocks = simt::axis_limit[0];
constexpr std::size_t most_steps = 256;                // of a run: each is compared with all
constexpr std::size_t most_kernels = 16;               // in one: the device's compiler sees a function

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
    for (const Step& step : package_.steps) ++uses_[step.kernel];
    const auto end_run = [&] {
      for (std::vector<Step>& some : launches(std::move(run))) {
        if (some.size() > 1 && is_whole(some)) steps.push_back(one_of(std::move(some)));
        else std::ranges::move(some, std::back_inserter(steps));
      }
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

  // No kernel of the run is that of a step elsewhere, which would need it besides.
  bool is_whole(const std::vector<Step>& run) const {
    return std::ranges::all_of(run, [&](const Step& step) {
      return std::ranges::count(run, step.kernel, &Step::kernel) == uses_.at(step.kernel);
    });
  }

  // Block loops alone, and views that equal_kernels has put in front of them; parameters are called as the buffers.
  bool is_plain(const Step& step) const {
    const Function& f = kernel(step);
    const auto is_view = [](const Stmt& s) { return std::holds_alternative<View>(s.node); };
    if (step.loops.functions.size() != 1 || !step.loops.tables.empty() || simt::blocks_of(f.body) == 0 ||
        !std::ranges::any_of(f.body, is_block) ||
        !std::ranges::all_of(f.body, [&](const Stmt& s) { return is_block(s) || is_view(s); }))
      return false;
    for (std::size_t v = 0; v < step.buffers.size(); ++v)
      if (package_.buffers[static_cast<std::size_t>(step.buffers[v])].name != f.views[v].name) return false;
    return true;
  }

  static bool alike(const Step& a, const Step& b) {
    const Body &x = kernel(a).body, &y = kernel(b).body;
    return simt::threads_of(x) == simt::threads_of(y) && room(x) == room(y) &&
        simt::has_copies(x) == simt::has_copies(y) && simt::multiplies_shared(x) == simt::multiplies_shared(y);
  }

  // A run, in whatever order: those with blocks alike, a limited number of kernels, each with all its steps.
  static std::vector<std::vector<Step>> launches(std::vector<Step> run) {
    std::vector<std::vector<Step>> all;
    std::vector<std::set<std::string>> kernels;
    for (Step& step : run) {
      std::size_t k = 0;
      while (k < all.size() && !kernels[k].contains(step.kernel)) ++k;
      if (k == all.size())
        for (k = 0; k < all.size() && (kernels[k].size() == most_kernels || !alike(all[k][0], step));) ++k;
      if (k == all.size()) all.emplace_back(), kernels.emplace_back();
      kernels[k].insert(step.kernel);
      all[k].push_back(std::move(step));
    }
    return all;
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

  // Whether all that it does is to copy a tensor for others, which stands beside the copy of another operand.
  bool copies_operand(const std::vector<const Statement*>& step) const {
    if (step.size() != 1 || step[0]->reads.size() != 1 || step[0]->aggregation != Aggregation::Assign ||
        is_output(plan_.program, step[0]->target.tensor))
      return false;
    const auto* rounds = step[0]->value.as<poly::Apply>();
    const poly::Expr& value = rounds && rounds->op == Op::Tf32 ? rounds->operands[0] : step[0]->value;
    return value.as<poly::Read>() != nullptr;
  }

  bool joins(const std::vector<Step>& run, const Step& step) const {
    if (run.empty() || run.size() == most_steps || !is_plain(step) || !is_plain(run[0])) return false;
    const std::vector<const Statement*> own = statements(step);
    std::set<int> views(step.buffers.begin(), step.buffers.end());
    std::int64_t blocks = simt::blocks_of(kernel(step).body);
    if (own.empty()) return false;
    for (const Step& other : run) {
      const std::vector<const Statement*> those = statements(other);
      views.insert(other.buffers.begin(), other.buffers.end()), blocks += simt::blocks_of(kernel(other).body);
      const bool beside = !those.empty() && std::ranges::all_of(those, [&](const Statement* a) {
        return std::ranges::all_of(own, [&](const Statement* b) { return apart(*a, *b); });
      });
      const bool together = write_together(other, step) || (copies_operand(own) && copies_operand(those));
      if (!beside || !together || views.size() > most_views || blocks > most_blocks) return false;
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

  // The steps of one kernel are turns of an outer loop, which looks up the numbers of each.
  static void append(Step& to, std::span<const Step> alike, Names& names) {
    const Function& from = kernel(alike[0]);
    Body& whole = to.loops.functions.back().body;
    if (from.integers.empty() && alike.size() == 1) {
      whole.insert(whole.end(), from.body.begin(), from.body.end());
      return;
    }
    Body turn;
    for (std::size_t k = 0; k < from.integers.size(); ++k) {
      Table table{names.fresh(from.integers[k] + "_of"), {}};
      for (const Step& step : alike) table.values.push_back(step.numbers[k]);
      turn.push_back(Let{from.integers[k], Load{table.name, var("part"), DType::I64}});
      to.loops.tables.push_back(std::move(table));
    }
    turn.insert(turn.end(), from.body.begin(), from.body.end());
    whole.push_back(For{"part", Kind::Block, Expr(std::ssize(alike)), {}, std::move(turn)});
  }

  Step one_of(std::vector<Step> run) const {
    Step one;
    Names names;
    one.kernel = fmt::format("k{}_to_{}", run[0].groups[0], kernel_name(plan_, run.back().groups[0]));
    one.loops.functions.push_back({one.kernel, {}, {}, {}});
    for (const Step& step : run) {
      one.groups.push_back(step.groups[0]);
      add_views(one, step);
    }
    for (const ViewParameter& view : one.loops.functions.back().views) names.take(view.name);
    std::map<std::string, double> points;              // of a block of each kernel
    for (const Step& step : run) points[step.kernel] = std::max(points[step.kernel], points_of_block(step));
    std::ranges::stable_sort(run, [&](const Step& a, const Step& b) {
      return std::pair(-points[a.kernel], std::string_view(a.kernel)) <
          std::pair(-points[b.kernel], std::string_view(b.kernel));
    });
    if (auto body = in_one_thread(run)) {
      one.loops.functions.back().body = std::move(*body);
      return one;
    }
    for (std::size_t k = 0, end = 0; k < run.size(); k = end) {
      while (end < run.size() && run[end].kernel == run[k].kernel) ++end;
      append(one, std::span(run).subspan(k, end - k), names);
    }
    return one;
  }

  Lowered package_;
  const Plan& plan_;
  std::vector<TensorId> buffer_;
  std::map<std::string, std::ptrdiff_t> uses_;         // of each kernel
};

}  // namespace

Lowered join_steps(Lowered package, const Plan& plan) {
  if (std::ranges::none_of(plan.groups, [](const Group& group) { return group.threads > 0; })) return package;
  return Joiner(std::move(package), plan).joined();
}

Lowered launches(const Plan& plan, const Strides& strides, const Target& target) {
  return join_steps(share_kernels(lower(plan, strides, target)), plan);
}

}  // namespace tilec::codegen
