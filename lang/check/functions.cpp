#include "lang/check/functions.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lang/builtin.h"
#include "lang/calls.h"
#include "lang/check/packs.h"
#include "lang/choice.h"
#include "lang/idiom.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/op.h"
#include "lang/print.h"
#include "lang/type.h"

namespace tilec::lang::checking {
namespace {

// How many arguments a function takes that is not of the text.
std::optional<Count> arity(std::string_view name) {
  if (const std::optional<Op> op = function_named(name)) {
    const auto count = static_cast<std::size_t>(info(*op).arity);
    return Count{count, count};
  }
  if (dtype_named(name) || name.starts_with("assert_")) return Count{1, 1};
  const Builtin* builtin = builtin_named(name);
  return builtin ? std::optional(builtin->arguments) : std::nullopt;
}

std::vector<std::string> builtin_names() {
  std::vector<std::string> all = {"mad", "select"};
  for (const Builtin& each : builtins()) all.emplace_back(each.name);
  for (int op = 0; op <= static_cast<int>(Op::IsFinite); ++op) all.emplace_back(info(static_cast<Op>(op)).name);
  for (const DType type : all_dtypes) all.emplace_back(name(type));
  return all;
}

// `max(X)`, where a reduction is meant
void wrong_count(Names& here, const Call& c, const Expr& e, const Count& takes) {
  const std::string& name = c.function.text;
  auto entry = here.diagnostics.report(
      e.span(), messages::argument_count, name, described(takes, "argument"), std::to_string(c.arguments.size()));
  const Builtin* builtin = builtin_named(name);
  const auto written = with_parameter(c);
  if (written && builtin && builtin->parameters.holds(1) && takes.holds(c.arguments.size() - 1)) entry.hint(*written);
  else if (const auto idiom = hint_for(Idiom::Kind::Function, name)) entry.hint(*idiom);
}

// What an import under this prefix has.
std::string with_functions(const Names& here, const std::string& prefix) {
  constexpr std::size_t most = 5;
  std::vector<std::string> names;
  for (const std::string& each : function_names(here.file))
    if (each.starts_with(prefix + '.')) names.push_back(each);
  if (names.empty()) return fmt::format("`{}` has no functions", prefix);
  std::string text;
  for (std::size_t k = 0; k < std::min(most, names.size()); ++k) text += (k == 0 ? "`" : ", `") + names[k] + "`";
  return fmt::format("there {} {}{}", names.size() == 1 ? "is" : "are", text, names.size() > most ? ", …" : "");
}

}  // namespace

bool is_function(const Names& here, const Name& name) {
  const Known* known = here.find(name);
  if (known && known->kind == Known::Kind::Parameter) return true;
  return !definitions(here.file, name).empty();
}

bool may_stand_in_parameters(const Names& here, const Name& name) {
  const bool constant = name.text == "inf" || name.text == "nan";
  return constant || is_aggregation(name.text) || is_function(here, name) || arity(name.text);
}

void no_function(Names& here, const Name& name, const std::optional<std::string>& otherwise) {
  std::vector<std::string> own, all, standard;
  if (here.may_search()) {
    for (const StandardName& each : standard_names()) standard.emplace_back(each.name);
    own = function_names(here.file);
    all = builtin_names();
    all.insert(all.end(), own.begin(), own.end());
  }
  if (const auto whole = name_with_prefix(here.file, name)) {
    here.diagnostics.report(name.span, messages::prefix_missing, name.spelled())
        .hint(fmt::format("write `{}`", whole->text));
    return;
  }
  auto entry = here.diagnostics.report(name.span, messages::unknown_function, name.spelled());
  if (const auto parts = prefixed(name)) {
    const auto near = nearest(name.text, own);
    const auto elsewhere = near ? std::nullopt : hint_for(Idiom::Kind::Function, parts->name.text);
    entry.hint(
        near ? fmt::format("did you mean `{}`?", *near) : elsewhere.value_or(with_functions(here, parts->prefix)));
  } else if (const auto hidden = hidden_definition(here.file, name))
    entry.label(hidden->function->name->span, "defined in a file that an import imports")
        .hint("import that file too");
  else if (const auto near = nearest(name.text, own); near && near->size() == name.text.size())
    entry.hint(fmt::format("did you mean `{}`?", *near));
  else if (const auto idiom = hint_for(Idiom::Kind::Function, name.text)) entry.hint(*idiom);
  else if (const auto near = nearest(name.text, all)) entry.hint(fmt::format("did you mean `{}`?", *near));
  else if (const auto near = nearest(name.text, standard))
    entry.hint(fmt::format("did you mean `{}`? {}", *near, hint_for(Idiom::Kind::Function, *near).value()));
  else entry.hint(otherwise && name.upper ? *otherwise : "`tilec explain E0116` says which there are");
}

namespace {

// A name in < >: something of this function, a function, an aggregation or a constant; build knows which is wanted.
void argument_name(Names& here, const Name& name) {
  if (const Known* known = here.find(name); known && known->pack) return misplaced(here, name, "`< >`");
  if (!here.find(name) && !may_stand_in_parameters(here, name))
    no_function(
        here, name, fmt::format("a number has to be declared in the heading: `function f<{}=3>(…)`", name.text));
}

// One of the names of a parameter of the callee, or of one that is not known here; calls.cpp and build say more.
bool may_be_choice(const Names& here, const Call& c, std::size_t k) {
  const Known* known = here.find(c.function);
  if (known && known->kind == Known::Kind::Parameter) return true;
  const auto all = definitions(here.file, c.function);
  if (all.size() != 1) return false;
  const Parameter* parameter = parameter_of(*all[0].function, c.parameters, k);
  return !parameter || !choices_of(*all[0].function, parameter->name).empty();
}

}  // namespace

bool is_known(const Names& here, const Name& name) {
  return is_function(here, name) || name.text == "iterate" || arity(name.text);
}

void taken_and_given(Names& here, const Call& c, const Expr& e) {
  const std::string& name = c.function.text;
  for (std::size_t k = 0; k < c.parameters.size(); ++k)
    if (const auto* parameter = std::get_if<Name>(&c.parameters[k].value); parameter && !may_be_choice(here, c, k))
      argument_name(here, *parameter);
  if (const auto label = std::find_if(
          c.parameters.begin(), c.parameters.end(), [](const Argument& a) { return a.label.has_value(); });
      label != c.parameters.end() && !is_function(here, c.function))
    here.diagnostics.report(label->label->span, messages::unknown_parameter, name, label->label->spelled())
        .hint(fmt::format("`{}` is built in: what stands in its `< >` has no name", name));
  if (is_function(here, c.function) || name == "iterate") return;  // calls.cpp
  if (const auto label =
          std::find_if(c.labels.begin(), c.labels.end(), [](const auto& each) { return each.has_value(); });
      label != c.labels.end()) {
    here.diagnostics.report((*label)->span, messages::names_of_builtin, name)
        .hint(fmt::format(
            "leave the name out: `{}`", print(Expr(Call{c.function, c.parameters, c.arguments}, e.span()))));
    return;
  }
  const std::optional<Count> takes = arity(name);
  const Builtin* builtin = builtin_named(name);
  const Count parameters = builtin ? builtin->parameters : Count{};
  if (!takes->holds(c.arguments.size()))
    wrong_count(here, c, e, *takes);
  else if (!parameters.holds(c.parameters.size()))
    here.diagnostics.report(e.span(), messages::argument_count, name, described(parameters, "number") + " in `< >`",
        std::to_string(c.parameters.size()));
}

}  // namespace tilec::lang::checking
