#include "lang/dimension.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/calls.h"
#include "lang/dimension/alignment.h"
#include "lang/dimension/index.h"
#include "lang/dimension/shape.h"
#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/pack.h"
#include "lang/type.h"

namespace tilec::lang {
namespace dimensions {
namespace {

// Functions whose result has the dimensions of their first argument, whatever else they take.
constexpr std::string_view keeps_shape[] = {"ident", "rsqrt", "isinf", "as_type", "as_float", "as_sum", "as_int",
    "as_uint", "as_bool", "index", "cumsum", "cumprod", "sort", "argsort", "argsort_descending", "builtin_softmax",
    "builtin_logsoftmax", "reverse_grad"};

constexpr std::size_t most_components = 1000;          // of a tuple that is followed, those of its tuples included
constexpr int most_nested = 100;                       // calls in calls; recursion is reported elsewhere

// What a file's functions share.
struct Shared {
  const File& file;
  const std::set<std::string>& apart;                  // names that a `dim` of the file declares
  Diagnostics in_calls = {};                           // what calls bring together, function by function
  std::map<std::string, std::vector<Value>> known = {};  // results of functions, by the dimensions they are called with
};

// The statements of one function: on its own, or as a call finds them, its size names standing for those of the caller.
class Dimensions {
 public:
  Dimensions(Shared& shared, const File& file, Diagnostics& diagnostics, int depth = 0)
      : shared_(shared), file_(file), here_{shared.apart, diagnostics, depth} {}

  void function(const Function& f) {
    for (const Input& i : f.inputs)
      for (const Expr& size : i.sizes ? *i.sizes : std::vector<Expr>{})
        if (const Dimension name = plain(size)) here_.means.emplace(*name, std::vector{name});
    for (const Input& i : f.inputs)
      if (i.sizes) here_.values[i.target.name.spelled()].shape = here_.shape_of(*i.sizes, i.span);
    for (const Statement& s : f.statements)
      if (const auto* a = std::get_if<Assignment>(&s.node)) note_assertion(here_, a->value);
    statements(f);
  }

  std::vector<Value> called(const Function& f, const std::vector<Value>& arguments) {
    for (std::size_t k = 0; k < arguments.size(); ++k)
      if (f.inputs[k].sizes && arguments[k].shape) bind(f, f.inputs[k], *arguments[k].shape);
    for (std::size_t k = 0; k < arguments.size(); ++k) {
      const Input& i = f.inputs[k];
      here_.values[i.target.name.spelled()] = i.sizes ? Value{here_.shape_of(*i.sizes, i.span)} : arguments[k];
    }
    statements(f);
    std::vector<Value> results;
    for (const Target& result : f.results) results.push_back(here_.value_named(result.name));
    return results;
  }

 private:
  Shared& shared_;
  const File& file_;                                   // whose functions are called by name
  Tensors here_;
  std::vector<Parameter> parameters_;                  // a function among them is not looked through

  void statements(const Function& f) {
    parameters_ = f.parameters;
    for (const Statement& s : f.statements)
      if (const auto* c = std::get_if<Contraction>(&s.node); c && c->default_value)
        if (const auto* name = std::get_if<Name>(&c->default_value->value)) here_.completed.insert(name->spelled());
    for (const Statement& s : f.statements)
      std::visit(Overloaded{[](std::monostate) {},
                            [&](const TupleAssignment& t) {
                              const Value value = value_of(t.value);
                              for (std::size_t k = 0; k < t.targets.size() && k < value.parts.size(); ++k)
                                here_.values[t.targets[k].name.spelled()] = value.parts[k];
                            },
                            [&](const Assignment& a) {
                              Value value = value_of(a.value);
                              if (value.shape) value.shape->where = a.target.span;
                              here_.values[a.target.name.spelled()] = std::move(value);
                            },
                            [&](const Contraction& c) {
                              contraction(here_, c);
                              here_.values[c.target.name.spelled()].shape = here_.shape_of(c.sizes, c.target.span);
                            }},
                 s.node);
  }

  // ---- calls ----

  // An input's size names are what the argument has there. One that `dim` declares is itself and nothing else.
  void bind(const Function& f, const Input& input, const Shape& given) {
    const auto stands_for = [&](const std::string& name, const std::vector<Dimension>& dimensions) {
      const bool typed = &file_ == &shared_.file && here_.apart.contains(name);
      const auto [at, is_new] = here_.means.emplace(name, typed ? std::vector{Dimension(name)} : dimensions);
      for (std::size_t k = 0; k < dimensions.size() && at->second.size() == dimensions.size(); ++k)
        if (const Dimension &known = at->second[k], &met = dimensions[k];
            known && met && here_.kept_apart(*known, *met))
          here_.diagnostics
              .report(given.where, messages::dimensions_mix, *known, *met,
                  fmt::format("they are both `{}` of `{}`", name, f.name->text))
              .label(input.span, "declared here");
    };
    const auto parts = parts_of(*input.sizes, given.dimensions);
    const bool empty_pack = given.dimensions.size() + 1 == input.sizes->size() &&
        std::count_if(input.sizes->begin(), input.sizes->end(), pack) == 1;
    for (const Expr& size : *input.sizes) {
      const Dimension name = plain(size);
      std::vector<Dimension> here;
      for (const Part& part : parts)
        if (part.index == &size) here.push_back(part.dimension);
      const bool known = is_pack(name) ? !here.empty() || empty_pack : !here.empty() && here[0] && !is_pack(here[0]);
      if (name && known) stands_for(*name, here);
    }
  }

  static std::string key(const Function& f, const std::vector<Value>& arguments) {
    std::string text = fmt::format("{}", static_cast<const void*>(&f));
    const auto add = [&](const auto& self, const Value& value) -> void {
      text += value.shape ? "(" : "?(";
      for (const Dimension& d : value.shape ? value.shape->dimensions : std::vector<Dimension>{})
        text += d.value_or("") + ",";
      for (const Value& part : value.parts) self(self, part);
      text += ")";
    };
    for (const Value& value : arguments) add(add, value);
    return text;
  }

  std::vector<Value> results_of(const Definition& definition, const std::vector<Value>& arguments, Span span) {
    const Function& f = *definition.function;
    if (here_.depth >= most_nested) return {};
    const auto [known, is_new] = shared_.known.try_emplace(key(f, arguments));
    if (!is_new) return known->second;
    Diagnostics found;
    std::vector<Value> results = Dimensions(shared_, *definition.file, found, here_.depth + 1).called(f, arguments);
    Diagnostics& told = here_.depth == 0 ? shared_.in_calls : here_.diagnostics;
    for (Diagnostic each : found.all()) {
      if (!(each.span == span)) each.labels.push_back({span, "in this call"});
      told.add(std::move(each));
    }
    return known->second = std::move(results);         // references into a map stay
  }

  Value result_of(const Call& c, const Expr& e) {
    const auto* iterated =
        c.function.text == "iterate" && !c.parameters.empty() ? std::get_if<Name>(&c.parameters[0].value) : nullptr;
    std::vector<Value> arguments;
    for (const Expr& argument : c.arguments) arguments.push_back(value_of(argument));
    const Name& callee = iterated ? *iterated : c.function;
    if (std::any_of(parameters_.begin(), parameters_.end(), [&](const Parameter& p) { return p.name == callee; }))
      return {};
    const auto found = definitions(file_, callee);
    if (found.size() == 1) {
      Diagnostics unheard;                             // calls.cpp reports
      const Function& f = *found[0].function;
      const auto places = iterated ? std::nullopt : in_order(f, c, e.span(), unheard);
      if (!places && (!iterated || arguments.size() != f.inputs.size())) return {};
      std::vector<Value> inputs(f.inputs.size());      // nothing is known of what is not given
      for (std::size_t k = 0; places && k < inputs.size(); ++k)
        if (const Expr* given = (*places)[k])
          inputs[k] = arguments[static_cast<std::size_t>(given - c.arguments.data())];
      std::vector<Value> results = results_of(found[0], places ? inputs : arguments, e.span());
      for (Value& each : results)
        if (each.shape) each.shape->where = e.span();
      return results.size() == 1 ? std::move(results[0]) : Value{{}, std::move(results)};
    }
    const std::string& name = c.function.text;
    if (name == "tuple") return components(arguments) <= most_components ? Value{{}, std::move(arguments)} : Value{};
    if (name == "element") return component(arguments, c);
    if (name == "reshape" && !c.arguments.empty())
      return {here_.shape_of({c.arguments.begin() + 1, c.arguments.end()}, e.span())};
    const bool first =
        dtype_named(name) || std::find(std::begin(keeps_shape), std::end(keeps_shape), name) != std::end(keeps_shape);
    if (first && !arguments.empty()) return std::move(arguments[0]);
    return function_named(name) || name == "clamp" ? meet(here_, arguments, e.span()) : Value{};
  }

  static Value component(const std::vector<Value>& arguments, const Call& c) {
    const auto* at = c.arguments.size() == 2 ? c.arguments[1].as<Number>() : nullptr;
    return at && at->integer < arguments[0].parts.size() ? arguments[0].parts[at->integer] : Value{};
  }

  // The dimensions of a whole value, aligned at the right.
  Value value_of(const Expr& e) {
    return e.match([&](const Number&) { return Value{Shape{{}, e.span()}}; },
        [&](const Variable& v) {
          // a size
          if (here_.means.contains(v.name.spelled()) && !here_.values.contains(v.name.spelled()))
            return Value{Shape{{}, e.span()}};
          Value value = here_.value_named(v.name);
          if (value.shape) value.shape->where = e.span(), value.shape->name = v.name.spelled();
          return value;
        },
        [&](const Unary& u) { return value_of(u.operand); },
        [&](const Binary& b) { return meet(here_, {value_of(b.left), value_of(b.right)}, e.span()); },
        [](const Access&) { return Value{}; }, [&](const Call& c) { return result_of(c, e); },
        [&](const Select& s) {
          return s.otherwise ? meet(here_, {value_of(s.condition), value_of(s.then), value_of(*s.otherwise)}, e.span())
                             : Value{};
        });
  }
};

// A `dim` that names no size is a slip.
void unused(const File& file, const std::vector<Name>& declared, Diagnostics& diagnostics) {
  std::set<std::string> sizes;
  for (const auto& item : file.items)
    if (const auto* f = std::get_if<Function>(&item))
      for (const Input& i : f->inputs)
        for (const Expr& size : i.sizes ? *i.sizes : std::vector<Expr>{})
          if (const auto* v = size.as<Variable>()) sizes.insert(v->name.spelled());
  for (const Name& name : declared) {
    if (sizes.contains(name.spelled())) continue;
    auto entry = diagnostics.report(name.span, messages::dimension_unused, name.spelled());
    if (const auto near = nearest(name.text, {sizes.begin(), sizes.end()}))
      entry.hint(fmt::format("did you mean `{}`?", *near));
  }
}

}  // namespace
}  // namespace dimensions

void check_dimensions(const File& file, Diagnostics& diagnostics) {
  using namespace dimensions;
  std::vector<Name> declared;
  std::set<std::string> apart;
  for (const auto& item : file.items)
    if (const auto* dim = std::get_if<Dim>(&item))
      for (const Name& name : dim->names) {
        declared.push_back(name);
        apart.insert(name.spelled());
      }
  Shared shared{file, apart};
  for (const auto& item : file.items)
    if (const auto* f = std::get_if<Function>(&item)) Dimensions(shared, file, diagnostics).function(*f);
  // What a function has wrong on its own is not told again at its calls.
  const auto own = diagnostics.all();
  for (const Diagnostic& each : shared.in_calls.all())
    if (std::none_of(own.begin(), own.end(), [&](const Diagnostic& d) { return d.span == each.span; }))
      diagnostics.add(each);
  unused(file, declared, diagnostics);
}

}  // namespace tilec::lang
