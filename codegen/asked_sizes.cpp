#include "codegen/asked_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "autodiff/graph.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/pack.h"
#include "poly/signature.h"

namespace tilec::codegen {

namespace {

namespace messages = lang::messages;

const poly::Given* given_for(const Request& request, const lang::Input& input) {
  const auto at = std::ranges::find(request.signature.inputs, input.target.name.text, &poly::Given::name);
  return at == request.signature.inputs.end() ? nullptr : &*at;
}

// Sizes in the brackets of inputs, scalar inputs, and those that only statements use, as a caller writes them.
std::vector<std::string> names_of(
    const lang::Function& function, const Request& request, const poly::Program& contraction) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) { if (std::ranges::count(names, name) == 0) names.push_back(name); };
  for (const lang::Input& input : function.inputs) {
    const poly::Given* given = given_for(request, input);
    const auto shown = given != nullptr && given->shape ? lang::sizes_shown(input, given->shape->size()) : input.sizes;
    for (const lang::Expr& size : shown.value_or(std::vector<lang::Expr>{}))
      if (const auto* variable = size.as<lang::Variable>(); variable != nullptr && !variable->pack)
        add(variable->name.text);
  }
  for (const std::string& name : contraction.sizes) add(autodiff::without_mark(name));
  return names;
}

bool is_scalar_input(const lang::Function& function, std::string_view name) {
  return std::ranges::any_of(function.inputs, [&](const lang::Input& input) {
    return input.target.name.text == name && (!input.sizes || input.sizes->empty());
  });
}

bool is_parameter(const lang::Function& function, std::string_view name) {
  return std::ranges::any_of(
      function.parameters, [&](const lang::Parameter& parameter) { return parameter.name.text == name; });
}

class Fit {
 public:
  Fit(const lang::Function& function, const Request& request, lang::Diagnostics& diagnostics)
      : function_(function), request_(request), diagnostics_(diagnostics) {}

  bool holds(const std::vector<std::string>& names) {
    for (const std::string& asked : request_.asked_sizes) {
      const std::string name = autodiff::without_mark(asked);
      if (is_parameter(function_, name)) is_no_size(asked);
      else if (std::ranges::count(names, name) == 0 && !is_scalar_input(function_, name)) unknown(asked, names);
      else compare(name, request_.sizes.at(asked));
    }
    return !failed_;
  }

 private:
  void is_no_size(const std::string& parameter) {
    failed_ = true;
    diagnostics_.report({}, messages::unknown_size, parameter, "this function")
        .hint(fmt::format("it is a compile-time parameter: `--define {}={}`", parameter, request_.sizes.at(parameter)));
  }

  void unknown(const std::string& asked, const std::vector<std::string>& names) {
    failed_ = true;
    const std::optional<std::string> near = lang::nearest(asked, names);
    const std::vector<lang::Name> packs = lang::packs_of(function_);
    const auto pack = std::ranges::find(packs, asked, &lang::Name::text);
    if (pack != packs.end()) {
      diagnostics_.report(pack->span, messages::unknown_size, asked, "this function")
          .hint(fmt::format("`{0}...` stands for dimensions called `{0}0`, `{0}1`, …: give the size of each", asked));
      return;
    }
    diagnostics_.report({}, messages::unknown_size, asked, "this function")
        .hint(near              ? fmt::format("did you mean `{}`?", *near)
                : names.empty() ? "it has none"
                                : fmt::format("its sizes are {}", fmt::join(names, ", ")));
  }

  void compare(const std::string& name, std::int64_t asked) {
    for (const lang::Input& input : function_.inputs) {
      if (input.target.name.text == name && std::ranges::count(request_.signature.omitted, name) > 0)
        not_given(input.span, name, asked);
      const poly::Given* given = given_for(request_, input);
      if (given == nullptr) continue;
      if (given->integer && input.target.name.text == name)
        differ(input.span, name, *given->integer, fmt::format("{}={}", name, *given->integer), asked);
      const auto shown = given->shape ? lang::sizes_shown(input, given->shape->size()) : std::nullopt;
      for (std::size_t d = 0; shown && d < shown->size(); ++d)
        if (const auto* variable = (*shown)[d].as<lang::Variable>();
            variable != nullptr && variable->name.text == name && (*given->shape)[d].value())
          differ((*shown)[d].span(), name, *(*given->shape)[d].value(), input.target.name.text, asked);
    }
  }

  void not_given(lang::Span span, const std::string& name, std::int64_t asked) {
    failed_ = true;
    diagnostics_.report(span, messages::given_twice, "input", name)
        .hint(fmt::format("it is its default, and {} in `{}`: leave out one of the two", asked, request_.sizes_from));
  }

  void differ(lang::Span span, const std::string& name, std::int64_t is, const std::string& where, std::int64_t asked) {
    if (is == asked) return;
    failed_ = true;
    diagnostics_.report(span, messages::given_size_differs, name, is, where, asked, request_.sizes_from)
        .hint("leave it out: an argument's shape says it");
  }

  const lang::Function& function_;
  const Request& request_;
  lang::Diagnostics& diagnostics_;
  bool failed_ = false;
};

}  // namespace

bool sizes_fit(
    const lang::File& file, const Request& request, const poly::Program& contraction, lang::Diagnostics& diagnostics) {
  if (request.asked_sizes.empty()) return true;
  const lang::Function* function = poly::chosen_function(file, request.signature, diagnostics);
  return function != nullptr && Fit(*function, request, diagnostics).holds(names_of(*function, request, contraction));
}

}  // namespace tilec::codegen
