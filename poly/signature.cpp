// Inputs and the sizes they bind.
//
// A size name that occurs twice must agree, always: PlaidML let the last input win and silently contracted over the
// smaller extent. With numbers the comparison happens here, with names it becomes a Requirement for bind.
#include "poly/signature.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "lang/messages.h"
#include "lang/print.h"
#include "poly/contraction.h"
#include "poly/elementwise.h"
#include "poly/print_value.h"
#include "poly/size_expression.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;

const Given* given_for(const Signature& signature, const lang::Name& name) {
  for (const auto& given : signature.inputs)
    if (given.name == name.text) return &given;
  return nullptr;
}

bool is_omitted(const Signature& signature, const lang::Input& input) {
  return input.value &&
      std::find(signature.omitted.begin(), signature.omitted.end(), input.target.name.text) != signature.omitted.end();
}

std::optional<DType> declared_type(const lang::Target& target) {
  return target.dtype ? lang::dtype_named(target.dtype->text) : std::nullopt;
}

void fail(Scope& scope, const lang::Input& input) {
  scope.failed = true;
  Named named;
  named.span = input.target.span;
  scope.names[input.target.name.spelled()] = named;
}

// A scalar that sizes, indices or constraints use.
void declare_size(const lang::Input& input, const Given* given, Scope& scope) {
  const auto name = input.target.name.spelled();
  const auto type = declared_type(input.target) ? declared_type(input.target) : given ? given->dtype : std::nullopt;
  if ((type && lang::is_float(*type)) || (given && given->shape && !given->shape->empty())) {
    const std::string is =
        given && given->shape && !given->shape->empty() ? "a tensor" : fmt::format("a {}", lang::name(*type));
    scope.diagnostics.report(input.target.span, messages::not_a_size, name, is)
        .hint("the program uses it as a size: give an integer");
    return fail(scope, input);
  }
  scope.names[name] =
      Named::of_size(given && given->integer ? Size(*given->integer) : Size::named(name), input.target.span);
  if (!given || !given->integer) scope.program.sizes.push_back(name);
}

std::optional<DType> input_type(const lang::Input& input, const Given* given, Scope& scope) {
  const auto written = declared_type(input.target);
  if (written && given && given->dtype && *given->dtype != *written && !given->weak) {
    scope.diagnostics.report(input.target.span, messages::given_type, input.target.name.spelled(), lang::name(*written),
        lang::name(*given->dtype));
    return std::nullopt;
  }
  if (written) return written;
  if (given && given->dtype) return given->dtype;
  if (given && given->weak) return given->integer ? DType::I64 : DType::F64;
  return DType::F32;
}

// The names or expressions of the text, where nothing was given.
std::optional<std::vector<Size>> written_shape(const lang::Input& input, Scope& scope) {
  std::vector<Size> shape;
  for (const auto& expr : *input.sizes) {
    auto size = size_of(scope, expr);
    if (!size) return std::nullopt;
    shape.push_back(std::move(*size));
  }
  return shape;
}

bool check_rank(const lang::Input& input, const Given* given, Scope& scope) {
  const auto name = input.target.name.spelled();
  const bool shaped = given && given->shape;
  if (!shaped && !input.sizes && !input.value && !(given && (given->weak || given->integer))) {
    scope.diagnostics.report(input.target.span, messages::unknown_rank, name)
        .hint(fmt::format("name its sizes: `{}[M, N]`, or `{}[]` for a scalar", name, name));
    return false;
  }
  if (!input.sizes || !shaped || given->shape->size() == input.sizes->size()) return true;
  scope.diagnostics.report(
      input.span, messages::given_rank, name, counted(input.sizes->size(), "dimension"), shape_text(*given->shape));
  return false;
}

// What one name stood for first, to say so when it stands for something else later.
struct Bound { std::string tensor; Span span; };

bool bind_name(const lang::Input& input, const lang::Expr& expr, const lang::Name& name, const Size& size,
    std::map<std::string, Bound>& bound, Scope& scope) {
  const auto key = name.spelled(), tensor = input.target.name.spelled();
  const auto [at, first] = bound.try_emplace(key, Bound{tensor, expr.span()});
  if (!scope.names.contains(key)) {
    scope.names[key] = Named::of_size(size, expr.span());
    return true;
  }
  const Named& known = scope.names[key];
  if (known.kind != Named::Kind::Size) return true;     // reported where it was declared
  const Bound before = first ? Bound{key, known.span} : at->second;
  const auto message = fmt::format("`{}` is one size in `{}` and `{}`", key, before.tensor, tensor);
  if (require_equal(scope, known.size, size, message, expr.span(), {{before.span, "bound here"}})) return true;
  scope.diagnostics
      .report(expr.span(), messages::size_mismatch, key, known.size.print(), before.tensor, size.print(), tensor)
      .label(before.span, "bound here");
  return false;
}

void check_expression(const lang::Input& input, std::size_t k, const Size& size, Scope& scope) {
  const auto& expr = (*input.sizes)[k];
  const auto expected = size_of(scope, expr);
  if (!expected) {
    scope.failed = true;
    return;
  }
  const auto text = lang::print(expr), tensor = input.target.name.spelled();
  const auto message = fmt::format("dimension {} of `{}` is declared `{}`", k + 1, tensor, text);
  if (require_equal(scope, size, *expected, message, expr.span())) return;
  scope.failed = true;
  if (expected->print() == text)
    scope.diagnostics.report(expr.span(), messages::size_number_mismatch, k + 1, tensor, size.print(), text);
  else
    scope.diagnostics.report(
        expr.span(), messages::size_expression_mismatch, k + 1, tensor, size.print(), text, expected->print());
}

void check_not_negative(const lang::Input& input, const std::vector<Size>& shape, Scope& scope) {
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (shape[k].value().value_or(0) >= 0) continue;
    scope.failed = true;
    const bool written = input.sizes && k < input.sizes->size();
    scope.diagnostics.report(written ? (*input.sizes)[k].span() : input.span, messages::negative_extent, k + 1,
        input.target.name.spelled(), shape[k].print());
  }
}

// An argument as what the callee is called with: its shape and type, where it has them.
Given given_of(const lang::Input& input, const Named& argument, const Scope& scope) {
  Given given{.name = input.target.name.text};
  if (argument.kind == Named::Kind::Tensor) {
    given.dtype = scope.tensor(argument.tensor).dtype;
    given.shape = scope.tensor(argument.tensor).shape;
  }
  given.weak = argument.kind != Named::Kind::Tensor || argument.weak;
  return given;
}

// A scalar without a type takes the one that is declared.
std::optional<Named> typed_argument(const lang::Input& input, const Named& argument, Scope& scope) {
  const auto type = declared_type(input.target);
  if (!type || (argument.kind != Named::Kind::Weak && argument.kind != Named::Kind::Size)) return argument;
  const auto* number =
      argument.scalar && argument.scalar->weak == Scalar::Weak::Float ? argument.scalar->expr.as<Number>() : nullptr;
  if (number != nullptr && !lang::is_float(*type) && !exactly(*argument.scalar, *type)) {
    scope.diagnostics.report(argument.span, messages::does_not_fit, print_number(*number), lang::name(*type))
        .label(input.span, "declared here")
        .hint("an input is what it is given, not cast: declare it as a float, or give a number of its type");
    return std::nullopt;
  }
  const auto id =
      stored(scope, argument, {.name = fresh(scope, input.target.name.spelled()), .dtype = type, .span = input.span});
  return id ? std::optional(Named::of_tensor(*id, input.span)) : std::nullopt;
}

void declare_argument(const lang::Input& input, const Named& argument, const Given& given, Scope& scope) {
  const bool has_dimensions = argument.kind == Named::Kind::Tensor && !scope.tensor(argument.tensor).shape.empty();
  if (input.sizes && !input.sizes->empty() && !has_dimensions) {
    scope.diagnostics.report(input.span, messages::given_rank, input.target.name.spelled(),
        counted(input.sizes->size(), "dimension"), "a scalar");
    return fail(scope, input);
  }
  if (const auto type = declared_type(input.target); type && given.dtype && *given.dtype != *type)
    want(scope, argument.tensor, *type);
  if (argument.kind == Named::Kind::Tensor && (!input_type(input, &given, scope) || !check_rank(input, &given, scope)))
    return fail(scope, input);
  const auto value = typed_argument(input, argument, scope);
  if (!value) return fail(scope, input);
  scope.names[input.target.name.spelled()] = *value;
}

// Elements that are all the default, of the sizes that the text says: they are known from what is given.
std::optional<Named> default_elements(const lang::Input& input, const Named& number, Scope& scope) {
  const auto name = input.target.name.spelled();
  std::vector<lang::Name> names;
  for (const auto& size : *input.sizes) names_in(size, names);
  for (const auto& each : names)
    if (!scope.names.contains(each.spelled())) {
      scope.diagnostics.report(each.span, messages::default_size, each.spelled(), name)
          .hint(fmt::format("give `{}`, or name `{}` in an input that has no default", name, each.spelled()));
      scope.names[each.spelled()] = {};                  // said once
      return std::nullopt;
    }
  const auto shape = written_shape(input, scope);
  if (!shape) return std::nullopt;
  check_not_negative(input, *shape, scope);
  const auto id = stored(scope, number, {.name = fresh(scope, name), .span = input.span});
  const auto all = id ? spread(scope, *id, *shape, {.name = name, .span = input.span}) : std::nullopt;
  return all ? std::optional(Named::of_tensor(all->tensor, input.span, !declared_type(input.target))) : std::nullopt;
}

void declare_default(const lang::Input& input, const Named& number, Scope& scope) {
  auto value = typed_argument(input, number, scope);
  if (value && input.sizes && !input.sizes->empty()) value = default_elements(input, *value, scope);
  if (!value) return fail(scope, input);
  value->absent = number.absent;
  scope.names[input.target.name.spelled()] = *value;
}

void declare_size_argument(const lang::Input& input, const Named& argument, Scope& scope) {
  const auto name = input.target.name.spelled();
  if (argument.kind != Named::Kind::Size) {
    scope.diagnostics
        .report(input.target.span, messages::not_a_size, name,
            argument.kind == Named::Kind::Tensor ? "a tensor, computed or given" : "not an integer")
        .hint("the function uses it as a size: pass an integer known before the run");
    return fail(scope, input);
  }
  scope.names[name] = argument;
}

bool may_be_integer(const lang::Input& input, const Signature& signature) {
  const auto* given = given_for(signature, input.target.name);
  const auto type = declared_type(input.target) ? declared_type(input.target) : given ? given->dtype : std::nullopt;
  const bool tensor = given && given->shape && !given->shape->empty();
  return !tensor && (!type || !lang::is_float(*type));
}

bool is_size_input(const lang::Input& input, bool integer, const Scope& scope) {
  if (input.sizes && !input.sizes->empty()) return false;
  const auto name = input.target.name.spelled();
  return scope.used_as_size.contains(name) || (integer && scope.used_as_extent.contains(name));
}

void declare_tensor(const lang::Input& input, const Given* given, Scope& scope) {
  const auto name = input.target.name.spelled();
  const auto type = input_type(input, given, scope);
  if (!type || !check_rank(input, given, scope)) return fail(scope, input);
  auto shape = given && given->shape ? given->shape
      : input.sizes                  ? written_shape(input, scope)
                                     : std::optional(std::vector<Size>{});
  if (!shape) return fail(scope, input);
  check_not_negative(input, *shape, scope);
  const bool weak = given && given->weak && !declared_type(input.target) && shape->empty();
  const auto id = add_tensor(scope, {name, *type, std::move(*shape), input.span});
  scope.program.inputs.push_back(id);
  if (!declared_type(input.target) && !(given && (given->dtype || given->weak))) scope.assumed->inputs.insert(id);
  scope.names[name] = Named::of_tensor(id, input.span, weak);
}

// The name that a declared size is: `N`, and `groups*N` where the parameter `groups` is 1; null: an expression.
const lang::Name* plain_name(const lang::Expr& size, const Scope& scope) {
  if (const auto* variable = size.as<lang::Variable>()) return &variable->name;
  const auto* product = size.as<lang::Binary>();
  const auto* factor = product && product->op == lang::Op::Mul ? product->left.as<lang::Variable>() : nullptr;
  const auto known = factor ? scope.names.find(factor->name.spelled()) : scope.names.end();
  const bool is_one = known != scope.names.end() && known->second.literal && known->second.size.is(1);
  return is_one ? plain_name(product->right, scope) : nullptr;
}

// Plain names first, over all inputs, because an expression may use a name that a later input binds. Returns the inputs
// that disagree with earlier ones: nothing that follows from them is reported.
std::set<std::string> bind_names(const lang::Function& function, const Signature& signature, Scope& scope) {
  std::map<std::string, Bound> bound;
  std::set<std::string> disagree;
  for (const auto& input : function.inputs) {
    if (!input.sizes || is_omitted(signature, input)) continue;
    const auto* given = given_for(signature, input.target.name);
    const bool shaped = given && given->shape && given->shape->size() == input.sizes->size();
    for (std::size_t k = 0; k < input.sizes->size(); ++k)
      if (const auto* name = plain_name((*input.sizes)[k], scope))
        if (!bind_name(input, (*input.sizes)[k], *name, shaped ? (*given->shape)[k] : Size::named(name->spelled()),
                bound, scope))
          disagree.insert(input.target.name.spelled());
  }
  return disagree;
}

void note_free_sizes(Scope& scope) {
  auto& sizes = scope.program.sizes;
  const auto note = [&](const Size& size) {
    for (const auto& term : size.terms())
      for (const auto& factor : term.factors)
        if (factor.kind == Size::Kind::Name && std::find(sizes.begin(), sizes.end(), factor.name) == sizes.end())
          sizes.push_back(factor.name);
    for (const auto& name : size.names())
      if (std::find(sizes.begin(), sizes.end(), name) == sizes.end()) sizes.push_back(name);
  };
  for (const auto id : scope.program.inputs)
    for (const auto& size : scope.tensor(id).shape) note(size);
}

}  // namespace

const lang::Function* chosen_function(
    const lang::File& file, const Signature& signature, lang::Diagnostics& diagnostics) {
  std::vector<const lang::Function*> functions;
  std::string names;
  for (const auto& item : file.items)
    if (const auto* f = std::get_if<lang::Function>(&item); f && f->role == lang::Function::Role::Function) {
      functions.push_back(f);
      names += (names.empty() ? "" : ", ") + (f->name ? "`" + f->name->text + "`" : std::string("one without a name"));
    }
  const auto report = [&](Span span, const std::string& what) -> const lang::Function* {
    diagnostics.report(span, messages::no_function, what);
    return nullptr;
  };
  if (functions.empty()) return report({}, "the file has no function");
  for (const auto* f : functions)
    if (signature.function ? f->name && f->name->text == *signature.function : !f->name) return f;
  if (signature.function)
    return report({}, fmt::format("there is no function `{}`; the file has {}", *signature.function, names));
  if (functions.size() == 1) return functions[0];
  diagnostics
      .report(functions[0]->span, messages::no_function, fmt::format("the file has several functions: {}", names))
      .hint(fmt::format("choose one: `--function {}`", functions[0]->name->text));
  return nullptr;
}

namespace {

// Inputs whose declared sizes are expressions: they say the same as what was given.
void check_expressions(const lang::Function& function, const Signature& signature, Scope& scope) {
  for (const auto& input : function.inputs) {
    const auto* given = given_for(signature, input.target.name);
    if (!input.sizes || !given || !given->shape || given->shape->size() != input.sizes->size()) continue;
    for (std::size_t k = 0; k < input.sizes->size(); ++k)
      if (!plain_name((*input.sizes)[k], scope)) check_expression(input, k, (*given->shape)[k], scope);
  }
}

}  // namespace

Named default_of(const lang::Input& input) {
  const auto* number = std::get_if<lang::Number>(&input.value->value);
  const auto* name = std::get_if<lang::Name>(&input.value->value);  // inf or nan
  const double real = number ? (number->negative && number->real > 0 ? -number->real : number->real)
      : name->text == "inf"  ? std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::quiet_NaN();
  Named value =
      number_of(number ? *number : lang::Number{.text = name->text, .is_float = true, .real = real}, input.value->span);
  value.absent = real;
  return value;
}

void declare_arguments(const lang::Function& function, const std::vector<Named>& arguments, Scope& scope) {
  Signature signature;
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    signature.inputs.push_back(given_of(function.inputs[k], arguments[k], scope));
    if (arguments[k].absent) signature.omitted.push_back(function.inputs[k].target.name.text);
  }
  for (std::size_t k = 0; k < arguments.size(); ++k)
    if (is_size_input(function.inputs[k], arguments[k].kind == Named::Kind::Size, scope))
      declare_size_argument(function.inputs[k], arguments[k], scope);
  const auto disagree = bind_names(function, signature, scope);
  for (std::size_t k = 0; k < arguments.size(); ++k)
    if (disagree.contains(function.inputs[k].target.name.spelled())) fail(scope, function.inputs[k]);
    else if (!arguments[k].absent && !is_size_input(function.inputs[k], arguments[k].kind == Named::Kind::Size, scope))
      declare_argument(function.inputs[k], arguments[k], signature.inputs[k], scope);
  for (std::size_t k = 0; k < arguments.size(); ++k)
    if (arguments[k].absent && !is_size_input(function.inputs[k], true, scope))
      declare_default(function.inputs[k], arguments[k], scope);
  check_expressions(function, signature, scope);
}

void declare_inputs(const lang::Function& function, const Signature& signature, Scope& scope) {
  for (const auto& input : function.inputs)
    if (is_size_input(input, may_be_integer(input, signature), scope))
      is_omitted(signature, input) ? declare_size_argument(input, default_of(input), scope)
                                   : declare_size(input, given_for(signature, input.target.name), scope);
  const auto disagree = bind_names(function, signature, scope);
  for (const auto& input : function.inputs)
    if (disagree.contains(input.target.name.spelled())) fail(scope, input);
    else if (!is_omitted(signature, input) && !is_size_input(input, may_be_integer(input, signature), scope))
      declare_tensor(input, given_for(signature, input.target.name), scope);
  for (const auto& input : function.inputs)
    if (is_omitted(signature, input) && !is_size_input(input, may_be_integer(input, signature), scope))
      declare_default(input, default_of(input), scope);
  check_expressions(function, signature, scope);
  note_free_sizes(scope);
}

}  // namespace tilec::poly
