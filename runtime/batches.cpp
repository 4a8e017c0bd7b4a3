#include "runtime/batches.h"

#include <fmt/format.h>

#include <algorithm>

#include "lang/messages.h"
#include "lang/pack.h"

namespace tilec::runtime {

namespace {

namespace messages = lang::messages;

bool has_dimensions(const Argument& argument) { return argument.tensor && !argument.tensor->shape.empty(); }

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::count(names, name) > 0;
}

const lang::Input* input_named(const lang::Function* function, const std::string& name) {
  if (function == nullptr) return nullptr;
  const auto at =
      std::ranges::find(function->inputs, name, [](const lang::Input& input) { return input.target.name.text; });
  return at == function->inputs.end() ? nullptr : &*at;
}

class Batches {
 public:
  Batches(const Callable& callable, const std::vector<Argument>& arguments, codegen::Request& request,
      lang::Diagnostics& diagnostics)
      : callable_(callable), arguments_(arguments), request_(request), diagnostics_(diagnostics) {}

  std::optional<Leading> settle() {
    name_inputs();
    for (const Argument& argument : arguments_)
      if (!take(argument)) return std::nullopt;
    return leading_;
  }

 private:
  // A batch of all inputs is one of those that are there when it is made and have dimensions, given or shown.
  void name_inputs() {
    codegen::Ports ports{callable_.input_names(), callable_.result_names()};
    for (codegen::Derivative& derivative : request_.derivatives) {
      if (derivative.batch && derivative.wrt.empty())
        for (const Argument& argument : arguments_)
          if ((has_dimensions(argument) || shows_dimensions(argument.name)) && contains(ports.inputs, argument.name))
            derivative.wrt.push_back(argument.name);
      ports = codegen::derived(ports, derivative);
    }
  }

  bool shows_dimensions(const std::string& name) const {
    const lang::Input* input = input_named(callable_.function(), name);
    return input != nullptr && input->sizes && !input->sizes->empty();
  }

  bool take(const Argument& argument) {
    std::vector<codegen::Derivative*> batches;            // of the argument, the last first: so its dimensions lie
    for (auto derivative = request_.derivatives.rbegin(); derivative != request_.derivatives.rend(); ++derivative)
      if (derivative->batch && contains(derivative->wrt, argument.name)) batches.push_back(&*derivative);
    if (batches.empty()) return true;
    if (!has_them(argument, batches.size())) return false;
    leading_[argument.name] = batches.size();
    for (std::size_t d = 0; d < batches.size(); ++d) {
      const std::int64_t extent = argument.tensor->shape[d];
      std::optional<std::int64_t>& known = batches[d]->extent;
      std::string& from = said_by_[batches[d]];
      if (!known) known = extent, from = argument.name;
      if (*known == extent) continue;
      diagnostics_.report({}, messages::batches_differ, from, *known, argument.name, extent);
      return false;
    }
    return true;
  }

  // Enough dimensions, and where the text says how many one element has, no others.
  bool has_them(const Argument& argument, std::size_t count) {
    const std::vector<std::int64_t> shape = argument.tensor ? argument.tensor->shape : std::vector<std::int64_t>{};
    const lang::Input* input = input_named(callable_.function(), argument.name);
    const bool shown = input != nullptr && input->sizes;
    if (shown ? shape.size() >= count && lang::may_have(*input, shape.size() - count) : shape.size() >= count)
      return true;
    const std::string batch =
        fmt::format("{} of the batch{} in front", count == 1 ? "one" : std::to_string(count), count == 1 ? "" : "es");
    const std::string wanted = shown ? fmt::format("{} and {}", lang::counted(input->sizes->size(), "dimension"), batch)
                                     : fmt::format("{} {}", count == 1 ? "a dimension," : "dimensions,", batch);
    diagnostics_
        .report(input != nullptr ? input->span : lang::Span{}, messages::batch_missing, argument.name, wanted,
            describe_shape(shape))
        .hint("name the inputs that the batch is of; the others are the same for all of it");
    return false;
  }

  const Callable& callable_;
  const std::vector<Argument>& arguments_;
  codegen::Request& request_;
  lang::Diagnostics& diagnostics_;
  Leading leading_;
  std::map<const codegen::Derivative*, std::string> said_by_;  // whose extent it is
};

}  // namespace

std::optional<Leading> settle_batches(const Callable& callable, const std::vector<Argument>& arguments,
    codegen::Request& request, lang::Diagnostics& diagnostics) {
  if (arguments.empty() || std::ranges::none_of(request.derivatives, &codegen::Derivative::batch)) return Leading{};
  return Batches(callable, arguments, request, diagnostics).settle();
}

bool have_extents(const Callable& callable, const codegen::Request& request, lang::Diagnostics& diagnostics) {
  if (std::ranges::all_of(request.derivatives, [](const codegen::Derivative& d) { return !d.batch || d.extent; }))
    return true;
  const lang::Function* function = callable.function();
  diagnostics
      .report({}, messages::nothing_to_batch,
          function != nullptr && function->name ? fmt::format("`{}`", function->name->text) : "the function")
      .hint("give an input with the dimension of the batch in front");
  return false;
}

Argument without_leading(Argument argument, const Leading& leading) {
  const auto found = leading.find(argument.name);
  if (found == leading.end()) return argument;
  const auto count = static_cast<std::ptrdiff_t>(found->second);
  for (std::vector<std::int64_t>* list : {&argument.tensor->shape, &argument.tensor->strides})
    list->erase(list->begin(), list->begin() + count);
  return argument;
}

}  // namespace tilec::runtime
