#include "lang/calls.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "lang/builtin.h"
#include "lang/choice.h"
#include "lang/former.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/op.h"
#include "lang/print.h"
#include "lang/walk.h"

namespace tilec::lang {
namespace {

// Every call in an expression, outer before inner.
template <class Visit> void each_call(const Expr& e, const Visit& visit) {
  if (const auto* call = e.as<Call>()) visit(*call, e);
  each_child(e, [&](const Expr& inner) { each_call(inner, visit); });
}

template <class Visit> void each_call(const Function& f, const Visit& visit) {
  for (const Statement& s : f.statements)
    std::visit(Overloaded{[](std::monostate) {}, [&](const Assignment& a) { each_call(a.value, visit); },
                   [&](const TupleAssignment& t) { each_call(t.value, visit); },
                   [&](const Contraction& c) { each_call(c.body, visit); }},
        s.node);
}

bool is_parameter(const Function& f, const Name& name) {
  return std::any_of(f.parameters.begin(), f.parameters.end(), [&](const Parameter& p) { return p.name == name; });
}

std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& each : names) list += (list.empty() ? "`" : ", `") + each + "`";
  return list;
}

// A name that no parameter, or no input, has: one that is spelled like it, one of the others, or any.
void unknown(const Function& function, const std::string& name, const Name& label,
    const Message<std::string_view, std::string_view>& message, Diagnostics& diagnostics) {
  std::vector<std::string> parameters, inputs;
  for (const Parameter& each : function.parameters) parameters.push_back(each.name.spelled());
  for (const Input& each : function.inputs) inputs.push_back(each.target.name.spelled());
  const bool of_parameters = message.code == messages::unknown_parameter.code;
  const auto& own = of_parameters ? parameters : inputs;
  const auto& others = of_parameters ? inputs : parameters;
  auto entry = diagnostics.report(label.span, message, name, label.spelled());
  entry.label(function.span_of_head(), "declared here");
  if (const auto near = nearest(label.text, own)) entry.hint(fmt::format("did you mean `{}`?", *near));
  else if (std::find(others.begin(), others.end(), label.spelled()) != others.end())
    entry.hint(of_parameters ? fmt::format("`{}` is an input: it stands in `( )`", label.spelled())
                             : fmt::format("`{}` is a compile-time parameter: it stands in `< >`", label.spelled()));
  else if (own.empty()) entry.hint(fmt::format("`{}` has none", name));
  else entry.hint(fmt::format("its {} are {}", of_parameters ? "parameters" : "inputs", listed(own)));
}

// The import through which a file's functions are called under a prefix: it may only import that file.
const Import* import_of(const File& importer, const File& file, const std::string& prefix) {
  const Import* through = nullptr;
  for (const auto& item : importer.items) {
    const auto* import = std::get_if<Import>(&item);
    if (!import || !import->file || (import->prefix ? import->prefix->text : "") != prefix) continue;
    if (import->file.get() == &file) return import;
    const auto& items = import->file->items;
    const bool passes_on = std::none_of(
        items.begin(), items.end(), [](const auto& each) { return std::holds_alternative<Function>(each); });
    const auto inner = callable_imports(*import->file);
    if (!through && passes_on && std::find(inner.begin(), inner.end(), &file) != inner.end()) through = import;
  }
  return through;
}

// `loss` for "std/loss.tile", or a word that is one.
Name prefix_for(const Import& import) {
  const std::size_t slash = import.path.rfind('/') + 1;  // npos + 1 is 0
  std::string word;
  for (const char c : import.path.substr(slash, import.path.find('.', slash) - slash))
    word += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  const bool fits = !word.empty() && word[0] >= 'a' && word[0] <= 'z';
  return {fits ? word : "other", false, import.span};
}

const Name& first_label(const Call& call) {
  return **std::find_if(call.labels.begin(), call.labels.end(), [](const auto& label) { return label.has_value(); });
}

std::size_t required(const Function& f) {
  return static_cast<std::size_t>(
      std::count_if(f.inputs.begin(), f.inputs.end(), [](const Input& i) { return !i.value; }));
}

class Calls {
 public:
  Calls(const File& file, Diagnostics& diagnostics) : file_(file), diagnostics_(diagnostics) {}

  void run() {
    for (const auto& item : file_.items)
      if (const auto* f = std::get_if<Function>(&item)) {
        each_call(*f, [&](const Call& c, const Expr& e) { call(*f, c, e.span()); });
        tuples(*f);
        if (f->role != Function::Role::Function) derivative(*f);
      }
    recursion();
  }

 private:
  const File& file_;
  Diagnostics& diagnostics_;

  // The one definition a name has here; reports several.
  const Function* meant(const Name& name) {
    const auto found = definitions(file_, name);
    if (found.size() < 2) return found.empty() ? nullptr : found[0].function;
    auto entry = diagnostics_.report(name.span, messages::ambiguous_function, name.text, std::to_string(found.size()));
    for (const auto& each : found) entry.label(each.function->name->span, "one is here");
    const auto parts = prefixed(name);
    const Name& own = parts ? parts->name : name;
    const std::string here = parts ? parts->prefix : "";
    const Import *first = import_of(file_, *found[0].file, here), *second = import_of(file_, *found[1].file, here);
    const Name prefix = prefix_for(*second);
    if (first == second)
      entry.hint(fmt::format(
          "import the file that is meant itself, `import \"FILE.tile\" as other;`, and call its own `other.{}`",
          own.spelled()));
    else
      entry.hint(fmt::format("give one import a prefix, `import \"{}\" as {};`, and call its own `{}`", second->path,
          prefix.text, with_prefix(prefix, own).text));
    return nullptr;
  }

  void call(const Function& caller, const Call& c, Span span) {
    for (const Argument& a : c.parameters)
      if (const auto* name = std::get_if<Name>(&a.value)) argument_name(caller, *name);
    if (is_parameter(caller, c.function)) return;
    if (c.function.text == "iterate" && definitions(file_, c.function).empty()) return iterate(c, span);
    const Function* f = meant(c.function);
    if (!f) return;
    if (!instead_of(caller)) warn_of_deprecated(*f, c.function.span, diagnostics_);
    in_order(*f, c, span, diagnostics_);
    if (!in_order(*f, c.parameters, span, diagnostics_)) return;
    for (std::size_t k = 0; k < c.parameters.size(); ++k) {
      const auto* name = std::get_if<Name>(&c.parameters[k].value);
      const Parameter& parameter = *parameter_of(*f, c.parameters, k);
      const bool chosen_here = !choices_of(*f, parameter.name).empty() && (!name || !is_parameter(caller, *name));
      // whether a name is a number, a size say, is known where it is built
      if (chosen_here) fits(*f, parameter, c.parameters[k], diagnostics_);
    }
  }

  // `map<relu>(X)`: a function of the file, a built-in, an aggregation or a parameter; build knows which is wanted.
  void argument_name(const Function& caller, const Name& name) {
    const Function* f = is_parameter(caller, name) ? nullptr : meant(name);
    if (f && !instead_of(caller)) warn_of_deprecated(*f, name.span, diagnostics_);
  }

  void iterate(const Call& c, Span span) {
    if (!c.labels.empty())
      diagnostics_.report(first_label(c).span, messages::names_of_builtin, "iterate")
          .hint("the inputs of what it applies stand in their order");
    const bool counted_function = c.parameters.size() == 2 && std::holds_alternative<Name>(c.parameters[0].value);
    if (!counted_function)
      diagnostics_
          .report(span, messages::parameter_count, "iterate", "2 compile-time parameters, a function and a number")
          .hint("write `iterate<f, 20>(X)`");
  }

  // (A, B) = f(X) of a function with another number of results.
  void tuples(const Function& f) {
    for (const Statement& s : f.statements) {
      const auto* tuple = std::get_if<TupleAssignment>(&s.node);
      const auto* c = tuple ? tuple->value.as<Call>() : nullptr;
      if (!c || is_parameter(f, c->function)) continue;
      const auto found = definitions(file_, c->function);
      if (found.size() != 1 || found[0].function->results.size() == tuple->targets.size()) continue;
      diagnostics_
          .report(tuple->value.span(), messages::result_count, c->function.text,
              counted(found[0].function->results.size(), "result"), are(tuple->targets.size()))
          .label(found[0].function->span_of_head(), "declared here");
    }
  }

  // gradient f(inputs, results, cotangents) -> (cotangents of inputs); which of them are floats is known where f is
  // called.
  void derivative(const Function& d) {
    const bool reverse = d.role == Function::Role::Gradient;
    const Function* f = function_of(file_, *d.name, Function::Role::Function);
    if (f) no_defaults(*f, d), no_defaults(d, d);
    if (!f) {
      auto entry = diagnostics_.report(
          d.name->span, messages::derivative_of_nothing, d.name->spelled(), reverse ? "gradient" : "tangent");
      if (const auto imported = definitions(file_, *d.name); !imported.empty())
        entry.label(imported[0].function->span_of_head(), "imported from here")
            .hint(
                "a derivative stands in the file of its function: put it there, or call the function from one of your own that has the derivative");
      else if (const auto near = nearest(d.name->text, function_names(file_)))
        entry.hint(fmt::format("did you mean `{}`?", *near));
      return;
    }
    const std::size_t in = f->inputs.size(), out = f->results.size();
    const std::size_t most = reverse ? in + 2 * out : 2 * in + out;
    if (d.inputs.size() <= in + out || d.inputs.size() > most)
      diagnostics_
          .report(d.name->span, messages::argument_count,
              fmt::format("{} {}", reverse ? "gradient" : "tangent", d.name->text),
              reverse
                  ? fmt::format("the {}, the {} and a cotangent of each", counted(in, "input"), counted(out, "result"))
                  : fmt::format("the {}, a tangent of each and the {}", counted(in, "input"), counted(out, "result")),
              std::to_string(d.inputs.size()))
          .label(f->span_of_head(), "the function is here");
  }

  // The text of a derivative takes every input of its function.
  void no_defaults(const Function& f, const Function& derivative) {
    for (const Input& each : f.inputs)
      if (each.value)
        diagnostics_.report(each.span, messages::input_default, each.target.name.spelled(), print(*each.value))
            .label(derivative.name->span, "takes it")
            .hint("let a function without a derivative of its own have the default, and call this one");
  }

  // Functions that call others are taken away once all these are gone; those that stay call themselves, or one that
  // does.
  void recursion() {
    std::map<const Function*, std::vector<const Function*>> callers;
    std::map<const Function*, std::size_t> open;        // functions that it calls and that are still there
    std::vector<const Function*> all, gone;
    for (const auto& item : file_.items) {
      const auto* f = std::get_if<Function>(&item);
      if (!f || f->role != Function::Role::Function || !f->name) continue;
      all.push_back(f);
      std::set<const Function*> called;
      each_function(*f, [&](const Name& name) {
        if (const Function* next = function_of(file_, name, Function::Role::Function)) called.insert(next);
      });
      for (const Function* next : called) callers[next].push_back(f);
      open[f] = called.size();
      if (called.empty()) gone.push_back(f);
    }
    for (std::size_t k = 0; k < gone.size(); ++k)
      for (const Function* caller : callers[gone[k]])
        if (--open[caller] == 0) gone.push_back(caller);
    for (const Function* f : all) {
      if (open[f] == 0) continue;
      std::vector<const Function*> chain;
      std::set<const Function*> done;
      follow(*f, *f, chain, done);
    }
  }

  // Every name that may be a function's, in front of `(` or in < >.
  template <class Visit> static void each_function(const Function& f, const Visit& visit) {
    const auto unless_parameter = [&](const Name& name) {
      if (!is_parameter(f, name)) visit(name);
    };
    each_call(f, [&](const Call& c, const Expr&) {
      unless_parameter(c.function);
      for (const Argument& a : c.parameters)
        if (const auto* name = std::get_if<Name>(&a.value)) unless_parameter(*name);
    });
  }

  // Depth first from `f`; imports cannot come back to this file.
  bool follow(
      const Function& root, const Function& f, std::vector<const Function*>& chain, std::set<const Function*>& done) {
    chain.push_back(&f);
    bool found = false;
    each_function(f, [&](const Name& name) {
      if (found) return;
      const Function* next = function_of(file_, name, Function::Role::Function);
      if (next && next == &root) {
        std::string text;
        for (const Function* each : chain) text += each->name->text + " → ";
        auto entry = diagnostics_.report(name.span, messages::recursion, text + root.name->text);
        const bool hides = function_named(root.name->text) || builtin_named(root.name->text) != nullptr;
        if (hides)
          entry.hint(fmt::format(
              "`{0}` is built in, and this function hides it: call it otherwise, `function my_{0}`", root.name->text));
        else entry.hint("`iterate<f, 20>(X)` applies a function several times");
        found = true;
      } else if (next && done.insert(next).second) {
        found = follow(root, *next, chain, done);
      }
    });
    chain.pop_back();
    return found;
  }
};

void names_of(const File& file, const std::string& prefix, std::vector<std::string>& names) {
  for (const auto& item : file.items)
    if (const auto* f = std::get_if<Function>(&item); f && f->name && f->role == Function::Role::Function)
      names.push_back(prefix.empty() ? f->name->text : prefix + f->name->spelled());
}

}  // namespace

const Parameter* parameter_of(const Function& function, const std::vector<Argument>& given, std::size_t k) {
  const auto& label = given[k].label;
  if (!label) return k < function.parameters.size() ? &function.parameters[k] : nullptr;
  return parameter_called(function, label->spelled());
}

std::optional<std::vector<const Argument*>> in_order(
    const Function& function, const std::vector<Argument>& given, Span call, Diagnostics& diagnostics) {
  const std::string name = function.name ? function.name->text : "function";
  const std::size_t errors = diagnostics.all().size();
  std::vector<const Argument*> values(function.parameters.size());
  for (std::size_t k = 0; k < given.size(); ++k) {
    const Argument& value = given[k];
    const Parameter* parameter = parameter_of(function, given, k);
    if (!value.label && k > 0 && given[k - 1].label) {
      diagnostics.report(value.span, messages::name_order)
          .label(given[k - 1].label->span, "the first name")
          .hint("values without a name come first, in the order of the heading");
      return std::nullopt;
    }
    if (!parameter && !value.label) {
      diagnostics
          .report(call, messages::parameter_count, name,
              counted(function.parameters.size(), "compile-time parameter") +
                  fmt::format(", but {} given", are(given.size())))
          .label(function.span_of_head(), "declared here");
      return std::nullopt;
    }
    if (!parameter) {
      unknown(function, name, *value.label, messages::unknown_parameter, diagnostics);
      continue;
    }
    if (value.label) warn_of_former(function, *parameter, value.label->spelled(), value.label->span, diagnostics);
    const Argument*& place = values[static_cast<std::size_t>(parameter - function.parameters.data())];
    if (place != nullptr)
      diagnostics.report(value.span, messages::name_twice, "compile-time parameter", parameter->name.spelled(), name)
          .label(place->span, "and here");
    place = &value;
  }
  for (std::size_t k = 0; k < values.size(); ++k)
    if (const Parameter& missing = function.parameters[k]; values[k] == nullptr && !missing.value)
      diagnostics.report(call, messages::parameter_missing, missing.name.spelled(), name)
          .label(missing.name.span, "declared without a default")
          .hint(fmt::format("write `{}<{}=…>(…)`", name, missing.name.spelled()));
  return diagnostics.all().size() == errors ? std::optional(std::move(values)) : std::nullopt;
}

std::optional<std::vector<const Expr*>> in_order(
    const Function& function, const Call& call, Span span, Diagnostics& diagnostics) {
  const std::string& name = call.function.text;
  const std::size_t errors = diagnostics.all().size();
  std::vector<const Expr*> values(function.inputs.size());
  if (call.arguments.size() > values.size() || (call.labels.empty() && call.arguments.size() < required(function))) {
    const std::size_t least = required(function);
    const std::string takes =
        (least == values.size() ? "" : fmt::format("{} {} ", least, least + 1 == values.size() ? "or" : "to")) +
        counted(values.size(), "input");
    auto entry = diagnostics.report(span, messages::argument_count, name, takes, std::to_string(call.arguments.size()));
    entry.label(function.span_of_head(), "declared here");
    if (const auto hint = with_parameter(call);
        hint && !function.parameters.empty() && call.arguments.size() == values.size() + 1)
      entry.hint(*hint);
    return std::nullopt;
  }
  for (std::size_t k = 0; k < call.arguments.size(); ++k) {
    const auto label = call.labels.empty() ? std::nullopt : call.labels[k];
    if (!label && k > 0 && !call.labels.empty() && call.labels[k - 1]) {
      diagnostics.report(call.arguments[k].span(), messages::name_order)
          .label(call.labels[k - 1]->span, "the first name")
          .hint("values without a name come first, in the order of the heading");
      return std::nullopt;
    }
    const auto input = label ? std::find_if(function.inputs.begin(), function.inputs.end(),
                                   [&](const Input& i) { return i.target.name == *label; })
                             : function.inputs.begin() + static_cast<std::ptrdiff_t>(k);
    if (input == function.inputs.end()) {
      unknown(function, name, *label, messages::unknown_input, diagnostics);
      continue;
    }
    const Expr*& place = values[static_cast<std::size_t>(input - function.inputs.begin())];
    if (place != nullptr)
      diagnostics.report(call.arguments[k].span(), messages::name_twice, "input", input->target.name.spelled(), name)
          .label(place->span(), "and here");
    place = &call.arguments[k];
  }
  for (std::size_t k = 0; k < values.size(); ++k)
    if (const Input& input = function.inputs[k]; values[k] == nullptr && !input.value)
      diagnostics.report(span, messages::input_missing, input.target.name.spelled(), name)
          .label(input.target.name.span, "declared without a default");
  return diagnostics.all().size() == errors ? std::optional(std::move(values)) : std::nullopt;
}

bool fits(const Function& function, const Parameter& parameter, const Argument& value, Diagnostics& diagnostics) {
  const auto* name = std::get_if<Name>(&value.value);
  const std::string text = print(Argument{value.value, value.span});
  if (const auto& choices = choices_of(function, parameter.name); !choices.empty()) {
    if (choice_given(choices, value)) return true;
    auto entry =
        diagnostics.report(value.span, messages::no_such_choice, parameter.name.spelled(), listed(choices), text);
    std::vector<std::string> all;
    for (const Name& each : choices) all.push_back(each.spelled());
    if (const auto near = nearest(text, all)) entry.hint(fmt::format("did you mean `{}`?", *near));
    if (value.span != parameter.name.span) entry.label(parameter.name.span, "declared here");
    return false;
  }
  const bool constant = name && !name->upper && (name->text == "inf" || name->text == "nan");
  const auto* number = parameter.value ? std::get_if<Number>(&parameter.value->value) : nullptr;
  if (!number || !name || constant) return true;
  auto entry = diagnostics.report(
      value.span, messages::parameter_value, parameter.name.spelled(), "a number", fmt::format("`{}`", text));
  if (value.span != parameter.name.span) entry.label(parameter.name.span, "declared here");
  return false;
}

void check_calls(const File& file, Diagnostics& diagnostics) { Calls(file, diagnostics).run(); }

std::optional<std::string> with_parameter(const Call& call) {
  if (!call.parameters.empty() || call.arguments.size() < 2) return std::nullopt;
  const Expr& last = call.arguments.back();
  const auto* number = last.as<Number>();
  const auto* variable = last.as<Variable>();
  if (!number && !variable) return std::nullopt;
  std::string rest;
  for (std::size_t k = 0; k + 1 < call.arguments.size(); ++k) rest += (k > 0 ? ", " : "") + print(call.arguments[k]);
  const std::string written = fmt::format("what is known before the run stands in `< >`: `{}<{}>({})`",
      call.function.text, number ? number->text : variable->name.text, rest);
  return number
      ? written
      : fmt::format("{}, where the function is declared with it: `function f<{}=3>(…)`", written, variable->name.text);
}

std::vector<std::string> function_names(const File& file) {
  std::vector<std::string> names;
  names_of(file, "", names);
  for (const File* import : callable_imports(file)) names_of(*import, "", names);
  for (const Name& prefix : prefixes(file))
    for (const File* import : callable_imports(file, prefix.text)) names_of(*import, prefix.text + '.', names);
  return names;
}

}  // namespace tilec::lang
