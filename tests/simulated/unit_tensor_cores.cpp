// Random contractions on tensor cores under random blocks of warps, on simulated GPUs of sm_80 and sm_90a: bit for bit
// what the interpreter makes of them. The GPUs look at each access, at copies and products under way, and at
// descriptors.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "codegen/finishing.h"
#include "codegen/simt/emit.h"
#include "codegen/tensor_cores.h"
#include "poly/interpret.h"
#include "runtime/assemble.h"
#include "runtime/device.h"
#include "runtime/module.h"
#include "runtime/nvrtc.h"
#include "runtime/tensor.h"
#include "tests/backends/programs.h"
#include "tests/codegen/compiled.h"

namespace tilec::test {
namespace {

using namespace codegen;
using lang::DType;
using backends::Random;

struct Made { Stages stages; Request request; };

Made made_of(
    const std::string& text, const Sizes& sizes, const std::string& target, Until until, const std::string& plan) {
  Request request = request_for(sizes, *runtime::target_here(target));
  request.plan = PlanText{plan};
  CAPTURE(plan);
  return {compiled(text, request, until), request};
}

bool on_tensor_cores(const Plan& plan) {
  return std::ranges::any_of(plan.groups, [](const Group& group) {
    return std::ranges::any_of(group.body, [](const Compute& leaf) { return leaf.is<forms::TensorCores>(); });
  });
}

struct Drawn { std::string text; Sizes sizes; };

// A window over an image with zeros around it, whose rows bound m; or the gradient of its filter.
Drawn convolution(Random& random, const MatrixInstruction& i) {
  const std::string type(lang::name(i.operand)), wide(lang::name(i.accumulator));
  const int height = random.between(9, 14), width = random.between(9, 14),
            channels = 8 * random.between(3, 6) + (random.chance(3) ? 3 : 0),
            outputs = 8 * random.between(3, 6) + (random.chance(3) ? 5 : 0);
  Drawn d{"", {{"N", random.between(1, 3)}, {"H", height}, {"W", width}, {"C", channels}, {"O", outputs}}};
  const bool apart = random.chance(3);
  const std::string stride = apart ? "2 * " : "";
  if (apart) d.sizes["P"] = (height + 1) / 2, d.sizes["Q"] = (width + 1) / 2;
  else d.sizes["P"] = height, d.sizes["Q"] = width;
  if (random.chance(2))
    d.text = fmt::format(
        "function f({0} I[N, H, W, C], {0} K[3, 3, C, O]) -> ({1} R) {{ R[n, y, x, o: N, {3}, {4}, O] = +({1}(I[n, {2}y + j - 1, {2}x + k - 1, c]) * {1}(K[j, k, c, o])); }}",
        type, wide, stride, d.sizes["P"], d.sizes["Q"]);
  else
    d.text = fmt::format(
        "function f({0} I[N, H, W, C], {0} D[N, H, W, O]) -> ({1} R) {{ R[j, k, c, o: 3, 3, C, O] = +({1}(I[n, y + j - 1, x + k - 1, c]) * {1}(D[n, y, x, o])); }}",
        type, wide);
  d.sizes.erase("P"), d.sizes.erase("Q");
  return d;
}

// Batches, layouts, a second reduction that moves A, ragged sizes, results of other types, bounds of k, bytes beside
// floats of 16 bits.
Drawn contraction(Random& random, const MatrixInstruction& i) {
  const std::string type(lang::name(i.operand)), wide(lang::name(i.accumulator));
  if (random.chance(3)) return convolution(random, i);
  const bool batch = random.chance(3), taps = random.chance(3), swap_a = random.chance(2), swap_b = random.chance(2),
             swap_c = random.chance(3), triangle = batch && random.chance(2);
  const auto size = [&](int least, int most) {
    return random.chance(2) ? std::int64_t{16} * random.between(least / 16, most / 16) : random.between(least, most);
  };
  Drawn d{"", {{"M", size(64, 112)}, {"N", size(64, 128)}, {"K", size(64, 112)}}};
  if (batch) d.sizes["Z"] = 2;
  if (taps) d.sizes["R"] = 3, d.sizes["P"] = d.sizes["M"] + 2;
  const std::string z = batch ? "Z, " : "", at_z = batch ? "z, " : "", r = taps ? "R, " : "", at_r = taps ? "r, " : "";
  const std::string rows = taps ? "P" : "M", row = taps ? "i + r" : "i";
  const bool same = lang::is_float(i.operand) && random.chance(2);  // a product of f16 is one of f32 in a sum
  const auto factor = [&](const std::string& read) { return same ? read : wide + "(" + read + ")"; };
  const std::string a = swap_a ? fmt::format("A[{}k, {}]", at_z, row) : fmt::format("A[{}{}, k]", at_z, row),
                    b = swap_b ? fmt::format("B[{}{}j, k]", at_z, at_r) : fmt::format("B[{}{}k, j]", at_z, at_r);
  const std::string result = lang::is_float(i.operand) && random.chance(3) ? type : wide;
  const bool narrow = lang::is_float(i.operand) && lang::bytes(i.operand) == 2, bytes = narrow && random.chance(2),
             left = random.chance(2);
  const std::string byte = bytes ? random.pick({"i8", "u8"}) : type;
  d.text = fmt::format(
      "function f({0} A[{1}{2}], {13} B[{1}{3}{4}]) -> ({5} C) {{ C[{6}{7}: {12}{8}] = +({9} * {10}){11}; }}",
      left ? byte : type, z,
      swap_a ? "K, " + rows : rows + ", K", r, swap_b ? "N, K" : "K, N", result, at_z, swap_c ? "j, i" : "i, j",
      swap_c ? fmt::format("{}, {}", d.sizes["N"], d.sizes["M"]) : fmt::format("{}, {}", d.sizes["M"], d.sizes["N"]),
      factor(a), factor(b), triangle ? ", k < 37 + 30 * z" : "", batch ? "2, " : "", left ? type : byte);
  if (taps) d.sizes.erase("M");
  return d;
}

// The same sums as what others finish: beside a tensor of one dimension and one of all, in another order and type, and
// sometimes an output themselves.
Drawn finished(Random& random, Drawn d, DType wide) {
  const std::size_t body = d.text.find("{ "), open = d.text.find('[', body), colon = d.text.find(':', open),
                    close = d.text.find(']', colon), inputs = d.text.find(") -> (");
  const auto list = [](std::string text) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at != std::string::npos; at = text.find_first_of(", ", at)) {
      at = text.find_first_not_of(", ", at);
      parts.push_back(text.substr(at, text.find_first_of(", ", at) - at));
    }
    return parts;
  };
  std::vector<std::string> at = list(d.text.substr(open + 1, colon - open - 1)),
                           shape = list(d.text.substr(colon + 1, close - colon - 1));
  const std::string type(lang::name(wide)), of = fmt::format("{}", fmt::join(at, ", ")),
                    narrow = wide == DType::F32 ? random.pick({"f32", "bf16", "f16"}) : type;
  const bool keeps = random.chance(3), turned = random.chance(3);
  const std::string value =
      fmt::format("{}(max(S[{}] + Row[{}], All[{}] - {}({})))", narrow, of, at.back(), of, type, at.front());
  std::string text = d.text.substr(0, inputs) +
      fmt::format(", {0} Row[{1}], {0} All[{2}]) -> ({3} Done{4}) {{ S", type, shape.back(), fmt::join(shape, ", "), narrow,
          keeps ? fmt::format(", {} S", type) : "") +
      d.text.substr(open, d.text.size() - open - 1);
  if (turned) std::swap(at.front(), at.back()), std::swap(shape.front(), shape.back());
  d.text = text + fmt::format(" Done[{}: {}] = =({}); }}", fmt::join(at, ", "), fmt::join(shape, ", "), value);
  return d;
}

// Whether it multiplies copies alone, which have the bits that it takes.
bool rounded_before(const MatrixInstruction& i) { return i.from_shared() && i.operand == DType::F32; }

// Any block of warps that fits.
void draw(Compute& leaf, Group& group, const MatrixInstruction& i, Random& random) {
  auto& cores = *leaf.as<forms::TensorCores>();
  do {
    const bool wide = i.from_shared();
    cores.instruction = i.name, leaf.lanes = i.threads();
    leaf.rows = random.between(1, wide ? 2 : 4),
    leaf.vectors = wide ? 8 * random.between(1, 4) : 2 * random.between(1, 4);
    cores.warps_m = random.between(1, 3), cores.warps_n = random.between(1, wide ? 2 : 3);
    cores.depth = wide ? 128 / lang::bytes(i.operand) * random.between(1, 2) : i.k * random.between(1, 5),
    cores.buffers = random.between(wide ? 3 : 2, 4);
  } while (shared_bytes_of(leaf) > (i.from_shared() ? 227 : 99) << 10 || leaf.rows * leaf.vectors > 32);
  group.threads = cores.threads();
}

poly::Array drawn(const poly::Tensor& t, Random& random) {
  poly::Array a{t.dtype, {}, {}, {}};
  for (const poly::Size& n : t.shape) a.shape.push_back(n.get());
  for (std::int64_t k = 0; k < a.count(); ++k) {
    const int x = lang::is_float(t.dtype) || t.dtype == DType::I8 ? random.between(-5, 5) : random.between(0, 200);
    if (lang::is_float(t.dtype)) a.reals.push_back(x / 4.0);
    else a.integers.push_back(x * (t.dtype == DType::I8 ? 25 : 1));
  }
  return a;
}

std::string bytes_of(const poly::Array& a) {
  const runtime::Tensor t = runtime::allocate("t", a.dtype, a.shape);
  runtime::from_array(a, t);
  return {static_cast<const char*>(t.data), static_cast<std::size_t>(a.count() * lang::bytes(a.dtype))};
}

// Bit for bit, but for what is no number.
template <typename Bits> bool same_floats(const std::string& wanted, const char* got, Bits infinity) {
  const auto is_nan = [&](Bits x) { return static_cast<Bits>(x << 1) > static_cast<Bits>(infinity << 1); };
  for (std::size_t at = 0; at < wanted.size(); at += sizeof(Bits)) {
    Bits x = 0, y = 0;
    std::memcpy(&x, wanted.data() + at, sizeof(Bits)), std::memcpy(&y, got + at, sizeof(Bits));
    if (x != y && !(is_nan(x) && is_nan(y))) return false;
  }
  return true;
}
bool same(DType type, const std::string& wanted, const char* got) {
  if (type == DType::F32) return same_floats<std::uint32_t>(wanted, got, 0x7f800000);
  if (type == DType::F16) return same_floats<std::uint16_t>(wanted, got, 0x7c00);
  if (type == DType::BF16) return same_floats<std::uint16_t>(wanted, got, 0x7f80);
  return std::equal(wanted.begin(), wanted.end(), got);
}

// Bit for bit as the interpreter has it.
void check_run(const poly::Program& program, const runtime::Module& module, const std::vector<poly::Array>& inputs) {
  const poly::Interpretation wanted = poly::interpret(program, inputs);
  std::vector<std::string> given;
  for (const poly::Array& a : inputs) given.push_back(bytes_of(a));
  std::vector<void*> in;
  for (std::string& bytes : given) in.push_back(bytes.data());
  std::vector<std::string> right, got;
  for (const poly::Array& a : wanted.outputs) {
    right.push_back(bytes_of(a));
    got.emplace_back(right.back().size(), '?');
  }
  std::vector<void*> out;
  for (std::string& bytes : got) out.push_back(bytes.data());
  module.run(in.data(), out.data());
  for (std::size_t o = 0; o < got.size(); ++o) CHECK(same(wanted.outputs[o].dtype, right[o], got[o].data()));
}

// What is not rounded is a fault of the simulated GPU; what is, is as near as 11 bits are.
void check_rounded(const poly::Program& program, const runtime::Module& module, std::vector<poly::Array> inputs) {
  for (poly::Array& input : inputs) for (double& x : input.reals) x = x < 0 ? -1 - 0x1p-20 : 1 + 0x1p-20;
  const poly::Interpretation wanted = poly::interpret(program, inputs);
  const std::string left = bytes_of(inputs[0]), right = bytes_of(inputs[1]);
  std::string got(bytes_of(wanted.outputs[0]).size(), '?');
  const void* in[] = {left.data(), right.data()};
  void* out[] = {got.data()};
  module.run(const_cast<void**>(in), out);
  float first = 0;
  std::memcpy(&first, got.data(), 4);
  CHECK(std::abs(first - wanted.outputs[0].reals[0]) < 100 * 0x1p-10);
}

std::vector<poly::Array> drawn_inputs(const poly::Program& program, Random& random) {
  std::vector<poly::Array> inputs;
  for (const poly::TensorId id : program.inputs) inputs.push_back(drawn(program.tensor(id), random));
  return inputs;
}

void check_rounded_run(const poly::Program& program, const runtime::Module& module, Random& random) {
  const std::vector<poly::Array> inputs = drawn_inputs(program, random);
  check_run(program, module, inputs);
  check_rounded(program, module, inputs);
}

}  // namespace

TEST_CASE("random contractions are what the interpreter makes of them, under any block of warps") {
  struct Ready { Drawn drawn; std::string plan; Made made; };
  std::vector<Ready> ready;
  Random random(7);
  for (const MatrixInstruction& i : matrix_instructions())
    for (int n = 0, tries = 0; n < (rounded_before(i) ? 0 : i.only ? 3 : 4); ++n) {
      Drawn d = contraction(random, i);
      if (n % 2) d = finished(random, std::move(d), i.accumulator);
      CAPTURE(d.text);
      const std::string target =
          std::string(i.only ? "cuda:1" : "cuda") + (i.operand == DType::F32 ? ":math=tf32" : "");
      Stages stages = made_of(d.text, d.sizes, target, Until::Plan, "no split\n").stages;
      CHECK(finishes(stages.plan->groups.back()) == (on_tensor_cores(*stages.plan) && n % 2));
      if (!on_tensor_cores(*stages.plan)) {                // too small
        --n;
        REQUIRE(++tries < 50);
        continue;
      }
      for (Group& group : stages.plan->groups)
        for (Compute& leaf : group.body)
          if (leaf.is<forms::TensorCores>() && (n || i.only)) draw(leaf, group, i, random);
      const std::string plan = print(*stages.plan);
      Made made = made_of(d.text, d.sizes, target, Until::Lowered, "no split\n" + plan);
      CHECK(print(*made.stages.plan) == plan);
      REQUIRE(made.stages.lowered->steps.size() == 1);
      Step& step = made.stages.lowered->steps.back();
      step.kernel = step.loops.functions.back().name = fmt::format("k{}", ready.size());
      ready.push_back({d, plan, std::move(made)});
    }
  std::map<std::string, std::vector<const Loops*>> kernels;  // by architecture: a text each
  std::map<std::string, std::string> cubins;
  for (const Ready& r : ready)
    kernels[r.made.request.target.arch].push_back(&r.made.stages.lowered->steps.back().loops);
  CHECK(kernels.size() == 2);
  for (const auto& [arch, loops] : kernels)
    cubins[arch] = runtime::compile_cuda(simt::emit(loops, simt::Dialect::Cuda), arch).cubin;
  for (const Ready& r : ready) {
    CAPTURE(r.drawn.text);
    CAPTURE(r.plan);
    Package package = runtime::layout_of(*r.made.stages.lowered, r.made.request);
    package.form = Package::Code::Cubins, package.code = {cubins.at(r.made.request.target.arch)};
    const auto module = runtime::load_device(package);
    const poly::Program& program = *r.made.stages.bounded;
    std::vector<poly::Array> inputs = drawn_inputs(program, random);
    if (lang::is_float(program.tensor(program.outputs[0]).dtype) && !inputs[1].reals.empty() && random.chance(3))
      inputs[1].reals[static_cast<std::size_t>(random.between(0, static_cast<int>(inputs[1].reals.size()) - 1))] =
          std::numeric_limits<double>::infinity();
    check_run(program, *module, inputs);
  }
}

TEST_CASE("what threads store for their neighbours is there before sums that are not finite are made again") {
  Random random(12);
  const Made made = made_of(
      "function f(bf16 X[W, C], bf16 K[3, C, O]) -> (Y) { Y[x, o: W, O] = +(X[x + k - 1, c] * K[k, c, o]); }",
      {{"W", 256}, {"C", 16}, {"O", 16}}, "cuda:1", Until::Lowered,
      "group Y  threads 128\n  contract Y  m x  n o  k k c  block 2x2  lanes 32  stage 16  mma m16n8k16.bf16  warps 4x1  buffers 4\n");
  const auto module = runtime::load_device(runtime::assemble(*made.stages.lowered, made.request));
  std::vector<poly::Array> inputs = drawn_inputs(*made.stages.bounded, random);
  inputs[0].reals[0] = std::numeric_limits<double>::infinity();
  check_run(*made.stages.bounded, *module, inputs);
}

TEST_CASE("sums on tensor cores have parts where their tiles are few, in turns through all pixels") {
  const char* forward =
      "function f(f16 I[N, H, W, C], f16 K[3, 3, C, O]) -> (f32 R) { R[n, y, x, o: N, H, W, O] = +(f32(I[n, y + j - 1, x + k - 1, c]) * f32(K[j, k, c, o])); }";
  const char* filter =
      "function f(bf16 I[N, H, W, C], bf16 D[N, H, W, O]) -> (f32 K) { K[j, k, c, o: 3, 3, C, O] = +(f32(I[n, y + j - 1, x + k - 1, c]) * f32(D[n, y, x, o])); }";
  const auto chosen = [](const char* text, std::int64_t height, std::int64_t channels) {
    const Sizes sizes{{"N", 32}, {"H", height}, {"W", height}, {"C", channels}, {"O", channels}};
    return print(*made_of(text, sizes, "cuda:1", Until::Plan, "").stages.plan);
  };
  CHECK(chosen(forward, 14, 256).find("split") == std::string::npos);   // 98 tiles of 128 x 128
  CHECK(chosen(filter, 7, 512).find("split") == std::string::npos);     // 144
  const std::string few = chosen(filter, 28, 128);                      // 9
  CHECK(few.find("split K  over y  by 2\n") != std::string::npos);
  CHECK(few.find("mma m64n8k16.bf16  warps 2x1  buffers 4  across") != std::string::npos);
}

TEST_CASE("f32 that are multiplied as TF32 come rounded, whichever way they lie in memory") {
  Random random(9);
  const std::string target = "cuda:1:math=tf32";
  for (const char* a : {"A[M, K] A[i, k]", "A[K, M] A[k, i]"})
    for (const char* b : {"B[K, N] B[k, j]", "B[N, K] B[j, k]"}) {
      const auto shape = [](const std::string& both) { return both.substr(0, both.find("] ") + 1); };
      const auto read = [](const std::string& both) { return both.substr(both.find("] ") + 2); };
      const std::string text = fmt::format(
          "function f({}, {}) -> (C) {{ C[i, j: M, N] = +({} * {}); }}", shape(a), shape(b), read(a), read(b));
      CAPTURE(text);
      const Sizes large{{"M", 4096}, {"N", 4096}, {"K", 4096}}, small{{"M", 140}, {"N", 268}, {"K", 100}};
      const std::string chosen = print(*made_of(text, large, target, Until::Plan, "").stages.plan);
      CHECK(chosen.find("mma m64n8k8.tf32") != std::string::npos);
      const std::string plan =
          "group C  threads 256\n  contract C  m i  n j  k k  block 2x8  lanes 32  stage 32  mma m16n8k8.tf32  warps 4x2  buffers 3\n";
      const Made made = made_of(text, small, target, Until::Lowered, plan);
      const auto module = runtime::load_device(runtime::assemble(*made.stages.lowered, made.request));
      check_rounded_run(*made.stages.bounded, *module, random);
    }
}

TEST_CASE("f32 that four warps multiply as TF32 come rounded from copies, of any layout, in any block of warps") {
  struct Case { const char* text; Sizes sizes; const char *a, *b; };  // orders of the copies
  const Case cases[] = {
      {"function f(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
          {{"M", 140}, {"N", 268}, {"K", 100}}, "0 1", "1 0"},
      {"function f(A[Z, K, M], B[Z, N, K]) -> (C) { C[z, i, j: Z, M, N] = +(A[z, k, i] * B[z, j, k]), k < 37 + 30 * z; }",
          {{"M", 96}, {"N", 130}, {"K", 72}, {"Z", 2}}, "0 2 1", "0 1 2"},
      {"function f(A[M, K], B[N, K]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[j, k]); }",  // not in pieces of 16 bytes
          {{"M", 131}, {"N", 129}, {"K", 67}}, "0 1", "0 1"},
      {"function f(A[N, H, W, C], B[3, 3, C, O]) -> (R) { R[n, y, x, o: N, H, W, O] = +(A[n, y + j - 1, x + k - 1, c] * B[j, k, c, o]); }",
          {{"N", 2}, {"H", 9}, {"W", 11}, {"C", 36}, {"O", 72}}, "0 1 2 3", "0 1 3 2"},
      {"function f(A[N, H, W, O], B[3, 3, C, O]) -> (R) { R[n, y, x, c: N, H, W, C] = +(A[n, y - j + 1, x - k + 1, o] * B[j, k, c, o]); }",
          {{"N", 2}, {"H", 9}, {"W", 10}, {"C", 72}, {"O", 40}}, "0 1 2 3", "0 1 2 3"},
      {"function f(A[N, H, W, C], B[N, H, W, O]) -> (R) { R[j, k, c, o: 3, 3, C, O] = +(A[n, y + j - 1, x + k - 1, c] * B[n, y, x, o]); }",
          {{"N", 2}, {"H", 9}, {"W", 40}, {"C", 24}, {"O", 68}}, "0 1 3 2", "0 1 3 2"}};
  Random random(11);
  const std::string target = "cuda:1:math=tf32";
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const std::string result = std::string(c.text).find("(C)") == std::string::npos ? "R" : "C",
                      copies = fmt::format("no split\ncopy A  in {0}  order {1}  bits 11\ncopy B  in {0}  order {2}  bits 11\n",
                          result, c.a, c.b);
    Stages stages = made_of(c.text, c.sizes, target, Until::Plan, copies).stages;
    REQUIRE(on_tensor_cores(*stages.plan));
    for (Group& group : stages.plan->groups)
      for (Compute& leaf : group.body)
        if (leaf.is<forms::TensorCores>()) draw(leaf, group, *matrix_instruction("m64n8k8.tf32"), random);
    const Made made = made_of(c.text, c.sizes, target, Until::Lowered, "no split\n" + print(*stages.plan));
    const auto module = runtime::load_device(runtime::assemble(*made.stages.lowered, made.request));
    check_rounded_run(*made.stages.bounded, *module, random);
  }
}

TEST_CASE("pieces of 16 bytes come from copies in rows of whole ones, and of parts whose last one is short") {
  struct Case { const char* text; Sizes sizes; std::string before; };
  const auto copies = [](const char* result, const char* a, const char* b) {
    return fmt::format("no split\ncopy A  in {0}  order {1}  rows 8\ncopy B  in {0}  order {2}  rows 8\n", result, a, b);
  };
  const char *nn = "function f(bf16 A[M, K], bf16 B[K, N]) -> (f32 C) { C[i, j: M, N] = +(f32(A[i, k]) * f32(B[k, j])); }",
             *nt = "function f(bf16 A[M, K], bf16 B[N, K]) -> (f32 C) { C[i, j: M, N] = +(f32(A[i, k]) * f32(B[j, k])); }";
  const Case cases[] = {
      {nn, {{"M", 131}, {"N", 129}, {"K", 203}}, copies("C", "0 1", "0 1")},
      {nt, {{"M", 131}, {"N", 129}, {"K", 203}}, copies("C", "0 1", "0 1")},
      {"function f(bf16 A[Z, K, M], bf16 B[Z, N, K]) -> (f32 C) { C[z, i, j: Z, M, N] = +(f32(A[z, k, i]) * f32(B[z, j, k])), k < 37 + 30 * z; }",
          {{"M", 97}, {"N", 131}, {"K", 75}, {"Z", 2}}, copies("C", "0 1 2", "0 1 2")},
      {"function f(bf16 A[N, H, W, C], bf16 B[3, 3, C, O]) -> (f32 R) { R[n, y, x, o: N, H, W, O] = +(f32(A[n, y + j - 1, x + k - 1, c]) * f32(B[j, k, c, o])); }",
          {{"N", 2}, {"H", 9}, {"W", 11}, {"C", 37}, {"O", 71}}, copies("R", "0 1 2 3", "0 1 2 3")},
      {nt, {{"M", 65}, {"N", 72}, {"K", 600}}, "split C  over k  by 176\n"},
      {nt, {{"M", 65}, {"N", 72}, {"K", 604}}, "split C  over k  by 176\n"}};
  Random random(13);
  for (const Case& c : cases) {
    CAPTURE(c.text);
    Stages stages = made_of(c.text, c.sizes, "cuda:1", Until::Plan, c.before).stages;
    for (Group& group : stages.plan->groups)
      for (Compute& leaf : group.body)
        if (leaf.is<forms::TensorCores>()) draw(leaf, group, *matrix_instruction("m64n8k16.bf16"), random);
    REQUIRE(print(*stages.plan).find("m64n8k16") != std::string::npos);
    const Made made = made_of(c.text, c.sizes, "cuda:1", Until::Lowered,
        (c.before.starts_with("no split") ? "no split\n" : "") + print(*stages.plan));
    CHECK(simt::emit(*made.stages.lowered, simt::Dialect::Cuda).find("tc_copy_up_to_") != std::string::npos);
    const auto module = runtime::load_device(runtime::assemble(*made.stages.lowered, made.request));
    std::vector<poly::Array> inputs = drawn_inputs(*made.stages.bounded, random);
    check_run(*made.stages.bounded, *module, inputs);
  }
}

}  // namespace tilec::test
