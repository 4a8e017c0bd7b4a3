// What a program becomes without a call: any stage as text or bytes, packages, shapes, and what a call would cost.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/model/predict.h"
#include "codegen/report.h"
#include "lang/messages.h"
#include "runtime/capi/error.h"
#include "runtime/capi/given.h"
#include "runtime/device.h"
#include "runtime/emit.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/module.h"

namespace tilec::capi {
namespace {

namespace messages = lang::messages;

struct Results { const tilec_argument* list = nullptr; size_t count = 0; };

// A stage for these arguments, given to `use`. Of `results`, those that are added to count.
template <class Use>
tilec_status emitted(const tilec_program* program, const char* name, const tilec_argument* arguments,
    size_t argument_count, const char* function, Use use, Results results = {}) {
  const tilec_program& p = need(program, function, "program");
  const runtime::StageInfo* stage = runtime::stage_named(&need(name, function, "stage"));
  if (stage == nullptr)
    throw runtime::argument_error(messages::unknown_stage, name).hint("stages are " + runtime::stage_names());
  const runtime::Callable& callable = *p.callable;
  lang::Diagnostics diagnostics;
  const std::vector<runtime::Argument> in = arguments_of(
                                           arguments, argument_count, p, Side::Input, function, Reads::Shapes),
                                       out = arguments_of(
                                           results.list, results.count, p, Side::Output, function, Reads::Shapes);
  codegen::Request request = callable.request();
  if (!in.empty() || !out.empty()) {
    const bool known = check_names(p, in, Side::Input, diagnostics) && check_names(p, out, Side::Output, diagnostics);
    const auto found = known ? callable.request_for(in, out, diagnostics) : std::nullopt;
    if (!found) return failed(diagnostics, callable.sources());
    request = *found;
  }
  runtime::ask_for(*stage, request);
  if (stage->family && *stage->family != request.target.family)
    request.target = *runtime::target_here(runtime::default_target(*stage, request.target.name, false));
  const bool is_package = stage->name == "package";
  if (is_package) request.in_place = false;              // it does not say where tensors lie
  codegen::Stages stages;
  if (stage->of != runtime::StageInfo::Of::Text) {
    auto computed = codegen::compile(
        callable.file(), is_package ? runtime::as_compiled(request) : request, stage->until, diagnostics);
    if (!computed) return failed(diagnostics, callable.sources());
    stages = std::move(*computed);
  }
  const std::string bytes = runtime::emit(*stage, callable.file(), stages, request);
  keep(diagnostics, callable.sources());
  return use(bytes);
}

tilec_status save(const tilec_program* program, const char* path, const tilec_argument* arguments,
    size_t argument_count, Results results, const char* function) {
  return guarded([&] {
    static_cast<void>(need(path, function, "path"));
    const auto write = [&](const std::string& bytes) {
      runtime::write_file(path, bytes);
      return TILEC_OK;
    };
    return emitted(program, "package", arguments, argument_count, function, write, results);
  });
}

}  // namespace

}  // namespace tilec::capi

using namespace tilec;
using namespace tilec::capi;

extern "C" {

const tilec_stage* tilec_stages(size_t* count) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const runtime::StageInfo& stage : runtime::all_stages()) all.emplace_back(stage.name);
    return all;
  }();
  static const std::vector<tilec_stage> stages = [] {
    std::vector<tilec_stage> all;
    for (const runtime::StageInfo& stage : runtime::all_stages())
      all.push_back({names[all.size()].c_str(), stage.what,
          stage.family ? runtime::family_name(*stage.family) : nullptr, !stage.binary});
    return all;
  }();
  if (count != nullptr) *count = stages.size();
  return stages.data();
}

tilec_status tilec_emit(const tilec_program* program, const char* name, const tilec_argument* arguments,
    size_t argument_count, tilec_buffer** buffer) {
  return guarded([&] {
    constexpr const char* function = "tilec_emit";
    static_cast<void>(need(buffer, function, "buffer"));
    return emitted(program, name, arguments, argument_count, function, [&](const std::string& bytes) {
      *buffer = new tilec_buffer{bytes};
      return TILEC_OK;
    });
  });
}

tilec_status tilec_save(
    const tilec_program* program, const char* path, const tilec_argument* arguments, size_t argument_count) {
  return save(program, path, arguments, argument_count, {}, "tilec_save");
}

tilec_status tilec_save_call(const tilec_program* program, const char* path, const tilec_argument* arguments,
    size_t argument_count, const tilec_argument* results, size_t result_count) {
  return save(program, path, arguments, argument_count, {results, result_count}, "tilec_save_call");
}

tilec_status tilec_infer(
    const tilec_program* program, const tilec_argument* arguments, size_t argument_count, tilec_kernel** ports) {
  return guarded([&] {
    constexpr const char* function = "tilec_infer";
    const tilec_program& p = need(program, function, "program");
    static_cast<void>(need(ports, function, "ports"));
    const runtime::Callable& callable = *p.callable;
    const std::vector<runtime::Argument> in =
        arguments_of(arguments, argument_count, p, Side::Input, function, Reads::Shapes);
    lang::Diagnostics diagnostics;
    auto request =
        check_names(p, in, Side::Input, diagnostics) ? callable.request_for(in, {}, diagnostics) : std::nullopt;
    if (request) request->checked = false;               // which adds outputs that no caller sees
    const auto stages =
        request ? codegen::compile(callable.file(), *request, codegen::Until::Bound, diagnostics) : std::nullopt;
    if (!stages) return failed(diagnostics, callable.sources());
    keep(diagnostics, callable.sources());
    const auto reference = runtime::load_reference(*stages->bounded, *request);
    *ports = new tilec_kernel{nullptr, reference->inputs, reference->outputs, std::nullopt};
    return TILEC_OK;
  });
}

tilec_status tilec_estimate(
    const tilec_program* program, const tilec_argument* arguments, size_t argument_count, tilec_cost* cost) {
  return guarded([&] {
    constexpr const char* function = "tilec_estimate";
    const tilec_program& p = need(program, function, "program");
    const std::size_t size = need(cost, function, "cost").size;
    if (size < sizeof(tilec_cost))
      misuse(function, fmt::format("`cost.size` is {}: set it to `sizeof(tilec_cost)`", size));
    const runtime::Callable& callable = *p.callable;
    const std::vector<runtime::Argument> in =
        arguments_of(arguments, argument_count, p, Side::Input, function, Reads::Shapes);
    lang::Diagnostics diagnostics;
    const auto request =
        check_names(p, in, Side::Input, diagnostics) ? callable.request_for(in, {}, diagnostics) : std::nullopt;
    const bool plans = request && request->target.family != codegen::Target::Family::Reference;
    const auto stages = request ? codegen::compile(callable.file(), runtime::as_compiled(*request),
                                      plans ? codegen::Until::Plan : codegen::Until::Bound, diagnostics)
                                : std::nullopt;
    if (!stages) return failed(diagnostics, callable.sources());
    keep(diagnostics, callable.sources());
    const codegen::Totals sum = codegen::totals(*stages->bounded);
    *cost = {size, sum.operations, sum.exact, sum.read, sum.written, 0, 0};
    if (!plans) return TILEC_OK;
    const codegen::model::Prediction predicted =
        codegen::model::predict(*stages->plan, stages->strides, request->target).sum;
    cost->milliseconds = codegen::model::predicts_time(request->target) ? predicted.milliseconds : 0;
    cost->memory_bytes = predicted.bytes.memory;
    return TILEC_OK;
  });
}

const char* tilec_buffer_data(const tilec_buffer* buffer) {
  return buffer != nullptr ? buffer->bytes.c_str() : nullptr;
}
size_t tilec_buffer_size(const tilec_buffer* buffer) { return buffer != nullptr ? buffer->bytes.size() : 0; }
void tilec_buffer_destroy(tilec_buffer* buffer) { delete buffer; }

}  // extern "C"
