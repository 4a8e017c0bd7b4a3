// From a contraction of the text to a Statement.
//
// The text leaves the iteration ranges unsaid: a point counts when every access is inside its tensor and every
// constraint holds. Here that becomes a list of rows that belongs to the statement, so that a bound survives when the
// read it came from is differentiated away. Indices are numbered by first appearance, target first; rows follow the
// same order: target, reads, constraints.
//
// Constraints lose their fractions, except Tile's own form: `i/2 < 5` also demands that i/2 is an integer (it keeps
// even i), `i/2 <= 4` and all newer forms compare rationals, so i/2 <= 4 is 8 - i >= 0.
#include "poly/contraction.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lang/idiom.h"
#include "lang/limit.h"
#include "lang/messages.h"
#include "lang/print.h"
#include "lang/walk.h"
#include "poly/borders.h"
#include "poly/elementwise.h"
#include "poly/interpret.h"
#include "poly/print_value.h"
#include "poly/recession.h"
#include "poly/scalar.h"
#include "poly/size_expression.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;
using Form = lang::Constraint::Form;

// Indices in the order of the text: target, body, constraints. Names inside a call's brackets count as well.
void collect_indices(const Scope& scope, const lang::Expr& expr, std::vector<std::string>& indices) {
  std::vector<lang::Name> names;
  names_in(expr, names);
  for (const auto& name : names)
    if (is_index(scope, name) && std::find(indices.begin(), indices.end(), name.spelled()) == indices.end())
      indices.push_back(name.spelled());
}

// In a body `inf` and `nan` are constants; between brackets they are indices like any other name.
void collect_from_body(const Scope& scope, const lang::Expr& expr, std::vector<std::string>& indices) {
  const auto go = [&](const lang::Expr& e) { collect_from_body(scope, e, indices); };
  expr.match([](const lang::Number&) {},
             [&](const lang::Variable& v) {
               if (v.name.text != "inf" && v.name.text != "nan") collect_indices(scope, expr, indices);
             },
             [&](const lang::Unary& u) { go(u.operand); }, [&](const lang::Binary& b) { go(b.left), go(b.right); },
             [&](const lang::Access& a) {
               for (const auto& e : a.element) collect_indices(scope, e, indices);
             },
             [&](const lang::Call& c) {
               for (const auto& e : c.arguments) go(e);
             },
             [&](const lang::Select& s) {
               go(s.condition), go(s.then);
               if (s.otherwise) go(*s.otherwise);
             });
}

// those after `in_accesses` occur in constraints only
struct Indices { std::vector<std::string> all; std::size_t in_accesses = 0; };

Indices indices_of(const Scope& scope, const lang::Contraction& c) {
  Indices result;
  for (const auto& e : c.element) collect_indices(scope, e, result.all);
  collect_from_body(scope, c.body, result.all);
  result.in_accesses = result.all.size();
  for (const auto& constraint : c.constraints) {
    if (constraint.low) collect_indices(scope, *constraint.low, result.all);
    collect_indices(scope, constraint.polynomial, result.all);
    collect_indices(scope, constraint.bound, result.all);
  }
  return result;
}

// Constraints.

// `/` is exact where an index is mentioned and truncates where none is.
std::optional<Affine> side(Scope& scope, const std::vector<std::string>& indices, const lang::Expr& expr) {
  if (mentions_index(scope, expr)) return affine_of(scope, indices, expr);
  const auto size = size_of(scope, expr);
  return size ? std::optional(Affine::of(*size, indices.size())) : std::nullopt;
}

Affine minus(const Affine& a, const Affine& b) { return a.plus(b.times(-1)); }

Affine numerator(Affine form) {
  form.divisor = 1;
  return form;
}

// 0 <= form, or 0 < form, as rationals: no integrality is asked for.
Range not_negative(const Affine& form) { return {numerator(form), std::nullopt}; }
Range positive(const Affine& form) {
  Affine below = numerator(form);
  below.constant = below.constant - 1;
  return {below, std::nullopt};
}

// low <= form < high, in one row when high - low is a size.
void add_between(const Affine& low, const Affine& form, const Affine& high, std::vector<Range>& rows) {
  const Affine above = minus(form, low), width = minus(high, low);
  if (width.is_constant() && width.divisor.is(1)) {
    rows.push_back({numerator(above), width.constant * above.divisor});
    return;
  }
  rows.push_back(not_negative(above));
  rows.push_back(positive(minus(high, form)));
}

// low <= form < high, or with < and <= in their place. On integers l < p is l + 1 <= p, and p <= e is p < e + 1; with
// fractions the two rows are kept apart.
void add_chain(
    const lang::Constraint& c, const Affine& low, const Affine& form, const Affine& high, std::vector<Range>& rows) {
  const bool closed = c.form == Form::BetweenLessEqual;
  const auto one_more = [](const Affine& a, bool more) {
    return more ? a.plus(Affine::of(1, a.coefficients.size())) : a;
  };
  if (form.divisor.is(1) && low.divisor.is(1) && high.divisor.is(1))
    return add_between(one_more(low, c.strict), form, one_more(high, closed), rows);
  if (!closed && !c.strict) return add_between(low, form, high, rows);
  const Affine above = minus(form, low), below = minus(high, form);
  rows.push_back(c.strict ? positive(above) : not_negative(above));
  rows.push_back(closed ? not_negative(below) : positive(below));
}

void add_tile_form(const Affine& form, const Affine& bound, std::vector<Range>& rows) {
  if (bound.is_constant() && bound.divisor.is(1)) rows.push_back({form, bound.constant});
  else rows.insert(rows.end(), {Range{form, std::nullopt}, positive(minus(bound, form))});
}

bool add_constraint(
    Scope& scope, const std::vector<std::string>& indices, const lang::Constraint& c, std::vector<Range>& rows) {
  const auto form = side(scope, indices, c.polynomial), bound = side(scope, indices, c.bound);
  const auto low = c.low ? side(scope, indices, *c.low) : std::optional(Affine::of(0, indices.size()));
  if (!form || !bound || !low) return false;
  try {
    switch (c.form) {
      case Form::Less: add_tile_form(*form, *bound, rows); break;
      case Form::LessEqual: rows.push_back(not_negative(minus(*bound, *form))); break;
      case Form::GreaterEqual: rows.push_back(not_negative(minus(*form, *bound))); break;
      case Form::Equal: rows.push_back({numerator(minus(*form, *bound)), Size(1)}); break;
      case Form::BetweenLess:
      case Form::BetweenLessEqual: add_chain(c, *low, *form, *bound, rows); break;
    }
  } catch (const SizeError& error) {
    scope.diagnostics.report(c.span, messages::size_arithmetic, error.what());
    return false;
  }
  return true;
}

// Checks of the whole domain.

void add_row(std::vector<Range>& rows, Range row) {
  if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(std::move(row));
}

bool mentions(const lang::Expr& expr, const std::string& index) {
  std::vector<lang::Name> names;
  names_in(expr, names);
  return std::any_of(names.begin(), names.end(), [&](const lang::Name& name) { return name.spelled() == index; });
}

Span place_of(const lang::Contraction& c, const std::string& index, Span otherwise) {
  std::optional<Span> found;
  const auto look = [&](const lang::Expr& root) {
    const auto visit = [&](const auto& self, const lang::Expr& e) -> void {
      const auto go = [&](const lang::Expr& inner) { self(self, inner); };
      if (found) return;
      if (const auto* v = e.as<lang::Variable>(); v && v->name.spelled() == index) found = e.span();
      lang::each_child(e, go);
    };
    visit(visit, root);
  };
  for (const auto& e : c.element) look(e);
  look(c.body);
  for (const auto& constraint : c.constraints) look(constraint.polynomial), look(constraint.bound);
  return found.value_or(otherwise);
}

bool check_bounded(
    Scope& scope, const lang::Contraction& c, const Indices& indices, const std::vector<Range>& rows, Span span) {
  bool bounded = true;
  for (std::size_t k = indices.in_accesses; k < indices.all.size(); ++k) {
    const auto two_sided = [&](const lang::Constraint& constraint) {
      return constraint.low && mentions(constraint.polynomial, indices.all[k]);
    };
    if (std::any_of(c.constraints.begin(), c.constraints.end(), two_sided)) continue;
    bounded = false;
    scope.diagnostics.report(place_of(c, indices.all[k], span), messages::constraint_only_index, indices.all[k])
        .hint(fmt::format("use it in an access, or bound it on both sides: `0 <= {} < 3`", indices.all[k]));
  }
  if (!bounded) return false;
  const auto escape = escapes(rows, indices.all.size());
  for (std::size_t k = 0; k < indices.all.size(); ++k) {
    if (!escape[k].down && !escape[k].up) continue;
    bounded = false;
    auto entry = scope.diagnostics.report(place_of(c, indices.all[k], span), messages::unbounded_index, indices.all[k],
                                          escape[k].down ? escape[k].up ? "lower or upper" : "lower" : "upper");
    // `pi` and `true` are names like any other, so indices here.
    if (const auto idiom = lang::hint_for(lang::Idiom::Kind::Value, indices.all[k])) entry.hint(*idiom);
    else entry.hint(fmt::format("a constraint limits it: `, {} < 3`", indices.all[k]));
  }
  return bounded;
}

// The target.

std::optional<std::vector<Size>> target_shape(Scope& scope, const lang::Contraction& c) {
  if (c.sizes.size() != c.element.size()) {
    auto entry = scope.diagnostics.report(c.target.span, messages::sizes_count, c.target.name.spelled(),
        counted(c.element.size(), "index"), counted(c.sizes.size(), "size"));
    if (c.sizes.empty())
      entry.hint(fmt::format("sizes follow the indices: `{}[{}: N{}]`", c.target.name.spelled(),
          lang::print(c.element[0]), c.element.size() > 1 ? ", …" : ""));
    return std::nullopt;
  }
  std::vector<Size> shape;
  bool whole = true;
  for (const auto& expr : c.sizes) {
    auto size = size_of(scope, expr);
    whole &= size.has_value();
    if (!size) continue;
    if (size->value().value_or(0) < 0) {
      scope.diagnostics.report(expr.span(), messages::negative_size, lang::print(expr), std::to_string(*size->value()));
      whole = false;
    }
    shape.push_back(std::move(*size));
  }
  return whole ? std::optional(shape) : std::nullopt;
}

std::optional<Aggregation> aggregation_of(Scope& scope, const lang::Contraction& c) {
  using lang::AggregationSyntax;
  switch (c.aggregation) {
    case AggregationSyntax::Sum: return Aggregation::Sum;
    case AggregationSyntax::Product: return Aggregation::Product;
    case AggregationSyntax::Max: return Aggregation::Max;
    case AggregationSyntax::Min: return Aggregation::Min;
    case AggregationSyntax::Assign: return Aggregation::Assign;
    case AggregationSyntax::Named: break;
  }
  const std::string name = c.aggregation_name ? c.aggregation_name->text : "";
  if (const auto parameter = scope.parameters.find(c.aggregation_name ? c.aggregation_name->spelled() : "");
      parameter != scope.parameters.end()) {
    if (parameter->second.aggregation) return parameter->second.aggregation;
    scope.diagnostics.report(c.aggregation_name->span, messages::parameter_kind, name, "a function", "an aggregation")
        .hint("aggregations are sum, product, max, min, assign");
    return std::nullopt;
  }
  if (const auto known = aggregation_named(name)) return known;
  scope.diagnostics
      .report(c.aggregation_name ? c.aggregation_name->span : c.target.span, messages::not_elementwise, name)
      .hint("aggregations are `+ * > < =`, or sum, product, max, min, assign");
  return std::nullopt;
}

// The fill.

}  // namespace

std::optional<Expr> exactly(const Scalar& value, DType type) {
  const auto* real = value.weak == Scalar::Weak::Float && !lang::is_float(type) ? value.expr.as<Number>() : nullptr;
  if (real) {
    const Number stored = convert(*real, type);          // the nearest; 2⁶⁴ saturates, and no f64 is 2⁶⁴ - 1
    const long double nearest = type == DType::U64
        ? static_cast<long double>(static_cast<std::uint64_t>(stored.integer))
        : static_cast<long double>(stored.integer);
    return nearest == static_cast<long double>(real->real) ? std::optional<Expr>(stored) : std::nullopt;
  }
  lang::Diagnostics ignored;
  return resolve(value, type, {}, ignored);
}

namespace {

// The first type of those that programs compute in that has the number.
std::optional<Number> in_a_type_of_its_own(const Scalar& value) {
  const bool is_float = value.weak == Scalar::Weak::Float;
  for (const DType type : {DType::I32, DType::I64, DType::U64, DType::F32, DType::F64}) {
    if (is_float && !lang::is_float(type)) continue;
    const auto held = exactly(value, type);
    if (const auto* number = held ? held->as<Number>() : nullptr) return *number;
  }
  return std::nullopt;
}

// `>(…) default -inf` is the largest of no elements in every type, and `<(…) default inf` the smallest: the ends of an
// integer's range.
std::optional<Number> extreme_of_none(const Scalar& value, DType type, Aggregation aggregation) {
  const auto* real = value.weak == Scalar::Weak::Float ? value.expr.as<Number>() : nullptr;
  const double none = aggregation == Aggregation::Max ? -std::numeric_limits<double>::infinity()
                                                      : std::numeric_limits<double>::infinity();
  if (!real || real->real != none || lang::is_float(type) ||
      (aggregation != Aggregation::Max && aggregation != Aggregation::Min))
    return std::nullopt;
  return type == DType::Bool ? Number{.type = type, .integer = none > 0} : convert(*real, type);
}

std::optional<Number> default_number(
    Scope& scope, const Scalar& scalar, DType type, Aggregation aggregation, Span span) {
  if (const auto none = extreme_of_none(scalar, type, aggregation)) return none;
  const auto value = exactly(scalar, type);
  if (const auto* number = value ? value->as<Number>() : nullptr) return *number;
  const auto held = value ? std::nullopt : in_a_type_of_its_own(scalar);
  const auto* written = scalar.weak == Scalar::Weak::Float ? scalar.expr.as<Number>() : nullptr;
  if (held)
    scope.diagnostics.report(span, messages::does_not_fit, print_number(written ? *written : *held), lang::name(type))
        .hint(fmt::format("the default is an element of the result: cast what the contraction reads to `{}`",
            lang::name(held->type)));
  else scope.diagnostics.report(span, messages::not_known_yet);
  return std::nullopt;
}

std::optional<std::variant<Number, TensorId>> default_tensor(Scope& scope, const lang::Name& name, const Named& named,
    const std::vector<Size>& shape, DType type, Aggregation aggregation, Span span) {
  if (named.kind == Named::Kind::Size)
    return default_number(scope, affine_value(Affine::of(named.size, 0), named.literal), type, aggregation, span);
  if (named.kind == Named::Kind::Weak) return default_number(scope, *named.scalar, type, aggregation, span);
  if (named.kind != Named::Kind::Tensor) {
    scope.diagnostics.report(span, messages::not_elementwise, name.spelled());
    return std::nullopt;
  }
  const Tensor tensor = scope.tensor(named.tensor);
  const auto differs = [&](const std::string& is, const std::string& wanted) {
    scope.diagnostics.report(span, messages::default_differs, name.spelled(), is, wanted)
        .label(tensor.span, "declared here");
    return std::nullopt;
  };
  if (tensor.shape.size() != shape.size()) return differs(shape_text(tensor.shape), shape_text(shape));
  for (std::size_t k = 0; k < shape.size(); ++k)
    if (!require_equal(scope, tensor.shape[k], shape[k],
            fmt::format("`default {}` has the shape of the result", name.spelled()), span,
            {{tensor.span, "declared here"}}))
      return differs(shape_text(tensor.shape), shape_text(shape));
  if (lang::promote(tensor.dtype, type) != type)
    return differs(std::string(lang::name(tensor.dtype)), std::string(lang::name(type)));
  if (tensor.dtype == type) return named.tensor;
  const auto same = copied(scope, named.tensor, {.name = name.spelled(), .dtype = type, .span = span});
  return same ? std::optional<std::variant<Number, TensorId>>(same->tensor) : std::nullopt;
}

// The type of a result whose elements are of `folded` or of a default tensor.
DType type_with_default(const Scope& scope, const lang::Contraction& c, DType folded) {
  const auto* name = c.default_value ? std::get_if<lang::Name>(&c.default_value->value) : nullptr;
  const auto found = name ? scope.names.find(name->spelled()) : scope.names.end();
  if (found == scope.names.end() || found->second.kind != Named::Kind::Tensor) return folded;
  return lang::promote(folded, scope.tensor(found->second.tensor).dtype);
}

std::optional<std::variant<Number, TensorId>> fill_of(
    Scope& scope, const lang::Contraction& c, const std::vector<Size>& shape, DType type, Aggregation aggregation) {
  if (!c.default_value) return Number{.type = type};
  const Span span = c.default_value->span;
  if (const auto* number = std::get_if<lang::Number>(&c.default_value->value)) {
    const auto scalar = number->is_float
        ? float_literal(number->negative && number->real > 0 ? -number->real : number->real)
        : integer_literal(number->integer, number->negative, 0);
    return default_number(scope, scalar, type, aggregation, span);
  }
  const auto& name = std::get<lang::Name>(c.default_value->value);
  if (!name.upper && !scope.declared.contains(name.spelled()) && (name.text == "inf" || name.text == "nan"))
    return default_number(scope,
        float_literal(
            name.text == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN()),
        type, aggregation, span);
  const auto* named = find(scope, name, span);
  return named ? default_tensor(scope, name, *named, shape, type, aggregation, span) : std::nullopt;
}

std::vector<Range> domain_of(const Scope& scope, const std::vector<Affine>& element, const std::vector<Size>& shape,
    const std::vector<Access>& reads, const std::vector<Range>& constraints) {
  std::vector<Range> rows;
  for (std::size_t k = 0; k < element.size(); ++k) add_row(rows, {element[k], shape[k]});
  for (const auto& read : reads)
    for (std::size_t k = 0; k < read.element.size(); ++k)
      add_row(rows, {read.element[k], scope.tensor(read.tensor).shape[k]});
  for (const auto& row : constraints) add_row(rows, row);
  return rows;
}

}  // namespace

std::optional<Aggregation> aggregation_named(std::string_view name) {
  if (name == "sum") return Aggregation::Sum;
  if (name == "product") return Aggregation::Product;
  if (name == "max") return Aggregation::Max;
  if (name == "min") return Aggregation::Min;
  if (name == "assign") return Aggregation::Assign;
  return std::nullopt;
}

// Numbers alone are f32, also where all that they meet is f64.
void check_width(Scope& scope, const lang::Contraction& c, const Scalar& value, DType made) {
  if (value.weak != Scalar::Weak::Float || made != DType::F32 || scope.depth > 0 || scope.nested > 0) return;
  std::string input;
  for (const TensorId id : scope.program.inputs) {
    const DType type = scope.tensor(id).dtype;
    if (!lang::is_float(type)) continue;
    if (type != DType::F64) return;
    if (input.empty()) input = scope.tensor(id).name;
  }
  if (input.empty()) return;
  scope.diagnostics.report(c.target.span, lang::messages::narrower_than_inputs, c.target.name.spelled())
      .hint(fmt::format("`as_float(…, {})` has the type of `{}`", input, input));
}

std::optional<Named> contraction(
    Scope& scope, const lang::Contraction& c, const ContractionOptions& options, Span span) {
  const auto indices = indices_of(scope, c);
  if (!lang::within(lang::Limit::Indices, std::ssize(indices.all), span, scope.diagnostics)) return std::nullopt;
  const auto shape = target_shape(scope, c);
  const auto aggregation = aggregation_of(scope, c);
  std::vector<Affine> element;
  for (const auto& e : c.element)
    if (auto form = element_of(scope, indices.all, e)) element.push_back(std::move(*form));
  Body body{.scope = scope, .indices = indices.all};
  const auto scalar = value_of_statement(body, c.body);
  std::vector<Range> constraints;
  bool whole = shape && aggregation && scalar && element.size() == c.element.size();
  for (const auto& constraint : c.constraints) whole &= add_constraint(scope, indices.all, constraint, constraints);
  if (!whole) return std::nullopt;

  auto domain = domain_of(scope, element, *shape, body.reads, constraints);
  if (!check_bounded(scope, c, indices, domain, span)) return std::nullopt;
  if (options.ties_span && *aggregation != Aggregation::Max && *aggregation != Aggregation::Min) {
    scope.diagnostics.report(*options.ties_span, messages::ties_misplaced,
        *aggregation == Aggregation::Sum           ? "+"
            : *aggregation == Aggregation::Product ? "*"
                                                   : "=");
    return std::nullopt;
  }
  auto fold = folded(*aggregation, *scalar, options.dtype, c.body.span(), scope.diagnostics);
  if (!fold) return std::nullopt;
  if (const DType type = type_with_default(scope, c, fold->result); !options.dtype && type != fold->result)
    fold = folded(*aggregation, *scalar, type, c.body.span(), scope.diagnostics);
  if (!fold) return std::nullopt;
  if (!options.dtype) check_width(scope, c, *scalar, fold->result);
  const auto fill = fill_of(scope, c, *shape, fold->result, *aggregation);
  if (!fill) return std::nullopt;

  note_borders(scope, {c, indices.all, element, *shape, domain, constraints, *aggregation});
  const auto id = add_tensor(scope, {c.target.name.spelled(), fold->result, *shape, c.target.span});
  scope.program.nodes.push_back(Statement{.target = {id, std::move(element)},
      .indices = indices.all,
      .domain = std::move(domain),
      .aggregation = *aggregation,
      .value = std::move(fold->value),
      .reads = std::move(body.reads),
      .fill = *fill,
      .ties = options.ties,
      .kernel_name = options.kernel_name,
      .span = span});
  return Named::of_tensor(id, c.target.span);
}

}  // namespace tilec::poly
