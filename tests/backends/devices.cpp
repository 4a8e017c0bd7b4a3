// Random programs and gradients on a device against the interpreter, many kernels to a translation unit: a compiler
// start costs more than a kernel. For CUDA without a GPU the text is compiled only, and so is machine code for a
// foreign CPU without its emulator.
//
//   devices [--target opencl | cuda:sm_90a | cpu:aarch64] [--seed S] [--cases N] [--gradients N] [--case K
//   [--gradient]] [--plans] [--narrow] [--drawn WORD]
//
// Exit status 77 (skipped) without a device, or without NVRTC.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "case.h"
#include "one_text.h"
#include "options.h"
#include "plans.h"
#include "codegen/simt/emit.h"
#ifdef TILEC_CPU
#include "emulated.h"
#endif
#include "runtime/assemble.h"
#include "runtime/device.h"
#include "runtime/nvrtc.h"

using namespace backends;

namespace {

struct Options {
  std::uint64_t seed = 1;
  int cases = 240, gradients = 60, batch = 30;
  std::optional<std::uint64_t> only;
  bool gradient = false, plans = false, narrow = false;  // plans: each is compiled as a random plan says; narrow:
                                                         // products of narrow types alone
  std::string target = "opencl";
  std::vector<std::string> drawn;                      // words that random plans must have had
};

struct Ready {
  Case c;
  codegen::Lowered package;
  std::size_t first = 0;                               // of its buffers among all
};

int passes = 0, failures = 0;
std::map<std::string, int> said;                       // words of random plans

void fail(const Case& c, const std::string& what) {
  ++failures;
  std::cout << fmt::format("FAILED {}\n{}", c.title(), c.program.text);
  for (const Input& i : c.program.inputs)
    std::cout << fmt::format("  {} {}[{}]\n", lang::name(i.dtype), i.name, fmt::join(i.shape, ", "));
  if (!c.plan.empty()) std::cout << "  planned\n" << c.plan;
  std::cout << "  " << what << "\n\n" << std::flush;
}

// Kernels get the case's number, so all cases fit in one package.
codegen::Lowered merged(std::vector<Ready>& all) {
  codegen::Lowered together;
  together.target = all.front().package.target;
  for (std::size_t k = 0; k < all.size(); ++k) {
    Ready& r = all[k];
    r.first = together.buffers.size();
    for (const codegen::Buffer& b : r.package.buffers) together.buffers.push_back(b);
    for (codegen::Step step : r.package.steps) {
      step.kernel = fmt::format("q{}_{}", k, step.kernel);
      step.loops.functions.back().name = step.kernel;
      for (int& b : step.buffers) b += static_cast<int>(r.first);
      together.steps.push_back(std::move(step));
    }
  }
  return together;
}

void judge(const Ready& r, runtime::Device& device, const std::vector<runtime::Memory>& memory) {
  for (std::size_t o = 0; o < r.c.wanted.outputs.size(); ++o) {
    const poly::Array& wanted = r.c.wanted.outputs[o];
    const runtime::Tensor host = runtime::allocate("output", wanted.dtype, wanted.shape);
    device.copy_out(host.data, memory[r.first + static_cast<std::size_t>(r.package.inputs) + o],
        host.count() * lang::bytes(host.dtype));
    const std::string wrong = compare(runtime::to_array(host), wanted, r.c.wanted.magnitudes[o]);
    if (!wrong.empty()) return fail(r.c, fmt::format("output {}: {}", o, wrong));
  }
  ++passes;
}

void run_batch(std::vector<Ready>& batch, runtime::Device& device) {
  const codegen::Lowered together = merged(batch);
  const auto kernels = device.load(in_one_text(together, *runtime::target_here(together.target)));
  std::vector<runtime::Memory> memory;
  for (const codegen::Buffer& b : together.buffers) memory.push_back(device.allocate(b.count() * lang::bytes(b.dtype)));
  for (const Ready& r : batch)
    for (std::size_t k = 0; k < r.c.inputs.size(); ++k) {
      const runtime::Tensor host = runtime::allocate("input", r.c.inputs[k].dtype, r.c.inputs[k].shape);
      runtime::from_array(r.c.inputs[k], host);
      device.copy_in(memory[r.first + k], host.data, host.count() * lang::bytes(host.dtype));
    }
  device.run(*kernels, memory);
  for (const Ready& r : batch) judge(r, device, memory);
}

// Of max(max(a, -b), c) in i32 or i16 some releases of ptxas forget the sign (Scalars::apart). The first such line of
// PTX; empty when there is none.
std::string forgettable_sign(const std::string& ptx) {
  std::set<std::string> negated, inner;                // registers; inner: `max.s32 %r7`, which has a negated operand
  std::istringstream lines(ptx);
  for (std::string line; std::getline(lines, line);) {
    std::ranges::replace_if(line, [](char c) { return c == ',' || c == ';' || c == '\t'; }, ' ');
    std::istringstream words(line);
    std::string op, to, a, b;
    words >> op >> to >> a >> b;
    if (op == ".visible") negated.clear(), inner.clear();  // a kernel begins: it has registers of its own
    if (op.starts_with("neg.s") || (op.starts_with("mov.") && negated.contains(a))) negated.insert(to);
    if (op != "max.s32" && op != "min.s32" && op != "max.s16" && op != "min.s16") continue;
    if (inner.contains(op + " " + a) || inner.contains(op + " " + b)) return line;
    if (negated.contains(a) || negated.contains(b)) inner.insert(op + " " + to);
  }
  return "";
}

void compile_batch(std::vector<Ready>& batch, const std::string& architecture) {
  const codegen::Lowered together = merged(batch);
  if (together.steps.empty()) return;
  const runtime::CudaObject object = runtime::compile_cuda(
      codegen::simt::emit(together, codegen::simt::Dialect::Cuda), architecture, runtime::CudaOutput::Ptx);
  if (const std::string line = forgettable_sign(object.ptx); !line.empty())
    throw lang::InternalError("ptxas may forget a sign: " + line);
  passes += static_cast<int>(batch.size());
}

// A batch that fails as a whole is tried again one by one.
template <class F> void each(std::vector<Ready>& batch, F work) {
  const int before = passes;
  try {
    return work(batch);
  } catch (const std::exception& e) {
    if (batch.size() == 1) return fail(batch.front().c, e.what());
  }
  passes = before;
  for (Ready& r : batch) {
    std::vector<Ready> one{std::move(r)};
    each(one, work);
  }
}

template <class F> void series(int wanted, bool gradient, const Options& options, F work) {
  const codegen::Target target = *runtime::target_here(options.target);
  std::vector<Ready> batch;
  int made = 0;
  std::uint64_t number = options.only.value_or(0);
  for (; made < wanted && number < options.only.value_or(0) + static_cast<std::uint64_t>(wanted) * 6; ++number) {
    Case c;
    try {
      c = make_case(options.seed, number, gradient, false, options.narrow);
      if (c.refused) continue;
      c.wanted = poly::interpret(c.bounded, c.inputs);
      codegen::Request request = c.request;
      request.target = target;
      lang::Diagnostics diagnostics;
      if (options.plans) {
        Random random(c.seed * 31 + c.number * 2 + c.gradient);
        c.plan = random_plan(c, request, random, said);
        request.plan = codegen::PlanText{c.plan, 0};
      }
      auto stages = codegen::compile(c.file, request, codegen::Until::Lowered, diagnostics);
      if (!stages) throw lang::InternalError("refused where the reference is not: " + diagnostics.all().back().message);
      if (const std::string wrong = options.plans ? "" : replay_fault(c, request, *stages); !wrong.empty())
        throw lang::InternalError(wrong);
      batch.push_back({std::move(c), std::move(*stages->lowered)});
      ++made;
    } catch (const std::exception& e) {
      fail(c, e.what());
    }
    if (static_cast<int>(batch.size()) >= options.batch) each(batch, work), batch.clear();
  }
  if (!batch.empty()) each(batch, work);
  std::cout << fmt::format("{} {}\n", made, gradient ? "gradients" : "programs");
}

Options arguments(int argc, char** argv) {
  Options o;
  read_options(argc, argv,
      {{"--seed", &o.seed}, {"--cases", &o.cases}, {"--gradients", &o.gradients}, {"--batch", &o.batch},
          {"--case", &o.only}, {"--gradient", &o.gradient}, {"--plans", &o.plans}, {"--narrow", &o.narrow},
          {"--drawn", &o.drawn}, {"--target", &o.target}});
  return o;
}

template <class F> int all(const Options& options, F work) {
  std::cout << "seed " << options.seed << ", " << options.target << std::endl;
  if (options.only) series(1, options.gradient, options, work);
  else {
    series(options.cases, false, options, work);
    series(options.gradients, true, options, work);
  }
  for (const std::string& word : options.drawn)
    if (!said.contains(word)) ++failures, std::cout << fmt::format("no plan had `{}`\n", word);
  for (const auto& [word, times] : said) std::cout << fmt::format("  {:20} {:7}\n", word, times);
  std::cout << fmt::format("{} passed, {} failed\n", passes, failures);
  return failures ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = arguments(argc, argv);
  std::string why;
#ifdef TILEC_CPU
  if (options.target.starts_with("cpu:")) {
    const codegen::Target target = *codegen::target_named(options.target);
    if (const std::string missing = Emulated::missing(); !missing.empty()) {
      std::cout << "compiled only: " << missing << "\n";
      return all(options, [&](std::vector<Ready>& batch) {
        object_for(merged(batch), target), passes += static_cast<int>(batch.size());
      });
    }
    Emulated device;
    return all(options, [&](std::vector<Ready>& batch) { run_batch(batch, device); });
  }
#endif
  try {
    const auto device = runtime::open_device(options.target);
    return all(options, [&](std::vector<Ready>& batch) { run_batch(batch, *device); });
  } catch (const runtime::RuntimeError& e) {
    why = e.what();
  }
  if (options.target.starts_with("cuda:") && !runtime::nvrtc_library(why).empty())
    return all(options, [&](std::vector<Ready>& batch) { compile_batch(batch, options.target.substr(5)); });
  std::cout << "skipped: " << why << "\n";
  return 77;
}
