// The calls of a program: the cache of its specialisations, and what running one takes.
#include "runtime/specialise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/extended.h"
#include "runtime/hooks.h"
#include "runtime/numbers.h"
#include "runtime/tune.h"

namespace tilec::runtime {

using Family = codegen::Target::Family;

const Argument* argument_named(const std::vector<Argument>& arguments, std::string_view name) {
  const auto at = std::find_if(arguments.begin(), arguments.end(), [&](const Argument& a) { return a.name == name; });
  return at == arguments.end() ? nullptr : &*at;
}

std::int64_t integer_of(const Argument& argument) {
  if (!argument.tensor) return argument.integer;
  if (argument.tensor->data == nullptr)
    throw argument_error(messages::bad_tensor, argument.name, "it is a size, but its data is NULL");
  return to_array(*argument.tensor).integers.at(0);
}

const lang::Function* entry_of(const lang::File& file, const std::optional<std::string>& name) {
  const lang::Function* only = nullptr;
  int count = 0;
  for (const auto& item : file.items) {
    const auto* function = std::get_if<lang::Function>(&item);
    if (function == nullptr || function->role != lang::Function::Role::Function) continue;
    if (name ? function->name && function->name->text == *name : !function->name) return function;
    only = function;
    ++count;
  }
  return count == 1 && !name ? only : nullptr;
}

Tensor number_as(const Argument& argument, DType type) {
  const poly::Number number = number_of(argument);
  if (!holds(type, number)) throw argument_error(messages::does_not_fit, misfit(argument), lang::name(type));
  Tensor tensor = allocate(argument.name, type, {});
  from_array({number.type, {}, {number.real}, {number.integer}}, tensor);
  return tensor;
}

namespace {

// What is given lies as the module takes it: the last look before memory is touched.
bool ports_fit(const std::vector<Port>& ports, std::vector<Argument> given, lang::Diagnostics& diagnostics) {
  for (const Port& port : ports) {
    const auto at = std::ranges::find(given, port.name, &Argument::name);
    if (at == given.end()) continue;
    const std::vector<std::int64_t> shape = at->tensor ? at->tensor->shape : std::vector<std::int64_t>{};
    if (shape != port.shape) {
      diagnostics.report({}, messages::wrong_shape, port.name, describe_shape(port.shape), describe_shape(shape));
      return false;
    }
    given.erase(at);
  }
  return true;
}

}  // namespace

std::vector<Tensor> bind_inputs(const Module& module, const std::vector<Argument>& arguments) {
  std::vector<Tensor> tensors;
  for (const Port& port : module.inputs) {
    const Argument* argument = argument_named(arguments, port.name);
    if (argument != nullptr && argument->tensor) {
      tensors.push_back(*argument->tensor);
      continue;
    }
    if (argument != nullptr) {
      tensors.push_back(number_as(*argument, port.dtype));
      continue;
    }
    tensors.push_back(allocate(port.name, port.dtype, port.shape));
    std::memset(tensors.back().data, 0, static_cast<std::size_t>(byte_count(port.name, port.dtype, port.shape)));
  }
  return tensors;
}

std::vector<Tensor> allocate_outputs(const Module& module) {
  std::vector<Tensor> tensors;
  for (const Port& port : module.outputs) tensors.push_back(allocate(port.name, port.dtype, port.shape));
  return tensors;
}

void run(const Module& module, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  std::vector<void*> in, out;
  for (const Tensor& tensor : inputs) in.push_back(tensor.data);
  for (const Tensor& tensor : outputs) out.push_back(tensor.data);
  module.run(in.data(), out.data());
}

codegen::Request as_compiled(codegen::Request request) {
  if (has_threads(request.target) && !request.in_place) request.strides.clear(), request.output_strides.clear();
  return request;
}

std::size_t usual_kernels() {
  std::size_t count = 128;
  if (const char* text = std::getenv("TILEC_KERNELS")) {
    std::size_t asked = 0;
    const char* const stop = text + std::strlen(text);
    if (const auto [end, fault] = std::from_chars(text, stop, asked); fault == std::errc() && end == stop && asked > 0)
      count = asked;
  }
  return count;
}

Callable::Callable(std::shared_ptr<const Loaded> loaded, codegen::Request request, std::size_t kernels,
    std::shared_ptr<const Cache> disk, bool keeps_stages)
    : loaded_(std::move(loaded)),
      request_(std::move(request)),
      kernels_(kernels),
      disk_(std::move(disk)),
      keeps_stages_(keeps_stages),
      function_(entry_of(file(), request_.signature.function)) {}

std::size_t Callable::kept() const {
  const std::lock_guard lock(mutex_);
  return cache_.size();
}

std::vector<std::string> Callable::input_names() const {
  std::vector<std::string> names;
  if (function_ == nullptr) return names;
  for (const lang::Input& input : function_->inputs) names.push_back(input.target.name.text);
  return names;
}

std::vector<std::string> Callable::result_names() const {
  std::vector<std::string> names;
  if (function_ == nullptr) return names;
  for (const std::string& name : poly::result_names(*function_)) names.push_back(without_mark(name));
  return names;
}

std::string Callable::key_of(const std::vector<Argument>& arguments, const std::vector<Argument>& results) const {
  std::string key = fmt::format("{}|", fmt::ptr(pool_hook().get()));  // a module keeps the pool that it was loaded with
  const auto add = [&](const Argument& a) {
    if (!a.tensor)
      key += fmt::format("{}:{}", a.name,
          a.unwanted         ? "unwanted"
              : a.large      ? "large"
              : a.is_integer ? "integer"
                             : "real");
    else
      key += fmt::format("{}:{}[{}|{}]", a.name, lang::name(a.tensor->dtype), fmt::join(a.tensor->shape, ","),
          fmt::join(a.tensor->strides, ","));
    if (a.tensor && a.tensor->device.device_type == kDLCUDA) key += fmt::format("@{}", a.tensor->device.device_id);
    if (a.add) key += "+=";
    const bool scalar = a.tensor ? a.tensor->shape.empty() && !lang::is_float(a.tensor->dtype) : a.is_integer;
    if (scalar && size_scalars_.contains(a.name)) key += fmt::format("={}", integer_of(a));
    key += ';';
  };
  for (const Argument& a : arguments) add(a);
  key += "->";
  for (const Argument& a : results) add(a);
  return key;
}

std::shared_ptr<const Specialisation> Callable::specialise(const std::vector<Argument>& arguments,
    const std::vector<Argument>& results, lang::Diagnostics& diagnostics) const {
  std::string key;
  for (std::unique_lock lock(mutex_);; made_.wait(lock)) {
    key = key_of(arguments, results);
    const auto found = cache_.find(key);
    if (found != cache_.end()) {
      found->second.used = ++uses_;
      for (const lang::Diagnostic& d : found->second.made->said.all()) diagnostics.add(d);
      return found->second.made;
    }
    if (being_made_.insert(key).second) break;
  }
  const auto over = [&](const void*) {
    const std::lock_guard lock(mutex_);
    being_made_.erase(key);
    made_.notify_all();
  };
  const std::unique_ptr<Callable const, decltype(over)> whatever_comes(this, over);
  lang::Diagnostics said;
  const auto pass_on = [&] { for (const lang::Diagnostic& d : said.all()) diagnostics.add(d); };
  const std::optional<codegen::Request> request = request_for(arguments, results, said);
  if (!request) return pass_on(), nullptr;
  auto made = std::make_shared<Specialisation>();
  codegen::Stages stages;
  const std::optional<Loads> loads = found_or_compiled(*request, stages, said, diagnostics);
  pass_on();
  if (!loads) return nullptr;
  made->said = std::move(said);
  made->module = loads->module, made->backward = loads->backward;
  if (!ports_fit(made->module->inputs, arguments, diagnostics) ||
      !ports_fit((made->backward ? made->backward : made->module)->outputs, results, diagnostics))
    return nullptr;
  std::vector<std::shared_ptr<const Specialisation>> gone;  // destroyed when the lock is open again
  {
    const std::lock_guard lock(mutex_);
    for (const poly::Given& given : request->signature.inputs)
      if (given.integer) size_scalars_.insert(given.name);
    keep(key_of(arguments, results), *made, gone);
  }
  made->stages = std::move(stages);
  return made;
}

namespace {

// Whether it follows the plan that would be looked up for it now.
bool is_current(
    const Cache& disk, const Compiled& compiled, const codegen::Request& request, lang::Diagnostics& diagnostics) {
  return compiled.tuning.empty() ||
      disk.plan_for(compiled.tuning, tuned_threads(request), diagnostics).value_or("") == compiled.plan;
}

// The plan that was tuned for this program, in the place of what is chosen; its text. Empty: there is none that
// applies.
std::string follow_tuned(const Cache& disk, const std::string& key, const codegen::Request& request,
    codegen::Stages& stages, lang::Diagnostics& diagnostics) {
  const std::optional<std::string> plan =
      key.empty() ? std::nullopt : disk.plan_for(key, tuned_threads(request), diagnostics);
  if (!plan) return {};
  codegen::Request own = request;
  own.plan = codegen::PlanText{*plan, 0};
  lang::Diagnostics faults;
  std::optional<codegen::Chosen> chosen =
      codegen::choose(*stages.reduced, own, until_for(request.target), stages.timings, faults);
  if (chosen) static_cast<codegen::Chosen&>(stages) = std::move(*chosen);
  else
    diagnostics
        .report({}, messages::stale_plan, request.signature.function.value_or("this program"),
            faults.all().empty() ? "it does not apply" : faults.all().back().message)
        .hint("run `tilec tune` again, or `tilec cache clear`");
  return *plan;
}

}  // namespace

// From the disk, else compiled, and then on the disk; `stages` are those of what was compiled, of forward where that is
// a pair. `said` goes with what is compiled; what the cache is warned of does not.
std::optional<Callable::Loads> Callable::found_or_compiled(const codegen::Request& request, codegen::Stages& stages,
    lang::Diagnostics& said, lang::Diagnostics& diagnostics) const {
  const codegen::Request asked = as_compiled(request);
  const bool has_plans = disk_ != nullptr && request.target.family != Family::Reference,
             lasts = has_plans && !keeps_stages_;
  const std::string text = lasts ? text_of(*loaded_, request) : std::string();
  if (lasts)
    if (const std::optional<Compiled> found = disk_->find(text, diagnostics);
        found && is_current(*disk_, *found, request, diagnostics)) {
      for (const lang::Diagnostic& d : found->said) said.add(d);
      return loaded(*found, request);
    }
  std::optional<codegen::Stages> whole, backward;
  if (request.pair) {
    if (std::optional<codegen::Pair> pair = codegen::compile_pair(file(), asked, until_for(request.target), said))
      whole = std::move(pair->forward), backward = std::move(pair->backward);
  } else {
    whole = codegen::compile(file(), asked, until_for(request.target), said);
  }
  if (!whole) return std::nullopt;
  stages = std::move(*whole);
  if (request.target.family == Family::Reference) {
    const auto interpreted = [&](const codegen::Stages& s, codegen::Half half) {
      const codegen::Request own = request_of(request, half);
      return extended(load_reference(*s.bounded, own), {own.accumulate, s.outputs, s.checks}, sources());
    };
    return Loads{interpreted(stages, codegen::Half::Forward),
        backward ? interpreted(*backward, codegen::Half::Backward) : nullptr};
  }
  Compiled compiled;
  if (has_plans)
    compiled.tuning = tuning_key(stages, asked),
    compiled.plan = follow_tuned(*disk_, compiled.tuning, asked, stages, diagnostics);
  compiled.halves.push_back(half_of(stages, request_of(request, codegen::Half::Forward)));
  if (backward) compiled.halves.push_back(half_of(*backward, request_of(request, codegen::Half::Backward)));
  if (lasts) {
    compiled.said = said.all();
    disk_->keep(text, compiled, diagnostics);
  }
  return loaded(compiled, request);
}

Callable::Loads Callable::loaded(const Compiled& compiled, const codegen::Request& request) const {
  const auto module = [&](const Half& half, codegen::Half which) {
    return extended(
        load(half.package, request), {request_of(request, which).accumulate, half.outputs, half.checks}, sources());
  };
  return {module(compiled.halves.front(), codegen::Half::Forward),
      compiled.halves.size() > 1 ? module(compiled.halves.back(), codegen::Half::Backward) : nullptr};
}

// What is kept has no stages: they are many times larger than the machine code.
void Callable::keep(const std::string& key, const Specialisation& made,
    std::vector<std::shared_ptr<const Specialisation>>& gone) const {
  Kept& place = cache_[key];
  // another thread may have asked for the same by another key
  gone.push_back(std::exchange(place.made, std::make_shared<const Specialisation>(made)));
  place.used = ++uses_;
  while (cache_.size() > std::max<std::size_t>(kernels_, 1)) {
    const auto oldest = std::ranges::min_element(cache_, {}, [](const auto& entry) { return entry.second.used; });
    gone.push_back(std::move(oldest->second.made));
    cache_.erase(oldest);
  }
}

}  // namespace tilec::runtime
