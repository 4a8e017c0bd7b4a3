// Programs of programs: gradients, tangents, batches, and a function with its pullback in two kernels.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lang/messages.h"
#include "runtime/capi/error.h"
#include "runtime/capi/given.h"
#include "runtime/capi/kernels.h"
#include "runtime/capi/programs.h"
#include "runtime/capi/shared.h"
#include "runtime/error.h"
#include "runtime/emit.h"
#include "runtime/file.h"
#include "runtime/package_file.h"

namespace tilec::capi {
namespace {

namespace messages = lang::messages;

struct Names { const char* const* list; std::size_t count; };

std::vector<std::string> different(std::vector<std::string> names, const char* parameter) {
  for (auto name = names.begin(); name != names.end(); ++name)
    if (std::find(names.begin(), name, *name) != name)
      throw runtime::argument_error(messages::given_twice, fmt::format("`{}`:", parameter), *name);
  return names;
}

codegen::Derivative derivative_from(Names of, Names wrt, const char* function) {
  return {false, different(names_of(of.list, of.count, function, "of"), "of"),
      different(names_of(wrt.list, wrt.count, function, "wrt"), "wrt")};
}

codegen::Request differentiated(
    const runtime::Callable& callable, codegen::Derivative derivative, const char* function) {
  codegen::Request request = callable.request();
  request.plan.reset();                                    // it is that of the program
  if (!derivative.batch && std::ranges::any_of(request.derivatives, &codegen::Derivative::values))
    misuse(function, "`program` gives values and gradients in one: differentiate the function that it was made of");
  request.derivatives.push_back(std::move(derivative));
  return request;
}

// A plan of the program goes with it: it may say how the pair is compiled.
codegen::Request pair_request(const runtime::Callable& callable, codegen::Derivative derivative, const char* function) {
  codegen::Request request = differentiated(callable, std::move(derivative), function);
  request.pair = true;
  codegen::PlanFault fault;
  if (const auto& plan = callable.request().plan) {
    const auto parts = codegen::parts_of(*plan, fault);
    if (!parts || parts->forward || parts->backward) request.plan = plan;
  }
  return request;
}

tilec_status derivative_of(
    const tilec_program* program, codegen::Derivative derivative, tilec_program** result, const char* function) {
  const runtime::Callable& callable = *need(program, function, "program").callable;
  static_cast<void>(need(result, function,
      derivative.batch         ? "batched"
          : derivative.forward ? "tangent"
          : derivative.values  ? "both"
                               : "gradient"));
  const codegen::Request request = differentiated(callable, std::move(derivative), function);
  auto made = std::make_unique<tilec_program>();
  made->callable = shared_callable(callable.loaded(), request, callable.kernels(), callable.disk());
  lang::Diagnostics diagnostics;
  if (!fill_names(*made, diagnostics)) return failed(diagnostics, callable.sources());
  keep(diagnostics, callable.sources());
  *result = made.release();
  return TILEC_OK;
}

}  // namespace

}  // namespace tilec::capi

using namespace tilec;
using namespace tilec::capi;

extern "C" {

tilec_status tilec_gradient(const tilec_program* program, const char* const* of, size_t of_count,
    const char* const* wrt, size_t wrt_count, tilec_program** gradient) {
  static constexpr const char* function = "tilec_gradient";
  return guarded([&] {
    return derivative_of(program, derivative_from({of, of_count}, {wrt, wrt_count}, function), gradient, function);
  });
}

tilec_status tilec_value_and_gradient(const tilec_program* program, const char* const* of, size_t of_count,
    const char* const* wrt, size_t wrt_count, tilec_program** both) {
  static constexpr const char* function = "tilec_value_and_gradient";
  return guarded([&] {
    codegen::Derivative derivative = derivative_from({of, of_count}, {wrt, wrt_count}, function);
    derivative.values = true;
    return derivative_of(program, std::move(derivative), both, function);
  });
}

tilec_status tilec_jvp(const tilec_program* program, const char* const* of, size_t of_count, const char* const* wrt,
    size_t wrt_count, tilec_program** tangent) {
  static constexpr const char* function = "tilec_jvp";
  return guarded([&] {
    codegen::Derivative derivative = derivative_from({of, of_count}, {wrt, wrt_count}, function);
    derivative.forward = true;
    return derivative_of(program, std::move(derivative), tangent, function);
  });
}

tilec_status tilec_vmap(
    const tilec_program* program, const char* const* inputs, size_t count, tilec_program** batched) {
  static constexpr const char* function = "tilec_vmap";
  return guarded([&] {
    codegen::Derivative batch;
    batch.wrt = different(names_of(inputs, count, function, "inputs"), "inputs");
    batch.batch = true;
    return derivative_of(program, std::move(batch), batched, function);
  });
}

tilec_status tilec_vjp(const tilec_program* program, const char* const* of, size_t of_count, const char* const* wrt,
    size_t wrt_count, const tilec_argument* arguments, size_t argument_count, const tilec_argument* results,
    size_t result_count, tilec_kernel** forward, tilec_kernel** backward) {
  return guarded([&] {
    constexpr const char* function = "tilec_vjp";
    const tilec_program& p = need(program, function, "program");
    static_cast<void>(need(forward, function, "forward"));
    static_cast<void>(need(backward, function, "backward"));
    const std::vector<runtime::Argument> in =
        arguments_of(arguments, argument_count, p, Side::Input, function, Reads::Shapes);
    const codegen::Request request =
        pair_request(*p.callable, derivative_from({of, of_count}, {wrt, wrt_count}, function), function);
    tilec_program pair{
        shared_callable(p.callable->loaded(), request, p.callable->kernels(), p.callable->disk()), {}, {}, {}};
    lang::Diagnostics diagnostics;
    if (result_count > 0 && !fill_names(pair, diagnostics)) return failed(diagnostics, p.callable->sources());
    pair.inputs = p.inputs, pair.name = p.name;          // no cotangents: they come later
    std::shared_ptr<const runtime::Specialisation> made;
    if (const tilec_status status =
            specialise(
                pair, in, arguments_of(results, result_count, pair, Side::Output, function, Reads::Shapes), made);
        status != TILEC_OK)
      return status;
    auto first = kernel_of(made->module), second = kernel_of(made->backward);
    *forward = first.release();
    *backward = second.release();
    return TILEC_OK;
  });
}

tilec_status tilec_save_vjp(const tilec_program* program, const char* const* of, size_t of_count,
    const char* const* wrt, size_t wrt_count, const char* path, const tilec_argument* arguments,
    size_t argument_count) {
  return guarded([&] {
    constexpr const char* function = "tilec_save_vjp";
    const tilec_program& p = need(program, function, "program");
    static_cast<void>(need(path, function, "path"));
    const std::vector<runtime::Argument> in = arguments_of(arguments, argument_count, p, Side::Input, function);
    const codegen::Request request =
        pair_request(*p.callable, derivative_from({of, of_count}, {wrt, wrt_count}, function), function);
    const auto callable = shared_callable(p.callable->loaded(), request, p.callable->kernels(), p.callable->disk());
    lang::Diagnostics diagnostics;
    const auto asked =
        check_names(p, in, Side::Input, diagnostics) ? callable->request_for(in, {}, diagnostics) : std::nullopt;
    const auto pair =
        asked ? runtime::pair_of(callable->file(), runtime::as_compiled(*asked), diagnostics) : std::nullopt;
    if (!pair) return failed(diagnostics, callable->sources());
    runtime::write_file(path, runtime::to_bytes(*pair));
    keep(diagnostics, callable->sources());
    return TILEC_OK;
  });
}

}  // extern "C"
