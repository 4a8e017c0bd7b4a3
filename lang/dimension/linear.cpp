#include "lang/dimension/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "lang/messages.h"
#include "lang/pack.h"
#include "lang/print.h"
#include "lang/walk.h"

namespace tilec::lang::dimensions {

namespace {

// `2*y + j` as 2 for y and 1 for j; nothing where it is more than a sum of multiples of indices, and of numbers.
using Linear = std::map<std::string, std::int64_t>;

bool add_linear(const Expr& e, std::int64_t factor, Linear& out) {
  const auto number = [](const Expr& side) {
    const Number* n = side.as<Number>();
    return n && !n->is_float && n->integer < 1'000'000 ? std::optional(static_cast<std::int64_t>(n->integer))
                                                       : std::nullopt;
  };
  return e.match([&](const Number& n) { return !n.is_float; },
      [&](const Variable& v) {
        out[v.name.spelled()] += factor;
        return !v.name.upper;
      },
      [&](const Unary& u) { return u.op == Op::Neg && add_linear(u.operand, -factor, out); },
      [&](const Binary& b) {
        if (b.op == Op::Add) return add_linear(b.left, factor, out) && add_linear(b.right, factor, out);
        if (b.op == Op::Sub) return add_linear(b.left, factor, out) && add_linear(b.right, -factor, out);
        if (b.op != Op::Mul || factor > 1'000'000 || factor < -1'000'000) return false;
        if (const auto n = number(b.left)) return add_linear(b.right, factor * *n, out);
        if (const auto n = number(b.right)) return add_linear(b.left, factor * *n, out);
        return false;
      },
      [](const Access&) { return false; }, [](const Call&) { return false; }, [](const Select&) { return false; });
}

// Plain indices of the left side with the size names they have there.
std::map<std::string, std::string> written(const Tensors& here, const Contraction& c) {
  std::map<std::string, std::string> result;
  const Shape shape = here.shape_of(c.sizes, c.target.span).value_or(Shape{{}, c.target.span});
  if (!fits(c.element, shape.dimensions)) return result;
  for (std::size_t d = 0; d < c.element.size(); ++d) {
    const auto* v = c.element[d].as<Variable>();
    if (v && !v->name.upper && shape.dimensions[d]) result[v->name.spelled()] = *shape.dimensions[d];
  }
  return result;
}

template <class Visit> void each_read(const Tensors& here, const Expr& e, const Visit& visit) {
  each_access(e, [&](const Access& a, const Expr&) {
    const Value value = here.value_named(a.tensor);
    if (value.shape && fits(a.element, value.shape->dimensions)) visit(a, value.shape->dimensions);
  });
}

bool is_constrained(const Contraction& c, const std::string& index) {
  return std::any_of(c.constraints.begin(), c.constraints.end(), [&](const Constraint& k) {
    Linear names;
    for (const Expr* side : {&k.polynomial, &k.bound}) add_linear(*side, 1, names);
    return names.contains(index);
  });
}

std::string exchanged(const Access& a, std::size_t d, std::size_t e) {
  std::string list;
  for (std::size_t k = 0; k < a.element.size(); ++k)
    list += (k ? ", " : "") + print(a.element[k == d ? e : k == e ? d : k]);
  return fmt::format("{}[{}]", a.tensor.spelled(), list);
}

Span merged(Span a, Span b) { return {std::min(a.begin, b.begin), std::max(a.end, b.end), a.source}; }

// Where neither dimension is read at an index alone; that is W0210.
std::optional<std::pair<std::string, std::string>> swapped(const Access& a,
    const std::vector<Dimension>& shape, std::size_t d, std::size_t e,
    const std::map<std::string, std::string>& left) {
  if (!shape[d] || !shape[e] || *shape[d] == *shape[e] ||
      (a.element[d].as<Variable>() && a.element[e].as<Variable>()))
    return std::nullopt;
  const auto of = [&](std::size_t at, const std::string& dimension) {
    Linear form;
    std::optional<std::string> found;
    if (!add_linear(a.element[at], 1, form)) return found;
    for (const auto& [index, factor] : form)
      if (left.contains(index)) {
        if (found || left.at(index) != dimension) return std::optional<std::string>();
        found = index;
      }
    return found;
  };
  const auto first = of(d, *shape[e]), second = of(e, *shape[d]);
  return first && second ? std::optional(std::pair(*first, *second)) : std::nullopt;
}

}  // namespace

void look_for_strides(Tensors& here, const Contraction& c) {
  if (c.default_value || here.completed.contains(c.target.name.spelled())) return;
  const auto left = written(here, c);
  each_read(here, c.body, [&](const Access& a, const std::vector<Dimension>& shape) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      Linear form;
      if (!shape[d] || !add_linear(a.element[d], 1, form)) continue;
      const auto strided = std::find_if(form.begin(), form.end(), [&](const auto& term) {
        return term.second > 1 && left.contains(term.first) && left.at(term.first) == *shape[d];
      });
      const bool forward = std::all_of(form.begin(), form.end(), [](const auto& term) { return term.second >= 0; });
      if (strided == form.end() || !forward || is_constrained(c, strided->first)) continue;
      const auto& [index, stride] = *strided;
      auto entry = here.diagnostics.report(a.element[d].span(), messages::stride_too_far, print(a.element[d]),
          a.tensor.spelled(), std::to_string(stride), index, c.target.name.spelled());
      entry.label(c.target.span, fmt::format("`{}` ranges over `{}` here", index, *shape[d]))
          .hint(fmt::format(
              "the result has `({} - 1)/{} + 1` elements in that direction: write that size; where 0 is meant for the others, add `default 0`",
              *shape[d], stride));
    }
  });
}

void look_for_swapped(Tensors& here, const Contraction& c) {
  const auto left = written(here, c);
  each_read(here, c.body, [&](const Access& a, const std::vector<Dimension>& shape) {
    for (std::size_t d = 0; d < shape.size(); ++d)
      for (std::size_t e = d + 1; e < shape.size(); ++e)
        if (const auto indices = swapped(a, shape, d, e, left)) {
          here.diagnostics
              .report(merged(a.element[d].span(), a.element[e].span()), messages::axes_swapped, indices->first,
                  indices->second, a.tensor.spelled(), *shape[d], *shape[e])
              .label(c.target.span,
                  fmt::format("`{}` ranges over `{}` here, `{}` over `{}`", indices->first, *shape[e],
                      indices->second, *shape[d]))
              .hint(fmt::format("write `{}`, or name the result's sizes in the other order", exchanged(a, d, e)));
          return;
        }
  });
}

}  // namespace tilec::lang::dimensions
