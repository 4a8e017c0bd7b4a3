// Random programs, forward and gradient, compiled for OpenCL, run on a device and compared with the interpreter. All of
// them are one translation unit: a compiler start costs more than a kernel. TILEC_SEED and TILEC_CASES choose others.
// 77: no device.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "codegen/pipeline.h"
#include "lang/check.h"
#include "lang/parse.h"
#include "lang/render.h"
#include "poly/interpret.h"
#include "runtime/assemble.h"
#include "runtime/opencl.h"
#include "runtime/tensor.h"

using namespace tilec;
using lang::DType;

namespace {

// ---- programs, as text

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  std::string text;
  std::vector<poly::Given> inputs;

  void program() {
    constexpr DType types[] = {DType::F32, DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32,
        DType::I64, DType::I8, DType::U16, DType::U32};
    type_ = types[below(11)];
    text.clear(), inputs.clear(), shapes_.clear();
    std::string parameters, body;
    for (int n = 1 + below(2), k = 0; k < n; ++k) {
      const std::string name(1, static_cast<char>('A' + k));
      shapes_.push_back({name, shape()});
      poly::Given given{name, type_, std::vector<poly::Size>{}, {}, false};
      std::string sizes;
      for (std::size_t d = 0; d < shapes_.back().second.size(); ++d) {
        sizes += fmt::format("{}{}{}", d ? ", " : "", name, d);
        given.shape->emplace_back(shapes_.back().second[d]);
      }
      parameters += fmt::format("{}{}[{}]", k ? ", " : "", name, sizes);
      inputs.push_back(std::move(given));
    }
    const int statements = 1 + below(3);
    for (int k = 0; k < statements; ++k) body += "  " + statement("T" + std::to_string(k)) + "\n";
    const std::string last = "T" + std::to_string(statements - 1);
    text = fmt::format(
        "function f({}) -> ({}{}) {{\n{}}}\n", parameters, last, statements > 1 && chance(3) ? ", T0" : "", body);
  }

  bool is_real() const { return lang::is_float(type_); }
  bool chance(int n) { return below(n) == 0; }

  poly::Array array(const poly::Tensor& tensor) {
    poly::Array a{tensor.dtype, {}, {}, {}};
    for (const auto& size : tensor.shape) a.shape.push_back(size.get());
    for (std::int64_t k = 0; k < a.count(); ++k) {
      if (lang::is_float(a.dtype)) a.reals.push_back(poly::round_to(a.dtype, (below(4001) - 2000) / 1024.0));
      else
        a.integers.push_back(poly::wrap_to(a.dtype, chance(8) ? static_cast<std::int64_t>(random_()) : below(19) - 9));
    }
    return a;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }

  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> sizes;
    for (int rank = 1 + below(3), d = 0; d < rank; ++d)
      sizes.push_back(chance(12) ? 1 : chance(5) ? 20 + below(150) : 2 + below(9));
    std::int64_t count = 1;
    for (std::int64_t& s : sizes) if ((count *= s) > 3000) s = 3;
    return sizes;
  }

  // Rank 0 to 3 of the target; one to three indices more under the fold. Every index stands alone in some access, so
  // all are bounded.
  std::string statement(const std::string& name) {
    if (!shapes_.empty() && chance(4)) return elementwise(name);
    const int rank = below(4), indices = std::max(rank + below(3), 1);
    const auto any = [&] { return std::string(1, "ijklmn"[below(indices)]); };
    std::vector<std::string> sizes, elements;
    std::vector<std::int64_t> shape;
    for (int d = 0; d < rank; ++d) {
      shape.push_back(chance(6) ? 20 + below(60) : 1 + below(8));
      const std::string index(1, "ijklmn"[d]);
      elements.push_back(chance(6) ? fmt::format("{}*{} + {}", 2 + below(2), index, below(2))
              : chance(12)         ? index + " + " + any()
                                   : index);
      sizes.push_back(std::to_string(shape.back()));
    }
    std::vector<std::string> reads;
    std::vector<bool> bounded(static_cast<std::size_t>(indices));
    const auto form = [&](std::size_t) -> std::string {
      for (int k = 0; k < indices; ++k) {
        if (bounded[static_cast<std::size_t>(k)]) continue;
        bounded[static_cast<std::size_t>(k)] = true;
        return std::string(1, "ijklmn"[k]);
      }
      switch (below(8)) {
        case 0: return fmt::format("2*{} + {} - 1", any(), any());
        case 1: return fmt::format("{} + {}", any(), below(3));
        case 2: return fmt::format("{} - {}", 5 + below(4), any());
        case 3: return fmt::format("{} - {}", any(), any());
        case 4: return std::to_string(below(2));
        default: return any();
      }
    };
    for (int n = 1 + below(2), k = 0; k < n || std::find(bounded.begin(), bounded.end(), false) != bounded.end(); ++k) {
      const auto& [tensor, extents] = shapes_[static_cast<std::size_t>(below(static_cast<int>(shapes_.size())))];
      std::vector<std::string> forms;
      for (std::size_t d = 0; d < extents.size(); ++d) forms.push_back(form(d));
      reads.push_back(fmt::format("{}[{}]", tensor, fmt::join(forms, ", ")));
      if (k > 6) break;
    }
    constexpr const char* folds[] = {"+", "+", "+", "+", ">", "<", "=", "*"};
    const std::string fold = folds[below(8)];
    shapes_.push_back({name, shape});
    const std::string extra = chance(5) ? fmt::format(", {} + {} < {}", any(), any(), 2 + below(9)) : "";
    const std::string fill = chance(6) ? " default 3" : "";
    return fmt::format("{}[{}{}{}] = {}({}){}{};", name, fmt::join(elements, ", "), rank ? ": " : "",
        fmt::join(sizes, ", "), fold, value(reads), extra, fill);
  }

  std::string value(const std::vector<std::string>& reads) {
    std::string all = reads[0];
    for (std::size_t k = 1; k < reads.size(); ++k) all += (chance(4) ? " + " : " * ") + reads[k];
    switch (below(is_real() ? 9 : 6)) {
      case 0: return fmt::format("abs({})", all);
      case 1: return fmt::format("max({}, {})", all, reads.back());
      case 2: return fmt::format("{} < {} ? {} : {}", reads[0], reads.back(), all, reads[0]);
      case 6: return fmt::format("exp(0 - abs({}))", all);  // no overflow, which the interpreter meets later, in double
      case 7: return fmt::format("tanh({})", all);
      default: return all;
    }
  }

  std::string elementwise(const std::string& name) {
    const auto [tensor, shape] = shapes_[static_cast<std::size_t>(below(static_cast<int>(shapes_.size())))];
    shapes_.push_back({name, shape});
    switch (below(is_real() ? 6 : 3)) {
      case 0: return fmt::format("{} = {} * {} + 1;", name, tensor, tensor);
      case 1: return fmt::format("{} = relu({} - 2);", name, tensor);
      case 2: return fmt::format("{} = {} / 3;", name, tensor);
      case 3: return fmt::format("{} = sigmoid({});", name, tensor);
      case 4: return fmt::format("{} = sqrt(abs({}) + 1);", name, tensor);
      default: return fmt::format("{} = {} > 0.5 ? exp(0 - abs({})) : {};", name, tensor, tensor, tensor);
    }
  }

  std::mt19937_64 random_;
  DType type_ = DType::F32;
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes_;
};

// ---- running

struct Case {
  std::string text;
  bool gradient;
  poly::Interpretation wanted;
  std::vector<poly::Array> inputs;
  codegen::Lowered package;
  std::size_t first = 0;                               // of its buffers in the merged package
};

std::optional<Case> compiled(Generator& generator, std::string& refusals) {
  generator.program();
  Case c{generator.text, generator.is_real() && generator.chance(3), {}, {}, {}};
  lang::Diagnostics diagnostics;
  const lang::Source source{"random.tile", c.text};
  const std::optional<lang::File> file = lang::parse(source, diagnostics);
  std::optional<codegen::Stages> stages;
  if (file && lang::check(*file, diagnostics)) {
    codegen::Request request;
    request.signature.inputs = generator.inputs;
    if (c.gradient) request.derivatives.emplace_back();
    request.target = *codegen::target_named("opencl");
    stages = codegen::compile(*file, request, codegen::Until::Lowered, diagnostics);
  }
  if (!stages) {
    refusals += c.text + lang::render(diagnostics, {source}, {}) + "\n";
    return std::nullopt;
  }
  const poly::Program& program = *stages->bounded;
  for (const poly::TensorId id : program.inputs) c.inputs.push_back(generator.array(program.tensor(id)));
  c.wanted = poly::interpret(program, c.inputs);
  c.package = std::move(*stages->lowered);
  return c;
}

// Kernels get the case's number, so all cases fit in one package.
void merge(codegen::Lowered& all, Case& c, std::size_t number) {
  c.first = all.buffers.size();
  for (const codegen::Buffer& b : c.package.buffers) all.buffers.push_back(b);
  for (codegen::Step step : c.package.steps) {
    step.kernel = fmt::format("c{}_{}", number, step.kernel);
    step.loops.functions.back().name = step.kernel;
    for (int& b : step.buffers) b += static_cast<int>(c.first);
    all.steps.push_back(std::move(step));
  }
}

double epsilon(DType type) {
  return type == DType::F64 ? 0x1p-52 : type == DType::F16 ? 0x1p-10 : type == DType::BF16 ? 0x1p-7 : 0x1p-23;
}

int compare(const poly::Array& got, const poly::Array& wanted, const std::vector<double>& magnitudes, const Case& c) {
  const bool real = lang::is_float(got.dtype);
  for (std::size_t n = 0; n < static_cast<std::size_t>(got.count()); ++n) {
    const double a = real ? got.reals[n] : static_cast<double>(got.integers[n]),
                 b = real ? wanted.reals[n] : static_cast<double>(wanted.integers[n]);
    if (real ? a == b || (std::isnan(a) && std::isnan(b)) : got.integers[n] == wanted.integers[n]) continue;
    // Nothing is known of the digits; that there are any is.
    if (std::isinf(magnitudes[n]) && std::isfinite(a) == std::isfinite(b) && std::isnan(a) == std::isnan(b)) continue;
    if (std::isfinite(magnitudes[n]) &&
        std::fabs(a - b) <= (real ? 8 * epsilon(got.dtype) * magnitudes[n] : magnitudes[n]))
      continue;
    fmt::print("{}{}element {}: {} where the interpreter has {} (magnitude {})\n\n", c.text,
        c.gradient ? "gradient, " : "", n, a, b, magnitudes[n]);
    return 1;
  }
  return 0;
}

// Buffers have a page behind them that no kernel may touch.
constexpr std::size_t guard = 4096;

runtime::Memory guarded(runtime::Device& device, std::int64_t bytes) {
  const std::int64_t size = bytes + static_cast<std::int64_t>(guard);
  runtime::Memory memory = device.allocate(size);
  device.copy_in(memory, std::vector<unsigned char>(static_cast<std::size_t>(size), 0xa5).data(), size);
  return memory;
}

bool intact(runtime::Device& device, const runtime::Memory& memory, std::int64_t bytes) {
  std::vector<unsigned char> all(static_cast<std::size_t>(bytes) + guard);
  device.copy_out(all.data(), memory, static_cast<std::int64_t>(all.size()));
  return std::all_of(all.begin() + bytes, all.end(), [](unsigned char c) { return c == 0xa5; });
}

std::int64_t setting(const char* name, std::int64_t otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atoll(value) : otherwise;
}

int run(runtime::Device& device) {
  const std::int64_t seed = setting("TILEC_SEED", 20), cases_wanted = setting("TILEC_CASES", 250);
  fmt::print("seed {}, {} programs\n", seed, cases_wanted);
  Generator generator(static_cast<std::uint64_t>(seed));
  std::vector<Case> cases;
  codegen::Lowered all;
  std::string refusals;
  std::int64_t tried = 0;
  for (; static_cast<std::int64_t>(cases.size()) < cases_wanted && tried < 4 * cases_wanted; ++tried) {
    std::optional<Case> c = compiled(generator, refusals);
    if (!c) continue;
    cases.push_back(std::move(*c));
    merge(all, cases.back(), cases.size());
  }
  if (std::getenv("TILEC_SHOW")) fmt::print("{}", refusals);
  const auto kernels = device.load(runtime::assemble(all, *codegen::target_named("opencl")));
  std::vector<runtime::Memory> memory;
  for (const codegen::Buffer& b : all.buffers) memory.push_back(guarded(device, b.count() * lang::bytes(b.dtype)));
  for (const Case& c : cases) {
    for (std::size_t k = 0; k < c.inputs.size(); ++k) {
      const runtime::Tensor host = runtime::allocate("input", c.inputs[k].dtype, c.inputs[k].shape);
      runtime::from_array(c.inputs[k], host);
      device.copy_in(memory[c.first + k], host.data, host.count() * lang::bytes(host.dtype));
    }
  }
  device.run(*kernels, memory);
  int wrong = 0;
  for (const Case& c : cases) {
    for (std::size_t k = 0; k < c.package.buffers.size(); ++k) {
      const codegen::Buffer& b = c.package.buffers[k];
      if (!intact(device, memory[c.first + k], b.count() * lang::bytes(b.dtype)))
        fmt::print("{}{}a kernel writes behind `{}`\n\n", c.text, c.gradient ? "gradient, " : "", b.name), ++wrong;
    }
    for (std::size_t k = 0; k < c.wanted.outputs.size(); ++k) {
      const poly::Array& wanted = c.wanted.outputs[k];
      const runtime::Tensor host = runtime::allocate("output", wanted.dtype, wanted.shape);
      device.copy_out(host.data, memory[c.first + static_cast<std::size_t>(c.package.inputs) + k],
          host.count() * lang::bytes(host.dtype));
      wrong += compare(runtime::to_array(host), wanted, c.wanted.magnitudes[k], c);
    }
  }
  fmt::print(
      "{} programs ran ({} tried), {} kernels, {} outputs disagree\n", cases.size(), tried, all.steps.size(), wrong);
  return wrong == 0 && 2 * static_cast<std::int64_t>(cases.size()) >= cases_wanted ? 0 : 1;
}

}  // namespace

int main() {
  std::shared_ptr<runtime::Device> device;
  try {
    device = runtime::open_opencl(0);
  } catch (const runtime::RuntimeError& e) {
    fmt::print("skipped: {}\n", e.what());
    return 77;
  }
  try {
    return run(*device);
  } catch (const std::exception& e) {
    fmt::print("{}\n", e.what());
    return 1;
  }
}
