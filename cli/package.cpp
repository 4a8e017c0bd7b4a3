// `tilec build FILE -o f.tilec` saves what was compiled; `tilec run f.tilec NAME=VALUE…` runs it without a compiler.
#include "cli/package.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/ahead.h"
#include "cli/call.h"
#include "cli/results.h"
#include "cli/show_stats.h"
#include "cli/standard.h"
#include "lang/nearest.h"
#include "runtime/emit.h"
#include "runtime/error.h"
#include "runtime/package_file.h"
#include "runtime/specialise.h"

namespace tilec::cli {

namespace {

namespace messages = lang::messages;
using runtime::Port;
using runtime::Tensor;

// What belongs to the text, which is not there any more.
void refuse_options(const Options& options) {
  const auto compiled = [](bool given, const char* option) {
    if (given)
      throw UsageError{fmt::format("{} belongs to a file of Tile, and a package is compiled already", option),
          "give it to `tilec build`"};
  };
  compiled(options.function.has_value(), "--function");
  compiled(!options.sizes.empty(), "--size");
  compiled(!options.ranks.empty(), "--rank");
  compiled(!options.defines.empty(), "--define");
  compiled(!options.derivatives.empty(),
      options.derivatives.empty()               ? ""
          : options.derivatives.front().batch   ? "--vmap"
          : options.derivatives.front().forward ? "--forward"
                                                : "--grad");
  compiled(!options.gradient.of.empty(), "--of");
  compiled(!options.gradient.wrt.empty(), "--wrt");
  compiled(options.target_given, "--target");
  compiled(!options.plan.empty(), "--plan");
  compiled(options.time, "--time");
  compiled(!options.dump_to.empty(), "--dump-to");
  if (options.checked)
    throw UsageError{"--checked reports places in the text, and a package has none", "run the file of Tile"};
  if (options.check || options.grad_check)
    throw UsageError{fmt::format("{} compares with the interpreter, which needs the text",
                         options.check ? "--check" : "--grad-check"),
        "run the file of Tile"};
}

const Port* port_named(const std::vector<Port>& ports, const std::string& name) {
  const auto at = std::ranges::find(ports, name, &Port::name);
  return at == ports.end() ? nullptr : &*at;
}

// What words may name: of the function, and what only backward of a pair takes or gives.
struct Names { std::vector<std::string> function, backward; };

Names names_of(const codegen::Package& package) {
  Names names;
  for (const Port& port : package.inputs) names.function.push_back(port.name);
  for (std::size_t k = 0; k + static_cast<std::size_t>(package.kept) < package.outputs.size(); ++k)
    names.function.push_back(package.outputs[k].name);
  for (const codegen::Package& backward : package.backward)
    for (const auto* ports : {&backward.inputs, &backward.outputs})
      for (const Port& port : *ports)
        if (!port_named(package.inputs, port.name) && !port_named(package.outputs, port.name))
          names.backward.push_back(port.name);
  return names;
}

[[noreturn]] void unknown_word(const std::string& name, const std::string& title, const Names& names) {
  std::vector<std::string> known = names.function;
  known.insert(known.end(), names.backward.begin(), names.backward.end());
  const std::optional<std::string> near = lang::nearest(name, known);
  throw runtime::argument_error(
      messages::unknown_argument, name, title.empty() ? "the package" : fmt::format("`{}`", title))
      .hint(near ? fmt::format("did you mean `{}`?", *near)
                 : fmt::format("it takes and gives {}: sizes, and what was left out, are fixed in it",
                       fmt::join(known, ", ")));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "a scalar" : runtime::print_shape(shape);
}

void check_port(const Port& port, const runtime::Argument* given) {
  const bool empty = std::ranges::count(port.shape, 0) > 0;
  if (!empty && port.strides != runtime::row_major(port.shape))
    throw runtime::argument_error(messages::wrong_layout, port.name, fmt::format("{}", fmt::join(port.strides, ", ")));
  if (!given)
    throw runtime::argument_error(messages::missing_input, port.name).hint(fmt::format("give it as `{}=…`", port.name));
  const std::vector<std::int64_t> shape = given->tensor ? given->tensor->shape : std::vector<std::int64_t>{};
  if (shape != port.shape)
    throw runtime::argument_error(messages::wrong_shape, port.name, shape_text(port.shape), shape_text(shape));
}

int build_pair(const Options& options) {
  Session session(options, only_file(options));
  if (!session.file) return session.report();
  codegen::Request request = session.request();
  request.target = target_of(options.target);
  std::vector<codegen::Timing> timings;
  const std::optional<codegen::Package> pair = runtime::pair_of(*session.file, request, session.diagnostics, &timings);
  if (!pair || session.failed()) return session.report();
  put(runtime::to_bytes(*pair), options, true);
  if (options.stats) print_stats(*pair, "forward: ");
  if (options.time) print_timings(timings);
  return session.report();
}

bool is_read(const codegen::Package& package, const std::string& name) {
  const auto at = std::ranges::find(package.inputs, name, &Port::name);
  const int input = static_cast<int>(at - package.inputs.begin());
  const bool here = at != package.inputs.end() &&
      std::ranges::any_of(package.launches,
          [&](const codegen::Launch& launch) { return std::ranges::count(launch.buffers, input) > 0; });
  return here ||
      std::ranges::any_of(package.backward, [&](const codegen::Package& backward) { return is_read(backward, name); });
}

}  // namespace

int build_command(const Options& options) {
  if (options.output.empty())
    throw UsageError{"where should the package go?",
        fmt::format("write `tilec build {} -o f.tilec`, or `-o f.o` for a program in C", only_file(options))};
  if (is_ahead(options.output)) return build_ahead(options);
  if (options.name)
    throw UsageError{"--name names a function of C, and a package has none", "write `-o f.o`, `-o f.a` or `-o f.so`"};
  if (options.checked)
    throw UsageError{"--checked is for object files: a package has no text that a fault could point into",
        "write `-o f.o`, `-o f.a` or `-o f.so`"};
  if (options.multi_target)
    throw UsageError{
        "--multi-target is for object files, and a package is for one CPU", "write `-o f.o`, `-o f.a` or `-o f.so`"};
  if (options.vjp && !options.dump_to.empty())
    throw UsageError{"--dump-to shows one program, and a pair is two",
        fmt::format("write `tilec {} --grad --dump-to={}`: its stages `forward` and `backward` are the halves",
            only_file(options), options.dump_to)};
  if (options.vjp) return build_pair(options);
  if (options.room) throw UsageError{"--room belongs to a pair, and none is asked for", "write `--vjp`"};
  Options emitted = options;
  emitted.stage = "package";
  return emit_command(emitted);
}

bool is_package_file(const std::string& path) {
  try {
    return path != "-" && !is_standard(path) && runtime::is_package(runtime::DataFile(path).read(64));
  } catch (const runtime::RuntimeError&) {
    return false;                                        // who reads it as a text says why
  }
}

int run_package(const Options& options, const std::vector<Word>& words) {
  return run_package(options, words, runtime::DataFile(options.words[0]).rest());
}

int run_package(const Options& options, const std::vector<Word>& words, const std::string& bytes) {
  refuse_options(options);
  const std::string& path = options.words[0];
  runtime::Files files;
  files.reads(path);
  codegen::Package package = runtime::package_from(bytes, path == "-" ? "standard input" : path);
  const Names names = names_of(package);
  // Backward of a pair runs where a word names what only it takes or gives.
  const bool both =
      std::ranges::any_of(words, [&](const Word& word) { return std::ranges::count(names.backward, word.name) > 0; });
  if (!both) package.backward.clear();
  const std::shared_ptr<const runtime::Module> module =
      both ? runtime::load_both(package, options.threads) : runtime::load(package, options.threads);
  if (!module->added.empty())
    throw UsageError{fmt::format("the package adds to what `{}` holds, and a run of the command has nothing there",
                         module->outputs[module->added[0]].name),
        "load it where the memory is: in Python `tilec.load`, in C `tilec_load`"};
  std::vector<runtime::Argument> inputs;
  std::vector<std::string> read;
  std::vector<Word> written;
  for (const Word& word : words) {
    if (const Port* port = port_named(module->inputs, word.name))
      inputs.push_back(argument_of(word, port->dtype, {options.seed, {}, &read}));
    else if (port_named(module->outputs, word.name)) written.push_back(word);
    else unknown_word(word.name, module->name, names);
  }
  for (const std::string& file : read) files.reads(file);
  for (const Port& port : module->inputs) {
    const auto given = std::ranges::find(inputs, port.name, &runtime::Argument::name);
    if (given != inputs.end() || is_read(package, port.name))
      check_port(port, given == inputs.end() ? nullptr : &*given);
  }
  for (runtime::Argument& input : inputs)                // a file may be column-major, and kernels have row-major
                                                         // strides compiled in
    if (input.tensor && !input.tensor->is_row_major())
      input.tensor = runtime::convert(input.name, *input.tensor, input.tensor->dtype);
  const std::vector<OutputFile> results = output_files(written, files);
  const std::vector<Tensor> from = runtime::bind_inputs(*module, inputs), to = runtime::allocate_outputs(*module);
  runtime::run(*module, from, to);
  write_outputs(*module, to, results);
  if (!options.quiet) print_summaries(*module, to, written);
  return success;
}

}  // namespace tilec::cli
