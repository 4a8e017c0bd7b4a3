#include "codegen/same_grid.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "codegen/spelling.h"

namespace tilec::codegen {

namespace {

constexpr std::size_t most_kernels = 8;                // in one text
constexpr std::int64_t fewest_blocks = 1024;           // that fill any machine

// A kernel as what one thread of it does.
struct OfThread { const For* blocks; const For* threads; Body before; };

bool is_own(const Stmt& s) {
  return std::holds_alternative<View>(s.node) || std::holds_alternative<Let>(s.node) ||
      std::holds_alternative<Aligned>(s.node);
}

bool has_together(const Body& body) {
  return std::ranges::any_of(body, [](const Stmt& s) {
    if (const auto* loop = std::get_if<For>(&s.node)) return has_together(loop->body);
    if (const auto* branch = std::get_if<If>(&s.node))
      return has_together(branch->then) || has_together(branch->otherwise);
    if (const auto* made = std::get_if<Allocate>(&s.node)) return made->memory == Memory::Shared;
    return !is_own(s) && !std::holds_alternative<Store>(s.node);
  });
}

// The one loop of a body behind what is a thread's own.
const For* only_loop(const Body& body, Kind kind, Body& before) {
  const For* found = nullptr;
  for (const Stmt& s : body) {
    const auto* loop = std::get_if<For>(&s.node);
    if (found || (!loop && !is_own(s)) || (loop && (loop->kind != kind || !loop->advance.empty()))) return nullptr;
    if (loop) found = loop;
    else before.push_back(s);
  }
  return found;
}

std::optional<OfThread> of_thread(const Step& step) {
  const Function& kernel = step.loops.functions.back();
  OfThread one{};
  for (std::size_t k = 0; k < kernel.integers.size(); ++k)
    one.before.push_back(Let{kernel.integers[k], Expr(step.numbers[k])});
  one.blocks = only_loop(kernel.body, Kind::Block, one.before);
  if (one.blocks) one.threads = only_loop(one.blocks->body, Kind::Thread, one.before);
  return one.threads && !has_together(one.threads->body) ? std::optional(std::move(one)) : std::nullopt;
}

bool read_together(const Step& a, const Step& b) {
  const auto reads = [](const Step& step, int buffer) {
    const auto& views = step.loops.functions.back().views;
    for (std::size_t v = 0; v < step.buffers.size(); ++v)
      if (step.buffers[v] == buffer && views[v].direction == Direction::In) return true;
    return false;
  };
  return std::ranges::any_of(a.buffers, [&](int buffer) { return reads(a, buffer) && reads(b, buffer); });
}

}  // namespace

std::optional<Body> in_one_thread(const std::vector<Step>& steps) {
  if (steps.size() > most_kernels) return std::nullopt;
  std::vector<OfThread> all;
  for (const Step& step : steps) {
    auto one = of_thread(step);
    if (!one || !read_together(steps.front(), step)) return std::nullopt;
    all.push_back(std::move(*one));
  }
  const For &blocks = *all.front().blocks, &threads = *all.front().threads;
  const auto* count = blocks.extent.as<Constant>();
  if (!count || count->integer < fewest_blocks) return std::nullopt;
  Body body;
  for (OfThread& one : all) {
    if (!(one.blocks->extent == blocks.extent) || !(one.threads->extent == threads.extent)) return std::nullopt;
    Body own;
    const auto call = [&](const For& loop, const For& as) {
      if (loop.index != as.index) own.push_back(Let{loop.index, var(as.index)});
    };
    call(*one.blocks, blocks), call(*one.threads, threads);
    own.insert(own.end(), one.before.begin(), one.before.end());
    own.insert(own.end(), one.threads->body.begin(), one.threads->body.end());
    // a scope: names of one kernel are not those of another
    body.push_back(If{Expr(Constant{DType::Bool, 1}), std::move(own), {}});
  }
  Stmt of_block = For{threads.index, Kind::Thread, threads.extent, {}, std::move(body)};
  return Body{For{blocks.index, Kind::Block, blocks.extent, {}, {std::move(of_block)}}};
}

}  // namespace tilec::codegen
