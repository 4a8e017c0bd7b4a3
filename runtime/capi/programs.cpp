#include "runtime/capi/programs.h"

#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "lang/messages.h"
#include "lang/pack.h"
#include "runtime/capi/error.h"
#include "runtime/capi/files.h"
#include "runtime/capi/given.h"
#include "runtime/capi/shared.h"
#include "runtime/error.h"
#include "runtime/find.h"
#include "runtime/tune.h"

namespace tilec::capi {
namespace {

namespace messages = lang::messages;

// A function whose inputs all show their sizes can be built at once, so that its errors come now and its names are
// known.
bool shows_shapes(const runtime::Callable& callable) {
  if (callable.function() == nullptr) return true;       // build says what is wrong
  const std::vector<lang::Name> packs = lang::packs_of(*callable.function());
  const auto& ranks = callable.request().signature.ranks;
  if (ranks.empty() && !packs.empty()) return false;
  // which build says
  const bool unknown = std::ranges::any_of(
      ranks, [&](const auto& rank) { return std::ranges::count(packs, rank.first, &lang::Name::text) == 0; });
  if (!unknown && !std::ranges::all_of(packs, [&](const lang::Name& pack) { return ranks.contains(pack.text); }))
    return false;
  return std::ranges::all_of(
      callable.function()->inputs, [](const lang::Input& input) { return input.sizes.has_value(); });
}

// A size that is an input's extent is not below 0; one that is a number of the text, such as an offset, may be.
void check_extents(const runtime::Callable& callable) {
  if (callable.function() == nullptr) return;
  for (const lang::Input& input : callable.function()->inputs)
    for (const lang::Expr& size : input.sizes.value_or(std::vector<lang::Expr>{})) {
      const auto* variable = size.as<lang::Variable>();
      const auto given = variable != nullptr ? callable.request().sizes.find(variable->name.spelled())
                                             : callable.request().sizes.end();
      if (given != callable.request().sizes.end() && given->second < 0)
        throw runtime::argument_error(messages::negative_size, variable->name.text, std::to_string(given->second));
    }
}

// The same file, whose last source is the plan.
std::shared_ptr<const runtime::Loaded> planned(
    const runtime::Loaded& loaded, const std::string& plan, codegen::Request& request) {
  std::vector<lang::Source> sources = loaded.sources;
  request.plan = codegen::PlanText{plan, static_cast<std::uint32_t>(sources.size())};
  sources.push_back({"<plan>", plan});
  return shared_file({std::move(sources), loaded.file, loaded.imports});
}

// The program of the function that `options` names, or null.
std::unique_ptr<tilec_program> program_of(std::shared_ptr<const runtime::Loaded> loaded, codegen::Request request,
    const tilec_options& options, lang::Diagnostics& diagnostics) {
  auto made = std::make_unique<tilec_program>();
  if (options.plan != nullptr) loaded = planned(*loaded, options.plan, request);
  made->callable = shared_callable(
      loaded, request, options.kernels != 0 ? options.kernels : runtime::usual_kernels(), cache_of(options));
  check_extents(*made->callable);
  return fill_names(*made, diagnostics) ? std::move(made) : nullptr;
}

tilec_status with_plan(
    const tilec_program* program, const std::string& plan, tilec_program** result, const char* function) {
  const tilec_program& p = need(program, function, "program");
  static_cast<void>(need(result, function, "planned"));
  codegen::Request request = p.callable->request();
  const auto loaded = planned(*p.callable->loaded(), plan, request);
  auto made = std::make_unique<tilec_program>(
      tilec_program{shared_callable(loaded, request, p.callable->kernels(), p.callable->disk()), p.inputs, p.outputs,
          p.name, p.needs_all});
  *result = made.release();
  return TILEC_OK;
}

}  // namespace

bool fill_names(tilec_program& program, lang::Diagnostics& diagnostics) {
  const runtime::Callable& callable = *program.callable;
  const codegen::Request& request = callable.request();
  if (callable.function() != nullptr && callable.function()->name) program.name = callable.function()->name->text;
  program.inputs = callable.input_names();
  const bool values = std::ranges::any_of(request.derivatives, &codegen::Derivative::values);
  program.needs_all = !values;
  if (shows_shapes(callable)) {
    codegen::Request built;
    lang::Diagnostics found;
    const std::optional<poly::Program> outline = callable.outline({}, built, found, true);
    const bool waits = !outline && std::ranges::any_of(found.all(), poly::waits_for_shapes);  // for those of a call
    for (const lang::Diagnostic& each : waits ? std::vector<lang::Diagnostic>() : found.all()) diagnostics.add(each);
    if (!outline && !waits) return false;
    if (outline && !request.derivatives.empty()) {         // inputs that are sizes are no inputs of the outline
      for (const poly::TensorId id : outline->inputs) {
        const std::string name = runtime::without_mark(outline->tensor(id).name);
        if (std::ranges::count(program.inputs, name) > 0) continue;
        program.inputs.push_back(name);
        program.needs_all = program.needs_all || !outline->tensor(id).shape.empty();
      }
      for (const poly::TensorId id : outline->outputs)
        program.outputs.push_back(runtime::without_mark(outline->tensor(id).name));
      return true;
    }
  }
  codegen::Ports ports{program.inputs, callable.result_names()};
  for (const codegen::Derivative& derivative : request.derivatives) ports = codegen::derived(ports, derivative);
  program.inputs = ports.inputs;
  program.outputs = ports.outputs;
  return true;
}

std::vector<std::string> names_by_position(const tilec_program& program, std::size_t count) {
  const lang::Function* function = program.callable->function();
  std::vector<std::string> usual(program.inputs.begin(),
      program.inputs.begin() + static_cast<std::ptrdiff_t>(std::min(count, program.inputs.size())));
  if (function == nullptr || !program.needs_all || count >= program.inputs.size() ||
      program.inputs.size() == function->inputs.size())
    return usual;
  const auto ports = [&](const std::vector<std::string>& inputs) {
    codegen::Ports all{inputs, program.callable->result_names()};
    for (const codegen::Derivative& derivative : program.callable->request().derivatives)
      all = codegen::derived(all, derivative);
    return all.inputs;
  };
  std::vector<std::string> inputs = program.callable->input_names();
  const std::vector<std::string> whole = ports(inputs);
  for (auto last = function->inputs.rbegin(); last != function->inputs.rend(); ++last) {
    if (!last->value) continue;
    std::erase(inputs, last->target.name.text);
    const std::vector<std::string> rest = ports(inputs);
    std::vector<std::string> names = program.inputs;
    std::erase_if(names, [&](const std::string& name) {
      return std::ranges::count(whole, name) > 0 && std::ranges::count(rest, name) == 0;
    });
    if (names.size() == count) return names;
  }
  return usual;
}

}  // namespace tilec::capi

using namespace tilec;
using namespace tilec::capi;

extern "C" {

tilec_status tilec_compile(const char* text, size_t length, const tilec_options* given, tilec_program** program) {
  return guarded([&] {
    constexpr const char* function = "tilec_compile";
    static_cast<void>(need(program, function, "program"));
    const tilec_options options = options_of(given, function);
    const codegen::Request request = request_of(options, function);
    const std::vector<std::string> include =
        names_of(options.include, options.include_count, function, "options.include");
    lang::Diagnostics diagnostics;
    std::vector<lang::Source> sources;
    const auto loaded =
        loaded_from({options.file_name != nullptr ? options.file_name : "<text>", text_of(text, length, function)},
            runtime::find_in(include), sources, diagnostics);
    if (!loaded) return failed(TILEC_PROGRAM_ERROR, diagnostics, sources);
    auto made = program_of(loaded, request, options, diagnostics);
    if (!made) return failed(diagnostics, sources);
    keep(diagnostics, sources);
    *program = made.release();
    return TILEC_OK;
  });
}

tilec_status tilec_file_compile(const tilec_file* file, const tilec_options* given, tilec_program** program) {
  return guarded([&] {
    constexpr const char* function = "tilec_file_compile";
    const tilec_file& f = need(file, function, "file");
    static_cast<void>(need(program, function, "program"));
    const tilec_options options = options_of(given, function);
    if (options.file_name != nullptr)
      misuse(function, "`options.file_name` is given: the file got its name from tilec_parse");
    if (options.include != nullptr || options.include_count != 0)
      misuse(function, "`options.include` is given: imports were read by tilec_parse");
    lang::Diagnostics diagnostics;
    auto made = program_of(f.loaded, request_of(options, function), options, diagnostics);
    if (!made) return failed(diagnostics, f.loaded->sources);
    keep(diagnostics, f.loaded->sources);
    *program = made.release();
    return TILEC_OK;
  });
}

tilec_status tilec_with_plan(const tilec_program* program, const char* plan, size_t length, tilec_program** planned) {
  static constexpr const char* function = "tilec_with_plan";
  return guarded([&] { return with_plan(program, text_of(plan, length, function), planned, function); });
}

tilec_status tilec_tune(const tilec_program* program, const tilec_argument* arguments, size_t argument_count,
    const tilec_tune_options* given, tilec_program** tuned) {
  return guarded([&] {
    constexpr const char* function = "tilec_tune";
    const tilec_program& p = need(program, function, "program");
    static_cast<void>(need(tuned, function, "tuned"));
    tilec_tune_options options{};
    if (given != nullptr) {
      if (given->size < sizeof(std::size_t)) misuse(function, "`options->size` is not sizeof(tilec_tune_options)");
      std::memcpy(&options, given, std::min(given->size, sizeof options));
    }
    if (!(options.seconds >= 0)) misuse(function, "`options->seconds` is no time");
    runtime::TuneOptions how;
    if (options.seconds > 0) how.seconds = options.seconds;
    if (options.goes_on != nullptr)
      how.goes_on = [&](const runtime::TuneProgress& now) {
        const tilec_tune_progress told{now.elapsed, now.seconds, now.measured, now.first, now.best};
        return options.goes_on(&told, options.user) != 0;
      };
    const std::vector<runtime::Argument> in = arguments_of(arguments, argument_count, p, Side::Input, function);
    lang::Diagnostics diagnostics;
    const auto found =
        check_names(p, in, Side::Input, diagnostics) ? runtime::tune(*p.callable, in, how, diagnostics) : std::nullopt;
    if (!found) return failed(diagnostics, p.callable->sources());
    keep(diagnostics, p.callable->sources());
    return with_plan(program, found->plan, tuned, function);
  });
}

void tilec_program_destroy(tilec_program* program) {
  const runtime::Busy busy;
  [[maybe_unused]] const bool large =
      program != nullptr && program->callable.use_count() == 1 && program->callable->kept() > 16;
  delete program;
#ifdef __GLIBC__
  if (large) malloc_trim(0);                             // compiling leaves holes, which glibc keeps otherwise
#endif
}

const char* tilec_program_name(const tilec_program* program) {
  return program != nullptr ? program->name.c_str() : nullptr;
}
const char* tilec_program_target(const tilec_program* program) {
  return program != nullptr ? program->callable->request().target.name.c_str() : nullptr;
}
int tilec_input_is_optional(const tilec_program* program, size_t position) {
  const lang::Function* function = position < tilec_input_count(program) ? program->callable->function() : nullptr;
  if (function == nullptr) return 0;
  return std::ranges::any_of(function->inputs,
             [&](const lang::Input& input) {
               return input.value && input.target.name.text == program->inputs[position];
             })
      ? 1
      : 0;
}

size_t tilec_input_at(const tilec_program* program, size_t count, size_t position) {
  if (position >= count || position >= tilec_input_count(program)) return tilec_input_count(program);
  const std::string name = names_by_position(*program, count)[position];
  return static_cast<size_t>(std::ranges::find(program->inputs, name) - program->inputs.begin());
}

size_t tilec_input_count(const tilec_program* program) { return program != nullptr ? program->inputs.size() : 0; }
size_t tilec_output_count(const tilec_program* program) { return program != nullptr ? program->outputs.size() : 0; }
const char* tilec_input_name(const tilec_program* program, size_t position) {
  return position < tilec_input_count(program) ? program->inputs[position].c_str() : nullptr;
}
const char* tilec_output_name(const tilec_program* program, size_t position) {
  return position < tilec_output_count(program) ? program->outputs[position].c_str() : nullptr;
}

size_t tilec_output_first(const tilec_program* program, size_t position) {
  const runtime::Callable* callable = position < tilec_output_count(program) ? program->callable.get() : nullptr;
  if (callable == nullptr || callable->function() == nullptr) return position;
  const auto& derivatives = callable->request().derivatives;
  const auto& results = callable->function()->results;
  if (position >= results.size() ||
      !std::ranges::all_of(derivatives, [](const codegen::Derivative& d) { return d.values || d.batch; }))
    return position;
  const auto same = std::ranges::find(
      results, results[position].name.spelled(), [](const lang::Target& result) { return result.name.spelled(); });
  return static_cast<std::size_t>(same - results.begin());
}

}  // extern "C"
