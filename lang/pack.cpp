#include "lang/pack.h"

#include <fmt/core.h>

#include <algorithm>

#include "lang/walk.h"

namespace tilec::lang {
namespace {

void collect(const Expr& e, std::vector<Name>& names) {
  const auto* v = e.as<Variable>();
  if (v && v->pack && std::find(names.begin(), names.end(), v->name) == names.end()) names.push_back(v->name);
  each_child(e, [&](const Expr& inner) { collect(inner, names); });
}

Expr number(std::size_t n) {
  return Expr(Number{std::to_string(n), false, n, static_cast<double>(n), false}, Span{});
}
Expr one() { return number(1); }

// `product(B...)`: the number of elements that the dimensions hold; `dims(B...)`: how many dimensions these are.
std::optional<Expr> counted(const Call& c, const std::vector<Expr>& sizes, Span span) {
  if (!counts_pack(c)) return std::nullopt;
  if (c.function.text == "dims") return number(sizes.size()).at(span);
  if (sizes.empty()) return one().at(span);
  Expr all = sizes[0];
  for (std::size_t k = 1; k < sizes.size(); ++k) all = Expr(Binary{Op::Mul, std::move(all), sizes[k]}, span);
  return all.at(span);
}

Expr expanded(const Expr& e, const Ranks& ranks) {
  const auto go = [&](const Expr& inner) { return expanded(inner, ranks); };
  return e.match([&](const Number&) { return e; }, [&](const Variable&) { return e; },
      [&](const Unary& u) { return Expr(Unary{u.op, go(u.operand)}, e.span()); },
      [&](const Binary& b) { return Expr(Binary{b.op, go(b.left), go(b.right), b.juxtaposed}, e.span()); },
      [&](const Access& a) { return Expr(Access{a.tensor, lang::expanded(a.element, ranks)}, e.span()); },
      [&](const Call& c) {
        const std::vector<Expr> arguments = lang::expanded(c.arguments, ranks);
        return counted(c, arguments, e.span()).value_or(Expr(Call{c.function, c.parameters, arguments}, e.span()));
      },
      [&](const Select& s) {
        return Expr(Select{go(s.condition), go(s.then), s.otherwise ? std::optional(go(*s.otherwise)) : std::nullopt},
            e.span());
      });
}

}  // namespace

const Name* pack(const Expr& e) {
  const auto* variable = e.as<Variable>();
  return variable && variable->pack ? &variable->name : nullptr;
}

bool counts_pack(const Call& c) {
  return (c.function.text == "product" || c.function.text == "dims") && c.arguments.size() == 1 && pack(c.arguments[0]);
}

const Name* pack_of_ones(const Expr& e) {
  const auto* call = e.as<Call>();
  return call && call->function.text == "ones" && call->arguments.size() == 1 ? pack(call->arguments[0]) : nullptr;
}

std::optional<Side> side_of(const Attribute& attribute) {
  const bool after = attribute.name.text == "after";
  if ((!after && attribute.name.text != "before") || attribute.values.size() != 2) return std::nullopt;
  const auto name = [](const Value& value) {
    const auto* word = std::get_if<std::shared_ptr<const Word>>(&value.value);
    return word && !(*word)->parentheses ? &(*word)->name : nullptr;
  };
  const Value& axis = attribute.values[1];
  const Name* pack = name(attribute.values[0]);
  const auto* number = std::get_if<Number>(&axis.value);
  if (!pack || (!number && !name(axis)) || (number && number->is_float)) return std::nullopt;
  return Side{after, *pack, number ? Argument{*number, axis.span} : Argument{*name(axis), axis.span}, attribute.span};
}

bool is_told(const Function& function, const Name& pack) {
  return std::any_of(function.attributes.begin(), function.attributes.end(), [&](const Attribute& attribute) {
    const std::optional<Side> side = side_of(attribute);
    if (!side || side->pack != pack) return false;
    const auto* name = std::get_if<Name>(&side->axis.value);
    const auto parameter = std::find_if(function.parameters.begin(), function.parameters.end(),
        [&](const Parameter& p) { return name && p.name == *name; });
    const Argument* value = !name                                    ? &side->axis
        : parameter != function.parameters.end() && parameter->value ? &*parameter->value
                                                                     : nullptr;
    const auto* number = value ? std::get_if<Number>(&value->value) : nullptr;
    return number && number->negative == side->after;
  });
}

std::vector<Name> packs_of(const Function& function) {
  std::vector<Name> names;
  for (const Input& input : function.inputs)
    for (const Expr& size : input.sizes.value_or(std::vector<Expr>{})) collect(size, names);
  return names;
}

std::vector<Name> packs_in(const Statement& statement) {
  std::vector<Name> names;
  const auto all = [&](const std::vector<Expr>& list) { for (const Expr& each : list) collect(each, names); };
  std::visit(Overloaded{[](std::monostate) {}, [&](const Contraction& c) {
                          all(c.element), all(c.sizes), collect(c.body, names);
                          for (const Constraint& k : c.constraints) {
                            if (k.low) collect(*k.low, names);
                            collect(k.polynomial, names), collect(k.bound, names);
                          }
                        },
                        [&](const auto& a) { collect(a.value, names); }},
             statement.node);
  return names;
}

Name dimension(const Name& pack, std::size_t k) {
  const bool ticked = pack.text.ends_with('\'');       // which ends a name
  const std::string stem = ticked ? pack.text.substr(0, pack.text.size() - 1) : pack.text;
  return {fmt::format("{}{}{}", stem, k, ticked ? "'" : ""), pack.upper, pack.span};
}

std::optional<Name> pack_of_dimension(const Name& name, const std::vector<Name>& packs) {
  const auto digits = [](const std::string& text, std::size_t begin, std::size_t end) {
    return begin < end &&
        std::all_of(
            text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end),
            [](char c) { return c >= '0' && c <= '9'; });
  };
  for (const Name& each : packs) {
    const bool ticked = each.text.ends_with('\'');
    const std::size_t stem = each.text.size() - ticked, end = name.text.size() - ticked;
    if (name.upper == each.upper && name.text.size() > each.text.size() &&
        name.text.starts_with(each.text.substr(0, stem)) && name.text.ends_with('\'') == ticked &&
        digits(name.text, stem, end))
      return each;
  }
  return std::nullopt;
}

std::vector<Expr> expanded(const std::vector<Expr>& list, const Ranks& ranks) {
  std::vector<Expr> out;
  for (const Expr& e : list) {
    const Name *name = pack(e), *ones = pack_of_ones(e);
    if (ones) out.insert(out.end(), ranks.at(ones->spelled()), one().at(e.span()));
    else if (!name) out.push_back(expanded(e, ranks));
    else
      for (std::size_t k = 0; k < ranks.at(name->spelled()); ++k)
        out.emplace_back(Variable{dimension(*name, k)}, e.span());
  }
  return out;
}

Statement expanded(const Statement& statement, const Ranks& ranks) {
  Statement out = statement;
  std::visit(Overloaded{[](std::monostate) {},
                 [&](Contraction& c) {
                   c.element = expanded(c.element, ranks), c.sizes = expanded(c.sizes, ranks),
                   c.body = expanded(c.body, ranks);
                   for (Constraint& k : c.constraints) {
                     if (k.low) k.low = expanded(*k.low, ranks);
                     k.polynomial = expanded(k.polynomial, ranks), k.bound = expanded(k.bound, ranks);
                   }
                 },
                 [&](auto& a) { a.value = expanded(a.value, ranks); }},
      out.node);
  return out;
}

Function expanded_heading(const Function& function, const Ranks& ranks) {
  Function out = function;
  for (Input& input : out.inputs)
    if (input.sizes) input.sizes = expanded(*input.sizes, ranks);
  return out;
}

bool may_have(const Input& input, std::size_t rank) {
  if (!input.sizes) return true;
  const auto packs = static_cast<std::size_t>(std::count_if(input.sizes->begin(), input.sizes->end(), pack));
  return packs > 0 ? rank + packs >= input.sizes->size() : rank == input.sizes->size();
}

std::optional<std::vector<Expr>> sizes_shown(const Input& input, std::size_t rank) {
  if (!input.sizes) return std::nullopt;
  Ranks ranks;
  std::size_t plain = 0;
  for (const Expr& size : *input.sizes) {
    const Name* name = pack(size);
    if (!name) ++plain;
    else if (!ranks.emplace(name->spelled(), 0).second) return std::nullopt;
  }
  if (ranks.size() > 1 || plain > rank || (ranks.empty() && plain != rank)) return std::nullopt;
  for (auto& [name, count] : ranks) count = rank - plain;
  return expanded(*input.sizes, ranks);
}

}  // namespace tilec::lang
