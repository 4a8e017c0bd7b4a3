// Random Gathers, Scatters and Sorts, as Programs made by hand: the interpreter against the definition, a backend
// against the interpreter.
//
//   intrinsics [--target cpu | cpu:x86-64-v3 | cpu:aarch64 | opencl | cuda:sm_90a] [--seed S] [--cases N] [--case K]
//   [--long N]
//
// --long: one row of N keys, timed. Exit status 77 (skipped) without a device, or without NVRTC.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <numeric>

#include "case.h"
#include "one_text.h"
#include "options.h"
#include "codegen/fuse.h"
#include "codegen/lower.h"
#include "codegen/schedule.h"
#include "codegen/simt/emit.h"
#ifdef TILEC_CPU
#include "emulated.h"
#endif
#include "poly/bounds.h"
#include "poly/verify.h"
#include "runtime/assemble.h"
#include "runtime/device.h"
#include "runtime/machine.h"
#include "runtime/module.h"
#include "runtime/nvrtc.h"

using namespace backends;

namespace {

int failures = 0, passes = 0;

struct Trial {
  std::uint64_t number = 0;
  poly::Program program;
  std::vector<poly::Array> inputs;
  poly::Interpretation wanted;
  codegen::Request request;                            // strides of the inputs
  codegen::Lowered package;
};

void fail(const Trial& t, const std::string& what) {
  ++failures;
  std::cout << "FAILED --case " << t.number << "\n";
  for (const auto& tensor : t.program.tensors) {
    std::string shape;
    for (const auto& n : tensor.shape) shape += (shape.empty() ? "" : ", ") + n.print();
    std::cout << fmt::format("  {} {}[{}]\n", lang::name(tensor.dtype), tensor.name, shape);
  }
  for (const auto& [name, strides] : t.request.strides)
    std::cout << fmt::format("  {} has strides {}\n", name, fmt::join(strides, ", "));
  std::cout << fmt::format("  {}\n\n", what) << std::flush;
}

// ---- programs

poly::TensorId add(poly::Program& program, const std::string& name, DType type, const Shape& shape) {
  poly::Tensor tensor{name, type, {}, {}};
  for (const std::int64_t n : shape) tensor.shape.emplace_back(n);
  program.tensors.push_back(tensor);
  return static_cast<poly::TensorId>(program.tensors.size()) - 1;
}

// to[…] = =(-from[…])
poly::Statement negated(const poly::Program& program, poly::TensorId to, poly::TensorId from) {
  const auto& tensor = program.tensor(to);
  poly::Statement s{{to, {}}, {}, {}, poly::Aggregation::Assign,
      poly::Expr(poly::Apply{lang::Op::Neg, {poly::Expr(poly::Read{0, tensor.dtype})}, tensor.dtype}), {{from, {}}},
      poly::Number{tensor.dtype}, {}, "", {}, {}};
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const auto index = poly::Affine::index(d, tensor.shape.size());
    s.indices.push_back(fmt::format("i{}", d));
    s.target.element.push_back(index), s.reads[0].element.push_back(index),
        s.domain.push_back({index, tensor.shape[d]});
  }
  return s;
}

Shape shape_of(Random& random, int rank) {
  Shape shape;
  for (int d = 0; d < rank; ++d)
    shape.push_back(random.chance(10) ? 0 : random.pick<std::int64_t>({1, 1, 2, 3, 5, 7, 16, 17, 31}));
  return shape;
}
Shape joined(std::initializer_list<Shape> parts) {
  Shape all;
  for (const Shape& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

poly::Array keys_of(Random& random, DType type, const Shape& shape) {
  poly::Array a = random_array(random, type, shape);
  const int kinds = random.pick({2, 5, 1000});         // many equal ones, or few
  for (double& x : a.reals)
    if (random.chance(2))
      x = poly::round_to(
          type, random.pick<double>({HUGE_VAL, -HUGE_VAL, std::nan(""), -0.0, 0.0, 1.0 * random.below(kinds)}));
  for (std::int64_t& x : a.integers) if (random.chance(2)) x = poly::wrap_to(type, random.below(kinds));
  return a;
}

poly::Array indices_of(Random& random, DType type, const Shape& shape, std::int64_t extent) {
  poly::Array a{type, shape, {}, {}};
  for (std::int64_t k = 0; k < a.count(); ++k) {
    const std::int64_t wild = random.pick<std::int64_t>(
        {-1, -1000, INT64_MIN, INT64_MAX, extent, extent + 5, static_cast<std::int64_t>(random.bits())});
    a.integers.push_back(poly::wrap_to(
        type, random.chance(8) ? wild : random.below(static_cast<int>(std::max<std::int64_t>(1, extent)))));
  }
  return a;
}

const std::vector<DType> all_types(std::begin(lang::all_dtypes), std::end(lang::all_dtypes));
const std::vector<DType> integer_types{
    DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16, DType::I32, DType::I64};

Trial trial(std::uint64_t seed, std::uint64_t number) {
  Random random(seed * 1'000'003 + number);
  Trial t;
  t.number = number;
  poly::Program& p = t.program;
  p.name = "f";
  const DType type = random.pick(all_types), index_type = random.pick(integer_types);
  const Shape batch = shape_of(random, random.below(3));
  const auto input = [&](const char* name, DType dtype, const Shape& shape) {
    return p.inputs.emplace_back(add(p, name, dtype, shape));
  };
  // Through a statement of its own, so that fusion meets the Intrinsic.
  const auto made = [&](poly::TensorId id) {
    if (type == DType::Bool || !random.chance(4)) return id;
    const auto shape = codegen::extents(p.tensor(id));
    const auto other = add(p, "T", type, shape);
    p.nodes.emplace_back(negated(p, other, id));
    return other;
  };
  poly::TensorId target = -1;
  if (random.chance(3)) {
    const bool is_long = random.chance(5);             // in few rows: the definition is quadratic
    const Shape shape = is_long ? Shape{random.pick<std::int64_t>({1, 2}), random.pick<std::int64_t>({300, 1025, 3000})}
                                : joined({batch, {random.pick<std::int64_t>({0, 1, 2, 3, 17, 64, 127})}});
    t.inputs.push_back(keys_of(random, type, shape));
    const auto keys = made(input("X", type, shape));
    target = add(p, "I", DType::I32, shape);
    p.nodes.emplace_back(poly::Intrinsic{poly::IntrinsicOp::Sort, {target}, {keys}, {poly::Size(random.below(2))}, {}});
  } else {
    const bool gathers = random.chance(2);
    const std::int64_t extent = random.chance(12) ? 0 : random.pick<std::int64_t>({1, 2, 5, 17, 100, 300});
    const Shape index =
        random.chance(4) ? Shape{random.pick<std::int64_t>({100, 257, 2000})} : shape_of(random, random.below(3));
    const Shape rest =
        random.chance(6) ? Shape{random.pick<std::int64_t>({64, 100, 333})} : shape_of(random, random.below(3));
    const Shape rows = joined({batch, {extent}, rest}), terms = joined({batch, index, rest}),
                indices = joined({batch, index});
    t.inputs = {random_array(random, type, gathers ? rows : terms), indices_of(random, index_type, indices, extent)};
    const auto data = input("D", type, gathers ? rows : terms), where = input("W", index_type, indices);
    const DType sum = lang::is_float(type) ? random.pick({type, type, DType::F32})
        : type == DType::Bool              ? DType::I32
                                           : random.pick({type, DType::I64});
    target = add(p, "O", gathers ? type : sum, gathers ? terms : rows);
    const auto from = made(data);
    p.nodes.emplace_back(poly::Intrinsic{gathers ? poly::IntrinsicOp::Gather : poly::IntrinsicOp::Scatter, {target},
        {from, where}, {poly::Size(static_cast<std::int64_t>(batch.size()))}, {}});
  }
  p.outputs = {target};
  if (p.tensor(target).dtype != DType::Bool && random.chance(4)) {
    p.outputs.push_back(add(p, "Y", p.tensor(target).dtype, codegen::extents(p.tensor(target))));
    p.nodes.emplace_back(negated(p, p.outputs.back(), target));
  }
  if (random.chance(6)) {                              // and under another shape
    std::int64_t count = 1;
    for (const auto n : codegen::extents(p.tensor(target))) count *= n;
    p.outputs.push_back(add(p, "Z", p.tensor(target).dtype, {count}));
    p.nodes.emplace_back(
        poly::Intrinsic{poly::IntrinsicOp::Reshape, {p.outputs.back()}, {target}, {poly::Size(count)}, {}});
  }
  for (std::size_t k = 0; k < p.inputs.size(); ++k) {
    const auto shape = t.inputs[k].shape;
    if (!random.chance(4) || shape.size() < 2) continue;
    Shape reversed(shape.rbegin(), shape.rend()), strides = codegen::row_major(reversed);
    t.request.strides[p.tensor(p.inputs[k]).name] = Shape(strides.rbegin(), strides.rend());
  }
  return t;
}

// ---- the definition, once more and otherwise

// A tensor's element as a number, exact for what these programs add up.
long double number(const poly::Array& a, std::int64_t at) {
  const auto k = static_cast<std::size_t>(at);
  return lang::is_float(a.dtype) ? static_cast<long double>(a.reals[k])
      : a.dtype == DType::U64    ? static_cast<long double>(static_cast<std::uint64_t>(a.integers[k]))
                                 : static_cast<long double>(a.integers[k]);
}

std::string against_definition(const Trial& t) {
  const auto& last = std::get<poly::Intrinsic>(*std::find_if(t.program.nodes.begin(), t.program.nodes.end(),
      [](const auto& n) { return std::holds_alternative<poly::Intrinsic>(n); }));
  if (last.operands[0] != t.program.inputs[0]) return "";  // through a statement
  const poly::Array &x = t.inputs[0], &got = t.wanted.outputs[0];
  const auto product = [](auto begin, auto end) {
    return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
  };
  const auto element = [&](std::int64_t k) { return number(got, k); };
  const auto same = [](long double a, long double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  if (last.op == poly::IntrinsicOp::Sort) {
    const std::int64_t length = x.shape.back(), rows = product(x.shape.begin(), x.shape.end() - 1);
    const bool down = !last.parameters[0].is(0);
    const auto before = [&](long double a, long double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < length; ++i) {      // its place: how many go before it
        std::int64_t place = 0;
        for (std::int64_t j = 0; j < length; ++j) {
          const auto a = number(x, row * length + i), b = number(x, row * length + j);
          const bool first = down ? before(a, b) : before(b, a), later = down ? before(b, a) : before(a, b);
          place += first || (!later && j < i);
        }
        if (element(row * length + place) != static_cast<long double>(i))
          return fmt::format("row {}: element {} is not in place {}", row, i, place);
      }
    return "";
  }
  const auto batch = static_cast<std::ptrdiff_t>(last.parameters[0].get());
  const poly::Array& w = t.inputs[1];
  const std::int64_t batches = product(w.shape.begin(), w.shape.begin() + batch),
                     many = product(w.shape.begin() + batch, w.shape.end());
  const bool gathers = last.op == poly::IntrinsicOp::Gather;
  const Shape& rows = gathers ? x.shape : got.shape;
  const std::int64_t extent = rows[static_cast<std::size_t>(batch)],
                     rest = product(rows.begin() + batch + 1, rows.end());
  std::vector<long double> sums(static_cast<std::size_t>(gathers ? 0 : got.count()), 0);
  for (std::int64_t b = 0; b < batches; ++b)
    for (std::int64_t j = 0; j < many; ++j) {
      const long double c = number(w, b * many + j);
      const std::int64_t row = c < 0                 ? 0
          : c > static_cast<long double>(extent - 1) ? extent - 1
                                                     : static_cast<std::int64_t>(c);
      for (std::int64_t r = 0; r < rest; ++r) {
        const std::int64_t term = (b * many + j) * rest + r, at = (b * extent + row) * rest + r;
        if (gathers && !same(element(term), extent == 0 ? 0 : number(x, at)))
          return fmt::format("element {} is not element {}", term, at);
        if (!gathers && extent > 0) sums[static_cast<std::size_t>(at)] += number(x, term);
      }
    }
  for (std::size_t k = 0; k < sums.size(); ++k) {
    const long double wrong = sums[k] - element(static_cast<std::int64_t>(k));
    if (!lang::is_float(got.dtype)) {
      if (std::fabs(static_cast<double>(sums[k])) < 30000 && lang::bits(got.dtype) >= 32 && wrong != 0)
        return fmt::format("sum {} is wrong", k);
      continue;                                        // narrow ones wrap
    }
    if (std::isfinite(static_cast<double>(sums[k])) &&
        std::fabs(static_cast<double>(wrong)) > 8 * epsilon(got.dtype) * t.wanted.magnitudes[0][k] + 1e-30)
      return fmt::format("sum {} is wrong", k);
  }
  return "";
}

// ---- backends

// Not in this process: on row-major copies of the tensors.
bool elsewhere(const codegen::Target& target) {
#ifdef TILEC_CPU
  if (target.family == codegen::Target::Family::Cpu)
    return !runtime::cannot_run(
        target.triple.substr(0, target.triple.find('-')), codegen::llvm_backend::features_of(target))
                .empty();
#endif
  return codegen::has_threads(target);
}

codegen::Lowered package_of(const Trial& t, const codegen::Target& target) {
  codegen::Strides strides;
  for (const auto& tensor : t.program.tensors) {
    const auto given = t.request.strides.find(tensor.name);
    strides.push_back(given == t.request.strides.end() || elsewhere(target)
            ? codegen::row_major(codegen::extents(tensor))
            : given->second);
  }
  const codegen::Fused fused = codegen::fuse(t.program, strides, {}, target);
  const codegen::Plan plan = codegen::schedule(fused, target);
  codegen::verify(plan, fused.strides);
  std::string message;
  const auto groups = codegen::parse_groups(codegen::print(plan), plan.program, message);
  if (!groups || *groups != plan.groups) throw lang::InternalError("the plan does not read back: " + message);
  codegen::Lowered package = codegen::lower(plan, fused.strides, target);
  for (const auto& step : package.steps) codegen::verify(step.loops);
  return package;
}

void judge(const Trial& t, const std::vector<runtime::Tensor>& outputs) {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const std::string wrong = compare(runtime::to_array(outputs[o]), t.wanted.outputs[o], t.wanted.magnitudes[o]);
    if (!wrong.empty()) return fail(t, fmt::format("output {}: {}", o, wrong));
  }
  ++passes;
}

void run_on_cpu(const Trial& t, const codegen::Target& target) {
  const auto module = runtime::load_cpu(runtime::assemble(t.package, target), 0);
  std::vector<runtime::Tensor> inputs, outputs;
  std::vector<void*> in, out;
  for (std::size_t k = 0; k < t.inputs.size(); ++k) {
    inputs.push_back(runtime::allocate("input", t.inputs[k].dtype, t.inputs[k].shape));
    inputs.back().strides = t.package.buffers[k].strides;
    runtime::from_array(t.inputs[k], inputs.back());
    in.push_back(inputs.back().data);
  }
  for (const poly::Array& wanted : t.wanted.outputs) {
    outputs.push_back(runtime::allocate("output", wanted.dtype, wanted.shape));
    out.push_back(outputs.back().data);
  }
  module->run(in.data(), out.data());
  judge(t, outputs);
}

codegen::Lowered merged(std::vector<Trial>& trials, std::vector<std::size_t>& first) {
  codegen::Lowered together;
  together.target = trials.front().package.target;
  for (std::size_t k = 0; k < trials.size(); ++k) {
    first.push_back(together.buffers.size());
    for (const auto& b : trials[k].package.buffers) together.buffers.push_back(b);
    for (codegen::Step step : trials[k].package.steps) {
      step.kernel = step.loops.functions.back().name = fmt::format("q{}_{}", k, step.kernel);
      for (int& b : step.buffers) b += static_cast<int>(first.back());
      together.steps.push_back(std::move(step));
    }
  }
  return together;
}

void run_on_device(std::vector<Trial>& trials, runtime::Device& device) {
  std::vector<std::size_t> first;
  const codegen::Lowered together = merged(trials, first);
  const auto kernels = device.load(in_one_text(together, *codegen::target_named(together.target)));
  std::vector<runtime::Memory> memory;
  for (const auto& b : together.buffers) memory.push_back(device.allocate(b.count() * lang::bytes(b.dtype)));
  for (std::size_t k = 0; k < trials.size(); ++k)
    for (std::size_t i = 0; i < trials[k].inputs.size(); ++i) {
      const runtime::Tensor host = runtime::allocate("input", trials[k].inputs[i].dtype, trials[k].inputs[i].shape);
      runtime::from_array(trials[k].inputs[i], host);
      device.copy_in(memory[first[k] + i], host.data, host.count() * lang::bytes(host.dtype));
    }
  device.run(*kernels, memory);
  for (std::size_t k = 0; k < trials.size(); ++k) {
    std::vector<runtime::Tensor> outputs;
    for (const poly::Array& wanted : trials[k].wanted.outputs) {
      outputs.push_back(runtime::allocate("output", wanted.dtype, wanted.shape));
      device.copy_out(outputs.back().data,
          memory[first[k] + static_cast<std::size_t>(trials[k].package.inputs) + outputs.size() - 1],
          outputs.back().count() * lang::bytes(wanted.dtype));
    }
    judge(trials[k], outputs);
  }
}

void compile_only(std::vector<Trial>& trials, const codegen::Target& target) {
  std::vector<std::size_t> first;
  const codegen::Lowered together = merged(trials, first);
#ifdef TILEC_CPU
  if (target.family == codegen::Target::Family::Cpu) object_for(together, target);
#endif
  if (!together.steps.empty() && codegen::has_threads(target))
    runtime::compile_cuda(
        codegen::simt::emit(together, codegen::simt::Dialect::Cuda), target.arch, runtime::CudaOutput::Ptx);
  passes += static_cast<int>(trials.size());
}

struct Options {
  std::uint64_t seed = 1;
  int cases = 200;
  std::optional<std::uint64_t> only;
  std::string target = "cpu";
  std::int64_t length = 0;
};

Options arguments(int argc, char** argv) {
  Options o;
  read_options(argc, argv,
      {{"--seed", &o.seed}, {"--cases", &o.cases}, {"--case", &o.only}, {"--target", &o.target}, {"--long", &o.length}});
  if (o.only) o.cases = 1;
  return o;
}

// One row of this many keys.
Trial long_row(std::uint64_t seed, std::int64_t length) {
  Random random(seed);
  Trial t;
  t.program.inputs = {add(t.program, "X", DType::F32, {length})};
  t.program.outputs = {add(t.program, "I", DType::I32, {length})};
  t.program.nodes.emplace_back(
      poly::Intrinsic{poly::IntrinsicOp::Sort, t.program.outputs, t.program.inputs, {poly::Size(0)}, {}});
  t.inputs.push_back({DType::F32, {length}, {}, {}});
  for (std::int64_t k = 0; k < length; ++k) t.inputs[0].reals.push_back(random.below(1 << 20));
  return t;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = arguments(argc, argv);
  const codegen::Target target = *codegen::target_named(options.target);
  std::cout << fmt::format("seed {}, {}\n", options.seed, options.target);
  std::shared_ptr<runtime::Device> device;
  std::string why;
  if (codegen::has_threads(target)) {
    try {
      device = runtime::open_device(options.target);
    } catch (const runtime::RuntimeError& e) {
      why = e.what();
      if (target.family != codegen::Target::Family::Cuda || runtime::nvrtc_library(why).empty())
        return std::cout << "skipped: " << why << "\n", 77;
    }
  }
#ifdef TILEC_CPU
  if (elsewhere(target) && !codegen::has_threads(target)) {
    if (const std::string missing = Emulated::missing(); missing.empty()) device = std::make_shared<Emulated>();
    else std::cout << "compiled only: " << missing << "\n";
  }
#endif
  std::vector<Trial> batch;
  const auto flush = [&] {
    if (batch.empty()) return;
    try {
      device ? run_on_device(batch, *device) : compile_only(batch, target);
    } catch (const std::exception& e) {
      fail(batch.front(), std::string("a batch from this case on: ") + e.what());
    }
    batch.clear();
  };
  for (int k = 0; k < options.cases; ++k) {
    Trial t = options.length ? long_row(options.seed, options.length)
                             : trial(options.seed, options.only.value_or(0) + static_cast<std::uint64_t>(k));
    if (options.length) k = options.cases;
    try {
      poly::verify(t.program, poly::Stage::Bounded);
      t.wanted = poly::interpret(t.program, t.inputs);
      if (const auto wrong = options.length ? "" : against_definition(t); !wrong.empty())
        fail(t, "the interpreter: " + wrong);
      t.package = package_of(t, target);
      const auto start = std::chrono::steady_clock::now();
      if (elsewhere(target)) batch.push_back(std::move(t));
      else run_on_cpu(t, target);
      if (options.length)
        std::cout << fmt::format(
            "{:.3f} s\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    } catch (const std::exception& e) {
      fail(t, e.what());
    }
    if (batch.size() >= 40) flush();
  }
  flush();
  std::cout << fmt::format("{} passed, {} failed\n", passes, failures);
  return failures ? 1 : 0;
}
