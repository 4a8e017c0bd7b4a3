// From the tree of a function to a Program: compile-time parameters, inputs, then statement after statement, then
// results.
#include "poly/build.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lang/by_name.h"
#include "lang/check.h"
#include "lang/former.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "poly/elementwise.h"
#include "poly/pack.h"
#include "poly/parameters.h"
#include "poly/rule.h"
#include "poly/signature.h"
#include "poly/statements.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

void add_result(Scope& scope, const lang::Function& function, const lang::Target& result, const std::string& called) {
  const auto name = result.name.spelled();
  const auto* named = find(scope, result.name, result.span);
  if (!named) {
    scope.failed = true;
    return;
  }
  const auto type = result.dtype ? lang::dtype_named(result.dtype->text) : std::nullopt;
  std::optional<DType> stored_type;
  if (!written_type(scope, function, result, stored_type)) return;
  if (named->kind == Named::Kind::Tuple) {
    scope.failed = true;
    std::string parts = name;
    for (std::size_t k = 1; k < named->elements.size(); ++k) parts += fmt::format(", {}_{}", name, k);
    scope.diagnostics.report(result.span, messages::not_elementwise, name)
        .label(named->span, fmt::format("{} tensors", named->elements.size()))
        .hint(fmt::format("give each a name where they are made, `({}) = …;`, and list those that are results", parts));
    return;
  }
  const bool made = named->kind != Named::Kind::Tensor;
  const bool is_size =
      std::find(scope.program.sizes.begin(), scope.program.sizes.end(), called) != scope.program.sizes.end();
  const auto id = stored(scope, *named,
      {.name = made && is_size ? fresh(scope, name) : called, .dtype = stored_type, .span = result.span});
  if (!id) {
    scope.failed = true;
    return;
  }
  if (made) scope.names[name] = Named::of_tensor(*id, result.span);
  if (type && scope.tensor(*id).dtype != *type) {
    scope.failed = true;
    scope.diagnostics
        .report(result.span, messages::type_conflict, lang::name(*type), lang::name(scope.tensor(*id).dtype))
        .label(scope.tensor(*id).span, "declared here");
    return;
  }
  if (made || called == name) return scope.program.outputs.push_back(*id);
  // a cotangent of its own, a place of its own in memory
  const auto again = copied(scope, *id, {.name = called, .span = result.span});
  if (again) scope.program.outputs.push_back(again->tensor);
  scope.failed |= !again;
}

lang::Argument defined(const Define& define, Span span) {
  if (const auto* name = std::get_if<std::string>(&define.value))
    return {lang::Name{*name, !name->empty() && name->front() >= 'A' && name->front() <= 'Z', span}, span};
  const double value = std::get<double>(define.value);
  const bool whole = value == std::floor(value) && value >= -0x1p63 && value < 0x1p64;
  return {lang::Number{fmt::format("{}", value), !whole, whole ? static_cast<std::uint64_t>(std::fabs(value)) : 0,
              std::fabs(value), value < 0},
      span};
}

// `dim=1` and `axis=1`, as others call a dimension, of a function with `dim`, or with `start_dim` and `end_dim`.
std::vector<Define> with_axes(const lang::Function& function, const std::vector<Define>& defines) {
  const auto has = [&](std::string_view name) { return lang::parameter_called(function, name) != nullptr; };
  std::vector<Define> all;
  for (const auto& define : defines) {
    const bool is_axis = (define.name == "dim" || define.name == "axis") && !has(define.name);
    if (is_axis && has("start_dim") && has("end_dim"))
      all.push_back({"start_dim", define.value}), all.push_back({"end_dim", define.value});
    else all.push_back({is_axis && has("dim") ? "dim" : define.name, define.value});
  }
  return all;
}

// What `--define` gives, as if the function had been called with it.
bool bind_defines(
    const lang::Function& function, const Signature& signature, Scope& scope, std::vector<lang::Argument>& values) {
  const std::string name = function.name ? function.name->text : "function";
  std::vector<std::string> known;
  for (const auto& parameter : function.parameters) known.push_back(parameter.name.text);
  std::vector<const Define*> given(known.size());        // null: the default
  const std::vector<Define> defines = with_axes(function, signature.defines);
  for (const auto& define : defines) {
    if (const lang::Parameter* parameter = lang::parameter_called(function, define.name)) {
      const Define*& place = given[static_cast<std::size_t>(parameter - function.parameters.data())];
      lang::warn_of_former(function, *parameter, define.name, parameter->name.span, scope.diagnostics);
      if (place != nullptr)
        scope.diagnostics
            .report(function.span_of_head(), messages::name_twice, "compile-time parameter", parameter->name.spelled(),
                name)
            .hint(place->name == define.name ? "`dim` gives `start_dim` and `end_dim`"
                                             : fmt::format("`{}` and `{}` are one", place->name, define.name));
      if (place != nullptr) return false;
      place = &define;
      continue;
    }
    const bool input = std::any_of(function.inputs.begin(), function.inputs.end(),
        [&](const lang::Input& i) { return i.target.name.text == define.name; });
    if (input) continue;
    auto entry = scope.diagnostics.report(function.span_of_head(), messages::unknown_define, define.name, name);
    if (const auto near = lang::nearest(define.name, known)) entry.hint(fmt::format("did you mean `{}`?", *near));
    else if (known.empty()) entry.hint("it has none");
    else entry.hint(fmt::format("it has `{}`", fmt::join(known, "`, `")));
    return false;
  }
  for (std::size_t k = 0; k < given.size(); ++k) {
    const lang::Parameter& parameter = function.parameters[k];
    if (given[k] == nullptr && !parameter.value) {
      scope.diagnostics.report(parameter.name.span, messages::parameter_missing, parameter.name.text, name)
          .hint(fmt::format("give it: `--define {}=…`", parameter.name.text));
      return false;
    }
    values.push_back(given[k] == nullptr ? *parameter.value : defined(*given[k], parameter.name.span));
  }
  return bind_parameters(scope, function, values, scope, function.span_of_head());
}

bool may_be_omitted(const lang::Function& function, const Signature& signature, Scope& scope) {
  const std::string name = function.name ? function.name->text : "function";
  for (const auto& each : signature.omitted) {
    const auto input = std::find_if(function.inputs.begin(), function.inputs.end(),
        [&](const lang::Input& i) { return i.target.name.text == each; });
    if (input == function.inputs.end())
      scope.diagnostics.report(function.span_of_head(), messages::unknown_input, name, each);
    else if (!input->value)
      scope.diagnostics.report(input->span, messages::input_missing, each, name).hint("it has no default");
  }
  return !scope.diagnostics.has_errors();
}

// An input that nobody gave a type now has one: it is assumed no longer.
Signature with_type(Signature signature, const lang::Function& function, const std::string& name, DType type) {
  for (const auto& input : function.inputs) {
    if (input.target.name.spelled() != name) continue;
    const auto given = std::find_if(signature.inputs.begin(), signature.inputs.end(),
        [&](const Given& g) { return g.name == input.target.name.text; });
    if (given != signature.inputs.end()) given->dtype = type;
    else signature.inputs.push_back({.name = input.target.name.text, .dtype = type});
  }
  return signature;
}

// The entry's own `gradient` and `tangent` hold for it as if it were called.
void own_derivatives(const lang::File& file, const lang::Function& function,
    const std::vector<lang::Argument>& parameters, Scope& scope) {
  const auto derivatives = derivatives_of({&file, &function});
  if (!derivatives.any()) return;
  std::vector<Named> arguments, results;
  for (const auto& input : function.inputs) arguments.push_back(scope.names.at(input.target.name.spelled()));
  for (const auto id : scope.program.outputs) results.push_back(Named::of_tensor(id, function.span_of_head()));
  if (!attach_rule(scope, derivatives, {*function.name, parameters, {}}, arguments, results, function.span_of_head()))
    return;
  for (std::size_t k = 0; k < results.size(); ++k) scope.program.outputs[k] = results[k].tensor;
}

// `wanted` receives the types that inputs must have where f32 was assumed and does not do.
std::optional<Program> build_once(const lang::File& file, const lang::Function& written, const Signature& signature,
    lang::Diagnostics& diagnostics, std::map<std::string, DType>& wanted) {
  Scope scope{.diagnostics = diagnostics, .file = &file};
  scope.program.name = written.name ? written.name->text : "";
  std::vector<lang::Argument> parameters;
  if (!may_be_omitted(written, signature, scope) || !bind_defines(written, signature, scope, parameters))
    return std::nullopt;
  const auto chosen = lang::with_choices(written, scope.chosen);
  const lang::Function& picked = chosen ? *chosen : written;
  const auto plain = with_ranks(scope, picked, ranks_of(picked, signature), signature.ranks);
  if (!plain) return std::nullopt;
  const lang::Function& function = *plain;
  find_declared(function, scope);
  find_used_as_size(function, scope);
  declare_inputs(function, signature, scope);
  for (const auto& statement : function.statements) add_statement(scope, function, statement);
  const auto called = result_names(function);
  for (std::size_t k = 0; k < called.size(); ++k) add_result(scope, function, function.results[k], called[k]);
  if (!scope.failed) own_derivatives(file, written, parameters, scope);
  wanted = scope.assumed->wanted;
  if (scope.failed || diagnostics.has_errors()) return std::nullopt;
  name_tensors(scope);
  list_derivatives(scope);
  return std::move(scope.program);
}

// Where an input does not fit, the order of dimensions may be another one.
void hint_layout(const lang::Function& function, lang::Diagnostics& diagnostics) {
  const std::string hint = lang::layout_hint(function);
  for (std::size_t k = 0; k < diagnostics.all().size() && !hint.empty(); ++k)
    if (const std::string& code = diagnostics.all()[k].code; code == messages::size_mismatch.code ||
        code == messages::size_number_mismatch.code || code == messages::given_rank.code)
      lang::Diagnostics::Entry(diagnostics, k).hint(hint);
}

}  // namespace

std::vector<std::string> result_names(const lang::Function& function) {
  lang::Diagnostics unheard;
  Scope scope{.diagnostics = unheard};
  find_declared(function, scope);
  for (const auto& result : function.results) scope.declared.insert(result.name.spelled());
  std::set<std::string> given;
  for (const auto& input : function.inputs)
    // callers know both without mark
    for (const std::string& name : {input.target.name.text, "#" + input.target.name.text}) {
      scope.declared.insert(name);
      given.insert(name);
    }
  std::vector<std::string> names;
  for (const auto& result : function.results) {
    const auto name = result.name.spelled();
    names.push_back(given.insert(name).second ? name : fresh(scope, name));
    scope.declared.insert(names.back());
  }
  return names;
}

// What bind reports of the same code is about all of a program, and has no place.
bool waits_for_shapes(const lang::Diagnostic& diagnostic) {
  return diagnostic.code == lang::messages::unbound_sizes.code && diagnostic.span.begin < diagnostic.span.end;
}

std::optional<Program> build(const lang::File& file, const Signature& signature, lang::Diagnostics& diagnostics) {
  const auto* function = chosen_function(file, signature, diagnostics);
  if (!function) return std::nullopt;
  Signature known = signature;
  const std::vector<lang::Allowed> allowed = lang::allowed_warnings(file);
  if (!lang::is_allowed(allowed, messages::deprecated_function.code, function->span_of_head()))
    lang::warn_of_deprecated(*function, function->span_of_head(), diagnostics);
  std::optional<lang::Diagnostics> first;               // what is told unless other types leave less to tell
  for (;;) {
    lang::Diagnostics found;
    std::map<std::string, DType> wanted;
    auto program = build_once(file, *function, known, found, wanted);
    hint_layout(*function, found);
    if (!first) first = found;
    if (program || wanted.empty()) {
      const bool helped = program || found.all().size() < first->all().size();
      for (const auto& diagnostic : (helped ? found : *first).all())
        if (diagnostic.severity != lang::Severity::Warning ||
            !lang::is_allowed(allowed, diagnostic.code, diagnostic.span))
          diagnostics.add(diagnostic);
      // What may be said once sizes are known.
      if (program)
        std::erase_if(program->borders, [&](const Border& border) {
          return lang::is_allowed(
              allowed, border.loses ? messages::border_lost.code : messages::never_inside.code, border.span);
        });
      return diagnostics.has_errors() ? std::nullopt : std::move(program);
    }
    for (const auto& [name, type] : wanted) known = with_type(std::move(known), *function, name, type);
  }
}

}  // namespace tilec::poly
