// Random programs and gradients on the CPU, for two instruction sets, against the interpreter.
//
//   property [--seed S] [--cases N] [--gradients N] [--case K [--gradient]] [--target cpu:…] [--kind WORD] [--plans]
//   [--every] [--vmap] [--pool] [--show] [--caches BYTES]
//
// Batches take turns at the two; with --every, or as one case, each program is compiled for both.
//
// With --plans each is compiled as a random plan says; without, the print of what was chosen is followed to the same
// kernels.
//
// With --vmap each is a program for a batch, whose elements the interpreter also computes one by one.
//
// With --caches the second-level cache has so few bytes, the first a quarter, the last four times as many: what is
// chosen for large tensors is chosen for these.
//
// Programs of a batch are one module of machine code. Tensors lie against forbidden pages; those of some have strides
// that are permuted, padded, negative or zero. Each program runs twice, the second time on several threads with --pool,
// and must give the same bits.
#include <fmt/format.h>

#include <setjmp.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "case.h"
#include "codegen/llvm/emit.h"
#include "guarded.h"
#include "options.h"
#include "plans.h"
#include "codegen/locals.h"
#include "runtime/code.h"
#include "runtime/parallel.h"

using namespace backends;

namespace {

struct Options {
  std::uint64_t seed = 1;
  int cases = 2000, gradients = 500;
  std::int64_t caches = 0;
  std::optional<std::uint64_t> only;
  bool gradient = false, show = false, pool = false, plans = false, vmap = false, every = false;
  std::string kind;                                    // only programs that start so: `lattice`
#ifdef __aarch64__
  std::vector<std::string> targets{"cpu", "cpu:aarch64"};
#else
  std::vector<std::string> targets{"cpu", "cpu:x86-64-v3"};
#endif
};

int failures = 0, passes = 0;
std::map<std::string, double> spent;
std::map<std::string, int> said;                       // words of random plans

void fail(const Case& c, const std::string& target, const std::string& what) {
  ++failures;
  std::cout << fmt::format("FAILED {}  on {}\n{}", c.title(), target, c.program.text);
  for (std::size_t k = 0; k < c.inputs.size(); ++k) {
    const poly::Array& a = c.inputs[k];
    std::cout << fmt::format(
        "  {} {}[{}]", lang::name(a.dtype), c.bounded.tensor(c.bounded.inputs[k]).name, fmt::join(a.shape, ", "));
    for (std::size_t e = 0; e < 6 && e < static_cast<std::size_t>(a.count()); ++e)
      std::cout << (lang::is_float(a.dtype) ? fmt::format(" {}", a.reals[e])
              : !lang::is_signed(a.dtype)   ? fmt::format(" {}", static_cast<std::uint64_t>(a.integers[e]))
                                            : fmt::format(" {}", a.integers[e]));
    std::cout << "\n";
  }
  for (const auto& [name, strides] : c.request.strides)
    std::cout << fmt::format("  {} has strides {}\n", name, fmt::join(strides, ", "));
  if (!c.plan.empty()) std::cout << "  planned\n" << c.plan;
  std::cout << "  " << what << "\n\n" << std::flush;
}

// ---- signals: a kernel that strays ends its case, not the test

sigjmp_buf escape;
volatile sig_atomic_t inside = 0;
void on_signal(int signal) {
  if (inside) siglongjmp(escape, signal);
  std::_Exit(128 + signal);
}
template <class F> int guarded_run(F f) {
  const int signal = sigsetjmp(escape, 1);
  if (signal == 0) {
    inside = 1;
    f();
  }
  inside = 0;
  return signal;
}

// ---- strides

// A layout of the shape, and where element 0 stands in its `room` elements.
struct Layout { std::vector<std::int64_t> strides; std::int64_t first = 0, room = 0; };
Layout layout_of(Random& random, const Shape& shape, bool plain) {
  Layout layout{codegen::row_major(shape), 0, 1};
  for (const std::int64_t n : shape) layout.room *= n;
  if (plain || shape.empty() || layout.room == 0) return layout;
  std::vector<std::size_t> order(shape.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  for (std::size_t d = order.size(); d > 1; --d)
    std::swap(order[d - 1], order[static_cast<std::size_t>(random.below(static_cast<int>(d)))]);
  std::int64_t stride = random.pick({1, 1, 1, 2, 3}), last = 0;
  for (const std::size_t d : order) {
    layout.strides[d] = random.chance(8) ? 0 : random.chance(4) ? -stride : stride;
    if (layout.strides[d] < 0) layout.first += stride * (shape[d] - 1);
    last += std::abs(layout.strides[d]) * (shape[d] - 1);
    if (layout.strides[d]) stride = stride * shape[d] + random.pick({0, 0, 1, 5});
  }
  layout.room = last + 1;
  return layout;
}

// ---- one target

struct Ready {
  Case* c;
  codegen::Lowered package;
  std::size_t prefix;                                  // of its kernels' names
};

using EntryPoint = void (*)(void* const* views, const tilec_parallel* pool, void* locals);

std::optional<codegen::Lowered> package_of(Case& c, const codegen::Target& target, const Options& options) {
  codegen::Request request = c.request;
  request.target = target;
  lang::Diagnostics diagnostics;
  try {
    if (options.plans) {
      Random random(c.seed * 31 + c.number * 2 + c.gradient + target.name.size());
      request.plan = codegen::PlanText{random_plan(c, request, random, said), 0};
      c.plan = request.plan->text;
    }
    const std::clock_t start = std::clock();             // of this process: others may be at work
    auto stages = codegen::compile(c.file, request, codegen::Until::Lowered, diagnostics);
    const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    spent["pipeline"] += took;
    if (took > 1) fail(c, target.name, fmt::format("compiling took {:.2f} s", took));
    if (stages && !options.plans)
      if (const std::string wrong = replay_fault(c, request, *stages); !wrong.empty()) fail(c, target.name, wrong);
    if (stages && options.show) std::cout << target.name << "\n" << codegen::print(*stages->plan);
    if (stages) return std::move(*stages->lowered);
    fail(c, target.name, "refused where the reference is not: " + diagnostics.all().back().message);
  } catch (const std::exception& e) {
    fail(c, target.name, e.what());
  }
  return std::nullopt;
}

std::string run_once(const Ready& r, const tilec::runtime::Code& code, bool behind, const tilec_parallel* pool,
    std::vector<poly::Array>& got) {
  const codegen::Lowered& p = r.package;
  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<runtime::Tensor> tensors;
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    const codegen::Buffer& buffer = p.buffers[b];
    std::int64_t least = 0, most = 0;
    bool empty = false;
    for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
      const std::int64_t reach = buffer.strides[d] * (buffer.shape[d] - 1);
      (reach < 0 ? least : most) += reach;
      empty = empty || buffer.shape[d] == 0;
    }
    const std::int64_t size = lang::bytes(buffer.dtype), room = empty ? 0 : most - least + 1;
    memory.push_back(std::make_unique<Guarded>(static_cast<std::size_t>(room * size), behind));
    tensors.push_back({static_cast<unsigned char*>(memory.back()->data()) - least * size, buffer.dtype, buffer.shape,
        buffer.strides, {kDLCPU, 0}, nullptr});
    if (b < static_cast<std::size_t>(p.inputs)) runtime::from_array(r.c->inputs[b], tensors.back());
  }
  for (const codegen::Step& step : p.steps) {
    void* const symbol = code.symbol(fmt::format("q{}_{}", r.prefix, step.kernel));
    if (!symbol) return "kernel " + step.kernel + " is missing";
    std::vector<void*> views;
    for (const int b : step.buffers) views.push_back(tensors[static_cast<std::size_t>(b)].data);
    for (const std::int64_t number : step.numbers) views.push_back(reinterpret_cast<void*>(number));
    Guarded locals(static_cast<std::size_t>(codegen::local_bytes(step.loops) * pool->workers), behind);
    const int signal = guarded_run([&] { reinterpret_cast<EntryPoint>(symbol)(views.data(), pool, locals.data()); });
    if (!locals.untouched()) return "a store outside the locals of " + step.kernel;
    if (signal) return fmt::format("kernel {} stopped by signal {}", step.kernel, signal);
  }
  for (std::size_t b = 0; b < memory.size(); ++b)
    if (!memory[b]->untouched()) return "a store outside `" + p.buffers[b].name + "`";
  got.clear();
  for (int o = 0; o < p.outputs; ++o) got.push_back(runtime::to_array(tensors[static_cast<std::size_t>(p.inputs + o)]));
  return "";
}

bool same_bits(const poly::Array& a, const poly::Array& b) {
  for (std::size_t n = 0; n < a.reals.size(); ++n)
    if (a.reals[n] != b.reals[n] && !(std::isnan(a.reals[n]) && std::isnan(b.reals[n]))) return false;
  return a.integers == b.integers;
}

void judge(
    const Ready& r, const std::string& target, const tilec::runtime::Code& code, bool behind, const Options& options) {
  std::vector<poly::Array> got, again;
  std::string wrong = run_once(r, code, behind, runtime::serial_pool(), got);
  if (wrong.empty())
    wrong = run_once(r, code, !behind, options.pool ? runtime::default_pool() : runtime::serial_pool(), again);
  for (std::size_t o = 0; o < got.size() && wrong.empty(); ++o) {
    std::vector<double> magnitudes = r.c->wanted.magnitudes[o];
    if (options.plans)
      std::ranges::transform(
          magnitudes, magnitudes.begin(), [by = in_one_register(r.c->bounded)](double m) { return m * by; });
    wrong = compare(got[o], r.c->wanted.outputs[o], magnitudes);
    if (wrong.empty() && !same_bits(got[o], again[o])) wrong = "two runs differ";
    if (!wrong.empty()) wrong = "output " + std::to_string(o) + ": " + wrong;
  }
  if (wrong.empty()) ++passes;
  else fail(*r.c, target, wrong);
}

std::vector<std::string> objects_of(
    const std::vector<Ready>& batch, const codegen::Target& target, std::vector<codegen::Loops>& keep) {
  keep.clear();
  std::set<std::string> seen;                          // steps that are alike call one kernel
  for (const Ready& r : batch)
    for (const codegen::Step& step : r.package.steps) {
      const std::string name = fmt::format("q{}_{}", r.prefix, step.kernel);
      if (!seen.insert(name).second) continue;
      keep.push_back(step.loops);
      keep.back().functions.back().name = name;
    }
  std::vector<const codegen::Loops*> kernels;
  for (const codegen::Loops& l : keep) kernels.push_back(&l);
  if (kernels.empty()) return {};
  return {codegen::llvm_backend::emit(kernels, target).object};
}

void run_batch(std::vector<Case>& cases, const std::string& name, const Options& options) {
  codegen::Target target = *codegen::target_named(name);
  if (options.caches > 0) target.l1 = options.caches / 4, target.l2 = options.caches, target.l3 = 4 * options.caches;
  std::vector<Ready> batch;
  for (std::size_t k = 0; k < cases.size(); ++k)
    if (auto package = package_of(cases[k], target, options)) batch.push_back({&cases[k], std::move(*package), k});
  std::vector<codegen::Loops> keep;
  const auto start = std::chrono::steady_clock::now();
  const auto alone = [&](std::vector<Ready> some) {
    const auto code = std::make_unique<tilec::runtime::Code>(objects_of(some, target, keep));
    spent["llvm " + name] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (const Ready& r : some) judge(r, name, *code, r.c->number % 2 == (name == "cpu"), options);
  };
  try {
    alone(batch);
    return;
  } catch (const std::exception&) {
  }
  for (const Ready& r : batch) {                       // one of them is at fault: which?
    try {
      alone({r});
    } catch (const std::exception& e) {
      fail(*r.c, name, e.what());
    }
  }
}

// Outputs may lie anywhere too, each element in a place of its own.
void strided_outputs(Case& c, Random& random) {
  for (std::size_t o = 0; o < c.bounded.outputs.size(); ++o) {
    const poly::Tensor& t = c.bounded.tensor(c.bounded.outputs[o]);
    if (random.chance(2)) continue;
    Shape shape;
    for (const poly::Size& n : t.shape) shape.push_back(n.get());
    const Layout layout = layout_of(random, shape, false);
    if (std::find(layout.strides.begin(), layout.strides.end(), 0) == layout.strides.end())
      c.request.output_strides[o] = layout.strides;
  }
}

void strided(Case& c) {
  Random random(c.seed * 77 + c.number);
  if (random.chance(8)) strided_outputs(c, random);
  if (!random.chance(4)) return;
  for (std::size_t k = 0; k < c.bounded.inputs.size(); ++k) {
    const poly::Tensor& t = c.bounded.tensor(c.bounded.inputs[k]);
    if (random.chance(3)) continue;
    const Layout layout = layout_of(random, c.inputs[k].shape, false);
    c.request.strides[t.name] = layout.strides;
    if (std::find(layout.strides.begin(), layout.strides.end(), 0) == layout.strides.end()) continue;
    std::vector<unsigned char> room(static_cast<std::size_t>(layout.room * lang::bytes(t.dtype)));
    const runtime::Tensor view{room.data() + layout.first * lang::bytes(t.dtype), t.dtype, c.inputs[k].shape,
        layout.strides, {kDLCPU, 0}, nullptr};
    runtime::from_array(c.inputs[k], view);
    c.inputs[k] = runtime::to_array(view);
  }
}

std::optional<Case> prepare(std::uint64_t number, bool gradient, const Options& options, int& refused) {
  Case c;
  try {
    auto start = std::chrono::steady_clock::now();
    c = make_case(options.seed, number, gradient, options.vmap);
    spent["front"] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (c.refused) {
      ++refused;
      if (options.show) std::cout << c.title() << "\n" << c.program.text << c.refusal << "\n";
      return std::nullopt;
    }
    strided(c);
    start = std::chrono::steady_clock::now();
    c.wanted = poly::interpret(c.bounded, c.inputs);
    if (const std::string wrong = differs_from_elements(c); !wrong.empty())
      return fail(c, "reference", wrong), std::nullopt;
    spent["interpreter"] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  } catch (const std::exception& e) {
    Random random(options.seed * 1'000'003 + number * 2 + gradient);
    c.seed = options.seed, c.number = number, c.gradient = gradient;
    c.program = random_program(random, gradient);
    fail(c, "reference", e.what());
    return std::nullopt;
  }
  return c;
}

void series(int wanted, bool gradient, const Options& options) {
  int refused = 0, made = 0;
  std::uint64_t number = options.only.value_or(0);
  std::vector<Case> batch;
  std::size_t batches = 0;
  const auto flush = [&] {
    if (batch.empty()) return;
    const std::size_t turn = batches++ % options.targets.size();
    for (std::size_t k = 0; k < options.targets.size(); ++k)
      if (options.every || options.only || k == turn) run_batch(batch, options.targets[k], options);
    batch.clear();
  };
  for (; made < wanted &&
      number < static_cast<std::uint64_t>(wanted) * (options.kind.empty() ? 6 : 99) + options.only.value_or(0);
      ++number) {
    auto c = prepare(number, gradient, options, refused);
    if (options.only && !c) break;
    if (!c || !c->program.kind.starts_with(options.kind)) continue;
    ++made;
    batch.push_back(std::move(*c));
    if (batch.size() >= 24) flush();
  }
  flush();
  std::cout << fmt::format("{} {}, {} refused\n", made, gradient ? "gradients" : "programs", refused);
  if (made < wanted) std::cout << "too many refused\n", ++failures;
}

Options arguments(int argc, char** argv) {
  Options o;
  std::vector<std::string> targets;
  read_options(argc, argv,
      {{"--seed", &o.seed}, {"--cases", &o.cases}, {"--gradients", &o.gradients}, {"--case", &o.only},
          {"--kind", &o.kind}, {"--gradient", &o.gradient}, {"--caches", &o.caches}, {"--target", &targets},
          {"--show", &o.show}, {"--pool", &o.pool}, {"--plans", &o.plans}, {"--vmap", &o.vmap},
          {"--every", &o.every}});
  if (!targets.empty()) o.targets = targets;
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = arguments(argc, argv);
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(s, on_signal);
  std::cout << "seed " << options.seed << "\n";
  if (options.only) series(1, options.gradient, options);
  else {
    series(options.cases, false, options);
    series(options.gradients, true, options);
  }
  for (const auto& [what, seconds] : spent) std::cout << fmt::format("  {:20} {:7.2f} s\n", what, seconds);
  for (const auto& [word, times] : said) std::cout << fmt::format("  {:20} {:7}\n", word, times);
  std::cout << fmt::format("{} passed, {} failed\n", passes, failures);
  return failures ? 1 : 0;
}
