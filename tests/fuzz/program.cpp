// Any bytes as a program, through everything that a program goes through. What must hold of each:
//
//   text        parses or is refused with an error; printing what parsed is a fixed point
//   Program     prints as Tile that parses, checks, builds, and prints the same again; so does its gradient
//   bound       sizes small, or negative, or far too large: an error with a name, or a Program
//   reduced     the interpreter gives the same bits before and after (small programs, all types)
//   package     for the CPU, OpenCL and CUDA; some small ones run as machine code, compared with the interpreter
//
// Everything a program is called with follows from its text, so that a text alone is a case. Sizes: see `sizes_of`.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "autodiff/reverse.h"
#include "backends/case.h"
#include "codegen/pipeline.h"
#include "codegen/simt/emit.h"
#include "lang/check.h"
#include "lang/parse.h"
#include "lang/print.h"
#include "lang/render.h"
#include "mutate.h"
#include "poly/bind.h"
#include "poly/bounds.h"
#include "poly/defract.h"
#include "poly/hull.h"
#include "poly/interpret.h"
#include "poly/print.h"
#include "poly/simplify.h"
#include "poly/verify.h"
#include "runtime/emit.h"
#include "runtime/error.h"
#include "runtime/specialise.h"

using namespace tilec;

namespace {

using fuzz::Engine;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "FUZZ: %s\n", what.c_str());
  std::abort();
}

std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 1469598103934665603U;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return h ^ (h >> 29);
}

// ---- what the text does not say, drawn from its hash

constexpr std::int64_t small_sizes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 31, 33};
constexpr std::int64_t strange_sizes[] = {-1, -7, 1000, 4096, 65536, 1000003, std::int64_t{1} << 31,
    (std::int64_t{1} << 32) + 1, std::int64_t{1} << 40, std::int64_t{1} << 61, std::int64_t{1} << 62,
    -(std::int64_t{1} << 62), INT64_MAX, INT64_MIN};

std::map<std::string, std::int64_t> sizes_of(const poly::Program& program, Engine& engine) {
  const bool strange = engine() % 8 == 0;
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& name : program.sizes)
    sizes[name] = strange && engine() % 2 == 0 ? strange_sizes[engine() % std::size(strange_sizes)]
                                               : small_sizes[engine() % std::size(small_sizes)];
  return sizes;
}

constexpr lang::DType types[] = {lang::DType::F32, lang::DType::F64, lang::DType::F16, lang::DType::BF16,
    lang::DType::I8, lang::DType::I32, lang::DType::I64, lang::DType::U8, lang::DType::U64, lang::DType::Bool};

// As the text declares; or with types; or with ranks and extents, which may be wrong.
poly::Signature signature_of(const lang::Function& function, Engine& engine) {
  poly::Signature signature;
  if (function.name) signature.function = function.name->text;
  const std::uint64_t mode = engine() % 4;
  for (const lang::Input& input : function.inputs) {
    if (mode < 2 && input.sizes) continue;
    poly::Given given{input.target.name.text, std::nullopt, std::nullopt, std::nullopt, false};
    if (!input.target.dtype && engine() % 2 == 0) given.dtype = types[engine() % std::size(types)];
    if (!input.sizes || mode == 3) {
      given.shape.emplace();
      for (std::size_t rank = input.sizes && engine() % 8 != 0 ? input.sizes->size() : engine() % 4;
          rank > 0 && rank < 40; --rank)
        given.shape->emplace_back(small_sizes[engine() % std::size(small_sizes)]);
      if (given.shape->empty() && engine() % 4 == 0) given.weak = true, given.dtype.reset();
    }
    signature.inputs.push_back(std::move(given));
  }
  for (const lang::Parameter& parameter : function.parameters)
    if (engine() % 2 == 0) signature.defines.push_back({parameter.name.text, static_cast<double>(engine() % 5) / 2});
  return signature;
}

// ---- text

// Refused things have an error, and every diagnostic can be shown.
void show(const lang::Diagnostics& diagnostics, const lang::Source& source, bool refused, const char* where) {
  if (refused && !diagnostics.has_errors()) fail(fmt::format("{} refused without an error", where));
  if (!refused && diagnostics.has_errors())
    fail(fmt::format("{} reported an error but gave a result: {}", where, lang::render(diagnostics, {source})));
  static_cast<void>(lang::render(diagnostics, {source}, {true, false}));
  static_cast<void>(lang::render(diagnostics, {source}, {false, true}));
}

std::optional<lang::File> parse(const lang::Source& source) {
  lang::Diagnostics diagnostics;
  std::optional<lang::File> file = lang::parse(source, diagnostics);
  show(diagnostics, source, !file, "parse");
  if (!file) return std::nullopt;
  const std::string printed = lang::print(*file);
  lang::Diagnostics second;
  const std::optional<lang::File> again = lang::parse({"printed", printed}, second);
  if (!again) fail("what was printed does not parse:\n" + printed + lang::render(second, {{"printed", printed}}));
  if (lang::print(*again) != printed)
    fail("printing is no fixed point:\n" + printed + "\n----\n" + lang::print(*again));
  static_cast<void>(lang::dump(*file));
  lang::Diagnostics third;
  const bool checks = lang::check(*file, third);
  show(third, source, !checks, "check");
  return checks ? file : std::nullopt;
}

// ---- Programs

// The order of rows and indices is free, and comments say what needs no saying.
std::string without_order(const std::string& text) {
  std::string result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, std::min(text.find("  //", begin), end) - begin);
    std::sort(line.begin(), line.end());
    if (!line.empty()) result += line + '\n';
    begin = end + 1;
  }
  return result;
}

// A printed Program is Tile that reads back.
poly::Program reread(const poly::Program& program, const char* stage) {
  const std::string text = poly::print(program);
  const lang::Source source{stage, text};
  lang::Diagnostics diagnostics;
  std::optional<lang::File> file = lang::parse(source, diagnostics);
  if (!file || !lang::check(*file, diagnostics))
    fail(fmt::format("the {} does not read back:\n{}\n{}", stage, text, lang::render(diagnostics, {source})));
  std::optional<poly::Program> again = poly::build(*file, {}, diagnostics);
  if (!again)
    fail(fmt::format("the {} does not build again:\n{}\n{}", stage, text, lang::render(diagnostics, {source})));
  return std::move(*again);
}

void reread_same(const poly::Program& program, const char* stage) {
  const std::string text = poly::print(program), second = poly::print(reread(program, stage));
  if (without_order(second) != without_order(text))
    fail(fmt::format("the {} reads back as another program:\n{}\n----\n{}", stage, text, second));
}

// How many elements and points there are, with a ceiling: what the interpreter may be asked to do.
bool is_small(const poly::Program& program, double ceiling) {
  double work = 0;
  for (const poly::Tensor& tensor : program.tensors) {
    double elements = 1;
    for (const poly::Size& extent : tensor.shape) elements *= static_cast<double>(extent.get());
    work += elements;
  }
  for (const poly::Node& node : program.nodes) {
    const auto* statement = std::get_if<poly::Statement>(&node);
    if (statement == nullptr) continue;
    double points = 1;
    for (std::size_t k = 0; k < statement->indices.size(); ++k)
      points *= static_cast<double>(*poly::row_of(statement->domain[k]).extent);
    work += points;
  }
  return work <= ceiling;
}

std::vector<poly::Array> arrays_for(const poly::Program& program, std::uint64_t seed) {
  backends::Random random(seed);
  std::vector<poly::Array> arrays;
  for (const poly::TensorId id : program.inputs) {
    std::vector<std::int64_t> shape;
    for (const poly::Size& extent : program.tensor(id).shape) shape.push_back(extent.get());
    arrays.push_back(backends::random_array(random, program.tensor(id).dtype, shape));
  }
  return arrays;
}

// Integers exactly; floats within what the interpreter says of the order of a sum.
void same_result(const poly::Program& program, const std::vector<poly::Array>& got, const poly::Interpretation& wanted,
    const std::string& where) {
  for (std::size_t k = 0; k < got.size(); ++k)
    if (const std::string wrong = backends::compare(got[k], wanted.outputs[k], wanted.magnitudes[k]); !wrong.empty())
      fail(fmt::format(
          "{}: output {}: {}\n{}", where, program.tensor(program.outputs[k]).name, wrong, poly::print(program)));
}

#ifdef TILEC_CPU
void run_on_cpu(const codegen::Stages& stages, const codegen::Request& request, const std::vector<poly::Array>& inputs,
    const poly::Interpretation& wanted) {
  const std::shared_ptr<const runtime::Module> module = runtime::load_cpu(*stages.lowered, request);
  std::vector<runtime::Tensor> in, out = runtime::allocate_outputs(*module);
  for (const poly::Array& array : inputs) {
    in.push_back(runtime::allocate("input", array.dtype, array.shape));
    runtime::from_array(array, in.back());
  }
  runtime::run(*module, in, out);
  std::vector<poly::Array> got;
  for (const runtime::Tensor& tensor : out) got.push_back(runtime::to_array(tensor));
  same_result(*stages.bounded, got, wanted, "machine code");
}
#endif

// From a built Program to packages for every target.
void compile(
    const lang::File& file, codegen::Request request, std::uint64_t seed, Engine& engine, const lang::Source& source) {
  const std::string target = (const char*[]){"cpu:x86-64-v3", "cpu:x86-64-v4", "opencl", "cuda:sm_90a"}[engine() % 4];
  request.target = *codegen::target_named(target);
  lang::Diagnostics diagnostics;
  std::optional<codegen::Stages> bounded = codegen::compile(file, request, codegen::Until::Bound, diagnostics);
  show(diagnostics, source, !bounded, "bounds");
  if (!bounded) return;
  const poly::Program again = reread(*bounded->bounded, "bounded program");
  const bool runs = is_small(*bounded->bounded, 20'000);
  std::vector<poly::Array> inputs;
  poly::Interpretation wanted;
  if (runs) {
    inputs = arrays_for(*bounded->bounded, seed);
    wanted = poly::interpret(*bounded->bounded, inputs);
    lang::Diagnostics faults;
    const std::optional<poly::Program> rebounded = poly::bounds(again, faults);
    if (!rebounded)
      fail("the bounded program has no bounds once it is read back:\n" + poly::print(again) + lang::render(faults, {}));
    if (is_small(*rebounded, 40'000))
      same_result(*rebounded, poly::interpret(*rebounded, inputs).outputs, wanted, "read back");
  }
  const std::optional<codegen::Stages> stages = codegen::compile(file, request, codegen::Until::Lowered, diagnostics);
  if (!stages) fail("refused after bounds: " + lang::render(diagnostics, {source}));
  static_cast<void>(reread(*stages->reduced, "reduced program"));
  if (runs && is_small(*stages->reduced, 40'000))
    same_result(*stages->reduced, poly::interpret(*stages->reduced, inputs).outputs, wanted, "reduced");
  std::string message;
  const std::string plan = codegen::print(*stages->plan);
  const auto groups = codegen::parse_groups(plan, stages->plan->program, message);
  if (!groups || *groups != stages->plan->groups) fail("the plan does not read back: " + message + "\n" + plan);
  static_cast<void>(runtime::emit(*runtime::stage_named("loops"), file, *stages, request));
  if (request.target.family == codegen::Target::Family::OpenCl)
    static_cast<void>(runtime::emit(*runtime::stage_named("opencl"), file, *stages, request));
  if (request.target.family == codegen::Target::Family::Cuda)
    static_cast<void>(runtime::emit(*runtime::stage_named("cuda"), file, *stages, request));
#ifdef TILEC_CPU
  static const bool never = std::getenv("FUZZ_NO_RUN") != nullptr, always = std::getenv("FUZZ_RUN") != nullptr;
  if (runs && target == "cpu:x86-64-v3" && !never && (always || engine() % 8 == 0))
    run_on_cpu(*stages, request, inputs, wanted);
#endif
}

void function(const lang::File& file, const lang::Function& entry, const lang::Source& source, std::uint64_t seed) {
  Engine engine(seed);
  codegen::Request request;
  request.signature = signature_of(entry, engine);
  lang::Diagnostics diagnostics;
  const std::optional<poly::Program> program = poly::build(file, request.signature, diagnostics);
  show(diagnostics, source, !program, "build");
  if (!program) return;
  poly::verify(*program, poly::Stage::Symbolic);
  reread_same(*program, "program");
  request.sizes = sizes_of(*program, engine);
  static const bool talk = std::getenv("FUZZ_TALK") != nullptr;
  if (talk)
    for (const auto& [name, value] : request.sizes)
      std::fprintf(stderr, "--size %s=%lld\n", name.c_str(), static_cast<long long>(value));
  compile(file, request, seed, engine, source);
  lang::Diagnostics faults;
  std::optional<poly::Program> gradient = autodiff::reverse(*program, {}, {}, faults);
  show(faults, source, !gradient, "reverse");
  if (!gradient) return;
  gradient = poly::simplify(*gradient);
  poly::verify(*gradient, poly::Stage::Symbolic);
  reread_same(*gradient, "gradient");
  request.derivatives.emplace_back();
  compile(file, request, seed, engine, source);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const lang::Source source{"fuzz.tile", std::string(reinterpret_cast<const char*>(data), size)};
  try {
    const std::optional<lang::File> file = parse(source);
    if (!file) return 0;
    const std::uint64_t seed = hash(source.text);
    int functions = 0;
    for (const auto& item : file->items)
      if (const auto* entry = std::get_if<lang::Function>(&item);
          entry != nullptr && entry->role == lang::Function::Role::Function && ++functions <= 3)
        function(*file, *entry, source, seed + static_cast<std::uint64_t>(functions));
  } catch (const runtime::RuntimeError&) {               // a fault of the machine or of an argument has a name
  } catch (const std::exception& fault) {
    fail(fault.what());
  }
  return 0;
}
