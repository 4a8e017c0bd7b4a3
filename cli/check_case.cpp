#include "cli/check_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "cli/arguments.h"
#include "cli/call.h"
#include "cli/compare.h"
#include "lang/render.h"
#include "runtime/error.h"
#include "runtime/specialise.h"

namespace tilec::cli {

namespace {

using poly::Array;
using runtime::Callable;
using runtime::Tensor;

// What a compilation or a comparison found; the case fails with these lines.
struct Refused {};

// Whether something was said that the case expects: of what it compiled, or of the text, whatever is called.
Verdict expected(
    const CaseFile& file, const lang::Diagnostics& diagnostics, const Pattern& pattern, lang::Severity severity) {
  const std::regex wanted(pattern.text);
  std::string others;
  std::vector<lang::Diagnostic> all(diagnostics.all().begin(), diagnostics.all().end());
  if (file.file) all.insert(all.end(), file.diagnostics.all().begin(), file.diagnostics.all().end());
  for (const lang::Diagnostic& one : all) {
    if (one.severity != severity) continue;
    const std::string said = fmt::format("{} {}", one.code, one.message);
    if (std::regex_search(said, wanted)) return {};
    others += fmt::format("  it says: {}\n", said);
  }
  const char* kind = severity == lang::Severity::Error ? "error" : "warning";
  return {Verdict::Failed,
      fmt::format("  no {} matches `{}`{}\n{}", kind, pattern.text,
          others.empty() ? severity == lang::Severity::Error ? "; it compiles" : "; there is none" : "", others)};
}

// The result in the notation of a case, where it is short enough to read.
std::string pasted(const std::string& name, const Array& array) {
  if (array.count() > 64) return {};
  return fmt::format("\n  computed: {}={}", name, print_value(array));
}

class Check {
 public:
  Check(const CaseFile& file, const Case& one, const codegen::Target& target) : file_(file), case_(one) {
    const auto slash = file.sources[0].name.rfind('/');
    reading_.folder = slash == std::string::npos ? std::string() : file.sources[0].name.substr(0, slash + 1);
    request_.signature.function = one.function;
    request_.signature.defines = one.defines;
    for (const poly::Define& define : one.defines)       // one that names a scalar input used as a size
      if (const double* number = std::get_if<double>(&define.value);
          number && *number == std::floor(*number) && std::fabs(*number) < 0x1p62)
        request_.sizes.emplace(define.name, static_cast<std::int64_t>(*number));
    request_.target = target;
    request_.threads_hint = 1;                           // cases run beside each other
  }

  Verdict run() {
    try {
      if (!file_.file) diagnostics_ = file_.diagnostics;
      else demands();
    } catch (const Refused&) {                           // its diagnostics are looked at below
    } catch (const runtime::RuntimeError& fault) {
      diagnostics_.add(fault.diagnostic);
      if (reads_) return {Verdict::Malformed, rendered()};
    }
    if (case_.error) return expected(file_, diagnostics_, *case_.error, lang::Severity::Error);
    if (diagnostics_.has_errors()) return {Verdict::Failed, rendered()};
    if (case_.warning && faults_.empty()) return expected(file_, diagnostics_, *case_.warning, lang::Severity::Warning);
    return {faults_.empty() ? Verdict::Passed : Verdict::Failed, faults_};
  }

 private:
  const CaseFile& file_;
  const Case& case_;
  Reading reading_;
  codegen::Request request_;
  lang::Diagnostics diagnostics_;
  std::string faults_;
  bool reads_ = false;                                   // values are being read: what is thrown is the case's fault

  void fail(const std::string& line) { faults_ += "  " + line + "\n"; }
  std::string rendered() const {
    lang::Diagnostics errors;
    for (const lang::Diagnostic& one : diagnostics_.all())
      if (one.severity == lang::Severity::Error) errors.add(one);
    return lang::render(errors, file_.sources);
  }

  void demands() {
    if (case_.error) return compiles();
    if (!case_.gradients.empty()) derivative(false, case_.gradients);
    if (!case_.tangents.empty()) derivative(true, case_.tangents);
    for (const std::vector<codegen::Derivative>& derivatives : case_.gradchecks) differences(derivatives);
    if (!case_.outputs.empty() || case_.check || !case_.derives()) {
      if (case_.called) forward();
      else compiles();
    }
  }

  // A program that cannot be called as asked, or without a call.
  void compiles() {
    codegen::Request request = request_;
    if (!case_.gradchecks.empty()) request.derivatives = case_.gradchecks.front();
    const Callable callable(file_.sources, *file_.file, request);
    if (callable.function() == nullptr || !case_.called) {
      static_cast<void>(codegen::compile(*file_.file, request,
          request.derivatives.empty() ? codegen::Until::Contraction : codegen::Until::Gradient, diagnostics_));
      return;
    }
    static_cast<void>(callable.specialise(arguments(callable, words(case_.inputs)), {}, diagnostics_));
  }

  std::vector<Word> words(const std::vector<CaseValue>& values, const std::vector<std::string>* only = nullptr) const {
    std::vector<Word> result;
    for (const CaseValue& one : values)
      if (only == nullptr || contains(*only, one.name))
        result.push_back(
            {one.name, case_.random && &values == &case_.inputs ? random_value(one) : one.value, one.span});
    if (&values != &case_.inputs) return result;
    for (const poly::Define& define : case_.defines)     // as `--define S=2` of a scalar input
      if (const double* number = std::get_if<double>(&define.value);
          number && std::ranges::count(result, define.name, &Word::name) == 0 && input(define.name) != nullptr)
        result.push_back({define.name, fmt::format("{}", *number), case_.span});
    return result;
  }
  const lang::Input* input(const std::string& name) const {
    const lang::Function* function = runtime::entry_of(*file_.file, case_.function);
    if (function == nullptr) return nullptr;
    const auto at = std::ranges::find(function->inputs, name, [](const lang::Input& i) { return i.target.name.text; });
    return at == function->inputs.end() ? nullptr : &*at;
  }
  // `random input { X=17 }`: of a vector that is its shape.
  std::string random_value(const CaseValue& one) const {
    const lang::Input* declared = input(one.name);
    const bool shape = declared != nullptr && declared->sizes && !declared->sizes->empty() &&
        one.value.find_first_not_of("0123456789") == std::string::npos;
    return shape ? "random:" + one.value : one.value;
  }

  Call call(const Callable& callable, const std::vector<Word>& all) {
    if (callable.function() == nullptr) {
      static_cast<void>(codegen::compile(*file_.file, callable.request(), codegen::Until::Contraction, diagnostics_));
      throw Refused{};
    }
    reads_ = true;
    std::optional<Call> read = read_call(callable, all, reading_, diagnostics_);
    reads_ = false;
    if (!read) throw Refused{};
    return *std::move(read);
  }
  std::vector<runtime::Argument> arguments(const Callable& callable, const std::vector<Word>& all) {
    return call(callable, all).inputs;
  }

  struct Run { std::shared_ptr<const runtime::Specialisation> made; std::vector<Tensor> inputs, outputs; };
  Run execute(const Callable& callable, const std::vector<runtime::Argument>& inputs) {
    Run result;
    result.made = callable.specialise(inputs, {}, diagnostics_);
    if (!result.made) throw Refused{};
    const runtime::Module& module = *result.made->module;
    result.inputs = runtime::bind_inputs(module, inputs);
    result.outputs = runtime::allocate_outputs(module);
    runtime::run(module, result.inputs, result.outputs);
    return result;
  }

  void forward() {
    const Callable callable(file_.sources, *file_.file, request_);
    const std::vector<std::string> inputs = callable.input_names();
    std::vector<Word> all = words(case_.inputs, case_.derives() ? &inputs : nullptr);  // `dY` is not for this call
    const std::vector<Word> results = words(case_.outputs);
    all.insert(all.end(), results.begin(), results.end());
    const Call made = call(callable, all);
    const Run done = execute(callable, made.inputs);
    if (case_.check) agrees(compare_with_interpreter(*done.made, done.inputs, done.outputs));
    compare_results(done, made.outputs);
  }

  void derivative(bool forward, const std::vector<CaseValue>& wanted) {
    codegen::Request request = request_;
    request.derivatives = {{forward, case_.of, case_.wrt}};
    const Callable function(file_.sources, *file_.file, request_);
    std::vector<Word> all = words(case_.inputs);
    if (!case_.gradients.empty() && !case_.tangents.empty())  // cotangents are for the one, tangents for the other
      std::erase_if(all, [&](const Word& word) {
        return word.name[0] == (forward ? 'd' : 't') &&
            contains(forward ? function.result_names() : function.input_names(), word.name.substr(1));
      });
    const std::vector<Word> results = words(wanted);
    all.insert(all.end(), results.begin(), results.end());
    infer_derivatives(function, all, request.derivatives);
    const Callable callable(file_.sources, *file_.file, request);
    const Call made = call(callable, all);
    compare_results(execute(callable, made.inputs), made.outputs);
  }

  // In f64, whatever the types: rounding would hide what is wrong with the derivative. Cotangents and tangents are
  // random.
  void differences(const std::vector<codegen::Derivative>& derivatives) {
    codegen::Request request = request_;
    const Callable callable(file_.sources, *file_.file, request);
    request.derivatives = derivatives;
    const std::vector<std::string> inputs = callable.input_names();
    const std::vector<runtime::Argument> given = arguments(callable, words(case_.inputs, &inputs));
    std::vector<runtime::Argument> doubles = in_double(given);
    if (derivatives.size() > 1) add_cotangents(callable.request(), doubles);
    lang::Diagnostics of_doubles;
    const std::optional<std::vector<Comparison>> compared =
        compare_with_differences(Callable(file_.sources, in_double(*file_.file), request), {}, doubles, of_doubles);
    for (const lang::Diagnostic& one : of_doubles.all())
      if (one.severity == lang::Severity::Error) diagnostics_.add(one);
    if (!compared) throw Refused{};
    if (compared->empty()) fail("no float input of this case is a tensor: there is nothing to differentiate by");
    agrees(*compared);
  }

  // What the first derivative takes, where the second is checked.
  void add_cotangents(const codegen::Request& request, std::vector<runtime::Argument>& arguments) {
    const Callable function(file_.sources, in_double(*file_.file), request);
    const auto made = function.specialise(arguments, {}, diagnostics_);
    if (!made) throw Refused{};
    for (const runtime::Port& port : made->module->outputs) {
      if (!lang::is_float(port.dtype) || (!case_.of.empty() && !contains(case_.of, port.name))) continue;
      runtime::Argument one{"d" + port.name, runtime::allocate(port.name, port.dtype, port.shape), false, 0, 0};
      fill_random(*one.tensor, one.name, 0);
      arguments.push_back(std::move(one));
    }
  }

  void agrees(const std::vector<Comparison>& compared) {
    for (const Comparison& one : compared)
      if (one.bad || !one.undecided.empty()) fail(describe(one));
  }

  void compare_results(const Run& done, const std::vector<Word>& wanted) {
    if (wanted.empty()) return;
    std::vector<Array> arrays;
    for (const Tensor& tensor : done.inputs) arrays.push_back(runtime::to_array(tensor));
    // for what may be off by how much
    const poly::Interpretation interpreted = poly::interpret(*done.made->stages.bounded, arrays);
    for (const Word& word : wanted) {
      const auto& ports = done.made->module->outputs;
      const auto port = std::ranges::find(ports, word.name, &runtime::Port::name);
      if (port == ports.end()) continue;                 // read_call knows them all
      const auto k = static_cast<std::size_t>(port - ports.begin());
      compare_result(word, *port, done.outputs[k], allowed_errors(port->dtype, interpreted.magnitudes[k]));
    }
  }

  void compare_result(const Word& word, const runtime::Port& port, const Tensor& tensor, std::vector<double> allowed) {
    reads_ = true;
    const std::optional<lang::DType> type = written_type(word.value);
    const std::optional<Tensor> wanted = result_value(word, port);
    reads_ = false;
    const Array got = runtime::to_array(tensor);
    if (type && *type != port.dtype)
      return fail(fmt::format("{} is {}, expected {}", word.name, lang::name(port.dtype), lang::name(*type)));
    if (wanted->shape != port.shape)
      return fail(fmt::format("{} is {}, expected {}{}", word.name, runtime::print_shape(port.shape),
          runtime::print_shape(wanted->shape), pasted(word.name, got)));
    const Array want = runtime::to_array(*wanted);
    const std::vector<double> digits = allowed_errors(port.dtype, want.reals);
    for (std::size_t n = 0; n < digits.size(); ++n) {    // of floats: who writes one leaves digits out
      if (case_.within) allowed[n] = *case_.within * std::max(1.0, std::fabs(want.reals[n]));
      else if (std::isfinite(digits[n]))                 // terms that leave the type bound nothing: the digits do
        allowed[n] = std::isfinite(allowed[n]) ? std::max(allowed[n], std::fabs(digits[n])) : std::fabs(digits[n]);
    }
    std::size_t count = 0;
    std::string first;
    for (std::size_t n = 0; n < allowed.size(); ++n) {
      const std::optional<double> error = off_by(got, want, n);
      if (!error || (std::isfinite(*error) && *error <= allowed[n])) continue;
      if (count++ > 0) continue;
      first = fmt::format("{}{} is {}, expected {}", word.name, element_name(port.shape, n), print_element(got, n),
          print_element(want, n));
      if (lang::is_float(port.dtype) && std::isfinite(*error))
        first += fmt::format(", off by {:.3g} where {:.3g} is allowed", *error, allowed[n]);
    }
    if (count > 0)
      fail(fmt::format("{}; {} of {} elements differ{}", first, count, allowed.size(), pasted(word.name, got)));
  }

  std::optional<Tensor> result_value(const Word& word, const runtime::Port& port) const {
    const runtime::Argument argument = argument_of(word, port.dtype, reading_);
    if (argument.tensor) return argument.tensor;
    return runtime::number_as(argument, port.dtype);
  }
};

}  // namespace

Verdict check_case(const CaseFile& file, const Case& one, const codegen::Target& target) {
  return Check(file, one, target).run();
}

}  // namespace tilec::cli
